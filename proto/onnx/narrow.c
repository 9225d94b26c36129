/* SPDX-License-Identifier: MIT */
/* Element types that are stored in wider dtypes: integers of 2 and 4 bits in 8 bits, and floats of 4 and 8 bits that no device
 * supports in wider floats.  Each value is exact. */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

#define TYPE(name) ONNX__TENSOR_PROTO__DATA_TYPE__##name

static const bl_onnx_narrow rows[] = {
    {.data_type = TYPE(UINT4), .dtype = BL_U8, .bits = 4, .most = 15},
    {.data_type = TYPE(INT4), .dtype = BL_I8, .bits = 4, .least = -8, .most = 7},
    {.data_type = TYPE(UINT2), .dtype = BL_U8, .bits = 2, .most = 3},
    {.data_type = TYPE(INT2), .dtype = BL_I8, .bits = 2, .least = -2, .most = 1},
    {.data_type = TYPE(FLOAT4E2M1), .dtype = BL_F16, .bits = 4, .mantissa = 1, .exponent = 0, .least = -6, .most = 6},
    {.data_type = TYPE(FLOAT8E4M3FNUZ),
     .dtype = BL_F16,
     .bits = 8,
     .mantissa = 3,
     .exponent = -7,
     .least = -240,
     .most = 240,
     .has_nan = true},
    {.data_type = TYPE(FLOAT8E5M2FNUZ),
     .dtype = BL_F16,
     .bits = 8,
     .mantissa = 2,
     .exponent = -15,
     .least = -57344,
     .most = 57344,
     .has_nan = true},
    {.data_type = TYPE(FLOAT8E8M0), .dtype = BL_F32, .bits = 8, .exponent = -127, .has_nan = true, .is_power = true},
};

const bl_onnx_narrow *bl_onnx_narrow_find(int data_type)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].data_type == data_type)
            return &rows[i];
    }
    return NULL;
}

static bool narrow_is_float(const bl_onnx_narrow *narrow)
{
    return bl_dtype_is_float(narrow->dtype);
}

/* ---- elements of the file */

/* The value of |code|, which has sign, exponent and mantissa in this order from the highest bit. */
static double narrow_read_code(const bl_onnx_narrow *narrow, unsigned code)
{
    unsigned top = 1u << (narrow->bits - 1), magnitude = code & (top - 1);
    unsigned fraction = magnitude & ((1u << narrow->mantissa) - 1), exponent = magnitude >> narrow->mantissa;
    double value;

    if (narrow->is_power)
        return code == 255 ? (double)NAN : ldexp(1, narrow->exponent + (int)code);
    if (narrow->has_nan && code == top) /* in other types this code is the negative zero */
        return (double)NAN;
    value = ldexp(exponent > 0 ? 1.0 + ldexp(fraction, -narrow->mantissa) : ldexp(fraction, -narrow->mantissa),
                  narrow->exponent + (exponent > 0 ? (int)exponent - 1 : 0));
    return (code & top) != 0 ? -value : value;
}

size_t bl_onnx_narrow_bytes(const bl_onnx_narrow *narrow, size_t count)
{
    size_t each = 8 / (size_t)narrow->bits;

    return count / each + (count % each != 0);
}

bl_status bl_onnx_widen(bl_onnx_importer *m, const bl_onnx_narrow *narrow, bl_span raw, bl_tensor_value *out, bl_err *err)
{
    size_t width = bl_dtype_bytes(out->dtype), each = 8 / (size_t)narrow->bits;
    char *to;

    if (raw.len != bl_onnx_narrow_bytes(narrow, out->count))
        return bl_fail(err, BL_EINVAL, "tensor \"%s\" has %zu elements, but its shape is of %zu", out->label, raw.len * each,
                       out->count);
    to = bl_arena_array(m->arena, out->count, width);
    if (to == NULL)
        return bl_arena_status(m->arena, err);
    for (size_t i = 0; i < out->count; i++) {
        unsigned code =
            (unsigned)(unsigned char)raw.data[i / each] >> (i % each * (size_t)narrow->bits) & ((1u << narrow->bits) - 1);
        bl_scalar value = {.i = code};
        if (narrow_is_float(narrow))
            value.f = narrow_read_code(narrow, code);
        else if (value.i > (int64_t)narrow->most)
            value.i -= INT64_C(1) << narrow->bits;
        bl_scalar_write(out->dtype, value, to + i * width);
    }
    out->span = (bl_span){to, out->count * width};
    return BL_OK;
}

/* ---- values of the graph */

/* Rounds the float |x| to the nearest value of the type, ties to even: to a multiple of the step between neighbours at its
 * magnitude.  A value out of range becomes the largest one, or NaN. */
