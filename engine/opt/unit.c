/* SPDX-License-Identifier: MIT */
/* The form of a product on matrix units: which unit, how many of its tiles a scope of work-items keeps, how many scopes are a
 * group. */
#include "engine/opt/facts.h"

enum {
    REUSE_TO_PACK = 16,  /* reads of each element from which writing a panel pays, as in tile.c */
    ITEM_REGISTERS = 64, /* for accumulators: half of those that let two groups of 256 work-items run at once */
    SCOPES_OF_GROUP = 2, /* along rows and along columns: four warps share what they load through the first cache */
    MOST_TILES = 8,      /* along an axis */
    UNROLL = 4
};

/* Elements of panels that the move would have written, each read often enough? */
static bool panels_pay(bl_tune *tune, int64_t work)
{
    for (int i = 0; i < tune->npacked; i++) {
        if (!bl_is_const(tune->packed[i].count) || work / REUSE_TO_PACK < tune->packed[i].count->arg)
            return false;
    }
    return true;
}

/* The nest with the unit's tiles.  False, and the nest as it was, where no axis suits or too much would be computed twice. */
static bool apply_unit(facts *f, const bl_target *target, bl_matrix unit)
{
    bl_tune *tune = f->tune, before = *tune;
    int64_t work = bl_free_work(&tune->free, f->main);

    for (int i = 0; i < before.naxes; i++) {
        int64_t extent = bl_extent_of(before.axis[i].range), whole = (extent + unit.m - 1) / unit.m * unit.m;
        if (whole > extent + extent / 2 || !bl_tune_apply(tune, (bl_move){BL_MOVE_MATRIX, i, bl_matrix_pack(unit)}))
            continue;
        if ((uint32_t)tune->nparams <= target->max_params && panels_pay(tune, work))
            return true;
        *tune = before;
        tune_survey(tune, tune->sink);
    }
    return false;
}

/* The outer part of the axis whose inner part is |range|, and how long it is; -1 where nothing is left of it. */
static int outer_part(const bl_tune *tune, const bl_node *inner, int64_t *extent)
{
    *extent = 1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range == inner || range->arg >> PART_BITS != inner->arg >> PART_BITS || range->sub == BL_AXIS_MATRIX ||
            range->sub == BL_AXIS_TILE)
            continue;
        *extent = bl_extent_of(range);
        return i;
    }
    return -1;
}

static const bl_node *find_matrix(const bl_tune *tune)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_MATRIX)
            return below.at[i];
    }
    return NULL;
}

typedef struct form {
    int64_t rows, columns; /* tiles of a scope */
} form;

/* Registers for |rows| by |columns| accumulators, an a and a row of b. */
static bool fits(const bl_target *target, bl_matrix unit, const form *t, int64_t scopes)
{
    int64_t cells = unit.m * unit.n, own = cells / unit.scope;
    int64_t bytes = t->rows * t->columns * scopes * cells * 4;
    bool registers = target->fragments > 0 ? t->rows * t->columns + t->rows + t->columns <= target->fragments
                     : unit.scope == 1
                         ? (t->rows * t->columns + t->columns + 1) * (own / BL_MAX_LANES) < (int64_t)target->registers
                         : t->rows * t->columns * own <= ITEM_REGISTERS;
    return registers && bytes <= (int64_t)target->local_bytes;
}

/* The tiles that load least for what they multiply, and compute least twice. */
static form choose_form(const bl_target *target, bl_matrix unit, int64_t rows, int64_t columns, int64_t scopes)
{
    form best = {1, 1};
    double least = 1e30;

    for (form t = {1, 1}; t.rows <= MOST_TILES && t.rows <= rows; t.rows++) {
        for (t.columns = 1; t.columns <= MOST_TILES && t.columns <= columns; t.columns++) {
            double waste = (double)((rows + t.rows - 1) / t.rows * t.rows) / (double)rows *
                           (double)((columns + t.columns - 1) / t.columns * t.columns) / (double)columns;
            double cost = waste * (1.0 + 1.0 / (double)t.rows + 1.0 / (double)t.columns);
            if (cost < least && fits(target, unit, &t, scopes)) {
                least = cost;
                best = t;
            }
        }
    }
    return best;
}

static void split_axis(bl_tune *tune, const bl_node *inner, int64_t tiles, int64_t scopes)
{
    int64_t extent = 1;
    int axis = outer_part(tune, inner, &extent);

    if (axis >= 0 && tiles > 1)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, axis, tiles});
    axis = outer_part(tune, inner, &extent);
    if (axis >= 0 && scopes > 1 && extent >= scopes)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_LOCAL, axis, scopes});
}

bool unit_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_node *matrix = NULL;
    int64_t rows = 1, columns = 1, scopes = target->groups && !target->cpu ? SCOPES_OF_GROUP : 1;
    form tiles;

    for (int i = 0; i < target->nmatrix && f->main != NULL && !tune->matrix; i++) {
        bl_matrix unit = target->matrix[i];
        if ((unit.scope > 1) != target->groups || !apply_unit(f, target, unit))
            continue;
        matrix = find_matrix(tune);
        (void)outer_part(tune, matrix->src[1], &rows);
        (void)outer_part(tune, matrix->src[2], &columns);
        tiles = choose_form(target, unit, rows, columns, scopes * scopes);
        split_axis(tune, matrix->src[1], tiles.rows, scopes);
        split_axis(tune, matrix->src[2], tiles.columns, scopes);
    }
    for (int i = tune->naxes - 1; i >= 0 && tune->matrix; i--) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_REDUCE && bl_extent_of(range) % UNROLL == 0) {
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, UNROLL});
            break;
        }
    }
    return tune->matrix;
}
