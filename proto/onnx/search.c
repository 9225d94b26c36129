/* SPDX-License-Identifier: MIT */
/* Searches ranges of named dimensions over which a model can be expressed.
 *
 * An import fails if a range is too wide: a window is larger than its input at the smallest size, two levels of a feature pyramid
 * are equal only at multiples of 32, a table of positions has 77 rows.  An import at fixed sizes has the fewest reasons to fail.
 * So the search first finds sizes at which the import succeeds, then widens each dimension: the least step, the largest size, the
 * smallest size, and last the batch.  Dimensions of one role are widened together if that succeeds, which needs the fewest
 * attempts; else as one dimension (two inputs with equal row counts and different names), else separately.  A dimension that
 * cannot be widened keeps its size. */
#include "proto/onnx/import.h"

#include "engine/base/clock.h"

#include <string.h>

enum {
    MOST_ATTEMPTS = 120, /* a failing attempt ends at the failing node, so most are short */
    MOST_SECONDS = 20,
    LARGEST_STEP = 128
};

typedef struct search {
    int ndims;
    bl_onnx_dim *dims;
    size_t max_bytes;
    bl_onnx_attempt *attempt;
    void *arg;
    int *attempts;
    int64_t end_ns;
    bl_err last; /* error of the last failed attempt */
} search;

/* Whether the import succeeds with the current ranges. */
static bool succeeds(search *s)
{
    bl_onnx_model model;
    bl_arena *arena = NULL;
    bl_status st = BL_ELIMIT;

    if (*s->attempts >= MOST_ATTEMPTS || bl_clock_ns() > s->end_ns)
        return false;
    ++*s->attempts;
    arena = bl_arena_create(s->max_bytes);
    s->last = (bl_err){0};
    if (arena != NULL)
        st = s->attempt(s->arg, arena, &model, &s->last);
    bl_arena_destroy(arena);
    return st == BL_OK;
}

/* Encoded pictures may have any size, so their sides are not searched: a model that supports only some sizes is rejected. */
static bool search_is_free(const bl_onnx_dim *dim)
{
    return !dim->said && dim->role != BL_ONNX_DECODED;
}

/* ---- the first successful sizes */

/* Typical sizes of each role, the most common first; each list ends with 0. */
static const int64_t batches[] = {1, 0}, channels[] = {3, 1, 4, 0},
                     sides[] = {640, 224, 320, 256, 48, 32, 112, 160, 128, 299, 96, 64, 28, 1280, 0},
                     sequences[] = {128, 64, 512, 32, 16, 77, 8, 256, 4, 1, 0},
                     frames[] = {3000, 128, 512, 100, 1024, 64, 16, 4096, 0},
                     signals[] = {16000, 480000, 512, 8000, 1024, 160000, 256, 128, 32, 0};

static const int64_t *sizes_of(bl_onnx_role role)
{
    static const int64_t *const lists[] = {
        [BL_ONNX_BATCH] = batches, [BL_ONNX_SEQUENCE] = sequences, [BL_ONNX_SIDE] = sides,     [BL_ONNX_CHANNELS] = channels,
        [BL_ONNX_FRAMES] = frames, [BL_ONNX_SIGNAL] = signals,     [BL_ONNX_DECODED] = batches}; /* role without a search, so
                                                                                                  * the list is not used */
    return lists[role];
}

static int count_sizes(bl_onnx_role role)
{
    int n = 0;
    while (sizes_of(role)[n] != 0)
        n++;
    return n;
}

static void fix_dim(bl_onnx_dim *dim, int64_t size)
{
    dim->var.lo = dim->var.hi = size;
    dim->var.step = 1;
}

/* Fixes every free dimension at the |at|-th size of its role, or the last one.  Channels have their own index, since their
 * failures are independent of other sizes. */
