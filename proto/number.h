/* Decimal numbers as JSON writes them, read and printed exactly: what is read is the nearest value of the type, what is printed
 * is the shortest text that reads back as the same value.  Nothing depends on the locale.  Thread: any. */
#ifndef BL_PROTO_NUMBER_H
#define BL_PROTO_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BL_POWER_MIN = -342, BL_POWER_MAX = 324 };
extern const uint64_t bl_powers_of_five[BL_POWER_MAX - BL_POWER_MIN + 1][2];

/* A number read but not yet rounded: digits * 10^exponent, or a little more where |more|. */
typedef struct bl_decimal {
    bool negative;
    bool whole; /* written without fraction or exponent */
    bool more;  /* digits beyond the first 19 significant ones were left out and are not all zero */
    uint64_t digits;
    int64_t exponent;
    const char *text; /* where it was read */
    const char *end;
} bl_decimal;

/* Read a number at |p| by the grammar of RFC 8259.  Gives the byte after it, or NULL where there is no number. */
const char *bl_decimal_scan(const char *p, const char *end, bl_decimal *out);
/* The same without reading its value. */
const char *bl_number_skip(const char *p, const char *end);

/* Nearest, ties to even; infinite where too large. */
double bl_decimal_to_f64(const bl_decimal *number);
float bl_decimal_to_f32(const bl_decimal *number);
/* A double that |round| takes to what it would give for the exact number: no double rounding. */
double bl_decimal_to_half(const bl_decimal *number, uint16_t (*round)(double));

typedef enum bl_whole { BL_WHOLE_OK, BL_WHOLE_FRACTION, BL_WHOLE_RANGE } bl_whole;
/* The magnitude of a number that is an integer of at most 64 bits, however it is written ("1e3" and "1000.0" are 1000). */
bl_whole bl_decimal_to_whole(const bl_decimal *number, uint64_t *magnitude);

enum { BL_NUMBER_CHARS = 32 }; /* room that any of the functions below may use */
/* Each writes text without a terminator and gives its length.  Floats that are whole print without a fraction, negative zero is
 * -0.0, the non-finite are the strings "NaN", "Infinity" and "-Infinity" with their quotes. */
size_t bl_print_u64(char *out, uint64_t value);
size_t bl_print_i64(char *out, int64_t value);
size_t bl_print_f64(char *out, double value);
size_t bl_print_f32(char *out, float value);
size_t bl_print_f16(char *out, uint16_t bits);
size_t bl_print_bf16(char *out, uint16_t bits);

#endif
