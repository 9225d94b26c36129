/* SPDX-License-Identifier: MIT */
/* Axes that only choose: which of several values is stored depends on the place along the axis (or on its remainder), and no
 * value itself does.  A stack of sums of the same loads is one.  Unrolled, each copy has its own value and no question, and what
 * the values have in common is computed once for all. */
#include "engine/opt/facts.h"

enum { MOST_CHOICES = 64 }; /* copies of a store: the 36 of a transform of 6 by 6, and some */

typedef struct choice {
    const bl_node *range;
    int64_t period; /* the axis is asked for its remainder by this; 0: for its number */
} choice;

/* Does |node| depend on the axis other than through its quotient by the period, or by a choice between values that do not?
 * |moves| has the answers for those below. */
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

/* How many copies the axis gets: 0 if it does more than choose. */
static int64_t choices(const facts *f, const bl_node *range)
{
    choice c = {.range = range};
    bool asked = false; /* by the condition of a WHERE, about this axis alone */
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
            return 0; /* a draw, say, which asks much of its number and is no choice */
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
        if (more < 2 || copies * more > MOST_CHOICES || !bl_tune_apply(tune, (bl_move){BL_MOVE_TILE, i - 1, more}))
            continue;
        copies *= more;
        facts_init(f, tune);
        i = 0; /* the axes are numbered anew */
    }
}
