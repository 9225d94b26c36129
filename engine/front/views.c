/* SPDX-License-Identifier: MIT */
/* Ops that permute, repeat or select elements; nothing is copied. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

/* Split axis |axis| of x in two; or merge it with the next axis if |inner| is NULL. */
static const bl_node *refold(bl_call *c, const bl_node *x, int axis, const bl_node *outer, const bl_node *inner)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int ndim = 0;

    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < x->ndim; i++) {
        dim[ndim++] = i == axis ? outer : x->dim[i];
        if (i == axis && inner != NULL)
            dim[ndim++] = inner;
        else if (i == axis)
            i++;
    }
    return bl_call_reshape(c, x, ndim, dim);
}

static const bl_node *views_flat(bl_call *c, const bl_node *x)
{
    return bl_call_reshape(c, x, 1, (const bl_node *const[]){bl_shape_count(c->ir, x->ndim, x->dim)});
}

/* Roll an axis: the last elements come first. */
static const bl_node *roll_axis(bl_call *c, const bl_node *x, int axis, int64_t shift)
{
    bl_ir *ir = c->ir;
    const bl_node *extent = x->dim[axis], *part[2];
    int64_t least = extent->lo;

    if (bl_is_const(extent))
        shift = least == 0 ? 0 : shift % least;
    if (shift == 0)
        return x;
    if (shift > least || shift < -least)
        return bl_call_fail(c, "shift %lld is too large for axis %d of %s", (long long)shift, axis, bl_call_shape(c, x));
    const bl_node *first = shift < 0 ? bl_index(ir, -shift) : bl_sub(ir, extent, bl_index(ir, shift));
    part[0] = bl_shrink_axis(ir, x, axis, first, bl_sub(ir, extent, first));
    part[1] = bl_shrink_axis(ir, x, axis, bl_index(ir, 0), first);
    if (part[0]->op == BL_OP_POISON || part[1]->op == BL_OP_POISON)
        return bl_call_failed(c);
    return bl_call_join(c, 2, part, axis);
}

const bl_node *expand_roll(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *shift = bl_attr(c, "shift"), *axes = bl_attr(c, "axis");

    if (shift->count != (axes->given ? axes->count : 1))
        return bl_call_fail(c, "must have one shift for each axis: %d shifts for %d axes", shift->count,
                            axes->given ? axes->count : 1);
    if (!axes->given) {
        const bl_node *row = views_flat(c, x);
        row = row->op == BL_OP_POISON ? row : roll_axis(c, row, 0, shift->wholes[0]);
        return bl_call_reshape(c, row, x->ndim, x->dim);
    }
    for (int i = 0; i < axes->count; i++) {
        int axis = bl_call_axis(c, axes->wholes[i], c->in[0]->ndim);
        if (axis < 0 || x->op == BL_OP_POISON)
            return x;
        x = roll_axis(c, x, axis, shift->wholes[i]);
    }
    return x;
}

/* Repeat one axis |times| times: as a whole, or each element. */
static const bl_node *repeat_axis(bl_call *c, const bl_node *x, int axis, const bl_node *times, bool each)
{
    const bl_node *dim[BL_MAX_DIMS + 1];

    if (x->op == BL_OP_POISON || bl_is_int(times, 1))
        return x;
    const bl_node *extent = x->dim[axis];
    const bl_node *wide = bl_add_axis(c->ir, x, each ? axis + 1 : axis);
    for (int i = 0; i < wide->ndim; i++)
        dim[i] = i == axis + each ? times : wide->dim[i];
    if (wide->op == BL_OP_POISON)
        return wide;
    return refold(c, bl_call_expand(c, wide, wide->ndim, dim), axis, bl_mul(c->ir, extent, times), NULL);
}

const bl_node *expand_repeat(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *repeats = bl_attr(c, "repeats");
    int fresh = repeats->count - x->ndim;

    if (fresh < 0)
        return bl_call_fail(c, "needs a number for each axis of %s, not %d", bl_call_shape(c, x), repeats->count);
    for (int i = 0; i < fresh; i++)
        x = bl_add_axis(c->ir, x, 0);
    for (int i = 0; i < repeats->count; i++)
        x = repeat_axis(c, x, i, repeats->sizes[i], false);
    return x;
}

const bl_node *expand_repeat_interleave(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *axis = bl_attr(c, "axis");
    int at = axis->given ? bl_call_axis(c, axis->whole, x->ndim) : 0;

    return at < 0 ? x : repeat_axis(c, axis->given ? x : views_flat(c, x), at, bl_attr(c, "repeats")->size, true);
}

