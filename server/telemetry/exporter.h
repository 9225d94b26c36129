/* SPDX-License-Identifier: MIT */
/* Traces to a collector of OpenTelemetry: trails wait in a bounded queue, and a thread posts them in batches (OTLP/HTTP with
 * JSON, opentelemetry.io/docs/specs/otlp).  No request ever waits for it: what does not fit is dropped, and counted. Thread: any
 * for begin and take. */
#ifndef BL_SERVER_TELEMETRY_EXPORTER_H
#define BL_SERVER_TELEMETRY_EXPORTER_H

#include "server/telemetry/trail.h"

typedef struct bl_exporter bl_exporter;

typedef struct bl_exporter_options {
    const char *url;     /* http or https; /v1/traces is put behind it unless it ends so */
    const char *service; /* what the spans say they are of */
    const char *version; /* of the server */
    double share;        /* of the requests that bring no decision of their own, from 0 to 1 */
    bl_metrics *metrics; /* counts spans that were sent and dropped; outlives the exporter */
} bl_exporter_options;

/* The strings are copied.  BL_EINVAL where the URL is none; that nobody listens there is no failure. */
BL_NODISCARD bl_status bl_exporter_create(const bl_exporter_options *options, bl_exporter **out, bl_err *err);
/* Sends what is left, for no longer than two seconds.  Accepts NULL. */
void bl_exporter_destroy(bl_exporter *exporter);

/* Decide whether a request is traced, by its parent's word or by chance, and give it a place in its trace.  |quiet|: it is not
 * unless its parent asks for it.  NULL traces nothing. */
void bl_exporter_begin(bl_exporter *exporter, bl_trail *trail, bool quiet);
/* The request has ended; the trail is copied, if there is room. */
void bl_exporter_take(bl_exporter *exporter, const bl_trail *trail);

/* ---- otlp.c */
/* The body of a request: spans of trails ring[(first + i) % size], i below |count|.  |epoch_ns| added to bl_clock_ns gives the
 * time since 1970. */
void bl_otlp_encode(bl_text *out, const bl_exporter_options *options, const char *instance, const bl_trail *ring, size_t size,
                    size_t first, size_t count, int64_t epoch_ns);

#endif
