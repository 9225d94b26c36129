/* SPDX-License-Identifier: MIT */
#include "engine/ir/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Checks that the bits are equal; all NaNs are equal. */
static void check_double(const char *what, double got, double want)
{
    if (bits_of(got) != bits_of(want) && !(isnan(got) && isnan(want)))
        fail_msg("%s: got %a (%.17g), want %a (%.17g)", what, got, got, want, want);
}

static void names_and_codes(void **state)
{
    (void)state;
    for (int i = 0; i < BL_DTYPE_COUNT; i++) {
        bl_dtype d = (bl_dtype)i;
        const char *name = bl_dtype_name(d), *code = bl_dtype_code(d);

        assert_int_equal(bl_dtype_from_name(name, strlen(name)), i < BL_DTYPE_WIRE ? i : BL_DTYPE_COUNT);
        assert_int_equal(bl_dtype_from_code(code, strlen(code)), i < BL_DTYPE_WIRE ? i : BL_DTYPE_COUNT);
    }
    assert_int_equal(bl_dtype_from_name("float3", 6), BL_DTYPE_COUNT);
    assert_int_equal(bl_dtype_from_name("float32x", 7), BL_F32);
    assert_int_equal(bl_dtype_from_name("", 0), BL_DTYPE_COUNT);
    assert_int_equal(bl_dtype_from_code("F32", 3), BL_F32);
    assert_int_equal(bl_dtype_bytes(BL_BF16), 2);
    assert_true(bl_dtype_is_float(BL_BF16) && !bl_dtype_is_int(BL_BF16));
    assert_true(bl_dtype_is_int(BL_U8) && bl_dtype_is_int(BL_INDEX) && !bl_dtype_is_int(BL_BOOL));
}

static double to_double(bl_dtype dtype, uint16_t bits)
{
    return bl_scalar_read(dtype, &bits).f;
}

static const struct half {
    const char *name;
    bl_dtype dtype;
    uint16_t (*from)(double);
    uint16_t infinity;
} halves[] = {
    {"float16", BL_F16, bl_f16_from_f64, 0x7c00},
    {"bfloat16", BL_BF16, bl_bf16_from_f64, 0x7f80},
};

/* All 65536 patterns, including NaNs, survive the conversion to double and back, and to bytes and back. */
static void halves_round_trip(void **state)
{
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            double value = to_double(halves[h].dtype, (uint16_t)bits);
            uint16_t stored = (uint16_t)bits, back = 0;

            if (halves[h].from(value) != bits)
                fail_msg("%s %04x is %a and comes back as %04x", halves[h].name, bits, value, halves[h].from(value));
            if (isnan(value) != ((bits & 0x7fff) > halves[h].infinity))
                fail_msg("%s %04x: %a", halves[h].name, bits, value);
            bl_scalar_write(halves[h].dtype, bl_scalar_read(halves[h].dtype, &stored), &back);
            assert_int_equal(back, bits);
        }
    }
}

/* Between neighbours: just below the middle, the middle (rounds to even), just above; both signs.  The last pair is the largest
 * number and its virtual successor, to which rounding gives infinity. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        const struct half *f = &halves[h];

        for (uint16_t low = 0; low < f->infinity; low++) {
            uint16_t high = (uint16_t)(low + 1);
            double a = to_double(f->dtype, low);
            double b = high < f->infinity ? to_double(f->dtype, high) : 2 * a - to_double(f->dtype, (uint16_t)(low - 1));
            double middle = (a + b) / 2; /* exact, since the significands have few bits */

            for (int sign = 0; sign < 2; sign++) {
                double s = sign ? -1.0 : 1.0;
                uint16_t bit = sign ? 0x8000 : 0;

                assert_int_equal(f->from(s * nextafter(middle, 0)), low | bit);
                assert_int_equal(f->from(s * middle), (low % 2 == 0 ? low : high) | bit);
                assert_int_equal(f->from(s * nextafter(middle, INFINITY)), high | bit);
            }
        }
        check_double(f->name, to_double(f->dtype, f->from(1e308)), INFINITY);
        check_double(f->name, to_double(f->dtype, f->from(-INFINITY)), -INFINITY);
        check_double(f->name, to_double(f->dtype, f->from(4.9e-324)), 0.0);
        check_double(f->name, to_double(f->dtype, f->from(-1e-300)), -0.0);
    }
    check_double("1.0", to_double(BL_F16, 0x3c00), 1.0);
    check_double("largest", to_double(BL_F16, 0x7bff), 65504.0);
    check_double("smallest", to_double(BL_F16, 0x0001), 0x1p-24);
    check_double("1.0", to_double(BL_BF16, 0x3f80), 1.0);
    check_double("smallest", to_double(BL_BF16, 0x0001), 0x1p-133);
}

