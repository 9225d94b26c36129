/* SPDX-License-Identifier: MIT */
/* Scatter ops, and ops that find the elements selected by a mask. There are no stores to computed positions: each position of
 * the result folds all elements that are sent to it (scatter inversion). The order of sums is thus fixed, and the last of
 * several assignments wins, on every device. The optimiser avoids that every position examines every element
 * (engine/opt/scatter_invert.c), and the scheduler updates a state by the indices alone (engine/sched/scatter_store.c). */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <math.h>

/* Is element j sent to position k? bool [.., n, j], for the last axes of x[.., n] and index[.., j]. */
static const bl_node *sent_to(bl_ir *ir, const bl_node *index, const bl_node *extent)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int last = index->ndim;

    for (int i = 0; i <= last; i++)
        dim[i] = i == last - 1 ? extent : index->dim[i == last ? i - 1 : i];
    const bl_node *wide = bl_expand(ir, bl_add_axis(ir, index, last - 1), last + 1, dim);
    return bl_alu2(ir, BL_OP_CMPEQ, wide, bl_iota_like(ir, wide, last - 1, (bl_dtype)index->dtype));
}

/* Expand src[.., j] to [.., n, j]. */
static const bl_node *scatter_facing(bl_ir *ir, const bl_node *src, const bl_node *sent)
{
    return bl_expand(ir, bl_add_axis(ir, src, src->ndim - 1), sent->ndim, sent->dim);
}

/* The fold of all elements sent to each position; |start| if none is. */
static const bl_node *fold_sent(bl_ir *ir, bl_op fold, const bl_node *sent, const bl_node *src, bl_scalar start)
{
    const bl_node *none = bl_spread(ir, bl_const(ir, (bl_dtype)src->dtype, start), sent);
    const bl_node *all = bl_where(ir, sent, scatter_facing(ir, src, sent), none);
    return bl_drop_axes(ir, bl_reduce(ir, fold, all, 1u << (sent->ndim - 1)), 1u << (sent->ndim - 1));
}

/* The last j that is sent to each position, int32; -1 if none is. */
static const bl_node *last_sent(bl_ir *ir, const bl_node *sent)
{
    const bl_node *j = bl_iota_like(ir, sent, sent->ndim - 1, BL_I32);
    const bl_node *latest = bl_where(ir, sent, j, bl_full_like(ir, j, -1));
    return bl_drop_axes(ir, bl_reduce(ir, BL_OP_MAX, latest, 1u << (sent->ndim - 1)), 1u << (sent->ndim - 1));
}

static bl_scalar scatter_number_of(bl_dtype dtype, int value)
{
    return bl_dtype_is_float(dtype) ? (bl_scalar){.f = value} : (bl_scalar){.i = value};
}

/* |sent| may have extent 1 along an axis of |x|: one index then stands for all elements along it. */
static const bl_node *scatter_assign(bl_ir *ir, const bl_node *x, const bl_node *src, const bl_node *sent)
{
    const bl_node *latest = last_sent(ir, sent);
    const bl_node *written = bl_not(ir, bl_less(ir, latest, bl_full_like(ir, latest, 0)));
    const bl_node *at = bl_expand(ir, latest, x->ndim, x->dim);
    return bl_where(ir, bl_expand(ir, written, x->ndim, x->dim), bl_gather(ir, src, at, src->ndim - 1), x);
}

/* |how| is 's'um, 'p'rod, 'm'ean, or for amax and amin 'x' and 'n'. */
static const bl_node *fold_into(bl_ir *ir, char how, bool include, const bl_node *x, const bl_node *src, const bl_node *sent)
{
    bl_dtype dtype = (bl_dtype)x->dtype;
    bl_op fold = how == 'p' ? BL_OP_MUL : how == 'x' ? BL_OP_MAX : how == 'n' ? BL_OP_MIN : BL_OP_ADD;
    bl_scalar start = how == 'x'   ? bl_scalar_lowest(dtype)
                      : how == 'n' ? bl_scalar_highest(dtype)
                                   : scatter_number_of(dtype, how == 'p');
    bl_scalar none = {.i = 0};

    if (bl_dtype_is_float(dtype) && (how == 'x' || how == 'n'))
        start.f = how == 'x' ? -HUGE_VAL : HUGE_VAL;
    const bl_node *ones = bl_cast(ir, BL_I32, bl_full_like(ir, bl_detach(ir, src), 1));
    const bl_node *count = fold_sent(ir, BL_OP_ADD, sent, ones, none);
    const bl_node *some = bl_less(ir, bl_full_like(ir, count, 0), count);
    const bl_node *self = include ? x : bl_where(ir, some, bl_spread(ir, bl_const(ir, dtype, start), x), x);
    const bl_node *y = bl_alu2(ir, fold, self, fold_sent(ir, fold, sent, src, start));

    if (how != 'm')
        return y;
    if (include)
        count = bl_add(ir, count, bl_full_like(ir, count, 1));
    count = bl_cast(ir, dtype, bl_alu2(ir, BL_OP_MAX, count, bl_full_like(ir, count, 1)));
    return bl_dtype_is_float(dtype) ? bl_div(ir, y, count) : bl_idiv(ir, y, count);
}

