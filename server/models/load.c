/* SPDX-License-Identifier: MIT */
/* Loading a model on a loader thread: load each version that the policy wants and whose files differ from the published
 * version.  A version is published when it is complete.  Until then, and if it fails, the previous version serves. */
#include "server/models/models_internal.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/map.h"
#include "server/models/model_infer.h"
#include "server/models/pages.h"
#include "server/models/text_input.h"
#include "server/models/text_model.h"
#include "server/programs/variants.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOAD_BYTES = 64 * 1024 * 1024 };

typedef struct load {
    bl_models *models;
    int loader;
    bl_model_op *op;
    bl_arena *arena;
    bl_source source;
    bl_span config;
    bool replaced; /* true: |before| is the configuration of the previous load request */
    char *before;
    uint64_t unloads;                /* bl_model.unloads when loading began */
    const bl_model_version *drafted; /* a draft model is loaded for this model; NULL: no draft model is loaded */
    bl_err *err;
} load;

/* ---- requests of the loader */

/* The loader that waits for a request of its own; on its stack. */
typedef struct waiter {
    bl_models *models;
    int loader;
} waiter;

static void come_back(bl_request *rq)
{
    waiter *w = rq->own.arg;
    bl_models *models = w->models;
    int loader = w->loader;
    pthread_mutex_lock(&models->lock);
    models->back[loader] = true;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

static bl_request *make_own(load *l, waiter *w)
{
    bl_models *models = l->models;
    bl_request *rq = NULL;
    *w = (waiter){models, l->loader};
    rq = bl_request_create_own(models->server, l->op->owner, come_back, w);
    if (rq != NULL) {
        rq->own.asked = l->op->by == BL_BY_REQUEST && l->op->nfiles > 0;
        /* clients wait for the model; at a lower rank the request would never run on a device that is always busy */
        rq->item.rank = BL_RANK_INFER;
    }
    pthread_mutex_lock(&models->lock);
    models->back[l->loader] = false;
    models->own[l->loader] = rq;
    if (rq != NULL && models->stop)
        atomic_store(&rq->cancel, true);
    pthread_mutex_unlock(&models->lock);
    return rq;
}

static void load_wait_for(load *l)
{
    bl_models *models = l->models;
    pthread_mutex_lock(&models->lock);
    while (!models->back[l->loader])
        pthread_cond_wait(&models->changed, &models->lock);
    models->back[l->loader] = false;
    pthread_mutex_unlock(&models->lock);
}

/* End the request.  Its result is |st| and its own error. */
static bl_status load_end_own(load *l, bl_request *rq, bl_status st)
{
    bl_models *models = l->models;
    pthread_mutex_lock(&models->lock);
    models->own[l->loader] = NULL;
    pthread_mutex_unlock(&models->lock);
    if (st == BL_OK)
        st = rq->err.status;
    if (st != BL_OK && l->err->status == BL_OK)
        *l->err = rq->err;
    if (st != BL_OK && l->err->status == BL_OK)
        (void)bl_fail(l->err, st, "it could not be loaded");
    bl_request_end(rq);
    return st;
}

/* ---- one instance */

static bl_status read_part(load *l, bl_request *rq, uint64_t number, const char *part, bl_span *out)
{
    *out = (bl_span){0};
    if (l->op->nfiles == 0)
        return bl_source_read(rq, l->op->name, number, part, out);
    for (int i = 0; i < l->op->nfiles; i++)
        if (l->op->files[i].version == number && strcmp(l->op->files[i].name, part) == 0)
            *out = l->op->files[i].data;
    return BL_OK;
}

/* A range in the configuration overrides the range of the document. */
static bl_status load_set_range(bl_program_doc *doc, const bl_onnx_range *range, bl_err *err)
{
    bool found = false;
    for (int e = 0; e < doc->nentries; e++) {
        bl_wire_graph *graph = &doc->entries[e].graph;
        for (int i = 0; i < graph->nvars; i++) {
            if (strcmp(graph->vars[i].name, range->var.name) != 0)
                continue;
            found = true;
            graph->vars[i].lo = range->var.lo;
            graph->vars[i].hi = range->var.hi;
            graph->vars[i].step = range->var.step;
        }
    }
    if (range->same != NULL)
        return bl_fail(err, BL_EINVAL, "dims.%s of config.json: one dimension can be set to another only in an ONNX model",
                       range->var.name);
    return found ? BL_OK : bl_fail(err, BL_EINVAL, "dims.%s of config.json: model.json names no such dimension", range->var.name);
}

static bl_status decode_program(load *l, bl_program_make *make, uint64_t number, const bl_model_config *config)
{
    bl_request *rq = make->x->rq;
    bl_program *program = make->program;
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_tensor_file file = {0};
    bl_json_doc doc = {0};
    bl_span text, tensors;
    bl_status st = BL_OK;
    BL_TRY(read_part(l, rq, number, "model.json", &text));
    BL_TRY(read_part(l, rq, number, "model.safetensors", &tensors));
    if (text.data == NULL)
        return bl_fail(&rq->err, BL_ENOTFOUND, "version %llu has no model.json", (unsigned long long)number);
    if (tensors.data != NULL)
        BL_TRY(bl_safetensors_open(program->arena, tensors, &rq->server->limits, &file, &rq->err));
    st = bl_json_parse(&doc, program->arena, text, &limits, &rq->err);
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(make->x, program->arena, NULL);
        bl_json root = bl_json_root(&doc);
        env.binary = tensors.data != NULL ? &file : NULL;
        env.resolve = NULL; /* names of retained tensors are not resolved for a model */
        st = bl_decode_program(&env, &root, &program->doc, &rq->err);
    }
    bl_json_fini(&doc);
    for (int i = 0; st == BL_OK && i < config->ndims; i++)
        st = load_set_range(&program->doc, &config->dims[i], &rq->err);
    return st;
}

