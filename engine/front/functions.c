/* SPDX-License-Identifier: MIT */
/* Functions of real numbers, expressed in primitives. No intermediate result overflows unless the value does, so that
 * gradients, which multiply by intermediate results, stay finite too. */
#include "engine/front/call.h"

#include <math.h>

#define LN_2 0.69314718055994530942

const bl_node *bl_add_real(bl_ir *ir, const bl_node *x, double value)
{
    return bl_add(ir, x, bl_full_like(ir, x, value));
}

const bl_node *bl_mul_real(bl_ir *ir, const bl_node *x, double value)
{
    return bl_mul(ir, x, bl_full_like(ir, x, value));
}

const bl_node *bl_widen(bl_ir *ir, const bl_node *x)
{
    return bl_dtype_is_narrow((bl_dtype)x->dtype) ? bl_cast(ir, BL_F32, x) : x;
}

const bl_node *bl_poly(bl_ir *ir, const bl_node *x, int n, const double *coefficient)
{
    const bl_node *sum = bl_full_like(ir, x, coefficient[0]);

    for (int i = 1; i < n; i++)
        sum = bl_add_real(ir, bl_mul(ir, sum, x), coefficient[i]);
    return sum;
}

static const bl_node *is_negative(bl_ir *ir, const bl_node *x)
{
    return bl_less(ir, x, bl_full_like(ir, x, 0));
}

/* Clamp x to -limit .. limit; NaN stays NaN. */
static const bl_node *functions_hold(bl_ir *ir, const bl_node *x, double limit)
{
    const bl_node *low = bl_alu2(ir, BL_OP_MAX, x, bl_full_like(ir, x, -limit));
    return bl_alu2(ir, BL_OP_MIN, low, bl_full_like(ir, x, limit));
}

/* The series of 2 * atanh(x / (2 + x)). The argument is at most 1/3, so each term is at most a ninth of the term before it. */
const bl_node *bl_log1p_unit(bl_ir *ir, const bl_node *x)
{
    double coefficient[17];
    int n = x->dtype == BL_F64 ? 17 : 8;

    for (int i = 0; i < n; i++)
        coefficient[n - 1 - i] = 2.0 / (2 * i + 1);
    const bl_node *s = bl_div(ir, x, bl_add_real(ir, x, 2));
    return bl_mul(ir, s, bl_poly(ir, bl_mul(ir, s, s), n, coefficient));
}

/* Is |x| below 1/2? */
static const bl_node *functions_is_small(bl_ir *ir, const bl_node *x)
{
    return bl_alu2(ir, BL_OP_AND, bl_less(ir, bl_full_like(ir, x, -0.5), x), bl_less(ir, x, bl_full_like(ir, x, 0.5)));
}

/* The Taylor series for |x| < 1/2, where exp(x) - 1 would cancel. */
const bl_node *bl_expm1(bl_ir *ir, const bl_node *x)
{
    double coefficient[15];
    int n = x->dtype == BL_F64 ? 15 : 9;
    double factorial = 1;

    for (int i = 0; i < n; i++) {
        factorial *= i + 1;
        coefficient[n - 1 - i] = 1 / factorial;
    }
    const bl_node *small = functions_is_small(ir, x);
    const bl_node *half = bl_where(ir, small, x, bl_full_like(ir, x, 0));
    const bl_node *near = bl_mul(ir, half, bl_poly(ir, half, n, coefficient));
    const bl_node *far = bl_add_real(ir, bl_alu1(ir, BL_OP_EXP, x), -1);
    return bl_where(ir, small, near, far);
}

/* x times 2^n for an integer |n| (a float between -2 * bias and 2 * bias), in two factors whose exponents fit. */
static const bl_node *times_power(bl_ir *ir, const bl_node *x, const bl_node *n)
{
    bool wide = x->dtype == BL_F64;
    bl_dtype bits = wide ? BL_I64 : BL_I32;
    const bl_node *half = bl_floor(ir, bl_mul_real(ir, n, 0.5));
    const bl_node *part[2] = {half, bl_sub(ir, n, half)};

    for (int i = 0; i < 2; i++) {
        const bl_node *biased = bl_cast(ir, bits, bl_add_real(ir, part[i], wide ? 1023 : 127));
        const bl_node *shifted = bl_alu2(ir, BL_OP_SHL, biased, bl_full_like(ir, biased, wide ? 52 : 23));
        x = bl_mul(ir, x, bl_bitcast(ir, (bl_dtype)x->dtype, shifted));
    }
    return x;
}

