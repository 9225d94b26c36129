/* SPDX-License-Identifier: MIT */
#include "engine/grad/vjp.h"

#include "engine/grad/grad.h"
#include "engine/ir/shape.h"
#include "engine/ir/winograd_transforms.h"

static const bl_node *zeros_like(bl_ir *ir, const bl_node *x)
{
    return bl_full_like(ir, x, 0);
}

static const bl_node *scale(bl_ir *ir, const bl_node *x, double by)
{
    return bl_mul(ir, x, bl_full_like(ir, x, by));
}

static const bl_node *negate(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_NEG, x);
}

/* The sum over axes, which stay with extent 1. 16-bit floats are summed in float32. */
static const bl_node *sum(bl_ir *ir, const bl_node *x, uint32_t axes)
{
    bl_dtype dtype = (bl_dtype)x->dtype;
    const bl_node *wide = bl_dtype_is_narrow(dtype) ? bl_cast(ir, BL_F32, x) : x;
    return bl_cast(ir, dtype, bl_reduce(ir, BL_OP_ADD, wide, axes));
}

/* 1 - 2 sin(x/2)^2. x/2 is exact, so the argument is not rounded. */
const bl_node *bl_cos(bl_ir *ir, const bl_node *x)
{
    const bl_node *s = bl_alu1(ir, BL_OP_SIN, scale(ir, x, 0.5));
    return bl_sub(ir, bl_full_like(ir, x, 1), scale(ir, bl_mul(ir, s, s), 2));
}

/* ---- scalar ops */

static void vjp_neg(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    (void)node;
    out[0] = negate(ir, g);
}

static void vjp_sqrt(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_div(ir, scale(ir, g, 0.5), node);
}

static void vjp_exp(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_mul(ir, g, node);
}

static void vjp_log(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_div(ir, g, node->src[0]);
}

static void vjp_sin(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_mul(ir, g, bl_cos(ir, node->src[0]));
}

/* Between floats only: a cast through an integer has no derivative. */
static void vjp_cast(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    bl_dtype from = (bl_dtype)node->src[0]->dtype;
    if (bl_dtype_is_float(from) && bl_dtype_is_float((bl_dtype)node->dtype))
        out[0] = bl_cast(ir, from, g);
}

static void vjp_add(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    (void)ir;
    (void)node;
    out[0] = out[1] = g;
}

static void vjp_sub(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    (void)node;
    out[0] = g;
    out[1] = negate(ir, g);
}

static void vjp_mul(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_mul(ir, g, node->src[1]);
    out[1] = bl_mul(ir, g, node->src[0]);
}

static void vjp_div(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_div(ir, g, node->src[1]);
    out[1] = negate(ir, bl_mul(ir, out[0], node));
}

/* The gradient of max or min: all of it to the chosen operand, half to each if they are equal. NaN goes to both, as in
 * PyTorch. */
static void vjp_choose(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node *x_loses, const bl_node *y_loses,
                       const bl_node **out)
{
    const bl_node *tie = bl_alu2(ir, BL_OP_CMPEQ, node->src[0], node->src[1]);
    const bl_node *share = bl_where(ir, tie, scale(ir, g, 0.5), g);
    out[0] = bl_where(ir, x_loses, zeros_like(ir, g), share);
    out[1] = bl_where(ir, y_loses, zeros_like(ir, g), share);
}

static void vjp_max(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *x = node->src[0];
    const bl_node *y = node->src[1];
    vjp_choose(ir, node, g, bl_less(ir, x, y), bl_less(ir, y, x), out);
}

static void vjp_min(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *x = node->src[0];
    const bl_node *y = node->src[1];
    vjp_choose(ir, node, g, bl_less(ir, y, x), bl_less(ir, x, y), out);
}

static bool vjp_is_zero(const bl_node *node)
{
    while (node->op == BL_OP_EXPAND || node->op == BL_OP_RESHAPE)
        node = node->src[0];
    return node->op == BL_OP_CONST && bl_dtype_is_float((bl_dtype)node->dtype) && bl_const_value(node).f == 0;
}

