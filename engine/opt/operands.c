/* SPDX-License-Identifier: MIT */
/* What moves name: axes, operands and stores, by number and by name.  Operands are the LOADs of the nest in the order of the
 * parameters that they read, and of their hashes if they read the same parameter.  Unlike ids, parameters and hashes do not
 * depend on the rest of a graph: a list of moves is stored for every graph that has the same nest. */
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

/* The origins of all axes, operands or stores, in the order of their numbers. */
static int list_origins(bl_tune *tune, bl_move_on on, int *origin)
{
    const bl_node *load[MOST_OPERANDS];
    int n = on == BL_MOVES_AXIS      ? tune->naxes
            : on == BL_MOVES_OPERAND ? bl_tune_operands(tune, MOST_OPERANDS, load)
                                     : (int)tune->sink->nsrc;

    for (int i = 0; i < n && i < MOST_OPERANDS; i++)
        origin[i] = on == BL_MOVES_AXIS ? bl_axis_origin(tune->axis[i].range)
                                        : (int)(on == BL_MOVES_OPERAND ? load[i] : tune->sink->src[i])->src[0]->arg;
    return n < MOST_OPERANDS ? n : MOST_OPERANDS;
}

bl_name bl_tune_name(bl_tune *tune, bl_move_on on, int at)
{
    int origin[MOST_OPERANDS], n = list_origins(tune, on, origin);
    bl_name name = {.origin = at < 0 || at >= n ? -1 : origin[at]};

    for (int i = 0; i < at && i < n; i++)
        name.part += origin[i] == name.origin;
    return name;
}

int bl_tune_find(bl_tune *tune, bl_move_on on, bl_name name)
{
    int origin[MOST_OPERANDS], n = list_origins(tune, on, origin);

    for (int i = 0; i < n; i++) {
        if (origin[i] == name.origin && name.part-- == 0)
            return i;
    }
    return -1;
}
