/* SPDX-License-Identifier: MIT */
/* Schedule templates for devices whose groups have several work-items: neighbouring work-items along contiguous axes
 * (coalescing), short vectors where the device has them, register tiles for products, and groups that share a long reduction. */
#include "engine/ir/affine.h"
#include "engine/opt/facts.h"

enum {
    GROUP_OF_ITEMS = 64, /* work-items along the contiguous axis of a nest without reuse */
    LARGE_GROUP = 256,   /* the same, for many work-items in all */
    ROWS_OF_ITEMS = 8,   /* work-items along the rows of a register tile */
    SHARED_ITEMS = 256,  /* work-items that share a reduction */
    FEW_OUTPUTS = 16384, /* outputs below which sharing a reduction pays */
    SHARED_FROM = 256,   /* length of a reduction from which sharing it pays */
    ACCESS_BYTES = 16,   /* bytes that a work-item loads at once */
    TURNS_OF_ITEM = 8,   /* iterations of a shared row per work-item: so many loads are in flight */
    ITEMS_OF_COLUMN = 4, /* work-items that share a column: eight columns per group row, 32 bytes, are then read at once */
    SATURATED = 1024,    /* work-items per multiprocessor from which no reduction is shared */
    BUSY_GROUPS = 4,     /* groups of 256 work-items per multiprocessor */
    BUSY_ITEMS = 64,     /* work-items per multiprocessor that must remain with vectors */
    FEWEST_ITEMS = 8     /* work-items that share a reduction */
};

/* The outer axis along which most accesses are contiguous. An axis of named extent may be short and is chosen only if there is no
 * other. */
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

typedef struct shared_sum {
    const bl_target *target;
    int64_t extent, groups;
} shared_sum;

static double shared_sum_cost(void *arg, int64_t parts)
{
    const shared_sum *s = arg;
    double waves = nest_waves((double)(s->groups * parts), s->target->units);
    return NEST_ELEMENT * ((double)(s->extent / parts) * waves) + nest_parts_cost(s->target->units, s->groups, parts);
}

/* Split-K, if fewer groups than there are multiprocessors would share a long reduction. */
static void split_shared_sum(bl_tune *tune, const bl_target *target, int axis)
{
    shared_sum s = {target, bl_extent_of(tune->axis[axis].range), facts_groups(tune, NULL, NULL)};
    const bl_parting how = {s.extent, BL_PARTS_MOST, SHARED_FROM, .multiple = FEWEST_ITEMS, .cost = shared_sum_cost, .arg = &s};

    if (s.groups < target->units)
        (void)facts_split(tune, target, axis, &how);
}

/* Few outputs and a long reduction: the work-items of a group share the reduction. */
static bool gpu_share_reduction(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;

    if (facts_groups(tune, NULL, NULL) >= FEW_OUTPUTS)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if (!tune->axis[i].output || tune->axis[i].outer)
            continue;
        return false; /* an inner loop over outputs: all work-items would compute the same */
    }
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        const bl_node *range = axis->range;
        if (axis->output || !bl_is_fixed(axis->range) || bl_extent_of(axis->range) < SHARED_FROM)
            continue;
        split_shared_sum(tune, target, i);
        while (!bl_axis_same(tune->axis[i].range, range)) /* skip the axis of the parts */
            i++;
        for (int64_t part = SHARED_ITEMS; part >= FEWEST_ITEMS; part /= 2) {
            if (bl_extent_of(tune->axis[i].range) % part == 0)
                return bl_tune_apply_at(tune, BL_SPLIT_GROUP, i, part);
        }
    }
    return false;
}

/* ---- rows and columns */

/* Are most loads of the reductions over |over| contiguous along |range|? */
static bool is_read_along(facts *f, const bl_node *over, const bl_node *range)
{
    double along = 0, other = 0;

    for (int i = 0; i < f->naccesses; i++) {
        const access *a = &f->access[i];
        double loads = (double)bl_free_size(&f->tune->free, bl_free_get(&f->tune->free, a->node));
        if (a->reduce == NULL || !bl_binds(a->reduce, over))
            continue;
        if (facts_contiguity(f, a->node, range) == 1)
            along += loads;
        else
            other += loads;
    }
    return along > other;
}

