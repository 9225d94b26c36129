/* SPDX-License-Identifier: MIT */
/* Stores to computed places of a state.  The front end has no scatter: an element of index_put(state, values, index) is, for the
 * place p of the element,
 *
 *     latest(p) = max over j of (index[j] == p ? j : -1)
 *     where(latest(p) < 0, state[p], values[latest(p)])
 *
 * which visits all places.  Stored into the state itself, only places that some index[j] names change, and the loop over places
 * becomes a loop over j that stores values[j] to index[j].  Of several j with one index the last counts, so j stores nothing
 * unless latest(index[j]) == j: every place is stored at most once, and no order of iterations matters.
 *
 * After scheduling, |latest| is a buffer that the nests of all states with one index read.  sched_read_through puts its
 * expression in place of the LOAD, and sched_drop_unread drops the nest that filled the buffer.  From FEW_KEYS indices on, the
 * comparisons that find the last j of equal indices are one nest, and the nests of all states read its result. */
#include "engine/base/size.h"

#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/sched/sched_internal.h"

#include <string.h>

enum {
    MOST_PARAMS = 32, /* bits of bl_nest.writes */
    FEW_KEYS = 33     /* fewer keys are compared at each use, in each nest */
};

static bool scatter_store_is_used(const bl_nest *nest, int place, bool writes)
{
    for (int k = 0; k < nest->nparams; k++) {
        if (nest->param[k] == place && (nest->writes >> k & 1) == writes)
            return true;
    }
    return false;
}

/* |node| with BUFFERs numbered as places instead of as parameters of |nest|. */
static const bl_node *by_places(bl_ir *ir, const bl_nest *nest, const bl_node *node)
{
    bl_nodes below = bl_reach(ir, 1, &node, false);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *buffer = below.at[i];
        if (buffer->op == BL_OP_BUFFER && buffer->sub == 0)
            bl_ptrmap_put(&to, buffer, bl_param(ir, nest->param[buffer->arg], (bl_dtype)buffer->dtype, false));
    }
    return bl_substitute(ir, node, &to);
}

/* ---- the expression of a buffer in place of its LOAD */

/* The only nest that stores to |place|, if it runs before nest |at|; or -1. */
static int find_producer(const bl_schedule *schedule, int place, int at)
{
    int found = -1;
    for (int i = 0; i < schedule->nnests; i++) {
        if (!scatter_store_is_used(&schedule->nests[i], place, true))
            continue;
        if (found >= 0 || i >= at)
            return -1;
        found = i;
    }
    return found;
}

/* Does nothing that |producer| reads change before nest |at| runs? */
static bool reads_the_same(const bl_schedule *schedule, int producer, int at)
{
    const bl_nest *nest = &schedule->nests[producer];
    for (int i = producer + 1; i < at; i++) {
        for (int k = 0; k < nest->nparams; k++) {
            if ((nest->writes >> k & 1) == 0 && scatter_store_is_used(&schedule->nests[i], nest->param[k], true))
                return false;
        }
    }
    return true;
}

static bool is_inside_loop(const bl_schedule *schedule, int nest)
{
    for (int i = 0; i < schedule->nloops; i++) {
        if (schedule->loops[i].first <= nest && nest < schedule->loops[i].end)
            return true;
    }
    return false;
}

/* The number of the parameter of |nest| for |place|, which is added if it is missing; -1 if there are too many. */
static int scatter_store_param_of(bl_nest *nest, int *param, int place)
{
    for (int k = 0; k < nest->nparams; k++) {
        if (param[k] == place)
            return k;
    }
    if (nest->nparams == MOST_PARAMS)
        return -1;
    param[nest->nparams] = place;
    return nest->nparams++;
}

/* The value of the STORE of |from| to |place| as an expression of |index|, which replaces the only RANGE of the STORE.
 * BUFFERs are numbered as parameters of |nest|. NULL if that is not possible. */
