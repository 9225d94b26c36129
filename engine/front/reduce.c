/* SPDX-License-Identifier: MIT */
/* Reductions over axes, and ops composed of them. */
#include "engine/front/build.h"

#include <math.h>

/* The attributes "axis" and "keepdim" of a reduction. */
typedef struct scope {
    uint32_t axes;
    bool keep;
} scope;

static bool take_scope(bl_call *c, scope *s)
{
    s->keep = bl_attr(c, "keepdim")->flag;
    return bl_call_axes(c, bl_attr(c, "axis"), c->in[0]->ndim, &s->axes);
}

static const bl_node *reduce_finish(bl_call *c, const scope *s, const bl_node *x)
{
    return s->keep ? x : bl_drop_axes(c->ir, x, s->axes);
}

/* The dtype of sums and products of integers. */
static bl_dtype reduce_sum_dtype(bl_dtype dtype)
{
    return bl_dtype_is_float(dtype) || dtype == BL_U64 ? dtype : BL_I64;
}

static const bl_node *reduce_fold_all(bl_call *c, bl_op fold)
{
    const bl_value *asked = bl_attr(c, "dtype");
    bl_dtype dtype = asked->given ? asked->dtype : reduce_sum_dtype((bl_dtype)c->in[0]->dtype);
    const bl_node *x = bl_widen(c->ir, bl_cast(c->ir, dtype, c->in[0]));
    scope s;

    if (!take_scope(c, &s))
        return x;
    return reduce_finish(c, &s, bl_cast(c->ir, dtype, bl_reduce(c->ir, fold, x, s.axes)));
}

const bl_node *expand_sum(bl_call *c)
{
    return reduce_fold_all(c, BL_OP_ADD);
}

const bl_node *expand_prod(bl_call *c)
{
    return reduce_fold_all(c, BL_OP_MUL);
}

/* Reject an empty axis: max and min of nothing are undefined. */
static bool refuse_empty(bl_call *c, uint32_t axes)
{
    const bl_node *x = c->in[0];

    for (int i = 0; i < x->ndim; i++) {
        if ((axes >> i & 1u) && x->dim[i]->hi == 0) {
            bl_call_fail(c, "the reduction has no elements: shape %s, axis %d", bl_call_shape(c, x), i);
            return true;
        }
    }
    return false;
}

static const bl_node *reduce_extreme(bl_call *c, bl_op fold)
{
    scope s;

    if (!take_scope(c, &s) || refuse_empty(c, s.axes))
        return c->in[0];
    if (c->in[0]->dtype == BL_BOOL) /* or, and */
        fold = fold == BL_OP_MAX ? BL_OP_ADD : BL_OP_MUL;
    return reduce_finish(c, &s, bl_reduce(c->ir, fold, c->in[0], s.axes));
}

const bl_node *expand_max(bl_call *c)
{
    return reduce_extreme(c, BL_OP_MAX);
}

const bl_node *expand_min(bl_call *c)
{
    return reduce_extreme(c, BL_OP_MIN);
}

/* The smallest position of the extreme value. NaN counts as the extreme. */
static const bl_node *position(bl_call *c, bl_op fold)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_value *attr = bl_attr(c, "axis");
    bool keep = bl_attr(c, "keepdim")->flag;
    int ndim = x->ndim;

    if (!attr->given || ndim == 0)
        x = bl_reshape(ir, x, 1, (const bl_node *const[]){bl_shape_count(ir, x->ndim, x->dim)});
    int axis = attr->given && ndim > 0 ? bl_call_axis(c, attr->whole, ndim) : 0;
    if (axis < 0 || x->op == BL_OP_POISON)
        return x;
    const bl_node *extent = x->dim[axis];
    if (extent->hi == 0)
        return bl_call_fail(c, "the reduction has no elements: shape %s", bl_call_shape(c, c->in[0]));
    if (x->dtype == BL_BOOL)
        x = bl_cast(ir, BL_U8, x);
    bl_dtype counter = extent->hi < INT32_MAX ? BL_I32 : BL_I64;
    const bl_node *best = bl_spread(ir, bl_reduce(ir, fold, x, 1u << axis), x);
    const bl_node *here = bl_alu2(ir, BL_OP_CMPEQ, x, best);
    if (bl_dtype_is_float((bl_dtype)x->dtype))
        here = bl_alu2(ir, BL_OP_OR, here, bl_is_nan(ir, x));
    const bl_node *end = bl_spread(ir, bl_cast(ir, counter, extent), x);
    const bl_node *at = bl_where(ir, here, bl_iota_like(ir, x, axis, counter), end);

    at = bl_cast(ir, BL_I64, bl_reduce(ir, BL_OP_MIN, at, 1u << axis));
    if (attr->given || !keep)
        return keep ? at : bl_drop_axes(ir, at, 1u << axis);
    const bl_node *one[BL_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        one[i] = bl_index(ir, 1);
    return bl_reshape(ir, at, ndim, one);
}

const bl_node *expand_argmax(bl_call *c)
{
    return position(c, BL_OP_MAX);
}

const bl_node *expand_argmin(bl_call *c)
{
    return position(c, BL_OP_MIN);
}

static const bl_node *fold_bool(bl_call *c, bl_op fold)
{
    scope s;
    return take_scope(c, &s) ? reduce_finish(c, &s, bl_reduce(c->ir, fold, c->in[0], s.axes)) : c->in[0];
}

const bl_node *expand_all(bl_call *c)
{
    return fold_bool(c, BL_OP_MUL); /* and, on bool */
}

const bl_node *expand_any(bl_call *c)
{
    return fold_bool(c, BL_OP_ADD); /* or, on bool */
}

/* ---- for formulas */

const bl_node *expand__most(bl_call *c)
{
    uint32_t axes;
    return bl_call_axes(c, bl_attr(c, "axis"), c->in[0]->ndim, &axes)
               ? bl_detach(c->ir, bl_reduce(c->ir, BL_OP_MAX, c->in[0], axes))
               : c->in[0];
}

const bl_node *expand__count(bl_call *c)
{
    uint32_t axes;
    return bl_call_axes(c, bl_attr(c, "axis"), c->in[0]->ndim, &axes)
               ? bl_count_axes(c->ir, c->in[0], axes, (bl_dtype)c->in[0]->dtype)
               : c->in[0];
}

const bl_node *expand__drop(bl_call *c)
{
    uint32_t axes;
    return bl_call_axes(c, bl_attr(c, "axis"), c->in[0]->ndim, &axes) ? bl_drop_axes(c->ir, c->in[0], axes) : c->in[0];
}
