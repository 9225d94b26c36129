/* SPDX-License-Identifier: MIT */
/* Discrete Fourier transforms on real and imaginary parts (Cooley and Tukey, "An algorithm for the machine calculation of
 * complex Fourier series", 1965). A length a * b is transformed as a columns of length b, multiplied by twiddle factors, and b
 * rows of length a. Lengths below 64, and primes, are a matrix product. */
#include "engine/front/build.h"

#include <math.h>

enum {
    DIRECT = 64,
    /* most elements of a matrix in a buffer, 4 MiB of float32; the matrix of a large prime has the square of its length */
    MOST_ROOTS = 1 << 20
};

typedef struct complex_node {
    const bl_node *re, *im; /* im NULL: all zero */
} complex_node;

/* Broadcast |x|, a matrix, along two axes of |like|. */
static const bl_node *spread_matrix(bl_ir *ir, const bl_node *x, const bl_node *like, int axis, int other)
{
    const bl_node *dim[BL_MAX_DIMS + 1];

    for (int i = 0; i < like->ndim; i++)
        dim[i] = i == axis || i == other ? like->dim[i] : bl_index(ir, 1);
    return bl_expand(ir, bl_reshape(ir, x, like->ndim, dim), like->ndim, like->dim);
}

/* cos and sin of sign * 2 * pi * i * k / n, for i along |axis| and k along |other| of |like|. They do not depend on other axes,
 * so a small matrix of them is computed once, in a buffer. The angle is reduced exactly, in integers: i * k modulo n, then into
 * its quadrant and the rest. sin is then taken between 0 and pi / 2, and multiples of a quarter turn give exact zeros and
 * ones. */
static complex_node roots(bl_ir *ir, const bl_node *like, int axis, int other, int64_t n, int sign)
{
    bl_dtype dtype = (bl_dtype)like->dtype;
    const bl_node *dim[2] = {like->dim[axis], like->dim[other]};
    const bl_node *row = bl_expand(ir, bl_add_axis(ir, bl_iota(ir, BL_I64, dim[0]), 1), 2, dim);
    const bl_node *column = bl_expand(ir, bl_add_axis(ir, bl_iota(ir, BL_I64, dim[1]), 0), 2, dim);
    const bl_node *product = bl_mul(ir, row, column);
    const bl_node *whole = bl_full_like(ir, product, (double)n), *one = bl_full_like(ir, product, 1);
    const bl_node *quarters = bl_mul(ir, bl_mod(ir, product, whole), bl_full_like(ir, product, 4));
    const bl_node *quarter = bl_idiv(ir, quarters, whole), *rest = bl_mod(ir, quarters, whole);
    const bl_node *odd = bl_alu2(ir, BL_OP_CMPEQ, bl_mod(ir, quarter, bl_full_like(ir, product, 2)), one);
    const bl_node *up = bl_alu1(ir, BL_OP_SIN, bl_mul_real(ir, bl_cast(ir, dtype, rest), M_PI_2 / (double)n));
    const bl_node *down =
        bl_alu1(ir, BL_OP_SIN, bl_mul_real(ir, bl_cast(ir, dtype, bl_sub(ir, whole, rest)), M_PI_2 / (double)n));
    const bl_node *cosine = bl_where(ir, odd, up, down), *sine = bl_where(ir, odd, down, up);
    const bl_node *left = bl_alu2(ir, BL_OP_CMPEQ, bl_idiv(ir, bl_add(ir, quarter, one), bl_full_like(ir, product, 2)), one);
    const bl_node *below = bl_alu2(ir, BL_OP_CMPLT, one, quarter);

    const bl_node *zero = bl_full_like(ir, cosine, 0); /* 0 - x rather than -x, which would make zeros negative */
    cosine = bl_where(ir, left, bl_sub(ir, zero, cosine), cosine);
    sine = sign > 0 ? bl_where(ir, below, bl_sub(ir, zero, sine), sine) : bl_where(ir, below, sine, bl_sub(ir, zero, sine));
    int64_t count = 0;
    if (bl_shape_max_count(2, dim, &count) && count <= MOST_ROOTS) {
        cosine = bl_contiguous(ir, cosine);
        sine = bl_contiguous(ir, sine);
    }
    return (complex_node){spread_matrix(ir, cosine, like, axis, other), spread_matrix(ir, sine, like, axis, other)};
}

