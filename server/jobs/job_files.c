/* SPDX-License-Identifier: MIT */
/* The files and rows of a job that survive a restart.
 *
 * FOLDER/jobs/ID/request.safetensors contains the document with all inputs and, in its metadata, the program.  STEP.safetensors
 * contains the state of the program after that step.  evaluation.safetensors contains a second program that evaluates, and the
 * states of this program.  The row of a checkpoint is written after its file, and the checkpoint is valid once the row
 * exists. */
#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "engine/base/log.h"
#include "proto/encode.h"
#include "proto/encode_program.h"
#include "proto/safetensors.h"
#include "server/access/access.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/grants.h"
#include "server/store/registry.h"
#include "server/store/stored_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- names */

job_file job_file_named(const bl_job *job, const char *name)
{
    job_file file;
    snprintf(file.name, sizeof file.name, "%s/%s", job->id, name);
    return file;
}

job_file job_checkpoint_file(const bl_job *job, uint64_t step, bool own)
{
    char name[48];
    snprintf(name, sizeof name, own ? "%llu.own.safetensors" : "%llu.safetensors", (unsigned long long)step);
    return job_file_named(job, name);
}

static uint64_t job_files_size_of(const bl_job *job, job_file file)
{
    return bl_stored_bytes(job->jobs->server, BL_STORED_JOB, file.name);
}

/* Count the request twice, as body and as inputs.  Count the state three times: twice for the program and once as read. */
size_t job_need(const bl_job *job)
{
    uint64_t state = job->files.nmarks > 0 ? job->files.marks[job->files.nmarks - 1].bytes : 0;
    return (size_t)(2 * job_files_size_of(job, job_file_named(job, JOB_REQUEST)) + 3 * state);
}

static void job_files_remove_file(const bl_job *job, job_file file)
{
    bl_stored_remove(job->jobs->server, BL_STORED_JOB, job->owner, file.name);
}

void job_remove_checkpoint(const bl_job *job, uint64_t step)
{
    job_files_remove_file(job, job_checkpoint_file(job, step, false));
    job_files_remove_file(job, job_checkpoint_file(job, step, true));
}

static bool job_files_is_known(const bl_job *job, const char *file)
{
    bool known =
        strcmp(file, job_file_named(job, JOB_REQUEST).name) == 0 || strcmp(file, job_file_named(job, JOB_EVALUATOR).name) == 0;
    for (int i = 0; i < job->files.nmarks && !known; i++)
        known = strcmp(file, job_checkpoint_file(job, job->files.marks[i].step, false).name) == 0 ||
                strcmp(file, job_checkpoint_file(job, job->files.marks[i].step, true).name) == 0;
    return known;
}

static void remove_any(void *arg, const char *name)
{
    job_files_remove_file(arg, job_file_named(arg, name));
}

/* Charge the file to the job's owner, and remove it unless a row of the job names it. */
static void sweep_file(void *arg, const char *name)
{
    const bl_job *job = arg;
    job_file file = job_file_named(job, name);
    bl_access_count_disk(job->jobs->server->access, job->owner, (int64_t)job_files_size_of(job, file));
    if (!job_files_is_known(job, file.name))
        job_files_remove_file(job, file);
}

static void job_files_remove_folder(bl_job *job)
{
    char *path = bl_stored_path(job->jobs->server, BL_STORED_JOB, job->id);
    bl_stored_each(job->jobs->server, BL_STORED_JOB, job->id, remove_any, job);
    if (path != NULL)
        (void)rmdir(path);
    free(path);
}

static void sweep_folder(void *arg, const char *name)
{
    bl_jobs *jobs = arg;
    bl_job *job = bl_namemap_get(jobs->names, name);
    if (strlen(name) != JOB_ID - 1) /* the folder does not belong to a job */
        return;
    if (job != NULL) {
        bl_stored_each(jobs->server, BL_STORED_JOB, name, sweep_file, job);
        return;
    }
    job = job_create(jobs); /* the folder of a job that was never registered */
    if (job == NULL)
        return;
    memcpy(job->id, name, JOB_ID);
    job_files_remove_folder(job);
    job_release(job);
}

