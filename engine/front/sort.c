/* SPDX-License-Identifier: MIT */
/* Order without exchanges: where an element goes is computed, then every place fetches its element.
 *
 * Within runs of 512 the rank of an element is the number of those before it, and place k is found by looking for rank k.  Longer
 * axes merge pairs of runs: place k of a merged run takes its element from where a binary search along the merge path says (Odeh
 * et al., "Merge path - parallel merging made simple", IPDPSW 2012).  Equal elements keep their order, NaN counts as the largest.
 *
 * The first few of a longer axis need none of that: as the order is total, the next is the least of those behind the one before.
 */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <math.h>

enum {
    RUN = 512,
    FEW = 64,   /* that many are found one after the other, */
    FEW_OF = 32 /* of an axis this many times as long: below, a sort of one row is as fast on some devices */
};

typedef struct order {
    bl_ir *ir;
    bool descending;
} order;

/* Must a stand before b where neither was there first? */
static const bl_node *precedes(const order *o, const bl_node *a, const bl_node *b)
{
    bl_ir *ir = o->ir;
    const bl_node *low = o->descending ? b : a, *high = o->descending ? a : b;
    const bl_node *less = bl_less(ir, low, high);

    if (!bl_dtype_is_float((bl_dtype)a->dtype))
        return less;
    return bl_alu2(ir, BL_OP_OR, less, bl_and(ir, bl_is_nan(ir, high), bl_not(ir, bl_is_nan(ir, low))));
}

/* x[.., n] as [.., n, n] along its last axis or the one before. */
static const bl_node *facing(bl_ir *ir, const bl_node *x, bool rows)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int ndim = x->ndim + 1;

    for (int i = 0; i < ndim; i++)
        dim[i] = x->dim[i < ndim - 1 ? i : i - 1];
    return bl_expand(ir, bl_add_axis(ir, x, rows ? x->ndim : x->ndim - 1), ndim, dim);
}

/* For each place of the last axis (at most RUN) the position of the element that belongs there. */
static const bl_node *sort_run(const order *o, const bl_node *x)
{
    bl_ir *ir = o->ir;
    int last = x->ndim;
    const bl_node *mine = facing(ir, x, true), *other = facing(ir, x, false);
    const bl_node *i = bl_iota_like(ir, mine, last - 1, BL_I32), *j = bl_iota_like(ir, mine, last, BL_I32);
    const bl_node *before = bl_where(ir, bl_less(ir, j, i), bl_not(ir, precedes(o, mine, other)), precedes(o, other, mine));
    const bl_node *rank = bl_reduce(ir, BL_OP_ADD, bl_cast(ir, BL_I32, before), 1u << last);

    rank = facing(ir, bl_drop_axes(ir, rank, 1u << last), false);
    const bl_node *found = bl_alu2(ir, BL_OP_CMPEQ, rank, i);
    const bl_node *place = bl_reduce(ir, BL_OP_ADD, bl_where(ir, found, j, bl_full_like(ir, j, 0)), 1u << last);
    return bl_drop_axes(ir, place, 1u << last);
}

static const bl_node *small(bl_ir *ir, const bl_node *like, int64_t value)
{
    return bl_full_like(ir, like, (double)value);
}

/* Keys [.., runs, 2 * length], both halves sorted: for each place of the whole the position of its element. */
static const bl_node *merge_runs(const order *o, const bl_node *keys, int64_t length)
{
    bl_ir *ir = o->ir;
    int last = keys->ndim - 1;
    const bl_node *k = bl_iota_like(ir, keys, last, BL_I32), *len = small(ir, k, length);
    /* how many of the first k come from the first half: between low and high */
    const bl_node *low = bl_alu2(ir, BL_OP_MAX, bl_sub(ir, k, len), small(ir, k, 0)), *high = bl_alu2(ir, BL_OP_MIN, k, len);

    for (int64_t left = length; left > 0; left /= 2) {
        const bl_node *open = bl_less(ir, low, high);
        const bl_node *middle = bl_alu2(ir, BL_OP_SHR, bl_add(ir, low, high), small(ir, k, 1));
        const bl_node *rest = bl_add(ir, bl_sub(ir, bl_sub(ir, k, small(ir, k, 1)), middle), len);
        const bl_node *first = bl_gather(ir, keys, middle, last), *second = bl_gather(ir, keys, rest, last);
        const bl_node *later = precedes(o, second, first); /* middle is too many */
        low = bl_where(ir, bl_and(ir, open, bl_not(ir, later)), bl_add(ir, middle, small(ir, k, 1)), low);
        high = bl_where(ir, bl_and(ir, open, later), middle, high);
    }
    const bl_node *rest = bl_sub(ir, k, low);
    const bl_node *first = bl_gather(ir, keys, low, last), *second = bl_gather(ir, keys, bl_add(ir, rest, len), last);
    const bl_node *in_first = bl_less(ir, low, len), *in_second = bl_less(ir, rest, len);
    const bl_node *take =
        bl_and(ir, in_first, bl_alu2(ir, BL_OP_OR, bl_not(ir, in_second), bl_not(ir, precedes(o, second, first))));
    return bl_where(ir, take, low, bl_add(ir, rest, len));
}

