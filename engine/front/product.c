/* SPDX-License-Identifier: MIT */
/* Matrix products: multiply under broadcasting, then reduce.  16-bit floats accumulate in float32. */
#include "engine/front/build.h"

#include <string.h>

/* Sum of x * y over the axes, which are dropped; all of one shape already. */
static const bl_node *contract(bl_call *c, const bl_node *x, const bl_node *y, uint32_t axes)
{
    const bl_node *both[2] = {bl_widen(c->ir, x), bl_widen(c->ir, y)};
    if (!bl_call_broadcast(c, 2, both))
        return both[0];
    const bl_node *sum = bl_reduce(c->ir, BL_OP_ADD, bl_mul(c->ir, both[0], both[1]), axes);
    return bl_drop_axes(c->ir, sum, axes);
}

/* The batch axes of x and y broadcast: NULL dims after a failure. */
static bool check_batches(bl_call *c, const bl_node *x, const bl_node *y)
{
    for (int i = 3; i <= x->ndim && i <= y->ndim; i++) {
        const bl_node *a = x->dim[x->ndim - i];
        const bl_node *b = y->dim[y->ndim - i];
        if (a != b && !bl_is_int(a, 1) && !bl_is_int(b, 1)) {
            bl_call_fail(c, "batch dimensions do not broadcast: %s @ %s", bl_call_shape(c, x), bl_call_shape(c, y));
            return false;
        }
    }
    return true;
}

const bl_node *expand_matmul(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_node *y = c->in[1];
    bool row = x->ndim == 1;
    bool column = y->ndim == 1;
    int perm[BL_MAX_DIMS];

    if (x->ndim == 0 || y->ndim == 0)
        return bl_call_fail(c, "needs at least one dimension: %s @ %s", bl_call_shape(c, x), bl_call_shape(c, y));
    if (x->dim[x->ndim - 1] != y->dim[column ? 0 : y->ndim - 2])
        return bl_call_fail(c, "inner dimensions differ: %s @ %s", bl_call_shape(c, x), bl_call_shape(c, y));
    if (!check_batches(c, x, y))
        return x;
    /* x [.., M, 1, K] and y [.., 1, N, K], M or N 1 for a vector and dropped at the end */
    x = bl_add_axis(ir, row ? bl_add_axis(ir, x, 0) : x, row ? 1 : x->ndim - 1);
    if (!column) {
        for (int i = 0; i < y->ndim; i++)
            perm[i] = i < y->ndim - 2 ? i : 2 * y->ndim - 3 - i;
        y = bl_permute(ir, y, perm);
    } else {
        y = bl_add_axis(ir, y, 0);
    }
    y = bl_add_axis(ir, y, y->ndim - 2);
    if (x->op == BL_OP_POISON || y->op == BL_OP_POISON)
        return x;
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    const bl_node *z = contract(c, x, y, 1u << (ndim - 1)); /* [.., M, N] */
    uint32_t drop = (row ? 1u << (ndim - 3) : 0) | (column ? 1u << (ndim - 2) : 0);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, bl_drop_axes(ir, z, drop));
}

/* x @ y of matrices, their batch axes alike. */
static const bl_node *product(bl_call *c, const bl_node *x, const bl_node *y)
{
    int perm[BL_MAX_DIMS];
    for (int i = 0; i < y->ndim; i++)
        perm[i] = i < y->ndim - 2 ? i : 2 * y->ndim - 3 - i;
    y = bl_add_axis(c->ir, bl_permute(c->ir, y, perm), y->ndim - 2);
    return contract(c, bl_add_axis(c->ir, x, x->ndim - 1), y, 1u << x->ndim);
}

/* y + bias, the bias along |axis|. */
static const bl_node *add_bias(bl_call *c, const bl_node *y, const bl_node *bias, int axis)
{
    const bl_node *dim[BL_MAX_DIMS];

    if (bias == NULL || y->op == BL_OP_POISON)
        return y;
    if (bias->ndim != 1 || bias->dim[0] != y->dim[axis])
        return bl_call_fail(c, "bias must have shape %s, not %s", bl_shape_text(c->ir, 1, &y->dim[axis], NULL),
                            bl_call_shape(c, bias));
    for (int i = 0; i < y->ndim; i++)
        dim[i] = i == axis ? y->dim[axis] : bl_index(c->ir, 1);
    bias = bl_reshape(c->ir, bl_cast(c->ir, (bl_dtype)y->dtype, bias), y->ndim, dim);
    return bl_add(c->ir, y, bl_spread(c->ir, bias, y));
}

const bl_node *expand_linear(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    const bl_node *w = c->in[1];

    if (x->ndim == 0 || w->ndim != 2)
        return bl_call_fail(c, "needs x [.., in] and weight [out, in], not %s and %s", bl_call_shape(c, x), bl_call_shape(c, w));
    if (x->dim[x->ndim - 1] != w->dim[1])
        return bl_call_fail(c, "inner dimensions differ: %s @ %s transposed", bl_call_shape(c, x), bl_call_shape(c, w));
    const bl_node *y = contract(c, bl_add_axis(ir, x, x->ndim - 1), w, 1u << x->ndim);
    y = add_bias(c, y, c->in[2], x->ndim - 1);
    return bl_cast(ir, (bl_dtype)x->dtype, y);
}

