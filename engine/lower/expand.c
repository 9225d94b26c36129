/* SPDX-License-Identifier: MIT */
/* Unroll TILE ranges into copies, and turn VECTOR ranges into lanes. Nodes are hash-consed, so equal copies are one node: a
 * value that does not depend on a tile's axis is computed once for the whole tile. That is register blocking. Needs: ranges of
 * any kind. Keeps: values and their order of summation per lane. Leaves no TILE or VECTOR. */
#include "engine/base/map.h"
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/lower/lower.h"
#include "engine/opt/move.h"

enum { MOST_VALUES = 4096 };

/* The sum of all |values|, where no loop of the reduction is left. As in a loop, each product is fused with its addition. */
static const bl_node *sum_fused(bl_ir *ir, int nvalues, const bl_node *const *values)
{
    const bl_node *sum = values[0];

    for (int i = 1; i < nvalues; i++) {
        const bl_node *value = values[i];
        bool fused = value->op == BL_OP_MUL && (value->dtype == BL_F32 || value->dtype == BL_F64);
        if (fused) {
            const bl_node *src[3] = {value->src[0], value->src[1], sum};
            sum = bl_alu(ir, BL_OP_FMA, src);
        } else {
            sum = bl_add(ir, sum, value);
        }
    }
    return sum;
}

/* A REDUCE or a STAGE over the ranges of |reduce| other than |range|. */
static const bl_node *fold_rest(bl_ir *ir, const bl_node *reduce, const bl_node *range, int nvalues, const bl_node *const *values)
{
    const bl_node *ranges[BL_MAX_DIMS * 2];
    int nranges = 0;

    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc; i++) {
        if (reduce->src[i] != range && nranges < BL_MAX_DIMS * 2)
            ranges[nranges++] = reduce->src[i];
    }
    if (reduce->op == BL_OP_STAGE)
        return bl_stage_over(ir, reduce->sub, nvalues, values, nranges, ranges);
    if (nranges == 0 && reduce->sub == BL_OP_ADD)
        return sum_fused(ir, nvalues, values);
    return bl_reduce_over(ir, (bl_op)reduce->sub, nvalues, values, nranges, ranges); /* a chain of values if no range is left */
}

static const bl_node *tile_reduce(bl_ir *ir, const bl_node *reduce, const bl_node *range)
{
    int64_t extent = range->hi + 1;
    int nvalues = 0;
    const bl_node **values = NULL;

    if (extent * reduce->arg > MOST_VALUES)
        return bl_ir_fail(ir, BL_ELIMIT, "a tile of %lld values", (long long)(extent * reduce->arg));
    values = bl_arena_array(bl_ir_arena(ir), (size_t)(extent * reduce->arg), sizeof *values);
    if (values == NULL)
        return reduce;
    for (int64_t j = 0; j < extent; j++) {
        for (int64_t i = 0; i < reduce->arg; i++)
            values[nvalues++] = bl_replace(ir, reduce->src[i], range, bl_index(ir, j));
    }
    return fold_rest(ir, reduce, range, nvalues, values);
}

/* Copy each store that depends on |range|, once per iteration. */
static const bl_node *tile_stores(bl_ir *ir, const bl_node *sink, const bl_node *range)
{
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)sink->nsrc * (size_t)(range->hi + 1), sizeof *stores);
    int n = 0;

    for (uint32_t i = 0; stores != NULL && i < sink->nsrc; i++) {
        for (int64_t j = 0; j <= range->hi; j++) {
            const bl_node *store = bl_replace(ir, sink->src[i], range, bl_index(ir, j));
            stores[n++] = store;
            if (store == sink->src[i])
                break;
        }
    }
    return stores == NULL ? sink : bl_sink(ir, n, stores);
}

/* ---- lanes */

/* Is the stride of |index| from lane to lane a constant? Stores it in *stride. */
static bool lane_stride(const bl_node *index, int64_t *stride)
{
    bl_affine sum;

    *stride = 0;
    if (!bl_affine_of(&sum, index))
        return false;
    for (int i = 0; i < sum.count; i++) {
        if (sum.at[i].node->op == BL_OP_LANE)
            *stride += sum.at[i].coefficient;
        else if (sum.at[i].node->lanes > 1)
            return false;
    }
    return true;
}