/* Broadcast the index and src over all other axes of x; positions outside are sent nowhere. False after a failure. */
static bool take_sent(bl_call *c, int axis, const bl_node **index, const bl_node **src)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];

    if ((*index)->ndim != x->ndim || (*src)->ndim != x->ndim) {
        bl_call_fail(c, "x, index and src need the same number of dimensions: %s, %s and %s", bl_call_shape(c, x),
                     bl_call_shape(c, *index), bl_call_shape(c, *src));
        return false;
    }
    *index = bl_call_index(c, *index, x, axis);
    for (int i = 0; i < x->ndim; i++) {
        bool fits = !bl_may_be_negative(ir, bl_sub(ir, (*src)->dim[i], (*index)->dim[i]));
        before[i] = bl_index(ir, 0);
        after[i] = i == axis ? before[i] : bl_sub(ir, x->dim[i], (*index)->dim[i]);
        if (!fits || bl_may_be_negative(ir, after[i])) {
            bl_call_fail(c, "index %s is larger than %s %s at axis %d", bl_call_shape(c, *index), fits ? "x" : "src",
                         bl_call_shape(c, fits ? x : *src), i);
            return false;
        }
        *src = bl_shrink_axis(ir, *src, i, before[i], (*index)->dim[i]);
    }
    *index = bl_pad_with(ir, *index, before, after, bl_const_int(ir, (bl_dtype)(*index)->dtype, -1));
    *src = bl_pad(ir, *src, before, after);
    return true;
}

static const bl_node *scatter_scatter(bl_call *c, char how, bool include)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *index = c->in[1], *src = c->in[2];
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);

    if (axis < 0)
        return x;
    if (src->ndim == 0)
        src = bl_spread(ir, src, index);
    if (bl_dtype_get_kind((bl_dtype)index->dtype) == BL_KIND_UINT)
        index = bl_cast(ir, BL_I64, index);
    if (x->ndim + 1 > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "takes at most %d dimensions, not %s", BL_MAX_DIMS - 1, bl_call_shape(c, x));
    if (!take_sent(c, axis, &index, &src))
        return x;
    const bl_node *sent = sent_to(ir, bl_to_last(ir, index, axis), x->dim[axis]);
    const bl_node *self = bl_to_last(ir, x, axis);
    src = bl_to_last(ir, src, axis);
    return bl_from_last(ir, how == '=' ? scatter_assign(ir, self, src, sent) : fold_into(ir, how, include, self, src, sent),
                        axis);
}

const bl_node *expand_scatter(bl_call *c)
{
    char how = bl_attr(c, "reduce")->text[0];
    return scatter_scatter(c, how == 'n' ? '=' : how == 'a' ? 's' : 'p', true);
}

const bl_node *expand_scatter_reduce(bl_call *c)
{
    const char *how = bl_attr(c, "reduce")->text;
    return scatter_scatter(c, how[0] == 'a' ? how[3] : how[0], bl_attr(c, "include_self")->flag);
}

/* ---- several index tensors on neighbouring axes */

/* x[.., a, b, ..] as [front, a * b, back], and the indices merged into one index into a * b; -1 if any of them is out of
 * range. */
typedef struct merged {
    int axis, count; /* the indexed axes */
    const bl_node *x, *index;
    int nbroad;
    const bl_node *const *broad; /* shape of the indices */
} merged;

static const bl_node *inside_only(bl_ir *ir, const bl_node *index, const bl_node *extent, const bl_node **inside)
{
    index = bl_cast(ir, BL_I64, index);
    const bl_node *low = bl_not(ir, bl_less(ir, index, bl_full_like(ir, index, 0)));
    const bl_node *fits = bl_and(ir, low, bl_less(ir, index, bl_spread(ir, bl_cast(ir, BL_I64, extent), index)));
    *inside = *inside == NULL ? fits : bl_and(ir, *inside, fits);
    return index;
}

