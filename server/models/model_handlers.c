/* SPDX-License-Identifier: MIT */
/* Handlers for the description of models, and for loading and unloading them. */
#include "server/http/handlers.h"
#include "server/http/routes.h"

#include "proto/base64.h"
#include "proto/encode.h"
#include "proto/number.h"
#include "server/models/model_infer.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_handle_model_get(bl_request *rq)
{
    bl_models *models = rq->server->models;
    bl_model_version *version = NULL;
    BL_TRY(bl_model_get(rq, &version));
    pthread_mutex_lock(&models->lock);
    bl_model_version_put_metadata(version, bl_models_find(models, version->owner, version->name), &rq->reply.out);
    pthread_mutex_unlock(&models->lock);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_model_config(bl_request *rq)
{
    bl_model_version *version = NULL;
    BL_TRY(bl_model_get(rq, &version));
    bl_model_version_put_config(version, &rq->reply.out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_model_ready(bl_request *rq)
{
    bl_model_version *version = NULL;
    bool lost = false;
    BL_TRY(bl_model_get(rq, &version));
    lost = bl_batcher_is_lost(&version->batcher);
    bl_text_puts(&rq->reply.out, "{\"name\":");
    bl_encode_string(&rq->reply.out, version->name);
    bl_text_printf(&rq->reply.out, ",\"ready\":%s}", lost ? "false" : "true");
    bl_request_reply_json(rq, lost ? 400 : 200);
    return BL_OK;
}

/* ---- statistics */

static void put_instances(bl_model_version *version, bl_text *out)
{
    bl_text_puts(out, ",\"instance_stats\":[");
    pthread_mutex_lock(&version->batcher.lock);
    for (int i = 0; i < version->ninstances; i++) {
        const bl_model_instance *one = &version->instances[i];
        bl_text_printf(out,
                       "%s{\"name\":\"%d\",\"device\":\"%s\",\"state\":\"%s\",\"inference_count\":%llu,\"execution_count\":%llu,"
                       "\"compute_infer\":{\"count\":%llu,\"ns\":%llu}}",
                       i > 0 ? "," : "", i, one->slot.program->worker->dev->info.id,
                       bl_batch_slot_is_lost(&one->slot)                  ? "LOST"
                       : atomic_load(&one->slot.program->worker->drained) ? "DRAINED"
                                                                          : "READY",
                       (unsigned long long)one->slot.inferences, (unsigned long long)one->slot.executions,
                       (unsigned long long)one->slot.executions, (unsigned long long)one->slot.infer_ns);
    }
    pthread_mutex_unlock(&version->batcher.lock);
    bl_text_putc(out, ']');
}

static void put_statistics(bl_model_version *version, bl_text *out)
{
    bl_text_puts(out, bl_text_last(out) == '}' ? "," : "");
    bl_text_puts(out, "{\"name\":");
    bl_encode_string(out, version->name);
    bl_text_printf(out, ",\"version\":\"%llu\"", (unsigned long long)version->number);
    bl_statistics_put(&version->statistics, out);
    bl_text_puts(out, ",\"memory_usage\":[");
    for (int i = 0; i < version->ninstances; i++) {
        const bl_program *program = version->instances[i].slot.program;
        bl_text_printf(out, "%s{\"type\":\"%s\",\"id\":\"%s\",\"byte_size\":%zu}", i > 0 ? "," : "",
                       program->worker->dev->info.host_memory ? "CPU" : "GPU", program->worker->dev->info.id, program->charged);
    }
    bl_text_putc(out, ']');
    put_instances(version, out);
    bl_text_putc(out, '}');
}

bl_status bl_handle_model_stats(bl_request *rq)
{
    bl_model_version *version = NULL;
    BL_TRY(bl_model_get(rq, &version));
    bl_text_puts(&rq->reply.out, "{\"model_stats\":[");
    put_statistics(version, &rq->reply.out);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bool bl_model_is_seen(bl_models *models, uint32_t owner, const bl_model *model)
{
    return model->owner == owner || (model->owner == 0 && bl_models_find(models, owner, model->name) == NULL);
}

bl_status bl_handle_models_stats(bl_request *rq)
{
    bl_models *models = rq->server->models;
    bl_text_puts(&rq->reply.out, "{\"model_stats\":[");
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);)
        if (it.version != NULL && bl_model_is_seen(models, rq->owner, it.model))
            put_statistics(it.version, &rq->reply.out);
    pthread_mutex_unlock(&models->lock);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- the repository */

typedef struct index_list {
    bl_request *rq;
    bool ready; /* list only ready versions */
} index_list;

static void model_handlers_put_row(index_list *list, const char *model, const char *version, bl_model_state state,
                                   const char *reason)
{
    static const char *const states[] = {"UNAVAILABLE", "LOADING", "READY", "UNLOADING"};
    bl_text *out = &list->rq->reply.out;
    if (list->ready && state != BL_MODEL_READY)
        return;
    bl_text_puts(out, out->len > 1 ? ",{\"name\":" : "{\"name\":");
    bl_encode_string(out, model);
    if (version != NULL) {
        bl_encode_key(out, "version");
        bl_encode_string(out, version);
    }
    bl_encode_key(out, "state");
    bl_encode_string(out, states[state]);
    bl_encode_key(out, "reason");
    bl_encode_string(out, reason);
    bl_text_putc(out, '}');
}

/* Is the model to be loaded, but has no versions, not even unavailable ones? */
static bool model_handlers_is_lost(const bl_model *model)
{
    return model->nrows == 0 && model->choice == BL_CHOICE_LOADED;
}

/* List a model of the folder of which no version was loaded or tried, with the reason. */
static void put_unknown(void *arg, const char *name)
{
    index_list *list = arg;
    bl_models *models = list->rq->server->models;
    const bl_model *model = NULL;
    bl_model_state state = BL_MODEL_UNAVAILABLE;
    char reason[BL_MODEL_REASON] = "not loaded";
    bool known = false;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, 0, name);
    known = model != NULL && (model->nrows > 0 || model_handlers_is_lost(model));
    if (model != NULL && model->loading != BL_LOADING_NONE)
        state = BL_MODEL_LOADING;
    if (model != NULL && model->reason[0] != '\0')
        memcpy(reason, model->reason, sizeof reason);
    else if (model != NULL && model->choice == BL_CHOICE_UNLOADED)
        memcpy(reason, "unloaded", sizeof "unloaded");
    pthread_mutex_unlock(&models->lock);
    if (!known)
        model_handlers_put_row(list, name, NULL, state, reason);
}

static bl_status model_handlers_read_document(bl_request *rq, bl_json_doc *doc)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_span body = bl_request_body(rq);
    return bl_json_parse(doc, rq->arena, body.len > 0 ? body : BL_S("{}"), &limits, &rq->err);
}

/* Read the one member that the body may have, if it is present, with |take|. */
static bl_status decode_member(bl_request *rq, const char *name, bl_status (*take)(bl_request *rq, void *into, const bl_json *at),
                               void *into)
{
    const char *const names[] = {name, NULL};
    bl_json_doc doc = {0};
    bl_json at;
    bl_status st = model_handlers_read_document(rq, &doc);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_json_allow(&root, names, &rq->err);
        if (st == BL_OK && bl_json_find(&root, name, &at))
            st = take(rq, into, &at);
    }
    bl_json_fini(&doc);
    return st;
}

