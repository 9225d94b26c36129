/* SPDX-License-Identifier: MIT */
/* Quantised operators of com.microsoft: floating-point operators between dequantised operands and a quantised result, and
 * products with quantised weights, packed or not. */
#include "proto/onnx/onnx_quant.h"

#include <string.h>

/* ---- dequantise, compute, quantise */

/* Dequantises the operand of inputs i, i + 1 and i + 2: elements, scale and zero point. */
static bl_onnx_value *ops_qlinear_operand(bl_onnx_call *c, int i)
{
    if (bl_onnx_in(c, i) == NULL || bl_onnx_in(c, i + 1) == NULL)
        return bl_onnx_fail(c, "input %d needs elements, and input %d a scale", i, i + 1);
    return bl_onnx_dequantize(c, c->in[i], c->in[i + 1], bl_onnx_in(c, i + 2));
}

/* Quantises |y| by the scale and the zero point of inputs i and i + 1. */
static bl_onnx_value *result(bl_onnx_call *c, bl_onnx_value *y, int i)
{
    bl_onnx_value *zero = bl_onnx_in(c, i + 1);

    if (bl_onnx_in(c, i) == NULL)
        return bl_onnx_fail(c, "input %d must be the scale of the result", i);
    return bl_onnx_quantize(c, y, c->in[i], zero, bl_onnx_type(zero != NULL ? zero : bl_onnx_in(c, 0)));
}

static bl_onnx_value *of_two(bl_onnx_call *c, const char *recipe)
{
    bl_onnx_value *x = ops_qlinear_operand(c, 0), *y = ops_qlinear_operand(c, 3);

    return result(c, bl_onnx_make(c, recipe, ARGS(V(x), V(y))), 6);
}

bl_onnx_value *bl_onnx_write_qlinear_add(bl_onnx_call *c)
{
    return of_two(c, "add($0, $1)");
}

bl_onnx_value *bl_onnx_write_qlinear_mul(bl_onnx_call *c)
{
    return of_two(c, "mul($0, $1)");
}

bl_onnx_value *bl_onnx_write_qlinear_sigmoid(bl_onnx_call *c)
{
    return result(c, bl_onnx_make(c, "sigmoid($0)", ARGS(V(ops_qlinear_operand(c, 0)))), 3);
}

bl_onnx_value *bl_onnx_write_qlinear_leaky_relu(bl_onnx_call *c)
{
    return result(c, bl_onnx_make(c, "leaky_relu($0, negative_slope=@alpha:0.01)", ARGS(V(ops_qlinear_operand(c, 0)))), 3);
}

/* Inputs: condition, two operands, and the result's scale. */
bl_onnx_value *bl_onnx_write_qlinear_where(bl_onnx_call *c)
{
    bl_onnx_value *x = ops_qlinear_operand(c, 1), *y = ops_qlinear_operand(c, 4), *zero = bl_onnx_in(c, 8);

    if (zero == NULL)
        return bl_onnx_fail(c, "needs the zero point of the result");
    return result(c, bl_onnx_make(c, "where(a, $0, $1)", ARGS(V(x), V(y))), 7);
}

/* Before opset 13 the softmax covers all axes from |axis| on. */
bl_onnx_value *bl_onnx_write_qlinear_softmax(bl_onnx_call *c)
{
    bl_onnx_value *x = ops_qlinear_operand(c, 0), *y;
    int64_t at = bl_onnx_int(c, "axis", -1);
    int axis = bl_onnx_axis(c, at, bl_onnx_rank(x));

    if (x == NULL)
        return NULL;
    if (bl_onnx_int(c, "opset", 13) >= 13)
        return result(c, bl_onnx_make(c, "softmax($0, axis=$1)", ARGS(V(x), I(axis))), 3);
    y = bl_onnx_make(c, "softmax(flatten($0, start_axis=$1), axis=$1)", ARGS(V(x), I(axis)));
    return result(c, bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(bl_onnx_rank(x), x->type->dim))), 3);
}

