/* SPDX-License-Identifier: MIT */
/* Schedule template for flash attention on devices whose groups have several work-items: a group has some rows, and all columns
 * of the result. Each work-item has one or more vectors of a row, and a few rows. It computes some scores of these rows for a
 * block of keys, and keeps the sums in registers (score.c). */
#include "engine/opt/facts.h"

enum {
    MOST_ITEMS = 256,    /* work-items of a group: with more, each has too few registers */
    ROWS = 4,            /* rows of a work-item */
    MOST_TURNS = 4,      /* scores per row that a work-item computes at once: with ROWS rows, as many sums as a column has */
    COLUMNS_OF_ITEM = 4, /* most vectors of a row per work-item */
    LANES = 4,           /* elements of a vector */
    MOST_WIDE = 32,      /* work-items along a row */
    UNROLL = 4
};

/* For a device with serial groups: each barrier costs a pass over all work-items, and lanes gather element by element. Few
 * work-items, with much work each. */
enum { CPU_ITEMS = 16, CPU_ROWS = 8, CPU_TURNS = 8 };

int64_t bl_group_columns(const bl_target *target)
{
    int64_t items = target->max_local < MOST_ITEMS ? target->max_local : MOST_ITEMS;
    return target->groups ? items * LANES * COLUMNS_OF_ITEM / 2 : 0;
}

/* The grid axis whose iterations share most of the loads of one iteration of |turn|. */
static const bl_node *rows_of(facts *f, const bl_node *turn, uint64_t columns)
{
    bl_tune *tune = f->tune;
    const bl_node *best = NULL;
    int64_t most = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t shared = 0;
        if (range->sub != BL_AXIS_GLOBAL || !bl_is_fixed(range) || (columns & bl_free_bit(&tune->free, range)) != 0)
            continue;
        for (size_t k = 0; k < f->below.count; k++) {
            const bl_node *load = f->below.at[k];
            if (load->op == BL_OP_LOAD && bl_depends(tune, load, turn) && !bl_depends(tune, load, range))
                shared += bl_free_size(&tune->free, bl_free_get(&tune->free, load));
        }
        if (shared > most) {
            most = shared;
            best = range;
        }
    }
    return best;
}

static bool attend_apply(bl_tune *tune, bl_move_kind kind, const bl_node *range, int64_t amount)
{
    int axis = facts_outer_part(tune, range); /* the outer part of a split keeps the number */
    return amount > 1 && axis >= 0 && bl_tune_apply_at(tune, kind, axis, amount);
}

/* Distribute the columns over work-items, in vectors. Returns the number of work-items; 0 if that is impossible. */
static int64_t attend_share_columns(bl_tune *tune, const bl_target *target, uint64_t columns, int64_t most)
{
    const bl_node *list[BL_MAX_DIMS];
    int64_t items = 1;
    int n = 0;

    for (int i = 0; i < tune->naxes && n < BL_MAX_DIMS; i++) {
        if ((columns & bl_free_bit(&tune->free, tune->axis[i].range)) != 0 && tune->axis[i].output)
            list[n++] = tune->axis[i].range;
    }
    for (int i = n; i-- > 0;) {
        int64_t extent = bl_extent_of(list[i]), left = 0;
        if (!bl_is_fixed(list[i]))
            return 0;
        if (i == n - 1 && extent >= LANES && (target->max_lanes == 0 || target->max_lanes >= LANES) &&
            attend_apply(tune, BL_SPLIT_VECTOR, list[i], LANES))
            extent = ceil_div(extent, LANES);
        left = ceil_div(extent * items, most < MOST_WIDE ? most : MOST_WIDE);
        if (left > 1 && attend_apply(tune, BL_SPLIT_UNROLL, list[i], left < extent ? left : extent))
            extent = ceil_div(extent, left < extent ? left : extent);
        if (extent > 1 && !attend_apply(tune, BL_SPLIT_GROUP, list[i], extent))
            return 0;
        items *= extent;
    }
    return items <= most ? items : 0;
}

/* Unroll the inner reductions, and the sum over a block. */
static void attend_unroll(bl_tune *tune)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output && !axis->stage && axis->range->sub == BL_AXIS_REDUCE && bl_is_fixed(axis->range))
            (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, UNROLL);
    }
}

/* Apply the template with |high| work-items along the rows and |turns| scores for each of their rows. */
static bool form(facts *f, const bl_target *target, int64_t most, int64_t high, int64_t turns)
{
    bl_tune *tune = f->tune;
    uint64_t columns = 0;
    const bl_node *turn = tune_turns(tune, &columns), *rows = rows_of(f, turn, columns);
    int64_t each = target->groups == BL_GROUP_SERIAL ? CPU_ROWS : ROWS;
    int64_t wide = attend_share_columns(tune, target, columns, most);
    int axis = 0;

    if (wide == 0 || wide * high > most)
        return false;
    if (rows != NULL && bl_extent_of(rows) >= each)
        (void)attend_apply(tune, BL_SPLIT_UNROLL, rows, each);
    if (rows != NULL && high > 1)
        (void)attend_apply(tune, BL_SPLIT_GROUP, rows, high);
    axis = facts_axis_of(tune, turn);
    if (axis < 0 || !bl_tune_apply_at(tune, BL_STAGE_VALUES, axis, turns))
        return false;
    attend_unroll(tune);
    return true;
}

bool attend_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const tune_mark start = tune_keep(tune);
    uint64_t columns = 0;
    const bl_node *turn = tune_turns(tune, &columns), *rows = NULL;
    int64_t most = target->groups == BL_GROUP_SERIAL ? CPU_ITEMS : MOST_ITEMS,
            each = target->groups == BL_GROUP_SERIAL ? CPU_ROWS : ROWS, high = 1, groups = 1;

    if (turn == NULL)
        return false;
    most = most < (int64_t)target->max_local ? most : (int64_t)target->max_local;
    rows = rows_of(f, turn, columns);
    for (int i = 0; i < tune->naxes; i++)
        groups *= tune->axis[i].range->sub == BL_AXIS_GLOBAL ? bl_extent_of(tune->axis[i].range) : 1;
    while (rows != NULL && high < most && 2 * high * each <= bl_extent_of(rows) &&
           groups / (2 * high * each) >= (int64_t)target->units)
        high *= 2;
    for (; high > 0; high /= 2) { /* the largest block that fits in local memory */
        for (int64_t turns = target->groups == BL_GROUP_SERIAL ? CPU_TURNS : MOST_TURNS; turns > 0; turns /= 2) {
            if (form(f, target, most, high, turns))
                return true;
            tune_undo(tune, &start);
            facts_init(f, tune);
        }
    }
    return false;
}
