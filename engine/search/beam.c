/* SPDX-License-Identifier: MIT */
/* The levels of a beam search (search.h): make candidates, time them beside the heuristic's choice, keep the best. */
#include "engine/search/search.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/search/search_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WIDTH = 16,
    A_BATCH = BATCH - 1, /* candidates per batch besides the heuristic's choice, which each batch contains */
    FIRST_BATCH = 4,
    A_LEVEL = 24, /* candidates to try per level and per kept candidate */
    MOST_PENDING = 128,
    MOST_LEVELS = 12,
    FINALISTS = 4,  /* number of candidates that are timed again at the end */
    DECISIONS = 3,  /* number of times that the finalists are timed again */
    TINY_NS = 10000 /* kernels with a shorter time take about as long as a launch: noise exceeds the differences */
};
#define SEARCHING 0.85 /* share of the time for searching; the rest is for the final decision */
/* share of the remaining time that a batch may plan to use, since some candidates take longer to compile */
#define CAREFUL 0.75
/* penalty factor per pending candidate of the same family, so that the search tries one candidate of each family first */
#define CROWDED    1.03
#define LEAST_GAIN 0.985 /* a level that improves the best time by less than this factor is the last level */
/* share of the heuristic's time, timed side by side, that a result may take: two runs of one kernel differ by less */
#define BEATS 0.98

typedef struct search {
    subject subject;
    const bl_search_nest *nest;
    const bl_search_options *options;
    bl_search_report *report;
    bl_err *err;
    int64_t start;
    double each_seconds; /* time to compile and to run a candidate, measured in the last batch */
    candidate *first;    /* the heuristic's choice */
    int nkept, npending;
    candidate *kept[MOST_WIDTH];      /* the best candidates, best first */
    candidate *pending[MOST_PENDING]; /* candidates to be timed, most promising first */
    size_t nseen, cap_seen;
    uint64_t *seen; /* hashes of all candidates made so far */
    bl_trial trial[BATCH];
} search;

/* ---- generation of candidates */

static bool beam_is_new(search *s, uint64_t hash)
{
    for (size_t i = 0; i < s->nseen; i++) {
        if (s->seen[i] == hash)
            return false;
    }
    if (s->nseen == s->cap_seen) {
        size_t cap = s->cap_seen * 2 + 64;
        uint64_t *grown = bl_realloc(s->seen, cap * sizeof *grown);
        if (grown == NULL)
            return false;
        s->seen = grown;
        s->cap_seen = cap;
    }
    s->seen[s->nseen++] = hash;
    return true;
}

static bool is_same_move(const bl_move *a, const bl_move *b)
{
    return a->kind == b->kind && a->what.origin == b->what.origin && a->what.path == b->what.path &&
           a->what.twin == b->what.twin && a->size == b->size;
}

/* The kind of change from |a| to |b|: neighbours of one kind tend to be good or bad together. */
static int family_of(const steps *a, const steps *b)
{
    int at = 0;
    while (at < a->n && at < b->n && is_same_move(&a->at[at], &b->at[at]))
        at++;
    return (at * BL_MOVE_KINDS + (at < b->n ? (int)b->at[at].kind : 0)) * 3 + (a->n < b->n ? 1 : a->n > b->n ? 2 : 0);
}

/* Insert a candidate into the pending list, in order of its predicted time. The last candidate of a full list is dropped. */
static void beam_consider(search *s, candidate *c, const candidate *parent, int most)
{
    int at = s->npending;

    if (c == NULL)
        return;
    if (!beam_is_new(s, c->hash) || measure_is_hopeless(&c->measure, &s->first->measure, s->nest->target)) {
        candidate_destroy(c);
        return;
    }
    c->expected = parent->ratio * c->measure.issue / (parent->measure.issue > 0 ? parent->measure.issue : 1);
    c->family = family_of(&parent->steps, &c->steps);
    for (int i = 0; i < s->npending; i++)
        c->expected *= s->pending[i]->family == c->family ? CROWDED : 1;
    while (at > 0 && s->pending[at - 1]->expected > c->expected)
        at--;
    if (at == most) {
        candidate_destroy(c);
        return;
    }
    if (s->npending == most)
        candidate_destroy(s->pending[--s->npending]);
    memmove(s->pending + at + 1, s->pending + at, (size_t)(s->npending - at) * sizeof(candidate *));
    s->pending[at] = c;
    s->npending++;
}

