/* SPDX-License-Identifier: MIT */
#include "server/metrics.h"

#include "server/handlers.h"
#include "server/server.h"

typedef struct metric_row {
    const char *name, *type, *help;
} metric_row;

static const metric_row count_rows[] = {
#define BL_COUNTER(id, name, help) {name "_total", "counter", help},
#define BL_GAUGE(id, name, help)   {name, "gauge", help},
#define BL_HISTOGRAM(id, name, help)
#include "server/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
};

static const metric_row time_rows[] = {
#define BL_COUNTER(id, name, help)
#define BL_GAUGE(id, name, help)
#define BL_HISTOGRAM(id, name, help) {name "_seconds", "histogram", help},
#include "server/metrics.def"
#undef BL_COUNTER
#undef BL_GAUGE
#undef BL_HISTOGRAM
};

/* Upper bounds: 10 microseconds, doubled each time, to 21 seconds. */
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

void bl_metrics_time(bl_metrics *metrics, int time, int64_t nanoseconds)
{
    bl_histogram *histogram = &metrics->time[time];
    int bucket = 0;
    if (nanoseconds < 0)
        nanoseconds = 0;
    while (bucket < BL_TIME_BUCKETS && nanoseconds > bucket_ns(bucket))
        bucket++;
    atomic_fetch_add_explicit(&histogram->bucket[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, (unsigned long long)nanoseconds, memory_order_relaxed);
}

static void print_head(const metric_row *row, bl_text *out)
{
    bl_text_printf(out, "# HELP beamline_%s %s\n# TYPE beamline_%s %s\n", row->name, row->help, row->name, row->type);
}

static void print_histogram(const metric_row *row, bl_histogram *histogram, bl_text *out)
{
    unsigned long long total = 0;
    print_head(row, out);
    for (int i = 0; i <= BL_TIME_BUCKETS; i++) {
        total += atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
        if (i < BL_TIME_BUCKETS)
            bl_text_printf(out, "beamline_%s_bucket{le=\"%.9g\"} %llu\n", row->name, (double)bucket_ns(i) * 1e-9, total);
        else
            bl_text_printf(out, "beamline_%s_bucket{le=\"+Inf\"} %llu\n", row->name, total);
    }
    bl_text_printf(out, "beamline_%s_sum %.9f\n", row->name, (double)atomic_load(&histogram->sum_ns) * 1e-9);
    bl_text_printf(out, "beamline_%s_count %llu\n", row->name, total);
}

void bl_metrics_print(bl_metrics *metrics, bl_text *out)
{
    static const metric_row requests = {"requests_total", "counter", "answers, by status code"};
    for (int i = 0; i < BL_COUNT_COUNT; i++) {
        print_head(&count_rows[i], out);
        bl_text_printf(out, "beamline_%s %lld\n", count_rows[i].name, bl_metrics_get(metrics, i));
    }
    print_head(&requests, out);
    for (int code = 0; code < BL_HTTP_CODES; code++) {
        unsigned long long n = atomic_load_explicit(&metrics->code[code], memory_order_relaxed);
        if (n > 0)
            bl_text_printf(out, "beamline_requests_total{code=\"%d\"} %llu\n", code, n);
    }
    for (int i = 0; i < BL_TIME_COUNT; i++)
        print_histogram(&time_rows[i], &metrics->time[i], out);
}

static void print_devices(bl_server *server, bl_text *out)
{
    static const metric_row queue = {"queue_length", "gauge", "requests that wait for the device or run on it"};
    static const metric_row used = {"device_bytes", "gauge", "device memory in use, idle pool included"};
    static const metric_row peak = {"device_peak_bytes", "gauge", "the most device memory ever in use"};
    static const metric_row idle = {"device_pool_bytes", "gauge", "device memory kept for the next request"};
    print_head(&queue, out);
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_text_printf(out, "beamline_queue_length{device=\"%s\"} %zu\n", server->workers[i].dev->info.id,
                       bl_queue_length(server->workers[i].queue));
    bl_text_printf(out, "beamline_queue_length{device=\"compiler\"} %zu\n", bl_queue_length(server->compiler));
    print_head(&used, out);
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_text_printf(out, "beamline_device_bytes{device=\"%s\"} %zu\n", server->workers[i].dev->info.id,
                       atomic_load(&server->workers[i].dev->bytes_used));
    print_head(&peak, out);
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_text_printf(out, "beamline_device_peak_bytes{device=\"%s\"} %zu\n", server->workers[i].dev->info.id,
                       atomic_load(&server->workers[i].dev->bytes_peak));
    print_head(&idle, out);
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_text_printf(out, "beamline_device_pool_bytes{device=\"%s\"} %zu\n", server->workers[i].dev->info.id,
                       bl_pool_idle_bytes(server->workers[i].pool));
}

bl_status bl_handle_metrics(bl_request *rq)
{
    static const metric_row plans = {"plans", "gauge", "compiled graphs in the cache"};
    static const metric_row host = {"host_bytes", "gauge", "host memory of bodies, answers and the buffers of CPU devices"};
    bl_metrics_print(&rq->server->metrics, &rq->out);
    print_head(&plans, &rq->out);
    bl_text_printf(&rq->out, "beamline_plans %zu\n", bl_plans_count(rq->server->plans));
    print_head(&host, &rq->out);
    bl_text_printf(&rq->out, "beamline_host_bytes %zu\n", atomic_load(&rq->server->memory.used));
    print_devices(rq->server, &rq->out);
    bl_request_reply(rq, 200, "text/plain; version=0.0.4; charset=utf-8");
    return BL_OK;
}
