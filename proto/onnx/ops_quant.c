/* SPDX-License-Identifier: MIT */
/* Quantised operators: integers that represent (value - zero point) * scale. */
#include "proto/onnx/onnx_quant.h"
#include "proto/onnx/window.h"

#include <string.h>

enum { EXACT_BITS = 24 }; /* integers of this size are exact in a float32 */

bl_onnx_value *bl_onnx_spread(bl_onnx_call *c, bl_onnx_value *v, const bl_onnx_value *x, int64_t axis)
{
    const bl_node *dim[BL_MAX_DIMS];
    int64_t block = bl_onnx_int(c, "block_size", 0);
    int rank = bl_onnx_rank(x);

    if (v == NULL || bl_onnx_rank(v) == 0)
        return v;
    if (bl_onnx_rank(v) == 1 && bl_is_int(v->type->dim[0], 1))
        return bl_onnx_make(c, "reshape($0, shape=[])", ARGS(V(v)));
    int at = rank > 0 ? bl_onnx_axis(c, axis, rank) : 0;
    if (block > 0 && bl_onnx_rank(v) == rank) {
        const bl_node *ends[1] = {x->type->dim[at]};
        int64_t one = at;
        return bl_onnx_make(c, "slice(repeat_interleave($0, repeats=$1, axis=$2), stop=$3, axis=$4)",
                            ARGS(V(v), I(block), I(at), ZS(1, ends), IS(1, &one)));
    }
    if (bl_onnx_rank(v) != 1)
        return bl_onnx_fail(c, "a scale has one number, or one for each place along an axis");
    for (int i = 0; i < rank; i++)
        dim[i] = i == at ? v->type->dim[0] : bl_index(c->import->ir, 1);
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(v), ZS(rank, dim)));
}

bl_onnx_value *bl_onnx_quantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero, bl_dtype dtype)
{
    bl_scalar low = bl_scalar_lowest(dtype), high = bl_scalar_highest(dtype);
    bl_dtype real = bl_onnx_type(x);

    x = bl_onnx_make(c, "div($0, cast($1, dtype=$2))", ARGS(V(x), V(scale), D(real)));
    if (bl_dtype_is_float(dtype)) {
        if (dtype == BL_F8E4M3 || dtype == BL_F8E5M2) /* a value out of range saturates */
            x = bl_onnx_make(c, "clamp($0, min=$1, max=$2)",
                             ARGS(V(x), R(dtype == BL_F8E4M3 ? -448 : -57344), R(dtype == BL_F8E4M3 ? 448 : 57344)));
        return bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(x), D(dtype)));
    }
    x = bl_onnx_make(c, "round($0)", ARGS(V(x)));
    if (zero != NULL)
        x = bl_onnx_make(c, "add($0, cast($1, dtype=$2))", ARGS(V(x), V(zero), D(real)));
    bool has_sign = bl_dtype_get_kind(dtype) == BL_KIND_INT;
    return bl_onnx_make(c, "cast(clamp($0, min=$1, max=$2), dtype=$3)",
                        ARGS(V(x), R(has_sign ? (double)low.i : 0), R(has_sign ? (double)high.i : (double)high.u), D(dtype)));
}

bl_onnx_value *bl_onnx_without_zero(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *zero)
{
    if (zero == NULL)
        return bl_onnx_make(c, "cast($0, dtype=int32)", ARGS(V(x)));
    return bl_onnx_make(c, "sub(cast($0, dtype=int32), cast($1, dtype=int32))", ARGS(V(x), V(zero)));
}

bl_onnx_value *bl_onnx_dequantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *scale, bl_onnx_value *zero)
{
    if (bl_dtype_is_float(bl_onnx_type(x)))
        return bl_onnx_make(c, "mul(cast($0, dtype=$1), $2)", ARGS(V(x), D(bl_onnx_type(scale)), V(scale)));
    return bl_onnx_make(c, "mul(cast($0, dtype=$1), $2)",
                        ARGS(V(bl_onnx_without_zero(c, x, zero)), D(bl_onnx_type(scale)), V(scale)));
}

