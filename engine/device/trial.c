/* SPDX-License-Identifier: MIT */
#include "engine/device/trial.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 1 << 20, /* bytes of a buffer that are written or read at once */
    /* period of the random numbers in elements: a prime, so that no row length or tile length divides the period */
    PATTERN = 131071,
    LEAST_ROUNDS = 3, /* least number of rounds before a trial may be dropped: the minimum of fewer runs is unreliable */
    MOST_ROUNDS = 30, /* largest number of rounds: further rounds hardly improve the minimum */
    /* contents of integer results before a run, so that elements that the kernel does not write are detected */
    RESULT_BYTE = 0x55
};
#define ENOUGH_SECONDS 0.25 /* seconds of timing per batch, after the least number of rounds */
#define HOPELESS       2.0  /* a trial that is this many times slower than the best trial is not run again */
#define BEATEN         1.3  /* the same factor after LEAST_ROUNDS */

/* A trial with its buffers and kernels, ready to run. */
typedef struct rig {
    bl_kernel *kernel[BL_TRIAL_LAUNCHES];
    bool borrowed[BL_TRIAL_LAUNCHES]; /* the kernel belongs to an earlier trial with the same source */
    bl_recording *recording;
} rig;

typedef struct bench {
    bl_device *dev;
    bl_trials *trials;
    bl_buffer *buffer[BL_TRIAL_BUFFERS];
    uint8_t *wanted[BL_TRIAL_BUFFERS]; /* results of the first trial */
    uint8_t *pattern, *chunk;
    rig *rigs;
} bench;

static size_t trial_element_bytes(bl_trial_fill fill)
{
    switch (fill) {
    case BL_TRIAL_INTEGERS:
        return 1;
    case BL_TRIAL_F16:
    case BL_TRIAL_BF16:
        return 2;
    case BL_TRIAL_F32:
        return 4;
    case BL_TRIAL_F64:
        return 8;
    }
    return 1;
}

/* ---- numbers */

/* Convert a multiple of 1/1024 in [-1, 1) to a float16. The conversion is exact. */
static uint16_t half_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if (value == 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 127 + 15) << 10 | (bits >> 13 & 0x3ff));
}

static double number_of_half(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double fraction = half & 0x3ff, value = 0;
    if (exponent == 31)
        value = fraction == 0 ? (double)INFINITY : (double)NAN;
    else
        value = exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25);
    return (half & 0x8000) != 0 ? -value : value;
}

static double number_at(bl_trial_fill fill, const uint8_t *at)
{
    uint16_t half = 0;
    uint32_t bits = 0;
    float single = 0;
    double number = 0;

    switch (fill) {
    case BL_TRIAL_INTEGERS:
        return *at;
    case BL_TRIAL_F16:
        memcpy(&half, at, sizeof half);
        return number_of_half(half);
    case BL_TRIAL_BF16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    case BL_TRIAL_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case BL_TRIAL_F64:
        memcpy(&number, at, sizeof number);
        return number;
    }
    return 0;
}

/* Fill |pattern| with |n| random elements. */
static void trial_draw(bl_trial_fill fill, uint64_t seed, size_t n, uint8_t *pattern)
{
    size_t size = trial_element_bytes(fill);
    for (size_t i = 0; i < n; i++) {
        int64_t whole = (int64_t)(bl_hash_add(seed, i) >> 53) - 1024; /* 11 random bits */
        float single = (float)whole / 1024;
        double number = (double)single;
        uint16_t half = half_of(single);
        uint32_t bits = 0;
        memcpy(&bits, &single, sizeof bits);
        if (fill == BL_TRIAL_BF16)
            half = (uint16_t)(bits >> 16);
        memcpy(pattern + i * size,
               fill == BL_TRIAL_F32   ? (const void *)&single
               : fill == BL_TRIAL_F64 ? (void *)&number
                                      : &half,
               size);
    }
}

/* ---- buffers */

