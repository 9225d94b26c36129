/* SPDX-License-Identifier: MIT */
#include "engine/sched/schedule.h"

#include "engine/ir/shape.h"
#include "engine/ir/structure.h"
#include "engine/sched/sched_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_CHANGES =
        4,        /* changes of one value over all rounds: inline, in a stage, inline again, in a buffer; each round makes one */
    FEW_OFTEN = 8 /* up to this many values that are met at too many indices get buffers one at a time */
};

static bl_status schedule_init(sched *s, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    size_t n = 0;

    s->order = bl_reach(s->ir, s->nroots, s->roots, false);
    n = s->order.count;
    bl_ptrmap_init(&s->position, arena);
    bl_ptrmap_init(&s->origin, arena);
    bl_ptrmap_init(&s->bounded, arena);
    bl_ptrmap_init(&s->memo, arena);
    s->nusers = bl_arena_array(arena, n, sizeof *s->nusers);
    s->user = bl_arena_array(arena, n, sizeof *s->user);
    s->realised = bl_arena_array(arena, n, sizeof *s->realised);
    s->weight = bl_arena_array(arena, n, sizeof *s->weight);
    s->store_at = bl_arena_array(arena, n, sizeof(stored *));
    s->builds = (builds){.built_as = bl_arena_array(arena, n, sizeof *s->builds.built_as),
                         .changed = bl_arena_array(arena, n, sizeof *s->builds.changed),
                         .often = bl_arena_array(arena, n, sizeof *s->builds.often),
                         .reached = bl_arena_array(arena, n, sizeof *s->builds.reached)};
    s->round_marked = bl_arena_array(arena, n, sizeof *s->round_marked);
    s->is_root = bl_arena_array(arena, n, sizeof *s->is_root);
    s->unstageable = bl_arena_array(arena, n, sizeof *s->unstageable);
    s->costly_again = bl_arena_array(arena, n, sizeof *s->costly_again);
    s->phases_share = bl_arena_array(arena, n, sizeof *s->phases_share);
    s->stage_number = bl_arena_array(arena, n, sizeof *s->stage_number);
    BL_TRY(bl_ir_status(s->ir, err));
    for (size_t i = 0; i < n; i++)
        bl_ptrmap_put_number(&s->position, s->order.at[i], i + 1);
    BL_TRY(bl_arena_status(arena, err)); /* from here on every node has a position */
    for (int i = 0; i < s->nroots; i++)
        s->is_root[sched_position(s, s->roots[i])] = true;
    return BL_OK;
}

/* The element of the node at the canonical loops, which cover its extents. */
static void canonical_index(sched *s, stored *st, const bl_node **index)
{
    const bl_node *node = st->node;
    st->nranges = 0;
    for (int i = 0; i < node->ndim; i++) {
        index[i] = bl_index(s->ir, 0);
        if (bl_is_int(node->dim[i], 1))
            continue;
        index[i] = bl_range(s->ir, bl_loop_pack(BL_LEVEL_OUTPUTS, st->nranges), BL_AXIS_LOOP, node->dim[i]);
        st->range[st->nranges++] = index[i];
    }
}

int sched_place(const sched *s, const bl_node *node)
{
    if (node->op == BL_OP_INPUT)
        return (int)node->arg;
    return s->ninputs + (int)(s->store_at[sched_position(s, node)] - s->stored);
}

const bl_node *sched_buffer(const sched *s, const bl_node *node)
{
    int number = node->op == BL_OP_INPUT ? (int)node->arg : s->ninputs + sched_position(s, node);
    return bl_param(s->ir, number, (bl_dtype)node->dtype, false);
}

stored *sched_stored(const sched *s, const bl_node *buffer)
{
    if (buffer->op != BL_OP_BUFFER || buffer->sub != 0 || buffer->arg < s->ninputs)
        return NULL;
    return s->store_at[buffer->arg - s->ninputs];
}

/* ---- building stores */

