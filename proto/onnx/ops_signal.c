/* SPDX-License-Identifier: MIT */
/* Signal windows, Fourier transforms, grids, random numbers. */
#include "proto/onnx/import.h"

#include <math.h>

#define TURN 6.283185307179586

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) */
static bl_onnx_value *window(bl_onnx_call *c, double a, double b, double more)
{
    const int64_t *size;
    bl_dtype dtype = bl_onnx_dtype((int)bl_onnx_int(c, "output_datatype", 1));
    bl_onnx_known *out;

    if (bl_onnx_in_ints(c, 0, &size) != 1 || !bl_dtype_is_float(dtype))
        return bl_onnx_fail(c, "needs one size, and a float for its result");
    double n = bl_onnx_int(c, "periodic", 1) != 0 ? (double)*size : (double)(*size - 1);
    out = bl_onnx_new_known(c->import, dtype, 1, size);
    if (out == NULL)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld elements", (long long)*size);
    for (int i = 0; i < out->count; i++)
        out->real[i] = bl_scalar_fit(dtype, (bl_scalar){.f = a - b * cos(TURN * i / n) + more * cos(2 * TURN * i / n)}).f;
    return bl_onnx_known_value(c->import, out);
}

bl_onnx_value *bl_onnx_write_hann_window(bl_onnx_call *c)
{
    return window(c, 0.5, 0.5, 0);
}

bl_onnx_value *bl_onnx_write_hamming_window(bl_onnx_call *c)
{
    return window(c, 25.0 / 46, 21.0 / 46, 0);
}

bl_onnx_value *bl_onnx_write_blackman_window(bl_onnx_call *c)
{
    return window(c, 0.42, 0.5, 0.08);
}

/* Column |j| of theta, [batch, 1, ..., 1, dims], to multiply with the coordinates along an axis of the grid. */
static bl_onnx_value *theta_column(bl_onnx_call *c, int dims, int j, const bl_node *batch)
{
    const int64_t axis = 2;
    const bl_node *shape[5];

    for (int i = 0; i < dims + 2; i++)
        shape[i] = bl_index(c->import->ir, i <= dims ? 1 : dims);
    shape[0] = batch;
    return bl_onnx_make(c, "reshape(slice(a, start=$0, stop=$1, axis=$2), shape=$3)",
                        ARGS(I(j), I(j + 1), IS(1, &axis), ZS(dims + 2, shape)));
}

/* |size| coordinates over [-1, 1] along axis |at| of the grid's shape: the centres of |size| equal intervals or, with
 * align_corners, including both ends. */
static bl_onnx_value *grid_places(bl_onnx_call *c, const bl_node *size, int dims, int at)
{
    const char *recipe = bl_onnx_int(c, "align_corners", 0) != 0
                             ? "reshape(sub(div(mul(cast(arange(stop=$0), dtype=$1), 2), maximum(sub($2, 1), 1)), 1), shape=$3)"
                             : "reshape(sub(div(add(mul(cast(arange(stop=$0), dtype=$1), 2), 1), $2), 1), shape=$3)";
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(c, 0));
    bl_onnx_value *count = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(bl_onnx_size_value(c, size)), D(dtype)));
    const bl_node *shape[5];

    for (int i = 0; i < dims + 2; i++)
        shape[i] = i == at ? size : bl_index(c->import->ir, 1);
    return bl_onnx_make(c, recipe, ARGS(ZS(-1, &size), D(dtype), V(count), ZS(dims + 2, shape)));
}

/* theta times (x, y, 1) or (x, y, z, 1) at each point of the grid; x runs along the last axis. */
bl_onnx_value *bl_onnx_write_affine_grid(bl_onnx_call *c)
{
    const bl_node *const *size;
    int n = bl_onnx_in_sizes(c, 1, &size), dims = n - 2;
    bl_onnx_value *sum;

    if (dims != 2 && dims != 3)
        return bl_onnx_fail(c, "needs a size of 4 or 5 numbers");
    sum = theta_column(c, dims, dims, size[0]);
    for (int d = 0; d < dims; d++)
        sum = bl_onnx_make(
            c, "add($0, mul($1, $2))",
            ARGS(V(sum), V(grid_places(c, size[2 + d], dims, 1 + d)), V(theta_column(c, dims, dims - 1 - d, size[0]))));
    return sum;
}

