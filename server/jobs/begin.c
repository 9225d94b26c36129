/* SPDX-License-Identifier: MIT */
/* Creation of a job.  The HTTP thread decodes the document, the writer stores the state of the program on the disk, and then
 * the job is registered. */
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/data/saver.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs_internal.h"
#include "server/programs/variants.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { DEFAULT_KEEP = 3 };

/* ---- decoding */

static bl_status begin_decode(bl_exec *x, bl_job *job, bl_job_doc *spec)
{
    bl_request *rq = x->rq;
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    const char *name = NULL, *evaluator = NULL;
    const bl_program_doc *evaluates = NULL;
    bl_status st = bl_exec_document(x, job->arena, false, &doc, &file); /* the job keeps names that are in the file */
    bl_json root = bl_json_root(&doc);
    if (st == BL_OK)
        st = bl_decode_job_programs(&root, &name, &evaluator, &rq->err);
    if (st == BL_OK)
        st = bl_registry_get_program(rq->server->registry, rq->owner, name, &job->means.program, &rq->err);
    if (st == BL_OK)
        st = bl_program_check(job->means.program, &rq->err);
    if (st == BL_OK)
        st = bl_variants_refuse(job->means.program, "no job can run it", &rq->err);
    if (st == BL_OK)
        st = job_find_evaluator(x, job, evaluator, &evaluates);
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(x, job->arena, &file);
        st = bl_decode_job(&env, &root, &job->means.program->doc, evaluates, spec, &rq->err);
    }
    if (st == BL_OK && job->means.evaluator.from != NULL)
        st = job_keep_evaluator(job, evaluates, spec->evaluation.entry, &rq->err);
    bl_json_fini(&doc);
    return st;
}

/* Name the report columns of a part from index |at| on.  Returns the index after the last of them. */
static int name_columns(const bl_job *job, job_part *part, const char *prefix, const char **columns, int at)
{
    part->column = at;
    for (int i = 0; i < part->ncollect; i++)
        columns[at++] = bl_arena_printf(job->arena, "%s%s", prefix, part->entry->graph.outputs[part->collect[i]].name);
    return at;
}

/* Set the columns of the job.  A restored job keeps the columns of its row in the store, because readers of its history use
 * them. */
static bl_status fill_columns(bl_job *job, bl_err *err)
{
    int most = job->means.train.ncollect + job->means.evaluation.ncollect, nmetrics = 0, n = 0;
    const char **columns = bl_arena_array(job->arena, (size_t)most + 1, sizeof *columns);
    char **cells = bl_arena_array(job->arena, (size_t)most + 1, sizeof *cells);
    BL_TRY(bl_arena_status(job->arena, err));
    nmetrics = name_columns(job, &job->means.train, "", columns, 0);
    n = name_columns(job, &job->means.evaluation, JOB_EVALUATE, columns, nmetrics);
    BL_TRY(bl_arena_status(job->arena, err));
    if (job->ask.columns != NULL && (n != job->ask.ncolumns || nmetrics != job->ask.nmetrics))
        return bl_fail(err, BL_EINVAL, "the stored row has %d columns of reports, but the stored request of the job has %d",
                       job->ask.ncolumns, n);
    if (job->ask.columns == NULL) {
        job->ask.columns = columns;
        job->ask.nmetrics = nmetrics;
        job->ask.ncolumns = n;
    }
    job->pos.cells = cells;
    return BL_OK;
}

/* |from|: the entry of the program; NULL: the plan of the part is made later. */
static bl_status fill_part(bl_job *job, const bl_program_run *run, const bl_program_entry *entry,
                           const bl_program_entry_state *from, job_part *part, bl_err *err)
{
    *part = (job_part){.entry = entry,
                       .vars = run->vars,
                       .ninputs = entry->graph.ninputs,
                       .every = run->every,
                       .ncollect = run->every > 0 ? run->ncollect : 0,
                       .collect = run->collect};
    part->inputs = bl_arena_array(job->arena, (size_t)part->ninputs + 1, sizeof *part->inputs);
    part->buffers = bl_arena_array(job->arena, (size_t)part->ninputs + 1, sizeof *part->buffers);
    part->outputs = bl_arena_array(job->arena, (size_t)entry->graph.noutputs + 1, sizeof *part->outputs);
    BL_TRY(bl_arena_status(job->arena, err));
    part->plan = from != NULL ? bl_plan_current(from->plan) : NULL;
    return BL_OK;
}

