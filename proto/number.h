/* Reads and prints the decimal numbers of JSON exactly: reading gives the nearest value of the type, printing gives the shortest
 * text that reads back as the same value.  Nothing depends on the locale.  Thread: any. */
#ifndef BL_PROTO_NUMBER_H
#define BL_PROTO_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BL_POWER_MIN = -342, BL_POWER_MAX = 324 };
extern const uint64_t bl_powers_of_five[BL_POWER_MAX - BL_POWER_MIN + 1][2];

/* A scanned number before rounding: digits * 10^exponent, or slightly larger in magnitude if |more|. */
typedef struct bl_decimal {
    bool negative;
    bool whole; /* written without fraction or exponent */
    bool more;  /* digits after the first 19 significant ones were dropped and are not all zero */
    uint64_t digits;
    int64_t exponent;
    const char *text; /* start of the number's text */
    const char *end;
} bl_decimal;

/* Scans a number at |p| by the grammar of RFC 8259.  Returns the byte after it, or NULL if there is none. */
const char *bl_decimal_scan(const char *p, const char *end, bl_decimal *out);
/* Like bl_decimal_scan, without the value. */
const char *bl_number_skip(const char *p, const char *end);

/* Rounds to nearest, ties to even; infinite if too large. */
double bl_decimal_to_f64(const bl_decimal *number);
float bl_decimal_to_f32(const bl_decimal *number);
/* Returns a double that |round| rounds as it would round the exact number, so that no double rounding occurs. */
double bl_decimal_to_half(const bl_decimal *number, uint16_t (*round)(double));

typedef enum bl_whole { BL_WHOLE_OK, BL_WHOLE_FRACTION, BL_WHOLE_RANGE } bl_whole;
/* Gives the magnitude of an integer of at most 64 bits in any notation ("1e3" and "1000.0" are 1000). */
bl_whole bl_decimal_to_whole(const bl_decimal *number, uint64_t *magnitude);

enum { BL_NUMBER_CHARS = 32 }; /* largest output of the functions below */
/* Each writes text without a terminator and returns its length.  Whole floats have no fraction, negative zero is -0.0, and
 * non-finite values are the strings "NaN", "Infinity" and "-Infinity" with their quotes. */
size_t bl_print_u64(char *out, uint64_t value);
size_t bl_print_i64(char *out, int64_t value);
size_t bl_print_f64(char *out, double value);
size_t bl_print_f32(char *out, float value);
size_t bl_print_f16(char *out, uint16_t bits);
size_t bl_print_bf16(char *out, uint16_t bits);

#endif
