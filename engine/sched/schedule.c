/* SPDX-License-Identifier: MIT */
#include "engine/sched/schedule.h"

#include "engine/ir/shape.h"
#include "engine/sched/internal.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ROUNDS = 64 }; /* each marks something; a graph that needs more is cut enough to be right all the same */

static bl_status init(sched *s, int nroots, const bl_node *const *roots, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    size_t n = 0;

    s->order = bl_reach(s->ir, nroots, roots, false);
    n = s->order.count;
    bl_ptrmap_init(&s->position, arena);
    bl_ptrmap_init(&s->by_node, arena);
    bl_ptrmap_init(&s->origin, arena);
    bl_ptrmap_init(&s->memo, arena);
    s->nusers = bl_arena_array(arena, n, sizeof *s->nusers);
    s->user = bl_arena_array(arena, n, sizeof *s->user);
    s->realised = bl_arena_array(arena, n, sizeof *s->realised);
    s->weight = bl_arena_array(arena, n, sizeof *s->weight);
    s->stores_seen = bl_arena_array(arena, n, sizeof *s->stores_seen);
    s->last_store = bl_arena_array(arena, n, sizeof *s->last_store);
    s->round_marked = bl_arena_array(arena, n, sizeof *s->round_marked);
    s->is_root = bl_arena_array(arena, n, sizeof *s->is_root);
    BL_TRY(bl_ir_status(s->ir, err));
    for (size_t i = 0; i < n; i++)
        bl_ptrmap_put(&s->position, s->order.at[i], (void *)(uintptr_t)(i + 1));
    BL_TRY(bl_arena_status(arena, err)); /* from here on every node has a position */
    for (int i = 0; i < nroots; i++)
        s->is_root[sched_position(s, roots[i])] = true;
    return BL_OK;
}

/* Whole extents of the node's element at the canonical loops. */
static void canonical_index(sched *s, stored *st, const bl_node **index)
{
    const bl_node *node = st->node;
    st->nranges = 0;
    for (int i = 0; i < node->ndim; i++) {
        index[i] = bl_index(s->ir, 0);
        if (bl_is_int(node->dim[i], 1))
            continue;
        index[i] = bl_range(s->ir, st->nranges, BL_AXIS_LOOP, node->dim[i]);
        st->range[st->nranges++] = index[i];
    }
}

static void build_store(sched *s, int which, int first_place)
{
    stored *st = &s->stored[which];
    const bl_node *index[BL_MAX_DIMS], *both[2];

    bl_ptrmap_clear(&s->memo);
    s->building = which;
    s->seen_often = NULL;
    st->place = first_place + which;
    canonical_index(s, st, index);
    st->buffer = bl_param(s->ir, st->place, (bl_dtype)st->node->dtype, false);
    st->index = sched_flat_index(s->ir, st->node->ndim, st->node->dim, index);
    st->value = sched_fresh(s, st->node, index, NULL);
    both[0] = st->index;
    both[1] = st->value;
    st->below = bl_reach(s->ir, 2, both, false);
}

/* Build every store with the buffers marked so far.  True if a value is recomputed at too many indices: it was marked. */
static bool build_stores(sched *s, int first_place)
{
    size_t n = s->order.count;
    bool again = false;

    s->nstored = 0;
    bl_ptrmap_clear(&s->by_node);
    memset(s->stores_seen, 0, n * sizeof *s->stores_seen);
    s->stored = bl_arena_array(bl_ir_arena(s->ir), n + 1, sizeof *s->stored);
    if (s->stored == NULL)
        return false;
    s->stored[0].place = first_place;
    for (size_t i = 0; i < n; i++) {
        if (s->realised[i] == INLINE)
            continue;
        s->stored[s->nstored].node = s->order.at[i];
        s->stored[s->nstored].place = first_place + s->nstored;
        s->stored[s->nstored].is_root = s->is_root[i];
        s->nstored++;
        bl_ptrmap_put(&s->by_node, s->order.at[i], (void *)(intptr_t)s->nstored);
    }
    for (int i = 0; i < s->nstored; i++) {
        build_store(s, i, first_place);
        if (s->seen_often != NULL) {
            s->realised[sched_position(s, s->seen_often)] = BUFFERED;
            again = true;
        }
    }
    return again;
}

static const char *nest_name(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    char text[96];
    int len = 0;
    bool reduces = false;

    for (size_t i = 0; i < below.count; i++)
        reduces = reduces || below.at[i]->op == BL_OP_REDUCE;
    len = snprintf(text, sizeof text, "%s", reduces ? "r" : "e");
    for (int number = 0; number < BL_MAX_RANGES; number++) {
        for (size_t i = 0; i < below.count && len < (int)sizeof text - 24; i++) {
            const bl_node *node = below.at[i];
            if (node->op == BL_OP_RANGE && node->arg == number)
                len += snprintf(text + len, sizeof text - (size_t)len, "_%lld", (long long)(node->hi + 1));
        }
    }
    return bl_arena_strdup(bl_ir_arena(ir), text);
}

/* Number the buffers of |sink| from 0 in the order in which its nodes stand. */
static void bind_params(bl_ir *ir, bl_nest *nest)
{
    bl_nodes below = bl_reach(ir, 1, &nest->sink, false);
    int *param = bl_arena_array(bl_ir_arena(ir), below.count, sizeof *param);
    bl_ptrmap to;

    if (param == NULL)
        return;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_BUFFER)
            continue;
        bl_ptrmap_put(&to, node, (void *)(uintptr_t)bl_param(ir, nest->nparams, (bl_dtype)node->dtype, false));
        param[nest->nparams++] = (int)node->arg;
    }
    nest->param = param;
    nest->sink = bl_substitute(ir, nest->sink, &to);
    for (uint32_t i = 0; i < nest->sink->nsrc; i++)
        nest->writes |= UINT32_C(1) << nest->sink->src[i]->src[0]->arg;
}

