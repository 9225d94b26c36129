/* SPDX-License-Identifier: MIT */
#include "server/jobs/jobs.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/grants.h"
#include "server/store/registry.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    JOB_BYTES = 64 * 1024 * 1024, /* arena limit for the constant members of a job: names, and the graphs of its inputs */
    TICK_NS = 250000000,
    MOST_TAKEN = 8 /* limit of restorations at a time: enough to keep compile threads and device threads busy */
};

double job_now(void)
{
    return 1e-9 * (double)bl_clock_wall_ns();
}

/* ---- one job */

bl_job *job_create(bl_jobs *jobs)
{
    bl_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    atomic_init(&job->refs, 1);
    job->jobs = jobs;
    job->writes = WRITE_NONE;
    job->pos.pace = 1;
    job->arena = bl_arena_create(JOB_BYTES);
    if (job->arena != NULL)
        return job;
    free(job);
    return NULL;
}

bl_job *job_retain(bl_job *job)
{
    atomic_fetch_add(&job->refs, 1);
    return job;
}

static void free_part(job_part *part)
{
    for (int i = 0; part->inputs != NULL && i < part->ninputs; i++)
        bl_device_tensor_release(part->inputs[i]);
    bl_plan_release(part->plan);
    *part = (job_part){0};
}

void job_free_means(bl_job *job)
{
    if (job->means.program != NULL)
        job_drop_snapshot(job);
    job_unclaim(job);
    job_drop_copies(job);
    if (job->means.worker != NULL)
        job_end_own(job);
    free_part(&job->means.train);
    free_part(&job->means.evaluation);
    job_end_evaluator(job);
    bl_program_release(job->means.program);
    job->means.program = NULL;
    for (int i = 0; job->pos.cells != NULL && i < job->ask.ncolumns; i++)
        free(job->pos.cells[i]);
    job->pos.cells = NULL;
}

static void free_requests(bl_job *job)
{
    if (job->means.slice != NULL)
        bl_request_end(job->means.slice);
    if (job->means.write != NULL)
        bl_request_end(job->means.write);
    job->means.slice = job->means.write = NULL;
}

void job_release(bl_job *job)
{
    if (job == NULL || atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    job_free_means(job);
    free_requests(job);
    for (int i = 0; i < JOB_RING; i++)
        free(job->progress.ring[i].cells);
    free(job->files.marks);
    bl_arena_destroy(job->arena);
    free(job);
}

void job_release_any(void *job)
{
    job_release(job);
}

/* Find a job.  Returns the job, retained, or NULL. */
static bl_job *find_of(bl_jobs *jobs, uint32_t owner, const char *id)
{
    bl_job *job = NULL;
    pthread_mutex_lock(&jobs->lock);
    job = bl_namemap_get(jobs->names, id);
    if (job != NULL && job->owner != owner)
        job = NULL;
    if (job != NULL)
        job_retain(job);
    pthread_mutex_unlock(&jobs->lock);
    return job;
}

static bl_status found(bl_request *rq, bl_job *job, bl_job **out)
{
    *out = job;
    if (job == NULL)
        return bl_fail(&rq->err, BL_ENOTFOUND, "there is no job \"%.64s\"", rq->head.param[0]);
    return bl_request_defer(rq, job_release_any, job);
}

bl_status job_find(bl_request *rq, bl_job **out)
{
    return found(rq, find_of(rq->server->jobs, rq->owner, rq->head.param[0]), out);
}

bl_status job_find_to_read(bl_request *rq, bl_job **out)
{
    uint32_t owner = rq->owner;
    const char *id = bl_registry_shared(rq->server->registry, rq->owner, "job", rq->head.param[0], &owner);
    return found(rq, find_of(rq->server->jobs, id != NULL ? owner : rq->owner, id != NULL ? id : rq->head.param[0]), out);
}

bool bl_jobs_has(bl_jobs *jobs, uint32_t owner, const char *id)
{
    bl_job *job = find_of(jobs, owner, id);
    if (job != NULL)
        job_release(job);
    return job != NULL;
}

void job_change(bl_job *job, job_state state, const char *reason)
{
    if (job->state == state && strcmp(job->reason, reason) == 0)
        return;
    job->state = state;
    snprintf(job->reason, sizeof job->reason, "%s", reason);
    job->progress.changes++;
    if (state == JOB_RUNNING && job->progress.started <= 0)
        job->progress.started = job_now();
    job_wake(job);
}

/* Under the lock: count the jobs of |owner|.  *oldest becomes the oldest ended job, or NULL if none has ended. */
static size_t jobs_count_of(bl_jobs *jobs, uint32_t owner, bl_job **oldest)
{
    const char *id = NULL;
    void *value = NULL;
    size_t n = 0;
    *oldest = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        n += job->owner == owner;
        if (job->owner == owner && *oldest == NULL && job_is_final(job))
            *oldest = job;
    }
    return n;
}

