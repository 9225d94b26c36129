/* SPDX-License-Identifier: MIT */
/* Indexing by integer tensors, and masks made of positions. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

const bl_node *bl_wrap_index(bl_ir *ir, const bl_node *index, const bl_node *extent)
{
    bl_dtype dtype = (bl_dtype)index->dtype;

    if (bl_dtype_get_kind(dtype) == BL_KIND_UINT)
        return index;
    if (extent->hi >= bl_scalar_highest(dtype).i)
        index = bl_cast(ir, dtype = BL_I64, index);
    const bl_node *size = bl_spread(ir, bl_cast(ir, dtype, extent), index);
    const bl_node *negative = bl_less(ir, index, bl_full_like(ir, index, 0));
    return bl_where(ir, negative, bl_add(ir, index, size), index);
}

const bl_node *expand_gather(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_node *index = c->in[1];

    if (x->ndim == 0 || x->ndim != index->ndim)
        return bl_call_fail(c, "x and index need the same number of dimensions, at least one: %s and %s", bl_call_shape(c, x),
                            bl_call_shape(c, index));
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
    if (axis < 0)
        return x;
    for (int i = 0; i < index->ndim; i++) {
        const bl_node *extent = c->in[0]->dim[i];
        if (i == axis || extent == index->dim[i])
            continue;
        if (bl_may_be_negative(c->ir, bl_sub(c->ir, extent, index->dim[i])))
            return bl_call_fail(c, "index %s is larger than x %s outside of axis %d", bl_call_shape(c, index),
                                bl_call_shape(c, c->in[0]), axis);
        x = bl_shrink_axis(c->ir, x, i, bl_index(c->ir, 0), index->dim[i]);
    }
    return bl_gather(c->ir, x, bl_call_index(c, index, x, axis), axis);
}

/* Gather with the flattened index, broadcast over the other axes; then unflatten the result's axis to the index's shape. */
const bl_node *bl_call_take(bl_call *c, const bl_node *x, const bl_node *index, int axis)
{
    bl_ir *ir = c->ir;
    const bl_node *flat[BL_MAX_DIMS], *wide[BL_MAX_DIMS], *shape[2 * BL_MAX_DIMS];
    const bl_node *count = bl_shape_count(ir, index->ndim, index->dim);
    int ndim = 0;

    for (int i = 0; i < x->ndim; i++) {
        flat[i] = i == axis ? count : bl_index(ir, 1);
        wide[i] = i == axis ? count : x->dim[i];
        for (int k = 0; i == axis && k < index->ndim; k++)
            shape[ndim++] = index->dim[k];
        if (i != axis)
            shape[ndim++] = x->dim[i];
    }
    index = bl_call_expand(c, bl_reshape(ir, index, x->ndim, flat), x->ndim, wide);
    return bl_call_reshape(c, bl_gather(ir, x, index, axis), ndim, shape);
}

const bl_node *expand_take(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
    return axis < 0 ? x : bl_call_take(c, x, bl_call_index(c, c->in[1], x, axis), axis);
}

const bl_node *expand_one_hot(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_node *dim[BL_MAX_DIMS + 1];

    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    dim[x->ndim] = bl_attr(c, "num_classes")->size;
    bl_call_check_index(c, x,
                        &(bl_index_bound){.extent = dim[x->ndim], .what = "class", .before = "num_classes is", .after = ""});
    const bl_node *wide = bl_call_expand(c, bl_add_axis(ir, x, x->ndim), x->ndim + 1, dim);
    bl_dtype counter = dim[x->ndim]->hi < INT32_MAX ? BL_I32 : BL_I64;
    if (bl_dtype_bytes((bl_dtype)x->dtype) > bl_dtype_bytes(counter) || x->dtype == BL_U32)
        counter = BL_I64;
    const bl_node *is = bl_alu2(ir, BL_OP_CMPEQ, bl_cast(ir, counter, wide), bl_iota_like(ir, wide, x->ndim, counter));
    return bl_cast(ir, bl_attr(c, "dtype")->dtype, is);
}

/* A comparison instead of a gather, so that it fuses with the computation of the logarithms. */
const bl_node *expand__is_class(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *target = c->in[1];
    int axis = x->ndim > 1 ? 1 : 0;

    for (int i = 0; i < x->ndim; i++) {
        if (x->ndim != target->ndim + 1 || (i != axis && x->dim[i] != target->dim[i < axis ? i : i - 1]))
            return bl_call_fail(c, "shapes do not fit: x %s, target %s", bl_call_shape(c, x), bl_call_shape(c, target));
    }
    const bl_value *ignored = bl_attr(c, "ignore_index");
    bl_call_check_index(c, target,
                        &(bl_index_bound){.extent = x->dim[axis],
                                          .what = "target",
                                          .before = "x has",
                                          .after = " classes",
                                          .ignores = ignored->given,
                                          .ignored = ignored->whole});
    const bl_node *wide = bl_add_axis(ir, bl_cast(ir, BL_I64, target), axis);
    if (x->dim[axis]->hi < INT32_MAX) { /* a class beyond int32 must match no position */
        wide = bl_alu2(ir, BL_OP_MAX, wide, bl_full_like(ir, wide, -1));
        wide = bl_cast(ir, BL_I32, bl_alu2(ir, BL_OP_MIN, wide, bl_full_like(ir, wide, INT32_MAX)));
    }
    return bl_alu2(ir, BL_OP_CMPEQ, bl_spread(ir, wide, x), bl_iota_like(ir, x, axis, (bl_dtype)wide->dtype));
}