/* The innermost reduction axis with a fixed extent of at least |least|. -1 if there is none. */
static int last_reduction(const bl_tune *tune, int64_t least)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output && axis->range->sub == BL_AXIS_REDUCE && bl_is_fixed(axis->range) && bl_extent_of(axis->range) >= least)
            return i;
    }
    return -1;
}

/* Share a reduction among |items| work-items. If |items| does not divide the extent, each work-item folds the remainder. */
static bool group_reduction(bl_tune *tune, int axis, int64_t items)
{
    const bl_node *range = tune->axis[axis].range;

    if (bl_extent_of(range) % items == 0)
        return bl_tune_apply_at(tune, BL_SPLIT_GROUP, axis, items);
    return bl_tune_apply_at(tune, BL_SPLIT_LOOP, axis, items) &&
           bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_inner_part(tune, range), items);
}

/* Distribute all inner loops over outputs among the work-items. */
static bool deal_outputs(bl_tune *tune, int64_t items)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output || axis->outer || axis->range->sub != BL_AXIS_LOOP)
            continue;
        if (bl_extent_of(axis->range) < items || !bl_tune_apply_at(tune, BL_SPLIT_GROUP, i, items))
            return false;
    }
    return true;
}

/* Is the access a whole vector of |lanes| along |range|, at a multiple of its size? */
static bool is_vector_along(facts *f, const bl_node *node, const bl_node *range, int64_t lanes)
{
    const bl_node *gate = NULL;
    bl_affine sum;

    if (!bl_depends(f->tune, node, range))
        return true;
    gate = node->op == BL_OP_LOAD && node->nsrc > 2    ? node->src[2]
           : node->op == BL_OP_STORE && node->nsrc > 3 ? node->src[3]
                                                       : NULL;
    if (facts_contiguity(f, node, range) < 0 || (gate != NULL && bl_depends(f->tune, gate, range)))
        return false;
    return bl_affine_of(&sum, node->src[1]) && bl_affine_is_multiple(&sum, range, lanes);
}

/* The lanes of a vector access if all accesses along |range| are whole vectors; else 1. */
static int64_t whole_lanes(facts *f, const bl_target *target, const bl_node *range)
{
    size_t widest = 1;
    int64_t lanes = 1;

    for (int i = 0; i < f->naccesses; i++) {
        size_t bytes = bl_dtype_bytes((bl_dtype)f->access[i].node->src[0]->dtype);
        if (bl_depends(f->tune, f->access[i].node, range) && bytes > widest)
            widest = bytes;
    }
    lanes = ACCESS_BYTES / (int64_t)widest;
    if (target->max_lanes > 0 && lanes > (int64_t)target->max_lanes) /* the language has no wider vectors */
        lanes = (int64_t)target->max_lanes;
    for (; lanes > 1; lanes /= 2) {
        bool whole = bl_is_fixed(range) && bl_extent_of(range) % lanes == 0;
        for (int i = 0; i < f->naccesses; i++)
            whole = whole && is_vector_along(f, f->access[i].node, range, lanes);
        if (whole)
            return lanes;
    }
    return 1;
}

/* Vectors for the inner loops over outputs, if enough iterations remain for |items| work-items. */
static void widen_outputs(facts *f, const bl_target *target, int64_t items)
{
    bl_tune *tune = f->tune;
    const bl_node *range[BL_MAX_AXES];
    int64_t lanes[BL_MAX_AXES];
    int n = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        int64_t most = axis->output && !axis->outer ? whole_lanes(f, target, axis->range) : 1;
        if (most < 2 || bl_extent_of(axis->range) < most * items)
            continue;
        range[n] = axis->range;
        lanes[n++] = most;
    }
    for (int i = 0; i < n; i++)
        (void)bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_outer_part(tune, range[i]), lanes[i]);
}

