/* SPDX-License-Identifier: MIT */
/* Handlers that read and end jobs. */
#include "server/http/handlers.h"

#include "proto/encode.h"
#include "server/jobs/jobs_internal.h"
#include "server/ops/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bl_status bl_handle_jobs_list(bl_request *rq)
{
    bl_jobs *jobs = rq->server->jobs;
    const char *id = NULL;
    void *value = NULL;
    bool any = false;
    bl_text_puts(&rq->reply.out, "{\"jobs\":[");
    pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; bl_namemap_at(jobs->names, i, &id, &value); i++) {
        bl_job *job = value;
        if (job->owner != rq->owner)
            continue;
        bl_text_puts(&rq->reply.out, any ? "," : "");
        job_describe(job, &rq->reply.out);
        any = true;
    }
    pthread_mutex_unlock(&jobs->lock);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static void reply_job(bl_request *rq, bl_job *job, int status)
{
    pthread_mutex_lock(&job->jobs->lock);
    job_describe(job, &rq->reply.out);
    pthread_mutex_unlock(&job->jobs->lock);
    bl_request_reply_json(rq, status);
}

bl_status bl_handle_job_get(bl_request *rq)
{
    bl_job *job = NULL;
    BL_TRY(job_find_to_read(rq, &job));
    reply_job(rq, job, 200);
    return BL_OK;
}

/* ---- the end */

static bl_step job_handlers_forget(bl_request *rq)
{
    rq->err.status = job_forget(rq->data, &rq->err);
    return BL_STEP_DONE;
}

