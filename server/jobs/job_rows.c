/* SPDX-License-Identifier: MIT */
/* The tables of the jobs in the store: jobs, job_reports, job_checkpoints, job_programs. */
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/jobs/jobs_internal.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bl_status job_rows_run(bl_job *job, const char *sql, int n, const bl_cell *cells, bl_err *err)
{
    return bl_storage_run(job->jobs->server->storage, sql, n, cells, NULL, NULL, err);
}

/* ---- writing */

typedef struct change {
    bl_job *job;
    const job_row *row;
    uint64_t bytes;
    bool left_out; /* the reports of the row are not stored */
} change;

static bl_status insert_all(void *arg, bl_err *err)
{
    const change *c = arg;
    bl_job *job = c->job;
    bl_text columns = {0};
    bl_status st = BL_OK;
    for (int i = 0; i < job->ask.ncolumns; i++)
        bl_text_printf(&columns, "%s%s", i > 0 ? "\t" : "", job->ask.columns[i]);
    st = bl_text_status(&columns, err);
    if (st == BL_OK)
        st = job_rows_run(
            job,
            "INSERT INTO jobs (id, owner, program, entry, device, steps, priority, columns, metrics, created, state, reason, "
            "step, restarts) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'queued', '', 0, 0)",
            BL_CELLS(bl_cell_text(job->id), bl_cell_int(job->owner), bl_cell_text(job->ask.program_name),
                     bl_cell_text(job->ask.entry_name), bl_cell_text(job->ask.device), bl_cell_int((int64_t)job->ask.steps),
                     bl_cell_int(job->ask.priority), bl_cell_text(bl_text_get(&columns)), bl_cell_int(job->ask.nmetrics),
                     bl_cell_real(job->ask.created)),
            err);
    bl_text_fini(&columns);
    if (st == BL_OK) /* this job continues from the state that another job left */
        st = job_rows_run(job, "DELETE FROM job_programs WHERE owner = ?1 AND program = ?2",
                          BL_CELLS(bl_cell_int(job->owner), bl_cell_text(job->ask.program_name)), err);
    if (st != BL_OK || c->bytes == 0)
        return st;
    if (job->files.marks == NULL)
        job->files.marks = calloc(1, sizeof *job->files.marks);
    if (job->files.marks == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a job");
    job->files.nmarks = job->files.marks_cap = 1;
    job->files.marks[0] = (job_mark){.bytes = c->bytes, .time = job->ask.created};
    return job_rows_run(job, "INSERT INTO job_checkpoints (job, step, time, bytes) VALUES (?1, 0, ?2, ?3)",
                        BL_CELLS(bl_cell_text(job->id), bl_cell_real(job->ask.created), bl_cell_int((int64_t)c->bytes)), err);
}

bl_status job_insert(bl_job *job, uint64_t bytes, bl_err *err)
{
    change c = {.job = job, .bytes = bytes};
    return bl_storage_together(job->jobs->server->storage, insert_all, &c, err);
}

static bl_status delete_all(void *arg, bl_err *err)
{
    bl_job *job = arg;
    bl_cell id = bl_cell_text(job->id);
    BL_TRY(job_rows_run(job, "DELETE FROM job_reports WHERE job = ?1", 1, &id, err));
    BL_TRY(job_rows_run(job, "DELETE FROM job_checkpoints WHERE job = ?1", 1, &id, err));
    BL_TRY(job_rows_run(job, "DELETE FROM job_programs WHERE job = ?1", 1, &id, err));
    return job_rows_run(job, "DELETE FROM jobs WHERE id = ?1", 1, &id, err);
}

bl_status job_delete_rows(bl_job *job, bl_err *err)
{
    BL_TRY(bl_storage_together(job->jobs->server->storage, delete_all, job, err));
    return job_history_count(job, err);
}

static bl_status update_all(void *arg, bl_err *err)
{
    const change *c = arg;
    const job_row *row = c->row;
    bl_job *job = c->job;
    bl_cell id = bl_cell_text(job->id);
    for (uint64_t i = row->first; i < row->last && !c->left_out; i++) {
        const job_report *report = &job->progress.ring[i % JOB_RING]; /* a report stays in the ring until it is stored */
        if (!job_history_keeps(job, row, i))
            continue;
        BL_TRY(job_rows_run(
            job, "INSERT OR REPLACE INTO job_reports (job, step, time, cells) VALUES (?1, ?2, ?3, ?4)",
            BL_CELLS(id, bl_cell_int((int64_t)report->step), bl_cell_real(report->time), bl_cell_text(report->cells)), err));
    }
    if (row->mark != NULL)
        BL_TRY(job_rows_run(job, "INSERT OR REPLACE INTO job_checkpoints (job, step, time, bytes) VALUES (?1, ?2, ?3, ?4)",
                            BL_CELLS(id, bl_cell_int((int64_t)row->mark->step), bl_cell_real(row->mark->time),
                                     bl_cell_int((int64_t)row->mark->bytes)),
                            err));
    for (int i = 0; i < row->ndropped; i++)
        BL_TRY(job_rows_run(job, "DELETE FROM job_checkpoints WHERE job = ?1 AND step = ?2",
                            BL_CELLS(id, bl_cell_int((int64_t)row->dropped[i])), err));
    if (row->leaves)
        BL_TRY(job_rows_run(job, "INSERT OR REPLACE INTO job_programs (owner, program, job) VALUES (?1, ?2, ?3)",
                            BL_CELLS(bl_cell_int(job->owner), bl_cell_text(job->ask.program_name), id), err));
    return job_rows_run(
        job, "UPDATE jobs SET state = ?2, reason = ?3, step = ?4, ended = ?5, restarts = ?6, started = ?7 WHERE id = ?1",
        BL_CELLS(id, bl_cell_text(job_state_names[row->state]), bl_cell_text(row->reason), bl_cell_int((int64_t)row->step),
                 bl_cell_real(row->ended), bl_cell_int(row->restarts), bl_cell_real(row->started)),
        err);
}

bl_status job_update(bl_job *job, const job_row *row, bl_err *err)
{
    bl_access *access = job->jobs->server->access;
    change c = {.job = job, .row = row};
    bl_err refused = {0};
    bl_status st = BL_OK;
    BL_TRY(job_history_fit(job, row, &c.bytes, err));
    c.left_out = c.bytes > 0 && bl_access_take_disk(access, job->owner, c.bytes, 0, &refused) != BL_OK;
    st = bl_storage_together(job->jobs->server->storage, update_all, &c, err);
    if (c.bytes > 0)
        job_history_tell(job, row, &refused);
    if (c.left_out)
        return st;
    if (st == BL_OK)
        job->files.history.bytes += c.bytes;
    else
        bl_access_count_disk(access, job->owner, -(int64_t)c.bytes);
    return st;
}

typedef struct rewound {
    bl_job *job;
    uint64_t step;
} rewound;

static bl_status rewind_all(void *arg, bl_err *err)
{
    const rewound *r = arg;
    bl_cell cells[] = {bl_cell_text(r->job->id), bl_cell_int((int64_t)r->step)};
    BL_TRY(job_rows_run(r->job, "DELETE FROM job_reports WHERE job = ?1 AND step > ?2", 2, cells, err));
    return job_rows_run(r->job, "DELETE FROM job_checkpoints WHERE job = ?1 AND step > ?2", 2, cells, err);
}

bl_status job_rewind(bl_job *job, uint64_t step, bl_err *err)
{
    rewound r = {job, step};
    BL_TRY(bl_storage_together(job->jobs->server->storage, rewind_all, &r, err));
    return job_history_count(job, err);
}

/* ---- reading */

typedef struct reader {
    bool (*each)(void *arg, const job_report *report);
    void *arg;
    bl_status status;
} reader;

static bool read_report(void *arg, const bl_cell *cells, int n)
{
    reader *r = arg;
    char *text = n == 3 ? strndup(cells[2].bytes.data, cells[2].bytes.len) : NULL;
    job_report report = {.step = (uint64_t)cells[0].integer, .time = cells[1].real, .cells = text};
    bool more = text != NULL && r->each(r->arg, &report);
    r->status = text != NULL ? BL_OK : BL_ENOMEM;
    free(text);
    return more;
}

bl_status job_each_report(bl_job *job, uint64_t from, uint64_t most, bool (*each)(void *arg, const job_report *report), void *arg,
                          bl_err *err)
{
    reader r = {each, arg, BL_OK};
    int64_t first = from > INT64_MAX ? INT64_MAX : (int64_t)from, limit = most > INT64_MAX ? INT64_MAX : (int64_t)most;
    BL_TRY(bl_storage_run(job->jobs->server->storage,
                          "SELECT step, time, cells FROM job_reports WHERE job = ?1 AND step >= ?2 ORDER BY step LIMIT ?3",
                          BL_CELLS(bl_cell_text(job->id), bl_cell_int(first), bl_cell_int(limit)), read_report, &r, err));
    return r.status == BL_OK ? BL_OK : bl_fail(err, r.status, "the reports of a job");
}

/* The latest reports, latest first, for streams that resume. */
typedef struct newest {
    job_report *at;
    int n;
} newest;

static bool take_newest(void *arg, const bl_cell *cells, int n)
{
    newest *all = arg;
    job_report report = {.step = (uint64_t)cells[0].integer, .time = cells[1].real};
    report.cells = n == 3 ? strndup(cells[2].bytes.data, cells[2].bytes.len) : NULL;
    if (report.cells != NULL)
        all->at[all->n++] = report;
    return report.cells != NULL && all->n < JOB_RING / 2;
}

bl_status job_load_reports(bl_job *job, bl_err *err)
{
    newest all = {.at = calloc(JOB_RING / 2, sizeof *all.at)};
    bl_status st = BL_OK;
    if (all.at == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the reports of a job");
    st = bl_storage_run(job->jobs->server->storage, "SELECT step, time, cells FROM job_reports WHERE job = ?1 ORDER BY step DESC",
                        BL_CELLS(bl_cell_text(job->id)), take_newest, &all, err);
    pthread_mutex_lock(&job->jobs->lock);
    while (all.n > 0)
        job_report_put(job, all.at[--all.n]);
    job->progress.flushed = job->progress.nreports;
    pthread_mutex_unlock(&job->jobs->lock);
    free(all.at);
    return st;
}

/* The state of loading all jobs.  A row that cannot be loaded fails the start of the server: otherwise the sweep would delete
 * the files of an unknown job. */
typedef struct loading {
    bl_jobs *jobs;
    bl_job *job; /* the job whose checkpoints are being read */
    bl_err err;
} loading;

static bl_status load_rows(loading *l, const char *sql, int n, const bl_cell *cells, bl_storage_row row, bl_err *err)
{
    BL_TRY(bl_storage_run(l->jobs->server->storage, sql, n, cells, row, l, err));
    return l->err.status == BL_OK ? BL_OK : bl_fail(err, l->err.status, "%s", l->err.text);
}

static bool take_mark(void *arg, const bl_cell *cells, int n)
{
    loading *l = arg;
    job_mark mark = {.step = (uint64_t)cells[0].integer, .bytes = (uint64_t)cells[2].integer, .time = cells[1].real};
    (void)n;
    if (job_add_mark(l->job, mark))
        return true;
    (void)bl_fail(&l->err, BL_ENOMEM, "out of host memory for the checkpoints of a job");
    return false;
}

static char *job_rows_text_of(bl_job *job, const bl_cell *cell)
{
    return bl_arena_strndup(job->arena, cell->bytes.data != NULL ? cell->bytes.data : "", cell->bytes.len);
}

/* Split a cell such as "loss\tevaluate.loss" into columns. */
static void job_rows_split_columns(bl_job *job, const bl_cell *cell)
{
    char *text = job_rows_text_of(job, cell), *at = NULL;
    size_t most = 1;
    for (size_t i = 0; i < cell->bytes.len; i++)
        most += cell->bytes.data[i] == '\t';
    job->ask.columns = bl_arena_array(job->arena, most, sizeof *job->ask.columns);
    if (text == NULL || job->ask.columns == NULL)
        return;
    for (const char *name = strtok_r(text, "\t", &at); name != NULL; name = strtok_r(NULL, "\t", &at))
        job->ask.columns[job->ask.ncolumns++] = name;
}

static void job_rows_fill(bl_job *job, const bl_cell *cells)
{
    snprintf(job->id, sizeof job->id, "%.*s", (int)cells[0].bytes.len, cells[0].bytes.data);
    job->owner = (uint32_t)cells[1].integer;
    job->ask.program_name = job_rows_text_of(job, &cells[2]);
    job->ask.entry_name = job_rows_text_of(job, &cells[3]);
    job->ask.device = job_rows_text_of(job, &cells[4]);
    job->ask.steps = (uint64_t)cells[5].integer;
    job->ask.priority = (int)cells[6].integer;
    job_rows_split_columns(job, &cells[7]);
    job->ask.nmetrics = (int)cells[8].integer < job->ask.ncolumns ? (int)cells[8].integer : job->ask.ncolumns;
    job->ask.created = cells[9].real;
    job->progress.started = cells[10].real;
    job->progress.ended = cells[11].real;
    for (int i = 0; i <= JOB_CANCELLED; i++)
        if (bl_span_is(cells[12].bytes, job_state_names[i]))
            job->state = (job_state)i;
    snprintf(job->reason, sizeof job->reason, "%.*s", (int)cells[13].bytes.len, cells[13].bytes.data);
    job->progress.step = (uint64_t)cells[14].integer;
    job->progress.restarts = (int)cells[15].integer;
    job->progress.changes = 1;
}

static bool load_job(void *arg, const bl_cell *cells, int n)
{
    loading *l = arg;
    bl_job *job = job_create(l->jobs);
    (void)n;
    if (job == NULL) {
        (void)bl_fail(&l->err, BL_ENOMEM, "out of host memory for a job");
        return false;
    }
    job_rows_fill(job, cells);
    if (bl_arena_status(job->arena, &l->err) == BL_OK && bl_namemap_put(l->jobs->names, job->id, job, &l->err) == BL_OK)
        return true;
    job_release(job);
    return false;
}

bl_status jobs_load(bl_jobs *jobs, bl_err *err)
{
    const char *id = NULL;
    void *value = NULL;
    loading l = {.jobs = jobs};
    BL_TRY(load_rows(&l,
                     "SELECT id, owner, program, entry, device, steps, priority, columns, metrics, created, started, ended, "
                     "state, reason, step, restarts FROM jobs ORDER BY created",
                     0, NULL, load_job, err));
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        l.job = job;
        BL_TRY(load_rows(&l, "SELECT step, time, bytes FROM job_checkpoints WHERE job = ?1 ORDER BY step",
                         BL_CELLS(bl_cell_text(job->id)), take_mark, err));
        BL_TRY(job_history_count(job, err));
        if (job_is_final(job)) {
            job_step(job, EVENT_END);
            BL_TRY(job_load_reports(job, err));
            continue;
        }
        BL_TRY(job_make_requests(job, err));
        job->files.need = job_need(job);
        job->setbacks.fits = true;
        job_step(job, EVENT_LOSE);
        job_change(job, JOB_QUEUED, "is being taken up again");
        bl_metrics_add(&jobs->server->metrics, BL_COUNT_JOBS, 1);
        bl_log(BL_LOG_INFO, "job %s of program %s continues", job->id, job->ask.program_name);
    }
    return BL_OK;
}
