/* SPDX-License-Identifier: MIT */
/* The trail of a request: where its time went, and what the access log and its trace tell of it.
 * Thread: that of the request. */
#ifndef BL_SERVER_TELEMETRY_TRAIL_H
#define BL_SERVER_TELEMETRY_TRAIL_H

#include "engine/base/log.h"
#include "server/telemetry/metrics.h"

enum {
    BL_TRAIL_SPANS = 24, /* kept apart for a trace: a run of one slice has 8; of a long one the rest is in the sums, which its
                            trace then has too */
    BL_TRAIL_ID = 72,
    BL_TRAIL_PATH = 200,
    BL_TRAIL_STATE = 256 /* of a tracestate; a longer one is not passed on (W3C Trace Context, 3.3.1.5, lets us) */
};

/* W3C Trace Context, level 1. */
typedef struct bl_trace_context {
    unsigned char trace[16], span[8];
    bool sampled;
} bl_trace_context;

/* One stay in a phase; |time| is a BL_TIME_. */
typedef struct bl_stay {
    int time;
    int64_t begin_ns, end_ns; /* of bl_clock_ns */
} bl_stay;

/* Zeroed is ready. */
typedef struct bl_trail {
    int64_t time_ns[BL_TIME_COUNT]; /* all stays together */
    unsigned seen;                  /* bit by BL_TIME_: was there at all */
    unsigned nstays;
    bl_stay stay[BL_TRAIL_SPANS]; /* where |traced| */

    bool more; /* than fit into |stay| */

    bool has_parent, traced;
    bl_trace_context parent; /* as it came; where there was none, the trace is new */
    bl_trace_context own;
    char state[BL_TRAIL_STATE];

    /* filled at the end, by whoever knows */
    char id[BL_TRAIL_ID];
    char method[16];
    const char *pattern;      /* of the route, a constant; "" where none was found */
    char path[BL_TRAIL_PATH]; /* without the query, and whatever is no printable ASCII as %XX */
    char peer[64];
    char key[64]; /* the name of the key that it came with; "" without */
    int status;   /* 0: the connection ended before there was an answer */
    uint64_t bytes_in, bytes_out;
    int64_t begin_ns, end_ns;
} bl_trail;

/* The request was in phase |time| from |begin_ns| to |end_ns|. */
void bl_trail_add(bl_trail *trail, int time, int64_t begin_ns, int64_t end_ns);
/* What |other| was in, too. */
void bl_trail_join(bl_trail *trail, const bl_trail *other);
/* All phases into the histograms of |route|, and the answer. */
void bl_trail_count(const bl_trail *trail, bl_metrics *metrics, int route);
/* |uri| up to its query, as |path| has it. */
void bl_trail_set_path(bl_trail *trail, const char *uri);
void bl_trail_log(const bl_trail *trail, bl_log_level level);

/* A traceparent header; false where it is none, and then the trace begins here. */
bool bl_trace_parse(const char *text, bl_trace_context *out);
/* As traceparent has it: 55 characters and a NUL. */
enum { BL_TRACE_CHARS = 56 };
void bl_trace_print(const bl_trace_context *context, char *out);
void bl_trace_hex(const unsigned char *bytes, size_t count, char *out); /* twice as many characters, and a NUL */

#endif
