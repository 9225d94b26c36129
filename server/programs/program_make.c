/* SPDX-License-Identifier: MIT */
#include "server/programs/program_make.h"

#include "server/programs/variants.h"
#include "server/store/registry.h"

#include <string.h>

static bl_program_make *make_of(bl_exec *x)
{
    return x->extra;
}

static void end_make(void *arg)
{
    bl_program_make *make = arg;
    for (int i = 0; make->made != NULL && i < make->program->doc.nstates; i++)
        if (make->made[i] != NULL)
            bl_plan_release(make->made[i]);
    bl_program_release(make->program);
}

/* ---- on the thread of the request */

/* A state by reference is shared with other users, so no entry may update it. */
static bl_status check_shared(const bl_program_doc *doc, bl_err *err)
{
    for (int i = 0; i < doc->nstates; i++) {
        if (doc->values[i].kind != BL_VALUE_HELD || !doc->values[i].share)
            continue;
        for (int e = 0; e < doc->nentries; e++)
            for (int u = 0; u < doc->entries[e].graph.nupdates; u++)
                if (strcmp(doc->entries[e].graph.updates[u].name, doc->states[i].name) == 0)
                    return bl_fail(err, BL_EGRAPH, "state \"%s\" is a shared tensor and read-only, but entry \"%s\" updates it",
                                   doc->states[i].name, doc->entries[e].name);
    }
    return BL_OK;
}

/* ---- on a compile thread */

/* Compile the kernels of initialisers together with those of the first entry: each is small, and a separate run of the driver's
 * compiler would take longer. */
static bl_status gather_initialisers(bl_program_make *make, bl_err *err)
{
    const bl_program_doc *doc = &make->program->doc;
    for (int i = 0; i < doc->nstates; i++) {
        bl_wire_key key;
        if (doc->values[i].kind != BL_VALUE_MADE)
            continue;
        BL_TRY(bl_exec_key(make->x, doc->values[i].graph, false, &key));
        BL_TRY(bl_exec_gather(make->x, &key, doc->values[i].graph, false, err));
    }
    return BL_OK;
}

static bl_status compile_entries(bl_program_make *make, bl_err *err)
{
    bl_program *program = make->program;
    /* programs with state always use compiled kernels: interpreted kernels give results with other last bits */
    make->x->how.early =
        make->x->rq->own.done == NULL && program->doc.nstates == 0 && make->x->rq->server->settings.interpret_first;
    BL_TRY(gather_initialisers(make, err));
    for (int i = 0; i < program->doc.nentries; i++) {
        const bl_wire_graph *graph = &program->doc.entries[i].graph;
        bl_wire_key key;
        bool hit = false;
        BL_TRY(bl_exec_key(make->x, graph, true, &key));
        BL_TRY(bl_exec_make_plan(make->x, &key, graph, true, &program->entries[i].plan, &hit, err));
    }
    make->x->how.early = false;
    make->x->how.beam = 0; /* initialisers run once, so they are not searched */
    for (int i = 0; i < program->doc.nstates; i++) {
        bl_wire_key key;
        bool hit = false;
        if (program->doc.values[i].kind != BL_VALUE_MADE)
            continue;
        BL_TRY(bl_exec_key(make->x, program->doc.values[i].graph, false, &key));
        BL_TRY(bl_exec_make_plan(make->x, &key, program->doc.values[i].graph, false, &make->made[i], &hit, err));
    }
    return BL_OK;
}

