/* SPDX-License-Identifier: MIT */
/* Windows of signals, grids, random numbers. */
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

/* Places of a grid over [-1, 1] in each axis, turned by theta: x before y before z, as columns. */
bl_onnx_value *bl_onnx_write_affine_grid(bl_onnx_call *c)
{
    const int64_t *size;
    bool corners = bl_onnx_int(c, "align_corners", 0) != 0;
    int n = bl_onnx_in_ints(c, 1, &size), dims = n - 2;
    int64_t points = 1;

    if (dims != 2 && dims != 3)
        return bl_onnx_fail(c, "needs a size of 4 or 5 numbers");
    for (int d = 0; d < dims; d++)
        points *= size[2 + d] > 0 && size[2 + d] <= BL_ONNX_MAX_KNOWN && points <= BL_ONNX_MAX_KNOWN ? size[2 + d] : 0;
    bl_onnx_known *base = bl_onnx_new_known(c->import, bl_onnx_type(bl_onnx_in(c, 0)), 2, (const int64_t[]){points, dims + 1});
    if (base == NULL || base->real == NULL || points == 0)
        return bl_onnx_fail_as(c, BL_ELIMIT, "a grid of more than %d numbers", BL_ONNX_MAX_KNOWN);
    for (int64_t at = 0; at < points; at++) {
        int64_t rest = at;
        for (int d = dims - 1; d >= 0; d--) {
            double extent = (double)size[2 + d], i = (double)(rest % size[2 + d]);
            rest /= size[2 + d];
            double place = corners ? (extent > 1 ? -1 + 2 * i / (extent - 1) : -1) : -1 + (2 * i + 1) / extent;
            base->real[at * (dims + 1) + (dims - 1 - d)] = bl_scalar_fit(base->dtype, (bl_scalar){.f = place}).f;
        }
        base->real[at * (dims + 1) + dims] = 1;
    }
    int64_t shape[5] = {size[0], size[2], size[3], dims == 3 ? size[4] : dims, dims};
    return bl_onnx_make(c, "reshape(matmul($0, transpose(a)), shape=$1)",
                        ARGS(V(bl_onnx_known_value(c->import, base)), IS(dims + 2, shape)));
}

/* ---- random numbers, from the program's state rng */

static bl_dtype wanted_type(bl_onnx_call *c)
{
    bl_dtype like = bl_onnx_in(c, 0) != NULL && bl_dtype_is_float(bl_onnx_type(c->in[0])) ? bl_onnx_type(c->in[0]) : BL_F32;
    bl_dtype dtype = bl_onnx_attr(c, "dtype") != NULL ? bl_onnx_dtype((int)bl_onnx_int(c, "dtype", 1)) : like;

    return dtype != BL_DTYPE_COUNT ? dtype : BL_F32;
}

static bl_onnx_value *draw(bl_onnx_call *c, const char *recipe, const char *low, double low_preset, const char *high)
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
    return draw(c, "uniform(shape=$0, low=$1, high=$2, dtype=$3)", "low", 0, "high");
}

bl_onnx_value *bl_onnx_write_random_normal(bl_onnx_call *c)
{
    return draw(c, "normal(shape=$0, mean=$1, std=$2, dtype=$3)", "mean", 0, "scale");
}

bl_onnx_value *bl_onnx_write_bernoulli(bl_onnx_call *c)
{
    bl_dtype dtype =
        bl_onnx_attr(c, "dtype") != NULL ? bl_onnx_dtype((int)bl_onnx_int(c, "dtype", 1)) : bl_onnx_type(bl_onnx_in(c, 0));

    if (dtype == BL_DTYPE_COUNT)
        return bl_onnx_fail(c, "there are no tensors of this element type here");
    return bl_onnx_make(c, "cast(bernoulli(a), dtype=$0)", ARGS(D(dtype)));
}
