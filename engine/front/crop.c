/* SPDX-License-Identifier: MIT */
/* shrink, slice and pad. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <string.h>

/* Read the pairs of attribute |name|, one per axis of x, each number at least |low|. */
static bool take_pairs(bl_call *c, const char *name, int ndim, int64_t low, const bl_node **first, const bl_node **second)
{
    const bl_value *pairs = bl_attr(c, name);

    if (pairs->count != 2 * ndim) {
        bl_call_fail(c, "%d pairs given for a tensor of shape %s", pairs->count / 2, bl_call_shape(c, c->in[0]));
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        first[i] = pairs->sizes[2 * i];
        second[i] = pairs->sizes[2 * i + 1];
        if (first[i]->lo < low || second[i]->lo < low) {
            bl_call_fail(c, "attribute \"%s\" may not be %s at axis %d", name, low < 0 ? "so negative" : "negative", i);
            return false;
        }
    }
    return true;
}

/* Is start <= stop <= extent for all sizes of the named dimensions? */
static bool is_inside(bl_ir *ir, const bl_node *start, const bl_node *stop, const bl_node *extent)
{
    return !bl_may_be_negative(ir, start) && !bl_may_be_negative(ir, bl_sub(ir, stop, start)) &&
           !bl_may_be_negative(ir, bl_sub(ir, extent, stop));
}

const bl_node *expand_shrink(bl_call *c)
{
    const bl_node *start[BL_MAX_DIMS];
    const bl_node *stop[BL_MAX_DIMS];
    const bl_node *size[BL_MAX_DIMS];
    const bl_node *x = c->in[0];

    if (!take_pairs(c, "ranges", x->ndim, 0, start, stop))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        size[i] = bl_sub(c->ir, stop[i], start[i]);
        if (!is_inside(c->ir, start[i], stop[i], x->dim[i]))
            return bl_call_fail(c, "the range of axis %d is not inside shape %s", i, bl_call_shape(c, x));
    }
    return bl_shrink(c->ir, x, start, size);
}

/* NumPy's clipping of a slice bound: negative counts from the end, and the result is clipped to low .. extent + low. Applies to
 * constants only. */
static const bl_node *crop_clip(bl_ir *ir, const bl_node *at, const bl_node *extent, int64_t low)
{
    if (!bl_is_const(at) || !bl_is_const(extent))
        return at;
    int64_t n = bl_const_value(extent).i;
    int64_t i = bl_const_value(at).i;
    if (i < 0)
        i = i < -n ? low : i + n;
    return bl_index(ir, i > n + low ? n + low : i);
}

/* Every |step|-th element along |axis|: sliding windows of one element. */
static const bl_node *take_every(bl_ir *ir, const bl_node *x, int axis, int64_t step)
{
    if (step == 1 || x->op == BL_OP_POISON || x->dim[axis]->hi == 0)
        return x;
    if (step > x->dim[axis]->hi)
        step = x->dim[axis]->hi;
    uint32_t fresh = 1u << x->ndim;
    return bl_drop_axes(ir, bl_window(ir, x, axis, 1, step, 1), fresh);
}

/* x[start:stop:step] along one axis. A negative step is a positive step over the flipped elements. */
static const bl_node *slice_axis(bl_call *c, const bl_node *x, int axis, int i)
{
    bl_ir *ir = c->ir;
    const bl_value *starts = bl_attr(c, "start"), *stops = bl_attr(c, "stop"), *steps = bl_attr(c, "step");
    const bl_node *extent = x->dim[axis];
    int64_t step = steps->given ? steps->wholes[i] : 1;
    int64_t low = step < 0 ? -1 : 0; /* for a negative step, start and stop lie one before the bounds of the part */
    const bl_node *start = starts->given ? crop_clip(ir, starts->sizes[i], extent, low) : NULL;
    const bl_node *stop = stops->given ? crop_clip(ir, stops->sizes[i], extent, low) : NULL;

    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
        return bl_call_fail(c, "a step must have a magnitude between 1 and %d, not %lld", INT32_MAX, (long long)step);
    if (step < 0) {
        const bl_node *last = start == NULL ? NULL : bl_add(ir, start, bl_index(ir, 1));
        start = stop == NULL ? NULL : bl_add(ir, stop, bl_index(ir, 1));
        stop = last;
    }
    start = start == NULL ? bl_index(ir, 0) : start;
    stop = stop == NULL ? extent : stop;
    if (bl_is_const(start) && bl_is_const(stop) && bl_const_value(stop).i < bl_const_value(start).i)
        stop = start;
    if (!is_inside(ir, start, stop, extent))
        return bl_call_fail(c, "start and stop of axis %d are not inside shape %s", axis, bl_call_shape(c, x));
    x = bl_shrink_axis(ir, x, axis, start, bl_sub(ir, stop, start));
    if (step < 0 && x->op != BL_OP_POISON)
        x = bl_flip(ir, x, 1u << axis);
    return take_every(ir, x, axis, step < 0 ? -step : step);
}