static bl_status decode_onnx(load *l, bl_program_make *make, bl_model_version *version, bl_mapped *files)
{
    bl_request *rq = make->x->rq;
    bl_span file;
    BL_TRY(read_part(l, rq, version->number, "model.onnx", &file));
    if (file.data == NULL)
        return bl_fail(&rq->err, BL_ENOTFOUND, "version %llu has no model.onnx", (unsigned long long)version->number);
    return bl_model_import_onnx(rq, make->program, version, file, l->op->nfiles == 0 ? files : NULL);
}

/* Read the tokenizer beside the program, for a model that generates text or tokenizes its inputs. */
static bl_status read_tokenizer(load *l, bl_request *rq, bl_model_version *version)
{
    bl_span file;
    if (version->text != NULL || version->words != NULL) /* read with the previous instance */
        return BL_OK;
    BL_TRY(read_part(l, rq, version->number, "tokenizer.json", &file));
    if (file.data == NULL)
        return BL_OK;
    return version->config.words.text != NULL ? bl_text_input_read(version, file, &rq->err)
                                              : bl_text_model_read(version, file, &rq->err);
}

static bl_status load_installed(bl_program_make *make, bl_err *err)
{
    bl_program **out = make->arg;
    (void)err;
    bl_program_retain(make->program);
    *out = make->program;
    return BL_OK;
}

static bl_status decode_model(load *l, bl_program_make *make, bl_model_version *version, bl_mapped *files)
{
    switch (version->origin.form) {
    case BL_MODEL_ONNX:
        return decode_onnx(l, make, version, files);
    case BL_MODEL_LLM:
        return bl_model_import_llm(make->x->rq, make->program, version, version->origin.path, files);
    case BL_MODEL_PROGRAM:
        break;
    }
    return decode_program(l, make, version->number, &version->config);
}

/* Call when the files are not read any more.  Returns |st|, unless reading the mapped files failed. */
static bl_status check_files(const load *l, bl_request *rq, const bl_mapped *files, bl_status st)
{
    if (st == BL_OK)
        st = rq->err.status;
    st = bl_mapped_check(files, st, &rq->err);
    return bl_mapped_check(&l->op->mapped, st, &rq->err);
}

