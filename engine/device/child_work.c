/* SPDX-License-Identifier: MIT */
/* The work of children: compile kernels, and time trials. */
#include "engine/base/fault.h"
#include "engine/device/child_ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 16, /* largest number of kernels in a job: the number that a back end compiles as one program */
    /* PoCL 3.1 takes 6 us per byte of text, 10 ms per kernel and 200 ms per program. The fixed cost of a kernel equals the
     * cost of FIXED_LENGTH bytes. A job should have at least LEAST_SHARE bytes. */
    FIXED_LENGTH = 1500,
    LEAST_SHARE = 90000
};

/* ---- compiling */

static void put_sources(const child_work *w, const child_job *j, bl_text *out)
{
    bl_message_put_u32(out, (uint32_t)j->n);
    for (int i = 0; i < j->n; i++)
        bl_message_put_source(out, &w->sources[j->which[i]]);
}

static void take_outcomes(child_work *w, const child_job *j, bl_message_reader *in)
{
    for (int i = 0; i < j->n; i++)
        bl_message_take_err(in, &w->outcomes[j->which[i]]);
}

static void blame_source(child_work *w, const child_job *j, child_blame what)
{
    const char *entry = w->sources[j->which[0]].entry, *id = w->dev->info.id;
    bl_err *outcome = &w->outcomes[j->which[0]];

    *outcome = (bl_err){0};
    if (what == CHILD_HUNG)
        (void)bl_fail(outcome, BL_ELIMIT,
                      "the compiler of %s exceeds its limit of %g s of processor time (--max-kernel-seconds) for kernel %s", id,
                      w->children->max_seconds, entry);
    else
        (void)bl_fail(outcome, BL_EBUG, "the compiler of %s crashes on kernel %s", id, entry);
}

static double compile_seconds(const child_work *w, const child_job *j)
{
    /* the limit is the same for a batch: a batch takes seconds, and a batch that exceeds the limit hangs or is retried
     * kernel by kernel */
    (void)j;
    return w->children->max_seconds;
}

static size_t weight(const bl_kernel_source *source)
{
    return source->len + FIXED_LENGTH;
}

typedef struct ranked {
    size_t weight;
    int which;
} ranked;

static int heavier_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : x->which - y->which;
}

/* Split the sources into jobs, heaviest first. Each job gets two thirds of a child's share of the remaining weight, so that
 * all children finish at about the same time even if the weights are wrong (guided self-scheduling; Polychronopoulos and
 * Kuck, 1987). */
static void deal(child_work *w, const ranked *all, size_t left)
{
    child_job **last = &w->jobs;
    size_t children = (size_t)w->children->count, least = left / children < LEAST_SHARE ? left / children : LEAST_SHARE;

    for (int i = 0; i < w->n;) {
        size_t share = 2 * left / (3 * children), taken = 0;
        child_job *j = child_make_job(w, BATCH);
        if (j == NULL)
            return;
        *last = j;
        last = &j->next;
        share = share > least ? share : least;
        while (i < w->n && j->n < BATCH && taken < share) {
            j->which[j->n++] = all[i].which;
            taken += all[i++].weight;
        }
        left -= taken;
    }
}

static void make_jobs(child_work *w)
{
    ranked *all = bl_calloc((size_t)w->n + 1, sizeof *all);
    size_t sum = 0;

    w->failed = all == NULL || w->n > BL_MESSAGE_MOST_ITEMS;
    for (int i = 0; i < w->n && !w->failed; i++) {
        all[i] = (ranked){weight(&w->sources[i]), i};
        sum += all[i].weight;
    }
    if (!w->failed) {
        qsort(all, (size_t)w->n, sizeof *all, heavier_first);
        deal(w, all, sum);
    }
    free(all);
}

static bl_status child_work_compile(bl_children *children, bl_device *dev, int n, const bl_kernel_source *sources,
                                    bl_err *outcomes, const bl_halt *halt, bl_err *err)
{
    child_work w = {.kind = BL_MESSAGE_COMPILE,
                    .children = children,
                    .dev = dev,
                    .n = n,
                    .sources = sources,
                    .outcomes = outcomes,
                    .halt = *halt,
                    .least = 1,
                    .put = put_sources,
                    .take = take_outcomes,
                    .give_up = blame_source,
                    .seconds = compile_seconds};
    bl_status st;

    make_jobs(&w);
    st = w.failed ? bl_fail(err, BL_ENOMEM, "out of host memory for work for child processes") : child_do_jobs(&w, err);
    (void)child_free_jobs(&w);
    return st;
}

