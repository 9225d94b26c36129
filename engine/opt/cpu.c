/* SPDX-License-Identifier: MIT */
/* Forms for a device whose group is one work-item: vectors along what is contiguous, register tiles where operands are read over and
 * over, and as few groups as keep all cores busy. */
#include "engine/opt/facts.h"

enum {
    CHUNK_WORK = 16384,   /* iterations of one group, so that its start costs little */
    REUSE_TO_PACK = 16,   /* reads of each element from which writing a panel pays */
    UNROLL = 4,
    SMALL_LOOP = 5        /* a reduction's innermost loop this short is unrolled whole */
};

static int power_of_two_below(int64_t n)
{
    int p = 1;
    while (p * 2 <= n && p < BL_MAX_LANES)
        p *= 2;
    return p;
}

/* How many lanes an axis would get: the device's width, or the largest power of two that the axis has. */
static int lanes_for(const facts *f, const bl_target *target, const bl_node *range)
{
    int64_t width = target->vector_bits / 8 / (int64_t)facts_widest(f);
    if (!bl_is_fixed(range) || width < 2)
        return 1;
    return power_of_two_below(bl_extent_of(range) < width ? bl_extent_of(range) : width);
}

static bool can_pack(facts *f, const access *a, const bl_target *target)
{
    bl_tune *tune = f->tune;
    uint64_t set = bl_free_get(&tune->free, a->node);
    if (a->reduce != f->main || f->main == NULL || a->node->op != BL_OP_LOAD)
        return false;
    if ((uint32_t)tune->nparams + 1 > target->max_params || tune->npacked == BL_MAX_HELPERS)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if ((set & bl_free_bit(&tune->free, tune->axis[i].range)) != 0 && !bl_is_fixed(tune->axis[i].range))
            return false;
    }
    return facts_size(f, a->loops) / REUSE_TO_PACK >= facts_size(f, set);
}

/* What the nest costs, in vector instructions, if |range| has |lanes| lanes. */
static double cost_of_lanes(facts *f, const bl_target *target, const bl_node *range, int lanes)
{
    double cost = 0;
    int64_t extent = bl_extent_of(range);
    double waste = (double)((extent + lanes - 1) / lanes * lanes) / (double)extent;
    uint64_t bit = bl_free_bit(&f->tune->free, range);

    for (int i = 0; i < f->naccesses; i++) {
        const access *a = &f->access[i];
        double runs = (double)facts_size(f, a->loops);
        int contiguous = facts_contiguity(f, a->node, range);
        if ((a->loops & bit) == 0)
            cost += runs;
        else if (contiguous >= 0 || can_pack(f, a, target))
            cost += runs * waste / lanes;
        else
            cost += runs * 1.5;
    }
    if (range->arg >= FIRST_REDUCE && f->main == NULL)
        return cost * 1.01 + (double)facts_size(f, f->outputs) * 0.5 * lanes; /* the lanes are folded at the end */
    if (range->arg >= FIRST_REDUCE)
        return cost * 1.15 + (double)facts_size(f, f->outputs) * lanes;
    return cost;
}

/* ---- nests without reuse */

/* Lanes along an axis, and a mark so that another axis of the same expressions gets none. */
static bool vectorise(bl_tune *tune, int axis, int lanes)
{
    return lanes > 1 && bl_tune_apply(tune, (bl_move){BL_MOVE_VECTOR, axis, lanes});
}

/* The inner axes of a row-structured nest that have lanes of their own: for each, all accesses that depend on it are contiguous. */
static int vectorise_inner(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_node *chosen[BL_MAX_AXES];
    int lanes[BL_MAX_AXES], n = 0;
    uint64_t taken = 0;

    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        uint64_t bit = bl_free_bit(&tune->free, axis->range), around = 0;
        bool good = true, any = false;
        if (axis->output && axis->outer)
            continue;
        for (int k = 0; k < f->naccesses && good; k++) {
            if ((f->access[k].loops & bit) == 0)
                continue;
            around |= f->access[k].loops;
            any = true;
            good = facts_contiguity(f, f->access[k].node, axis->range) >= 0;
        }
        lanes[n] = lanes_for(f, target, axis->range);
        if (!good || !any || lanes[n] < 4 || (around & taken) != 0)
            continue;
        taken |= bit;
        chosen[n++] = axis->range;
    }
    for (int i = 0; i < n; i++)
        (void)vectorise(tune, facts_axis_of(tune, chosen[i]), lanes[i]);
    return n;
}