static bl_status load_make_program(load *l, bl_model_version *version, bl_worker *worker, bl_program **out)
{
    waiter w;
    bl_request *rq = make_own(l, &w);
    bl_program_make *make = NULL;
    bl_mapped files = {0};
    bl_status st = BL_OK;
    *out = NULL;
    if (rq == NULL)
        return bl_fail(l->err, BL_ENOMEM, "out of host memory for loading a model");
    st = bl_program_make_create(rq, &make);
    if (st == BL_OK) {
        make->program->unpooled = true;
        make->installed = load_installed;
        make->arg = out;
        snprintf(make->program->name, sizeof make->program->name, "%s", l->op->name);
        st = decode_model(l, make, version, &files);
    }
    if (st == BL_OK)
        st = read_tokenizer(l, rq, version);
    if (st == BL_OK && version->origin.form == BL_MODEL_LLM) /* an imported program reads only the pages of its table */
        bl_pages_shrink(version, &make->program->doc);
    if (st == BL_OK)
        st = bl_program_make_begin(make, worker);
    if (st == BL_OK)
        load_wait_for(l);
    st = load_end_own(l, rq, check_files(l, rq, &files, st));
    bl_mapped_fini(&files);
    if (st != BL_OK) {
        bl_program_release(*out);
        *out = NULL;
    }
    return st;
}

bl_status bl_model_fill_instance(bl_model_version *version, bl_model_instance *instance, bl_err *err)
{
    int at = 0;
    const bl_program_doc *doc = &instance->slot.program->doc;
    if (instance->slot.program->variants != NULL) { /* plans of variants are compiled when the input values are known */
        instance->slot.graph = &bl_variants_entry(instance->slot.program->variants)->graph;
        return BL_OK;
    }
    BL_TRY(bl_decode_choose_entry(doc->entries, doc->nentries, version->config.entry, &at, err));
    instance->slot.entry = &instance->slot.program->entries[at];
    instance->slot.graph = &doc->entries[at].graph;
    instance->slot.plan = instance->slot.entry->plan;
    return BL_OK;
}

/* Remove the last instance. */
static void drop_instance(bl_model_version *version)
{
    bl_model_instance *last = &version->instances[--version->ninstances];
    bl_program_release(last->slot.program);
    *last = (bl_model_instance){0};
}

static bl_status add_instance(load *l, bl_model_version *version, bl_worker *worker)
{
    bl_model_instance *instance = &version->instances[version->ninstances];
    bl_status st = load_make_program(l, version, worker, &instance->slot.program);
    while (st != BL_OK && bl_model_narrow_ranges(version, l->err)) {
        *l->err = (bl_err){0};
        st = load_make_program(l, version, worker, &instance->slot.program);
    }
    BL_TRY(st);
    version->ninstances++; /* from here on the version frees the instance */
    for (int i = 0; i + 1 < version->ninstances; i++) {
        if (version->instances[i].slot.program->worker != instance->slot.program->worker)
            continue;
        if (worker == NULL &&
            /* the best device was another one when the placement was chosen */
            atomic_load(&l->models->server->drain.count) > 0) {
            drop_instance(version);
            return BL_OK;
        }
        return bl_fail(l->err, BL_EINVAL, "instance_group: %s is given twice; a device runs one instance of a model",
                       instance->slot.program->worker->dev->info.id);
    }
    return bl_model_fill_instance(version, instance, l->err);
}

/* Make an instance on each device that the configuration chooses; of a draft model on each device of its model. */
static bl_status add_instances(load *l, bl_model_version *version)
{
    bl_worker *workers[BL_MOST_INSTANCES];
    int count = l->drafted != NULL ? l->drafted->ninstances : 0;
    for (int i = 0; i < count; i++)
        workers[i] = l->drafted->instances[i].slot.program->worker;
    if (l->drafted == NULL)
        BL_TRY(bl_model_place(l->models->server, &version->config, workers, &count, l->err));
    version->instances = bl_arena_array(version->arena, (size_t)count, sizeof *version->instances);
    if (version->instances == NULL)
        return bl_arena_status(version->arena, l->err);
    for (int i = 0; i < count; i++)
        BL_TRY(add_instance(l, version, workers[i]));
    return BL_OK;
}

/* ---- exact plans */

static bl_status load_make_exact(load *l, bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    waiter w;
    bl_request *rq = make_own(l, &w);
    bl_status st = BL_OK;
    if (rq == NULL)
        return bl_fail(l->err, BL_ENOMEM, "out of host memory for a plan for runs of one size");
    st = bl_exact_begin(rq, version, instance, rows);
    if (st == BL_OK)
        load_wait_for(l);
    st = load_end_own(l, rq, st);
    bl_exact_answer(version, instance, rows);
    return st;
}