/* The inputs are the result's scale and zero point, then each operand with its scale and zero point. */
bl_onnx_value *bl_onnx_write_qlinear_concat(bl_onnx_call *c)
{
    int n = (c->nin - 2) / 3;
    bl_onnx_value **part = bl_arena_array(c->import->scratch, (size_t)(n < 0 ? 0 : n) + 1, sizeof(bl_onnx_value *));

    if (n < 1 || (c->nin - 2) % 3 != 0 || part == NULL || c->in[1] == NULL)
        return bl_onnx_fail(c, "needs the scale and the zero point of the result, and of each operand");
    for (int i = 0; i < n; i++)
        part[i] = ops_qlinear_operand(c, 2 + 3 * i);
    return result(c, bl_onnx_make(c, "cat($0..., axis=$1)", ARGS(VS(n, part), I(bl_onnx_int(c, "axis", 0)))), 0);
}

/* ---- pools and convolutions, channels first or last */

static bool channels_stand_last(bl_onnx_call *c)
{
    return bl_onnx_int(c, "channels_last", 0) != 0;
}

/* Moves the last axis after the first. */
static bl_onnx_value *channels_first(bl_onnx_call *c, bl_onnx_value *x)
{
    int64_t perm[BL_MAX_DIMS];
    int rank = bl_onnx_rank(x);

    for (int i = 0; i < rank; i++)
        perm[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    return rank < 3 ? bl_onnx_fail(c, "needs data of 3 dimensions or more")
                    : bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(rank, perm)));
}

static bl_onnx_value *channels_last(bl_onnx_call *c, bl_onnx_value *x)
{
    int64_t perm[BL_MAX_DIMS];
    int rank = bl_onnx_rank(x);

    for (int i = 0; i < rank; i++)
        perm[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
    return bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(rank, perm)));
}

/* Calls another operator's function with |x| instead of all inputs. */
static bl_onnx_value *ops_qlinear_apply(bl_onnx_call *c, bl_onnx_value *(*write)(bl_onnx_call *), bl_onnx_value *x)
{
    bl_onnx_call inner = *c;
    bl_onnx_value *y;

    inner.in = &x;
    inner.nin = 1;
    y = x != NULL ? write(&inner) : NULL;
    c->nwritten = inner.nwritten;
    return y;
}

bl_onnx_value *bl_onnx_write_qlinear_average_pool(bl_onnx_call *c)
{
    bool last = channels_stand_last(c);
    bl_onnx_value *x = ops_qlinear_operand(c, 0);

    x = ops_qlinear_apply(c, bl_onnx_write_average_pool, last ? channels_first(c, x) : x);
    return result(c, last ? channels_last(c, x) : x, 3);
}

bl_onnx_value *bl_onnx_write_nhwc_max_pool(bl_onnx_call *c)
{
    return channels_last(c, ops_qlinear_apply(c, bl_onnx_write_max_pool, channels_first(c, bl_onnx_in(c, 0))));
}

bl_onnx_value *bl_onnx_write_microsoft_qlinear_conv(bl_onnx_call *c)
{
    if (!channels_stand_last(c))
        return bl_onnx_convolve_quantized(c, bl_onnx_in(c, 0));
    return channels_last(c, bl_onnx_convolve_quantized(c, channels_first(c, bl_onnx_in(c, 0))));
}

static bl_onnx_value *ops_qlinear_mean_of(bl_onnx_call *c, int n, const int64_t *axes, bool keeps)
{
    bl_onnx_value *x = ops_qlinear_operand(c, 0);

    return result(c, bl_onnx_make(c, "mean($0, axis=$1, keepdim=$2)", ARGS(V(x), IS(n, axes), B(keeps))), 3);
}

bl_onnx_value *bl_onnx_write_qlinear_global_average_pool(bl_onnx_call *c)
{
    int64_t axes[BL_MAX_DIMS];
    int n = bl_onnx_rank(bl_onnx_in(c, 0)) - 2;

    if (n < 1)
        return bl_onnx_fail(c, "needs data of 3 dimensions or more");
    for (int i = 0; i < n; i++)
        axes[i] = i + (channels_stand_last(c) ? 1 : 2);
    return ops_qlinear_mean_of(c, n, axes, true);
}

bl_onnx_value *bl_onnx_write_qlinear_reduce_mean(bl_onnx_call *c)
{
    int64_t all[BL_MAX_DIMS];
    const int64_t *axes;
    int n = bl_onnx_ints(c, "axes", &axes), rank = bl_onnx_rank(bl_onnx_in(c, 0));

    for (int i = 0; i < rank; i++)
        all[i] = i;
    return ops_qlinear_mean_of(c, n < 0 ? rank : n, n < 0 ? all : axes, bl_onnx_int(c, "keepdims", 1) != 0);
}

