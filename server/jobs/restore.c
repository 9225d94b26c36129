/* SPDX-License-Identifier: MIT */
/* Restoration of a job after a restart of the server or the loss of its device.  First the program is put as if by a client.
 * Then the inputs are loaded as for a new job.  Then the state of the last checkpoint replaces the state of the program, and
 * the plans use the same kernels as before. */
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/data/snapshot.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <unistd.h>

enum {
    MOST_LOSSES = 5,  /* limit of losses, because the job itself may cause the loss of the device */
    MOST_REFUSALS = 4 /* limit of refusals for a job that may never fit, while no other job frees memory */
};
static const int64_t REST_NS = 1000000000; /* delay after a refusal of memory; doubles with each further refusal, up to eight
                                            * times */

/* The data of one restoration, passed between its stages; in the arena of the second request. */
typedef struct restoring {
    bl_job *job;
    bl_exec *x;
    job_loaded from;
} restoring;

/* Under the lock: schedule a restoration from the last checkpoint. */
static void restore_put_back(bl_job *job)
{
    job_step(job, EVENT_LOSE);
    job_want_no_checkpoint(job);
}

bool job_wait_for_memory(bl_job *job, const bl_err *err)
{
    char reason[JOB_REASON];
    if (job->jobs->folder == NULL || (err->status != BL_ENOMEM && err->status != BL_ENODEVMEM))
        return false;
    if (!job->setbacks.fits && job->setbacks.refusals >= MOST_REFUSALS && !jobs_any_up(job->jobs, job))
        return false;
    job->setbacks.again_ns = bl_clock_ns() + (REST_NS << (job->setbacks.refusals < 3 ? job->setbacks.refusals : 3));
    if (job->setbacks.refusals++ == 0)
        bl_log(BL_LOG_INFO, "job %s waits for memory: %s", job->id, err->text);
    snprintf(reason, sizeof reason, "waits for memory to go on from its last checkpoint: %.400s", err->text);
    restore_put_back(job);
    job_change(job, JOB_QUEUED, reason);
    return true;
}

/* Give up the restoration, or schedule another one.  |rq| may be NULL. */
static void restore_give_up(bl_request *rq, bl_job *job, const bl_err *why)
{
    bl_err err = *why;
    bool again = false;
    if (rq != NULL)
        bl_request_end(rq);
    pthread_mutex_lock(&job->jobs->lock);
    again = job_wait_for_memory(job, &err);
    again = again ||
            ((err.status == BL_EDEVICE || /* the device may fail or be lost again in any stage */
              ((job->setbacks.losses + job->setbacks.moves > 0) && (err.status == BL_EBUSY || err.status == BL_ECONFLICT))) &&
             job_lose(job, &err));
    pthread_mutex_unlock(&job->jobs->lock);
    if (!again)
        job_fail(job, &err);
}

bool job_lose(bl_job *job, const bl_err *err)
{
    if (job->jobs->folder == NULL || job->setbacks.losses == MOST_LOSSES)
        return false;
    job->setbacks.losses++;
    restore_put_back(job);
    job_change(job, JOB_QUEUED, "what it had on its device was lost: it goes on from its last checkpoint");
    bl_log(BL_LOG_WARN, "job %s, after step %llu: %s", job->id, (unsigned long long)job->pos.done, err->text);
    return true;
}

/* ---- third stage: compile thread, then device */

static bl_status restore_compile(bl_exec *x, bl_err *err)
{
    restoring *r = x->extra;
    bl_halt halt = bl_request_halt(x->rq);
    BL_TRY(job_plan_evaluator(x, r->job, err));
    BL_TRY(job_make_plans(r->job, &r->from, &halt, err));
    BL_TRY(job_load_evaluated(x->rq, r->job));
    return job_load_own(x->rq, r->job, &r->from);
}

static void install_own(restoring *r, bl_request *rq)
{
    if (job_begin_own(r->job, rq) != BL_OK)
        return;
    for (int i = 0; i < r->job->means.nown; i++) {
        if (bl_device_tensor_flush(r->from.own[i], &rq->err) != BL_OK)
            return;
        bl_pool_release(r->job->means.worker->pool, r->job->means.own[i].buffer);
        r->job->means.own[i].buffer = bl_buffer_retain(r->from.own[i]->buffer);
    }
}

