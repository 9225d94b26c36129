/* SPDX-License-Identifier: MIT */
/* Losses, and normalisation over axes. */
#include "engine/front/build.h"

/* "mean", "sum" or "none" of a loss; the mean is over |count| (a scalar), or over all elements where that is NULL. */
static const bl_node *reduce_loss(bl_call *c, const bl_node *loss, const bl_node *count)
{
    char how = bl_attr(c, "reduction")->text[0];
    uint32_t all = (1u << loss->ndim) - 1;

    if (how == 'n')
        return loss;
    if (how == 'm' && count == NULL)
        return bl_drop_axes(c->ir, bl_mean(c->ir, loss, all), all);
    const bl_node *sum = bl_drop_axes(c->ir, bl_sum(c->ir, loss, all), all);
    return how == 'm' ? bl_div(c->ir, sum, count) : sum;
}

/* How many targets are not the ignored one, at least for the division; NULL where none is ignored. */
static const bl_node *count_targets(bl_call *c, const bl_node *target, bl_dtype dtype, const bl_node **kept)
{
    const bl_value *ignore = bl_attr(c, "ignore_index");
    uint32_t all = (1u << target->ndim) - 1;

    *kept = NULL;
    if (!ignore->given)
        return NULL;
    const bl_node *value = bl_spread(c->ir, bl_const_int(c->ir, BL_I64, ignore->whole), target);
    *kept = bl_not(c->ir, bl_alu2(c->ir, BL_OP_CMPEQ, bl_cast(c->ir, BL_I64, target), value));
    return bl_drop_axes(c->ir, bl_sum(c->ir, bl_cast(c->ir, dtype, *kept), all), all);
}

/* -logs[n, target[n, ...], ...]: chosen by comparison, so that it fuses with what makes the logarithms. */
static const bl_node *pick(bl_call *c, const bl_node *logs, const bl_node *target)
{
    bl_ir *ir = c->ir;
    int axis = logs->ndim > 1 ? 1 : 0;

    if (logs->op == BL_OP_POISON)
        return logs;
    for (int i = 0; i < logs->ndim; i++) {
        if (logs->ndim != target->ndim + 1 || (i != axis && logs->dim[i] != target->dim[i < axis ? i : i - 1]))
            return bl_call_fail(c, "shapes do not fit: x %s, target %s", bl_call_shape(c, logs), bl_call_shape(c, target));
    }
    const bl_node *wide = bl_add_axis(ir, bl_cast(ir, BL_I64, target), axis);
    if (logs->dim[axis]->hi < INT32_MAX) { /* a class that int32 cannot hold stays none */
        wide = bl_alu2(ir, BL_OP_MAX, wide, bl_full_like(ir, wide, -1));
        wide = bl_cast(ir, BL_I32, bl_alu2(ir, BL_OP_MIN, wide, bl_full_like(ir, wide, INT32_MAX)));
    }
    const bl_node *classes = bl_iota_like(ir, logs, axis, (bl_dtype)wide->dtype);
    const bl_node *is = bl_alu2(ir, BL_OP_CMPEQ, bl_spread(ir, wide, logs), classes);
    const bl_node *chosen = bl_where(ir, is, logs, bl_full_like(ir, logs, 0));
    chosen = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, chosen, 1u << axis), 1u << axis);
    return bl_alu1(ir, BL_OP_NEG, chosen);
}

static const bl_node *likelihood_loss(bl_call *c, const bl_node *logs)
{
    const bl_node *target = c->in[1];
    const bl_node *kept;
    const bl_node *count = count_targets(c, target, (bl_dtype)logs->dtype, &kept);
    const bl_node *loss = pick(c, logs, target);

    if (kept != NULL)
        loss = bl_where(c->ir, kept, loss, bl_full_like(c->ir, loss, 0));
    return bl_cast(c->ir, (bl_dtype)c->in[0]->dtype, reduce_loss(c, loss, count));
}

const bl_node *expand_cross_entropy(bl_call *c)
{
    const bl_node *x = bl_widen(c->ir, c->in[0]);
    if (x->ndim == 0)
        return bl_call_fail(c, "needs logits [N, C, ...] or [C], not a scalar");
    return likelihood_loss(c, bl_log_softmax(c->ir, x, 1u << (x->ndim > 1 ? 1 : 0)));
}

const bl_node *expand_nll_loss(bl_call *c)
{
    if (c->in[0]->ndim == 0)
        return bl_call_fail(c, "needs log-probabilities [N, C, ...] or [C], not a scalar");
    return likelihood_loss(c, bl_widen(c->ir, c->in[0]));
}

const bl_node *expand_layer_norm(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    uint32_t axes;

    if (!bl_call_axes(c, bl_attr(c, "axis"), x->ndim, &axes))
        return x;
    const bl_node *off = bl_sub(ir, x, bl_spread(ir, bl_mean(ir, x, axes), x));
    const bl_node *spread = bl_add_real(ir, bl_mean(ir, bl_mul(ir, off, off), axes), bl_attr(c, "eps")->real);
    const bl_node *y = bl_div(ir, off, bl_spread(ir, bl_alu1(ir, BL_OP_SQRT, spread), off));
    for (int i = 1; i <= 2; i++) {
        const bl_node *both[2] = {y, c->in[i] == NULL ? NULL : bl_widen(ir, c->in[i])};
        if (both[1] == NULL)
            continue;
        if (!bl_call_broadcast(c, 2, both) || !bl_shape_equal(both[0], x))
            return bl_call_fail(c, "weight and bias must fit the last dimensions of x %s, not %s", bl_call_shape(c, x),
                                bl_call_shape(c, c->in[i]));
        y = bl_alu2(ir, i == 1 ? BL_OP_MUL : BL_OP_ADD, both[0], both[1]);
    }
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, y);
}
