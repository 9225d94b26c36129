/* SPDX-License-Identifier: MIT */
/* Elementwise arithmetic, comparison, logic and activations. */
#include "engine/front/build.h"
#include "engine/grad/grad.h"

#include <math.h>

static bl_dtype elementwise_dtype_of(const bl_node *x)
{
    return (bl_dtype)x->dtype;
}

static bool elementwise_is_float(const bl_node *x)
{
    return bl_dtype_is_float(elementwise_dtype_of(x));
}

static const bl_node *elementwise_unary(bl_call *c, bl_op op)
{
    return bl_alu1(c->ir, op, c->in[0]);
}

/* Broadcast both inputs to their common shape. False after a failure. */
static bool take_both(bl_call *c, const bl_node **x, const bl_node **y)
{
    const bl_node *both[2] = {c->in[0], c->in[1]};
    if (!bl_call_broadcast(c, 2, both))
        return false;
    *x = both[0];
    *y = both[1];
    return true;
}

const bl_node *expand_abs(bl_call *c)
{
    const bl_node *x = c->in[0];
    bl_dtype_kind kind = bl_dtype_get_kind(elementwise_dtype_of(x));

    if (kind == BL_KIND_BOOL || kind == BL_KIND_UINT)
        return x;
    /* at 0 both operands are equal, which gives PyTorch's derivative 0 */
    return bl_alu2(c->ir, BL_OP_MAX, x, elementwise_unary(c, BL_OP_NEG));
}

/* Apply |compute| to x, in float32 for 16-bit floats. */
static const bl_node *in_wide(bl_call *c, const bl_node *(*compute)(bl_ir *ir, const bl_node *x))
{
    return bl_cast(c->ir, elementwise_dtype_of(c->in[0]), compute(c->ir, bl_widen(c->ir, c->in[0])));
}

const bl_node *expand__poly(bl_call *c)
{
    const bl_value *coefficient = bl_attr(c, "c");
    return bl_poly(c->ir, c->in[0], coefficient->count, coefficient->reals);
}

const bl_node *expand__log1p_unit(bl_call *c)
{
    return bl_log1p_unit(c->ir, c->in[0]);
}

const bl_node *expand_exp2(bl_call *c)
{
    return in_wide(c, bl_exp2);
}

const bl_node *expand_expm1(bl_call *c)
{
    return in_wide(c, bl_expm1);
}

/* Exponentiation by squaring: one product and one square per bit of the exponent. */
static const bl_node *pow_whole(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    bl_dtype dtype = elementwise_dtype_of(x);
    int bits = y->op == BL_OP_CONST || bl_dtype_get_kind(dtype) == BL_KIND_UINT ? 0 : 1;
    const bl_node *one = bl_full_like(ir, x, 1), *zero = bl_full_like(ir, x, 0);
    const bl_node *power = one, *square = x;
    const bl_node *uniform = bl_uniform_const(y);
    int64_t known = uniform != NULL ? bl_const_value(uniform).i : -1;

    bits = 8 * (int)bl_dtype_bytes(dtype) - bits;
    for (int i = 0; i < bits && (known < 0 || known >> i != 0); i++) {
        const bl_node *bit = bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_SHR, y, bl_full_like(ir, y, i)), one);
        power = bl_where(ir, bl_alu2(ir, BL_OP_CMPEQ, bit, one), bl_mul(ir, power, square), power);
        square = bl_mul(ir, square, square);
    }
    if (bl_dtype_get_kind(dtype) == BL_KIND_UINT)
        return power;
    /* 1 / x^-y: an integer only for x = 1 and x = -1 */
    const bl_node *unit = bl_alu2(ir, BL_OP_CMPEQ, bl_alu2(ir, BL_OP_MAX, x, bl_alu1(ir, BL_OP_NEG, x)), one);
    return bl_where(ir, bl_less(ir, y, zero), bl_where(ir, unit, power, zero), power);
}

