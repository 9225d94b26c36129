/* SPDX-License-Identifier: MIT */
/* Interpolation, one axis after the other. Positions are exact fractions of integers. The result differs from PyTorch's where
 * PyTorch's rounded scale moves a position over an edge. */
#include "engine/front/build.h"

#include <string.h>

enum { LONGEST = 1 << 30 }; /* so that the product of two lengths fits in an int64 */

/* A resampling from |from| to |to| elements. |at| counts 0, 1, ... |to| - 1 in a dtype that holds all intermediate results. */
typedef struct scale {
    const bl_node *from, *to, *at;
    bl_dtype dtype;
} scale;

static scale make_scale(bl_ir *ir, const bl_node *from, const bl_node *to)
{
    bool narrow = from->hi <= LONGEST && to->hi <= LONGEST && (2 * to->hi + 1) * from->hi + 2 * to->hi < INT32_MAX;
    scale s = {.from = from, .to = to, .dtype = narrow ? BL_I32 : BL_I64};
    s.at = bl_iota(ir, s.dtype, to);
    return s;
}

/* extent * factor + more, as a vector in the shape of s->at. */
static const bl_node *wide(bl_ir *ir, const scale *s, const bl_node *extent, int64_t factor, int64_t more)
{
    const bl_node *x = bl_mul(ir, bl_cast(ir, s->dtype, extent), bl_const_int(ir, s->dtype, factor));
    return bl_spread(ir, bl_add(ir, x, bl_const_int(ir, s->dtype, more)), s->at);
}

/* 2 * at + 1: the centre of each element, in halves. */
static const bl_node *middles(bl_ir *ir, const scale *s)
{
    const bl_node *one = bl_full_like(ir, s->at, 1);
    return bl_add(ir, bl_add(ir, s->at, s->at), one);
}

/* x[index] along the axis, for a vector |index|. */
static const bl_node *resample_pick(bl_call *c, const bl_node *x, int axis, const bl_node *index)
{
    const bl_node *one[BL_MAX_DIMS], *dim[BL_MAX_DIMS];

    if (x->op == BL_OP_POISON || index->op == BL_OP_POISON)
        return x->op == BL_OP_POISON ? x : index;
    for (int i = 0; i < x->ndim; i++) {
        one[i] = i == axis ? index->dim[0] : bl_index(c->ir, 1);
        dim[i] = i == axis ? index->dim[0] : x->dim[i];
    }
    index = bl_call_expand(c, bl_call_reshape(c, index, x->ndim, one), x->ndim, dim);
    return bl_gather(c->ir, x, index, axis);
}

static int64_t divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : divisor(b, a % b);
}

/* Resample an axis that consists of |count| groups, each from s->from to s->to elements. */
static const bl_node *nearest_of_groups(bl_call *c, const bl_node *x, int axis, const scale *s, bool exact)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS];

    if (bl_is_int(s->from, 1)) {
        for (int i = 0; i < x->ndim; i++)
            dim[i] = i == axis ? s->to : x->dim[i];
        return bl_call_expand(c, x, x->ndim, dim);
    }
    if (bl_is_int(s->to, 1)) {
        const bl_node *two = bl_index(ir, 2);
        return bl_shrink_axis(ir, x, axis, exact ? bl_idiv(ir, s->from, two) : bl_index(ir, 0), bl_index(ir, 1));
    }
    const bl_node *index = exact ? middles(ir, s) : s->at;
    index = bl_idiv(ir, bl_mul(ir, index, wide(ir, s, s->from, 1, 0)), wide(ir, s, s->to, exact ? 2 : 1, 0));
    return resample_pick(c, x, axis, index);
}

/* Element i is x[floor(i * from / to)], or the element at the centre of i if |exact|. A common factor of both lengths gives
 * groups. */
