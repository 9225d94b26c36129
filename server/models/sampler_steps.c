/* SPDX-License-Identifier: MIT */
#include "server/models/sampler_parts.h"

#include "engine/base/fault.h"

#include <math.h>
#include <stdlib.h>

/* Set logits to -infinity that are more than top_n_sigma standard deviations below the maximum.  These candidates stay in the
 * set. */
void bl_sampler_top_n_sigma(bl_sampler *s)
{
    bl_sample_set *set = &s->set;
    float max = 0, sum = 0, squares = 0, mean = 0, deviation = 0;
    size_t count = 0;
    if (s->sampling->top_n_sigma <= 0 || set->count <= 1)
        return;
    max = bl_sample_set_max(set);
    for (size_t i = 0; i < set->count; i++)
        if (set->logit[i] != -INFINITY) {
            sum += set->logit[i];
            count++;
        }
    mean = count > 0 ? sum / (float)count : 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->logit[i] != -INFINITY) {
            double away = (double)(set->logit[i] - mean);
            squares = (float)((double)squares + away * away);
        }
    deviation = count > 0 ? sqrtf(squares / (float)count) : 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->logit[i] < max - s->sampling->top_n_sigma * deviation)
            set->logit[i] = -INFINITY;
}

/* The number of sorted candidates that reach the cumulative probability |p|.  0: all candidates together do not reach it. */
static size_t count_nucleus(const bl_sample_set *set, float max, float sum, float p, size_t keep)
{
    float together = 0;
    for (size_t i = 0; i < set->count; i++) {
        together += expf(set->logit[i] - max) / sum;
        if (together >= p && i + 1 >= keep)
            return i + 1;
    }
    return 0;
}

/* Keep the likeliest candidates that reach the cumulative probability top_p (nucleus sampling, Holtzman et al., 2019).  Mostly
 * few candidates suffice, so the whole vocabulary is sorted only if the first BL_SMALL_TOP do not. */
bl_status bl_sampler_top_p(bl_sampler *s, bl_err *err)
{
    bl_sample_set *set = &s->set;
    size_t keep = (size_t)s->sampling->min_keep, all = set->count, count = 0;
    float p = s->sampling->top_p, max = 0, sum = 0;
    if (p >= 1)
        return BL_OK;
    max = bl_sample_set_max(set);
    for (size_t i = 0; i < all; i++)
        sum += expf(set->logit[i] - max);
    if (!set->sorted && all > BL_SMALL_TOP) {
        uint32_t at[BL_SMALL_TOP];
        float together = 0;
        (void)bl_find_top(set->logit, all, BL_SMALL_TOP, at);
        for (size_t i = 0; i < BL_SMALL_TOP && count == 0; i++) {
            together += expf(set->logit[at[i]] - max) / sum;
            count = together >= p && i + 1 >= keep ? i + 1 : 0;
        }
        all = count > 0 ? count : all;
    }
    BL_TRY(bl_sample_set_take_top(set, all, err));
    count = count > 0 ? count : count_nucleus(set, max, sum, p, keep);
    if (count > 0)
        bl_sample_set_cut(set, count);
    return BL_OK;
}

void bl_sampler_min_p(bl_sampler *s)
{
    bl_sample_set *set = &s->set;
    size_t keep = (size_t)s->sampling->min_keep, count = 1;
    float least = 0;
    if (s->sampling->min_p <= 0 || set->count == 0)
        return;
    least = bl_sample_set_max(set) + logf(s->sampling->min_p);
    if (!set->sorted) {
        bl_sample_set_filter(set, least, keep);
        return;
    }
    while (count < set->count && (set->logit[count] >= least || count < keep))
        count++;
    bl_sample_set_cut(set, count);
}