/* Check that the estimated time of one step is within the limit of a run. */
static bl_status admit(const bl_job *job, const job_part *part, bl_err *err)
{
    double estimate =
        part->plan != NULL ? bl_plan_get_info(part->plan)->estimate_s : 0; /* without a plan: checked at submission */
    double limit = job->jobs->server->settings.max_seconds;
    if (estimate <= limit)
        return BL_OK;
    return bl_fail(err, BL_ELIMIT, "one step of entry \"%s\" is estimated to take %.3g s; the limit is %g s", part->entry->name,
                   estimate, limit);
}

static bl_status begin_find_metric(bl_job *job, bl_err *err)
{
    for (job->ask.stop_column = 0; job->ask.stop.metric != NULL && job->ask.stop_column < job->ask.ncolumns;
         job->ask.stop_column++)
        if (strcmp(job->ask.columns[job->ask.stop_column], job->ask.stop.metric) == 0)
            return BL_OK;
    if (job->ask.stop.metric == NULL)
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "early_stop.metric: \"%.140s\" is not reported; the metric must be an output in \"collect\", or \"evaluate.\" "
                   "and an output in \"evaluate\"",
                   job->ask.stop.metric);
}

static bl_status fill_evaluation(bl_job *job, const bl_program_run *run, bl_err *err)
{
    const job_evaluator *other = &job->means.evaluator;
    const bl_program *program = other->name != NULL ? other->from : job->means.program;
    const bl_program_entry *entry = other->name != NULL ? &other->doc.entries[0] : &program->doc.entries[run->entry];
    BL_TRY(fill_part(job, run, entry, program != NULL ? &program->entries[run->entry] : NULL, &job->means.evaluation, err));
    return admit(job, &job->means.evaluation, err);
}

static bl_status fill_job(bl_job *job, const bl_job_doc *spec, bl_err *err)
{
    const bl_program *program = job->means.program;
    pthread_mutex_lock(&job->jobs->lock); /* a restored job is already registered, so other threads read this member */
    job->means.worker = program->worker;
    job->ask.program_name = bl_arena_strdup(job->arena, program->name);
    job->ask.entry_name = bl_arena_strdup(job->arena, program->doc.entries[spec->run.entry].name);
    job->ask.device = bl_arena_strdup(job->arena, program->worker->dev->info.id);
    job->ask.steps = spec->run.steps;
    job->ask.priority = spec->run.options.priority;
    pthread_mutex_unlock(&job->jobs->lock);
    job->ask.rule = spec->checkpoint;
    job->ask.stop = spec->stop;
    job->ask.training = (bl_training){.mixed = spec->mixed,
                                      .compute = spec->compute,
                                      .dynamic = spec->dynamic_scale,
                                      .scale = spec->loss_scale,
                                      .passes = spec->accumulate};
    if (job->ask.rule.every == 0 && job->ask.rule.seconds <= 0)
        job->ask.rule.seconds = job->jobs->server->settings.checkpoint_seconds;
    if (job->ask.rule.keep == 0)
        job->ask.rule.keep = DEFAULT_KEEP;
    BL_TRY(fill_part(job, &spec->run, &program->doc.entries[spec->run.entry], &program->entries[spec->run.entry],
                     &job->means.train, err));
    BL_TRY(admit(job, &job->means.train, err));
    if (spec->evaluates)
        BL_TRY(fill_evaluation(job, &spec->evaluation, err));
    BL_TRY(fill_columns(job, err));
    BL_TRY(job_check_reports(job, err));
    return begin_find_metric(job, err);
}

