/* SPDX-License-Identifier: MIT */
/* The writer of the jobs: one thread stores the reports, checkpoints and states of all jobs. */
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/jobs/jobs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool job_add_mark(bl_job *job, job_mark mark)
{
    if (job->files.nmarks == job->files.marks_cap) {
        int cap = 2 * job->files.marks_cap + 4;
        job_mark *grown = realloc(job->files.marks, (size_t)cap * sizeof *grown);
        if (grown == NULL)
            return false;
        job->files.marks = grown;
        job->files.marks_cap = cap;
    }
    job->files.marks[job->files.nmarks++] = mark;
    return true;
}

/* Under the lock: the number of checkpoints to delete, oldest first, when one more is written. */
static int count_dropped(const bl_job *job)
{
    double now = job_now();
    int n = job->files.nmarks + 1 - job->ask.rule.keep;
    n = n > 0 ? n : 0;
    while (job->ask.rule.max_age > 0 && n < job->files.nmarks && now - job->files.marks[n].time > job->ask.rule.max_age)
        n++;
    return n < job->files.nmarks ? n : job->files.nmarks;
}

/* Under the lock: fill the row to write.  If the job has a program, a final state needs a checkpoint of the same step. */
static void fill_row(bl_job *job, bool snapped, job_row *row, char *reason, size_t size)
{
    bool whole = job->means.program == NULL || job->files.written == job->progress.step ||
                 (snapped && job->files.snapshot.step == job->progress.step);
    bool final = job->becomes == JOB_FAILED || (job->becomes != JOB_QUEUED && whole);
    bool purged = !final && job_wants(job, WANT_PURGE);
    row->state = final ? job->becomes : purged ? JOB_CANCELLED : job->state;
    snprintf(reason, size, "%s", final ? job->because : purged ? JOB_PURGED : "");
    row->leaves = final && job_leaves(job);
    row->reason = reason;
    row->step = snapped ? job->files.snapshot.step : job->files.written;
    row->step = final ? job->progress.step : row->step;
    row->ended = job->progress.ended = final ? job_now() : 0;
    row->first = job->progress.flushed;
    row->last = job->progress.nreports;
    row->started = job->progress.started;
    row->restarts = job->progress.restarts;
}

/* Under the lock: record that the row is stored. */
static void write_note(bl_job *job, const job_row *row)
{
    job->progress.flushed = row->last;
    if (row->mark == NULL)
        return;
    job->files.written = row->mark->step;
    job->files.warning[0] = '\0';
    memmove(job->files.marks, job->files.marks + row->ndropped,
            (size_t)(job->files.nmarks - row->ndropped) * sizeof *job->files.marks);
    job->files.nmarks -= row->ndropped;
    (void)job_add_mark(job, *row->mark); /* cannot fail: write_all has reserved the place */
}

static bl_status write_all(bl_job *job, bl_err *err)
{
    bl_jobs *jobs = job->jobs;
    char reason[JOB_REASON];
    uint64_t dropped[BL_JOB_MAX_KEEP + 1];
    job_mark mark = {.time = job_now()};
    job_row row = {.dropped = dropped};
    bool snapped = job->files.snapshot.taken, file = snapped && jobs->folder != NULL;
    bl_status st = BL_OK;
    if (file)
        BL_TRY(job_write_checkpoint(job, &mark.bytes, err));
    pthread_mutex_lock(&jobs->lock);
    fill_row(job, snapped, &row, reason, sizeof reason);
    mark.step = job->files.snapshot.step;
    row.mark = file ? &mark : NULL;
    row.ndropped = file ? count_dropped(job) : 0;
    for (int i = 0; i < row.ndropped; i++)
        dropped[i] = job->files.marks[i].step;
    if (file && job_add_mark(job, mark))
        job->files.nmarks--;
    else if (file)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a checkpoint");
    pthread_mutex_unlock(&jobs->lock);
    if (st == BL_OK)
        st = job_update(job, &row, err);
    if (st != BL_OK)
        return st;
    pthread_mutex_lock(&jobs->lock);
    write_note(job, &row);
    if (snapped)
        job->files.written = job->files.snapshot.step;
    if (row.ended > 0)
        job_step(job, EVENT_STORE);
    pthread_mutex_unlock(&jobs->lock);
    for (int i = 0; i < row.ndropped; i++)
        job_remove_checkpoint(job, dropped[i]);
    return BL_OK;
}

