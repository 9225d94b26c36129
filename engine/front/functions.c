/* SPDX-License-Identifier: MIT */
/* Functions of real numbers written in primitives.  Nothing here overflows where its value does not, so that gradients, which
 * multiply by what stands in between, stay finite too. */
#include "engine/front/call.h"

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
    return x->dtype == BL_F16 || x->dtype == BL_BF16 ? bl_cast(ir, BL_F32, x) : x;
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

const bl_node *bl_sigmoid(bl_ir *ir, const bl_node *x)
{
    const bl_node *e = bl_alu1(ir, BL_OP_EXP, minus_abs(ir, x));
    const bl_node *one = bl_full_like(ir, x, 1);
    return bl_div(ir, bl_where(ir, is_negative(ir, x), e, one), bl_add(ir, one, e));
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
    const bl_node *half = hold(ir, x, 0.5);
    const bl_node *near = bl_mul(ir, half, bl_poly(ir, half, n, coefficient));
    const bl_node *far = bl_add_real(ir, bl_alu1(ir, BL_OP_EXP, x), -1);
    const bl_node *small = bl_alu2(ir, BL_OP_CMPEQ, half, x);
    return bl_where(ir, small, near, far);
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