/* Keep the candidates whose surprise is nearest to the entropy (locally typical sampling, Meister et al., 2022). */
bl_status bl_sampler_typical_p(bl_sampler *s, bl_err *err)
{
    bl_sample_set *set = &s->set;
    size_t keep = (size_t)s->sampling->min_keep, last = 0;
    uint64_t *keys = NULL, *spare = NULL;
    uint32_t *at = NULL;
    float *away = NULL, entropy = 0, together = 0;
    bl_status st = BL_OK;
    if (s->sampling->typical_p >= 1)
        return BL_OK;
    BL_TRY(bl_sample_set_take_top(set, set->count, err));
    bl_sample_set_softmax(set);
    away = bl_calloc(set->count, sizeof *away);
    at = bl_calloc(set->count, sizeof *at);
    keys = bl_calloc(set->count, sizeof *keys);
    spare = bl_calloc(set->count, sizeof *spare);
    if (away == NULL || at == NULL || keys == NULL || spare == NULL) {
        st = bl_fail(err, BL_ENOMEM, "out of host memory for the candidates of a sampler");
        goto out;
    }
    for (size_t i = 0; i < set->count; i++)
        entropy += -set->chance[i] * logf(set->chance[i]);
    for (size_t i = 0; i < set->count; i++)
        away[i] = fabsf(-logf(set->chance[i]) - entropy);
    bl_sort_positions(away, set->count, false, keys, spare);
    while (last < set->count) {
        at[last] = (uint32_t)keys[last];
        together += set->chance[at[last++]];
        if (together > s->sampling->typical_p && last >= keep)
            break;
    }
    bl_sample_set_pick(set, at, last);
out:
    free(away);
    free(at);
    free(keys);
    free(spare);
    return st;
}

/* Exclude top choices: if several candidates are likely, keep only the least likely of these, with the probability
 * xtc_probability. */
bl_status bl_sampler_xtc(bl_sampler *s, bl_err *err)
{
    const bl_sampling *o = s->sampling;
    bl_sample_set *set = &s->set;
    size_t last = 0;
    if (o->xtc_probability <= 0 || o->xtc_threshold > 0.5F || set->count < 2)
        return BL_OK;
    if (bl_twister_float(&s->xtc_draws) > o->xtc_probability)
        return BL_OK;
    BL_TRY(bl_sample_set_take_top(set, set->count, err));
    bl_sample_set_softmax(set);
    while (last + 1 < set->count && set->chance[last + 1] >= o->xtc_threshold)
        last++;
    if (last == 0 || set->count - last < (size_t)o->min_keep)
        return BL_OK;
    for (size_t i = last; i < set->count; i++) {
        set->logit[i - last] = set->logit[i];
        set->id[i - last] = set->id[i];
    }
    set->count -= last;
    return BL_OK;
}

void bl_sampler_scale(bl_sampler *s, float temperature)
{
    bl_sample_set *set = &s->set;
    if (temperature <= 0 && set->count > 0) { /* only the likeliest candidate */
        uint32_t at = (uint32_t)bl_sample_set_find_max(set);
        bl_sample_set_pick(set, &at, 1);
        return;
    }
    for (size_t i = 0; i < set->count; i++)
        set->logit[i] /= temperature;
}

/* With dynatemp_range the temperature is between temperature - range and temperature + range, by the entropy of the
 * candidates. */
bl_status bl_sampler_temperature(bl_sampler *s, bl_err *err)
{
    const bl_sampling *o = s->sampling;
    bl_sample_set *set = &s->set;
    float low = o->temperature - o->dynatemp_range, high = o->temperature + o->dynatemp_range, entropy = 0, most = 0;
    if (o->dynatemp_range <= 0) {
        bl_sampler_scale(s, o->temperature);
        return BL_OK;
    }
    if (set->count <= 1)
        return BL_OK;
    low = low > 0 ? low : 0;
    most = -logf(1.0F / (float)set->count);
    BL_TRY(bl_sample_set_take_top(set, set->count, err));
    bl_sample_set_softmax(set);
    for (size_t i = 0; i < set->count; i++)
        if (set->chance[i] > 0)
            entropy -= set->chance[i] * logf(set->chance[i]);
    bl_sampler_scale(s, low + (high - low) * powf(entropy / most, o->dynatemp_exponent));
    return BL_OK;
}
