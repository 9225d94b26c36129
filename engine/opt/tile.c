/* SPDX-License-Identifier: MIT */
/* Register tiles (unroll and jam) for reductions with operand reuse, on all devices: the axis of the lanes, the axis of the rows,
 * the size of the tile, and the operands that are packed into panels first. */
#include "engine/opt/facts.h"

#include <math.h>

enum {
    UNROLL = 4,
    SMALL_LOOP = 5,      /* an innermost loop of a reduction this short is unrolled completely */
    ALONG_TILE = 5,      /* columns of a tile with lanes along the reduction: 5 by 5 fill 32 registers */
    GATED_ROWS = 7,      /* reuse of an axis that bounds a loop: with a tile of its rows, the loop is not trimmed */
    FIRST_CACHE = 32768, /* bytes of a first-level cache */
    MOST_ROWS = 14,
    NAMED_ROWS = 4,    /* rows of a named axis, which may have one row only: the whole tile is computed then */
    MOST_SLIDING = 20, /* accumulators that leave enough registers for a window that slides along the rows */
    MOST_COLUMNS = 4,
    BLOCK_DEPTH = 256,   /* K-blocking: 64 KB of a panel of 64 columns, in the L2 cache, are read by ... */
    BLOCK_ROWS = 264,    /* ... this many rows, whose part of the other operand takes 264 KB; 132 were 1 to 6 % slower */
    BLOCK_COLUMNS = 2,   /* tiles side by side that read this part once */
    BLOCK_HALVES = 5,    /* times that these rows are halved: to BLOCK_TILES tiles of one row */
    BLOCK_TILES = 8,     /* tiles of rows from which K-blocking pays: with 4 it made no difference */
    GROUPS_PER_UNIT = 4, /* groups per core, so that no core waits long for the last group */
    PART_CACHES = 2,     /* L2 caches that the part of a panel may fill: 0.4 to 1.6 took as long, 3.3 a tenth more */
    PART_TILES = 8,      /* tiles that read a panel from which split-K pays */
    PART_RESULTS = 8,    /* bytes of a panel per byte of a partial sum */
    PAGE = 4096,         /* bytes */
    FAR_ROWS = 8         /* rows of a tile whose elements are pages apart: 12 took 1.1 to 1.3 times as long */
};

static const double UNPACKING = 0.5;       /* loads per operation that unpacks an operand */
static const double EMBEDDED = 0.6;        /* loads of an element for all lanes that is an operand of the multiply-add */
static const double FROM_SECOND_CACHE = 2; /* time of a load, in loads from the first-level cache */
static const double COPIES_PAY = 0.75;     /* part of the cost under masks: copies also pass through the caches */
static const double CROWDED =
    1.5; /* factor for sums that do not fit in registers beside the window: 27 took 2.3 times as long as 12, 26 1.4 times */

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

static int power_of_two_below(int64_t n)
{
    int p = 1;
    while (p * 2 <= n && p < BL_MAX_LANES)
        p *= 2;
    return p;
}

int tile_lanes(const facts *f, const bl_target *target, const bl_node *range)
{
    int64_t width = target->vector_bits / 8 / (int64_t)facts_widest(f, range);
    if (target->max_lanes > 0 && width > target->max_lanes)
        width = target->max_lanes;
    if ((!bl_is_fixed(range) && bl_axis_is_output(range)) || width < 2) /* a named reduction has whole vectors and a remainder */
        return 1;
    return power_of_two_below(bl_extent_of(range) < width ? bl_extent_of(range) : width);
}

/* The axis of the remainder that the split of a reduction left, or -1. */
static int rest_to_fold(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *other = tune->axis[i].range;
        if (other->arg == bl_axis_rest(range) && other->sub == BL_AXIS_REDUCE)
            return i;
    }
    return -1;
}

bool tile_vectorise(bl_tune *tune, int axis, int64_t lanes)
{
    const bl_node *range = tune->axis[axis].range;
    bool output = tune->axis[axis].output;

    if (lanes < 2 || !bl_tune_apply_at(tune, BL_SPLIT_VECTOR, axis, lanes))
        return false;
    if (!output && bl_is_fixed(range) && bl_extent_of(range) % lanes > 1) {
        int rest = rest_to_fold(tune, range);
        if (rest >= 0)
            (void)tile_vectorise(tune, rest, power_of_two_below(bl_extent_of(tune->axis[rest].range)));
    }
    return true;
}

/* Instructions for a vector whose lanes are picked from contiguous vectors (lower/expand.c): loads and shuffles. 0: lanes are
 * loaded one by one. */