static bl_step restore_install(bl_request *rq)
{
    bl_exec *x = rq->data;
    restoring *r = x->extra;
    bl_program *program = r->job->means.program;
    job_take_inputs(r->job, x);
    if (bl_program_check(program, &rq->err) != BL_OK || bl_program_wake(program, &rq->err) != BL_OK ||
        job_flush_held(r->job, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    for (int i = 0; i < program->nstates; i++)
        if (bl_device_tensor_flush(r->from.states[i], &rq->err) != BL_OK)
            return BL_STEP_DONE;
    for (int i = 0; i < program->nstates; i++) {
        bl_pool_release(program->worker->pool, program->states[i].buffer);
        program->states[i].buffer = bl_buffer_retain(r->from.states[i]->buffer);
    }
    install_own(r, rq);
    atomic_store(&program->steps, r->from.program_steps);
    return BL_STEP_DONE;
}

static void restored(bl_request *rq)
{
    bl_job *job = rq->own.arg;
    if (rq->err.status != BL_OK) {
        restore_give_up(rq, job, &rq->err);
        return;
    }
    bl_request_end(rq);
    bl_log(BL_LOG_INFO, "job %s continues after step %llu", job->id, (unsigned long long)job->pos.done);
    job_start(job);
}

/* ---- second stage: writer's thread */

/* Can a later attempt succeed? */
static bool is_passing(bl_status st)
{
    return st == BL_ENOMEM || st == BL_ENODEVMEM || st == BL_EDEVICE;
}

/* Load the last checkpoint that can be read. */
static bl_status load_last(bl_request *rq, restoring *r)
{
    bl_job *job = r->job;
    for (int i = job->files.nmarks; i-- > 0;) {
        bl_status st = job_load_checkpoint(rq, job, job->files.marks[i].step, &r->from);
        if (st == BL_OK || is_passing(st))
            return st;
        bl_log(BL_LOG_WARN, "job %s: the checkpoint of step %llu: %s", job->id, (unsigned long long)job->files.marks[i].step,
               rq->err.text);
        if (i > 0)
            rq->err = (bl_err){0};
    }
    return rq->err.status != BL_OK ? rq->err.status : bl_fail(&rq->err, BL_ESTORAGE, "there is no checkpoint of the job");
}

/* Remove the files of the unreadable checkpoints after |step|, whose rows are already deleted. */
static void drop_later(bl_job *job, uint64_t step)
{
    bool later = true;
    while (later) {
        uint64_t last = 0;
        pthread_mutex_lock(&job->jobs->lock);
        later = job->files.nmarks > 0 && job->files.marks[job->files.nmarks - 1].step > step;
        if (later)
            last = job->files.marks[--job->files.nmarks].step;
        pthread_mutex_unlock(&job->jobs->lock);
        if (later)
            job_remove_checkpoint(job, last);
    }
}

/* Set the job's position to that of the loaded checkpoint. */
static bl_status rewind_to(bl_job *job, const job_loaded *from, bl_err *err)
{
    BL_TRY(job_rewind(job, from->step, err));
    job->pos.done = from->step;
    job->pos.best = from->best;
    drop_later(job, from->step);
    pthread_mutex_lock(&job->jobs->lock);
    job->progress.step = job->files.written = from->step;
    job->progress.restarts++;
    job->progress.mark_ns = 0;
    job_forget_reports(job);
    job_change(job, JOB_QUEUED, "taken up again from its last checkpoint");
    pthread_mutex_unlock(&job->jobs->lock);
    return job_load_reports(job, err);
}

static bl_status restore_prepare(bl_request *rq, restoring *r)
{
    bl_job *job = r->job;
    BL_TRY(job_load_file(rq, job, job_file_named(job, JOB_REQUEST)));
    BL_TRY(job_prepare(rq, job, &r->x));
    r->x->extra = r;
    BL_TRY(load_last(rq, r));
    BL_TRY(rewind_to(job, &r->from, &rq->err));
    r->x->compile = restore_compile;
    r->x->work = restore_install;
    r->x->serial = &job->means.program->serial;
    return bl_exec_advance(r->x);
}

static bl_step restore_begin(bl_request *rq)
{
    restoring *r = bl_arena_alloc(rq->arena, sizeof *r);
    if (r == NULL)
        rq->err.status = bl_arena_status(rq->arena, &rq->err);
    else
        r->job = rq->own.arg;
    return r != NULL && restore_prepare(rq, r) == BL_OK ? BL_STEP_MOVED : BL_STEP_DONE;
}

/* ---- first stage: the program */

static void program_put(bl_request *rq)
{
    bl_job *job = rq->own.arg;
    bl_request *next = NULL;
    if (rq->err.status != BL_OK) {
        restore_give_up(rq, job, &rq->err);
        return;
    }
    next = bl_request_create_own(job->jobs->server, job->owner, restored, job);
    if (next == NULL || bl_request_submit(next, job->jobs->writer, restore_begin, NULL) != BL_OK) {
        (void)bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a job");
        if (next != NULL)
            bl_request_end(next);
        restore_give_up(rq, job, &rq->err);
        return;
    }
    bl_request_end(rq);
}

static bl_status restore_put_program(bl_request *rq, bl_job *job)
{
    int fd = -1;
    uint64_t bytes = 0;
    bl_status st = BL_OK;
    BL_TRY(job_open_file(job, job_file_named(job, JOB_REQUEST), &fd, &bytes, &rq->err));
    st = bl_recall_document(rq, fd);
    (void)close(fd);
    rq->head.param[0] = job->ask.program_name;
    return st == BL_OK ? bl_handle_program_put(rq) : st;
}

void job_restore(bl_job *job)
{
    bl_err err = {0};
    bl_request *rq = bl_request_create_own(job->jobs->server, job->owner, program_put, job);
    if (rq == NULL)
        (void)bl_fail(&err, BL_ENOMEM, "out of host memory for a job");
    else if (restore_put_program(rq, job) != BL_OK)
        err = rq->err;
    if (err.status != BL_OK)
        restore_give_up(rq, job, &err);
}