static void build_store(sched *s, stored *st)
{
    const bl_node *index[BL_MAX_DIMS], *both[2];

    *st = (stored){.node = st->node, .is_root = st->is_root, .offset = sched_offset(s, st->node), .built = ++s->builds.count};
    s->builds.noften = 0;
    /* an input that is a root too is copied */
    st->buffer = bl_param(s->ir, s->ninputs + sched_position(s, st->node), (bl_dtype)st->node->dtype, false);
    if (sched_is_loop(st->node)) {
        sched_build_loop_store(s, st);
        return;
    }

    bl_ptrmap_clear(&s->memo);
    s->prefix = 0;
    canonical_index(s, st, index);
    st->index = sched_flat_index(s->ir, st->node->ndim, st->node->dim, index);
    if (st->offset != NULL)
        st->index = bl_add(s->ir, st->offset, st->index);
    st->value = sched_fresh(s, st->node, index, NULL);
    st->prefix = s->prefix;
    both[0] = st->index;
    both[1] = st->value;
    st->below = bl_reach(s->ir, 2, both, false);
}

static void note_change(sched *s, int position)
{
    s->builds.built_as[position] = s->realised[position];
    s->builds.changed[position] = s->builds.count + 1;
}

/* The build of |st| gave buffers to the values that it computed at too many indices.  Keep the buffers that |st| still reads: the
 * stores of these buffers compute the other values.  If there are few such values, keep only the last buffer, because one buffer
 * often makes another unnecessary.  False if there was no such value: the build is complete. */
static bool keep_topmost(sched *s, const stored *st)
{
    builds *b = &s->builds;
    int last = sched_position(s, st->node), first = last;

    if (b->noften == 0)
        return false;
    for (int i = 0; i < b->noften; i++)
        first = b->often[i] < first ? b->often[i] : first;
    memset(b->reached + first, 0, (size_t)(last - first) * sizeof *b->reached);
    b->reached[last] = true;
    for (int at = last; at >= first; at--) {
        const bl_node *node = s->order.at[at];
        bool computed = b->reached[at] && (at == last || s->realised[at] != BUFFERED);
        for (uint32_t i = 0; computed && i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from >= first)
                b->reached[from] = true;
        }
    }
    for (int i = 0; i < b->noften; i++) {
        if (b->noften > FEW_OFTEN ? b->reached[b->often[i]] : i == b->noften - 1)
            note_change(s, b->often[i]);
        else
            s->realised[b->often[i]] = INLINE;
    }
    sched_weigh(s, first, last);
    return true;
}

/* A store of the value at |position|.  Values that the store would compute at too many indices get buffers first. */
static stored *make_store(sched *s, int position)
{
    stored *st = bl_arena_alloc(bl_ir_arena(s->ir), sizeof *st);

    if (st == NULL)
        return NULL;
    *st = (stored){.node = s->order.at[position], .is_root = s->is_root[position]};
    do
        build_store(s, st);
    while (keep_topmost(s, st) && bl_ir_status(s->ir, &(bl_err){0}) == BL_OK);
    return st;
}

static bool has_store(const sched *s, int position)
{
    return s->realised[position] != INLINE && s->realised[position] != STAGED;
}

/* By position: the number of the first build after the last change of any value that the store of the value computes or reads. */
static int *find_changes(sched *s)
{
    builds *b = &s->builds;
    int *newest = bl_arena_array(bl_ir_arena(s->ir), s->order.count, sizeof *newest);

    for (int at = 0; newest != NULL && at < (int)s->order.count; at++) {
        const bl_node *node = s->order.at[at];
        if (b->built_as[at] != s->realised[at])
            note_change(s, at);
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]), change = from < 0 ? 0 : b->changed[from];
            if (from >= 0 && s->realised[from] != BUFFERED && newest[from] > change)
                change = newest[from];
            newest[at] = change > newest[at] ? change : newest[at];
        }
    }
    return newest;
}

/* Copy the stores to one array, in the order of their values. */
static void line_up(sched *s)
{
    size_t n = s->order.count;
    int count = 0;

    for (size_t at = 0; at < n; at++)
        count += s->store_at[at] != NULL;
    s->stored = bl_arena_array(bl_ir_arena(s->ir), (size_t)count + 1, sizeof *s->stored);
    s->nstored = 0;
    for (size_t at = 0; s->stored != NULL && at < n; at++) {
        stored *st = &s->stored[s->nstored];
        if (s->store_at[at] == NULL)
            continue;
        *st = *s->store_at[at];
        s->store_at[at] = st;
        s->nstored++;
    }
}

