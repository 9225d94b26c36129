/* SPDX-License-Identifier: MIT */
/* Peaks: the kernels compute the declared results on every device, and a launch is judged by its nearest limit. */
#include "engine/search/peaks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 4 };

/* A runner that checks the results of the trial, which must be a copy. */
typedef struct seen {
    int runs;
    bool copied;
} seen;

static bl_status run_and_look(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    seen *s = arg;
    bl_trial twice[2];
    bl_trials both = *trials;

    s->runs++;
    BL_TRY(bl_trials_run(dev, trials, err));
    if (strcmp(trials->trial[0].launch[0].source.entry, "peak_copy") != 0)
        return BL_OK;
    /* the second trial copies in the other direction: both buffers have b1's contents, so its result equals the first */
    twice[0] = twice[1] = trials->trial[0];
    both.trial = twice;
    both.ntrials = 2;
    both.buffer[0].result = true;
    BL_TRY(bl_trials_run(dev, &both, err));
    s->copied = twice[1].status == BL_OK && twice[1].difference == 0;
    return BL_OK;
}

static void test_measured(void **state)
{
    static const bl_backend *const backends[] = {&bl_backend_opencl, &bl_backend_vulkan};

    (void)state;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        static bl_device *all[2][MOST_DEVICES]; /* open until the end, since suppressions of leaks need the names of a loaded
                                                 * driver */
        bl_device **dev = all[i];
        uint32_t count = 0;
        bl_text why = {0};
        bl_err err = {0};
        if (backends[i]->open(MOST_DEVICES, dev, &count, &why, &err) != BL_OK)
            count = 0;
        bl_text_fini(&why);
        for (uint32_t d = 0; d < count; d++) {
            bl_peaks peaks;
            seen s = {0};
            if (bl_peaks_measure(dev[d], run_and_look, &s, &peaks, &err) != BL_OK)
                fail_msg("%s: %s", dev[d]->info.id, err.text);
            print_message("%s: %.3g GFLOP/s, %.3g GB/s\n", dev[d]->info.id, peaks.ops * 1e-9, peaks.bytes * 1e-9);
            assert_int_equal(s.runs, 2);
            assert_true(s.copied);
            /* from an interpreter under a sanitizer to the largest devices */
            assert_true(peaks.ops > 1e5 && peaks.ops < 1e15);
            assert_true(peaks.bytes > 1e5 && peaks.bytes < 1e14);
        }
    }
}

static void test_judged(void **state)
{
    static const bl_peaks peaks = {.ops = 200e9, .bytes = 20e9};
    static const struct {
        double seconds;
        int64_t ops, bytes;
        bl_ceiling ceiling;
        double share;
    } rows[] = {
        {1e-3, 100000000, 1000000, BL_CEILING_COMPUTE, 0.5},
        {1e-3, 1000000, 18000000, BL_CEILING_MEMORY, 0.9},
        {5e-6, 1000, 4000, BL_CEILING_LAUNCH, 0.04},
        {5e-6, 1000, 80000, BL_CEILING_MEMORY, 0.8},
        {0, 1000, 1000, BL_CEILING_UNKNOWN, 0},
        {1, 0, 0, BL_CEILING_UNKNOWN, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_standing s = bl_peaks_judge(&peaks, rows[i].seconds, rows[i].ops, rows[i].bytes);
        if (s.ceiling != rows[i].ceiling || fabs(s.share - rows[i].share) > 1e-9)
            fail_msg("row %zu: %s, %g", i, bl_ceiling_name(s.ceiling), s.share);
    }
    assert_int_equal(bl_peaks_judge(&(bl_peaks){0}, 1e-3, 1000, 1000).ceiling, BL_CEILING_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_measured), cmocka_unit_test(test_judged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