bl_onnx_value *bl_onnx_write_quantize_linear(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *scale = bl_onnx_in(c, 1), *zero = bl_onnx_in(c, 2);
    int64_t axis = bl_onnx_int(c, "axis", 1);
    int wanted = (int)bl_onnx_int(c, "output_dtype", 0);
    int data_type = wanted != 0 ? wanted : zero != NULL ? bl_onnx_data_type(zero) : ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
    bl_dtype dtype = bl_onnx_dtype(data_type);

    if (x == NULL || scale == NULL || dtype == BL_DTYPE_COUNT)
        return bl_onnx_fail(c, "needs data, a scale, and a type of the result that tensors here have");
    if (!bl_dtype_is_float(bl_onnx_type(x)))
        x = bl_onnx_make(c, "cast(a, dtype=$0)", ARGS(D(bl_onnx_type(scale))));
    bl_onnx_value *each = bl_onnx_spread(c, scale, x, axis), *zeros = bl_onnx_spread(c, zero, x, axis);
    const bl_onnx_narrow *narrow = bl_onnx_narrow_find(data_type);
    if (narrow == NULL)
        return bl_onnx_quantize(c, x, each, zeros, dtype);
    x = bl_onnx_make(c, "div($0, cast($1, dtype=$2))", ARGS(V(x), V(each), D(bl_onnx_type(x))));
    if (!bl_dtype_is_float(dtype))
        x = bl_onnx_make(c, "round($0)", ARGS(V(x)));
    if (zeros != NULL && !bl_dtype_is_float(dtype))
        x = bl_onnx_make(c, "add($0, cast($1, dtype=$2))", ARGS(V(x), V(zeros), D(bl_onnx_type(x))));
    return bl_onnx_narrow_clamp(c, x, narrow);
}

bl_onnx_value *bl_onnx_write_dequantize_linear(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *scale = bl_onnx_in(c, 1);
    int64_t axis = bl_onnx_int(c, "axis", 1);
    int wanted = (int)bl_onnx_int(c, "output_dtype", 0);

    if (x == NULL || scale == NULL)
        return bl_onnx_fail(c, "needs data and a scale");
    bl_onnx_value *y = bl_onnx_dequantize(c, x, bl_onnx_spread(c, scale, x, axis), bl_onnx_spread(c, bl_onnx_in(c, 2), x, axis));
    if (wanted != 0 && bl_onnx_dtype(wanted) != bl_onnx_type(y) && bl_onnx_dtype(wanted) != BL_DTYPE_COUNT)
        y = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(y), D(bl_onnx_dtype(wanted))));
    return y;
}

/* The scale is the range divided by 255; the scale is 1 if all elements are zero. */
void bl_onnx_measure(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value **scale, bl_onnx_value **zero)
{
    bl_onnx_value *low = bl_onnx_make(c, "minimum(min($0), 0)", ARGS(V(x)));
    bl_onnx_value *high = bl_onnx_make(c, "maximum(max($0), 0)", ARGS(V(x)));

    *scale = bl_onnx_make(c, "div(sub($0, $1), 255)", ARGS(V(high), V(low)));
    *scale = bl_onnx_make(c, "where(equal($0, 0), 1, $0)", ARGS(V(*scale)));
    *zero = bl_onnx_make(c, "cast(clamp(round(div(neg($0), $1)), min=0, max=255), dtype=uint8)", ARGS(V(low), V(*scale)));
}

bl_onnx_value *bl_onnx_round_to_range(bl_onnx_call *c, bl_onnx_value *x)
{
    bl_onnx_value *scale, *zero;

    bl_onnx_measure(c, x, &scale, &zero);
    return bl_onnx_dequantize(c, bl_onnx_quantize(c, x, scale, zero, BL_U8), scale, zero);
}

bl_onnx_value *bl_onnx_write_dynamic_quantize_linear(bl_onnx_call *c)
{
    bl_onnx_value *scale, *zero;

    bl_onnx_measure(c, bl_onnx_in(c, 0), &scale, &zero);
    if (bl_onnx_wants(c, 1))
        c->out[1] = scale;
    if (bl_onnx_wants(c, 2))
        c->out[2] = zero;
    return bl_onnx_quantize(c, bl_onnx_in(c, 0), scale, zero, BL_U8);
}

/* ---- products of quantised operands */

/* The float dtype that represents the sums of byte products of this weight exactly. */
static bl_dtype exact_float(const bl_onnx_value *weight)
{
    int64_t count = 1;

    for (int i = 1; i < bl_onnx_rank(weight); i++)
        count *= weight->type->dim[i]->hi < 1 << 20 ? weight->type->dim[i]->hi : 1 << 20;
    return count > 0 && count < (1 << (EXACT_BITS - 16)) ? BL_F32 : BL_F64;
}

