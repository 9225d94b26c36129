/* SPDX-License-Identifier: MIT */
/* Schedule template for nests with stages, on devices whose group is one work-item: enough rows that a tile of rows shares the
 * operands of a product, and few enough that all stages stay in a core's cache. Each product then gets its own tile, and the
 * loops between the products get lanes. */
#include "engine/opt/facts.h"

#include <math.h>

enum {
    TILE_ROWS = 6,       /* rows of a product's tile with 32 registers; a block is a multiple, so that no tile is cut */
    MOST_BLOCK = 24,     /* most rows: with more, operands are no longer most of what is read */
    CACHE_PART = 2,      /* stages may fill half a core's cache; operands pass through the other half */
    GROUPS_PER_UNIT = 4, /* groups per core, so that no core waits long for the last group */
    MOST_PRODUCTS = 16,
    OVER_AND_OVER = 8
};

int64_t bl_stage_bytes(const bl_target *target)
{
    int64_t bytes = target->local_bytes < target->cache_bytes ? target->local_bytes : target->cache_bytes;
    return target->groups ? INT64_MAX : bytes / BL_STAGES_OF_NEST;
}

/* The grid axis whose iterations share most operands: those that do not depend on it. */
static int block_axis(facts *f)
{
    bl_tune *tune = f->tune;
    int64_t most = 0;
    int best = -1;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t shared = 0;
        if (range->sub != BL_AXIS_GLOBAL || !bl_is_fixed(range) || !tune_holds_stage(tune, range))
            continue;
        for (size_t k = 0; k < f->below.count; k++) {
            const bl_node *load = f->below.at[k];
            if (load->op == BL_OP_LOAD && load->src[0]->op == BL_OP_BUFFER && !bl_depends(tune, load, range))
                shared += bl_free_size(&tune->free, bl_free_get(&tune->free, load));
        }
        if (shared > most) {
            most = shared;
            best = i;
        }
    }
    return best;
}

typedef struct row_block {
    int64_t extent, groups, units; /* rows in all, blocks along other axes, cores */
    int64_t once, each, room;      /* bytes: of the result, of a row, and available */
} row_block;

/* Loads per row: operands that a block shares, rows that overlap, and tiles that are cut. */
static double row_block_cost(const void *arg, const int64_t *size)
{
    const row_block *b = arg;
    int64_t rows = size[0], blocks = ceil_div(b->extent, rows);

    if (rows > TILE_ROWS && blocks * b->groups < GROUPS_PER_UNIT * b->units)
        return INFINITY;
    return nest_tile_cost(&(nest_tile){.waste = nest_waste(rows, TILE_ROWS, b->extent, rows),
                                       .near = {1.0 / (double)rows},
                                       .bytes = b->once + b->each * rows,
                                       .of_bytes = b->room});
}

/* Rows of a block: as many as fit, in whole tiles. */
static int64_t block_rows(facts *f, const bl_target *target, int axis)
{
    const bl_node *range = f->tune->axis[axis].range;
    int64_t extent = bl_extent_of(range), best[MOST_SIZES] = {1}, each = 0, once = tune_block_bytes(f->tune, range, &each);
    const row_block b = {extent, facts_groups(f->tune, range, NULL), target->units, once, each, f->tune->local_bytes};
    const sizes s = {.n = 1, .range = {{1, extent < MOST_BLOCK ? extent : MOST_BLOCK, false}}, .cost = row_block_cost, .arg = &b};

    (void)sizes_choose(&s, best);
    return best[0];
}

/* The products of the nest, each named by the first RANGE that it folds over. */
static int list_products(facts *f, const bl_node **focus)
{
    bl_tune *tune = f->tune;
    int n = 0;

    for (size_t i = 0; i < f->below.count && n < MOST_PRODUCTS; i++) {
        const bl_node *node = f->below.at[i];
        bool seen = false;
        if (node->op != BL_OP_REDUCE || !bl_reads_over_and_over(&tune->free, node, OVER_AND_OVER, false))
            continue;
        for (int k = 0; k < n; k++)
            seen = seen || bl_axis_same(focus[k], node->src[node->arg]);
        if (!seen)
            focus[n++] = node->src[node->arg];
    }
    return n;
}

/* Does a part of this axis already have lanes? */
static bool has_lanes(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *part = tune->axis[i].range;
        if (bl_axis_origin(part) == bl_axis_origin(range) && part->sub == BL_AXIS_VECTOR)
            return true;
    }
    return false;
}

void stage_vectorise(bl_tune *tune, const bl_target *target)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = tune->axis[i].range;
        facts f;
        int lanes = 0;
        if ((range->sub != BL_AXIS_LOOP && range->sub != BL_AXIS_REDUCE) || has_lanes(tune, range))
            continue;
        facts_init(&f, tune);
        lanes = tile_lanes(&f, target, range);
        if (lanes > 1 && facts_all_contiguous(&f, range))
            (void)tile_vectorise(tune, i, lanes);
    }
}

bool stage_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const bl_form form = {.local = 1, .row_local = 1};
    const bl_node *focus[MOST_PRODUCTS];
    int64_t budget = target->cache_bytes / CACHE_PART;
    bool staged = false, folds = false;
    int n = 0, axis = 0;

    for (int i = 0; i < tune->naxes; i++)
        staged = staged || tune->axis[i].stage;
    if (!staged)
        return false;
    budget = budget < target->local_bytes ? budget : target->local_bytes;
    if (tune->local_bytes > budget)
        tune->local_bytes = budget;
    for (int i = 0; i < tune->naxes; i++)
        folds = folds || tune->axis[i].folds;
    /* a K-blocked sum has its rows already, and without products the stages of one row stay in the first-level cache */
    axis = folds || list_products(f, focus) == 0 ? -1 : block_axis(f);
    if (axis >= 0 && block_rows(f, target, axis) > 1)
        (void)bl_tune_apply_at(tune, BL_SPLIT_BLOCK, axis, block_rows(f, target, axis));
    facts_init(f, tune);
    n = list_products(f, focus);
    for (int i = 0; i < n; i++) {
        facts product;
        facts_focus(&product, tune, focus[i]);
        if (product.main != NULL)
            (void)tile_nest(&product, target, &form);
    }
    stage_vectorise(tune, target);
    return true;
}