/* ---- random numbers, drawn from the program's state rng */

static bl_dtype wanted_type(bl_onnx_call *c)
{
    bl_dtype like = bl_onnx_in(c, 0) != NULL && bl_dtype_is_float(bl_onnx_type(c->in[0])) ? bl_onnx_type(c->in[0]) : BL_F32;
    bl_dtype dtype = bl_onnx_attr(c, "dtype") != NULL ? bl_onnx_dtype((int)bl_onnx_int(c, "dtype", 1)) : like;

    return dtype != BL_DTYPE_COUNT ? dtype : BL_F32;
}

static bl_onnx_value *ops_signal_draw(bl_onnx_call *c, const char *recipe, const char *low, double low_preset, const char *high)
{
    const int64_t *ints = NULL;
    const bl_node *dim[BL_MAX_DIMS];
    bl_onnx_value *like = bl_onnx_in(c, 0);
    int n = like != NULL ? bl_onnx_rank(like) : bl_onnx_ints(c, "shape", &ints);

    if (n < 0 || n > BL_MAX_DIMS)
        return bl_onnx_fail(c, "needs a shape");
    for (int i = 0; i < n; i++)
        dim[i] = like != NULL ? like->type->dim[i] : bl_index(c->import->ir, ints[i]);
    return bl_onnx_make(c, recipe,
                        ARGS(ZS(n, dim), R(bl_onnx_float(c, low, low_preset)), R(bl_onnx_float(c, high, 1)), D(wanted_type(c))));
}

bl_onnx_value *bl_onnx_write_random_uniform(bl_onnx_call *c)
{
    return ops_signal_draw(c, "uniform(shape=$0, low=$1, high=$2, dtype=$3)", "low", 0, "high");
}

bl_onnx_value *bl_onnx_write_random_normal(bl_onnx_call *c)
{
    return ops_signal_draw(c, "normal(shape=$0, mean=$1, std=$2, dtype=$3)", "mean", 0, "scale");
}

bl_onnx_value *bl_onnx_write_bernoulli(bl_onnx_call *c)
{
    bl_dtype dtype =
        bl_onnx_attr(c, "dtype") != NULL ? bl_onnx_dtype((int)bl_onnx_int(c, "dtype", 1)) : bl_onnx_type(bl_onnx_in(c, 0));

    if (dtype == BL_DTYPE_COUNT)
        return bl_onnx_fail(c, "this element type is not supported");
    return bl_onnx_make(c, "cast(bernoulli(a), dtype=$0)", ARGS(D(dtype)));
}

/* ---- Fourier transforms: complex numbers are a last axis of 1 (real) or 2 */

/* The first |n| elements of an axis, padded with zeros if it has fewer. */
static bl_onnx_value *fit_length(bl_onnx_call *c, bl_onnx_value *x, int axis, int64_t n)
{
    int64_t pads[2 * BL_MAX_DIMS] = {0};

    if (x == NULL || bl_is_int(x->type->dim[axis], n))
        return x;
    if (!bl_is_const(x->type->dim[axis]))
        return bl_onnx_fail(c, "axis %d is named and its transform has %lld elements: the axis must have a fixed size", axis,
                            (long long)n);
    pads[2 * axis + 1] = n - x->type->dim[axis]->hi; /* a negative value crops */
    return bl_onnx_make(c, "pad($0, padding=$1)", ARGS(V(x), IS(2 * bl_onnx_rank(x), pads)));
}

/* Part |i| of the last axis: 0 real, 1 imaginary. */
static bl_onnx_value *complex_part(bl_onnx_call *c, bl_onnx_value *x, int i)
{
    return bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=[-1]), axis=-1)", ARGS(V(x), I(i), I(i + 1)));
}

