/* SPDX-License-Identifier: MIT */
/* A cache of keys and values is a state of which each step writes one place.  As a value its update is the whole of it: an
 * element is new where its index is in the region, else what it was.  Here the comparisons that bound the region become the first
 * and the last turns of the loops, and the store goes to the buffer of the state.  That is right
 *
 * - where the nest does nothing else, and reads the state for nothing but to keep it;
 * - where no nest behind it, and no loop, reads what was there before: it is moved behind those that do, if nothing that it
 *   passes needs it.
 *
 * Where an index tensor names the elements that change, the loops over them become one over the indices (scatter_store.c).
 *
 * needs: nests in the order they run.  keeps: values.  leaves: a place that nothing names for each root that is its state. */
#include "engine/sched/region.h"

#include "engine/ir/affine.h"
#include "engine/ir/free.h"
#include "engine/ir/gate.h"
#include "engine/sched/sched_internal.h"

#include <string.h>

enum { MOST_STORES = 16 };

typedef struct regions {
    bl_ir *ir;
    bl_schedule *schedule;
    int nroots;
    const int *state;
    bool *in_place;
    sched_lasts *lasts;
} regions;

/* What a nest stores, if it is parts of states. */
typedef struct region {
    bl_nest *nest;       /* a copy */
    int at;              /* its number */
    const bl_node *sink; /* of it */
    int nstores;
    int root[MOST_STORES];
    const bl_node *value[MOST_STORES];
    const bl_node *cond;   /* where they change: of all of them the same */
    bl_clauses used;       /* those that loops' bounds stand for now */
    const bl_node *inside; /* the region is in the state: what bounds of nodes cannot say */
    bool scatters;         /* by index tensors, as |scatter| says */
    sched_scatter scatter;
    bl_ptrmap moved; /* RANGE -> which index that turn has now */
} region;

/* ---- which elements change */

static const bl_node *yes(bl_ir *ir)
{
    return bl_const(ir, BL_BOOL, (bl_scalar){.u = 1});
}

/* The element of the state that |store| is for, as it was, where |known| holds. */
static bool keeps(const bl_nest *nest, const bl_node *node, const bl_node *store, int state, const bl_clauses *known)
{
    bl_clauses gate = {0};
    bool held = true;

    while (node->op == BL_OP_WHERE && bl_clauses_hold(known, node->src[0])) /* what a pad has beside it */
        node = node->src[1];
    if (node->op != BL_OP_LOAD || node->src[0]->op != BL_OP_BUFFER || node->src[0]->sub != 0 ||
        nest->param[node->src[0]->arg] != state || node->src[1] != store->src[1])
        return false;
    held = bl_clauses_add(&gate, node->nsrc > 2 ? node->src[2] : NULL);
    for (int i = 0; i < gate.count; i++)
        held = held && bl_clauses_hold(known, gate.at[i]);
    return held;
}

/* |store|'s value as where(*cond, *value, what was there). */
static bool split_value(bl_ir *ir, const bl_nest *nest, const bl_node *store, int state, const bl_node **cond,
                        const bl_node **value)
{
    bl_clauses known = {0};
    bool any = false;

    *cond = yes(ir);
    for (*value = store->src[2]; (*value)->op == BL_OP_WHERE;) {
        const bl_node *holds = (*value)->src[0], *fails = bl_not(ir, holds);
        bl_clauses then = known, otherwise = known;
        if (!bl_clauses_add(&then, holds) || !bl_clauses_add(&otherwise, fails))
            return false;
        if (keeps(nest, (*value)->src[2], store, state, &otherwise)) {
            *cond = bl_and(ir, *cond, holds);
            *value = (*value)->src[1];
            known = then;
        } else if (keeps(nest, (*value)->src[1], store, state, &then)) {
            *cond = bl_and(ir, *cond, fails);
            *value = (*value)->src[2];
            known = otherwise;
        } else {
            break;
        }
        any = true;
    }
    return any;
}

/* The root whose place |place| is, if it is the next value of a state that is read; or -1.  What nobody reads has no place: its
 * number may be that of another value. */
static int updated_root(const regions *r, int place)
{
    for (int i = 0; i < r->nroots; i++) {
        int state = r->state[i];
        if (r->schedule->root_place[i] == place)
            return state >= 0 && state < r->schedule->nplaces && r->schedule->places[state].kind == BL_PLACE_INPUT ? i : -1;
    }
    return -1;
}

static bool uses(const bl_nest *nest, int place, bool writes)
{
    bool any = false;
    for (int k = 0; k < nest->nparams; k++)
        any = any || (nest->param[k] == place && (nest->writes >> k & 1) == writes);
    return any;
}

