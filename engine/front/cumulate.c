/* SPDX-License-Identifier: MIT */
/* Prefix folds (scans) along an axis. Within a block of 8, each element folds all earlier elements by a mask. The folds of
 * whole blocks are accumulated in the same way, and each element then adds the fold of all blocks before its own: n * 8
 * operations and two kernels per level, with a fixed order of summation. If there are few elements, launches dominate, and
 * blocks of 64 make fewer levels. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <math.h>

enum { BLOCK = 8, LARGE_BLOCK = 64, FEW = 4096 };

/* An associative fold with its identity. */
typedef struct running {
    bl_op fold; /* ADD, MUL, MAX or MIN; EXP stands for logsumexp */
    bl_scalar start;
} running;

static const bl_node *start_like(bl_ir *ir, const running *r, const bl_node *like)
{
    return bl_spread(ir, bl_const(ir, (bl_dtype)like->dtype, r->start), like);
}

/* An infinite maximum is not subtracted: inf - inf is NaN. */
static const bl_node *finite_or_zero(bl_ir *ir, const bl_node *x)
{
    const bl_node *size = bl_alu2(ir, BL_OP_MAX, x, bl_alu1(ir, BL_OP_NEG, x));
    return bl_where(ir, bl_less(ir, size, bl_full_like(ir, x, HUGE_VAL)), x, bl_full_like(ir, x, 0));
}

/* |most| plus the logarithm of |sum|. An empty sum gives the identity instead of log(0), whose derivative is infinite. */
static const bl_node *add_log(bl_ir *ir, const running *r, const bl_node *most, const bl_node *sum)
{
    const bl_node *none = bl_alu2(ir, BL_OP_CMPEQ, sum, bl_full_like(ir, sum, 0));
    const bl_node *log = bl_alu1(ir, BL_OP_LOG, bl_where(ir, none, bl_full_like(ir, sum, 1), sum));
    return bl_where(ir, none, start_like(ir, r, sum), bl_add(ir, most, log));
}

/* Fold the last axis, which stays with extent 1. */
static const bl_node *fold_last(bl_ir *ir, const running *r, const bl_node *x)
{
    uint32_t last = 1u << (x->ndim - 1);
    if (r->fold != BL_OP_EXP)
        return bl_reduce(ir, r->fold, x, last);
    const bl_node *most = finite_or_zero(ir, bl_detach(ir, bl_reduce(ir, BL_OP_MAX, x, last)));
    return add_log(ir, r, most, bl_reduce(ir, BL_OP_ADD, bl_alu1(ir, BL_OP_EXP, bl_sub(ir, x, bl_spread(ir, most, x))), last));
}

static const bl_node *cumulate_combine(bl_ir *ir, const running *r, const bl_node *x, const bl_node *y)
{
    if (r->fold != BL_OP_EXP)
        return bl_alu2(ir, r->fold, x, y);
    const bl_node *most = finite_or_zero(ir, bl_detach(ir, bl_alu2(ir, BL_OP_MAX, x, y)));
    const bl_node *a = bl_alu1(ir, BL_OP_EXP, bl_sub(ir, x, most)), *b = bl_alu1(ir, BL_OP_EXP, bl_sub(ir, y, most));
    return add_log(ir, r, most, bl_add(ir, a, b));
}

/* y[.., i] is the fold of x[.., j] for j <= i, or for j < i if |exclusive|. */
static const bl_node *fold_before(bl_ir *ir, const running *r, const bl_node *x, bool exclusive)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int ndim = x->ndim + 1;

    for (int i = 0; i < ndim; i++)
        dim[i] = x->dim[i < ndim - 1 ? i : i - 1];
    const bl_node *wide = bl_expand(ir, bl_add_axis(ir, x, x->ndim - 1), ndim, dim);
    const bl_node *i = bl_iota_like(ir, wide, ndim - 2, BL_I32), *j = bl_iota_like(ir, wide, ndim - 1, BL_I32);
    const bl_node *seen = exclusive ? bl_less(ir, j, i) : bl_not(ir, bl_less(ir, i, j));
    wide = bl_where(ir, seen, wide, start_like(ir, r, wide));
    return bl_drop_axes(ir, fold_last(ir, r, wide), 1u << (ndim - 1));
}

static const bl_node *run_last(bl_ir *ir, const running *r, const bl_node *x, bool exclusive)
{
    const bl_node *dim[BL_MAX_DIMS + 1], *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];
    int last = x->ndim - 1;
    int64_t count = 0;
    bool few = bl_shape_max_count(x->ndim, x->dim, &count) && count <= FEW;
    /* an axis of twice a block is not worth another level */
    int64_t size = few ? LARGE_BLOCK : BLOCK, whole_up_to = few ? LARGE_BLOCK : 2 * BLOCK;
    const bl_node *extent = x->dim[last], *block = bl_index(ir, size);

    if (extent->hi <= whole_up_to || extent->op == BL_OP_POISON)
        return fold_before(ir, r, x, exclusive);
    const bl_node *blocks = bl_idiv(ir, bl_add(ir, extent, bl_index(ir, size - 1)), block);
    for (int i = 0; i <= last; i++) {
        before[i] = bl_index(ir, 0);
        after[i] = i == last ? bl_sub(ir, bl_mul(ir, blocks, block), extent) : before[i];
        dim[i] = i == last ? blocks : x->dim[i];
    }
    dim[last + 1] = block;
    const bl_node *padded = bl_pad_with(ir, x, before, after, bl_const(ir, (bl_dtype)x->dtype, r->start));
    padded = bl_reshape(ir, padded, last + 2, dim);
    const bl_node *whole = bl_drop_axes(ir, fold_last(ir, r, padded), 1u << (last + 1));
    const bl_node *carried = bl_spread(ir, bl_add_axis(ir, run_last(ir, r, whole, true), last + 1), padded);
    const bl_node *y = cumulate_combine(ir, r, carried, fold_before(ir, r, padded, exclusive));
    dim[last] = bl_mul(ir, blocks, block);
    return bl_shrink_axis(ir, bl_reshape(ir, y, last + 1, dim), last, bl_index(ir, 0), extent);
}

