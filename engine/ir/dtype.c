/* SPDX-License-Identifier: MIT */
#include "engine/ir/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian in memory and on the wire");
_Static_assert(FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53, "float and double are IEEE 754 binary32 and binary64");

static const struct {
    const char *name, *code;
    size_t bytes;
    bl_dtype_kind kind;
} rows[BL_DTYPE_COUNT] = {
#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) [BL_##id] = {name, code, bytes, BL_KIND_##kind},
#include "engine/ir/dtypes.def"
#undef BL_DTYPE
};

const char *bl_dtype_name(bl_dtype dtype)
{
    return rows[dtype].name;
}

const char *bl_dtype_code(bl_dtype dtype)
{
    return rows[dtype].code;
}

size_t bl_dtype_bytes(bl_dtype dtype)
{
    return rows[dtype].bytes;
}

bl_dtype_kind bl_dtype_get_kind(bl_dtype dtype)
{
    return rows[dtype].kind;
}

bool bl_dtype_is_float(bl_dtype dtype)
{
    return rows[dtype].kind == BL_KIND_FLOAT;
}

bool bl_dtype_is_int(bl_dtype dtype)
{
    return rows[dtype].kind == BL_KIND_INT || rows[dtype].kind == BL_KIND_UINT;
}

static bool same(const char *row, const char *text, size_t len)
{
    return strlen(row) == len && memcmp(row, text, len) == 0;
}

bl_dtype bl_dtype_from_name(const char *name, size_t len)
{
    for (int i = 0; i < (int)BL_DTYPE_WIRE; i++) {
        if (same(rows[i].name, name, len))
            return (bl_dtype)i;
    }
    return BL_DTYPE_COUNT;
}

bl_dtype bl_dtype_from_code(const char *code, size_t len)
{
    for (int i = 0; i < (int)BL_DTYPE_WIRE; i++) {
        if (same(rows[i].code, code, len))
            return (bl_dtype)i;
    }
    return BL_DTYPE_COUNT;
}

bool bl_dtype_is_float8(bl_dtype dtype)
{
    return dtype == BL_F8E4M3 || dtype == BL_F8E5M2;
}

bool bl_dtype_is_narrow(bl_dtype dtype)
{
    return bl_dtype_is_float(dtype) && bl_dtype_bytes(dtype) < 4;
}

/* ---- narrow floats as bits.  A format is a sign, |exponent| bits and |mantissa| bits, laid out as IEEE 754 does. */

typedef struct format {
    int exponent, mantissa;
} format;

static const format f16 = {5, 10}, bf16 = {8, 7}, f32 = {8, 23}, e5m2 = {5, 2}, e4m3 = {4, 3};

enum { E4M3_HIGHEST = 448, F64_MANTISSA = 52, F64_BIAS = 1023, F64_SPECIAL = 2047 };
static const uint64_t f64_fraction = (UINT64_C(1) << F64_MANTISSA) - 1;

static uint64_t f64_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f64_from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest even in one step: through float it would be rounded twice. */
static uint64_t narrow(format to, double value)
{
    uint64_t bits = f64_bits(value);
    uint64_t sign = bits >> 63 << (to.exponent + to.mantissa);
    uint64_t infinity = ((UINT64_C(1) << to.exponent) - 1) << to.mantissa;
    uint64_t fraction = bits & f64_fraction;
    int biased = (int)(bits >> F64_MANTISSA & F64_SPECIAL);
    int smallest = 2 - (1 << (to.exponent - 1)); /* exponent of the smallest normal number */
    int drop = F64_MANTISSA - to.mantissa;       /* bits to round away */
    int exponent = biased - F64_BIAS;
    uint64_t whole, rest, half, result;

    if (biased == F64_SPECIAL) {
        uint64_t payload = fraction >> drop;

        if (fraction != 0 && payload == 0)
            payload = UINT64_C(1) << (to.mantissa - 1); /* still a NaN */
        return sign | infinity | payload;
    }
    if (biased == 0)
        return sign; /* zero, or below half of any of these formats' smallest number */
    if (exponent < smallest)
        drop += smallest - exponent;
    if (drop > F64_MANTISSA + 1)
        return sign;
    fraction |= UINT64_C(1) << F64_MANTISSA;
    whole = fraction >> drop;
    rest = fraction & ((UINT64_C(1) << drop) - 1);
    half = UINT64_C(1) << (drop - 1);
    if (rest > half || (rest == half && (whole & 1) != 0))
        whole++;
    /* The leading 1 of |whole| adds one to the exponent of a normal number, and so does a carry out of the rounding. */
    result = whole + (exponent > smallest ? (uint64_t)(exponent - smallest) << to.mantissa : 0);
    return sign | (result < infinity ? result : infinity);
}

