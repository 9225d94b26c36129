/* SPDX-License-Identifier: MIT */
/* The candidates of a sampler as a structure of arrays, so that passes over a whole vocabulary use vector instructions. */
#ifndef BL_SERVER_MODELS_SAMPLE_SET_H
#define BL_SERVER_MODELS_SAMPLE_SET_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct bl_sample_set {
    size_t cap, count;
    float *logit;
    float *chance; /* probabilities; valid directly after bl_sample_set_softmax */
    int32_t *id;   /* the token of each candidate; if |whole|, candidate i is token i, and |id| is not filled */
    bool whole;
    bool sorted;            /* in descending order of the logits */
    uint64_t *keys, *spare; /* buffers of a full sort; NULL until a sort needs them */
} bl_sample_set;

BL_NODISCARD bl_status bl_sample_set_init(bl_sample_set *set, size_t cap, bl_err *err);
void bl_sample_set_fini(bl_sample_set *set);
/* Fill the set with all tokens and these logits.  NaN becomes -infinity. */
void bl_sample_set_fill(bl_sample_set *set, const float *logits);
int32_t bl_sample_set_id(const bl_sample_set *set, size_t at);
float bl_sample_set_max(const bl_sample_set *set);       /* the set must not be empty */
size_t bl_sample_set_find_max(const bl_sample_set *set); /* the first of equal maxima */
/* Keep the |k| likeliest candidates, sorted; equal ones by position.  A small |k| takes one pass. */
BL_NODISCARD bl_status bl_sample_set_take_top(bl_sample_set *set, size_t k, bl_err *err);
/* Keep the first |count| candidates. */
void bl_sample_set_cut(bl_sample_set *set, size_t count);
/* Keep the candidates whose logit is at least |least|, in their order.  Keep all if fewer than |keep| would remain. */
void bl_sample_set_filter(bl_sample_set *set, float least, size_t keep);
/* Keep candidates at[0], at[1], ... of |count|, in this order; the set becomes unsorted. */
void bl_sample_set_pick(bl_sample_set *set, const uint32_t *at, size_t count);
/* Compute |chance| from the logits, in float. */
void bl_sample_set_softmax(bl_sample_set *set);

/* The positions of the |k| largest of |values|, in descending order, equal ones by position.  |k| is at most BL_SMALL_TOP. */
enum { BL_SMALL_TOP = 256 };
size_t bl_find_top(const float *values, size_t count, size_t k, uint32_t *at);
/* Sort the positions of all |values|, stably.  The result is in the lower 32 bits of |keys|. */
void bl_sort_positions(const float *values, size_t count, bool descending, uint64_t *keys, uint64_t *spare);

#endif
