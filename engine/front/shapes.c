/* SPDX-License-Identifier: MIT */
/* Functions on shapes, and error messages, for the expand functions. */
#include "engine/front/call.h"

#include <stdarg.h>
#include <stdio.h>

static const bl_node *shapes_fail(bl_call *c, bl_status status, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

static const bl_node *shapes_fail(bl_call *c, bl_status status, const char *fmt, va_list args)
{
    char text[512];
    bl_err memory = {0};
    bl_status st = bl_arena_status(bl_ir_arena(c->ir), &memory);

    if (st != BL_OK) /* out of memory looks like another failure: report the real cause */
        return bl_ir_fail(c->ir, st, "%s", memory.text);
    vsnprintf(text, sizeof text, fmt, args);
    const bl_call *asked = c; /* the op that the client named */
    while (asked->caller != NULL)
        asked = asked->caller;
    if (asked != c && c->op[0] != '_')
        return bl_ir_fail(c->ir, status, "%s: %s: %s", asked->op, c->op, text);
    return bl_ir_fail(c->ir, status, "%s: %s", asked->op, text);
}

const bl_node *bl_call_fail(bl_call *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const bl_node *poison = shapes_fail(c, BL_EGRAPH, fmt, args);
    va_end(args);
    return poison;
}

const bl_node *bl_call_fail_as(bl_call *c, bl_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const bl_node *poison = shapes_fail(c, status, fmt, args);
    va_end(args);
    return poison;
}

bool bl_call_results(bl_call *c, int wanted)
{
    if (c->nresults == wanted)
        return true;
    bl_call_fail(c, "gives %d result%s, but has %d id%s", wanted, wanted == 1 ? "" : "s", c->nresults,
                 c->nresults == 1 ? "" : "s");
    return false;
}

const char *bl_call_shape(bl_call *c, const bl_node *x)
{
    return bl_shape_text(c->ir, x->ndim, x->dim, NULL);
}

/* Check the extents of a tensor: none may be negative, and the number of elements must be within the limit. */
static bool shapes_check_shape(bl_call *c, int ndim, const bl_node *const *dim)
{
    int64_t count;

    if (ndim > BL_MAX_DIMS) {
        bl_call_fail_as(c, BL_ELIMIT, "needs a tensor of %d dimensions; the limit is %d", ndim, BL_MAX_DIMS);
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        if (dim[i]->op == BL_OP_POISON)
            return false;
        if (bl_may_be_negative(c->ir, dim[i])) {
            bl_call_fail(c, "a size may not be negative: %s", bl_shape_text(c->ir, ndim, dim, NULL));
            return false;
        }
    }
    if (!bl_shape_max_count(ndim, dim, &count)) {
        bl_call_fail_as(c, BL_ELIMIT, "a tensor of shape %s is too large", bl_shape_text(c->ir, ndim, dim, NULL));
        return false;
    }
    return true;
}

const bl_node *bl_call_failed(bl_call *c)
{
    return bl_call_fail_as(c, BL_EBUG, "failed without a reason"); /* the first failure is kept */
}

const bl_node *bl_call_expand(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim)
{
    return shapes_check_shape(c, ndim, dim) ? bl_expand(c->ir, x, ndim, dim) : bl_call_failed(c);
}

const bl_node *bl_call_reshape(bl_call *c, const bl_node *x, int ndim, const bl_node *const *dim)
{
    return shapes_check_shape(c, ndim, dim) ? bl_reshape(c->ir, x, ndim, dim) : bl_call_failed(c);
}

const bl_node *bl_call_pad(bl_call *c, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value)
{
    const bl_node *dim[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++)
        dim[i] = bl_add(c->ir, bl_add(c->ir, before[i], x->dim[i]), after[i]);
    return x->op == BL_OP_POISON || !shapes_check_shape(c, x->ndim, dim) ? bl_call_failed(c)
                                                                         : bl_pad_with(c->ir, x, before, after, value);
}

const bl_node *bl_call_full(bl_call *c, const bl_node *scalar, int ndim, const bl_node *const *dim)
{
    return bl_call_expand(c, scalar, ndim, dim);
}

const bl_node *bl_spread(bl_ir *ir, const bl_node *s, const bl_node *like)
{
    return bl_expand(ir, s, like->ndim, like->dim);
}

bool bl_call_broadcast(bl_call *c, int n, const bl_node **x)
{
    const bl_node *dim[BL_MAX_DIMS];
    int ndim = 0;

    for (int i = 0; i < n; i++)
        ndim = x[i]->ndim > ndim ? x[i]->ndim : ndim;
    for (int d = 0; d < ndim; d++) {
        dim[d] = NULL;
        for (int i = 0; i < n; i++) {
            int at = d - (ndim - x[i]->ndim);
            const bl_node *extent = at < 0 ? NULL : x[i]->dim[at];
            if (extent == NULL || extent == dim[d])
                continue;
            if (dim[d] == NULL || bl_is_int(dim[d], 1)) {
                dim[d] = extent;
            } else if (!bl_is_int(extent, 1)) {
                bl_call_fail(c, "shapes do not broadcast: %s and %s", bl_call_shape(c, x[0]),
                             bl_call_shape(c, x[i == 0 ? 1 : i]));
                return false;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        x[i] = bl_call_expand(c, x[i], ndim, dim);
        if (x[i]->op == BL_OP_POISON)
            return false;
    }
    return true;
}

const bl_node *bl_drop_axes(bl_ir *ir, const bl_node *x, uint32_t mask)
{
    const bl_node *dim[BL_MAX_DIMS];
    int ndim = 0;

    for (int i = 0; i < x->ndim; i++) {
        if (!(mask >> i & 1u))
            dim[ndim++] = x->dim[i];
    }
    return bl_reshape(ir, x, ndim, dim);
}

const bl_node *bl_add_axis(bl_ir *ir, const bl_node *x, int axis)
{
    const bl_node *dim[BL_MAX_DIMS];
    int ndim = x->ndim + 1;

    if (x->op == BL_OP_POISON)
        return x;
    if (ndim > BL_MAX_DIMS)
        return bl_ir_fail(ir, BL_ELIMIT, "needs a tensor of %d dimensions; the limit is %d", ndim, BL_MAX_DIMS);
    for (int i = 0; i < ndim; i++)
        dim[i] = i == axis ? bl_index(ir, 1) : x->dim[i < axis ? i : i - 1];
    return bl_reshape(ir, x, ndim, dim);
}

const bl_node *bl_pad_with(bl_ir *ir, const bl_node *x, const bl_node *const *before, const bl_node *const *after,
                           const bl_node *value)
{
    const bl_node *padded = bl_pad(ir, x, before, after);
    if (value == NULL || padded == x)
        return padded;
    const bl_node *inside = bl_pad(ir, bl_spread(ir, bl_const_int(ir, BL_BOOL, 1), x), before, after);
    return bl_where(ir, inside, padded, bl_spread(ir, value, padded));
}

const bl_node *bl_shrink_axis(bl_ir *ir, const bl_node *x, int axis, const bl_node *start, const bl_node *size)
{
    const bl_node *starts[BL_MAX_DIMS];
    const bl_node *sizes[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++) {
        starts[i] = i == axis ? start : bl_index(ir, 0);
        sizes[i] = i == axis ? size : x->dim[i];
    }
    return bl_shrink(ir, x, starts, sizes);
}

const bl_node *bl_iota_like(bl_ir *ir, const bl_node *like, int axis, bl_dtype dtype)
{
    const bl_node *dim[BL_MAX_DIMS];

    for (int i = 0; i < like->ndim; i++)
        dim[i] = i == axis ? like->dim[i] : bl_index(ir, 1);
    const bl_node *iota = bl_iota(ir, dtype, like->dim[axis]);
    return bl_expand(ir, bl_reshape(ir, iota, like->ndim, dim), like->ndim, like->dim);
}

const bl_node *bl_count_axes(bl_ir *ir, const bl_node *x, uint32_t mask, bl_dtype dtype)
{
    const bl_node *count = bl_index(ir, 1);

    for (int i = 0; i < x->ndim; i++) {
        if (mask >> i & 1u)
            count = bl_mul(ir, count, x->dim[i]);
    }
    return bl_cast(ir, dtype, count);
}
