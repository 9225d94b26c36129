/* SPDX-License-Identifier: MIT */
/* Sampling: the choice of the next token of a text from the logits of a run, by a chain of samplers.  The order, the
 * arithmetic and the random numbers are those of llama.cpp, so that equal logits and an equal seed give equal text.
 *
 * A sampler works on the candidates, at first all tokens.  The samplers of the chain change the logits of candidates or remove
 * candidates.  The last step draws one of the remaining candidates.
 *
 * Thread: a sampler belongs to one text, and to one thread at a time. */
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

/* A DRY sequence breaker, at which a repetition ends: |token|, followed by the |ntail| tokens of |tail|. */
typedef struct bl_dry_breaker {
    int32_t token;
    int ntail;
    const int32_t *tail;
} bl_dry_breaker;

/* The sampling options of a request.  Neutral values switch a sampler off. */
typedef struct bl_sampling {
    float temperature; /* 0: choose the likeliest candidate */
    float dynatemp_range, dynatemp_exponent;
    int top_k;   /* 0: all candidates */
    float top_p; /* 1: all candidates, like typical_p */
    float min_p;
    float typical_p;
    float top_n_sigma; /* 0 or less: off */
    float xtc_probability, xtc_threshold;
    int min_keep;      /* samplers that remove candidates leave at least so many */
    int repeat_last_n; /* the number of last tokens that the penalties apply to */
    float repeat_penalty, frequency_penalty, presence_penalty;
    float dry_multiplier, dry_base;
    int dry_allowed_length, dry_last_n;
    size_t nbreakers; /* sorted by token */
    const bl_dry_breaker *breakers;
    int mirostat; /* 0: the chain; 1 or 2: Mirostat, version 1 or 2, in place of the chain */
    float mirostat_tau, mirostat_eta;
    int64_t seed; /* the lower 32 bits are used; BL_SEED_RANDOM: the caller must draw a seed */
    int nsteps;
    unsigned char steps[BL_SAMPLER_STEPS];
    size_t nbias;
    const bl_logit_bias *bias;
} bl_sampling;

/* Greedy sampling: always the likeliest token, and every sampler is off. */
void bl_sampling_init_greedy(bl_sampling *sampling);
/* The default values of llama.cpp. */
void bl_sampling_init_usual(bl_sampling *sampling);

/* A token with its log probability, or with its probability. */
typedef struct bl_token_chance {
    int32_t id;
    float value;
} bl_token_chance;

typedef struct bl_sampler bl_sampler;
/* The memory of a sampler for |count| logits, without the buffers of a full sort. */
size_t bl_sampler_bytes(size_t count);
/* |sampling| must outlive the sampler.  Each call of bl_sampler_choose has |count| logits. */
BL_NODISCARD bl_status bl_sampler_create(const bl_sampling *sampling, size_t count, bl_sampler **out, bl_err *err);
void bl_sampler_destroy(bl_sampler *sampler); /* accepts NULL */
/* Choose the token that follows the |ntokens| of |tokens|.  *out is -1 if every logit is NaN. */
BL_NODISCARD bl_status bl_sampler_choose(bl_sampler *sampler, const float *logits, const int32_t *tokens, size_t ntokens,
                                         int32_t *out, bl_err *err);
/* Probabilities at the last choice: *chance of |id| among the remaining candidates, and up to |most| of the likeliest
 * candidates, in descending order.  Returns their number. */
size_t bl_sampler_chances(const bl_sampler *sampler, int32_t id, float *chance, bl_token_chance *likeliest, size_t most);

/* log(sum(exp(logit))).  A logit minus this sum is the log probability of its token. */
double bl_logits_log_sum(const float *logits, size_t count);
/* The |most| likeliest tokens with their log probabilities, in descending order. */
size_t bl_logits_likeliest(const float *logits, size_t count, double log_sum, bl_token_chance *out, size_t most);

#endif