static int picked_cost(const facts *f, const bl_target *target, const bl_node *node, const bl_node *range, int lanes)
{
    int64_t stride = 0;
    bool gate = node->op == BL_OP_LOAD && node->nsrc > 2 && !target->masks && bl_depends(f->tune, node->src[2], range);

    if (target->groups || node->op != BL_OP_LOAD || gate || lanes < BL_LANES_PICKED ||
        !bl_access_stride(f->tune, node, range, &stride) || stride < 2 || stride > BL_MOST_APART)
        return 0;
    return (int)(2 * stride - 1);
}

/* Does the tile also hold the sums of |node|? It does if the reduction has the loops of the main one, as for a gate and the gated
 * value. */
static bool is_side_by_side(facts *f, const bl_node *node)
{
    bl_free *free = &f->tune->free;
    return node == f->main || (node->op == BL_OP_REDUCE && bl_free_bound(free, node) == bl_free_bound(free, f->main) &&
                               bl_free_get(free, node) == bl_free_get(free, f->main));
}

static int count_sums(facts *f)
{
    int n = 0;
    for (size_t i = 0; i < f->below.count; i++)
        n += is_side_by_side(f, f->below.at[i]);
    return n;
}

/* Operations per multiply-add that unpack an operand, such as the codes of a quantised weight: those that depend on |range|, and
 * not on all axes of the product. NULL: all of them. */
static double unpacking(facts *f, const bl_node *range)
{
    bl_free *free = &f->tune->free;
    uint64_t all = f->main == NULL ? 0 : bl_free_get(free, f->main) | bl_free_bound(free, f->main), bound = 0;
    int operations = 0, products = 0;

    if (f->main == NULL)
        return 0;
    bound = bl_free_bound(free, f->main);
    bl_nodes below = bl_reach(f->tune->ir, (int)f->main->arg, f->main->src, false);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        uint64_t set = bl_free_get(free, node);
        if (bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU || node->dtype == BL_INDEX || node->dtype == BL_BOOL)
            continue;
        products += node->op == BL_OP_MUL && set == all;
        operations += set != all && (set & bound) == bound && (range == NULL || bl_depends(f->tune, node, range));
    }
    return products == 0 ? 0 : (double)operations / products;
}

/* Lanes computed per iteration of |range|. The remainder of a reduction is a vector for each power of two (tile_vectorise), and
 * each of these takes as long as a whole vector. */
static double lanes_waste(const bl_node *range, int lanes)
{
    int64_t n = bl_extent_of(range);

    return bl_axis_is_output(range) ? nest_waste(n, lanes, 1, 1)
                                    : (double)((n / lanes + __builtin_popcountll((uint64_t)(n % lanes))) * lanes) / (double)n;
}

double tile_cost(facts *f, const bl_target *target, const bl_node *range, int lanes, double panels)
{
    double along = target->groups ? 0 : unpacking(f, range), unpacked = target->groups ? 0 : unpacking(f, NULL);
    nest_lanes own = {.unpacked = (along / lanes + unpacked - along) * (double)f->total};
    double waste = lanes_waste(range, lanes);
    uint64_t bit = bl_free_bit(&f->tune->free, range);

    for (int i = 0; i < f->naccesses; i++) {
        const access *a = &f->access[i];
        double runs = (double)bl_free_size(&f->tune->free, a->loops);
        int contiguous = facts_contiguity(f, a->node, range), picked = picked_cost(f, target, a->node, range, lanes);
        if ((a->loops & bit) == 0)
            own.vectors += runs;
        else if (contiguous >= 0)
            own.vectors += runs * waste / lanes;
        else if (picked > 0)
            own.vectors += runs * waste / lanes * picked;
        else if (facts_can_pack(f, a, f->main, range, target)) {
            own.vectors += runs * waste / lanes;
            own.packed += (double)bl_free_size(&f->tune->free, bl_free_get(&f->tune->free, a->node));
        } else if (facts_is_strewn(f, a->node, range))
            own.strewn += runs;
        else
            own.gathered += runs;
    }
    if (f->main == NULL && !bl_axis_is_output(range))
        own.along = NEST_LANES_FOLD;
    else if (f->main != NULL && bl_binds(f->main, range))
        own.along = NEST_LANES_FOLD_PRODUCT;
    if (own.along != NEST_LANES_APART)
        own.folded = (double)bl_free_size(&f->tune->free, f->outputs) * lanes;
    own.copied = panels;
    own.arithmetic = facts_arithmetic(f, range, lanes) * waste;
    return nest_lanes_cost(&own);
}

