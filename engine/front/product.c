/* SPDX-License-Identifier: MIT */
/* Matrix products and convolutions: multiply with broadcasting, then reduce. 16-bit floats accumulate in float32. */
#include "engine/front/build.h"
#include "engine/front/winograd.h"
#include "engine/grad/grad.h"
#include "engine/ir/winograd_transforms.h"

/* The sum of x * y over |axes|, which are dropped. */
static const bl_node *contract(bl_call *c, const bl_node *x, const bl_node *y, uint32_t axes)
{
    const bl_node *both[2] = {bl_widen(c->ir, x), bl_widen(c->ir, y)};
    if (!bl_call_broadcast(c, 2, both))
        return both[0];
    const bl_node *sum = bl_reduce(c->ir, BL_OP_ADD, bl_mul(c->ir, both[0], both[1]), axes);
    return bl_drop_axes(c->ir, sum, axes);
}

/* Can the batch axes of x and y be broadcast? False after a failure. */
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
    /* x [.., M, 1, K] and y [.., 1, N, K]; for a vector, M or N is 1 and dropped at the end */
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

/* y + bias, with the bias along |axis|. */
static const bl_node *product_add_bias(bl_call *c, const bl_node *y, const bl_node *bias, int axis)
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
    y = product_add_bias(c, y, c->in[2], x->ndim - 1);
    return bl_cast(ir, (bl_dtype)x->dtype, y);
}

/* Check x [N, C, ...] and weight [O, C / groups, ...], or if transposed [C, O / groups, ...], with |n| axes for a window.
 * |wanted| describes the shapes for error texts. */
static bool check_conv(bl_call *c, int n, bool transposed, const char *wanted)
{
    const bl_node *x = c->in[0], *w = c->in[1];
    int64_t groups = bl_attr(c, "groups")->whole;

    if (n < 1 || x->ndim != n + 2 || w->ndim != n + 2) {
        bl_call_fail(c, "needs %s, not %s and %s", wanted, bl_call_shape(c, x), bl_call_shape(c, w));
        return false;
    }
    for (int i = 0; i < w->ndim; i++) {
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
    int64_t outer = bl_const_value(w->dim[0]).i, inner = bl_const_value(w->dim[1]).i;
    if (groups >= 1 && channels % groups == 0 && outer % groups == 0 &&
        (transposed ? channels == outer : channels / groups == inner))
        return true;
    bl_call_fail(c, "channels do not fit: x %s, weight %s, groups %lld", bl_call_shape(c, x), bl_call_shape(c, w),
                 (long long)groups);
    return false;
}

/* Read the attributes of a convolution over the last |n| axes. */
static bool product_take_frame(bl_call *c, int n, bl_frame *f)
{
    if (n > BL_FRAME_AXES) {
        bl_call_fail_as(c, BL_ELIMIT, "moves over at most %d axes, not %d", BL_FRAME_AXES, n);
        return false;
    }
    f->n = n;
    for (int i = 0; i < n; i++)
        f->size[i] = bl_const_value(c->in[1]->dim[2 + i]).i;
    return bl_call_each(c, "stride", 1, n, f->stride) && bl_call_each(c, "dilation", 1, n, f->dilation) &&
           bl_frame_take_padding(c, f);
}

/* Patches [N, C, o.., k..] and weight [G, O/G, C/G, k..]: the patches as [N, G, 1, o.., C/G, k..] times the weight, reduced
 * over the axes after o. Nothing is copied. */
static const bl_node *convolve(bl_call *c, const bl_node *p, const bl_node *w, int n)
{
    bl_ir *ir = c->ir;
    const bl_node *patch[BL_MAX_DIMS], *weight[BL_MAX_DIMS], *whole[BL_MAX_DIMS];
    int perm[BL_MAX_DIMS];

    if (p->op == BL_OP_POISON || w->op == BL_OP_POISON)
        return p->op == BL_OP_POISON ? p : w;
    whole[0] = patch[0] = p->dim[0];
    whole[1] = bl_mul(ir, w->dim[0], w->dim[1]);
    patch[1] = w->dim[0];
    patch[2] = w->dim[2];
    for (int i = 0; i < 2 * n; i++)
        patch[3 + i] = p->dim[2 + i];
    for (int i = 0; i < n; i++)
        whole[2 + i] = p->dim[2 + i];
    for (int i = 0; i < 3 + 2 * n; i++)
        perm[i] = i < 2 ? i : i < 2 + n ? i + 1 : i == 2 + n ? 2 : i;
    for (int i = 0; i < 4 + 2 * n; i++)
        weight[i] = i > 2 + n ? w->dim[i - 1 - n] : i == 1 || i == 2 ? w->dim[i - 1] : bl_index(ir, 1);
    p = bl_call_reshape(c, p, 3 + 2 * n, patch);
    if (p->op == BL_OP_POISON)
        return p;
    p = bl_add_axis(ir, bl_permute(ir, p, perm), 2);
    w = bl_call_reshape(c, w, 4 + 2 * n, weight);
    const bl_node *y = contract(c, p, w, ((2u << n) - 1) << (3 + n)); /* [N, G, O/G, o..] */
    y = product_add_bias(c, bl_call_reshape(c, y, 2 + n, whole), c->in[2], 1);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, y);
}

