/* SPDX-License-Identifier: MIT */
#include "server/models/sampler.h"

#include "engine/base/fault.h"
#include "server/models/sampler_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const step_names[BL_SAMPLE_KINDS] = {
    [BL_SAMPLE_PENALTIES] = "penalties", [BL_SAMPLE_DRY] = "dry",         [BL_SAMPLE_TOP_N_SIGMA] = "top_n_sigma",
    [BL_SAMPLE_TOP_K] = "top_k",         [BL_SAMPLE_TYPICAL_P] = "typ_p", [BL_SAMPLE_TOP_P] = "top_p",
    [BL_SAMPLE_MIN_P] = "min_p",         [BL_SAMPLE_XTC] = "xtc",         [BL_SAMPLE_TEMPERATURE] = "temperature"};

const char *bl_sampler_step_name(bl_sampler_step step)
{
    return step_names[step];
}

int bl_sampler_step_find(bl_span name)
{
    static const struct {
        const char *name;
        bl_sampler_step step;
    } other[] = {{"typical_p", BL_SAMPLE_TYPICAL_P}, {"typical", BL_SAMPLE_TYPICAL_P}, {"temp", BL_SAMPLE_TEMPERATURE}};
    for (int i = 0; i < BL_SAMPLE_KINDS; i++)
        if (bl_span_is(name, step_names[i]))
            return i;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (bl_span_is(name, other[i].name))
            return (int)other[i].step;
    return -1;
}

void bl_sampling_init_greedy(bl_sampling *o)
{
    *o = (bl_sampling){.top_p = 1,
                       .typical_p = 1,
                       .top_n_sigma = -1,
                       .xtc_threshold = 0.1F,
                       .dynatemp_exponent = 1,
                       .repeat_last_n = 64,
                       .repeat_penalty = 1,
                       .dry_base = 1.75F,
                       .dry_allowed_length = 2,
                       .dry_last_n = 64,
                       .mirostat_tau = 5,
                       .mirostat_eta = 0.1F,
                       .seed = BL_SEED_RANDOM,
                       .nsteps = BL_SAMPLE_KINDS};
    for (int i = 0; i < BL_SAMPLE_KINDS; i++)
        o->steps[i] = (unsigned char)i; /* the default order is the order of the enumeration */
}

void bl_sampling_init_usual(bl_sampling *o)
{
    bl_sampling_init_greedy(o);
    o->temperature = 0.8F;
    o->top_k = 40;
    o->top_p = 0.95F;
    o->min_p = 0.05F;
}

/* ---- random numbers */

