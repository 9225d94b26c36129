/* SPDX-License-Identifier: MIT */
#include "proto/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 uint128;

enum {
    MAX_DIGITS = 19,      /* always fits in a uint64_t */
    SLOW_DIGITS = 800,    /* a tie between two doubles has at most 767 significant digits */
    MAX_EXPONENT = 100000 /* beyond it every value of every type is zero or infinite */
};

/* Parameters of a binary format for number_scan_nearest.  |even_min| and |even_max| bound the powers of ten for which a product
 * can be an exact tie (Lemire 2021, section 9). */
typedef struct format {
    int mantissa_bits, min_exponent, infinite, even_min, even_max, min_power, max_power;
} format;

static const format format_f64 = {52, -1023, 0x7ff, -4, 23, -342, 308};
static const format format_f32 = {23, -127, 0xff, -17, 10, -64, 38};

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Whether all eight bytes are digits. */
static inline bool eight_digits(uint64_t v)
{
    return (((v + 0x4646464646464646ULL) | (v - 0x3030303030303030ULL)) & 0x8080808080808080ULL) == 0;
}

static inline uint64_t eight_value(uint64_t v)
{
    v -= 0x3030303030303030ULL;
    v = v * 10 + (v >> 8);
    return (((v & 0x000000ff000000ffULL) * 0x000f424000000064ULL) +
            (((v >> 16) & 0x000000ff000000ffULL) * 0x0000271000000001ULL)) >>
           32;
}

/* Appends the digits at |p| to |value|, which wraps on overflow.  Returns the end of the digits. */
static inline const char *eat_digits(const char *p, const char *end, uint64_t *value)
{
    uint64_t v = *value;
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        if (!eight_digits(word))
            break;
        v = v * 100000000 + eight_value(word);
        p += 8;
    }
    while (p != end && is_digit(*p))
        v = v * 10 + (uint64_t)(*p++ - '0');
    *value = v;
    return p;
}

/* For a number with more than 19 digits: keeps the first 19 significant ones. */
static void keep_first_digits(bl_decimal *d, int64_t written_exponent)
{
    uint64_t value = 0;
    int kept = 0;
    int64_t exponent = written_exponent;
    bool fraction = false, more = false;

    for (const char *p = d->text + d->negative; p != d->end && (is_digit(*p) || *p == '.'); p++) {
        if (*p == '.') {
            fraction = true;
        } else if (kept < MAX_DIGITS) {
            value = value * 10 + (uint64_t)(*p - '0');
            kept += value != 0;
            exponent -= fraction;
        } else {
            more |= *p != '0';
            exponent += !fraction;
        }
    }
    d->digits = value;
    d->exponent = exponent;
    d->more = more;
}

/* Scans the digits of an exponent; returns their end, or NULL.  Clamps the value far beyond what the digits of any text in memory
 * can compensate. */
static const char *scan_exponent(const char *p, const char *end, int64_t *out)
{
    const int64_t clamp = (int64_t)1 << 50;
    bool negative = p != end && *p == '-';
    int64_t value = 0;

    if (p != end && (*p == '-' || *p == '+'))
        p++;
    if (p == end || !is_digit(*p))
        return NULL;
    for (; p != end && is_digit(*p); p++)
        value = value < clamp ? value * 10 + (*p - '0') : clamp;
    *out = negative ? -value : value;
    return p;
}

const char *bl_decimal_scan(const char *p, const char *end, bl_decimal *out)
{
    uint64_t digits = 0;
    int64_t written = 0, fraction = 0;
    const char *first;
    bool whole = true;

    out->text = p;
    out->negative = p != end && *p == '-';
    p += out->negative;
    first = p;
    p = eat_digits(p, end, &digits);
    int64_t count = p - first;
    if (count == 0 || (count > 1 && *first == '0'))
        return NULL;
    if (p != end && *p == '.') {
        const char *point = ++p;
        p = eat_digits(p, end, &digits);
        fraction = p - point;
        if (fraction == 0)
            return NULL;
        whole = false;
    }
    if (p != end && (*p == 'e' || *p == 'E')) {
        p = scan_exponent(p + 1, end, &written);
        if (p == NULL)
            return NULL;
        whole = false;
    }
    out->end = p;
    out->whole = whole;
    out->more = false;
    out->digits = digits;
    out->exponent = written - fraction;
    if (count + fraction > MAX_DIGITS)
        keep_first_digits(out, written);
    return p;
}