/* Does nest |at| alone store to |place|?  Of a concatenation each part may have its own (concat.c). */
static bool stores_all(const regions *r, int at, int place)
{
    bool all = true;
    for (int i = 0; i < r->schedule->nnests; i++)
        all = all && (i == at || !uses(&r->schedule->nests[i], place, true));
    return all;
}

/* |sink| with comparisons of indices as such, where they are compared as integers of another dtype: those of a cat. */
static const bl_node *compare_indices(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i], *x = NULL, *y = NULL;
        if (node->op != BL_OP_CMPLT && node->op != BL_OP_CMPEQ)
            continue;
        x = bl_as_index(ir, node->src[0]);
        y = bl_as_index(ir, node->src[1]);
        if (x != NULL && y != NULL && (x != node->src[0] || y != node->src[1]))
            bl_ptrmap_put(&to, node, bl_alu2(ir, (bl_op)node->op, x, y));
    }
    return bl_substitute(ir, sink, &to);
}

/* Is all that the nest stores the same part of states? */
static bool is_region(const regions *r, int at, bl_nest *nest, region *g)
{
    const bl_node *sink = compare_indices(r->ir, nest->sink);

    *g = (region){.nest = nest, .at = at, .sink = sink, .nstores = (int)sink->nsrc, .inside = yes(r->ir)};
    if (sink->op != BL_OP_SINK || sink->nsrc > MOST_STORES || nest->helper || bl_find_op(r->ir, sink, BL_OP_STAGE) != NULL)
        return false;
    for (int i = 0; i < g->nstores; i++) {
        const bl_node *store = sink->src[i], *cond = NULL;
        g->root[i] = updated_root(r, nest->param[store->src[0]->arg]);
        if (g->root[i] < 0 || store->nsrc > 3 || store->lanes > 1 || !stores_all(r, at, r->schedule->root_place[g->root[i]]) ||
            !split_value(r->ir, nest, store, r->state[g->root[i]], &cond, &g->value[i]) || (i > 0 && cond != g->cond))
            return false;
        g->cond = cond;
    }
    return true;
}

/* ---- its loops */

/* x - y = sign * range + *rest, where |rest| is the same in all loops. */
static bool solve(bl_ir *ir, const bl_node *x, const bl_node *y, const bl_node *range, int *sign, const bl_node **rest)
{
    const bl_node *difference = bl_sub(ir, x, y);
    bl_affine sum;
    int64_t by = bl_affine_of(&sum, difference) ? bl_affine_along(&sum, range) : 0;

    if (by != 1 && by != -1)
        return false;
    *sign = (int)by;
    *rest = *sign > 0 ? bl_sub(ir, difference, range) : bl_add(ir, difference, range);
    return bl_find_op(ir, *rest, BL_OP_RANGE) == NULL;
}

/* |clause| holds at one turn of the loop, if at all: which, as an integer of any dtype, or NULL. */
static const bl_node *only_turn(bl_ir *ir, const bl_node *clause, const bl_node *range)
{
    if (clause->op != BL_OP_CMPEQ)
        return NULL;
    for (int side = 0; side < 2; side++) {
        const bl_node *turn = clause->src[side], *other = clause->src[1 - side], *rest = NULL;
        int sign = 0;
        if (turn->dtype == BL_INDEX && solve(ir, turn, other, range, &sign, &rest))
            return sign > 0 ? bl_sub(ir, bl_index(ir, 0), rest) : rest;
        if (turn->op == BL_OP_CAST && bl_dtype_is_int((bl_dtype)turn->dtype) && turn->dtype != BL_U64 && turn->src[0] == range &&
            turn->lo == range->lo && turn->hi == range->hi && bl_find_op(ir, other, BL_OP_RANGE) == NULL)
            return other;
    }
    return NULL;
}

/* |turn|, which may be anywhere: where it is none of the loop's it is another, and nothing happens. */
static const bl_node *clamp(bl_ir *ir, region *g, const bl_node *turn, const bl_node *extent)
{
    bl_dtype from = (bl_dtype)turn->dtype; /* bounds are checked before it is an INDEX, which a device may hold in 32 bits */
    bl_dtype dtype = from == BL_INDEX ? BL_INDEX : bl_dtype_bytes(from) < 4 || from == BL_I32 ? BL_I32 : BL_I64;
    const bl_node *number = bl_cast(ir, dtype, turn), *end = bl_cast(ir, dtype, extent), *one = bl_const_int(ir, dtype, 1);
    const bl_node *low = bl_not(ir, bl_less(ir, number, bl_const_int(ir, dtype, 0)));

    g->inside = bl_and(ir, g->inside, bl_and(ir, low, bl_less(ir, number, end)));
    number = bl_alu2(ir, BL_OP_MIN, number, bl_sub(ir, end, one));
    return bl_cast(ir, BL_INDEX, bl_alu2(ir, BL_OP_MAX, number, bl_const_int(ir, dtype, 0)));
}