static const bl_node *resample_nearest(bl_call *c, const bl_node *x, int axis, const bl_node *to, bool exact)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + 1];
    const bl_node *from = x->dim[axis];
    int64_t groups = bl_is_const(from) && bl_is_const(to) && x->ndim < BL_MAX_DIMS ? divisor(from->hi, to->hi) : 1;

    if (groups == 1) {
        scale s = make_scale(ir, from, to);
        return nearest_of_groups(c, x, axis, &s, exact);
    }
    scale s = make_scale(ir, bl_index(ir, from->hi / groups), bl_index(ir, to->hi / groups));
    for (int i = 0; i < x->ndim; i++)
        dim[i < axis ? i : i + 1] = x->dim[i];
    dim[axis] = bl_index(ir, groups);
    dim[axis + 1] = s.from;
    const bl_node *parts = bl_call_reshape(c, x, x->ndim + 1, dim);
    parts = parts->op == BL_OP_POISON ? parts : nearest_of_groups(c, parts, axis + 1, &s, exact);
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? to : x->dim[i];
    return bl_call_reshape(c, parts, x->ndim, dim);
}

/* y with a new axis of |factor| elements behind |axis|, along which y repeats. */
static const bl_node *repeat_behind(bl_call *c, const bl_node *y, int axis, int64_t factor)
{
    const bl_node *dim[BL_MAX_DIMS + 1];

    for (int i = 0; i <= y->ndim; i++)
        dim[i] = i <= axis ? y->dim[i] : i == axis + 1 ? bl_index(c->ir, 1) : y->dim[i - 1];
    y = bl_call_reshape(c, y, y->ndim + 1, dim);
    dim[axis + 1] = bl_index(c->ir, factor);
    return y->op == BL_OP_POISON ? y : bl_call_expand(c, y, y->ndim, dim);
}

/* Linear interpolation to |factor| elements for each one, without corners. Element r of the group of x[i] is at
 * i + (2 r + 1 - factor) / (2 factor): the first half lies between x[i - 1] and x[i], the other half between x[i] and x[i + 1].
 * The weights are the same in each group. */
static const bl_node *linear_groups(bl_call *c, const bl_node *x, int axis, const bl_node *to, int64_t factor)
{
    bl_ir *ir = c->ir;
    const bl_node *from = x->dim[axis], *dim[BL_MAX_DIMS + 1];
    const bl_node *at = bl_iota(ir, BL_I32, from), *one = bl_full_like(ir, at, 1);
    const bl_node *before = bl_alu2(ir, BL_OP_MAX, bl_sub(ir, at, one), bl_full_like(ir, at, 0));
    const bl_node *after = bl_alu2(ir, BL_OP_MIN, bl_add(ir, at, one), bl_full_like(ir, at, (double)(from->hi - 1)));
    const bl_node *y = repeat_behind(c, resample_pick(c, x, axis, before), axis, factor);
    const bl_node *z = repeat_behind(c, resample_pick(c, x, axis, after), axis, factor);
    x = repeat_behind(c, x, axis, factor);
    if (x->op == BL_OP_POISON || y->op == BL_OP_POISON || z->op == BL_OP_POISON)
        return x->op == BL_OP_POISON ? x : y->op == BL_OP_POISON ? y : z;
    const bl_node *r = bl_iota(ir, BL_I32, bl_index(ir, factor)), *width = bl_full_like(ir, r, (double)factor);
    r = bl_add(ir, bl_add(ir, r, r), bl_full_like(ir, r, 1));
    const bl_node *first = bl_alu2(ir, BL_OP_CMPLT, r, width);
    const bl_node *weight = bl_where(ir, first, bl_add(ir, r, width), bl_sub(ir, r, width));
    weight = bl_cast(ir, (bl_dtype)x->dtype, weight);
    weight = bl_div(ir, weight, bl_full_like(ir, weight, 2 * (double)factor));
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis + 1 ? x->dim[i] : bl_index(ir, 1);
    first = bl_call_expand(c, bl_call_reshape(c, first, x->ndim, dim), x->ndim, x->dim);
    weight = bl_call_expand(c, bl_call_reshape(c, weight, x->ndim, dim), x->ndim, x->dim);
    const bl_node *rest = bl_sub(ir, bl_full_like(ir, weight, 1), weight);
    y = bl_add(ir, bl_mul(ir, bl_where(ir, first, y, x), rest), bl_mul(ir, bl_where(ir, first, x, z), weight));
    for (int i = 0; i < x->ndim - 1; i++)
        dim[i] = i < axis ? y->dim[i] : i == axis ? to : y->dim[i + 1];
    return bl_call_reshape(c, y, y->ndim - 1, dim);
}