/* ---- products of quantised operands */

/* Scales the integers |y|, which represent y * x_scale * w_scale, and adds the bias of input |bias|. */
static bl_onnx_value *scale_product(bl_onnx_call *c, bl_onnx_value *y, bl_onnx_value *x_scale, bl_onnx_value *w_scale, int bias)
{
    if (x_scale == NULL || w_scale == NULL)
        return bl_onnx_fail(c, "needs the scales of both operands");
    y = bl_onnx_make(c, "mul(cast($0, dtype=$1), mul($2, $3))", ARGS(V(y), D(bl_onnx_type(x_scale)), V(x_scale), V(w_scale)));
    return bl_onnx_in(c, bias) != NULL ? bl_onnx_make(c, "add($0, $1)", ARGS(V(y), V(c->in[bias]))) : y;
}

bl_onnx_value *bl_onnx_write_matmul_integer_to_float(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_without_zero(c, bl_onnx_in(c, 0), bl_onnx_in(c, 4));
    bl_onnx_value *w = bl_onnx_without_zero(c, bl_onnx_in(c, 1), bl_onnx_in(c, 5));

    return scale_product(c, bl_onnx_make(c, "matmul($0, $1)", ARGS(V(x), V(w))), bl_onnx_in(c, 2), bl_onnx_in(c, 3), 6);
}

/* Inputs: float data, a quantised weight with its scale and zero point, a bias. */
bl_onnx_value *bl_onnx_write_dynamic_quantize_matmul(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *scale, *zero;
    bl_onnx_value *w = bl_onnx_without_zero(c, bl_onnx_in(c, 1), bl_onnx_in(c, 3));

    bl_onnx_measure(c, x, &scale, &zero);
    x = bl_onnx_without_zero(c, bl_onnx_quantize(c, x, scale, zero, BL_U8), zero);
    return scale_product(c, bl_onnx_make(c, "matmul($0, $1)", ARGS(V(x), V(w))), scale, bl_onnx_in(c, 2), 4);
}

/* Inputs: A with scale and zero point, B with scale and zero point, C as int32, and the scale and the zero point of the result.
 * Without the last two inputs the result has floats. */
bl_onnx_value *bl_onnx_write_qgemm(bl_onnx_call *c)
{
    bl_onnx_value *a = bl_onnx_without_zero(c, bl_onnx_in(c, 0), bl_onnx_in(c, 2)), *b = bl_onnx_in(c, 3), *y;
    bool turned = bl_onnx_int(c, "transB", 0) != 0;

    if (bl_onnx_rank(a) != 2 || bl_onnx_rank(b) != 2 || c->nin < 6)
        return bl_onnx_fail(c, "needs two matrices, their scales and zero points");
    b = turned ? bl_onnx_make(c, "transpose($0)", ARGS(V(b))) : b;
    b = bl_onnx_without_zero(c, b, bl_onnx_in(c, 5));
    if (bl_onnx_int(c, "transA", 0) != 0)
        a = bl_onnx_make(c, "transpose($0)", ARGS(V(a)));
    y = bl_onnx_make(c, "matmul($0, $1)", ARGS(V(a), V(b)));
    if (bl_onnx_in(c, 6) != NULL)
        y = bl_onnx_make(c, "add($0, g)", ARGS(V(y)));
    y = bl_onnx_make(c, "mul(mul(cast($0, dtype=float32), mul(b, e)), @alpha:1)", ARGS(V(y)));
    return bl_onnx_in(c, 7) != NULL ? result(c, y, 7) : y;
}

/* ---- quantised weights of a few bits, packed into bytes */

/* Splits each byte of the last axis into numbers of |bits|, lowest first. */
static bl_onnx_value *ops_qlinear_unpack(bl_onnx_call *c, bl_onnx_value *x, int64_t bits)
{
    if (bits == 8)
        return x;
    return bl_onnx_make(c,
                        "flatten(bitwise_and(right_shift(unsqueeze($0, axis=-1), mul(arange(stop=$1, dtype=uint8), $2)), $3), "
                        "start_axis=-2)",
                        ARGS(V(x), I(8 / bits), I(bits), I((1 << bits) - 1)));
}

static bool packs_evenly(int64_t bits)
{
    return bits == 2 || bits == 4 || bits == 8;
}