/* ---- one version */

/* Compile exact plans for the sizes of warm-up requests.  A failure is not an error, since the general plan also runs these
 * sizes. */
static void make_warm(load *l, bl_model_version *version, int64_t rows)
{
    for (int i = 0; i < version->ninstances; i++) {
        bl_err ignored = {0}, *err = l->err;
        bl_status st = BL_OK;
        l->err = &ignored;
        if (bl_exact_claim(version, &version->instances[i], rows))
            st = load_make_exact(l, version, &version->instances[i], rows);
        if (st != BL_OK)
            bl_log(BL_LOG_INFO, "model %s: %s", version->name, ignored.text);
        l->err = err;
    }
}

static bl_status warm(load *l, bl_model_version *version)
{
    const bl_model_config *config = &version->config;
    for (int i = 0; i < config->nwarmups; i++) {
        make_warm(l, version, config->warmups[i].batch_size);
        for (int64_t k = 0; k < config->warmups[i].count * version->ninstances; k++) {
            waiter w;
            bl_request *rq = make_own(l, &w);
            bl_status st = BL_OK;
            if (rq == NULL)
                return bl_fail(l->err, BL_ENOMEM, "out of host memory for warming up a model");
            st = bl_model_warm(rq, version, &version->instances[k % version->ninstances], &config->warmups[i]);
            if (st == BL_OK)
                load_wait_for(l);
            BL_TRY(load_end_own(l, rq, st));
        }
    }
    return BL_OK;
}

/* A run with proposed tokens pays by the plan of its number of rows, so these plans are not left to the runs of larger sizes
 * with the general plan.  Loaders compile them in the background. */
static void order_draft_plans(bl_model_version *version, int64_t most)
{
    for (int64_t rows = 1; rows <= most; rows *= 2)
        for (int i = 0; i < version->ninstances; i++)
            if (bl_exact_claim(version, &version->instances[i], rows))
                bl_exact_order(version, &version->instances[i], rows);
}

static bl_status load_version(load *l, const bl_source_version *from, bl_model_version **out);

/* Load the draft model from the folder of models.  It belongs to |version|, whether or not the folder's model is published. */
static bl_status load_draft(load *l, bl_model_version *version)
{
    const char *name = version->config.draft.name;
    bl_err problem = {0};
    bl_model_op op = {.owner = l->op->owner, .by = l->op->by, .purges = l->op->purges};
    load inner = {.models = l->models, .loader = l->loader, .op = &op, .arena = l->arena, .err = &problem, .drafted = version};
    bl_status st = BL_OK;
    if (bl_models_folder(l->models) == NULL || !bl_model_name_ok(name))
        return bl_fail(l->err, BL_EGRAPH, "parameters.draft: \"%.100s\" is not a model in the folder of models", name);
    snprintf(op.name, sizeof op.name, "%s", name);
    BL_TRY(bl_source_look(l->models, l->arena, name, &inner.source, l->err));
    if (inner.source.nversions == 0)
        return bl_fail(l->err, BL_EGRAPH, "parameters.draft: there is no model \"%s\" in the folder of models", name);
    inner.config = inner.source.config;
    st = load_version(&inner, &inner.source.versions[inner.source.nversions - 1], &version->draft);
    if (st != BL_OK)
        return bl_fail(l->err, st, "parameters.draft: model \"%s\": %s", name, problem.text);
    return bl_text_model_check_draft(version, version->draft, l->err);
}

static bl_status prepare_draft(load *l, bl_model_version *version)
{
    const bl_config_draft *draft = &version->config.draft;
    if (draft->name == NULL || l->drafted != NULL) /* the draft of a draft model is not used */
        return BL_OK;
    if (strcmp(draft->name, BL_DRAFT_NGRAM) != 0)
        BL_TRY(load_draft(l, version));
    order_draft_plans(version, draft->most + 1);
    if (version->draft != NULL)
        order_draft_plans(version->draft, 2); /* of one text, with the last token alone or with one before it */
    return BL_OK;
}