void bl_twister_seed(bl_twister *t, uint32_t seed)
{
    t->word[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        t->word[i] = 1812433253U * (t->word[i - 1] ^ t->word[i - 1] >> 30) + i;
    t->at = 624;
}

uint32_t bl_twister_next(bl_twister *t)
{
    uint32_t y = 0;
    if (t->at == 624) {
        for (int i = 0; i < 624; i++) {
            y = (t->word[i] & 0x80000000U) | (t->word[(i + 1) % 624] & 0x7fffffffU);
            t->word[i] = t->word[(i + 397) % 624] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0dfU : 0);
        }
        t->at = 0;
    }
    y = t->word[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680U;
    y ^= y << 15 & 0xefc60000U;
    return y ^ y >> 18;
}

double bl_twister_double(bl_twister *t)
{
    double low = bl_twister_next(t), high = bl_twister_next(t), u = (low + high * 0x1p32) * 0x1p-64;
    return u < 1 ? u : nextafter(1, 0);
}

float bl_twister_float(bl_twister *t)
{
    float u = (float)bl_twister_next(t) * 0x1p-32F;
    return u < 1 ? u : nextafterf(1, 0);
}

/* ---- lifetime */

size_t bl_sampler_bytes(size_t count)
{
    return sizeof(bl_sampler) + count * (3 * sizeof(float) + sizeof(int32_t));
}

bl_status bl_sampler_create(const bl_sampling *sampling, size_t count, bl_sampler **out, bl_err *err)
{
    bl_sampler *s = bl_calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a sampler");
    s->sampling = sampling;
    s->note = bl_calloc(count, sizeof *s->note);
    bl_twister_seed(&s->draws, (uint32_t)sampling->seed);
    bl_twister_seed(&s->xtc_draws, (uint32_t)sampling->seed);
    s->surprise = 2 * sampling->mirostat_tau;
    if (bl_sample_set_init(&s->set, count, err) != BL_OK || s->note == NULL) {
        bl_sampler_destroy(s);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a sampler");
    }
    *out = s;
    return BL_OK;
}

void bl_sampler_destroy(bl_sampler *s)
{
    if (s == NULL)
        return;
    bl_sample_set_fini(&s->set);
    free(s->note);
    free(s);
}

/* ---- the draw */

/* The first candidate at which the cumulative probability reaches u times the sum. */
static size_t draw_candidate(bl_sampler *s)
{
    bl_sample_set *set = &s->set;
    double u = bl_twister_double(&s->draws), sum = 0, reached = 0;
    float max = bl_sample_set_max(set);
    size_t chosen = set->count - 1;
    bool found = false;
    if (set->count == 1) {
        set->chance[0] = 1;
        return 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        set->chance[i] = expf(set->logit[i] - max);
        sum += (double)set->chance[i];
    }
    for (size_t i = 0; i < set->count; i++) {
        reached += found ? 0 : (double)set->chance[i];
        if (!found && reached >= sum * u) {
            chosen = i;
            found = true;
        }
        set->chance[i] = (float)((double)set->chance[i] / sum);
    }
    return chosen;
}

/* Draw from given probabilities like std::discrete_distribution, which reads no random number for a single candidate. */
static size_t draw_chance(bl_sampler *s)
{
    const bl_sample_set *set = &s->set;
    double sum = 0, reached = 0, u = 0;
    if (set->count < 2)
        return 0;
    for (size_t i = 0; i < set->count; i++)
        sum += (double)set->chance[i];
    u = bl_twister_double(&s->draws);
    for (size_t i = 0; i + 1 < set->count; i++) {
        reached += (double)set->chance[i] / sum;
        if (reached >= u)
            return i;
    }
    return set->count - 1;
}

/* ---- Mirostat: limit the candidates so that the surprise of the text stays near tau (Basu et al., 2021) */

/* Estimate the exponent of Zipf's law from the likeliest candidates; return how many candidates have the wanted surprise
 * then. */
static size_t count_mirostat(const bl_sampler *s)
{
    enum { LOOKED_AT = 100 };
    const bl_sample_set *set = &s->set;
    float products = 0, squares = 0, exponent = 0, k = 0;
    for (size_t i = 0; i < LOOKED_AT - 1 && i + 1 < set->count; i++) {
        float t = logf((float)(i + 2) / (float)(i + 1)), b = logf(set->chance[i] / set->chance[i + 1]);
        products += t * b;
        squares += t * t;
    }
    exponent = products / squares;
    k = powf((exponent - 1) * powf(2, s->surprise) / (1 - powf((float)set->cap, -(exponent - 1))), 1 / exponent);
    return k >= 1 ? (k < (float)set->count ? (size_t)k : set->count) : 1;
}

static size_t count_mirostat_2(const bl_sampler *s)
{
    size_t count = 0;
    while (count < s->set.count && !(-log2f(s->set.chance[count]) > s->surprise))
        count++;
    return count > 0 ? count : 1;
}

static bl_status draw_mirostat(bl_sampler *s, size_t *chosen, bl_err *err)
{
    const bl_sampling *o = s->sampling;
    bl_sample_set *set = &s->set;
    bl_sampler_scale(s, o->temperature);
    BL_TRY(bl_sample_set_take_top(set, set->count, err));
    bl_sample_set_softmax(set);
    bl_sample_set_cut(set, o->mirostat == 1 ? count_mirostat(s) : count_mirostat_2(s));
    bl_sample_set_softmax(set);
    *chosen = draw_chance(s);
    s->surprise -= o->mirostat_eta * (-log2f(set->chance[*chosen]) - o->mirostat_tau);
    return BL_OK;
}

/* ---- the chain */

static void sampler_add_bias(bl_sampler *s)
{
    for (size_t i = 0; i < s->sampling->nbias; i++) {
        const bl_logit_bias *bias = &s->sampling->bias[i];
        if (bias->id >= 0 && (size_t)bias->id < s->set.count)
            s->set.logit[bias->id] += bias->bias;
    }
}

/* Does the chain end with the likeliest candidate, whatever candidates are removed before? */
static bool is_greedy(const bl_sampling *o)
{
    bool cools = false;
    for (int i = 0; i < o->nsteps; i++)
        cools = cools || o->steps[i] == BL_SAMPLE_TEMPERATURE;
    return cools && o->temperature <= 0 && o->dynatemp_range <= 0 && o->typical_p >= 1 && o->xtc_probability <= 0;
}

static bl_status apply_step(bl_sampler *s, bl_sampler_step step, const int32_t *tokens, size_t ntokens, bl_err *err)
{
    switch (step) {
    case BL_SAMPLE_PENALTIES:
        bl_sampler_penalise(s, tokens, ntokens);
        return BL_OK;
    case BL_SAMPLE_DRY:
        return bl_sampler_dry(s, tokens, ntokens, err);
    case BL_SAMPLE_TOP_N_SIGMA:
        bl_sampler_top_n_sigma(s);
        return BL_OK;
    case BL_SAMPLE_TOP_K:
        return s->sampling->top_k > 0 ? bl_sample_set_take_top(&s->set, (size_t)s->sampling->top_k, err) : BL_OK;
    case BL_SAMPLE_TYPICAL_P:
        return bl_sampler_typical_p(s, err);
    case BL_SAMPLE_TOP_P:
        return bl_sampler_top_p(s, err);
    case BL_SAMPLE_MIN_P:
        bl_sampler_min_p(s);
        return BL_OK;
    case BL_SAMPLE_XTC:
        return bl_sampler_xtc(s, err);
    case BL_SAMPLE_TEMPERATURE:
        return bl_sampler_temperature(s, err);
    case BL_SAMPLE_KINDS:
        break;
    }
    return BL_OK;
}

bl_status bl_sampler_choose(bl_sampler *s, const float *logits, const int32_t *tokens, size_t ntokens, int32_t *out, bl_err *err)
{
    const bl_sampling *o = s->sampling;
    bool greedy = is_greedy(o);
    size_t chosen = 0;
    *out = -1;
    bl_sample_set_fill(&s->set, logits);
    if (s->set.count == 0 || bl_sample_set_max(&s->set) == -INFINITY)
        return BL_OK;
    sampler_add_bias(s);
    if (o->mirostat != 0) {
        BL_TRY(draw_mirostat(s, &chosen, err));
        *out = bl_sample_set_id(&s->set, chosen);
        return BL_OK;
    }
    for (int i = 0; i < o->nsteps; i++) {
        bl_sampler_step step = (bl_sampler_step)o->steps[i];
        if (!greedy || step == BL_SAMPLE_PENALTIES || step == BL_SAMPLE_DRY)
            BL_TRY(apply_step(s, step, tokens, ntokens, err));
    }
    if (greedy || isinf(bl_sample_set_max(&s->set)))
        bl_sampler_scale(s, 0);
    *out = bl_sample_set_id(&s->set, draw_candidate(s));
    return BL_OK;
}

/* ---- reported probabilities */

size_t bl_sampler_chances(const bl_sampler *s, int32_t id, float *chance, bl_token_chance *likeliest, size_t most)
{
    const bl_sample_set *set = &s->set;
    uint32_t at[BL_SMALL_TOP];
    size_t n = 0;
    *chance = 0;
    for (size_t i = 0; i < set->count; i++)
        *chance = bl_sample_set_id(set, i) == id ? set->chance[i] : *chance;
    n = bl_find_top(set->chance, set->count, most < BL_SMALL_TOP ? most : BL_SMALL_TOP, at);
    while (n > 0 && set->chance[at[n - 1]] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        likeliest[i] = (bl_token_chance){bl_sample_set_id(set, at[i]), set->chance[at[i]]};
    return n;
}

double bl_logits_log_sum(const float *logits, size_t count)
{
    float max = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        max = logits[i] > max ? logits[i] : max;
    for (size_t i = 0; i < count; i++)
        sum += isnan(logits[i]) ? 0 : (double)expf(logits[i] - max);
    return sum > 0 ? (double)max + log(sum) : 0; /* 0: every logit is NaN */
}

size_t bl_logits_likeliest(const float *logits, size_t count, double log_sum, bl_token_chance *out, size_t most)
{
    uint32_t at[BL_SMALL_TOP];
    size_t n = bl_find_top(logits, count, most < BL_SMALL_TOP ? most : BL_SMALL_TOP, at);
    for (size_t i = 0; i < n; i++)
        out[i] = (bl_token_chance){(int32_t)at[i], (float)((double)logits[at[i]] - log_sum)};
    return n;
}