/* Build the stores of all values with a buffer, users first: a value that gets a buffer on the way is stored in the same round.
 * True if stores that were built before may compute such a value themselves. */
static bool build_stores(sched *s)
{
    int *newest = find_changes(s);
    int before = s->builds.count;
    bool again = false;

    s->rebuild = false;
    for (int at = newest == NULL ? 0 : (int)s->order.count; at-- > 0;) {
        stored *st = s->store_at[at];
        if (!has_store(s, at))
            s->store_at[at] = NULL;
        else if (st == NULL || newest[at] > st->built)
            s->store_at[at] = make_store(s, at);
    }
    for (size_t at = 0; at < s->order.count; at++)
        again = again || s->builds.changed[at] > before + 1;
    line_up(s);
    return again || s->rebuild;
}

const char *sched_nest_name(bl_ir *ir, const bl_node *sink)
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

/* A buffer of a nest, and the key that decides its number. */
typedef struct bound {
    const bl_node *buffer;
    uint64_t where; /* the buffer is read: the sum of the hashes of its LOADs */
} bound;

/* Number the stored buffers first, in the order of the stores; then the read buffers, by their indices. The order of ids is
 * not used: the kernels of one nest are then the same in every graph, and the results of a search
 * (engine/search/kernel_store.h) serve all graphs. */
static int order_buffers(bl_ir *ir, const bl_node *sink, const bl_nodes *below, bound *out)
{
    bl_structure structure;
    bool hashed = bl_structure_init(&structure, ir, sink, false);
    int n = 0, nstored = 0;

    for (uint32_t i = 0; i < sink->nsrc; i++) {
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen = seen || out[k].buffer == sink->src[i]->src[0];
        if (!seen)
            out[n++] = (bound){.buffer = sink->src[i]->src[0]};
    }
    nstored = n;
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        bound b = {.buffer = node};
        int at = 0;
        if (node->op != BL_OP_BUFFER || node->sub != 0) /* local memory is no parameter */
            continue;
        while (at < n && out[at].buffer != node)
            at++;
        if (at < n)
            continue;
        for (size_t k = i; hashed && k < below->count; k++)
            b.where +=
                below->at[k]->op == BL_OP_LOAD && below->at[k]->src[0] == node ? bl_structure_get(&structure, below->at[k]) : 0;
        for (at = n++; at > nstored && out[at - 1].where > b.where; at--)
            out[at] = out[at - 1];
        out[at] = b;
    }
    return n;
}

void sched_bind_params(bl_ir *ir, bl_nest *nest)
{
    bl_nodes below = {0};
    nest->sink = sched_number_stages(ir, nest->sink);
    below = bl_reach(ir, 1, &nest->sink, false);
    int *param = bl_arena_array(bl_ir_arena(ir), below.count, sizeof *param);
    bound *bounds = bl_arena_array(bl_ir_arena(ir), below.count, sizeof *bounds);
    bl_ptrmap to;

    if (param == NULL || bounds == NULL)
        return;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    nest->nparams = order_buffers(ir, nest->sink, &below, bounds);
    for (int i = 0; i < nest->nparams; i++) {
        const bl_node *buffer = bounds[i].buffer;
        bl_ptrmap_put(&to, buffer, bl_param(ir, i, (bl_dtype)buffer->dtype, false));
        param[i] = (int)buffer->arg;
    }
    nest->param = param;
    nest->sink = bl_substitute(ir, nest->sink, &to);
    for (uint32_t i = 0; i < nest->sink->nsrc; i++)
        nest->writes |= UINT32_C(1) << nest->sink->src[i]->src[0]->arg;
}

/* Find the values that must be in memory. A value that only its own nest reads stays in a register. */
static void find_readers(sched *s)
{
    for (int i = 0; i < s->nstored; i++)
        s->stored[i].read_elsewhere = s->stored[i].is_root;
    for (int i = 0; i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        for (size_t k = 0; k < st->below.count; k++) {
            stored *from = sched_stored(s, st->below.at[k]);
            if (from != NULL && from->group != st->group)
                from->read_elsewhere = true;
        }
    }
}

