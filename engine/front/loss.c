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

/* Which targets are not the ignored one; NULL where none is ignored. */
static const bl_node *kept_targets(bl_call *c, const bl_node *target)
{
    const bl_value *ignore = bl_attr(c, "ignore_index");
    if (!ignore->given)
        return NULL;
    const bl_node *value = bl_spread(c->ir, bl_const_int(c->ir, BL_I64, ignore->whole), target);
    return bl_not(c->ir, bl_alu2(c->ir, BL_OP_CMPEQ, bl_cast(c->ir, BL_I64, target), value));
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

/* The weights of the classes in the shape of |logs|, or NULL. */
static const bl_node *class_weights(bl_call *c, const bl_node *logs, int axis)
{
    const bl_node *weight = c->in[2];
    const bl_node *dim[BL_MAX_DIMS];

    if (weight == NULL)
        return NULL;
    if (weight->ndim != 1 || weight->dim[0] != logs->dim[axis])
        return bl_call_fail(c, "weight must have one element for each class, not %s", bl_call_shape(c, weight));
    for (int i = 0; i < logs->ndim; i++)
        dim[i] = i == axis ? weight->dim[0] : bl_index(c->ir, 1);
    weight = bl_cast(c->ir, (bl_dtype)logs->dtype, weight);
    return bl_spread(c->ir, bl_reshape(c->ir, weight, logs->ndim, dim), logs);
}

/* Of class indices.  |smoothing| of the target is spread over all classes. */
static const bl_node *likelihood_loss(bl_call *c, const bl_node *logs, double smoothing)
{
    bl_ir *ir = c->ir;
    const bl_node *target = c->in[1], *kept = kept_targets(c, target), *count = NULL;
    int axis = logs->ndim > 1 ? 1 : 0;
    const bl_node *weights = class_weights(c, logs, axis), *loss = pick(c, logs, target);
    const bl_node *own = weights == NULL ? NULL : bl_alu1(ir, BL_OP_NEG, pick(c, weights, target));

    if (own != NULL)
        loss = bl_mul(ir, loss, own);
    if (smoothing != 0) {
        const bl_node *all = bl_reduce(ir, BL_OP_ADD, weights == NULL ? logs : bl_mul(ir, weights, logs), 1u << axis);
        const bl_node *share = bl_div(ir, bl_const_float(ir, (bl_dtype)logs->dtype, -smoothing),
                                      bl_count_axes(ir, logs, 1u << axis, (bl_dtype)logs->dtype));
        all = bl_drop_axes(ir, all, 1u << axis);
        loss = bl_add(ir, bl_mul_real(ir, loss, 1 - smoothing), bl_mul(ir, all, bl_spread(ir, share, all)));
    }
    if (kept != NULL) {
        own = own == NULL ? bl_full_like(ir, loss, 1) : own;
        own = bl_where(ir, kept, own, bl_full_like(ir, own, 0));
        loss = bl_where(ir, kept, loss, bl_full_like(ir, loss, 0));
    }
    if (own != NULL) {
        uint32_t every = (1u << own->ndim) - 1;
        count = bl_drop_axes(ir, bl_sum(ir, own, every), every);
    }
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, reduce_loss(c, loss, count));
}

/* Of a probability for each class, in the shape of the logits. */
static const bl_node *distribution_loss(bl_call *c, const bl_node *logs, double smoothing)
{
    bl_ir *ir = c->ir;
    int axis = logs->ndim > 1 ? 1 : 0;
    const bl_node *target = bl_cast(ir, (bl_dtype)logs->dtype, c->in[1]), *weights = class_weights(c, logs, axis);

    if (!bl_shape_equal(target, logs))
        return bl_call_fail(c, "a target of floats needs the shape of x: %s and %s", bl_call_shape(c, c->in[0]),
                            bl_call_shape(c, target));
    if (bl_attr(c, "ignore_index")->given)
        return bl_call_fail(c, "ignore_index needs a target of class indices");
    if (smoothing != 0) {
        const bl_node *share = bl_div(ir, bl_const_float(ir, (bl_dtype)logs->dtype, smoothing),
                                      bl_count_axes(ir, logs, 1u << axis, (bl_dtype)logs->dtype));
        target = bl_add(ir, bl_mul_real(ir, target, 1 - smoothing), bl_spread(ir, share, target));
    }
    const bl_node *terms = bl_mul(ir, target, weights == NULL ? logs : bl_mul(ir, weights, logs));
    const bl_node *loss = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, terms, 1u << axis), 1u << axis);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, reduce_loss(c, bl_alu1(ir, BL_OP_NEG, loss), NULL));
}

const bl_node *expand_cross_entropy(bl_call *c)
{
    const bl_node *x = bl_widen(c->ir, c->in[0]);
    double smoothing = bl_attr(c, "label_smoothing")->real;

    if (x->ndim == 0)
        return bl_call_fail(c, "needs logits [N, C, ...] or [C], not a scalar");
    if (!(smoothing >= 0 && smoothing <= 1))
        return bl_call_fail(c, "label_smoothing must be between 0 and 1, not %g", smoothing);
    const bl_node *logs = bl_log_softmax(c->ir, x, 1u << (x->ndim > 1 ? 1 : 0));
    if (bl_dtype_is_float((bl_dtype)c->in[1]->dtype))
        return distribution_loss(c, logs, smoothing);
    return likelihood_loss(c, logs, smoothing);
}

const bl_node *expand_nll_loss(bl_call *c)
{
    if (c->in[0]->ndim == 0)
        return bl_call_fail(c, "needs log-probabilities [N, C, ...] or [C], not a scalar");
    return likelihood_loss(c, bl_widen(c->ir, c->in[0]), 0);
}