void jobs_sweep(bl_jobs *jobs)
{
    bl_stored_each(jobs->server, BL_STORED_JOB, "", sweep_folder, jobs);
}

/* ---- files */

/* A file of tensors in parts: a header, and pointers to the data. */
typedef struct file_parts {
    bl_text head;
    size_t n;
    bl_file_tensor *tensors;
    uint64_t bytes, replaces; /* replaces: bytes of a file that is removed afterwards */
} file_parts;

static bl_status job_files_write_parts(void *arg, int fd, bl_err *err)
{
    const file_parts *parts = arg;
    bool good = bl_write_all(fd, parts->head.data, parts->head.len);
    for (size_t i = 0; i < parts->n && good; i++)
        good = parts->tensors[i].bytes == 0 || bl_write_all(fd, parts->tensors[i].data, parts->tensors[i].bytes);
    return good ? BL_OK : bl_fail(err, BL_ESTORAGE, "the file of a job cannot be written: %s", strerror(errno));
}

static bl_status write_file(const bl_job *job, job_file name, file_parts *parts, const bl_file_text *texts, size_t ntexts,
                            bl_err *err)
{
    bl_stored_file file = {.kind = BL_STORED_JOB,
                           .owner = job->owner,
                           .name = name.name,
                           .replaces = parts->replaces,
                           .write = job_files_write_parts,
                           .arg = parts};
    bl_status st = BL_OK;
    bl_safetensors_write(&parts->head, parts->tensors, parts->n, texts, ntexts);
    st = bl_text_status(&parts->head, err);
    parts->bytes = parts->head.len;
    for (size_t i = 0; i < parts->n; i++)
        parts->bytes += parts->tensors[i].bytes;
    file.bytes = parts->bytes;
    if (st == BL_OK)
        st = bl_stored_put(job->jobs->server, &file, NULL, err);
    bl_text_fini(&parts->head);
    return st;
}

/* The tensor of job_held_at as a tensor of a file. */
static bl_file_tensor held_tensor(const bl_job *job, int i, const char *name)
{
    const bl_device_tensor *held = job_held_at(job, i);
    bl_file_tensor t = {.name = name, .dtype = held->dtype, .ndim = held->ndim, .bytes = held->bytes};
    memcpy(t.dim, held->dim, sizeof t.dim);
    t.data = job->means.held_copies[i] != NULL ? job->means.held_copies[i] : bl_device_tensor_mapped(held);
    return t;
}

/* The bytes of the file of the oldest checkpoint, if the next checkpoint replaces it; else 0. */
static uint64_t dropped_bytes(const bl_job *job, bool own)
{
    uint64_t step = 0;
    bool drops = false;
    pthread_mutex_lock(&job->jobs->lock);
    drops = job->files.nmarks > 0 && job->files.nmarks >= job->ask.rule.keep;
    step = drops ? job->files.marks[0].step : 0;
    pthread_mutex_unlock(&job->jobs->lock);
    return drops ? job_files_size_of(job, job_checkpoint_file(job, step, own)) : 0;
}