typedef struct tiling {
    const bl_node *lanes_axis, *row_axis;
    int lanes;
    int64_t rows, columns; /* tile: rows of the row axis by vectors of the lanes' axis */
    bool along, slides;    /* the lanes go along the reduction; a window slides along the rows */
    bool masked;           /* the gates of padded operands are masks of vectors */
    const bl_node
        *window;   /* a loop of the reduction that shifts the vector operand along the rows, so that rows share loads; or NULL */
    int64_t apart; /* iterations of that loop from row to row */
    double cost;   /* with lanes along that axis */
    int sums;      /* number of reductions with the same loops, each with accumulators of its own */
    double row_load, column_load; /* cost of an operand in loads: more than 1 if it is unpacked */
    int64_t bytes_along;          /* of a row, or of a column, with lanes along the reduction; 0: panels */
    bool embeds;                  /* an element of a row can be an operand of the multiply-add */
} tiling;

/* The loop of the main reduction along which windows of |a| slide with |axis|, so that neighbours share loads. |apart| is their
 * distance in iterations. NULL if there is none. */
static const bl_node *window_along(facts *f, const access *a, const bl_node *axis, int64_t *apart)
{
    int64_t step = 0, turn = 0;

    for (uint32_t i = (uint32_t)f->main->arg; i < f->main->nsrc; i++) {
        const bl_node *loop = f->main->src[i];
        if (!bl_is_fixed(loop) || !bl_access_stride(f->tune, a->node, loop, &turn) || turn == 0 ||
            !bl_access_stride(f->tune, a->node, axis, &step) || step % turn != 0)
            continue;
        *apart = step / turn < 0 ? -(step / turn) : step / turn;
        if (*apart > 0 && *apart < bl_extent_of(loop))
            return loop;
    }
    return NULL;
}

/* The loop of the main reduction that shifts an operand along the rows (x + kx of a convolution), or NULL. */
static const bl_node *sliding_loop(facts *f, const tiling *t)
{
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        for (int k = 0; k < f->naccesses && bl_binds(f->main, range); k++) {
            const access *a = &f->access[k];
            int64_t apart = 0;
            if (a->reduce == f->main && !bl_depends(f->tune, a->node, t->lanes_axis) &&
                facts_contiguity(f, a->node, range) == 1 && bl_access_stride(f->tune, a->node, t->row_axis, &apart) &&
                apart > 0 && apart < bl_extent_of(range))
                return range;
        }
    }
    return NULL;
}

static bool is_crowded(const bl_target *target, int64_t rows, int64_t columns)
{
    return rows * columns + columns + rows + 1 > (int64_t)target->registers - 1;
}

/* The sliding loop, if unrolling it would need too many registers: its copies share all but one of their loads for the rows, and
 * a compiler keeps these loads in registers. An accumulator that is spilled in each iteration waits for itself: a 5 by 5
 * convolution with 20 accumulators took 8.9 ms instead of 6.1. NULL if there is no such loop, or if the tile is small. */
static const bl_node *crowded_loop(facts *f, const bl_target *target, const tiling *t)
{
    return t->row_axis != NULL && is_crowded(target, t->rows, t->columns) ? sliding_loop(f, t) : NULL;
}

/* Loads per multiply-add of a tile. With one column a multiply-add is the only reader of the row's element. */
static double loads_of(const tiling *t, int64_t rows, int64_t columns)
{
    double row_load = t->row_load * (columns == 1 && t->embeds ? EMBEDDED : 1);
    double taps = t->window == NULL ? 1 : (double)bl_extent_of(t->window);
    double vectors = t->window == NULL ? 1 : ((double)t->apart * (double)(rows - 1) + taps) / taps;
    return ((double)columns * vectors * t->column_load + (t->window == NULL ? (double)rows * row_load : 1)) /
           (double)(rows * columns);
}

typedef struct register_tile {
    const tiling *t;
    const bl_target *target;
    int64_t extent, vectors; /* length of the axes of the rows and of the columns */
} register_tile;

/* Registers hold the accumulators, a vector of each column, one of a row, and one value. Compilers load some rows ahead: with
 * more than 3/4 of the registers for accumulators they spill (14 x 2 of 32 had 145 GFLOP/s, 12 x 2 200). */
static double register_tile_cost(const void *arg, const int64_t *size)
{
    const register_tile *r = arg;
    const tiling *t = r->t;
    int64_t columns = size[0], rows = size[1], sums = rows * columns * t->sums;
    int64_t others = t->along || 3 * (columns + 2) > sums ? columns + 2 : (sums + 2) / 3;
    double beside = loads_of(t, rows, columns) * ((rows + columns) * t->bytes_along >= FIRST_CACHE ? FROM_SECOND_CACHE : 1);
    bool crowded = t->slides && is_crowded(r->target, rows, columns) && rows * columns > MOST_SLIDING;

    return nest_tile_cost(&(nest_tile){.waste = nest_waste(r->extent, rows, r->vectors, columns),
                                       .beside = beside,
                                       .latency = sums < 8 ? 0.5 : 0,
                                       .idle = crowded ? CROWDED : 1,
                                       .registers = sums + others,
                                       .of_registers = r->target->registers});
}