static bl_status take_ready(bl_request *rq, void *ready, const bl_json *at)
{
    return bl_json_bool(at, ready, &rq->err);
}

bl_status bl_handle_repository_index(bl_request *rq)
{
    bl_models *models = rq->server->models;
    index_list list = {.rq = rq};
    BL_TRY(decode_member(rq, "ready", take_ready, &list.ready));
    bl_text_putc(&rq->reply.out, '[');
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);) {
        char version[24];
        if (!bl_model_is_seen(models, rq->owner, it.model) || (it.row == NULL && !model_handlers_is_lost(it.model)))
            continue;
        if (it.row == NULL) {
            model_handlers_put_row(&list, it.model->name, NULL,
                                   it.model->loading != BL_LOADING_NONE ? BL_MODEL_LOADING : BL_MODEL_UNAVAILABLE,
                                   it.model->reason);
            continue;
        }
        version[bl_print_u64(version, it.row->number)] = '\0';
        model_handlers_put_row(&list, it.model->name, version, it.row->state, it.row->reason);
    }
    pthread_mutex_unlock(&models->lock);
    if (!list.ready)
        bl_source_each(models, put_unknown, &list);
    bl_text_putc(&rq->reply.out, ']');
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static size_t print_failure(bl_text *out, const char *model, uint64_t version, const char *reason)
{
    bl_text_printf(out, "model %s", model);
    if (version > 0)
        bl_text_printf(out, ", version %llu", (unsigned long long)version);
    bl_text_printf(out, ": %s\n", reason);
    return 1;
}

