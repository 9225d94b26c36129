/* SPDX-License-Identifier: MIT */
/* Softmax variants and normalisations. */
#include "proto/onnx/import.h"

#include <string.h>

/* Applies |recipe| over one axis; before opset 13, over all axes from |axis| on as one. */
static bl_onnx_value *over_axis(bl_onnx_call *c, const char *recipe)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *y;
    int rank = bl_onnx_rank(x), axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", c->opset < 13 ? 1 : -1), rank);

    if (x == NULL || c->opset >= 13 || axis == rank - 1)
        return bl_onnx_make(c, recipe, ARGS(V(x), I(axis)));
    y = bl_onnx_make(c, "flatten(a, start_axis=$0)", ARGS(I(axis)));
    y = bl_onnx_make(c, recipe, ARGS(V(y), I(axis)));
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(rank, x->type->dim)));
}

bl_onnx_value *bl_onnx_write_softmax(bl_onnx_call *c)
{
    return over_axis(c, "softmax($0, axis=$1)");
}

bl_onnx_value *bl_onnx_write_log_softmax(bl_onnx_call *c)
{
    return over_axis(c, "log_softmax($0, axis=$1)");
}

/* ---- normalisations */

/* The axes from |first| on. */
static int axes_from(int first, int rank, int64_t *axes)
{
    for (int i = first; i < rank; i++)
        axes[i - first] = i;
    return rank - first;
}

/* |v| [n] reshaped to broadcast along axis 1 of x. */
static bl_onnx_value *along_channels(bl_onnx_call *c, bl_onnx_value *v, int rank)
{
    const bl_node *dim[BL_MAX_DIMS];

    if (v == NULL || bl_onnx_rank(v) != 1)
        return bl_onnx_fail(c, "needs a vector for the channels");
    for (int i = 0; i < rank - 1; i++)
        dim[i] = i == 0 ? v->type->dim[0] : bl_index(c->import->ir, 1);
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(v), ZS(rank - 1, dim)));
}

/* Training mode: normalises by the batch's mean and variance and updates the running ones. */
static bl_onnx_value *train_batch_norm(bl_onnx_call *c, double eps)
{
    int rank = bl_onnx_rank(bl_onnx_in(c, 0)), n = 1;
    double keep = bl_onnx_float(c, "momentum", 0.9);
    int64_t axes[BL_MAX_DIMS] = {0};

    for (int i = 2; i < rank; i++)
        axes[n++] = i;
    bl_onnx_value *mean = bl_onnx_make(c, "mean(a, axis=$0)", ARGS(IS(n, axes)));
    bl_onnx_value *var = bl_onnx_make(c, "var(a, axis=$0, correction=0)", ARGS(IS(n, axes)));
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "add(mul(d, $0), mul($1, $2))", ARGS(R(keep), V(mean), R(1 - keep)));
    if (bl_onnx_wants(c, 2))
        c->out[2] = bl_onnx_make(c, "add(mul(e, $0), mul($1, $2))", ARGS(R(keep), V(var), R(1 - keep)));
    return bl_onnx_make(c, "batch_norm(a, $0, $1, b, c, eps=$2)", ARGS(V(mean), V(var), R(eps)));
}

bl_onnx_value *bl_onnx_write_batch_normalization(bl_onnx_call *c)
{
    double eps = bl_onnx_float(c, "epsilon", (double)1e-5f);

    if (c->nin != 5)
        return bl_onnx_fail(c, "needs data, scale, bias, mean and variance");
    if (bl_onnx_int(c, "training_mode", 0) != 0 || (c->opset < 14 && c->nout > 1))
        return train_batch_norm(c, eps);
    if (c->opset < 9 && bl_onnx_int(c, "spatial", 1) == 0)
        return bl_onnx_fail(c, "statistics for each place (spatial = 0)");
    return bl_onnx_make(c, "batch_norm(a, d, e, b, c, eps=$0)", ARGS(R(eps)));
}