/* Is it where(x <= 0, 0, x), as in relu? Then the result is zero exactly where the condition holds. */
static bool is_relu(const bl_node *node)
{
    const bl_node *condition = node->src[0], *x = node->src[2];

    if (!vjp_is_zero(node->src[1]) || condition->op != BL_OP_OR)
        return false;
    for (int i = 0; i < 2; i++) {
        const bl_node *compare = condition->src[i];
        if (compare->op != (i == 0 ? BL_OP_CMPLT : BL_OP_CMPEQ) || compare->src[0] != x || !vjp_is_zero(compare->src[1]))
            return false;
    }
    return true;
}

/* The condition of a relu is computed from its result, so its input need not be kept. */
static void vjp_where(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *zero = zeros_like(ir, g), *condition = node->src[0];

    if (is_relu(node))
        condition = bl_alu2(ir, BL_OP_CMPEQ, node, zeros_like(ir, node));
    out[1] = bl_where(ir, condition, g, zero);
    out[2] = bl_where(ir, condition, zero, g);
}

/* ---- movement */

static void vjp_reshape(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_reshape(ir, g, node->src[0]->ndim, node->src[0]->dim);
}

static void vjp_permute(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    int inverse[BL_MAX_DIMS];
    for (int i = 0; i < node->ndim; i++)
        inverse[bl_perm_get(node->arg, i)] = i;
    out[0] = bl_permute(ir, g, inverse);
}

static void vjp_expand(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *x = node->src[0];
    int fresh = node->ndim - x->ndim;
    uint32_t axes = 0;

    for (int i = 0; i < node->ndim; i++) {
        if (i < fresh || x->dim[i - fresh] != node->dim[i])
            axes |= 1u << i;
    }
    out[0] = bl_reshape(ir, sum(ir, g, axes), x->ndim, x->dim);
}

static void vjp_pad(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_crop(ir, g, node->src + 1, node->src[0]->dim);
}

static void vjp_shrink(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *after[BL_MAX_DIMS];
    for (int i = 0; i < node->ndim; i++)
        after[i] = bl_sub(ir, node->src[0]->dim[i], bl_add(ir, node->src[i + 1], node->dim[i]));
    out[0] = bl_pad(ir, g, node->src + 1, after);
}

static void vjp_flip(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    out[0] = bl_flip(ir, g, (uint32_t)node->arg);
}

/* Pad one axis with |before| and |after| zeros. */
static const bl_node *pad_axis(bl_ir *ir, const bl_node *x, int axis, const bl_node *before, const bl_node *after)
{
    const bl_node *b[BL_MAX_DIMS];
    const bl_node *a[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++) {
        b[i] = i == axis ? before : bl_index(ir, 0);
        a[i] = i == axis ? after : bl_index(ir, 0);
    }
    return bl_pad(ir, x, b, a);
}

/* Split axis |axis| into extents |outer| and |inner|. */
static const bl_node *vjp_split_axis(bl_ir *ir, const bl_node *x, int axis, const bl_node *outer, const bl_node *inner)
{
    const bl_node *dim[BL_MAX_DIMS + 1];

    for (int i = 0; i < x->ndim; i++)
        dim[i < axis ? i : i + 1] = x->dim[i];
    dim[axis] = outer;
    dim[axis + 1] = inner;
    return x->op == BL_OP_POISON ? x : bl_reshape(ir, x, x->ndim + 1, dim);
}

/* Merge axes |axis| and |axis| + 1. */
static const bl_node *join_axes(bl_ir *ir, const bl_node *x, int axis)
{
    const bl_node *dim[BL_MAX_DIMS];

    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < x->ndim - 1; i++)
        dim[i] = i < axis ? x->dim[i] : i == axis ? bl_mul(ir, x->dim[i], x->dim[i + 1]) : x->dim[i + 1];
    return bl_reshape(ir, x, x->ndim - 1, dim);
}

/* |size| elements along one axis, from |start| on. */
static const bl_node *vjp_part(bl_ir *ir, const bl_node *x, int axis, const bl_node *start, const bl_node *size)
{
    const bl_node *from[BL_MAX_DIMS];
    const bl_node *dim[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++) {
        from[i] = i == axis ? start : bl_index(ir, 0);
        dim[i] = i == axis ? size : x->dim[i];
    }
    return bl_shrink(ir, x, from, dim);
}