const char *bl_number_skip(const char *p, const char *end)
{
    if (p != end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return NULL;
    if (*p == '0') {
        p++;
    } else {
        while (p != end && is_digit(*p))
            p++;
    }
    if (p != end && *p == '.') {
        const char *point = ++p;
        while (p != end && is_digit(*p))
            p++;
        if (p == point)
            return NULL;
    }
    if (p != end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p != end && (*p == '-' || *p == '+'))
            p++;
        const char *first = p;
        while (p != end && is_digit(*p))
            p++;
        if (p == first)
            return NULL;
    }
    /* "01" is invalid: no digit may follow a leading zero */
    return p != end && is_digit(*p) ? NULL : p;
}

/* w * 5^q in 128 bits; uses the second word of the power only if the |bits| of the high half need it. */
static inline void number_scan_multiply(uint64_t w, int q, int bits, uint64_t *high, uint64_t *low)
{
    const uint64_t *power = bl_powers_of_five[q - BL_POWER_MIN];
    uint128 first = (uint128)w * power[0];
    uint64_t mask = UINT64_MAX >> bits;

    if (((uint64_t)(first >> 64) & mask) == mask)
        first += (uint64_t)(((uint128)w * power[1]) >> 64);
    *high = (uint64_t)(first >> 64);
    *low = (uint64_t)first;
}

/* The bits of the nearest float to w * 10^q without its sign: Eisel and Lemire's algorithm, exact for every w of 64 bits (Mushtak
 * and Lemire, "Fast number parsing without fallback", 2023). */
static uint64_t number_scan_nearest(uint64_t w, int64_t q, const format *f)
{
    uint64_t infinity = (uint64_t)f->infinite << f->mantissa_bits, high, low;

    if (w == 0 || q < f->min_power)
        return 0;
    if (q > f->max_power)
        return infinity;
    int lz = __builtin_clzll(w);
    number_scan_multiply(w << lz, (int)q, f->mantissa_bits + 3, &high, &low);
    int upper = (int)(high >> 63);
    int shift = upper + 64 - f->mantissa_bits - 3;
    uint64_t mantissa = high >> shift;
    /* 217706 / 65536 approximates log2(10) well enough for these q */
    int power2 = (int)((217706 * q) >> 16) + 63 + upper - lz - f->min_exponent;
    if (power2 <= 0) {
        if (-power2 + 1 >= 64)
            return 0;
        mantissa >>= -power2 + 1;
        mantissa += mantissa & 1;
        return mantissa >> 1; /* if it rounds up to the smallest normal number, the carry sets the exponent */
    }
    if (low <= 1 && q >= f->even_min && q <= f->even_max && (mantissa & 3) == 1 && mantissa << shift == high)
        mantissa &= ~(uint64_t)1; /* an exact tie: round to even */
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >= (uint64_t)2 << f->mantissa_bits) {
        mantissa = (uint64_t)1 << f->mantissa_bits;
        power2++;
    }
    if (power2 >= f->infinite)
        return infinity;
    mantissa &= ~((uint64_t)1 << f->mantissa_bits);
    return mantissa | (uint64_t)power2 << f->mantissa_bits;
}

/* Collects all significant digits, and the power of ten of the first.  Returns their number. */
static int slow_digits(const bl_decimal *d, char *digits, int64_t *power)
{
    int n = 0;
    int64_t exponent = 0, written = 0;
    bool fraction = false, more = false;
    const char *p = d->text + d->negative;

    for (; p != d->end && (is_digit(*p) || *p == '.'); p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        exponent += !fraction;
        if (n == 0 && *p == '0')
            exponent -= 1; /* a leading zero: the first digit has a lower power */
        else if (n < SLOW_DIGITS)
            digits[n++] = *p;
        else
            more |= *p != '0';
    }
    if (p != d->end)
        (void)scan_exponent(p + 1, d->end, &written);
    if (more)
        digits[n++] = '1';
    *power = exponent + written - 1;
    return n;
}

/* Text for strtod: only digits and an exponent, independent of the locale. */
static void slow_text(const bl_decimal *d, char *text, size_t size)
{
    char digits[SLOW_DIGITS + 1];
    int64_t power;
    int n = slow_digits(d, digits, &power);

    power -= n - 1;
    power = power > MAX_EXPONENT ? MAX_EXPONENT : power < -MAX_EXPONENT ? -MAX_EXPONENT : power;
    (void)snprintf(text, size, "%.*se%lld", n, digits, (long long)power);
}