static const bl_node *stored_value(bl_ir *ir, const bl_nest *from, int place, const bl_node *index, bl_nest *nest, int *param)
{
    const bl_node *store = NULL;
    bl_nodes below;
    bl_ptrmap to;

    for (uint32_t i = 0; i < from->sink->nsrc; i++) {
        if (from->param[from->sink->src[i]->src[0]->arg] == place)
            store = from->sink->src[i];
    }
    if (store == NULL || store->nsrc != 3 || store->src[1]->op != BL_OP_RANGE)
        return NULL;
    below = bl_reach(ir, 1, &store->src[2], false);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *buffer = below.at[i];
        int number = 0;
        if (buffer->op == BL_OP_STAGE || (buffer->op == BL_OP_BUFFER && buffer->sub != 0))
            return NULL;
        if (buffer->op != BL_OP_BUFFER)
            continue;
        number = scatter_store_param_of(nest, param, from->param[buffer->arg]);
        if (number < 0)
            return NULL;
        bl_ptrmap_put(&to, buffer, bl_param(ir, number, (bl_dtype)buffer->dtype, false));
    }
    bl_ptrmap_put(&to, store->src[1], index);
    return bl_substitute(ir, store->src[2], &to);
}

bool sched_copy_nest(bl_ir *ir, const bl_nest *nest, bl_nest *out)
{
    int *param = bl_arena_array(bl_ir_arena(ir), MOST_PARAMS, sizeof *param);
    if (param == NULL || nest->nparams > MOST_PARAMS)
        return false;
    memcpy(param, nest->param, (size_t)nest->nparams * sizeof *param);
    *out = *nest;
    out->param = param;
    return true;
}

bool sched_read_through(bl_ir *ir, const bl_schedule *schedule, int at, bl_nest *out)
{
    const bl_nest *nest = &schedule->nests[at];
    bl_nodes below = bl_reach(ir, 1, &nest->sink, false);
    int *param = NULL;
    bool any = false;
    bl_ptrmap to;

    if (is_inside_loop(schedule, at) || !sched_copy_nest(ir, nest, out))
        return false;
    param = (int *)(uintptr_t)out->param;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *load = below.at[i], *value = NULL;
        int place = 0, producer = -1;
        if (load->op != BL_OP_LOAD || load->nsrc != 2 || load->src[0]->op != BL_OP_BUFFER || load->src[0]->sub != 0 ||
            bl_dtype_is_float((bl_dtype)load->dtype))
            continue;
        place = nest->param[load->src[0]->arg];
        producer = schedule->places[place].kind == BL_PLACE_TEMP ? find_producer(schedule, place, at) : -1;
        if (producer < 0 || is_inside_loop(schedule, producer) || !reads_the_same(schedule, producer, at))
            continue;
        value = stored_value(ir, &schedule->nests[producer], place, load->src[1], out, param);
        if (value == NULL)
            continue;
        bl_ptrmap_put(&to, load, value);
        any = true;
    }
    if (any)
        out->sink = bl_substitute(ir, nest->sink, &to);
    return any && out->sink->op == BL_OP_SINK;
}

bool sched_split_stores(bl_ir *ir, bl_schedule *schedule, int at)
{
    bl_nest whole = schedule->nests[at];
    int more = (int)whole.sink->nsrc - 1;
    bl_nest *nests = bl_arena_array(bl_ir_arena(ir), (size_t)(schedule->nnests + more), sizeof *nests);

    if (nests == NULL || more < 1 || is_inside_loop(schedule, at))
        return false;
    memcpy(nests, schedule->nests, (size_t)at * sizeof *nests);
    memcpy(nests + at + 1 + more, schedule->nests + at + 1, (size_t)(schedule->nnests - at - 1) * sizeof *nests);
    for (int i = 0; i <= more; i++) {
        const bl_node *store = by_places(ir, &whole, whole.sink->src[i]), *sink = bl_sink(ir, 1, &store);
        if (whole.sink->sub == BL_PRECISION_HIGH)
            sink = bl_sink_relax(ir, sink);
        nests[at + i] = (bl_nest){.sink = sink, .name = sched_nest_name(ir, sink)};
        sched_bind_params(ir, &nests[at + i]);
    }
    schedule->nests = nests;
    schedule->nnests += more;
    for (int j = 0; j < schedule->nloops; j++) {
        schedule->loops[j].first += schedule->loops[j].first > at ? more : 0;
        schedule->loops[j].end += schedule->loops[j].end > at ? more : 0;
    }
    return true;
}

