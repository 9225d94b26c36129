/* SPDX-License-Identifier: MIT */
#include "server/models/text.h"

#include <math.h>
#include <stdlib.h>

/* Less than this, against the likeliest, is never drawn: a draw has 53 bits. */
static const double least_weight = 1e-20;

/* splitmix64 (Sebastiano Vigna, public domain): of 0 <= u < 1 */
static double draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int32_t find_likeliest(const double *logits, size_t count)
{
    int32_t best = -1;
    for (size_t i = 0; i < count; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = (int32_t)i;
    return best;
}

/* The likeliest first, and of equals the lower id, so that a seed gives the same text on every machine. */
static int compare(const void *a, const void *b)
{
    const bl_sample *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int32_t bl_sampling_choose(bl_sampling *sampling, const double *logits, size_t count, bl_sample *room)
{
    int32_t best = find_likeliest(logits, count);
    double sum = 0, kept = 0, at = 0;
    size_t n = 0, take = 0;
    if (best < 0 || sampling->temperature <= 0 || isinf(logits[best]))
        return best;
    for (size_t i = 0; i < count; i++) {
        double weight = isnan(logits[i]) ? 0 : exp((logits[i] - logits[best]) / sampling->temperature);
        if (weight >= least_weight)
            room[n++] = (bl_sample){weight, (int32_t)i};
    }
    if (sampling->top_k > 0 || sampling->top_p < 1)
        qsort(room, n, sizeof *room, compare);
    if (sampling->top_k > 0 && (uint64_t)sampling->top_k < n)
        n = (size_t)sampling->top_k;
    for (size_t i = 0; i < n; i++)
        sum += room[i].weight;
    while (take < n && (take == 0 || kept < sampling->top_p * sum))
        kept += room[take++].weight;
    at = draw(&sampling->state) * kept;
    for (size_t i = 0; i + 1 < take; i++)
        if ((at -= room[i].weight) < 0)
            return room[i].id;
    return room[take - 1].id;
}
