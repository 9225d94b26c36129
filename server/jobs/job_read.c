/* SPDX-License-Identifier: MIT */
/* Reading a job's files.  Thread: the writer's, unless stated otherwise. */
#include "engine/base/file.h"
#include "engine/base/mapped.h"
#include "proto/safetensors.h"
#include "server/jobs/jobs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bl_status job_open_file(const bl_job *job, job_file file, int *fd, uint64_t *bytes, bl_err *err)
{
    bl_err why = {0};
    if (bl_stored_open(job->jobs->server, BL_STORED_JOB, file.name, fd, bytes, &why) == BL_OK)
        return BL_OK;
    return bl_fail(err, why.status, "job %s: %s", job->id, why.text);
}

bl_status job_load_file(bl_request *rq, const bl_job *job, job_file file)
{
    int fd = -1;
    uint64_t bytes = 0;
    bl_status st = job_open_file(job, file, &fd, &bytes, &rq->err);
    char *body = st == BL_OK ? bl_request_make_body(rq, bytes, BL_MEDIA_SAFETENSORS) : NULL;
    if (st == BL_OK && body == NULL)
        st = rq->err.status;
    if (st == BL_OK && !bl_read_all(fd, body, bytes))
        st = bl_fail(&rq->err, BL_ESTORAGE, "a file of the job is incomplete");
    if (fd >= 0)
        (void)close(fd);
    return st;
}

/* Read the header of a safetensors file. */
static bl_status job_read_read_head(bl_request *rq, int fd, size_t bytes, bl_tensor_file *out)
{
    char first[8], *text = NULL;
    size_t size = 0;
    if (bytes < sizeof first || !bl_read_all(fd, first, sizeof first))
        return bl_fail(&rq->err, BL_ESTORAGE, "a file of the job is incomplete");
    BL_TRY(bl_safetensors_header_size(first, &size, &rq->err));
    if (size > bytes - sizeof first)
        return bl_fail(&rq->err, BL_ESTORAGE, "a file of the job is incomplete");
    text = bl_request_alloc(rq, size, "the head of a file");
    if (text == NULL)
        return rq->err.status;
    if (!bl_read_all(fd, text, size))
        return bl_fail(&rq->err, BL_ESTORAGE, "a file of the job is incomplete");
    return bl_safetensors_parse(rq->arena, (bl_span){text, size}, bytes - sizeof first - size, &rq->server->limits, out,
                                &rq->err);
}

bl_status job_load_document(bl_request *rq, const bl_job *job, bl_text *out)
{
    bl_tensor_file head = {0};
    const char *request = NULL;
    int fd = -1;
    uint64_t bytes = 0;
    bl_status st = job_open_file(job, job_file_named(job, JOB_REQUEST), &fd, &bytes, &rq->err);
    if (st == BL_OK)
        st = job_read_read_head(rq, fd, bytes, &head);
    if (fd >= 0)
        (void)close(fd);
    request = st == BL_OK ? bl_safetensors_text(&head, "request") : NULL;
    if (st == BL_OK && (request == NULL || *request == '\0'))
        st = bl_fail(&rq->err, BL_ESTORAGE, "a file of the job has no document");
    if (st == BL_OK)
        job_put_document(request, head.tensors, head.ntensors, out);
    return st;
}

