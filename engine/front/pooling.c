/* SPDX-License-Identifier: MIT */
/* Pooling: folds over windows, and positions in them. */
#include "engine/front/build.h"
#include "engine/front/frame.h"

#include <string.h>

/* Read the attributes of a pool over |n| axes, except dilation. */
static bool pooling_take_frame(bl_call *c, int n, bl_frame *f)
{
    if (n < 1 || n > BL_FRAME_AXES || c->in[0]->ndim < n) {
        bl_call_fail(c, "moves over %d axes of %s; it must be 1 to %d axes", n, bl_call_shape(c, c->in[0]), BL_FRAME_AXES);
        return false;
    }
    f->n = n;
    for (int i = 0; i < n; i++)
        f->dilation[i] = 1;
    if (!bl_call_each(c, "kernel_size", 1, n, f->size) || !bl_frame_take_padding(c, f))
        return false;
    memcpy(f->stride, f->size, sizeof f->stride);
    if (bl_attr(c, "stride")->given && !bl_call_each(c, "stride", 1, n, f->stride))
        return false;
    for (int i = 0; i < n; i++) {
        int64_t padding = f->before[i] > f->after[i] ? f->before[i] : f->after[i];
        if (padding <= f->size[i] / 2)
            continue;
        bl_call_fail(c, "padding %lld is more than half of kernel_size %lld", (long long)padding, (long long)f->size[i]);
        return false;
    }
    return true;
}

/* The number of axes: the length of kernel_size, or |dims| if kernel_size is one number. */
static int count_axes(bl_call *c)
{
    const bl_value *size = bl_attr(c, "kernel_size");
    int64_t dims = bl_attr(c, "dims")->whole;
    return size->from->kind == BL_ATTR_LIST ? size->count : dims < 0 || dims > BL_MAX_DIMS ? BL_MAX_DIMS : (int)dims;
}

/* ceil_mode: add padding at the end so that a last, partial window fits. No window may start in that padding. */
static void hang_over(const bl_node *x, bl_frame *f)
{
    for (int i = 0; i < f->n; i++) {
        const bl_node *extent = x->dim[x->ndim - f->n + i];
        int64_t span = bl_frame_span(f, i), most = f->after[i] + f->stride[i] - 1;
        most = most < span - 1 ? most : span - 1;
        if (bl_is_const(extent)) { /* only as much as needed */
            int64_t inside = bl_const_value(extent).i + f->before[i], length = inside + most;
            if (length >= span && length < INT64_MAX / 2)
                most = (length - span) / f->stride[i] * f->stride[i] + span - inside;
        }
        f->after[i] = f->after[i] > most ? f->after[i] : most;
    }
}

/* Windows that do not overlap are a reshape: [.., H, W] to [.., oh, kh, ow, kw]. NULL for other windows. */
static const bl_node *tile(bl_call *c, const bl_node *x, const bl_frame *f)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + BL_FRAME_AXES];
    const bl_node *const *whole = x->dim;
    int first = x->ndim - f->n;

    for (int i = 0; i < f->n; i++) {
        if (f->stride[i] != f->size[i] || f->dilation[i] != 1 || f->before[i] != 0 || f->after[i] != 0 ||
            !bl_is_const(whole[first + i]))
            return NULL;
    }
    for (int i = 0; i < first; i++)
        dim[i] = whole[i];
    for (int i = 0; i < f->n; i++) {
        int64_t n = bl_const_value(whole[first + i]).i / f->size[i];
        if (n == 0)
            return NULL; /* bl_frame_slide reports the error */
        dim[first + 2 * i] = bl_index(ir, n);
        dim[first + 2 * i + 1] = bl_index(ir, f->size[i]);
        x = bl_shrink_axis(ir, x, first + i, bl_index(ir, 0), bl_index(ir, n * f->size[i]));
    }
    return bl_call_reshape(c, x, first + 2 * f->n, dim);
}

/* The windows of x; *folded is the mask of the axes within a window. |outside| fills the padding (NULL: zero). */
static const bl_node *windows(bl_call *c, const bl_node *x, const bl_frame *f, const bl_node *outside, uint32_t *folded)
{
    int first = x->ndim - f->n;

    *folded = 0;
    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < f->n; i++) {
        if (x->dim[first + i]->hi == 0)
            return bl_call_fail(c, "the reduction has no elements: shape %s, axis %d", bl_call_shape(c, x), first + i);
    }
    const bl_node *tiles = tile(c, x, f);
    for (int i = 0; i < f->n; i++)
        *folded |= 1u << (tiles != NULL ? first + 2 * i + 1 : first + f->n + i);
    return tiles != NULL ? tiles : bl_frame_slide(c, bl_frame_pad(c, x, f, outside), f);
}

