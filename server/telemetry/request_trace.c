/* SPDX-License-Identifier: MIT */
#include "server/telemetry/request_trace.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void bl_request_trace_add(bl_request_trace *trail, int time, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns < begin_ns)
        end_ns = begin_ns;
    trail->time_ns[time] += end_ns - begin_ns;
    trail->seen |= 1U << time;
    if (trail->traced && trail->nstays < BL_REQUEST_TRACE_SPANS)
        trail->stay[trail->nstays++] = (bl_stay){time, begin_ns, end_ns};
    else if (trail->traced)
        trail->more = true;
}

void bl_request_trace_join(bl_request_trace *trail, const bl_request_trace *other)
{
    for (int time = 0; time < BL_TIME_COUNT; time++)
        trail->time_ns[time] += other->time_ns[time];
    trail->seen |= other->seen;
    for (unsigned i = 0; trail->traced && i < other->nstays && trail->nstays < BL_REQUEST_TRACE_SPANS; i++)
        trail->stay[trail->nstays++] = other->stay[i];
    trail->more = trail->more || (trail->traced && (other->more || trail->nstays == BL_REQUEST_TRACE_SPANS));
}

void bl_request_trace_count(const bl_request_trace *trail, bl_metrics *metrics, int route)
{
    for (int time = 0; time < BL_TIME_COUNT; time++)
        if ((trail->seen >> time & 1U) != 0)
            bl_metrics_time(metrics, time, route, trail->time_ns[time]);
    bl_metrics_answer(metrics, route, trail->status);
}

void bl_request_trace_set_path(bl_request_trace *trail, const char *uri)
{
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)uri; *at != '\0' && *at != '?' && n + 4 < sizeof trail->path; at++) {
        if (*at > ' ' && *at < 0x7f)
            trail->path[n++] = (char)*at;
        else
            n += (size_t)snprintf(trail->path + n, 4, "%%%02X", (unsigned)*at);
    }
    trail->path[n] = '\0';
}

void bl_request_trace_log(const bl_request_trace *trail, bl_log_level level)
{
    char trace[BL_TRACE_CHARS];
    bool traced = trail->has_parent || trail->traced;
    double ms = round(bl_clock_ms(trail->begin_ns, trail->end_ns) * 1e3) / 1e3;
    bl_log_field fields[] = {{"method", trail->method, 0},
                             {"path", trail->path, 0},
                             {"route", trail->pattern, 0},
                             {"status", NULL, trail->status},
                             {"in", NULL, (double)trail->bytes_in},
                             {"out", NULL, (double)trail->bytes_out},
                             {"ms", NULL, ms},
                             {"peer", trail->peer, 0},
                             {"id", trail->id, 0},
                             {0},
                             {0}};
    int count = (int)(sizeof fields / sizeof fields[0]) - 2;
    if (trail->key[0] != '\0')
        fields[count++] = (bl_log_field){"key", trail->key, 0};
    if (traced) {
        bl_trace_print(trail->traced ? &trail->own : &trail->parent, trace);
        fields[count++] = (bl_log_field){"traceparent", trace, 0};
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
