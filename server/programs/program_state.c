/* SPDX-License-Identifier: MIT */
#include "server/http/handlers.h"
#include "server/jobs/jobs.h"
#include "server/programs/variants.h"
#include "server/run/exec.h"
#include "server/run/reply.h"

#include <stdlib.h>
#include <string.h>

/* ---- GET: between two runs the buffers are retained, or copied if the host does not see them.  The answer is printed later
 * while the program may run on: a run exchanges buffers and does not write into retained ones. */

typedef struct get_job {
    bl_program *program;
    bl_buffer **buffers;
    char **copies;
} get_job;

static void end_get(void *arg)
{
    get_job *job = arg;
    for (int i = 0; i < job->program->nstates; i++)
        bl_pool_release(job->program->worker->pool, job->buffers[i]);
}

static bl_step program_state_take_state(bl_request *rq)
{
    get_job *job = rq->data;
    if (bl_program_check(job->program, &rq->err) != BL_OK || bl_program_wake(job->program, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    for (int i = 0; i < job->program->nstates; i++) {
        const bl_state *state = &job->program->states[i];
        job->buffers[i] = bl_buffer_retain(state->buffer);
        if (state->buffer->host != NULL)
            continue;
        job->copies[i] = bl_request_alloc(rq, state->bytes, "a state");
        if (job->copies[i] == NULL || bl_buffer_read(state->buffer, 0, job->copies[i], state->bytes, &rq->err) != BL_OK)
            return BL_STEP_DONE;
    }
    return BL_STEP_DONE;
}

static void program_state_put_document(bl_text *out, const bl_result *results, int count, bool data)
{
    bl_text_puts(out, "{");
    bl_encode_key(out, "state");
    bl_encode_results(out, results, (size_t)count, data);
    bl_text_puts(out, "}");
}

static bl_status reply_state(bl_request *rq)
{
    get_job *job = rq->data;
    int count = job->program->nstates;
    bl_result *results = bl_arena_array(rq->arena, (size_t)count + 1, sizeof *results);
    const char *document = NULL;
    if (results == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < count; i++) {
        const bl_state *state = &job->program->states[i];
        results[i] = (bl_result){.name = state->type.name, .dtype = state->type.type.dtype, .ndim = state->type.type.ndim};
        bl_wire_type_sizes(&state->type.type, results[i].dim);
        results[i].count = state->bytes / bl_dtype_bytes(state->type.type.dtype);
        results[i].data = job->copies[i] != NULL ? job->copies[i] : job->buffers[i]->host;
    }
    if (!bl_request_accepts(rq, "application/x-safetensors")) {
        program_state_put_document(&rq->reply.out, results, count, true);
        bl_request_reply_json(rq, 200);
        return BL_OK;
    }
    program_state_put_document(&rq->reply.out, results, count, false);
    BL_TRY(bl_text_status(&rq->reply.out, &rq->err));
    document = bl_arena_strndup(rq->arena, rq->reply.out.data, rq->reply.out.len);
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    return bl_reply_safetensors(rq, results, (size_t)count, "response", document);
}

bl_status bl_handle_state_get(bl_request *rq)
{
    get_job *job = bl_arena_alloc(rq->arena, sizeof *job);
    size_t elements = 0;
    if (job == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_program_find(rq, true, &job->program));
    BL_TRY(bl_program_check(job->program, &rq->err));
    job->buffers = bl_arena_array(rq->arena, (size_t)job->program->nstates + 1, sizeof(bl_buffer *));
    job->copies = bl_arena_array(rq->arena, (size_t)job->program->nstates + 1, sizeof(char *));
    if (job->buffers == NULL || job->copies == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_request_defer(rq, end_get, job));
    for (int i = 0; i < job->program->nstates; i++)
        elements += job->program->states[i].bytes / bl_dtype_bytes(job->program->states[i].type.type.dtype);
    BL_TRY(bl_reply_check_list(rq, elements, &rq->err));
    rq->data = job;
    rq->then = reply_state;
    return bl_request_submit(rq, job->program->worker->queue, program_state_take_state, &job->program->serial);
}

/* ---- PUT: all states at once, between two runs */

static bl_step replace_state(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_program *program = x->hold.program;
    if (bl_program_check(program, &rq->err) != BL_OK || bl_program_wake(program, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    if (rq->own.done == NULL && bl_jobs_guard(rq->server->jobs, rq->owner, program->name, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    for (int i = 0; i < program->nstates; i++)
        if (bl_device_tensor_flush(x->in.tensors[i], &rq->err) != BL_OK)
            return BL_STEP_DONE;
    for (int i = 0; i < program->nstates; i++) {
        bl_state *state = &program->states[i];
        bl_pool_release(program->worker->pool, state->buffer);
        bl_device_tensor_release(state->shared);
        state->shared = NULL;
        state->buffer = bl_buffer_retain(x->in.tensors[i]->buffer);
    }
    atomic_fetch_add(&program->replaced, 1);
    return BL_STEP_DONE;
}

static bl_status decode_state(bl_exec *x, bl_tensor_value **values)
{
    bl_request *rq = x->rq;
    bl_program *program = x->hold.program;
    bl_wire_tensor *types = bl_arena_array(rq->arena, (size_t)program->nstates + 1, sizeof *types);
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    bl_status st = BL_OK;
    if (types == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < program->nstates; i++)
        types[i] = program->states[i].type;
    st = bl_exec_document(x, rq->arena, true, &doc, &file);
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(x, rq->arena, &file);
        bl_json root = bl_json_root(&doc);
        env.infer = NULL; /* a state takes values, not initialisers */
        st = bl_decode_state(&env, &root, types, program->nstates, values, &rq->err);
    }
    bl_json_fini(&doc);
    for (int i = 0; st == BL_OK && i < program->nstates; i++)
        if ((*values)[i].share)
            st = bl_fail(&rq->err, BL_EGRAPH, "state \"%s\": a state can be set to a shared tensor only by PUT of the program",
                         types[i].name);
    return st;
}

static bl_status reply_replaced(bl_request *rq)
{
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

bl_status bl_program_put_state(bl_request *rq, bl_program *program)
{
    bl_run_options options = {.debug = -1, .beam = -1, .precision = -1};
    bl_tensor_value *values = NULL;
    bl_exec *x = NULL;
    BL_TRY(bl_program_check(program, &rq->err));
    BL_TRY(bl_variants_refuse(program, "its state is constant", &rq->err));
    BL_TRY(bl_exec_create(rq, &x));
    x->hold.program = program;
    BL_TRY(decode_state(x, &values));
    BL_TRY(bl_exec_choose(x, &options, program->worker));
    BL_TRY(bl_exec_load(x, program->nstates, values, true));
    x->serial = &program->serial;
    x->work = replace_state;
    rq->then = reply_replaced;
    return bl_exec_advance(x);
}

bl_status bl_handle_state_put(bl_request *rq)
{
    bl_program *program = NULL;
    BL_TRY(bl_program_find(rq, false, &program));
    return bl_program_put_state(rq, program);
}
