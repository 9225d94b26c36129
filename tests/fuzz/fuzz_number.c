/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is the text of a number.  The values must equal those of C's strtod and strtof bit for bit, and printed
 * numbers must read back. */
#include "proto/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A number reads back as the same value from its shortest text. */
static void check_printed(double value)
{
    char text[BL_NUMBER_CHARS + 1] = {0};
    size_t n = bl_print_f64(text, value);
    bl_decimal d;
    text[n] = '\0';
    if (bl_decimal_scan(text, text + n, &d) != text + n || bl_decimal_to_f64(&d) != value || n > 25)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const char *end = NULL;
    bl_decimal d;
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    end = bl_decimal_scan(text, text + size, &d);
    if (end != bl_number_skip(text, text + size))
        abort();
    if (end != NULL) {
        double value = bl_decimal_to_f64(&d);
        char *saved = strndup(text, (size_t)(end - text));
        if (saved != NULL && (value != strtod(saved, NULL) || bl_decimal_to_f32(&d) != strtof(saved, NULL)))
            abort();
        free(saved);
        if (isfinite(value))
            check_printed(value);
    }
    free(text);
    return 0;
}