/* Every code of the 8-bit floats survives a round trip; numbers between neighbours round to the nearest, ties to even. */
static void float8_codes_and_rounding(void **state)
{
    static const struct {
        bl_dtype dtype;
        int finite; /* the largest finite code */
        double beyond;
    } formats[] = {{BL_F8E4M3, 0x7e, NAN}, {BL_F8E5M2, 0x7b, INFINITY}};
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        bl_dtype dtype = formats[f].dtype;
        for (int code = 0; code < 256; code++) {
            uint8_t in = (uint8_t)code, out = 0;
            bl_scalar_write(dtype, bl_scalar_read(dtype, &in), &out);
            assert_int_equal(in, out);
        }
        for (int code = 0; code <= formats[f].finite; code++) {
            uint8_t low = (uint8_t)code, high = (uint8_t)(code + 1), before = (uint8_t)(code - 1);
            double a = bl_scalar_read(dtype, &low).f, b = bl_scalar_read(dtype, &high).f;
            bool last = code == formats[f].finite;
            double middle = last ? a + (a - bl_scalar_read(dtype, &before).f) / 2 : (a + b) / 2;
            double even = code % 2 == 0 ? a : last ? formats[f].beyond : b;
            check_double("below", bl_scalar_fit(dtype, (bl_scalar){.f = nextafter(middle, 0)}).f, a);
            check_double("middle", bl_scalar_fit(dtype, (bl_scalar){.f = middle}).f, even);
            check_double("above", bl_scalar_fit(dtype, (bl_scalar){.f = nextafter(middle, 1e300)}).f,
                         last ? formats[f].beyond : b);
            check_double("minus", bl_scalar_fit(dtype, (bl_scalar){.f = -a}).f, -a);
        }
    }
}