bl_status bl_children_compile(bl_children *children, bl_device *dev, int n, const bl_kernel_source *sources, const bl_halt *halt,
                              bl_err *err)
{
    bl_err *outcomes = bl_calloc((size_t)n + 1, sizeof *outcomes);
    bl_status st;

    if (outcomes == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for work for child processes");
    st = child_work_compile(children, dev, n, sources, outcomes, halt, err);
    for (int i = 0; i < n && st == BL_OK; i++) {
        if (outcomes[i].status != BL_OK)
            st = bl_fail(err, outcomes[i].status, "%s", outcomes[i].text);
    }
    free(outcomes);
    return st;
}

/* ---- timing */

static void put_trials(const child_work *w, const child_job *j, bl_text *out)
{
    bl_message_put_trials(out, w->trials, j->which, j->n);
}

static void blame_trial(child_work *w, const child_job *j, child_blame what)
{
    bl_trial *trial = &w->trials->trial[j->which[j->n - 1]];

    trial->status = BL_EDEVICE;
    snprintf(trial->why, sizeof trial->why, "the process that ran it %s", what == CHILD_HUNG ? "hung" : "died");
}

static void child_work_take_results(child_work *w, const child_job *j, bl_message_reader *in)
{
    bl_err whole;

    bl_message_take_err(in, &whole);
    bl_message_take_results(in, w->trials, j->which, j->n);
    for (int i = 0; i < j->n && !in->bad && whole.status != BL_OK; i++) {
        bl_trial *trial = &w->trials->trial[j->which[i]];
        trial->status = whole.status;
        snprintf(trial->why, sizeof trial->why, "%.*s", (int)sizeof trial->why - 1, whole.text);
    }
}

/* The time limit of a job. The kernels are compiled already; otherwise their compilation takes as long as in a
 * compile job. */
static double trial_seconds(const child_work *w, const child_job *j)
{
    enum { RUNS = 4, SPARE = 5 }; /* RUNS: runs of a slow trial. SPARE: seconds for all other work, such as filling buffers */
    double seconds = w->children->max_seconds + SPARE;

    for (int i = 0; i < j->n; i++)
        seconds += w->trials->max_seconds * RUNS * w->trials->trial[j->which[i]].nlaunches;
    return seconds;
}

/* The index of |source| in |sources|; |n| if |sources| lacks the source. */
static int find_source(int n, const bl_kernel_source *sources, const bl_kernel_source *source)
{
    int i = 0;

    while (i < n && (sources[i].len != source->len || memcmp(sources[i].text, source->text, source->len) != 0))
        i++;
    return i;
}

/* Collect the sources that are not in the disk cache, each source once. Returns the number of sources. */
static int gather_sources(bl_device *dev, const bl_trials *trials, bl_kernel_source *sources)
{
    int n = 0;

    for (int i = 0; i < trials->ntrials; i++) {
        for (int k = 0; k < trials->trial[i].nlaunches; k++) {
            const bl_kernel_source *source = &trials->trial[i].launch[k].source;
            if (find_source(n, sources, source) == n && bl_kernel_wants_compiling(dev, source))
                sources[n++] = *source;
        }
    }
    return n;
}

static void child_work_judge(bl_trial *trial, int n, const bl_kernel_source *sources, const bl_err *outcomes)
{
    for (int k = 0; k < trial->nlaunches; k++) {
        int i = find_source(n, sources, &trial->launch[k].source);
        if (i == n || outcomes[i].status == BL_OK)
            continue;
        trial->status = outcomes[i].status;
        snprintf(trial->why, sizeof trial->why, "%.*s", (int)sizeof trial->why - 1, outcomes[i].text);
    }
}

/* Compile the trials' kernels with all children. A trial whose kernel does not compile is not run. */
static bl_status compile_trials(bl_children *children, bl_device *dev, bl_trials *trials, bl_err *err)
{
    size_t most = (size_t)trials->ntrials * BL_TRIAL_LAUNCHES + 1;
    bl_kernel_source *sources = bl_calloc(most, sizeof *sources);
    bl_err *outcomes = bl_calloc(most, sizeof *outcomes);
    bl_status st = BL_OK;

    if (sources == NULL || outcomes == NULL) {
        st = bl_fail(err, BL_ENOMEM, "out of host memory for trials");
    } else {
        int n = gather_sources(dev, trials, sources);
        if (n > 0)
            st = child_work_compile(children, dev, n, sources, outcomes, &trials->halt, err);
        for (int i = 0; i < trials->ntrials && st == BL_OK; i++)
            child_work_judge(&trials->trial[i], n, sources, outcomes);
    }
    free(sources);
    free(outcomes);
    return st;
}

bl_status bl_children_time(bl_children *children, bl_device *dev, bl_trials *trials, bl_err *err)
{
    child_work w = {.kind = BL_MESSAGE_TIME,
                    .children = children,
                    .dev = dev,
                    .n = trials->ntrials,
                    .trials = trials,
                    .halt = trials->halt,
                    .least = 2,
                    .put = put_trials,
                    .take = child_work_take_results,
                    .give_up = blame_trial,
                    .seconds = trial_seconds};
    bl_status st = BL_OK;
    child_job *all;

    for (int i = 0; i < trials->ntrials; i++)
        trials->trial[i].status = BL_OK;
    BL_TRY(compile_trials(children, dev, trials, err));
    all = child_make_job(&w, trials->ntrials);
    if (all == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for trials");
    for (int i = 0; i < trials->ntrials; i++) {
        if (trials->trial[i].status == BL_OK)
            all->which[all->n++] = i;
    }
    if (all->n > 0 && all->which[0] == 0)
        child_push_job(&w, all);
    else /* without the first trial there is no reference time and no reference result */
        child_free_job(all);
    st = child_do_jobs(&w, err);
    if (child_free_jobs(&w) && st == BL_OK)
        st = bl_fail(err, BL_EDEVICE, "no child process could be started");
    return st;
}