bl_status job_add(bl_job *job, bl_err *err)
{
    bl_jobs *jobs = job->jobs;
    unsigned long long most = jobs->server->settings.max_jobs;
    bl_job *oldest = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&jobs->lock);
    if (jobs_count_of(jobs, job->owner, &oldest) >= most && oldest == NULL)
        st = bl_fail(err, BL_ENODEVMEM, "the key has %llu jobs that have not ended, the limit (--max-jobs); wait, or cancel jobs",
                     most);
    else
        st = bl_namemap_put(jobs->names, job->id, job, err);
    if (st == BL_OK)
        job_retain(job);
    pthread_mutex_unlock(&jobs->lock);
    return st;
}

void job_remove(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    bl_job *known = NULL;
    pthread_mutex_lock(&jobs->lock);
    known = bl_namemap_remove(jobs->names, job->id);
    pthread_mutex_unlock(&jobs->lock);
    job_release(known);
}

/* Find the oldest ended job beyond the limit of its owner.  Returns the job, retained, or NULL. */
static bl_job *jobs_take_oldest(bl_jobs *jobs, uint32_t owner)
{
    bl_job *oldest = NULL;
    pthread_mutex_lock(&jobs->lock);
    if (jobs_count_of(jobs, owner, &oldest) <= jobs->server->settings.max_jobs)
        oldest = NULL;
    if (oldest != NULL)
        job_retain(oldest);
    pthread_mutex_unlock(&jobs->lock);
    return oldest;
}

void jobs_drop_oldest(bl_jobs *jobs, uint32_t owner)
{
    bl_job *old = NULL;
    bl_err err = {0};
    while (err.status == BL_OK && (old = jobs_take_oldest(jobs, owner)) != NULL) {
        if (job_forget(old, &err) != BL_OK)
            bl_log(BL_LOG_WARN, "the record of job %s cannot be deleted: %s", old->id, err.text);
        job_release(old);
    }
}

void job_start(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    job_step(job, EVENT_START);
    atomic_store(&job->means.program->left, false);
    job_wake(job);
    pthread_mutex_unlock(&jobs->lock);
    jobs_schedule(jobs);
}

void job_fail(bl_job *job, const bl_err *err)
{
    bl_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    job_become(job, JOB_FAILED, err->text);
    job_step(job, EVENT_WRITE);
    pthread_mutex_unlock(&jobs->lock);
    bl_log(BL_LOG_WARN, "job %s: %s", job->id, err->text);
    (void)job_submit_write(job);
}

bool job_leaves(const bl_job *job)
{
    return job->means.program != NULL && job->jobs->folder != NULL && !job_wants(job, WANT_PURGE);
}