static complex_node fourier_multiply(bl_ir *ir, complex_node x, complex_node y)
{
    if (x.im == NULL)
        return (complex_node){bl_mul(ir, x.re, y.re), bl_mul(ir, x.re, y.im)};
    return (complex_node){bl_sub(ir, bl_mul(ir, x.re, y.re), bl_mul(ir, x.im, y.im)),
                          bl_add(ir, bl_mul(ir, x.re, y.im), bl_mul(ir, x.im, y.re))};
}

/* The transform as a matrix product: sums along the last axis for each k of a new axis, which becomes the last. */
static complex_node transform_directly(bl_ir *ir, complex_node x, int64_t n, int sign)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    int last = x.re->ndim;
    uint32_t axes = 1u << last;

    for (int i = 0; i <= last; i++)
        dim[i] = x.re->dim[i < last ? i : i - 1];
    x.re = bl_expand(ir, bl_add_axis(ir, x.re, last - 1), last + 1, dim);
    x.im = x.im == NULL ? NULL : bl_expand(ir, bl_add_axis(ir, x.im, last - 1), last + 1, dim);
    complex_node y = fourier_multiply(ir, x, roots(ir, x.re, last - 1, last, n, sign));
    y.re = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, y.re, axes), axes);
    y.im = bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, y.im, axes), axes);
    return y;
}

/* The largest divisor up to the square root, so that both factors are small; 1 for a prime. */
static int64_t fourier_split(int64_t n)
{
    for (int64_t a = (int64_t)sqrt((double)n); a > 1; a--)
        if (n % a == 0)
            return a;
    return 1;
}

static const bl_node *swap_last(bl_ir *ir, const bl_node *x)
{
    int perm[BL_MAX_DIMS];
    if (x == NULL)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i < x->ndim - 2 ? i : 2 * x->ndim - 3 - i;
    return bl_permute(ir, x, perm);
}

static const bl_node *in_rows(bl_ir *ir, const bl_node *x, int64_t a, int64_t b)
{
    const bl_node *dim[BL_MAX_DIMS + 1];
    if (x == NULL)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    dim[x->ndim - 1] = bl_index(ir, a);
    dim[x->ndim] = bl_index(ir, b);
    return bl_reshape(ir, x, x->ndim + 1, dim);
}

/* Transform along the last axis, of extent n. */
static complex_node fourier_transform(bl_ir *ir, complex_node x, int64_t n, int sign)
{
    int64_t a = n <= DIRECT ? 1 : fourier_split(n), b = n / a;
    const bl_node *dim[BL_MAX_DIMS];

    if (a == 1 || x.re->ndim + 2 > BL_MAX_DIMS)
        return transform_directly(ir, x, n, sign);
    for (int i = 0; i < x.re->ndim; i++)
        dim[i] = x.re->dim[i];
    /* element i = i1 * a + i0 as [i0, i1]: transforms of length b along i1 */
    complex_node y = {swap_last(ir, in_rows(ir, x.re, b, a)), x.im == NULL ? NULL : swap_last(ir, in_rows(ir, x.im, b, a))};
    y = fourier_transform(ir, y, b, sign);
    y = fourier_multiply(ir, y, roots(ir, y.re, y.re->ndim - 2, y.re->ndim - 1, n, sign));
    y = (complex_node){bl_contiguous(ir, swap_last(ir, y.re)), bl_contiguous(ir, swap_last(ir, y.im))};
    /* [k0, i0]: transforms of length a along i0; result k = k1 * b + k0 */
    y = fourier_transform(ir, y, a, sign);
    int ndim = y.re->ndim - 1;
    return (complex_node){bl_contiguous(ir, bl_reshape(ir, swap_last(ir, y.re), ndim, dim)),
                          bl_contiguous(ir, bl_reshape(ir, swap_last(ir, y.im), ndim, dim))};
}

/* The axis and its constant extent; -1 after a failure. */
static int take_length(bl_call *c, const bl_node *x, int64_t *n)
{
    int axis = bl_call_axis(c, bl_attr(c, "axis")->whole, x->ndim);
    if (axis < 0)
        return -1;
    if (!bl_is_const(x->dim[axis]) || x->dim[axis]->lo < 1) {
        bl_call_fail(c, "axis %d of %s needs a fixed length of at least 1", axis, bl_call_shape(c, x));
        return -1;
    }
    *n = x->dim[axis]->lo;
    return axis;
}

