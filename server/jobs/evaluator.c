/* SPDX-License-Identifier: MIT */
/* Evaluation of a job by another program.  If the trained program has a state of the same name, the evaluation uses the trained
 * state, in the same buffer.  Every other state keeps its value from the submission of the job.  From the submission on the job
 * does not depend on the other program. */
#include "server/jobs/jobs_internal.h"
#include "server/programs/variants.h"
#include "server/store/registry.h"

#include <string.h>

/* ---- finding the program */

/* Find the evaluating program.  The rules equal the rules for the trained program, except that the program may be shared by
 * another owner, because the evaluation changes none of its states. */
static bl_status evaluator_find_program(bl_exec *x, const bl_job *job, const char *name, bl_program **out)
{
    bl_request *rq = x->rq;
    bl_program *found = NULL;
    BL_TRY(bl_registry_read_program(rq->server->registry, rq->owner, name, &found, &rq->err));
    BL_TRY(bl_request_defer(rq, bl_program_release_any, found));
    BL_TRY(bl_program_check(found, &rq->err));
    BL_TRY(bl_variants_refuse(found, "no job can evaluate with it", &rq->err));
    if (found->doc.options.lease != NULL)
        return bl_fail(
            &rq->err, BL_EGRAPH,
            "evaluate.program: \"%s\" belongs to a lease, and a job can run longer than a lease: put the program without a lease",
            name);
    if (found->worker != job->means.program->worker)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "evaluate.program: \"%s\" is on %s, but the job trains on %s; put both programs on one device", name,
                       found->worker->dev->info.id, job->means.program->worker->dev->info.id);
    *out = found;
    return BL_OK;
}

bl_status job_find_evaluator(bl_exec *x, bl_job *job, const char *name, const bl_program_doc **out)
{
    bl_program *found = job->means.program;
    bool taken_up = x->rq->own.done != NULL; /* the request restores a job, and the files of the job contain the evaluator */
    if (name != NULL && !taken_up)
        BL_TRY(evaluator_find_program(x, job, name, &found));
    *out = &found->doc;
    if (name == NULL || (found == job->means.program && !taken_up))
        return BL_OK;
    job->means.evaluator.name = bl_arena_strdup(job->arena, name);
    BL_TRY(bl_arena_status(job->arena, &x->rq->err));
    if (!taken_up) {
        job->means.evaluator.from = found;
        return BL_OK;
    }
    *out = &job->means.evaluator.doc;
    return job_load_evaluator(x, job);
}

bl_status job_keep_evaluator(bl_job *job, const bl_program_doc *doc, int entry, bl_err *err)
{
    bl_program_entry *own = bl_arena_alloc(job->arena, sizeof *own);
    const bl_wire_graph *graph = bl_wire_copy(job->arena, &doc->entries[entry].graph);
    const char *name = bl_arena_strdup(job->arena, doc->entries[entry].name);
    BL_TRY(bl_arena_status(job->arena, err));
    *own = (bl_program_entry){name, *graph};
    job->means.evaluator.doc = (bl_program_doc){.nstates = graph->nstates,
                                                .states = graph->states,
                                                .nentries = 1,
                                                .entries = own,
                                                .options = {.precision = doc->options.precision}};
    job->means.evaluator.entry = entry;
    return BL_OK;
}

bl_status job_plan_evaluator(bl_exec *x, bl_job *job, bl_err *err)
{
    const bl_program_doc *doc = &job->means.evaluator.doc;
    bl_wire_key key;
    bool hit = false;
    if (job->means.evaluator.name == NULL)
        return BL_OK;
    x->how.beam = 0; /* a restored job keeps its first kernels, so there is no search */
    x->how.precision = doc->options.precision >= 0 ? (bl_precision)doc->options.precision : x->rq->server->precision;
    BL_TRY(bl_exec_key(x, &doc->entries[0].graph, true, &key));
    return bl_exec_make_plan(x, &key, &doc->entries[0].graph, true, &job->means.evaluation.plan, &hit, err);
}

/* ---- mapping of states */

