/* SPDX-License-Identifier: MIT */
/* The trace and logging extensions: the choice of traced inferences, for all models or for one, and the log level.  Traces go
 * to the collector of --otlp.  The traceparent of a request takes precedence over these settings. */
#include "server/models/models_internal.h"

#include "engine/base/log.h"
#include "proto/encode.h"
#include "server/http/handlers.h"

#include <stdlib.h>
#include <string.h>

/* ---- sampling */

/* The settings that apply to |model|; NULL: to all models.  Under the lock. */
static bl_model_tracing effective(const bl_models *models, const bl_model *model)
{
    const bl_settings *set = &models->server->settings;
    const bl_model_tracing *of[] = {model != NULL ? &model->tracing : NULL, &models->tracing};
    bl_model_tracing out = {.level = BL_TRACING_OFF, .rate = 1, .count = -1};
    if (models->server->exporter != NULL && set->trace_share > 0) {
        out.level = BL_TRACING_ON;
        out.rate = (uint64_t)(1 / set->trace_share);
    }
    for (int i = 2; i-- > 0;) { /* the settings of the model override the settings of all models */
        if (of[i] == NULL)
            continue;
        out.level = of[i]->level != BL_TRACING_UNSET ? of[i]->level : out.level;
        out.rate = of[i]->rate != 0 ? of[i]->rate : out.rate;
        out.count = of[i]->counted ? of[i]->count : out.count;
    }
    return out;
}

static bool is_set(const bl_model_tracing *tracing)
{
    return tracing->level != BL_TRACING_UNSET || tracing->rate != 0 || tracing->counted;
}

void bl_model_trace(bl_models *models, bl_model *model, bl_request *rq)
{
    bl_model_tracing now, *counting = model->tracing.counted ? &model->tracing : &models->tracing;
    if (models->server->exporter == NULL || rq->trace.has_parent || (!is_set(&model->tracing) && !is_set(&models->tracing)))
        return;
    now = effective(models, model);
    rq->trace.traced = now.level == BL_TRACING_ON && model->asked++ % now.rate == 0 && now.count != 0;
    rq->trace.own.sampled = rq->trace.traced;
    if (rq->trace.traced && counting->counted && counting->count > 0)
        counting->count--;
}

static void put_tracing(bl_request *rq, const bl_model_tracing *now)
{
    bl_text_printf(&rq->reply.out,
                   "{\"trace_file\":\"\",\"trace_level\":[\"%s\"],\"trace_rate\":\"%llu\",\"trace_count\":\"%lld\","
                   "\"log_frequency\":\"0\",\"trace_mode\":\"opentelemetry\"}",
                   now->level == BL_TRACING_ON ? "TIMESTAMPS" : "OFF", (unsigned long long)now->rate, (long long)now->count);
    bl_request_reply_json(rq, 200);
}

/* A number, or a string with a number, as Triton's clients send it. */
static bl_status tracing_read_count(const bl_json *at, int64_t lo, int64_t *out, bl_err *err)
{
    char *end = NULL;
    const char *text = NULL;
    if (at->kind != BL_JSON_STRING)
        return bl_json_int(at, lo, INT64_MAX, out, err);
    BL_TRY(bl_json_string(at, &text, err));
    *out = strtoll(text, &end, 10);
    if (*text == '\0' || strlen(text) > 18 || *end != '\0' || *out < lo)
        return bl_json_fail(at, err, BL_EINVAL, "\"%.40s\" is not a number of at least %lld", text, (long long)lo);
    return BL_OK;
}

static bl_status tracing_read_level(const bl_json *at, bl_model_tracing *out, bl_err *err)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, err));
    out->level = BL_TRACING_OFF;
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_expect(&one, BL_JSON_STRING, err));
        if (bl_span_is(one.text, "TENSORS"))
            return bl_json_fail(&one, err, BL_EUNSUPPORTED, "traces record times, not tensors");
        if (!bl_span_is(one.text, "TIMESTAMPS") && !bl_span_is(one.text, "OFF"))
            return bl_json_fail(&one, err, BL_EINVAL, "a level must be OFF or TIMESTAMPS");
        if (bl_span_is(one.text, "TIMESTAMPS"))
            out->level = BL_TRACING_ON;
    }
    return BL_OK;
}

/* The value null removes a setting. */
static bl_status read_tracing(bl_request *rq, const bl_json *root, bl_model_tracing *out)
{
    static const char *const names[] = {"trace_file",    "trace_level", "trace_rate", "trace_count",
                                        "log_frequency", "trace_mode",  NULL};
    bl_err *err = &rq->err;
    bl_json at;
    int64_t rate = 0;
    BL_TRY(bl_json_allow(root, names, err));
    if (bl_json_find(root, "trace_level", &at)) {
        out->level = BL_TRACING_UNSET;
        if (at.kind != BL_JSON_NULL)
            BL_TRY(tracing_read_level(&at, out, err));
        if (out->level == BL_TRACING_ON && rq->server->exporter == NULL)
            return bl_json_fail(&at, err, BL_EINVAL,
                                "the server sends no traces; start the server with --otlp and the address of a collector");
    }
    if (bl_json_find(root, "trace_rate", &at)) {
        if (at.kind != BL_JSON_NULL)
            BL_TRY(tracing_read_count(&at, 1, &rate, err));
        out->rate = (uint64_t)rate;
    }
    if (bl_json_find(root, "trace_count", &at)) {
        out->counted = at.kind != BL_JSON_NULL;
        if (out->counted)
            BL_TRY(tracing_read_count(&at, -1, &out->count, err));
    }
    if (bl_json_find(root, "log_frequency", &at) && at.kind != BL_JSON_NULL && !bl_span_is(at.text, "0"))
        return bl_json_fail(&at, err, BL_EUNSUPPORTED, "traces are sent at once, so the frequency must be 0");
    if (bl_json_find(root, "trace_file", &at) && at.kind != BL_JSON_NULL && at.text.len > 0)
        return bl_json_fail(&at, err, BL_EUNSUPPORTED, "traces go to a collector, not to a file");
    if (bl_json_find(root, "trace_mode", &at) && at.kind != BL_JSON_NULL && !bl_span_is(at.text, "opentelemetry"))
        return bl_json_fail(&at, err, BL_EUNSUPPORTED, "the only mode is opentelemetry");
    return BL_OK;
}