/* Load the inputs of the training entry and then the inputs of the evaluation. */
static bl_status begin_load_inputs(bl_exec *x, const bl_job *job, const bl_job_doc *spec)
{
    size_t n = (size_t)job->means.train.ninputs, more = (size_t)job->means.evaluation.ninputs;
    bl_tensor_value *values = bl_arena_array(x->rq->arena, n + more + 1, sizeof *values);
    if (values == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    if (n > 0)
        memcpy(values, spec->run.values, n * sizeof *values);
    if (more > 0)
        memcpy(values + n, spec->evaluation.values, more * sizeof *values);
    return bl_exec_load(x, (int)(n + more), values, false);
}

/* Claim the program: from now on no other request can replace, remove or train it.  Fails if another request has done so
 * already. */
static bl_status begin_claim(bl_job *job, bl_err *err)
{
    bl_program *program = job->means.program, *now = NULL;
    bl_err missing = {0};
    int claim = BL_CLAIM_NONE;
    if (!atomic_compare_exchange_strong(&program->claim, &claim, BL_CLAIM_JOB) && claim == BL_CLAIM_JOB)
        return bl_fail(err, BL_ECONFLICT, "another job trains the program \"%s\"; wait until the job ends, or cancel the job",
                       program->name);
    job->means.claimed = claim == BL_CLAIM_NONE ? program : NULL;
    if (job->means.claimed != NULL &&
        bl_registry_get_program(program->server->registry, program->owner, program->name, &now, &missing) == BL_OK)
        bl_program_release(now);
    return now == program ? BL_OK : bl_fail(err, BL_ECONFLICT, "program \"%s\" was just replaced or deleted", program->name);
}

void job_unclaim(bl_job *job)
{
    if (job->means.claimed != NULL)
        atomic_store(&job->means.claimed->claim, BL_CLAIM_NONE);
    job->means.claimed = NULL;
}

bl_status job_prepare(bl_request *rq, bl_job *job, bl_exec **out)
{
    bl_job_doc spec;
    bl_exec *x = NULL;
    BL_TRY(bl_exec_create(rq, &x));
    *out = x;
    x->extra = job;
    BL_TRY(begin_decode(x, job, &spec));
    if (job->means.program->doc.options.lease != NULL)
        return bl_fail(
            &rq->err, BL_EGRAPH,
            "program \"%s\" belongs to a lease, and a job can run longer than a lease: put the program without a lease",
            job->means.program->name);
    if (spec.run.steps > rq->server->settings.max_steps)
        return bl_fail(&rq->err, BL_ELIMIT, "steps is %llu; the limit is %llu", (unsigned long long)spec.run.steps,
                       (unsigned long long)rq->server->settings.max_steps);
    BL_TRY(fill_job(job, &spec, &rq->err));
    BL_TRY(begin_claim(job, &rq->err));
    BL_TRY(bl_exec_choose(x, &spec.run.options, job->means.program->worker));
    return begin_load_inputs(x, job, &spec);
}

static bl_device_tensor *take_input(bl_device_tensor *input)
{
    bl_device_tensor_settle(input); /* a job lasts long, and other requests may need the memory meanwhile */
    return bl_device_tensor_retain(input);
}

void job_take_inputs(bl_job *job, const bl_exec *x)
{
    for (int i = 0; i < job->means.train.ninputs; i++)
        job->means.train.inputs[i] = take_input(x->in.tensors[i]);
    for (int i = 0; i < job->means.evaluation.ninputs; i++)
        job->means.evaluation.inputs[i] = take_input(x->in.tensors[job->means.train.ninputs + i]);
}

static bl_status begin_flush_part(const job_part *part, bl_err *err)
{
    for (int i = 0; i < part->ninputs; i++)
        BL_TRY(bl_device_tensor_flush(part->inputs[i], err));
    return BL_OK;
}

int job_count_held(const bl_job *job)
{
    return job->means.train.ninputs + job->means.evaluation.ninputs + job->means.evaluator.nown;
}

bl_device_tensor *job_held_at(const bl_job *job, int i)
{
    int rest = i - job->means.train.ninputs, own = rest - job->means.evaluation.ninputs;
    return rest < 0 ? job->means.train.inputs[i] : own < 0 ? job->means.evaluation.inputs[rest] : job->means.evaluator.held[own];
}

bl_status job_flush_held(bl_job *job, bl_err *err)
{
    BL_TRY(begin_flush_part(&job->means.train, err));
    BL_TRY(begin_flush_part(&job->means.evaluation, err));
    for (int i = 0; i < job->means.evaluator.nown; i++) {
        BL_TRY(bl_device_tensor_flush(job->means.evaluator.held[i], err));
        bl_device_tensor_settle(job->means.evaluator.held[i]);
    }
    return BL_OK;
}

bl_status job_make_requests(bl_job *job, bl_err *err)
{
    bl_server *server = job->jobs->server;
    job->means.slice = bl_request_create_own(server, job->owner, job_sliced, job);
    job->means.write = bl_request_create_own(server, job->owner, job_written, job);
    if (job->means.slice == NULL || job->means.write == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a job");
    job->means.slice->item.rank = BL_RANK_TRAIN;
    job->means.slice->item.priority = job->ask.priority;
    job->means.slice->own.purpose = (bl_purpose){"job", job->id, job->ask.program_name};
    return BL_OK;
}

/* ---- POST */

static bl_status make_id(bl_job *job, bl_err *err)
{
    unsigned char random[(sizeof job->id - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a job's id");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(job->id + 2 * i, 3, "%02x", random[i]);
    return BL_OK;
}

static bl_status begin_reply(bl_request *rq)
{
    bl_job *job = ((bl_exec *)rq->data)->extra;
    rq->reply.location = bl_arena_printf(rq->arena, "/api/v1/jobs/%s", job->id);
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    pthread_mutex_lock(&job->jobs->lock);
    job_describe(job, &rq->reply.out);
    pthread_mutex_unlock(&job->jobs->lock);
    bl_request_reply_json(rq, 202);
    return BL_OK;
}

/* On the writer's thread: register the job and store it.  From then on the job continues even if the client closes the
 * connection.  A refusal comes before any write, because the row of this job replaces the row of the job that left its
 * program. */
static bl_step keep_it(bl_request *rq)
{
    bl_job *job = ((bl_exec *)rq->data)->extra;
    if (bl_access_check_owner(rq->server->access, rq->owner, rq->purges, &rq->err) != BL_OK) /* purges run on this thread */
        return BL_STEP_DONE;
    if (job_make_requests(job, &rq->err) != BL_OK || job_add(job, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    if (job_keep_first(job, &rq->err) != BL_OK) {
        job_remove(job);
        return BL_STEP_DONE;
    }
    job_drop_snapshot(job);
    job_drop_copies(job);
    jobs_drop_oldest(job->jobs, job->owner);
    bl_metrics_add(&rq->server->metrics, BL_COUNT_JOBS, 1);
    job_start(job);
    return BL_STEP_DONE;
}

static bl_status begin_keep(bl_request *rq)
{
    bl_job *job = ((bl_exec *)rq->data)->extra;
    rq->then = begin_reply;
    return bl_request_submit(rq, job->jobs->writer, keep_it, NULL);
}

/* Store the program.  The numbers of numbered runs are stored first: a run whose effect is in a checkpoint of the job must not
 * run again. */
static bl_status keep_program(bl_request *rq)
{
    bl_job *job = ((bl_exec *)rq->data)->extra;
    return job->means.program->durable ? bl_saver_save(rq, job->means.program, begin_keep) : begin_keep(rq);
}

/* Copy the tensors that the host does not see to host memory, for the files. */
static bl_status copy_held(bl_job *job, bl_err *err)
{
    bl_budget *memory = &job->jobs->server->memory;
    int n = job_count_held(job);
    job->means.held_copies = bl_arena_array(job->arena, (size_t)n + 1, sizeof *job->means.held_copies);
    if (job->means.held_copies == NULL)
        return bl_arena_status(job->arena, err);
    for (int i = 0; i < n && job->jobs->folder != NULL; i++) {
        bl_device_tensor *held = job_held_at(job, i);
        if (bl_device_tensor_mapped(held) != NULL)
            continue;
        BL_TRY(bl_budget_take(memory, held->bytes, BL_ENOMEM, "a tensor of the job", err));
        job->means.copied += held->bytes;
        job->means.held_copies[i] = malloc(held->bytes > 0 ? held->bytes : 1);
        if (job->means.held_copies[i] == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", held->bytes);
        BL_TRY(bl_device_tensor_read(held, job->means.held_copies[i], err));
    }
    return BL_OK;
}

void job_drop_copies(bl_job *job)
{
    for (int i = 0; job->means.held_copies != NULL && i < job_count_held(job); i++)
        free(job->means.held_copies[i]);
    bl_budget_give(&job->jobs->server->memory, job->means.copied);
    job->means.held_copies = NULL;
    job->means.copied = 0;
}

/* Take the first snapshot.  Thread: the worker's, between two runs of the program. */
static bl_step snap_first(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_job *job = x->extra;
    job_take_inputs(job, x);
    if (job_flush_held(job, &rq->err) == BL_OK && copy_held(job, &rq->err) == BL_OK && job_begin_own(job, rq) == BL_OK)
        rq->err.status = job_snap(job, &rq->err);
    return BL_STEP_DONE;
}

static bl_status snap(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_job *job = x->extra;
    x->serial = &job->means.program->serial;
    x->work = snap_first;
    rq->then = keep_program;
    return bl_exec_advance(x);
}

/* Take the states of the evaluator.  Thread: the worker's, between two runs of the evaluator, whose serial differs from that of
 * the trained program. */
static bl_step take_first(bl_request *rq)
{
    rq->err.status = job_take_evaluator(((bl_exec *)rq->data)->extra, &rq->err);
    return BL_STEP_DONE;
}

static bl_status begin_compile(bl_exec *x, bl_err *err)
{
    bl_halt halt = bl_request_halt(x->rq);
    return job_make_plans(x->extra, NULL, &halt, err);
}

bl_status bl_handle_job_post(bl_request *rq)
{
    bl_jobs *jobs = rq->server->jobs;
    bl_exec *x = NULL;
    bl_job *job = job_create(jobs);
    if (job == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a job");
    BL_TRY(bl_request_defer(rq, job_release_any, job));
    job->ask.created = job_now();
    job->owner = rq->owner;
    BL_TRY(make_id(job, &rq->err));
    BL_TRY(job_prepare(rq, job, &x));
    x->compile = begin_compile;
    if (job->means.evaluator.from == NULL)
        return snap(rq);
    x->serial = &job->means.evaluator.from->serial;
    x->work = take_first;
    rq->then = snap;
    return bl_exec_advance(x);
}
