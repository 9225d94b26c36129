/* SPDX-License-Identifier: MIT */
/* Restoration, at the start of the server, of the programs that ended jobs left, from the last checkpoints of these jobs. */
#include "engine/base/log.h"
#include "server/data/snapshot.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/registry.h"
#include "server/store/storage.h"

#include <unistd.h>

/* Get the program of the job.  A durable program is already restored, with its state before the job ended. */
static bl_status need_program(const bl_job *job, bl_program **out, bl_err *err)
{
    bl_server *server = job->jobs->server;
    bl_err missing = {0};
    uint64_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    if (bl_registry_get_program(server->registry, job->owner, job->ask.program_name, out, &missing) == BL_OK)
        return BL_OK;
    BL_TRY(job_open_file(job, job_file_named(job, JOB_REQUEST), &fd, &bytes, err));
    st = bl_recall_program(server, job->owner, job->ask.program_name, fd, out, err);
    (void)close(fd);
    return st;
}

static bl_status recall_put_state(const bl_job *job, bl_program *program, bl_err *err)
{
    uint64_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    if (job->files.nmarks == 0)
        return bl_fail(err, BL_ESTORAGE, "there is no checkpoint of the job");
    BL_TRY(job_open_file(job, job_checkpoint_file(job, job->files.marks[job->files.nmarks - 1].step, false), &fd, &bytes, err));
    st = bl_recall_state(program, fd, err);
    (void)close(fd);
    return st;
}

static bl_status recall_bring_back(const bl_job *job, bl_err *err)
{
    bl_program *program = NULL;
    bl_status st = need_program(job, &program, err);
    if (st == BL_OK)
        st = recall_put_state(job, program, err);
    if (st == BL_OK) {
        program->left = true;
        st = bl_registry_put_program(job->jobs->server->registry, job->owner, job->ask.program_name, program, false, err);
    }
    bl_program_release(program);
    return st;
}

/* Give up the restoration.  If the files are missing, delete the row: the name then denotes no program, or the durable program.
 * After other failures the row stays for the next start. */
static void recall_give_up(bl_jobs *jobs, const char *id, const bl_job *job, const bl_err *why)
{
    bl_err err = {0};
    if (job != NULL)
        bl_log(BL_LOG_WARN, "the program %.128s cannot be restored with the state that job %s gave it: %s", job->ask.program_name,
               id, why->text);
    if (job != NULL && why->status != BL_ESTORAGE)
        return;
    if (bl_storage_run(jobs->server->storage, "DELETE FROM job_programs WHERE job = ?1", BL_CELLS(bl_cell_text(id)), NULL, NULL,
                       &err) != BL_OK)
        bl_log(BL_LOG_WARN, "job %s: %s", id, err.text);
}

static bool recall_row(void *arg, const bl_cell *cells, int n)
{
    bl_jobs *jobs = arg;
    const char *id = cells[0].bytes.data;
    const bl_job *job = bl_namemap_get(jobs->names, id);
    bl_err why = {0};
    (void)n;
    if (job == NULL || recall_bring_back(job, &why) != BL_OK)
        recall_give_up(jobs, id, job, &why);
    return true;
}

bl_status jobs_recall(bl_jobs *jobs, bl_err *err)
{
    return bl_storage_each(jobs->server->storage, "SELECT job FROM job_programs", recall_row, jobs, err);
}
