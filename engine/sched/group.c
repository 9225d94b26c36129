/* SPDX-License-Identifier: MIT */
/* Kernel fusion: decides which stores share a nest. Candidates run over the same loops (or over the outer loops of the
 * other), and have loads or reductions in common, or one reads what the other stores at the same element. A group is valid
 * only if no path of dependences leaves it and comes back. */
#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

enum {
    LOOK_BACK = 64,      /* groups with which a store is tried */
    SMALL_STORE = 16384, /* iterations up to which a launch costs more than its work */
    LONG_CHAIN = 256,    /* nodes of an expression from which lanes of its own pay */
    MOST_MEMBERS = 16
};

typedef struct groups {
    sched *s;
    int count, words;
    uint64_t **before; /* transitively, the groups that must run before */
    int (*member)[MOST_MEMBERS];
    int *nmembers;
} groups;

static bool has_bit(const uint64_t *set, int bit)
{
    return (set[bit / 64] >> (bit % 64) & 1) != 0;
}

static void group_set_bit(uint64_t *set, int bit)
{
    set[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static int64_t elements_of(const stored *st)
{
    int64_t count = 0;
    return bl_shape_max_count(st->node->ndim, st->node->dim, &count) ? count : INT64_MAX;
}

/* Does |st| have few iterations, those of its reductions included? A nest of other loads and reductions computes it along its
 * own axes: with the sums of columns beside those of rows, the gradient of a layer norm took 12 times as long. */
static bool is_small(const sched *s, const stored *st)
{
    int64_t most = elements_of(st);
    bl_free free;

    bl_free_init(&free, s->ir);
    for (size_t i = 0; i < st->below.count && most <= SMALL_STORE; i++) {
        int64_t work = st->below.at[i]->op == BL_OP_REDUCE ? bl_free_work(&free, st->below.at[i]) : 0;
        most = work > most ? work : most;
    }
    return most <= SMALL_STORE;
}

/* Are the loops of |outer| the first loops of |inner|? */
static bool is_prefix(const stored *outer, const stored *inner)
{
    if (outer->nranges > inner->nranges)
        return false;
    for (int i = 0; i < outer->nranges; i++) {
        if (outer->range[i] != inner->range[i])
            return false;
    }
    return true;
}

/* Does |st| read |other| at an element that |other| does not store in the same iteration, or under a gate? */
static bool group_reads(const sched *s, const stored *st, const stored *other, bool *elsewhere)
{
    bool any = false;
    for (size_t i = 0; i < st->below.count; i++) {
        const bl_node *node = st->below.at[i];
        if (node->op != BL_OP_LOAD || sched_stored(s, node->src[0]) != other)
            continue;
        any = true;
        if (node->src[1] != other->index || node->nsrc > 2)
            *elsewhere = true;
    }
    return any;
}

static bool have_in_common(const stored *a, const stored *b, bl_op op)
{
    size_t i = 0, k = 0;
    while (i < a->below.count && k < b->below.count) {
        const bl_node *x = a->below.at[i], *y = b->below.at[k];
        if (x == y && x->op == op)
            return true;
        if (x->id <= y->id)
            i++;
        if (y->id <= x->id)
            k++;
    }
    return false;
}

/* Is it a long expression without a reduction? In the outer loops of another nest it would be computed one element at a time. */
static bool is_long_chain(const stored *st)
{
    for (size_t i = 0; i < st->below.count; i++) {
        if (st->below.at[i]->op == BL_OP_REDUCE)
            return false;
    }
    return st->below.count > LONG_CHAIN;
}

/* Two tiles, or a tile and reductions beside it, do not fit the registers. */
static bool crowd(const stored *st, const stored *other)
{
    return (st->tiled && (other->tiled || other->sums)) || (other->tiled && st->sums);
}

static bool fit_together(const sched *s, const stored *st, const stored *other)
{
    bool elsewhere = false;
    bool forward = group_reads(s, st, other, &elsewhere);
    bool same = st->nranges == other->nranges && is_prefix(st, other);

    if (elsewhere)
        return false;
    if (st->prefix != 0 || other->prefix != 0) /* a store that shares no stage would only lengthen the loops */
        return st->prefix == other->prefix && have_in_common(st, other, BL_OP_STAGE) &&
               (is_prefix(st, other) || is_prefix(other, st));
    if (same) {
        bool reduces = have_in_common(st, other, BL_OP_REDUCE);
        if (crowd(st, other) && !reduces)
            return false;
        return forward || reduces || have_in_common(st, other, BL_OP_LOAD) || is_small(s, st);
    }
    if (st->tiled || other->tiled || (!is_prefix(st, other) && !is_prefix(other, st)))
        return false;
    const stored *outer = st->nranges < other->nranges ? st : other;
    if (elements_of(outer) < 2 * (int64_t)s->options->units || is_long_chain(outer))
        return false;
    return forward || have_in_common(st, other, BL_OP_REDUCE);
}

/* May |st| join group |g|? Every member must fit or be independent, one must fit, and no group that |st| depends on may
 * depend on |g|. */
static bool may_join(const groups *gs, const stored *st, const uint64_t *before, int g)
{
    const sched *s = gs->s;
    bool fits = false;

    if (gs->nmembers[g] == MOST_MEMBERS || st->value == NULL || s->stored[gs->member[g][0]].value == NULL)
        return false; /* a loop is a group of its own */
    for (int i = 0; i < gs->nmembers[g]; i++) {
        const stored *other = &s->stored[gs->member[g][i]];
        bool elsewhere = false;
        if (fit_together(s, st, other))
            fits = true;
        else if (group_reads(s, st, other, &elsewhere) || (!is_prefix(st, other) && !is_prefix(other, st)) || crowd(st, other))
            return false;
    }
    for (int h = 0; fits && h < gs->count; h++) {
        if (h != g && has_bit(before, h) && has_bit(gs->before[h], g))
            return false;
    }
    return fits;
}

/* The number of distinct buffers, or with |stages| of stages, that the members of |g| and |st| have together. */
static int count_distinct(const groups *gs, int g, const stored *st, bool stages)
{
    const sched *s = gs->s;
    bl_ptrmap seen;
    int n = 0;

    bl_ptrmap_init(&seen, bl_ir_arena(s->ir));
    for (int i = 0; i <= gs->nmembers[g]; i++) {
        const stored *from = i < gs->nmembers[g] ? &s->stored[gs->member[g][i]] : st;
        for (size_t k = 0; k < from->below.count; k++) {
            const bl_node *node = from->below.at[k];
            bool counts = stages ? node->op == BL_OP_STAGE : node->op == BL_OP_BUFFER && node->sub == 0;
            if (counts && !bl_ptrmap_has(&seen, node)) {
                bl_ptrmap_put(&seen, node, &seen);
                n++;
            }
        }
        n += stages ? 0 : 1; /* its own */
    }
    return n;
}

/* Does |g| with |st| stay within the buffers that a kernel may bind and the stages for which local memory is divided? */
static bool group_has_room(const groups *gs, int g, const stored *st)
{
    return count_distinct(gs, g, st, false) <= (int)gs->s->options->max_params &&
           count_distinct(gs, g, st, true) <= BL_STAGES_OF_NEST;
}

static void group_join(groups *gs, int g, int which, const uint64_t *before)
{
    gs->member[g][gs->nmembers[g]++] = which;
    gs->s->stored[which].group = g;
    for (int w = 0; w < gs->words; w++)
        gs->before[g][w] |= before[w];
    gs->before[g][g / 64] &= ~(UINT64_C(1) << (g % 64));
    for (int h = 0; h < gs->count; h++) {
        if (!has_bit(gs->before[h], g))
            continue;
        for (int w = 0; w < gs->words; w++)
            gs->before[h][w] |= gs->before[g][w];
    }
}

static void group_waits_for(const groups *gs, const stored *st, uint64_t *before)
{
    for (size_t i = 0; i < st->below.count; i++) {
        const stored *from = st->below.at[i]->op == BL_OP_LOAD ? sched_stored(gs->s, st->below.at[i]->src[0]) : NULL;
        if (from == NULL)
            continue;
        group_set_bit(before, from->group);
        for (int w = 0; w < gs->words; w++)
            before[w] |= gs->before[from->group][w];
    }
}

/* Renumber the groups so that each runs after those it depends on: a group that must run before another depends on strictly
 * fewer. */
static void renumber(groups *gs)
{
    sched *s = gs->s;
    int *rank = bl_arena_array(bl_ir_arena(s->ir), (size_t)gs->count, sizeof *rank);
    int *waits = bl_arena_array(bl_ir_arena(s->ir), (size_t)gs->count, sizeof *waits);

    if (rank == NULL || waits == NULL)
        return;
    for (int g = 0; g < gs->count; g++) {
        for (int w = 0; w < gs->words; w++)
            waits[g] += __builtin_popcountll(gs->before[g][w]);
    }
    for (int g = 0; g < gs->count; g++) {
        for (int h = 0; h < gs->count; h++)
            rank[g] += waits[h] < waits[g] || (waits[h] == waits[g] && h < g);
    }
    for (int i = 0; i < s->nstored; i++)
        s->stored[i].group = rank[s->stored[i].group];
}

int sched_group(sched *s)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    size_t n = (size_t)s->nstored;
    groups gs = {.s = s, .words = (s->nstored + 63) / 64};
    uint64_t *before = bl_arena_array(arena, (size_t)gs.words, sizeof *before);

    gs.before = bl_arena_array(arena, n, sizeof *gs.before);
    gs.member = bl_arena_array(arena, n, sizeof *gs.member);
    gs.nmembers = bl_arena_array(arena, n, sizeof *gs.nmembers);
    if (n == 0 || before == NULL || gs.before == NULL || gs.member == NULL || gs.nmembers == NULL)
        return 0;
    for (int i = 0; i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        int g = gs.count - 1, last = gs.count - LOOK_BACK;
        for (int w = 0; w < gs.words; w++)
            before[w] = 0;
        group_waits_for(&gs, st, before);
        while (g >= 0 && g >= last && !(may_join(&gs, st, before, g) && group_has_room(&gs, g, st)))
            g--;
        if (g < 0 || g < last) {
            g = gs.count;
            gs.before[g] = bl_arena_array(arena, (size_t)gs.words, sizeof **gs.before);
            if (gs.before[g] == NULL)
                return 0;
            gs.count++;
        }
        group_join(&gs, g, i, before);
    }
    renumber(&gs);
    return gs.count;
}