const bl_node *bl_to_last(bl_ir *ir, const bl_node *x, int axis)
{
    int perm[BL_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i < axis ? i : i + 1 < x->ndim ? i + 1 : axis;
    return bl_permute(ir, x, perm);
}

const bl_node *bl_from_last(bl_ir *ir, const bl_node *x, int axis)
{
    int perm[BL_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i < axis ? i : i == axis ? x->ndim - 1 : i - 1;
    return bl_permute(ir, x, perm);
}

static const bl_node *run_axis(bl_ir *ir, const running *r, const bl_node *x, int axis)
{
    return bl_from_last(ir, run_last(ir, r, bl_to_last(ir, x, axis), false), axis);
}

const bl_node *bl_cumsum(bl_ir *ir, const bl_node *x, int axis)
{
    running r = {.fold = BL_OP_ADD};
    return run_axis(ir, &r, x, axis);
}

/* The axis, or -1 after a failure; -2 for a scalar, whose prefix fold is itself. Blocks need one more dimension. */
static int take_axis(bl_call *c)
{
    const bl_node *x = c->in[0];
    if (x->ndim == 0)
        return -2;
    if (x->ndim >= BL_MAX_DIMS - 2) {
        bl_call_fail_as(c, BL_ELIMIT, "takes at most %d dimensions, not %s", BL_MAX_DIMS - 3, bl_call_shape(c, x));
        return -1;
    }
    return bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
}

static bl_dtype cumulate_sum_dtype(bl_call *c)
{
    const bl_value *asked = bl_attr(c, "dtype");
    bl_dtype dtype = (bl_dtype)c->in[0]->dtype;
    return asked->given ? asked->dtype : bl_dtype_is_float(dtype) || dtype == BL_U64 ? dtype : BL_I64;
}

static const bl_node *run_sum(bl_call *c, running r)
{
    bl_dtype dtype = cumulate_sum_dtype(c);
    int axis = take_axis(c);
    const bl_node *x = bl_widen(c->ir, bl_cast(c->ir, dtype, c->in[0]));

    if (bl_dtype_is_float(dtype))
        r.start.f = r.fold == BL_OP_MUL ? 1 : 0;
    else
        r.start.u = r.fold == BL_OP_MUL ? 1 : 0;
    return axis < 0 ? bl_cast(c->ir, dtype, x) : bl_cast(c->ir, dtype, run_axis(c->ir, &r, x, axis));
}

const bl_node *expand_cumsum(bl_call *c)
{
    return run_sum(c, (running){.fold = BL_OP_ADD});
}

const bl_node *expand_cumprod(bl_call *c)
{
    return run_sum(c, (running){.fold = BL_OP_MUL});
}

const bl_node *expand_logcumsumexp(bl_call *c)
{
    running r = {.fold = BL_OP_EXP, .start = {.f = -HUGE_VAL}};
    int axis = take_axis(c);
    const bl_node *x = bl_widen(c->ir, c->in[0]);
    return axis < 0 ? c->in[0] : bl_cast(c->ir, (bl_dtype)c->in[0]->dtype, run_axis(c->ir, &r, x, axis));
}

/* The running extreme and the position of the latest equal element, as in PyTorch. A NaN is the extreme from its position
 * on. */
static const bl_node *run_extreme(bl_call *c, bl_op fold)
{
    bl_ir *ir = c->ir;
    const bl_node *x = c->in[0];
    bl_dtype dtype = (bl_dtype)x->dtype;
    running values = {.fold = fold}, places = {.fold = BL_OP_MAX, .start = {.i = -1}};
    int axis = take_axis(c);

    c->result[0] = x;
    c->result[1] = bl_full_like(ir, bl_cast(ir, BL_I64, bl_detach(ir, x)), 0);
    if (axis < 0)
        return x;
    if (dtype == BL_BOOL)
        x = bl_cast(ir, BL_U8, x);
    values.start = fold == BL_OP_MAX ? bl_scalar_lowest((bl_dtype)x->dtype) : bl_scalar_highest((bl_dtype)x->dtype);
    if (bl_dtype_is_float(dtype))
        values.start.f = fold == BL_OP_MAX ? -HUGE_VAL : HUGE_VAL;
    const bl_node *still = bl_detach(ir, x), *best = run_axis(ir, &values, still, axis);
    const bl_node *here = bl_alu2(ir, BL_OP_OR, bl_alu2(ir, BL_OP_CMPEQ, still, best), bl_is_nan(ir, still));
    const bl_node *at =
        bl_where(ir, here, bl_iota_like(ir, x, axis, BL_I32), bl_full_like(ir, bl_iota_like(ir, x, axis, BL_I32), -1));
    at = run_axis(ir, &places, at, axis);
    c->result[0] = bl_cast(ir, dtype, bl_gather(ir, x, at, axis)); /* so that the gradient goes to that position only */
    c->result[1] = bl_cast(ir, BL_I64, at);
    return c->result[0];
}

const bl_node *expand_cummax(bl_call *c)
{
    return run_extreme(c, BL_OP_MAX);
}

const bl_node *expand_cummin(bl_call *c)
{
    return run_extreme(c, BL_OP_MIN);
}
