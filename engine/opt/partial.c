/* SPDX-License-Identifier: MIT */
/* The move partial: sums are computed as partial sums, which are kept in memory.
 *
 * global (split-K): a nest of long sums and few results has too few groups for the device, or its packed operand exceeds the
 * cache (tile.c).  Separate groups compute the partial sums and write them into a buffer.  A helper after the nest adds the
 * partial sums in the order of the parts, and computes the rest of the nest.  Results are therefore reproducible bit for bit,
 * unlike with float atomics.  The nest has one axis more.  Work-items, lanes, copies and matrix units are chosen for it as for
 * any other nest. The scheduler splits very long sums in the graph instead (sched/split_reduction.c).
 *
 * local (K-blocking): a long reduction is computed one block at a time.  The part of an operand that a register tile reads then
 * stays in a cache until the next tile reads it.  Between blocks, the sums of all tiles stay in local memory: a STAGE that folds.
 *
 * scatter: scatter_invert.c. */
#include "engine/ir/rewrite.h"
#include "engine/opt/staging.h"

enum {
    MOST_SUMS = 16,
    MOST_OUTPUTS = 4 /* loops over outputs inside a work-item */
};

typedef struct partial {
    bl_tune *tune;
    const bl_node *range; /* the axis of the reduction */
    int64_t parts, length;
    int nsums;
    const bl_node *sum[MOST_SUMS];
    int naxes; /* the axes of the results */
    const bl_node *axis[BL_MAX_AXES];
    const bl_node *count; /* results of one sum */
} partial;

bool tune_folds_over(bl_tune *tune, const bl_node *range)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);

    for (size_t i = 0; i < below.count; i++) {
        const bl_node *stage = below.at[i];
        if (stage->op != BL_OP_STAGE || !BL_STAGE_FOLDS(stage) || !bl_binds(stage, range))
            continue;
        for (int64_t k = 0; k < stage->arg; k++) {
            int64_t stride = 0; /* not constant for a scattered store */
            if (!bl_access_stride(tune, stage->src[k], range, &stride) || stride == 0)
                return true;
        }
    }
    return false;
}

int tune_new_number(const bl_tune *tune, int which)
{
    int last = BL_LEVEL_SUMS * BL_AXIS_SLOTS;
    for (int i = 0; i < tune->naxes; i++)
        last = bl_axis_origin(tune->axis[i].range) > last ? bl_axis_origin(tune->axis[i].range) : last;
    return bl_axis_pack((bl_axis_number){.slot = last + 1 + which});
}

const bl_node *tune_element_of(bl_ir *ir, const bl_node *array, int n, const bl_node *const *range, const bl_node *const *at)
{
    for (int i = 0; i < n; i++)
        array = bl_add(ir, bl_mul(ir, array, range[i]->src[0]), at[i]);
    return array;
}

/* ---- the sums */

/* Find all sums of the nest. False if one is inside another, or if they differ in axes, or if one is not over |range|. */
static bool find_sums(partial *p)
{
    bl_tune *tune = p->tune;
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);

    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op == BL_OP_STAGE || node->op == BL_OP_MATRIX)
            return false;
        if (node->op != BL_OP_REDUCE)
            continue;
        if (p->nsums == MOST_SUMS || node->arg != 1 || !bl_binds(node, p->range))
            return false;
        p->sum[p->nsums++] = node;
        if (node->dtype != p->sum[0]->dtype || bl_free_get(&tune->free, node) != bl_free_get(&tune->free, p->sum[0]))
            return false;
    }
    for (int i = 0; i < p->nsums; i++) {
        if (bl_find_op(tune->ir, p->sum[i]->src[0], BL_OP_REDUCE) != NULL)
            return false;
    }
    return p->nsums > 0;
}

/* The sum over one part; |turn| is the loop over it. */
static const bl_node *sum_of_part(const partial *p, const bl_node *sum, const bl_node *part, const bl_node *turn)
{
    bl_ir *ir = p->tune->ir;
    return tune_replace(ir, sum, p->range, bl_add(ir, bl_mul(ir, part, turn->src[0]), turn), 1, &turn);
}

/* ---- in global memory */

