/* SPDX-License-Identifier: MIT */
#include "proto/encode.h"
#include "proto/number.h"
#include "proto/tensor.h"
#include "proto/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bl_encode_span(bl_text *out, bl_span text)
{
    const char *p = text.data, *end = p + text.len;

    bl_text_putc(out, '"');
    while (p != end) {
        const char *plain = p;
        size_t n = 1;
        while (p != end && (n = bl_utf8_length(p, (size_t)(end - p))) != 0 && (unsigned char)*p >= 0x20 && *p != '"' &&
               *p != '\\')
            p += n;
        bl_text_append(out, plain, (size_t)(p - plain));
        if (p == end)
            break;
        if (n == 0)
            bl_text_puts(out, "\xef\xbf\xbd");
        else if (*p == '\n')
            bl_text_puts(out, "\\n");
        else if (*p == '"' || *p == '\\')
            bl_text_append(out, *p == '"' ? "\\\"" : "\\\\", 2);
        else
            bl_text_printf(out, "\\u%04x", (unsigned)(unsigned char)*p);
        p++;
    }
    bl_text_putc(out, '"');
}

void bl_encode_string(bl_text *out, const char *text)
{
    bl_encode_span(out, (bl_span){text, strlen(text)});
}

void bl_encode_key(bl_text *out, const char *name)
{
    char last = out->len > 0 ? out->data[out->len - 1] : '{';

    if (last != '{' && last != '[')
        bl_text_putc(out, ',');
    bl_encode_string(out, name);
    bl_text_putc(out, ':');
}

void bl_encode_number(bl_text *out, double value)
{
    char text[BL_NUMBER_CHARS];

    bl_text_append(out, text, bl_print_f64(text, value));
}

void bl_encode_u64(bl_text *out, uint64_t value)
{
    char text[BL_NUMBER_CHARS];

    bl_text_append(out, text, bl_print_u64(text, value));
}

void bl_encode_tensor(bl_text *out, const bl_result *result)
{
    bl_text_puts(out, "{\"dtype\":");
    bl_encode_string(out, bl_dtype_name(result->dtype));
    bl_text_puts(out, ",\"shape\":");
    bl_shape_print(out, result->ndim, result->dim);
    if (result->data != NULL) {
        bl_text_puts(out, ",\"data\":");
        bl_tensor_print(out, result->dtype, result->data, result->count);
    }
    bl_text_putc(out, '}');
}

void bl_encode_results(bl_text *out, const bl_result *results, size_t count, bool data)
{
    bl_text_putc(out, '{');
    for (size_t i = 0; i < count; i++) {
        bl_result result = results[i];
        result.data = data ? result.data : NULL;
        bl_encode_key(out, result.name);
        bl_encode_tensor(out, &result);
    }
    bl_text_putc(out, '}');
}

void bl_encode_measured(bl_text *out, const char *name, double value)
{
    char text[40];

    bl_encode_key(out, name);
    if (fabs(value) >= 1) {
        /* larger doubles have no digits below one thousandth */
        bl_encode_number(out, fabs(value) < 1e12 ? round(value * 1000) / 1000 : value);
    } else {
        snprintf(text, sizeof text, "%.4g", value);
        bl_encode_number(out, strtod(text, NULL));
    }
}

void bl_encode_stats(bl_text *out, const bl_run_stats *stats)
{
    bl_text_putc(out, '{');
    bl_encode_key(out, "device");
    bl_encode_string(out, stats->device);
    bl_encode_key(out, "kernels");
    bl_encode_u64(out, stats->kernels);
    bl_encode_key(out, "helpers");
    bl_encode_u64(out, stats->helpers);
    bl_encode_key(out, "plan");
    bl_encode_string(out, stats->cached ? "cached" : "compiled");
    bl_encode_measured(out, "time_ms", stats->time_ms);
    bl_encode_measured(out, "queue_ms", stats->queue_ms);
    bl_encode_measured(out, "compile_ms", stats->compile_ms);
    bl_encode_measured(out, "compute_ms", stats->compute_ms);
    bl_encode_measured(out, "copy_ms", stats->copy_ms);
    bl_encode_key(out, "peak_bytes");
    bl_encode_u64(out, stats->peak_bytes);
    bl_encode_key(out, "ops");
    bl_encode_u64(out, stats->ops);
    bl_encode_key(out, "bytes");
    bl_encode_u64(out, stats->bytes);
    bl_encode_key(out, "interpreted");
    bl_encode_u64(out, stats->interpreted);
    if (stats->debug != NULL) {
        bl_encode_key(out, "debug");
        bl_encode_string(out, stats->debug);
    }
    bl_text_putc(out, '}');
}
