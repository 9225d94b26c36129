/* SPDX-License-Identifier: MIT */
#include "engine/ir/dtype.h"
#include "proto/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static uint64_t random_state = 0x9e3779b97f4a7c15ULL;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f64_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float f32_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* |text| must give the C library's values for both types. */
static void check_text(const char *text)
{
    bl_decimal d;
    const char *end = text + strlen(text);

    if (bl_decimal_scan(text, end, &d) != end || bl_number_skip(text, end) != end)
        fail_msg("not read whole: %s", text);
    double want = strtod(text, NULL), got = bl_decimal_to_f64(&d);
    if (bits_of(want) != bits_of(got))
        fail_msg("%s: strtod gives %a, we %a", text, want, got);
    float want32 = strtof(text, NULL), got32 = bl_decimal_to_f32(&d);
    if (bits_of_float(want32) != bits_of_float(got32))
        fail_msg("%s: strtof gives %a, we %a", text, (double)want32, (double)got32);
}

static void test_syntax(void **state)
{
    static const char *const bad[] = {"",   "-",   "01",    "-01",  "00",  "1.",       ".5",  "1.e3",  "1e",   "1e+",
                                      "+1", "--1", "1.5.5", "0x10", "1_0", "Infinity", "NaN", "1e5e5", "1e1.5"};
    static const char *const good[] = {"0", "-0", "0.0", "1E5", "1e+5", "1e-05", "10", "0e9", "123456789012345678901234567890"};
    bl_decimal d;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *end = bad[i] + strlen(bad[i]);
        const char *scanned = bl_decimal_scan(bad[i], end, &d), *skipped = bl_number_skip(bad[i], end);
        if (scanned == end || skipped == end)
            fail_msg("taken for a number: \"%s\"", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check_text(good[i]);
}

static void test_edges(void **state)
{
    static const char *const texts[] = {
        "9007199254740993",
        "9007199254740992.99999999999999999999999999",
        "9007199254740993.0000000000000000000000001",
        "1e400",
        "-1e400",
        "1e-400",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "179769313486231580793e289",
        "7.2057594037927933e16",
        "1.00000005960464477540",
        "1.00000005960464477539062500000000000000000000000001",
        "1.00000017881393432617187499",
        "1.00000017881393432617187500",
        "1.00000017881393432617187501",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "7.0064923216240853546186479164495806564013097093825788587853e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015625e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015626e-46",
        "0.000000000000000000000000000000000000000000000000000000001e57",
        "100000000000000000000000000000000000000000e-41",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "0e99999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "8.589934591e9",
        "0.1",
        "123456789012345678",
        "6.02214076e23",
        "5e-324",
        "1e23",
        "8.5e22",
        "1e22"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i]);
}

/* A number with a thousand zeros before the deciding digit, in its digits and in its exponent. */
static void test_long(void **state)
{
    static char text[4096];
    int n;

    (void)state;
    n = snprintf(text, sizeof text, "1.00000005960464477539062%d%01500d1", 5, 0);
    assert_true(n > 1500);
    check_text(text);
    n = snprintf(text, sizeof text, "0.%01200d9e1205", 0);
    assert_true(n > 1200);
    check_text(text);
    n = snprintf(text, sizeof text, "%d%01200de-1190", 7, 0);
    assert_true(n > 1200);
    check_text(text);
}

static void test_random(void **state)
{
    char text[64];

    (void)state;
    for (int i = 0; i < 400000; i++) {
        uint64_t bits = random_bits();
        double value = f64_of(i % 8 == 0 ? bits & 0x800fffffffffffffULL : bits);
        if (!isfinite(value))
            continue;
        (void)snprintf(text, sizeof text, "%.*e", (int)(random_bits() % 22), value);
        check_text(text);
        float small = f32_of(i % 8 == 0 ? (uint32_t)bits & 0x807fffff : (uint32_t)bits);
        if (!isfinite(small))
            continue;
        (void)snprintf(text, sizeof text, "%.*e", (int)(random_bits() % 12), (double)small);
        check_text(text);
        (void)snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64, bits >> (bits % 64), random_bits() >> (bits % 61));
        check_text(text);
    }
}

/* The exact midpoint between two floats, and numbers one digit below and above. */
static void test_halfway(void **state)
{
    char text[1200];

    (void)state;
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = random_bits();
        float a = f32_of((uint32_t)bits & 0x7fffffff), b = nextafterf(a, INFINITY);
        if (!isfinite(a) || !isfinite(b))
            continue;
        int n = snprintf(text, sizeof text, "%.200e", ((double)a + (double)b) / 2);
        check_text(text);
        char *e = strchr(text, 'e');
        assert_true(n > 0 && e != NULL);
        e[-1] = '1'; /* the last of 200 digits: slightly above */
        check_text(text);
        /* doubles: printing the midpoint needs long double */
        double c = f64_of(bits & 0x7fffffffffffffffULL), d = nextafter(c, INFINITY);
        if (!isfinite(c) || !isfinite(d))
            continue;
        (void)snprintf(text, sizeof text, "%.1100Le", ((long double)c + (long double)d) / 2);
        check_text(text);
    }
}

