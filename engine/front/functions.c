/* SPDX-License-Identifier: MIT */
/* Functions of real numbers written in primitives.  Nothing here overflows where its value does not, so that gradients, which
 * multiply by what stands in between, stay finite too. */
#include "engine/front/call.h"

#include <math.h>

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

/* -|x|, with the derivative -1 at 0: the side that sigmoid and softplus take there. */
static const bl_node *minus_abs(bl_ir *ir, const bl_node *x)
{
    return bl_where(ir, is_negative(ir, x), x, bl_alu1(ir, BL_OP_NEG, x));
}

/* x held between -limit and limit, NaN kept. */
static const bl_node *hold(bl_ir *ir, const bl_node *x, double limit)
{
    const bl_node *low = bl_alu2(ir, BL_OP_MAX, x, bl_full_like(ir, x, -limit));
    return bl_alu2(ir, BL_OP_MIN, low, bl_full_like(ir, x, limit));
}

/* x * p(x^2) / q(x^2) */
static const bl_node *odd_rational(bl_ir *ir, const bl_node *x, int np, const double *p, int nq, const double *q)
{
    const bl_node *z = bl_mul(ir, x, x);
    return bl_div(ir, bl_mul(ir, x, bl_poly(ir, z, np, p)), bl_poly(ir, z, nq, q));
}

/* Cephes, tanh.c (Moshier): below 0.625 a rational, above it the exponential form. */
static const bl_node *tanh_double(bl_ir *ir, const bl_node *x)
{
    static const double p[] = {-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3};
    static const double q[] = {1, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3};
    const bl_node *h = hold(ir, x, 1); /* so that the branch not taken has a finite slope */
    const bl_node *z = bl_mul(ir, h, h);
    const bl_node *a = minus_abs(ir, x);
    const bl_node *near = bl_add(ir, h, bl_mul(ir, bl_mul(ir, h, z), bl_div(ir, bl_poly(ir, z, 3, p), bl_poly(ir, z, 4, q))));
    const bl_node *e = bl_alu1(ir, BL_OP_EXP, bl_mul_real(ir, a, 2));
    const bl_node *one = bl_full_like(ir, x, 1);
    const bl_node *far = bl_div(ir, bl_sub(ir, one, e), bl_add(ir, one, e));

    far = bl_where(ir, is_negative(ir, x), bl_alu1(ir, BL_OP_NEG, far), far);
    return bl_where(ir, bl_less(ir, bl_full_like(ir, x, -0.625), a), near, far);
}

const bl_node *bl_tanh(bl_ir *ir, const bl_node *x)
{
    /* Eigen, MathFunctionsImpl.h: within 3 units in the last place of float32, without a branch. */
    static const double p[] = {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                               1.48572235717979e-05,  6.37261928875436e-04, 4.89352455891786e-03};
    static const double q[] = {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03};

    if (x->dtype == BL_F64)
        return tanh_double(ir, x);
    return odd_rational(ir, hold(ir, x, 7.90531110763549805), 7, p, 4, q);
}

/* Cephes, ndtr.c (Moshier): a rational below 1, exp(-x^2) times a rational above; beyond 6 it is 1 in float64. */
static const bl_node *erf_double(bl_ir *ir, const bl_node *x)
{
    static const double t[] = {9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
                               7.00332514112805075473e3, 5.55923013010394962768e4};
    static const double u[] = {1,
                               3.35617141647503099647e1,
                               5.21357949780152679795e2,
                               4.59432382970980127987e3,
                               2.26290000613890934246e4,
                               4.92673942608635921086e4};
    static const double p[] = {2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
                               4.86371970985681366614e1,   1.96520832956077098242e2,  5.26445194995477358631e2,
                               9.34528527171957607540e2,   1.02755188689515710272e3,  5.57535335369399327526e2};
    static const double q[] = {1,
                               1.32281951154744992508e1,
                               8.67072140885989742329e1,
                               3.54937778887819891062e2,
                               9.75708501743205489753e2,
                               1.82390916687909736289e3,
                               2.24633760818710981792e3,
                               1.65666309194161350182e3,
                               5.57535340817727675546e2};
    const bl_node *a = bl_alu1(ir, BL_OP_NEG, hold(ir, minus_abs(ir, x), 6));
    const bl_node *e = bl_alu1(ir, BL_OP_EXP, bl_alu1(ir, BL_OP_NEG, bl_mul(ir, a, a)));
    const bl_node *far = bl_div(ir, bl_mul(ir, e, bl_poly(ir, a, 9, p)), bl_poly(ir, a, 9, q));

    far = bl_sub(ir, bl_full_like(ir, x, 1), far);
    far = bl_where(ir, is_negative(ir, x), bl_alu1(ir, BL_OP_NEG, far), far);
    return bl_where(ir, bl_less(ir, a, bl_full_like(ir, x, 1)), odd_rational(ir, hold(ir, x, 1), 5, t, 6, u), far);
}