const bl_node *expand_slice(bl_call *c)
{
    const bl_value *attr[4] = {bl_attr(c, "start"), bl_attr(c, "stop"), bl_attr(c, "step"), bl_attr(c, "axis")};
    const bl_node *x = c->in[0];
    int ndim = x->ndim;
    int count = 0;

    for (int k = 0; k < 4; k++)
        count = attr[k]->count > count ? attr[k]->count : count;
    for (int k = 0; k < 4; k++) {
        if (attr[k]->given && attr[k]->count != count)
            return bl_call_fail(c, "start, stop, step and axis must have the same number of items");
    }
    if (count > ndim)
        return bl_call_fail(c, "%d axes given for a tensor of shape %s", count, bl_call_shape(c, x));
    uint32_t seen;
    if (!bl_call_axes(c, attr[3], ndim, &seen))
        return x;
    for (int i = 0; i < count; i++) {
        int axis = attr[3]->given ? bl_call_axis(c, attr[3]->wholes[i], ndim) : i;
        x = slice_axis(c, x, axis, i);
        if (x->op == BL_OP_POISON)
            return x;
    }
    return x;
}

/* How much larger attribute "shape" is than each axis, or smaller if |over|; -1 keeps an axis. False after a failure. */
static bool take_rest(bl_call *c, bool over, const bl_node **size, const bl_node **rest)
{
    const bl_node *x = c->in[0];
    const bl_value *shape = bl_attr(c, "shape");

    if (shape->count != x->ndim) {
        bl_call_fail(c, "%d sizes given for a tensor of shape %s", shape->count, bl_call_shape(c, x));
        return false;
    }
    for (int i = 0; i < x->ndim; i++) {
        size[i] = bl_is_int(shape->sizes[i], -1) ? x->dim[i] : shape->sizes[i];
        rest[i] = over ? bl_sub(c->ir, x->dim[i], size[i]) : bl_sub(c->ir, size[i], x->dim[i]);
        if (bl_may_be_negative(c->ir, size[i]) || bl_may_be_negative(c->ir, rest[i])) {
            bl_call_fail(c, "%s cannot become %s", bl_call_shape(c, x), bl_shape_text(c->ir, x->ndim, shape->sizes, NULL));
            return false;
        }
    }
    return true;
}

const bl_node *expand_shrink_to(bl_call *c)
{
    const bl_node *start[BL_MAX_DIMS], *size[BL_MAX_DIMS], *rest[BL_MAX_DIMS];

    for (int i = 0; i < BL_MAX_DIMS; i++)
        start[i] = bl_index(c->ir, 0);
    return take_rest(c, true, size, rest) ? bl_shrink(c->ir, c->in[0], start, size) : c->in[0];
}

/* ---- pad */

/* Append zeros after the last axis. */
const bl_node *expand__append(bl_call *c)
{
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS], *x = c->in[0];

    for (int i = 0; i < x->ndim; i++) {
        before[i] = bl_index(c->ir, 0);
        after[i] = i == x->ndim - 1 ? bl_index(c->ir, bl_attr(c, "count")->whole) : before[i];
    }
    return bl_call_pad(c, x, before, after, NULL);
}

/* x without |before| and |after| elements of one axis. */
static const bl_node *crop(bl_call *c, const bl_node *x, int axis, const bl_node *before, const bl_node *after)
{
    if (x->op == BL_OP_POISON)
        return x;
    const bl_node *size = bl_sub(c->ir, x->dim[axis], bl_add(c->ir, before, after));
    if (bl_may_be_negative(c->ir, size))
        return bl_call_fail(c, "no elements of axis %d of %s are left", axis, bl_call_shape(c, x));
    return bl_shrink_axis(c->ir, x, axis, before, size);
}

