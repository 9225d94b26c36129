/* SPDX-License-Identifier: MIT */
/* In-place update. A cache of keys and values is a state of which each step writes one position. As a value, the update is
 * the whole state: an element is new if its index is in the region, and else keeps its value. This pass turns the comparisons
 * that bound the region into the first and last iterations of the loops, and stores to the buffer of the state itself. That
 * is correct if
 * - the nest does nothing else, and reads the state only to keep it;
 * - no nest and no loop behind it reads the old state. The nest is moved behind the readers of the old state if no nest on
 *   the way needs its result.
 * If an index tensor names the changed elements, the loops over elements become one loop over the indices (scatter_store.c).
 * Needs: nests in the order they run. Keeps: values. Leaves: for each root that is its own state, an unused place.
 * A step with index checks updates nothing in place (plan/compile.c). A run that must keep the old state copies it first
 * (copy_states in plan/run_plan.c). */
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

/* A nest whose stores update parts of states. */
typedef struct region {
    bl_nest *nest;       /* a copy */
    int at;              /* its number */
    const bl_node *sink; /* of it */
    int nstores;
    int root[MOST_STORES];
    const bl_node *value[MOST_STORES];
    const bl_node *cond;   /* the condition under which an element changes, the same for all stores */
    bl_clauses used;       /* the clauses that the bounds of the loops imply now */
    const bl_node *inside; /* the region is inside the state; the bounds of nodes cannot express it */
    bool scatters;         /* the changed elements are named by index tensors, as |scatter| says */
    sched_scatter scatter;
    bl_ptrmap moved; /* RANGE -> the index of the iteration now */
} region;

/* ---- which elements change */

static const bl_node *yes(bl_ir *ir)
{
    return bl_const(ir, BL_BOOL, (bl_scalar){.u = 1});
}

/* The old element of the state that |store| writes, if |known| holds. */
static bool keeps(const bl_nest *nest, const bl_node *node, const bl_node *store, int state, const bl_clauses *known)
{
    bl_clauses gate = {0};
    bool held = true;

    while (node->op == BL_OP_WHERE && bl_clauses_hold(known, node->src[0])) /* the value of a pad outside its source */
        node = node->src[1];
    if (node->op != BL_OP_LOAD || node->src[0]->op != BL_OP_BUFFER || node->src[0]->sub != 0 ||
        nest->param[node->src[0]->arg] != state || node->src[1] != store->src[1])
        return false;
    held = bl_clauses_add(&gate, node->nsrc > 2 ? node->src[2] : NULL);
    for (int i = 0; i < gate.count; i++)
        held = held && bl_clauses_hold(known, gate.at[i]);
    return held;
}

/* The value of |store| as where(*cond, *value, old element). */
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

/* The root whose place is |place|, if it is the next value of a state that is read; else -1. A value that no nest reads has
 * no place: its number may be that of another value. */
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

/* Is nest |at| the only nest that stores to |place|? The parts of a concatenation may have a nest each (concat.c). */
static bool stores_all(const regions *r, int at, int place)
{
    bool all = true;
    for (int i = 0; i < r->schedule->nnests; i++)
        all = all && (i == at || !uses(&r->schedule->nests[i], place, true));
    return all;
}