static const bl_node *pooling_fold(bl_call *c, bl_op op, const bl_node *x, uint32_t axes)
{
    return x->op == BL_OP_POISON ? x : bl_drop_axes(c->ir, bl_reduce(c->ir, op, x, axes), axes);
}

/* The windows of a max pool over |n| axes; POISON after a failure. */
static const bl_node *max_windows(bl_call *c, int n, bl_frame *f, uint32_t *folded)
{
    const bl_node *x = c->in[0];
    bl_dtype dtype = (bl_dtype)x->dtype;

    if (dtype == BL_BOOL)
        return bl_call_fail(c, "is not defined for bool");
    if (!pooling_take_frame(c, n, f) || !bl_call_each(c, "dilation", 1, n, f->dilation))
        return bl_call_fail_as(c, BL_EBUG, "failed without a reason"); /* the first failure is kept */
    if (bl_attr(c, "ceil_mode")->flag)
        hang_over(x, f);
    return windows(c, x, f, bl_const(c->ir, dtype, bl_scalar_lowest(dtype)), folded);
}

static const bl_node *max_pool(bl_call *c, int n)
{
    bl_frame f = {0};
    uint32_t folded = 0;
    const bl_node *x = max_windows(c, n, &f, &folded);
    return pooling_fold(c, BL_OP_MAX, x, folded);
}

const bl_node *expand_max_pool2d(bl_call *c)
{
    return max_pool(c, 2);
}

const bl_node *expand_max_pool(bl_call *c)
{
    return max_pool(c, count_axes(c));
}

/* The smallest position among those of a window that hold its largest value. NaN counts as the largest. Positions outside the
 * plane are larger than all others. */
const bl_node *expand_max_pool_indices(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_node *dim[BL_MAX_DIMS];
    bl_frame f = {0};
    uint32_t folded = 0;
    const bl_node *wide = max_windows(c, count_axes(c), &f, &folded);

    if (wide->op == BL_OP_POISON)
        return wide;
    const bl_node *count = bl_shape_count(ir, f.n, x->dim + x->ndim - f.n);
    bl_dtype counter = count->hi < INT32_MAX ? BL_I32 : BL_I64;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i < x->ndim - f.n ? bl_index(ir, 1) : x->dim[i];
    const bl_node *outside = bl_cast(ir, counter, count);
    const bl_node *position = bl_call_reshape(c, bl_iota(ir, counter, count), x->ndim, dim);
    position = windows(c, position, &f, outside, &folded);
    position = bl_call_expand(c, position, wide->ndim, wide->dim);
    const bl_node *best = bl_reduce(ir, BL_OP_MAX, wide, folded);
    const bl_node *here = bl_alu2(ir, BL_OP_CMPEQ, wide, bl_spread(ir, best, wide));
    if (bl_dtype_is_float((bl_dtype)x->dtype))
        here = bl_alu2(ir, BL_OP_OR, here, bl_is_nan(ir, wide));
    position = bl_where(ir, here, position, bl_spread(ir, outside, wide));
    c->result[0] = bl_drop_axes(ir, best, folded);
    c->result[1] = bl_cast(ir, BL_I64, pooling_fold(c, BL_OP_MIN, position, folded));
    return c->result[0];
}

/* The number of elements that each window along one axis of |y| covers between |low| and |high| of the padded axis. */
static const bl_node *count_window(bl_ir *ir, const bl_node *y, int axis, int64_t stride, int64_t size, int64_t low,
                                   const bl_node *high)
{
    const bl_node *start = bl_iota_like(ir, y, axis, BL_I64);

    if (start->op == BL_OP_POISON)
        return start;
    start = bl_mul(ir, start, bl_spread(ir, bl_const_int(ir, BL_I64, stride), y));
    const bl_node *end = bl_add(ir, start, bl_spread(ir, bl_const_int(ir, BL_I64, size), y));
    end = bl_alu2(ir, BL_OP_MIN, end, bl_spread(ir, bl_cast(ir, BL_I64, high), y));
    start = bl_alu2(ir, BL_OP_MAX, start, bl_spread(ir, bl_const_int(ir, BL_I64, low), y));
    return bl_cast(ir, (bl_dtype)y->dtype, bl_sub(ir, end, start));
}