static bl_status reply_forgotten(bl_request *rq)
{
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

/* Cancel a job, or remove an ended job.  An ended job keeps its history and checkpoints until it is removed. */
bl_status bl_handle_job_delete(bl_request *rq)
{
    const char *remove = bl_request_query(rq, "remove");
    bl_job *job = NULL;
    bool over = false;
    BL_TRY(job_find(rq, &job));
    if (remove != NULL && strcmp(remove, "true") != 0 && strcmp(remove, "false") != 0)
        return bl_fail(&rq->err, BL_EINVAL, "remove must be true or false, not \"%.20s\"", remove);
    pthread_mutex_lock(&job->jobs->lock);
    over = job_is_final(job);
    pthread_mutex_unlock(&job->jobs->lock);
    if (remove != NULL && strcmp(remove, "true") == 0) {
        if (!over)
            return bl_fail(&rq->err, BL_ECONFLICT, "job %s has not ended; cancel the job first, by DELETE without remove",
                           job->id);
        rq->data = job;
        rq->then = reply_forgotten;
        return bl_request_submit(rq, job->jobs->writer, job_handlers_forget, NULL);
    }
    if (!over) {
        job_want(job, WANT_CANCEL);
        pthread_mutex_lock(&job->jobs->lock);
        jobs_wake(job->jobs); /* the job may have no submitted slice */
        pthread_mutex_unlock(&job->jobs->lock);
        jobs_schedule(job->jobs);
    }
    reply_job(rq, job, over ? 200 : 202);
    return BL_OK;
}

/* ---- checkpoints */

/* Under the lock: find the checkpoint of step |text|; "last" is the last checkpoint. */
static bool job_handlers_find_mark(const bl_job *job, const char *text, uint64_t *step)
{
    char own[24];
    for (int i = job->files.nmarks; i-- > 0;) {
        snprintf(own, sizeof own, "%llu", (unsigned long long)job->files.marks[i].step);
        *step = job->files.marks[i].step;
        if (strcmp(text, "last") == 0 || strcmp(text, own) == 0)
            return true;
    }
    return false;
}

/* Answer with a checkpoint file.  The file is opened before a checkpoint can be removed, so the answer is complete. */
bl_status bl_handle_job_checkpoint(bl_request *rq)
{
    bl_job *job = NULL;
    uint64_t step = 0;
    uint64_t bytes = 0;
    bool found = false;
    bl_status st = BL_OK;
    BL_TRY(job_find_to_read(rq, &job));
    pthread_mutex_lock(&job->jobs->lock);
    found = job_handlers_find_mark(job, rq->head.param[1], &step);
    pthread_mutex_unlock(&job->jobs->lock);
    if (found)
        st = job_open_file(job, job_checkpoint_file(job, step, false), &rq->reply.file, &bytes, &rq->err);
    if (!found)
        return bl_fail(&rq->err, BL_ENOTFOUND, "job %s has no checkpoint of step \"%.40s\"", job->id, rq->head.param[1]);
    if (st != BL_OK)
        return st;
    rq->reply.file_bytes = bytes;
    bl_request_reply_file(rq, "application/x-safetensors");
    return BL_OK;
}

/* ---- document */

static bl_step job_handlers_read_document(bl_request *rq)
{
    rq->err.status = job_load_document(rq, rq->data, &rq->reply.out);
    return BL_STEP_DONE;
}

static bl_status reply_document(bl_request *rq)
{
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_job_document(bl_request *rq)
{
    bl_job *job = NULL;
    BL_TRY(job_find_to_read(rq, &job));
    if (job->ask.document != NULL) {
        bl_text_puts(&rq->reply.out, job->ask.document);
        return reply_document(rq);
    }
    rq->data = job;
    rq->then = reply_document;
    return bl_request_submit(rq, job->jobs->writer, job_handlers_read_document, NULL);
}

/* ---- history */

enum { MOST_STRETCHES = 100000 };

typedef struct history {
    bl_job *job;
    uint64_t from, most;
    uint64_t points; /* number of intervals of the curve; 0: all reports */
    bool csv;
} history;

/* Write a cell of a history as CSV (RFC 4180).  A number without a JSON literal is a JSON string, and a list contains
 * commas. */
static void put_csv(bl_text *out, const char *cell, size_t len)
{
    bool list = len > 0 && cell[0] == '[';
    if (len >= 2 && cell[0] == '"')
        bl_text_append(out, cell + 1, len - 2);
    else if (!list)
        bl_text_append(out, cell, len);
    for (size_t i = 0; list && i < len; i++)
        bl_text_puts(out, i == 0 ? "\"[" : i + 1 == len ? "]\"" : (char[]){cell[i] == '"' ? '\'' : cell[i], '\0'});
}

static bool job_handlers_put_row(void *arg, const job_report *report)
{
    bl_request *rq = arg;
    const history *h = rq->data;
    const char *cells = report->cells;
    bl_text *out = &rq->reply.out;
    bl_text_puts(out, h->csv ? "" : bl_text_last(out) == '[' ? "[" : ",[");
    bl_text_printf(out, "%llu,%.3f", (unsigned long long)report->step, report->time);
    for (int i = 0; i < h->job->ask.ncolumns; i++) {
        size_t len = strcspn(cells, "\t");
        bl_text_puts(out, ",");
        if (h->csv)
            put_csv(out, cells, len);
        else if (len > 0)
            bl_text_append(out, cells, len);
        else
            bl_text_puts(out, "null");
        cells += len + (cells[len] == '\t');
    }
    bl_text_puts(out, h->csv ? "\r\n" : "]");
    return !out->failed;
}

static void put_head(bl_request *rq)
{
    const history *h = rq->data;
    bl_text_puts(&rq->reply.out, h->csv ? "step,time" : "{\"columns\":[\"step\",\"time\"");
    for (int i = 0; i < h->job->ask.ncolumns; i++) {
        bl_text_puts(&rq->reply.out, ",");
        if (h->csv)
            bl_text_puts(&rq->reply.out, h->job->ask.columns[i]); /* a name contains nothing that CSV must quote */
        else
            bl_encode_string(&rq->reply.out, h->job->ask.columns[i]);
    }
    bl_text_puts(&rq->reply.out, h->csv ? "\r\n" : "],\"rows\":[");
}

static uint64_t last_step(bl_job *job)
{
    uint64_t step = 0;
    pthread_mutex_lock(&job->jobs->lock);
    step = job->progress.step;
    pthread_mutex_unlock(&job->jobs->lock);
    return step;
}

static bl_status job_handlers_put_curve(bl_request *rq)
{
    const history *h = rq->data;
    job_curve *c = job_curve_create(h->job->ask.ncolumns, h->from, last_step(h->job), h->points, job_handlers_put_row, rq);
    bl_status st = c != NULL ? BL_OK : bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a curve");
    if (st == BL_OK)
        st = job_each_report(h->job, h->from, h->most, job_curve_add, c, &rq->err);
    if (st == BL_OK && !job_curve_end(c))
        st = bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a curve");
    job_curve_destroy(c);
    return st;
}

static bl_step read_history(bl_request *rq)
{
    const history *h = rq->data;
    put_head(rq);
    if (job_flush(h->job, &rq->err) == BL_OK)
        rq->err.status = h->points > 0 ? job_handlers_put_curve(rq)
                                       : job_each_report(h->job, h->from, h->most, job_handlers_put_row, rq, &rq->err);
    if (!h->csv)
        bl_text_puts(&rq->reply.out, "]}");
    return BL_STEP_DONE;
}

static bl_status reply_history(bl_request *rq)
{
    const history *h = rq->data;
    if (h->csv)
        bl_request_reply(rq, 200, "text/csv");
    else
        bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_job_history(bl_request *rq)
{
    const char *format = bl_request_query(rq, "format");
    history *h = bl_arena_alloc(rq->arena, sizeof *h);
    if (h == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *h = (history){.most = BL_WIRE_MAX_REPORTS, .csv = bl_request_accepts(rq, "text/csv")};
    BL_TRY(job_find_to_read(rq, &h->job));
    BL_TRY(bl_request_query_count(rq, "from", 0, UINT64_MAX, &h->from));
    BL_TRY(bl_request_query_count(rq, "limit", 0, UINT64_MAX, &h->most));
    BL_TRY(bl_request_query_count(rq, "points", 1, MOST_STRETCHES, &h->points));
    if (format != NULL) {
        h->csv = strcmp(format, "csv") == 0;
        if (!h->csv && strcmp(format, "json") != 0)
            return bl_fail(&rq->err, BL_EINVAL, "format must be json or csv, not \"%.20s\"", format);
    }
    rq->data = h;
    rq->then = reply_history;
    return bl_request_submit(rq, h->job->jobs->writer, read_history, NULL);
}
