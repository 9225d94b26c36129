/* SPDX-License-Identifier: MIT */
#include "proto/number.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 uint128;

enum { EXACT_BELOW = 1 << 24 }; /* smaller whole numbers print all digits even if fewer would be unique: 65504, not 65500 */

/* digits * 10^exponent */
typedef struct shortest {
    uint64_t digits;
    int exponent;
} shortest;

/* The high 64 bits of factor * (128-bit power) >> 64; the lowest bit is set if any lost bit is. */
static inline uint64_t multiply_odd(uint64_t high, uint64_t low, uint64_t factor)
{
    uint128 x = (uint128)factor * low, y = (uint128)factor * high;

    y += (uint64_t)(x >> 64);
    return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

/* The shortest decimal in the rounding interval of c * 2^q; of several decimals with this length, the nearest.  |closer|: c is
 * a power of two, so that the next smaller float is only half as far.  Raffaello Giulietti, "The Schubfach way to render
 * doubles" (2020); the layout follows Alexander Bolz's Drachennest. */
static shortest find_shortest(uint64_t c, int q, bool closer)
{
    uint64_t odd = c & 1;                                /* the interval includes its ends if c is even */
    int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22; /* floor of log10 of 2^q, or of 3/4 2^q */
    int h = q + ((-k * 1741647) >> 19) + 1;
    const uint64_t *power = bl_powers_of_five[-k - BL_POWER_MIN];
    uint64_t high = power[0], low = power[1];

    if (-k < -27 || -k > 55) { /* the table truncates, but the algorithm needs the ceiling */
        low++;
        high += low == 0;
    }
    uint64_t lower = multiply_odd(high, low, (4 * c - 2 + closer) << h) + odd;
    uint64_t middle = multiply_odd(high, low, (4 * c) << h);
    uint64_t upper = multiply_odd(high, low, (4 * c + 2) << h) - odd;
    uint64_t s = middle / 4;
    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;
        if (down != up)
            return (shortest){tens + up, k + 1};
    }
    bool down = lower <= 4 * s, up = 4 * s + 4 <= upper;
    if (down != up)
        return (shortest){s + up, k};
    uint64_t half = 4 * s + 2;
    return (shortest){s + (middle > half || (middle == half && (s & 1) != 0)), k};
}

size_t bl_print_u64(char *out, uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

size_t bl_print_i64(char *out, int64_t value)
{
    if (value >= 0)
        return bl_print_u64(out, (uint64_t)value);
    *out = '-';
    return 1 + bl_print_u64(out + 1, 0 - (uint64_t)value);
}

/* Writes the number without an exponent if that is short. */
static size_t number_print_layout(char *out, shortest number)
{
    char digits[20];
    char *p = out;

    while (number.digits % 10 == 0) {
        number.digits /= 10;
        number.exponent++;
    }
    int n = (int)bl_print_u64(digits, number.digits), point = n + number.exponent;
    if (point > 0 && point <= 17) {
        int before = n < point ? n : point;
        memcpy(p, digits, (size_t)before);
        memset(p + before, '0', (size_t)(point - before));
        p += point;
        if (n > point) {
            *p++ = '.';
            memcpy(p, digits + point, (size_t)(n - point));
            p += n - point;
        }
        return (size_t)(p - out);
    }
    if (point <= 0 && point > -5) {
        memcpy(p, "0.0000", (size_t)(2 - point));
        p += 2 - point;
        memcpy(p, digits, (size_t)n);
        return (size_t)(p + n - out);
    }
    *p++ = digits[0];
    if (n > 1) {
        *p++ = '.';
        memcpy(p, digits + 1, (size_t)n - 1);
        p += n - 1;
    }
    *p++ = 'e';
    return (size_t)(p - out) + bl_print_i64(p, point - 1);
}

static size_t print_special(char *out, const char *text)
{
    size_t n = strlen(text);

    memcpy(out, text, n);
    return n;
}

/* Prints a float from its fields: |fraction| of |bits| bits, and the biased exponent. */
static size_t print_float(char *out, bool negative, uint64_t fraction, int exponent, int bits, int infinite, int bias)
{
    if (exponent == infinite)
        return print_special(out, fraction != 0 ? "\"NaN\"" : negative ? "\"-Infinity\"" : "\"Infinity\"");
    if (exponent == 0 && fraction == 0)
        return print_special(out, negative ? "-0.0" : "0");
    if (negative)
        *out++ = '-';
    uint64_t c = exponent == 0 ? fraction : fraction | (uint64_t)1 << bits;
    int q = (exponent == 0 ? 1 : exponent) - bias - bits;
    if (q <= 0 && q > -bits - 1 && (c & (((uint64_t)1 << -q) - 1)) == 0)
        return negative + bl_print_u64(out, c >> -q); /* a small whole number */
    if (q > 0 && q < 24 && c < (uint64_t)EXACT_BELOW >> q)
        return negative + bl_print_u64(out, c << q);
    return negative + number_print_layout(out, find_shortest(c, q, fraction == 0 && exponent > 1));
}

size_t bl_print_f64(char *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return print_float(out, bits >> 63, bits & (((uint64_t)1 << 52) - 1), (int)(bits >> 52 & 0x7ff), 52, 0x7ff, 1023);
}

size_t bl_print_f32(char *out, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return print_float(out, bits >> 31, bits & 0x7fffff, (int)(bits >> 23 & 0xff), 23, 0xff, 127);
}

size_t bl_print_f16(char *out, uint16_t bits)
{
    return print_float(out, bits >> 15, bits & 0x3ff, bits >> 10 & 0x1f, 10, 0x1f, 15);
}

size_t bl_print_bf16(char *out, uint16_t bits)
{
    return print_float(out, bits >> 15, bits & 0x7f, bits >> 7 & 0xff, 7, 0xff, 127);
}