/* The cheapest rows and columns, of an axis that has |vectors| of these. */
static void tile_choose_tile(tiling *t, const bl_target *target, int64_t vectors, int64_t most_columns, int64_t most_rows)
{
    register_tile r = {t, target, bl_extent_of(t->row_axis), vectors};
    sizes s = {.n = 2, .range = {{1, at_most(vectors, most_columns), false}}, .cost = register_tile_cost, .arg = &r};
    int64_t best[MOST_SIZES] = {t->columns, t->rows};

    if (!bl_is_fixed(t->row_axis))
        most_rows = at_most(most_rows, NAMED_ROWS);
    s.range[1].least = 1;
    s.range[1].most = at_most(r.extent, most_rows);
    (void)sizes_choose(&s, best);
    t->columns = best[0];
    t->rows = best[1];
}

/* Can an element of a row be an operand of the multiply-add? AVX-512, which has masks, loads an element for all lanes so, if
 * it need not be converted. The iterations of the reduction must read neighbours, since with few columns each element is read
 * again for many tiles. */
static bool embeds_rows(facts *f, const bl_target *target, const tiling *t)
{
    const bl_node *innermost = NULL;
    bool embeds = target->masks && !t->along && t->row_axis != NULL;

    for (int i = 0; i < f->tune->naxes; i++) {
        if (bl_binds(f->main, f->tune->axis[i].range))
            innermost = f->tune->axis[i].range;
    }
    for (int i = 0; i < f->naccesses && embeds; i++) {
        const access *a = &f->access[i];
        if (a->reduce == f->main && bl_depends(f->tune, a->node, t->row_axis) && !bl_depends(f->tune, a->node, t->lanes_axis))
            embeds = innermost != NULL && a->node->nsrc < 3 && a->node->dtype == f->main->dtype &&
                     facts_contiguity(f, a->node, innermost) == 1;
    }
    return embeds;
}

/* The cost of the operands of a tile with |columns|, and the number of its sums. */
static void weigh_operands(facts *f, const bl_target *target, tiling *t, const bl_node *columns)
{
    t->sums = target->groups ? 1 : count_sums(f);
    t->row_load = t->column_load = 1;
    if (target->groups)
        return;
    t->embeds = embeds_rows(f, target, t);
    t->row_load += UNPACKING * unpacking(f, t->row_axis);
    t->column_load += UNPACKING * unpacking(f, columns);
}

/* How many of |rows| along |axis| share each vector of |a|: all if the vector stays the same; if windows overlap, the average. */
static int64_t rows_sharing(facts *f, const access *a, const bl_node *axis, int64_t rows)
{
    int64_t apart = 0;
    const bl_node *window = bl_depends(f->tune, a->node, axis) ? window_along(f, a, axis, &apart) : NULL;

    if (!bl_depends(f->tune, a->node, axis))
        return rows;
    return window == NULL ? 0 : (rows * bl_extent_of(window) + apart * (rows - 1)) / (apart * (rows - 1) + bl_extent_of(window));
}

/* The output axis along which vector operands stay the same or overlap, so that a tile of rows reuses them: the longest one. An
 * axis that bounds loops (|gated|) comes last, since these loops could not end early. */
static const bl_node *choose_rows(facts *f, const bl_node *lanes_axis, int64_t gated)
{
    const bl_node *best = NULL;
    int64_t most = 1;

    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        int64_t reused = 0, most_reused = at_most(bl_extent_of(axis->range), bl_is_fixed(axis->range) ? 16 : NAMED_ROWS);
        if (!facts_may_tile(f, axis) || axis->range == lanes_axis)
            continue;
        for (int k = 0; k < f->naccesses; k++) {
            const access *a = &f->access[k];
            int64_t sharing = a->reduce != f->main || !bl_depends(f->tune, a->node, lanes_axis)
                                  ? 0
                                  : rows_sharing(f, a, axis->range, most_reused);
            reused = sharing > reused ? sharing : reused;
        }
        if ((gated >> i & 1) != 0 && reused > GATED_ROWS)
            reused = GATED_ROWS;
        if (reused >= most && reused > 1) {
            most = reused;
            best = axis->range;
        }
    }
    return best;
}