/* Was the search cancelled? The next batch reports the cancellation. */
static bool is_halted(const search *s)
{
    bl_err why = {0};
    return bl_halt_check(&s->options->halt, &why) != BL_OK;
}

static void expand(search *s, candidate *parent, int most)
{
    steps *variants = bl_calloc(MOST_VARIANTS, sizeof *variants);
    int n = variants == NULL ? 0 : space_variants(&s->subject, &parent->steps, MOST_VARIANTS, variants);

    parent->expanded = true;
    for (int i = 0; i < n && !is_halted(s); i++)
        beam_consider(s, candidate_make(&s->subject, &variants[i], s->nest->target, NULL), parent, most);
    free(variants);
}

/* Add the heuristic's choices for slightly different devices, and prefixes of the heuristic's moves: no single change leads
 * to these schedules. */
static void sow(search *s, int most)
{
    const bl_target *own = s->nest->target;
    bl_target other[] = {*own, *own, *own, *own, *own};

    other[0].registers /= 2;
    other[1].vector_bits /= 2;
    other[2].cache_bytes = 1;         /* the heuristic packs every operand that can be packed */
    other[3].cache_bytes = INT32_MAX; /* the heuristic packs no operand */
    other[4].cache_bytes /= 4;        /* the heuristic chooses shorter K blocks */
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        beam_consider(s, candidate_make(&s->subject, NULL, &other[i], NULL), s->first, most);
    for (int n = s->first->steps.n - 1; n > 0 && !is_halted(s); n--) {
        steps prefix = s->first->steps;
        prefix.n = n;
        beam_consider(s, candidate_make(&s->subject, &prefix, own, NULL), s->first, most);
    }
}

/* ---- timing */

/* Describe the buffers of a batch: the parameters, then the panels. Each panel has the largest size of the batch. */
static void beam_describe(const search *s, int n, candidate *const *batch, bl_trials *trials)
{
    trials->nbuffers = s->nest->nparams;
    memcpy(trials->buffer, s->subject.buffer, sizeof s->subject.buffer);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < batch[i]->npanels; k++) {
            bl_trial_buffer *panel = &trials->buffer[s->nest->nparams + k];
            if (s->nest->nparams + k == trials->nbuffers)
                trials->nbuffers++;
            if (batch[i]->panel[k].bytes > panel->bytes)
                *panel = batch[i]->panel[k];
        }
    }
}

/* The tolerance for sums that are added in another order, as a share of the largest result; tests/plan has the same
 * tolerance. */
static double most_difference(const search *s)
{
    double most = 0;
    for (int i = 0; i < s->nest->nparams; i++) {
        static const double of[] = {
            [BL_TRIAL_INTEGERS] = 0, [BL_TRIAL_F16] = 1e-2, [BL_TRIAL_BF16] = 6e-2, [BL_TRIAL_F32] = 2e-4, [BL_TRIAL_F64] = 1e-9};
        if (s->subject.buffer[i].result && of[s->subject.buffer[i].fill] > most)
            most = of[s->subject.buffer[i].fill];
    }
    return most;
}

/* Evaluate a candidate's trial: its ratio to the heuristic's time, or infinity if the candidate is ruled out. */
static void beam_judge(search *s, candidate *c, const bl_trial *trial, uint64_t first_ns)
{
    c->ratio = trial->status == BL_OK ? (double)trial->ns / (double)(first_ns == 0 ? 1 : first_ns) : (double)INFINITY;
    c->trial.ns = trial->ns;
    if (trial->status == BL_OK && !(trial->difference <= most_difference(s))) {
        bl_text moves = {0};
        bl_moves_print(c->nmoves, c->moves, &moves);
        bl_log(BL_LOG_WARN,
               "%s: kernel %s with \"%s\" differs from the reference (by %.3g of the largest result); the moves are rejected",
               s->nest->dev->info.id, s->nest->name, bl_text_get(&moves), trial->difference);
        bl_text_fini(&moves);
        c->ratio = (double)INFINITY;
    }
    s->report->refused += isinf(c->ratio) ? 1 : 0;
}

static double time_left(const search *s)
{
    return s->options->seconds - bl_clock_ms(s->start, bl_clock_ns()) / 1e3;
}

/* When to stop a batch: at the end of the search's time, or when the caller's halt says so. A batch of the heuristic's
 * choice alone is always timed. */
static bl_halt halt_of_batch(const search *s, int n)
{
    bl_halt halt = s->options->halt;
    int64_t ends = s->start + (int64_t)(s->options->seconds * 1e9);

    if (n > 1 && (halt.deadline_ns == 0 || ends < halt.deadline_ns))
        halt.deadline_ns = ends;
    return halt;
}