/* Inputs: data, weight [N, blocks, bytes of a block], scales [N, blocks], zero points (packed like the weight, or floats),
 * g_idx (unsupported), bias. */
bl_onnx_value *bl_onnx_write_matmul_nbits(bl_onnx_call *c)
{
    int64_t bits = bl_onnx_int(c, "bits", 4), block = bl_onnx_int(c, "block_size", 0), k = bl_onnx_int(c, "K", 0),
            n = bl_onnx_int(c, "N", 0), blocks = block > 0 ? (k + block - 1) / block : 0;
    bl_onnx_value *w = bl_onnx_in(c, 1), *scale = bl_onnx_in(c, 2), *zero = bl_onnx_in(c, 3);
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(c, 0));
    int64_t shape[3] = {n, blocks, block}, each[3] = {n, blocks, 1}, flat[2] = {n, blocks * block}, axis = 1;

    if (!packs_evenly(bits) || block < 1 || k < 1 || n < 1 || w == NULL || scale == NULL ||
        bl_onnx_int(c, "weight_prepacked", 0) != 0)
        return bl_onnx_fail(c, "needs a weight of 2, 4 or 8 bits that is not prepacked, its scales, K, N and block_size");
    if (bl_onnx_in(c, 4) != NULL)
        return bl_onnx_fail(c, "g_idx is not supported; the columns must be in the order of their blocks");
    w = bl_onnx_make(c, "cast(reshape($0, shape=$1), dtype=$2)", ARGS(V(ops_qlinear_unpack(c, w, bits)), IS(3, shape), D(dtype)));
    if (zero == NULL)
        zero = bl_onnx_known_real(c->import, dtype, (double)(1 << (bits - 1)));
    else if (bl_onnx_type(zero) == BL_U8) { /* a row is padded to whole bytes; its first |blocks| numbers are the zero points */
        int64_t bytes[2] = {n, (blocks * bits + 7) / 8};
        zero = ops_qlinear_unpack(c, bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(zero), IS(2, bytes))), bits);
        zero = bl_onnx_make(c, "slice($0, stop=$1, axis=$2)", ARGS(V(zero), I(blocks), IS(1, &axis)));
    }
    if (bl_onnx_rank(zero) > 0)
        zero = bl_onnx_make(c, "cast(reshape($0, shape=$1), dtype=$2)", ARGS(V(zero), IS(3, each), D(dtype)));
    w = bl_onnx_make(c, "reshape(mul(sub($0, $1), reshape($2, shape=$3)), shape=$4)",
                     ARGS(V(w), V(zero), V(scale), IS(3, each), IS(2, flat)));
    w = bl_onnx_make(c, "slice($0, stop=$1, axis=$2)", ARGS(V(w), I(k), IS(1, &axis)));
    if (bl_onnx_in(c, 5) != NULL)
        return bl_onnx_make(c, "linear(a, $0, f)", ARGS(V(w)));
    return bl_onnx_make(c, "linear(a, $0)", ARGS(V(w)));
}

/* Inputs: data, indices, scales, zero points.  Gathers the rows first, then dequantises the blocks of another axis. */
bl_onnx_value *bl_onnx_write_gather_block_quantized(bl_onnx_call *c)
{
    int64_t block = bl_onnx_int(c, "block_size", 128), bits = bl_onnx_int(c, "bits", 4);
    bl_onnx_value *x = bl_onnx_in(c, 0), *index = bl_onnx_in(c, 1), *scale = bl_onnx_in(c, 2), *zero = bl_onnx_in(c, 3);
    int rank = bl_onnx_rank(x), from = bl_onnx_axis(c, bl_onnx_int(c, "gather_axis", 0), rank),
        along = bl_onnx_axis(c, bl_onnx_int(c, "quantize_axis", 1), rank);
    bool packed = x != NULL && x->narrow == NULL;

    if (x == NULL || index == NULL || scale == NULL || block < 1 || bl_dtype_is_float(bl_onnx_type(x)) || !packs_evenly(bits))
        return bl_onnx_fail(c, "needs data of 2, 4 or 8 bits, indices and scales");
    if (from == along)
        return bl_onnx_fail(c, "gather_axis and quantize_axis must differ");
    bl_onnx_value **part[3] = {&x, &scale, &zero};
    for (int i = 0; i < 3; i++) {
        if (*part[i] != NULL && packed && i != 1)
            *part[i] = ops_qlinear_unpack(c, *part[i], bits);
        if (*part[i] != NULL)
            *part[i] = bl_onnx_make(c, "take($0, $1, axis=$2)", ARGS(V(*part[i]), V(index), I(from)));
    }
    if (c->import->failed)
        return NULL;
    if (zero == NULL && packed)
        zero = bl_onnx_known_real(c->import, BL_I32, (double)(1 << (bits - 1)));
    int64_t axis = along < from ? along : along + bl_onnx_rank(index) - 1;
    part[1] = &scale;
    for (int i = 1; i < 3; i++) {
        if (*part[i] == NULL || bl_onnx_rank(*part[i]) == 0)
            continue;
        const bl_node *ends[1] = {x->type->dim[axis]};
        *part[i] = bl_onnx_make(c, "slice(repeat_interleave($0, repeats=$1, axis=$2), stop=$3, axis=$4)",
                                ARGS(V(*part[i]), I(block), I(axis), ZS(1, ends), IS(1, &axis)));
    }
    return bl_onnx_dequantize(c, x, scale, zero);
}