/* x[.., n] as [.., n / length, length]. */
static const bl_node *in_runs(bl_ir *ir, const bl_node *x, int ndim, int64_t total, int64_t length)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    for (int i = 0; i < ndim - 1; i++)
        dim[i] = x->dim[i];
    dim[ndim - 1] = bl_index(ir, total / length);
    dim[ndim] = bl_index(ir, length);
    return bl_reshape(ir, x, ndim + 1, dim);
}

/* After the last element stands what comes last in any case: later than its equals. */
static const bl_node *pad_keys(const order *o, const bl_node *x, int64_t total)
{
    bl_dtype dtype = (bl_dtype)x->dtype;
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];
    bl_scalar end = o->descending ? bl_scalar_lowest(dtype) : bl_scalar_highest(dtype);

    if (bl_dtype_is_float(dtype))
        end.f = o->descending ? -HUGE_VAL : NAN;
    for (int i = 0; i < x->ndim; i++) {
        before[i] = bl_index(o->ir, 0);
        after[i] = i == x->ndim - 1 ? bl_sub(o->ir, bl_index(o->ir, total), x->dim[i]) : before[i];
    }
    return bl_pad_with(o->ir, x, before, after, bl_const(o->ir, dtype, end));
}

/* The positions in x[.., n] in their order, int32. */
static const bl_node *sort_last(const order *o, const bl_node *x)
{
    bl_ir *ir = o->ir;
    int ndim = x->ndim;
    const bl_node *extent = x->dim[ndim - 1];
    int64_t total = RUN;

    if (extent->hi <= RUN || extent->op == BL_OP_POISON)
        return sort_run(o, x);
    while (total < extent->hi)
        total *= 2;
    const bl_node *keys = in_runs(ir, pad_keys(o, x, total), ndim, total, RUN);
    const bl_node *at = sort_run(o, keys);
    const bl_node *base =
        bl_mul(ir, bl_iota_like(ir, keys, ndim - 1, BL_I32), small(ir, bl_iota_like(ir, keys, ndim - 1, BL_I32), RUN));
    const bl_node *places = bl_add(ir, at, base);
    keys = bl_contiguous(ir, bl_gather(ir, keys, at, ndim));
    for (int64_t length = RUN; length < total; length *= 2) {
        keys = in_runs(ir, keys, ndim, total, 2 * length);
        places = in_runs(ir, bl_contiguous(ir, places), ndim, total, 2 * length);
        at = bl_contiguous(ir, merge_runs(o, keys, length));
        keys = bl_contiguous(ir, bl_gather(ir, keys, at, ndim));
        places = bl_gather(ir, places, at, ndim);
    }
    const bl_node *dim[BL_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        dim[i] = i == ndim - 1 ? bl_index(ir, total) : x->dim[i];
    return bl_shrink_axis(ir, bl_reshape(ir, places, ndim, dim), ndim - 1, bl_index(ir, 0), extent);
}

/* x as what is ordered, its axis the last; NULL after a failure. */
static const bl_node *take_keys(bl_call *c, const bl_node *x, int axis)
{
    if (x->ndim >= BL_MAX_DIMS - 2) {
        bl_call_fail_as(c, BL_ELIMIT, "takes at most %d dimensions, not %s", BL_MAX_DIMS - 3, bl_call_shape(c, x));
        return NULL;
    }
    if (x->dim[axis]->hi > INT32_MAX / 2) {
        bl_call_fail_as(c, BL_ELIMIT, "axis %d of %s is too long", axis, bl_call_shape(c, x));
        return NULL;
    }
    return bl_to_last(c->ir, bl_detach(c->ir, x->dtype == BL_BOOL ? bl_cast(c->ir, BL_U8, x) : x), axis);
}

const bl_node *bl_sorted_places(bl_call *c, const bl_node *x, int axis, bool descending)
{
    order o = {c->ir, descending};
    const bl_node *keys = take_keys(c, x, axis);

    return keys == NULL ? NULL : bl_from_last(c->ir, sort_last(&o, keys), axis);
}

/* ---- the first few of the order, without the rest of it */

static const bl_node *whole(bl_ir *ir, const bl_node *like, int64_t value)
{
    return bl_spread(ir, bl_const_int(ir, BL_I64, value), like);
}

/* x[.., n] as int64, smaller where it stands earlier: the value's rank above, the place below, so that no two are equal. */
static const bl_node *ordinals(const order *o, const bl_node *x)
{
    bl_ir *ir = o->ir;
    const bl_node *rank;

    if (bl_dtype_is_float((bl_dtype)x->dtype)) {
        const bl_node *real = bl_cast(ir, BL_F32, x), *bits = bl_bitcast(ir, BL_I32, real);
        /* sign and magnitude, as which -0 is 0 */
        rank = bl_where(ir, bl_less(ir, bits, small(ir, bits, 0)), bl_sub(ir, small(ir, bits, INT32_MIN), bits), bits);
        rank = bl_cast(ir, BL_I64, bl_where(ir, bl_is_nan(ir, real), small(ir, bits, INT32_MAX), rank));
    } else {
        rank = bl_cast(ir, BL_I64, x);
        if (x->dtype == BL_U32)
            rank = bl_add(ir, rank, whole(ir, rank, INT32_MIN));
    }
    if (o->descending)
        rank = bl_not(ir, rank);
    rank = bl_alu2(ir, BL_OP_SHL, rank, whole(ir, rank, 32));
    return bl_add(ir, rank, bl_iota_like(ir, rank, rank->ndim - 1, BL_I64));
}

/* The positions of the first |count|, at most FEW: each is the smallest ordinal above the one before.  Where the axis has fewer,
 * -1 stands behind them. */
static const bl_node *find_few(bl_call *c, const bl_node *x, int axis, bool descending, int64_t count)
{
    bl_ir *ir = c->ir;
    order o = {ir, descending};
    const bl_node *keys = take_keys(c, x, axis);
    const bl_node *found[FEW];

    if (keys == NULL)
        return NULL;
    const bl_node *all = ordinals(&o, keys), *end = whole(ir, all, INT64_MAX);
    for (int64_t i = 0; i < count; i++) {
        const bl_node *rest = i == 0 ? all : bl_where(ir, bl_less(ir, bl_spread(ir, found[i - 1], all), all), all, end);
        found[i] = bl_reduce(ir, BL_OP_MIN, rest, 1u << (keys->ndim - 1));
    }
    if (found[count - 1]->op == BL_OP_POISON)
        return bl_call_failed(c);
    return bl_from_last(ir, bl_cast(ir, BL_I32, bl_call_join(c, (int)count, found, keys->ndim - 1)), axis);
}

const bl_node *bl_first_places(bl_call *c, const bl_node *x, int axis, bool descending, const bl_node *count)
{
    bool few = count->hi > 0 && count->hi <= FEW && count->hi * FEW_OF <= x->dim[axis]->hi;
    bool fits = bl_dtype_bytes((bl_dtype)x->dtype) <= 4; /* above a place in an int64 */
    const bl_node *at = few && fits ? find_few(c, x, axis, descending, count->hi) : bl_sorted_places(c, x, axis, descending);

    return at == NULL ? NULL : bl_shrink_axis(c->ir, at, axis, bl_index(c->ir, 0), count);
}

/* Values and positions into c->result; |places| only where wanted. */
static const bl_node *give_sorted(bl_call *c, const bl_node *at, int axis)
{
    c->result[0] = bl_gather(c->ir, c->in[0], at, axis);
    c->result[1] = bl_cast(c->ir, BL_I64, at);
    return c->result[0];
}

const bl_node *expand_sort(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = x->ndim == 0 ? 0 : bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    c->result[0] = x;
    c->result[1] = x->ndim == 0 ? bl_const_int(c->ir, BL_I64, 0) : x;
    if (axis < 0 || x->ndim == 0)
        return x;
    const bl_node *at = bl_sorted_places(c, x, axis, bl_attr(c, "descending")->flag);
    return at == NULL ? NULL : give_sorted(c, at, axis);
}

const bl_node *expand_argsort(bl_call *c)
{
    const bl_node *x = c->in[0];
    int axis = x->ndim == 0 ? 0 : bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    if (axis < 0 || x->ndim == 0)
        return axis < 0 ? x : bl_const_int(c->ir, BL_I64, 0);
    const bl_node *at = bl_sorted_places(c, x, axis, bl_attr(c, "descending")->flag);
    return at == NULL ? NULL : bl_cast(c->ir, BL_I64, at);
}

const bl_node *expand_topk(bl_call *c)
{
    const bl_node *x = c->in[0], *k = bl_attr(c, "k")->size;
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    c->result[0] = c->result[1] = x;
    if (axis < 0)
        return x;
    if (bl_may_be_negative(c->ir, k) || bl_may_be_negative(c->ir, bl_sub(c->ir, x->dim[axis], k)))
        return bl_call_fail(c, "k must be between 0 and the extent of axis %d of %s", axis, bl_call_shape(c, x));
    const bl_node *at = bl_first_places(c, x, axis, bl_attr(c, "largest")->flag, k);
    return at == NULL ? NULL : give_sorted(c, at, axis);
}
