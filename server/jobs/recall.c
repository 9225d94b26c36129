/* SPDX-License-Identifier: MIT */
/* At the start: programs that jobs left when they ended come back from the last checkpoint of these. */
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/data/snapshot.h"
#include "server/jobs/internal.h"
#include "server/shelf.h"
#include "server/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct row {
    struct row *next;
    char job[JOB_ID];
} row;

typedef struct listing {
    row *first, **end;
    bool failed; /* out of memory: rows are missing */
} listing;

static bool take_row(void *arg, const bl_cell *cells, int n)
{
    listing *list = arg;
    row *r = bl_calloc(1, sizeof *r);
    (void)n;
    list->failed = r == NULL;
    if (r == NULL)
        return false;
    *list->end = r;
    list->end = &r->next;
    snprintf(r->job, sizeof r->job, "%s", cells[0].bytes.data);
    return true;
}

/* One that is durable is there already, as it was before the job ended. */
static bl_status need_program(const bl_job *job, bl_program **out, bl_err *err)
{
    bl_server *server = job->jobs->server;
    bl_err missing = {0};
    size_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    if (bl_shelf_get_program(server->shelf, job->owner, job->program_name, out, &missing) == BL_OK)
        return BL_OK;
    BL_TRY(job_open_file(job_path(job, "request.safetensors"), &fd, &bytes, err));
    st = bl_recall_program(server, job->owner, job->program_name, fd, out, err);
    (void)close(fd);
    return st;
}

static bl_status put_state(const bl_job *job, bl_program *program, bl_err *err)
{
    size_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    if (job->nmarks == 0)
        return bl_fail(err, BL_ESTORAGE, "there is no checkpoint of the job");
    BL_TRY(job_open_file(job_checkpoint_path(job, job->marks[job->nmarks - 1].step, false), &fd, &bytes, err));
    st = bl_recall_state(program, fd, err);
    (void)close(fd);
    return st;
}

static bl_status bring_back(const bl_job *job, bl_err *err)
{
    bl_program *program = NULL;
    bl_status st = need_program(job, &program, err);
    if (st == BL_OK)
        st = put_state(job, program, err);
    if (st == BL_OK) {
        program->left = true;
        st = bl_shelf_put_program(job->jobs->server->shelf, job->owner, job->program_name, program, false, err);
    }
    bl_program_release(program);
    return st;
}

/* From now on the name stands for nothing, or for what is durable. */
static void give_up(bl_jobs *jobs, const char *id, const bl_job *job, const bl_err *why)
{
    bl_err err = {0};
    if (job != NULL)
        bl_log(BL_LOG_WARN, "the program %.128s, as job %s left it, does not come back: %s", job->program_name, id, why->text);
    if (bl_storage_run(jobs->server->storage, "DELETE FROM job_programs WHERE job = ?1", BL_CELLS(bl_cell_text(id)), NULL, NULL,
                       &err) != BL_OK)
        bl_log(BL_LOG_WARN, "job %s: %s", id, err.text);
}

bl_status jobs_recall(bl_jobs *jobs, bl_err *err)
{
    listing list = {.end = &list.first};
    bl_status st = bl_storage_run(jobs->server->storage, "SELECT job FROM job_programs", 0, NULL, take_row, &list, err);
    if (st == BL_OK && list.failed)
        st = bl_fail(err, BL_ENOMEM, "what jobs left");
    while (list.first != NULL) {
        row *r = list.first;
        const bl_job *job = bl_namemap_get(jobs->names, r->job);
        bl_err why = {0};
        list.first = r->next;
        if (st == BL_OK && (job == NULL || bring_back(job, &why) != BL_OK))
            give_up(jobs, r->job, job, &why);
        free(r);
    }
    return st;
}