void job_take_away(bl_job *job)
{
    bl_registry *registry = job->jobs->server->registry;
    bl_program *now = NULL;
    bl_err err = {0};
    if (job->means.program == NULL || bl_registry_get_program(registry, job->owner, job->ask.program_name, &now, &err) != BL_OK)
        return;
    job_unclaim(job);
    if (now == job->means.program && bl_registry_delete_program(registry, job->owner, job->ask.program_name, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "job %s: %s", job->id, err.text);
    bl_program_release(now);
}

void job_end(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    if (job->progress.ended <= 0)
        job->progress.ended = job_now();
    job_step(job, EVENT_END);
    job_change(job, job->becomes, job->because);
    jobs_wake(jobs);
}

void job_let_go(bl_job *job)
{
    bl_metrics_add(&job->jobs->server->metrics, BL_COUNT_JOBS, -1);
    job_free_means(job);
    free_requests(job);
}

/* ---- scheduling */

/* Under the lock: the number of jobs of the same owner and device that come before |job|.  The queue of the device decides
 * between owners. */
static size_t jobs_rank_of(bl_jobs *jobs, const bl_job *job)
{
    const char *id = NULL;
    void *value = NULL;
    size_t rank = 0;
    bool after = false;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *other = value;
        after = after || other == job;
        if (other != job && job_is_up(other) && other->withheld == NULL && other->means.worker == job->means.worker &&
            other->owner == job->owner)
            rank += other->ask.priority < job->ask.priority || (other->ask.priority == job->ask.priority && !after);
    }
    return rank;
}

bool job_is_to_seal(const bl_job *job)
{
    return job->phase == JOB_ENDING && job->becomes != JOB_FAILED && job->writes == WRITE_NONE &&
           job->progress.step == job->files.written;
}

void job_become(bl_job *job, job_state becomes, const char *because)
{
    job->becomes = becomes;
    snprintf(job->because, sizeof job->because, "%s", because);
    job_step(job, EVENT_DECIDE);
}

void job_become_cancelled(bl_job *job)
{
    char because[JOB_REASON];
    snprintf(because, sizeof because, "%scancelled after step %llu", job_wants(job, WANT_PURGE) ? JOB_PURGED ": " : "",
             (unsigned long long)job->progress.step);
    job_become(job, JOB_CANCELLED, because);
}

/* Under the lock: was the job cancelled while its last checkpoint is at the current step?  Then the job ends without another
 * slice. */
static bool ends_without_slice(const bl_job *job)
{
    return job->phase == JOB_IDLE && job_wants(job, WANT_CANCEL) && !job_wants(job, WANT_CHECKPOINT) &&
           job->progress.step == job->files.written;
}

/* Under the lock: does the job have work for its device? */
static bool has_work(const bl_job *job)
{
    bool write = (job->phase == JOB_IDLE || (job->phase == JOB_ENDING && job->progress.step != job->files.written)) &&
                 job->writes == WRITE_NONE;
    bool room = job->progress.nreports - job->progress.flushed < JOB_RING / 2;
    if (job_wants(job, WANT_CHECKPOINT))
        return write;
    return job->phase == JOB_IDLE && !ends_without_slice(job) && !job->jobs->draining &&
           (job_wants(job, WANT_CANCEL) || (room && !job_leaves_device(job)));
}

/* The reason why the key may not use a device now, or NULL.  The job continues when the key may use a device again. */
static const char *jobs_waits_for(bl_jobs *jobs, const bl_job *job)
{
    bl_access *access = jobs->server->access;
    const char *why = bl_access_why_not(access, job->owner);
    if (why == NULL && !bl_access_has_time(access, job->owner))
        why = "the key has had its device time of today";
    return why;
}

/* Under the lock: find a job that should get a slice now.  NULL if there is none. */
static bl_job *next_job(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        bool may_wait = (job->phase == JOB_IDLE || job->phase == JOB_AT_WORK) && !job_wants(job, WANT_CHECKPOINT | WANT_CANCEL);
        bool waits = false;
        if (!job_is_up(job)) /* otherwise another thread may be filling |means| */
            continue;
        job->withheld = may_wait ? jobs_waits_for(jobs, job) : NULL;
        waits = job->withheld != NULL || (may_wait && jobs_rank_of(jobs, job) >= jobs->server->settings.running_jobs);
        if (waits)
            job_change(job, JOB_QUEUED, job->withheld != NULL ? job->withheld : "other jobs of its device come first");
        if (!waits && has_work(job))
            return job;
    }
    return NULL;
}