/* Inputs: data, packed weight, the largest magnitude of each block.  A code of 4 bits is an index into a table of 16 numbers
 * (bitsandbytes). */
bl_onnx_value *bl_onnx_write_matmul_bnb4(bl_onnx_call *c)
{
    static const double tables[2][16] = {
        {0, 0.0052083333333333333, 0.66666666666666667, 1, 0.33333333333333333, 0.5, 0.16666666666666667, 0.25, -0.0,
         -0.0052083333333333333, -0.66666666666666667, -1, -0.33333333333333333, -0.5, -0.16666666666666667, -0.25},
        {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
         -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
         0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}};
    int64_t block = bl_onnx_int(c, "block_size", 0), kind = bl_onnx_int(c, "quant_type", 1), n = bl_onnx_int(c, "N", 0),
            k = bl_onnx_int(c, "K", 0), shape[2] = {n, k};
    bl_onnx_value *w = bl_onnx_in(c, 1), *scale = bl_onnx_in(c, 2);
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(c, 0));
    bl_onnx_known *table = bl_onnx_new_known(c->import, BL_F32, 1, (const int64_t[]){16});

    if (block < 1 || n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX || kind < 0 || kind > 1 || w == NULL || scale == NULL ||
        table == NULL || bl_onnx_int(c, "transB", 1) == 0)
        return bl_onnx_fail(c, "needs a weight, its scales, K, N and block_size, a quant_type of 0 or 1, and transB of 1");
    memcpy(table->real, tables[kind], sizeof tables[kind]);
    w = bl_onnx_make(c, "flip(reshape($0, shape=[-1, 2]), axis=[-1])",
                     ARGS(V(ops_qlinear_unpack(c, w, 4)))); /* the first number is in the
                                                             * high bits */
    w = bl_onnx_make(c, "take($0, slice(flatten($1), stop=$2))", ARGS(V(bl_onnx_known_value(c->import, table)), V(w), I(n * k)));
    scale = bl_onnx_make(c, "slice(repeat_interleave(flatten($0), repeats=$1), stop=$2)", ARGS(V(scale), I(block), I(n * k)));
    return bl_onnx_make(c, "linear(a, reshape(mul(cast($0, dtype=$1), $2), shape=$3))",
                        ARGS(V(w), D(dtype), V(scale), IS(2, shape)));
}

/* Inputs: the inputs of EmbedLayerNormalization, five of them quantised, then the five scales, then the five zero points. */
bl_onnx_value *bl_onnx_write_qembed_layer_normalization(bl_onnx_call *c)
{
    bl_onnx_call inner = *c;
    bl_onnx_value *in[8] = {NULL}, *y;

    if (c->nin != 18)
        return bl_onnx_fail(c, "has %d inputs; it needs 18, of which some may be left out", c->nin);
    memcpy(in, c->in, sizeof in);
    for (int i = 0; i < 5; i++) {
        if (in[2 + i] != NULL && c->in[8 + i] != NULL)
            in[2 + i] = bl_onnx_dequantize(c, in[2 + i], c->in[8 + i], c->in[13 + i]);
    }
    inner.in = in;
    inner.nin = in[7] != NULL ? 8 : 7;
    inner.nwritten = c->nwritten;
    y = bl_onnx_write_embed_layer_normalization(&inner);
    c->nwritten = inner.nwritten;
    return y;
}
