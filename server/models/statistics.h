/* SPDX-License-Identifier: MIT */
/* Request counts and times of a model, in the layout of the protocol's statistics extension.  Thread: any. */
#ifndef BL_SERVER_MODELS_STATISTICS_H
#define BL_SERVER_MODELS_STATISTICS_H

#include "server/telemetry/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum bl_statistic {
    BL_STAT_SUCCESS,
    BL_STAT_FAIL,
    BL_STAT_QUEUE,
    BL_STAT_INPUT,
    BL_STAT_INFER,
    BL_STAT_OUTPUT,
    BL_STAT_HIT,
    BL_STAT_MISS,
    BL_STAT_COUNT
} bl_statistic;

enum { BL_MOST_BATCH_STATS = 256 };

typedef struct bl_batch_statistic {
    int64_t size;
    uint64_t count, input_ns, infer_ns, output_ns;
} bl_batch_statistic;

typedef struct bl_model_statistics {
    bl_histogram time[BL_STAT_COUNT];
    atomic_ullong inferences, executions;
    atomic_llong last_ms; /* milliseconds since 1970 */
    pthread_mutex_t lock; /* guards the members below */
    int nbatches;
    /* in order of first occurrence; further sizes are counted in the last element */
    bl_batch_statistic batch[BL_MOST_BATCH_STATS];
} bl_model_statistics;

void bl_statistics_init(bl_model_statistics *s);
void bl_statistics_fini(bl_model_statistics *s);
void bl_statistics_add(bl_model_statistics *s, bl_statistic what, int64_t ns);
/* Count one run on a device, of |size| inferences. */
void bl_statistics_run(bl_model_statistics *s, int64_t size, int64_t input_ns, int64_t infer_ns, int64_t output_ns);
/* Print the members of an element of model_stats, from "last_inference" on. */
void bl_statistics_put(bl_model_statistics *s, bl_text *out);

#endif