const bl_node *expand_unfold(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
    int64_t size = bl_attr(c, "size")->whole, step = bl_attr(c, "step")->whole;

    if (axis < 0)
        return x;
    if (x->ndim == BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "needs a tensor of %d dimensions; the limit is %d", x->ndim + 1, BL_MAX_DIMS);
    if (size < 1 || size > x->dim[axis]->lo || step < 1)
        return bl_call_fail(c, "size %lld must be between 1 and the size of axis %d of %s, and step %lld above 0",
                            (long long)size, axis, bl_call_shape(c, x), (long long)step);
    return bl_window(c->ir, x, axis, size, step < x->dim[axis]->hi ? step : x->dim[axis]->hi, 1);
}

/* The smaller extent; NULL if named dimensions leave that open. */
static const bl_node *views_smaller(bl_ir *ir, const bl_node *a, const bl_node *b)
{
    const bl_node *more = bl_sub(ir, a, b);
    return more->lo >= 0 ? b : more->hi <= 0 ? a : NULL;
}

/* The diagonal of the last two axes, which become one. In rows that are one element longer, the diagonal is the first
 * column. */
static const bl_node *take_diagonal(bl_call *c, const bl_node *x, int64_t offset)
{
    bl_ir *ir = c->ir;
    int row = x->ndim - 2, column = x->ndim - 1;
    const bl_node *zero = bl_index(ir, 0), *one = bl_index(ir, 1);
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];

    int axis = offset < 0 ? row : column;
    int64_t skip = offset < 0 ? -offset : offset;
    if (bl_is_const(x->dim[axis]) && skip > x->dim[axis]->hi)
        skip = x->dim[axis]->hi;
    const bl_node *rest = bl_sub(ir, x->dim[axis], bl_index(ir, skip));
    const bl_node *size = views_smaller(ir, axis == row ? rest : x->dim[row], axis == column ? rest : x->dim[column]);
    if (bl_may_be_negative(ir, rest) || size == NULL)
        return bl_call_fail(c, "the diagonal %lld of %s has no size", (long long)offset, bl_call_shape(c, c->in[0]));
    x = bl_shrink_axis(ir, x, axis, bl_index(ir, skip), rest);
    x = bl_shrink_axis(ir, x, row, zero, size);
    x = bl_shrink_axis(ir, x, column, zero, size);
    x = refold(c, x, row, bl_mul(ir, size, size), NULL);
    for (int i = 0; i <= row; i++) {
        before[i] = zero;
        after[i] = i == row ? size : zero;
    }
    x = bl_call_pad(c, x, before, after, NULL);
    x = refold(c, x, row, size, bl_add(ir, size, one));
    return x->op == BL_OP_POISON ? x : bl_drop_axes(ir, bl_shrink_axis(ir, x, column, zero, one), 1u << column);
}

static bool take_offset(bl_call *c, int64_t *offset)
{
    *offset = bl_attr(c, "offset")->whole;
    if (*offset >= -INT32_MAX && *offset <= INT32_MAX)
        return true;
    bl_call_fail(c, "offset %lld is out of range", (long long)*offset);
    return false;
}

const bl_node *expand_diagonal(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis0 = bl_call_axis(c, bl_attr(c, "axis0")->whole, x->ndim),
        axis1 = bl_call_axis(c, bl_attr(c, "axis1")->whole, x->ndim);
    int perm[BL_MAX_DIMS], n = 0;
    int64_t offset;

    if (axis0 < 0 || axis1 < 0 || !take_offset(c, &offset))
        return x;
    if (axis0 == axis1)
        return bl_call_fail(c, "axis %d is given twice", axis0);
    for (int i = 0; i < x->ndim; i++) {
        if (i != axis0 && i != axis1)
            perm[n++] = i;
    }
    perm[n++] = axis0;
    perm[n] = axis1;
    x = bl_permute(c->ir, x, perm);
    return x->op == BL_OP_POISON ? x : take_diagonal(c, x, offset);
}

/* The inverse of take_diagonal: x becomes the first column of rows that are one longer, without the end of the last row. */
static const bl_node *put_diagonal(bl_call *c, const bl_node *x, int64_t offset)
{
    bl_ir *ir = c->ir;
    const bl_node *n = x->dim[0], *zero = bl_index(ir, 0);
    const bl_node *above = bl_index(ir, offset > 0 ? offset : 0), *below = bl_index(ir, offset < 0 ? -offset : 0);
    const bl_node *square = bl_mul(ir, n, n);

    x = bl_call_pad(c, bl_add_axis(ir, x, 1), (const bl_node *const[]){zero, zero}, (const bl_node *const[]){zero, n}, NULL);
    x = refold(c, x, 0, bl_add(ir, square, n), NULL);
    if (x->op == BL_OP_POISON)
        return x;
    x = refold(c, bl_shrink_axis(ir, x, 0, zero, square), 0, n, n);
    if (x->op == BL_OP_POISON)
        return x;
    return bl_call_pad(c, x, (const bl_node *const[]){below, above}, (const bl_node *const[]){above, below}, NULL);
}