/* What comparisons say of a loop: where it may begin, or end, and which says so; the first is what it does anyway. */
typedef struct bounds {
    int n;
    const bl_node *at[BL_MAX_CLAUSES + 1], *clause[BL_MAX_CLAUSES + 1];
} bounds;

static void add_bound(bounds *b, const bl_node *at, const bl_node *clause)
{
    b->at[b->n] = at;
    b->clause[b->n++] = clause;
}

/* Its fewest turns, if all of them are in it for certain: from *first on, *count. */
static bool narrow(bl_ir *ir, region *g, const bounds *from, const bounds *end, const bl_node *extent, const bl_node **first,
                   const bl_node **count)
{
    int low = -1, high = -1;

    *count = extent;
    for (int i = 0; i < from->n; i++) {
        for (int k = 0; k < end->n; k++) {
            const bl_node *turns = bl_sub(ir, end->at[k], from->at[i]), *over = bl_sub(ir, extent, end->at[k]);
            if (turns->lo < 1 || turns->hi > (*count)->hi || turns == *count || from->at[i]->lo < 0 || over->lo < 0 ||
                bl_find_op(ir, turns, BL_OP_LOAD) != NULL)
                continue;
            *first = from->at[i];
            *count = turns;
            low = i;
            high = k;
        }
    }
    if (low < 0)
        return false;
    if (from->clause[low] != NULL)
        g->used.at[g->used.count++] = from->clause[low];
    if (end->clause[high] != NULL)
        g->used.at[g->used.count++] = end->clause[high];
    return true;
}

/* The turns of the loop over |range|, which is number |number| now, where anything changes.  Is it shorter? */
static bool move_loop(bl_ir *ir, region *g, const bl_clauses *all, const bl_node *range, int number, const bl_node **at)
{
    const bl_node *extent = range->src[0], *first = NULL, *count = NULL;
    bounds from = {0}, end = {0};

    add_bound(&from, bl_index(ir, 0), NULL);
    add_bound(&end, extent, NULL);
    for (int i = 0; i < all->count; i++) {
        const bl_node *clause = all->at[i], *turn = only_turn(ir, clause, range), *rest = NULL;
        int sign = 0;
        if (turn != NULL) {
            g->used.at[g->used.count++] = clause;
            *at = clamp(ir, g, turn, extent);
            return true;
        }
        if (clause->op != BL_OP_CMPLT || clause->src[0]->dtype != BL_INDEX ||
            !solve(ir, clause->src[1], clause->src[0], range, &sign, &rest))
            continue;
        if (sign > 0) /* 0 < range + rest */
            add_bound(&from, bl_sub(ir, bl_index(ir, 1), rest), clause);
        else
            add_bound(&end, rest, clause);
    }
    if (!narrow(ir, g, &from, &end, extent, &first, &count)) {
        *at = bl_range(ir, number, BL_AXIS_LOOP, extent);
        return false;
    }
    *at = bl_is_int(count, 1) ? first : bl_add(ir, first, bl_range(ir, number, BL_AXIS_LOOP, count));
    return true;
}

/* The loops over the places that the keys name become one over the keys, number 0: the number of loops that this is, -1: it
 * cannot be. */
static int move_scatter(const regions *r, region *g)
{
    bl_ir *ir = r->ir;
    sched_scatter *s = &g->scatter;
    const bl_node *key = s->key, *turn = NULL, *place = NULL, *last = NULL;

    if (s->latest != NULL) {
        const bl_node *range = s->latest->src[1];
        turn = bl_is_int(range->src[0], 1) ? bl_index(ir, 0) : bl_range(ir, 0, BL_AXIS_LOOP, range->src[0]);
        last = sched_scatter_is_last(ir, r->schedule, s, r->lasts, g->nest, &g->at, turn);
        if (last == NULL)
            return -1;
        g->inside = bl_and(ir, g->inside, last);
        key = bl_replace(ir, key, range, turn);
        bl_ptrmap_put(&g->moved, s->latest, bl_cast(ir, (bl_dtype)s->latest->dtype, turn));
    }
    place = clamp(ir, g, key, bl_index(ir, s->count));
    for (int k = 0; k < s->nranges; k++) {
        const bl_node *at = bl_idiv(ir, place, bl_index(ir, s->step[k]));
        bl_ptrmap_put(&g->moved, s->range[k], bl_mod(ir, at, s->range[k]->src[0]));
    }
    g->used.at[g->used.count++] = s->clause;
    return turn != NULL && turn->op == BL_OP_RANGE;
}

