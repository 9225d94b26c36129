/* SPDX-License-Identifier: MIT */
#include "server/models/sample_set.h"

#include "engine/base/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 /* so many values are compared with the least of the top at once, by vector instructions */ };

bl_status bl_sample_set_init(bl_sample_set *set, size_t cap, bl_err *err)
{
    *set = (bl_sample_set){.cap = cap};
    set->logit = bl_calloc(cap, sizeof *set->logit);
    set->chance = bl_calloc(cap, sizeof *set->chance);
    set->id = bl_calloc(cap, sizeof *set->id);
    if (set->logit != NULL && set->chance != NULL && set->id != NULL)
        return BL_OK;
    return bl_fail(err, BL_ENOMEM, "out of host memory for the candidates of a sampler");
}

void bl_sample_set_fini(bl_sample_set *set)
{
    free(set->logit);
    free(set->chance);
    free(set->id);
    free(set->keys);
    free(set->spare);
}

void bl_sample_set_fill(bl_sample_set *set, const float *logits)
{
    for (size_t i = 0; i < set->cap; i++)
        set->logit[i] = isnan(logits[i]) ? -INFINITY : logits[i];
    set->count = set->cap;
    set->whole = true;
    set->sorted = false;
}

int32_t bl_sample_set_id(const bl_sample_set *set, size_t at)
{
    return set->whole ? (int32_t)at : set->id[at];
}

float bl_sample_set_max(const bl_sample_set *set)
{
    float lane[BLOCK], max = set->logit[0];
    size_t i = 0;
    if (set->sorted)
        return max;
    for (int k = 0; k < BLOCK; k++)
        lane[k] = max;
    for (; i + BLOCK <= set->count; i += BLOCK)
        for (int k = 0; k < BLOCK; k++)
            lane[k] = set->logit[i + (size_t)k] > lane[k] ? set->logit[i + (size_t)k] : lane[k];
    for (int k = 0; k < BLOCK; k++)
        max = lane[k] > max ? lane[k] : max;
    for (; i < set->count; i++)
        max = set->logit[i] > max ? set->logit[i] : max;
    return max;
}

size_t bl_sample_set_find_max(const bl_sample_set *set)
{
    float max = bl_sample_set_max(set);
    size_t at = 0;
    while (set->logit[at] != max)
        at++;
    return at;
}

/* ---- the largest */

/* A sort key: the bits of a float, transformed so that they compare as unsigned numbers, above the position.  With
 * |descending|, ascending keys are descending values, and equal values are in the order of their positions. */
static uint64_t sample_set_make_key(float value, size_t at, bool descending)
{
    uint32_t bits = 0;
    value = isnan(value) ? -INFINITY : value + 0.0F; /* -0 becomes +0, so that both are equal */
    memcpy(&bits, &value, sizeof bits);
    bits = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return (uint64_t)(descending ? ~bits : bits) << 32 | (uint32_t)at;
}

