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

size_t bl_dtype_local_bytes(bl_dtype dtype)
{
    return rows[dtype].bytes < 4 ? 4 : rows[dtype].bytes; /* GLSL computes narrower types in 32 bits */
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

static bool dtype_same(const char *row, const char *text, size_t len)
{
    return strlen(row) == len && memcmp(row, text, len) == 0;
}

static bl_dtype dtype_find(bool by_code, const char *text, size_t len)
{
    for (int i = 0; i < (int)BL_DTYPE_WIRE; i++) {
        if (dtype_same(by_code ? rows[i].code : rows[i].name, text, len))
            return (bl_dtype)i;
    }
    return BL_DTYPE_COUNT;
}

bl_dtype bl_dtype_from_name(const char *name, size_t len)
{
    return dtype_find(false, name, len);
}

void bl_dtype_near(bl_near *near, bl_span name)
{
    bl_near_init(near, name);
    for (int i = 0; i < BL_DTYPE_WIRE; i++)
        bl_near_offer(near, (bl_span){rows[i].name, strlen(rows[i].name)});
}

bool bl_precision_from_name(const char *name, bl_precision *out)
{
    static const char *const names[] = {[BL_PRECISION_HIGHEST] = "highest", [BL_PRECISION_HIGH] = "high"};

    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (bl_precision)i;
        return true;
    }
    return false;
}

bl_dtype bl_dtype_from_code(const char *code, size_t len)
{
    return dtype_find(true, code, len);
}

bool bl_dtype_is_float8(bl_dtype dtype)
{
    return dtype == BL_F8E4M3 || dtype == BL_F8E5M2;
}

bool bl_dtype_is_narrow(bl_dtype dtype)
{
    return bl_dtype_is_float(dtype) && bl_dtype_bytes(dtype) < 4;
}

/* ---- floats as bits.  A format has a sign, |exponent| bits and |mantissa| bits, laid out as in IEEE 754. Codes from |special|
 * on are infinity and NaN; in E4M3 most of these codes are numbers, and only the last one is NaN. */

typedef struct format {
    int exponent, mantissa;
    uint64_t special;
} format;

enum { E4M3_HIGHEST = 448, F64_MANTISSA = 52, F64_BIAS = 1023, F64_SPECIAL = 2047 };

static format dtype_format_of(bl_dtype dtype)
{
    if (dtype == BL_F8E4M3)
        return (format){4, 3, 0x7f};
    if (dtype == BL_F8E5M2)
        return (format){5, 2, 0x7c};
    if (dtype == BL_F16)
        return (format){5, 10, 0x7c00};
    return dtype == BL_BF16 ? (format){8, 7, 0x7f80} : (format){8, 23, 0x7f800000};
}

/* Round to nearest even in one step: a detour through float would round twice. */
static uint64_t dtype_narrow(bl_dtype dtype, double value)
{
    format to = dtype_format_of(dtype);
    uint64_t bits = (bl_scalar){.f = value}.u;
    uint64_t sign = bits >> 63 << (to.exponent + to.mantissa);
    uint64_t fraction = bits & ((UINT64_C(1) << F64_MANTISSA) - 1);
    int biased = (int)(bits >> F64_MANTISSA & F64_SPECIAL);
    int smallest = 2 - (1 << (to.exponent - 1)); /* exponent of the smallest normal number */
    int drop = F64_MANTISSA - to.mantissa;       /* number of bits to round off */
    int exponent = biased - F64_BIAS;
    uint64_t whole, rest, half, result;

    if (biased == F64_SPECIAL) {
        uint64_t payload = fraction >> drop;

        if (fraction != 0 && payload == 0)
            payload = UINT64_C(1) << (to.mantissa - 1); /* keeps a NaN a NaN */
        return sign | to.special | payload;
    }
    if (biased == 0)
        return sign; /* zero, or below half the smallest number of any of these formats */
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
    /* The leading 1 of |whole| adds one to the exponent of a normal number. A carry out of the rounding also does. */
    result = whole + (exponent > smallest ? (uint64_t)(exponent - smallest) << to.mantissa : 0);
    return sign | (result < to.special ? result : to.special);
}