static void vectorise_best(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    double best = (double)f->total * f->naccesses;
    int chosen = -1, chosen_lanes = 1;
    uint64_t everything = f->outputs;
    bool rows = false;

    for (int i = 0; i < tune->naxes; i++)
        rows = rows || (tune->axis[i].output && !tune->axis[i].outer);
    if (rows && vectorise_inner(f, target) > 0)
        return;
    (void)everything;
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        int lanes = lanes_for(f, target, axis->range);
        double cost = lanes < 2 || (rows && !axis->outer) ? best : cost_of_lanes(f, target, axis->range, lanes);
        if (cost < best * 0.99) {
            best = cost;
            chosen = i;
            chosen_lanes = lanes;
        }
    }
    if (chosen >= 0)
        (void)vectorise(tune, chosen, chosen_lanes);
}

/* Few groups: the innermost grid axis becomes grid times loop, until a group has enough to do or there are hardly more groups than
 * keep the cores busy. */
static void chunk(bl_tune *tune, const bl_target *target)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        int64_t groups = 1, work = 1, amount = 1, extent = 0;
        for (int k = 0; k < tune->naxes; k++) {
            const bl_node *range = tune->axis[k].range;
            if (range->sub == BL_AXIS_GLOBAL)
                groups *= bl_extent_of(range);
            else if (work < CHUNK_WORK)
                work *= bl_extent_of(range);
        }
        if (tune->axis[i].range->sub != BL_AXIS_GLOBAL || !bl_is_fixed(tune->axis[i].range) || work >= CHUNK_WORK)
            continue;
        extent = bl_extent_of(tune->axis[i].range);
        amount = CHUNK_WORK / work;
        if (groups * work > CHUNK_WORK && groups / amount < 4 * (int64_t)target->units)
            amount = groups / (4 * (int64_t)target->units);
        if (amount > extent)
            amount = extent;
        for (int64_t down = amount; down > amount / 2 && down > 1; down--) {
            if (extent % down == 0) {
                amount = down;
                break;
            }
        }
        if (amount > 1)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_CHUNK, i, amount});
    }
}

/* ---- nests that read their operands over and over */

typedef struct tiling {
    const bl_node *lanes_axis, *row_axis;
    int lanes;
    int64_t rows, columns; /* tile: rows of the row axis by vectors of the lanes' axis */
} tiling;

/* The best rows by columns for the registers: accumulators, one vector of each column, and one broadcast. */
static void choose_tile(tiling *t, const bl_target *target)
{
    int64_t vectors = (bl_extent_of(t->lanes_axis) + t->lanes - 1) / t->lanes, extent = bl_extent_of(t->row_axis);
    double best = 1e30;

    for (int64_t columns = 1; columns <= 4 && columns <= vectors; columns++) {
        for (int64_t rows = 1; rows <= 14 && rows <= extent; rows++) {
            double waste, loads, cost;
            if (rows * columns + columns + 1 > (int64_t)target->registers - 1)
                continue;
            waste = (double)((extent + rows - 1) / rows * rows) / (double)extent *
                    (double)((vectors + columns - 1) / columns * columns) / (double)vectors;
            loads = (double)(rows + columns) / (double)(rows * columns);
            cost = waste * ((loads > 1.0 ? loads : 1.0) + 0.25 * loads + (rows * columns < 8 ? 0.5 : 0));
            if (cost < best) {
                best = cost;
                t->rows = rows;
                t->columns = columns;
            }
        }
    }
}

/* The output axis along which the vector operands stay the same, so that a tile of rows reuses them; the longest such. */
static const bl_node *choose_rows(facts *f, const bl_node *lanes_axis)
{
    const bl_node *best = NULL;
    int64_t most = 1;

    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        int64_t reused = 0;
        if (!axis->output || !axis->outer || axis->range == lanes_axis || !bl_is_fixed(axis->range))
            continue;
        for (int k = 0; k < f->naccesses; k++) {
            const access *a = &f->access[k];
            if (a->reduce == f->main && bl_depends(f->tune, a->node, lanes_axis) && !bl_depends(f->tune, a->node, axis->range))
                reused = bl_extent_of(axis->range) < 16 ? bl_extent_of(axis->range) : 16;
        }
        if (reused >= most && reused > 1) {
            most = reused;
            best = axis->range;
        }
    }
    return best;
}

