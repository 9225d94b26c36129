/* SPDX-License-Identifier: MIT */
/* Trials on the interpreter: equal results, differences and their size, missing times, and invalid candidates. */
#include "engine/device/trial.h"
#include "tests/lower/read_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 1000, MOST = 4 };

/* b1[i] = b0[i] OP a number, for any dtype. */
static const char pattern[] = "linear k buffers=%s,%s writes=2 scalars=0 local=1,1,1 localbytes=0\n"
                              "0 group_id int32 arg=0\n1 buffer %s arg=0\n2 load %s %%1 %%0\n3 const %s %s\n4 %s %s %%2 %%3\n"
                              "5 buffer %s arg=1\n6 store %%5 %%0 %%4\n";

typedef struct bench {
    bl_device *dev;
    bl_arena *arena;
    bl_trial trial[MOST];
    bl_trials trials;
} bench;

static void open_bench(bench *b, bl_trial_fill fill, size_t element)
{
    uint32_t count = 0;
    bl_text why = {0};
    *b = (bench){.arena = bl_arena_create(0)};
    assert_int_equal(bl_backend_interp.open(1, &b->dev, &count, &why, NULL), BL_OK);
    bl_text_fini(&why);
    b->trials = (bl_trials){.nbuffers = 2, .trial = b->trial, .max_seconds = 10};
    b->trials.buffer[0] = (bl_trial_buffer){.bytes = ELEMENTS * element, .fill = fill};
    b->trials.buffer[1] = (bl_trial_buffer){.bytes = ELEMENTS * element, .fill = fill, .result = true};
}

static void close_bench(bench *b)
{
    assert_int_equal(atomic_load(&b->dev->bytes_used), 0);
    bl_device_destroy(b->dev);
    bl_arena_destroy(b->arena);
}

/* Adds another candidate; |groups| of the elements are written. */
static void add_trial(bench *b, const char *dtype, const char *op, const char *number, uint32_t groups)
{
    bl_trial_launch *launch = &b->trial[b->trials.ntrials++].launch[0];
    bl_linear *linear = NULL;
    bl_err err = {0};
    char *text = bl_arena_printf(b->arena, pattern, dtype, dtype, dtype, dtype, dtype, number, op, dtype, dtype);

    if (read_linear(b->arena, text, strlen(text), &linear, &err) != BL_OK)
        fail_msg("%s\n%s", err.text, text);
    b->trial[b->trials.ntrials - 1].nlaunches = 1;
    *launch = (bl_trial_launch){.source = {.entry = "k",
                                           .text = text,
                                           .len = strlen(text),
                                           .linear = linear,
                                           .nbuffers = 2,
                                           .writes = linear->writes,
                                           .local = {1, 1, 1}},
                                .slot = {0, 1},
                                .groups = {groups, 1, 1}};
}

/* Candidates that compute the same, slightly more, all but the end, and nothing, for every kind of number. */
static void test_differences(void **state)
{
    static const struct {
        bl_trial_fill fill;
        const char *dtype, *two, *more;
        size_t element;
        double least, most; /* bounds of the difference */
    } rows[] = {{BL_TRIAL_F32, "float32", "2", "2.001953125", 4, 0.9e-3, 1.1e-3},
                {BL_TRIAL_F64, "float64", "2", "2.0000019073486328125", 8, 0.9e-6, 1.1e-6},
                {BL_TRIAL_F16, "float16", "2", "2.0078125", 2, 2e-3, 8e-3},
                {BL_TRIAL_BF16, "bfloat16", "2", "2.125", 2, 3e-2, 7e-2},
                {BL_TRIAL_INTEGERS, "int32", "2", "3", 4, 0, 0}}; /* zeros remain zeros after any multiplication */

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        bl_err err = {0};
        open_bench(&b, rows[i].fill, rows[i].element);
        add_trial(&b, rows[i].dtype, "mul", rows[i].two, ELEMENTS);
        add_trial(&b, rows[i].dtype, "mul", rows[i].two, ELEMENTS);
        add_trial(&b, rows[i].dtype, "mul", rows[i].more, ELEMENTS);
        add_trial(&b, rows[i].dtype, "mul", rows[i].two, ELEMENTS - 1);
        if (bl_trials_run(b.dev, &b.trials, &err) != BL_OK)
            fail_msg("%s: %s", rows[i].dtype, err.text);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(b.trial[k].status, BL_OK);
            assert_true(b.trial[k].ns > 0 && b.trial[k].ns < UINT64_MAX);
        }
        assert_true(b.trial[1].difference == 0);
        if (b.trial[2].difference < rows[i].least || b.trial[2].difference > rows[i].most)
            fail_msg("%s differs by %g", rows[i].dtype, b.trial[2].difference);
        if (!(b.trial[3].difference > 0)) /* a missing write is detected */
            fail_msg("%s: the last element was not written, and nobody says so", rows[i].dtype);
        close_bench(&b);
    }
}

/* NaN equals NaN and no other number. */
static void test_nan(void **state)
{
    bench b;
    bl_err err = {0};

    (void)state;
    open_bench(&b, BL_TRIAL_F32, 4);
    add_trial(&b, "float32", "mul", "0x7ff8000000000000", ELEMENTS);
    add_trial(&b, "float32", "add", "0x7ff8000000000000", ELEMENTS);
    add_trial(&b, "float32", "mul", "1", ELEMENTS);
    assert_int_equal(bl_trials_run(b.dev, &b.trials, &err), BL_OK);
    assert_true(b.trial[1].difference == 0);
    assert_true(b.trial[2].difference > 1e300);
    close_bench(&b);
}

/* A candidate that does not compile fails alone; the failure of the first fails all, since it is the reference. */
static void test_failures(void **state)
{
    bench b;
    bl_err err = {0};

    (void)state;
    open_bench(&b, BL_TRIAL_F32, 4);
    for (int i = 0; i < 3; i++)
        add_trial(&b, "float32", "mul", "2", ELEMENTS);
    b.trial[1].launch[0].source.text = "";
    b.trial[1].launch[0].source.len = 0;
    b.trial[1].launch[0].source.local[0] = 1u << 30; /* more than any device supports */
    assert_int_equal(bl_trials_run(b.dev, &b.trials, &err), BL_OK);
    assert_int_not_equal(b.trial[1].status, BL_OK);
    assert_true(b.trial[1].why[0] != '\0');
    assert_int_equal(b.trial[2].status, BL_OK);
    b.trial[0].launch[0].source = b.trial[1].launch[0].source;
    assert_int_not_equal(bl_trials_run(b.dev, &b.trials, &err), BL_OK);
    err = (bl_err){0};
    b.trials.ntrials = 0;
    assert_int_equal(bl_trials_run(b.dev, &b.trials, &err), BL_EBUG);
    b.trials.ntrials = 1;
    b.trial[0] = b.trial[2];
    b.trials.buffer[0].bytes = SIZE_MAX / 2;
    err = (bl_err){0};
    assert_int_equal(bl_trials_run(b.dev, &b.trials, &err), BL_ENODEVMEM);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences), cmocka_unit_test(test_nan),
                                       cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests_name("trial", tests, NULL, NULL);
}
