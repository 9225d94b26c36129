/* SPDX-License-Identifier: MIT */
/* Export of traces to an OpenTelemetry collector.  Request traces wait in a bounded queue, and a thread posts them in batches
 * (OTLP/HTTP with JSON, opentelemetry.io/docs/specs/otlp).  No request waits for the export: the exporter drops and counts
 * traces that do not fit in the queue.  Thread: any for bl_exporter_begin and bl_exporter_take. */
#ifndef BL_SERVER_TELEMETRY_EXPORTER_H
#define BL_SERVER_TELEMETRY_EXPORTER_H

#include "server/telemetry/request_trace.h"

typedef struct bl_exporter bl_exporter;

typedef struct bl_exporter_options {
    const char *url;     /* http or https; /v1/traces is appended if the URL does not end with it */
    const char *service; /* the service name of the spans */
    const char *version; /* version of the server */
    double share;        /* sampling probability of a request whose client makes no sampling decision, from 0 to 1 */
    bl_metrics *metrics; /* counts sent and dropped spans; outlives the exporter */
} bl_exporter_options;

/* Create the exporter and copy the strings of |options|.  BL_EINVAL if the URL is invalid.  A collector that does not answer is
 * not an error. */
BL_NODISCARD bl_status bl_exporter_create(const bl_exporter_options *options, bl_exporter **out, bl_err *err);
/* Send the remaining traces, for at most two seconds.  Accepts NULL. */
void bl_exporter_destroy(bl_exporter *exporter);

/* Decide whether a request is traced, and assign its span.  The sampling flag of the parent decides, or else chance.  |quiet|:
 * trace the request only if its parent asks for a trace.  A NULL exporter traces no request. */
void bl_exporter_begin(bl_exporter *exporter, bl_request_trace *trace, bool quiet);
/* Copy the trace of a request if the queue has room.  Call at the end of the request. */
void bl_exporter_take(bl_exporter *exporter, const bl_request_trace *trace);

/* ---- otlp.c */
/* Write the body of a post: the spans of the request traces ring[(first + i) % size] for i below |count|.  |epoch_ns| plus
 * bl_clock_ns is the time since 1970. */
void bl_otlp_encode(bl_text *out, const bl_exporter_options *options, const char *instance, const bl_request_trace *ring,
                    size_t size, size_t first, size_t count, int64_t epoch_ns);

#endif
