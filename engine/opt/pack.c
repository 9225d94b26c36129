/* SPDX-License-Identifier: MIT */
/* PACK: an operand of a reduction is written into a buffer of its own, in the order in which the nest reads it (panels: grid axes
 * outermost, then the reduction's loops, then tiles, then lanes), by a helper nest. */
#include "engine/ir/rewrite.h"
#include "engine/opt/internal.h"

static int layer(const bl_node *range)
{
    switch ((bl_axis_kind)range->sub) {
    case BL_AXIS_GLOBAL:
        return 0;
    case BL_AXIS_LOOP:
        return 1;
    case BL_AXIS_GROUP:
    case BL_AXIS_REDUCE:
        return 2;
    case BL_AXIS_TILE:
        return 3;
    case BL_AXIS_LOCAL:
        return 4;
    case BL_AXIS_VECTOR:
        return 5;
    case BL_AXIS_MATRIX:
        return 6;
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

bool tune_is_packed(const bl_tune *tune, const bl_node *load)
{
    return load->src[0]->op == BL_OP_BUFFER && load->src[0]->arg >= tune->nparams - tune->npacked;
}

bool pack_make_helper(bl_tune *tune, const bl_node *load, const bl_node *index, bl_ptrmap *to, bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *store = NULL;
    bl_nodes below = bl_reach(ir, 1, &load, false);

    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op != BL_OP_BUFFER)
            continue;
        if (packed->nfrom == BL_MAX_DIMS * 2)
            return false;
        bl_ptrmap_put(to, below.at[i], (void *)(uintptr_t)bl_param(ir, packed->nfrom + 1, (bl_dtype)below.at[i]->dtype, false));
        packed->from[packed->nfrom++] = (int)below.at[i]->arg;
    }
    store = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_substitute(ir, index, to), bl_substitute(ir, load, to), NULL);
    packed->sink = bl_sink(ir, 1, &store);
    return bl_ir_status(ir, NULL) == BL_OK;
}

void tune_replace_load(bl_tune *tune, const bl_node *load, const bl_node *other)
{
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(tune->ir));
    bl_ptrmap_put(&to, load, (void *)(uintptr_t)other);
    tune_survey(tune, bl_substitute(tune->ir, tune->sink, &to));
}

void pack_read_panel(bl_tune *tune, const bl_node *load, const bl_node *index, const bl_packed *packed)
{
    const bl_node *panel = bl_load(tune->ir, bl_param(tune->ir, tune->nparams, packed->dtype, false), index, NULL);

    tune->packed[tune->npacked++] = *packed;
    tune->nparams++;
    tune_replace_load(tune, load, panel);
}

/* Element (column, depth) of a tile of |n| columns with |group| of its depth side by side. */
static const bl_node *interleaved(bl_ir *ir, const bl_node *column, const bl_node *depth, int64_t n, int64_t group)
{
    const bl_node *by = bl_index(ir, group), *row = bl_mul(ir, bl_idiv(ir, depth, by), bl_index(ir, n * group));
    return bl_add(ir, bl_add(ir, row, bl_mul(ir, column, by)), bl_mod(ir, depth, by));
}

bool tune_pack(bl_tune *tune, int operand, int64_t group)
{
    bl_ir *ir = tune->ir;
    const bl_node *load = tune_operand_load(tune, operand), *range[BL_MAX_AXES], *index = bl_index(ir, 0);
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
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) {
        if (group == 0 || i < n - 2)
            index = bl_add(ir, bl_mul(ir, index, range[i]->src[0]), range[i]);
        packed.count = bl_mul(ir, packed.count, range[i]->src[0]);
        bl_ptrmap_put(&to, range[i], (void *)(uintptr_t)bl_range(ir, i, BL_AXIS_LOOP, range[i]->src[0]));
    }
    if (group > 0 && n >= 2) {
        const bl_node *column = range[n - 2], *depth = range[n - 1];
        int64_t cells = bl_extent_of(column) * bl_extent_of(depth);
        index = bl_add(ir, bl_mul(ir, index, bl_index(ir, cells)), interleaved(ir, column, depth, bl_extent_of(column), group));
    }
    if (!pack_make_helper(tune, load, index, &to, &packed))
        return false;
    pack_read_panel(tune, load, index, &packed);
    return true;
}
