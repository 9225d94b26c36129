/* SPDX-License-Identifier: MIT */
/* Schedule template for products on matrix units: the unit, the number of its tiles per scope of work-items, and the scopes of a
 * group. */
#include "engine/ir/affine.h"
#include "engine/opt/facts.h"

#include <math.h>

enum {
    REUSE_TO_PACK = 16, /* reads per element from which packing pays, as in tile.c */
    REUSE_TO_TURN =
        128, /* ... if the panel is transposed element by element, for a unit twice as fast as vectors: 64 to 64 channels, 3 x 3,
                8 images of 32 x 32 took 3.1 ms for packing and 2.0 on AVX512-BF16, instead of 3.4 and 0.4 with vectors */
    ITEM_REGISTERS = 64,  /* registers for accumulators: half of those with which two groups of 256 work-items run at once */
    SCOPES_OF_GROUP = 2,  /* along rows and along columns: four warps share loads through the first-level cache */
    MOST_TILES = 8,       /* tiles along an axis */
    SPLIT_RATE = 12,      /* rate of a unit from which a product of float32 in three parts always wins: with AMX's 16, including
                             packing, it was 1.13 to 1.3 times as fast as float32 from 512 to 2,048 cubed */
    FRAGMENTS_OF_CPU = 4, /* fragments that the compiler of a serial device writes out in 0.6 s; 8 take 2 s */
    UNROLL = 4,
    MOST_TURNS = 4,        /* iterations of a unit's depth that are copied at once ... */
    FEWEST_TURNS = 2,      /* ... and the fewest for which tiles leave local memory: a barrier for each 32 of float16 ... */
    MANY_PRODUCTS = 32768, /* ... or one iteration if a scope has so many multiply-adds in it: 16 of mma.sync's m16n8k16 */
    PAD = 8,               /* elements after each row of a copy: eight rows of 16 bytes then lie in eight groups of banks ... */
    FLAT_ROW = 8,          /* ... as rows of this length do without padding */
    RATE_OF_GPU = 8        /* for a unit of unknown rate */
};

static int64_t coefficient_of(const bl_node *index, const bl_node *range)
{
    bl_affine sum;
    return bl_affine_of(&sum, index) ? bl_affine_along(&sum, range) : 0;
}

/* Does a helper read no contiguous elements where it writes contiguous ones (a transpose)? */
static bool is_turned(bl_tune *tune, const bl_packed *packed)
{
    bl_nodes below = bl_reach(tune->ir, 1, &packed->sink, false);
    const bl_node *store = packed->sink->src[0];

    for (size_t i = 0; i < below.count; i++) {
        for (size_t k = 0; below.at[i]->op == BL_OP_LOAD && k < below.count; k++) {
            const bl_node *range = below.at[k];
            if (range->op == BL_OP_RANGE && coefficient_of(store->src[1], range) == 1 &&
                coefficient_of(below.at[i]->src[1], range) == 1)
                return false;
        }
    }
    return true;
}

/* Is each element of the panels that the move would write read often enough? */
static bool panels_pay(bl_tune *tune, const bl_target *target, const bl_target_unit *unit, int64_t work)
{
    bool slow = target->use != BL_MATRIX_ALWAYS && unit->rate > 0 && unit->rate < SPLIT_RATE;

    for (int i = 0; i < tune->npacked; i++) {
        int64_t reuse = slow && is_turned(tune, &tune->packed[i]) ? REUSE_TO_TURN : REUSE_TO_PACK;
        if (!bl_is_const(tune->packed[i].count) || work / reuse < tune->packed[i].count->arg)
            return false;
    }
    return true;
}

/* Apply MATRIX. Returns the axis of the tiles' rows (bl_axis_origin), or -1, and the nest unchanged, if no axis suits or too much
 * would be computed twice. */
static int apply_unit(facts *f, const bl_target *target, const bl_target_unit *how)
{
    bl_matrix unit = how->shape;
    bl_tune *tune = f->tune;
    const tune_mark before = tune_keep(tune);
    int64_t work = bl_free_work(&tune->free, f->main);

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t extent = bl_extent_of(range), whole = (extent + unit.m - 1) / unit.m * unit.m;
        if (whole > extent + extent / 2 || !bl_tune_apply_at(tune, BL_UNIT_MATRIX, i, bl_matrix_pack(unit)))
            continue;
        if ((uint32_t)tune->nparams <= target->max_params && panels_pay(tune, target, how, work))
            return bl_axis_origin(range);
        tune_undo(tune, &before);
    }
    return -1;
}