bl_status job_flush(bl_job *job, bl_err *err)
{
    bl_jobs *jobs = job->jobs;
    char reason[JOB_REASON];
    job_row row = {0};
    bl_status st = BL_OK;
    pthread_mutex_lock(&jobs->lock);
    row = (job_row){.state = job->state, .reason = reason, .step = job->files.written, .ended = job->progress.ended};
    row.first = job->progress.flushed;
    row.last = job->progress.nreports;
    row.started = job->progress.started;
    row.restarts = job->progress.restarts;
    snprintf(reason, sizeof reason, "%s", job->reason);
    if (!job_is_final(job) && job_wants(job, WANT_PURGE)) {
        row.state = JOB_CANCELLED;
        snprintf(reason, sizeof reason, "%s", JOB_PURGED);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (row.first == row.last)
        return BL_OK;
    st = job_update(job, &row, err);
    if (st != BL_OK)
        return st;
    pthread_mutex_lock(&jobs->lock);
    write_note(job, &row);
    pthread_mutex_unlock(&jobs->lock);
    return BL_OK;
}

bl_step job_write(bl_request *rq)
{
    bl_job *job = rq->own.arg;
    rq->err.status = write_all(job, &rq->err);
    if (job->files.snapshot.taken)
        job_drop_snapshot(job);
    return BL_STEP_DONE;
}

/* Under the lock: record a failed write.  The job continues, because earlier checkpoints exist.  But a job whose end is not on
 * the disk has failed. */
static void complain(bl_job *job, const bl_err *err)
{
    snprintf(job->files.warning, sizeof job->files.warning, "what is to be kept after step %llu could not be written: %.300s",
             (unsigned long long)job->progress.step, err->text);
    bl_log(BL_LOG_WARN, "job %s: %s", job->id, job->files.warning);
    if (job->becomes != JOB_QUEUED && job->becomes != JOB_FAILED)
        job_become(job, JOB_FAILED, job->files.warning);
    job->progress.changes++;
}

void job_written(bl_request *rq)
{
    bl_job *job = job_retain(rq->own.arg);
    bl_jobs *jobs = job->jobs;
    bool ends = false;
    pthread_mutex_lock(&jobs->lock);
    if (rq->err.status != BL_OK)
        complain(job, &rq->err);
    rq->err = (bl_err){0}; /* once the lock is free, |err| belongs to the next write */
    job_step(job, EVENT_WRITTEN);
    ends = job->phase == JOB_STORED || (job->phase == JOB_ENDING && job->becomes == JOB_FAILED);
    if (ends && job_leaves(job))
        atomic_store(&job->means.program->left, true);
    if (ends) /* before the unlock: otherwise another thread could see that no write is active, and submit work */
        job_end(job);
    jobs_wake(jobs);
    job_wake(job);
    pthread_mutex_unlock(&jobs->lock);
    if (ends && job_wants(job, WANT_PURGE))
        job_take_away(job);
    if (ends)
        job_let_go(job);
    jobs_schedule(jobs);
    job_release(job);
}

bool job_submit_write(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    job->means.write->err = (bl_err){0};
    if (bl_request_submit(job->means.write, jobs->writer, job_write, NULL) == BL_OK)
        return true;
    bl_log(BL_LOG_WARN, "job %s: %s", job->id, job->means.write->err.text); /* the next tick submits it again */
    pthread_mutex_lock(&jobs->lock);
    job_step(job, EVENT_WRITE_REFUSE);
    pthread_mutex_unlock(&jobs->lock);
    return false;
}