/* The window that the rows share, if some vector operand depends on the row. */
static void find_window(facts *f, tiling *t)
{
    for (int i = 0; i < f->naccesses && t->row_axis != NULL && t->window == NULL; i++) {
        const access *a = &f->access[i];
        if (a->reduce == f->main && bl_depends(f->tune, a->node, t->lanes_axis) && bl_depends(f->tune, a->node, t->row_axis))
            t->window = window_along(f, a, t->row_axis, &t->apart);
    }
}

static bool choose_lanes(facts *f, const bl_target *target, const bl_form *form, tiling *t)
{
    double best = 1e300;
    for (int i = f->tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &f->tune->axis[i];
        int lanes = tile_lanes(f, target, axis->range);
        int width = form->local * lanes;
        double cost = 0;
        if (width < 2 || !bl_is_fixed(axis->range) || bl_extent_of(axis->range) < 2)
            continue;
        if (!facts_may_tile(f, axis) && (form->local > 1 || t->masked || !bl_binds(f->main, axis->range)))
            continue;
        if (t->masked && !edges_under_masks(f, target, axis->range))
            continue;
        cost = tile_cost(f, target, axis->range, width, 0);
        if (cost < best * 0.999) {
            best = cost;
            t->lanes_axis = axis->range;
            t->lanes = lanes;
        }
    }
    t->cost = best;
    return t->lanes_axis != NULL;
}

/* Unroll the innermost loop of the main reduction, except |crowded| and, on a CPU, a loop that is trimmed. */
static void tile_unroll(const facts *before, const bl_target *target, const bl_node *crowded)
{
    bl_tune *tune = before->tune;
    facts f;

    facts_again(&f, before);
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        int64_t extent = bl_extent_of(range);
        if (range->sub != BL_AXIS_REDUCE || range == crowded || !bl_is_fixed(range) ||
            (f.focus != NULL && !bl_binds(f.main, range)))
            continue;
        if (!target->groups && edges_bound(&f, range))
            return;
        if (extent <= SMALL_LOOP)
            (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, extent);
        else if (extent % UNROLL == 0)
            (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, UNROLL);
        return;
    }
}

/* Lanes along the reduction, folded at the end, and a tile over two output axes. */
static bool tile_along_reduction(facts *f, const bl_target *target, tiling *t)
{
    bl_tune *tune = f->tune;
    const bl_node *columns = NULL, *fastest = NULL;

    t->along = true;
    t->bytes_along = bl_extent_of(t->lanes_axis) * (int64_t)bl_dtype_bytes((bl_dtype)f->main->dtype);
    for (int i = tune->naxes - 1; i >= 0 && columns == NULL; i--) {
        const bl_axis *axis = &tune->axis[i];
        if (facts_may_tile(f, axis) && bl_is_fixed(axis->range) && bl_extent_of(axis->range) > 1)
            columns = axis->range;
    }
    if (columns == NULL)
        return false;
    t->row_axis = choose_rows(f, columns, 0);
    t->columns = ceil_div(bl_extent_of(columns), ceil_div(bl_extent_of(columns), ALONG_TILE));
    if (t->row_axis != NULL) {
        weigh_operands(f, target, t, columns);
        tile_choose_tile(t, target, bl_extent_of(columns), ALONG_TILE, MOST_ROWS);
        fastest = grid_fastest(f, target, t->row_axis, t->rows, columns, t->columns);
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, t->row_axis), t->rows);
    }
    (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, columns), t->columns);
    if (!tile_vectorise(tune, facts_axis_of(tune, t->lanes_axis), t->lanes))
        return false;
    panels_write(f, target, false);
    grid_make_fastest(tune, fastest);
    return true;
}

/* Would lanes or copies of a sum of windows test a gate at the edges? */
static bool asks_of_windows(facts *f, const bl_target *target)
{
    bool asks = false;

    for (int i = 0; i < f->naccesses; i++)
        asks = asks || (f->access[i].reduce == f->main && f->access[i].node->op == BL_OP_LOAD && f->access[i].node->nsrc > 2);
    return asks && edges_of_windows(f, target);
}

/* The nest with its edges written out in |copy|, its facts in |f|, and its lanes in |t|. False if it has none. */
static bool choose_with_edges(const facts *before, const bl_target *target, const bl_form *form, bl_tune *copy, facts *f,
                              tiling *t)
{
    *copy = *before->tune;
    tune_survey(copy, copy->sink); /* free sets of its own */
    *f = *before;
    f->tune = copy;
    edges_write(f, target, &(edges_tile){.untiled = 0});
    return f->main != NULL && choose_lanes(f, target, form, t);
}