/* The vector load that starts |ahead| elements after the first lane of |load|. */
static const bl_node *vector_at(bl_ir *ir, const bl_node *load, const bl_node *lane, int64_t ahead, const bl_node *gate)
{
    bl_node vector = *load;
    const bl_node *first = bl_replace(ir, load->src[1], lane, bl_index(ir, 0));
    const bl_node *src[3] = {load->src[0], bl_add(ir, first, bl_index(ir, ahead)), gate};

    vector.src = src;
    vector.lanes = lane->lanes;
    return bl_node_make(ir, &vector);
}

/* The gate of that vector if the lanes of |load| are |stride| apart: elements between the lanes are not loaded, since they may be
 * outside of the buffer. */
static const bl_node *gate_between(bl_ir *ir, const bl_node *load, int lanes, int64_t ahead, int64_t stride)
{
    const bl_node *each[BL_MAX_LANES], *none = bl_const(ir, BL_BOOL, (bl_scalar){.u = 0}), *gate = NULL, *of_lanes = NULL;
    bl_clauses all = {0};

    if (load->nsrc < 3 || load->src[2]->lanes == 1)
        return load->nsrc < 3 ? NULL : load->src[2];
    (void)bl_clauses_add(&all, load->src[2]); /* vector_load has asked whether they fit */
    for (int i = 0; i < all.count; i++) {
        const bl_node **part = all.at[i]->lanes > 1 ? &of_lanes : &gate;
        *part = *part == NULL ? all.at[i] : bl_and(ir, *part, all.at[i]);
    }
    for (int i = 0; i < lanes; i++)
        each[i] = (ahead + i) % stride == 0 ? bl_extract(ir, of_lanes, (int)((ahead + i) / stride)) : none;
    of_lanes = bl_stack(ir, lanes, each);
    return gate == NULL ? of_lanes : bl_and(ir, gate, of_lanes);
}

/* A strided load: load all elements between the first and the last lane as |stride| contiguous vectors, then pick the lanes.
 * The last vector overlaps the vector before, so nothing beyond the last lane is read. */
static const bl_node *strided_load(bl_ir *ir, const bl_node *load, const bl_node *lane, int64_t stride)
{
    const bl_node *each[BL_MAX_LANES];
    int64_t lanes = lane->lanes, last = stride * (lanes - 1) + 1 - lanes;

    for (int64_t i = 0; i < lanes; i++) {
        int64_t start = stride * i / lanes * lanes;
        start = start < last ? start : last;
        each[i] = bl_extract(ir, vector_at(ir, load, lane, start, gate_between(ir, load, (int)lanes, start, stride)),
                             (int)(stride * i - start));
    }
    return bl_stack(ir, (int)lanes, each);
}

/* Vectorise |load|, whose index has lanes now; |scalar| is the load it was made from, over |range|. */
static const bl_node *vector_load(bl_ir *ir, const bl_node *load, const bl_node *lane, const bl_node *scalar,
                                  const bl_node *range)
{
    const bl_node *each[BL_MAX_LANES];
    int64_t stride = 0;
    const bl_node *gate = load->nsrc > 2 ? load->src[2] : NULL;
    bl_clauses all = {0};

    if (load->src[1]->lanes == 1 && (gate == NULL || gate->lanes == 1))
        return load;
    if ((gate == NULL || gate->lanes == 1 || load->dtype != BL_BOOL) && lane_stride(load->src[1], &stride) && stride == 1)
        return vector_at(ir, load, lane, 0, gate);
    if ((gate == NULL || gate->lanes == 1 || (load->dtype != BL_BOOL && bl_clauses_add(&all, gate))) &&
        lane->lanes >= BL_LANES_PICKED && stride > 1 && stride <= BL_MOST_APART && lane_stride(load->src[1], &stride))
        return strided_load(ir, load, lane, stride);
    const bl_node *src[3] = {load->src[0], scalar->src[1], gate == NULL ? NULL : scalar->src[2]};
    scalar = bl_node_with(ir, scalar, src); /* a stage that it reads may have been vectorised inside */
    for (int i = 0; i < lane->lanes; i++)   /* the index may depend on another load, which is then scalar in each copy */
        each[i] = bl_replace(ir, scalar, range, bl_index(ir, i));
    return bl_stack(ir, lane->lanes, each);
}