/* The axis over the tiles, and its extent. -1 if there is none. */
static int axis_of_tiles(const bl_tune *tune, int origin, int64_t *extent)
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
static int matrix_form_find_columns(const bl_tune *tune)
{
    const bl_node *product = bl_find_op(tune->ir, tune->sink, BL_OP_MATRIX);
    return product == NULL ? -1 : bl_axis_origin(product->src[2]);
}

typedef struct form {
    int64_t rows, columns; /* tiles of a scope */
    int64_t a, b;          /* elements of a fragment in a copy, padding included */
} form;

/* Do the scopes of a group share operands in local memory? */
static bool matrix_form_shares(const bl_target *target, bl_matrix unit)
{
    return target->groups == BL_GROUP_PARALLEL && unit.scope > 1 && (unit.from == BL_F16 || unit.from == BL_BF16);
}

/* Local memory of a group for the sums ... */
static int64_t sum_bytes(bl_matrix unit, const form *t, int64_t scopes)
{
    return t->rows * t->columns * scopes * scopes * unit.m * unit.n * 4;
}

/* ... and for two copies of each operand of |turns| iterations. */
static int64_t copy_bytes(bl_matrix unit, const form *t, int64_t scopes, int64_t turns)
{
    return 2 * turns * scopes * (t->rows * t->a + t->columns * t->b) * (int64_t)bl_dtype_bytes((bl_dtype)unit.from);
}

/* Iterations of a copy for which tiles must leave local memory. */
static int64_t fewest_turns(bl_matrix unit, const form *t)
{
    return t->rows * t->columns * unit.m * unit.n * unit.k >= MANY_PRODUCTS ? 1 : FEWEST_TURNS;
}

/* Do the accumulators of the tiles, one a and a row of b fit in registers? */
static bool matrix_form_fits(const bl_target *target, bl_matrix unit, const form *t, int64_t scopes)
{
    int64_t cells = unit.m * unit.n, own = cells / unit.scope;
    int64_t bytes =
        sum_bytes(unit, t, scopes) + (matrix_form_shares(target, unit) ? copy_bytes(unit, t, scopes, fewest_turns(unit, t)) : 0);
    bool registers = target->fragments > 0 ? t->rows * t->columns + t->rows + t->columns <= target->fragments
                     : unit.scope == 1
                         ? (t->rows * t->columns + t->columns + 1) * (own / BL_MAX_LANES) < (int64_t)target->registers
                         : t->rows * t->columns * own <= ITEM_REGISTERS &&
                               (target->groups != BL_GROUP_SERIAL || t->rows * t->columns <= FRAGMENTS_OF_CPU);
    return registers && bytes <= (int64_t)target->local_bytes;
}

typedef struct unit_tiles {
    const bl_target *target;
    bl_matrix unit;
    int64_t rows, columns, scopes; /* tiles along both axes */
    form one;                      /* a and b of a single tile */
} unit_tiles;

/* Loads per product, and products that are computed twice. */
static double unit_tiles_cost(const void *arg, const int64_t *size)
{
    const unit_tiles *u = arg;
    form t = {size[0], size[1], u->one.a, u->one.b};

    if (!matrix_form_fits(u->target, u->unit, &t, u->scopes))
        return INFINITY;
    return nest_tile_cost(&(nest_tile){.waste = nest_waste(u->rows, t.rows, u->columns, t.columns),
                                       .near = {1.0 / (double)t.rows, 1.0 / (double)t.columns}});
}

static void matrix_form_split_axis(bl_tune *tune, int origin, int64_t tiles, int64_t scopes)
{
    int64_t extent = 1;
    int axis = axis_of_tiles(tune, origin, &extent);

    if (axis >= 0 && tiles > 1)
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, axis, tiles);
    axis = axis_of_tiles(tune, origin, &extent);
    if (axis >= 0 && scopes > 1 && extent >= scopes)
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, axis, scopes);
}

static bool is_fragment(bl_tune *tune, const bl_node *load)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_MATRIX && bl_depends(tune, load, tune->axis[i].range))
            return true;
    }
    return false;
}

/* The row length of |load|'s fragments in a copy that keeps the rows of memory. 0 if it is unknown. */
static int64_t row_length(bl_tune *tune, const bl_node *load)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t stride = 0;
        if (range->sub == BL_AXIS_MATRIX && bl_access_stride(tune, load, range, &stride) && stride == 1)
            return bl_extent_of(range);
    }
    return 0;
}

static int pad_of(bl_tune *tune, const bl_node *load)
{
    return row_length(tune, load) == FLAT_ROW ? 0 : PAD;
}