void sched_drop_unread(bl_schedule *schedule)
{
    for (int i = schedule->nnests; i-- > 0;) {
        const bl_nest *nest = &schedule->nests[i];
        bool read = is_inside_loop(schedule, i);
        for (int k = 0; k < nest->nparams && !read; k++) {
            if ((nest->writes >> k & 1) == 0)
                continue;
            read = schedule->places[nest->param[k]].kind != BL_PLACE_TEMP;
            for (int j = 0; j < schedule->nloops; j++)
                for (int c = 0; c < schedule->loops[j].ncarries; c++)
                    read = read || schedule->loops[j].carries[c].init == nest->param[k];
            for (int j = 0; j < schedule->nnests; j++)
                read = read || scatter_store_is_used(&schedule->nests[j], nest->param[k], false);
        }
        if (read)
            continue;
        memmove(&schedule->nests[i], &schedule->nests[i + 1], (size_t)(schedule->nnests - i - 1) * sizeof *nest);
        schedule->nnests--;
        for (int j = 0; j < schedule->nloops; j++) {
            schedule->loops[j].first -= schedule->loops[j].first > i;
            schedule->loops[j].end -= schedule->loops[j].end > i;
        }
    }
}

/* ---- which places are computed */

/* |place| as a mixed-radix number of RANGEs: range[k] has steps of step[k], and each number from 0 below |count| occurs once. */
static bool take_radix(const bl_node *place, sched_scatter *out)
{
    bl_affine sum;

    out->count = 1;
    if (!bl_affine_of(&sum, place) || sum.count < 1 || sum.count > BL_MAX_DIMS || sum.constant != 0)
        return false;
    for (int k = 0; k < sum.count; k++) {
        out->range[k] = sum.at[k].node;
        out->step[k] = sum.at[k].coefficient;
    }
    for (int done = 0; done < sum.count; done++) {
        int next = -1;
        for (int k = 0; k < sum.count; k++)
            next = out->step[k] == out->count && out->range[k]->op == BL_OP_RANGE ? k : next;
        if (next < 0 || !bl_is_const(out->range[next]->src[0]) ||
            !bl_i64_mul(out->count, out->range[next]->src[0]->arg, &out->count))
            return false;
    }
    out->nranges = sum.count;
    return true;
}

static bool is_range_beside(const bl_node *node, const void *turn)
{
    return node->op == BL_OP_RANGE && node != turn;
}

/* |equal| as key == place. */
static bool take_equal(bl_ir *ir, const bl_node *equal, const bl_node *turn, sched_scatter *out)
{
    for (int side = 0; side < 2 && equal->op == BL_OP_CMPEQ; side++) {
        const bl_node *place = equal->src[side], *key = equal->src[1 - side];
        if (place->op == BL_OP_CAST && bl_dtype_is_int((bl_dtype)place->dtype) && place->dtype != BL_U64 &&
            place->lo == place->src[0]->lo && place->hi == place->src[0]->hi)
            place = place->src[0];
        out->key = key;
        if (place->dtype == BL_INDEX && key->dtype == equal->src[side]->dtype &&
            bl_find(ir, 1, &key, is_range_beside, turn) == NULL && take_radix(place, out))
            return true;
    }
    return false;
}

/* |fold| as max over j of (key(j) == place ? j : -1). */
static bool take_latest(bl_ir *ir, const bl_node *fold, sched_scatter *out)
{
    const bl_node *where = fold->src[0];

    if (fold->op != BL_OP_REDUCE || fold->sub != BL_OP_MAX || fold->arg != 1 || fold->nsrc != 2 || where->op != BL_OP_WHERE ||
        where->src[1]->op != BL_OP_CAST || where->src[1]->src[0] != fold->src[1] || !bl_is_const(where->src[2]) ||
        where->src[2]->hi != -1 || where->src[2]->lo != -1)
        return false;
    out->latest = fold;
    return take_equal(ir, where->src[0], fold->src[1], out);
}

bool sched_find_scatter(bl_ir *ir, const bl_clauses *all, sched_scatter *out)
{
    for (int i = 0; i < all->count; i++) {
        const bl_node *clause = all->at[i], *less = clause->op == BL_OP_NOT ? clause->src[0] : clause;
        *out = (sched_scatter){.clause = clause};
        if (clause->op == BL_OP_NOT && less->op == BL_OP_CMPLT && bl_is_const(less->src[1]) && less->src[1]->lo == 0 &&
            less->src[1]->hi == 0 && take_latest(ir, less->src[0], out))
            return true;
        if (take_equal(ir, clause, NULL, out) && out->nranges > 1)
            return true;
    }
    return false;
}

