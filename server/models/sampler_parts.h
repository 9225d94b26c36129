/* SPDX-License-Identifier: MIT */
/* Internal interfaces of the samplers: sampler.c has the chain and the draw, sampler_steps.c the steps that remove candidates,
 * sampler_repeats.c the penalties for repetition. */
#ifndef BL_SERVER_MODELS_SAMPLER_PARTS_H
#define BL_SERVER_MODELS_SAMPLER_PARTS_H

#include "server/models/sample_set.h"
#include "server/models/sampler.h"

/* The generator MT19937 (Matsumoto and Nishimura, 1998), seeded and read like std::mt19937 of C++. */
typedef struct bl_twister {
    uint32_t word[624];
    int at;
} bl_twister;
void bl_twister_seed(bl_twister *twister, uint32_t seed);
uint32_t bl_twister_next(bl_twister *twister);
double bl_twister_double(bl_twister *twister); /* 0 <= u < 1, from two words */
float bl_twister_float(bl_twister *twister);   /* 0 <= u < 1, from one word */

struct bl_sampler {
    const bl_sampling *sampling;
    bl_sample_set set;
    bl_twister draws, xtc_draws;
    float surprise; /* Mirostat: the maximum surprise of a candidate */
    int32_t *note;  /* scratch by token, valid in the current step; else 0 */
};

/* ---- sampler_repeats.c */
void bl_sampler_penalise(bl_sampler *s, const int32_t *tokens, size_t ntokens);
BL_NODISCARD bl_status bl_sampler_dry(bl_sampler *s, const int32_t *tokens, size_t ntokens, bl_err *err);

/* ---- sampler_steps.c */
void bl_sampler_top_n_sigma(bl_sampler *s);
BL_NODISCARD bl_status bl_sampler_top_p(bl_sampler *s, bl_err *err);
BL_NODISCARD bl_status bl_sampler_typical_p(bl_sampler *s, bl_err *err);
void bl_sampler_min_p(bl_sampler *s);
BL_NODISCARD bl_status bl_sampler_xtc(bl_sampler *s, bl_err *err);
BL_NODISCARD bl_status bl_sampler_temperature(bl_sampler *s, bl_err *err);
void bl_sampler_scale(bl_sampler *s, float temperature);

#endif