const bl_node *bl_erf(bl_ir *ir, const bl_node *x)
{
    /* Eigen, SpecialFunctionsImpl.h: float32 rounds erf(4) to 1. */
    static const double p[] = {-2.72614225801306e-10, 2.77068142495902e-08,  -2.10102402082508e-06, -5.69250639462346e-05,
                               -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02};
    static const double q[] = {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
                               -1.42647390514189e-02};

    if (x->dtype == BL_F64)
        return erf_double(ir, x);
    return odd_rational(ir, hold(ir, x, 4), 7, p, 5, q);
}

/* 2 * atanh(x / (2 + x)) by its series; the argument is at most 1/3, so each term is a ninth of the one before. */
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
static const bl_node *is_small(bl_ir *ir, const bl_node *x)
{
    return bl_alu2(ir, BL_OP_AND, bl_less(ir, bl_full_like(ir, x, -0.5), x), bl_less(ir, x, bl_full_like(ir, x, 0.5)));
}

/* Taylor's series below 1/2, where exp(x) - 1 would cancel. */
const bl_node *bl_expm1(bl_ir *ir, const bl_node *x)
{
    double coefficient[15];
    int n = x->dtype == BL_F64 ? 15 : 9;
    double factorial = 1;

    for (int i = 0; i < n; i++) {
        factorial *= i + 1;
        coefficient[n - 1 - i] = 1 / factorial;
    }
    const bl_node *small = is_small(ir, x);
    const bl_node *half = bl_where(ir, small, x, bl_full_like(ir, x, 0));
    const bl_node *near = bl_mul(ir, half, bl_poly(ir, half, n, coefficient));
    const bl_node *far = bl_add_real(ir, bl_alu1(ir, BL_OP_EXP, x), -1);
    return bl_where(ir, small, near, far);
}

/* 2 to the whole number |n| (a float between -2 * bias and 2 * bias), in two factors whose exponents fit. */
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

/* 2^n times the exponential of at most a half: exact for whole numbers, where exp(x * ln 2) is not. */
const bl_node *bl_exp2(bl_ir *ir, const bl_node *x)
{
    const bl_node *held = hold(ir, x, x->dtype == BL_F64 ? 1100 : 200);
    const bl_node *n = bl_detach(ir, bl_floor(ir, bl_add_real(ir, held, 0.5)));
    const bl_node *rest = bl_alu1(ir, BL_OP_EXP, bl_mul_real(ir, bl_sub(ir, held, n), 0.69314718055994530942));
    return times_power(ir, rest, n);
}

/* |x|^y by the logarithm, with the sign of an odd power.  y * log|x| is rounded: the error grows to 1e-5 at the ends of float32.
 * A constant whole exponent up to 64 is a product, and a half a root, as precise as they are. */
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

static bool known_power(bl_ir *ir, const bl_node *x, const bl_node *y, const bl_node **out)
{
    const bl_node *uniform = bl_uniform_const(y);
    if (uniform == NULL)
        return false;
    double power = bl_const_value(uniform).f;
    if (power == 0.5 || power == -0.5) { /* the root of -0.0 is -0.0, the power 0.0; of -inf it is NaN, the power inf */
        *out = bl_alu1(ir, BL_OP_SQRT, bl_add_real(ir, x, 0));
        if (power < 0)
            *out = bl_div(ir, bl_full_like(ir, x, 1), *out);
        return true;
    }
    if (power == 0 || power != (double)(int64_t)power || power < -64 || power > 64)
        return false;
    *out = whole_power(ir, x, (int64_t)power);
    return true;
}