/* The stores in |group|. A value that one store writes and another reads at the same element is passed in a register. NULL if
 * there are no stores. */
static const bl_node *group_sink(sched *s, int group)
{
    bl_ir *ir = s->ir;
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)s->nstored, sizeof *stores);
    bl_ptrmap forward;
    int n = 0;

    bl_ptrmap_init(&forward, bl_ir_arena(ir));
    for (int i = 0; stores != NULL && i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        const bl_node *value = NULL;
        if (st->group != group || st->value == NULL || st->joined ||
            bl_is_int(bl_shape_count(ir, st->node->ndim, st->node->dim), 0))
            continue;
        value = bl_substitute(ir, st->value, &forward);
        if (st->read_elsewhere || st->within != NULL)
            stores[n++] = bl_store(ir, st->buffer, st->index, value, NULL);
        bl_ptrmap_put(&forward, bl_load(ir, st->buffer, st->index, NULL), value);
    }
    return n == 0 ? NULL : bl_sink(ir, n, stores);
}

/* On devices with work-groups: nests with stages that have no form for groups use buffers instead. Returns how many values
 * get a buffer. */
static int limit_to_running(sched *s, int ngroups)
{
    int marked = 0;

    if (s->options->group_columns == 0 || s->nstaged == 0)
        return 0;
    find_readers(s);
    for (int g = 0; g < ngroups; g++) {
        const bl_node *sink = group_sink(s, g);
        if (sink != NULL && bl_find_op(s->ir, sink, BL_OP_STAGE) != NULL && sched_run(s, sink) == NULL)
            marked += sched_unstage(s, sink);
    }
    return marked;
}

/* Map the parameters of a nest from the numbers of buffers, which stores use while they are built, to places. */
static bool place_params(sched *s, bl_nest *nest)
{
    int *param = bl_arena_array(bl_ir_arena(s->ir), (size_t)nest->nparams + 1, sizeof *param);

    for (int i = 0; param != NULL && i < nest->nparams; i++) {
        int number = nest->param[i];
        param[i] = number < s->ninputs ? number : s->ninputs + (int)(s->store_at[number - s->ninputs] - s->stored);
    }
    nest->param = param;
    return param != NULL;
}

/* List the tensor nodes of which |group| computes some element. */
static void note_from(sched *s, int group, bl_nest *nest)
{
    bl_ptrmap seen;

    bl_ptrmap_init(&seen, bl_ir_arena(s->ir));
    nest->from = bl_arena_array(bl_ir_arena(s->ir), s->order.count + 1, sizeof *nest->from);
    for (int i = 0; nest->from != NULL && i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        for (size_t k = 0; st->group == group && k <= st->below.count; k++) {
            int at = k < st->below.count ? sched_origin(s, st->below.at[k]) : -1;
            const bl_node *node = k == st->below.count ? st->node : at >= 0 ? s->order.at[at] : NULL;
            /* the origin of a simplified op may be a constant, or the value of another tensor node */
            if (node == NULL || bl_ptrmap_has(&seen, node) || (node != st->node && node->op != st->below.at[k]->op))
                continue;
            bl_ptrmap_add(&seen, node);
            nest->from[nest->nfrom++] = node;
        }
    }
}

/* A loop is one node, independent of the nodes of its body. */
static void note_loop(sched *s, int first_nest, const bl_node *scan)
{
    const bl_node **from = bl_arena_array(bl_ir_arena(s->ir), 1, sizeof *from);

    for (int i = first_nest; from != NULL && i < s->out->nnests; i++) {
        from[0] = scan;
        s->out->nests[i].from = from;
        s->out->nests[i].nfrom = 1;
    }
}

