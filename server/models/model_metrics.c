/* SPDX-License-Identifier: MIT */
/* The Prometheus metrics of models: series by owner, name and version, which end with the version.  A setting limits how many
 * versions have series, since any key that may load models chooses label values. */
#include "server/models/models_internal.h"

#include "server/access/access.h"

#include <stdio.h>

typedef struct measured {
    bl_model_version *version; /* retained */
    char labels[2 * BL_MODEL_NAME_SIZE + 96];
} measured;

typedef struct measured_list {
    size_t count, left_out;
    measured *at;
} measured_list;

/* ---- labels */

/* Names of models and keys consist of letters, digits and a few signs, so labels need no escapes. */
static void put_labels(bl_models *models, measured *one)
{
    char owner[BL_MODEL_NAME_SIZE] = "";
    const bl_model_version *version = one->version;
    int n = snprintf(one->labels, sizeof one->labels, "model=\"%s\",version=\"%llu\"", version->name,
                     (unsigned long long)version->number);
    if (version->owner != 0)
        bl_access_name(models->server->access, version->owner, owner, sizeof owner);
    if (owner[0] != '\0') /* two keys may each have a model of this name */
        snprintf(one->labels + n, sizeof one->labels - (size_t)n, ",owner=\"%s\"", owner);
}

/* Collect retained versions, so that nothing is printed under the lock. */
static bl_status model_metrics_collect(bl_models *models, bl_arena *arena, measured_list *list, bl_err *err)
{
    size_t most = (size_t)models->server->settings.metrics_models;
    *list = (measured_list){.at = bl_arena_array(arena, most + 1, sizeof *list->at)};
    if (list->at == NULL)
        return bl_arena_status(arena, err);
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);) {
        if (it.version != NULL && list->count < most)
            list->at[list->count++].version = bl_model_version_retain(it.version);
        else
            list->left_out += it.version != NULL;
    }
    pthread_mutex_unlock(&models->lock);
    for (size_t i = 0; i < list->count; i++)
        put_labels(models, &list->at[i]);
    return BL_OK;
}

/* ---- values */

static unsigned long long requests_ok(const bl_model_version *v)
{
    return bl_histogram_count(&v->statistics.time[BL_STAT_SUCCESS]);
}

static unsigned long long requests_failed(const bl_model_version *v)
{
    return bl_histogram_count(&v->statistics.time[BL_STAT_FAIL]);
}

static unsigned long long inferences(const bl_model_version *v)
{
    return atomic_load_explicit(&v->statistics.inferences, memory_order_relaxed);
}

static unsigned long long executions(const bl_model_version *v)
{
    return atomic_load_explicit(&v->statistics.executions, memory_order_relaxed);
}

static unsigned long long cache_hits(const bl_model_version *v)
{
    return bl_histogram_count(&v->statistics.time[BL_STAT_HIT]);
}

static unsigned long long cache_misses(const bl_model_version *v)
{
    return bl_histogram_count(&v->statistics.time[BL_STAT_MISS]);
}

static unsigned long long device_bytes(const bl_model_version *v)
{
    return bl_model_version_bytes(v);
}

/* Rows of one name must be adjacent: they are one metric. */
static const struct {
    const char *name, *type, *help, *labels;
    unsigned long long (*value)(const bl_model_version *version);
} counts[] = {
    {"beamline_model_requests_total", "counter", "inferences that were asked of a model, by result", ",result=\"success\"",
     requests_ok},
    {"beamline_model_requests_total", "counter", NULL, ",result=\"failure\"", requests_failed},
    {"beamline_model_inferences_total", "counter", "rows that a model computed, those of a batch each", "", inferences},
    {"beamline_model_executions_total", "counter", "runs of a model on a device, in each of which several requests may have rows",
     "", executions},
    {"beamline_model_cache_total", "counter", "requests of models with response_cache, by result", ",result=\"hit\"", cache_hits},
    {"beamline_model_cache_total", "counter", NULL, ",result=\"miss\"", cache_misses},
    {"beamline_model_bytes", "gauge", "memory of a model's weights, on all its devices", "", device_bytes},
};

static const struct {
    const char *name, *help;
    bl_statistic what;
} times[] = {
    {"model_request", "requests of a model, from their first byte to the answer", BL_STAT_SUCCESS},
    {"model_queue", "of that, waiting for others of a batch and for a device", BL_STAT_QUEUE},
    {"model_input", "of that, reading inputs and bringing them to a device", BL_STAT_INPUT},
    {"model_compute", "of that, a device at work", BL_STAT_INFER},
    {"model_output", "of that, printing the answer", BL_STAT_OUTPUT},
};

static void print_counts(const measured_list *list, bl_text *out)
{
    for (size_t r = 0; r < sizeof counts / sizeof counts[0]; r++) {
        if (counts[r].help != NULL)
            bl_metrics_head(out, counts[r].name, counts[r].type, counts[r].help);
        for (size_t i = 0; i < list->count; i++)
            bl_text_printf(out, "%s{%s%s} %llu\n", counts[r].name, list->at[i].labels, counts[r].labels,
                           counts[r].value(list->at[i].version));
    }
}

static void print_times(const measured_list *list, bl_text *out)
{
    for (size_t r = 0; r < sizeof times / sizeof times[0]; r++) {
        char name[64];
        snprintf(name, sizeof name, "beamline_%s_seconds", times[r].name);
        bl_metrics_head(out, name, "histogram", times[r].help);
        for (size_t i = 0; i < list->count; i++)
            bl_histogram_print(out, times[r].name, list->at[i].labels, &list->at[i].version->statistics.time[times[r].what]);
    }
}

bl_status bl_models_print_metrics(bl_models *models, bl_arena *arena, bl_text *out, bl_err *err)
{
    measured_list list;
    BL_TRY(model_metrics_collect(models, arena, &list, err));
    print_counts(&list, out);
    print_times(&list, out);
    bl_metrics_head(out, "beamline_models", "gauge", "versions of models that can be asked");
    bl_text_printf(out, "beamline_models %zu\n", list.count + list.left_out);
    bl_metrics_head(out, "beamline_models_left_out", "gauge", "those that have no series of their own, over --metrics-models");
    bl_text_printf(out, "beamline_models_left_out %zu\n", list.left_out);
    for (size_t i = 0; i < list.count; i++)
        bl_model_version_release(list.at[i].version);
    return BL_OK;
}
