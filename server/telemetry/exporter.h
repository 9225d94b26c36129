/* SPDX-License-Identifier: MIT */
/* Export of traces to an OpenTelemetry collector.  Trails wait in a bounded queue, and a thread posts them in batches (OTLP/HTTP
 * with JSON, opentelemetry.io/docs/specs/otlp).  No request waits for the export: trails that do not fit in the queue are dropped
 * and counted.  Thread: any for begin and take. */
#ifndef BL_SERVER_TELEMETRY_EXPORTER_H
#define BL_SERVER_TELEMETRY_EXPORTER_H

#include "server/telemetry/request_trace.h"

typedef struct bl_exporter bl_exporter;

typedef struct bl_exporter_options {
    const char *url;     /* http or https; /v1/traces is appended unless it ends so */
    const char *service; /* the service name of the spans */
    const char *version; /* of the server */
    double share;        /* sampling probability of requests whose client decides nothing, from 0 to 1 */
    bl_metrics *metrics; /* counts sent and dropped spans; outlives the exporter */
} bl_exporter_options;

/* The strings are copied.  BL_EINVAL if the URL is invalid; a collector that does not answer is not an error. */
BL_NODISCARD bl_status bl_exporter_create(const bl_exporter_options *options, bl_exporter **out, bl_err *err);
/* Sends what is left, for at most two seconds.  Accepts NULL. */
void bl_exporter_destroy(bl_exporter *exporter);

/* Decide whether a request is traced, by its parent's flag or by chance, and assign its span.  |quiet|: trace it only if its
 * parent asks for it.  A NULL exporter traces nothing. */
void bl_exporter_begin(bl_exporter *exporter, bl_request_trace *trail, bool quiet);
/* Call when the request has ended: copies the trail if the queue has room. */
void bl_exporter_take(bl_exporter *exporter, const bl_request_trace *trail);

/* ---- otlp.c */
/* Write the body of a post: the spans of the trails ring[(first + i) % size], i below |count|.  |epoch_ns| added to bl_clock_ns
 * gives the time since 1970. */
void bl_otlp_encode(bl_text *out, const bl_exporter_options *options, const char *instance, const bl_request_trace *ring,
                    size_t size, size_t first, size_t count, int64_t epoch_ns);

#endif