static double widen(format from, uint64_t bits)
{
    int special = (1 << from.exponent) - 1;
    int bias = special >> 1;
    int biased = (int)(bits >> from.mantissa) & special;
    uint64_t sign = bits >> (from.exponent + from.mantissa) << 63;
    uint64_t fraction = bits & ((UINT64_C(1) << from.mantissa) - 1);
    uint64_t exponent = (uint64_t)(biased == special ? F64_SPECIAL : biased - bias + F64_BIAS);

    if (biased == 0) /* zero or subnormal: fraction * 2^(smallest - mantissa), exact in double */
        return f64_from_bits(sign | f64_bits(ldexp((double)fraction, 1 - bias - from.mantissa)));
    return f64_from_bits(sign | exponent << F64_MANTISSA | fraction << (F64_MANTISSA - from.mantissa));
}

uint16_t bl_f16_from_f64(double value)
{
    return (uint16_t)narrow(f16, value);
}

double bl_f16_to_f64(uint16_t bits)
{
    return widen(f16, bits);
}

uint16_t bl_bf16_from_f64(double value)
{
    return (uint16_t)narrow(bf16, value);
}

double bl_bf16_to_f64(uint16_t bits)
{
    return widen(bf16, bits);
}

/* E4M3 has numbers where IEEE 754 has infinities and most NaNs: what is over 448 is NaN, 0x7f. */
static uint8_t narrow8(bl_dtype dtype, double value)
{
    uint8_t sign = signbit(value) ? 0x80 : 0;
    double size = fabs(value), unit;
    int exponent, code;

    if (dtype == BL_F8E5M2)
        return (uint8_t)narrow(e5m2, value);
    if (!(size < 480))
        return sign | 0x7f;
    if (size < 0x1p-6)
        return (uint8_t)(sign | (int)nearbyint(size * 0x1p9));
    (void)frexp(size, &exponent); /* size is between 2^(exponent - 1) and 2^exponent */
    unit = ldexp(1, exponent - 1 - e4m3.mantissa);
    code = ((exponent - 1 + 7) << e4m3.mantissa) + (int)nearbyint(size / unit) - 8;
    return (uint8_t)(sign | (code < 0x7f ? code : 0x7f));
}

static double widen8(bl_dtype dtype, uint8_t bits)
{
    int code = bits & 0x7f;
    double size;

    if (dtype == BL_F8E5M2)
        return widen(e5m2, bits);
    if (code == 0x7f)
        return copysign(NAN, (bits & 0x80) != 0 ? -1 : 1);
    size = code < 8 ? code * 0x1p-9 : ldexp(8 + (code & 7), (code >> e4m3.mantissa) - 7 - e4m3.mantissa);
    return (bits & 0x80) != 0 ? -size : size;
}

/* The processor converts float32, except NaNs: it would set the quiet bit, and a bitcast must keep them as they are. */
static uint32_t f32_bits(double value)
{
    float narrowed;
    uint32_t bits;

    if (isnan(value))
        return (uint32_t)narrow(f32, value);
    narrowed = (float)value;
    memcpy(&bits, &narrowed, sizeof bits);
    return bits;
}

static double f32_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return isnan(value) ? widen(f32, bits) : (double)value;
}

/* ---- values */

bl_scalar bl_scalar_fit(bl_dtype dtype, bl_scalar value)
{
    switch (dtype) {
    case BL_BOOL:
        return (bl_scalar){.u = value.u != 0};
    case BL_I8:
        return (bl_scalar){.i = (int8_t)value.u};
    case BL_I16:
        return (bl_scalar){.i = (int16_t)value.u};
    case BL_I32:
        return (bl_scalar){.i = (int32_t)value.u};
    case BL_U8:
        return (bl_scalar){.u = (uint8_t)value.u};
    case BL_U16:
        return (bl_scalar){.u = (uint16_t)value.u};
    case BL_U32:
        return (bl_scalar){.u = (uint32_t)value.u};
    case BL_F8E4M3:
    case BL_F8E5M2:
        return (bl_scalar){.f = widen8(dtype, narrow8(dtype, value.f))};
    case BL_F16:
        return (bl_scalar){.f = bl_f16_to_f64(bl_f16_from_f64(value.f))};
    case BL_BF16:
        return (bl_scalar){.f = bl_bf16_to_f64(bl_bf16_from_f64(value.f))};
    case BL_F32:
        return (bl_scalar){.f = f32_from_bits(f32_bits(value.f))};
    case BL_I64:
    case BL_U64:
    case BL_F64:
    case BL_INDEX:
    case BL_DTYPE_COUNT:
        break;
    }
    return value;
}