/* Write |n| states.  |first| is the index of the first of them in the snapshot. */
static bl_status write_states(const bl_job *job, const bl_state *states, int n, int first, job_file name,
                              const bl_file_text *texts, size_t ntexts, uint64_t *bytes, bl_err *err)
{
    const job_snapshot *snap = &job->files.snapshot;
    file_parts parts = {.n = (size_t)n, .tensors = calloc((size_t)n + 1, sizeof *parts.tensors)};
    bl_status st = BL_OK;
    if (parts.tensors == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a checkpoint");
    for (int i = 0; i < n; i++) {
        const char *copy = snap->copies[first + i];
        parts.tensors[i] = bl_state_tensor(&states[i], copy != NULL ? copy : snap->buffers[first + i]->host);
    }
    parts.replaces = dropped_bytes(job, states == job->means.own);
    st = write_file(job, name, &parts, texts, ntexts, err);
    *bytes += parts.bytes;
    free(parts.tensors);
    return st;
}

bl_status job_write_checkpoint(bl_job *job, uint64_t *bytes, bl_err *err)
{
    const job_snapshot *snap = &job->files.snapshot;
    bl_text note = {0}, options = {0}, others = {0};
    const bl_plan *evaluates = job->means.evaluation.plan;
    char steps[24];
    bl_status st = BL_OK;
    snprintf(steps, sizeof steps, "%llu", (unsigned long long)snap->program_steps);
    bl_text_printf(&note, "%llu %d %llu %a", (unsigned long long)snap->step, snap->best.measured,
                   (unsigned long long)snap->best.waiting, snap->best.value);
    job_put_options(bl_plan_get_options(job->means.train.plan), &options);
    if (evaluates != NULL)
        job_put_options(bl_plan_get_options(evaluates), &others);
    bl_file_text texts[] = {{"job", job->id},
                            {"at", bl_text_get(&note)},
                            {"steps", steps},
                            {"options", bl_text_get(&options)},
                            {"moves", bl_plan_get_moves(job->means.train.plan)},
                            {"gather_moves", job->means.gather != NULL ? bl_plan_get_moves(job->means.gather) : ""},
                            {"evaluation_moves", evaluates != NULL ? bl_plan_get_moves(evaluates) : ""},
                            {"evaluation_options", bl_text_get(&others)}};
    *bytes = 0;
    st = bl_text_status(&note, err);
    if (st == BL_OK)
        st = bl_text_status(&options, err);
    if (st == BL_OK)
        st = bl_text_status(&others, err);
    if (st == BL_OK && job->means.nown > 0) /* this file is written first, because the other file completes the checkpoint */
        st = write_states(job, job->means.own, job->means.nown, job->means.program->nstates,
                          job_checkpoint_file(job, snap->step, true), texts, 1, bytes, err);
    if (st == BL_OK)
        st = write_states(job, job->means.program->states, job->means.program->nstates, 0,
                          job_checkpoint_file(job, snap->step, false), texts, sizeof texts / sizeof texts[0], bytes, err);
    bl_text_fini(&note);
    bl_text_fini(&options);
    bl_text_fini(&others);
    return st;
}

/* ---- the document */

static void job_files_put_names(const bl_job *job, const job_part *part, size_t prefix, bl_text *out)
{
    bl_encode_key(out, "every");
    bl_encode_u64(out, part->every);
    bl_text_puts(out, ",\"outputs\":[");
    for (int i = 0; i < part->ncollect; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, job->ask.columns[part->column + i] + prefix);
    }
    bl_text_puts(out, "]");
}

static void put_sizes(const job_part *part, bl_text *out)
{
    const bl_wire_graph *graph = &part->entry->graph;
    bl_encode_key(out, "sizes");
    bl_text_puts(out, "{");
    for (int i = 0; i < graph->nvars; i++) {
        bl_encode_key(out, graph->vars[i].name);
        bl_text_printf(out, "%lld", (long long)part->vars[i]);
    }
    bl_text_puts(out, "}");
}

static void put_evaluation(const bl_job *job, bl_text *out)
{
    if (job->means.evaluation.every == 0)
        return;
    bl_encode_key(out, "evaluate");
    bl_text_puts(out, "{");
    if (job->means.evaluator.name != NULL) {
        bl_encode_key(out, "program");
        bl_encode_string(out, job->means.evaluator.name);
    }
    bl_encode_key(out, "entry");
    bl_encode_string(out, job->means.evaluation.entry->name);
    put_sizes(&job->means.evaluation, out);
    job_files_put_names(job, &job->means.evaluation, strlen(JOB_EVALUATE), out);
    bl_text_puts(out, "}");
}

static void put_stop(const bl_job *job, bl_text *out)
{
    if (job->ask.stop.metric == NULL)
        return;
    bl_encode_key(out, "early_stop");
    bl_text_puts(out, "{");
    bl_encode_key(out, "metric");
    bl_encode_string(out, job->ask.stop.metric);
    bl_encode_key(out, "patience");
    bl_encode_u64(out, job->ask.stop.patience);
    bl_encode_key(out, "mode");
    bl_encode_string(out, job->ask.stop.maximise ? "max" : "min");
    bl_encode_key(out, "min_delta");
    bl_encode_number(out, job->ask.stop.min_delta);
    bl_text_puts(out, "}");
}

