/* SPDX-License-Identifier: MIT */
/* Merge contiguous scalar loads into vector loads: loads of shared local memory by the copies of a tile, as for the rows of a
 * product's tile, and loads of global memory by the work-items of a group, as for the keys of an attention. A vector that is
 * stored with a stride, as for a transposed operand, is stored lane by lane, at constant offsets from a common index. Needs: no
 * TILE or VECTOR. Keeps: values. */
#include "engine/base/map.h"
#include "engine/ir/affine.h"
#include "engine/lower/lower.h"

enum { WIDEST = 16 /* bytes that a GPU loads at once */, MOST_LANES = 4 /* every language has vectors of 4 */ };

/* Are vector loads worth while for |load|? |grouped|: the groups of the nest have several work-items. */
static bool is_widened(const bl_node *load, bool grouped)
{
    const bl_node *from = load->op == BL_OP_LOAD && load->lanes == 1 && load->nsrc == 2 ? load->src[0] : NULL;

    if (from == NULL)
        return false;
    if (from->op == BL_OP_STAGE)
        return (from->sub & BL_STAGE_SHARED) != 0;
    /* a bool in memory is not an element of a vector of bools */
    return grouped && from->op == BL_OP_BUFFER && load->dtype != BL_BOOL;
}

static bool has_items(const bl_nodes *below)
{
    bool any = false;
    for (size_t i = 0; i < below->count; i++)
        any = any ||
              (below->at[i]->op == BL_OP_RANGE && (below->at[i]->sub == BL_AXIS_LOCAL || below->at[i]->sub == BL_AXIS_GROUP));
    return any;
}

/* The aligned vector load that contains the element of |load|, and the element's lane; NULL if unknown. Nodes are interned, so
 * all loads of one vector find the same node. */
static const bl_node *vector_around(bl_ir *ir, const bl_node *load, bool grouped, int *lane)
{
    const bl_node *src[2];
    int64_t lanes = WIDEST / (int64_t)bl_dtype_local_bytes((bl_dtype)load->dtype);
    bl_node vector = *load;
    bl_affine sum;

    if (!is_widened(load, grouped))
        return NULL;
    lanes = load->src[0]->op == BL_OP_BUFFER && lanes > MOST_LANES ? MOST_LANES : lanes;
    if (!bl_affine_of(&sum, load->src[1]) || sum.constant < 0)
        return NULL;
    *lane = (int)(sum.constant % lanes);
    sum.constant -= *lane;
    if (!bl_affine_is_multiple(&sum, NULL, lanes))
        return NULL;
    src[0] = load->src[0];
    src[1] = bl_sub(ir, load->src[1], bl_index(ir, *lane));
    vector.src = src;
    vector.lanes = (uint8_t)lanes;
    return bl_node_make(ir, &vector);
}

/* |stage| with each strided vector store split into stores of its lanes. */
static const bl_node *store_lanes(bl_ir *ir, const bl_node *stage)
{
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)stage->arg * BL_MAX_LANES, sizeof *stores);
    int n = 0;

    for (int64_t i = 0; stores != NULL && i < stage->arg; i++) {
        const bl_node *store = stage->src[i], *gate = store->nsrc > 3 ? store->src[3] : NULL;
        const bl_node *lane = store->src[1]->lanes > 1 ? bl_find_op(ir, store->src[1], BL_OP_LANE) : NULL;
        if (lane == NULL || store->src[2]->lanes != lane->lanes || (gate != NULL && gate->lanes > 1)) {
            stores[n++] = store;
            continue;
        }
        for (int k = 0; k < lane->lanes; k++)
            stores[n++] = bl_store(ir, store->src[0], bl_replace(ir, store->src[1], lane, bl_index(ir, k)),
                                   bl_extract(ir, store->src[2], k), gate);
    }
    return stores == NULL ? stage : bl_stage_over(ir, stage->sub, n, stores, 0, NULL);
}

const bl_node *bl_lower_widen(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    bl_ptrmap lanes, to;
    bool grouped = has_items(&below);
    int lane = 0, found = 0;

    bl_ptrmap_init(&lanes, bl_ir_arena(ir)); /* vector -> the set of its lanes that are loaded */
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *vector = vector_around(ir, below.at[i], grouped, &lane);
        if (vector != NULL)
            bl_ptrmap_put_number(&lanes, vector, bl_ptrmap_number(&lanes, vector) | UINT64_C(1) << lane);
    }
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *vector = vector_around(ir, below.at[i], grouped, &lane);
        if (vector == NULL || bl_ptrmap_number(&lanes, vector) != (UINT64_C(1) << vector->lanes) - 1)
            continue;
        vector = bl_substitute(ir, vector, &to); /* the stage it reads may itself contain such loads */
        bl_ptrmap_put(&to, below.at[i], bl_extract(ir, vector, lane));
        found++;
    }
    sink = found > 0 ? bl_substitute(ir, sink, &to) : sink;
    below = bl_reach(ir, 1, &sink, false);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    found = 0;
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *stage = below.at[i];
        if (stage->op != BL_OP_STAGE || (stage->sub & BL_STAGE_SHARED) == 0 || stage->nsrc != stage->arg)
            continue;
        bl_ptrmap_put(&to, stage, store_lanes(ir, bl_substitute(ir, stage, &to)));
        found++;
    }
    return found > 0 ? bl_substitute(ir, sink, &to) : sink;
}