static bl_status fill_version(load *l, bl_model_version *version, const bl_source_version *from)
{
    version->origin = (bl_model_origin){.form = from->form,
                                        .fingerprint = from->fingerprint,
                                        .path = from->path != NULL ? bl_arena_strdup(version->arena, from->path) : NULL,
                                        .sent = bl_sent_retain(l->op->sent),
                                        .purges = l->op->purges};
    BL_TRY(bl_model_config_read(version->arena, version->name, l->config, &version->config, l->err));
    BL_TRY(add_instances(l, version));
    BL_TRY(bl_model_version_describe(version, l->err));
    BL_TRY(warm(l, version));
    return prepare_draft(l, version);
}

static bl_status load_version(load *l, const bl_source_version *from, bl_model_version **out)
{
    bl_model_version *version = bl_model_version_create(l->models, l->op->owner, l->op->name, from->number);
    bl_status st = BL_OK;
    *out = NULL;
    if (version == NULL)
        return bl_fail(l->err, BL_ENOMEM, "out of host memory for a version of a model");
    st = fill_version(l, version, from);
    if (st == BL_OK)
        *out = version;
    else
        bl_model_version_release(version);
    return st;
}

/* ---- rows of the index */

/* Under the lock. */
static bl_model_row *load_row_of(load *l, uint64_t number)
{
    bl_model *model = bl_models_need(l->models, l->op->owner, l->op->name);
    return model != NULL ? bl_model_need_row(model, number) : NULL;
}

/* Does the row keep its version?  A version that was made of a program survives the initial loads, and reloads after the loss
 * of a device. */
static bool stays(const load *l, const bl_model_row *row)
{
    return (l->op->by == BL_BY_START || l->op->kind == BL_MODEL_OP_MEND) && row != NULL && row->version != NULL &&
           row->version->origin.kept != 0;
}

/* Is the published version up to date with its files?  If not, the row becomes BL_MODEL_LOADING. */
static bool load_is_current(load *l, const bl_source_version *from)
{
    bl_model_row *row = NULL;
    bool current = false;
    pthread_mutex_lock(&l->models->lock);
    row = load_row_of(l, from->number);
    current = row != NULL && row->version != NULL && row->version->origin.fingerprint == from->fingerprint &&
              l->op->nfiles == 0 && !bl_model_version_lacks_any(row->version);
    /* the version was unloaded since the job was ordered */
    current = current || stays(l, row) || (l->op->kind == BL_MODEL_OP_MEND && (row == NULL || row->version == NULL));
    if (!current && row != NULL && row->version == NULL) {
        row->state = BL_MODEL_LOADING;
        row->reason[0] = '\0';
    }
    pthread_mutex_unlock(&l->models->lock);
    return current;
}

/* Unload the versions that the policy does not want any more. */
static void load_drop_others(load *l, const bl_model_config *config)
{
    bl_model_version *gone[BL_MOST_VERSIONS];
    bl_model *model = NULL;
    int n = 0, left = 0;
    pthread_mutex_lock(&l->models->lock);
    model = bl_models_find(l->models, l->op->owner, l->op->name);
    for (int i = 0; model != NULL && i < model->nrows; i++) {
        bl_model_row *row = &model->rows[i];
        bool wanted = stays(l, row);
        for (int k = 0; k < l->source.nversions && !wanted; k++)
            wanted = l->source.versions[k].number == row->number &&
                     bl_config_versions_want(&config->versions, row->number, (uint64_t)(l->source.nversions - 1 - k));
        if (wanted)
            model->rows[left++] = *row;
        else if (row->version != NULL && n < BL_MOST_VERSIONS)
            gone[n++] = row->version;
    }
    if (model != NULL)
        model->nrows = left;
    pthread_mutex_unlock(&l->models->lock);
    for (int i = 0; i < n; i++)
        bl_model_version_retire(gone[i]);
}

/* ---- the whole load */

/* At the start of the server, log how many of the models have been loaded. */
static void load_tell_ready(const load *l, uint64_t number, double seconds)
{
    bl_models *models = l->models;
    char progress[48] = "";
    pthread_mutex_lock(&models->lock);
    if (l->op->by == BL_BY_START)
        snprintf(progress, sizeof progress, " (%d of %d models)", models->nstart - models->to_start + 1, models->nstart);
    pthread_mutex_unlock(&models->lock);
    bl_log(BL_LOG_INFO, "model %s, version %llu is ready, loaded in %.1f s%s", l->op->name, (unsigned long long)number, seconds,
           progress);
}