static double dtype_widen(bl_dtype dtype, uint64_t bits)
{
    format from = dtype_format_of(dtype);
    int bias = (1 << (from.exponent - 1)) - 1, digits = from.exponent + from.mantissa;
    uint64_t size = bits & ((UINT64_C(1) << digits) - 1);
    uint64_t fraction = bits & ((UINT64_C(1) << from.mantissa) - 1), exponent = size >> from.mantissa;
    bl_scalar value = {.u = bits >> digits << 63};

    if (exponent == 0) /* zero or subnormal: fraction * 2^(smallest - mantissa), exact in double */
        return copysign(ldexp((double)fraction, 1 - bias - from.mantissa), value.u != 0 ? -1 : 1);
    if (size >= from.special) {
        exponent = F64_SPECIAL;
        fraction = dtype == BL_F8E4M3 ? UINT64_C(1) << (from.mantissa - 1) : fraction;
    } else {
        exponent += (uint64_t)(F64_BIAS - bias);
    }
    value.u |= exponent << F64_MANTISSA | fraction << (F64_MANTISSA - from.mantissa);
    return value.f;
}

uint16_t bl_f16_from_f64(double value)
{
    return (uint16_t)dtype_narrow(BL_F16, value);
}

uint16_t bl_bf16_from_f64(double value)
{
    return (uint16_t)dtype_narrow(BL_BF16, value);
}

/* The processor's conversion to float32 sets the quiet bit of a NaN, and a bitcast must keep the bits of a NaN. */
static uint64_t real_bits(bl_dtype dtype, double value)
{
    float narrowed = (float)value;
    uint32_t bits;

    if (dtype == BL_F64)
        return (bl_scalar){.f = value}.u;
    if (dtype != BL_F32 || isnan(value))
        return dtype_narrow(dtype, value);
    memcpy(&bits, &narrowed, sizeof bits);
    return bits;
}

static double real_from_bits(bl_dtype dtype, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    if (dtype == BL_F64)
        return (bl_scalar){.u = bits}.f;
    memcpy(&value, &low, sizeof value);
    return dtype != BL_F32 || isnan(value) ? dtype_widen(dtype, bits) : (double)value;
}

/* ---- values */

bl_scalar bl_scalar_fit(bl_dtype dtype, bl_scalar value)
{
    int unused = 64 - (int)bl_dtype_bytes(dtype) * 8; /* high bits */

    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return (bl_scalar){.f = real_from_bits(dtype, real_bits(dtype, value.f))};
    case BL_KIND_INT:
        return (bl_scalar){.i = (int64_t)(value.u << unused) >> unused};
    case BL_KIND_UINT:
        return (bl_scalar){.u = value.u << unused >> unused};
    case BL_KIND_BOOL:
        break;
    }
    return (bl_scalar){.u = value.u != 0};
}

static int width(bl_dtype dtype)
{
    return (int)bl_dtype_bytes(dtype) * 8;
}

static bl_scalar float_to_int(bl_dtype to, double value)
{
    bl_scalar lowest = bl_scalar_lowest(to), highest = bl_scalar_highest(to);
    bool with_sign = bl_dtype_get_kind(to) == BL_KIND_INT;
    /* the first value beyond the bound; exact, while the bound itself may not be */
    double above = ldexp(1.0, width(to) - with_sign);

    if (isnan(value))
        return (bl_scalar){.u = 0};
    if (value >= above)
        return highest;
    if (with_sign)
        return value <= -above ? lowest : (bl_scalar){.i = (int64_t)value};
    return value <= 0 ? lowest : (bl_scalar){.u = (uint64_t)value};
}

/* A double that rounds to every narrower format as |magnitude| does. Bits that do not fit are merged into one sticky bit
 * (rounding to odd; Boldo and Melquiond, 2008; correct for targets of at most 51 bits). */
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
    if (bl_dtype_is_float(dtype))
        return (bl_scalar){.f = real_from_bits(dtype, value.u)};
    return bl_scalar_fit(dtype, value); /* extends the sign */
}

void bl_floats_read(bl_dtype dtype, const void *bytes, size_t count, float *out)
{
    const char *from = bytes;
    if (dtype == BL_F32) {
        memcpy(out, from, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count && dtype == BL_BF16; i++) { /* a bfloat16 is the upper half of a float */
        uint16_t half = 0;
        uint32_t bits = 0;
        memcpy(&half, from + i * sizeof half, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
    for (size_t i = 0; i < count && dtype != BL_BF16; i++)
        out[i] = (float)bl_scalar_read(dtype, from + i * bl_dtype_bytes(dtype)).f;
}

void bl_scalar_write(bl_dtype dtype, bl_scalar value, void *bytes)
{
    uint64_t bits = value.u;

    if (dtype == BL_BOOL)
        bits = value.u != 0;
    else if (bl_dtype_is_float(dtype))
        bits = real_bits(dtype, value.f);
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