size_t bl_models_print_failures(bl_models *models, bl_text *out)
{
    size_t count = 0;
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);) {
        if (it.row == NULL && it.model->reason[0] != '\0')
            count += print_failure(out, it.model->name, 0, it.model->reason);
        if (it.row != NULL && it.row->state == BL_MODEL_UNAVAILABLE)
            count += print_failure(out, it.model->name, it.row->number, it.row->reason);
    }
    pthread_mutex_unlock(&models->lock);
    return count;
}

static bl_status read_file_name(const bl_json *at, const char *key, bl_model_file *out, bl_err *err)
{
    if (bl_model_file_parse(key, out))
        return BL_OK;
    return bl_json_fail(
        at, err, BL_EINVAL,
        "a file must be named \"file:VERSION/\" and model.json, model.safetensors, model.onnx or tokenizer.json, not \"%.100s\"",
        key);
}

static bl_status model_handlers_take_file(bl_request *rq, bl_model_op *op, const bl_json *at)
{
    bl_model_file *file = &op->files[op->nfiles];
    size_t bytes = 0;
    char *data = NULL;
    BL_TRY(read_file_name(at, at->key + strlen("file:"), file, &rq->err));
    BL_TRY(bl_json_expect(at, BL_JSON_STRING, &rq->err));
    if (!bl_base64_size(at->text, &bytes))
        return bl_json_fail(at, &rq->err, BL_EINVAL, "not valid base64");
    BL_TRY(bl_budget_take(&rq->server->memory, bytes, BL_ENOMEM, "the files of a model", &rq->err));
    op->charged += bytes;
    data = bl_arena_alloc(op->arena, bytes + 1);
    if (data == NULL)
        return bl_arena_status(op->arena, &rq->err);
    if (!bl_base64_decode(at->text, data))
        return bl_json_fail(at, &rq->err, BL_EINVAL, "not valid base64");
    file->data = (bl_span){data, bytes};
    op->nfiles++;
    return BL_OK;
}

static bl_status take_config(bl_request *rq, bl_model_op *op, const bl_json *at)
{
    const char *text = NULL;
    BL_TRY(bl_json_string(at, &text, &rq->err));
    if (strlen(text) > BL_MOST_CONFIG)
        return bl_json_fail(at, &rq->err, BL_ELIMIT, "a configuration has at most %d bytes", BL_MOST_CONFIG);
    op->config = strdup(text);
    return op->config != NULL ? BL_OK : bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a configuration");
}

