/* SPDX-License-Identifier: MIT */
/* A sum over several loops, such as channels and a window, of an operand that is contiguous over all of them and of one that is
 * not: the pixels of few windows. If lanes along the results would be few, the second operand is packed in the order of the
 * loops. The loops then are one (move_stage in moves.c), and lanes along this loop read both operands as whole vectors. */
#include "engine/opt/facts.h"

#include <math.h>

/* The model counts twice as much for half as many lanes, but a core with narrow units computes them as fast: with 8 lanes along
 * the results, 8 x 128 sums of 3,456 products took 0.043 ms, with 16 along the sum 0.063 ms. 4 x 128 took 0.071 ms with 4 lanes,
 * 0.039 ms with 16 along the sum. */
#define GAIN 0.3

/* The least cost with lanes along one axis, with |sums| an axis of the reduction, and with the panels of the nest. */
static double least_cost(facts *f, const bl_target *target, bool sums)
{
    double least = INFINITY;

    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        int lanes = tile_lanes(f, target, range);
        double cost = lanes < 2 || (sums && f->tune->axis[i].output)
                          ? INFINITY
                          : tile_cost(f, target, range, lanes, facts_panel_elements(f->tune));
        least = cost < least ? cost : least;
    }
    return least;
}

/* The reduction of the nest, if it goes over two loops or more; NULL if there are several reductions. */
static const bl_node *only_sum(const facts *f)
{
    const bl_node *sum = NULL;

    for (size_t i = 0; i < f->below.count; i++) {
        if (f->below.at[i]->op != BL_OP_REDUCE)
            continue;
        if (sum != NULL)
            return NULL;
        sum = f->below.at[i];
    }
    return sum != NULL && sum->arg == 1 && sum->nsrc - sum->arg > 1 ? sum : NULL;
}

/* Is |load| contiguous over all loops of |sum| as if they were one, or the same in all iterations? */
static bool is_in_line(facts *f, const bl_node *sum, const bl_node *load)
{
    int64_t next = 1, stride = 0;

    if ((bl_free_get(&f->tune->free, load) & bl_free_bound(&f->tune->free, sum)) == 0)
        return true;
    for (int i = f->tune->naxes - 1; i >= 0; i--) {
        const bl_node *range = f->tune->axis[i].range;
        if (!bl_binds(sum, range))
            continue;
        if (!bl_is_fixed(range) || !bl_access_stride(f->tune, load, range, &stride) || stride != next ||
            (load->nsrc > 2 && bl_depends(f->tune, load->src[2], range)))
            return false;
        next *= bl_extent_of(range);
    }
    return true;
}

/* Pack all operands that are not in line. False if one of them cannot be packed, or if the loops are still several. */
static bool pack_apart(facts *f, const bl_target *target)
{
    const bl_node *sum = only_sum(f);

    for (int i = 0; sum != NULL && i < f->naccesses; i++) {
        const access a = f->access[i];
        if (a.reduce != sum || is_in_line(f, sum, a.node))
            continue;
        if (!facts_can_pack(f, &a, sum, NULL, target) ||
            !bl_tune_apply_at(f->tune, BL_STAGE_PANELS, tune_operand_number(f->tune, a.node), 0))
            return false;
        facts_init(f, f->tune);
        sum = only_sum(f);
        i = -1;
    }
    return sum == NULL;
}

void line_up(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const tune_mark before = tune_keep(tune);
    double most = GAIN * least_cost(f, target, false);

    if (f->focus != NULL || only_sum(f) == NULL)
        return;
    if (!pack_apart(f, target) || least_cost(f, target, true) > most)
        tune_undo(tune, &before);
    facts_init(f, tune);
}