const bl_node *expand_pow(bl_call *c)
{
    const bl_node *x, *y;
    if (!take_both(c, &x, &y))
        return c->in[0];
    if (x->dtype == BL_BOOL)
        return bl_alu2(c->ir, BL_OP_OR, x, bl_not(c->ir, y));
    if (!elementwise_is_float(x))
        return pow_whole(c->ir, x, y);
    return bl_cast(c->ir, elementwise_dtype_of(x), bl_pow(c->ir, bl_widen(c->ir, x), bl_widen(c->ir, y)));
}

const bl_node *expand_cos(bl_call *c)
{
    return in_wide(c, bl_cos);
}

const bl_node *expand_cast(bl_call *c)
{
    return bl_cast(c->ir, bl_attr(c, "dtype")->dtype, c->in[0]);
}

static bl_dtype unsigned_of_bytes(size_t bytes)
{
    return bytes == 1 ? BL_U8 : bytes == 2 ? BL_U16 : bytes == 4 ? BL_U32 : BL_U64;
}

/* The bits of x as another dtype. A narrower dtype gives |parts| elements per element; a wider one merges |parts| elements
 * along the last axis. */
static const bl_node *recut(bl_call *c, const bl_node *x, int64_t parts, bl_dtype to)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS + 1], *extent = x->dim[x->ndim - 1], *count = bl_index(ir, parts);
    bl_dtype part = unsigned_of_bytes(bl_dtype_bytes(to)), whole = unsigned_of_bytes(bl_dtype_bytes((bl_dtype)x->dtype));
    bool joins = bl_dtype_bytes(to) > bl_dtype_bytes((bl_dtype)x->dtype);
    int last = x->ndim;

    for (int i = 0; i < last; i++)
        dim[i] = x->dim[i];
    dim[last] = count;
    dim[last - 1] = joins ? bl_idiv(ir, extent, count) : extent;
    if (joins && bl_mul(ir, dim[last - 1], count) != extent)
        return bl_call_fail(c, "the last axis of %s is not a multiple of %lld", bl_call_shape(c, x), (long long)parts);
    x = bl_bitcast(ir, whole, x);
    x = joins ? bl_call_reshape(c, x, last + 1, dim) : bl_call_expand(c, bl_add_axis(ir, x, last), last + 1, dim);
    if (x->op == BL_OP_POISON)
        return x;
    bl_dtype wide = joins ? part : whole;
    const bl_node *place = bl_iota_like(ir, x, last, wide);
    const bl_node *shift =
        bl_mul(ir, place, bl_full_like(ir, place, 8.0 * (double)bl_dtype_bytes(joins ? (bl_dtype)x->dtype : to)));
    x = bl_alu2(ir, joins ? BL_OP_SHL : BL_OP_SHR, bl_cast(ir, wide, x), shift);
    if (joins) /* the parts have no bit in common, so their sum is their OR */
        return bl_bitcast(ir, to, bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, x, 1u << last), 1u << last));
    dim[last - 1] = bl_mul(ir, extent, count);
    return bl_bitcast(ir, to, bl_call_reshape(c, bl_cast(ir, part, x), last, dim));
}

const bl_node *expand_bitcast(bl_call *c)
{
    const bl_node *x = c->in[0];
    bl_dtype to = bl_attr(c, "dtype")->dtype, from = elementwise_dtype_of(x);
    size_t old = bl_dtype_bytes(from), new = bl_dtype_bytes(to);

    if ((to == BL_BOOL) != (from == BL_BOOL))
        return bl_call_fail(c, "bool cannot be reinterpreted as %s", bl_dtype_name(to == BL_BOOL ? from : to));
    if (old == new)
        return bl_bitcast(c->ir, to, x);
    if (x->ndim == 0 || x->ndim == BL_MAX_DIMS)
        return bl_call_fail(c, "%s and %s have different sizes, and %s has no last axis to split or join", bl_dtype_name(from),
                            bl_dtype_name(to), bl_call_shape(c, x));
    return recut(c, x, (int64_t)(old > new ? old / new : new / old), to);
}

const bl_node *expand_detach(bl_call *c)
{
    return bl_detach(c->ir, c->in[0]);
}

const bl_node *expand_contiguous(bl_call *c)
{
    return bl_contiguous(c->ir, c->in[0]);
}
