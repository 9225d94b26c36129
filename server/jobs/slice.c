/* SPDX-License-Identifier: MIT */
/* A slice of a job on its device: steps for about the time that other requests may have to wait. */
#include "engine/base/clock.h"
#include "server/jobs/jobs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPORTS = JOB_RING / 4 }; /* limit for one run: the ring also has room for the reports that are not stored yet */
#define RATE_NS INT64_C(2000000000)   /* a rate is measured over at least this time */

/* ---- snapshots */

void job_drop_snapshot(bl_job *job)
{
    job_snapshot *snap = &job->files.snapshot;
    for (int i = 0; snap->buffers != NULL && snap->copies != NULL && i < job->means.program->nstates + job->means.nown; i++) {
        bl_pool_release(job->means.worker->pool, snap->buffers[i]);
        free(snap->copies[i]);
    }
    bl_budget_give(&job->jobs->server->memory, snap->copied);
    free(snap->buffers);
    free(snap->copies);
    *snap = (job_snapshot){0};
}

/* Take a state into the snapshot.  A buffer that the host sees is retained without a copy, and the next step then writes to
 * another buffer. */
static bl_status snap_state(bl_job *job, const bl_state *state, int i, bl_err *err)
{
    job_snapshot *snap = &job->files.snapshot;
    snap->buffers[i] = bl_buffer_retain(state->buffer);
    if (state->buffer->host != NULL)
        return BL_OK;
    BL_TRY(bl_budget_take(&job->jobs->server->memory, state->bytes, BL_ENOMEM, "a checkpoint", err));
    snap->copied += state->bytes;
    snap->copies[i] = malloc(state->bytes > 0 ? state->bytes : 1);
    if (snap->copies[i] == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a checkpoint");
    return bl_buffer_read(state->buffer, 0, snap->copies[i], state->bytes, err);
}

bl_status job_snap(bl_job *job, bl_err *err)
{
    job_snapshot *snap = &job->files.snapshot;
    const bl_program *program = job->means.program;
    size_t n = (size_t)(program->nstates + job->means.nown) + 1;
    bl_status st = BL_OK;
    snap->step = job->pos.done;
    snap->program_steps = atomic_load(&program->steps);
    snap->best = job->pos.best;
    job->pos.checkpoint_ns = bl_clock_ns();
    if (job->jobs->folder == NULL) { /* the server writes nothing without a folder */
        snap->taken = true;
        return BL_OK;
    }
    BL_TRY(bl_program_check(program, err));
    BL_TRY(bl_program_wake(job->means.program, err));
    snap->buffers = calloc(n, sizeof *snap->buffers);
    snap->copies = calloc(n, sizeof *snap->copies);
    if (snap->buffers == NULL || snap->copies == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a checkpoint");
    for (int i = 0; i < program->nstates && st == BL_OK; i++)
        st = snap_state(job, &program->states[i], i, err);
    for (int i = 0; i < job->means.nown && st == BL_OK; i++)
        st = snap_state(job, &job->means.own[i], program->nstates + i, err);
    snap->taken = st == BL_OK;
    if (st != BL_OK)
        job_drop_snapshot(job);
    return st;
}

/* ---- steps */

/* Get the buffers of the inputs.  The buffers stay on the device until they are released. */
static bl_status slice_hold_inputs(const job_part *part, bl_err *err)
{
    for (int i = 0; i < part->ninputs; i++)
        BL_TRY(bl_device_tensor_wake(part->inputs[i], &part->buffers[i], err));
    return BL_OK;
}

static void slice_let_inputs_go(const bl_job *job, const job_part *part)
{
    for (int i = 0; i < part->ninputs; i++) {
        bl_pool_release(job->means.worker->pool, part->buffers[i]);
        part->buffers[i] = NULL;
    }
}

static void drop_outputs(bl_job *job, const job_part *part)
{
    for (int i = 0; i < bl_plan_get_info(part->plan)->noutputs; i++) {
        bl_pool_release(job->means.worker->pool, part->outputs[i]);
        part->outputs[i] = NULL;
    }
}

static bool evaluates_after(const bl_job *job, uint64_t step)
{
    return job->means.evaluation.every > 0 && step % job->means.evaluation.every == 0;
}

/* Run the evaluation on the trained state.  The state updates of the evaluation are discarded. */
static bl_status slice_evaluate(bl_job *job, bl_request *rq)
{
    const job_part *part = &job->means.evaluation;
    bl_status st = job_hold_evaluated(job, &rq->err);
    bl_run run = {.plan = part->plan,
                  .pool = job->means.worker->pool,
                  .vars = part->vars,
                  .inputs = part->buffers,
                  .states = part->states,
                  .outputs = part->outputs,
                  .steps = 1,
                  .cancel = &rq->cancel};
    if (st == BL_OK)
        st = slice_hold_inputs(part, &rq->err);
    if (st == BL_OK)
        st = bl_plan_run(&run, &rq->err);
    slice_let_inputs_go(job, part);
    if (st == BL_OK)
        st = job_measure(job, part, part->outputs, &rq->err);
    drop_outputs(job, part);
    job_drop_evaluated(job);
    return st;
}

typedef struct collecting {
    bl_job *job;
    uint64_t base; /* number of steps before this run */
} collecting;

/* End the report, unless an evaluation follows, which completes the report. */
static bl_status slice_collect(void *arg, uint64_t step, bl_buffer *const *outputs, bl_err *err)
{
    const collecting *c = arg;
    BL_TRY(job_measure(c->job, &c->job->means.train, outputs, err));
    return evaluates_after(c->job, c->base + step) ? BL_OK : job_report_end(c->job, c->base + step, err);
}

/* The number of steps up to the next evaluation, checkpoint, or check of the early-stopping metric. */
static uint64_t most_steps(const bl_job *job)
{
    uint64_t reports = job->means.train.every > UINT64_MAX / MOST_REPORTS ? 0 : job->means.train.every * MOST_REPORTS;
    uint64_t every[] = {job->means.evaluation.every, job->ask.rule.every,
                        job->ask.stop.metric != NULL ? job->means.train.every : reports};
    uint64_t most = job->ask.steps - job->pos.done;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++)
        if (every[i] > 0 && every[i] - job->pos.done % every[i] < most)
            most = every[i] - job->pos.done % every[i];
    return most;
}

/* The number of steps for one run of one plan.  Accumulating passes use one plan, and the last pass of a step uses another. */
static uint64_t choose_steps(const bl_job *job, bool *periods)
{
    uint64_t most = most_steps(job), every = job->means.train.every;
    uint64_t passes = job->means.gather != NULL ? (uint64_t)job->ask.training.passes : 1, pass = job->pos.done % passes;
    uint64_t left = pass + 1 < passes ? passes - 1 - pass : 1, n = 0;
    if (passes > 1 && left < most)
        most = left;
    n = bl_pace_choose(job->pos.done, most, job->pos.pace, every, periods);
    if (passes > 1 && *periods) { /* the run ends with one report */
        *periods = false;
        n = every;
    }
    return n;
}

/* Between two steps: must the slice end? */
static bool slice_yields(void *arg)
{
    const bl_job *job = arg;
    return job_wants(job, WANT_CANCEL) || atomic_load(&job->jobs->draining) || bl_queue_is_wanted(job->means.worker->queue);
}

static bl_status slice_run_steps(bl_job *job, bl_request *rq, int64_t *took)
{
    const job_part *part = &job->means.train;
    collecting c = {job, job->pos.done};
    uint64_t passes = job->means.gather != NULL ? (uint64_t)job->ask.training.passes : 1, pass = job->pos.done % passes;
    bool gathers = pass + 1 < passes;
    int64_t start = bl_clock_ns();
    bool periods = false;
    BL_TRY(bl_program_wake(job->means.program, &rq->err));
    for (int i = 0; i < part->nstates; i++)
        part->states[i] = job_state_at(job, part->state[i])->buffer;
    bl_run run = {.plan = gathers ? job->means.gather : part->plan,
                  .pool = job->means.worker->pool,
                  .vars = part->vars,
                  .inputs = part->buffers,
                  .states = part->states,
                  .outputs = part->outputs,
                  .cancel = &rq->cancel,
                  .yield = slice_yields,
                  .yield_arg = job,
                  .steps = choose_steps(job, &periods),
                  .every = periods ? part->every : 0,
                  .collect = periods ? slice_collect : NULL,
                  .collect_arg = &c};
    bl_status st = slice_hold_inputs(part, &rq->err);
    if (st == BL_OK)
        st = bl_plan_run(&run, &rq->err);
    slice_let_inputs_go(job, part);
    for (int i = 0; i < part->nstates; i++)
        bl_program_take_back(job->means.program, job_state_at(job, part->state[i]), part->states[i]);
    job->pos.done += run.steps_done;
    atomic_fetch_add(&job->means.program->steps, run.steps_done);
    bl_metrics_add(&rq->server->metrics, BL_COUNT_STEPS, (long long)run.steps_done);
    atomic_store(&job->means.worker->busy_ns, bl_clock_ns());
    *took = bl_clock_ns() - start;
    job->pos.pace = bl_pace_learn(run.steps_done, *took, (int64_t)(rq->server->settings.slice * 1e9));
    if (st == BL_OK && part->every > 0 && !periods && job->pos.done % part->every == 0)
        st = slice_collect(&c, job->pos.done - c.base, part->outputs, &rq->err);
    drop_outputs(job, part);
    return st;
}

static bl_status step_on(bl_job *job, bl_request *rq, int64_t *spent)
{
    int64_t took = 0, start = 0;
    BL_TRY(slice_run_steps(job, rq, &took));
    start = bl_clock_ns();
    if (evaluates_after(job, job->pos.done)) {
        BL_TRY(slice_evaluate(job, rq));
        BL_TRY(job_report_end(job, job->pos.done, &rq->err));
    }
    *spent += took + bl_clock_ns() - start;
    return BL_OK;
}

/* Does the checkpoint rule require a checkpoint before another step? */
static bool is_due(const bl_job *job)
{
    double since = bl_clock_ms(job->pos.checkpoint_ns, bl_clock_ns()) * 1e-3;
    return (job->ask.rule.every > 0 && job->pos.done % job->ask.rule.every == 0) ||
           (job->ask.rule.seconds > 0 && since >= job->ask.rule.seconds);
}

/* Under the lock, before or after a slice: may more steps run? */
static bool goes_on(const bl_job *job)
{
    return job->phase == JOB_AT_WORK && !job_wants(job, WANT_CHECKPOINT | WANT_CANCEL) && !atomic_load(&job->jobs->draining) &&
           job->progress.nreports - job->progress.flushed < JOB_RING / 2;
}

static bl_status slice_run_slice(bl_job *job, bl_request *rq)
{
    int64_t slice = (int64_t)(rq->server->settings.slice * 1e9), spent = 0;
    bool due = false, more = false;
    BL_TRY(bl_program_check(job->means.program, &rq->err));
    do {
        pthread_mutex_lock(&job->jobs->lock);
        job_want(job, due ? WANT_CHECKPOINT : 0);
        more = goes_on(job) && job->pos.done < job->ask.steps && !job_stops_early(job) &&
               (spent == 0 || (spent < slice && !bl_queue_is_wanted(job->means.worker->queue)));
        pthread_mutex_unlock(&job->jobs->lock);
        if (more)
            BL_TRY(step_on(job, rq, &spent));
        due = more && is_due(job);
    } while (more);
    return BL_OK;
}

bl_step job_slice(bl_request *rq)
{
    bl_job *job = rq->own.arg;
    bool snap = false;
    bl_status st = BL_OK;
    job->pos.from = job->pos.done;
    st = slice_run_slice(job, rq);
    if (st != BL_OK)
        return BL_STEP_DONE;
    pthread_mutex_lock(&job->jobs->lock);
    snap = job_wants(job, WANT_CHECKPOINT) && job->writes == WRITE_NONE;
    if (snap)
        job_step(job, EVENT_SNAP);
    pthread_mutex_unlock(&job->jobs->lock);
    if (snap && job_snap(job, &rq->err) != BL_OK) {
        pthread_mutex_lock(&job->jobs->lock);
        job_step(job, EVENT_SNAP_FAIL);
        pthread_mutex_unlock(&job->jobs->lock);
    }
    return BL_STEP_DONE;
}

/* ---- after a slice */

static void update_rate(bl_job *job)
{
    int64_t now = bl_clock_ns();
    if (job->progress.mark_ns == 0 || job->pos.done < job->progress.mark_step) {
        job->progress.mark_ns = now;
        job->progress.mark_step = job->pos.done;
    }
    if (now - job->progress.mark_ns > RATE_NS / 8 && job->pos.done > job->progress.mark_step)
        job->progress.rate = (double)(job->pos.done - job->progress.mark_step) * 1e9 / (double)(now - job->progress.mark_ns);
    if (now - job->progress.mark_ns > RATE_NS) {
        job->progress.mark_ns = now;
        job->progress.mark_step = job->pos.done;
    }
}

/* Under the lock: if the job ends, decide its final state. */
static void slice_judge(bl_job *job, const bl_err *err)
{
    char because[JOB_REASON] = "";
    if (job->phase == JOB_ENDING && err->status == BL_OK)
        return;
    if (job_wants(job, WANT_CANCEL)) {
        job_become_cancelled(job);
    } else if (err->status != BL_OK && err->status != BL_ECANCELLED) {
        snprintf(because, sizeof because, "after step %llu: %s", (unsigned long long)job->pos.done, err->text);
        job_become(job, JOB_FAILED, because);
    } else if (job->pos.done >= job->ask.steps || job_stops_early(job)) {
        if (job_stops_early(job))
            snprintf(because, sizeof because, "%s was not better in %llu reports", job->ask.stop.metric,
                     (unsigned long long)job->ask.stop.patience);
        job_become(job, JOB_DONE, because);
    }
}

/* Under the lock: was the failure caused by a loss of the device or of the state? */
static bool was_lost(const bl_job *job, const bl_err *err)
{
    bl_err ignored = {0};
    return err->status != BL_OK && (err->status == BL_EDEVICE || bl_program_check(job->means.program, &ignored) != BL_OK);
}

void job_sliced(bl_request *rq)
{
    bl_job *job = job_retain(rq->own.arg); /* the job may end meanwhile */
    bl_jobs *jobs = job->jobs;
    bool write = false, snapped = false;
    pthread_mutex_lock(&jobs->lock);
    update_rate(job);
    job_step(job, EVENT_SLICED);
    job->progress.step = job->pos.done;
    if (job->pos.done > job->pos.from) {
        job->setbacks.refusals = 0;
        job->setbacks.fits = true;
    }
    if (job->phase == JOB_IDLE && (job_wait_for_memory(job, &rq->err) || (was_lost(job, &rq->err) && job_lose(job, &rq->err)))) {
        pthread_mutex_unlock(&jobs->lock);
        job_release(job);
        return;
    }
    slice_judge(job, &rq->err);
    snapped = job->writes == WRITE_SNAP;
    write = snapped || job_is_to_seal(job) ||
            (job->writes == WRITE_NONE &&
             (job->becomes == JOB_FAILED || job->progress.nreports - job->progress.flushed >= MOST_REPORTS));
    if (snapped) {
        job_want_no_checkpoint(job);
    } else if ((job->phase == JOB_ENDING && job->becomes != JOB_FAILED && job->progress.step != job->files.written) ||
               (jobs->draining && job->pos.done > job->pos.from)) {
        job_want(job, WANT_CHECKPOINT);
    }
    if (write)
        job_step(job, EVENT_WRITE);
    pthread_mutex_unlock(&jobs->lock);
    if (write)
        (void)job_submit_write(job);
    jobs_schedule(jobs);
    job_release(job);
}