/* Restore the max-heap of keys after a change of its root.  The root is the largest key, so the smallest value. */
static void sift_down(uint64_t *heap, size_t count)
{
    size_t at = 0, child = 1;
    uint64_t key = heap[0];
    for (; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] > heap[child];
        if (heap[child] <= key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

static void sift_up(uint64_t *heap, size_t at)
{
    for (; at > 0 && heap[(at - 1) / 2] < heap[at]; at = (at - 1) / 2) {
        uint64_t parent = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = heap[at];
        heap[at] = parent;
    }
}

static bool has_greater(const float *values, float than)
{
    int any = 0;
    for (int k = 0; k < BLOCK; k++)
        any |= values[k] > than;
    return any != 0;
}

/* Most blocks have no value above the least of the top; one vector comparison skips such a block. */
size_t bl_find_top(const float *values, size_t count, size_t k, uint32_t *at)
{
    uint64_t heap[BL_SMALL_TOP];
    float least = -INFINITY; /* the least value of the top */
    size_t n = 0;
    for (size_t i = 0; i < count && k > 0; i++) {
        while (n == k && i % BLOCK == 0 && i + BLOCK <= count && !has_greater(values + i, least))
            i += BLOCK;
        if (i == count || (n == k && !(values[i] > least)))
            continue;
        heap[n < k ? n : 0] = sample_set_make_key(values[i], i, true);
        if (n < k)
            sift_up(heap, n++);
        else
            sift_down(heap, n);
        least = values[(uint32_t)heap[0]];
        least = isnan(least) ? -INFINITY : least;
    }
    for (size_t left = n; left > 0; left--) { /* move the least of the remaining values to the end */
        at[left - 1] = (uint32_t)heap[0];
        heap[0] = heap[left - 1];
        sift_down(heap, left - 1);
    }
    return n;
}

/* A stable radix sort by the bytes of the values; the positions ascend at first. */
void bl_sort_positions(const float *values, size_t count, bool descending, uint64_t *keys, uint64_t *spare)
{
    for (size_t i = 0; i < count; i++)
        keys[i] = sample_set_make_key(values[i], i, descending);
    for (int shift = 32; shift < 64; shift += 8) { /* four passes: the result is in |keys| again */
        size_t from[257] = {0};
        uint64_t *other = spare;
        for (size_t i = 0; i < count; i++)
            from[(keys[i] >> shift & 255) + 1]++;
        for (int digit = 0; digit < 256; digit++)
            from[digit + 1] += from[digit];
        for (size_t i = 0; i < count; i++)
            spare[from[keys[i] >> shift & 255]++] = keys[i];
        spare = keys;
        keys = other;
    }
}

static bl_status sort_all(bl_sample_set *set, bl_err *err)
{
    if (set->keys == NULL)
        set->keys = bl_calloc(set->cap, sizeof *set->keys);
    if (set->spare == NULL)
        set->spare = bl_calloc(set->cap, sizeof *set->spare);
    if (set->keys == NULL || set->spare == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the candidates of a sampler");
    bl_sort_positions(set->logit, set->count, true, set->keys, set->spare);
    return BL_OK;
}

bl_status bl_sample_set_take_top(bl_sample_set *set, size_t k, bl_err *err)
{
    uint32_t small[BL_SMALL_TOP], *at = small;
    k = k < set->count ? k : set->count;
    if (!set->sorted && k <= BL_SMALL_TOP) {
        k = bl_find_top(set->logit, set->count, k, small);
        bl_sample_set_pick(set, at, k);
    } else if (!set->sorted) {
        BL_TRY(sort_all(set, err));
        at = bl_calloc(k, sizeof *at);
        if (at == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for the candidates of a sampler");
        for (size_t i = 0; i < k; i++)
            at[i] = (uint32_t)set->keys[i];
        bl_sample_set_pick(set, at, k);
        free(at);
    }
    set->count = k;
    set->sorted = true;
    return BL_OK;
}

/* ---- removal of candidates */

void bl_sample_set_cut(bl_sample_set *set, size_t count)
{
    for (size_t i = 0; set->whole && i < count; i++)
        set->id[i] = (int32_t)i;
    set->whole = false;
    set->count = count;
}

void bl_sample_set_filter(bl_sample_set *set, float least, size_t keep)
{
    size_t n = 0, left = 0;
    for (size_t i = 0; i < set->count; i++)
        left += set->logit[i] >= least;
    if (left == 0 || left < keep)
        return;
    for (size_t i = 0; i < set->count; i++)
        if (set->logit[i] >= least) {
            set->id[n] = bl_sample_set_id(set, i);
            set->logit[n++] = set->logit[i];
        }
    set->whole = false;
    set->count = n;
}

/* |chance| is the scratch buffer for the logits, and has no valid content afterwards. */
void bl_sample_set_pick(bl_sample_set *set, const uint32_t *at, size_t count)
{
    float *logit = set->chance;
    int32_t *id = set->whole ? set->id : NULL;
    for (size_t i = 0; i < count; i++)
        logit[i] = set->logit[at[i]];
    for (size_t i = 0; i < count && id != NULL; i++)
        id[i] = (int32_t)at[i];
    if (id == NULL) { /* the logits are copied already, so their buffer is free for the ids */
        for (size_t i = 0; i < count; i++)
            memcpy(&set->logit[i], &set->id[at[i]], sizeof set->id[0]);
        memcpy(set->id, set->logit, count * sizeof set->id[0]);
    }
    set->chance = set->logit;
    set->logit = logit;
    set->whole = set->sorted = false;
    set->count = count;
}

void bl_sample_set_softmax(bl_sample_set *set)
{
    float max = bl_sample_set_max(set), sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        set->chance[i] = expf(set->logit[i] - max);
        sum += set->chance[i];
    }
    for (size_t i = 0; i < set->count; i++)
        set->chance[i] /= sum;
}