static bl_status take_parameters(bl_request *rq, void *into, const bl_json *parameters)
{
    bl_model_op *op = into;
    bl_json_iter it = bl_json_each(parameters);
    bl_json one;
    BL_TRY(bl_json_expect(parameters, BL_JSON_OBJECT, &rq->err));
    op->arena = bl_arena_create(0); /* the request charges the files to the memory budget */
    op->files = op->arena != NULL ? bl_arena_array(op->arena, bl_json_count(parameters) + 1, sizeof *op->files) : NULL;
    if (op->files == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for the files of a model");
    while (bl_json_next(&it, &one)) {
        if (strcmp(one.key, "config") == 0)
            BL_TRY(take_config(rq, op, &one));
        else if (strncmp(one.key, "file:", 5) == 0)
            BL_TRY(model_handlers_take_file(rq, op, &one));
        else
            return bl_json_fail(parameters, &rq->err, BL_EINVAL, "unknown parameter \"%.100s\"", one.key);
    }
    if (op->nfiles > 0 && op->config == NULL)
        return bl_json_fail(parameters, &rq->err, BL_EINVAL, "files need a \"config\" beside them; it may be \"{}\"");
    return BL_OK;
}

/* The client closed its connection.  The load goes on. */
static bool leave_op(bl_request *rq)
{
    bl_models *models = rq->server->models;
    bool mine = false;
    pthread_mutex_lock(&models->lock);
    for (bl_model_op *op = models->first_op; op != NULL; op = op->next)
        if (op->rq == rq) {
            op->rq = NULL;
            mine = true;
        }
    pthread_mutex_unlock(&models->lock);
    return mine;
}

static bl_status reply_loaded(bl_request *rq)
{
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* In the path /v2/repository/NAME/models/NAME the first name is the name of the repository; there is only one repository. */
static const char *model_name(const bl_request *rq)
{
    return rq->head.param[1] != NULL ? rq->head.param[1] : rq->head.param[0];
}

/* Models of the folder are shared by all keys, so only an administrator may change them. */
static bl_status may_change(bl_request *rq, uint32_t owner)
{
    if (owner != 0 || (rq->scopes & BL_SCOPE_ADMIN) != 0)
        return BL_OK;
    return bl_fail(&rq->err, BL_EFORBIDDEN,
                   "model \"%.160s\" belongs to the whole server; only a key with the scope admin may load or unload the model",
                   model_name(rq));
}

bl_status bl_handle_model_load(bl_request *rq)
{
    const char *name = model_name(rq);
    bl_model_op *op = NULL;
    bl_status st = BL_OK;
    if (!bl_model_name_ok(name))
        return bl_fail(
            &rq->err, BL_EINVAL,
            "\"%.160s\" is not a valid name of a model: a name has letters, digits and _ - . after a letter, a digit or _", name);
    op = bl_model_op_create(0, name);
    if (op == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for loading a model");
    st = decode_member(rq, "parameters", take_parameters, op);
    if (st != BL_OK) {
        bl_model_op_destroy(rq->server->models, op);
        return st;
    }
    op->owner = op->nfiles > 0 ? rq->owner : 0;
    st = may_change(rq, op->owner);
    if (st != BL_OK) {
        bl_model_op_destroy(rq->server->models, op);
        return st;
    }
    op->by = BL_BY_REQUEST;
    op->purges = op->owner != 0 ? rq->purges : 0; /* owner 0 is never purged */
    op->rq = rq;
    rq->then = reply_loaded;
    bl_request_park(rq, leave_op);
    BL_TRY(bl_models_order(rq->server->models, op, &rq->err));
    return BL_OK;
}

static bl_status decode_unload(bl_request *rq)
{
    static const char *const names[] = {"parameters", NULL}, *const known[] = {"unload_dependents", NULL};
    bl_json_doc doc = {0};
    bl_json at, one;
    bool dependents = false;
    bl_status st = model_handlers_read_document(rq, &doc);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_json_allow(&root, names, &rq->err);
        if (st == BL_OK && bl_json_find(&root, "parameters", &at)) {
            st = bl_json_allow(&at, known, &rq->err);
            if (st == BL_OK && bl_json_find(&at, "unload_dependents", &one))
                st = bl_json_bool(&one, &dependents, &rq->err); /* models have no dependents here */
        }
    }
    bl_json_fini(&doc);
    return st;
}

bl_status bl_handle_model_unload(bl_request *rq)
{
    bl_models *models = rq->server->models;
    const char *name = model_name(rq);
    bool own = rq->owner != 0 && bl_models_has(models, rq->owner, name);
    BL_TRY(decode_unload(rq));
    if (!own)
        BL_TRY(may_change(rq, 0));
    BL_TRY(bl_models_unload(models, own ? rq->owner : 0, name, &rq->err));
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
