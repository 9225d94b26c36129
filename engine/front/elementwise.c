/* SPDX-License-Identifier: MIT */
/* Arithmetic, comparison, logic and activations, one element at a time. */
#include "engine/front/build.h"
#include "engine/grad/grad.h"

#include <math.h>

static bl_dtype dtype_of(const bl_node *x)
{
    return (bl_dtype)x->dtype;
}

static bool is_float(const bl_node *x)
{
    return bl_dtype_is_float(dtype_of(x));
}

static const bl_node *unary(bl_call *c, bl_op op)
{
    return bl_alu1(c->ir, op, c->in[0]);
}

/* Both inputs in their common shape; false after a failure. */
static bool take_both(bl_call *c, const bl_node **x, const bl_node **y)
{
    const bl_node *both[2] = {c->in[0], c->in[1]};
    if (!bl_call_broadcast(c, 2, both))
        return false;
    *x = both[0];
    *y = both[1];
    return true;
}

static const bl_node *binary(bl_call *c, bl_op op)
{
    const bl_node *both[2] = {c->in[0], c->in[1]};
    bl_call_broadcast(c, 2, both); /* a failure stays in the ir */
    return bl_alu(c->ir, op, both);
}

static bool refuse_bool(bl_call *c, const char *instead)
{
    if (c->in[0]->dtype != BL_BOOL)
        return false;
    bl_call_fail(c, "has no meaning for bool%s", instead);
    return true;
}

const bl_node *expand_add(bl_call *c)
{
    return binary(c, BL_OP_ADD);
}

const bl_node *expand_sub(bl_call *c)
{
    return refuse_bool(c, ": use logical_xor") ? c->in[0] : binary(c, BL_OP_SUB);
}

const bl_node *expand_mul(bl_call *c)
{
    return binary(c, BL_OP_MUL);
}

const bl_node *expand_div(bl_call *c)
{
    return binary(c, BL_OP_DIV);
}

const bl_node *expand_floor_div(bl_call *c)
{
    if (refuse_bool(c, ""))
        return c->in[0];
    return is_float(c->in[0]) ? bl_floor(c->ir, binary(c, BL_OP_DIV)) : binary(c, BL_OP_IDIV);
}

const bl_node *expand_mod(bl_call *c)
{
    const bl_node *x, *y;

    if (refuse_bool(c, "") || !take_both(c, &x, &y))
        return c->in[0];
    if (!is_float(x))
        return bl_mod(c->ir, x, y);
    return bl_sub(c->ir, x, bl_mul(c->ir, y, bl_floor(c->ir, bl_div(c->ir, x, y))));
}

const bl_node *expand_neg(bl_call *c)
{
    return refuse_bool(c, ": use logical_not") ? c->in[0] : unary(c, BL_OP_NEG);
}

const bl_node *expand_abs(bl_call *c)
{
    const bl_node *x = c->in[0];
    bl_dtype_kind kind = bl_dtype_get_kind(dtype_of(x));

    if (kind == BL_KIND_BOOL || kind == BL_KIND_UINT)
        return x;
    return bl_alu2(c->ir, BL_OP_MAX, x, unary(c, BL_OP_NEG)); /* the tie at 0 gives PyTorch's derivative 0 */
}

const bl_node *expand_sign(bl_call *c)
{
    const bl_node *x = c->in[0];
    if (x->dtype == BL_BOOL)
        return x;
    const bl_node *zero = bl_full_like(c->ir, x, 0);
    const bl_node *up = bl_cast(c->ir, dtype_of(x), bl_less(c->ir, zero, x));
    return bl_sub(c->ir, up, bl_cast(c->ir, dtype_of(x), bl_less(c->ir, x, zero)));
}

const bl_node *expand_sqrt(bl_call *c)
{
    return unary(c, BL_OP_SQRT);
}

