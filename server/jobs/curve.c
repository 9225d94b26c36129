/* SPDX-License-Identifier: MIT */
/* A curve with few rows.  The steps are divided into intervals of equal length.  Each interval keeps the rows with the minimum
 * or the maximum of a column, so a peak of one report stays visible; a mean or every n-th row would lose the peak.  The first
 * report and the last report also stay. */
#include "server/jobs/jobs_internal.h"

#include <stdlib.h>
#include <string.h>

/* A copy of a report that may be kept. */
typedef struct kept {
    bool used;
    double value; /* value of the column for which the report is kept */
    uint64_t step;
    double time;
    bl_text cells;
} kept;

struct job_curve {
    int ncolumns, nkept;
    uint64_t from, last, stretches, at; /* at: the current interval */
    bool began;
    uint64_t told; /* step of the last row that was passed on */
    bool (*each)(void *arg, const job_report *report);
    void *arg;
    kept *kept;   /* minimum and maximum of each column, then the latest report */
    kept **order; /* the used elements of |kept|, sorted by step */
};

job_curve *job_curve_create(int ncolumns, uint64_t from, uint64_t last, uint64_t stretches,
                            bool (*each)(void *arg, const job_report *report), void *arg)
{
    job_curve *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (job_curve){.ncolumns = ncolumns,
                     .nkept = 2 * ncolumns + 1,
                     .from = from,
                     .last = last > from ? last : from,
                     .stretches = stretches,
                     .each = each,
                     .arg = arg};
    c->kept = calloc((size_t)c->nkept, sizeof *c->kept);
    c->order = calloc((size_t)c->nkept, sizeof(kept *));
    if (c->kept != NULL && c->order != NULL)
        return c;
    job_curve_destroy(c);
    return NULL;
}

void job_curve_destroy(job_curve *c)
{
    if (c == NULL)
        return;
    for (int i = 0; c->kept != NULL && i < c->nkept; i++)
        bl_text_fini(&c->kept[i].cells);
    free(c->kept);
    free(c->order);
    free(c);
}

static void curve_keep(kept *k, const job_report *report, double value)
{
    k->used = true;
    k->value = value;
    k->step = report->step;
    k->time = report->time;
    bl_text_clear(&k->cells);
    bl_text_puts(&k->cells, report->cells);
}

static int by_step(const void *a, const void *b)
{
    const kept *x = *(kept *const *)a, *y = *(kept *const *)b;
    return (x->step > y->step) - (x->step < y->step);
}

static bool curve_tell(job_curve *c, kept *k)
{
    job_report report = {.step = k->step, .time = k->time};
    if (k->cells.failed)
        return false;
    if (c->began && k->step <= c->told)
        return true;
    report.cells = k->cells.data != NULL ? k->cells.data : (char[]){'\0'};
    c->began = true;
    c->told = k->step;
    return c->each(c->arg, &report);
}

/* End the interval.  |all|: pass on the latest row too. */
static bool end_stretch(job_curve *c, bool all)
{
    int n = 0;
    for (int i = 0; i < c->nkept - !all; i++)
        if (c->kept[i].used)
            c->order[n++] = &c->kept[i];
    qsort(c->order, (size_t)n, sizeof(kept *), by_step);
    for (int i = 0; i < n; i++)
        if (!curve_tell(c, c->order[i]))
            return false;
    for (int i = 0; i < c->nkept; i++)
        c->kept[i].used = false;
    return true;
}

static uint64_t stretch_of(const job_curve *c, uint64_t step)
{
    double part = (double)(step - c->from) / ((double)(c->last - c->from) + 1);
    uint64_t at = (uint64_t)(part * (double)c->stretches);
    return at < c->stretches ? at : c->stretches - 1;
}

bool job_curve_add(void *arg, const job_report *report)
{
    job_curve *c = arg;
    const char *cell = report->cells;
    uint64_t at = stretch_of(c, report->step);
    bool first = !c->began && !c->kept[c->nkept - 1].used;
    if (at != c->at && !end_stretch(c, false))
        return false;
    c->at = at;
    curve_keep(&c->kept[c->nkept - 1], report, 0);
    if (first && !curve_tell(c, &c->kept[c->nkept - 1]))
        return false;
    for (int i = 0; i < c->ncolumns; i++) {
        kept *least = &c->kept[2 * i], *greatest = least + 1;
        size_t len = strcspn(cell, "\t");
        char *end = NULL;
        double value = len > 0 ? strtod(cell, &end) : 0; /* a list, or a word for a value that is not finite, has no number */
        if (len > 0 && end != cell && (!least->used || value < least->value))
            curve_keep(least, report, value);
        if (len > 0 && end != cell && (!greatest->used || value > greatest->value))
            curve_keep(greatest, report, value);
        cell += len + (cell[len] == '\t');
    }
    return true;
}

bool job_curve_end(job_curve *c)
{
    return end_stretch(c, true);
}