static bl_status trial_fill_buffer(bench *b, int which, bl_err *err)
{
    const bl_trial_buffer *buffer = &b->trials->buffer[which];
    size_t size = trial_element_bytes(buffer->fill), period = size * PATTERN, from = 0;
    size_t used = buffer->bytes / size + 1 < PATTERN ? buffer->bytes / size + 1 : PATTERN;

    if (buffer->fill == BL_TRIAL_INTEGERS)
        memset(b->pattern, buffer->result ? RESULT_BYTE : 0, used);
    else
        trial_draw(buffer->fill, (uint64_t)which + 1, used, b->pattern);
    for (size_t at = 0; at < buffer->bytes;) {
        size_t n = buffer->bytes - at < CHUNK ? buffer->bytes - at : CHUNK;
        for (size_t done = 0; done < n;) {
            size_t piece = n - done < period - from ? n - done : period - from;
            memcpy(b->chunk + done, b->pattern + from, piece);
            done += piece;
            from = (from + piece) % period;
        }
        BL_TRY(bl_buffer_write(b->buffer[which], at, b->chunk, n, err));
        at += n;
    }
    return BL_OK;
}

static bl_status make_buffers(bench *b, bl_err *err)
{
    b->rigs = bl_calloc((size_t)b->trials->ntrials + 1, sizeof *b->rigs);
    b->pattern = bl_calloc(PATTERN, sizeof(double));
    b->chunk = bl_calloc(1, CHUNK);
    if (b->rigs == NULL || b->pattern == NULL || b->chunk == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for trials");
    for (int i = 0; i < b->trials->nbuffers; i++) {
        const bl_trial_buffer *buffer = &b->trials->buffer[i];
        BL_TRY(bl_buffer_alloc(b->dev, buffer->bytes, &b->buffer[i], err));
        if (buffer->result && (b->wanted[i] = bl_calloc(1, buffer->bytes + 1)) == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for trials");
        BL_TRY(trial_fill_buffer(b, i, err));
    }
    return BL_OK;
}

static void fini(bench *b)
{
    for (int i = 0; b->rigs != NULL && i < b->trials->ntrials; i++)
        bl_recording_destroy(b->rigs[i].recording);
    for (int i = 0; b->rigs != NULL && i < b->trials->ntrials; i++) {
        for (int k = 0; k < BL_TRIAL_LAUNCHES; k++) {
            if (b->rigs[i].kernel[k] != NULL && !b->rigs[i].borrowed[k])
                bl_kernel_destroy(b->rigs[i].kernel[k]);
        }
    }
    for (int i = 0; i < b->trials->nbuffers; i++) {
        bl_buffer_release(b->buffer[i]);
        free(b->wanted[i]);
    }
    free(b->rigs);
    free(b->pattern);
    free(b->chunk);
}

/* ---- kernels */

static bool same_source(const bl_kernel_source *a, const bl_kernel_source *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0 && strcmp(a->entry, b->entry) == 0;
}

/* The kernel of |source| if one of the trials up to |last| has it: trials often share the kernels that pack panels. */
static bl_kernel *find_kernel(const bench *b, const bl_kernel_source *source, int last)
{
    for (int i = 0; i <= last; i++) {
        for (int k = 0; k < b->trials->trial[i].nlaunches; k++) {
            if (b->rigs[i].kernel[k] != NULL && same_source(&b->trials->trial[i].launch[k].source, source))
                return b->rigs[i].kernel[k];
        }
    }
    return NULL;
}

static bl_status make_kernels(bench *b, int which, bl_err *err)
{
    const bl_trial *trial = &b->trials->trial[which];
    rig *r = &b->rigs[which];
    bl_launch launch[BL_TRIAL_LAUNCHES] = {{0}};
    uint32_t nvars = 0;

    for (int i = 0; i < trial->nlaunches; i++) {
        const bl_kernel_source *source = &trial->launch[i].source;
        bl_kernel *known = find_kernel(b, source, which);
        if (known == NULL)
            BL_TRY(bl_kernel_create(b->dev, source, &r->kernel[i], err));
        else
            r->kernel[i] = known;
        r->borrowed[i] = known != NULL;
        launch[i].kernel = r->kernel[i];
        memcpy(launch[i].slot, trial->launch[i].slot, sizeof launch[i].slot);
        for (uint32_t k = 0; k < source->nscalars; k++)
            launch[i].var[k] = (uint16_t)nvars++;
    }
    return bl_recording_create(b->dev, (uint32_t)trial->nlaunches, launch, (uint32_t)b->trials->nbuffers, nvars, &r->recording,
                               err);
}

/* Run a trial once; its time is the sum of its launches' times. */
static bl_status run_once(bench *b, int which, uint64_t *ns, bl_err *err)
{
    const bl_trial *trial = &b->trials->trial[which];
    uint64_t each[BL_TRIAL_LAUNCHES] = {0};
    uint32_t groups[BL_TRIAL_LAUNCHES][3];
    int32_t vars[BL_TRIAL_LAUNCHES * BL_MAX_SCALARS] = {0};
    bl_submission submission = {.slots = b->buffer, .vars = vars, .groups = (const uint32_t(*)[3])groups, .nanoseconds = each};
    int nvars = 0;

    for (int i = 0; i < trial->nlaunches; i++) {
        memcpy(groups[i], trial->launch[i].groups, sizeof groups[i]);
        for (uint32_t k = 0; k < trial->launch[i].source.nscalars; k++)
            vars[nvars++] = trial->launch[i].scalar[k];
    }
    BL_TRY(bl_recording_submit(b->rigs[which].recording, &submission, err));
    BL_TRY(bl_device_wait(b->dev, err));
    *ns = 0;
    for (int i = 0; i < trial->nlaunches; i++)
        *ns += each[i];
    return BL_OK;
}

/* ---- results */

typedef struct deviation {
    double most, scale;
} deviation;

/* Compare |got| with |want|; two NaNs are equal. Called with constant |fill| and |size|, so that each type gets a specialised
 * loop: results may have millions of elements. */
static inline void trial_compare_numbers(bl_trial_fill fill, size_t size, size_t bytes, const uint8_t *got, const uint8_t *want,
                                         deviation *d)
{
    double most = d->most, scale = d->scale;
    for (size_t at = 0; at + size <= bytes; at += size) {
        double x = number_at(fill, got + at), y = number_at(fill, want + at), off = fabs(x - y);
        if (fabs(y) > scale && isfinite(y))
            scale = fabs(y);
        if (x == y || off <= most || (isnan(x) && isnan(y)))
            continue;
        most = isnan(off) ? (double)INFINITY : off;
    }
    d->most = most;
    d->scale = scale;
}

/* Compare results; integers must be equal. */
static void trial_compare(bl_trial_fill fill, size_t bytes, const uint8_t *got, const uint8_t *want, deviation *d)
{
    switch (fill) {
    case BL_TRIAL_INTEGERS:
        d->scale = 1;
        d->most = memcmp(got, want, bytes) == 0 ? d->most : 1;
        return;
    case BL_TRIAL_F16:
        trial_compare_numbers(BL_TRIAL_F16, 2, bytes, got, want, d);
        return;
    case BL_TRIAL_BF16:
        trial_compare_numbers(BL_TRIAL_BF16, 2, bytes, got, want, d);
        return;
    case BL_TRIAL_F32:
        trial_compare_numbers(BL_TRIAL_F32, 4, bytes, got, want, d);
        return;
    case BL_TRIAL_F64:
        trial_compare_numbers(BL_TRIAL_F64, 8, bytes, got, want, d);
        return;
    }
}

static bl_status trial_check_result(bench *b, int trial, int which, double *difference, bl_err *err)
{
    const bl_trial_buffer *buffer = &b->trials->buffer[which];
    deviation d = {0};

    for (size_t at = 0; at < buffer->bytes;) {
        size_t n = buffer->bytes - at < CHUNK ? buffer->bytes - at : CHUNK;
        BL_TRY(bl_buffer_read(b->buffer[which], at, trial == 0 ? b->wanted[which] + at : b->chunk, n, err));
        if (trial > 0)
            trial_compare(buffer->fill, n, b->chunk, b->wanted[which] + at, &d);
        at += n;
    }
    if (d.most > 0)
        d.most = d.scale > 0 ? d.most / d.scale : d.most;
    *difference = d.most > *difference ? d.most : *difference;
    return BL_OK;
}

/* Run a trial for the first time, after resetting the results, and check the results. */
static bl_status trial_begin(bench *b, int which, bl_err *err)
{
    bl_trial *trial = &b->trials->trial[which];

    BL_TRY(make_kernels(b, which, err));
    for (int i = 0; i < b->trials->nbuffers; i++) {
        if (b->trials->buffer[i].result)
            BL_TRY(trial_fill_buffer(b, i, err));
    }
    BL_TRY(run_once(b, which, &trial->ns, err));
    for (int i = 0; i < b->trials->nbuffers; i++) {
        if (b->trials->buffer[i].result)
            BL_TRY(trial_check_result(b, which, i, &trial->difference, err));
    }
    return BL_OK;
}

static void trial_give_up(bl_trial *trial, const bl_err *err)
{
    trial->status = err->status;
    snprintf(trial->why, sizeof trial->why, "%.*s", (int)sizeof trial->why - 1, err->text);
}

static uint64_t best_of(const bl_trials *trials)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < trials->ntrials; i++) {
        if (trials->trial[i].status == BL_OK && trials->trial[i].ns < best)
            best = trials->trial[i].ns;
    }
    return best;
}

