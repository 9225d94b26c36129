/* SPDX-License-Identifier: MIT */
/* Measurements of a job.  Outputs become cells, cells become reports, and reports go into a ring from which streams resume. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/jobs/jobs_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 4096 }; /* limit for a report, which is one line of a history and one event */

static const bl_plan_tensor *report_output_of(const job_part *part, int i)
{
    return &bl_plan_get_info(part->plan)->outputs[part->collect[i]];
}

/* The number of elements that |part| reports.  If the number exceeds MOST_ELEMENTS, the result is some larger number. */
static uint64_t report_count_elements(const job_part *part)
{
    uint64_t all = 0;
    for (int i = 0; i < part->ncollect; i++) {
        const bl_plan_tensor *tensor = report_output_of(part, i);
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
        uint64_t count = 1;
        bl_plan_sizes(tensor, part->vars, dim);
        for (int d = 0; d < tensor->ndim; d++)
            count = count > MOST_ELEMENTS ? count : count * (uint64_t)(dim[d] > MOST_ELEMENTS ? MOST_ELEMENTS + 1 : dim[d]);
        all += count;
    }
    return all;
}

bl_status job_check_reports(const bl_job *job, bl_err *err)
{
    uint64_t elements = report_count_elements(&job->means.train) +
                        (job->means.evaluation.plan != NULL ? report_count_elements(&job->means.evaluation) : 0);
    if (elements <= MOST_ELEMENTS)
        return BL_OK;
    return bl_fail(err, BL_ELIMIT, "a report of this job has more than %d elements, the limit; collect a mean of the elements",
                   MOST_ELEMENTS);
}

/* Write one output as JSON: a number if it has one element, else a flat list. */
static bl_status measure_one(const job_part *part, int i, bl_buffer *const *outputs, char **cell, bl_err *err)
{
    const bl_plan_tensor *tensor = report_output_of(part, i);
    unsigned char data[8 * MOST_ELEMENTS];
    int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
    size_t count = 1;
    bl_text text = {0};
    bl_plan_sizes(tensor, part->vars, dim);
    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)dim[d];
    if (count > 0)
        BL_TRY(bl_buffer_read(outputs[part->collect[i]], 0, data, count * bl_dtype_bytes(tensor->dtype), err));
    bl_tensor_print(&text, tensor->dtype, data, count);
    if (count == 1 && text.len > 2) {
        memmove(text.data, text.data + 1, text.len - 2);
        text.data[text.len - 2] = '\0';
    }
    free(*cell);
    *cell = bl_text_take(&text);
    return *cell != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a report");
}

bl_status job_measure(bl_job *job, const job_part *part, bl_buffer *const *outputs, bl_err *err)
{
    for (int i = 0; i < part->ncollect; i++)
        BL_TRY(measure_one(part, i, outputs, &job->pos.cells[part->column + i], err));
    return BL_OK;
}

/* Compare the early-stopping metric with its best value.  NaN is never an improvement. */
static void look_at_metric(bl_job *job)
{
    const bl_job_stop *stop = &job->ask.stop;
    const char *cell = stop->metric != NULL ? job->pos.cells[job->ask.stop_column] : NULL;
    job_best *best = &job->pos.best;
    double value = 0;
    bool better = false;
    if (cell == NULL)
        return;
    value = cell[0] == '"' ? strtod(cell + 1, NULL) : strtod(cell, NULL);
    better = stop->maximise ? value > best->value + stop->min_delta : value < best->value - stop->min_delta;
    if (!isnan(value) && (!best->measured || better))
        *best = (job_best){.measured = true, .value = value};
    else
        best->waiting++;
}

void job_report_put(bl_job *job, job_report report)
{
    job_report *place = &job->progress.ring[job->progress.nreports++ % JOB_RING];
    free(place->cells);
    *place = report;
}

void job_forget_reports(bl_job *job)
{
    for (int i = 0; i < JOB_RING; i++) {
        free(job->progress.ring[i].cells);
        job->progress.ring[i] = (job_report){0};
    }
    job->progress.nreports = job->progress.flushed = 0;
}

bl_status job_report_end(bl_job *job, uint64_t step, bl_err *err)
{
    bl_text line = {0};
    job_report report = {.step = step, .time = job_now()};
    look_at_metric(job);
    for (int i = 0; i < job->ask.ncolumns; i++) {
        bl_text_puts(&line, i > 0 ? "\t" : "");
        bl_text_puts(&line, job->pos.cells[i] != NULL ? job->pos.cells[i] : "");
        free(job->pos.cells[i]);
        job->pos.cells[i] = NULL;
    }
    report.cells = bl_text_take(&line);
    if (report.cells == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a report");
    pthread_mutex_lock(&job->jobs->lock);
    job_report_put(job, report);
    job->progress.step = step;
    job_wake(job);
    pthread_mutex_unlock(&job->jobs->lock);
    return BL_OK;
}

const job_report *job_report_after(const bl_job *job, uint64_t step)
{
    uint64_t lo = job->progress.nreports > JOB_RING ? job->progress.nreports - JOB_RING : 0, hi = job->progress.nreports;
    while (lo < hi) { /* binary search: steps increase */
        uint64_t middle = lo + (hi - lo) / 2;
        if (job->progress.ring[middle % JOB_RING].step > step)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo < job->progress.nreports ? &job->progress.ring[lo % JOB_RING] : NULL;
}

/* Write the measured cells of the columns [from, to). */
static void put_cells(const bl_job *job, const char *cells, const char *key, int from, int to, size_t prefix, bl_text *out)
{
    bool any = false;
    for (int i = 0; i < to; i++) {
        size_t len = strcspn(cells, "\t");
        if (i >= from && len > 0) {
            if (!any) {
                bl_encode_key(out, key);
                bl_text_puts(out, "{");
            }
            any = true;
            bl_encode_key(out, job->ask.columns[i] + prefix);
            bl_text_append(out, cells, len);
        }
        cells += len + (cells[len] == '\t');
    }
    bl_text_puts(out, any ? "}" : "");
}

void job_report_write(const bl_job *job, const job_report *report, bl_text *out)
{
    put_cells(job, report->cells, "metrics", 0, job->ask.nmetrics, 0, out);
    put_cells(job, report->cells, "evaluation", job->ask.nmetrics, job->ask.ncolumns, strlen(JOB_EVALUATE), out);
}