void jobs_schedule(bl_jobs *jobs)
{
    bl_job *job = NULL;
    bl_status st = BL_OK;
    do {
        pthread_mutex_lock(&jobs->lock);
        job = next_job(jobs);
        if (job != NULL) {
            job_step(job, EVENT_SLICE);
            job->means.slice->err = (bl_err){0};
            atomic_store(&job->means.slice->cancel, false);
            if (job->phase == JOB_AT_WORK)
                job_change(job, JOB_RUNNING, "");
            job_retain(job);
        }
        pthread_mutex_unlock(&jobs->lock);
        if (job == NULL)
            break;
        st = bl_request_submit(job->means.slice, job->means.worker->queue, job_slice, &job->means.program->serial);
        if (st != BL_OK) { /* the queue is full; the next tick tries again */
            pthread_mutex_lock(&jobs->lock);
            job_step(job, EVENT_SLICED);
            pthread_mutex_unlock(&jobs->lock);
        }
        job_release(job);
    } while (st == BL_OK);
}

/* ---- periodic work */

/* Under the lock: find a job that needs the writer but no snapshot.  Such a job has reports to store, or a write that could not
 * be submitted.  NULL if there is none. */
static bl_job *next_to_write(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (job->writes == WRITE_UNSENT || job_is_to_seal(job) ||
            (job_is_up(job) && job->writes == WRITE_NONE && job->progress.nreports > job->progress.flushed))
            return job;
    }
    return NULL;
}

bool jobs_any_up(bl_jobs *jobs, const bl_job *but)
{
    const char *id = NULL;
    void *value = NULL;
    bool up = jobs->taken > (but != NULL && but->phase == JOB_RESTORING);
    for (size_t i = 0; !up && bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *job = value;
        up = job != but && job_is_up(job);
    }
    return up;
}

/* Under the lock: is there enough memory to restore the job, with a reserve for the steps of other jobs?  The need is an
 * estimate, so the restoration is tried anyway if no other job will free memory. */
static bool jobs_has_room(const bl_jobs *jobs, const bl_job *job, bool any_up)
{
    const bl_budget *memory = &jobs->server->memory;
    size_t taken = atomic_load(&memory->used) + jobs->needed + 2 * bl_budget_spare(memory);
    size_t left = memory->limit > taken ? memory->limit - taken : 0;
    return !any_up || (jobs->taken < MOST_TAKEN && job->files.need <= left);
}

/* Under the lock: may the job be restored now?  A job that lost its device waits for the device. */
static bool may_take_up(bl_jobs *jobs, bl_job *job, int64_t now, bool any_up)
{
    if (now < job->setbacks.again_ns || (job->means.worker != NULL && atomic_load(&job->means.worker->dev->lost)))
        return false;
    if (jobs_has_room(jobs, job, any_up))
        return true;
    if (jobs->taken < MOST_TAKEN)
        job_change(job, JOB_QUEUED, "waits for memory to go on from its last checkpoint");
    return false;
}

/* Under the lock: find a lost job that can be restored or was cancelled.  NULL if there is none.  A server that shuts down
 * leaves restorations to the next start. */
static bl_job *next_lost(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    int64_t now = bl_clock_ns();
    bool any_up = jobs_any_up(jobs, NULL);
    for (size_t i = 0; !jobs->draining && bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (job->phase == JOB_LOST && job->writes == WRITE_NONE && job->means.program == NULL &&
            (job_wants(job, WANT_CANCEL) || may_take_up(jobs, job, now, any_up)))
            return job;
    }
    return NULL;
}

/* Under the lock: find a lost job that still holds resources, because other jobs may need them.  NULL if there is none. */
static bl_job *next_to_free(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (job->phase == JOB_LOST && job->writes == WRITE_NONE && job->means.program != NULL)
            return job;
    }
    return NULL;
}

/* Begin the restoration.  Under the lock, which the function releases meanwhile. */
static void take_up(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    job_step(job, EVENT_RESTORE);
    pthread_mutex_unlock(&jobs->lock);
    job_restore(job);
    pthread_mutex_lock(&jobs->lock);
}

/* Cancel a lost job without restoring it.  Its last checkpoint remains.  Under the lock, which the function releases
 * meanwhile. */
static void cancel_lost(bl_job *job)
{
    bl_jobs *jobs = job->jobs;
    job_become_cancelled(job);
    job_step(job, EVENT_WRITE);
    pthread_mutex_unlock(&jobs->lock);
    (void)job_submit_write(job);
    pthread_mutex_lock(&jobs->lock);
}