static bl_status load_state(bl_request *rq, const bl_job *job, const bl_tensor_file *file, const bl_wire_tensor *state,
                            bl_device_tensor **out)
{
    const bl_file_tensor *found = NULL;
    bl_wire_type type;
    char *host = NULL;
    for (size_t i = 0; i < file->ntensors && found == NULL; i++)
        found = strcmp(file->tensors[i].name, state->name) == 0 ? &file->tensors[i] : NULL;
    if (found != NULL)
        type = bl_wire_type_make(found->dtype, found->ndim, found->dim);
    if (found == NULL || !bl_wire_type_same(&type, &state->type))
        return bl_fail(&rq->err, BL_ESTORAGE, "the file has no state \"%s\" of the shape that the program has", state->name);
    BL_TRY(bl_device_tensor_create(job->means.worker, found->dtype, found->ndim, found->dim, out, &rq->err));
    BL_TRY(bl_request_defer(rq, bl_device_tensor_release_any, *out));
    host = bl_device_tensor_host(*out);
    if (host == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a state of %zu bytes", found->bytes);
    memcpy(host, found->data, found->bytes);
    return BL_OK;
}

static bl_status job_read_take_text(bl_request *rq, const bl_tensor_file *file, const char *key, const char **out)
{
    const char *text = bl_safetensors_text(file, key);
    *out = bl_arena_strdup(rq->arena, text != NULL ? text : "");
    return bl_arena_status(rq->arena, &rq->err);
}

static bl_status read_states(bl_request *rq, const bl_job *job, const bl_tensor_file *file, const bl_state *states, int n,
                             bl_device_tensor **out)
{
    for (int i = 0; i < n; i++)
        BL_TRY(load_state(rq, job, file, &states[i].type, &out[i]));
    return BL_OK;
}

static bl_status read_checkpoint(bl_request *rq, bl_job *job, bl_span bytes, void *into)
{
    job_loaded *out = into;
    bl_tensor_file file;
    const char *at = NULL;
    unsigned long long step = 0, waiting = 0;
    int measured = 0;
    BL_TRY(bl_safetensors_open(rq->arena, bytes, &rq->server->limits, &file, &rq->err));
    at = bl_safetensors_text(&file, "at");
    if (at == NULL || sscanf(at, "%llu %d %llu %la", &step, &measured, &waiting, &out->best.value) != 4)
        return bl_fail(&rq->err, BL_ESTORAGE, "the file of the checkpoint lacks its position in the run");
    out->step = step;
    at = bl_safetensors_text(&file, "steps");
    out->program_steps = at != NULL ? strtoull(at, NULL, 10) : step;
    out->best.waiting = waiting;
    out->best.measured = measured != 0;
    BL_TRY(job_read_take_text(rq, &file, "moves", &out->moves));
    BL_TRY(job_read_take_text(rq, &file, "gather_moves", &out->gather));
    BL_TRY(job_read_take_text(rq, &file, "evaluation_moves", &out->others));
    BL_TRY(job_read_take_text(rq, &file, "options", &out->options));
    BL_TRY(job_read_take_text(rq, &file, "evaluation_options", &out->others_options));
    if (out->others_options[0] == '\0') /* a server whose jobs had one program wrote the file */
        out->others_options = out->options;
    return read_states(rq, job, &file, job->means.program->states, job->means.program->nstates, out->states);
}

static bl_status read_own(bl_request *rq, bl_job *job, bl_span bytes, void *out)
{
    bl_tensor_file file;
    BL_TRY(bl_safetensors_open(rq->arena, bytes, &rq->server->limits, &file, &rq->err));
    return read_states(rq, job, &file, job->means.own, job->means.nown, out);
}

/* Read the document of the evaluator into the job's arena. */
static bl_status read_evaluator(bl_request *rq, bl_job *job, bl_span bytes, void *x)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_decode_env env = bl_exec_env(x, job->arena, NULL);
    bl_tensor_file file;
    bl_json_doc doc = {0};
    const char *text = NULL;
    bl_status st = BL_OK;
    BL_TRY(bl_safetensors_open(rq->arena, bytes, &rq->server->limits, &file, &rq->err));
    text = bl_safetensors_text(&file, "program");
    if (text == NULL)
        return bl_fail(&rq->err, BL_ESTORAGE, "the file lacks the evaluation program");
    st = bl_json_parse(&doc, job->arena, (bl_span){text, strlen(text)}, &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &job->means.evaluator.doc, &rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

static bl_status read_evaluated(bl_request *rq, bl_job *job, bl_span bytes, void *unused)
{
    job_evaluator *other = &job->means.evaluator;
    bl_tensor_file file;
    (void)unused;
    BL_TRY(bl_safetensors_open(rq->arena, bytes, &rq->server->limits, &file, &rq->err));
    for (int i = 0; i < other->nown; i++) {
        bl_device_tensor *held = NULL;
        BL_TRY(load_state(rq, job, &file, &other->own[i], &held));
        other->held[i] = bl_device_tensor_retain(held);
    }
    return BL_OK;
}

static bl_status job_read_load_file(bl_request *rq, bl_job *job, job_file file, void *out,
                                    bl_status (*read)(bl_request *rq, bl_job *job, bl_span bytes, void *out))
{
    int fd = -1;
    uint64_t bytes = 0;
    bl_mapped files = {0};
    bl_span data = {0};
    bl_status st = job_open_file(job, file, &fd, &bytes, &rq->err);
    if (st == BL_OK)
        st = bl_mapped_add(&files, fd, "the checkpoint", &data, &rq->err);
    if (st == BL_OK)
        st = bl_mapped_check(&files, read(rq, job, data, out), &rq->err);
    bl_mapped_fini(&files);
    if (fd >= 0)
        (void)close(fd);
    return st;
}

bl_status job_load_checkpoint(bl_request *rq, bl_job *job, uint64_t step, job_loaded *out)
{
    out->states = bl_arena_array(rq->arena, (size_t)job->means.program->nstates + 1, sizeof(bl_device_tensor *));
    if (out->states == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    return job_read_load_file(rq, job, job_checkpoint_file(job, step, false), out, read_checkpoint);
}

bl_status job_load_own(bl_request *rq, bl_job *job, job_loaded *out)
{
    if (job->means.nown == 0)
        return BL_OK;
    out->own = bl_arena_array(rq->arena, (size_t)job->means.nown, sizeof(bl_device_tensor *));
    if (out->own == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    return job_read_load_file(rq, job, job_checkpoint_file(job, out->step, true), out->own, read_own);
}

bl_status job_load_evaluator(bl_exec *x, bl_job *job)
{
    return job_read_load_file(x->rq, job, job_file_named(job, JOB_EVALUATOR), x, read_evaluator);
}

bl_status job_load_evaluated(bl_request *rq, bl_job *job)
{
    return job->means.evaluator.nown > 0 ? job_read_load_file(rq, job, job_file_named(job, JOB_EVALUATOR), NULL, read_evaluated)
                                         : BL_OK;
}