static uint16_t scan_half(const char *text, uint16_t (*round)(double))
{
    bl_decimal d;

    assert_non_null(bl_decimal_scan(text, text + strlen(text), &d));
    return round(bl_decimal_to_half(&d, round));
}

static void test_half(void **state)
{
    /* 1 + 2^-11 is the midpoint between 1 and the next float16.  The double nearest to the second text is this midpoint, but
     * the text is above it. */
    static const struct {
        const char *text;
        uint16_t f16;
    } rows[] = {{"1.00048828125", 0x3c00},
                {"1.00048828125000000000000000001", 0x3c01},
                {"1.00048828124999999999999999999", 0x3c00},
                {"1.00146484375", 0x3c02},
                {"1.00146484374999999999999999999", 0x3c01},
                {"-1.00048828125000000000000000001", 0xbc01},
                {"65519.99999999999999999999999", 0x7bff},
                {"65520", 0x7c00},
                {"2.98023223876953125e-8", 0},
                {"2.98023223876953125000000000000000000001e-8", 1},
                {"-0", 0x8000},
                {"0.1", 0x2e66}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t got = scan_half(rows[i].text, bl_f16_from_f64);
        if (got != rows[i].f16)
            fail_msg("%s: want %04x, got %04x", rows[i].text, rows[i].f16, got);
    }
    assert_int_equal(scan_half("1.00390625000000000000000000000001", bl_bf16_from_f64), 0x3f81);
    assert_int_equal(scan_half("1.00390625", bl_bf16_from_f64), 0x3f80);
}

static void test_print(void **state)
{
    static const struct {
        double value;
        const char *f64, *f32;
    } rows[] = {{0, "0", "0"},
                {-0.0, "-0.0", "-0.0"},
                {12, "12", "12"},
                {-1.5, "-1.5", "-1.5"},
                {0.1, "0.1", "0.1"},
                {100, "100", "100"},
                {1e-4, "0.0001", "0.0001"},
                {1e-7, "1e-7", "1e-7"},
                {1e16, "10000000000000000", "10000000000000000"},
                {1e23, "1e23", "1e23"},
                {123456.789, "123456.789", "123456.79"},
                {5e-324, "5e-324", "0"},
                {1.7976931348623157e308, "1.7976931348623157e308", "\"Infinity\""},
                {(double)1e-45F, "1.401298464324817e-45", "1e-45"},
                {16777216, "16777216", "16777216"},
                {NAN, "\"NaN\"", "\"NaN\""},
                {-INFINITY, "\"-Infinity\"", "\"-Infinity\""}};
    char text[BL_NUMBER_CHARS + 1];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text[bl_print_f64(text, rows[i].value)] = '\0';
        assert_string_equal(text, rows[i].f64);
        text[bl_print_f32(text, (float)rows[i].value)] = '\0';
        assert_string_equal(text, rows[i].f32);
    }
    text[bl_print_i64(text, INT64_MIN)] = '\0';
    assert_string_equal(text, "-9223372036854775808");
    text[bl_print_u64(text, UINT64_MAX)] = '\0';
    assert_string_equal(text, "18446744073709551615");
    text[bl_print_f16(text, 0x2e66)] = '\0';
    assert_string_equal(text, "0.1");
}

/* Shortest: no text with fewer digits gives the same bits. */
static void check_shortest(const char *text, float value)
{
    int digits = 0;
    char shorter[64];

    for (const char *p = text; *p != '\0' && *p != 'e'; p++)
        digits += *p >= '0' && *p <= '9' && (digits > 0 || *p != '0');
    for (const char *p = text + strlen(text); strchr(text, 'e') == NULL && strchr(text, '.') == NULL && p > text && p[-1] == '0';
         p--)
        digits--;
    if (digits < 2)
        return;
    (void)snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)value);
    if (bits_of_float(strtof(shorter, NULL)) == bits_of_float(value) &&
        (value >= 16777216.0F || value <= -16777216.0F || value != truncf(value)))
        fail_msg("%s is longer than %s", text, shorter);
}

static void test_round_trip(void **state)
{
    char text[BL_NUMBER_CHARS + 1];

    (void)state;
    for (int i = 0; i < 1000000; i++) {
        uint64_t bits = random_bits();
        double value = f64_of(i % 4 == 0 ? bits & 0x801fffffffffffffULL : i % 4 == 1 ? bits & 0xfff0000000000000ULL : bits);
        float small = f32_of(i % 4 == 0   ? (uint32_t)bits & 0x80ffffff
                             : i % 4 == 1 ? (uint32_t)bits & 0xff800000
                                          : (uint32_t)bits);
        if (isfinite(value)) {
            text[bl_print_f64(text, value)] = '\0';
            if (bits_of(strtod(text, NULL)) != bits_of(value))
                fail_msg("%a printed as %s", value, text);
        }
        if (isfinite(small)) {
            text[bl_print_f32(text, small)] = '\0';
            if (bits_of_float(strtof(text, NULL)) != bits_of_float(small))
                fail_msg("%a printed as %s", (double)small, text);
            check_shortest(text, small);
        }
    }
    for (uint32_t h = 0; h < 65536; h++) {
        if ((h & 0x7c00) != 0x7c00) {
            text[bl_print_f16(text, (uint16_t)h)] = '\0';
            assert_int_equal(scan_half(text, bl_f16_from_f64), h);
        }
        if ((h & 0x7f80) != 0x7f80) {
            text[bl_print_bf16(text, (uint16_t)h)] = '\0';
            assert_int_equal(scan_half(text, bl_bf16_from_f64), h);
        }
    }
}