/* 2^n times the exponential of at most a half. Exact for integers, where exp(x * ln 2) is not. */
const bl_node *bl_exp2(bl_ir *ir, const bl_node *x)
{
    const bl_node *held = functions_hold(ir, x, x->dtype == BL_F64 ? 1100 : 200);
    const bl_node *n = bl_detach(ir, bl_floor(ir, bl_add_real(ir, held, 0.5)));
    const bl_node *rest = bl_alu1(ir, BL_OP_EXP, bl_mul_real(ir, bl_sub(ir, held, n), LN_2));
    const bl_node *value = times_power(ir, rest, n), *slope = bl_mul_real(ir, value, LN_2);
    /* the clamp has no derivative at its limits, so the partial derivative is explicit */
    return bl_with_partials(ir, value, 1, &x, &slope);
}

/* x^n as a product, for n other than 0. */
static const bl_node *whole_power(bl_ir *ir, const bl_node *x, int64_t n)
{
    const bl_node *power = NULL;

    for (int64_t left = n < 0 ? -n : n; left != 0; left >>= 1) {
        if (left & 1)
            power = power == NULL ? x : bl_mul(ir, power, x);
        x = bl_mul(ir, x, x);
    }
    return n >= 0 ? power : bl_div(ir, bl_full_like(ir, power, 1), power);
}

/* x^|power| by products or a root, if |power| is an integer up to 64, 0.5 or -0.5; else NULL. As precise as the products or the
 * root. */
static const bl_node *constant_power(bl_ir *ir, const bl_node *x, double power)
{
    if (power == 0.5 ||
        power == -0.5) { /* sqrt(-0.0) is -0.0, but pow(-0.0, 0.5) is 0.0; sqrt(-inf) is NaN, but pow(-inf, 0.5) is inf */
        const bl_node *root = bl_alu1(ir, BL_OP_SQRT, bl_add_real(ir, x, 0));
        return power > 0 ? root : bl_div(ir, bl_full_like(ir, x, 1), root);
    }
    if (power == 0 || power != (double)(int64_t)power || power < -64 || power > 64)
        return NULL;
    return whole_power(ir, x, (int64_t)power);
}

static const bl_node *is_infinite(bl_ir *ir, const bl_node *x)
{
    const bl_node *size = bl_alu2(ir, BL_OP_MAX, x, bl_alu1(ir, BL_OP_NEG, x));
    return bl_alu2(ir, BL_OP_CMPEQ, size, bl_full_like(ir, x, HUGE_VAL));
}

/* |x|^y by the logarithm, with the sign of an odd power. y * log|x| is rounded: the relative error grows to 1e-5 at the ends of
 * float32's range. */
static const bl_node *logarithmic_power(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *zero = bl_full_like(ir, x, 0), *one = bl_full_like(ir, x, 1);
    const bl_node *minus = is_negative(ir, x);
    const bl_node *is_zero = bl_alu2(ir, BL_OP_CMPEQ, x, zero);
    const bl_node *none = bl_alu2(ir, BL_OP_CMPEQ, y, zero);
    const bl_node *half = bl_mul_real(ir, y, 0.5);
    const bl_node *whole = bl_alu2(ir, BL_OP_CMPEQ, bl_floor(ir, y), y);
    const bl_node *odd = bl_alu2(ir, BL_OP_AND, whole, bl_not(ir, bl_alu2(ir, BL_OP_CMPEQ, bl_floor(ir, half), half)));
    const bl_node *size = bl_where(ir, minus, bl_alu1(ir, BL_OP_NEG, x), x);

    size = bl_where(ir, is_zero, one, size); /* so that the logarithm has a finite derivative; 0^y is inserted below */
    const bl_node *power = bl_alu1(ir, BL_OP_EXP, bl_mul(ir, y, bl_alu1(ir, BL_OP_LOG, size)));
    power = bl_where(ir, bl_alu2(ir, BL_OP_AND, minus, odd), bl_alu1(ir, BL_OP_NEG, power), power);
    const bl_node *fraction = bl_alu2(ir, BL_OP_AND, minus, bl_not(ir, whole));
    const bl_node *finite = bl_less(ir, size, bl_full_like(ir, x, HUGE_VAL)); /* (-inf)^0.5 is inf */
    power = bl_where(ir, bl_alu2(ir, BL_OP_AND, fraction, finite), bl_full_like(ir, x, NAN), power);
    /* 1^y is 1 for every y; (-1)^y is 1 for infinite y */
    const bl_node *unit = bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_CMPEQ, size, one), is_infinite(ir, y));
    unit = bl_alu2(ir, BL_OP_OR, unit, bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_CMPEQ, x, one), bl_is_nan(ir, y)));
    power = bl_where(ir, unit, one, power);
    /* 0^y is 0 or infinite; for odd y it has the sign of x: 1 / -0.0 is -inf */
    const bl_node *at_zero = bl_where(ir, is_negative(ir, y), bl_full_like(ir, x, HUGE_VAL), zero);
    const bl_node *signed_zero = bl_where(ir, is_negative(ir, y), bl_div(ir, one, x), x);
    at_zero = bl_where(ir, bl_alu2(ir, BL_OP_AND, odd, bl_not(ir, is_infinite(ir, y))), signed_zero, at_zero);
    power = bl_where(ir, is_zero, bl_where(ir, bl_is_nan(ir, y), y, at_zero), power);
    power = bl_where(ir, bl_is_nan(ir, x), x, power); /* a driver that replaces exp(y * log(x)) by its own pow may lose the NaN */
    return bl_where(ir, none, one, power);
}