/* Time |batch|; the first candidate of the batch is the heuristic's choice. If the time of the search runs out meanwhile,
 * *over is set and the state does not change. */
static bl_status time_batch(search *s, int n, candidate *const *batch, bool *over)
{
    double most = n > 1 ? time_left(s) : s->options->seconds;
    bl_trials trials = {.ntrials = n, .trial = s->trial, .max_seconds = most, .halt = halt_of_batch(s, n)};
    int64_t start = bl_clock_ns();
    bl_err why = {0};
    bl_status st = BL_OK;

    BL_TRY(bl_halt_check(&s->options->halt, s->err));
    beam_describe(s, n, batch, &trials);
    for (int i = 0; i < n; i++)
        s->trial[i] = batch[i]->trial;
    st = s->options->time(s->options->time_arg, s->nest->dev, &trials, &why);
    if (st == BL_ETIMEOUT && n > 1 && time_left(s) <= 0) {
        *over = true;
        return bl_halt_check(&s->options->halt, s->err);
    }
    if (st != BL_OK)
        return bl_fail(s->err, st, "%s", why.text);
    for (int i = 0; i < n; i++)
        beam_judge(s, batch[i], &s->trial[i], s->trial[0].ns);
    s->each_seconds = bl_clock_ms(start, bl_clock_ns()) / 1e3 / (n > 1 ? n - 1 : 1);
    return BL_OK;
}

static void beam_keep(search *s, candidate *c)
{
    int at = s->nkept;
    while (at > 0 && s->kept[at - 1]->ratio > c->ratio)
        at--;
    if (isinf(c->ratio) || at == s->options->width) {
        candidate_destroy(c);
        return;
    }
    if (s->nkept == s->options->width)
        candidate_destroy(s->kept[--s->nkept]);
    memmove(s->kept + at + 1, s->kept + at, (size_t)(s->nkept - at) * sizeof(candidate *));
    s->kept[at] = c;
    s->nkept++;
}

static void beam_tell(search *s)
{
    bl_search_report *report = s->report;
    const candidate *best = s->nkept > 0 && s->kept[0]->ratio < 1 ? s->kept[0] : s->first;

    report->heuristic_ns = s->first->trial.ns;
    report->best_ns = (uint64_t)((double)s->first->trial.ns * (best == s->first ? 1 : best->ratio));
    report->nmoves = best->nmoves;
    memcpy(report->moves, best->moves, sizeof report->moves);
    report->seconds = bl_clock_ms(s->start, bl_clock_ns()) / 1e3;
    if (s->options->progress != NULL)
        s->options->progress(s->options->progress_arg, report);
}

/* The number of candidates that fit into the remaining time. The first batch is small, since the time per candidate is
 * unknown. */
static int batch_size(const search *s)
{
    double left = time_left(s) - s->options->seconds * (1 - SEARCHING);
    int most = s->report->tried > 1 ? A_BATCH : FIRST_BATCH;
    double n = left <= 0 ? 0 : s->each_seconds > 0 ? left * CAREFUL / s->each_seconds : most;
    return n > most ? most : (int)n;
}

/* Time all pending candidates, batch by batch. */
static bl_status time_pending(search *s)
{
    bool over = false;

    for (int most = batch_size(s); s->npending > 0 && most > 0; most = batch_size(s)) {
        candidate *batch[BATCH] = {s->first};
        int n = 1 + (s->npending < most ? s->npending : most);
        memcpy(batch + 1, s->pending, (size_t)(n - 1) * sizeof *batch);
        BL_TRY(time_batch(s, n, batch, &over));
        if (over)
            break;
        s->npending -= n - 1;
        memmove(s->pending, s->pending + n - 1, (size_t)s->npending * sizeof(candidate *));
        for (int i = 1; i < n; i++)
            beam_keep(s, batch[i]);
        s->report->tried += n - 1;
        beam_tell(s);
    }
    while (s->npending > 0)
        candidate_destroy(s->pending[--s->npending]);
    return BL_OK;
}

/* ---- levels */

static double best_ratio(const search *s)
{
    return s->nkept > 0 && s->kept[0]->ratio < 1 ? s->kept[0]->ratio : 1;
}

