/* SPDX-License-Identifier: MIT */
/* PACK: an operand of a reduction is written into a buffer of its own, in the order in which the nest reads it (panels: grid axes outermost,
 * then the reduction's loops, then tiles, then lanes), by a helper nest. */
#include "engine/ir/shape.h"
#include "engine/opt/internal.h"

static int layer(const bl_node *range)
{
    switch ((bl_axis_kind)range->sub) {
    case BL_AXIS_GLOBAL:
        return 0;
    case BL_AXIS_LOOP:
        return 1;
    case BL_AXIS_LOCAL:
    case BL_AXIS_GROUP:
    case BL_AXIS_REDUCE:
        return 2;
    case BL_AXIS_TILE:
        return 3;
    case BL_AXIS_VECTOR:
        return 4;
    }
    return 0;
}

/* The axes that |node| depends on, in panel order. */
static int panel_axes(bl_tune *tune, const bl_node *node, const bl_node **range)
{
    int n = 0;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *candidate = tune->axis[i].range;
        int at = n;
        if (!bl_depends(tune, node, candidate))
            continue;
        for (; at > 0 && layer(range[at - 1]) > layer(candidate); at--)
            range[at] = range[at - 1];
        range[at] = candidate;
        n++;
    }
    return n;
}

/* LOADs in order of id: operand numbers. */
static const bl_node *operand_load(bl_tune *tune, int operand)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_LOAD && operand-- == 0)
            return below.at[i];
    }
    return NULL;
}

/* The helper: a plain nest over the panel's axes, numbered as a scheduler's nest is; its parameters are renumbered from the panel on. */
static bool make_helper(bl_tune *tune, const bl_node *load, int n, const bl_node *const *range, const bl_node *index, bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *pair[2] = {index, load}, *store = NULL;
    bl_nodes below;
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++)
        bl_ptrmap_put(&to, range[i], (void *)(uintptr_t)bl_range(ir, i, BL_AXIS_LOOP, range[i]->src[0]));
    below = bl_reach(ir, 2, pair, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op != BL_OP_BUFFER)
            continue;
        if (packed->nfrom == BL_MAX_DIMS * 2)
            return false;
        bl_ptrmap_put(&to, below.at[i],
                      (void *)(uintptr_t)bl_param(ir, packed->nfrom + 1, (bl_dtype)below.at[i]->dtype, false));
        packed->from[packed->nfrom++] = (int)below.at[i]->arg;
    }
    store = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_substitute(ir, index, &to), bl_substitute(ir, load, &to), NULL);
    packed->sink = bl_sink(ir, 1, &store);
    return bl_ir_status(ir, NULL) == BL_OK;
}

bool tune_pack(bl_tune *tune, int operand)
{
    bl_ir *ir = tune->ir;
    const bl_node *load = operand_load(tune, operand), *range[BL_MAX_AXES], *index = bl_index(ir, 0), *panel = NULL;
    bl_packed packed = {.param = tune->nparams};
    bl_ptrmap to;
    int n = 0;

    if (load == NULL || tune->npacked == BL_MAX_HELPERS)
        return false;
    n = panel_axes(tune, load, range);
    if (n == 0 || n > BL_MAX_DIMS)
        return false;
    packed.dtype = (bl_dtype)load->dtype;
    packed.count = bl_index(ir, 1);
    for (int i = 0; i < n; i++) {
        index = bl_add(ir, bl_mul(ir, index, range[i]->src[0]), range[i]);
        packed.count = bl_mul(ir, packed.count, range[i]->src[0]);
    }
    if (!make_helper(tune, load, n, range, index, &packed))
        return false;
    panel = bl_load(ir, bl_param(ir, tune->nparams, packed.dtype, false), index, NULL);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, load, (void *)(uintptr_t)panel);
    tune->packed[tune->npacked++] = packed;
    tune->nparams++;
    tune_survey(tune, bl_substitute(ir, tune->sink, &to));
    return true;
}