/* Counts as PyTorch does: the padding if count_include_pad, but never the padding that ceil_mode adds. */
static const bl_node *avg_pool(bl_call *c, int n)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    bool padding = bl_attr(c, "count_include_pad")->flag;
    double whole = 1;
    bl_frame f;
    uint32_t folded;

    if (!pooling_take_frame(c, n, &f))
        return x;
    bl_frame hung = f;
    if (bl_attr(c, "ceil_mode")->flag)
        hang_over(x, &hung);
    const bl_node *y = windows(c, x, &hung, NULL, &folded);
    y = pooling_fold(c, BL_OP_ADD, y, folded);
    for (int i = 0; i < n && y->op != BL_OP_POISON; i++) {
        int axis = x->ndim - n + i;
        if (hung.after[i] == f.after[i] && (padding || (f.before[i] == 0 && f.after[i] == 0))) {
            whole *= (double)f.size[i];
            continue;
        }
        const bl_node *high = bl_add(ir, x->dim[axis], bl_index(ir, f.before[i] + (padding ? f.after[i] : 0)));
        y = bl_div(ir, y, count_window(ir, y, axis, f.stride[i], f.size[i], padding ? 0 : f.before[i], high));
    }
    if (y->op != BL_OP_POISON && whole != 1)
        y = bl_div(ir, y, bl_full_like(ir, y, whole));
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, y);
}

const bl_node *expand_avg_pool2d(bl_call *c)
{
    return avg_pool(c, 2);
}

const bl_node *expand_avg_pool(bl_call *c)
{
    return avg_pool(c, count_axes(c));
}

/* Flatten the last |n| axes of x to one of extent |count|. */
static const bl_node *flatten_last(bl_call *c, const bl_node *x, int n, const bl_node *count)
{
    const bl_node *dim[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim - n; i++)
        dim[i] = x->dim[i];
    dim[x->ndim - n] = count;
    return bl_call_reshape(c, x, x->ndim - n + 1, dim);
}

/* For each element of the result, the last element of x whose index refers to it, or -1. */
static const bl_node *last_writer(bl_call *c, const bl_node *index, const bl_node *count)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + 1];
    int last = index->ndim - 1;

    if (index->op == BL_OP_POISON)
        return index;
    bool narrow = count->hi < INT32_MAX && index->dim[last]->hi < INT32_MAX && index->dtype != BL_U32;
    bl_dtype counter = narrow && bl_dtype_bytes((bl_dtype)index->dtype) <= 4 ? BL_I32 : BL_I64;
    for (int i = 0; i < last; i++)
        dim[i] = index->dim[i];
    dim[last] = count;
    dim[last + 1] = index->dim[last];
    index = bl_add_axis(ir, bl_cast(ir, counter, index), last);
    index = bl_call_expand(c, index, last + 2, dim);
    if (index->op == BL_OP_POISON)
        return index;
    const bl_node *here = bl_alu2(ir, BL_OP_CMPEQ, index, bl_iota_like(ir, index, last, counter));
    const bl_node *writer = bl_where(ir, here, bl_iota_like(ir, index, last + 1, counter), bl_full_like(ir, index, -1));
    return pooling_fold(c, BL_OP_MAX, writer, 1u << (last + 1));
}

/* Each element of the result finds its writer, instead of a scatter: the last writer wins, in order. */
const bl_node *expand_max_unpool(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0], *index = c->in[1];
    const bl_value *asked = bl_attr(c, "output_size");
    const bl_node *dim[BL_MAX_DIMS];
    int n = count_axes(c), first = x->ndim - n;
    bl_frame f;

    if (!pooling_take_frame(c, n, &f))
        return x;
    if (!bl_shape_equal(x, index))
        return bl_call_fail(c, "x and indices must be of one shape: %s and %s", bl_call_shape(c, x), bl_call_shape(c, index));
    if (asked->given && asked->count != n)
        return bl_call_fail(c, "output_size must have %d numbers, not %d", n, asked->count);
    for (int i = 0; i < x->ndim; i++) {
        int at = i - first;
        dim[i] = x->dim[i];
        if (at >= 0 && !asked->given)
            dim[i] = bl_add(ir, bl_mul(ir, bl_sub(ir, x->dim[i], bl_index(ir, 1)), bl_index(ir, f.stride[at])),
                            bl_index(ir, f.size[at] - f.before[at] - f.after[at]));
        else if (at >= 0)
            dim[i] = asked->sizes[at];
    }
    const bl_node *count = bl_shape_count(ir, n, dim + first);
    const bl_node *from = bl_shape_count(ir, n, x->dim + first);
    if (count->op == BL_OP_POISON || count->lo < 0)
        return bl_call_fail(c, "a size may not be negative: %s", bl_shape_text(ir, x->ndim, dim, NULL));
    bl_call_check_index(c, index,
                        &(bl_index_bound){.extent = count, .what = "index", .before = "the plane has size", .after = ""});
    const bl_node *writer = last_writer(c, flatten_last(c, index, n, from), count);
    return bl_call_reshape(c, bl_gather(ir, flatten_last(c, x, n, from), writer, first), x->ndim, dim);
}
