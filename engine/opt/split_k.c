/* SPDX-License-Identifier: MIT */
/* SPLIT (split-K): a nest of long sums and few results has too few groups for the device, or its packed operand exceeds the
 * cache (tile.c).  Each sum is split into partial sums over parts of the reduction, which separate groups compute and write
 * into a buffer.  A helper after the nest adds the partial sums in the order of the parts, and computes the rest of the nest.
 * Results are therefore reproducible bit for bit, unlike with float atomics.
 *
 * The nest then computes the partial sums, and has one axis more.  Work-items, lanes, copies and matrix units are chosen for it
 * as for any other nest. The scheduler splits very long sums in the graph instead (sched/split_reduction.c). */
#include "engine/opt/staging.h"

enum { MOST_SUMS = 16 };

typedef struct parting {
    bl_tune *tune;
    const bl_node *range; /* the axis of the reduction */
    int64_t parts;
    int nsums;
    const bl_node *sum[MOST_SUMS];
    int naxes; /* the axes of the results */
    const bl_node *axis[BL_MAX_AXES];
    const bl_node *count; /* results of one sum */
} parting;

/* Is the axis unchanged since bl_tune_init? */
static bool split_k_is_whole(const bl_axis *axis)
{
    bool loop = axis->range->sub == BL_AXIS_GLOBAL || axis->range->sub == BL_AXIS_LOOP || axis->range->sub == BL_AXIS_REDUCE;
    return loop && !axis->stage && bl_axis_unpack(axis->range).part == 0;
}

/* Find all sums of the nest. False if one is inside another, or if they differ in axes, or if one is not over |range|. */
static bool find_sums(parting *p)
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
        bl_nodes inside = bl_reach(tune->ir, 1, &p->sum[i]->src[0], false);
        for (size_t k = 0; k < inside.count; k++) {
            if (inside.at[k]->op == BL_OP_REDUCE)
                return false;
        }
    }
    return p->nsums > 0;
}

static void find_results(parting *p)
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
static const bl_node *split_k_place_of(const parting *p, int which, const bl_node *part, const bl_node *const *at)
{
    bl_ir *ir = p->tune->ir;
    const bl_node *result = bl_index(ir, 0), *row = bl_add(ir, bl_index(ir, which * p->parts), part);

    for (int i = 0; i < p->naxes; i++)
        result = bl_add(ir, bl_mul(ir, result, p->axis[i]->src[0]), at[i]);
    return bl_add(ir, bl_mul(ir, row, p->count), result);
}

/* The nest that computes the partial sums. */
static const bl_node *partial_sums(const parting *p, int number)
{
    bl_tune *tune = p->tune;
    bl_ir *ir = tune->ir;
    int64_t length = bl_extent_of(p->range) / p->parts;
    const bl_node *part = bl_range(ir, number, BL_AXIS_GLOBAL, bl_index(ir, p->parts)), *stores[MOST_SUMS];
    const bl_node *turn = bl_range_like(ir, p->range, BL_AXIS_REDUCE, bl_index(ir, length)), *sink = NULL;

    for (int i = 0; i < p->nsums; i++) {
        const bl_node *sum =
            tune_replace(ir, p->sum[i], p->range, bl_add(ir, bl_mul(ir, part, bl_index(ir, length)), turn), 1, &turn);
        stores[i] = bl_store(ir, bl_param(ir, tune->nparams, (bl_dtype)sum->dtype, false), split_k_place_of(p, i, part, p->axis),
                             sum, NULL);
    }
    sink = bl_sink(ir, p->nsums, stores);
    return tune->sink->sub == BL_PRECISION_HIGH ? bl_sink_relax(ir, sink) : sink;
}

/* Make the helper: the nest before all moves, which sums the partial sums instead of the products. */
static bool make_rest(const parting *p, bl_packed *rest)
{
    bl_tune *tune = p->tune;
    bl_ir *ir = tune->ir;
    const bl_node *at[BL_MAX_AXES], *partial = bl_param(ir, rest->param, rest->dtype, false), *sink = NULL;
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
        const bl_node *load = bl_load(ir, partial, split_k_place_of(p, i, part, at), NULL);
        bl_ptrmap_put(&to, p->sum[i], bl_reduce_over(ir, (bl_op)p->sum[i]->sub, 1, &load, 1, &part));
    }
    sink = bl_substitute(ir, tune->sink, &to);
    below = bl_reach(ir, 1, &sink, false);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, partial, bl_param(ir, 0, rest->dtype, false));
    if (!helper_renumber(tune, &below, &to, rest))
        return false;
    rest->sink = bl_substitute(ir, sink, &to);
    return true;
}

bool move_split(bl_tune *tune, int axis, int64_t parts)
{
    parting p = {.tune = tune, .range = tune->axis[axis].range, .parts = parts};
    bl_packed rest = {.param = tune->nparams, .behind = true};
    int number = free_number(tune);
    const bl_node *sink = NULL;

    for (int i = 0; i < tune->naxes; i++) {
        if (!split_k_is_whole(&tune->axis[i]))
            return false;
    }
    for (int i = 0; i < tune->npacked; i++) {
        if (tune->packed[i].behind)
            return false;
    }
    if (p.range->sub != BL_AXIS_REDUCE || !bl_is_fixed(p.range) || parts < 2 || bl_extent_of(p.range) % parts != 0 ||
        bl_extent_of(p.range) == parts || number < 0 || tune->npacked == BL_MAX_HELPERS || !find_sums(&p))
        return false;
    find_results(&p);
    rest.dtype = (bl_dtype)p.sum[0]->dtype;
    rest.count = bl_mul(tune->ir, p.count, bl_index(tune->ir, p.nsums * parts));
    sink = partial_sums(&p, number);
    if (!make_rest(&p, &rest))
        return false;
    tune->packed[tune->npacked++] = rest;
    tune->nparams++;
    tune_survey(tune, sink);
    tune_make_grid(tune);
    return true;
}