/* One nest of |group|. */
static bool build_nest(sched *s, int group, bl_nest *nest)
{
    bl_ir *ir = s->ir;

    nest->sink = group_sink(s, group);
    if (nest->sink == NULL)
        return false;
    for (int i = 0; i < s->nstored; i++)
        nest->helper = nest->helper || (s->stored[i].group == group && bl_ptrmap_has(&s->halves, s->stored[i].node));
    if (s->options->group_columns > 0 && bl_find_op(ir, nest->sink, BL_OP_STAGE) != NULL)
        nest->sink = sched_run(s, nest->sink);
    if (nest->sink == NULL) {
        (void)bl_ir_fail(ir, BL_EBUG, "a nest has stages that do not fit in a group");
        return false;
    }
    if (s->options->precision == BL_PRECISION_HIGH)
        nest->sink = bl_sink_relax(ir, nest->sink);
    nest->name = sched_nest_name(ir, nest->sink);
    if (s->options->ntracked > 0)
        note_from(s, group, nest);
    sched_bind_params(ir, nest);
    return place_params(s, nest);
}

bool sched_add_place(sched *s, bl_place place)
{
    bl_schedule *out = s->out;
    if (!bl_arena_reserve(bl_ir_arena(s->ir), (void **)&out->places, out->nplaces, &s->cap_places, sizeof place))
        return false;
    out->places[out->nplaces++] = place;
    return true;
}

bool sched_add_nest(sched *s, const bl_nest *nest)
{
    bl_schedule *out = s->out;
    if (!bl_arena_reserve(bl_ir_arena(s->ir), (void **)&out->nests, out->nnests, &s->cap_nests, sizeof *nest))
        return false;
    out->nests[out->nnests++] = *nest;
    return true;
}

bool sched_add_loop(sched *s, bl_loop loop)
{
    bl_schedule *out = s->out;
    if (!bl_arena_reserve(bl_ir_arena(s->ir), (void **)&out->loops, out->nloops, &s->cap_loops, sizeof loop))
        return false;
    out->loops[out->nloops++] = loop;
    return true;
}

/* Inputs by slot, then stored values. */
static bool make_places(sched *s)
{
    for (int i = 0; i < s->ninputs + s->nstored; i++) {
        const bl_node *node = i < s->ninputs ? NULL : s->stored[i - s->ninputs].node;
        bl_place place = {.kind = BL_PLACE_INPUT, .index = i};
        if (node != NULL)
            place = (bl_place){
                .kind = BL_PLACE_TEMP, .dtype = (bl_dtype)node->dtype, .count = bl_shape_count(s->ir, node->ndim, node->dim)};
        for (int k = s->nroots - 1; node != NULL && k >= 0; k--) {
            if (s->roots[k] == node) {
                place.kind = BL_PLACE_ROOT;
                place.index = k;
            }
        }
        if (!sched_add_place(s, place))
            return false;
    }
    for (size_t i = 0; i < s->order.count; i++) {
        const bl_node *node = s->order.at[i];
        if (node->op == BL_OP_INPUT)
            s->out->places[node->arg].dtype = (bl_dtype)node->dtype;
    }
    return true;
}

/* The SCAN that is all of |group|, or NULL. */
static const bl_node *scan_of(const sched *s, int group)
{
    for (int i = 0; i < s->nstored; i++) {
        if (s->stored[i].group == group)
            return s->stored[i].node->op == BL_OP_SCAN ? s->stored[i].node : NULL;
    }
    return NULL;
}