static void fix_all(search *s, int at, int channel)
{
    for (int i = 0; i < s->ndims; i++) {
        bl_onnx_dim *dim = &s->dims[i];
        int n = count_sizes(dim->role), own = dim->role == BL_ONNX_CHANNELS ? channel : at;
        if (search_is_free(dim))
            fix_dim(dim, sizes_of(dim->role)[own < n ? own : n - 1]);
    }
}

static bool has_role(const search *s, bl_onnx_role role)
{
    for (int i = 0; i < s->ndims; i++)
        if (search_is_free(&s->dims[i]) && s->dims[i].role == role)
            return true;
    return false;
}

/* Finds sizes at which the import succeeds.  |first| is the failure with ranges: if an attempt at fixed sizes fails with the
 * same error, the sizes are not the reason. */
static bool search_find_sizes(search *s, const bl_err *first)
{
    int most = 0, nchannels = has_role(s, BL_ONNX_CHANNELS) ? count_sizes(BL_ONNX_CHANNELS) : 1;

    for (int i = 0; i < s->ndims; i++) {
        int n = count_sizes(s->dims[i].role);
        if (search_is_free(&s->dims[i]) && s->dims[i].role != BL_ONNX_CHANNELS && n > most)
            most = n;
    }
    for (int channel = 0; channel < nchannels; channel++) {
        for (int at = 0; at < most; at++) {
            fix_all(s, at, channel);
            if (succeeds(s))
                return true;
            if (strcmp(first->text, s->last.text) == 0)
                return false;
        }
    }
    return false;
}

/* ---- widening the ranges */

/* Dimensions that are widened together. */
typedef struct group {
    int count;
    int at[BL_WIRE_MAX_DIMS];
} group;

static bl_onnx_dim *first_of(search *s, const group *g)
{
    return &s->dims[g->at[0]];
}

static void search_set_range(search *s, const group *g, int64_t lo, int64_t hi, int64_t step)
{
    for (int i = 0; i < g->count; i++) {
        bl_wire_var *var = &s->dims[g->at[i]].var;
        var->lo = lo;
        var->hi = hi;
        var->step = step;
    }
}

/* Sets the ranges; restores the previous ones if the import fails. */
static bool try_range(search *s, const group *g, int64_t lo, int64_t hi, int64_t step)
{
    bl_wire_var before = first_of(s, g)->var;

    search_set_range(s, g, lo, hi, step);
    if (succeeds(s))
        return true;
    search_set_range(s, g, before.lo, before.hi, before.step);
    return false;
}

/* Raises the largest size by bisection between a size that works and one that does not. */
static void raise_largest(search *s, const group *g, int64_t most)
{
    const bl_wire_var *var = &first_of(s, g)->var;
    int64_t good = var->hi, bad = most - most % var->step + var->step;

    while (bad - good > var->step) {
        int64_t middle = good + (bad - good) / 2 / var->step * var->step;
        if (try_range(s, g, var->lo, middle, var->step))
            good = middle;
        else
            bad = middle;
    }
}

static void lower_smallest(search *s, const group *g)
{
    const bl_wire_var *var = &first_of(s, g)->var;
    int64_t good = var->lo, bad = 0;

    if (good > var->step && try_range(s, g, var->step, var->hi, var->step))
        return;
    while (good - bad > var->step) {
        int64_t middle = bad + (good - bad) / 2 / var->step * var->step;
        if (try_range(s, g, middle, var->hi, var->step))
            good = middle;
        else
            bad = middle;
    }
}

/* Finds the least step with more than one valid size: sizes up to the largest requested size, or at least the next two
 * multiples. */
static bool find_step(search *s, const group *g, int64_t most)
{
    int64_t size = first_of(s, g)->var.lo;

    for (int64_t step = 1; step <= LARGEST_STEP && step <= size; step *= 2) {
        int64_t hi = most - most % step;
        if (size % step == 0 && hi > size && try_range(s, g, size, hi, step))
            return true;
        if (size % step == 0 && size + 2 * step < hi && try_range(s, g, size, size + 2 * step, step)) {
            raise_largest(s, g, hi);
            return true;
        }
    }
    return false;
}