const bl_node *bl_pow(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *known = NULL;
    if (known_power(ir, x, y, &known))
        return known;
    const bl_node *zero = bl_full_like(ir, x, 0), *one = bl_full_like(ir, x, 1);
    const bl_node *minus = is_negative(ir, x);
    const bl_node *is_zero = bl_alu2(ir, BL_OP_CMPEQ, x, zero);
    const bl_node *none = bl_alu2(ir, BL_OP_CMPEQ, y, zero);
    const bl_node *half = bl_mul_real(ir, y, 0.5);
    const bl_node *whole = bl_alu2(ir, BL_OP_CMPEQ, bl_floor(ir, y), y);
    const bl_node *odd = bl_alu2(ir, BL_OP_AND, whole, bl_not(ir, bl_alu2(ir, BL_OP_CMPEQ, bl_floor(ir, half), half)));
    const bl_node *size = bl_where(ir, minus, bl_alu1(ir, BL_OP_NEG, x), x);

    size = bl_where(ir, is_zero, one, size); /* so that log has a slope there; 0^y is put in below */
    const bl_node *power = bl_alu1(ir, BL_OP_EXP, bl_mul(ir, y, bl_alu1(ir, BL_OP_LOG, size)));
    power = bl_where(ir, bl_alu2(ir, BL_OP_AND, minus, odd), bl_alu1(ir, BL_OP_NEG, power), power);
    const bl_node *fraction = bl_alu2(ir, BL_OP_AND, minus, bl_not(ir, whole));
    const bl_node *finite = bl_less(ir, size, bl_full_like(ir, x, HUGE_VAL)); /* (-inf)^0.5 is inf */
    power = bl_where(ir, bl_alu2(ir, BL_OP_AND, fraction, finite), bl_full_like(ir, x, NAN), power);
    /* 0^y: 0 or infinite, times x / x's slope where y is 1 is left to the constant case */
    const bl_node *at_zero = bl_where(ir, is_negative(ir, y), bl_full_like(ir, x, HUGE_VAL), zero);
    power = bl_where(ir, is_zero, bl_where(ir, bl_is_nan(ir, y), y, at_zero), power);
    /* 1^y is 1 for any y, (-1)^y for infinite ones */
    const bl_node *endless =
        bl_alu2(ir, BL_OP_CMPEQ, bl_alu2(ir, BL_OP_MAX, y, bl_alu1(ir, BL_OP_NEG, y)), bl_full_like(ir, y, HUGE_VAL));
    const bl_node *unit = bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_CMPEQ, size, one), endless);
    unit = bl_alu2(ir, BL_OP_OR, unit, bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_CMPEQ, x, one), bl_is_nan(ir, y)));
    return bl_where(ir, bl_alu2(ir, BL_OP_OR, none, unit), one, power);
}

/* atan for -tan(pi/8) <= x <= tan(pi/8): Cephes, atan.c and atanf.c (Moshier). */
static const bl_node *atan_near(bl_ir *ir, const bl_node *x)
{
    static const double p[] = {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                               -1.228866684490136173410e2, -6.485021904942025371773e1};
    static const double q[] = {1,
                               2.485846490142306297962e1,
                               1.650270098316988542046e2,
                               4.328810604912902668951e2,
                               4.853903996359136964868e2,
                               1.945506571482613964425e2};
    static const double small[] = {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1};
    const bl_node *z = bl_mul(ir, x, x);
    const bl_node *r = x->dtype == BL_F64 ? bl_div(ir, bl_poly(ir, z, 5, p), bl_poly(ir, z, 6, q)) : bl_poly(ir, z, 4, small);
    return bl_add(ir, bl_mul(ir, bl_mul(ir, r, z), x), x);
}

/* The angle of |y| over |x| is found in the first eighth of the circle and mirrored from there. */
const bl_node *bl_atan2(bl_ir *ir, const bl_node *y, const bl_node *x)
{
    bl_dtype bits = x->dtype == BL_F64 ? BL_I64 : BL_I32;
    const bl_node *none = bl_full_like(ir, bl_bitcast(ir, bits, x), 0);
    const bl_node *left = bl_less(ir, bl_bitcast(ir, bits, x), none), *below = bl_less(ir, bl_bitcast(ir, bits, y), none);
    const bl_node *a = bl_where(ir, left, bl_alu1(ir, BL_OP_NEG, x), x), *b = bl_where(ir, below, bl_alu1(ir, BL_OP_NEG, y), y);
    const bl_node *steep = bl_less(ir, a, b);
    const bl_node *large = bl_where(ir, steep, b, a), *little = bl_where(ir, steep, a, b);
    const bl_node *same = bl_alu2(ir, BL_OP_CMPEQ, large, little), *zero = bl_full_like(ir, x, 0), *one = bl_full_like(ir, x, 1);
    const bl_node *nowhere = bl_alu2(ir, BL_OP_CMPEQ, large, zero), *endless = bl_full_like(ir, x, HUGE_VAL);

    large = bl_where(ir, nowhere, one, large);
    const bl_node *t = bl_div(ir, little, large);
    t = bl_where(ir, bl_alu2(ir, BL_OP_AND, same, bl_alu2(ir, BL_OP_CMPEQ, large, endless)), one, t);
    const bl_node *far = bl_less(ir, bl_full_like(ir, t, 0.41421356237309504880), t); /* tan(pi/8) */
    const bl_node *near = bl_where(ir, far, bl_div(ir, bl_add_real(ir, t, -1), bl_add_real(ir, t, 1)), t);
    const bl_node *angle = atan_near(ir, near);
    angle = bl_where(ir, far, bl_add_real(ir, angle, M_PI_4), angle);
    angle = bl_where(ir, steep, bl_sub(ir, bl_full_like(ir, x, M_PI_2), angle), angle);
    angle = bl_where(ir, left, bl_sub(ir, bl_full_like(ir, x, M_PI), angle), angle);
    return bl_where(ir, below, bl_alu1(ir, BL_OP_NEG, angle), angle);
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