/* Run all trials once per round, so that other load on the machine slows all trials alike. */
static bl_status trial_take_turns(bench *b, bl_err *halted)
{
    bl_trials *trials = b->trials;
    int64_t start = bl_clock_ns();

    for (int round = 1; round < MOST_ROUNDS; round++) {
        double limit = (double)best_of(trials) * (round < LEAST_ROUNDS ? HOPELESS : BEATEN);
        if (round >= LEAST_ROUNDS && bl_clock_ms(start, bl_clock_ns()) > ENOUGH_SECONDS * 1e3)
            break;
        for (int k = 0; k < trials->ntrials; k++) {
            /* rotate the order: a trial finds the cache contents that the trial before it left */
            int i = (k + round) % trials->ntrials;
            bl_trial *trial = &trials->trial[i];
            bl_err err = {0};
            uint64_t ns = 0;
            if (trial->status != BL_OK || (i > 0 && (double)trial->ns > limit))
                continue;
            BL_TRY(bl_halt_check(&trials->halt, halted));
            if (run_once(b, i, &ns, &err) != BL_OK)
                trial_give_up(trial, &err);
            else if (ns < trial->ns)
                trial->ns = ns;
        }
    }
    return BL_OK;
}

static bool is_sound(const bl_trials *trials)
{
    bool sound = trials->nbuffers >= 0 && trials->nbuffers <= BL_TRIAL_BUFFERS && trials->ntrials > 0;
    for (int i = 0; sound && i < trials->ntrials; i++)
        sound = trials->trial[i].nlaunches > 0 && trials->trial[i].nlaunches <= BL_TRIAL_LAUNCHES;
    return sound;
}

bl_status bl_trials_run(bl_device *dev, bl_trials *trials, bl_err *err)
{
    bench b = {.dev = dev, .trials = trials};
    bl_status st = BL_OK;

    if (!is_sound(trials))
        return bl_fail(err, BL_EBUG, "the trials are inconsistent");
    st = make_buffers(&b, err);
    for (int i = 0; st == BL_OK && i < trials->ntrials; i++) {
        bl_err failure = {0};
        trials->trial[i].status = BL_OK;
        trials->trial[i].ns = UINT64_MAX;
        trials->trial[i].difference = 0;
        if (trial_begin(&b, i, &failure) != BL_OK)
            trial_give_up(&trials->trial[i], &failure);
        if (i == 0 && failure.status != BL_OK) { /* without the first trial there is no reference to compare with */
            st = bl_fail(err, failure.status, "%s", failure.text);
        }
        if (st == BL_OK)
            st = bl_halt_check(&trials->halt, err);
    }
    if (st == BL_OK && !trials->once)
        st = trial_take_turns(&b, err);
    fini(&b);
    return st;
}