const bl_node *expand_diag(bl_call *c)
{
    const bl_node *x = c->in[0];
    int64_t offset;

    if (!take_offset(c, &offset))
        return x;
    if (x->ndim != 1 && x->ndim != 2)
        return bl_call_fail(c, "needs one or two dimensions, not %s", bl_call_shape(c, x));
    return x->ndim == 1 ? put_diagonal(c, x, offset) : take_diagonal(c, x, offset);
}

/* ---- several parts */

/* Split into |count| parts of one size; the last may be shorter. */
static const bl_node *split_evenly(bl_call *c, const bl_node *x, int axis, int64_t size)
{
    int64_t extent = x->dim[axis]->hi, count = extent == 0 ? 1 : (extent - 1) / size + 1;

    if (count > INT32_MAX || !bl_call_results(c, (int)count))
        return x;
    for (int64_t i = 0, left = extent; i < count; i++, left -= size)
        c->result[i] = bl_shrink_axis(c->ir, x, axis, bl_index(c->ir, i * size), bl_index(c->ir, left < size ? left : size));
    return c->result[0];
}

/* The axis, which must have a constant extent; -1 after a failure. */
static int take_split_axis(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    if (axis < 0 || bl_is_const(x->dim[axis]))
        return axis;
    bl_call_fail(c, "axis %d of %s needs a fixed length", axis, bl_call_shape(c, x));
    return -1;
}

const bl_node *expand_split(bl_call *c)
{
    const bl_node *x = c->in[0];
    const bl_value *sizes = bl_attr(c, "sizes");
    int axis = take_split_axis(c);
    int64_t done = 0;

    if (axis < 0)
        return x;
    if (sizes->from->kind != BL_ATTR_LIST && sizes->wholes[0] > 0)
        return split_evenly(c, x, axis, sizes->wholes[0]);
    for (int i = 0; i < sizes->count; i++)
        done = sizes->wholes[i] < 0 || done < 0 || sizes->wholes[i] > x->dim[axis]->hi ? -1 : done + sizes->wholes[i];
    if (sizes->from->kind != BL_ATTR_LIST || done != x->dim[axis]->hi)
        return bl_call_fail(c, "sizes must be above 0, or add up to axis %d of %s", axis, bl_call_shape(c, x));
    if (!bl_call_results(c, sizes->count))
        return x;
    done = 0;
    for (int i = 0; i < sizes->count; done += sizes->wholes[i++])
        c->result[i] = bl_shrink_axis(c->ir, x, axis, bl_index(c->ir, done), bl_index(c->ir, sizes->wholes[i]));
    return c->result[0];
}

const bl_node *expand_chunk(bl_call *c)
{
    const bl_node *x = c->in[0];
    int64_t chunks = bl_attr(c, "chunks")->whole;
    int axis = take_split_axis(c);

    if (axis < 0)
        return x;
    if (chunks < 1)
        return bl_call_fail(c, "chunks must be above 0, not %lld", (long long)chunks);
    int64_t extent = x->dim[axis]->hi;
    return split_evenly(c, x, axis, extent <= chunks ? 1 : (extent - 1) / chunks + 1);
}

const bl_node *expand_meshgrid(bl_call *c)
{
    const bl_node *dim[BL_MAX_DIMS], *one[BL_MAX_DIMS];
    bool swap = bl_attr(c, "indexing")->text[0] == 'x' && c->nrest > 1;
    int n = c->nrest;

    if (n > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "needs a tensor of %d dimensions; the limit is %d", n, BL_MAX_DIMS);
    if (!bl_call_results(c, n))
        return c->rest[0];
    for (int i = 0; i < n; i++) {
        if (c->rest[i]->ndim > 1)
            return bl_call_fail(c, "takes vectors, not %s", bl_call_shape(c, c->rest[i]));
        dim[swap && i < 2 ? 1 - i : i] = c->rest[i]->ndim == 0 ? bl_index(c->ir, 1) : c->rest[i]->dim[0];
    }
    for (int i = 0; i < n; i++) {
        int axis = swap && i < 2 ? 1 - i : i;
        for (int k = 0; k < n; k++)
            one[k] = k == axis ? dim[axis] : bl_index(c->ir, 1);
        c->result[i] = bl_call_expand(c, bl_reshape(c->ir, c->rest[i], n, one), n, dim);
    }
    return c->result[0];
}
