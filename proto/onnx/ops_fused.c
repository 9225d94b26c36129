/* SPDX-License-Identifier: MIT */
/* Fused operators that model optimisers write in place of several operators: a product or a convolution with the operators
 * after it, and normalisations of sums. */
#include "proto/onnx/import.h"
#include "proto/onnx/window.h"

#include <string.h>

/* ---- products */

/* Moves the first axis after the batch axes: [m, batch..., k] to [batch..., m, k]. */
static bl_onnx_value *batch_first(bl_onnx_call *c, bl_onnx_value *x)
{
    int64_t perm[BL_MAX_DIMS];
    int rank = bl_onnx_rank(x);

    for (int i = 0; i < rank; i++)
        perm[i] = i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
    return rank < 3 ? x : bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(rank, perm)));
}

bl_onnx_value *bl_onnx_write_fused_matmul(bl_onnx_call *c)
{
    static const char *const moved[] = {"transBatchA", "transBatchB"}, *const turned[] = {"transA", "transB"};
    bl_onnx_value *x[2] = {bl_onnx_in(c, 0), bl_onnx_in(c, 1)};
    double alpha = bl_onnx_float(c, "alpha", 1);

    for (int i = 0; i < 2; i++) {
        if (bl_onnx_int(c, moved[i], 0) != 0)
            x[i] = batch_first(c, x[i]);
        if (bl_onnx_int(c, turned[i], 0) != 0 && bl_onnx_rank(x[i]) > 1) /* a vector needs no transpose */
            x[i] = bl_onnx_make(c, "transpose($0)", ARGS(V(x[i])));
    }
    if (x[0] == NULL || x[1] == NULL)
        return bl_onnx_fail(c, "needs two tensors");
    bl_onnx_value *y = bl_onnx_make(c, "matmul($0, $1)", ARGS(V(x[0]), V(x[1])));
    return alpha == 1 ? y : bl_onnx_make(c, "mul($0, $1)", ARGS(V(y), R(alpha)));
}

/* Applies the function that the node's attribute "activation" names to |y|. */
static bl_onnx_value *ops_fused_activate(bl_onnx_call *c, bl_onnx_value *y, bool given, double alpha, double beta)
{
    const char *name = bl_onnx_text(c, "activation", "");

    return *name == '\0' ? y : bl_onnx_activate(c, name, y, given ? &alpha : NULL, given ? &beta : NULL);
}

bl_onnx_value *bl_onnx_write_fused_gemm(bl_onnx_call *c)
{
    return ops_fused_activate(c, bl_onnx_write_gemm(c), bl_onnx_attr(c, "activation_alpha") != NULL,
                              bl_onnx_float(c, "activation_alpha", 0), bl_onnx_float(c, "activation_beta", 0));
}

/* Inputs: data, weight, bias, summand before the activation. */
bl_onnx_value *bl_onnx_write_fused_conv(bl_onnx_call *c)
{
    const float *given;
    int n = bl_onnx_floats(c, "activation_params", &given);
    bl_onnx_value *y = bl_onnx_convolve(c, bl_onnx_in(c, 0), bl_onnx_in(c, 1), bl_onnx_in(c, 2));

    if (bl_onnx_in(c, 3) != NULL)
        y = bl_onnx_make(c, "add($0, d)", ARGS(V(y)));
    return ops_fused_activate(c, y, n > 0, n > 0 ? (double)given[0] : 0, n > 1 ? (double)given[1] : 0);
}

/* Like FusedConv with channels last; the weight has channels first. */
bl_onnx_value *bl_onnx_write_nhwc_fused_conv(bl_onnx_call *c)
{
    static const int64_t front[4] = {0, 3, 1, 2}, back[4] = {0, 2, 3, 1};
    bl_onnx_call inner = *c;
    bl_onnx_value *in[4] = {NULL}, *y;

    for (int i = 0; i < 4 && i < c->nin; i++)
        in[i] =
            c->in[i] != NULL && i % 3 == 0 ? bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(c->in[i]), IS(4, front))) : c->in[i];
    inner.in = in;
    inner.nwritten = c->nwritten;
    y = bl_onnx_write_fused_conv(&inner);
    c->nwritten = inner.nwritten;
    return bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(y), IS(4, back)));
}