/* Transforms |re| and |im| (NULL: real input) along |axis|; the result has both parts as its last axis. */
static bl_onnx_value *ops_signal_transform(bl_onnx_call *c, bl_onnx_value *re, bl_onnx_value *im, int axis, bool onesided)
{
    bl_onnx_value *part[2];
    bool made = im != NULL
                    ? bl_onnx_make_many(c, "fft($0, $1, axis=$2)", ARGS(V(re), V(im), I(axis)), 2, part)
                    : bl_onnx_make_many(c, onesided ? "rfft($0, axis=$1)" : "fft($0, axis=$1)", ARGS(V(re), I(axis)), 2, part);

    for (int i = 0; i < 2 && im != NULL && onesided && made; i++)
        part[i] = fit_length(c, part[i], axis, part[i]->type->dim[axis]->hi / 2 + 1);
    return made ? bl_onnx_make(c, "stack($0, $1, axis=-1)", ARGS(V(part[0]), V(part[1]))) : NULL;
}

static bl_onnx_value *inverse_transform(bl_onnx_call *c, bl_onnx_value *re, bl_onnx_value *im, int axis, bool onesided, int64_t n)
{
    bl_onnx_value *part[2];

    if (onesided) {
        if (im == NULL)
            im = bl_onnx_make(c, "zeros_like($0)", ARGS(V(re)));
        return bl_onnx_make(c, "unsqueeze(irfft($0, $1, axis=$2, n=$3), axis=-1)", ARGS(V(re), V(im), I(axis), I(n)));
    }
    bool made = im != NULL ? bl_onnx_make_many(c, "ifft($0, $1, axis=$2)", ARGS(V(re), V(im), I(axis)), 2, part)
                           : bl_onnx_make_many(c, "ifft($0, axis=$1)", ARGS(V(re), I(axis)), 2, part);
    return made ? bl_onnx_make(c, "stack($0, $1, axis=-1)", ARGS(V(part[0]), V(part[1]))) : NULL;
}

bl_onnx_value *bl_onnx_write_dft(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *re, *im;
    bool inverse = bl_onnx_int(c, "inverse", 0) != 0, onesided = bl_onnx_int(c, "onesided", 0) != 0;
    int rank = bl_onnx_rank(x);
    const int64_t *length, *given;
    int64_t at = c->opset < 20 ? bl_onnx_int(c, "axis", 1) : bl_onnx_in_ints(c, 2, &given) == 1 ? given[0] : -2;

    if (rank < 2 || !bl_is_const(x->type->dim[rank - 1]) || x->type->dim[rank - 1]->hi < 1 || x->type->dim[rank - 1]->hi > 2)
        return bl_onnx_fail(c, "needs data whose last axis is 1 (real) or 2 (complex)");
    int axis = bl_onnx_axis(c, at, rank), n = bl_onnx_in_ints(c, 1, &length);
    if (axis == rank - 1 || c->import->failed)
        return bl_onnx_fail(c, "axis %lld is that of real and imaginary parts", (long long)at);
    int64_t own = x->type->dim[axis]->hi, size = n == 1 ? length[0] : inverse && onesided ? 2 * (own - 1) : own;
    if (size < 1 || size > INT32_MAX)
        return bl_onnx_fail(c, "dft_length is %lld; it must be at least 1", (long long)size);
    int64_t read = inverse && onesided ? size / 2 + 1 : size;
    re = fit_length(c, complex_part(c, x, 0), axis, read);
    im = x->type->dim[rank - 1]->hi == 2 ? fit_length(c, complex_part(c, x, 1), axis, read) : NULL;
    return inverse ? inverse_transform(c, re, im, axis, onesided, size) : ops_signal_transform(c, re, im, axis, onesided);
}

