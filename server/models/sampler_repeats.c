/* SPDX-License-Identifier: MIT */
#include "server/models/sampler_parts.h"

#include "engine/base/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Replace the logit of each candidate with a note by the result of |change|; then reset the notes of |tokens| to 0. */
static void change_noted(bl_sampler *s, const int32_t *tokens, size_t ntokens,
                         float (*change)(const bl_sampler *s, float logit, int32_t id))
{
    bl_sample_set *set = &s->set;
    for (size_t i = 0; i < (set->whole ? ntokens : set->count); i++) {
        size_t at = set->whole ? (size_t)tokens[i] : i;
        int32_t id = set->whole ? tokens[i] : set->id[i];
        if (id < 0 || (size_t)id >= set->cap || s->note[id] == 0)
            continue;
        set->logit[at] = change(s, set->logit[at], id);
        s->note[id] = set->whole ? 0 : s->note[id];
    }
    for (size_t i = 0; i < ntokens; i++)
        if (tokens[i] >= 0 && (size_t)tokens[i] < set->cap)
            s->note[tokens[i]] = 0;
    set->sorted = false;
}

/* The index of the first of the last |most| tokens. */
static size_t skip_to_last(size_t ntokens, int most)
{
    return (size_t)most < ntokens ? ntokens - (size_t)most : 0;
}

/* ---- penalties for repeated tokens */

/* The note is the number of occurrences of the token.  A penalty always makes a logit smaller, so a negative logit is
 * multiplied. */
static float penalise(const bl_sampler *s, float logit, int32_t id)
{
    const bl_sampling *o = s->sampling;
    float count = (float)s->note[id];
    logit = logit <= 0 ? logit * o->repeat_penalty : logit / o->repeat_penalty;
    return logit - (count * o->frequency_penalty + o->presence_penalty);
}

void bl_sampler_penalise(bl_sampler *s, const int32_t *tokens, size_t ntokens)
{
    const bl_sampling *o = s->sampling;
    size_t from = skip_to_last(ntokens, o->repeat_last_n);
    if (o->repeat_last_n <= 0 || (o->repeat_penalty == 1 && o->frequency_penalty == 0 && o->presence_penalty == 0))
        return;
    for (size_t i = from; i < ntokens; i++)
        if (tokens[i] >= 0 && (size_t)tokens[i] < s->set.cap)
            s->note[tokens[i]]++;
    change_noted(s, tokens + from, ntokens - from, penalise);
}

/* ---- DRY ("don't repeat yourself"): a penalty that grows with the length of the repetition that a token would continue */

/* The range of breakers that begin with |token|: the index of the first, and the count. */
static size_t find_breakers(const bl_sampling *o, int32_t token, size_t *count)
{
    size_t from = 0, to = o->nbreakers;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (o->breakers[middle].token < token)
            from = middle + 1;
        else
            to = middle;
    }
    *count = 0;
    while (from + *count < o->nbreakers && o->breakers[from + *count].token == token)
        ++*count;
    return from;
}

/* A repetition does not cross a breaker.  Returns the number of tokens behind the last breaker in |last|, at most |n|. */
static size_t find_free_length(const bl_sampling *o, const int32_t *last, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t *at = last + n - 1 - i;
        int longest = -1;
        size_t count = 0, first = find_breakers(o, *at, &count);
        for (size_t k = first; k < first + count; k++) {
            const bl_dry_breaker *b = &o->breakers[k];
            if (b->ntail > longest && (size_t)b->ntail <= i &&
                (b->ntail == 0 || memcmp(at + 1, b->tail, (size_t)b->ntail * sizeof *b->tail) == 0))
                longest = b->ntail;
        }
        if (longest >= 0)
            return i - (size_t)longest;
    }
    return n;
}

/* length[k]: the length of the common suffix of the text and of its part before last[n - k], at most |n| - k.  This is the Z
 * function of the reversed text (Gusfield, 1997), in linear time. */
static void measure_repeats(const int32_t *last, size_t n, uint32_t *length)
{
    size_t from = 0, to = 0; /* the match [from, to) that reaches farthest */
    length[0] = 0;
    for (size_t k = 1; k < n; k++) {
        size_t len = 0;
        if (k < to)
            len = length[k - from] < to - k ? length[k - from] : to - k;
        while (k + len < n && last[n - 1 - len] == last[n - 1 - k - len])
            len++;
        length[k] = (uint32_t)len;
        if (k + len > to) {
            from = k;
            to = k + len;
        }
    }
}

static bool is_whole_breaker(const bl_sampling *o, int32_t id)
{
    size_t count = 0, first = find_breakers(o, id, &count);
    for (size_t k = first; k < first + count; k++)
        if (o->breakers[k].ntail == 0)
            return true;
    return false;
}

/* The note is the length of the longest repetition that the token would continue, plus one. */
static float discourage(const bl_sampler *s, float logit, int32_t id)
{
    const float most_log = 88.7228391F; /* the natural logarithm of the largest float */
    const bl_sampling *o = s->sampling;
    int exponent = s->note[id] - 1 - o->dry_allowed_length;
    int most = o->dry_base > 1.000001F ? (int)(most_log / logf(o->dry_base)) : 0;
    float penalty = 0;
    if (is_whole_breaker(o, id))
        return logit;
    exponent = most > 0 && exponent > most ? most : exponent;
    penalty = (float)((double)o->dry_multiplier * pow((double)o->dry_base, exponent));
    return logit - penalty;
}

bl_status bl_sampler_dry(bl_sampler *s, const int32_t *tokens, size_t ntokens, bl_err *err)
{
    const bl_sampling *o = s->sampling;
    size_t from = skip_to_last(ntokens, o->dry_last_n), n = ntokens - from, most = 0;
    const int32_t *last = tokens + from;
    uint32_t *length = NULL;
    if (o->dry_multiplier == 0 || o->dry_base < 1 || o->dry_last_n <= 0 || n <= (size_t)o->dry_allowed_length)
        return BL_OK;
    most = find_free_length(o, last, n);
    if (most < (size_t)o->dry_allowed_length)
        return BL_OK;
    length = bl_calloc(n, sizeof *length);
    if (length == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the repetitions of a text");
    measure_repeats(last, n, length);
    for (size_t k = 1; k < n; k++) {
        size_t len = length[k] < most ? length[k] : most;
        int32_t next = last[n - k]; /* the token that followed the earlier occurrence */
        if (len >= (size_t)o->dry_allowed_length && next >= 0 && (size_t)next < s->set.cap && s->note[next] < (int32_t)len + 1)
            s->note[next] = (int32_t)len + 1;
    }
    free(length);
    change_noted(s, last, n, discourage);
    return BL_OK;
}