static bl_status schedule_finish(sched *s, int ngroups, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    int *root_place = bl_arena_array(arena, (size_t)s->nroots + 1, sizeof *root_place);

    if (root_place == NULL || !make_places(s))
        return bl_arena_status(arena, err);
    for (int i = 0; i < s->nroots; i++)
        root_place[i] = s->ninputs + (int)(s->store_at[sched_position(s, s->roots[i])] - s->stored); /* an input too is copied */
    s->out->root_place = root_place;
    find_readers(s);
    sched_place_joins(s);
    for (int g = 0; g < ngroups; g++) {
        const bl_node *scan = scan_of(s, g);
        bl_nest nest = {0};
        int first_nest = s->out->nnests;
        if (scan != NULL) {
            BL_TRY(sched_add_scan(s, scan, err));
            if (s->options->ntracked > 0)
                note_loop(s, first_nest, scan);
        } else if (build_nest(s, g, &nest) && !sched_add_nest(s, &nest))
            break;
    }
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

/* Elements of each input. */
static bl_status schedule_count_elements(sched *s, bl_err *err)
{
    s->input_count = bl_arena_array(bl_ir_arena(s->ir), (size_t)s->ninputs + 1, sizeof *s->input_count);
    for (size_t i = 0; s->input_count != NULL && i < s->order.count; i++) {
        const bl_node *node = s->order.at[i];
        if (node->op == BL_OP_INPUT && !bl_shape_max_count(node->ndim, node->dim, &s->input_count[node->arg]))
            s->input_count[node->arg] = INT64_MAX;
    }
    return bl_arena_status(bl_ir_arena(s->ir), err);
}

/* The copy of a root for its |again|-th other place; the number keeps interned copies apart. */
static const bl_node *copy_root(bl_ir *ir, const bl_node *root, intptr_t again)
{
    bl_node proto = {.op = BL_OP_CONTIGUOUS,
                     .dtype = root->dtype,
                     .lanes = 1,
                     .nsrc = 1,
                     .src = &root,
                     .ndim = root->ndim,
                     .dim = root->dim,
                     .arg = again};
    return bl_node_make(ir, &proto);
}

/* Make each root a node of its own. A loop writes and reads whole places: a root that is a slice of its place becomes a copy
 * of the value that the loop writes or reads. */
static void schedule_take_roots(sched *s, const bl_node *const *given)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    bl_nodes all = s->offset == NULL ? (bl_nodes){0} : bl_reach(s->ir, s->nroots, given, false);
    bl_ptrmap times, loops; /* how often each root occurred; the values that loops write or read */

    bl_ptrmap_init(&times, arena);
    bl_ptrmap_init(&loops, arena);
    for (size_t i = 0; i < all.count; i++) {
        const bl_node *node = all.at[i];
        if (sched_is_loop(node))
            bl_ptrmap_add(&loops, node);
        for (uint32_t k = 0; node->op == BL_OP_SCAN && k < node->nsrc; k++)
            bl_ptrmap_add(&loops, node->src[k]);
    }
    for (int i = 0; i < s->nroots; i++) {
        uint64_t again = bl_ptrmap_number(&times, given[i]);
        bool slice = s->offset != NULL && s->offset[i] != NULL && bl_ptrmap_has(&loops, given[i]);
        bl_ptrmap_put_number(&times, given[i], again + 1);
        s->roots[i] = again == 0 && !slice ? given[i] : copy_root(s->ir, given[i], (int64_t)again + 1);
    }
}

bl_status sched_make(bl_ir *ir, int nroots, const bl_node *const *given, const bl_node *const *offset, int depth,
                     const bl_sched_options *options, bl_schedule **out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    sched s = {
        .ir = ir, .options = options, .round = 1, .depth = depth, .nroots = nroots, .offset = offset}; /* round 0: never marked */
    int ngroups = 0;
    bool open = true;

    *out = NULL;
    s.roots = bl_arena_array(arena, (size_t)nroots + 1, sizeof *s.roots);
    s.out = bl_arena_alloc(arena, sizeof *s.out);
    BL_TRY(bl_arena_status(arena, err));
    schedule_take_roots(&s, given);
    bl_ptrmap_init(&s.halves, arena);
    sched_split(&s, nroots, s.roots);
    BL_TRY(schedule_init(&s, err));
    s.ninputs = count_inputs(&s);
    BL_TRY(schedule_count_elements(&s, err));
    sched_mark_first(&s, nroots, s.roots);
    for (size_t round = 0; open && round < MOST_CHANGES * s.order.count + 1; round++) {
        bool again = build_stores(&s);
        BL_TRY(bl_ir_status(ir, err));
        if (again || sched_mark_more(&s) > 0)
            continue;
        ngroups = sched_group(&s);
        open = sched_mark_shared(&s, ngroups) > 0 || sched_stage(&s) > 0 || limit_to_running(&s, ngroups) > 0;
    }
    if (open)
        return bl_fail(err, BL_EBUG, "the scheduler did not reach a fixed point after %zu rounds",
                       MOST_CHANGES * s.order.count + 1);
    BL_TRY(schedule_finish(&s, ngroups, err));
    *out = s.out;
    return BL_OK;
}

bl_status bl_schedule_make(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_sched_options *options, bl_schedule **out,
                           bl_err *err)
{
    return sched_make(ir, nroots, roots, NULL, 0, options, out, err);
}
