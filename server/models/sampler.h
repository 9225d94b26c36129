/* SPDX-License-Identifier: MIT */
/* How the next token of a text is chosen from the logits of a run: a chain of samplers, whose order, arithmetic and random
 * numbers are those of llama.cpp, so that the same logits and the same seed give the same text.
 *
 * A sampler works on the candidates, which are all tokens at first.  The samplers of the chain change the logits of candidates or
 * remove candidates; the last step draws one of those that are left.  A sampler belongs to one text and to one thread at a time.
 */
#ifndef BL_SERVER_MODELS_SAMPLER_H
#define BL_SERVER_MODELS_SAMPLER_H

#include "engine/base/text.h"

enum { BL_SAMPLER_STEPS = 16, BL_SEED_RANDOM = -1 };

/* The samplers of a chain, by the names that requests use. */
typedef enum bl_sampler_step {
    BL_SAMPLE_PENALTIES,
    BL_SAMPLE_DRY,
    BL_SAMPLE_TOP_N_SIGMA,
    BL_SAMPLE_TOP_K,
    BL_SAMPLE_TYPICAL_P,
    BL_SAMPLE_TOP_P,
    BL_SAMPLE_MIN_P,
    BL_SAMPLE_XTC,
    BL_SAMPLE_TEMPERATURE,
    BL_SAMPLE_KINDS
} bl_sampler_step;
const char *bl_sampler_step_name(bl_sampler_step step);
/* -1: no sampler has that name. */
int bl_sampler_step_find(bl_span name);

typedef struct bl_logit_bias {
    int32_t id;
    float bias; /* added to the logit */
} bl_logit_bias;

/* A token with which a text that must not be repeated ends: |token|, then the |ntail| tokens of |tail|. */
typedef struct bl_dry_breaker {
    int32_t token;
    int ntail;
    const int32_t *tail;
} bl_dry_breaker;

/* What a request asks for.  Neutral values switch a sampler off. */
typedef struct bl_sampling {
    float temperature; /* 0: the likeliest candidate */
    float dynatemp_range, dynatemp_exponent;
    int top_k;   /* 0: all */
    float top_p; /* 1: all, as typical_p */
    float min_p;
    float typical_p;
    float top_n_sigma; /* 0 or less: off */
    float xtc_probability, xtc_threshold;
    int min_keep;      /* samplers that remove candidates leave so many */
    int repeat_last_n; /* tokens that the penalties look at */
    float repeat_penalty, frequency_penalty, presence_penalty;
    float dry_multiplier, dry_base;
    int dry_allowed_length, dry_last_n;
    size_t nbreakers; /* sorted by token */
    const bl_dry_breaker *breakers;
    int mirostat; /* 0: the chain; 1 or 2: the version of Mirostat that takes its place */
    float mirostat_tau, mirostat_eta;
    int64_t seed; /* the lower 32 bits; BL_SEED_RANDOM: the caller is to draw one */
    int nsteps;
    unsigned char steps[BL_SAMPLER_STEPS];
    size_t nbias;
    const bl_logit_bias *bias;
} bl_sampling;

/* Only the likeliest token, always: every sampler is off. */
void bl_sampling_init_greedy(bl_sampling *sampling);
/* The values of llama.cpp. */
void bl_sampling_init_usual(bl_sampling *sampling);

/* A token and its logarithm of probability, or its probability. */
typedef struct bl_token_chance {
    int32_t id;
    float value;
} bl_token_chance;

typedef struct bl_sampler bl_sampler;
/* Bytes of one for |count| logits, but for those of a sort of all of them. */
size_t bl_sampler_bytes(size_t count);
/* |sampling| outlives the sampler; |count| logits are given each time. */
BL_NODISCARD bl_status bl_sampler_create(const bl_sampling *sampling, size_t count, bl_sampler **out, bl_err *err);
void bl_sampler_destroy(bl_sampler *sampler); /* accepts NULL */
/* The token that follows the |ntokens| of |tokens|.  *out is -1 where no logit is a number. */
BL_NODISCARD bl_status bl_sampler_choose(bl_sampler *sampler, const float *logits, const int32_t *tokens, size_t ntokens,
                                         int32_t *out, bl_err *err);
/* Of the last choice: the probability of |id| among the candidates that were left, and up to |most| of the likeliest of them, the
 * likeliest first; gives how many these are. */
size_t bl_sampler_chances(const bl_sampler *sampler, int32_t id, float *chance, bl_token_chance *likeliest, size_t most);

/* The logarithm of the sum of exp(logit), which a logit less it is the logarithm of a probability. */
double bl_logits_log_sum(const float *logits, size_t count);
/* The |most| likeliest tokens with the logarithms of their probabilities, the likeliest first. */
size_t bl_logits_likeliest(const float *logits, size_t count, double log_sum, bl_token_chance *out, size_t most);

#endif
