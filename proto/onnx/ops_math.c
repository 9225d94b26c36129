/* SPDX-License-Identifier: MIT */
/* Elementwise operators. */
#include "proto/onnx/import.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- binary operators */

/* Up to opset 6 the axes of the second operand start at |axis| of the first operand, and the second operand broadcasts only if
 * |broadcast| is set. */
static bl_onnx_value *second(bl_onnx_call *c)
{
    bl_onnx_value *b = bl_onnx_in(c, 1);
    int rank = bl_onnx_rank(bl_onnx_in(c, 0));

    if (c->opset >= 7 || b == NULL || bl_onnx_int(c, "broadcast", 0) == 0 || bl_onnx_attr(c, "axis") == NULL || rank == 0)
        return b;
    int axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), rank);
    for (int i = axis + bl_onnx_rank(b); i < rank && b != NULL; i++)
        b = bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(b)));
    return b;
}

static bl_onnx_value *ops_math_binary(bl_onnx_call *c, const char *recipe)
{
    return bl_onnx_make(c, recipe, ARGS(V(second(c))));
}

bl_onnx_value *bl_onnx_write_add(bl_onnx_call *c)
{
    return ops_math_binary(c, "add(a, $0)");
}

bl_onnx_value *bl_onnx_write_sub(bl_onnx_call *c)
{
    return ops_math_binary(c, "sub(a, $0)");
}

bl_onnx_value *bl_onnx_write_mul(bl_onnx_call *c)
{
    return ops_math_binary(c, "mul(a, $0)");
}

bl_onnx_value *bl_onnx_write_div(bl_onnx_call *c)
{
    return ops_math_binary(c, bl_dtype_is_float(bl_onnx_type(bl_onnx_in(c, 0))) ? "div(a, $0)" : "trunc_div(a, $0)");
}

bl_onnx_value *bl_onnx_write_and(bl_onnx_call *c)
{
    return ops_math_binary(c, "logical_and(a, $0)");
}

bl_onnx_value *bl_onnx_write_or(bl_onnx_call *c)
{
    return ops_math_binary(c, "logical_or(a, $0)");
}

bl_onnx_value *bl_onnx_write_xor(bl_onnx_call *c)
{
    return ops_math_binary(c, "logical_xor(a, $0)");
}

bl_onnx_value *bl_onnx_write_equal(bl_onnx_call *c)
{
    return ops_math_binary(c, "equal(a, $0)");
}

bl_onnx_value *bl_onnx_write_less(bl_onnx_call *c)
{
    return ops_math_binary(c, "less(a, $0)");
}

bl_onnx_value *bl_onnx_write_greater(bl_onnx_call *c)
{
    return ops_math_binary(c, "greater(a, $0)");
}

/* The result has the dtype of the base, whatever the exponent's. */
bl_onnx_value *bl_onnx_write_pow(bl_onnx_call *c)
{
    bl_dtype base = bl_onnx_type(bl_onnx_in(c, 0));

    if (bl_onnx_in(c, 1) == NULL || base == bl_onnx_type(c->in[1]))
        return ops_math_binary(c, "pow(a, $0)");
    return bl_onnx_make(c, "cast(pow(a, $0), dtype=$1)", ARGS(V(second(c)), D(base)));
}

bl_onnx_value *bl_onnx_write_mod(bl_onnx_call *c)
{
    bl_onnx_value *rest;

    if (bl_onnx_int(c, "fmod", 0) != 0)
        return bl_onnx_make(c, "fmod(a, b)", NULL);
    if (!bl_dtype_is_float(bl_onnx_type(bl_onnx_in(c, 0))))
        return bl_onnx_make(c, "mod(a, b)", NULL);
    rest = bl_onnx_make(c, "fmod(a, b)", NULL); /* exact; the next step gives it the sign of b, as in Python */
    rest = bl_onnx_make(c, "where(logical_xor(less($0, 0), less(b, 0)), where(equal($0, 0), neg($0), add($0, b)), $0)",
                        ARGS(V(rest)));
    return bl_onnx_make(c, "where(equal($0, 0), copysign($0, b), $0)", ARGS(V(rest)));
}

bl_onnx_value *bl_onnx_write_bit_shift(bl_onnx_call *c)
{
    const char *direction = bl_onnx_text(c, "direction", "");

    if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
        return bl_onnx_fail(c, "direction must be LEFT or RIGHT");
    return bl_onnx_make(c, *direction == 'L' ? "left_shift(a, b)" : "right_shift(a, b)", NULL);
}

