/* SPDX-License-Identifier: MIT */
/* Forms for a device with real work-groups: neighbouring work-items along what is contiguous, short vectors where the device
 * likes them, register tiles where operands are read over and over, and groups that share a long reduction. */
#include "engine/opt/facts.h"

enum {
    GROUP_OF_ITEMS = 64, /* work-items along the contiguous axis of a plain nest */
    ROWS_OF_ITEMS = 8,   /* work-items along the rows of a tiled one */
    SHARED_ITEMS = 256,  /* that share a reduction */
    FEW_OUTPUTS = 16384, /* up to which it is worth sharing */
    SHARED_FROM = 256    /* its length from which sharing pays */
};

static int64_t grid_size(const bl_tune *tune)
{
    int64_t n = 1;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_GLOBAL && n < INT32_MAX)
            n *= bl_extent_of(tune->axis[i].range);
    }
    return n;
}

/* The outer axis along which most accesses are contiguous. */
static int contiguous_axis(facts *f)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        double score = 1e-9 * i;
        if (!axis->output || !axis->outer || !bl_is_fixed(axis->range) || bl_extent_of(axis->range) < 2)
            continue;
        for (int k = 0; k < f->naccesses; k++) {
            int contiguous = facts_contiguity(f, f->access[k].node, axis->range);
            score += contiguous == 1 ? (double)bl_free_size(&f->tune->free, f->access[k].loops) : 0;
        }
        if (score >= most) {
            most = score;
            best = i;
        }
    }
    return best;
}

/* A divisor of |extent| that is at most |most|, or |most| itself where the last part may overlap. */
static int64_t part_of(int64_t extent, int64_t most)
{
    if (extent <= most)
        return extent;
    for (int64_t part = most; part > most / 2; part--) {
        if (extent % part == 0)
            return part;
    }
    return most;
}

/* One long reduction and few outputs: the work-items of a group share it. */
static bool share_reduction(facts *f)
{
    bl_tune *tune = f->tune;

    if (grid_size(tune) >= FEW_OUTPUTS)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if (!tune->axis[i].output || tune->axis[i].outer)
            continue;
        return false; /* a loop over outputs inside: its work-items would all do the same */
    }
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        int64_t extent = bl_extent_of(axis->range);
        if (axis->output || !bl_is_fixed(axis->range) || extent < SHARED_FROM)
            continue;
        for (int64_t part = SHARED_ITEMS; part >= 8; part /= 2) {
            if (extent % part == 0)
                return bl_tune_apply(tune, (bl_move){BL_MOVE_GROUP, i, part});
        }
    }
    return false;
}

void heuristic_gpu(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_form form = {.local = (int)(target->subgroup < 32 ? target->subgroup : 32),
                          .row_local = target->cpu ? 1 : ROWS_OF_ITEMS};
    int64_t items = target->cpu ? target->subgroup : target->max_local < GROUP_OF_ITEMS ? target->max_local : GROUP_OF_ITEMS;
    int axis = -1, lanes = 1;
    const bl_node *columns = NULL;

    if (group_nest(f, target))
        return;
    if (f->main != NULL && tile_nest(f, target, &form))
        return;
    if (!target->cpu && share_reduction(f))
        return;
    if (f->main == NULL)
        unroll_choices(f);
    axis = contiguous_axis(f);
    if (axis < 0)
        return;
    columns = tune->axis[axis].range;
    lanes = tile_lanes(f, target, columns);
    if (lanes > 1 && bl_extent_of(columns) % lanes == 0 && bl_tune_apply(tune, (bl_move){BL_MOVE_VECTOR, axis, lanes})) {
        for (axis = 0; axis < tune->naxes && tune->axis[axis].range->arg != columns->arg; axis++)
            continue;
    }
    if (axis < tune->naxes && tune->axis[axis].range->sub == BL_AXIS_GLOBAL)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_LOCAL, axis, part_of(bl_extent_of(tune->axis[axis].range), items)});
}