static bl_status tracing_parse(bl_request *rq, bl_json_doc *doc)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    return bl_json_parse(doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
}

/* Under the lock: the model of the path that the owner of the request sees. */
static bl_model *find_model(bl_request *rq)
{
    bl_models *models = rq->server->models;
    bl_model *model = bl_models_find(models, rq->owner, rq->head.param[0]);
    return model != NULL ? model : bl_models_find(models, 0, rq->head.param[0]);
}

static bl_status tracing_answer(bl_request *rq, const bl_json *change)
{
    bl_models *models = rq->server->models;
    bl_model_tracing now = {0}, *of = NULL;
    bl_model *model = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&models->lock);
    model = rq->head.param[0] != NULL ? find_model(rq) : NULL;
    if (rq->head.param[0] != NULL && model == NULL)
        st = bl_fail(&rq->err, BL_ENOTFOUND, "there is no model \"%.160s\"", rq->head.param[0]);
    of = model != NULL ? &model->tracing : &models->tracing;
    now = *of;
    if (st == BL_OK && change != NULL)
        st = read_tracing(rq, change, &now);
    if (st == BL_OK) {
        *of = now;
        now = effective(models, model);
    }
    pthread_mutex_unlock(&models->lock);
    if (st == BL_OK)
        put_tracing(rq, &now);
    return st;
}

bl_status bl_handle_trace_get(bl_request *rq)
{
    return tracing_answer(rq, NULL);
}

bl_status bl_handle_trace_post(bl_request *rq)
{
    bl_json_doc doc = {0};
    bl_status st = tracing_parse(rq, &doc);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = tracing_answer(rq, &root);
    }
    bl_json_fini(&doc);
    return st;
}

/* ---- the log */

bl_status bl_handle_logging_get(bl_request *rq)
{
    static const char *const words[] = {"false", "true"};
    bl_text_printf(&rq->reply.out,
                   "{\"log_file\":\"\",\"log_info\":%s,\"log_warning\":%s,\"log_error\":true,\"log_verbose_level\":%d,"
                   "\"log_format\":\"ISO8601\"}",
                   words[bl_log_is_on(BL_LOG_INFO)], words[bl_log_is_on(BL_LOG_WARN)], (int)bl_log_is_on(BL_LOG_DEBUG));
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static bl_status find_flag(const bl_json *root, const char *name, bool *out, bl_err *err)
{
    bl_json at;
    return bl_json_find(root, name, &at) ? bl_json_bool(&at, out, err) : BL_OK;
}

/* A log level includes all levels above it, so warnings cannot be off while information is on. */
static bl_status read_log(const bl_json *root, bl_log_level *level, bl_err *err)
{
    static const char *const names[] = {"log_file",          "log_info",   "log_warning", "log_error",
                                        "log_verbose_level", "log_format", NULL};
    bool info = bl_log_is_on(BL_LOG_INFO), warning = bl_log_is_on(BL_LOG_WARN), error = true;
    int64_t verbose = bl_log_is_on(BL_LOG_DEBUG);
    bl_json at;
    BL_TRY(bl_json_allow(root, names, err));
    BL_TRY(find_flag(root, "log_info", &info, err));
    BL_TRY(find_flag(root, "log_warning", &warning, err));
    BL_TRY(find_flag(root, "log_error", &error, err));
    if (bl_json_find(root, "log_verbose_level", &at))
        BL_TRY(bl_json_int(&at, 0, 100, &verbose, err));
    if (bl_json_find(root, "log_file", &at) && at.text.len > 0)
        return bl_json_fail(&at, err, BL_EUNSUPPORTED, "the log goes to standard error, not to a file");
    if (bl_json_find(root, "log_format", &at) && !bl_span_is(at.text, "ISO8601"))
        return bl_json_fail(&at, err, BL_EUNSUPPORTED, "the only format is ISO8601");
    if (!error || (info && !warning) || (verbose > 0 && !info))
        return bl_json_fail(root, err, BL_EUNSUPPORTED, "errors are always logged, and a level includes the levels above it");
    *level = verbose > 0 ? BL_LOG_DEBUG : info ? BL_LOG_INFO : warning ? BL_LOG_WARN : BL_LOG_ERROR;
    return BL_OK;
}

bl_status bl_handle_logging_post(bl_request *rq)
{
    bl_log_level level = BL_LOG_INFO;
    bl_json_doc doc = {0};
    bl_status st = tracing_parse(rq, &doc);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = read_log(&root, &level, &rq->err);
    }
    bl_json_fini(&doc);
    BL_TRY(st);
    bl_log_set_level(level);
    return bl_handle_logging_get(rq);
}