bl_onnx_value *bl_onnx_write_prelu(bl_onnx_call *c)
{
    bl_onnx_value *slope = bl_onnx_in(c, 1);
    int rank = bl_onnx_rank(bl_onnx_in(c, 0));

    if (c->opset < 7 && bl_onnx_rank(slope) == 1 && rank > 2) { /* one slope per channel */
        for (int i = 2; i < rank; i++)
            slope = bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(slope)));
    }
    return bl_onnx_make(c, "where(less(a, 0), mul(a, $0), a)", ARGS(V(slope)));
}

/* ---- variadic operators */

static bl_onnx_value *ops_math_fold_all(bl_onnx_call *c, const char *recipe)
{
    bl_onnx_value *all = bl_onnx_in(c, 0);

    if (all == NULL)
        return bl_onnx_fail(c, "needs an input");
    for (int i = 1; i < c->nin; i++)
        all = bl_onnx_make(c, recipe, ARGS(V(all), V(c->in[i])));
    return all;
}

bl_onnx_value *bl_onnx_write_max(bl_onnx_call *c)
{
    return ops_math_fold_all(c, "maximum($0, $1)");
}

bl_onnx_value *bl_onnx_write_min(bl_onnx_call *c)
{
    return ops_math_fold_all(c, "minimum($0, $1)");
}

bl_onnx_value *bl_onnx_write_sum(bl_onnx_call *c)
{
    return ops_math_fold_all(c, "add($0, $1)");
}

bl_onnx_value *bl_onnx_write_mean(bl_onnx_call *c)
{
    bl_onnx_value *sum = ops_math_fold_all(c, "add($0, $1)");

    return c->nin < 2 ? sum : bl_onnx_make(c, "div($0, $1)", ARGS(V(sum), I(c->nin)));
}

/* ---- unary operators */

bl_onnx_value *bl_onnx_write_identity(bl_onnx_call *c)
{
    return bl_onnx_in(c, 0) != NULL ? c->in[0] : bl_onnx_fail(c, "needs an input");
}

/* A value too large for a float8 saturates unless saturate is 0. */
static bl_onnx_value *ops_math_cast_to(bl_onnx_call *c, int data_type)
{
    const bl_onnx_narrow *narrow = bl_onnx_narrow_find(data_type);
    bl_dtype dtype = bl_onnx_dtype(data_type);
    bl_onnx_value *x = bl_onnx_in(c, 0);

    if (dtype == BL_DTYPE_COUNT || x == NULL)
        return bl_onnx_fail(c, "element type %d is not supported", data_type);
    if (narrow != NULL)
        return bl_onnx_narrow_cast(c, x, narrow, bl_onnx_int(c, "saturate", 1) != 0);
    if (bl_onnx_type(x) == dtype && x->narrow == NULL)
        return x;
    if (bl_dtype_is_float8(dtype) && bl_dtype_is_float(bl_onnx_type(x)) && bl_onnx_int(c, "saturate", 1) != 0)
        x = bl_onnx_make(c, "clamp(a, min=$0, max=$1)",
                         ARGS(R(dtype == BL_F8E4M3 ? -448 : -57344), R(dtype == BL_F8E4M3 ? 448 : 57344)));
    return bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(x), D(dtype)));
}

/* Before opset 6 the attribute is the name of the type, later its number. */
bl_onnx_value *bl_onnx_write_cast(bl_onnx_call *c)
{
    const ProtobufCEnumValue *named;

    if (c->opset >= 6)
        return ops_math_cast_to(c, (int)bl_onnx_int(c, "to", 0));
    named = protobuf_c_enum_descriptor_get_value_by_name(&onnx__tensor_proto__data_type__descriptor, bl_onnx_text(c, "to", ""));
    return ops_math_cast_to(c, named != NULL ? named->value : 0);
}

