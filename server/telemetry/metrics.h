/* SPDX-License-Identifier: MIT */
/* Counters, gauges and histograms for Prometheus, from metrics.def.  Thread: any; relaxed atomics, no locks. */
#ifndef BL_SERVER_TELEMETRY_METRICS_H
#define BL_SERVER_TELEMETRY_METRICS_H

#include "engine/base/text.h"

#include <stdatomic.h>

enum {
#define BL_COUNTER(id, name, help) BL_COUNT_##id,
#define BL_GAUGE(id, name, help)   BL_COUNT_##id,
#define BL_HISTOGRAM(id, name, help)
#include "server/telemetry/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
    BL_COUNT_COUNT
};

enum {
#define BL_COUNTER(id, name, help)
#define BL_GAUGE(id, name, help)
#define BL_HISTOGRAM(id, name, help) BL_TIME_##id,
#include "server/telemetry/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
    BL_TIME_COUNT
};

/* Bucket bounds double from 10 microseconds, for cached graphs, to 84 seconds, for large compilations.  A quantile is therefore
 * exact within a factor of two. */
enum { BL_TIME_BUCKETS = 24, BL_HTTP_CODES = 600, BL_METRIC_ROUTES = 128 };

typedef struct bl_histogram {
    atomic_ullong bucket[BL_TIME_BUCKETS + 1]; /* the last bucket has no upper bound */
    atomic_ullong sum_ns;
} bl_histogram;

void bl_histogram_add(bl_histogram *histogram, int64_t nanoseconds);
unsigned long long bl_histogram_count(const bl_histogram *histogram);

/* Metrics of the server.  There is one series per route, so the number of series does not depend on clients.  A zeroed object
 * is valid. */
typedef struct bl_metrics {
    atomic_llong count[BL_COUNT_COUNT];
    bl_histogram time[BL_METRIC_ROUTES][BL_TIME_COUNT];
    atomic_ullong code[BL_METRIC_ROUTES][BL_HTTP_CODES];
} bl_metrics;

/* The labels of a route.  Two rows are not routes: requests without a route, and work for which no client waits. */
enum { BL_METRIC_NO_ROUTE, BL_METRIC_OWN_WORK, BL_METRIC_FIRST_ROUTE };
typedef struct bl_metric_route {
    const char *method, *pattern;
} bl_metric_route;

void bl_metrics_add(bl_metrics *metrics, int count, long long amount);
long long bl_metrics_get(bl_metrics *metrics, int count);
void bl_metrics_time(bl_metrics *metrics, int time, int route, int64_t nanoseconds);
void bl_metrics_answer(bl_metrics *metrics, int route, int code);
const char *bl_metrics_time_name(int time); /* NAME in beamline_NAME_seconds */

/* ---- printing */
/* Print the HELP and TYPE lines that precede the values of a metric.  |type| is counter, gauge or histogram. */
void bl_metrics_head(bl_text *out, const char *name, const char *type, const char *help);
/* Print buckets, sum and count as beamline_NAME_seconds, with |labels| before the label le.  Prints nothing if the histogram is
 * empty. */
void bl_histogram_print(bl_text *out, const char *name, const char *labels, const bl_histogram *histogram);
void bl_metrics_print(bl_metrics *metrics, const bl_metric_route *routes, int nroutes, bl_text *out);
/* Print the process metrics of Prometheus' client libraries: memory, processor time, open files, start time. */
void bl_metrics_print_process(bl_text *out);

#endif