static bool choose_lanes(facts *f, const bl_target *target, tiling *t)
{
    double best = 1e300;
    for (int i = f->tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &f->tune->axis[i];
        int lanes = lanes_for(f, target, axis->range);
        double cost = 0;
        if (lanes < 2 || (axis->output && !axis->outer))
            continue;
        if (!axis->output && !tune_binds(f->main, axis->range))
            continue;
        cost = cost_of_lanes(f, target, axis->range, lanes);
        if (cost < best * 0.999) {
            best = cost;
            t->lanes_axis = axis->range;
            t->lanes = lanes;
        }
    }
    return t->lanes_axis != NULL;
}

static int operand_number(const bl_tune *tune, const bl_node *load)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int number = 0;
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i] == load)
            return number;
        number += below.at[i]->op == BL_OP_LOAD;
    }
    return -1;
}

/* Write into panels what the vectors would else gather, and what is contiguous but too large to stay in a core's cache. */
static void pack_operands(bl_tune *tune, const bl_target *target)
{
    for (int again = 1; again != 0;) {
        facts f;
        again = 0;
        facts_init(&f, tune);
        for (int i = 0; i < f.naccesses && again == 0 && f.main != NULL; i++) {
            const access *a = &f.access[i];
            bool vector = false, gathered = false;
            int64_t bytes = facts_size(&f, bl_free_get(&tune->free, a->node)) * (int64_t)bl_dtype_bytes((bl_dtype)a->node->dtype);
            for (int k = 0; k < tune->naxes; k++) {
                const bl_node *range = tune->axis[k].range;
                if (range->sub != BL_AXIS_VECTOR || !bl_depends(tune, a->node, range))
                    continue;
                vector = true;
                gathered = facts_contiguity(&f, a->node, range) < 0;
            }
            if (!vector || !can_pack(&f, a, target) || a->node->src[0]->arg >= tune->nparams - tune->npacked)
                continue;
            if (gathered || bytes > (int64_t)target->cache_bytes / 2)
                again = bl_tune_apply(tune, (bl_move){BL_MOVE_PACK, operand_number(tune, a->node), 0});
        }
    }
}

/* The main reduction's innermost loop that is left, unrolled. */
static void unroll(bl_tune *tune)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        int64_t extent = bl_extent_of(range);
        if (range->sub != BL_AXIS_REDUCE || !bl_is_fixed(range))
            continue;
        if (extent <= SMALL_LOOP)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, extent});
        else if (extent % UNROLL == 0)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, UNROLL});
        return;
    }
}

/* Several vectors of the axis that was just split into them: its outer part kept its number. */
static void tile_vectors(bl_tune *tune, const bl_node *lanes_axis, int64_t columns)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->arg == lanes_axis->arg)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i, columns});
    }
}

static bool tile_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    tiling t = {0};
    bool reduce_lanes = false;
    const bl_node *columns = NULL;

    if (!choose_lanes(f, target, &t))
        return false;
    reduce_lanes = t.lanes_axis->arg >= FIRST_REDUCE;
    if (reduce_lanes) { /* partial sums in lanes: tiles over two output axes */
        for (int i = tune->naxes - 1; i >= 0 && columns == NULL; i--) {
            if (tune->axis[i].output && tune->axis[i].outer && bl_is_fixed(tune->axis[i].range) && bl_extent_of(tune->axis[i].range) > 1)
                columns = tune->axis[i].range;
        }
        if (columns == NULL)
            return false;
        t.row_axis = choose_rows(f, columns);
        if (t.row_axis != NULL)
            (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, facts_axis_of(tune, t.row_axis), bl_extent_of(t.row_axis) < 4 ? bl_extent_of(t.row_axis) : 4});
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, facts_axis_of(tune, columns), bl_extent_of(columns) < 4 ? bl_extent_of(columns) : 4});
        (void)vectorise(tune, facts_axis_of(tune, t.lanes_axis), t.lanes);
        return true;
    }
    t.row_axis = choose_rows(f, t.lanes_axis);
    t.rows = t.columns = 1;
    if (t.row_axis != NULL)
        choose_tile(&t, target);
    if (t.row_axis != NULL && t.rows > 1)
        (void)bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, facts_axis_of(tune, t.row_axis), t.rows});
    if (vectorise(tune, facts_axis_of(tune, t.lanes_axis), t.lanes) && t.columns > 1)
        tile_vectors(tune, t.lanes_axis, t.columns);
    pack_operands(tune, target);
    unroll(tune);
    return true;
}

void heuristic_cpu(facts *f, const bl_target *target)
{
    if (f->main == NULL || !tile_nest(f, target))
        vectorise_best(f, target);
    chunk(f->tune, target);
}
