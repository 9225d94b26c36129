/* SPDX-License-Identifier: MIT */
/* Ops that rearrange elements without computing; only cat computes. */
#include "engine/front/build.h"

/* The size that is given as -1. Sizes that occur in both shapes are cancelled first, since a quotient of expressions of named
 * dimensions may not simplify. */
static const bl_node *size_left(bl_call *c, const bl_node *x, const bl_value *shape)
{
    const bl_node *above = bl_index(c->ir, 1), *below = bl_index(c->ir, 1);
    bool cancelled[BL_MAX_DIMS] = {0};

    for (int i = 0; i < shape->count; i++) {
        const bl_node *size = shape->sizes[i];
        uint32_t k = 0;
        while (k < x->ndim && (cancelled[k] || x->dim[k] != size || size->lo <= 0))
            k++;
        if (k < x->ndim)
            cancelled[k] = true;
        else if (!bl_is_int(size, -1))
            below = bl_mul(c->ir, below, size);
    }
    for (uint32_t k = 0; k < x->ndim; k++)
        above = cancelled[k] ? above : bl_mul(c->ir, above, x->dim[k]);
    return bl_is_int(below, 0) ? below : bl_idiv(c->ir, above, below);
}

const bl_node *expand_reshape(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_value *shape = bl_attr(c, "shape");
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *others = bl_index(ir, 1);
    int hole = -1;

    if (shape->count > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "a tensor has at most %d dimensions", BL_MAX_DIMS);
    for (int i = 0; i < shape->count; i++) {
        dim[i] = shape->sizes[i];
        if (!bl_is_int(dim[i], -1)) {
            if (bl_may_be_negative(ir, dim[i]))
                return bl_call_fail(c, "a size may not be negative: %s", bl_shape_text(ir, shape->count, shape->sizes, NULL));
            others = bl_mul(ir, others, dim[i]);
        } else if (hole >= 0) {
            return bl_call_fail(c, "only one size may be -1");
        } else {
            hole = i;
        }
    }
    const bl_node *count = bl_shape_count(ir, x->ndim, x->dim);
    if (hole >= 0) {
        dim[hole] = size_left(c, x, shape);
        others = bl_mul(ir, others, dim[hole]);
    }
    if (others != count)
        return bl_call_fail(c, "%s and %s have different numbers of elements", bl_call_shape(c, x),
                            bl_shape_text(ir, shape->count, shape->sizes, NULL));
    return bl_call_reshape(c, x, shape->count, dim);
}

const bl_node *expand_unflatten(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_value *sizes = bl_attr(c, "sizes");
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim), ndim = x->ndim - 1 + sizes->count;
    const bl_node *dim[3 * BL_MAX_DIMS];
    const bl_node *others = bl_index(ir, 1);

    if (axis < 0)
        return x;
    for (int i = 0; i < ndim; i++)
        dim[i] = i < axis ? x->dim[i] : i < axis + sizes->count ? sizes->sizes[i - axis] : x->dim[i - sizes->count + 1];
    for (int i = 0; i < sizes->count; i++)
        others = bl_is_int(sizes->sizes[i], -1) ? others : bl_mul(ir, others, sizes->sizes[i]);
    for (int i = axis; i < axis + sizes->count; i++)
        dim[i] = bl_is_int(dim[i], -1) && others->lo > 0 ? bl_idiv(ir, x->dim[axis], others) : dim[i];
    if (ndim > BL_MAX_DIMS || bl_shape_count(ir, ndim, dim) != bl_shape_count(ir, x->ndim, x->dim))
        return bl_call_fail(c, "axis %d of %s cannot become %s", axis, bl_call_shape(c, x),
                            bl_shape_text(ir, sizes->count, sizes->sizes, NULL));
    return bl_call_reshape(c, x, ndim, dim);
}

const bl_node *expand__view_as(bl_call *c)
{
    return bl_call_reshape(c, c->in[0], c->in[1]->ndim, c->in[1]->dim);
}

const bl_node *expand__along(bl_call *c)
{
    const bl_node *v = c->in[0], *x = c->in[1];
    const bl_node *dim[BL_MAX_DIMS];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    if (axis < 0)
        return x;
    if (v->ndim != 1 || v->dim[0] != x->dim[axis])
        return bl_call_fail(c, "%s does not fit axis %d of %s", bl_call_shape(c, v), axis, bl_call_shape(c, x));
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? v->dim[0] : bl_index(c->ir, 1);
    return bl_reshape(c->ir, v, x->ndim, dim);
}