/* Insert stride - 1 zeros between the elements along one axis. */
static const bl_node *dilate(bl_ir *ir, const bl_node *x, int axis, int64_t stride)
{
    const bl_node *zero = bl_index(ir, 0);
    const bl_node *count = axis < x->ndim ? x->dim[axis] : x;

    if (stride <= 1 || x->op == BL_OP_POISON)
        return x;
    const bl_node *used = bl_add(ir, bl_mul(ir, bl_sub(ir, count, bl_index(ir, 1)), bl_index(ir, stride)), bl_index(ir, 1));
    x = vjp_split_axis(ir, x, axis, count, bl_index(ir, 1));
    x = pad_axis(ir, x, axis + 1, zero, bl_index(ir, stride - 1));
    return vjp_part(ir, join_axes(ir, x, axis), axis, zero, used);
}

/* The transpose of WINDOW: y[.., o, .., k] = x[.., o * stride + k * dilation, ..], so element c of the gradient of x is the sum
 * of g at all (o, k) with o * stride + k * dilation = c. */
typedef struct placing {
    int axis;                     /* of o; k is the last axis */
    int64_t size;                 /* the extent of k */
    int64_t gap;                  /* sums are at the multiples of |gap|, and zeros between them */
    int64_t stride, dilation;     /* divided by |gap| */
    bool swapped;                 /* o and k are exchanged */
    const bl_node *more;          /* sums of nothing after those that a window reaches */
    const bl_node *before, *sums; /* of all sums, |before| are dropped, then |sums| are needed ... */
    int64_t spare;                /* ... and |spare| are computed too, so that their number is a multiple of |stride| */
    const bl_node *first, *rest;  /* zeros before the first sum and after the last one */
} placing;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Where the UNWINDOW |node| puts its sums. Sums of windows of one element, and those of a single window, have one term. */
static placing place_windows(bl_ir *ir, const bl_node *node)
{
    const bl_node *g = node->src[0], *zero = bl_index(ir, 0), *count = NULL, *sums = NULL, *rest = NULL;
    placing p = {.more = zero, .before = zero, .first = zero, .rest = zero};

    bl_window_get(node->arg, &p.axis, &p.stride, &p.dilation);
    count = g->dim[p.axis];
    p.size = bl_const_value(g->dim[g->ndim - 1]).i;
    /* the elements that no window reaches, in a form that is provably not negative for a named dimension */
    rest = bl_sub(ir, node->dim[p.axis], bl_index(ir, p.dilation * (p.size - 1) + 1));
    rest = bl_mod(ir, rest, bl_index(ir, p.stride));
    p.swapped = p.size > 1 && bl_is_int(count, 1);
    if (p.swapped) {
        count = bl_index(ir, p.size);
        p.stride = p.dilation;
        p.size = 1;
    }
    p.gap = p.size == 1 ? p.stride : common_divisor(p.stride, p.dilation);
    p.stride /= p.gap;
    p.dilation /= p.gap;
    sums = bl_mul(ir, bl_sub(ir, count, bl_index(ir, 1)), bl_index(ir, p.stride));
    p.sums = bl_add(ir, sums, bl_index(ir, p.dilation * (p.size - 1) + 1));
    if (p.gap > 1) {
        p.rest = rest;
    } else {
        p.more = rest;
        p.sums = bl_add(ir, p.sums, rest);
    }
    return p;
}

/* Drop the sums outside of the |size| elements from |start|. False if an extent is named, or if no sum is left. */
static bool crop_sums(bl_ir *ir, placing *p, const bl_node *start, const bl_node *size)
{
    int64_t begin = 0, end = 0, from = 0, to = 0;

    if (!bl_is_const(start) || !bl_is_const(size) || !bl_is_const(p->sums))
        return false;
    begin = bl_const_value(start).i;
    end = begin + bl_const_value(size).i;
    from = quotient_up(begin, p->gap);
    to = quotient_up(end, p->gap);
    to = to < bl_const_value(p->sums).i ? to : bl_const_value(p->sums).i;
    if (to <= from)
        return false;
    p->before = bl_index(ir, from);
    p->sums = bl_index(ir, to - from);
    p->first = bl_index(ir, from * p->gap - begin);
    p->rest = bl_index(ir, end - 1 - (to - 1) * p->gap);
    return true;
}

/* Sums of each phase of the stride, c mod stride, have terms at other k. If all phases are equally long, they are a loop
 * (part_quotients in engine/opt/moves.c). */
static void fill_phases(bl_ir *ir, placing *p)
{
    if (!bl_is_const(p->sums) || p->stride < 2)
        return;
    p->spare = quotient_up(bl_const_value(p->sums).i, p->stride) * p->stride - bl_const_value(p->sums).i;
    p->more = bl_add(ir, p->more, bl_index(ir, p->spare));
}