/* What a window moves over: the last two axes. */
typedef struct frame {
    int64_t size[2], stride[2], padding[2], dilation[2];
} frame;

static const bl_node *pad_frame(bl_call *c, const bl_node *x, const frame *f, const bl_node *value)
{
    const bl_node *amount[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++)
        amount[i] = bl_index(c->ir, i < x->ndim - 2 ? 0 : f->padding[i - (x->ndim - 2)]);
    return bl_pad_with(c->ir, x, amount, amount, value);
}

/* [.., H, W] to [.., oh, ow, kh, kw], or a failure that says which window is too large. */
static const bl_node *slide(bl_call *c, const bl_node *x, const frame *f)
{
    int first = x->ndim - 2;

    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < 2; i++) {
        int64_t reach;
        if (!__builtin_mul_overflow(f->dilation[i], f->size[i] - 1, &reach) && reach < x->dim[first + i]->lo)
            continue;
        return bl_call_fail(c, "a window of %lld (dilation %lld) is larger than the padded input: %s", (long long)f->size[i],
                            (long long)f->dilation[i], bl_call_shape(c, x));
    }
    x = bl_window(c->ir, x, first, f->size[0], f->stride[0], f->dilation[0]);
    return bl_window(c->ir, x, first + 1, f->size[1], f->stride[1], f->dilation[1]);
}

static bool check_conv(bl_call *c, const bl_node *x, const bl_node *w, int64_t groups)
{
    if (x->ndim != 4 || w->ndim != 4) {
        bl_call_fail(c, "needs x [N, C, H, W] and weight [O, C / groups, kH, kW], not %s and %s", bl_call_shape(c, x),
                     bl_call_shape(c, w));
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (!bl_is_const(w->dim[i]) || (i > 1 && bl_is_int(w->dim[i], 0))) {
            bl_call_fail(c, "weight must have fixed sizes, not %s", bl_call_shape(c, w));
            return false;
        }
    }
    if (!bl_is_const(x->dim[1])) {
        bl_call_fail(c, "the channels of x must be a fixed size, not %s", bl_call_shape(c, x));
        return false;
    }
    int64_t channels = bl_const_value(x->dim[1]).i;
    int64_t out = bl_const_value(w->dim[0]).i;
    int64_t per_group = bl_const_value(w->dim[1]).i;
    if (groups >= 1 && channels % groups == 0 && out % groups == 0 && channels / groups == per_group)
        return true;
    bl_call_fail(c, "channels do not fit: x %s, weight %s, groups %lld", bl_call_shape(c, x), bl_call_shape(c, w),
                 (long long)groups);
    return false;
}

/* Patches [N, G, O/G, oh, ow, C/G, kh, kw] (O/G repeated) times weight, reduced over the last three: nothing is copied. */
const bl_node *expand_conv2d(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    const bl_node *w = bl_widen(ir, c->in[1]);
    int64_t groups = bl_attr(c, "groups")->whole;
    frame f;

    if (!check_conv(c, x, w, groups) || !bl_call_pair(c, "stride", 1, f.stride) || !bl_call_pair(c, "padding", 0, f.padding) ||
        !bl_call_pair(c, "dilation", 1, f.dilation))
        return x;
    const bl_node *one = bl_index(ir, 1);
    const bl_node *g = bl_index(ir, groups);
    const bl_node *out = bl_index(ir, bl_const_value(w->dim[0]).i / groups);
    for (int i = 0; i < 2; i++)
        f.size[i] = bl_const_value(w->dim[2 + i]).i;
    const bl_node *p = slide(c, pad_frame(c, x, &f, NULL), &f); /* [N, C, oh, ow, kh, kw] */
    const bl_node *oh = p->dim[2];
    const bl_node *ow = p->dim[3];
    p = bl_reshape(ir, p, 7, (const bl_node *const[]){x->dim[0], g, w->dim[1], oh, ow, w->dim[2], w->dim[3]});
    if (p->op == BL_OP_POISON)
        return p;
    p = bl_permute(ir, p, (const int[]){0, 1, 3, 4, 2, 5, 6});
    p = bl_add_axis(ir, p, 2);
    w = bl_reshape(ir, w, 8, (const bl_node *const[]){one, g, out, one, one, w->dim[1], w->dim[2], w->dim[3]});
    const bl_node *y = contract(c, p, w, 7u << 5); /* [N, G, O/G, oh, ow] */
    y = bl_reshape(ir, y, 4, (const bl_node *const[]){x->dim[0], c->in[1]->dim[0], oh, ow});
    y = add_bias(c, y, c->in[2], 1);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, y);
}

