/* SPDX-License-Identifier: MIT */
#include "server/telemetry/request_trace.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void bl_request_trace_add(bl_request_trace *trace, int time, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns < begin_ns)
        end_ns = begin_ns;
    trace->time_ns[time] += end_ns - begin_ns;
    trace->seen |= 1U << time;
    if (trace->traced && trace->nstays < BL_REQUEST_TRACE_SPANS)
        trace->stay[trace->nstays++] = (bl_stay){time, begin_ns, end_ns};
    else if (trace->traced)
        trace->more = true;
}

void bl_request_trace_join(bl_request_trace *trace, const bl_request_trace *other)
{
    for (int time = 0; time < BL_TIME_COUNT; time++)
        trace->time_ns[time] += other->time_ns[time];
    trace->seen |= other->seen;
    for (unsigned i = 0; trace->traced && i < other->nstays && trace->nstays < BL_REQUEST_TRACE_SPANS; i++)
        trace->stay[trace->nstays++] = other->stay[i];
    trace->more = trace->more || (trace->traced && (other->more || trace->nstays == BL_REQUEST_TRACE_SPANS));
}

void bl_request_trace_count(const bl_request_trace *trace, bl_metrics *metrics, int route)
{
    for (int time = 0; time < BL_TIME_COUNT; time++)
        if ((trace->seen >> time & 1U) != 0)
            bl_metrics_time(metrics, time, route, trace->time_ns[time]);
    bl_metrics_answer(metrics, route, trace->status);
}

void bl_request_trace_set_path(bl_request_trace *trace, const char *uri)
{
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)uri; *at != '\0' && *at != '?' && n + 4 < sizeof trace->path; at++) {
        if (*at > ' ' && *at < 0x7f)
            trace->path[n++] = (char)*at;
        else
            n += (size_t)snprintf(trace->path + n, 4, "%%%02X", (unsigned)*at);
    }
    trace->path[n] = '\0';
}

void bl_request_trace_log(const bl_request_trace *trace, bl_log_level level)
{
    char context[BL_TRACE_CHARS];
    bool traced = trace->has_parent || trace->traced;
    double ms = round(bl_clock_ms(trace->begin_ns, trace->end_ns) * 1e3) / 1e3;
    bl_log_field fields[] = {{"method", trace->method, 0},
                             {"path", trace->path, 0},
                             {"route", trace->pattern, 0},
                             {"status", NULL, trace->status},
                             {"in", NULL, (double)trace->bytes_in},
                             {"out", NULL, (double)trace->bytes_out},
                             {"ms", NULL, ms},
                             {"peer", trace->peer, 0},
                             {"id", trace->id, 0},
                             {0},
                             {0}};
    int count = (int)(sizeof fields / sizeof fields[0]) - 2;
    if (trace->key[0] != '\0')
        fields[count++] = (bl_log_field){"key", trace->key, 0};
    if (traced) {
        bl_trace_print(trace->traced ? &trace->own : &trace->parent, context);
        fields[count++] = (bl_log_field){"traceparent", context, 0};
    }
    bl_log_fields(level, "request", fields, count);
}

/* ---- traceparent */

/* Read hexadecimal digits.  The specification allows only lower case. */
static bool read_hex(const char *text, size_t bytes, unsigned char *out)
{
    static const char digits[] = "0123456789abcdef";
    unsigned any = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char *high = text[2 * i] != '\0' ? strchr(digits, text[2 * i]) : NULL;
        const char *low = high != NULL && text[2 * i + 1] != '\0' ? strchr(digits, text[2 * i + 1]) : NULL;
        if (low == NULL)
            return false;
        out[i] = (unsigned char)((high - digits) << 4 | (low - digits));
        any |= out[i];
    }
    return any != 0;
}

bool bl_trace_parse(const char *text, bl_trace_context *out)
{
    enum { LENGTH = 55, NEWER = 255 };
    size_t len = strlen(text);
    unsigned char version = 0, flags = 0;
    *out = (bl_trace_context){0};
    if (len < LENGTH || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    (void)read_hex(text, 1, &version); /* version and flags may be zero; the strspn below refuses other characters */
    (void)read_hex(text + 53, 1, &flags);
    if (strspn(text, "0123456789abcdef") != 2 || strspn(text + 53, "0123456789abcdef") < 2 || version == NEWER)
        return false;
    if (version == 0 ? len != LENGTH : len > LENGTH && text[LENGTH] != '-')
        return false;
    out->sampled = (flags & 1) != 0;
    return read_hex(text + 3, sizeof out->trace, out->trace) && read_hex(text + 36, sizeof out->span, out->span);
}

void bl_trace_hex(const unsigned char *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void bl_trace_print(const bl_trace_context *context, char *out)
{
    char trace[33], span[17];
    bl_trace_hex(context->trace, sizeof context->trace, trace);
    bl_trace_hex(context->span, sizeof context->span, span);
    snprintf(out, BL_TRACE_CHARS, "00-%s-%s-%02d", trace, span, context->sampled);
}
