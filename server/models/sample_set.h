/* SPDX-License-Identifier: MIT */
/* The candidates of a sampler, as arrays side by side, so that passes over a whole vocabulary are vector code. */
#ifndef BL_SERVER_MODELS_SAMPLE_SET_H
#define BL_SERVER_MODELS_SAMPLE_SET_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct bl_sample_set {
    size_t cap, count;
    float *logit;
    float *chance; /* probabilities, where bl_sample_set_softmax was called last */
    int32_t *id;   /* of each candidate; where |whole|, candidate i is token i and nothing is here */
    bool whole;
    bool sorted;            /* the likeliest first */
    uint64_t *keys, *spare; /* of a sort of all of them; NULL until one is needed */
} bl_sample_set;

BL_NODISCARD bl_status bl_sample_set_init(bl_sample_set *set, size_t cap, bl_err *err);
void bl_sample_set_fini(bl_sample_set *set);
/* All tokens, with these logits; what is not a number becomes -infinity. */
void bl_sample_set_fill(bl_sample_set *set, const float *logits);
int32_t bl_sample_set_id(const bl_sample_set *set, size_t at);
float bl_sample_set_max(const bl_sample_set *set);       /* of at least one */
size_t bl_sample_set_find_max(const bl_sample_set *set); /* the first of the likeliest */
/* The |k| likeliest and no others, sorted; of equals those that stood in front.  One pass where |k| is small. */
BL_NODISCARD bl_status bl_sample_set_take_top(bl_sample_set *set, size_t k, bl_err *err);
/* Leave the first |count|. */
void bl_sample_set_cut(bl_sample_set *set, size_t count);
/* Only candidates whose logit is at least |least|, in their order; none goes where fewer than |keep| were left. */
void bl_sample_set_filter(bl_sample_set *set, float least, size_t keep);
/* Candidates at[0], at[1], ... of |count| in this order, unsorted. */
void bl_sample_set_pick(bl_sample_set *set, const uint32_t *at, size_t count);
/* |chance| from the logits, in float. */
void bl_sample_set_softmax(bl_sample_set *set);

/* The positions of the |k| largest of |values|, the largest first and of equals the first; |k| at most BL_SMALL_TOP. */
enum { BL_SMALL_TOP = 256 };
size_t bl_find_top(const float *values, size_t count, size_t k, uint32_t *at);
/* The positions of all |values| in ascending order, equals as they stood. */
void bl_sort_positions(const float *values, size_t count, bool descending, uint64_t *keys, uint64_t *spare);

#endif