static bool take_frame(bl_call *c, frame *f)
{
    if (c->in[0]->ndim < 2) {
        bl_call_fail(c, "needs [.., H, W], not %s", bl_call_shape(c, c->in[0]));
        return false;
    }
    if (!bl_call_pair(c, "kernel_size", 1, f->size) || !bl_call_pair(c, "padding", 0, f->padding))
        return false;
    memcpy(f->stride, f->size, sizeof f->stride);
    f->dilation[0] = f->dilation[1] = 1;
    if (bl_attr(c, "stride")->given && !bl_call_pair(c, "stride", 1, f->stride))
        return false;
    for (int i = 0; i < 2; i++) {
        if (f->padding[i] > f->size[i] / 2) {
            bl_call_fail(c, "padding %lld is more than half of kernel_size %lld", (long long)f->padding[i],
                         (long long)f->size[i]);
            return false;
        }
    }
    return true;
}

/* Windows that do not overlap are a reshape: [.., H, W] to [.., oh, kh, ow, kw].  NULL where they are not such. */
static const bl_node *tile(bl_call *c, const bl_node *x, const frame *f)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + 2];
    const bl_node *const *whole = x->dim;
    int first = x->ndim - 2;

    for (int i = 0; i < 2; i++) {
        if (f->stride[i] != f->size[i] || f->dilation[i] != 1 || f->padding[i] != 0 || !bl_is_const(whole[first + i]))
            return NULL;
    }
    for (int i = 0; i < first; i++)
        dim[i] = whole[i];
    for (int i = 0; i < 2; i++) {
        int64_t n = bl_const_value(whole[first + i]).i / f->size[i];
        if (n == 0)
            return NULL; /* slide says what is wrong */
        dim[first + 2 * i] = bl_index(ir, n);
        dim[first + 2 * i + 1] = bl_index(ir, f->size[i]);
        x = bl_shrink_axis(ir, x, first + i, bl_index(ir, 0), bl_index(ir, n * f->size[i]));
    }
    return bl_call_reshape(c, x, first + 4, dim);
}

/* The windows of x folded, [.., oh, ow].  |outside| stands in the padding (NULL: zero). */
static const bl_node *pool(bl_call *c, bl_op fold, const bl_node *x, const frame *f, const bl_node *outside)
{
    int first = x->ndim - 2;
    if (x->op == BL_OP_POISON)
        return x;
    const bl_node *tiles = tile(c, x, f);
    const bl_node *windows = tiles != NULL ? tiles : slide(c, pad_frame(c, x, f, outside), f);

    if (windows->op == BL_OP_POISON)
        return windows;
    uint32_t axes = (tiles != NULL ? 5u << 1 : 3u << 2) << first;
    return bl_drop_axes(c->ir, bl_reduce(c->ir, fold, windows, axes), axes);
}

const bl_node *expand_max_pool2d(bl_call *c)
{
    const bl_node *x = c->in[0];
    frame f;

    if (x->dtype == BL_BOOL)
        return bl_call_fail(c, "has no meaning for bool");
    if (!take_frame(c, &f) || !bl_call_pair(c, "dilation", 1, f.dilation))
        return x;
    bl_dtype dtype = (bl_dtype)x->dtype;
    return pool(c, BL_OP_MAX, x, &f, bl_const(c->ir, dtype, bl_scalar_lowest(dtype)));
}

const bl_node *expand_avg_pool2d(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    frame f;

    if (!take_frame(c, &f))
        return x;
    const bl_node *sum = pool(c, BL_OP_ADD, x, &f, NULL);
    const bl_node *count = bl_full_like(ir, sum, (double)f.size[0] * (double)f.size[1]);
    if (!bl_attr(c, "count_include_pad")->flag && (f.padding[0] != 0 || f.padding[1] != 0))
        count = pool(c, BL_OP_ADD, bl_full_like(ir, x, 1), &f, NULL);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, bl_div(ir, sum, count));
}

const bl_node *expand_newton_schulz(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    const bl_value *p = bl_attr(c, "params");
    int64_t steps = bl_attr(c, "steps")->whole;

    if (x->ndim < 2)
        return bl_call_fail(c, "needs a matrix, not %s", bl_call_shape(c, x));
    if (p->count != 3 || steps < 0 || steps > 100)
        return bl_call_fail(c, "needs three params and 0 to 100 steps");
    uint32_t axes = 3u << (x->ndim - 2);
    const bl_node *norm = bl_alu1(ir, BL_OP_SQRT, bl_reduce(ir, BL_OP_ADD, bl_mul(ir, x, x), axes));
    x = bl_div(ir, x, bl_spread(ir, bl_add_real(ir, norm, bl_attr(c, "eps")->real), x));
    int perm[BL_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i < x->ndim - 2 ? i : 2 * x->ndim - 3 - i;
    bool tall = bl_sub(ir, x->dim[x->ndim - 2], x->dim[x->ndim - 1])->lo > 0;
    x = tall ? bl_permute(ir, x, perm) : x;
    for (int64_t i = 0; i < steps; i++) {
        const bl_node *a = product(c, x, bl_permute(ir, x, perm));
        const bl_node *b = bl_add(ir, bl_mul_real(ir, a, p->reals[1]), bl_mul_real(ir, product(c, a, a), p->reals[2]));
        x = bl_add(ir, bl_mul_real(ir, x, p->reals[0]), product(c, b, x));
    }
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, tall ? bl_permute(ir, x, perm) : x);
}