/* Must |st| really be in memory?  Not if all who read it share its nest: they get it in a register. */
static bool is_read_elsewhere(const sched *s, const stored *st)
{
    for (int i = 0; i < s->nstored; i++) {
        const stored *other = &s->stored[i];
        for (size_t k = 0; other->group != st->group && k < other->below.count; k++) {
            if (other->below.at[k] == st->buffer)
                return true;
        }
    }
    return st->is_root;
}

/* One nest of the stores in |group|; what one stores and another reads at the same element is passed on in a register. */
static bool build_nest(sched *s, int group, bl_nest *nest)
{
    bl_ir *ir = s->ir;
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)s->nstored, sizeof *stores);
    bl_ptrmap forward;
    int n = 0;

    bl_ptrmap_init(&forward, bl_ir_arena(ir));
    for (int i = 0; stores != NULL && i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        const bl_node *value = NULL;
        if (st->group != group || bl_is_int(bl_shape_count(ir, st->node->ndim, st->node->dim), 0))
            continue;
        value = bl_substitute(ir, st->value, &forward);
        if (is_read_elsewhere(s, st))
            stores[n++] = bl_store(ir, st->buffer, st->index, value, NULL);
        bl_ptrmap_put(&forward, bl_load(ir, st->buffer, st->index, NULL), (void *)(uintptr_t)value);
        nest->helper = nest->helper || bl_ptrmap_has(&s->halves, st->node);
    }
    if (n == 0)
        return false;
    nest->sink = bl_sink(ir, n, stores);
    nest->name = nest_name(ir, nest->sink);
    bind_params(ir, nest);
    return true;
}

static void make_places(const sched *s, int nroots, const bl_node *const *roots, int ninputs, bl_schedule *out)
{
    for (size_t i = 0; i < s->order.count; i++) {
        const bl_node *node = s->order.at[i];
        if (node->op == BL_OP_INPUT)
            out->places[node->arg] = (bl_place){.kind = BL_PLACE_INPUT, .index = (int)node->arg, .dtype = (bl_dtype)node->dtype};
    }
    for (int i = 0; i < s->nstored; i++) {
        const bl_node *node = s->stored[i].node;
        bl_place *place = &out->places[ninputs + i];
        *place = (bl_place){
            .kind = BL_PLACE_TEMP, .dtype = (bl_dtype)node->dtype, .count = bl_shape_count(s->ir, node->ndim, node->dim)};
        for (int k = nroots - 1; k >= 0; k--) {
            if (roots[k] == node) {
                place->kind = BL_PLACE_ROOT;
                place->index = k;
            }
        }
    }
}

static bl_status finish(sched *s, int ngroups, int nroots, const bl_node *const *roots, int ninputs, bl_schedule *out,
                        bl_err *err)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    int *root_place = bl_arena_array(arena, (size_t)nroots, sizeof *root_place);

    out->places = bl_arena_array(arena, (size_t)(ninputs + s->nstored), sizeof *out->places);
    out->nests = bl_arena_array(arena, (size_t)ngroups, sizeof *out->nests);
    BL_TRY(bl_arena_status(arena, err));
    out->nplaces = ninputs + s->nstored;
    make_places(s, nroots, roots, ninputs, out);
    for (int i = 0; i < nroots; i++)
        root_place[i] = ninputs + (int)(intptr_t)bl_ptrmap_get(&s->by_node, roots[i]) - 1;
    out->root_place = root_place;
    for (int g = 0; g < ngroups; g++)
        out->nnests += build_nest(s, g, &out->nests[out->nnests]);
    return bl_ir_status(s->ir, err);
}

static int count_inputs(const sched *s)
{
    int n = 0;
    for (size_t i = 0; i < s->order.count; i++) {
        if (s->order.at[i]->op == BL_OP_INPUT && s->order.at[i]->arg >= n)
            n = (int)s->order.at[i]->arg + 1;
    }
    return n;
}

bl_status bl_schedule_make(bl_ir *ir, int nroots, const bl_node *const *given, const bl_sched_options *options, bl_schedule **out,
                           bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    sched s = {.ir = ir, .options = options, .round = 1}; /* round 0: never marked */
    const bl_node **roots = bl_arena_array(arena, (size_t)nroots, sizeof *roots);
    bl_schedule *made = bl_arena_alloc(arena, sizeof *made);
    int ninputs = 0, ngroups = 0;

    *out = NULL;
    BL_TRY(bl_arena_status(arena, err));
    for (int i = 0; i < nroots; i++)
        roots[i] = given[i];
    bl_ptrmap_init(&s.halves, arena);
    sched_split(&s, nroots, roots);
    BL_TRY(init(&s, nroots, roots, err));
    ninputs = count_inputs(&s);
    sched_mark_first(&s, nroots, roots);
    for (int round = 0; round < MOST_ROUNDS; round++) {
        bool again = build_stores(&s, ninputs);
        BL_TRY(bl_ir_status(ir, err));
        if (again || sched_mark_more(&s) > 0)
            continue;
        ngroups = sched_group(&s);
        if (sched_mark_shared(&s, ngroups) == 0)
            break;
    }
    ngroups = sched_group(&s);
    BL_TRY(finish(&s, ngroups, nroots, roots, ninputs, made, err));
    *out = made;
    return BL_OK;
}