static bool scatter_merge_axes(bl_call *c, merged *m)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *inside = NULL, *linear = NULL;
    const bl_node *size[3] = {bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};

    m->axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
    m->count = c->nrest;
    if (m->axis < 0)
        return false;
    if (m->count == 0 || m->axis + m->count > x->ndim) {
        bl_call_fail(c, "%d indices from axis %d on, but x is %s", m->count, m->axis, bl_call_shape(c, x));
        return false;
    }
    for (int i = 0; i < m->count; i++)
        c->rest[i] = bl_call_index(c, c->rest[i], x, m->axis + i);
    if (!bl_call_broadcast(c, m->count, c->rest))
        return false;
    for (int i = 0; i < m->count; i++) {
        const bl_node *extent = x->dim[m->axis + i];
        const bl_node *at = inside_only(ir, c->rest[i], extent, &inside);
        const bl_node *row = bl_spread(ir, bl_cast(ir, BL_I64, extent), at);
        linear = linear == NULL ? at : bl_add(ir, bl_mul(ir, linear, row), at);
    }
    for (int i = 0; i < x->ndim; i++) {
        int part = i < m->axis ? 0 : i < m->axis + m->count ? 1 : 2;
        size[part] = bl_mul(ir, size[part], x->dim[i]);
    }
    m->nbroad = linear->ndim;
    m->broad = linear->dim;
    linear = bl_where(ir, inside, linear, bl_full_like(ir, linear, -1));
    const bl_node *count = bl_shape_count(ir, linear->ndim, linear->dim);
    m->index = bl_reshape(ir, linear, 1, &count);
    m->x = bl_call_reshape(c, x, 3, size);
    return m->x->op != BL_OP_POISON;
}

const bl_node *expand_index(bl_call *c)
{
    bl_ir *ir = c->ir;
    merged m;
    const bl_node *dim[2 * BL_MAX_DIMS];
    int ndim = 0;

    if (!scatter_merge_axes(c, &m))
        return c->in[0];
    const bl_node *one[3] = {bl_index(ir, 1), m.index->dim[0], bl_index(ir, 1)};
    const bl_node *wide[3] = {m.x->dim[0], m.index->dim[0], m.x->dim[2]};
    const bl_node *index = bl_call_expand(c, bl_reshape(ir, m.index, 3, one), 3, wide);
    for (int i = 0; i < m.axis; i++)
        dim[ndim++] = c->in[0]->dim[i];
    for (int i = 0; i < m.nbroad; i++)
        dim[ndim++] = m.broad[i];
    for (int i = m.axis + m.count; i < c->in[0]->ndim; i++)
        dim[ndim++] = c->in[0]->dim[i];
    return bl_call_reshape(c, bl_gather(ir, m.x, index, 1), ndim, dim);
}

const bl_node *expand_index_put(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *value = c->in[1];
    const bl_node *dim[2 * BL_MAX_DIMS];
    merged m;
    int ndim = 0;

    if (!scatter_merge_axes(c, &m))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        for (int k = 0; i == m.axis && k < m.nbroad; k++)
            dim[ndim++] = m.broad[k];
        if (i < m.axis || i >= m.axis + m.count)
            dim[ndim++] = x->dim[i];
    }
    const bl_node *both[2] = {value, bl_call_full(c, bl_const_int(ir, BL_BOOL, 0), ndim, dim)};
    if (both[1]->op == BL_OP_POISON || !bl_call_broadcast(c, 2, both))
        return x;
    if (!bl_shape_equal(both[0], bl_call_full(c, bl_const_int(ir, BL_BOOL, 0), ndim, dim)))
        return bl_call_fail(c, "value %s does not fit the elements that it replaces, %s", bl_call_shape(c, value),
                            bl_shape_text(ir, ndim, dim, NULL));
    const bl_node *flat[3] = {m.x->dim[0], m.index->dim[0], m.x->dim[2]};
    const bl_node *src = bl_to_last(ir, bl_reshape(ir, both[0], 3, flat), 1), *self = bl_to_last(ir, m.x, 1);
    const bl_node *shape[3] = {flat[0], flat[2], flat[1]}, *one[3] = {bl_index(ir, 1), bl_index(ir, 1), flat[1]};
    const bl_node *index = bl_reshape(ir, m.index, 3, one), *y = NULL;
    if (bl_attr(c, "accumulate")->flag)
        y = fold_into(ir, 's', true, self, src, sent_to(ir, bl_expand(ir, index, 3, shape), m.x->dim[1]));
    else
        y = scatter_assign(ir, self, src, sent_to(ir, index, m.x->dim[1]));
    return bl_call_reshape(c, bl_from_last(ir, y, 1), x->ndim, x->dim);
}

/* ---- what a mask chooses */

