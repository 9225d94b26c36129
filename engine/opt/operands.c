/* SPDX-License-Identifier: MIT */
/* Operands of a nest: its LOADs in the order of the parameters that they read, and of their hashes where they read one.  Neither
 * depends on what else a graph has, as ids do: lists of moves are kept for every graph that has the same nest. */
#include "engine/opt/opt_internal.h"

static bool comes_before(const bl_node *a, const bl_node *b)
{
    if (a->src[0]->arg != b->src[0]->arg)
        return a->src[0]->arg < b->src[0]->arg;
    return a->hash < b->hash;
}

int bl_tune_operands(bl_tune *tune, int most, const bl_node **load)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int n = 0;

    for (size_t i = 0; i < below.count && n < most; i++) {
        int at = n;
        if (below.at[i]->op != BL_OP_LOAD || below.at[i]->src[0]->op != BL_OP_BUFFER)
            continue; /* no LOAD, or one of a stage */
        for (; at > 0 && comes_before(below.at[i], load[at - 1]); at--)
            load[at] = load[at - 1];
        load[at] = below.at[i];
        n++;
    }
    return n;
}

const bl_node *tune_operand_load(bl_tune *tune, int operand)
{
    const bl_node *load[MOST_OPERANDS];
    int n = bl_tune_operands(tune, MOST_OPERANDS, load);
    return operand >= 0 && operand < n && bl_find_op(tune->ir, load[operand], BL_OP_STAGE) == NULL ? load[operand] : NULL;
}

int tune_operand_number(bl_tune *tune, const bl_node *load)
{
    const bl_node *all[MOST_OPERANDS];
    int n = bl_tune_operands(tune, MOST_OPERANDS, all);
    for (int i = 0; i < n; i++) {
        if (all[i] == load)
            return i;
    }
    return -1;
}