/* Inputs: signal [batch, length] or [batch, length, 1 or 2], step, window, frame length. */
bl_onnx_value *bl_onnx_write_stft(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *window = bl_onnx_in(c, 2), *part[2] = {x, NULL};
    const int64_t *step, *length;
    int n = bl_onnx_in_ints(c, 3, &length), rank = bl_onnx_rank(x);
    const bl_node *size = rank >= 2 ? x->type->dim[1] : NULL;

    if (bl_onnx_in_ints(c, 1, &step) != 1 || rank < 2 || rank > 3 || step[0] < 1)
        return bl_onnx_fail(c, "needs a signal [batch, length, 1 or 2] and a step of at least 1");
    if (n == 1)
        size = bl_index(c->import->ir, length[0]);
    else if (window != NULL && bl_onnx_rank(window) == 1)
        size = window->type->dim[0];
    if (!bl_is_const(size) || size->hi < 1)
        return bl_onnx_fail(c, "the length of a frame must be fixed: give frame_length or a window");
    bool is_complex = rank == 3 && bl_is_int(x->type->dim[2], 2);
    for (int i = 0; i < (is_complex ? 2 : 1); i++) {
        if (rank == 3)
            part[i] = complex_part(c, x, i);
        part[i] = bl_onnx_make(c, "unfold($0, axis=1, size=$1, step=$2)", ARGS(V(part[i]), I(size->hi), I(step[0])));
        if (window != NULL)
            part[i] = bl_onnx_make(c, "mul($0, c)", ARGS(V(part[i])));
    }
    return ops_signal_transform(c, part[0], part[1], 2, bl_onnx_int(c, "onesided", 1) != 0);
}

/* Triangular filters over the frequencies of a Fourier transform, with equal distances on the mel scale: [length / 2 + 1,
 * bins]. */
bl_onnx_value *bl_onnx_write_mel_weight_matrix(bl_onnx_call *c)
{
    const int64_t *bins, *length, *rate;
    const double *edge[2];
    bl_dtype dtype = bl_onnx_dtype((int)bl_onnx_int(c, "output_datatype", 1));
    double mel[2], at[3];

    if (bl_onnx_in_ints(c, 0, &bins) != 1 || bl_onnx_in_ints(c, 1, &length) != 1 || bl_onnx_in_ints(c, 2, &rate) != 1 ||
        bl_onnx_in_reals(c, 3, &edge[0]) != 1 || bl_onnx_in_reals(c, 4, &edge[1]) != 1 || !bl_dtype_is_float(dtype) ||
        bins[0] < 1 || bins[0] > INT32_MAX || length[0] < 1 || length[0] > INT32_MAX || rate[0] < 1)
        return bl_onnx_fail(c,
                            "needs the numbers of bins, of elements of the transform and of samples a second, two frequencies, "
                            "and a float for its result");
    int64_t rows = length[0] / 2 + 1;
    bl_onnx_known *out = bl_onnx_new_known(c->import, dtype, 2, (const int64_t[]){rows, bins[0]});
    if (out == NULL)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld x %lld elements; the limit is %d", (long long)rows, (long long)bins[0],
                               BL_ONNX_MAX_KNOWN);
    for (int i = 0; i < 2; i++)
        mel[i] = 2595 * log10(1 + edge[i][0] / 700);
    for (int64_t b = 0; b < bins[0]; b++) {
        for (int k = 0; k < 3; k++) {
            double hertz = 700 * (pow(10, (mel[0] + (double)(b + k) * (mel[1] - mel[0]) / (double)(bins[0] + 2)) / 2595) - 1);
            at[k] = floor((double)(length[0] + 1) * hertz / (double)rate[0]);
        }
        for (int64_t row = 0; row < rows; row++) {
            double r = (double)row, up = at[1] == at[0] ? r == at[1] : (r - at[0]) / (at[1] - at[0]);
            double value = r >= at[0] && r <= at[1] ? up : 0;
            if (r >= at[1] && r < at[2])
                value = (at[2] - r) / (at[2] - at[1]);
            out->real[row * bins[0] + b] = bl_scalar_fit(dtype, (bl_scalar){.f = value}).f;
        }
    }
    return bl_onnx_known_value(c->import, out);
}
