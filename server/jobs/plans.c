/* SPDX-License-Identifier: MIT */
/* The plans of a job.  A job uses the plans of its program, unless its steps differ from the steps of the program or the job
 * must keep the kernels with which it began.  Then it makes its own plans. */
#include "engine/base/log.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void job_put_options(const bl_plan_options *options, bl_text *out)
{
    bl_text_printf(out, "noopt %d matrix %d winograd %d precision %d hot %d", options->noopt, (int)options->matrix,
                   (int)options->winograd, (int)options->precision, options->hot);
}

static void take_options(const char *text, bl_plan_options *options)
{
    int noopt = 0, matrix = 0, winograd = 0, precision = 0, hot = 0;
    if (sscanf(text, "noopt %d matrix %d winograd %d precision %d hot %d", &noopt, &matrix, &winograd, &precision, &hot) != 5)
        return;
    options->noopt = noopt != 0;
    options->matrix = (bl_matrix_use)matrix;
    options->winograd = (bl_winograd_use)winograd;
    options->precision = (bl_precision)precision;
    options->hot = hot != 0;
}

static bool same_options(const bl_plan_options *a, const bl_plan_options *b)
{
    return a->noopt == b->noopt && a->matrix == b->matrix && a->winograd == b->winograd && a->precision == b->precision &&
           a->hot == b->hot;
}

/* The description of a plan to make: with other steps than the program, and with given kernels if |moves| is not NULL. */
typedef struct wanted {
    bl_training training;
    const char *moves, *options; /* moves NULL: the best kernels; options NULL: the options of the plan */
    const bl_halt *halt;         /* stops the compilation; belongs to the request that waits for the plan */
} wanted;

/* Make a plan.  *out is retained. */
static bl_status make_plan(bl_job *job, bl_plan *from, const wanted *as, bl_plan **out, bl_err *err)
{
    const bl_plan_options *was = bl_plan_get_options(from);
    const bl_training *training = &as->training;
    const char *moves = as->moves;
    bl_plan_options options = *was;
    /* a job uses the same kernels from its first step to its last, so none of its kernels may be interpreted */
    bool other = bl_plan_get_info(from)->interpreted > 0 || training->mixed || training->dynamic || training->scale > 0 ||
                 training->passes > 1;
    if (as->options != NULL)
        take_options(as->options, &options);
    if (!other && (moves == NULL || (strcmp(bl_plan_get_moves(from), moves) == 0 && same_options(&options, was)))) {
        *out = bl_plan_retain(from);
        return BL_OK;
    }
    options.training = *training;
    options.halt = *as->halt;
    options.early = false;
    options.fixed = moves;
    options.beam = 0;
    options.children = job->jobs->server->children;
    BL_TRY(bl_plan_remake(from, &options, out, err));
    if (moves != NULL && strcmp(bl_plan_get_moves(*out), moves) != 0)
        bl_log(BL_LOG_WARN,
               "job %s: some kernels cannot be built with their former schedules; results may differ in the last bits", job->id);
    return BL_OK;
}

/* Find the index of a hidden state of the job's plan: a state of the program, or, below zero, a state of the job. */
static bl_status plans_find_hidden(bl_job *job, const bl_plan_tensor *hidden, int *out, bl_err *err)
{
    int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
    bl_state *own = &job->means.own[job->means.nown];
    size_t count = 0;
    for (*out = 0; *out < job->means.program->nstates; ++*out)
        if (strcmp(job->means.program->states[*out].type.name, hidden->name) == 0)
            return BL_OK;
    *own = (bl_state){0};
    own->type.type = bl_hidden_type(hidden);
    own->type.name = bl_arena_strdup(job->arena, hidden->name);
    BL_TRY(bl_arena_status(job->arena, err));
    bl_wire_type_sizes(&own->type.type, dim);
    *out = -1 - job->means.nown++;
    return bl_tensor_measure(hidden->name, hidden->dtype, hidden->ndim, dim, &job->jobs->server->limits, &count, &own->bytes,
                             err);
}

