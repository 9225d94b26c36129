/* SPDX-License-Identifier: MIT */
/* Schedule template for scatter inversion (scatter_invert.c): a group has as many positions as its cache holds sums, since each
 * group looks at all keys. If there are many more keys than positions, split-K over the keys. */
#include "engine/opt/facts.h"

enum {
    LEAST_PLACES = 64,    /* with fewer positions, comparing with lanes is as fast */
    LEAST_WORK = 1 << 14, /* comparisons from which sums in local memory pay */
    LEAST_KEYS = 8, /* the same for rows of columns on a CPU: 512 x 512 sums of 2 keys took 7 us, in local memory 15, 256 x 64
                       of 4 keys took 2 us in both forms, and 256 x 576 of 16 keys 35 and 9 */
    MOST_COLUMNS = 4096, /* columns of a group: parts of rows are read and written by shorter runs. 1,000 x 4,096 places of 256
                            rows took 0.36 ms, in parts of 256 columns 0.48 ms */
    CACHE_PART = 2,      /* sums may fill half a core's cache; the data that is read passes through the other half */
    GROUPS_PER_UNIT = 2, /* groups per core, so that no core waits long for the last group */
    KEYS_TO_PART = 4     /* keys per position from which split-K pays */
};

/* The last output axis on which the folds depend and along which all accesses are contiguous. */
static const bl_node *column_axis(facts *f, uint64_t columns)
{
    bl_tune *tune = f->tune;
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        if (tune->axis[i].output && bl_is_fixed(range) && (columns & bl_free_bit(&tune->free, range)) != 0 &&
            facts_all_contiguous(f, range))
            return range;
    }
    return NULL;
}

/* The columns of a group, in whole vectors if possible: few if each column has keys of its own, so that groups share none; else
 * many. */
static int64_t count_columns(const facts *f, const bl_target *target, const bl_node *range, bool keyed)
{
    int64_t extent = bl_extent_of(range), lanes = tile_lanes(f, target, range), most = keyed ? lanes : MOST_COLUMNS;

    for (int64_t parts = (extent + most - 1) / most; parts <= extent / lanes; parts++) {
        int64_t each = ((extent + parts - 1) / parts + lanes - 1) / lanes * lanes;
        if (each <= extent)
            return each;
    }
    return lanes;
}

/* The positions of a group: as many as fit, with some for each core. Single columns get one group per core, since most of what
 * they read is keys. */
static int64_t count_places(const facts *f, const bl_target *target, const bl_node *place, int64_t bytes, int64_t columns)
{
    int64_t extent = bl_extent_of(place), groups = 1, fit = f->tune->local_bytes / (bytes * columns);
    int64_t wanted = (int64_t)target->units * (columns > 1 ? GROUPS_PER_UNIT : 1), share = 0;

    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        if (range != place && range->sub == BL_AXIS_GLOBAL && groups < wanted)
            groups = bl_extent_of(range) < wanted ? groups * bl_extent_of(range) : wanted;
    }
    share = groups < wanted ? (extent - 1) / (wanted / groups) + 1 : extent;
    fit = fit < extent ? fit : extent;
    return share < fit ? share : fit;
}

static bool turn_round(facts *f, const bl_target *target, const bl_node *place, const tune_sent *sent)
{
    bl_tune *tune = f->tune;
    const bl_node *column = column_axis(f, sent->columns);
    bool keyed = column != NULL && (sent->keyed & bl_free_bit(&tune->free, column)) != 0;
    int64_t columns = 1, places = 0;

    if (column != NULL)
        columns = column->sub == BL_AXIS_LOOP ? bl_extent_of(column) : count_columns(f, target, column, keyed);
    if (columns > 1 && column->sub == BL_AXIS_GLOBAL &&
        !bl_tune_apply_at(tune, BL_SPLIT_LOOP, facts_axis_of(tune, column), columns))
        return false;
    places = count_places(f, target, place, sent->bytes, columns);
    if (places < 2 || !bl_tune_apply_at(tune, BL_PARTIAL_SCATTER, facts_axis_of(tune, place), places))
        return false;
    stage_vectorise(tune, target);
    return target->max_turns == 0 || bl_tune_limit_turns(tune, target->max_turns);
}

static bool scatter_pays(facts *f, const bl_target *target, const bl_node *place, const tune_sent *sent)
{
    if (!target->groups && sent->turns >= LEAST_KEYS && column_axis(f, sent->columns) != NULL)
        return true;
    return sent->turns > (LEAST_WORK - 1) / bl_extent_of(place);
}

/* An output axis to which scatter inversion applies, if it pays. */
static const bl_node *scatter_form_find_places(facts *f, const bl_target *target, tune_sent *sent)
{
    bl_tune *tune = f->tune;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *place = tune->axis[i].range;
        if (tune->axis[i].output && bl_extent_of(place) >= LEAST_PLACES && tune_find_sent(tune, place, sent) &&
            scatter_pays(f, target, place, sent))
            return place;
    }
    return NULL;
}

/* Few positions and one column: split-K, one part of the keys per core. */
static bool part_keys(bl_tune *tune, const bl_target *target, const bl_node *place, const tune_sent *sent)
{
    if (sent->columns != 0 || target->units < 2 || sent->turns / KEYS_TO_PART < bl_extent_of(place) * (int64_t)target->units)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_parting how = {bl_extent_of(tune->axis[i].range), target->units, 2, .multiple = 0};
        if (!tune->axis[i].output && bl_parts_choose(&how) == target->units &&
            bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, i, target->units))
            return true;
    }
    return false;
}

bool sent_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const tune_mark before = tune_keep(tune);
    int64_t budget = target->cache_bytes / CACHE_PART;
    tune_sent sent;
    const bl_node *place = scatter_form_find_places(f, target, &sent);

    if (place == NULL)
        return false;
    budget = budget < (int64_t)target->local_bytes ? budget : (int64_t)target->local_bytes;
    tune->local_bytes = tune->local_bytes < budget ? tune->local_bytes : budget;
    if (part_keys(tune, target, place, &sent)) {
        facts_init(f, tune);
        place = scatter_form_find_places(f, target, &sent);
    }
    if (place != NULL && turn_round(f, target, place, &sent))
        return true;
    tune_undo(tune, &before);
    facts_init(f, tune);
    return false;
}
