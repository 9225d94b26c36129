/* SPDX-License-Identifier: MIT */
#include "server/telemetry/exporter.h"

#include "proto/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INTERNAL = 1, SERVER = 2, FAILED = 2 }; /* SpanKind and StatusCode of opentelemetry/proto/trace/v1/trace.proto */

/* ---- attributes: a list of {"key", "value": {"stringValue" or "intValue" or "doubleValue"}} */

static void begin_attribute(bl_text *out, const char *name)
{
    bl_text_puts(out, bl_text_last(out) == '[' ? "{\"key\":" : ",{\"key\":");
    bl_encode_string(out, name);
}

static void otlp_put_text(bl_text *out, const char *name, const char *value)
{
    begin_attribute(out, name);
    bl_text_puts(out, ",\"value\":{\"stringValue\":");
    bl_encode_string(out, value);
    bl_text_puts(out, "}}");
}

/* Write an integer attribute.  The JSON form of protocol buffers has 64-bit integers as strings. */
static void otlp_put_count(bl_text *out, const char *name, uint64_t value)
{
    begin_attribute(out, name);
    bl_text_printf(out, ",\"value\":{\"intValue\":\"%" PRIu64 "\"}}", value);
}

static void put_ms(bl_text *out, const char *phase, int64_t ns)
{
    char name[64];
    snprintf(name, sizeof name, "beamline.%.40s_ms", phase);
    begin_attribute(out, name);
    bl_text_printf(out, ",\"value\":{\"doubleValue\":%.6f}}", (double)ns * 1e-6);
}

/* ---- spans */

/* Derive the span id of a phase from the span id of the request. */
static void child_id(const unsigned char *parent, unsigned number, unsigned char *out)
{
    uint64_t value = 0;
    memcpy(&value, parent, sizeof value);
    value = (value + number + 1) * UINT64_C(0x9e3779b97f4a7c15); /* an odd factor is invertible, so the ids are distinct */
    value = value != 0 ? value : 1;
    memcpy(out, &value, sizeof value);
}

static void begin_span(bl_text *out, const bl_request_trace *trace, const unsigned char *id, const unsigned char *parent)
{
    char id_text[33], hex[17];
    bl_trace_hex(trace->own.trace, sizeof trace->own.trace, id_text);
    bl_trace_hex(id, 8, hex);
    bl_text_printf(out, "%s{\"traceId\":\"%s\",\"spanId\":\"%s\"", bl_text_last(out) == '[' ? "" : ",", id_text, hex);
    if (parent != NULL) {
        bl_trace_hex(parent, 8, hex);
        bl_text_printf(out, ",\"parentSpanId\":\"%s\"", hex);
    }
    if (trace->state[0] != '\0') {
        bl_text_puts(out, ",\"traceState\":");
        bl_encode_string(out, trace->state);
    }
}

static void put_times(bl_text *out, int kind, int64_t begin_ns, int64_t end_ns)
{
    bl_text_printf(out, ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64 "\"", kind, begin_ns,
                   end_ns);
}

/* Write the attributes of the request span.  Their names follow the semantic conventions for HTTP servers. */
static void put_attributes(bl_text *out, const bl_request_trace *trace)
{
    bl_text_puts(out, ",\"attributes\":[");
    otlp_put_text(out, "http.request.method", trace->method);
    otlp_put_text(out, "url.scheme", "http");
    otlp_put_text(out, "url.path", trace->path);
    if (trace->pattern[0] != '\0')
        otlp_put_text(out, "http.route", trace->pattern);
    if (trace->status != 0)
        otlp_put_count(out, "http.response.status_code", (uint64_t)trace->status);
    otlp_put_count(out, "http.request.body.size", trace->bytes_in);
    otlp_put_count(out, "http.response.body.size", trace->bytes_out);
    otlp_put_text(out, "client.address", trace->peer);
    otlp_put_text(out, "beamline.request_id", trace->id);
    if (trace->key[0] != '\0')
        otlp_put_text(out, "beamline.key", trace->key);
    for (int time = 0; time < BL_TIME_COUNT; time++)
        if (trace->more && (trace->seen >> time & 1U) != 0)
            put_ms(out, bl_metrics_time_name(time), trace->time_ns[time]);
    bl_text_puts(out, "]");
}

/* Write the span of the request and a child span for each interval. */
static void put_trace(bl_text *out, const bl_request_trace *trace, int64_t epoch_ns)
{
    char name[128];
    bool failed = trace->status == 0 || trace->status >= 500;
    begin_span(out, trace, trace->own.span, trace->has_parent ? trace->parent.span : NULL);
    snprintf(name, sizeof name, "%s%s%s", trace->method, trace->pattern[0] != '\0' ? " " : "", trace->pattern);
    bl_text_puts(out, ",\"name\":");
    bl_encode_string(out, name);
    put_times(out, SERVER, trace->begin_ns + epoch_ns, trace->end_ns + epoch_ns);
    put_attributes(out, trace);
    if (failed)
        bl_text_printf(out, ",\"status\":{\"code\":%d}", FAILED);
    bl_text_puts(out, "}");
    for (unsigned i = 0; i < trace->nstays; i++) {
        const bl_stay *stay = &trace->stay[i];
        unsigned char id[8];
        child_id(trace->own.span, i, id);
        begin_span(out, trace, id, trace->own.span);
        bl_text_printf(out, ",\"name\":\"%s\"", bl_metrics_time_name(stay->time));
        put_times(out, INTERNAL, stay->begin_ns + epoch_ns, stay->end_ns + epoch_ns);
        bl_text_puts(out, "}");
    }
}

void bl_otlp_encode(bl_text *out, const bl_exporter_options *options, const char *instance, const bl_request_trace *ring,
                    size_t size, size_t first, size_t count, int64_t epoch_ns)
{
    bl_text_puts(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    if (out->failed)
        return;
    otlp_put_text(out, "service.name", options->service);
    otlp_put_text(out, "service.version", options->version);
    otlp_put_text(out, "service.instance.id", instance);
    bl_text_puts(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"beamline\",\"version\":");
    bl_encode_string(out, options->version);
    bl_text_puts(out, "},\"spans\":[");
    for (size_t i = 0; i < count; i++)
        put_trace(out, &ring[(first + i) % size], epoch_ns);
    bl_text_puts(out, "]}]}]}");
}