static bl_status index_states(bl_program *program, bl_namemap **out, bl_err *err)
{
    *out = bl_namemap_create();
    if (*out == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the states of a program");
    for (int i = 0; i < program->nstates; i++)
        BL_TRY(bl_namemap_put(*out, program->states[i].type.name, &program->states[i], err));
    return BL_OK;
}

/* The type of the |i|-th state of the evaluation plan: a state of the document, or a hidden state. */
static bl_wire_tensor state_of(const job_part *part, int i)
{
    const bl_plan_info *info = bl_plan_get_info(part->plan);
    const bl_plan_tensor *hidden = i < info->nstates ? NULL : &info->hidden[i - info->nstates];
    return hidden == NULL ? part->entry->graph.states[i] : (bl_wire_tensor){hidden->name, bl_hidden_type(hidden)};
}

static bl_status evaluator_refuse(const bl_job *job, const bl_wire_tensor *own, const bl_wire_type *trained, bl_err *err)
{
    bl_text text = {0};
    bl_status st = BL_OK;
    bl_wire_type_print(&text, &own->type, NULL);
    bl_text_printf(&text, " in \"%s\" and ", job->means.evaluator.name);
    bl_wire_type_print(&text, trained, NULL);
    st = bl_text_status(&text, err);
    if (st == BL_OK)
        st = bl_fail(err, BL_EGRAPH,
                     "evaluate.program: state \"%.128s\" is %s in \"%s\"; a state of both programs must have the same dtype and "
                     "shape in both",
                     own->name, bl_text_get(&text), job->ask.program_name);
    bl_text_fini(&text);
    return st;
}

/* Map the |i|-th state of the evaluation. */
static bl_status place(bl_job *job, const bl_namemap *trained, int i, bl_err *err)
{
    job_evaluator *other = &job->means.evaluator;
    bl_wire_tensor state = state_of(&job->means.evaluation, i);
    const bl_state *same = bl_namemap_get(trained, state.name);
    if (same != NULL) {
        job->means.evaluation.state[i] = (int)(same - job->means.program->states);
        return bl_wire_type_same(&same->type.type, &state.type) ? BL_OK : evaluator_refuse(job, &state, &same->type.type, err);
    }
    job->means.evaluation.state[i] = -1 - other->nown;
    state.name = bl_arena_strdup(job->arena, state.name);
    other->own[other->nown++] = state;
    return bl_arena_status(job->arena, err);
}

bl_status job_link_evaluation(bl_job *job, bl_err *err)
{
    job_part *part = &job->means.evaluation;
    job_evaluator *other = &job->means.evaluator;
    const bl_plan_info *info = part->plan != NULL ? bl_plan_get_info(part->plan) : NULL;
    bl_namemap *trained = NULL;
    size_t n = info != NULL ? (size_t)(info->nstates + info->nhidden) : 0;
    bl_status st = BL_OK;
    if (info == NULL)
        return BL_OK;
    part->nstates = (int)n;
    part->state = bl_arena_array(job->arena, n + 1, sizeof *part->state);
    part->states = bl_arena_array(job->arena, n + 1, sizeof *part->states);
    other->own = bl_arena_array(job->arena, n + 1, sizeof *other->own);
    other->held = bl_arena_array(job->arena, n + 1, sizeof *other->held);
    BL_TRY(bl_arena_status(job->arena, err));
    st = index_states(job->means.program, &trained, err);
    for (int i = 0; i < part->nstates && st == BL_OK; i++)
        st = place(job, trained, i, err);
    bl_namemap_destroy(trained);
    if (st == BL_OK && other->nown > 0 && other->name == NULL)
        st = bl_fail(err, BL_EBUG, "entry \"%s\" has a state that its program does not have", part->entry->name);
    if (st == BL_OK && other->nown == part->nstates && other->name != NULL)
        st = bl_fail(err, BL_EGRAPH, "evaluate.program: entry \"%s\" of \"%s\" and program \"%s\" have no state of the same name",
                     part->entry->name, other->name, job->ask.program_name);
    return st;
}

/* ---- own states */

static bl_status evaluator_take(bl_job *job, const bl_state *state, bl_device_tensor **out, bl_err *err)
{
    const bl_wire_type *type = &state->type.type;
    int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
    bl_wire_type_sizes(type, dim);
    return bl_device_tensor_wrap(job->means.worker, bl_buffer_retain(state->buffer), type->dtype, type->ndim, dim, out, err);
}

/* Take the states without a copy: the buffers are retained, so later runs of the other program write to other buffers (copy on
 * write). */
bl_status job_take_evaluator(bl_job *job, bl_err *err)
{
    bl_program *from = job->means.evaluator.from;
    const bl_program_entry_state *entry = &from->entries[job->means.evaluator.entry];
    const job_part *part = &job->means.evaluation;
    BL_TRY(bl_program_check(from, err));
    BL_TRY(bl_program_wake(from, err));
    for (int i = 0; i < part->nstates; i++)
        if (part->state[i] < 0)
            BL_TRY(evaluator_take(job, &from->states[entry->state[i]], &job->means.evaluator.held[-1 - part->state[i]], err));
    job->means.evaluator.from = NULL;
    return BL_OK;
}

void job_end_evaluator(bl_job *job)
{
    for (int i = 0; i < job->means.evaluator.nown; i++)
        bl_device_tensor_release(job->means.evaluator.held[i]);
    job->means.evaluator = (job_evaluator){0};
}

/* ---- one evaluation */

bl_status job_hold_evaluated(bl_job *job, bl_err *err)
{
    const job_part *part = &job->means.evaluation;
    BL_TRY(bl_program_wake(job->means.program, err));
    for (int i = 0; i < part->nstates; i++) {
        int at = part->state[i];
        if (at >= 0)
            part->states[i] = bl_buffer_retain(job->means.program->states[at].buffer);
        else
            BL_TRY(bl_device_tensor_wake(job->means.evaluator.held[-1 - at], &part->states[i], err));
    }
    return BL_OK;
}

void job_drop_evaluated(bl_job *job)
{
    const job_part *part = &job->means.evaluation;
    for (int i = 0; i < part->nstates; i++) {
        bl_pool_release(job->means.worker->pool, part->states[i]);
        part->states[i] = NULL;
    }
}