/* Whether to use Winograd's transforms: as attribute |form| says, or as the setting says. */
static bl_winograd_use winograd_use(bl_call *c)
{
    const char *form = bl_attr(c, "form")->text;
    return form[0] == 'd' ? BL_WINOGRAD_NEVER : form[0] == 'w' ? BL_WINOGRAD_ALWAYS : c->build->options->winograd;
}

static bl_correlation correlation_of(const bl_frame *f, int tile)
{
    bl_correlation c = {.tile = tile};
    for (int i = 0; i < 2; i++) {
        c.before[i] = (int)f->before[i];
        c.after[i] = (int)f->after[i];
    }
    return c;
}

static const bl_node *conv(bl_call *c, int n, const char *wanted)
{
    bl_ir *ir = c->ir;
    const bl_node *w = bl_widen(ir, c->in[1]);
    const bl_node *dim[BL_MAX_DIMS + 1];
    bl_frame f;

    if (!check_conv(c, n, false, wanted) || !product_take_frame(c, n, &f))
        return w;
    int64_t groups = bl_attr(c, "groups")->whole;
    int tile = bl_winograd_tile(c->build->options, c->in[0], c->in[1], &f, groups, winograd_use(c));
    if (tile > 0) {
        return product_add_bias(c, bl_winograd(ir, c->in[0], w, correlation_of(&f, tile)), c->in[2], 1);
    }
    dim[0] = bl_index(ir, groups);
    dim[1] = bl_index(ir, bl_const_value(w->dim[0]).i / groups);
    for (int i = 1; i < w->ndim; i++)
        dim[i + 1] = w->dim[i];
    const bl_node *patches = bl_frame_slide(c, bl_frame_pad(c, bl_widen(ir, c->in[0]), &f, NULL), &f);
    return convolve(c, patches, bl_call_reshape(c, w, 3 + n, dim), n);
}

const bl_node *expand_conv2d(bl_call *c)
{
    return conv(c, 2, "x [N, C, H, W] and weight [O, C / groups, kH, kW]");
}

const bl_node *expand_conv(bl_call *c)
{
    return conv(c, c->in[0]->ndim - 2, "x [N, C, ...] and weight [O, C / groups, ...]");
}

/* [C, O/G, k..] to [G, O/G, C/G, k..], with each k axis flipped. */
static const bl_node *turn_weight(bl_call *c, const bl_node *w, int64_t groups)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + 1];
    int perm[BL_MAX_DIMS];

    dim[0] = bl_index(ir, groups);
    dim[1] = bl_index(ir, bl_const_value(w->dim[0]).i / groups);
    for (int i = 0; i < w->ndim + 1; i++) {
        perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
        if (i > 1)
            dim[i] = w->dim[i - 1];
    }
    w = bl_permute(ir, bl_call_reshape(c, w, w->ndim + 1, dim), perm);
    return w->op == BL_OP_POISON ? w : bl_flip(ir, w, ((1u << w->ndim) - 1) & ~7u);
}

/* The contribution of each element of x [N, C, i..] to each position of its window by the weight [C, O/G, k..]: [N, O, i..,
 * k..]. */
static const bl_node *give_to_windows(bl_call *c, const bl_node *x, const bl_node *w, int n, int64_t groups)
{
    bl_ir *ir = c->ir;
    const bl_node *given[BL_MAX_DIMS], *weight[BL_MAX_DIMS], *whole[BL_MAX_DIMS], *one = bl_index(ir, 1);
    const bl_node *each = bl_index(ir, bl_const_value(w->dim[0]).i / groups);

    given[0] = whole[0] = x->dim[0];
    whole[1] = bl_mul(ir, bl_index(ir, groups), w->dim[1]);
    given[3] = weight[0] = one;
    given[1] = weight[1] = bl_index(ir, groups);
    given[2] = weight[2] = each;
    weight[3] = w->dim[1];
    for (int i = 0; i < n; i++) {
        given[4 + i] = whole[2 + i] = x->dim[2 + i];
        weight[4 + n + i] = whole[2 + n + i] = w->dim[2 + i];
        given[4 + n + i] = weight[4 + i] = one;
    }
    x = bl_call_reshape(c, x, 4 + 2 * n, given);
    w = bl_call_reshape(c, w, 4 + 2 * n, weight);
    return bl_call_reshape(c, contract(c, x, w, 1u << 2), 2 + 2 * n, whole);
}

