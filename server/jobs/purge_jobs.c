/* SPDX-License-Identifier: MIT */
/* Purge of a key: the jobs of the key. */
#include "server/jobs/jobs_internal.h"
#include "server/store/storage.h"

typedef struct purge {
    bl_jobs *jobs;
    uint32_t owner;
    void *data; /* the previous data of the request */
} purge;

/* Mark the jobs as cancelled in the store, so that a server that is killed now does not restore them at the next start. */
static bl_status change_rows(void *arg, bl_err *err)
{
    const purge *p = arg;
    bl_storage *storage = p->jobs->server->storage;
    BL_TRY(bl_storage_run(storage,
                          "UPDATE jobs SET state = 'cancelled', reason = ?2, ended = ?3 WHERE owner = ?1 AND state IN ('queued', "
                          "'running')",
                          BL_CELLS(bl_cell_int(p->owner), bl_cell_text(JOB_PURGED), bl_cell_real(job_now())), NULL, NULL, err));
    return bl_storage_run(storage, "DELETE FROM job_programs WHERE owner = ?1", BL_CELLS(bl_cell_int(p->owner)), NULL, NULL, err);
}

/* Purge the jobs.  This runs on the writer's thread, so that no later write of these jobs stores another state. */
static bl_step purge_jobs_work(bl_request *rq)
{
    purge *p = rq->data;
    const char *id = NULL;
    void *value = NULL;
    rq->data = p->data;
    if (bl_storage_together(p->jobs->server->storage, change_rows, p, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    pthread_mutex_lock(&p->jobs->lock);
    for (size_t i = 0; bl_namemap_at(p->jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (job->owner != p->owner || job_is_final(job))
            continue;
        job_want(job, WANT_CANCEL | WANT_PURGE);
    }
    pthread_mutex_unlock(&p->jobs->lock);
    jobs_schedule(p->jobs);
    return BL_STEP_DONE;
}

bl_status bl_jobs_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq))
{
    purge *p = bl_arena_alloc(rq->arena, sizeof *p);
    if (p == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *p = (purge){.jobs = rq->server->jobs, .owner = owner, .data = rq->data};
    rq->data = p;
    rq->then = then;
    return bl_request_submit(rq, p->jobs->writer, purge_jobs_work, NULL);
}