const bl_node *expand__repeat_heads(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *like = c->in[1];
    const bl_node *dim[BL_MAX_DIMS + 1];
    int axis = x->ndim - 3;

    if (axis < 0 || like->ndim != x->ndim || x->ndim == BL_MAX_DIMS || x->dim[axis]->lo < 1 ||
        bl_mod(ir, like->dim[axis], x->dim[axis]) != bl_index(ir, 0))
        return bl_call_fail(c, "the heads of %s do not fit those of %s", bl_call_shape(c, x), bl_call_shape(c, like));
    for (int i = 0; i <= x->ndim; i++)
        dim[i] = x->dim[i <= axis ? i : i - 1];
    dim[axis + 1] = bl_idiv(ir, like->dim[axis], x->dim[axis]);
    const bl_node *wide = bl_call_expand(c, bl_add_axis(ir, x, axis + 1), x->ndim + 1, dim);
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? like->dim[axis] : x->dim[i];
    return bl_call_reshape(c, wide, x->ndim, dim);
}

const bl_node *expand_permute(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *axes = bl_attr(c, "axes");
    int perm[BL_MAX_DIMS];
    uint32_t seen;

    if (axes->count != x->ndim)
        return bl_call_fail(c, "%d axes given for a tensor of shape %s", axes->count, bl_call_shape(c, x));
    if (!bl_call_axes(c, axes, x->ndim, &seen))
        return x;
    for (int i = 0; i < x->ndim; i++)
        perm[i] = bl_call_axis(c, axes->wholes[i], x->ndim);
    return bl_permute(c->ir, x, perm);
}

const bl_node *expand_transpose(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis0 = bl_call_axis(c, bl_attr(c, "axis0")->whole, x->ndim);
    int axis1 = bl_call_axis(c, bl_attr(c, "axis1")->whole, x->ndim);
    int perm[BL_MAX_DIMS];

    if (axis0 < 0 || axis1 < 0)
        return x;
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i == axis0 ? axis1 : i == axis1 ? axis0 : i;
    return bl_permute(c->ir, x, perm);
}

const bl_node *expand_expand(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *shape = bl_attr(c, "shape");
    const bl_node *dim[BL_MAX_DIMS];
    int fresh = shape->count - x->ndim;

    if (shape->count > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "a tensor has at most %d dimensions", BL_MAX_DIMS);
    for (int i = 0; i < shape->count; i++) {
        bool keep = i >= fresh && bl_is_int(shape->sizes[i], -1);
        dim[i] = keep ? x->dim[i - fresh] : shape->sizes[i];
        if (i >= fresh && fresh >= 0 && dim[i] != x->dim[i - fresh] && !bl_is_int(x->dim[i - fresh], 1))
            fresh = -1; /* reported below */
    }
    if (fresh < 0)
        return bl_call_fail(c, "%s cannot become %s", bl_call_shape(c, x),
                            bl_shape_text(c->ir, shape->count, shape->sizes, NULL));
    return bl_call_expand(c, x, shape->count, dim);
}

const bl_node *expand_flip(bl_call *c)
{
    uint32_t axes;
    return bl_call_axes(c, bl_attr(c, "axis"), c->in[0]->ndim, &axes) ? bl_flip(c->ir, c->in[0], axes) : c->in[0];
}

const bl_node *expand_squeeze(bl_call *c)
{
    const bl_node *x = c->in[0];
    uint32_t axes;

    if (!bl_call_axes(c, bl_attr(c, "axis"), x->ndim, &axes))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        if (!bl_is_int(x->dim[i], 1))
            axes &= ~(1u << i);
    }
    return bl_drop_axes(c->ir, x, axes);
}

const bl_node *expand_unsqueeze(bl_call *c)
{
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, c->in[0]->ndim + 1);
    return axis < 0 ? c->in[0] : bl_add_axis(c->ir, c->in[0], axis);
}