/* ---- the table of powers, checked with integers of 1024 bits, low words first */

enum { WORDS = 32 };

static void big_multiply(uint32_t *x, uint64_t high, uint64_t low)
{
    const uint32_t factor[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    uint32_t result[WORDS] = {0};

    for (size_t i = 0; i < 4; i++) {
        uint64_t carry = 0;
        for (size_t k = 0; k + i < WORDS; k++) {
            carry += (uint64_t)factor[i] * x[k] + result[k + i];
            result[k + i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    memcpy(x, result, sizeof result);
}

static int big_bits(const uint32_t *x)
{
    int i = WORDS - 1;

    while (x[i] == 0)
        i--;
    return 32 * i + 32 - __builtin_clz(x[i]);
}

/* Whether power * (row + add) <= 2^bits. */
static bool product_within(const uint32_t *power, const uint64_t row[2], uint64_t add, int bits)
{
    uint32_t x[WORDS];
    uint64_t low = row[1] + add;

    memcpy(x, power, sizeof x);
    big_multiply(x, row[0] + (low < add), low);
    int got = big_bits(x), ones = 0;
    for (size_t i = 0; i < WORDS; i++)
        ones += __builtin_popcount(x[i]);
    return got <= bits || (got == bits + 1 && ones == 1);
}

static void test_powers(void **state)
{
    uint32_t power[WORDS] = {1};

    (void)state;
    for (int q = 0; q <= -BL_POWER_MIN; q++) {
        int bits = big_bits(power);
        if (q <= BL_POWER_MAX) {
            const uint64_t *row = bl_powers_of_five[q - BL_POWER_MIN];
            for (int i = 0; i < 128; i++) {
                int from = bits - 1 - i;
                unsigned want = from < 0 ? 0 : power[from / 32] >> (from % 32) & 1;
                if (want != (row[i / 64] >> (63 - i % 64) & 1))
                    fail_msg("5^%d: bit %d is wrong", q, i);
            }
        }
        if (q > 0) {
            /* 2^k / 5^q is truncated, or rounded up for small q; a power of five divides no power of two, so no quotient is
             * exact */
            const uint64_t *row = bl_powers_of_five[-q - BL_POWER_MIN];
            uint64_t below[2] = {row[0] - (row[1] == 0), row[1] - 1};
            bool up = q <= 27;
            if ((row[0] >> 63) != 1 || !product_within(power, up ? below : row, 0, bits + 127) ||
                product_within(power, up ? below : row, 1, bits + 127))
                fail_msg("5^-%d is wrong", q);
        }
        big_multiply(power, 0, 5);
    }
}

static void test_whole(void **state)
{
    static const struct {
        const char *text;
        bl_whole result;
        uint64_t magnitude;
    } rows[] = {{"0", BL_WHOLE_OK, 0},
                {"1e3", BL_WHOLE_OK, 1000},
                {"1000.000", BL_WHOLE_OK, 1000},
                {"0.00e5", BL_WHOLE_OK, 0},
                {"0e400000", BL_WHOLE_OK, 0},
                {"12.5e1", BL_WHOLE_OK, 125},
                {"9007199254740993", BL_WHOLE_OK, 9007199254740993},
                {"18446744073709551615", BL_WHOLE_OK, UINT64_MAX},
                {"18446744073709551615.0", BL_WHOLE_OK, UINT64_MAX},
                {"18446744073709551610", BL_WHOLE_OK, UINT64_MAX - 5},
                {"18446744073709551616", BL_WHOLE_RANGE, 0},
                {"1e20", BL_WHOLE_RANGE, 0},
                {"1e999999999", BL_WHOLE_RANGE, 0},
                {"1.5", BL_WHOLE_FRACTION, 0},
                {"1e-1", BL_WHOLE_FRACTION, 0},
                {"1.00000000000000000000000000000001", BL_WHOLE_FRACTION, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_decimal d;
        uint64_t magnitude = 0;
        assert_non_null(bl_decimal_scan(rows[i].text, rows[i].text + strlen(rows[i].text), &d));
        bl_whole got = bl_decimal_to_whole(&d, &magnitude);
        if (got != rows[i].result || (got == BL_WHOLE_OK && magnitude != rows[i].magnitude))
            fail_msg("%s: want %d %" PRIu64 ", got %d %" PRIu64, rows[i].text, (int)rows[i].result, rows[i].magnitude, (int)got,
                     magnitude);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_syntax),  cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_long),    cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_halfway), cmocka_unit_test(test_half),
                                       cmocka_unit_test(test_print),   cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_whole),   cmocka_unit_test(test_powers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
