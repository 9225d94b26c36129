/* SPDX-License-Identifier: MIT */
/* The choice of batch sizes: simulated devices, and clients that always send the next request. */
#include "server/batch/sizes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MS = 1000000 };

/* A run takes |fixed|, plus |each| per row, plus |grows| per row after the first; with a plan for its size |saves| of the time.
 * A plan is ready |made| runs after its order. */
typedef struct device {
    double fixed, each, grows, saves;
    unsigned made;
    bool noisy;
} device;

typedef struct outcome {
    double ms, rows;
    int64_t runs, last;
} outcome;

static double cost(const device *d, int64_t rows, bool exact)
{
    double ms = d->fixed + (double)rows * (d->each + d->grows * (rows > 1 ? 1 : 0));
    return exact ? ms * (1 - d->saves) : ms;
}

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 16;
}

/* |waiting| rows wait before each of |runs| runs; |fresh|: the driver has compiled nothing yet. */
static outcome simulate(const device *d, bl_sizes *sizes, int64_t waiting, int64_t runs, bool fresh)
{
    unsigned left[BL_SIZES] = {0}, before[BL_SIZES][2] = {{0}}, seed = 7;
    outcome out = {0};
    for (out.runs = 0; out.runs < runs; out.runs++) {
        int64_t rows = bl_sizes_choose(sizes, 1, waiting, NULL);
        int size = bl_size_of(rows);
        bool exact = sizes->at[size].present && bl_size_is_exact(rows);
        double ms = cost(d, rows, exact);
        assert_in_range(rows, 1, waiting);
        ms *= fresh && before[size][exact]++ == 0 ? 6
              : d->noisy && draw(&seed) % 4 == 0  ? 3
                                                  : 1; /* a driver compiles; other load */
        bl_sizes_learn(sizes, rows, exact, (int64_t)(ms * MS));
        if (d->made > 0 && bl_sizes_order(sizes, rows))
            left[size] = d->made;
        for (int i = 0; i < BL_SIZES; i++)
            if (left[i] > 0 && --left[i] == 0)
                bl_sizes_answer(sizes, (int64_t)1 << i, true);
        out.ms += ms;
        out.rows += (double)rows;
        out.last = rows;
    }
    return out;
}

/* The final choice takes at most the best time per row, and the exploration costs little. */
static void check(const device *d, int64_t waiting, double best_row_ms, double within)
{
    bl_sizes sizes = {0};
    outcome begin = simulate(d, &sizes, waiting, 400, true), late = simulate(d, &sizes, waiting, 4000, false);
    double noise = d->noisy ? 1.5 : 1; /* other load, which affects all sizes alike: a quarter of the runs takes three times as
                                        * long */
    assert_true(begin.rows > 0);
    if (late.ms / late.rows > best_row_ms * noise * within)
        fail_msg("a row takes %.3f ms, and could take %.3f ms", late.ms / late.rows, best_row_ms * noise);
}

static void test_a_device_that_one_row_fills(void **state)
{
    static const device quiet = {.each = 9, .grows = 4}, noisy = {.each = 9, .grows = 4, .noisy = true};
    (void)state;
    check(&quiet, 31, 9, 1.03);
    check(&noisy, 31, 9, 1.08);
}

static void test_a_device_that_wants_many(void **state)
{
    static const device quiet = {.fixed = 0.2, .each = 0.02}, noisy = {.fixed = 0.2, .each = 0.02, .noisy = true};
    (void)state;
    check(&quiet, 31, 0.2 / 31 + 0.02, 1.03);
    check(&noisy, 31, 0.2 / 31 + 0.02, 1.12);
}

/* SqueezeNet on two cores: the plan for all sizes takes a third longer, and grows with the number of rows. */
static void test_plans_for_a_size(void **state)
{
    static const device quiet = {.each = 12, .grows = 1, .saves = 0.25, .made = 20},
                        noisy = {.each = 12, .grows = 1, .saves = 0.25, .made = 20, .noisy = true};
    (void)state;
    check(&quiet, 8, 9, 1.05);
    check(&quiet, 31, 9, 1.05);
    check(&noisy, 31, 9, 1.10);
}

/* If a plan makes a size the best, the choice moves there. */
static void test_a_plan_is_noticed(void **state)
{
    device d = {.each = 10};
    bl_sizes sizes = {0};
    (void)state;
    assert_int_equal(13, simulate(&d, &sizes, 13, 100, false).last);
    bl_sizes_answer(&sizes, 8, true);
    d.saves = 0.2;
    assert_int_equal(8, simulate(&d, &sizes, 13, 100, false).last);
}

/* Expensive sizes are tried again, since a machine is not always busy. */
static void test_change(void **state)
{
    device d = {.each = 10, .grows = 3};
    bl_sizes sizes = {0};
    (void)state;
    assert_int_equal(1, simulate(&d, &sizes, 16, 500, false).last);
    d = (device){.fixed = 8, .each = 2};
    assert_int_equal(16, simulate(&d, &sizes, 16, 20000, false).last);
    d = (device){.each = 10, .grows = 3};
    assert_int_equal(1, simulate(&d, &sizes, 16, 20000, false).last);
}