/* What |compute| makes of x, in float32 for the 16-bit floats. */
static const bl_node *in_wide(bl_call *c, const bl_node *(*compute)(bl_ir *ir, const bl_node *x))
{
    return bl_cast(c->ir, dtype_of(c->in[0]), compute(c->ir, bl_widen(c->ir, c->in[0])));
}

const bl_node *expand_exp(bl_call *c)
{
    return unary(c, BL_OP_EXP);
}

const bl_node *expand_log(bl_call *c)
{
    return unary(c, BL_OP_LOG);
}

const bl_node *expand_exp2(bl_call *c)
{
    return in_wide(c, bl_exp2);
}

const bl_node *expand_expm1(bl_call *c)
{
    return in_wide(c, bl_expm1);
}

const bl_node *expand_log1p(bl_call *c)
{
    return in_wide(c, bl_log1p);
}

const bl_node *expand_atan2(bl_call *c)
{
    const bl_node *y, *x;
    if (!take_both(c, &y, &x))
        return c->in[0];
    return bl_cast(c->ir, dtype_of(y), bl_atan2(c->ir, bl_widen(c->ir, y), bl_widen(c->ir, x)));
}

/* By squaring: one product and one square for each bit that the exponent may have. */
static const bl_node *pow_whole(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    bl_dtype dtype = dtype_of(x);
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
    /* 1 / x^-y: only 1 and -1 have a whole one */
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
    if (!is_float(x))
        return pow_whole(c->ir, x, y);
    return bl_cast(c->ir, dtype_of(x), bl_pow(c->ir, bl_widen(c->ir, x), bl_widen(c->ir, y)));
}

const bl_node *expand_sin(bl_call *c)
{
    return unary(c, BL_OP_SIN);
}

const bl_node *expand_cos(bl_call *c)
{
    return in_wide(c, bl_cos);
}

const bl_node *expand_floor(bl_call *c)
{
    return is_float(c->in[0]) ? bl_floor(c->ir, c->in[0]) : c->in[0];
}

const bl_node *expand_ceil(bl_call *c)
{
    if (!is_float(c->in[0]))
        return c->in[0];
    return bl_alu1(c->ir, BL_OP_NEG, bl_floor(c->ir, unary(c, BL_OP_NEG)));
}

const bl_node *expand_trunc(bl_call *c)
{
    return is_float(c->in[0]) ? unary(c, BL_OP_TRUNC) : c->in[0];
}

const bl_node *expand_maximum(bl_call *c)
{
    return binary(c, c->in[0]->dtype == BL_BOOL ? BL_OP_OR : BL_OP_MAX);
}

const bl_node *expand_minimum(bl_call *c)
{
    return binary(c, c->in[0]->dtype == BL_BOOL ? BL_OP_AND : BL_OP_MIN);
}

/* Not MAX and MIN: at a bound the whole derivative passes, as in PyTorch. */
const bl_node *expand_clamp(bl_call *c)
{
    const bl_value *min = bl_attr(c, "min");
    const bl_value *max = bl_attr(c, "max");
    const bl_node *x = c->in[0];
    bool fraction = (min->given && !min->number.whole) || (max->given && !max->number.whole);

    if (refuse_bool(c, ""))
        return x;
    if (!min->given && !max->given)
        return bl_call_fail(c, "needs min, max or both");
    if (fraction && !is_float(x))
        x = bl_cast(c->ir, BL_F32, x);
    if (min->given) {
        const bl_node *low = bl_spread(c->ir, bl_call_literal(c, dtype_of(x), &min->number), x);
        x = bl_where(c->ir, bl_less(c->ir, x, low), low, x);
    }
    if (max->given) {
        const bl_node *high = bl_spread(c->ir, bl_call_literal(c, dtype_of(x), &max->number), x);
        x = bl_where(c->ir, bl_less(c->ir, high, x), high, x);
    }
    return x;
}