/* Also gives the mean and 1 / deviation if they are used. */
static bl_onnx_value *layer_norm(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *bias, int first,
                                 double eps)
{
    int64_t axes[BL_MAX_DIMS];
    int n = axes_from(first, bl_onnx_rank(x), axes);

    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "mean($0, axis=$1, keepdim=true)", ARGS(V(x), IS(n, axes)));
    if (bl_onnx_wants(c, 2))
        c->out[2] =
            bl_onnx_make(c, "rsqrt(add(var($0, axis=$1, correction=0, keepdim=true), $2))", ARGS(V(x), IS(n, axes), R(eps)));
    if (scale == NULL)
        x = bl_onnx_make(c, "layer_norm($0, axis=$1, eps=$2)", ARGS(V(x), IS(n, axes), R(eps)));
    else
        x = bl_onnx_make(c, "layer_norm($0, $1, axis=$2, eps=$3)", ARGS(V(x), V(scale), IS(n, axes), R(eps)));
    return bias != NULL ? bl_onnx_make(c, "add($0, $1)", ARGS(V(x), V(bias))) : x;
}

bl_onnx_value *bl_onnx_write_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int first = bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), bl_onnx_rank(x));

    if (x == NULL || c->import->failed)
        return NULL;
    return layer_norm(c, x, bl_onnx_in(c, 1), bl_onnx_in(c, 2), first, bl_onnx_float(c, "epsilon", (double)1e-5f));
}

bl_onnx_value *bl_onnx_write_rms_normalization(bl_onnx_call *c)
{
    int64_t axes[BL_MAX_DIMS];
    int rank = bl_onnx_rank(bl_onnx_in(c, 0));
    int n = axes_from(bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), rank), rank, axes);

    return bl_onnx_make(c, "rms_norm(a, b, axis=$0, eps=$1)", ARGS(IS(n, axes), R(bl_onnx_float(c, "epsilon", (double)1e-5f))));
}

bl_onnx_value *bl_onnx_write_instance_normalization(bl_onnx_call *c)
{
    return bl_onnx_make(c, "instance_norm(a, b, c, eps=$0)", ARGS(R(bl_onnx_float(c, "epsilon", (double)1e-5f))));
}

/* Up to opset 20 scale and bias have one element per group. */
bl_onnx_value *bl_onnx_write_group_normalization(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *scale = bl_onnx_in(c, 1), *bias = bl_onnx_in(c, 2), *y;
    int64_t groups = bl_onnx_int(c, "num_groups", 0);
    int rank = bl_onnx_rank(x);

    if (x == NULL || scale == NULL || bias == NULL || groups < 1 || rank < 2)
        return bl_onnx_fail(c, "needs data, scale, bias and num_groups");
    const bl_node *each = bl_idiv(c->import->ir, x->type->dim[1], bl_index(c->import->ir, groups));
    if (c->opset < 21) {
        scale = bl_onnx_make(c, "repeat_interleave($0, repeats=$1)", ARGS(V(scale), ZS(-1, &each)));
        bias = bl_onnx_make(c, "repeat_interleave($0, repeats=$1)", ARGS(V(bias), ZS(-1, &each)));
    }
    y = bl_onnx_make(c, "group_norm(a, groups=$0, eps=$1)", ARGS(I(groups), R(bl_onnx_float(c, "epsilon", (double)1e-5f))));
    return bl_onnx_make(c, "add(mul($0, $1), $2)",
                        ARGS(V(y), V(along_channels(c, scale, rank)), V(along_channels(c, bias, rank))));
}

bl_onnx_value *bl_onnx_write_lp_normalization(bl_onnx_call *c)
{
    int64_t axis = bl_onnx_int(c, "axis", -1), p = bl_onnx_int(c, "p", 2);

    if (p != 1 && p != 2)
        return bl_onnx_fail(c, "p must be 1 or 2");
    return bl_onnx_make(c, "normalize(a, p=$0, axis=$1)", ARGS(I(p), IS(1, &axis)));
}