const bl_node *bl_search(bl_ir *ir, const bl_node *sorted, const bl_node *wanted, int axis)
{
    const bl_node *extent = sorted->dim[axis];
    const bl_node *frame = bl_cast(ir, BL_I32, bl_full_like(ir, bl_detach(ir, wanted), 0));
    const bl_node *low = frame, *high = bl_spread(ir, bl_cast(ir, BL_I32, extent), frame), *one = bl_full_like(ir, frame, 1);

    for (int64_t left = extent->hi; left > 0; left /= 2) {
        const bl_node *open = bl_less(ir, low, high);
        const bl_node *middle = bl_alu2(ir, BL_OP_SHR, bl_add(ir, low, high), one);
        const bl_node *below = bl_less(ir, bl_gather(ir, sorted, middle, axis), wanted);
        low = bl_where(ir, bl_and(ir, open, below), bl_add(ir, middle, one), low);
        high = bl_where(ir, bl_and(ir, open, bl_not(ir, below)), middle, high);
    }
    return low;
}

/* The positions of the first |size| true elements of the flat mask, int32 (padded with its length), and the number of true
 * elements. */
static const bl_node *chosen(bl_call *c, const bl_node *mask, const bl_node *size, const bl_node **count)
{
    bl_ir *ir = c->ir;
    if (mask->dim[0]->hi >= INT32_MAX || size->lo < 0 || size->hi >= INT32_MAX) {
        return bl_call_fail_as(c, BL_ELIMIT, "the size must be at least 0, and tensors must have fewer than %d elements",
                               INT32_MAX);
    }
    const bl_node *seen = bl_contiguous(ir, bl_cumsum(ir, bl_cast(ir, BL_I32, mask), 0));
    const bl_node *wanted = bl_iota(ir, BL_I32, size);
    *count = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, bl_cast(ir, BL_I64, mask), 1), 1);
    return bl_search(ir, seen, bl_add(ir, wanted, bl_full_like(ir, wanted, 1)), 0);
}

static const bl_node *scatter_flat(bl_ir *ir, const bl_node *x)
{
    const bl_node *count = bl_shape_count(ir, x->ndim, x->dim);
    return bl_reshape(ir, x, 1, &count);
}

const bl_node *expand_masked_select(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *both[2] = {c->in[0], c->in[1]};
    const bl_node *count = NULL;

    if (!bl_call_broadcast(c, 2, both))
        return both[0];
    const bl_node *x = scatter_flat(ir, both[0]);
    const bl_node *at = chosen(c, scatter_flat(ir, both[1]), bl_attr(c, "size")->size, &count);
    if (count == NULL)
        return at;
    const bl_node *found = bl_less(ir, at, bl_spread(ir, bl_cast(ir, BL_I32, x->dim[0]), at));
    const bl_node *fill = bl_spread(ir, bl_call_literal(c, (bl_dtype)x->dtype, &bl_attr(c, "fill")->number), at);
    c->result[0] = bl_where(ir, found, bl_gather(ir, x, at, 0), fill);
    c->result[1] = count;
    return c->result[0];
}

const bl_node *expand_nonzero(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *count = NULL;
    const bl_node *at = chosen(c, scatter_flat(ir, x), bl_attr(c, "size")->size, &count), *flat_at = at;
    const bl_node *column[BL_MAX_DIMS];

    if (count == NULL)
        return at;
    const bl_node *total = bl_spread(ir, bl_cast(ir, BL_I32, bl_shape_count(ir, x->ndim, x->dim)), at);
    const bl_node *found = bl_less(ir, flat_at, total);
    const bl_node *fill = bl_spread(ir, bl_const_int(ir, BL_I64, bl_attr(c, "fill")->whole), at);
    const bl_node *dim[2] = {at->dim[0], bl_index(ir, x->ndim)}, *none = bl_index(ir, 0);
    c->result[0] = bl_call_full(c, bl_const_int(ir, BL_I64, 0), 2, dim);
    c->result[1] = count;
    for (int i = x->ndim - 1; i >= 0; i--) {
        const bl_node *extent = bl_spread(ir, bl_cast(ir, BL_I32, x->dim[i]), at);
        column[i] = bl_where(ir, found, bl_cast(ir, BL_I64, bl_mod(ir, at, extent)), fill);
        at = bl_idiv(ir, at, extent);
    }
    for (int i = 0; i < x->ndim; i++) { /* columns side by side */
        const bl_node *before[2] = {none, bl_index(ir, i)}, *after[2] = {none, bl_index(ir, x->ndim - 1 - i)};
        c->result[0] = bl_add(ir, c->result[0], bl_pad(ir, bl_add_axis(ir, column[i], 1), before, after));
    }
    return c->result[0];
}