/* Elements of a fragment of |rows| by |columns|, in a copy of the operand that depends on |axis|. */
static int64_t fragment_elements(bl_tune *tune, const bl_node *axis, int64_t rows, int64_t columns)
{
    const bl_node *all[MOST_OPERANDS];
    int operands = bl_tune_operands(tune, MOST_OPERANDS, all);
    int64_t length = rows < columns ? rows : columns; /* the most rows */
    int pad = PAD;

    for (int i = 0; i < operands; i++) {
        int64_t own = is_fragment(tune, all[i]) && bl_depends(tune, all[i], axis) ? row_length(tune, all[i]) : 0;
        length = own > 0 ? own : length;
        pad = own > 0 ? pad_of(tune, all[i]) : pad;
    }
    return rows * columns + rows * columns / length * pad;
}

/* The sizes of a single tile of the MATRIX node. */
static form one_tile(bl_tune *tune, bl_matrix unit)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    form one = {.rows = 1, .columns = 1};

    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op != BL_OP_MATRIX)
            continue;
        one.a = fragment_elements(tune, below.at[i]->src[1], unit.m, unit.k);
        one.b = fragment_elements(tune, below.at[i]->src[2], unit.n, unit.k);
    }
    return one;
}

/* The operands of the unit that several scopes of a group read. Returns their number. */
static int shared_operands(bl_tune *tune, const bl_node *load[2])
{
    const bl_node *all[MOST_OPERANDS], *scope = NULL; /* the last axis of work-items is that of a scope */
    int n = 0, operands = bl_tune_operands(tune, MOST_OPERANDS, all);

    for (int i = 0; i < tune->naxes; i++)
        scope = tune->axis[i].range->sub == BL_AXIS_LOCAL ? tune->axis[i].range : scope;
    for (int i = 0; i < operands && n < 2; i++) {
        if (is_fragment(tune, all[i]) && facts_read_by_several(tune, all[i], scope))
            load[n++] = all[i];
    }
    return n;
}

/* Shared-memory tiling of these operands, for some iterations of the reduction at a time. */
static void matrix_form_share_operands(bl_tune *tune, const bl_target *target, bl_matrix unit, const form *t, int64_t scopes)
{
    const bl_node *load[2];
    int64_t room = tune->local_bytes, rest = (int64_t)target->local_bytes - sum_bytes(unit, t, scopes);
    int turn = -1, n = 0;
    bl_share how = {.narrow = true};

    if (shared_operands(tune, load) < 2)
        return;
    for (int i = 0; i < tune->naxes; i++)
        turn = tune->axis[i].range->sub == BL_AXIS_REDUCE ? i : turn;
    for (int64_t turns = MOST_TURNS; turn >= 0 && turns > 1; turns /= 2) {
        if (bl_extent_of(tune->axis[turn].range) % turns == 0 && copy_bytes(unit, t, scopes, turns) <= rest &&
            bl_tune_apply_at(tune, BL_SPLIT_UNROLL, turn, turns))
            break;
    }
    for (int i = 0; i < tune->naxes; i++)
        how.twice = how.twice || (tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_extent_of(tune->axis[i].range) > 1);
    tune->local_bytes = rest < room ? rest : room;
    n = shared_operands(tune, load);
    for (int i = 0; i < n; i++) {
        how.pad = pad_of(tune, load[i]);
        (void)bl_tune_apply_at(tune, BL_STAGE_LOCAL, tune_operand_number(tune, load[i]), bl_share_pack(how));
    }
    tune->local_bytes = room;
}

/* Choose and apply tiles and scopes for a nest with |unit|'s rows and columns along these axes. */
static void form_tiles(bl_tune *tune, const bl_target *target, bl_matrix unit, int row_axis, int column_axis)
{
    int64_t rows = 1, columns = 1, scopes = target->groups == BL_GROUP_PARALLEL ? SCOPES_OF_GROUP : 1;
    int64_t best[MOST_SIZES] = {1, 1};
    form tiles = one_tile(tune, unit);

    (void)axis_of_tiles(tune, row_axis, &rows);
    (void)axis_of_tiles(tune, column_axis, &columns);
    const unit_tiles u = {target, unit, rows, columns, scopes, tiles};
    (void)sizes_choose(&(sizes){.n = 2,
                                .range = {{1, rows < MOST_TILES ? rows : MOST_TILES, false},
                                          {1, columns < MOST_TILES ? columns : MOST_TILES, false}},
                                .cost = unit_tiles_cost,
                                .arg = &u},
                       best);
    tiles.rows = best[0];
    tiles.columns = best[1];
    matrix_form_split_axis(tune, row_axis, tiles.rows, scopes);
    matrix_form_split_axis(tune, column_axis, tiles.columns, scopes);
    if (matrix_form_shares(target, unit))
        matrix_form_share_operands(tune, target, unit, &tiles, scopes);
}

