/* SPDX-License-Identifier: MIT */
/* Axes that only select: the position along the axis (or its remainder) decides which of several values is stored, and no value
 * itself depends on it. A stack of sums of the same loads is an example. Unrolled, each copy has its own value without a
 * comparison, and common subexpressions are computed once. */
#include "engine/opt/facts.h"

enum { MOST_CHOICES = 64 }; /* copies of a store: 36 for a 6 by 6 transform, and some more */

typedef struct choice {
    const bl_node *range;
    int64_t period; /* the remainder by this number decides; 0: the position */
} choice;

/* Does |node| depend on the axis, other than through the quotient by the period or through a WHERE between values that do not
 * depend on it? |moves| has the answers for the nodes below. */
static bool moves_along(const choice *c, const bl_ptrmap *moves, const bl_node *node)
{
    if (node == c->range)
        return true;
    if (c->period > 0 && node->op == BL_OP_IDIV && node->src[0] == c->range && bl_is_int(node->src[1], c->period))
        return false;
    for (uint32_t k = node->op == BL_OP_WHERE && node->dtype != BL_INDEX ? 1 : 0; k < node->nsrc; k++) {
        if (bl_ptrmap_has(moves, node->src[k]))
            return true;
    }
    return false;
}

static void look_for_period(choice *c, const bl_nodes *below)
{
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        if (node->op == BL_OP_MOD && node->src[0] == c->range && bl_is_const(node->src[1]))
            c->period = bl_const_value(node->src[1]).i;
    }
}

/* The number of copies for the axis: 0 if it does more than select. */
static int64_t choices(const facts *f, const bl_node *range)
{
    choice c = {.range = range};
    bool asked = false; /* does a condition of a WHERE depend on this axis alone? */
    uint64_t bit = bl_free_bit(&f->tune->free, range);
    bl_ptrmap moves;

    look_for_period(&c, &f->below);
    bl_ptrmap_init(&moves, bl_ir_arena(f->tune->ir));
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        if (moves_along(&c, &moves, node))
            bl_ptrmap_put(&moves, node, f->tune);
        if (node->op == BL_OP_LOAD && bl_ptrmap_has(&moves, node))
            return 0;
        if (node->op == BL_OP_STORE && bl_ptrmap_has(&moves, node->src[2]))
            return 0; /* a random draw, for instance, depends on the position itself */
        if (bl_binds_ranges(node) && (bl_free_get(&f->tune->free, node) & bit) != 0)
            return 0;
        asked = asked || (node->op == BL_OP_WHERE && node->dtype != BL_INDEX && bl_free_get(&f->tune->free, node->src[0]) == bit);
    }
    int64_t copies = c.period > 0 ? c.period : bl_extent_of(range);
    return asked && copies > 1 && copies <= MOST_CHOICES && bl_extent_of(range) % copies == 0 ? copies : 0;
}

void unroll_choices(facts *f)
{
    bl_tune *tune = f->tune;
    int64_t copies = 1;

    for (int i = 0; i < tune->naxes;) {
        const bl_axis *axis = &tune->axis[i++];
        int64_t more = axis->output && bl_is_fixed(axis->range) && axis->range->sub != BL_AXIS_TILE ? choices(f, axis->range) : 0;
        if (more < 2 || copies * more > MOST_CHOICES || !bl_tune_apply_at(tune, BL_SPLIT_UNROLL, i - 1, more))
            continue;
        copies *= more;
        facts_init(f, tune);
        i = 0; /* the axes were renumbered */
    }
}