const bl_node *expand_flatten(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_node *dim[BL_MAX_DIMS];
    int ndim = 0;

    if (x->ndim == 0)
        return bl_reshape(c->ir, x, 1, (const bl_node *const[]){bl_index(c->ir, 1)});
    int start = bl_call_axis(c, bl_attr(c, "start_axis")->whole, x->ndim);
    int end = bl_call_axis(c, bl_attr(c, "end_axis")->whole, x->ndim);
    if (start < 0 || end < 0)
        return x;
    if (start > end)
        return bl_call_fail(c, "start_axis %d comes after end_axis %d", start, end);
    for (int i = 0; i < x->ndim; i++) {
        if (i <= start || i > end)
            dim[ndim++] = x->dim[i];
        else
            dim[ndim - 1] = bl_mul(c->ir, dim[ndim - 1], x->dim[i]);
    }
    return bl_reshape(c->ir, x, ndim, dim);
}

static bool same_outside(const bl_node *x, const bl_node *y, int axis)
{
    for (int i = 0; i < x->ndim && x->ndim == y->ndim; i++) {
        if (i != axis && x->dim[i] != y->dim[i])
            return false;
    }
    return x->ndim == y->ndim;
}

/* Pad each part to the total size, and select by position: exact for every value, including -0.0 and NaN. */
const bl_node *bl_call_join(bl_call *c, int n, const bl_node *const *part, int axis)
{
    bl_ir *ir = c->ir;
    const bl_node *total = bl_index(ir, 0);
    const bl_node *done = bl_index(ir, 0);
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *joined = NULL;
    const bl_node *iota = NULL;

    for (int i = 0; i < n; i++) {
        if (!same_outside(part[0], part[i], axis))
            return bl_call_fail(c, "shapes differ outside of axis %d: %s and %s", axis, bl_call_shape(c, part[0]),
                                bl_call_shape(c, part[i]));
        total = bl_add(ir, total, part[i]->dim[axis]);
    }
    for (int d = 0; d < part[0]->ndim; d++)
        dim[d] = d == axis ? total : part[0]->dim[d];
    int64_t count;
    if (!bl_shape_max_count(part[0]->ndim, dim, &count))
        return bl_call_fail_as(c, BL_ELIMIT, "a tensor of shape %s is too large", bl_shape_text(ir, part[0]->ndim, dim, NULL));
    bl_dtype counter = total->hi < INT32_MAX ? BL_I32 : BL_I64;
    for (int i = 0; i < n; i++) {
        const bl_node *before[BL_MAX_DIMS];
        const bl_node *after[BL_MAX_DIMS];
        const bl_node *end = bl_add(ir, done, part[i]->dim[axis]);
        for (int d = 0; d < part[i]->ndim; d++) {
            before[d] = d == axis ? done : bl_index(ir, 0);
            after[d] = d == axis ? bl_sub(ir, total, end) : bl_index(ir, 0);
        }
        const bl_node *padded = bl_pad(ir, part[i], before, after);
        if (joined == NULL) {
            joined = padded;
            iota = n > 1 ? bl_iota_like(ir, padded, axis, counter) : NULL;
        } else {
            const bl_node *earlier = bl_less(ir, iota, bl_spread(ir, bl_cast(ir, counter, done), iota));
            joined = bl_where(ir, earlier, joined, padded);
        }
        done = end;
    }
    return joined == NULL ? bl_call_failed(c) : joined;
}

const bl_node *expand_cat(bl_call *c)
{
    if (c->nrest == 0 || c->rest[0]->ndim == 0)
        return bl_call_fail(c, "needs tensors of at least one dimension");
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, c->rest[0]->ndim);
    return axis < 0 ? c->rest[0] : bl_call_join(c, c->nrest, c->rest, axis);
}

const bl_node *expand_stack(bl_call *c)
{
    const bl_node **part = bl_arena_array(bl_ir_arena(c->ir), (size_t)c->nrest + 1, sizeof *part);
    if (c->nrest == 0 || part == NULL)
        return bl_call_fail(c, "needs at least one tensor");
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, c->rest[0]->ndim + 1);
    if (axis < 0)
        return c->rest[0];
    for (int i = 0; i < c->nrest; i++) {
        if (!bl_shape_equal(c->rest[0], c->rest[i]))
            return bl_call_fail(c, "shapes differ: %s and %s", bl_call_shape(c, c->rest[0]), bl_call_shape(c, c->rest[i]));
        part[i] = bl_add_axis(c->ir, c->rest[i], axis);
        if (part[i]->op == BL_OP_POISON)
            return part[i];
    }
    return bl_call_join(c, c->nrest, part, axis);
}
