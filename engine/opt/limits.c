/* SPDX-License-Identifier: MIT */
/* Limits of a device.  A driver may end a loop after a number of iterations (bl_device_info.max_turns): loops are unrolled until
 * no work-item executes as many.  A dimension of the grid may have a limited number of groups (max_groups): work-items compute
 * several iterations of the grid. */
#include "engine/base/size.h"
#include "engine/ir/stage.h"
#include "engine/opt/opt_internal.h"

enum {
    MOST_AT_ONCE = 16, /* iterations that one move unrolls */
    GATE_TURNS = 2,    /* iterations of the loop that tests a gate: the test that ends the loop counts too */
    GRID_DIMS = 3,
    MOST_SHARES = 65536 /* divisors tried: 0.1 ms */
};

static bool limits_is_loop(const bl_node *range)
{
    return (range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE) && range->hi > 0;
}

/* The RANGEs in which the value of a STORE or REDUCE is computed: those it depends on, and those it folds over. */
static uint64_t ranges_of(bl_tune *tune, const bl_node *node)
{
    uint64_t set = bl_free_get(&tune->free, node);
    for (uint32_t i = (uint32_t)node->arg; node->op == BL_OP_REDUCE && i < node->nsrc; i++)
        set |= bl_free_bit(&tune->free, node->src[i]);
    return set;
}

/* The loops around the value of a STORE or REDUCE.  A value that depends on one loop of a reduction may be inside all of its
 * loops. */
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
        if ((set >> i & 1) != 0 && limits_is_loop(tune->free.range[i]))
            loops |= UINT64_C(1) << i;
    }
    return loops;
}

/* Iterations of |node| itself, for all iterations of the loops around it: a stage that folds initialises its elements in a loop.
 */
static int64_t own_turns(bl_tune *tune, const bl_node *node)
{
    bool folds = node->op == BL_OP_STAGE && BL_STAGE_FOLDS(node);
    int64_t turns = folds ? bl_stage_elements(node) : 0;

    for (int i = 0; folds && i < tune->free.nranges; i++) {
        if ((bl_free_get(&tune->free, node) >> i & 1) != 0 && limits_is_loop(tune->free.range[i]) &&
            !bl_i64_mul(turns, bl_extent_of(tune->free.range[i]), &turns))
            return INT64_MAX;
    }
    return turns;
}

/* Iterations of nested loops: those of the innermost, and fewer than as many again of the loops around it. */
static int64_t limits_turns_of(const bl_tune *tune, uint64_t loops)
{
    int64_t turns = loops == 0 ? 0 : 2;
    for (int i = 0; i < tune->free.nranges; i++) {
        if ((loops >> i & 1) != 0 && !bl_i64_mul(turns, bl_extent_of(tune->free.range[i]), &turns))
            return INT64_MAX;
    }
    return (loops & (loops - 1)) == 0 ? turns / 2 : turns;
}

/* Iterations that the gate of |node| takes: the gate of a STORE into a STAGE that folds is a loop of one iteration or none,
 * around the other loops of the store (lower/stages.c).  Each unrolled copy has its own. */
static int64_t gate_turns(bl_tune *tune, const bl_node *node, uint64_t loops)
{
    uint64_t asked =
        node->op == BL_OP_STORE && node->nsrc > 3 && node->src[0]->sub == 1 ? bl_free_get(&tune->free, node->src[3]) : 0;
    int64_t turns = GATE_TURNS;

    if (asked == 0 || (loops & ~asked) == 0)
        return 0;
    for (int i = 0; i < tune->free.nranges; i++) {
        const bl_node *range = tune->free.range[i];
        bool around = (loops >> i & 1) != 0 && bl_axis_is_output(range);
        bool here = around || ((asked >> i & 1) != 0 && range->sub != BL_AXIS_GLOBAL && range->sub != BL_AXIS_LOCAL);
        if (here && !bl_i64_mul(turns, bl_extent_of(range), &turns))
            return INT64_MAX;
    }
    return turns;
}