static const bl_node *vector_store(bl_ir *ir, const bl_node *store, const bl_node *lane)
{
    int64_t stride = 0;
    bl_node vector = *store;
    const bl_node *src[4] = {store->src[0], store->src[1], store->src[2], store->nsrc > 3 ? store->src[3] : NULL};

    if (store->src[1]->lanes > 1 && lane_stride(store->src[1], &stride) && stride == 1)
        src[1] = bl_replace(ir, store->src[1], lane, bl_index(ir, 0));
    vector.src = src;
    vector.lanes = lane->lanes;
    return bl_node_make(ir, &vector);
}

/* Vectorise a REDUCE over lanes, or a STAGE. The lanes are folded after the loop. */
static const bl_node *vector_reduce(bl_ir *ir, const bl_node *reduce, const bl_node *range, const bl_node *lane)
{
    const bl_node **values = bl_arena_array(bl_ir_arena(ir), (size_t)reduce->arg, sizeof *values);
    const bl_node *all[BL_MAX_LANES];

    if (values == NULL)
        return reduce;
    if (reduce->op == BL_OP_STAGE) /* the stores of a stage have the lanes */
        return fold_rest(ir, reduce, range, (int)reduce->arg, reduce->src);
    for (int64_t i = 0; i < reduce->arg; i++) {
        values[i] = reduce->src[i];
        for (int k = 0; k < lane->lanes; k++)
            all[k] = values[i];
        if (values[i]->lanes == 1) /* the same value in every lane counts once per lane */
            values[i] = bl_stack(ir, lane->lanes, all);
    }
    return bl_fold(ir, (bl_op)reduce->sub, fold_rest(ir, reduce, range, (int)reduce->arg, values));
}

/* Vectorise |made|, which is |node| over its rewritten sources, along |range|; |lane| is the vector of lane numbers. */
static const bl_node *in_lanes(bl_ir *ir, const bl_node *made, const bl_node *node, const bl_node *range, const bl_node *lane)
{
    if (node == range)
        return lane;
    /* A load or store that had lanes before is vectorised along another range and keeps its lanes. */
    if (made->op == BL_OP_LOAD && node->lanes == 1)
        return vector_load(ir, made, lane, node, range);
    if (made->op == BL_OP_STORE && node->lanes == 1 && (made->src[1]->lanes > 1 || made->src[2]->lanes > 1))
        return vector_store(ir, made, lane);
    return bl_binds(node, range) ? vector_reduce(ir, made, range, lane) : made;
}

/* ---- one range after the other */

typedef struct expansion {
    bl_ir *ir;
    const bl_node *range, *lane; /* lane NULL: |range| is a TILE */
} expansion;

static const bl_node *expand_node(void *arg, const bl_node *node, const bl_node *const *src)
{
    const expansion *e = arg;
    const bl_node *made = bl_node_with(e->ir, node, src);

    if (e->lane != NULL)
        return in_lanes(e->ir, made, node, e->range, e->lane);
    return bl_binds(node, e->range) ? tile_reduce(e->ir, made, e->range) : made;
}

static const bl_node *expand_range(bl_ir *ir, const bl_node *sink, const bl_node *range)
{
    expansion e = {ir, range, range->sub == BL_AXIS_VECTOR ? bl_lane(ir, range->arg, (int)range->hi + 1) : NULL};

    sink = bl_rewrite(ir, sink, expand_node, &e);
    return e.lane != NULL ? sink : tile_stores(ir, sink, range);
}

const bl_node *bl_lower_expand(bl_ir *ir, const bl_node *sink)
{
    static const bl_axis_kind kinds[2] = {BL_AXIS_VECTOR, BL_AXIS_TILE};

    for (int k = 0; k < 2; k++) {
        const bl_node *range = NULL;
        do {
            bl_nodes below = bl_reach(ir, 1, &sink, false);
            range = NULL;
            for (size_t i = 0; i < below.count && range == NULL; i++) {
                if (below.at[i]->op == BL_OP_RANGE && below.at[i]->sub == kinds[k])
                    range = below.at[i];
            }
            if (range != NULL)
                sink = expand_range(ir, sink, range);
        } while (range != NULL && bl_ir_status(ir, NULL) == BL_OK);
    }
    return sink;
}
