/* SPDX-License-Identifier: MIT */
/* Schedule templates for devices whose group is one work-item: vectors along contiguous axes, register tiles for products, and as
 * few groups as keep all cores busy. */
#include "engine/base/size.h"
#include "engine/opt/facts.h"
#include "engine/opt/nest_cost.h"

#include <math.h>

enum {
    CHUNK_WORK = 16384,  /* iterations of a group, so that its start, some microseconds, costs little ... */
    SHORT_NEST = 16,     /* ... if an iteration has this many nodes; longer iterations count as more */
    GATHER_ROWS = 8,     /* rows of a gather that are read side by side, so that their cache misses overlap ... */
    GATHER_BYTES = 64,   /* ... if a row is one cache line: 3,072 rows of 4 KB took 0.36 ms side by side, 0.11 one by one */
    MOST_WINDOW = 9,     /* iterations of a reduction that are all unrolled ... */
    WINDOW_NODES = 1024, /* ... if the nest stays this small */
    MOST_SHARED = 4,     /* results that share such a reduction and are computed side by side */
    WINDOW_LANES = 4,    /* lanes below which such a reduction is not vectorised */
    MOST_ALONE = 8,      /* vectors side by side without rows, each with a sum: the latency of an addition, twice a cycle */
    ALONE_GROUPS = 4,    /* groups per core, so that no core waits long for the last group */
    COPIED_NODES = 128   /* nodes of a nest up to which gathers and sums get copies, which should stay in registers */
};

/* ---- nests without reuse */

/* Vectorise inner axes of a row-structured nest along which all accesses are contiguous. */
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
        lanes[n] = tile_lanes(f, target, axis->range);
        if (!good || !any || lanes[n] < 4 || (around & taken) != 0)
            continue;
        taken |= bit;
        chosen[n++] = axis->range;
    }
    for (int i = 0; i < n; i++)
        (void)tile_vectorise(tune, facts_axis_of(tune, chosen[i]), lanes[i]);
    return n;
}

/* |windows|: short reductions will be unrolled and get no lanes. */
static void vectorise_best(facts *f, const bl_target *target, bool windows)
{
    bl_tune *tune = f->tune;
    double best =
        nest_lanes_cost(&(nest_lanes){.vectors = (double)f->total * f->naccesses, .arithmetic = facts_arithmetic(f, NULL, 1)});
    int chosen = -1, chosen_lanes = 1;
    bool rows = false, chosen_output = false;

    for (int i = 0; i < tune->naxes; i++)
        rows = rows || (tune->axis[i].output && !tune->axis[i].outer);
    if (rows && vectorise_inner(f, target) > 0)
        return;
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        int lanes = tile_lanes(f, target, axis->range);
        bool none = lanes < 2 || (rows && !axis->outer) || (windows && !axis->output && lanes <= WINDOW_LANES);
        double cost = none ? best : tile_cost(f, target, axis->range, lanes, 0);
        if (cost < best * 0.99) {
            best = cost;
            chosen = i;
            chosen_lanes = lanes;
            chosen_output = axis->output;
        }
    }
    if (chosen < 0 || !tile_vectorise(tune, chosen, chosen_lanes) || chosen_output)
        return;
    facts_init(f, tune); /* the other reductions have loops of their own */
    (void)vectorise_inner(f, target);
}

int64_t tile_columns_alone(const facts *f, const bl_target *target, int64_t vectors, int64_t others)
{
    int64_t best = 1;
    double least = INFINITY;

    for (int i = 0; i < f->naccesses; i++) {
        if (bl_dtype_is_int((bl_dtype)f->access[i].node->dtype))
            return 1;
    }
    for (int64_t columns = 1; columns <= (vectors < MOST_ALONE ? vectors : MOST_ALONE); columns++) {
        double cost = nest_waste(vectors, columns, 1, 1) * (1 + 1 / (double)columns);
        if (cost >= least || ceil_div(vectors, columns) * others < ALONE_GROUPS * (int64_t)target->units)
            continue;
        least = cost;
        best = columns;
    }
    return best;
}

/* A nest that sums without reuse, such as the product of a vector and a matrix, with lanes along its results: each work-item
 * computes several vectors of results (tile_columns_alone). */
static void tile_columns(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_node *lanes = NULL, *outer = NULL;
    bool sums = false;

    facts_init(f, tune);
    for (int i = 0; i < tune->naxes; i++) {
        lanes = tune->axis[i].output && tune->axis[i].range->sub == BL_AXIS_VECTOR ? tune->axis[i].range : lanes;
        sums = sums || !tune->axis[i].output;
    }
    for (int i = 0; i < tune->naxes && lanes != NULL; i++) {
        const bl_node *range = tune->axis[i].range;
        outer = range->sub == BL_AXIS_GLOBAL && bl_axis_origin(range) == bl_axis_origin(lanes) ? range : outer;
    }
    if (sums && outer != NULL && bl_is_fixed(outer))
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, outer),
                               tile_columns_alone(f, target, bl_extent_of(outer), facts_groups(tune, outer, NULL)));
}

/* Unroll a gather of short rows by the axis of the rows: an axis without lanes on which the gathered position depends. Each row
 * is contiguous. */
static void tile_gathered(facts *f)
{
    bl_tune *tune = f->tune;

    facts_init(f, tune);
    for (int k = 0; k < f->naccesses; k++) {
        const bl_node *load = f->access[k].node;
        const bl_node *place = load->op == BL_OP_LOAD ? bl_find_op(f->tune->ir, load->src[1], BL_OP_LOAD) : NULL;
        uint64_t along = place == NULL ? 0 : bl_free_get(&tune->free, load) & ~bl_free_get(&tune->free, place);
        if (along == 0 || bl_free_size(&tune->free, along) * (int64_t)bl_dtype_bytes((bl_dtype)load->dtype) > GATHER_BYTES)
            continue;
        for (int i = tune->naxes - 1; i >= 0; i--) {
            const bl_axis *axis = &tune->axis[i];
            if (axis->range->sub == BL_AXIS_GLOBAL && bl_depends(tune, place, axis->range) &&
                bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, GATHER_ROWS))
                return;
        }
    }
}

