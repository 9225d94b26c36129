/* SPDX-License-Identifier: MIT */
/* Sums with operand reuse by windows only, such as depthwise convolutions and their gradients: the lanes go along the channels,
 * an axis on which every operand and result depends. Vectors are then whole, even if the rows of an image are short or its
 * windows far apart. Halos and panels hold the operands with the lanes innermost. The tile covers axes along which results are
 * contiguous, and its stores are transposed (lower/turn.c). */
#include "engine/ir/gate.h"
#include "engine/opt/facts.h"

#include <math.h>

enum {
    SUMS_AT_ONCE = 8,  /* accumulators that hide the latency of a multiply-add: 4 cycles, two per cycle */
    OTHER_VECTORS = 6, /* registers besides the accumulators: with 14 of 16 for accumulators, 8 x 240 images of 14 x 14, 5 x 5,
                          took 0.31 ms, with 8 0.18 */
    MOST_UNROLLED = 8, /* iterations of the innermost loop up to which it is unrolled */
    SMALL_MAP = 16,    /* results of a map that is one tile, and ... */
    SMALL_WINDOW = 25  /* ... elements of its window, which is unrolled */
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

/* The loop of |reduce| that has |inside| loops inside it, or NULL. */
static const bl_node *loop_of(const bl_node *reduce, int inside)
{
    const bl_node *found = NULL;

    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc; i++) {
        int within = 0;
        for (uint32_t k = (uint32_t)reduce->arg; k < reduce->nsrc; k++)
            within += k != i && bl_axis_precedes(reduce->src[i], reduce->src[k]);
        found = within == inside ? reduce->src[i] : found;
    }
    return found;
}

/* The product of the extents of the |n| innermost loops; 0 if one is not constant or is missing. */
static int64_t windows_of(const bl_node *reduce, int n)
{
    int64_t elements = 1;

    for (int i = 0; i < n; i++) {
        const bl_node *loop = loop_of(reduce, i);
        elements *= loop != NULL && bl_is_fixed(loop) ? bl_extent_of(loop) : 0;
    }
    return elements;
}

/* The tile of results. */
typedef struct across_form {
    edges_tile tile;
    const bl_node *column;    /* NULL: none */
    int64_t size[MOST_SIZES]; /* rows and columns */
    int windows;              /* innermost loops that are unrolled */
    bool whole[MOST_SIZES];   /* a tile has all rows and columns, and the loop that goes along with them is unrolled: the tests of
                                 padding are constants */
} across_form;

/* The output axes, as a bit mask, along which the nest needs no border in the copy of |load|: its comparisons with the edges
 * become constants when the tile is unrolled, or bounds of loops. 0 if some comparison of |load| would become neither. */
static int64_t tested_axes(facts *f, const bl_node *load, const across_form *form)
{
    int64_t axes = form->tile.untiled;

    if (form->whole[0])
        axes |= INT64_C(1) << facts_axis_of(f->tune, form->tile.rows);
    if (form->whole[1])
        axes |= INT64_C(1) << facts_axis_of(f->tune, form->column);
    return edges_tested_by(f, load, axes) && edges_leave_out(f->tune, load) ? axes : 0;
}

/* Pack the operands of the main reduction with the lanes innermost, with |tests| without the borders that tested_axes tells.
 * False if that is not legal, or if an operand would be written once per window. */