static void fitting(void **state)
{
    static const struct {
        bl_dtype dtype;
        uint64_t value, want;
    } ints[] = {
        {BL_BOOL, 2, 1},
        {BL_BOOL, UINT64_C(1) << 40, 1},
        {BL_I8, 128, (uint64_t)-128},
        {BL_I8, 0x1ff, (uint64_t)-1},
        {BL_I16, 0x8000, (uint64_t)-32768},
        {BL_I32, UINT64_C(0x80000000), (uint64_t)INT32_MIN},
        {BL_I64, UINT64_MAX, UINT64_MAX},
        {BL_U8, 256, 0},
        {BL_U16, UINT64_MAX, 65535},
        {BL_U32, UINT64_MAX, UINT32_MAX},
        {BL_U64, UINT64_MAX, UINT64_MAX},
        {BL_INDEX, (uint64_t)INT64_MIN, (uint64_t)INT64_MIN},
    };
    static const struct {
        bl_dtype dtype;
        double value, want;
    } floats[] = {
        {BL_F16, 65519.999, 65504},
        {BL_F16, 65520, INFINITY},
        {BL_F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
        {BL_BF16, 3.4e38, INFINITY},
        {BL_BF16, 0.1, 0x1.9ap-4},
        {BL_F32, 0.1, 0x1.99999ap-4},
        {BL_F32, 1e39, INFINITY},
        {BL_F32, -1e-60, -0.0},
        {BL_F32, 0x1p-149, 0x1p-149},
        {BL_F32, 0x1.8p-150, 0x1p-149},
        {BL_F32, NAN, NAN},
        {BL_F16, NAN, NAN},
        {BL_BF16, NAN, NAN},
        {BL_F64, 1e308, 1e308},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
        assert_int_equal(bl_scalar_fit(ints[i].dtype, (bl_scalar){.u = ints[i].value}).u, ints[i].want);
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        check_double(bl_dtype_name(floats[i].dtype), bl_scalar_fit(floats[i].dtype, (bl_scalar){.f = floats[i].value}).f,
                     floats[i].want);
}

static void floats_to_integers_saturate(void **state)
{
    static const struct {
        bl_dtype to;
        double value;
        uint64_t want;
    } rows[] = {
        {BL_I8, 127.9, 127},
        {BL_I8, 128, 127},
        {BL_I8, -128.9, (uint64_t)-128},
        {BL_I8, -1e30, (uint64_t)-128},
        {BL_I8, -0.9, 0},
        {BL_I32, 2147483647.0, INT32_MAX},
        {BL_I32, 2147483648.0, INT32_MAX},
        {BL_I32, -2147483649.0, (uint64_t)INT32_MIN},
        {BL_I64, 0x1p63, INT64_MAX},
        {BL_I64, 0x1.fffffffffffffp62, UINT64_C(0x7ffffffffffffc00)},
        {BL_I64, -0x1p63, (uint64_t)INT64_MIN},
        {BL_I64, -INFINITY, (uint64_t)INT64_MIN},
        {BL_INDEX, INFINITY, INT64_MAX},
        {BL_U8, -1, 0},
        {BL_U8, 255.99, 255},
        {BL_U8, 256, 255},
        {BL_U64, 0x1p64, UINT64_MAX},
        {BL_U64, 0x1p63, UINT64_C(1) << 63},
        {BL_U64, -0.5, 0},
        {BL_U64, INFINITY, UINT64_MAX},
        {BL_I32, NAN, 0},
        {BL_U64, NAN, 0},
        {BL_BOOL, NAN, 1},
        {BL_BOOL, -0.0, 0},
        {BL_BOOL, 1e-320, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t got = bl_scalar_cast(rows[i].to, BL_F64, (bl_scalar){.f = rows[i].value}).u;

        if (got != rows[i].want)
            fail_msg("%s(%a): got %llx, want %llx", bl_dtype_name(rows[i].to), rows[i].value, (unsigned long long)got,
                     (unsigned long long)rows[i].want);
    }
}

static void integers_wrap(void **state)
{
    static const struct {
        bl_dtype to, from;
        uint64_t value, want;
    } rows[] = {
        {BL_U8, BL_I32, (uint64_t)-1, 255},       {BL_I8, BL_U8, 200, (uint64_t)-56}, {BL_U64, BL_I8, (uint64_t)-1, UINT64_MAX},
        {BL_I64, BL_U64, UINT64_MAX, UINT64_MAX}, {BL_BOOL, BL_I32, 256, 1},          {BL_I32, BL_BOOL, 1, 1},
        {BL_I32, BL_INDEX, UINT64_C(1) << 32, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(bl_scalar_cast(rows[i].to, rows[i].from, (bl_scalar){.u = rows[i].value}).u, rows[i].want);
}

/* Integers around every power of two, where a conversion through double would round twice.  The expected values come from the
 * processor's conversion to float; the rows for bfloat16 were computed by hand. */
static void integers_to_floats_round_once(void **state)
{
    static const struct {
        bl_dtype to, from;
        uint64_t value;
        double want;
    } rows[] = {
        {BL_BF16, BL_U64, (UINT64_C(1) << 62) + (UINT64_C(1) << 54) + 1, 0x1.02p62},
        {BL_BF16, BL_U64, (UINT64_C(1) << 62) + (UINT64_C(1) << 54), 0x1p62},
        {BL_BF16, BL_I64, (UINT64_C(1) << 62) + (UINT64_C(1) << 54) - 1, 0x1p62},
        {BL_BF16, BL_I64, 0 - ((UINT64_C(1) << 62) + (UINT64_C(1) << 54) + 1), -0x1.02p62},
        {BL_BF16, BL_U64, UINT64_MAX, 0x1p64},
        {BL_F16, BL_I64, 65519, 65504},
        {BL_F16, BL_I64, 65520, INFINITY},
        {BL_F16, BL_U8, 255, 255},
        {BL_F64, BL_I64, (uint64_t)INT64_MIN, -0x1p63},
        {BL_F64, BL_U64, UINT64_MAX, 0x1p64},
        {BL_F32, BL_BOOL, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_double(bl_dtype_name(rows[i].to), bl_scalar_cast(rows[i].to, rows[i].from, (bl_scalar){.u = rows[i].value}).f,
                     rows[i].want);
    for (int high = 0; high < 64; high++) {
        for (int low = 0; low < high; low++) {
            for (int delta = -2; delta <= 2; delta++) {
                uint64_t v = (UINT64_C(1) << high) + (UINT64_C(1) << low) + (uint64_t)(int64_t)delta;

                check_double("float32(uint64)", bl_scalar_cast(BL_F32, BL_U64, (bl_scalar){.u = v}).f, (double)(float)v);
                check_double("float32(int64)", bl_scalar_cast(BL_F32, BL_I64, (bl_scalar){.u = v}).f, (double)(float)(int64_t)v);
            }
        }
    }
}

static void bounds(void **state)
{
    (void)state;
    for (int i = 0; i < BL_DTYPE_COUNT; i++) {
        bl_dtype d = (bl_dtype)i;
        bl_scalar lowest = bl_scalar_lowest(d), highest = bl_scalar_highest(d);

        assert_int_equal(bl_scalar_fit(d, lowest).u, lowest.u); /* the bounds are values of the dtype */
        assert_int_equal(bl_scalar_fit(d, highest).u, highest.u);
        if (!bl_dtype_is_float(d) && d != BL_BOOL) /* the next number is not */
            assert_int_equal(bl_scalar_fit(d, (bl_scalar){.u = highest.u + 1}).u, lowest.u);
    }
    assert_int_equal(bl_scalar_lowest(BL_I16).i, -32768);
    assert_int_equal(bl_scalar_highest(BL_U32).u, UINT32_MAX);
    assert_int_equal(bl_scalar_highest(BL_BOOL).u, 1);
    check_double("-inf", bl_scalar_lowest(BL_F16).f, -INFINITY);
}

static void elements_round_trip(void **state)
{
    static const uint64_t patterns[] = {0,
                                        1,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x7fc00000,
                                        0x7f800001,
                                        0xffbfffff,
                                        0x80000000,
                                        0x00000001,
                                        0x7ff0000000000001,
                                        0xfff8000000000000,
                                        0x8000000000000000,
                                        UINT64_MAX};

    (void)state;
    for (int i = 0; i < BL_DTYPE_COUNT; i++) {
        bl_dtype d = (bl_dtype)i;

        for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
            unsigned char in[9] = {0}, out[9] = {0};

            memcpy(in, &patterns[p], 8);
            memset(in + bl_dtype_bytes(d), 0x5a, 9 - bl_dtype_bytes(d)); /* later bytes are not written */
            memcpy(out, in, 9);
            memset(out, 0, bl_dtype_bytes(d));
            bl_scalar_write(d, bl_scalar_read(d, in), out);
            if (d == BL_BOOL)
                in[0] = in[0] != 0;
            assert_memory_equal(in, out, 9);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_codes),
        cmocka_unit_test(halves_round_trip),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(float8_codes_and_rounding),
        cmocka_unit_test(fitting),
        cmocka_unit_test(floats_to_integers_saturate),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(integers_to_floats_round_once),
        cmocka_unit_test(bounds),
        cmocka_unit_test(elements_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
