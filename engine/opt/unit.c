/* SPDX-License-Identifier: MIT */
/* The form of a product on matrix units: which unit, how many of its tiles a scope of work-items keeps, how many scopes are a
 * group. */
#include "engine/opt/facts.h"

enum {
    REUSE_TO_PACK = 16,   /* reads of each element from which writing a panel pays, as in tile.c */
    ITEM_REGISTERS = 64,  /* for accumulators: half of those that let two groups of 256 work-items run at once */
    SCOPES_OF_GROUP = 2,  /* along rows and along columns: four warps share what they load through the first cache */
    MOST_TILES = 8,       /* along an axis */
    SPLIT_RATE = 12,      /* of a unit from which a product of float32 in three parts wins for sure: of AMX's 16 were left, both
                             operands' packing included, 1.13 to 1.3 times what float32 did from 512 to 2,048 cubed */
    FRAGMENTS_OF_CPU = 4, /* that such a device's compiler writes out in 0.6 s; 8 take it 2 s */
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

/* The nest with the unit's tiles; the axis of their rows, as bl_axis_origin numbers it, or -1, and the nest as it was, where none
 * suits or too much would be computed twice. */
static int apply_unit(facts *f, const bl_target *target, bl_matrix unit)
{
    bl_tune *tune = f->tune, before = *tune;
    int64_t work = bl_free_work(&tune->free, f->main);

    for (int i = 0; i < before.naxes; i++) {
        int64_t extent = bl_extent_of(before.axis[i].range), whole = (extent + unit.m - 1) / unit.m * unit.m;
        if (whole > extent + extent / 2 || !bl_tune_apply(tune, (bl_move){BL_MOVE_MATRIX, i, bl_matrix_pack(unit)}))
            continue;
        if ((uint32_t)tune->nparams <= target->max_params && panels_pay(tune, work))
            return bl_axis_origin(before.axis[i].range);
        *tune = before;
        tune_survey(tune, tune->sink);
    }
    return -1;
}

/* What is left of an axis outside its tiles, and how long that is; -1 where nothing is. */
static int outer_part(const bl_tune *tune, int origin, int64_t *extent)
{
    *extent = 1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (bl_axis_origin(range) != origin || (range->sub != BL_AXIS_GLOBAL && range->sub != BL_AXIS_LOOP))
            continue;
        *extent = bl_extent_of(range);
        return i;
    }
    return -1;
}

/* The axis of the tiles' columns. */
static int find_columns(const bl_tune *tune)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_MATRIX)
            return bl_axis_origin(below.at[i]->src[2]);
    }
    return -1;
}

typedef struct form {
    int64_t rows, columns; /* tiles of a scope */
} form;

/* Registers for |rows| by |columns| accumulators, an a and a row of b. */
static bool fits(const bl_target *target, bl_matrix unit, const form *t, int64_t scopes)
{
    int64_t cells = unit.m * unit.n, own = cells / unit.scope;
    int64_t bytes = t->rows * t->columns * scopes * cells * 4;
    bool registers =
        target->fragments > 0 ? t->rows * t->columns + t->rows + t->columns <= target->fragments
        : unit.scope == 1
            ? (t->rows * t->columns + t->columns + 1) * (own / BL_MAX_LANES) < (int64_t)target->registers
            : t->rows * t->columns * own <= ITEM_REGISTERS && (!target->cpu || t->rows * t->columns <= FRAGMENTS_OF_CPU);
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

static void split_axis(bl_tune *tune, int origin, int64_t tiles, int64_t scopes)
{
    int64_t extent = 1;
    int axis = outer_part(tune, origin, &extent);

    if (axis >= 0 && tiles > 1)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, axis, tiles});
    axis = outer_part(tune, origin, &extent);
    if (axis >= 0 && scopes > 1 && extent >= scopes)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_LOCAL, axis, scopes});
}

/* Tiles and scopes for a nest that has |unit|'s rows along one axis and its columns along another. */
static void form_tiles(bl_tune *tune, const bl_target *target, bl_matrix unit, int row_axis, int column_axis)
{
    int64_t rows = 1, columns = 1, scopes = target->groups && !target->cpu ? SCOPES_OF_GROUP : 1;
    form tiles;

    (void)outer_part(tune, row_axis, &rows);
    (void)outer_part(tune, column_axis, &columns);
    tiles = choose_form(target, unit, rows, columns, scopes * scopes);
    split_axis(tune, row_axis, tiles.rows, scopes);
    split_axis(tune, column_axis, tiles.columns, scopes);
}

void bl_target_split(bl_target *target)
{
    int n = target->nmatrix, most = (int)(sizeof target->matrix / sizeof target->matrix[0]);

    for (int i = 0; i < n && target->nmatrix < most; i++) {
        bl_target_unit unit = target->matrix[i];
        unit.shape.split = true;
        if (!bl_matrix_is_valid(unit.shape) || target->matrix[i].shape.split)
            continue;
        target->matrix[target->nmatrix++] = unit;
        target->precision = BL_PRECISION_HIGH;
    }
}

static void unroll(bl_tune *tune)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub != BL_AXIS_REDUCE || bl_extent_of(range) % UNROLL != 0)
            continue;
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, UNROLL});
        return;
    }
}

bool unit_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    bool split = false; /* three products a turn: unrolled further, 512 cubed took a third longer, and 0.7 s more to compile */

    if (target->use == BL_MATRIX_NEVER || (target->use == BL_MATRIX_SURE && target->cpu && target->groups))
        return false; /* a CPU that plays a GPU computes each cell by itself: at 512 slower than a product in vectors */
    for (int i = 0; i < target->nmatrix && f->main != NULL && !tune->matrix; i++) {
        bl_matrix unit = target->matrix[i].shape;
        bool sure = !unit.split || target->use == BL_MATRIX_ALWAYS || target->matrix[i].rate >= SPLIT_RATE;
        int rows = sure && (unit.scope > 1) == target->groups ? apply_unit(f, target, unit) : -1;
        if (rows >= 0)
            form_tiles(tune, target, unit, rows, find_columns(tune));
        split = unit.split;
    }
    if (tune->matrix && !split && !(target->cpu && target->groups))
        unroll(tune);
    return tune->matrix;
}