/* The most iterations of a work-item in all (shared loops count for each sharer), and the loops with the most. */
static int64_t count_turns(bl_tune *tune, uint64_t *worst)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int64_t total = 0, most = 0;

    *worst = 0;
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        uint64_t loops = node->op == BL_OP_REDUCE || node->op == BL_OP_STORE ? loops_around(tune, &below, node) : 0;
        int64_t turns = limits_turns_of(tune, loops);
        if (!bl_i64_add(turns, gate_turns(tune, node, loops), &turns))
            turns = INT64_MAX;
        if (!bl_i64_add(total, turns, &total) || !bl_i64_add(total, own_turns(tune, node), &total))
            total = INT64_MAX;
        if (turns > most) {
            most = turns;
            *worst = loops;
        }
    }
    return total;
}

/* Unroll the innermost of |loops| for which that is legal. */
static bool limits_unroll(bl_tune *tune, uint64_t loops)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        int64_t extent = bl_extent_of(range);
        if ((loops & bl_free_bit(&tune->free, range)) == 0)
            continue;
        if (bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, extent < MOST_AT_ONCE ? extent : MOST_AT_ONCE))
            return true;
    }
    return false;
}

bool bl_tune_limit_turns(bl_tune *tune, int64_t most)
{
    uint64_t worst = 0;
    while (count_turns(tune, &worst) > most) {
        if (!limits_unroll(tune, worst))
            return false;
    }
    return true;
}

/* The axes of the grid, fastest first; the last dimension has all remaining axes (linearize.c). */
static int grid_axes(const bl_tune *tune, int *axis)
{
    int n = 0;
    for (int i = 0; i < tune->naxes; i++) {
        int at = n;
        if (tune->axis[i].range->sub != BL_AXIS_GLOBAL)
            continue;
        for (; at > 0 && bl_axis_precedes(tune->axis[axis[at - 1]].range, tune->axis[i].range); at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
        n++;
    }
    return n;
}

/* The iterations per work-item that make |extent| at least |times| smaller: the smallest divisor of |extent| that is at least
 * |times| and less than 2 * |times|, or else |times|.  At most MOST_SHARES numbers are tried, since a request may give any int64.
 */
static int64_t limits_share_of(int64_t extent, int64_t times)
{
    int64_t most = times < MOST_SHARES ? 2 * times : times + MOST_SHARES;

    for (int64_t n = times; n < most && n < extent; n++) {
        if (extent % n == 0)
            return n;
    }
    return times;
}

/* If dimension |d| has more than |most| groups, split its longest axis.  False if that is not legal. */
static bool limit_dimension(bl_tune *tune, int d, uint32_t most, bool *changed)
{
    int axis[BL_MAX_RANGES], n = grid_axes(tune, axis), longest = -1;
    int64_t groups = 1;

    for (int i = d; i < n && (i == d || d == GRID_DIMS - 1); i++) {
        int64_t extent = bl_extent_of(tune->axis[axis[i]].range);
        if (!bl_i64_mul(groups, extent, &groups))
            groups = INT64_MAX;
        if (longest < 0 || extent > bl_extent_of(tune->axis[longest].range))
            longest = axis[i];
    }
    if (groups <= most)
        return true;
    *changed = true;
    int64_t extent = bl_extent_of(tune->axis[longest].range), times = groups / most + (groups % most != 0);
    return extent > 1 && bl_tune_apply_at(tune, BL_SPLIT_LOOP, longest, times < extent ? limits_share_of(extent, times) : extent);
}

bool bl_tune_limit_groups(bl_tune *tune, const uint32_t most[3])
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int d = 0; d < GRID_DIMS; d++) {
            if (!limit_dimension(tune, d, most[d], &changed))
                return false;
        }
    }
    return true;
}
