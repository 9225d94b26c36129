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

/* The parameters of all operands or stores, in their order. */
static int list_parameters(bl_tune *tune, bl_move_what what, int *param)
{
    const bl_node *load[MOST_OPERANDS];
    int n = what == BL_WHAT_OPERAND ? bl_tune_operands(tune, MOST_OPERANDS, load) : (int)tune->sink->nsrc;

    n = n < MOST_OPERANDS ? n : MOST_OPERANDS;
    for (int i = 0; i < n; i++)
        param[i] = (int)(what == BL_WHAT_OPERAND ? load[i] : tune->sink->src[i])->src[0]->arg;
    return n;
}

bl_name bl_tune_name(bl_tune *tune, bl_move_what what, int at)
{
    int param[MOST_OPERANDS] = {0}, n = what == BL_WHAT_AXIS ? tune->naxes : list_parameters(tune, what, param);
    bl_name name = {.origin = -1, .path = 1};

    if (at < 0 || at >= n)
        return name;
    if (what == BL_WHAT_AXIS)
        return tune->axis[at].name;
    name.origin = param[at];
    for (int i = 0; i < at; i++)
        name.twin += param[i] == param[at];
    return name;
}

/* Is an axis with one of these paths a part of the other axis? */
static bool is_on_path(uint32_t a, uint32_t b)
{
    while (a / 2 >= b) /* |a| has more splits */
        a >>= 2;
    while (b / 2 >= a)
        b >>= 2;
    return a == b;
}

static int find_axis(const bl_tune *tune, bl_name name)
{
    int near = -1;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_name *own = &tune->axis[i].name;
        if (own->origin == name.origin && own->path == name.path && own->twin == name.twin)
            return i;
        if (near < 0 && own->origin == name.origin && is_on_path(own->path, name.path))
            near = i;
    }
    return near;
}

int bl_tune_find(bl_tune *tune, bl_move_what what, bl_name name)
{
    int param[MOST_OPERANDS] = {0}, n = 0;

    if (what == BL_WHAT_AXIS)
        return find_axis(tune, name);
    n = list_parameters(tune, what, param);
    for (int i = 0; i < n; i++) {
        if (param[i] == name.origin && name.twin-- == 0)
            return i;
    }
    return -1;
}
