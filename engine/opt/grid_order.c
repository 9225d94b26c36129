/* SPDX-License-Identifier: MIT */
/* The order of the axes of a product's grid on a CPU. Groups run in the order of the grid: along the fastest axis first. Each
 * tile of the slower axis reads the whole operand of the fastest one, so that operand should be the one that a cache keeps: with
 * 16 rows, a weight of 64 MB was read from memory four times, once for each tile of four rows, instead of once. */
#include "engine/opt/facts.h"

enum { KEPT_OPERANDS = 4 }; /* the last-level cache keeps one operand out of this many that would fill it, beside other data */

static const double FROM_LAST_CACHE = 0.25; /* time of a byte from the last-level cache, in bytes from memory */

int64_t grid_kept_bytes(const bl_target *target)
{
    return (int64_t)target->last_cache_bytes / KEPT_OPERANDS;
}

/* Bytes of the operand of a product that depends on |axis| and not on |other|. */
static int64_t operand_bytes(facts *f, const bl_node *axis, const bl_node *other)
{
    bl_free *free = &f->tune->free;
    uint64_t set = bl_free_bound(free, f->main) | bl_free_bit(free, axis);
    int64_t bytes = 0;

    for (int i = 0; i < f->naccesses; i++) {
        const bl_node *node = f->access[i].node;
        if (f->access[i].reduce == f->main && bl_depends(f->tune, node, axis) && !bl_depends(f->tune, node, other))
            bytes += bl_free_size(free, bl_free_get(free, node) & set) * (int64_t)bl_dtype_bytes((bl_dtype)node->dtype);
    }
    return bytes;
}

/* Does a window move over an operand? Its elements are then read again within a tile. */
static bool moves_windows(facts *f)
{
    bl_free *free = &f->tune->free;
    bool any = false;

    for (int i = 0; i < f->naccesses; i++) {
        const bl_node *node = f->access[i].node;
        any = any || (f->access[i].reduce == f->main && bl_free_places(free, node) < bl_free_size(free, bl_free_get(free, node)));
    }
    return any;
}

/* The time, in bytes from memory, of |passes| over an operand. */
static double passes_time(const bl_target *target, double passes, int64_t bytes)
{
    if (bytes <= (int64_t)target->cache_bytes)
        return 0;
    return passes * (double)bytes * (bytes > grid_kept_bytes(target) ? 1 : FROM_LAST_CACHE);
}

const bl_node *grid_fastest(facts *f, const bl_target *target, const bl_node *rows, int64_t high, const bl_node *columns,
                            int64_t wide)
{
    bool rows_first = bl_axis_precedes(rows, columns);
    const bl_node *slow = rows_first ? rows : columns, *fast = rows_first ? columns : rows;
    double slow_tiles = 0, fast_tiles = 0;
    int64_t again = 0;

    if (target->groups || target->last_cache_bytes == 0 || f->focus != NULL || moves_windows(f) || !bl_is_fixed(slow) ||
        !bl_is_fixed(fast))
        return NULL;
    again = operand_bytes(f, fast, slow);
    if (again <= grid_kept_bytes(target))
        return NULL;
    slow_tiles = (double)ceil_div(bl_extent_of(slow), rows_first ? high : wide);
    fast_tiles = (double)ceil_div(bl_extent_of(fast), rows_first ? wide : high);
    return passes_time(target, fast_tiles, operand_bytes(f, slow, fast)) < passes_time(target, slow_tiles, again) ? slow : NULL;
}

void grid_make_fastest(bl_tune *tune, const bl_node *axis)
{
    int outer = axis == NULL ? -1 : facts_outer_part(tune, axis);

    if (outer >= 0)
        (void)bl_tune_apply_at(tune, BL_ORDER_FASTEST, outer, 0);
}

void grid_make_slowest(bl_tune *tune, const bl_node *part)
{
    for (int i = 0; part != NULL && i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range != part && range->sub == BL_AXIS_GLOBAL && bl_axis_precedes(range, part) &&
            bl_tune_apply_at(tune, BL_ORDER_FASTEST, i, 0))
            i = -1; /* the order of the axes has changed */
    }
}