bl_onnx_value *bl_onnx_write_bit_cast(bl_onnx_call *c)
{
    int to = (int)bl_onnx_int(c, "to", 0);
    bl_dtype dtype = bl_onnx_dtype(to);
    bl_onnx_value *x = bl_onnx_in(c, 0);

    if (bl_onnx_narrow_find(to) != NULL || (x != NULL && x->narrow != NULL))
        return bl_onnx_fail(c, "an element type below 8 bits, or a float8 without support on any device, is stored in a wider "
                               "type, so its bits cannot be reinterpreted");
    if (bl_dtype_bytes(dtype < BL_DTYPE_COUNT ? dtype : BL_I64) == 1 &&
        (dtype == BL_BOOL || bl_onnx_type(bl_onnx_in(c, 0)) == BL_BOOL)) /* the bool is stored as a byte of 0 or 1 */
        return bl_onnx_make(c, "cast(a, dtype=$0)", ARGS(D(dtype)));
    if (dtype == BL_DTYPE_COUNT || bl_dtype_bytes(dtype) != bl_dtype_bytes(bl_onnx_type(bl_onnx_in(c, 0))))
        return bl_onnx_fail(c, "needs an element type of as many bits");
    return bl_onnx_make(c, "bitcast(a, dtype=$0)", ARGS(D(dtype)));
}

bl_onnx_value *bl_onnx_write_cast_like(bl_onnx_call *c)
{
    if (bl_onnx_in(c, 1) == NULL)
        return bl_onnx_fail(c, "needs two inputs");
    return ops_math_cast_to(c, bl_onnx_data_type(c->in[1]));
}

/* Bounds were attributes up to opset 10.  The lower bound is applied first, so the upper bound wins if it is smaller. */
bl_onnx_value *bl_onnx_write_clip(bl_onnx_call *c)
{
    bl_onnx_value *y = bl_onnx_in(c, 0);

    if (c->opset < 11) {
        double low = bl_onnx_float(c, "min", -(double)FLT_MAX), high = bl_onnx_float(c, "max", (double)FLT_MAX);
        return bl_onnx_make(c, "clamp(a, min=$0, max=$1)", ARGS(R(low), R(high)));
    }
    if (bl_onnx_in(c, 1) != NULL)
        y = bl_onnx_make(c, "maximum($0, b)", ARGS(V(y)));
    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "minimum($0, c)", ARGS(V(y)));
    return y;
}

bl_onnx_value *bl_onnx_write_gelu(bl_onnx_call *c)
{
    return bl_onnx_make(c, "gelu(a, approximate=$0)", ARGS(T(bl_onnx_text(c, "approximate", "none"))));
}

bl_onnx_value *bl_onnx_write_fast_gelu(bl_onnx_call *c)
{
    return bl_onnx_make(c, bl_onnx_in(c, 1) != NULL ? "gelu(add(a, b), approximate=tanh)" : "gelu(a, approximate=tanh)", NULL);
}

bl_onnx_value *bl_onnx_write_is_inf(bl_onnx_call *c)
{
    return bl_onnx_make(c, "isinf(a, detect_positive=$0, detect_negative=$1)",
                        ARGS(B(bl_onnx_int(c, "detect_positive", 1) != 0), B(bl_onnx_int(c, "detect_negative", 1) != 0)));
}

/* The identity at inference, with a mask that is all true (before opset 10 in the data's dtype). */
bl_onnx_value *bl_onnx_write_dropout(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *ratio = bl_onnx_in(c, 1), *training = bl_onnx_in(c, 2);
    const bl_onnx_known *mode = bl_onnx_know(c->import, training), *share = bl_onnx_know(c->import, ratio);
    double p = ratio == NULL ? 0.5 : share != NULL && share->count == 1 && share->real != NULL ? share->real[0] : -1;

    if (x == NULL)
        return bl_onnx_fail(c, "needs an input");
    if (training != NULL && mode == NULL)
        return bl_onnx_fail_unknown(c, 2, "training_mode,");
    if (mode != NULL && mode->count != 1)
        return bl_onnx_fail(c, "training_mode has %d elements; it must be a scalar", mode->count);
    bool trains = mode != NULL && !bl_is_int(mode->size[0], 0) && p != 0;
    if (!trains) {
        if (bl_onnx_wants(c, 1))
            c->out[1] = bl_onnx_make(c, "ones_like(a, dtype=$0)", ARGS(D(c->opset < 10 ? bl_onnx_type(x) : BL_BOOL)));
        return x;
    }
    if (ratio != NULL && share == NULL)
        return bl_onnx_fail_unknown(c, 1, "the ratio,");
    if (p < 0 || p > 1)
        return bl_onnx_fail(c, "the ratio is not a number from 0 to 1");
    bl_onnx_value *kept = bl_onnx_make(c, "greater_equal(rand_like(a), $0)", ARGS(R(p)));
    if (bl_onnx_wants(c, 1))
        c->out[1] = kept;
    return bl_onnx_make(c, "where($0, mul(a, $1), 0)", ARGS(V(kept), R(p < 1 ? 1 / (1 - p) : 0)));
}
