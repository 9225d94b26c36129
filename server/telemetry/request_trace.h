/* SPDX-License-Identifier: MIT */
/* The trail of a request: the time that it spent in each phase, and the data of its access-log line and its trace.  Thread: the
 * request's. */
#ifndef BL_SERVER_TELEMETRY_REQUEST_TRACE_H
#define BL_SERVER_TELEMETRY_REQUEST_TRACE_H

#include "engine/base/log.h"
#include "server/telemetry/metrics.h"

enum {
    BL_REQUEST_TRACE_SPANS =
        24, /* phases kept separately for a trace: a run of one slice has 8; of longer runs the trace has the sums */
    BL_REQUEST_TRACE_ID = 72,
    BL_REQUEST_TRACE_PATH = 200,
    BL_REQUEST_TRACE_STATE = 256 /* of a tracestate; a longer one is not passed on, which W3C Trace Context, 3.3.1.5, allows */
};

/* W3C Trace Context, level 1. */
typedef struct bl_trace_context {
    unsigned char trace[16], span[8];
    bool sampled;
} bl_trace_context;

/* One interval in a phase; |time| is a BL_TIME_ value. */
typedef struct bl_stay {
    int time;
    int64_t begin_ns, end_ns; /* of bl_clock_ns */
} bl_stay;

/* A zeroed object is valid. */
typedef struct bl_request_trace {
    int64_t time_ns[BL_TIME_COUNT]; /* sum of all intervals */
    unsigned seen;                  /* bit by BL_TIME_ value: the phase occurred */
    unsigned nstays;
    bl_stay stay[BL_REQUEST_TRACE_SPANS]; /* filled if |traced| */

    bool more; /* some intervals did not fit into |stay| */

    bool has_parent, traced;
    bl_trace_context parent; /* as received; without a parent the trace is new */
    bl_trace_context own;
    char state[BL_REQUEST_TRACE_STATE];

    /* filled when the request ends */
    char id[BL_REQUEST_TRACE_ID];
    char method[16];
    const char *pattern;              /* of the route, a constant; "" if no route was found */
    char path[BL_REQUEST_TRACE_PATH]; /* without the query; bytes other than printable ASCII as %XX */
    char peer[64];
    char key[64]; /* the name of the request's key; "" without a key */
    int status;   /* 0: the connection ended before there was an answer */
    uint64_t bytes_in, bytes_out;
    int64_t begin_ns, end_ns;
} bl_request_trace;

/* Add an interval: the request was in phase |time| from |begin_ns| to |end_ns|. */
void bl_request_trace_add(bl_request_trace *trail, int time, int64_t begin_ns, int64_t end_ns);
/* Add the intervals of |other|. */
void bl_request_trace_join(bl_request_trace *trail, const bl_request_trace *other);
/* Add all phases to the histograms of |route|, and count the answer. */
void bl_request_trace_count(const bl_request_trace *trail, bl_metrics *metrics, int route);
/* Set |path| from |uri| up to its query. */
void bl_request_trace_set_path(bl_request_trace *trail, const char *uri);
void bl_request_trace_log(const bl_request_trace *trail, bl_log_level level);

/* Parse a traceparent header; false if it is invalid, and the trace then begins here. */
bool bl_trace_parse(const char *text, bl_trace_context *out);
/* A traceparent value: 55 characters and a NUL. */
enum { BL_TRACE_CHARS = 56 };
void bl_trace_print(const bl_trace_context *context, char *out);
void bl_trace_hex(const unsigned char *bytes, size_t count, char *out); /* writes twice as many characters, and a NUL */

#endif
