/* SPDX-License-Identifier: MIT */
/* Building blocks for the formulas of linear algebra. The algorithms go column by column: a scan, whose step is a few
 * kernels. */
#include "engine/front/build.h"

/* x, which must be matrices [.., rows, columns] of constant size. */
const bl_node *expand__matrix(bl_call *c)
{
    const bl_node *x = c->in[0];
    int row = x->ndim - 2, column = x->ndim - 1;

    if (x->ndim < 2 || x->ndim >= BL_MAX_DIMS || !bl_is_const(x->dim[row]) || !bl_is_const(x->dim[column]))
        return bl_call_fail(c, "needs matrices [..., n, n] of a fixed size, not %s", bl_call_shape(c, x));
    if (bl_attr(c, "square")->flag && x->dim[row] != x->dim[column])
        return bl_call_fail(c, "needs square matrices, not %s", bl_call_shape(c, x));
    return x;
}

/* The right side b of a x = b as [.., n, k], with the batch axes of both broadcast; a vector [n] gets an axis. */
const bl_node *expand__right(bl_call *c)
{
    const bl_node *a = c->in[0], *b = c->in[1], *dim[BL_MAX_DIMS];
    int row = a->ndim - 2, column = a->ndim - 1;

    if (b->ndim == 1)
        b = bl_add_axis(c->ir, b, 1);
    while (b->ndim >= 2 && b->ndim < a->ndim)
        b = bl_add_axis(c->ir, b, 0);
    if (b->ndim != a->ndim || b->dim[row] != a->dim[row])
        return bl_call_fail(c, "shapes do not fit: a %s, b %s", bl_call_shape(c, a), bl_call_shape(c, c->in[1]));
    const bl_node *zero = bl_index(c->ir, 0), *one = bl_index(c->ir, 1);
    const bl_node *frame[2] = {bl_shrink_axis(c->ir, b, column, zero, one), bl_shrink_axis(c->ir, a, column, zero, one)};
    if (!bl_call_broadcast(c, 2, frame))
        return b;
    for (int i = 0; i < a->ndim; i++)
        dim[i] = i == column ? b->dim[i] : frame[0]->dim[i];
    return bl_call_expand(c, b, a->ndim, dim);
}

/* The slice at position |at|, a scalar, along an axis, which stays with extent 1. */
const bl_node *expand__part(bl_call *c)
{
    const bl_node *x = c->in[0], *dim[BL_MAX_DIMS];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? bl_index(c->ir, 1) : x->dim[i];
    return axis < 0 ? x : bl_gather(c->ir, x, bl_call_expand(c, c->in[1], x->ndim, dim), axis);
}

/* 0, 1, ... along an axis, in the shape of x. */
const bl_node *expand__place(bl_call *c)
{
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, c->in[0]->ndim);
    return axis < 0 ? c->in[0] : bl_iota_like(c->ir, c->in[0], axis, BL_I32);
}
