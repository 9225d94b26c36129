/* SPDX-License-Identifier: MIT */
/* Sums with operand reuse by windows only, such as depthwise convolutions and their gradients: the lanes go along the channels,
 * an axis on which every operand and result depends. Vectors are then whole, even if the rows of an image are short or its
 * windows far apart. Halos and panels hold the operands with the lanes innermost. The tile covers axes along which results are
 * contiguous, and its stores are transposed (lower/turn.c). */
#include "engine/opt/facts.h"

#include <math.h>

enum {
    SUMS_AT_ONCE = 8,  /* accumulators that hide the latency of a multiply-add: 4 cycles, two per cycle */
    OTHER_VECTORS = 6, /* registers besides the accumulators: with 14 of 16 for accumulators, 8 x 240 images of 14 x 14, 5 x 5,
                          took 0.31 ms, with 8 0.18 */
    MOST_UNROLLED = 8  /* iterations of the innermost loop up to which it is unrolled */
};

/* Are all operands of the main reduction and all results strided along |range|? */
static bool lies_across(const facts *f, const bl_node *range)
{
    for (int i = 0; i < f->naccesses; i++) {
        const access *a = &f->access[i];
        int64_t stride = 0;
        if ((a->reduce == f->main || a->node->op == BL_OP_STORE) &&
            (!bl_access_stride(f->tune, a->node, range, &stride) || stride < 2))
            return false;
    }
    return true;
}

/* The axis for the lanes, which divide it. NULL if there is none. */
static const bl_node *choose_across(const facts *f, const bl_target *target, int *lanes)
{
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        if (!facts_may_tile(f, &f->tune->axis[i]) || !bl_is_fixed(range) || !lies_across(f, range))
            continue;
        *lanes = tile_lanes(f, target, range);
        if (*lanes > 1 && bl_extent_of(range) % *lanes == 0)
            return range;
    }
    return NULL;
}

/* The output axis other than |lanes| with the smallest stride of results above |apart|, which becomes that stride. NULL if there
 * is none. */
static const bl_node *next_along(const facts *f, const bl_node *lanes, int64_t *apart)
{
    const bl_node *best = NULL;
    int64_t least = INT64_MAX, stride = 0;

    for (int i = 0; i < f->naccesses; i++) {
        for (int k = 0; k < f->tune->naxes && f->access[i].node->op == BL_OP_STORE; k++) {
            const bl_node *range = f->tune->axis[k].range;
            if (range == lanes || !facts_may_tile(f, &f->tune->axis[k]) || !bl_is_fixed(range) ||
                !bl_access_stride(f->tune, f->access[i].node, range, &stride) || stride <= *apart || stride >= least)
                continue;
            least = stride;
            best = range;
        }
    }
    *apart = least;
    return best;
}

typedef struct across_tile {
    int64_t rows, columns; /* lengths of the axes */
    int64_t taps; /* iterations of the innermost loop; with stride 1, neighbouring rows share all but one of their loads */
    int64_t registers;
} across_tile;

static double across_tile_cost(const void *arg, const int64_t *size)
{
    const across_tile *t = arg;
    int64_t rows = size[0], columns = size[1], sums = rows * columns;

    return nest_tile_cost(&(nest_tile){.waste = nest_waste(t->rows, rows, t->columns, columns),
                                       .beside = (double)(rows - 1 + t->taps) / (double)(rows * t->taps),
                                       .idle = sums < SUMS_AT_ONCE ? (double)SUMS_AT_ONCE / (double)sums : 1,
                                       .registers = columns > 1 ? sums + OTHER_VECTORS : 0,
                                       .of_registers = t->registers});
}

/* Pack the operands of the main reduction with the lanes innermost. False if that is not legal, or if an operand would be written
 * once per window. */
static bool write_panels(facts *f, const bl_node *lanes)
{
    bl_free *free = &f->tune->free;
    facts before = *f;

    for (int i = 0; i < f->naccesses && f->main != NULL; i++) {
        const bl_node *load = f->access[i].node;
        bool windows = bl_free_places(free, load) < bl_free_size(free, bl_free_get(free, load));
        if (f->access[i].reduce != f->main || facts_contiguity(f, load, lanes) == 1)
            continue;
        if ((windows && load->nsrc < 3) ||
            !bl_tune_apply_at(f->tune, load->nsrc > 2 ? BL_STAGE_HALO : BL_STAGE_PANELS, tune_operand_number(f->tune, load),
                              load->nsrc > 2 ? ~INT64_C(0) : 0))
            return false;
        facts_again(f, &before);
        i = -1;
    }
    return f->main != NULL;
}

static const bl_node *across_lanes_of(const bl_tune *tune)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_VECTOR)
            return tune->axis[i].range;
    }
    return NULL;
}

static const bl_node *innermost_of(const bl_node *reduce)
{
    const bl_node *innermost = reduce->src[reduce->arg];

    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc; i++)
        innermost = bl_axis_precedes(innermost, reduce->src[i]) ? reduce->src[i] : innermost;
    return innermost;
}

/* A tile of rows and columns of results. A short innermost loop is unrolled, so that its copies share overlapping windows. Rows
 * as many as the lanes would be transposed with twice as many registers: 112 x 112 results of 3 x 3 took 0.083 ms with 16 rows,
 * 0.062 with 14. */
static void tile_results(facts *f, const bl_target *target, int lanes, const bl_node *row, const bl_node *column)
{
    const bl_node *innermost = innermost_of(f->main);
    bool unrolled = bl_is_fixed(innermost) && bl_extent_of(innermost) <= MOST_UNROLLED;
    const across_tile t = {bl_extent_of(row), column == NULL ? 1 : bl_extent_of(column), unrolled ? bl_extent_of(innermost) : 1,
                           target->registers};
    int64_t most = lanes - lanes / 8, best[MOST_SIZES] = {1, 1};
    const sizes s = {
        .n = 2, .range = {{1, t.rows < most ? t.rows : most, false}, {1, t.columns, false}}, .cost = across_tile_cost, .arg = &t};

    (void)sizes_choose(&s, best);
    (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, row), best[0]);
    if (column != NULL)
        (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, column), best[1]);
    if (unrolled)
        (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, innermost), bl_extent_of(innermost));
}

/* The cost of the nest with this template, in vector instructions. */
static double cost_across(const facts *f, int lanes)
{
    nest_lanes own = {.copied = facts_panel_elements(f->tune)};

    for (int i = 0; i < f->naccesses; i++) {
        if (f->access[i].reduce == f->main || f->access[i].node->op == BL_OP_STORE)
            own.vectors += (double)bl_free_size(&f->tune->free, f->access[i].loops) / lanes;
    }
    return nest_lanes_cost(&own);
}

bool across_nest(facts *f, const bl_target *target, double most)
{
    bl_tune *tune = f->tune;
    const tune_mark before = tune_keep(tune);
    facts as_before = *f;
    int lanes = 0;
    int64_t apart = 0;
    const bl_node *across = choose_across(f, target, &lanes);
    const bl_node *row = across == NULL ? NULL : next_along(f, across, &apart);
    const bl_node *column = row == NULL ? NULL : next_along(f, across, &apart);

    if (row == NULL || !bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_axis_of(tune, across), lanes))
        return false;
    facts_again(f, &as_before);
    if (!write_panels(f, across_lanes_of(tune)) || cost_across(f, lanes) > most) {
        facts_undo(f, &as_before, &before);
        return false;
    }
    tile_results(f, target, lanes, row, column);
    facts_again(f, &as_before);
    return true;
}