/* Does the nest update the same part of states with all its stores? */
static bool is_region(const regions *r, int at, bl_nest *nest, region *g)
{
    const bl_node *sink = nest->sink;

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
static bool region_solve(bl_ir *ir, const bl_node *x, const bl_node *y, const bl_node *range, int *sign, const bl_node **rest)
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

/* If |clause| holds in at most one iteration of the loop: the number of that iteration, as an integer of any dtype; else
 * NULL. */
static const bl_node *only_turn(bl_ir *ir, const bl_node *clause, const bl_node *range)
{
    if (clause->op != BL_OP_CMPEQ)
        return NULL;
    for (int side = 0; side < 2; side++) {
        const bl_node *turn = clause->src[side], *other = clause->src[1 - side], *rest = NULL;
        int sign = 0;
        if (turn->dtype == BL_INDEX && region_solve(ir, turn, other, range, &sign, &rest))
            return sign > 0 ? bl_sub(ir, bl_index(ir, 0), rest) : rest;
        if (turn->op == BL_OP_CAST && bl_dtype_is_int((bl_dtype)turn->dtype) && turn->dtype != BL_U64 && turn->src[0] == range &&
            turn->lo == range->lo && turn->hi == range->hi && bl_find_op(ir, other, BL_OP_RANGE) == NULL)
            return other;
    }
    return NULL;
}

/* |turn| may be any integer. If it is not an iteration of the loop, nothing changes. */
static const bl_node *clamp(bl_ir *ir, region *g, const bl_node *turn, const bl_node *extent)
{
    bl_dtype from =
        (bl_dtype)turn->dtype; /* the bounds are checked before the conversion to an INDEX, which a device may hold in 32 bits */
    bl_dtype dtype = from == BL_INDEX ? BL_INDEX : bl_dtype_bytes(from) < 4 || from == BL_I32 ? BL_I32 : BL_I64;
    const bl_node *number = bl_cast(ir, dtype, turn), *end = bl_cast(ir, dtype, extent), *one = bl_const_int(ir, dtype, 1);
    const bl_node *low = bl_not(ir, bl_less(ir, number, bl_const_int(ir, dtype, 0)));

    g->inside = bl_and(ir, g->inside, bl_and(ir, low, bl_less(ir, number, end)));
    number = bl_alu2(ir, BL_OP_MIN, number, bl_sub(ir, end, one));
    return bl_cast(ir, BL_INDEX, bl_alu2(ir, BL_OP_MAX, number, bl_const_int(ir, dtype, 0)));
}

/* Bounds of a loop from comparisons: where the loop may begin or end, and the clause that says so. The first entry is the
 * loop's own bound. */
typedef struct bounds {
    int n;
    const bl_node *at[BL_MAX_CLAUSES + 1], *clause[BL_MAX_CLAUSES + 1];
} bounds;

static void add_bound(bounds *b, const bl_node *at, const bl_node *clause)
{
    b->at[b->n] = at;
    b->clause[b->n++] = clause;
}

/* The fewest iterations, *count from *first on, if all of them are certainly iterations of the loop. */
static bool region_narrow(bl_ir *ir, region *g, const bounds *from, const bounds *end, const bl_node *extent,
                          const bl_node **first, const bl_node **count)
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

/* The iterations of the loop over |range|, now number |number|, in which some element changes. Returns whether there are
 * fewer. */
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
            !region_solve(ir, clause->src[1], clause->src[0], range, &sign, &rest))
            continue;
        if (sign > 0) /* 0 < range + rest */
            add_bound(&from, bl_sub(ir, bl_index(ir, 1), rest), clause);
        else
            add_bound(&end, rest, clause);
    }
    if (!region_narrow(ir, g, &from, &end, extent, &first, &count)) {
        *at = bl_range(ir, bl_loop_pack(BL_LEVEL_OUTPUTS, number), BL_AXIS_LOOP, extent);
        return false;
    }
    *at = bl_is_int(count, 1) ? first
                              : bl_add(ir, first, bl_range(ir, bl_loop_pack(BL_LEVEL_OUTPUTS, number), BL_AXIS_LOOP, count));
    return true;
}

/* The loops over the positions that the keys name become one loop over the keys, number 0. Returns how many loops this
 * replaces; -1 if it is not possible. */
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

/* The loops around the stores, renumbered as the loops of values are; false if no loop is shorter now. */
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
    for (int slot = 0; slot < BL_AXIS_SLOTS; slot++) {
        for (int i = 0; i < free.nranges; i++) {
            const bl_node *range = free.range[i], *at = NULL;
            if ((set >> i & 1) == 0 || range->arg != bl_loop_pack(BL_LEVEL_OUTPUTS, slot) || bl_ptrmap_has(&g->moved, range))
                continue;
            any = move_loop(ir, g, &all, range, number, &at) || any;
            number += bl_find_op(ir, at, BL_OP_RANGE) != NULL;
            bl_ptrmap_put(&g->moved, range, at);
        }
    }
    return any;
}

/* ---- the nest that stores it */

/* |sink| with its parameters numbered as places and its stores directed to the states. NULL if the nest still reads one of
 * the states. */
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

/* False if the nest still reads one of the states. */
static bool region_build(const regions *r, const region *g, bl_nest *out)
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

/* May |nest| run after |other|, which runs after it now? */
static bool may_pass(const bl_nest *nest, const bl_nest *other)
{
    bool may = true;
    for (int k = 0; k < nest->nparams; k++)
        may = may && !uses(other, nest->param[k], true) && ((nest->writes >> k & 1) == 0 || !uses(other, nest->param[k], false));
    return may;
}

/* The position from which nest |at|, which stores |g|, can run: behind the last reader of the old states. -1 if there is
 * none. */
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

/* Nests that read the next value now read the state. */
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

/* |nest| is a copy of nest |at|, possibly with expressions of other nests' values in place of LOADs. */
static bool take_nest(const regions *r, int at, bl_nest *nest)
{
    bl_nest now;
    region g;
    int to = 0;

    if (!is_region(r, at, nest, &g) || !move_loops(r, &g) || (to = find_time(r, &g, g.at)) < 0 || !region_build(r, &g, &now))
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

static bool region_take(const regions *r, int at)
{
    int before = r->schedule->nnests;
    bl_nest copy;

    if (!stores_update(r, &r->schedule->nests[at]))
        return false;
    if (sched_copy_nest(r->ir, &r->schedule->nests[at], &copy) && take_nest(r, at, &copy))
        return true;
    at += r->schedule->nnests - before; /* nests may have been inserted before it */
    return sched_read_through(r->ir, r->schedule, at, &copy) && take_nest(r, at, &copy);
}

/* A nest that stores to several states whose changed parts differ. */
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
        bool taken = region_take(&r, i);
        if (!taken && schedule->nnests == before && stores_update(&r, &schedule->nests[i]) && has_regions(&r, i) &&
            sched_split_stores(ir, schedule, i))
            continue;
        any = any || taken || schedule->nnests > before;
        i += schedule->nnests - before + (taken ? 0 : 1); /* another nest may be there now */
    }
    if (any)
        sched_drop_unread(schedule);
    return bl_ir_status(ir, err);
}