static bl_status climb(search *s)
{
    int most = A_LEVEL * s->options->width;
    bool over = false;

    most = most > MOST_PENDING ? MOST_PENDING : most;
    /* time the heuristic's choice alone: the search always needs its time, and the batch measures the time per candidate */
    BL_TRY(time_batch(s, 1, &s->first, &over));
    s->report->tried = 1;
    if (time_left(s) <= 0)
        return BL_OK;
    sow(s, most);
    expand(s, s->first, most);
    BL_TRY(time_pending(s));
    for (int level = 1; level < MOST_LEVELS && s->first->trial.ns > TINY_NS && batch_size(s) > 0; level++) {
        double before = best_ratio(s);
        for (int i = 0; i < s->nkept; i++) {
            if (!s->kept[i]->expanded)
                expand(s, s->kept[i], most);
        }
        if (s->npending == 0)
            break;
        BL_TRY(time_pending(s));
        if (best_ratio(s) > before * LEAST_GAIN)
            break;
    }
    return BL_OK;
}

/* The median of three ratios; of fewer ratios the largest. */
static double beam_settle(int n, double ratio[][BATCH], int which)
{
    double least = ratio[0][which], most = ratio[0][which], sum = 0;
    for (int i = 0; i < n; i++) {
        least = ratio[i][which] < least ? ratio[i][which] : least;
        most = ratio[i][which] > most ? ratio[i][which] : most;
        sum += ratio[i][which];
    }
    return n == 3 && isfinite(sum) ? sum - least - most : most;
}

/* Time the best candidates again, side by side with the heuristic's choice, several times: the minimum of many noisy times
 * may be an outlier. If no time is left, use the earlier times. */
static bl_status beam_decide(search *s)
{
    candidate *batch[BATCH] = {s->first};
    double ratio[DECISIONS][BATCH];
    int n = 1, best = 0, rounds = 0;
    bool over = false;

    BL_TRY(bl_halt_check(&s->options->halt, s->err)); /* a cancelled search may have made no candidates to time */
    for (; n <= s->nkept && n <= FINALISTS && s->kept[n - 1]->ratio < 1; n++)
        batch[n] = s->kept[n - 1];
    while (n > 1 && rounds < DECISIONS && time_left(s) > 0) {
        BL_TRY(time_batch(s, n, batch, &over));
        if (over)
            break;
        for (int i = 1; i < n; i++)
            ratio[rounds][i] = batch[i]->ratio;
        rounds++;
    }
    for (int i = 1; i < n; i++) {
        batch[i]->ratio = rounds > 0 ? beam_settle(rounds, ratio, i) : batch[i]->ratio;
        if (batch[i]->ratio < BEATS && (best == 0 || batch[i]->ratio < batch[best]->ratio))
            best = i;
    }
    for (; s->nkept > 0; s->nkept--) {
        if (best == 0 || s->kept[s->nkept - 1] != batch[best])
            candidate_destroy(s->kept[s->nkept - 1]);
    }
    if (best > 0)
        s->kept[s->nkept++] = batch[best];
    beam_tell(s);
    return BL_OK;
}

static bl_status beam_begin(search *s)
{
    if (!subject_init(&s->subject, s->nest, s->options->spec))
        return bl_fail(s->err, BL_ENODEVMEM, "kernel %s: the buffers are too large to measure the kernel", s->nest->name);
    s->first = candidate_make(&s->subject, NULL, s->nest->target, NULL);
    if (s->first == NULL)
        return bl_fail(s->err, BL_EUNSUPPORTED, "kernel %s cannot be made for %s", s->nest->name, s->nest->dev->info.id);
    (void)beam_is_new(s, s->first->hash);
    return BL_OK;
}

bl_status bl_search_run(const bl_search_nest *nest, const bl_search_options *options, bl_search_report *report, bl_err *err)
{
    search *s = bl_calloc(1, sizeof *s);
    bl_search_options own = *options;
    bl_status st = BL_OK;

    *report = (bl_search_report){.name = nest->name};
    if (s == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a search");
    own.width = own.width < 1 ? 1 : own.width > MOST_WIDTH ? MOST_WIDTH : own.width;
    s->nest = nest;
    s->options = &own;
    s->report = report;
    s->err = err;
    s->start = bl_clock_ns();
    st = beam_begin(s);
    if (st == BL_OK)
        st = climb(s);
    if (st == BL_OK)
        st = beam_decide(s);
    while (s->npending > 0)
        candidate_destroy(s->pending[--s->npending]);
    while (s->nkept > 0)
        candidate_destroy(s->kept[--s->nkept]);
    candidate_destroy(s->first);
    free(s->seen);
    free(s);
    return st;
}