/* The time of all groups, in multiply-adds of a multiprocessor, if the reduction is split into |parts|. */
static double matrix_form_cost_of(const bl_tune *tune, const bl_target *target, const bl_target_unit *unit, int64_t parts)
{
    double groups = (double)parts, rate = unit->rate > 0 ? unit->rate : RATE_OF_GPU;
    double own = (double)(unit->shape.m * unit->shape.n * unit->shape.k) / rate;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_GLOBAL)
            groups *= (double)bl_extent_of(range);
        else if (range->sub != BL_AXIS_MATRIX && !tune->axis[i].stage && !tune_deals_elements(range))
            own *= (double)bl_extent_of(range); /* tiles, scopes and iterations */
    }
    return nest_tile_cost(&(nest_tile){.work = nest_waves(groups, target->units) * own / (double)parts});
}

typedef struct parted_units {
    const bl_tune *tune;
    const bl_target *target;
    const bl_target_unit *unit;
    int64_t results;
} parted_units;

static double parted_units_cost(void *arg, int64_t parts)
{
    const parted_units *p = arg;
    return matrix_form_cost_of(p->tune, p->target, p->unit, parts) + nest_parts_cost(p->target->units, p->results, parts);
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

static void matrix_form_unroll(bl_tune *tune)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub != BL_AXIS_REDUCE || bl_extent_of(range) % UNROLL != 0)
            continue;
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, UNROLL);
        return;
    }
}

/* Schedule the nest on |unit|. False, and the nest unchanged, if that is impossible. */
static bool on_unit(facts *f, const bl_target *target, const bl_target_unit *unit)
{
    int rows = apply_unit(f, target, unit);

    if (rows < 0)
        return false;
    form_tiles(f->tune, target, unit->shape, rows, matrix_form_find_columns(f->tune));
    return true;
}

/* The same, after split-K for as many parts as suit a GPU. */
static bool in_parts(facts *f, const bl_target *target, const bl_target_unit *unit)
{
    bl_tune *tune = f->tune;
    const tune_mark start = tune_keep(tune);
    facts before = *f;
    bool gpu = target->groups == BL_GROUP_PARALLEL && (uint32_t)tune->nparams < target->max_params;
    int axis = gpu ? gpu_axis_to_split(f) : -1;
    int64_t parts = 1;
    parted_units p = {tune, target, unit, bl_free_size(&tune->free, bl_free_get(&tune->free, f->main))};
    const bl_parting how = {axis < 0 ? 0 : bl_extent_of(tune->axis[axis].range),
                            BL_PARTS_MOST,
                            BL_PARTS_SHORTEST,
                            .multiple = unit->shape.k,
                            .cost = parted_units_cost,
                            .arg = &p};

    if (!on_unit(f, target, unit))
        return false;
    parts = bl_parts_choose(&how);
    if (parts == 1)
        return true;
    facts_undo(f, &before, &start);

    if (bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, axis, parts)) {
        facts_again(f, &before);
        if (f->main != NULL && on_unit(f, target, unit))
            return true;
        facts_undo(f, &before, &start);
    }
    return on_unit(f, target, unit);
}

bool unit_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    bool split =
        false; /* three products per iteration: unrolled further, 512 cubed took a third longer, and 0.7 s more to compile */

    if (target->use == BL_MATRIX_NEVER || (target->use == BL_MATRIX_SURE && target->groups == BL_GROUP_SERIAL))
        return false; /* a serial device computes each cell by itself: at 512 cubed slower than a product with vectors */
    for (int i = 0; i < target->nmatrix && f->main != NULL && !tune->matrix; i++) {
        bl_matrix unit = target->matrix[i].shape;
        bool sure = !unit.split || target->use == BL_MATRIX_ALWAYS || target->matrix[i].rate >= SPLIT_RATE;
        if (sure && (unit.scope > 1) == (target->groups != BL_GROUP_OF_ONE))
            (void)in_parts(f, target, &target->matrix[i]);
        split = unit.split;
    }
    if (tune->matrix && !tune->shared && !split && target->groups != BL_GROUP_SERIAL)
        matrix_form_unroll(tune);
    return tune->matrix;
}
