/* SPDX-License-Identifier: MIT */
/* KBLOCK (K-blocking): a long reduction is computed one block at a time.  The part of an operand that a register tile reads then
 * stays in a cache until the next tile reads it.  Between blocks, the sums of all tiles stay in local memory: a STAGE that folds.
 */
#include "engine/ir/rewrite.h"
#include "engine/opt/opt_internal.h"

enum { MOST_OUTPUTS = 4 }; /* loops over outputs inside a work-item */

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

/* The only reduction of the nest, if it folds over |range|. */
static const bl_node *only_fold(bl_tune *tune, const bl_node *range)
{
    const bl_node *fold = bl_find_only(tune->ir, tune->sink, BL_OP_REDUCE);
    return fold != NULL && fold->arg == 1 && bl_binds(fold, range) ? fold : NULL;
}

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

int tune_new_number(const bl_tune *tune, int which)
{
    int last = BL_LEVEL_SUMS * BL_AXIS_SLOTS;
    for (int i = 0; i < tune->naxes; i++)
        last = bl_axis_origin(tune->axis[i].range) > last ? bl_axis_origin(tune->axis[i].range) : last;
    return bl_axis_pack((bl_axis_number){.slot = last + 1 + which});
}

/* The index of the sum of one iteration of the loops. */
static const bl_node *kblock_place_of(bl_ir *ir, int n, const bl_node *const *loop)
{
    const bl_node *place = bl_index(ir, 0);
    for (int i = 0; i < n; i++)
        place = bl_add(ir, bl_mul(ir, place, loop[i]->src[0]), loop[i]);
    return place;
}

bool move_kblock(bl_tune *tune, int axis, int64_t amount)
{
    bl_ir *ir = tune->ir;
    const bl_node *range = tune->axis[axis].range, *fold = only_fold(tune, range);
    const bl_node *loop[MOST_OUTPUTS], *own[MOST_OUTPUTS + 1], *part = NULL, *store = NULL, *value = NULL;
    int64_t extent = bl_extent_of(range);
    int n = fold == NULL ? 0 : output_loops(tune, fold, loop);
    bl_ptrmap to;

    if (n == 0 || range->sub != BL_AXIS_REDUCE || !bl_is_fixed(range) || amount < 2 || extent % amount != 0 || extent == amount)
        return false;
    own[0] = bl_range(ir, tune_new_number(tune, 0), BL_AXIS_LOOP, bl_index(ir, extent / amount));
    part = bl_range(ir, tune_new_number(tune, n + 1), BL_AXIS_REDUCE, bl_index(ir, amount));
    value = tune_replace(ir, fold, range, bl_add(ir, bl_mul(ir, own[0], bl_index(ir, amount)), part), 1, &part);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) { /* the rows are innermost: they share the operand that is read for a column */
        own[1 + i] = bl_range(ir, tune_new_number(tune, n - i), BL_AXIS_LOOP, loop[i]->src[0]);
        bl_ptrmap_put(&to, loop[i], own[1 + i]);
    }
    store = bl_store(ir, bl_param(ir, 0, (bl_dtype)fold->dtype, true), kblock_place_of(ir, n, own + 1),
                     bl_substitute(ir, value, &to), NULL);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, fold,
                  bl_load(ir, bl_stage_over(ir, fold->sub, 1, &store, n + 1, own), kblock_place_of(ir, n, loop), NULL));
    tune_survey(tune, bl_substitute(ir, tune->sink, &to));
    return true;
}