/* Find or add the index of the hidden state |tensor| in the program: entries share hidden states of equal names. */
static bl_status program_make_find_hidden(bl_program_make *make, const bl_plan_tensor *tensor, int *out, bl_err *err)
{
    bl_program *program = make->program;
    bl_wire_type type = bl_hidden_type(tensor);
    for (int i = 0; i < program->nstates; i++) {
        if (strcmp(program->states[i].type.name, tensor->name) != 0)
            continue;
        *out = i;
        if (i < program->doc.nstates)
            return bl_fail(err, BL_EGRAPH, "state \"%s\" has a name that is reserved for the state of an optimiser",
                           tensor->name);
        if (!bl_wire_type_same(&program->states[i].type.type, &type))
            return bl_fail(err, BL_EGRAPH, "the entries declare state \"%s\" with different shapes or dtypes", tensor->name);
        return BL_OK;
    }
    *out = program->nstates++;
    program->states[*out].type.name = bl_arena_strdup(program->arena, tensor->name);
    program->states[*out].type.type = type;
    make->hidden[*out] = tensor;
    return bl_arena_status(program->arena, err);
}

/* Collect all states of the program, and the states of each entry. */
static bl_status program_make_lay_out(bl_program_make *make, bl_err *err)
{
    bl_program *program = make->program;
    size_t most = (size_t)program->doc.nstates;
    for (int i = 0; i < program->doc.nentries; i++)
        most += (size_t)bl_plan_get_info(program->entries[i].plan)->nhidden;
    program->states = bl_arena_array(program->arena, most + 1, sizeof *program->states);
    make->hidden = bl_arena_array(make->x->rq->arena, most + 1, sizeof *make->hidden);
    if (program->states == NULL || make->hidden == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a program of %zu states", most);
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
            BL_TRY(program_make_find_hidden(make, &info->hidden[h], &entry->state[info->nstates + h], err));
    }
    return BL_OK;
}

static bl_status program_make_compile(bl_exec *x, bl_err *err)
{
    bl_program_make *make = make_of(x);
    BL_TRY(compile_entries(make, err));
    return program_make_lay_out(make, err);
}

/* ---- on the device's thread */

/* Run an initialiser.  Each initialiser gets its own seed from its index, so that two random states differ. */
static bl_status make_state(bl_program_make *make, int i, bl_buffer **out, bl_err *err)
{
    bl_worker *worker = make->program->worker;
    const bl_plan_info *info = bl_plan_get_info(make->made[i]);
    bl_buffer **states = bl_arena_array(make->x->rq->arena, (size_t)info->nhidden + 1, sizeof(bl_buffer *));
    int64_t no_vars[BL_WIRE_MAX_DIMS] = {0}, dim[BL_DEVICE_TENSOR_DIMS] = {0};
    size_t bytes = 0;
    bl_status st = BL_OK;
    if (states == NULL)
        return bl_arena_status(make->x->rq->arena, err);
    for (int h = 0; h < info->nhidden && st == BL_OK; h++) {
        bl_plan_sizes(&info->hidden[h], no_vars, dim);
        st = bl_state_begin(worker, &info->hidden[h], dim, make->x->options.seed + (uint64_t)i * 0x9e3779b9U, &states[h], &bytes,
                            err);
    }
    if (st == BL_OK) {
        bl_run run = {.plan = make->made[i],
                      .pool = worker->pool,
                      .vars = no_vars,
                      .states = states,
                      .outputs = out,
                      .steps = 1,
                      .cancel = &make->x->rq->cancel,
                      .deadline_ns = make->x->rq->item.deadline_ns};
        st = bl_plan_run(&run, err);
    }
    for (int h = 0; h < info->nhidden; h++)
        bl_pool_release(worker->pool, states[h]);
    return st;
}

/* Does the program own the memory of state |i|?  It does not own tensors by reference. */
static bool is_own(const bl_program_make *make, int i)
{
    const bl_program_doc *doc = &make->program->doc;
    return i >= doc->nstates || doc->values[i].kind != BL_VALUE_HELD || !doc->values[i].share;
}