static bl_onnx_value *round_float(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow, bool saturates)
{
    bl_onnx_value *step, *steps, *y;

    x = bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(x)));
    if (saturates)
        x = bl_onnx_make(c, "clamp($0, min=$1, max=$2)", ARGS(V(x), R(narrow->least), R(narrow->most)));
    /* only the exponent of |x|: the largest power of two up to |x| */
    step = bl_onnx_make(c, "bitcast(bitwise_and(bitcast($0, dtype=int32), 2139095040), dtype=float32)", ARGS(V(x)));
    step =
        bl_onnx_make(c, "mul(maximum($0, $1), $2)", ARGS(V(step), R(ldexp(1, narrow->exponent)), R(ldexp(1, -narrow->mantissa))));
    /* multiplies by the reciprocal of the step, a power of two, since a division may round; the exponent field of the
     * reciprocal is 254 minus the field of the step */
    steps = bl_onnx_make(c, "mul($0, bitcast(sub(2130706432, bitcast($1, dtype=int32)), dtype=float32))", ARGS(V(x), V(step)));
    y = bl_onnx_make(c, "mul(round($0), $1)", ARGS(V(steps), V(step)));
    if (!narrow->has_nan)
        y = bl_onnx_make(c, "where(isnan($0), 0, $0)", ARGS(V(y)));
    if (narrow->has_nan) { /* a type with NaN has no negative zero */
        y = bl_onnx_make(c, "where(equal($0, 0), 0, $0)", ARGS(V(y)));
        if (!saturates)
            y = bl_onnx_make(c, "where(less_equal(abs($0), $1), $0, $2)", ARGS(V(y), R(narrow->most), R((double)NAN)));
    }
    return bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(y), D(narrow->dtype)));
}

/* Rounds |x| to a power of two above, below or nearest, by the bits of a float32.  NaN and infinities become NaN, zero becomes
 * the smallest value. */
static bl_onnx_value *round_power(bl_onnx_call *c, bl_onnx_value *x, bool saturates)
{
    const char *mode = bl_onnx_text(c, "round_mode", "up");
    bl_onnx_value *bits = bl_onnx_make(c, "bitcast(abs(cast($0, dtype=float32)), dtype=int32)", ARGS(V(x)));
    bl_onnx_value *exponent = bl_onnx_make(c, "bitwise_and($0, 2139095040)", ARGS(V(bits))); /* the 8 exponent bits at their
                                                                                              * position */
    bl_onnx_value *power = exponent, *special = bl_onnx_make(c, "equal($0, 2139095040)", ARGS(V(exponent)));

    if (strcmp(mode, "up") == 0)
        power = bl_onnx_make(c, "add($0, mul(cast(greater($1, $0), dtype=int32), 8388608))", ARGS(V(exponent), V(bits)));
    else if (strcmp(mode, "nearest") == 0)
        power = bl_onnx_make(c, "bitwise_and(add($0, 4194304), 2139095040)", ARGS(V(bits)));
    else if (strcmp(mode, "down") != 0)
        return bl_onnx_fail(c, "round_mode is \"%.40s\"; it must be up, down or nearest", bl_onnx_clean(c->import, mode));
    if (saturates)
        power = bl_onnx_make(c, "minimum($0, 2130706432)", ARGS(V(power)));
    power = bl_onnx_make(c, "where(bitwise_or($0, equal($1, 2139095040)), 2143289344, where(equal($1, 0), 4194304, $1))",
                         ARGS(V(special), V(power)));
    return bl_onnx_make(c, "bitcast($0, dtype=float32)", ARGS(V(power)));
}

/* Keeps the low bits of an integer, with the signedness of the type. */
static bl_onnx_value *keep_bits(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow)
{
    int64_t below = -(int64_t)narrow->least;

    return bl_onnx_make(c, "cast(sub(mod(add(cast($0, dtype=int32), $1), $2), $1), dtype=$3)",
                        ARGS(V(x), I(below), I(INT64_C(1) << narrow->bits), D(narrow->dtype)));
}

bl_onnx_value *bl_onnx_narrow_cast(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow, bool saturates)
{
    x = narrow->is_power          ? round_power(c, x, saturates)
        : narrow_is_float(narrow) ? round_float(c, x, narrow, saturates || !narrow->has_nan)
                                  : keep_bits(c, x, narrow);
    if (x != NULL)
        x->narrow = narrow;
    return x;
}

bl_onnx_value *bl_onnx_narrow_clamp(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow)
{
    if (narrow_is_float(narrow))
        return bl_onnx_narrow_cast(c, x, narrow, true);
    x = bl_onnx_make(c, "cast(clamp($0, min=$1, max=$2), dtype=$3)",
                     ARGS(V(x), R(narrow->least), R(narrow->most), D(narrow->dtype)));
    if (x != NULL)
        x->narrow = narrow;
    return x;
}