static const bl_node *add_zeros(bl_call *c, const bl_node *x, const bl_node *const *before, const bl_node *const *after)
{
    const bl_wire_number *number = &bl_attr(c, "value")->number;
    bool zero = number->whole && number->magnitude == 0 && !(number->negative && bl_dtype_is_float((bl_dtype)x->dtype));
    return bl_call_pad(c, x, before, after, zero ? NULL : bl_call_literal(c, (bl_dtype)x->dtype, number));
}

const bl_node *expand_pad_to(bl_call *c)
{
    const bl_node *before[BL_MAX_DIMS], *size[BL_MAX_DIMS], *rest[BL_MAX_DIMS];

    for (int i = 0; i < BL_MAX_DIMS; i++)
        before[i] = bl_index(c->ir, 0);
    return take_rest(c, false, size, rest) ? add_zeros(c, c->in[0], before, rest) : c->in[0];
}

/* The |amount| padding elements before or after an axis. */
static const bl_node *edge(bl_call *c, const bl_node *x, int axis, const bl_node *amount, bool before)
{
    bl_ir *ir = c->ir;
    const char *mode = bl_attr(c, "mode")->text;
    const bl_node *extent = x->dim[axis], *one = bl_index(ir, 1);
    const bl_node *dim[BL_MAX_DIMS];
    bool reflect = strcmp(mode, "reflect") == 0, circular = strcmp(mode, "circular") == 0;
    const bl_node *taken = reflect || circular ? amount : one;
    const bl_node *skipped = reflect ? one : bl_index(ir, 0);
    const bl_node *behind = bl_sub(ir, extent, bl_add(ir, taken, skipped));

    if (bl_may_be_negative(ir, behind))
        return bl_call_fail(c, "axis %d of %s is too short for mode %s", axis, bl_call_shape(c, x), mode);
    x = bl_shrink_axis(ir, x, axis, before == circular ? behind : skipped, taken);
    if (x->op == BL_OP_POISON || circular)
        return x;
    if (reflect)
        return bl_flip(ir, x, 1u << axis);
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? amount : x->dim[i];
    return bl_call_expand(c, x, x->ndim, dim);
}

static const bl_node *crop_add_edges(bl_call *c, const bl_node *x, int axis, const bl_node *before, const bl_node *after)
{
    const bl_node *part[3];
    int n = 0;

    if (x->op == BL_OP_POISON)
        return x;
    if (!bl_is_int(before, 0))
        part[n++] = edge(c, x, axis, before, true);
    part[n++] = x;
    if (!bl_is_int(after, 0))
        part[n++] = edge(c, x, axis, after, false);
    for (int i = 0; i < n; i++) {
        if (part[i]->op == BL_OP_POISON)
            return part[i];
    }
    return n == 1 ? x : bl_call_join(c, n, part, axis);
}

/* Negative amounts crop. Cropping comes before padding, but reflect and replicate read the cropped elements too, as in
 * PyTorch. */
const bl_node *expand_pad(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS], *less[BL_MAX_DIMS], *more[BL_MAX_DIMS];
    const bl_node *x = c->in[0];
    const char *mode = bl_attr(c, "mode")->text;
    bool constant = strcmp(mode, "constant") == 0, late = strcmp(mode, "reflect") == 0 || strcmp(mode, "replicate") == 0;
    int ndim = x->ndim;

    if (!take_pairs(c, "padding", ndim, -INT64_MAX, before, after))
        return x;
    if (!constant && bl_attr(c, "value")->number.value != 0)
        return bl_call_fail(c, "mode %s takes no value", mode);
    for (int i = 0; i < ndim; i++) {
        const bl_node *none = bl_index(ir, 0);
        bool crops = bl_may_be_negative(ir, before[i]), cuts = bl_may_be_negative(ir, after[i]);
        less[i] = crops ? bl_sub(ir, none, before[i]) : none;
        more[i] = cuts ? bl_sub(ir, none, after[i]) : none;
        before[i] = crops ? none : before[i];
        after[i] = cuts ? none : after[i];
        if (!late)
            x = crop(c, x, i, less[i], more[i]);
    }
    if (constant)
        return x->op == BL_OP_POISON ? x : add_zeros(c, x, before, after);
    for (int i = 0; i < ndim; i++) {
        x = crop_add_edges(c, x, i, before[i], after[i]);
        x = late ? crop(c, x, i, less[i], more[i]) : x;
    }
    return x;
}
