/* SPDX-License-Identifier: MIT */
/* Counters, gauges and histograms for Prometheus, from metrics.def.  Thread: any; relaxed atomics, no locks. */
#ifndef BL_SERVER_METRICS_H
#define BL_SERVER_METRICS_H

#include "engine/base/text.h"

#include <stdatomic.h>

enum {
#define BL_COUNTER(id, name, help) BL_COUNT_##id,
#define BL_GAUGE(id, name, help)   BL_COUNT_##id,
#define BL_HISTOGRAM(id, name, help)
#include "server/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
    BL_COUNT_COUNT
};

enum {
#define BL_COUNTER(id, name, help)
#define BL_GAUGE(id, name, help)
#define BL_HISTOGRAM(id, name, help) BL_TIME_##id,
#include "server/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
    BL_TIME_COUNT
};

enum { BL_TIME_BUCKETS = 22, BL_HTTP_CODES = 600 };

typedef struct bl_histogram {
    atomic_ullong bucket[BL_TIME_BUCKETS + 1]; /* the last one has no bound */
    atomic_ullong sum_ns;
} bl_histogram;

/* Zeroed is ready. */
typedef struct bl_metrics {
    atomic_llong count[BL_COUNT_COUNT];
    bl_histogram time[BL_TIME_COUNT];
    atomic_ullong code[BL_HTTP_CODES];
} bl_metrics;

void bl_metrics_add(bl_metrics *metrics, int count, long long amount);
long long bl_metrics_get(bl_metrics *metrics, int count);
void bl_metrics_time(bl_metrics *metrics, int time, int64_t nanoseconds);
void bl_metrics_print(bl_metrics *metrics, bl_text *out);

#endif
