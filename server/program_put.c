/* SPDX-License-Identifier: MIT */
/* PUT of a program: decoded on the HTTP thread, all entries and initialisers compiled by the compiler, its state made by the
 * device's worker, and only then known under its name. */
#include "server/exec.h"
#include "server/handlers.h"
#include "server/shelf.h"

#include <stdio.h>
#include <string.h>

typedef struct put_job {
    bl_exec *x; /* whose inputs are the values of the document's state */
    bl_program *program;
    bl_plan **made;                /* of the states that an initialiser makes; else NULL */
    const bl_plan_tensor **hidden; /* of the program's states, those that no document names */
    bool fresh, replaced;
} put_job;

static put_job *job_of(bl_exec *x)
{
    return x->extra;
}

static void end_put(void *arg)
{
    put_job *job = arg;
    for (int i = 0; job->made != NULL && i < job->program->doc.nstates; i++)
        if (job->made[i] != NULL)
            bl_plan_release(job->made[i]);
    bl_program_release(job->program);
}

/* ---- on the HTTP thread */

static bl_status decode(put_job *job)
{
    bl_request *rq = job->x->rq;
    bl_program *program = job->program;
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    bl_status st = bl_exec_document(job->x, program->arena, false, &doc, &file); /* whose names the program keeps */
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(job->x, program->arena, &file);
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program->doc, &rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

/* A state by reference is somebody else's too. */
static bl_status check_shared(const bl_program_doc *doc, bl_err *err)
{
    for (int i = 0; i < doc->nstates; i++) {
        if (doc->values[i].kind != BL_VALUE_HELD || !doc->values[i].share)
            continue;
        for (int e = 0; e < doc->nentries; e++)
            for (int u = 0; u < doc->entries[e].graph.nupdates; u++)
                if (strcmp(doc->entries[e].graph.updates[u].name, doc->states[i].name) == 0)
                    return bl_fail(err, BL_EGRAPH, "state \"%s\" is shared, hence read-only, but entry \"%s\" updates it",
                                   doc->states[i].name, doc->entries[e].name);
    }
    return BL_OK;
}

/* ---- on a compile thread */

/* The kernels of initialisers go to the drivers' compilers with those of the first entry: each is small, and by itself would take
 * longer than with them. */
static bl_status gather_initialisers(put_job *job, bl_err *err)
{
    const bl_program_doc *doc = &job->program->doc;
    for (int i = 0; i < doc->nstates; i++) {
        bl_wire_key key;
        if (doc->values[i].kind != BL_VALUE_MADE)
            continue;
        BL_TRY(bl_exec_key(job->x, doc->values[i].graph, false, &key));
        BL_TRY(bl_exec_gather(job->x, &key, doc->values[i].graph, false, err));
    }
    return BL_OK;
}

static bl_status compile_entries(put_job *job, bl_err *err)
{
    bl_program *program = job->program;
    BL_TRY(gather_initialisers(job, err));
    for (int i = 0; i < program->doc.nentries; i++) {
        const bl_wire_graph *graph = &program->doc.entries[i].graph;
        bl_wire_key key;
        bool hit = false;
        BL_TRY(bl_exec_key(job->x, graph, true, &key));
        BL_TRY(bl_exec_make_plan(job->x, &key, graph, true, &program->entries[i].plan, &hit, err));
    }
    job->x->beam = 0; /* what runs once need not be searched */
    for (int i = 0; i < program->doc.nstates; i++) {
        bl_wire_key key;
        bool hit = false;
        if (program->doc.values[i].kind != BL_VALUE_MADE)
            continue;
        BL_TRY(bl_exec_key(job->x, program->doc.values[i].graph, false, &key));
        BL_TRY(bl_exec_make_plan(job->x, &key, program->doc.values[i].graph, false, &job->made[i], &hit, err));
    }
    return BL_OK;
}

static bool same_type(const bl_wire_type *a, const bl_wire_type *b)
{
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->dim[i].size == b->dim[i].size;
    return same;
}

/* The number of the hidden state |tensor| among the program's: entries share those of one name. */
static bl_status find_hidden(put_job *job, const bl_plan_tensor *tensor, int *out, bl_err *err)
{
    bl_program *program = job->program;
    bl_wire_type type = {.dtype = tensor->dtype, .ndim = tensor->ndim};
    int64_t dim[BL_HELD_DIMS] = {0}, no_vars[BL_WIRE_MAX_DIMS] = {0};
    bl_plan_sizes(tensor, no_vars, dim); /* it outlives every request, so no named dimension is in it */
    for (int d = 0; d < tensor->ndim; d++)
        type.dim[d] = (bl_wire_dim){dim[d], -1};
    for (int i = 0; i < program->nstates; i++) {
        if (strcmp(program->states[i].type.name, tensor->name) != 0)
            continue;
        *out = i;
        if (i < program->doc.nstates)
            return bl_fail(err, BL_EGRAPH, "state \"%s\" has the name of what an optimiser remembers", tensor->name);
        if (!same_type(&program->states[i].type.type, &type))
            return bl_fail(err, BL_EGRAPH, "the entries want state \"%s\" in different shapes or dtypes", tensor->name);
        return BL_OK;
    }
    *out = program->nstates++;
    program->states[*out].type.name = bl_arena_strdup(program->arena, tensor->name);
    program->states[*out].type.type = type;
    job->hidden[*out] = tensor;
    return bl_arena_status(program->arena, err);
}

/* All state of the program, and which of it each entry has. */
static bl_status lay_out(put_job *job, bl_err *err)
{
    bl_program *program = job->program;
    size_t most = (size_t)program->doc.nstates;
    for (int i = 0; i < program->doc.nentries; i++)
        most += (size_t)bl_plan_get_info(program->entries[i].plan)->nhidden;
    program->states = bl_arena_array(program->arena, most + 1, sizeof *program->states);
    job->hidden = bl_arena_array(job->x->rq->arena, most + 1, sizeof *job->hidden);
    if (program->states == NULL || job->hidden == NULL)
        return bl_fail(err, BL_ENOMEM, "a program of %zu states", most);
    for (; program->nstates < program->doc.nstates; program->nstates++)
        program->states[program->nstates].type = program->doc.states[program->nstates];
    for (int i = 0; i < program->doc.nentries; i++) {
        const bl_plan_info *info = bl_plan_get_info(program->entries[i].plan);
        bl_program_entry_state *entry = &program->entries[i];
        entry->nstates = info->nstates + info->nhidden;
        entry->state = bl_arena_array(program->arena, (size_t)entry->nstates + 1, sizeof *entry->state);
        if (entry->state == NULL)
            return bl_arena_status(program->arena, err);
        for (int s = 0; s < info->nstates; s++)
            entry->state[s] = s;
        for (int h = 0; h < info->nhidden; h++)
            BL_TRY(find_hidden(job, &info->hidden[h], &entry->state[info->nstates + h], err));
    }
    return BL_OK;
}

static bl_status compile(bl_exec *x, bl_err *err)
{
    put_job *job = job_of(x);
    BL_TRY(compile_entries(job, err));
    return lay_out(job, err);
}

/* ---- on the device's thread */

/* Run an initialiser.  What draws without a seed of its own gets one by its number, so that two of them differ. */
static bl_status make_state(put_job *job, int i, bl_buffer **out, bl_err *err)
{
    bl_worker *worker = job->program->worker;
    const bl_plan_info *info = bl_plan_get_info(job->made[i]);
    bl_buffer **states = bl_arena_array(job->x->rq->arena, (size_t)info->nhidden + 1, sizeof(bl_buffer *));
    int64_t no_vars[BL_WIRE_MAX_DIMS] = {0}, dim[BL_HELD_DIMS] = {0};
    size_t bytes = 0;
    bl_status st = BL_OK;
    if (states == NULL)
        return bl_arena_status(job->x->rq->arena, err);
    for (int h = 0; h < info->nhidden && st == BL_OK; h++) {
        bl_plan_sizes(&info->hidden[h], no_vars, dim);
        st = bl_state_begin(worker, &info->hidden[h], dim, job->x->options.seed + (uint64_t)i * 0x9e3779b9U, &states[h], &bytes,
                            err);
    }
    if (st == BL_OK) {
        bl_run run = {.plan = job->made[i],
                      .pool = worker->pool,
                      .vars = no_vars,
                      .states = states,
                      .outputs = out,
                      .steps = 1,
                      .cancel = &job->x->rq->cancel,
                      .deadline_ns = job->x->rq->deadline_ns};
        st = bl_plan_run(&run, err);
    }
    for (int h = 0; h < info->nhidden; h++)
        bl_pool_release(worker->pool, states[h]);
    return st;
}

static bl_status fill_state(put_job *job, int i, bl_err *err)
{
    bl_state *state = &job->program->states[i];
    bl_worker *worker = job->program->worker;
    int64_t dim[BL_HELD_DIMS] = {0};
    size_t count = 0;
    for (int d = 0; d < state->type.type.ndim; d++)
        dim[d] = state->type.type.dim[d].size;
    BL_TRY(bl_tensor_measure(state->type.name, state->type.type.dtype, state->type.type.ndim, dim, &worker->server->limits,
                             &count, &state->bytes, err));
    if (job->hidden[i] != NULL)
        return bl_state_begin(worker, job->hidden[i], dim, job->x->options.seed, &state->buffer, &state->bytes, err);
    if (job->made[i] != NULL) /* hidden ones are past its end, but went above */
        return make_state(job, i, &state->buffer, err);
    if (job->program->doc.values[i].share)
        state->shared = bl_held_retain(job->x->inputs[i]);
    else
        BL_TRY(bl_held_flush(job->x->inputs[i], err));
    state->buffer = bl_buffer_retain(job->x->inputs[i]->buffer);
    return BL_OK;
}

static bl_status install(put_job *job, bl_err *err)
{
    bl_program *program = job->program;
    bl_request *rq = job->x->rq;
    size_t bytes = 0;
    program->generation = job->x->generation;
    BL_TRY(bl_program_check(program, err));
    for (int i = 0; i < program->nstates; i++) {
        BL_TRY(fill_state(job, i, err));
        bytes += program->states[i].shared == NULL ? program->states[i].bytes : 0;
    }
    BL_TRY(bl_shelf_charge(rq->server->shelf, bytes, err));
    program->charged = bytes;
    job->replaced = bl_shelf_has_program(rq->server->shelf, program->name);
    return bl_shelf_put_program(rq->server->shelf, program->name, program, job->fresh, err);
}

static bl_step install_work(bl_request *rq)
{
    (void)install(job_of(rq->data), &rq->err);
    return BL_STEP_DONE;
}

/* ---- in and out */

static bl_status reply(bl_request *rq)
{
    put_job *job = job_of(rq->data);
    bl_program_describe(job->program, &rq->out);
    bl_request_reply_json(rq, job->replaced ? 200 : 201);
    return BL_OK;
}

static bl_status create_job(bl_request *rq, put_job **out)
{
    put_job *job = bl_arena_alloc(rq->arena, sizeof *job);
    *out = job;
    if (job == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    job->program = bl_program_create(rq->server);
    if (job->program == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "program");
    snprintf(job->program->name, sizeof job->program->name, "%s", rq->param[0]);
    job->fresh = rq->if_none_match != NULL && strcmp(rq->if_none_match, "*") == 0;
    BL_TRY(bl_request_defer(rq, end_put, job));
    BL_TRY(bl_exec_create(rq, &job->x)); /* ends before the program does */
    job->x->extra = job;
    return BL_OK;
}

bl_status bl_handle_program_put(bl_request *rq)
{
    put_job *job = NULL;
    bl_program_doc *doc = NULL;
    if (!bl_wire_name_ok(rq->param[0]))
        return bl_fail(&rq->err, BL_EINVAL,
                       "\"%.160s\" is no name: letters, digits and _ . : / - after a letter or _, at most 128", rq->param[0]);
    BL_TRY(create_job(rq, &job));
    doc = &job->program->doc;
    if (job->fresh && bl_shelf_has_program(rq->server->shelf, job->program->name))
        return bl_fail(&rq->err, BL_EPRECONDITION, "program \"%s\" is there already", job->program->name);
    BL_TRY(decode(job));
    BL_TRY(check_shared(doc, &rq->err));
    BL_TRY(bl_exec_choose(job->x, &doc->options, NULL));
    job->program->worker = job->x->worker;
    job->program->entries = bl_arena_array(job->program->arena, (size_t)doc->nentries + 1, sizeof *job->program->entries);
    job->made = bl_arena_array(rq->arena, (size_t)doc->nstates + 1, sizeof(bl_plan *));
    if (job->program->entries == NULL || job->made == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "program");
    BL_TRY(bl_exec_load(job->x, doc->nstates, doc->values, true));
    job->x->compile = compile;
    job->x->work = install_work;
    rq->then = reply;
    return bl_exec_advance(job->x);
}