/* Linear interpolation between the neighbours x[p] and x[p + 1] of each position. With |corners|, the centres of the end
 * elements coincide; otherwise the outer edges coincide, and positions outside the outer centres are clamped. */
static const bl_node *linear(bl_call *c, const bl_node *x, int axis, const bl_node *to, bool corners)
{
    bl_ir *ir = c->ir;
    const bl_node *from = x->dim[axis], *dim[BL_MAX_DIMS];
    if (!corners && bl_is_const(from) && bl_is_const(to) && to->hi % from->hi == 0 && to->hi <= LONGEST / 4 &&
        x->ndim < BL_MAX_DIMS)
        return linear_groups(c, x, axis, to, to->hi / from->hi);
    scale s = make_scale(ir, from, to);
    const bl_node *zero = bl_full_like(ir, s.at, 0), *one = bl_full_like(ir, s.at, 1);
    const bl_node *position, *whole; /* the position is position / whole */

    if (corners) {
        position = bl_mul(ir, s.at, wide(ir, &s, from, 1, -1));
        whole = bl_alu2(ir, BL_OP_MAX, wide(ir, &s, to, 1, -1), one);
    } else {
        whole = wide(ir, &s, to, 2, 0);
        position = bl_sub(ir, bl_mul(ir, middles(ir, &s), wide(ir, &s, from, 1, 0)), wide(ir, &s, to, 1, 0));
        position = bl_alu2(ir, BL_OP_MAX, position, zero);
    }
    const bl_node *below = bl_idiv(ir, position, whole);
    const bl_node *above = bl_alu2(ir, BL_OP_MIN, bl_add(ir, below, one), wide(ir, &s, from, 1, -1));
    bl_dtype dtype = (bl_dtype)x->dtype;
    const bl_node *weight = bl_div(ir, bl_cast(ir, dtype, bl_mod(ir, position, whole)), bl_cast(ir, dtype, whole));
    const bl_node *y = resample_pick(c, x, axis, below), *z = resample_pick(c, x, axis, above);
    if (y->op == BL_OP_POISON || z->op == BL_OP_POISON)
        return y->op == BL_OP_POISON ? y : z;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? to : bl_index(ir, 1);
    weight = bl_call_expand(c, bl_call_reshape(c, weight, x->ndim, dim), y->ndim, y->dim);
    const bl_node *rest = bl_sub(ir, bl_full_like(ir, weight, 1), weight);
    return bl_add(ir, bl_mul(ir, y, rest), bl_mul(ir, z, weight));
}

const bl_node *expand_interpolate(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *size = bl_attr(c, "size");
    const char *mode = bl_attr(c, "mode")->text;
    bool corners = bl_attr(c, "align_corners")->flag, between = strstr(mode, "linear") != NULL;
    int n = size->count, needed = strcmp(mode, "bilinear") == 0 ? 2 : strcmp(mode, "trilinear") == 0 ? 3 : n;

    if (n < 1 || n > x->ndim || n != needed)
        return bl_call_fail(c, "cannot go from %s to %d axes by %s", bl_call_shape(c, x), n, mode);
    if (corners && !between)
        return bl_call_fail(c, "mode %s has no align_corners", mode);
    if (between)
        x = bl_widen(c->ir, x);
    for (int i = 0; i < n; i++) {
        const bl_node *to = size->sizes[i];
        int axis = c->in[0]->ndim - n + i;
        if (x->op == BL_OP_POISON)
            return x;
        const bl_node *from = x->dim[axis];
        if (from->lo < 1 || to->lo < 1 || from->hi > LONGEST || to->hi > LONGEST)
            return bl_call_fail(c, "sizes must be from 1 to %d: %s to %s", LONGEST, bl_call_shape(c, c->in[0]),
                                bl_shape_text(c->ir, n, size->sizes, NULL));
        if (from != to)
            x = between ? linear(c, x, axis, to, corners) : resample_nearest(c, x, axis, to, strcmp(mode, "nearest") != 0);
    }
    return bl_cast(c->ir, (bl_dtype)c->in[0]->dtype, x);
}
