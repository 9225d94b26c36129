/* SPDX-License-Identifier: MIT */
#include "server/models/statistics.h"

#include "proto/encode.h"

#include <time.h>

void bl_statistics_init(bl_model_statistics *s)
{
    pthread_mutex_init(&s->lock, NULL);
}

void bl_statistics_fini(bl_model_statistics *s)
{
    pthread_mutex_destroy(&s->lock);
}

void bl_statistics_add(bl_model_statistics *s, bl_statistic what, int64_t ns)
{
    bl_histogram_add(&s->time[what], ns);
}

void bl_statistics_run(bl_model_statistics *s, int64_t size, int64_t input_ns, int64_t infer_ns, int64_t output_ns)
{
    struct timespec now;
    bl_batch_statistic *row = NULL;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&s->last_ms, (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->inferences, (unsigned long long)(size > 0 ? size : 1), memory_order_relaxed);
    atomic_fetch_add_explicit(&s->executions, 1, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->nbatches && row == NULL; i++)
        row = s->batch[i].size == size || i == BL_MOST_BATCH_STATS - 1 ? &s->batch[i] : NULL;
    if (row == NULL) {
        row = &s->batch[s->nbatches++];
        row->size = size;
    }
    row->count++;
    row->input_ns += (uint64_t)input_ns;
    row->infer_ns += (uint64_t)infer_ns;
    row->output_ns += (uint64_t)output_ns;
    pthread_mutex_unlock(&s->lock);
}

static void put_pair(bl_text *out, const char *name, unsigned long long count, unsigned long long ns)
{
    bl_encode_key(out, name);
    bl_text_printf(out, "{\"count\":%llu,\"ns\":%llu}", count, ns);
}

void bl_statistics_put(bl_model_statistics *s, bl_text *out)
{
    static const char *const names[BL_STAT_COUNT] = {"success",       "fail",           "queue",     "compute_input",
                                                     "compute_infer", "compute_output", "cache_hit", "cache_miss"};
    bl_text_printf(out, ",\"last_inference\":%lld,\"inference_count\":%llu,\"execution_count\":%llu,\"inference_stats\":{",
                   (long long)atomic_load(&s->last_ms), (unsigned long long)atomic_load(&s->inferences),
                   (unsigned long long)atomic_load(&s->executions));
    for (int i = 0; i < BL_STAT_COUNT; i++)
        put_pair(out, names[i], bl_histogram_count(&s->time[i]), atomic_load(&s->time[i].sum_ns));
    bl_text_puts(out, "},\"response_stats\":{},\"batch_stats\":[");
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->nbatches; i++) {
        const bl_batch_statistic *b = &s->batch[i];
        bl_text_printf(out, "%s{\"batch_size\":%lld", i > 0 ? "," : "", (long long)b->size);
        put_pair(out, "compute_input", b->count, b->input_ns);
        put_pair(out, "compute_infer", b->count, b->infer_ns);
        put_pair(out, "compute_output", b->count, b->output_ns);
        bl_text_putc(out, '}');
    }
    pthread_mutex_unlock(&s->lock);
    bl_text_putc(out, ']');
}