/* The cost of a sum of windows with lanes along its rows, with its panels. Infinite if the lanes would test a gate. */
static double cost_along(const facts *before, const bl_target *target, const bl_form *form)
{
    tiling t = {.rows = 1, .columns = 1, .sums = 1, .row_load = 1, .column_load = 1};
    bl_tune copy;
    facts f;

    if (!choose_with_edges(before, target, form, &copy, &f, &t) || asks_of_windows(&f, target))
        return 1e300;
    return tile_cost(&f, target, t.lanes_axis, form->local * t.lanes, facts_panel_elements(&copy));
}

/* The same with the gates of its operands as masks of vectors. */
static double cost_under_masks(facts *f, const bl_target *target, const bl_form *form)
{
    tiling t = {.masked = true};

    return choose_lanes(f, target, form, &t) ? t.cost : 1e300;
}

static edges_tile tile_with_edges(const facts *before, const bl_target *target, const bl_form *form, int64_t gated)
{
    tiling t = {.rows = 1, .columns = 1, .sums = 1, .row_load = 1, .column_load = 1};
    edges_tile out = {.untiled = 0};
    bl_tune copy;
    facts f;

    if (!choose_with_edges(before, target, form, &copy, &f, &t) || bl_binds(f.main, t.lanes_axis))
        return out;
    t.row_axis = choose_rows(&f, t.lanes_axis, gated);
    out.untiled = edges_untiled(before->tune, t.lanes_axis, t.row_axis, NULL);
    out.lanes = t.lanes_axis;
    out.rows = t.row_axis;
    return out;
}

/* The most rows of a tile. If rows are whole images and the innermost loop steps from line to line of an image, each row of each
 * iteration is in a cache line and a page of its own. */
static int64_t most_rows(facts *f, const bl_target *target, const tiling *t)
{
    const bl_node *innermost = f->main->src[f->main->nsrc - 1];

    for (uint32_t i = (uint32_t)f->main->arg; i < f->main->nsrc; i++)
        innermost = bl_axis_precedes(innermost, f->main->src[i]) ? f->main->src[i] : innermost;
    for (int i = 0; i < f->naccesses && !target->groups; i++) {
        const access *a = &f->access[i];
        int64_t apart = 0, bytes = (int64_t)bl_dtype_bytes((bl_dtype)a->node->dtype);
        if (a->reduce == f->main && !bl_depends(f->tune, a->node, t->lanes_axis) &&
            bl_access_stride(f->tune, a->node, t->row_axis, &apart) && apart * bytes >= PAGE &&
            bl_depends(f->tune, a->node, innermost) && facts_is_strewn(f, a->node, innermost))
            return FAR_ROWS;
    }
    return MOST_ROWS;
}

/* Split an axis of |extent| into the fewest parts of at most |most|, each of them whole tiles: the length of a part. */
static int64_t tile_whole_tiles(int64_t extent, int64_t tile, int64_t most)
{
    int64_t tiles = ceil_div(extent, tile), parts = ceil_div(tiles, most / tile > 0 ? most / tile : 1);
    return ceil_div(tiles, parts) * tile;
}

/* The block of a reduction over |depth|: the divisor nearest to BLOCK_DEPTH, or 0 if there is none. */
static int64_t block_depth(int64_t depth)
{
    for (int64_t off = 0; off <= BLOCK_DEPTH / 2; off++) {
        if (depth % (BLOCK_DEPTH + off) == 0)
            return BLOCK_DEPTH + off;
        if (depth % (BLOCK_DEPTH - off) == 0)
            return BLOCK_DEPTH - off;
    }
    return 0;
}

typedef struct sum_block {
    const tiling *t;
    int64_t m, n, others;    /* rows and columns of the result, and groups along other axes */
    int64_t bytes, of_bytes; /* of a sum, and for those of a group */
    int64_t units;
} sum_block;

/* Rows and columns of a block: whole tiles, BLOCK_ROWS halved |size[0]| times and BLOCK_COLUMNS less |size[1]|. */
static void sum_block_sizes(const sum_block *b, const int64_t *size, int64_t *rows, int64_t *columns)
{
    int64_t wide = b->t->columns * b->t->lanes;

    *rows = tile_whole_tiles(b->m, b->t->rows, BLOCK_ROWS);
    for (int64_t i = 0; i < size[0]; i++)
        *rows = tile_whole_tiles(b->m, b->t->rows, *rows / 2);
    *columns = tile_whole_tiles(b->n, wide, (BLOCK_COLUMNS - size[1]) * wide);
}

/* A block reads the panel once for all of its rows. */
static double sum_block_cost(const void *arg, const int64_t *size)
{
    const sum_block *b = arg;
    int64_t rows = 0, columns = 0;

    sum_block_sizes(b, size, &rows, &columns);
    if (rows < BLOCK_TILES * b->t->rows || rows > b->m || columns > b->n ||
        ceil_div(b->m, rows) * ceil_div(b->n, columns) * b->others < GROUPS_PER_UNIT * b->units)
        return INFINITY;
    return nest_tile_cost(&(nest_tile){.far = 1.0 / (double)rows, .bytes = rows * columns * b->bytes, .of_bytes = b->of_bytes});
}