double bl_decimal_to_f64(const bl_decimal *number)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double value;

    if (!number->more && number->digits <= (uint64_t)1 << 53 && number->exponent >= -22 && number->exponent <= 22) {
        /* both operands are exact, so the result is rounded once */
        value = (double)number->digits;
        value = number->exponent < 0 ? value / powers[-number->exponent] : value * powers[number->exponent];
    } else {
        uint64_t bits = number_scan_nearest(number->digits, number->exponent, &format_f64);
        if (number->more && number_scan_nearest(number->digits + 1, number->exponent, &format_f64) != bits) {
            char text[SLOW_DIGITS + 32];
            slow_text(number, text, sizeof text);
            value = strtod(text, NULL);
        } else {
            memcpy(&value, &bits, sizeof value);
        }
    }
    return number->negative ? -value : value;
}

float bl_decimal_to_f32(const bl_decimal *number)
{
    static const float powers[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
    float value;

    if (!number->more && number->digits <= (uint64_t)1 << 24 && number->exponent >= -10 && number->exponent <= 10) {
        value = (float)number->digits;
        value = number->exponent < 0 ? value / powers[-number->exponent] : value * powers[number->exponent];
    } else {
        uint64_t bits = number_scan_nearest(number->digits, number->exponent, &format_f32);
        if (number->more && number_scan_nearest(number->digits + 1, number->exponent, &format_f32) != bits) {
            char text[SLOW_DIGITS + 32];
            slow_text(number, text, sizeof text);
            value = strtof(text, NULL);
        } else {
            uint32_t bits32 = (uint32_t)bits;
            memcpy(&value, &bits32, sizeof value);
        }
    }
    return number->negative ? -value : value;
}

/* Compares the magnitudes of |number| and |value| exactly; the result is negative, 0 or positive.  |value| is a tie of a 16-bit
 * float, whose decimal digits fit. */
static int compare_magnitude(const bl_decimal *number, double value)
{
    char digits[SLOW_DIGITS + 1], text[SLOW_DIGITS + 16];
    int64_t power;
    int n = slow_digits(number, digits, &power);
    int length = snprintf(text, sizeof text, "%.*e", SLOW_DIGITS - 1, fabs(value)); /* "d.ddd...e-10" */
    char *e = memchr(text, 'e', (size_t)length);
    long value_power = strtol(e + 1, NULL, 10);

    if (power != value_power)
        return power < value_power ? -1 : 1;
    memmove(text + 1, text + 2, (size_t)(e - text) - 2); /* removes the decimal point, whatever character the locale uses */
    int m = (int)(e - text) - 1;
    for (int i = 0; i < m || i < n; i++) {
        int a = i < n ? digits[i] : '0', b = i < m ? text[i] : '0';
        if (a != b)
            return a - b;
    }
    return 0;
}

double bl_decimal_to_half(const bl_decimal *number, uint16_t (*round)(double))
{
    double value = bl_decimal_to_f64(number);
    double above = nextafter(value, number->negative ? -INFINITY : INFINITY), below = nextafter(value, 0);

    if (number->digits == 0 || round(above) == round(below))
        return value;
    /* the double is a tie of the narrow format, but the exact number may be on one side of it */
    int side = compare_magnitude(number, value);
    return side > 0 ? above : side < 0 ? below : value;
}

/* digits * 10^exponent; false if it exceeds 64 bits. */
static bool scale_whole(uint64_t digits, int64_t exponent, uint64_t *out)
{
    for (; exponent > 0 && digits != 0; exponent--) {
        if (__builtin_mul_overflow(digits, (uint64_t)10, &digits))
            return false;
    }
    *out = digits;
    return true;
}

/* For more than 19 significant digits: twenty digits may still fit. */
static bl_whole long_whole(const bl_decimal *number, uint64_t *magnitude)
{
    char digits[SLOW_DIGITS + 1];
    int64_t power;
    uint64_t value = 0;
    int n = slow_digits(number, digits, &power);

    while (n > 0 && digits[n - 1] == '0')
        n--;
    if (power + 1 < n)
        return BL_WHOLE_FRACTION;
    for (int i = 0; i < n; i++) {
        if (!scale_whole(value, 1, &value) || __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value))
            return BL_WHOLE_RANGE;
    }
    return scale_whole(value, power + 1 - n, magnitude) ? BL_WHOLE_OK : BL_WHOLE_RANGE;
}

bl_whole bl_decimal_to_whole(const bl_decimal *number, uint64_t *magnitude)
{
    uint64_t digits = number->digits;
    int64_t exponent = number->exponent;

    *magnitude = 0;
    if (number->more)
        return long_whole(number, magnitude);
    for (; exponent < 0 && digits % 10 == 0 && digits != 0; exponent++)
        digits /= 10;
    if (exponent < 0 && digits != 0)
        return BL_WHOLE_FRACTION;
    return scale_whole(digits, exponent, magnitude) ? BL_WHOLE_OK : BL_WHOLE_RANGE;
}