/* The loops around the stores, numbered anew as those of values are; false where none of them is shorter now. */
static bool move_loops(const regions *r, region *g)
{
    bl_ir *ir = r->ir;
    bl_clauses all = {0};
    bl_free free;
    uint64_t set = 0;
    int number = 0;
    bool any = false;

    bl_ptrmap_init(&g->moved, bl_ir_arena(ir));
    bl_free_init(&free, ir);
    for (int i = 0; i < g->nstores; i++)
        set |= bl_free_get(&free, g->sink->src[i]);
    if (free.failed || !bl_clauses_add(&all, g->cond) || all.count > BL_MAX_CLAUSES / 4)
        return false;
    g->scatters = sched_find_scatter(ir, &all, &g->scatter);
    number = g->scatters ? move_scatter(r, g) : 0;
    if (number < 0)
        return false;
    any = g->scatters;
    for (int arg = 0; arg < RANGES_PER_LEVEL; arg++) {
        for (int i = 0; i < free.nranges; i++) {
            const bl_node *range = free.range[i], *at = NULL;
            if ((set >> i & 1) == 0 || range->arg != arg || bl_ptrmap_has(&g->moved, range))
                continue;
            any = move_loop(ir, g, &all, range, number, &at) || any;
            number += bl_find_op(ir, at, BL_OP_RANGE) != NULL;
            bl_ptrmap_put(&g->moved, range, at);
        }
    }
    return any;
}

/* ---- the nest that stores it */

/* Its parameters have the numbers of places, and what it stores goes to the states. */
static const bl_node *name_places(const regions *r, const region *g, const bl_node *sink)
{
    bl_nodes below = bl_reach(r->ir, 1, &sink, false);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(r->ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *buffer = below.at[i];
        int place = 0;
        if (buffer->op != BL_OP_BUFFER || buffer->sub != 0)
            continue;
        place = g->nest->param[buffer->arg];
        for (int k = 0; k < g->nstores; k++) {
            if (place == r->schedule->root_place[g->root[k]])
                place = r->state[g->root[k]];
            else if (place == r->state[g->root[k]])
                return NULL; /* read still */
        }
        bl_ptrmap_put(&to, buffer, bl_param(r->ir, place, (bl_dtype)buffer->dtype, false));
    }
    return bl_substitute(r->ir, sink, &to);
}

/* False where it reads one of the states yet. */
static bool build(const regions *r, const region *g, bl_nest *out)
{
    bl_ir *ir = r->ir;
    const bl_node *stores[MOST_STORES], *sink = NULL;
    const bl_node *gate = bl_substitute(ir, bl_gate_without(ir, g->cond, &g->used), &g->moved);

    gate = bl_and(ir, g->inside, gate);
    for (int i = 0; i < g->nstores; i++) {
        const bl_node *store = g->sink->src[i];
        stores[i] = bl_store(ir, store->src[0], bl_substitute(ir, store->src[1], &g->moved),
                             bl_substitute(ir, g->value[i], &g->moved), bl_is_int(gate, 1) ? NULL : gate);
    }
    sink = name_places(r, g, bl_sink(ir, g->nstores, stores));
    if (sink == NULL || sink->op != BL_OP_SINK)
        return false;
    if (g->sink->sub == BL_PRECISION_HIGH)
        sink = bl_sink_relax(ir, sink);
    *out = (bl_nest){.sink = sink, .name = sched_nest_name(ir, sink)};
    sched_bind_params(ir, out);
    return true;
}

/* ---- among the others */

static bool carries(const bl_schedule *schedule, int place)
{
    bool any = false;
    for (int i = 0; i < schedule->nloops; i++) {
        for (int k = 0; k < schedule->loops[i].ncarries; k++) {
            const bl_carry *c = &schedule->loops[i].carries[k];
            any = any || c->init == place || c->place[0] == place || c->place[1] == place;
        }
    }
    return any;
}

/* May |nest| run behind |other|, which runs behind it? */
static bool may_pass(const bl_nest *nest, const bl_nest *other)
{
    bool may = true;
    for (int k = 0; k < nest->nparams; k++)
        may = may && !uses(other, nest->param[k], true) && ((nest->writes >> k & 1) == 0 || !uses(other, nest->param[k], false));
    return may;
}

