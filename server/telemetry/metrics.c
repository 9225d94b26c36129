/* SPDX-License-Identifier: MIT */
#include "server/telemetry/metrics.h"

#include <stdio.h>

typedef struct metric_row {
    const char *name, *type, *help;
} metric_row;

static const metric_row count_rows[] = {
#define BL_COUNTER(id, name, help) {"beamline_" name "_total", "counter", help},
#define BL_GAUGE(id, name, help)   {"beamline_" name, "gauge", help},
#define BL_HISTOGRAM(id, name, help)
#include "server/telemetry/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
};

static const metric_row time_rows[] = {
#define BL_COUNTER(id, name, help)
#define BL_GAUGE(id, name, help)
#define BL_HISTOGRAM(id, name, help) {name, "histogram", help},
#include "server/telemetry/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
};

static int64_t bucket_ns(int bucket)
{
    return INT64_C(10000) << bucket;
}

void bl_metrics_add(bl_metrics *metrics, int count, long long amount)
{
    atomic_fetch_add_explicit(&metrics->count[count], amount, memory_order_relaxed);
}

long long bl_metrics_get(bl_metrics *metrics, int count)
{
    return atomic_load_explicit(&metrics->count[count], memory_order_relaxed);
}

void bl_histogram_add(bl_histogram *histogram, int64_t nanoseconds)
{
    int bucket = 0;
    if (nanoseconds < 0)
        nanoseconds = 0;
    while (bucket < BL_TIME_BUCKETS && nanoseconds > bucket_ns(bucket))
        bucket++;
    atomic_fetch_add_explicit(&histogram->bucket[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, (unsigned long long)nanoseconds, memory_order_relaxed);
}

unsigned long long bl_histogram_count(const bl_histogram *histogram)
{
    unsigned long long total = 0;
    for (int i = 0; i <= BL_TIME_BUCKETS; i++)
        total += atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
    return total;
}

void bl_metrics_time(bl_metrics *metrics, int time, int route, int64_t nanoseconds)
{
    bl_histogram_add(&metrics->time[route][time], nanoseconds);
}

void bl_metrics_answer(bl_metrics *metrics, int route, int code)
{
    if (code > 0 && code < BL_HTTP_CODES)
        atomic_fetch_add_explicit(&metrics->code[route][code], 1, memory_order_relaxed);
}

const char *bl_metrics_time_name(int time)
{
    return time_rows[time].name;
}

/* ---- printing */

void bl_metrics_head(bl_text *out, const char *name, const char *type, const char *help)
{
    bl_text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void bl_histogram_print(bl_text *out, const char *name, const char *labels, const bl_histogram *histogram)
{
    unsigned long long count[BL_TIME_BUCKETS + 1], total = 0;
    for (int i = 0; i <= BL_TIME_BUCKETS; i++) /* each bucket is read once, so that the sums below are consistent while other
                                                * threads count */
        total += count[i] = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
    if (total == 0)
        return;
    total = 0;
    for (int i = 0; i <= BL_TIME_BUCKETS; i++) {
        total += count[i];
        bl_text_printf(out, "beamline_%s_seconds_bucket{%s,le=\"", name, labels);
        if (i < BL_TIME_BUCKETS)
            bl_text_printf(out, "%.9g\"} %llu\n", (double)bucket_ns(i) * 1e-9, total);
        else
            bl_text_printf(out, "+Inf\"} %llu\n", total);
    }
    bl_text_printf(out, "beamline_%s_seconds_sum{%s} %.9f\n", name, labels,
                   (double)atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed) * 1e-9);
    bl_text_printf(out, "beamline_%s_seconds_count{%s} %llu\n", name, labels, total);
}

static void print_answers(bl_metrics *metrics, int index, const bl_metric_route *route, bl_text *out)
{
    for (int code = 0; code < BL_HTTP_CODES; code++) {
        unsigned long long n = atomic_load_explicit(&metrics->code[index][code], memory_order_relaxed);
        if (n > 0)
            bl_text_printf(out, "beamline_requests_total{method=\"%s\",route=\"%s\",code=\"%d\"} %llu\n", route->method,
                           route->pattern, code, n);
    }
}

void bl_metrics_print(bl_metrics *metrics, const bl_metric_route *routes, int nroutes, bl_text *out)
{
    for (int i = 0; i < BL_COUNT_COUNT; i++) {
        bl_metrics_head(out, count_rows[i].name, count_rows[i].type, count_rows[i].help);
        bl_text_printf(out, "%s %lld\n", count_rows[i].name, bl_metrics_get(metrics, i));
    }
    bl_metrics_head(out, "beamline_requests_total", "counter", "answers, by method, route and status code");
    for (int k = 0; k < nroutes; k++)
        print_answers(metrics, k, &routes[k], out);
    for (int i = 0; i < BL_TIME_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "beamline_%s_seconds", time_rows[i].name);
        bl_metrics_head(out, name, time_rows[i].type, time_rows[i].help);
        for (int k = 0; k < nroutes; k++) {
            char labels[256];
            snprintf(labels, sizeof labels, "method=\"%s\",route=\"%s\"", routes[k].method, routes[k].pattern);
            bl_histogram_print(out, time_rows[i].name, labels, &metrics->time[k][i]);
        }
    }
}