/* ---- which of equal indices is the last */

/* The largest j with key(j) == key(|turn|), by a loop over all j. */
static const bl_node *last_equal(bl_ir *ir, const sched_scatter *s, const bl_node *key, const bl_node *turn)
{
    const bl_node *where = s->latest->src[0], *range = s->latest->src[1];
    const bl_node *equal = bl_alu2(ir, BL_OP_CMPEQ, key, bl_replace(ir, key, range, turn));
    const bl_node *value = bl_where(ir, equal, where->src[1], where->src[2]);
    return bl_reduce_over(ir, BL_OP_MAX, 1, &value, 1, &range);
}

/* Add a place for |count| int32 and, as nest |at|, the nest that stores |value| there. Returns the number of the place, or -1
 * without memory. */
static int add_store(bl_ir *ir, bl_schedule *schedule, int at, const bl_node *value, const bl_node *range)
{
    bl_arena *arena = bl_ir_arena(ir);
    int place = schedule->nplaces;
    bl_place *places = bl_arena_array(arena, (size_t)place + 1, sizeof *places);
    bl_nest *nests = bl_arena_array(arena, (size_t)schedule->nnests + 1, sizeof *nests);
    const bl_node *store = bl_store(ir, bl_param(ir, place, (bl_dtype)value->dtype, false), range, value, NULL);

    if (places == NULL || nests == NULL)
        return -1;
    memcpy(places, schedule->places, (size_t)place * sizeof *places);
    places[place] = (bl_place){.kind = BL_PLACE_TEMP, .dtype = (bl_dtype)value->dtype, .count = range->src[0]};
    memcpy(nests, schedule->nests, (size_t)at * sizeof *nests);
    memcpy(nests + at + 1, schedule->nests + at, (size_t)(schedule->nnests - at) * sizeof *nests);
    nests[at] = (bl_nest){.sink = bl_sink(ir, 1, &store)};
    nests[at].name = sched_nest_name(ir, nests[at].sink);
    schedule->places = places;
    schedule->nests = nests;
    schedule->nplaces++;
    schedule->nnests++;
    sched_bind_params(ir, &nests[at]);
    for (int j = 0; j < schedule->nloops; j++) {
        schedule->loops[j].first += schedule->loops[j].first >= at;
        schedule->loops[j].end += schedule->loops[j].end > at;
    }
    return place;
}

const bl_node *sched_scatter_is_last(bl_ir *ir, bl_schedule *schedule, const sched_scatter *s, sched_lasts *lasts, bl_nest *nest,
                                     int *at, const bl_node *turn)
{
    const bl_node *last = NULL, *value = NULL, *range = s->latest->src[1];
    int place = -1, number = 0;

    if (range->hi < FEW_KEYS) {
        last = last_equal(ir, s, s->key, turn);
        return bl_alu2(ir, BL_OP_CMPEQ, last, bl_cast(ir, (bl_dtype)last->dtype, turn));
    }
    value = last_equal(ir, s, by_places(ir, nest, s->key), bl_range(ir, 0, BL_AXIS_LOOP, range->src[0]));
    for (int i = 0; i < lasts->count; i++)
        place = lasts->value[i] == value ? lasts->place[i] : place;
    if (place < 0 && lasts->count < SCHED_MOST_LASTS) {
        place = add_store(ir, schedule, *at, value, bl_range(ir, 0, BL_AXIS_LOOP, range->src[0]));
        lasts->value[lasts->count] = value;
        lasts->place[lasts->count++] = place;
        *at += place >= 0;
    }
    number = place >= 0 ? scatter_store_param_of(nest, (int *)(uintptr_t)nest->param, place) : -1;
    if (number < 0)
        return NULL;
    last = bl_load(ir, bl_param(ir, number, (bl_dtype)value->dtype, false), turn, NULL);
    return bl_alu2(ir, BL_OP_CMPEQ, last, bl_cast(ir, (bl_dtype)last->dtype, turn));
}
