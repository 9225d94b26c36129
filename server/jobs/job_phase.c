/* SPDX-License-Identifier: MIT */
/* The state machine of a job and of its writes.  docs/jobs.md has the diagram. */
#include "engine/base/log.h"
#include "server/jobs/jobs_internal.h"

typedef struct transition {
    job_phase from;
    job_event event;
    job_phase to;
} transition;

static const transition transitions[] = {
    {JOB_NEW, EVENT_START, JOB_IDLE},
    {JOB_NEW, EVENT_LOSE, JOB_LOST}, /* the server started and found the job in the store */
    {JOB_NEW, EVENT_END, JOB_ENDED}, /* the server started and found an ended job in the store */
    {JOB_LOST, EVENT_RESTORE, JOB_RESTORING},
    {JOB_LOST, EVENT_DECIDE, JOB_ENDING}, /* the job was cancelled */
    {JOB_RESTORING, EVENT_START, JOB_IDLE},
    {JOB_RESTORING, EVENT_LOSE, JOB_LOST},
    {JOB_RESTORING, EVENT_DECIDE, JOB_ENDING}, /* the restoration failed */
    {JOB_IDLE, EVENT_SLICE, JOB_AT_WORK},
    {JOB_IDLE, EVENT_LOSE, JOB_LOST},
    {JOB_IDLE, EVENT_DECIDE, JOB_ENDING},
    {JOB_AT_WORK, EVENT_SLICED, JOB_IDLE},
    {JOB_ENDING, EVENT_DECIDE, JOB_ENDING}, /* the last snapshot or write failed, so the job fails */
    {JOB_ENDING, EVENT_SLICE, JOB_LAST},
    {JOB_ENDING, EVENT_STORE, JOB_STORED},
    {JOB_ENDING, EVENT_END, JOB_ENDED}, /* the job failed, and the store failed too */
    {JOB_LAST, EVENT_DECIDE, JOB_LAST},
    {JOB_LAST, EVENT_STORE, JOB_LAST}, /* a failure was stored while the slice still ran; the final state is stored again */
    {JOB_LAST, EVENT_SLICED, JOB_ENDING},
    {JOB_STORED, EVENT_END, JOB_ENDED},
    {WRITE_NONE, EVENT_SNAP, WRITE_SNAP},
    {WRITE_NONE, EVENT_WRITE, WRITE_SENT}, /* a write of reports or of a state, without a snapshot */
    {WRITE_SNAP, EVENT_SNAP_FAIL, WRITE_NONE},
    {WRITE_SNAP, EVENT_WRITE, WRITE_SENT},
    {WRITE_SENT, EVENT_WRITE_REFUSE, WRITE_UNSENT},
    {WRITE_SENT, EVENT_WRITTEN, WRITE_NONE},
    {WRITE_UNSENT, EVENT_WRITE, WRITE_SENT},
};

bool job_phase_next(job_phase from, job_event event, job_phase *to)
{
    for (size_t i = 0; i < sizeof transitions / sizeof transitions[0]; i++)
        if (transitions[i].from == from && transitions[i].event == event) {
            *to = transitions[i].to;
            return true;
        }
    return false;
}

/* Add |n| jobs in |phase| to the counts of |jobs|. */
static void count_phase(const bl_job *job, job_phase phase, int n)
{
    bl_jobs *jobs = job->jobs;
    if (phase != JOB_LOST && phase != JOB_RESTORING)
        return;
    atomic_fetch_add(&jobs->nrestoring, n);
    if (phase == JOB_RESTORING) {
        jobs->taken += n;
        jobs->needed = n > 0 ? jobs->needed + job->files.need : jobs->needed - job->files.need;
    }
    jobs_wake(jobs); /* the periodic work restores jobs and frees the resources of lost jobs */
}

void job_step(bl_job *job, job_event event)
{
    job_phase *phase = event < EVENT_SNAP ? &job->phase : &job->writes, from = *phase;
    bool known = job_phase_next(from, event, phase);
    BL_ASSERT(known);
    if (!known) {
        bl_log(BL_LOG_ERROR, "bug: job %s: event %d in phase %d; the table of transitions does not have it", job->id, (int)event,
               (int)from);
        return;
    }
    count_phase(job, *phase, 1); /* the new phase is counted first, because |nrestoring| is read without the lock and must
                                  * not pass through 0 */
    count_phase(job, from, -1);
}