static int width(bl_dtype dtype)
{
    return (int)bl_dtype_bytes(dtype) * 8;
}

static bl_scalar float_to_int(bl_dtype to, double value)
{
    bl_scalar lowest = bl_scalar_lowest(to), highest = bl_scalar_highest(to);
    bool with_sign = bl_dtype_get_kind(to) == BL_KIND_INT;
    double above = ldexp(1.0, width(to) - with_sign); /* the first value past the bound, exact where the bound may not be */

    if (isnan(value))
        return (bl_scalar){.u = 0};
    if (value >= above)
        return highest;
    if (with_sign)
        return value <= -above ? lowest : (bl_scalar){.i = (int64_t)value};
    return value <= 0 ? lowest : (bl_scalar){.u = (uint64_t)value};
}

/* A double that rounds to every narrower format as |magnitude| does: what does not fit is kept as one sticky bit
 * ("rounding to odd"; Boldo and Melquiond, 2008: right where the target has at most 51 bits). */
static double to_double_for_rounding(uint64_t magnitude)
{
    if (magnitude >> DBL_MANT_DIG != 0) {
        uint64_t low = magnitude & 0xfff;

        magnitude = (magnitude - low) | (low != 0 ? 0x800 : 0);
    }
    return (double)magnitude;
}

static bl_scalar int_to_float(bl_dtype to, bl_dtype from, bl_scalar value)
{
    bool negative = bl_dtype_get_kind(from) == BL_KIND_INT && value.i < 0;
    double result;

    if (to == BL_F64)
        return (bl_scalar){.f = bl_dtype_get_kind(from) == BL_KIND_INT ? (double)value.i : (double)value.u};
    result = to_double_for_rounding(negative ? 0 - value.u : value.u);
    return bl_scalar_fit(to, (bl_scalar){.f = negative ? -result : result});
}

bl_scalar bl_scalar_cast(bl_dtype to, bl_dtype from, bl_scalar value)
{
    if (bl_dtype_is_float(from)) {
        if (bl_dtype_is_float(to))
            return bl_scalar_fit(to, value);
        if (to == BL_BOOL)
            return (bl_scalar){.u = value.f != 0};
        return float_to_int(to, value.f);
    }
    return bl_dtype_is_float(to) ? int_to_float(to, from, value) : bl_scalar_fit(to, value);
}

bl_scalar bl_scalar_read(bl_dtype dtype, const void *bytes)
{
    bl_scalar value = {.u = 0};

    memcpy(&value, bytes, bl_dtype_bytes(dtype));
    if (bl_dtype_is_float8(dtype))
        return (bl_scalar){.f = widen8(dtype, (uint8_t)value.u)};
    if (dtype == BL_F16)
        return (bl_scalar){.f = bl_f16_to_f64((uint16_t)value.u)};
    if (dtype == BL_BF16)
        return (bl_scalar){.f = bl_bf16_to_f64((uint16_t)value.u)};
    if (dtype == BL_F32)
        return (bl_scalar){.f = f32_from_bits((uint32_t)value.u)};
    return dtype == BL_F64 ? value : bl_scalar_fit(dtype, value); /* extends the sign */
}

void bl_scalar_write(bl_dtype dtype, bl_scalar value, void *bytes)
{
    uint64_t bits = value.u;

    if (dtype == BL_BOOL)
        bits = value.u != 0;
    else if (bl_dtype_is_float8(dtype))
        bits = narrow8(dtype, value.f);
    else if (dtype == BL_F16)
        bits = bl_f16_from_f64(value.f);
    else if (dtype == BL_BF16)
        bits = bl_bf16_from_f64(value.f);
    else if (dtype == BL_F32)
        bits = f32_bits(value.f);
    memcpy(bytes, &bits, bl_dtype_bytes(dtype));
}

bl_scalar bl_scalar_lowest(bl_dtype dtype)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return (bl_scalar){.f = dtype == BL_F8E4M3 ? -E4M3_HIGHEST : -INFINITY};
    case BL_KIND_INT:
        return (bl_scalar){.i = INT64_MIN >> (64 - width(dtype))};
    case BL_KIND_BOOL:
    case BL_KIND_UINT:
        break;
    }
    return (bl_scalar){.u = 0};
}

bl_scalar bl_scalar_highest(bl_dtype dtype)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return (bl_scalar){.f = dtype == BL_F8E4M3 ? E4M3_HIGHEST : INFINITY};
    case BL_KIND_INT:
        return (bl_scalar){.i = INT64_MAX >> (64 - width(dtype))};
    case BL_KIND_UINT:
        return (bl_scalar){.u = UINT64_MAX >> (64 - width(dtype))};
    case BL_KIND_BOOL:
        break;
    }
    return (bl_scalar){.u = 1};
}