static const bl_node *is_less(bl_ir *ir, const bl_node *x, const bl_node *y, bool or_equal)
{
    const bl_node *less = bl_less(ir, x, y);
    if (!or_equal)
        return less;
    if (bl_dtype_is_float(dtype_of(x))) /* not "y is not less": that holds for NaN */
        return bl_alu2(ir, BL_OP_OR, less, bl_alu2(ir, BL_OP_CMPEQ, x, y));
    return bl_not(ir, bl_less(ir, y, x));
}

/* Not MAX: PyTorch's derivative at 0 is 0, and NaN stays NaN. */
const bl_node *expand_relu(bl_call *c)
{
    const bl_node *x = c->in[0];
    if (x->dtype == BL_BOOL)
        return x;
    const bl_node *zero = bl_full_like(c->ir, x, 0);
    if (!is_float(x))
        return bl_alu2(c->ir, BL_OP_MAX, x, zero);
    return bl_where(c->ir, is_less(c->ir, x, zero, true), zero, x);
}

const bl_node *expand_sigmoid(bl_call *c)
{
    return in_wide(c, bl_sigmoid);
}

const bl_node *expand_tanh(bl_call *c)
{
    return in_wide(c, bl_tanh);
}

const bl_node *expand_erf(bl_call *c)
{
    return in_wide(c, bl_erf);
}

const bl_node *expand_gelu(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    const bl_node *s;

    if (bl_attr(c, "approximate")->text[0] == 't') { /* Hendrycks and Gimpel, arXiv:1606.08415 */
        const bl_node *cube = bl_mul(ir, x, bl_mul(ir, x, x));
        s = bl_tanh(ir, bl_mul_real(ir, bl_add(ir, x, bl_mul_real(ir, cube, 0.044715)), M_2_SQRTPI * M_SQRT1_2));
    } else {
        s = bl_erf(ir, bl_mul_real(ir, x, M_SQRT1_2));
    }
    return bl_cast(ir, dtype_of(c->in[0]), bl_mul(ir, bl_mul_real(ir, x, 0.5), bl_add_real(ir, s, 1)));
}

/* max(z, 0) + log(1 + exp(-|z|)), which does not overflow. */
const bl_node *expand_softplus(bl_call *c)
{
    bl_ir *ir = c->ir;
    double beta = bl_attr(c, "beta")->real;
    const bl_node *x = bl_widen(ir, c->in[0]);
    const bl_node *z = bl_mul_real(ir, x, beta);
    const bl_node *zero = bl_full_like(ir, x, 0);
    const bl_node *negative = bl_less(ir, z, zero);
    const bl_node *e = bl_alu1(ir, BL_OP_EXP, bl_where(ir, negative, z, bl_alu1(ir, BL_OP_NEG, z)));
    const bl_node *sum = bl_add(ir, bl_where(ir, negative, zero, z), bl_log1p_unit(ir, e));
    const bl_node *over = bl_less(ir, bl_full_like(ir, z, bl_attr(c, "threshold")->real), z);

    return bl_cast(ir, dtype_of(c->in[0]), bl_where(ir, over, x, bl_mul_real(ir, sum, 1 / beta)));
}

const bl_node *expand_equal(bl_call *c)
{
    return binary(c, BL_OP_CMPEQ);
}

const bl_node *expand_not_equal(bl_call *c)
{
    return bl_not(c->ir, binary(c, BL_OP_CMPEQ));
}

static const bl_node *compare(bl_call *c, bool swap, bool or_equal)
{
    const bl_node *x, *y;
    if (!take_both(c, &x, &y))
        return c->in[0];
    return swap ? is_less(c->ir, y, x, or_equal) : is_less(c->ir, x, y, or_equal);
}

const bl_node *expand_less(bl_call *c)
{
    return compare(c, false, false);
}

const bl_node *expand_less_equal(bl_call *c)
{
    return compare(c, false, true);
}

const bl_node *expand_greater(bl_call *c)
{
    return compare(c, true, false);
}

const bl_node *expand_greater_equal(bl_call *c)
{
    return compare(c, true, true);
}