/* Requests of several rows each: a smaller size is chosen but never runs, and must not be chosen forever. */
static void test_requests_of_several_rows(void **state)
{
    (void)state;
    for (int64_t each = 2; each <= 9; each++) {
        bl_sizes sizes = {0};
        double rows = 0;
        for (int i = 0; i < 400; i++) {
            int64_t chosen = bl_sizes_choose(&sizes, 1, 32, NULL), run = chosen < each ? each : chosen / each * each;
            bl_sizes_learn(&sizes, run, false, 10 * MS); /* whatever the number of rows */
            rows += i < 200 ? 0 : (double)run;
        }
        if (rows / 200 < 25)
            fail_msg("of requests of %lld rows %.1f run together", (long long)each, rows / 200);
    }
}

/* Speculative decoding: a row of a proposed token counts as much as its chance, and may cost time before the run.  The choice has
 * the least time per token. */
static void check_rows_that_count_less(double chance, double before_ms, int64_t texts)
{
    const device d = {.fixed = 8, .each = 2};
    bl_sizes sizes = {0};
    bl_rows_worth worth[33] = {{0}};
    double each = 1, best = INFINITY, took = 0;
    worth[texts].gain = (double)texts;
    for (int64_t rows = texts + 1; rows <= 32; rows++)
        worth[rows] = (bl_rows_worth){worth[rows - 1].gain + (each *= chance), worth[rows - 1].before_ns + before_ms * MS};
    for (int64_t rows = texts; rows <= 32; rows = (int64_t)2 << bl_size_of(rows))
        best = fmin(best, (cost(&d, rows, false) + worth[rows].before_ns / MS) / worth[rows].gain);
    for (int i = 0; i < 400; i++) {
        int64_t rows = bl_sizes_choose(&sizes, texts, 32, worth);
        assert_in_range(rows, texts, 32);
        bl_sizes_learn(&sizes, rows, false, (int64_t)(cost(&d, rows, false) * MS));
        took += i < 200 ? 0 : (cost(&d, rows, false) + worth[rows].before_ns / MS) / worth[rows].gain;
    }
    if (took / 200 > 1.06 * best)
        fail_msg("with a chance of %.2f, %.1f ms before and %lld texts a token takes %.2f ms, and could take %.2f ms", chance,
                 before_ms, (long long)texts, took / 200, best);
}

static void test_rows_that_count_less(void **state)
{
    static const double chances[] = {0.95, 0.7, 0.3, 0.05}, before_ms[] = {0, 1, 8};
    (void)state;
    for (size_t c = 0; c < sizeof chances / sizeof chances[0]; c++)
        for (size_t b = 0; b < sizeof before_ms / sizeof before_ms[0]; b++)
            for (int64_t texts = 1; texts <= 5; texts += 2)
                check_rows_that_count_less(chances[c], before_ms[b], texts);
}

static void test_orders(void **state)
{
    bl_sizes sizes = {0};
    (void)state;
    bl_sizes_learn(&sizes, 4, false, 249 * MS);
    assert_false(bl_sizes_order(&sizes, 4));
    bl_sizes_learn(&sizes, 5, false, 500 * MS); /* not a candidate size */
    assert_false(bl_sizes_order(&sizes, 5));
    assert_false(bl_sizes_order(&sizes, 4));
    bl_sizes_learn(&sizes, 4, false, 1 * MS);
    assert_true(bl_sizes_order(&sizes, 4));
    assert_false(bl_sizes_order(&sizes, 4)); /* the plan is being made */
    bl_sizes_answer(&sizes, 4, false);
    assert_false(bl_sizes_order(&sizes, 4)); /* not again at once */
    bl_sizes_learn(&sizes, 4, false, 250 * MS);
    assert_true(bl_sizes_order(&sizes, 4));
    bl_sizes_answer(&sizes, 4, true);
    bl_sizes_learn(&sizes, 4, true, 1000 * MS);
    assert_false(bl_sizes_order(&sizes, 4));
}

static void test_numbers(void **state)
{
    bl_sizes sizes = {0};
    (void)state;
    assert_int_equal(0, bl_size_of(1));
    assert_int_equal(1, bl_size_of(3));
    assert_int_equal(2, bl_size_of(4));
    assert_int_equal(BL_SIZES - 1, bl_size_of(INT64_MAX));
    assert_true(bl_size_is_exact(1) && bl_size_is_exact(64));
    assert_false(bl_size_is_exact(0) || bl_size_is_exact(3) || bl_size_is_exact((int64_t)1 << 40));
    assert_int_equal(0, bl_sizes_choose(&sizes, 1, 0, NULL));
    assert_int_equal(1, bl_sizes_choose(&sizes, 1, 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_device_that_one_row_fills),
                                       cmocka_unit_test(test_a_device_that_wants_many),
                                       cmocka_unit_test(test_plans_for_a_size),
                                       cmocka_unit_test(test_a_plan_is_noticed),
                                       cmocka_unit_test(test_change),
                                       cmocka_unit_test(test_requests_of_several_rows),
                                       cmocka_unit_test(test_rows_that_count_less),
                                       cmocka_unit_test(test_orders),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