/* Is the axis unchanged since bl_tune_init? */
static bool is_whole(const bl_axis *axis)
{
    bool loop = axis->range->sub == BL_AXIS_GLOBAL || axis->range->sub == BL_AXIS_LOOP || axis->range->sub == BL_AXIS_REDUCE;
    return loop && !axis->stage && bl_axis_unpack(axis->range).part == 0;
}

static void find_results(partial *p)
{
    p->count = bl_index(p->tune->ir, 1);
    for (int i = 0; i < p->tune->naxes; i++) {
        const bl_node *range = p->tune->axis[i].range;
        if (!bl_depends(p->tune, p->sum[0], range))
            continue;
        p->axis[p->naxes++] = range;
        p->count = bl_mul(p->tune->ir, p->count, range->src[0]);
    }
}

/* A number for the axis of the parts that no output axis has; -1 if there is none. */
static int free_number(const bl_tune *tune)
{
    for (int slot = 0; slot < BL_AXIS_SLOTS; slot++) {
        bool taken = false;
        for (int i = 0; i < tune->naxes; i++)
            taken = taken || bl_axis_origin(tune->axis[i].range) == slot;
        if (!taken)
            return bl_axis_pack((bl_axis_number){.slot = slot});
    }
    return -1;
}

/* The index of part |part| of sum |which|: the results of a part are contiguous. */
static const bl_node *place_of_part(const partial *p, int which, const bl_node *part, const bl_node *const *at)
{
    bl_ir *ir = p->tune->ir;
    const bl_node *result = tune_element_of(ir, bl_index(ir, 0), p->naxes, p->axis, at);
    const bl_node *row = bl_add(ir, bl_index(ir, which * p->parts), part);
    return bl_add(ir, bl_mul(ir, row, p->count), result);
}

/* The nest that computes the partial sums. */
static const bl_node *partial_sums(const partial *p, int number)
{
    bl_tune *tune = p->tune;
    bl_ir *ir = tune->ir;
    const bl_node *part = bl_range(ir, number, BL_AXIS_GLOBAL, bl_index(ir, p->parts)), *stores[MOST_SUMS];
    const bl_node *turn = bl_range_like(ir, p->range, BL_AXIS_REDUCE, bl_index(ir, p->length)), *sink = NULL;

    for (int i = 0; i < p->nsums; i++) {
        const bl_node *sum = sum_of_part(p, p->sum[i], part, turn);
        stores[i] =
            bl_store(ir, bl_param(ir, tune->nparams, (bl_dtype)sum->dtype, false), place_of_part(p, i, part, p->axis), sum, NULL);
    }
    sink = bl_sink(ir, p->nsums, stores);
    return tune->sink->sub == BL_PRECISION_HIGH ? bl_sink_relax(ir, sink) : sink;
}

/* Make the helper: the nest before all moves, which sums the partial sums instead of the products. */
static bool make_rest(const partial *p, bl_packed *rest)
{
    bl_tune *tune = p->tune;
    bl_ir *ir = tune->ir;
    const bl_node *at[BL_MAX_AXES], *sums = bl_param(ir, rest->param, rest->dtype, false), *sink = NULL;
    const bl_node *part = bl_range(ir, bl_axis_origin(p->range), BL_AXIS_REDUCE, bl_index(ir, p->parts));
    bl_nodes below;
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *old = tune->axis[i].range;
        bl_ptrmap_put(&to, old, bl_range(ir, bl_axis_origin(old), BL_AXIS_LOOP, old->src[0]));
    }
    for (int i = 0; i < p->naxes; i++)
        at[i] = bl_ptrmap_get(&to, p->axis[i]);
    for (int i = 0; i < p->nsums; i++) {
        const bl_node *load = bl_load(ir, sums, place_of_part(p, i, part, at), NULL);
        bl_ptrmap_put(&to, p->sum[i], bl_reduce_over(ir, (bl_op)p->sum[i]->sub, 1, &load, 1, &part));
    }
    sink = bl_substitute(ir, tune->sink, &to);
    below = bl_reach(ir, 1, &sink, false);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, sums, bl_param(ir, 0, rest->dtype, false));
    if (!helper_renumber(tune, &below, &to, rest))
        return false;
    rest->sink = bl_substitute(ir, sink, &to);
    return true;
}