bool job_leaves_device(const bl_job *job)
{
    return job->jobs->folder != NULL && job->means.worker != NULL && atomic_load(&job->means.worker->drained);
}

/* Under the lock: make a job leave a drained device.  The job writes a checkpoint and is then restored on another device, as
 * after a loss. */
static void leave_device(bl_job *job)
{
    bool rests = job->phase == JOB_IDLE && job->writes == WRITE_NONE && !job_wants(job, WANT_CHECKPOINT | WANT_CANCEL);
    if (!rests || !job_leaves_device(job) || job->jobs->draining)
        return;
    if (job->progress.step > job->files.written) {
        job_want(job, WANT_CHECKPOINT);
        return;
    }
    job->setbacks.moves++;
    job_step(job, EVENT_LOSE);
    job_change(job, JOB_QUEUED, "its device is drained: it goes on from its last checkpoint on another");
    bl_log(BL_LOG_INFO, "job %s moves away from %s after step %llu", job->id, job->ask.device, (unsigned long long)job->pos.done);
}

static void tick(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    bl_job *job = NULL;
    bool sent = true;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        job_ping(value);
        leave_device(value);
        if (!jobs->draining && ends_without_slice(value))
            job_become_cancelled(value);
    }
    while (sent && (job = next_to_write(jobs)) != NULL) {
        job_step(job, EVENT_WRITE);
        pthread_mutex_unlock(&jobs->lock);
        sent = job_submit_write(job); /* the phase WRITE_SENT keeps the job alive */
        pthread_mutex_lock(&jobs->lock);
    }
    while ((job = next_to_free(jobs)) != NULL) {
        pthread_mutex_unlock(&jobs->lock);
        job_free_means(job);
        pthread_mutex_lock(&jobs->lock);
    }
    while ((job = next_lost(jobs)) != NULL) {
        if (job_wants(job, WANT_CANCEL))
            cancel_lost(job);
        else
            take_up(job);
    }
}

static void run_jobs(void *arg)
{
    bl_jobs *jobs = arg;
    pthread_mutex_lock(&jobs->lock);
    tick(jobs);
    pthread_mutex_unlock(&jobs->lock);
    jobs_schedule(jobs);
}

void jobs_wake(bl_jobs *jobs)
{
    pthread_cond_broadcast(&jobs->changed);
    if (jobs->tick != NULL)
        bl_tick_wake(jobs->tick);
}

/* ---- all jobs */

size_t bl_jobs_count_on(bl_jobs *jobs, const bl_worker *worker)
{
    const char *id = NULL;
    void *value = NULL;
    size_t n = 0;
    if (jobs == NULL)
        return 0;
    pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *job = value;
        n += job->means.worker == worker && !job_is_final(job);
    }
    pthread_mutex_unlock(&jobs->lock);
    return n;
}

double bl_jobs_seconds_left(bl_jobs *jobs, const bl_worker *worker)
{
    const char *id = NULL;
    void *value = NULL;
    double most = 0;
    if (jobs == NULL)
        return 0;
    pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; most >= 0 && bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *job = value;
        double left = job->progress.rate > 0 ? (double)(job->ask.steps - job->progress.step) / job->progress.rate : -1;
        if (job->means.worker == worker && !job_is_final(job) && !job_wants(job, WANT_CANCEL))
            most = left < 0 || left > most ? left : most;
    }
    pthread_mutex_unlock(&jobs->lock);
    return most;
}

/* Check that no job that is not registered yet has claimed the program.  A deletion holds the grants until its end, so taking
 * the grants waits for the deletion. */
static bl_status check_claim(bl_registry *registry, uint32_t owner, const char *name, bl_err *err)
{
    bl_err busy = {0};
    if (bl_registry_check_program(registry, owner, name, &busy) == BL_EBUSY) {
        bl_grants_hold(bl_registry_grants(registry));
        bl_grants_let_go(bl_registry_grants(registry));
    }
    return bl_registry_check_program(registry, owner, name, err);
}