/* Map the states of the plan.  States that the program lacks become states of the job. */
static bl_status plans_lay_out(bl_job *job, bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(job->means.train.plan);
    const bl_program_entry_state *entry = &job->means.program->entries[job->means.train.entry - job->means.program->doc.entries];
    size_t n = (size_t)(info->nstates + info->nhidden) + 1;
    job->means.train.state = bl_arena_array(job->arena, n, sizeof *job->means.train.state);
    job->means.train.states = bl_arena_array(job->arena, n, sizeof *job->means.train.states);
    job->means.own = bl_arena_array(job->arena, (size_t)info->nhidden + 1, sizeof *job->means.own);
    BL_TRY(bl_arena_status(job->arena, err));
    job->means.train.nstates = info->nstates + info->nhidden;
    for (int i = 0; i < info->nstates; i++)
        job->means.train.state[i] = entry->state[i];
    for (int h = 0; h < info->nhidden; h++)
        BL_TRY(plans_find_hidden(job, &info->hidden[h], &job->means.train.state[info->nstates + h], err));
    return BL_OK;
}

bl_status job_make_plans(bl_job *job, const job_loaded *as, const bl_halt *halt, bl_err *err)
{
    wanted own = {.training = job->ask.training, .halt = halt}, gathers = own, plain = {.halt = halt};
    bl_plan *from = job->means.train.plan, *train = NULL, *evaluation = NULL;
    gathers.training.gathers = true;
    if (as != NULL) {
        gathers.moves = as->gather;
        own.moves = as->moves;
        gathers.options = own.options = as->options;
        plain.moves = as->others;
        plain.options = as->others_options;
    }
    if (job->ask.training.passes > 1)
        BL_TRY(make_plan(job, from, &gathers, &job->means.gather, err));
    BL_TRY(make_plan(job, from, &own, &train, err));
    bl_plan_release(from);
    job->means.train.plan = train;
    if (job->means.evaluation.plan != NULL && (as != NULL || bl_plan_get_info(job->means.evaluation.plan)->interpreted > 0)) {
        BL_TRY(make_plan(job, job->means.evaluation.plan, &plain, &evaluation, err));
        bl_plan_release(job->means.evaluation.plan);
        job->means.evaluation.plan = evaluation;
    }
    BL_TRY(plans_lay_out(job, err));
    return job_link_evaluation(job, err);
}

bl_status job_begin_own(bl_job *job, bl_request *rq)
{
    const bl_plan_info *info = bl_plan_get_info(job->means.train.plan);
    bl_err *err = &rq->err;
    size_t all = 0;
    for (int i = 0; i < job->means.nown; i++)
        all += job->means.own[i].bytes;
    for (int i = 0; i < job->means.evaluator.nown; i++)
        all += job->means.evaluator.held[i]->bytes;
    BL_TRY(bl_registry_charge(rq->server->registry, job->owner, all, bl_request_is_bound(rq), err));
    job->means.charged = all;
    for (int h = 0; h < info->nhidden; h++) {
        int at = job->means.train.state[info->nstates + h];
        int64_t no_vars[BL_WIRE_MAX_DIMS] = {0}, dim[BL_DEVICE_TENSOR_DIMS] = {0};
        if (at >= 0)
            continue;
        bl_plan_sizes(&info->hidden[h], no_vars, dim);
        BL_TRY(bl_state_begin(job->means.worker, &info->hidden[h], dim, 0, &job->means.own[-1 - at].buffer,
                              &job->means.own[-1 - at].bytes, err));
    }
    return BL_OK;
}

void job_end_own(bl_job *job)
{
    for (int i = 0; i < job->means.nown; i++)
        bl_pool_release(job->means.worker->pool, job->means.own[i].buffer);
    job->means.nown = 0;
    if (job->means.charged > 0)
        bl_registry_refund(job->jobs->server->registry, job->owner, job->means.charged);
    job->means.charged = 0;
    bl_plan_release(job->means.gather);
    job->means.gather = NULL;
}

bl_state *job_state_at(bl_job *job, int at)
{
    return at >= 0 ? &job->means.program->states[at] : &job->means.own[-1 - at];
}