static const bl_node *swap_axes(bl_ir *ir, const bl_node *x, int a, int b)
{
    int perm[BL_MAX_DIMS];

    for (int i = 0; i < x->ndim; i++)
        perm[i] = i == a ? b : i == b ? a : i;
    return x->op == BL_OP_POISON ? x : bl_permute(ir, x, perm);
}

/* The sums. g is at (c - k * dilation, k), where axis o of g is dilated by the stride. A window over the padded axis o gives all
 * elements (c - (size - 1 - kk) * dilation, k). The wanted elements have size - 1 - kk = k: after a flip of kk they are the
 * diagonal of the last two axes, which is column 0 of rows that are one element longer. All steps but the sum are movement ops,
 * so index expressions stay affine. */
static const bl_node *add_windows(bl_ir *ir, const bl_node *g, const placing *p)
{
    int kept = g->ndim - 1; /* the axis k of g */
    const bl_node *k = bl_index(ir, p->size), *reach = bl_index(ir, p->dilation * (p->size - 1));

    if (g->op == BL_OP_POISON)
        return g;
    g = p->swapped ? swap_axes(ir, g, p->axis, kept) : g;
    g = dilate(ir, g, p->axis, p->stride);
    g = pad_axis(ir, g, p->axis, reach, bl_add(ir, reach, p->more));
    if (p->size > 1) {
        g = bl_window(ir, g, p->axis, p->size, 1, p->dilation); /* [.., m, .., k, kk] */
        g = bl_flip(ir, g, g->op == BL_OP_POISON ? 0 : 1u << (kept + 1));
        g = pad_axis(ir, join_axes(ir, g, kept), kept, bl_index(ir, 0), k);
        g = vjp_split_axis(ir, g, kept, k, bl_index(ir, p->size + 1));
        g = join_axes(ir, vjp_part(ir, g, kept + 1, bl_index(ir, 0), bl_index(ir, 1)), kept); /* [.., m, .., k] */
    }
    if (bl_is_const(p->sums))
        g = vjp_part(ir, g, p->axis, p->before, bl_add(ir, p->sums, bl_index(ir, p->spare)));
    return g->op == BL_OP_POISON ? g : join_axes(ir, sum(ir, g, 1u << kept), kept - 1);
}

/* The value of |form|: UNWINDOWs of UNWINDOWs, as of the windows of a picture along both axes, perhaps in a SHRINK, which removes
 * the padding of the picture. Only sums that the SHRINK needs are computed, and zeros between sums are inserted after the sums
 * along all axes: no sum is computed for an element that stays zero. */
static const bl_node *unwindow_value(bl_ir *ir, const bl_node *form)
{
    const bl_node *crop = form->op == BL_OP_SHRINK ? form : NULL, *at = crop == NULL ? form : crop->src[0], *value = NULL;
    const bl_node *start[BL_MAX_DIMS], *zero = bl_index(ir, 0);
    placing p[BL_MAX_DIMS];
    int n = 0;

    for (int i = 0; i < form->ndim; i++)
        start[i] = crop == NULL ? zero : crop->src[1 + i];
    for (; at->op == BL_OP_UNWINDOW && n < BL_MAX_DIMS; at = at->src[0]) {
        p[n] = place_windows(ir, at);
        if (crop != NULL && crop_sums(ir, &p[n], start[p[n].axis], crop->dim[p[n].axis]))
            start[p[n].axis] = zero;
        fill_phases(ir, &p[n]);
        n++;
    }
    value = at;
    for (int i = n; i-- > 0;)
        value = add_windows(ir, value, &p[i]);
    for (int i = n; i-- > 0;) {
        if (p[i].spare > 0)
            value = vjp_part(ir, value, p[i].axis, zero, p[i].sums);
        value = dilate(ir, value, p[i].axis, p[i].gap);
        value = pad_axis(ir, value, p[i].axis, p[i].first, p[i].rest);
    }
    return crop == NULL || value->op == BL_OP_POISON ? value : bl_shrink(ir, value, start, crop->dim);
}

/* An ALIAS of the form: its gradient is a WINDOW again. */
static const bl_node *alias_unwindow(bl_ir *ir, const bl_node *form)
{
    const bl_node *value = form->op == BL_OP_POISON ? form : unwindow_value(ir, form);
    return value->op == BL_OP_POISON ? value : bl_alias(ir, value, form, 0);
}