/* Rows and columns of a group's block: the most whole tiles whose sums fit in a quarter of the cache, with enough groups. False
 * if these are too few rows. */
static bool choose_block(const facts *f, const bl_target *target, const tiling *t, int64_t *rows, int64_t *columns)
{
    int64_t local = target->cache_bytes / 4 < target->local_bytes ? target->cache_bytes / 4 : target->local_bytes;
    const sum_block b = {t,
                         bl_extent_of(t->row_axis),
                         bl_extent_of(t->lanes_axis),
                         facts_groups(f->tune, t->row_axis, t->lanes_axis),
                         (int64_t)bl_dtype_bytes((bl_dtype)f->main->dtype),
                         local,
                         target->units};
    int64_t best[MOST_SIZES];
    const sizes s = {
        .n = 2, .range = {{0, BLOCK_HALVES, false}, {0, BLOCK_COLUMNS - 1, false}}, .cost = sum_block_cost, .arg = &b};

    if (sizes_choose(&s, best) == (double)INFINITY)
        return false;
    sum_block_sizes(&b, best, rows, columns);
    return true;
}

/* K-blocking of a product whose panel for the columns of one tile does not stay in half a core's cache between tiles of rows: the
 * reduction is computed a block at a time for all tiles of a group. Changes nothing if that does not apply. Sums of windows stay
 * as they are: for tiles whose rows are images, K-blocking took 1.7 times as long. */
static bool block_sums(facts *f, const bl_target *target, const tiling *t)
{
    bl_tune *tune = f->tune;
    const tune_mark before = tune_keep(tune);
    const bl_node *range = f->main->src[f->main->arg];
    int64_t depth = bl_extent_of(range), rows = 0, columns = 0;
    int64_t panel = t->columns * t->lanes * depth * (int64_t)bl_dtype_bytes((bl_dtype)f->main->dtype);

    if (f->focus != NULL || target->groups || t->lanes < 2 || f->main->nsrc != f->main->arg + 1 || !bl_is_fixed(range) ||
        panel <= (int64_t)target->cache_bytes / 2 || block_depth(depth) == 0 || !choose_block(f, target, t, &rows, &columns))
        return false;
    if (bl_tune_apply_at(tune, BL_SPLIT_LOOP, facts_axis_of(tune, t->row_axis), rows) &&
        bl_tune_apply_at(tune, BL_SPLIT_LOOP, facts_axis_of(tune, t->lanes_axis), columns) &&
        bl_tune_apply_at(tune, BL_PARTIAL_LOCAL, facts_axis_of(tune, range), depth / block_depth(depth))) {
        facts_init(f, tune);
        return stage_nest(f, target);
    }
    tune_undo(tune, &before);
    return false;
}

/* Split-K against cache misses: if the panel for one tile's columns does not fit in the last-level cache, each tile of rows would
 * read it from memory. The result is the number of parts of the outermost loop (pictures, for the gradient of a weight) that
 * stay in the caches one after the other. 1: the sum stays whole. */
static int64_t fitting_parts(facts *f, const bl_target *target, const tiling *t, int axis)
{
    const bl_node *range = f->tune->axis[axis].range;
    int64_t bytes = (int64_t)bl_dtype_bytes((bl_dtype)f->main->dtype), parts = 0, enough = 0;
    int64_t depth = bl_free_size(&f->tune->free, bl_free_bound(&f->tune->free, f->main));
    int64_t results = bl_free_size(&f->tune->free, f->outputs), panel = t->columns * t->lanes * depth * bytes;

    if (target->groups || target->last_cache_bytes == 0 || f->focus != NULL || t->lanes < 2 || !bl_is_fixed(range) ||
        (uint32_t)f->tune->nparams + 1 >= target->max_params || panel < grid_kept_bytes(target) ||
        results / (t->rows * t->columns * t->lanes) < PART_TILES)
        return 1;
    enough = panel / (PART_CACHES * (int64_t)target->cache_bytes + 1) + 1;
    parts = bl_parts_choose(&(bl_parting){bl_extent_of(range), INT64_MAX, 2, .enough = enough > 2 ? enough : 2});
    return parts >= enough && results * bytes * parts <= panel / PART_RESULTS ? parts : 1;
}

