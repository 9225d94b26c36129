/* SPDX-License-Identifier: MIT */
/* A driver may end a loop by itself after so many turns (bl_device_info.max_turns): loops are unrolled until no work-item takes
 * as many. */
#include "engine/base/size.h"
#include "engine/opt/internal.h"

enum { MOST_AT_ONCE = 16 }; /* copies that one move makes */

static bool is_loop(const bl_node *range)
{
    return (range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE) && range->hi > 0;
}

/* RANGEs that the value under a STORE or REDUCE is computed in: those that it depends on, and folds over. */
static uint64_t ranges_of(bl_tune *tune, const bl_node *node)
{
    uint64_t set = bl_free_get(&tune->free, node);
    for (uint32_t i = (uint32_t)node->arg; node->op == BL_OP_REDUCE && i < node->nsrc; i++)
        set |= bl_free_bit(&tune->free, node->src[i]);
    return set;
}

/* The loops around a STORE's, or a REDUCE's, value.  What depends on one loop of a reduction may stand inside all of them. */
static uint64_t loops_around(bl_tune *tune, const bl_nodes *below, const bl_node *node)
{
    uint64_t set = ranges_of(tune, node), before = 0, loops = 0;

    while (set != before) {
        before = set;
        for (size_t i = 0; i < below->count; i++) {
            const bl_node *around = below->at[i];
            if (around->op == BL_OP_REDUCE && around != node && (bl_free_bound(&tune->free, around) & set) != 0)
                set |= ranges_of(tune, around);
        }
    }
    for (int i = 0; i < tune->free.nranges; i++) {
        if ((set >> i & 1) != 0 && is_loop(tune->free.range[i]))
            loops |= UINT64_C(1) << i;
    }
    return loops;
}

/* Turns of a nest of loops: of the innermost, and less than as many again of those around it. */
static int64_t turns_of(const bl_tune *tune, uint64_t loops)
{
    int64_t turns = loops == 0 ? 0 : 2;
    for (int i = 0; i < tune->free.nranges; i++) {
        if ((loops >> i & 1) != 0 && !bl_i64_mul(turns, bl_extent_of(tune->free.range[i]), &turns))
            return INT64_MAX;
    }
    return (loops & (loops - 1)) == 0 ? turns / 2 : turns;
}

/* All turns of a work-item at the most (loops that are shared count for each who shares), and the loops that take the most. */
static int64_t count_turns(bl_tune *tune, uint64_t *worst)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int64_t total = 0, most = 0;

    *worst = 0;
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        uint64_t loops = node->op == BL_OP_REDUCE || node->op == BL_OP_STORE ? loops_around(tune, &below, node) : 0;
        int64_t turns = turns_of(tune, loops);
        if (!bl_i64_add(total, turns, &total))
            total = INT64_MAX;
        if (turns > most) {
            most = turns;
            *worst = loops;
        }
    }
    return total;
}

/* Unroll the innermost of |loops| that can be. */
static bool unroll(bl_tune *tune, uint64_t loops)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        int64_t extent = bl_extent_of(range);
        if ((loops & bl_free_bit(&tune->free, range)) == 0 || !bl_is_fixed(range))
            continue;
        if (bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, extent < MOST_AT_ONCE ? extent : MOST_AT_ONCE}))
            return true;
    }
    return false;
}

bool bl_tune_limit_turns(bl_tune *tune, int64_t most)
{
    uint64_t worst = 0;
    while (count_turns(tune, &worst) > most) {
        if (!unroll(tune, worst))
            return false;
    }
    return true;
}