bl_onnx_value *bl_onnx_write_mean_variance_normalization(bl_onnx_call *c)
{
    static const int64_t preset[3] = {0, 2, 3};
    const int64_t *axes;
    int n = bl_onnx_ints(c, "axes", &axes);

    return bl_onnx_make(c, "div(sub(a, mean(a, axis=$0, keepdim=true)), add(std(a, axis=$0, correction=0, keepdim=true), 1e-9))",
                        ARGS(IS(n < 0 ? 3 : n, n < 0 ? preset : axes)));
}

/* Divides by a power of the sum of squares over neighbouring channels. */
bl_onnx_value *bl_onnx_write_lrn(bl_onnx_call *c)
{
    int64_t size = bl_onnx_int(c, "size", 0), pads[2 * BL_MAX_DIMS] = {0};
    int rank = bl_onnx_rank(bl_onnx_in(c, 0));
    double alpha = bl_onnx_float(c, "alpha", (double)1e-4f), beta = bl_onnx_float(c, "beta", 0.75),
           bias = bl_onnx_float(c, "bias", 1);

    if (rank < 2 || size < 1 || size > 1 << 20)
        return bl_onnx_fail(c, "needs channels and a size");
    pads[2] = (size - 1) / 2;
    pads[3] = size - 1 - pads[2];
    return bl_onnx_make(
        c, "div(a, pow(add(mul(sum(unfold(pad(square(a), padding=$0), axis=1, size=$1, step=1), axis=-1), $2), $3), $4))",
        ARGS(IS(2 * rank, pads), I(size), R(alpha / (double)size), R(bias), R(beta)));
}

/* ---- normalisations of com.microsoft */

bl_onnx_value *bl_onnx_write_skip_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_value *sum = bl_onnx_make(c, "add(a, b)", NULL);

    if (bl_onnx_in(c, 4) != NULL)
        sum = bl_onnx_make(c, "add($0, e)", ARGS(V(sum)));
    if (sum == NULL)
        return NULL;
    if (bl_onnx_wants(c, 3))
        c->out[3] = sum;
    return layer_norm(c, sum, bl_onnx_in(c, 2), bl_onnx_in(c, 3), bl_onnx_rank(sum) - 1,
                      bl_onnx_float(c, "epsilon", (double)1e-12f));
}

/* Inputs: ids, segments, words, positions, segment words, gamma, beta, mask, position ids. */
bl_onnx_value *bl_onnx_write_embed_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_value *ids = bl_onnx_in(c, 0), *positions = bl_onnx_in(c, 8), *sum, *y;

    if (bl_onnx_rank(ids) != 2 || c->nin < 7)
        return bl_onnx_fail(c, "needs ids [batch, length] and the tables");
    if (positions == NULL)
        positions = bl_onnx_make(c, "arange(stop=$0)", ARGS(ZS(-1, &ids->type->dim[1])));
    sum = bl_onnx_make(c, "add(take(c, a), take(d, $0))", ARGS(V(positions)));
    if (bl_onnx_in(c, 4) != NULL && bl_onnx_in(c, 1) != NULL)
        sum = bl_onnx_make(c, "add($0, take(e, b))", ARGS(V(sum)));
    int64_t last = -1;
    y = bl_onnx_make(c, "layer_norm($0, f, g, axis=$1, eps=$2)",
                     ARGS(V(sum), IS(1, &last), R(bl_onnx_float(c, "epsilon", (double)1e-12f))));
    if (bl_onnx_wants(c, 1)) /* the number of elements of each row that the mask keeps */
        c->out[1] = bl_onnx_in(c, 7) != NULL ? bl_onnx_make(c, "sum(h, axis=1, dtype=int32)", NULL)
                                             : bl_onnx_make(c, "sum(zeros_like(a, dtype=int32), axis=1, dtype=int32)", NULL);
    if (bl_onnx_wants(c, 2))
        c->out[2] = sum;
    return y;
}