/* Apply this split-K. Returns the axis of the parts, or NULL if the sum stays whole. */
static const bl_node *part_sums(facts *f, const bl_target *target, const tiling *t)
{
    bl_tune *tune = f->tune;
    bl_tune before = *tune;
    int axis = 0;
    int64_t parts = 1;

    while (!bl_binds(f->main, tune->axis[axis].range))
        axis++;
    parts = fitting_parts(f, target, t, axis);
    if (parts == 1 || !bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, axis, parts))
        return NULL;
    facts_init(f, tune);
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].output && facts_axis_of(&before, tune->axis[i].range) < 0)
            return tune->axis[i].range;
    }
    return NULL;
}

/* Unroll an axis whose results lie between those of a vector, as for windows two elements apart: the stores of the tile are
 * interleaved to whole vectors (lower/turn.c). */
static void tile_between(facts *f, const tiling *t)
{
    for (int k = 0; k < f->naccesses; k++) {
        int64_t apart = 0;
        const bl_node *store = f->access[k].node;
        if (store->op != BL_OP_STORE || !bl_access_stride(f->tune, store, t->lanes_axis, &apart) || apart < 2 ||
            apart > BL_MOST_APART)
            continue;
        for (int i = 0; i < f->tune->naxes; i++) {
            const bl_node *range = f->tune->axis[i].range;
            if (facts_may_tile(f, &f->tune->axis[i]) && range->sub == BL_AXIS_GLOBAL && bl_extent_of(range) == apart &&
                facts_contiguity(f, store, range) == 1 && bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, i, apart))
                return;
        }
    }
}

bool tile_nest(facts *f, const bl_target *target, const bl_form *form)
{
    bl_tune *tune = f->tune;
    tiling t = {.rows = 1, .columns = 1, .sums = 1, .row_load = 1, .column_load = 1};
    int64_t gated = edges_gated_axes(tune);
    const bl_node *crowded = NULL, *part = NULL, *fastest = NULL;

    facts before = *f;
    if (edges_of_windows(f, target)) {
        double along = cost_along(f, target, form), masks = COPIES_PAY * cost_under_masks(f, target, form);
        if (across_nest(f, target, masks < along ? masks : along))
            return true;
        t.masked = masks < along;
    }
    if (!t.masked) {
        const edges_tile with = tile_with_edges(f, target, form, gated);
        edges_write(f, target, &with);
    }
    if (f->main == NULL || (!t.masked && asks_of_windows(f, target)) || !choose_lanes(f, target, form, &t))
        return false;
    if (bl_binds(f->main, t.lanes_axis))
        return tile_along_reduction(f, target, &t);
    t.row_axis = choose_rows(f, t.lanes_axis, gated);
    if (t.row_axis != NULL) {
        int64_t width = t.lanes * (int64_t)form->local;
        t.slides = sliding_loop(f, &t) != NULL;
        weigh_operands(f, target, &t, t.lanes_axis);
        find_window(f, &t);
        tile_choose_tile(&t, target, ceil_div(bl_extent_of(t.lanes_axis), width), MOST_COLUMNS, most_rows(f, target, &t));
    }
    if (t.row_axis == NULL && form->local == 1 && f->focus == NULL)
        t.columns = tile_columns_alone(f, target, bl_extent_of(t.lanes_axis) / t.lanes, facts_groups(tune, t.lanes_axis, NULL));
    if (t.row_axis != NULL && bl_is_fixed(t.row_axis)) {
        if (block_sums(f, target, &t))
            return true;
        part = part_sums(f, target, &t);
    }
    if (f->main == NULL)
        return false;
    if (t.row_axis != NULL && part == NULL)
        fastest = grid_fastest(f, target, t.row_axis, t.rows, t.lanes_axis, t.columns * t.lanes);
    crowded = crowded_loop(f, target, &t);
    if (t.window != NULL)
        tile_between(f, &t);
    if (t.lanes > 1)
        (void)bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_axis_of(tune, t.lanes_axis), t.lanes);
    if (form->local > 1 && facts_outer_part(tune, t.lanes_axis) >= 0) {
        int64_t rest = bl_extent_of(tune->axis[facts_outer_part(tune, t.lanes_axis)].range);
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_outer_part(tune, t.lanes_axis), at_most(rest, form->local));
    }
    (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_outer_part(tune, t.lanes_axis), t.columns);
    if (t.row_axis != NULL) {
        int64_t rest = ceil_div(bl_extent_of(t.row_axis), t.rows);
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, t.row_axis), t.rows);
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_outer_part(tune, t.row_axis), at_most(rest, form->row_local));
    }
    if (t.window != NULL)
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, t.window), bl_extent_of(t.window));
    panels_write(&before, target, true);
    tile_unroll(&before, target, crowded);
    grid_make_slowest(tune, part);
    grid_make_fastest(tune, fastest);
    return true;
}
