/* SPDX-License-Identifier: MIT */
/* Forms for a device with real work-groups: neighbouring work-items along what is contiguous, short vectors where the device likes
 * them, register tiles where operands are read over and over, and groups that share a long reduction. */
#include "engine/opt/facts.h"

enum { GROUP_MOST = 256, ROWS = 4, SHARED_FROM = 256 };

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
            score += contiguous == 1 ? (double)facts_size(f, f->access[k].loops) : 0;
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

static int other_axis(facts *f, const bl_node *not_this)
{
    int best = -1;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        if (axis->output && axis->outer && axis->range != not_this && bl_is_fixed(axis->range) && bl_extent_of(axis->range) >= ROWS)
            best = i;
    }
    return best;
}

/* One long reduction and few outputs: the work-items of a group share it. */
static bool share_reduction(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    int64_t items = target->cpu ? target->subgroup : GROUP_MOST;

    if (items < 2 || grid_size(tune) >= 64 * (int64_t)target->units)
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
        for (int64_t part = items; part >= 8; part /= 2) {
            if (extent % part == 0)
                return bl_tune_apply(tune, (bl_move){BL_MOVE_GROUP, i, part});
        }
    }
    return false;
}

void heuristic_gpu(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    int64_t items = target->cpu ? target->subgroup : target->max_local < 64 ? target->max_local : 64;
    int64_t lanes = target->cpu && target->vector_bits >= 128 && facts_widest(f) <= 4 ? 4 : 1;
    int axis = 0, row = -1;
    const bl_node *columns = NULL;

    if (f->main == NULL && share_reduction(f, target))
        return;
    axis = contiguous_axis(f);
    if (axis < 0)
        return;
    columns = tune->axis[axis].range;
    if (f->main != NULL) {
        row = other_axis(f, columns);
        if (row >= 0)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, row, target->cpu ? 2 * ROWS : ROWS});
    }
    axis = facts_axis_of(tune, columns);
    if (lanes > 1 && bl_extent_of(columns) >= lanes && bl_extent_of(columns) % lanes == 0 &&
        bl_tune_apply(tune, (bl_move){BL_MOVE_VECTOR, axis, lanes})) {
        for (axis = 0; axis < tune->naxes && tune->axis[axis].range->arg != columns->arg; axis++)
            continue;
    }
    if (axis >= tune->naxes || tune->axis[axis].range->sub != BL_AXIS_GLOBAL)
        return;
    (void)bl_tune_apply(tune, (bl_move){BL_MOVE_LOCAL, axis, part_of(bl_extent_of(tune->axis[axis].range), items)});
}