static bool is_unwindow(const bl_node *x)
{
    return x->op == BL_OP_ALIAS && x->src[1]->op == BL_OP_UNWINDOW;
}

const bl_node *bl_unwindow(bl_ir *ir, const bl_node *g, int axis, const bl_node *extent, int64_t stride, int64_t dilation)
{
    const bl_node *dim[BL_MAX_DIMS];

    if (g->op == BL_OP_POISON || extent->op == BL_OP_POISON)
        return g->op == BL_OP_POISON ? g : extent;
    g = is_unwindow(g) ? g->src[1] : g;
    for (int i = 0; i < g->ndim - 1; i++)
        dim[i] = i == axis ? extent : g->dim[i];
    return alias_unwindow(ir, bl_node_make(ir, &(bl_node){.op = BL_OP_UNWINDOW,
                                                          .dtype = g->dtype,
                                                          .lanes = 1,
                                                          .nsrc = 1,
                                                          .src = &g,
                                                          .ndim = (uint8_t)(g->ndim - 1),
                                                          .dim = dim,
                                                          .arg = bl_window_pack(axis, stride, dilation)}));
}

const bl_node *bl_crop(bl_ir *ir, const bl_node *x, const bl_node *const *start, const bl_node *const *size)
{
    const bl_node *form = is_unwindow(x) ? bl_shrink(ir, x->src[1], start, size) : x;
    return form->op == BL_OP_SHRINK && form != x ? alias_unwindow(ir, form) : bl_shrink(ir, x, start, size);
}

static void vjp_unwindow(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *x = node->src[0];
    int axis = 0;
    int64_t stride = 0, dilation = 0;

    bl_window_get(node->arg, &axis, &stride, &dilation);
    out[0] = bl_window(ir, g, axis, bl_const_value(x->dim[x->ndim - 1]).i, stride, dilation);
}

static void vjp_window(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    int axis = 0;
    int64_t stride = 0, dilation = 0;

    bl_window_get(node->arg, &axis, &stride, &dilation);
    out[0] = bl_unwindow(ir, g, axis, node->src[0]->dim[axis], stride, dilation);
}

/* ---- the rest */

static const bl_node *spread(bl_ir *ir, const bl_node *x, const bl_node *like)
{
    return bl_expand(ir, x, like->ndim, like->dim);
}

/* The product of the other elements: product / x if no element is zero; at a single zero, the product of the others; otherwise
 * 0. One zero stays as a factor, so that the gradient of this expression is right too. */
static const bl_node *product_gradient(bl_ir *ir, const bl_node *node, const bl_node *g)
{
    const bl_node *x = node->src[0];
    uint32_t axes = (uint32_t)node->arg;
    const bl_node *zero = zeros_like(ir, x);
    const bl_node *one = bl_full_like(ir, x, 1);
    const bl_node *is_zero = bl_alu2(ir, BL_OP_CMPEQ, x, zero);
    const bl_node *safe = bl_where(ir, is_zero, one, x);
    const bl_node *product = spread(ir, bl_reduce(ir, BL_OP_MUL, safe, axes), x);
    const bl_node *zeros = bl_reduce(ir, BL_OP_ADD, bl_cast(ir, BL_I32, is_zero), axes);
    const bl_node *none = spread(ir, bl_alu2(ir, BL_OP_CMPEQ, zeros, bl_full_like(ir, zeros, 0)), x);
    const bl_node *single = spread(ir, bl_alu2(ir, BL_OP_CMPEQ, zeros, bl_full_like(ir, zeros, 1)), x);
    const bl_node *two = spread(ir, bl_alu2(ir, BL_OP_CMPEQ, zeros, bl_full_like(ir, zeros, 2)), x);
    const bl_node *factor = spread(ir, sum(ir, bl_where(ir, is_zero, x, zero), axes), x);
    const bl_node *other = bl_mul(ir, bl_sub(ir, factor, x), product), *others = bl_div(ir, product, safe);
    const bl_node *at_zero = bl_where(ir, single, product, bl_where(ir, two, other, zero));
    const bl_node *elsewhere = bl_where(ir, none, others, bl_where(ir, single, bl_mul(ir, factor, others), zero));

    return bl_mul(ir, spread(ir, g, x), bl_where(ir, is_zero, at_zero, elsewhere));
}