bl_status bl_jobs_guard(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err)
{
    const char *id = NULL;
    void *value = NULL;
    bl_status st = BL_OK;
    if (jobs == NULL) /* the server is still starting */
        return BL_OK;
    pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; st == BL_OK && bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *job = value;
        if (job_is_active(job) && job->owner == owner && strcmp(job->ask.program_name, name) == 0)
            st = bl_fail(err, BL_ECONFLICT, "job %s trains the program \"%.128s\"; wait until the job ends, or cancel the job",
                         job->id, name);
    }
    pthread_mutex_unlock(&jobs->lock);
    return st == BL_OK ? check_claim(jobs->server->registry, owner, name, err) : st;
}

bl_status bl_jobs_guard_restoring(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err)
{
    if (jobs == NULL || atomic_load(&jobs->nrestoring) == 0)
        return BL_OK;
    return bl_jobs_guard(jobs, owner, name, err);
}

/* Under the lock: does a job run, end, restore or write, or does a job still need a checkpoint? */
static bool is_busy(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        const bl_job *job = value;
        bool waits = job->phase == JOB_IDLE || job->phase == JOB_LOST;
        if (job_is_active(job) && (!waits || job->writes != WRITE_NONE || job_wants(job, WANT_CHECKPOINT)))
            return true;
    }
    return false;
}

/* Under the lock: stop the jobs.  |first|: request checkpoints of the jobs that have run steps since their last checkpoint;
 * else cancel the running slices. */
static void ask_to_stop(bl_jobs *jobs, bool first)
{
    const char *id = NULL;
    void *value = NULL;
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (first)
            job_wake(job);
        if (first && job->phase == JOB_IDLE && job->progress.step > job->files.written)
            job_want(job, WANT_CHECKPOINT);
        if (!first && (job->phase == JOB_AT_WORK || job->phase == JOB_LAST))
            atomic_store(&job->means.slice->cancel, true);
    }
}

void bl_jobs_drain(bl_jobs *jobs, double seconds)
{
    int64_t begin = bl_clock_ns();
    if (jobs == NULL || atomic_exchange(&jobs->draining, true))
        return;
    pthread_mutex_lock(&jobs->lock);
    ask_to_stop(jobs, true);
    pthread_mutex_unlock(&jobs->lock);
    jobs_schedule(jobs);
    pthread_mutex_lock(&jobs->lock);
    while (is_busy(jobs)) {
        struct timespec until = bl_clock_after(CLOCK_MONOTONIC, TICK_NS / 10);
        pthread_cond_timedwait(&jobs->changed, &jobs->lock, &until);
        if (bl_clock_ms(begin, bl_clock_ns()) > seconds * 1e3)
            ask_to_stop(jobs, false);
        pthread_mutex_unlock(&jobs->lock);
        jobs_schedule(jobs);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
}

bl_status bl_jobs_create(bl_server *server, bl_jobs **out, bl_err *err)
{
    bl_jobs *jobs = calloc(1, sizeof *jobs);
    *out = jobs;
    if (jobs == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for jobs");
    jobs->server = server;
    pthread_mutex_init(&jobs->lock, NULL);
    bl_clock_cond_init(&jobs->changed);
    jobs->names = bl_namemap_create();
    if (jobs->names == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for jobs");
    jobs->folder = bl_storage_make_folder(server->storage, "jobs");
    BL_TRY(bl_queue_create("the jobs' writer", server->settings.max_queue + 2 * server->settings.max_jobs, 1, NULL, &jobs->writer,
                           err));
    BL_TRY(jobs_load(jobs, err));
    jobs_sweep(jobs);
    BL_TRY(jobs_recall(jobs, err));
    BL_TRY(bl_ticker_create(&jobs->ticker, err));
    return bl_ticker_add(jobs->ticker, TICK_NS, run_jobs, jobs, &jobs->tick, err);
}

void bl_jobs_destroy(bl_jobs *jobs)
{
    const char *id = NULL;
    void *value = NULL;
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->tick = NULL; /* the writer may still call jobs_wake */
    pthread_mutex_unlock(&jobs->lock);
    bl_ticker_destroy(jobs->ticker);
    bl_queue_destroy(jobs->writer);
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++)
        job_release(value);
    bl_namemap_destroy(jobs->names);
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs->folder);
    free(jobs);
}