static void put_training(const bl_job *job, bl_text *out)
{
    const bl_training *t = &job->ask.training;
    if (t->passes > 1) {
        bl_encode_key(out, "accumulate");
        bl_encode_u64(out, (uint64_t)t->passes);
    }
    if (t->mixed) {
        bl_encode_key(out, "compute");
        bl_encode_string(out, bl_dtype_name(t->compute));
    }
    if (t->dynamic || t->mixed || t->scale > 0) {
        bl_encode_key(out, "loss_scale");
        if (t->dynamic)
            bl_encode_string(out, "dynamic");
        else
            bl_encode_number(out, t->scale > 0 ? t->scale : 1);
    }
}

static void put_request(const bl_job *job, bl_text *out)
{
    bl_text_puts(out, "{");
    bl_encode_key(out, "program");
    bl_encode_string(out, job->ask.program_name);
    bl_encode_key(out, "entry");
    bl_encode_string(out, job->ask.entry_name);
    bl_encode_key(out, "steps");
    bl_encode_u64(out, job->ask.steps);
    bl_encode_key(out, "priority");
    bl_text_printf(out, "%d", job->ask.priority);
    put_sizes(&job->means.train, out);
    if (job->means.train.every > 0) {
        bl_encode_key(out, "collect");
        bl_text_puts(out, "{");
        job_files_put_names(job, &job->means.train, 0, out);
        bl_text_puts(out, "}");
    }
    bl_encode_key(out, "checkpoint");
    bl_text_puts(out, "{");
    bl_encode_key(out, "keep");
    bl_text_printf(out, "%d", job->ask.rule.keep);
    if (job->ask.rule.every > 0) {
        bl_encode_key(out, "every");
        bl_encode_u64(out, job->ask.rule.every);
    }
    if (job->ask.rule.seconds > 0) {
        bl_encode_key(out, "seconds");
        bl_encode_number(out, job->ask.rule.seconds);
    }
    if (job->ask.rule.max_age > 0) {
        bl_encode_key(out, "max_age");
        bl_encode_number(out, job->ask.rule.max_age);
    }
    bl_text_puts(out, "}");
    put_evaluation(job, out);
    put_stop(job, out);
    put_training(job, out);
    bl_text_puts(out, "}");
}

static bl_status job_files_add_inputs(const bl_job *job, const job_part *part, const char *prefix, file_parts *parts, bl_err *err)
{
    for (int i = 0; i < part->ninputs; i++) {
        const char *name = bl_arena_printf(job->arena, "%s%s", prefix, part->entry->graph.inputs[i].name);
        BL_TRY(bl_arena_status(job->arena, err));
        parts->tensors[parts->n] = held_tensor(job, (int)parts->n, name);
        parts->n++;
    }
    return BL_OK;
}

void job_put_document(const char *request, const bl_file_tensor *inputs, size_t ninputs, bl_text *out)
{
    bl_text_append(out, request, strlen(request) - 1); /* without the closing brace */
    bl_encode_key(out, "inputs");
    bl_text_puts(out, "{");
    for (size_t i = 0; i < ninputs; i++) {
        bl_encode_key(out, inputs[i].name);
        bl_text_puts(out, "{");
        bl_encode_key(out, "dtype");
        bl_encode_string(out, bl_dtype_name(inputs[i].dtype));
        bl_encode_key(out, "shape");
        bl_text_puts(out, "[");
        for (int d = 0; d < inputs[i].ndim; d++)
            bl_text_printf(out, "%s%lld", d > 0 ? "," : "", (long long)inputs[i].dim[d]);
        bl_text_puts(out, "]}");
    }
    bl_text_puts(out, "}}");
}

/* Keep the document in memory, so that GET can return it while the server runs. */
static bl_status remember_document(bl_job *job, const char *request, const file_parts *parts, bl_err *err)
{
    bl_text document = {0};
    bl_status st = BL_OK;
    job_put_document(request, parts->tensors, parts->n, &document);
    st = bl_text_status(&document, err);
    if (st == BL_OK)
        job->ask.document = bl_arena_strndup(job->arena, document.data, document.len);
    bl_text_fini(&document);
    return st == BL_OK ? bl_arena_status(job->arena, err) : st;
}