static bool sum_in_global(partial *p)
{
    bl_tune *tune = p->tune;
    bl_packed rest = {.param = tune->nparams, .behind = true, .dtype = (bl_dtype)p->sum[0]->dtype};
    int number = free_number(tune);
    const bl_node *sink = NULL;

    for (int i = 0; i < tune->naxes; i++) {
        if (!is_whole(&tune->axis[i]))
            return false;
    }
    for (int i = 0; i < tune->npacked; i++) {
        if (tune->packed[i].behind)
            return false;
    }
    if (number < 0 || tune->npacked == BL_MAX_HELPERS)
        return false;
    find_results(p);
    rest.count = bl_mul(tune->ir, p->count, bl_index(tune->ir, p->nsums * p->parts));
    sink = partial_sums(p, number);
    if (!make_rest(p, &rest))
        return false;
    tune->packed[tune->npacked++] = rest;
    tune->nparams++;
    tune_survey(tune, sink);
    tune_make_grid(tune);
    return true;
}

/* ---- in local memory */

/* The loops over outputs around |fold|.  0 if there are none, or if the nest already has lanes, unrolled loops or work-items. */
static int output_loops(bl_tune *tune, const bl_node *fold, const bl_node **loop)
{
    int n = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub != BL_AXIS_GLOBAL && range->sub != BL_AXIS_LOOP && range->sub != BL_AXIS_REDUCE)
            return 0;
        if (range->sub != BL_AXIS_LOOP || !bl_depends(tune, fold, range))
            continue;
        if (n == MOST_OUTPUTS || !bl_is_fixed(range))
            return 0;
        loop[n++] = range;
    }
    return n;
}

static bool sum_in_local(const partial *p)
{
    bl_tune *tune = p->tune;
    bl_ir *ir = tune->ir;
    const bl_node *fold = p->sum[0], *zero = bl_index(ir, 0), *loop[MOST_OUTPUTS], *own[MOST_OUTPUTS + 1];
    const bl_node *turn = NULL, *store = NULL, *value = NULL;
    int n = p->nsums == 1 ? output_loops(tune, fold, loop) : 0;
    bl_ptrmap to;

    if (n == 0)
        return false;
    own[0] = bl_range(ir, tune_new_number(tune, 0), BL_AXIS_LOOP, bl_index(ir, p->parts));
    turn = bl_range(ir, tune_new_number(tune, n + 1), BL_AXIS_REDUCE, bl_index(ir, p->length));
    value = sum_of_part(p, fold, own[0], turn);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) { /* the rows are innermost: they share the operand that is read for a column */
        own[1 + i] = bl_range(ir, tune_new_number(tune, n - i), BL_AXIS_LOOP, loop[i]->src[0]);
        bl_ptrmap_put(&to, loop[i], own[1 + i]);
    }
    store = bl_store(ir, bl_param(ir, 0, (bl_dtype)fold->dtype, true), tune_element_of(ir, zero, n, loop, own + 1),
                     bl_substitute(ir, value, &to), NULL);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(
        &to, fold,
        bl_load(ir, bl_stage_over(ir, fold->sub, 1, &store, n + 1, own), tune_element_of(ir, zero, n, loop, loop), NULL));
    tune_survey(tune, bl_substitute(ir, tune->sink, &to));
    return true;
}

/* ---- the move */

/* A work-item keeps the sums of |size| positions at a time. */
static bool sum_where_sent(bl_tune *tune, int at, int64_t size)
{
    const bl_axis *axis = &tune->axis[at];
    bool whole = bl_is_fixed(axis->range) && size == bl_extent_of(axis->range);
    const bl_node *place = NULL;

    if (!axis->output || (axis->range->sub != BL_AXIS_GLOBAL && !whole))
        return false;
    place = tune_split_off(tune, at, size, BL_AXIS_LOOP);
    return place != NULL && tune_scatter(tune, place);
}

bool move_partial(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    partial p = {.tune = tune, .range = tune->axis[at].range, .parts = size};
    int64_t extent = bl_extent_of(p.range);

    if (kind == BL_PARTIAL_SCATTER)
        return sum_where_sent(tune, at, size);
    if (p.range->sub != BL_AXIS_REDUCE || !bl_is_fixed(p.range) || size < 2 || extent % size != 0 || extent == size ||
        !find_sums(&p))
        return false;
    p.length = extent / size;
    return kind == BL_PARTIAL_GLOBAL ? sum_in_global(&p) : sum_in_local(&p);
}