static const bl_node *power_value(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *uniform = bl_uniform_const(y);
    const bl_node *known = uniform != NULL ? constant_power(ir, x, bl_const_value(uniform).f) : NULL;
    return known != NULL ? known : logarithmic_power(ir, x, y);
}

static const bl_node *power_of_order(bl_ir *ir, const bl_node *x, const bl_node *y, int order);

/* y x^(y-1), and 0 for y = 0 (PyTorch, FunctionsManual.cpp: pow_backward_self). */
static const bl_node *slope_of_base(bl_ir *ir, const bl_node *x, const bl_node *y, int order)
{
    const bl_node *uniform = bl_uniform_const(y), *zero = bl_full_like(ir, x, 0);
    const bl_node *less = uniform != NULL ? bl_full_like(ir, y, bl_const_value(uniform).f - 1) : bl_add_real(ir, y, -1);
    const bl_node *slope = bl_mul(ir, y, power_of_order(ir, x, less, order - 1));
    return bl_where(ir, bl_alu2(ir, BL_OP_CMPEQ, y, zero), zero, slope);
}

/* x^y log x, and 0 for 0^y with y >= 0 (pow_backward_exponent). */
static const bl_node *slope_of_exponent(bl_ir *ir, const bl_node *x, const bl_node *y, int order)
{
    const bl_node *zero = bl_full_like(ir, x, 0);
    const bl_node *not_negative = bl_alu2(ir, BL_OP_OR, bl_less(ir, zero, y), bl_alu2(ir, BL_OP_CMPEQ, y, zero));
    const bl_node *flat = bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_CMPEQ, x, zero), not_negative);
    return bl_where(ir, flat, zero, bl_mul(ir, power_of_order(ir, x, y, order - 1), bl_alu1(ir, BL_OP_LOG, x)));
}

/* x^y with explicit derivatives up to |order|. Higher derivatives follow from the formula of the value, and have other limits
 * at 0 and infinity. */
static const bl_node *power_of_order(bl_ir *ir, const bl_node *x, const bl_node *y, int order)
{
    const bl_node *value = power_value(ir, x, y), *of[2], *partial[2];
    int n = 0;

    if (order == 0 || value->op == BL_OP_POISON)
        return value;
    if (bl_uniform_const(x) == NULL) {
        of[n] = x;
        partial[n++] = slope_of_base(ir, x, y, order);
    }
    if (bl_uniform_const(y) == NULL) {
        of[n] = y;
        partial[n++] = slope_of_exponent(ir, x, y, order);
    }
    return n == 0 ? value : bl_with_partials(ir, value, n, of, partial);
}

const bl_node *bl_pow(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    return power_of_order(ir, x, y, 2);
}

const bl_node *bl_floor(bl_ir *ir, const bl_node *x)
{
    const bl_node *t = bl_alu1(ir, BL_OP_TRUNC, x);
    return bl_where(ir, bl_less(ir, x, t), bl_add_real(ir, t, -1), t);
}

const bl_node *bl_is_nan(bl_ir *ir, const bl_node *x)
{
    if (!bl_dtype_is_float((bl_dtype)x->dtype))
        return bl_spread(ir, bl_const_int(ir, BL_BOOL, 0), x);
    return bl_not(ir, bl_alu2(ir, BL_OP_CMPEQ, x, x));
}