/* Searches below the found size if no larger size works. */
static bool find_step_below(search *s, const group *g)
{
    int64_t size = first_of(s, g)->var.lo;

    for (int64_t step = 1; step <= LARGEST_STEP && step < size; step *= 2)
        if (size % step == 0 && try_range(s, g, size - step, size, step))
            return true;
    return false;
}

static bool search_widen(search *s, const group *g)
{
    int64_t most = first_of(s, g)->most;

    if (!find_step(s, g, most) && !find_step_below(s, g))
        return false;
    lower_smallest(s, g);
    return true;
}

/* Widens one dimension further, since the limit of its group may not apply to it. */
static void widen_further(search *s, int at)
{
    const group one = {.count = 1, .at = {at}};
    const bl_wire_var *var = &s->dims[at].var;
    int64_t most = s->dims[at].most;

    if ((var->lo > 1 || var->hi < most) && try_range(s, &one, 1, most, 1))
        return;
    if (var->hi < most - most % var->step)
        (void)try_range(s, &one, var->lo, most - most % var->step, var->step);
    if (var->lo > var->step)
        (void)try_range(s, &one, var->step, var->hi, var->step);
}

/* Makes all dimensions of the group equal to the first one. */
static void unite(search *s, const group *g, bool united)
{
    for (int i = 0; i < g->count; i++)
        s->dims[g->at[i]].same = united ? g->at[0] : g->at[i];
}

static bool is_of_inputs(search *s, const group *g)
{
    for (int i = 1; i < g->count; i++)
        if (s->dims[g->at[i]].input != first_of(s, g)->input)
            return true;
    return false;
}

static void widen_group(search *s, const group *g)
{
    if (g->count == 0)
        return;
    if (search_widen(s, g)) {
        for (int i = 0; g->count > 1 && i < g->count; i++)
            widen_further(s, g->at[i]);
        return;
    }
    if (g->count > 1 && is_of_inputs(s, g)) {
        unite(s, g, true);
        if (search_widen(s, g))
            return;
        unite(s, g, false);
    }
    for (int i = 0; g->count > 1 && i < g->count; i++) {
        group one = {.count = 1, .at = {g->at[i]}};
        (void)search_widen(s, &one);
    }
}

static void widen_role(search *s, bl_onnx_role role)
{
    group g = {0};

    for (int i = 0; i < s->ndims; i++) {
        bl_onnx_dim *dim = &s->dims[i];
        bool like = g.count == 0 || (dim->var.lo == first_of(s, &g)->var.lo && dim->most == first_of(s, &g)->most);
        if (search_is_free(dim) && dim->role == role && dim->same == i && like)
            g.at[g.count++] = i;
    }
    widen_group(s, &g);
}

bl_status bl_onnx_search(int ndims, bl_onnx_dim *dims, size_t max_bytes, double max_seconds, bl_onnx_attempt *attempt, void *arg,
                         int *attempts, const bl_err *first)
{
    static const bl_onnx_role order[] = {BL_ONNX_SIDE,     BL_ONNX_SIGNAL,   BL_ONNX_FRAMES,
                                         BL_ONNX_SEQUENCE, BL_ONNX_CHANNELS, BL_ONNX_BATCH};
    double seconds = max_seconds > 0 && max_seconds < MOST_SECONDS ? max_seconds : MOST_SECONDS;
    search s = {.ndims = ndims,
                .dims = dims,
                .max_bytes = max_bytes,
                .attempt = attempt,
                .arg = arg,
                .attempts = attempts,
                .end_ns = bl_clock_ns() + (int64_t)(seconds * 1e9)};
    bool any = false;

    for (int i = 0; i < ndims; i++)
        any |= search_is_free(&dims[i]);
    if (!any || !search_find_sizes(&s, first))
        return first->status;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        widen_role(&s, order[i]);
    return BL_OK;
}