static bl_status load_one(load *l, const bl_source_version *from)
{
    bl_model_version *version = NULL;
    bl_err problem = {0}, *outer = l->err;
    char text[sizeof problem.text];
    int64_t begin = bl_clock_ns();
    bl_status st = BL_OK;
    if (load_is_current(l, from))
        return BL_OK;
    l->err = &problem;
    bl_log(BL_LOG_INFO, "model %s, version %llu: loading", l->op->name, (unsigned long long)from->number);
    st = load_version(l, from, &version);
    l->err = outer;
    if (st == BL_OK && l->op->kind == BL_MODEL_OP_MEND)
        bl_models_mend(l->models, version);
    else if (st == BL_OK)
        st = bl_models_publish(l->models, version, &l->unloads, &problem);
    if (st == BL_OK) {
        load_tell_ready(l, from->number, bl_clock_ms(begin, bl_clock_ns()) * 1e-3);
        return BL_OK;
    }
    bl_models_publish_failure(l->models, l->op->owner, l->op->name, from->number, &problem);
    l->op->told = true;
    bl_err_describe(&problem, text, sizeof text);
    return bl_fail(outer, problem.status, "version %llu: %s", (unsigned long long)from->number, text);
}

static bl_status load_all(load *l)
{
    bl_model_config config;
    bl_err *err = l->err;
    int wanted = 0;
    BL_TRY(bl_model_config_read(l->arena, l->op->name, l->config, &config, err));
    for (int i = 0; i < l->source.nversions; i++) {
        bl_err problem = {0};
        if (!bl_config_versions_want(&config.versions, l->source.versions[i].number, (uint64_t)(l->source.nversions - 1 - i)))
            continue;
        wanted++;
        l->err = &problem;
        if (load_one(l, &l->source.versions[i]) != BL_OK && err->status == BL_OK)
            *err = problem; /* the other versions are loaded nevertheless */
        l->err = err;
    }
    if (l->source.nversions == 0)
        return bl_fail(err, BL_EGRAPH,
                       "the model has no version: its folder must have a folder named by a number from 1 on with a model.json or "
                       "model.onnx, a GGUF file, or the files of a Hugging Face model");
    if (wanted == 0)
        return bl_fail(err, BL_EGRAPH, "the version policy selects none of the model's versions");
    if (err->status == BL_OK && l->op->kind != BL_MODEL_OP_MEND)
        load_drop_others(l, &config);
    return err->status;
}

/* Record the attempt in the registry, and choose the configuration: of the request, else of the previous load request, else of
 * the file. */
static bl_status load_begin(load *l)
{
    bl_models *models = l->models;
    bl_model *model = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&models->lock);
    model = bl_models_need(models, l->op->owner, l->op->name);
    if (model == NULL) {
        st = bl_fail(l->err, BL_ENOMEM, "out of host memory for the list of models");
    } else {
        l->unloads = model->unloads;
        if (l->op->config != NULL || l->op->by != BL_BY_SERVER) {
            l->before = model->config;
            model->config = l->op->config;
            l->op->config = NULL;
            l->replaced = true;
        }
        model->fingerprint = l->source.fingerprint;
        model->wanted = l->op->nfiles == 0;
        l->config = l->source.config;
        if (model->config != NULL) {
            uint64_t hash = bl_hash_bytes(model->config, strlen(model->config), 1);
            char *text = bl_arena_strdup(l->arena, model->config);
            l->config = (bl_span){text, text != NULL ? strlen(text) : 0};
            for (int i = 0; i < l->source.nversions; i++)
                l->source.versions[i].fingerprint = bl_hash_add(l->source.versions[i].fingerprint, hash);
        }
    }
    pthread_mutex_unlock(&models->lock);
    return st == BL_OK ? bl_arena_status(l->arena, l->err) : st;
}

/* Under the lock: record that a request loaded the model, so that the model is loaded again after a restart.  Fails if another
 * request unloaded the model meanwhile. */
static bl_status load_decide(load *l, bl_model *model, bl_sent **old)
{
    if (l->op->by != BL_BY_REQUEST)
        return BL_OK;
    BL_TRY(bl_model_check_unloads(model, l->unloads, l->err));
    *old = model->sent;
    model->choice = l->op->nfiles == 0 || bl_sent_file(l->op->sent) != NULL ? BL_CHOICE_LOADED : BL_CHOICE_NONE;
    model->sent = bl_sent_file(l->op->sent) != NULL ? bl_sent_retain(l->op->sent) : NULL;
    return BL_OK;
}

