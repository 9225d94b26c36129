/* SPDX-License-Identifier: MIT */
#include "engine/ir/gate.h"

bool bl_clauses_add(bl_clauses *all, const bl_node *gate)
{
    if (gate == NULL)
        return true;
    if (gate->op == BL_OP_AND)
        return bl_clauses_add(all, gate->src[0]) && bl_clauses_add(all, gate->src[1]);
    if (all->count == BL_MAX_CLAUSES)
        return false;
    all->at[all->count++] = gate;
    return true;
}

bool bl_clauses_hold(const bl_clauses *all, const bl_node *clause)
{
    for (int i = 0; i < all->count; i++) {
        if (all->at[i] == clause)
            return true;
    }
    return false;
}

const bl_node *bl_gate_without(bl_ir *ir, const bl_node *gate, const bl_clauses *gone)
{
    const bl_node *left = bl_const(ir, BL_BOOL, (bl_scalar){.u = 1});
    bl_clauses all = {0};

    if (!bl_clauses_add(&all, gate))
        return gate;
    for (int i = 0; i < all.count; i++) {
        if (!bl_clauses_hold(gone, all.at[i]))
            left = bl_and(ir, left, all.at[i]);
    }
    return left;
}

/* Is |weak| a comparison of indices that |strong| implies because the two differ by a constant? */
static bool asks_less(bl_ir *ir, const bl_node *weak, const bl_node *strong)
{
    const bl_node *more = NULL;

    if (weak->op != BL_OP_CMPLT || strong->op != BL_OP_CMPLT || weak->src[0]->dtype != BL_INDEX ||
        strong->src[0]->dtype != BL_INDEX)
        return false;
    more = bl_sub(ir, bl_sub(ir, weak->src[1], weak->src[0]), bl_sub(ir, strong->src[1], strong->src[0]));
    return bl_is_const(more) && more->arg >= 0;
}

bool bl_gate_implies(bl_ir *ir, const bl_node *gate, const bl_node *condition)
{
    bl_clauses known = {0}, asked = {0};

    if (!bl_clauses_add(&known, gate) || !bl_clauses_add(&asked, condition))
        return false;
    for (int i = 0; i < asked.count; i++) {
        bool found = asked.at[i]->op == BL_OP_CONST && asked.at[i]->arg != 0;
        for (int k = 0; k < known.count && !found; k++)
            found = known.at[k] == asked.at[i] || asks_less(ir, asked.at[i], known.at[k]);
        if (!found)
            return false;
    }
    return true;
}

bool bl_is_gated(const bl_node *value)
{
    return value->op == BL_OP_WHERE && bl_is_const(value->src[2]) && value->src[2]->arg == 0;
}

bool bl_is_zero_outside(const bl_node *value)
{
    const bl_node *product = value->src[1];
    bl_clauses gate = {0};

    if (product->op != BL_OP_MUL || !bl_clauses_add(&gate, value->src[0]))
        return false;
    for (int i = 0; i < 2; i++) {
        const bl_node *load = product->src[i];
        bl_clauses own = {0};
        bool closed = load->op == BL_OP_LOAD && load->nsrc > 2 && bl_clauses_add(&own, load->src[2]);
        for (int k = 0; k < gate.count && closed; k++)
            closed = bl_clauses_hold(&own, gate.at[k]);
        if (closed)
            return true;
    }
    return false;
}