/* Write the request file, if the server has a folder. */
static bl_status write_request(bl_job *job, bl_err *err)
{
    size_t n = (size_t)job_count_held(job);
    file_parts parts = {.tensors = calloc(n + 1, sizeof *parts.tensors)};
    bl_text request = {0}, program = {0};
    bl_status st = parts.tensors != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a job");
    put_request(job, &request);
    bl_encode_program(&program, &job->means.program->doc, job->ask.device);
    if (st == BL_OK)
        st = bl_text_status(&request, err);
    if (st == BL_OK)
        st = bl_text_status(&program, err);
    if (st == BL_OK)
        st = job_files_add_inputs(job, &job->means.train, "", &parts, err);
    if (st == BL_OK)
        st = job_files_add_inputs(job, &job->means.evaluation, JOB_EVALUATE, &parts, err);
    if (st == BL_OK)
        st = remember_document(job, bl_text_get(&request), &parts, err);
    if (st == BL_OK && job->jobs->folder != NULL) {
        bl_file_text texts[] = {{"request", bl_text_get(&request)}, {"program", bl_text_get(&program)}};
        st = write_file(job, job_file_named(job, JOB_REQUEST), &parts, texts, 2, err);
    }
    bl_text_fini(&request);
    bl_text_fini(&program);
    free(parts.tensors);
    return st;
}

static bl_status write_evaluator(bl_job *job, bl_err *err)
{
    const job_evaluator *other = &job->means.evaluator;
    file_parts parts = {.n = (size_t)other->nown, .tensors = calloc((size_t)other->nown + 1, sizeof *parts.tensors)};
    int first = job->means.train.ninputs + job->means.evaluation.ninputs;
    bl_text program = {0};
    bl_status st = parts.tensors != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a job");
    bl_encode_program(&program, &other->doc, job->ask.device);
    if (st == BL_OK)
        st = bl_text_status(&program, err);
    if (st == BL_OK) {
        bl_file_text text = {"program", bl_text_get(&program)};
        for (int i = 0; i < other->nown; i++)
            parts.tensors[i] = held_tensor(job, first + i, other->own[i].name);
        st = write_file(job, job_file_named(job, JOB_EVALUATOR), &parts, &text, 1, err);
    }
    bl_text_fini(&program);
    free(parts.tensors);
    return st;
}

bl_status job_keep_first(bl_job *job, bl_err *err)
{
    char *folder = bl_stored_path(job->jobs->server, BL_STORED_JOB, job->id);
    uint64_t bytes = 0;
    bl_status st = bl_storage_check(job->jobs->server->storage, err);
    if (folder != NULL && st == BL_OK && !bl_folder_make(folder))
        st = bl_fail(err, BL_ESTORAGE, "the folder of a job cannot be made: %s", strerror(errno));
    if (st == BL_OK)
        st = write_request(job, err);
    if (folder != NULL && st == BL_OK && job->means.evaluator.name != NULL)
        st = write_evaluator(job, err);
    if (folder != NULL && st == BL_OK)
        st = job_write_checkpoint(job, &bytes, err);
    if (st == BL_OK)
        st = job_insert(job, bytes, err);
    if (folder != NULL && st != BL_OK)
        job_files_remove_folder(job);
    job->files.need = st == BL_OK ? job_need(job) : 0;
    free(folder);
    return st;
}

bl_status job_forget(bl_job *job, bl_err *err)
{
    bl_grants *grants = bl_registry_grants(job->jobs->server->registry);
    bl_status st = BL_OK;
    bl_grants_hold(grants);
    st = bl_grants_drop(grants, job->owner, "job", job->id, err);
    bl_grants_let_go(grants);
    if (st != BL_OK)
        return st;
    BL_TRY(job_delete_rows(job, err));
    job_files_remove_folder(job);
    job_remove(job);
    return BL_OK;
}