/* Under the lock: clear the reasons of earlier failures. */
static void forget_failures(bl_model *model)
{
    for (int i = 0; i < model->nrows; i++)
        if (model->rows[i].version != NULL)
            model->rows[i].reason[0] = '\0';
}

/* Restore the previous configuration if the load failed. */
static bl_status load_end(load *l, bl_status st)
{
    char *other = l->before;
    bl_model *model = NULL;
    bl_sent *old = NULL;
    pthread_mutex_lock(&l->models->lock);
    model = bl_models_find(l->models, l->op->owner, l->op->name);
    if (st == BL_OK)
        st = load_decide(l, model, &old);
    if (st == BL_OK && l->op->kind != BL_MODEL_OP_MEND && model != NULL)
        forget_failures(model);
    if (l->replaced && st != BL_OK && model != NULL) {
        other = model->config;
        model->config = l->before;
    }
    pthread_mutex_unlock(&l->models->lock);
    bl_sent_release(old);
    free(other);
    return st;
}

/* Write the files of a request to disk, for a restart and for the loss of a device.  A reload reads them from there. */
static bl_status keep_files(load *l)
{
    bl_server *server = l->models->server;
    bl_err why = {0};
    bl_status st = BL_OK;
    if (l->op->sent != NULL)
        return bl_mapped_check(&l->op->mapped, bl_sent_read(l->op->sent, l->op, l->err), l->err);
    if (l->op->nfiles > 0)
        st = bl_sent_create(server, l->op, &l->op->sent, &why);
    if (st != BL_OK && bl_storage_folder(server->storage) != NULL)
        return bl_fail(l->err, why.status, "%s", why.text);
    if (st != BL_OK)
        bl_log(BL_LOG_WARN, "model %s cannot be loaded again after the loss of a device: %s", l->op->name, why.text);
    return BL_OK;
}

/* Write the choice to the store.  The model serves even if this fails. */
static bl_status load_write_down(load *l)
{
    bl_err why = {0};
    if (l->op->by != BL_BY_REQUEST || bl_model_write_choice(l->models, l->op->owner, l->op->name, &why) == BL_OK)
        return BL_OK;
    return bl_fail(l->err, why.status, "the model is ready, but will not be loaded after a restart: %s", why.text);
}

static bl_status load_run(load *l)
{
    bl_status st = BL_OK;
    BL_TRY(bl_access_check_owner(l->models->server->access, l->op->owner, l->op->purges, l->err));
    if (l->op->by == BL_BY_REQUEST && l->op->nfiles > 0)
        BL_TRY(bl_models_admit(l->models, l->op->owner, l->op->name, l->err));
    BL_TRY(keep_files(l));
    if (l->op->nfiles > 0)
        BL_TRY(bl_source_of_files(l->arena, l->op, &l->source, l->err));
    else
        BL_TRY(bl_source_look(l->models, l->arena, l->op->name, &l->source, l->err));
    if (!l->source.found)
        return bl_fail(l->err, BL_ENOTFOUND, "there is no model \"%s\" in the folder of models", l->op->name);
    st = load_begin(l);
    BL_TRY(load_end(l, st == BL_OK ? load_all(l) : st));
    return load_write_down(l);
}

void bl_model_load(bl_models *models, int loader, bl_model_op *op, bl_err *err)
{
    load l = {.models = models, .loader = loader, .op = op, .err = err, .arena = bl_arena_create(LOAD_BYTES)};
    bl_status st = l.arena == NULL ? bl_fail(err, BL_ENOMEM, "out of host memory for loading a model") : BL_OK;
    if (st == BL_OK)
        switch (op->kind) {
        case BL_MODEL_OP_LOAD:
        case BL_MODEL_OP_MEND:
            st = load_run(&l);
            break;
        case BL_MODEL_OP_MEND_KEPT:
            st = bl_models_mend_kept(models, op->kept, err);
            break;
        case BL_MODEL_OP_COMPILE:
            st = load_make_exact(&l, op->version, op->instance, op->rows);
            break;
        }
    (void)st;
    bl_arena_destroy(l.arena);
}