const bl_node *expand_isnan(bl_call *c)
{
    return bl_is_nan(c->ir, c->in[0]);
}

const bl_node *expand_logical_and(bl_call *c)
{
    return binary(c, BL_OP_AND);
}

const bl_node *expand_logical_or(bl_call *c)
{
    return binary(c, BL_OP_OR);
}

const bl_node *expand_logical_xor(bl_call *c)
{
    return binary(c, BL_OP_XOR);
}

const bl_node *expand_logical_not(bl_call *c)
{
    return unary(c, BL_OP_NOT);
}

const bl_node *expand_bitwise_and(bl_call *c)
{
    return binary(c, BL_OP_AND);
}

const bl_node *expand_bitwise_or(bl_call *c)
{
    return binary(c, BL_OP_OR);
}

const bl_node *expand_bitwise_xor(bl_call *c)
{
    return binary(c, BL_OP_XOR);
}

const bl_node *expand_bitwise_not(bl_call *c)
{
    return unary(c, BL_OP_NOT);
}

const bl_node *expand_left_shift(bl_call *c)
{
    return binary(c, BL_OP_SHL);
}

const bl_node *expand_right_shift(bl_call *c)
{
    return binary(c, BL_OP_SHR);
}

const bl_node *expand_where(bl_call *c)
{
    const bl_node *in[3] = {c->in[0], c->in[1], c->in[2]};
    bl_call_broadcast(c, 3, in);
    return bl_alu(c->ir, BL_OP_WHERE, in);
}

const bl_node *expand_cast(bl_call *c)
{
    return bl_cast(c->ir, bl_attr(c, "dtype")->dtype, c->in[0]);
}

static bl_dtype unsigned_of_bytes(size_t bytes)
{
    return bytes == 1 ? BL_U8 : bytes == 2 ? BL_U16 : bytes == 4 ? BL_U32 : BL_U64;
}

/* The bits of x as another dtype: |parts| to an element where that is smaller, else an element to so many along the last axis. */
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
        return bl_call_fail(c, "the last axis of %s is no multiple of %lld", bl_call_shape(c, x), (long long)parts);
    x = bl_bitcast(ir, whole, x);
    x = joins ? bl_call_reshape(c, x, last + 1, dim) : bl_call_expand(c, bl_add_axis(ir, x, last), last + 1, dim);
    if (x->op == BL_OP_POISON)
        return x;
    bl_dtype wide = joins ? part : whole;
    const bl_node *place = bl_iota_like(ir, x, last, wide);
    const bl_node *shift =
        bl_mul(ir, place, bl_full_like(ir, place, 8.0 * (double)bl_dtype_bytes(joins ? (bl_dtype)x->dtype : to)));
    x = bl_alu2(ir, joins ? BL_OP_SHL : BL_OP_SHR, bl_cast(ir, wide, x), shift);
    if (joins) /* no two have a bit in common */
        return bl_bitcast(ir, to, bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, x, 1u << last), 1u << last));
    dim[last - 1] = bl_mul(ir, extent, count);
    return bl_bitcast(ir, to, bl_call_reshape(c, bl_cast(ir, part, x), last, dim));
}

const bl_node *expand_bitcast(bl_call *c)
{
    const bl_node *x = c->in[0];
    bl_dtype to = bl_attr(c, "dtype")->dtype, from = dtype_of(x);
    size_t old = bl_dtype_bytes(from), new = bl_dtype_bytes(to);

    if ((to == BL_BOOL) != (from == BL_BOOL))
        return bl_call_fail(c, "bool has no bits of %s", bl_dtype_name(to == BL_BOOL ? from : to));
    if (old == new)
        return bl_bitcast(c->ir, to, x);
    if (x->ndim == 0 || x->ndim == BL_MAX_DIMS)
        return bl_call_fail(c, "%s and %s are not of the same size, and %s has no last axis to make up for it",
                            bl_dtype_name(from), bl_dtype_name(to), bl_call_shape(c, x));
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
