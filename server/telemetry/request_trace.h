/* SPDX-License-Identifier: MIT */
/* The trace of a request: the time that the request spent in each phase, and the data for its line in the access log and for
 * its trace spans.  Thread: the request's. */
#ifndef BL_SERVER_TELEMETRY_REQUEST_TRACE_H
#define BL_SERVER_TELEMETRY_REQUEST_TRACE_H

#include "engine/base/log.h"
#include "server/telemetry/metrics.h"

enum {
    BL_REQUEST_TRACE_SPANS =
        24, /* spans of one request: a run of one slice has 8; for longer runs the trace has the sums of the phases */
    BL_REQUEST_TRACE_ID = 72,
    BL_REQUEST_TRACE_PATH = 200,
    BL_REQUEST_TRACE_STATE = 256 /* limit of a tracestate; a longer one is not propagated, which W3C Trace Context, 3.3.1.5,
                                  * allows */
};

/* W3C Trace Context, level 1. */
typedef struct bl_trace_context {
    unsigned char trace[16], span[8];
    bool sampled;
} bl_trace_context;

/* One interval in a phase; |time| is a BL_TIME_ value. */
typedef struct bl_stay {
    int time;
    int64_t begin_ns, end_ns; /* times of bl_clock_ns */
} bl_stay;

/* A zeroed object is valid. */
typedef struct bl_request_trace {
    int64_t time_ns[BL_TIME_COUNT]; /* sum of all intervals of each phase */
    unsigned seen;                  /* one bit for each BL_TIME_ value: the phase occurred */
    unsigned nstays;
    bl_stay stay[BL_REQUEST_TRACE_SPANS]; /* filled only if |traced| */

    bool more; /* some intervals did not fit into |stay| */

    bool has_parent, traced;
    bl_trace_context parent; /* the parent as received; without a parent the trace is new */
    bl_trace_context own;
    char state[BL_REQUEST_TRACE_STATE];

    /* filled when the request ends */
    char id[BL_REQUEST_TRACE_ID];
    char method[16];
    const char *pattern;              /* pattern of the route, a constant; "" if no route was found */
    char path[BL_REQUEST_TRACE_PATH]; /* without the query; bytes that are not printable ASCII are written as %XX */
    char peer[64];
    char key[64]; /* name of the key of the request; "" without a key */
    int status;   /* 0: the connection ended before there was an answer */
    uint64_t bytes_in, bytes_out;
    int64_t begin_ns, end_ns;
} bl_request_trace;

/* Add an interval: the request was in phase |time| from |begin_ns| to |end_ns|. */
void bl_request_trace_add(bl_request_trace *trace, int time, int64_t begin_ns, int64_t end_ns);
/* Add the intervals of |other|. */
void bl_request_trace_join(bl_request_trace *trace, const bl_request_trace *other);
/* Add all phases to the histograms of |route|, and count the answer. */
void bl_request_trace_count(const bl_request_trace *trace, bl_metrics *metrics, int route);
/* Set |path| from |uri| up to its query. */
void bl_request_trace_set_path(bl_request_trace *trace, const char *uri);
void bl_request_trace_log(const bl_request_trace *trace, bl_log_level level);

/* Parse a traceparent header.  False if the header is invalid; then a new trace begins. */
bool bl_trace_parse(const char *text, bl_trace_context *out);
/* A traceparent value: 55 characters and a NUL. */
enum { BL_TRACE_CHARS = 56 };
void bl_trace_print(const bl_trace_context *context, char *out);
void bl_trace_hex(const unsigned char *bytes, size_t count, char *out); /* writes 2 * |count| characters and a NUL */

#endif
