/* SPDX-License-Identifier: MIT */
/* The bound on the reports of a job in the store: --max-reports bytes.  Beyond the bound the server deletes every second stored
 * report and omits every second later report, so the curve spans all steps at half the density.
 *
 * The step alone determines whether a report is kept, so a restored job keeps the same reports: reports at steps that are
 * multiples of history.every and, for evaluations, of history.evaluated.  Both start at the values that the job asks for, and
 * the smaller of the two doubles.  Evaluations are less frequent, so they stay longer.  Thread: the writer's. */
#include "server/access/access.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <string.h>

enum { ROW_BYTES = 64 }; /* bytes of a row besides its cells: the id of the job, the step, the time, and SQLite overhead */

static const char total[] = "SELECT coalesce(sum(length(cells) + 64), 0) FROM job_reports WHERE job = ?1";
static const char others[] = "SELECT count(*) FROM job_reports WHERE job = ?1 AND (?2 = 0 OR step % ?2 <> 0) AND (?3 = 0 OR "
                             "step % ?3 <> 0)";
static const char thin[] = "DELETE FROM job_reports WHERE job = ?1 AND (?2 = 0 OR step % ?2 <> 0) AND (?3 = 0 OR step % ?3 <> 0)";

_Static_assert(ROW_BYTES == 64, "as |total| says");

static bool history_take_number(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    *(int64_t *)arg = cells[0].integer;
    return false;
}

/* Run |sql| with the steps of |h| as ?2 and ?3.  *out becomes the number in the result; |out| may be NULL. */
static bl_status history_run(const bl_job *job, const char *sql, const job_history *h, int64_t *out, bl_err *err)
{
    bl_cell cells[] = {bl_cell_text(job->id), bl_cell_int((int64_t)h->every), bl_cell_int((int64_t)h->evaluated)};
    return bl_storage_run(job->jobs->server->storage, sql, sql == total ? 1 : 3, cells, out != NULL ? history_take_number : NULL,
                          out, err);
}

bl_status job_history_count(bl_job *job, bl_err *err)
{
    int64_t bytes = 0;
    BL_TRY(history_run(job, total, &job->files.history, &bytes, err));
    bl_access_count_disk(job->jobs->server->access, job->owner, bytes - (int64_t)job->files.history.bytes);
    job->files.history.bytes = (uint64_t)bytes;
    return BL_OK;
}

/* Halve the density.  False if this is impossible. */
static bool coarsen(job_history *h)
{
    uint64_t *step = h->evaluated == 0 || (h->every > 0 && h->every <= h->evaluated) ? &h->every : &h->evaluated;
    if (*step == 0 || *step > INT64_MAX / 2)
        return false;
    *step *= 2;
    return true;
}

static void set_steps(bl_job *job, const job_history *h)
{
    pthread_mutex_lock(&job->jobs->lock);
    job->files.history.every = h->every;
    job->files.history.evaluated = h->evaluated;
    job->files.history.known = true;
    job->files.history.thinned = h->every != job->means.train.every || h->evaluated != job->means.evaluation.every;
    pthread_mutex_unlock(&job->jobs->lock);
}

/* Find the density of the stored reports.  The density is what the job asks for, unless the store is so full that reports may
 * have been deleted: then it is the lowest density that fits all stored reports. */
static bl_status recognise(bl_job *job, uint64_t most, bl_err *err)
{
    job_history h = {.every = job->means.train.every, .evaluated = job->means.evaluation.every}, next = h;
    int64_t strangers = 0;
    while (job->files.history.bytes > most / 8 && strangers == 0 && coarsen(&next)) {
        BL_TRY(history_run(job, others, &next, &strangers, err));
        if (strangers == 0)
            h = next;
    }
    set_steps(job, &h);
    return BL_OK;
}

bool job_history_keeps(const bl_job *job, const job_row *row, uint64_t at)
{
    const job_history *h = &job->files.history;
    uint64_t step = job->progress.ring[at % JOB_RING].step;
    return (h->every > 0 && step % h->every == 0) || (h->evaluated > 0 && step % h->evaluated == 0) ||
           (row->ended > 0 && at + 1 == row->last); /* the last report of an ended job is always kept */
}

static uint64_t count_new(const bl_job *job, const job_row *row)
{
    uint64_t bytes = 0;
    for (uint64_t i = row->first; i < row->last; i++)
        if (job_history_keeps(job, row, i))
            bytes += strlen(job->progress.ring[i % JOB_RING].cells) + ROW_BYTES;
    return bytes;
}

bl_status job_history_fit(bl_job *job, const job_row *row, uint64_t *bytes, bl_err *err)
{
    uint64_t most = job->jobs->server->settings.max_reports;
    job_history h;
    if (!job->files.history.known)
        BL_TRY(recognise(job, most, err));
    h = job->files.history;
    while ((*bytes = count_new(job, row)) > 0 && job->files.history.bytes + *bytes > most && coarsen(&h)) {
        set_steps(job, &h);
        BL_TRY(history_run(job, thin, &h, NULL, err));
        BL_TRY(job_history_count(job, err));
    }
    return BL_OK;
}

void job_history_tell(bl_job *job, const job_row *row, const bl_err *refused)
{
    char *why = job->files.history.refused;
    pthread_mutex_lock(&job->jobs->lock);
    if (refused->status != BL_OK && why[0] == '\0') {
        snprintf(why, sizeof job->files.history.refused, "reports from step %llu on are left out: %.300s",
                 (unsigned long long)job->progress.ring[row->first % JOB_RING].step, refused->text);
        job->progress.changes++;
    } else if (refused->status == BL_OK && why[0] != '\0') {
        why[0] = '\0';
        job->progress.changes++;
    }
    pthread_mutex_unlock(&job->jobs->lock);
}