/* Unroll an axis along which the elements of a gather or scatter by lanes are contiguous: the copies are transposed in registers
 * (lower/turn.c). */
static void tile_turned(facts *f)
{
    bl_tune *tune = f->tune;
    const bl_node *lanes = NULL;

    facts_init(f, tune);
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_VECTOR && tune->axis[i].output)
            lanes = tune->axis[i].range;
    }
    for (int k = 0; lanes != NULL && k < f->naccesses; k++) {
        const bl_node *node = f->access[k].node;
        uint32_t gate = node->op == BL_OP_LOAD ? 2 : 3;
        if (!bl_depends(tune, node, lanes) || facts_contiguity(f, node, lanes) >= 0)
            continue;
        for (int i = tune->naxes - 1; i >= 0; i--) {
            const bl_node *range = tune->axis[i].range;
            int64_t copies = bl_extent_of(lanes) / 2;
            while (copies > bl_extent_of(range))
                copies /= 2;
            if (tune->axis[i].output && (range->sub == BL_AXIS_GLOBAL || range->sub == BL_AXIS_LOOP) && bl_is_fixed(range) &&
                facts_contiguity(f, node, range) == 1 && (node->nsrc <= gate || !bl_depends(tune, node->src[gate], range)) &&
                copies > 1 && bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, copies))
                return;
        }
    }
}

/* Does the nest reduce over small windows only, as pooling does? */
static bool has_windows(const facts *f)
{
    const bl_tune *tune = f->tune;
    int64_t turns = 1;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output && (!bl_is_fixed(axis->range) || !bl_i64_mul(turns, bl_extent_of(axis->range), &turns)))
            return false;
    }
    return turns > 1 && turns <= MOST_WINDOW && turns * (int64_t)f->below.count <= WINDOW_NODES;
}

/* Does a reduction depend on |range|? */
static bool is_reduced_over(facts *f, const bl_node *range)
{
    bool any = false;

    for (size_t i = 0; i < f->below.count; i++)
        any = any || (f->below.at[i]->op == BL_OP_REDUCE && bl_depends(f->tune, f->below.at[i], range));
    return any;
}

/* Unroll a short axis of results for which the reductions are the same, as the channels of a softmax over two channels: its
 * copies share them, and the terms. */
static void unroll_shared(facts *f)
{
    bl_tune *tune = f->tune;

    facts_init(f, tune);
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        if (tune->axis[i].output && range->sub == BL_AXIS_LOOP && bl_is_fixed(range) && bl_extent_of(range) <= MOST_SHARED &&
            !is_reduced_over(f, range) && bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, bl_extent_of(range)))
            return;
    }
}

/* Unroll small windows. The copies share what several reductions compute of each element, and a compiler merges their
 * neighbouring loads. */
static void unroll_windows(bl_tune *tune)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output && axis->range->sub == BL_AXIS_REDUCE)
            (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i, bl_extent_of(axis->range));
    }
}

/* Fewer groups: the innermost grid axis is split into grid and loop, until a group has enough work or there are hardly more
 * groups than keep the cores busy. */
static void chunk(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    int64_t weight = f->below.count < 2 * SHORT_NEST ? 1 : (int64_t)f->below.count / SHORT_NEST;

    for (int i = tune->naxes - 1; i >= 0; i--) {
        int64_t groups = 1, work = weight, amount = 1;
        for (int k = 0; k < tune->naxes; k++) {
            const bl_node *range = tune->axis[k].range;
            if (range->sub == BL_AXIS_GLOBAL)
                groups *= bl_extent_of(range);
            else if (work < CHUNK_WORK)
                work *= bl_extent_of(range);
        }
        if (tune->axis[i].range->sub != BL_AXIS_GLOBAL || work >= CHUNK_WORK)
            continue;
        amount = CHUNK_WORK / work;
        if (groups * work > CHUNK_WORK && groups / amount < 4 * (int64_t)target->units)
            amount = groups / (4 * (int64_t)target->units);
        amount = facts_part_of(tune->axis[i].range, amount);
        if (amount > 1)
            (void)bl_tune_apply_at(tune, BL_SPLIT_LOOP, i, amount);
    }
}

void heuristic_cpu(facts *f, const bl_target *target)
{
    const bl_form form = {.local = 1, .row_local = 1};
    bool windows = false;

    if (stage_nest(f, target)) {
        facts_init(f, f->tune);
        chunk(f, target);
        stream_results(f->tune, target);
        return;
    }
    if (sent_nest(f, target)) {
        stream_results(f->tune, target);
        return;
    }
    if (f->main == NULL)
        unroll_choices(f);
    line_up(f, target);
    if (f->main == NULL || !tile_nest(f, target, &form)) {
        f->main = NULL;
        windows = has_windows(f);
        if (windows)
            edges_write_pools(f, target);
        vectorise_best(f, target, windows);
        if (!windows && f->below.count <= COPIED_NODES)
            tile_columns(f, target);
        f->main = NULL;
    }
    if (windows) {
        unroll_shared(f);
        unroll_windows(f->tune);
    }
    if (f->main == NULL && f->below.count <= COPIED_NODES)
        tile_gathered(f);
    if (f->main == NULL && !windows && f->below.count <= COPIED_NODES)
        tile_turned(f);
    chunk(f, target);
    stream_results(f->tune, target);
}