/* The gradient of a max or min reduction; equal elements share it. */
static const bl_node *extreme_gradient(bl_ir *ir, const bl_node *node, const bl_node *g)
{
    const bl_node *x = node->src[0];
    const bl_node *is = bl_alu2(ir, BL_OP_CMPEQ, x, spread(ir, node, x));
    const bl_node *count = sum(ir, bl_cast(ir, (bl_dtype)x->dtype, is), (uint32_t)node->arg);
    return bl_where(ir, is, spread(ir, bl_div(ir, g, count), x), zeros_like(ir, x));
}

static void vjp_reduce(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    if (node->sub == BL_OP_ADD)
        out[0] = spread(ir, g, node->src[0]);
    else if (node->sub == BL_OP_MUL)
        out[0] = product_gradient(ir, node, g);
    else
        out[0] = extreme_gradient(ir, node, g);
}

/* An index dtype that can hold every position of the axis. */
static bl_dtype position_dtype(bl_dtype dtype, const bl_node *extent)
{
    bl_scalar highest = bl_scalar_highest(dtype);
    bool fits = bl_dtype_get_kind(dtype) == BL_KIND_UINT ? (uint64_t)extent->hi <= highest.u : extent->hi <= highest.i;
    return fits ? dtype : BL_I64;
}

/* A sum over comparisons instead of a scatter, so that the order of summation is fixed: element c gets g wherever the index is
 * c. */
static void vjp_gather(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    const bl_node *x = node->src[0];
    const bl_node *index = node->src[1];
    const bl_node *dim[BL_MAX_DIMS + 1];  /* [.., C, J, ..] */
    const bl_node *iota[BL_MAX_DIMS + 1]; /* [.., C, 1, ..] */
    int axis = (int)node->arg;
    int ndim = x->ndim + 1;
    int64_t count;

    for (int i = 0; i < ndim; i++) {
        dim[i] = i <= axis ? x->dim[i] : i == axis + 1 ? node->dim[axis] : x->dim[i - 1];
        iota[i] = bl_index(ir, 1);
    }
    iota[axis] = x->dim[axis];
    if (ndim > BL_MAX_DIMS || !bl_shape_max_count(ndim, dim, &count)) {
        out[0] = bl_ir_fail(ir, BL_ELIMIT, "the gradient of a gather is too large");
        return;
    }
    bl_dtype dtype = position_dtype((bl_dtype)index->dtype, x->dim[axis]);
    index = vjp_split_axis(ir, bl_cast(ir, dtype, index), axis, bl_index(ir, 1), node->dim[axis]);
    g = vjp_split_axis(ir, g, axis, bl_index(ir, 1), node->dim[axis]);
    const bl_node *position = bl_reshape(ir, bl_iota(ir, dtype, x->dim[axis]), ndim, iota);
    const bl_node *here = bl_alu2(ir, BL_OP_CMPEQ, bl_expand(ir, index, ndim, dim), bl_expand(ir, position, ndim, dim));
    g = bl_expand(ir, g, ndim, dim);
    g = sum(ir, bl_where(ir, here, g, zeros_like(ir, g)), 1u << (axis + 1));
    out[0] = bl_reshape(ir, g, x->ndim, x->dim);
}

/* A value that gets a buffer in the forward pass gets one in the backward pass. */
static void vjp_contiguous(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    (void)node;
    out[0] = bl_contiguous(ir, g);
}

static void vjp_alias(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    (void)ir;
    (void)node;
    out[1] = g;
}

static void vjp_partials(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    for (uint32_t i = 0; i < node->nsrc; i += 2)
        out[i] = bl_mul(ir, g, node->src[i + 1]);
}

static void vjp_correlate(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out)
{
    bl_correlation c = bl_correlation_unpack(node->arg);
    out[0] = bl_winograd(ir, g, bl_winograd_turned(ir, node->src[1]), bl_correlation_turned(c));
    out[1] = bl_winograd_weight(ir, node->src[0], g, c);
}

#define GRAD_RULE(name) vjp_##name
#define GRAD_WALK(name) NULL
#define GRAD_ZERO(name) NULL
#define GRAD_NONE(name) NULL
const bl_vjp_fn bl_vjp_table[BL_OP_COUNT] = {
#define BL_OP(ID, name, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = GRAD_##grad(name),
#include "engine/ir/ops.def"
#undef BL_OP
};