static bool write_panels(facts *f, const across_form *form, bool tests)
{
    bl_free *free = &f->tune->free;
    facts before = *f;

    for (int i = 0; i < f->naccesses && f->main != NULL; i++) {
        const bl_node *load = f->access[i].node;
        bool windows = bl_free_places(free, load) < bl_free_size(free, bl_free_get(free, load));
        bool padded = load->nsrc > 2;
        int64_t keep = 0;
        if (f->access[i].reduce != f->main || facts_contiguity(f, load, form->tile.lanes) == 1)
            continue;
        if (windows && !padded)
            return false;
        keep = padded && tests ? tested_axes(f, load, form) : 0;
        if (!bl_tune_apply_at(f->tune, padded ? BL_STAGE_HALO : BL_STAGE_PANELS, tune_operand_number(f->tune, load),
                              padded ? ~keep : 0))
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

/* Does a window move along |axis| by |loop| over a padded operand? */
static bool moves_by(const facts *f, const bl_node *axis, const bl_node *loop)
{
    bool any = false;

    for (int i = 0; i < f->naccesses; i++) {
        const bl_node *load = f->access[i].node;
        bl_clauses all = {0};
        if (f->access[i].reduce != f->main || load->op != BL_OP_LOAD || load->nsrc < 3 || !bl_clauses_add(&all, load->src[2]))
            continue;
        for (int k = 0; k < all.count; k++)
            any = any || (bl_depends(f->tune, all.at[k], axis) && bl_depends(f->tune, all.at[k], loop));
    }
    return any;
}

/* A tile of rows and columns of results. A short innermost loop is unrolled, so that its copies share overlapping windows. Rows
 * as many as the lanes would be transposed with twice as many registers: 112 x 112 results of 3 x 3 took 0.083 ms with 16 rows,
 * 0.062 with 14. A small map is one tile. */
static void choose_tile(const facts *f, const bl_target *target, int lanes, across_form *form)
{
    int64_t inner = windows_of(f->main, 1), rows = bl_extent_of(form->tile.rows);
    int64_t columns = form->column == NULL ? 1 : bl_extent_of(form->column), most = lanes - lanes / 8;
    const across_tile t = {rows, columns, inner > 0 && inner <= MOST_UNROLLED ? inner : 1, target->registers};
    const sizes s = {
        .n = 2, .range = {{1, rows < most ? rows : most, false}, {1, columns, false}}, .cost = across_tile_cost, .arg = &t};

    form->windows = inner > 0 && inner <= MOST_UNROLLED;
    form->size[0] = form->size[1] = 1;
    if (form->windows > 0 && columns > 1 && rows * columns <= SMALL_MAP && rows * columns + OTHER_VECTORS <= target->registers &&
        windows_of(f->main, 2) > 0 && windows_of(f->main, 2) <= SMALL_WINDOW && moves_by(f, form->column, loop_of(f->main, 1))) {
        form->size[0] = rows;
        form->size[1] = columns;
        form->windows = 2;
    } else {
        (void)sizes_choose(&s, form->size);
    }
    form->whole[0] = form->windows > 0 && form->size[0] == rows;
    form->whole[1] = form->windows > 1;
}

static void tile_results(facts *f, const across_form *form)
{
    const bl_node *loops[2] = {loop_of(f->main, 0), loop_of(f->main, 1)};

    (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, form->tile.rows), form->size[0]);
    if (form->column != NULL)
        (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, form->column), form->size[1]);
    for (int i = 0; i < form->windows && loops[i] != NULL; i++)
        (void)bl_tune_apply_at(f->tune, BL_SPLIT_UNROLL, facts_axis_of(f->tune, loops[i]), bl_extent_of(loops[i]));
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
    facts as_before = *f, with_lanes;
    tune_mark panels;
    across_form form = {.tile = {.lanes = NULL}};
    int lanes = 0;
    int64_t apart = 0;
    const bl_node *across = choose_across(f, target, &lanes);

    form.tile.rows = across == NULL ? NULL : next_along(f, across, &apart);
    form.column = form.tile.rows == NULL ? NULL : next_along(f, across, &apart);
    if (form.tile.rows == NULL || !bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_axis_of(tune, across), lanes))
        return false;
    facts_again(f, &as_before);
    choose_tile(f, target, lanes, &form);
    form.tile.lanes = across_lanes_of(tune);
    form.tile.untiled = edges_untiled(tune, form.tile.lanes, form.tile.rows, form.size[1] > 1 ? form.column : NULL);
    panels = tune_keep(tune);
    with_lanes = *f;
    if (!write_panels(f, &form, false) || cost_across(f, lanes) > most) {
        facts_undo(f, &as_before, &before);
        return false;
    }
    facts_undo(f, &with_lanes, &panels);
    if (!write_panels(f, &form, true)) {
        facts_undo(f, &as_before, &before);
        return false;
    }
    tile_results(f, &form);
    facts_again(f, &as_before);
    return true;
}