static bl_status fill_state(bl_program_make *make, int i, bl_err *err)
{
    bl_state *state = &make->program->states[i];
    bl_worker *worker = make->program->worker;
    int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
    size_t count = 0;
    bl_wire_type_sizes(&state->type.type, dim);
    BL_TRY(bl_tensor_measure(state->type.name, state->type.type.dtype, state->type.type.ndim, dim, &worker->server->limits,
                             &count, &state->bytes, err));
    if (make->hidden[i] != NULL)
        return bl_state_begin(worker, make->hidden[i], dim, make->x->options.seed, &state->buffer, &state->bytes, err);
    if (make->made[i] != NULL) /* |made| has no element for hidden states, which have returned above */
        return make_state(make, i, &state->buffer, err);
    state->bytes = make->x->in.tensors[i]->bytes; /* the pages of a text model may have fewer bytes than the type says
                                                   * (models/pages.h) */
    if (make->program->doc.values[i].share)
        state->shared = bl_device_tensor_retain(make->x->in.tensors[i]);
    if (is_own(make, i)) {
        BL_TRY(bl_device_tensor_flush(make->x->in.tensors[i], err));
        if (state->shared != NULL)
            bl_device_tensor_settle(state->shared);
    }
    return bl_device_tensor_wake(make->x->in.tensors[i], &state->buffer, err);
}

static bl_status program_make_install(bl_program_make *make, bl_err *err)
{
    bl_program *program = make->program;
    bl_request *rq = make->x->rq;
    size_t bytes = bl_variants_bytes(program->variants);
    program->generation = make->x->generation;
    BL_TRY(bl_program_check(program, err));
    for (int i = 0; i < program->nstates; i++) {
        BL_TRY(fill_state(make, i, err));
        bytes += is_own(make, i) ? program->states[i].bytes : 0;
    }
    BL_TRY(bl_registry_charge(rq->server->registry, program->owner, bytes, bl_request_is_bound(rq), err));
    program->charged = bytes;
    bl_program_settle(program);
    return make->installed(make, err);
}

static bl_step install_work(bl_request *rq)
{
    (void)program_make_install(make_of(rq->data), &rq->err);
    return BL_STEP_DONE;
}

/* ---- interface */

bl_status bl_program_make_create(bl_request *rq, bl_program_make **out)
{
    bl_program_make *make = bl_arena_alloc(rq->arena, sizeof *make);
    *out = make;
    if (make == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    make->program = bl_program_create(rq->server, rq->owner);
    if (make->program != NULL)
        make->program->purges = rq->purges;
    if (make->program == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a program");
    BL_TRY(bl_request_defer(rq, end_make, make));
    BL_TRY(bl_exec_create(rq, &make->x)); /* the execution ends before the program does */
    make->x->extra = make;
    return BL_OK;
}

bl_status bl_program_make_decode(bl_program_make *make)
{
    bl_program *program = make->program;
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    bl_status st = bl_exec_document(make->x, program->arena, false, &doc, &file); /* the program keeps names of the file */
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(make->x, program->arena, &file);
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program->doc, &make->x->rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

bl_status bl_program_make_begin(bl_program_make *make, bl_worker *worker)
{
    bl_request *rq = make->x->rq;
    bl_program *program = make->program;
    const bl_program_doc *doc = &program->doc;
    BL_TRY(check_shared(doc, &rq->err));
    BL_TRY(bl_exec_choose(make->x, &doc->options, worker));
    program->worker = make->x->worker;
    program->entries = bl_arena_array(program->arena, (size_t)doc->nentries + 1, sizeof *program->entries);
    program->joined = bl_arena_array(program->arena, (size_t)doc->nentries + 1, sizeof *program->joined);
    make->made = bl_arena_array(rq->arena, (size_t)doc->nstates + 1, sizeof(bl_plan *));
    if (program->entries == NULL || program->joined == NULL || make->made == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a program");
    BL_TRY(bl_exec_load(make->x, doc->nstates, program->doc.values, true));
    make->x->compile = program_make_compile;
    make->x->work = install_work;
    return bl_exec_advance(make->x);
}