static bl_onnx_value *convolve_whole(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *weight)
{
    bl_dtype real = exact_float(weight);

    x = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(x), D(real)));
    weight = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(weight), D(real)));
    return bl_onnx_make(c, "cast($0, dtype=int32)", ARGS(V(bl_onnx_convolve(c, x, weight, NULL))));
}

bl_onnx_value *bl_onnx_write_conv_integer(bl_onnx_call *c)
{
    bl_onnx_value *w = bl_onnx_in(c, 1);

    if (w == NULL)
        return bl_onnx_fail(c, "needs data and a weight");
    return convolve_whole(c, bl_onnx_without_zero(c, bl_onnx_in(c, 0), bl_onnx_spread(c, bl_onnx_in(c, 2), bl_onnx_in(c, 0), 1)),
                          bl_onnx_without_zero(c, w, bl_onnx_spread(c, bl_onnx_in(c, 3), w, 0)));
}

/* The zero point per row (of the first operand) or column (of the second), in a broadcastable shape. */
static bl_onnx_value *matrix_zero(bl_onnx_call *c, bl_onnx_value *zero, bool rows)
{
    if (zero == NULL || bl_onnx_rank(zero) != 1 || !rows)
        return zero;
    return bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(zero)));
}

bl_onnx_value *bl_onnx_write_matmul_integer(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_without_zero(c, bl_onnx_in(c, 0), matrix_zero(c, bl_onnx_in(c, 2), true));
    bl_onnx_value *y = bl_onnx_without_zero(c, bl_onnx_in(c, 1), bl_onnx_in(c, 3));

    return bl_onnx_make(c, "matmul($0, $1)", ARGS(V(x), V(y)));
}

/* Requantises |x|, integers that represent x * from, by |scale| and |zero|. */
static bl_onnx_value *requantize(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *from, bl_onnx_value *scale,
                                 bl_onnx_value *zero)
{
    if (scale == NULL || zero == NULL)
        return bl_onnx_fail(c, "needs the scale and the zero point of its result");
    x = bl_onnx_make(c, "mul(cast($0, dtype=float32), cast($1, dtype=float32))", ARGS(V(x), V(from)));
    return bl_onnx_quantize(c, x, scale, zero, bl_onnx_type(zero));
}

bl_onnx_value *bl_onnx_convolve_quantized(bl_onnx_call *c, bl_onnx_value *x)
{
    bl_onnx_value *w = bl_onnx_in(c, 3), *sum, *scale, *bias = bl_onnx_in(c, 8);

    if (x == NULL || w == NULL || c->nin < 8)
        return bl_onnx_fail(c, "needs data, weight, their scales and zero points, and those of the result");
    sum = convolve_whole(c, bl_onnx_without_zero(c, x, bl_onnx_in(c, 2)),
                         bl_onnx_without_zero(c, w, bl_onnx_spread(c, bl_onnx_in(c, 5), w, 0)));
    if (bias != NULL)
        sum = bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(bl_onnx_spread(c, bias, sum, 1))));
    scale = bl_onnx_make(c, "mul(b, $0)", ARGS(V(sum != NULL ? bl_onnx_spread(c, bl_onnx_in(c, 4), sum, 1) : NULL)));
    return requantize(c, sum, scale, bl_onnx_in(c, 6), bl_onnx_in(c, 7));
}

bl_onnx_value *bl_onnx_write_qlinear_conv(bl_onnx_call *c)
{
    return bl_onnx_convolve_quantized(c, bl_onnx_in(c, 0));
}

bl_onnx_value *bl_onnx_write_qlinear_matmul(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_without_zero(c, bl_onnx_in(c, 0), matrix_zero(c, bl_onnx_in(c, 2), true));
    bl_onnx_value *y = bl_onnx_without_zero(c, bl_onnx_in(c, 3), bl_onnx_in(c, 5));
    bl_onnx_value *scale = bl_onnx_make(c, "mul($0, e)", ARGS(V(matrix_zero(c, bl_onnx_in(c, 1), true))));

    return requantize(c, bl_onnx_make(c, "matmul($0, $1)", ARGS(V(x), V(y))), scale, bl_onnx_in(c, 6), bl_onnx_in(c, 7));
}