/* Where nest |at|, which stores |g|, can run: behind the last that reads the states as they were.  -1: nowhere. */
static int find_time(const regions *r, const region *g, int at)
{
    const bl_schedule *schedule = r->schedule;
    int last = at;

    for (int k = 0; k < g->nstores; k++) {
        int state = r->state[g->root[k]];
        if (carries(schedule, state) || carries(schedule, schedule->root_place[g->root[k]]))
            return -1;
        for (int i = at + 1; i < schedule->nnests; i++)
            last = uses(&schedule->nests[i], state, false) && i > last ? i : last;
    }
    for (int i = 0; i < schedule->nloops; i++) {
        if (last > at || (schedule->loops[i].first <= at && at < schedule->loops[i].end))
            return -1;
    }
    for (int i = at + 1; i <= last; i++) {
        if (!may_pass(g->nest, &schedule->nests[i]))
            return -1;
    }
    return last;
}

/* Whoever reads the next value reads the state. */
static bool rename_places(const regions *r, const region *g)
{
    for (int i = 0; i < r->schedule->nnests; i++) {
        bl_nest *nest = &r->schedule->nests[i];
        int *param = bl_arena_array(bl_ir_arena(r->ir), (size_t)nest->nparams + 1, sizeof *param);
        if (param == NULL)
            return false;
        for (int k = 0; k < nest->nparams; k++) {
            param[k] = nest->param[k];
            for (int s = 0; s < g->nstores; s++)
                param[k] = param[k] == r->schedule->root_place[g->root[s]] ? r->state[g->root[s]] : param[k];
        }
        nest->param = param;
    }
    return true;
}

/* |nest| is a copy of nest |at|, or what it is with the expressions of others' values. */
static bool take_nest(const regions *r, int at, bl_nest *nest)
{
    bl_nest now;
    region g;
    int to = 0;

    if (!is_region(r, at, nest, &g) || !move_loops(r, &g) || (to = find_time(r, &g, g.at)) < 0 || !build(r, &g, &now))
        return false;
    memmove(&r->schedule->nests[g.at], &r->schedule->nests[g.at + 1], (size_t)(to - g.at) * sizeof now);
    r->schedule->nests[to] = now;
    for (int k = 0; k < g.nstores; k++)
        r->in_place[g.root[k]] = true;
    return rename_places(r, &g);
}

static bool stores_update(const regions *r, const bl_nest *nest)
{
    bool any = false;
    for (int i = 0; i < r->nroots && !any; i++)
        any = r->state[i] >= 0 && uses(nest, r->schedule->root_place[i], true);
    return any;
}

static bool take(const regions *r, int at)
{
    int before = r->schedule->nnests;
    bl_nest copy;

    if (!stores_update(r, &r->schedule->nests[at]))
        return false;
    if (sched_copy_nest(r->ir, &r->schedule->nests[at], &copy) && take_nest(r, at, &copy))
        return true;
    at += r->schedule->nnests - before; /* nests may stand before it now */
    return sched_read_through(r->ir, r->schedule, at, &copy) && take_nest(r, at, &copy);
}

/* Stores of one nest to parts of several states, which differ in where they are. */
static bool has_regions(const regions *r, int at)
{
    const bl_nest *nest = &r->schedule->nests[at];
    region g;
    bool all = nest->sink->op == BL_OP_SINK && nest->sink->nsrc > 1;

    for (uint32_t i = 0; i < nest->sink->nsrc && all; i++) {
        bl_nest one = *nest;
        one.sink = bl_sink(r->ir, 1, &nest->sink->src[i]);
        all = is_region(r, at, &one, &g);
    }
    return all;
}

bl_status bl_schedule_in_place(bl_ir *ir, bl_schedule *schedule, int nroots, const int *state, bool *in_place, bl_err *err)
{
    sched_lasts lasts = {0};
    regions r = {ir, schedule, nroots, state, in_place, &lasts};
    bool any = false;

    for (int i = 0; i < schedule->nnests;) {
        int before = schedule->nnests;
        bool taken = take(&r, i);
        if (!taken && schedule->nnests == before && stores_update(&r, &schedule->nests[i]) && has_regions(&r, i) &&
            sched_split_stores(ir, schedule, i))
            continue;
        any = any || taken || schedule->nnests > before;
        i += schedule->nnests - before + (taken ? 0 : 1); /* another may stand there now */
    }
    if (any)
        sched_drop_unread(schedule);
    return bl_ir_status(ir, err);
}