/* Reductions along contiguous rows: neighbouring work-items read neighbouring elements, and a group has a few rows. */
static bool share_rows(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const tune_mark start = tune_keep(tune);
    const facts before = *f;
    int axis = last_reduction(tune, target->subgroup), row = -1;
    int64_t items = target->subgroup, rows = facts_groups(tune, NULL, NULL), lanes = 1, extent = 0;
    int64_t most = SHARED_ITEMS < (int64_t)target->max_local ? SHARED_ITEMS : (int64_t)target->max_local;
    const bl_node *range = axis < 0 ? NULL : tune->axis[axis].range;
    bool good = axis >= 0 && f->main == NULL && is_read_along(f, range, range);

    if (!good || rows < (int64_t)target->units)
        return false;
    extent = bl_extent_of(range);
    lanes = whole_lanes(f, target, range);
    while (2 * items * (2 * lanes > TURNS_OF_ITEM ? 2 * lanes : TURNS_OF_ITEM) <= extent && 2 * items <= most &&
           extent % (2 * items) == 0)
        items *= 2;
    widen_outputs(f, target, items);
    if (lanes > 1 && extent % (lanes * items) == 0) /* neighbouring elements in registers, loaded at once */
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_outer_part(tune, range), lanes);
    good = group_reduction(tune, facts_outer_part(tune, range), items) && deal_outputs(tune, items);
    for (int i = 0; i < tune->naxes; i++)
        row = tune->axis[i].range->sub == BL_AXIS_GLOBAL && bl_extent_of(tune->axis[i].range) > 1 ? i : row;
    if (good && row >= 0 && most / items > 1 && rows / (most / items) >= (int64_t)target->units)
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, row, facts_part_of(tune->axis[row].range, most / items));
    if (!good)
        facts_undo(f, &before, &start);
    return good;
}

static double column_sum_cost(void *arg, int64_t parts)
{
    (void)arg;
    return 1 / (double)parts; /* with more groups, until all multiprocessors are busy */
}

/* Split-K for as many groups as keep the multiprocessors busy, if each split saves more than a launch. */
static void gpu_split_columns(bl_tune *tune, const bl_target *target, int axis, int64_t groups, int64_t outputs)
{
    int64_t extent = bl_extent_of(tune->axis[axis].range);
    const bl_parting how = {extent,
                            BL_PARTS_MOST,
                            BL_PARTS_SHORTEST,
                            .enough = groups == 0 ? 0 : ceil_div(BUSY_GROUPS * (int64_t)target->units, groups),
                            .cost = column_sum_cost,
                            .gain = NEST_LAUNCH / NEST_ELEMENT * target->units / ((double)extent * (double)outputs)};

    (void)facts_split(tune, target, axis, &how);
}

/* Reductions along columns: neighbouring work-items have neighbouring columns, and a few work-items share each column. */
static bool gpu_share_columns(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    int axis = last_reduction(tune, 2 * ITEMS_OF_COLUMN), column = contiguous_axis(f, true);
    int64_t outputs = facts_groups(tune, NULL, NULL), lanes = 1, wide = 1;
    const bl_node *over = NULL, *along = NULL;

    if (axis < 0 || column < 0 || f->main != NULL || outputs >= (int64_t)target->units * SATURATED ||
        !is_read_along(f, tune->axis[axis].range, tune->axis[column].range))
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].output && !tune->axis[i].outer)
            return false; /* an inner loop over outputs: all work-items would compute the same */
    }
    lanes = whole_lanes(f, target, tune->axis[column].range);
    lanes = bl_extent_of(tune->axis[column].range) >= lanes * (int64_t)target->subgroup ? lanes : 1;
    wide = facts_part_of(tune->axis[column].range, lanes * GROUP_OF_ITEMS) / lanes;
    over = tune->axis[axis].range;
    along = tune->axis[column].range;
    gpu_split_columns(tune, target, axis, outputs / (lanes * wide), outputs);
    if (lanes > 1)
        (void)bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_outer_part(tune, along), lanes);
    (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_outer_part(tune, along), wide);
    (void)group_reduction(tune, facts_outer_part(tune, over), ITEMS_OF_COLUMN);
    return true;
}

/* ---- plain nests */

/* Loads are contiguous along one axis and stores along another, as in a transpose: work-items along both, so that cache lines are
 * used whole. */