bl_onnx_value *bl_onnx_write_gemm_fast_gelu(bl_onnx_call *c)
{
    bl_onnx_value *y = bl_onnx_make(c, "matmul(a, b)", NULL);

    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "add($0, c)", ARGS(V(y)));
    return bl_onnx_make(c, "gelu($0, approximate=tanh)", ARGS(V(y)));
}

/* ---- additions with an operator after them */

/* The first half times the gelu of the second half. */
bl_onnx_value *bl_onnx_write_bias_split_gelu(bl_onnx_call *c)
{
    bl_onnx_value *part[2], *x = bl_onnx_make(c, "add(a, b)", NULL);

    if (!bl_onnx_make_many(c, "chunk($0, chunks=2, axis=-1)", ARGS(V(x)), 2, part))
        return NULL;
    return bl_onnx_make(c, "mul($0, gelu($1))", ARGS(V(part[0]), V(part[1])));
}

/* Inference only, so the mask is all true. */
bl_onnx_value *bl_onnx_write_bias_dropout(bl_onnx_call *c)
{
    const bl_onnx_known *training = bl_onnx_know(c->import, bl_onnx_in(c, 4));

    if (bl_onnx_in(c, 4) != NULL && training == NULL)
        return bl_onnx_fail_unknown(c, 4, "training_mode,");
    if (bl_onnx_in(c, 4) != NULL &&
        (training == NULL || training->count != 1 || training->size == NULL || !bl_is_int(training->size[0], 0)))
        return bl_onnx_fail(c, "training_mode must be false");
    bl_onnx_value *y = bl_onnx_make(c, "add(a, b)", NULL);
    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "add($0, c)", ARGS(V(y)));
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "ones_like(a, dtype=bool)", NULL);
    return y;
}

/* Softmax over all axes from |axis| on. */
bl_onnx_value *bl_onnx_write_bias_softmax(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_make(c, "add(a, b)", NULL), *y;
    int rank = bl_onnx_rank(x), axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", 1), rank);

    if (x == NULL || c->import->failed)
        return NULL;
    y = bl_onnx_make(c, "softmax(flatten($0, start_axis=$1), axis=$1)", ARGS(V(x), I(axis)));
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(rank, x->type->dim)));
}

/* ---- normalisations */

/* x / sqrt(mean(x^2) + eps) * weight over the last axes; output |second| is the reciprocal of the divisor. */
static bl_onnx_value *simplified(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *weight, int first, double eps, int second)
{
    int64_t axes[BL_MAX_DIMS];
    int n = 0;

    for (int i = first; i < bl_onnx_rank(x); i++)
        axes[n++] = i;
    if (bl_onnx_wants(c, second))
        c->out[second] =
            bl_onnx_make(c, "rsqrt(add(mean(square($0), axis=$1, keepdim=true), $2))", ARGS(V(x), IS(n, axes), R(eps)));
    return bl_onnx_make(c, "rms_norm($0, $1, axis=$2, eps=$3)", ARGS(V(x), V(weight), IS(n, axes), R(eps)));
}

bl_onnx_value *bl_onnx_write_simplified_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int first = bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), bl_onnx_rank(x));

    if (x == NULL || bl_onnx_in(c, 1) == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs data and a scale");
    return simplified(c, x, c->in[1], first, bl_onnx_float(c, "epsilon", (double)1e-5f), 1);
}

