/* SPDX-License-Identifier: MIT */
/* Forms for a device with real work-groups: neighbouring work-items along what is contiguous, short vectors where the device
 * likes them, register tiles where operands are read over and over, and groups that share a long reduction. */
#include "engine/opt/facts.h"

enum {
    GROUP_OF_ITEMS = 64, /* work-items along the contiguous axis of a plain nest */
    ROWS_OF_ITEMS = 8,   /* work-items along the rows of a tiled one */
    SHARED_ITEMS = 256,  /* that share a reduction */
    FEW_OUTPUTS = 16384, /* up to which it is worth sharing */
    SHARED_FROM = 256,   /* its length from which sharing pays */
    MOST_PARTS = 64,     /* of a sum */
    SHORTEST_PART = 64,  /* elements of it */
    FEWEST_ITEMS = 8     /* that share a reduction */
};
/* In multiply-adds of one multiprocessor, which does 128 a clock: a launch more, some 4,000 clocks; what each part's sums make
 * the helper wait for; one element that is written to memory and read back, at four a clock; one element that a group sums. */
#define LAUNCH_COST  524288.0
#define PART_COST    8192.0
#define PASS_COST    64.0
#define ELEMENT_COST 64.0

static int64_t grid_size(const bl_tune *tune)
{
    int64_t n = 1;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_GLOBAL && n < INT32_MAX)
            n *= bl_extent_of(tune->axis[i].range);
    }
    return n;
}

/* The outer axis along which most accesses are contiguous; one of a named extent, which may be short, for want of another. */
static int contiguous_axis(facts *f, bool fixed)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        double score = 1e-9 * i;
        if (!axis->output || !axis->outer || bl_is_fixed(axis->range) != fixed || bl_extent_of(axis->range) < 2)
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

/* A divisor of the extent that is at most |most|, or |most| itself where the last part may overlap. */
static int64_t part_of(const bl_node *range, int64_t most)
{
    int64_t extent = bl_extent_of(range);
    if (extent <= most)
        return extent;
    for (int64_t part = most; bl_is_fixed(range) && part > most / 2; part--) {
        if (extent % part == 0)
            return part;
    }
    return most;
}

double gpu_sum_cost(const bl_target *target, int64_t results, int64_t parts)
{
    return parts == 1 ? 0 : LAUNCH_COST + (double)parts * (PART_COST + PASS_COST * (double)results / target->units);
}

int64_t gpu_next_parts(int64_t extent, int64_t parts)
{
    while (++parts <= MOST_PARTS && parts * SHORTEST_PART <= extent) {
        if (extent % parts == 0)
            return parts;
    }
    return 0;
}

/* Fewer groups than multiprocessors would share a long reduction: it is split first, so that several groups do. */
static void split_reduction(bl_tune *tune, const bl_target *target, int axis)
{
    int64_t groups = grid_size(tune), extent = bl_extent_of(tune->axis[axis].range), best = 1;
    double least = ELEMENT_COST * (double)extent * (double)((groups + target->units - 1) / target->units);

    for (int64_t parts = gpu_next_parts(extent, 1); parts > 0 && groups < target->units; parts = gpu_next_parts(extent, parts)) {
        int64_t waves = (groups * parts + target->units - 1) / target->units;
        double cost = ELEMENT_COST * (double)(extent / parts * waves) + gpu_sum_cost(target, groups, parts);
        if (extent / parts >= SHARED_FROM && extent / parts % FEWEST_ITEMS == 0 && cost < least) {
            least = cost;
            best = parts;
        }
    }
    if (best > 1 && (uint32_t)tune->nparams < target->max_params)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_SPLIT, axis, best});
}

/* One long reduction and few outputs: the work-items of a group share it. */
static bool share_reduction(facts *f, const bl_target *target)
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
        int64_t number = axis->range->arg;
        if (axis->output || !bl_is_fixed(axis->range) || bl_extent_of(axis->range) < SHARED_FROM)
            continue;
        split_reduction(tune, target, i);
        while (tune->axis[i].range->arg != number) /* behind the parts */
            i++;
        for (int64_t part = SHARED_ITEMS; part >= FEWEST_ITEMS; part /= 2) {
            if (bl_extent_of(tune->axis[i].range) % part == 0)
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

    if (target->cpu && sent_nest(f, target)) /* its groups are work-items one after the other, and few */
        return;
    if (attend_nest(f, target) || group_nest(f, target))
        return;
    if (f->main != NULL && tile_nest(f, target, &form))
        return;
    if (!target->cpu && share_reduction(f, target))
        return;
    if (f->main == NULL)
        unroll_choices(f);
    axis = contiguous_axis(f, true);
    if (axis < 0)
        axis = contiguous_axis(f, false);
    if (axis < 0)
        return;
    columns = tune->axis[axis].range;
    lanes = tile_lanes(f, target, columns);
    if (lanes > 1 && bl_extent_of(columns) % lanes == 0 && bl_tune_apply(tune, (bl_move){BL_MOVE_VECTOR, axis, lanes})) {
        for (axis = 0; axis < tune->naxes && tune->axis[axis].range->arg != columns->arg; axis++)
            continue;
    }
    if (axis < tune->naxes && tune->axis[axis].range->sub == BL_AXIS_GLOBAL)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_LOCAL, axis, part_of(tune->axis[axis].range, items)});
}