static bool cross(facts *f, const bl_target *target, const bl_node *columns)
{
    bl_tune *tune = f->tune;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        const bl_node *row = axis->range;
        bool along = false;
        if (!axis->output || !axis->outer || axis->range == columns || bl_extent_of(axis->range) < ROWS_OF_ITEMS ||
            !bl_is_fixed(axis->range))
            continue;
        for (int k = 0; k < f->naccesses; k++)
            along = along || (facts_contiguity(f, f->access[k].node, axis->range) == 1 &&
                              facts_contiguity(f, f->access[k].node, columns) < 0);
        if (!along)
            continue;
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_axis_of(tune, columns), facts_part_of(columns, target->subgroup));
        i = facts_outer_part(tune, row);
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, i, facts_part_of(tune->axis[i].range, ROWS_OF_ITEMS));
        return true;
    }
    return false;
}

/* Lanes for a nest without reuse: the widest access, if enough work-items remain. */
static int plain_lanes(facts *f, const bl_target *target, const bl_node *range)
{
    int64_t lanes = whole_lanes(f, target, range);

    return facts_groups(f->tune, NULL, NULL) / lanes >= BUSY_ITEMS * (int64_t)target->units ? (int)lanes : 1;
}

/* Work-items of a group without reuse: large groups start faster; small groups leave some for each multiprocessor. */
static int64_t plain_items(const bl_tune *tune, const bl_target *target)
{
    int64_t items =
        facts_groups(tune, NULL, NULL) >= BUSY_GROUPS * LARGE_GROUP * (int64_t)target->units ? LARGE_GROUP : GROUP_OF_ITEMS;

    return items < (int64_t)target->max_local ? items : (int64_t)target->max_local;
}

/* If there are fewer columns than work-items of a group, a group has several rows. */
static void fill_group(bl_tune *tune, const bl_target *target)
{
    int64_t items = 1, most = GROUP_OF_ITEMS < (int64_t)target->max_local ? GROUP_OF_ITEMS : (int64_t)target->max_local;

    for (int i = 0; i < tune->naxes; i++)
        items *= tune->axis[i].range->sub == BL_AXIS_LOCAL ? bl_extent_of(tune->axis[i].range) : 1;
    for (int i = tune->naxes - 1; i >= 0 && 2 * items <= most; i--) {
        int64_t part = 0;
        if (tune->axis[i].range->sub != BL_AXIS_GLOBAL || bl_extent_of(tune->axis[i].range) < 2)
            continue;
        part = facts_part_of(tune->axis[i].range, most / items);
        if (bl_tune_apply_at(tune, BL_SPLIT_GROUP, i, part))
            items *= part;
    }
}

void heuristic_gpu(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_form form = {.local = (int)(target->subgroup < 32 ? target->subgroup : 32),
                          .row_local = target->groups == BL_GROUP_SERIAL ? 1 : ROWS_OF_ITEMS};
    int64_t items = target->subgroup;
    int axis = -1, lanes = 1;
    const bl_node *columns = NULL;

    if (target->groups == BL_GROUP_SERIAL && sent_nest(f, target)) /* one core runs the work-items of a group in turn */
        return;
    if (attend_nest(f, target) || group_nest(f, target))
        return;
    if (f->main != NULL && tile_nest(f, target, &form))
        return;
    if (target->groups != BL_GROUP_SERIAL &&
        (share_rows(f, target) || gpu_share_columns(f, target) || gpu_share_reduction(f, target)))
        return;
    if (f->main == NULL)
        unroll_choices(f);
    axis = contiguous_axis(f, true);
    if (axis < 0)
        axis = contiguous_axis(f, false);
    if (axis < 0)
        return;
    columns = tune->axis[axis].range;
    if (target->groups != BL_GROUP_SERIAL && cross(f, target, columns))
        return;
    lanes = target->groups == BL_GROUP_SERIAL ? tile_lanes(f, target, columns) : plain_lanes(f, target, columns);
    if (lanes > 1 && bl_extent_of(columns) % lanes == 0 && bl_tune_apply_at(tune, BL_SPLIT_VECTOR, axis, lanes))
        axis = facts_outer_part(tune, columns);
    if (target->groups != BL_GROUP_SERIAL)
        items = plain_items(tune, target);
    if (axis >= 0 && axis < tune->naxes && tune->axis[axis].range->sub == BL_AXIS_GLOBAL)
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, axis, facts_part_of(tune->axis[axis].range, items));
    if (target->groups != BL_GROUP_SERIAL)
        fill_group(tune, target);
}