/* Inputs: data, summand, scale, bias of the sum. */
bl_onnx_value *bl_onnx_write_skip_simplified_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_value *sum = bl_onnx_make(c, "add(a, b)", NULL);

    if (bl_onnx_in(c, 3) != NULL)
        sum = bl_onnx_make(c, "add($0, d)", ARGS(V(sum)));
    if (sum == NULL || bl_onnx_in(c, 2) == NULL)
        return bl_onnx_fail(c, "needs data, what is added, and a scale");
    if (bl_onnx_wants(c, 3))
        c->out[3] = sum;
    return simplified(c, sum, c->in[2], bl_onnx_rank(sum) - 1, bl_onnx_float(c, "epsilon", (double)1e-12f), 2);
}

/* Group normalisation of |x| with channels last or first, optionally followed by silu. */
static bl_onnx_value *norm_in_groups(bl_onnx_call *c, bl_onnx_value *x)
{
    static const int64_t front[4] = {0, 3, 1, 2}, back[4] = {0, 2, 3, 1};
    bool last = bl_onnx_int(c, "channels_last", 1) != 0;

    if (bl_onnx_rank(x) != 4 || c->nin < 3)
        return bl_onnx_fail(c, "needs data of 4 dimensions, gamma and beta");
    if (last)
        x = bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(4, front)));
    x = bl_onnx_make(c, "group_norm($0, b, c, groups=$1, eps=@epsilon:1e-5)", ARGS(V(x), I(bl_onnx_int(c, "groups", 1))));
    if (bl_onnx_int(c, "activation", 0) == 1)
        x = bl_onnx_make(c, "silu($0)", ARGS(V(x)));
    return last ? bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(4, back))) : x;
}

bl_onnx_value *bl_onnx_write_microsoft_group_norm(bl_onnx_call *c)
{
    return norm_in_groups(c, bl_onnx_in(c, 0));
}

/* Inputs: data, gamma, beta, summand [N, C] or of four dimensions, bias. */
bl_onnx_value *bl_onnx_write_skip_group_norm(bl_onnx_call *c)
{
    bool last = bl_onnx_int(c, "channels_last", 1) != 0;
    bl_onnx_value *skip = bl_onnx_in(c, 3), *bias = bl_onnx_in(c, 4), *sum;

    for (int i = bl_onnx_rank(skip); i < 4 && skip != NULL; i++)
        skip = bl_onnx_make(c, "unsqueeze($0, axis=$1)", ARGS(V(skip), I(last ? 1 : -1)));
    sum = bl_onnx_make(c, "add(a, $0)", ARGS(V(skip)));
    if (bias != NULL && !last)
        bias = bl_onnx_make(c, "unsqueeze(unsqueeze($0, axis=-1), axis=-1)", ARGS(V(bias)));
    if (bias != NULL)
        sum = bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(bias)));
    if (bl_onnx_wants(c, 1))
        c->out[1] = sum;
    return norm_in_groups(c, sum);
}

/* ---- other operators */

/* The distance of every row of one matrix to every row of another. */
bl_onnx_value *bl_onnx_write_cdist(bl_onnx_call *c)
{
    const char *metric = bl_onnx_text(c, "metric", "sqeuclidean");
    bool root = strcmp(metric, "euclidean") == 0;
    bl_onnx_value *y;

    if (!root && strcmp(metric, "sqeuclidean") != 0)
        return bl_onnx_fail(c, "metric \"%.40s\" is not supported; it must be sqeuclidean or euclidean",
                            bl_onnx_clean(c->import, metric));
    y = bl_onnx_make(c, "sum(square(sub(unsqueeze(a, axis=1), b)), axis=[-1])", NULL);
    return root ? bl_onnx_make(c, "sqrt($0)", ARGS(V(y))) : y;
}

bl_onnx_value *bl_onnx_write_expand_dims(bl_onnx_call *c)
{
    const int64_t *axis;

    if (bl_onnx_in_ints(c, 1, &axis) != 1)
        return bl_onnx_fail(c, "needs data and an axis");
    return bl_onnx_make(c, "unsqueeze(a, axis=$0)", ARGS(I(axis[0])));
}