static const bl_node *give(bl_call *c, complex_node y, int axis, double scale)
{
    bl_ir *ir = c->ir;
    const bl_node *part[2] = {y.re, y.im};
    for (int i = 0; i < c->sig.nresults; i++) {
        const bl_node *x = scale == 1 ? part[i] : bl_mul_real(ir, part[i], scale);
        c->result[i] = bl_cast(ir, (bl_dtype)c->in[0]->dtype, bl_from_last(ir, x, axis));
    }
    return c->result[0];
}

static const bl_node *transform_both(bl_call *c, int sign)
{
    bl_ir *ir = c->ir;
    int64_t n = 0;
    const bl_node *both[2] = {bl_widen(ir, c->in[0]), c->in[1] == NULL ? NULL : bl_widen(ir, c->in[1])};

    if (both[1] != NULL && !bl_call_broadcast(c, 2, both))
        return both[0];
    int axis = take_length(c, both[0], &n);
    if (axis < 0)
        return c->in[0];
    complex_node x = {bl_to_last(ir, both[0], axis), both[1] == NULL ? NULL : bl_to_last(ir, both[1], axis)};
    return give(c, fourier_transform(ir, x, n, sign), axis, sign > 0 ? 1 / (double)n : 1);
}

const bl_node *expand_fft(bl_call *c)
{
    return transform_both(c, -1);
}

const bl_node *expand_ifft(bl_call *c)
{
    return transform_both(c, 1);
}

const bl_node *expand_rfft(bl_call *c)
{
    bl_ir *ir = c->ir;
    int64_t n = 0;
    const bl_node *x = bl_widen(ir, c->in[0]);
    int axis = take_length(c, x, &n);

    if (axis < 0)
        return x;
    complex_node y = fourier_transform(ir, (complex_node){bl_to_last(ir, x, axis), NULL}, n, -1);
    y.re = bl_shrink_axis(ir, y.re, x->ndim - 1, bl_index(ir, 0), bl_index(ir, n / 2 + 1));
    y.im = bl_shrink_axis(ir, y.im, x->ndim - 1, bl_index(ir, 0), bl_index(ir, n / 2 + 1));
    return give(c, y, axis, 1);
}

/* The second half is the mirrored conjugate of the first. The imaginary parts of the first element, and of the middle one for
 * an even length, are ignored. */
const bl_node *expand_irfft(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *both[2] = {bl_widen(ir, c->in[0]), bl_widen(ir, c->in[1])};
    int64_t half = 0;

    if (!bl_call_broadcast(c, 2, both))
        return both[0];
    int axis = take_length(c, both[0], &half);
    if (axis < 0)
        return c->in[0];
    int64_t n = bl_attr(c, "n")->given ? bl_attr(c, "n")->whole : 2 * (half - 1);
    if (n < 1 || n / 2 + 1 != half)
        return bl_call_fail(c, "a length of %lld needs %lld parts along axis %d, not %lld", (long long)n, (long long)(n / 2 + 1),
                            axis, (long long)half);
    int last = both[0]->ndim - 1;
    int64_t rest = n - half; /* number of mirrored elements: n - half, out of 1 .. half - 1 */
    for (int i = 0; i < 2; i++) {
        const bl_node *x = bl_to_last(ir, both[i], axis), *zero = bl_index(ir, 0);
        const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS];
        if (i == 1) { /* these elements have no conjugate */
            const bl_node *k = bl_iota_like(ir, x, last, BL_I64);
            const bl_node *alone = bl_alu2(ir, BL_OP_CMPEQ, bl_add(ir, k, k), bl_full_like(ir, k, (double)n));
            alone = bl_alu2(ir, BL_OP_OR, alone, bl_alu2(ir, BL_OP_CMPEQ, k, bl_full_like(ir, k, 0)));
            x = bl_where(ir, alone, bl_full_like(ir, x, 0), x);
        }
        const bl_node *mirror = bl_flip(ir, bl_shrink_axis(ir, x, last, bl_index(ir, 1), bl_index(ir, rest)), 1u << last);
        for (int d = 0; d <= last; d++) {
            before[d] = d == last ? bl_index(ir, half) : zero;
            after[d] = d == last ? bl_index(ir, rest) : zero;
        }
        const bl_node *none[BL_MAX_DIMS];
        for (int d = 0; d <= last; d++)
            none[d] = zero;
        x = bl_pad(ir, x, none, after);
        mirror = bl_pad(ir, mirror, before, none);
        both[i] = bl_alu2(ir, i == 0 ? BL_OP_ADD : BL_OP_SUB, x, mirror);
    }
    return give(c, fourier_transform(ir, (complex_node){both[0], both[1]}, n, 1), axis, 1 / (double)n);
}