/* The extent along axis |i| that the windows reach, before padding is cropped or added. */
static const bl_node *reached(bl_call *c, const bl_frame *f, int i)
{
    const bl_node *last = bl_sub(c->ir, c->in[0]->dim[2 + i], bl_index(c->ir, 1));
    return bl_add(c->ir, bl_mul(c->ir, last, bl_index(c->ir, f->stride[i])), bl_index(c->ir, bl_frame_span(f, i)));
}

/* The gradient of a convolution with respect to its input: contributions to window positions are added up. */
static const bl_node *fill_windows(bl_call *c, bl_frame *f, const int64_t *extra)
{
    const bl_node *x = bl_widen(c->ir, c->in[0]), *w = bl_widen(c->ir, c->in[1]);
    const bl_node *y = NULL;

    for (int i = 0; i < f->n; i++) {
        if (f->stride[i] >> BL_WINDOW_BITS != 0 || f->dilation[i] >> BL_WINDOW_BITS != 0)
            return bl_call_fail_as(c, BL_ELIMIT, "stride %lld or dilation %lld is too large", (long long)f->stride[i],
                                   (long long)f->dilation[i]);
    }
    y = give_to_windows(c, x, w, f->n, bl_attr(c, "groups")->whole);
    for (int i = f->n - 1; i >= 0; i--)
        y = bl_unwindow(c->ir, y, 2 + i, reached(c, f, i), f->stride[i], f->dilation[i]);
    for (int i = 0; i < f->n; i++) {
        f->before[i] = -f->before[i];
        f->after[i] = extra[i] - f->after[i];
    }
    y = product_add_bias(c, bl_frame_pad(c, y, f, NULL), c->in[2], 1);
    return bl_cast(c->ir, (bl_dtype)c->in[0]->dtype, y);
}

/* Read output_padding. False after a failure. */
static bool take_extra(bl_call *c, const bl_frame *f, int64_t *extra)
{
    if (!bl_call_each(c, "output_padding", 0, f->n, extra))
        return false;
    for (int i = 0; i < f->n; i++) {
        const bl_node *extent = c->in[0]->dim[2 + i];
        if (extra[i] >= f->stride[i] && extra[i] >= f->dilation[i]) {
            bl_call_fail(c, "output_padding %lld must be less than stride %lld or dilation %lld", (long long)extra[i],
                         (long long)f->stride[i], (long long)f->dilation[i]);
            return false;
        }
        if (extent->lo < 1 || (extent->lo - 1) * f->stride[i] + bl_frame_span(f, i) + extra[i] - f->before[i] - f->after[i] < 1) {
            bl_call_fail(c, "axis %d of the result would be empty: x %s, padding %lld", 2 + i, bl_call_shape(c, c->in[0]),
                         (long long)f->before[i]);
            return false;
        }
    }
    return true;
}

/* For stride 1, a transposed convolution is a convolution with the flipped weight over x, padded so that every window fits that
 * holds an element, less the padding. */
const bl_node *expand_conv_transpose(bl_call *c)
{
    const bl_node *x = bl_widen(c->ir, c->in[0]);
    int n = x->ndim - 2;
    int64_t extra[BL_FRAME_AXES];
    bool dense = true;
    bl_frame f;

    if (!check_conv(c, n, true, "x [N, C, ...] and weight [C, O / groups, ...]") || !product_take_frame(c, n, &f) ||
        !take_extra(c, &f, extra))
        return x;
    for (int i = 0; i < n; i++)
        dense = dense && f.stride[i] == 1;
    if (!dense)
        return fill_windows(c, &f, extra);
    for (int i = 0; i < n; i++) {
        f.before[i] = bl_frame_span(&f, i) - 1 - f.before[i];
        f.after[i] = bl_frame_span(&f, i) - 1 - f.after[i] + extra[i];
    }
    const bl_node *w = turn_weight(c, bl_widen(c->ir, c->in[1]), bl_attr(c, "groups")->whole);
    return convolve(c, bl_frame_slide(c, bl_frame_pad(c, x, &f, NULL), &f), w, n);
}
