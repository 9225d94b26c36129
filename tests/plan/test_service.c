/* SPDX-License-Identifier: MIT */
/* Plans in service: statistics of their runs, buffers kept between runs, and replacement by a better plan. */
#include "engine/plan/plan_internal.h"
#include "tests/plan/jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char weighed[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [8, 8, 3, 3]}}, 'state': {'w': {'dtype': 'float32', 'shape': [1, 8, 20, "
    "20]}}, "
    "'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['w', 'x'], 'attrs': {'padding': 1}}], 'outputs': ['y']}";

static const char transformed[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [1, 16, 12, 12]}}, 'state': {'w': {'dtype': 'float32', 'shape': [16, 16, 3, "
    "3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'form': 'winograd'}}], "
    "'outputs': ['y']}";

static const char trains[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [1, 16, 12, 12]}}, 'state': {'w': {'dtype': 'float32', 'shape': [16, 16, 3, "
    "3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'form': 'winograd'}}, "
    "{'id': 'v', 'op': 'mul', 'in': ['w', 0.5]}], 'updates': {'w': 'v'}, 'outputs': ['y']}";

/* Every kernel's time is known after the second run; the first run is not measured. */
static void test_times_in_service(void **state)
{
    bench b = open_bench(4);
    document d;
    job j;
    bl_err err = {0};
    bl_kernel_use use[MOST_TENSORS];

    (void)state;
    open_counter(&b, &d, &j);
    for (unsigned i = 0; i < 2; i++) {
        bl_plan_service service;
        double sum = 0;
        int n = 0, kernels = 0;
        j.run.steps = 3;
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
        drop_outputs(&j);
        service = bl_plan_get_service(j.run.plan);
        assert_int_equal(service.steps, 3 * (i + 1));
        assert_int_equal(service.samples, i);
        n = bl_plan_list_kernels(j.run.plan, MOST_TENSORS, use);
        assert_true(n > 0);
        for (int k = 0; k < n; k++) {
            assert_true((use[k].seconds > 0) == (i > 0));
            assert_int_equal(use[k].launches, 1);
            kernels += use[k].kernels;
            sum += use[k].seconds;
        }
        assert_int_equal(kernels, bl_plan_get_info(j.run.plan)->kernels);
        assert_true(i == 0 || (sum > service.step_seconds * 0.999 && sum < service.step_seconds * 1.001));
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* Most steps are delayed by other load: the minimum is over the last steps, and older steps do not count. */
static void test_the_least(void **state)
{
    static const uint64_t us[] = {5, 90, 40, 800, 30, 70, 60, 31, 900};
    enum { STEPS = sizeof us / sizeof us[0] };
    bench b = open_bench(4);
    document d;
    job j;
    uint64_t *launch_ns = NULL;

    (void)state;
    open_counter(&b, &d, &j);
    assert_true(bl_plan_least_seconds(j.run.plan, 3) == 0);
    launch_ns = bl_calloc((size_t)j.run.plan->nsteps + 1, sizeof *launch_ns);
    assert_non_null(launch_ns);
    for (int i = 0; i < STEPS; i++) {
        launch_ns[0] = us[i] * 1000;
        plan_census_end(j.run.plan, NULL, launch_ns);
        assert_int_equal(llround(bl_plan_least_seconds(j.run.plan, 1) * 1e6), us[i]);
    }
    assert_int_equal(llround(bl_plan_least_seconds(j.run.plan, 7) * 1e6), 30);
    assert_int_equal(llround(bl_plan_least_seconds(j.run.plan, 2) * 1e6), 31);
    assert_int_equal(llround(bl_plan_least_seconds(j.run.plan, BL_PLAN_RECENT) * 1e6), 5);
    for (int i = 0; i < BL_PLAN_RECENT; i++)
        plan_census_end(j.run.plan, NULL, launch_ns); /* the oldest samples are dropped */
    assert_int_equal(llround(bl_plan_least_seconds(j.run.plan, BL_PLAN_RECENT) * 1e6), 900);
    free(launch_ns);
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

#define CONVOLVES(dims, n)                                                                                                       \
    "{" dims "'inputs': {'x': {'dtype': 'float32', 'shape': [" n                                                                 \
    ", 1, 5, 5]}, 'w': {'dtype': 'float32', 'shape': [4, 1, 3, 3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, "  \
    "{'id': 's', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': 0}}], 'outputs': ['y', 's']}"

/* Operations of a step at its sizes: as in the profile, and as in the report of a run with equal launch times. */
typedef struct done {
    double ops, bytes, told_ops, told_bytes;
} done;

static done take_report(const job *j)
{
    enum { MOST = 64, NS = 10 }; /* so short that a tenth of a GFLOP/s is a few operations */
    uint64_t launch_ns[MOST];
    bl_kernel_use use[MOST_TENSORS];
    bl_text text = {0};
    done all = {0};
    int n = bl_plan_list_kernels(j->plan, MOST_TENSORS, use);

    assert_true(n > 0 && j->plan->nsteps <= MOST);
    for (int i = 0; i < MOST; i++)
        launch_ns[i] = NS;
    for (int i = 0; i < n; i++) {
        all.ops += use[i].timed_ops * use[i].launches;
        all.bytes += use[i].timed_bytes * use[i].launches;
    }
    bl_plan_report(j->plan, j->vars, launch_ns, 1, &(bl_peaks){0}, &text);
    for (const char *at = bl_text_get(&text); (at = strstr(at, " us ")) != NULL; at++) {
        double rate = 0, bandwidth = 0;
        assert_int_equal(sscanf(at, " us %lf GFLOP/s %lf GB/s", &rate, &bandwidth), 2);
        all.told_ops += rate * NS;
        all.told_bytes += bandwidth * NS;
    }
    bl_text_fini(&text);
    return all;
}

static done do_in_service(const char *text, const int64_t *sizes, int nsizes)
{
    bench b = open_bench(4);
    document d = open_document(text);
    bl_plan *plan = NULL;
    bl_err err = {0};
    done last = {0};
    bool hit = false;

    if (get_plan(&b, &d, &plan, &hit, &err) != BL_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < nsizes; i++) {
        job j;
        open_job(&b, bl_plan_retain(plan), sizes[i], &j);
        plan->census.next_ns = 0; /* every step but the first is timed */
        if (bl_plan_run(&j.run, &err) != BL_OK)
            fail_msg("%s", err.text);
        drop_outputs(&j);
        last = take_report(&j);
        close_job(&j);
    }
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
    return last;
}

static void check_alike(double got, double wanted, const char *what)
{
    if (wanted <= 0 || fabs(got - wanted) > 0.06 * wanted)
        fail_msg("%s: %g at the size of the run, %g where that is the only one", what, got, wanted);
}

/* Operations are counted at the sizes of the run, not at the largest sizes; the profile has the mean of timed steps. */
static void test_counts_at_the_sizes(void **state)
{
    static const char named[] = CONVOLVES("'dims': {'n': [1, 4096]}, ", "'n'");
    static const int64_t four[] = {120, 4, 4, 4}, hundred[] = {100, 100}, turns[] = {150, 150, 50}; /* the first is not timed */
    done fixed = do_in_service(CONVOLVES("", "4"), four, 3), got = do_in_service(named, four, 4);

    (void)state;
    check_alike(got.ops, fixed.ops, "ops of the profile");
    check_alike(got.bytes, fixed.bytes, "bytes of the profile");
    check_alike(got.told_ops, fixed.told_ops, "ops of the report");
    check_alike(got.told_bytes, fixed.told_bytes, "bytes of the report");
    fixed = do_in_service(named, hundred, 2);
    got = do_in_service(named, turns, 3);
    check_alike(got.ops, fixed.ops, "ops of two sizes");
    check_alike(got.bytes, fixed.bytes, "bytes of two sizes");
    check_alike(got.told_ops, fixed.told_ops / 2, "ops of the report of the last");
    check_alike(got.told_bytes, fixed.told_bytes / 2, "bytes of the report of the last");
}

/* Consecutive small kernels are joined to one launch, and still counted separately; without moves each is a separate launch. */
static void test_joined(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products);
    bl_kernel_use use[MOST_TENSORS];
    bl_plan *plan = NULL, *apart = NULL;
    bl_plan_options options = {0};
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    options = *bl_plan_get_options(plan);
    options.noopt = true;
    assert_int_equal(bl_plan_remake(plan, &options, &apart, &err), BL_OK);
    assert_int_equal(bl_plan_get_info(plan)->kernels, 2);
    assert_int_equal(bl_plan_list_kernels(plan, MOST_TENSORS, use), 1);
    assert_int_equal(use[0].kernels, 2);
    assert_int_equal(bl_plan_list_kernels(apart, MOST_TENSORS, use), 2);
    bl_plan_release(apart);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A plan made with another plan's moves uses these, whatever the heuristic would choose; unnamed nests use the heuristic's
 * choice. */
static void test_fixed_moves(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products);
    bl_plan *plan = NULL, *plain = NULL, *again = NULL;
    bl_plan_options options = {0};
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    options = *bl_plan_get_options(plan);
    options.noopt = true;
    assert_int_equal(bl_plan_remake(plan, &options, &plain, &err), BL_OK);
    assert_string_not_equal(bl_plan_get_moves(plan), bl_plan_get_moves(plain));
    options.fixed = bl_plan_get_moves(plan);
    assert_int_equal(bl_plan_remake(plan, &options, &again, &err), BL_OK);
    assert_string_equal(bl_plan_get_moves(again), bl_plan_get_moves(plan));
    bl_plan_release(again);
    options.noopt = false;
    options.fixed = bl_plan_get_moves(plain);
    assert_int_equal(bl_plan_remake(plan, &options, &again, &err), BL_OK);
    assert_string_equal(bl_plan_get_moves(again), bl_plan_get_moves(plain));
    bl_plan_release(again);
    options.fixed = "0123456789abcdef split(1, vector, 4)\nnonsense\n";
    assert_int_equal(bl_plan_remake(plan, &options, &again, &err), BL_OK);
    assert_string_equal(bl_plan_get_moves(again), bl_plan_get_moves(plan));
    bl_plan_release(again);
    bl_plan_release(plain);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A run with its inputs, and whether the kernel does its work in this run. */
typedef struct kept_row {
    bool write, again; /* the weight is written before the run; the input is another buffer */
    float weight, wanted;
    bool done;
} kept_row;

static void give(job *j, const kept_row *row)
{
    size_t bytes = bytes_of(&j->info->states[0], j->vars);

    if (row->again) {
        bl_pool_release(j->b->pool, j->inputs[0]);
        j->inputs[0] = filled(j->b, bytes_of(&j->info->inputs[0], j->vars), 1);
    }
    for (size_t k = 0; row->write && k < bytes; k += sizeof(float))
        assert_int_equal(bl_buffer_write(j->states[0], k, &row->weight, sizeof(float), NULL), BL_OK);
}

/* Returns the plan's first kernel with this |name|. */
static int find_kernel(const bl_plan *plan, const char *name)
{
    bl_kernel_use use[MOST_TENSORS];
    int n = bl_plan_list_kernels(plan, MOST_TENSORS, use);

    for (int i = 0; i < n; i++) {
        if (strcmp(use[i].name, name) == 0)
            return use[i].number;
    }
    fail_msg("no kernel %s", name);
    return -1;
}

/* Whether the last step omitted the launch of |kernel|. */
static bool is_left_out(const bl_plan *plan, int kernel)
{
    const plan_keeps *keeps = &plan->keeps;
    for (int i = 0; i < keeps->nspared; i++) {
        if (plan->steps[keeps->spared[i].step].kernel == kernel)
            return keeps->spared[i].out;
    }
    fail_msg("kernel %d is never left out", kernel);
    return false;
}

/* Another allocation evicts the kept memory before row |taken|. */
static void check_kept(const char *text, const char *name, const kept_row *rows, size_t n, size_t taken)
{
    bench b = open_bench(4);
    document d = open_document(text);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = false;
    int kernel = -1;
    job j;

    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    kernel = find_kernel(plan, name);
    open_job(&b, plan, 0, &j);
    for (size_t i = 0; i < n; i++) {
        give(&j, &rows[i]);
        if (i == taken) {
            assert_true(bl_pool_drop_spares(b.pool, SIZE_MAX) > 0);
            assert_int_equal(atomic_load(&plan->keeps.bytes), 0);
        }
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
        if (fabsf(value_of(j.outputs[0]) - rows[i].wanted) > 1e-4F * rows[i].wanted)
            fail_msg("%s, row %zu: %g, wanted %g", name, i, (double)value_of(j.outputs[0]), (double)rows[i].wanted);
        drop_outputs(&j);
        if (is_left_out(plan, kernel) == rows[i].done)
            fail_msg("%s, row %zu: launched %d, wanted %d", name, i, !rows[i].done, rows[i].done);
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

static const char panel[] = "pack_r_8_20_20_8_3_3";

/* A packed panel (here a padded picture) is written for the first run and, to separate memory, for the second; later only if
 * its source changes or its memory was evicted. */
static void test_panels_are_kept(void **state)
{
    static const kept_row rows[] = {{true, false, 2, 64, true},   {false, false, 2, 64, true}, {false, false, 2, 64, false},
                                    {false, true, 2, 64, false},  {true, false, 3, 96, true},  {false, false, 3, 96, true},
                                    {false, false, 3, 96, false}, {false, false, 3, 96, true}, {false, false, 3, 96, true},
                                    {false, false, 3, 96, false}};

    (void)state;
    check_kept(weighed, panel, rows, sizeof rows / sizeof rows[0], 7);
}

/* If a panel would evict other memory, it is written each time, and kept once there is free memory. */
static void test_panels_take_nothing_from_others(void **state)
{
    bench b = open_bench(4);
    document d = open_document(weighed);
    uint64_t memory = b.dev->info.memory;
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = false;
    int kernel = -1, left_out = 0;
    job j;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    kernel = find_kernel(plan, panel);
    open_job(&b, plan, 0, &j);
    for (int i = 0; i < 300; i++) {
        if (i == 1) /* the memory of the first run */
            b.dev->info.memory = atomic_load(&b.dev->bytes_used);
        if (i == 100)
            b.dev->info.memory = memory;
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
        drop_outputs(&j);
        left_out += is_left_out(plan, kernel);
        if (i < 100)
            assert_int_equal(left_out, 0);
    }
    assert_in_range(left_out, 100, 199);
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* Results computed from weights alone (here their transform) are kept too; a mere repetition of the last run does not start
 * this. */
static void test_transforms_are_kept(void **state)
{
    static const kept_row weight[] = {{true, false, 2, 128, true}, {false, false, 2, 128, true}, {false, false, 2, 128, true},
                                      {false, true, 2, 128, true}, {false, true, 2, 128, false}, {false, false, 2, 128, false},
                                      {true, true, 3, 192, true},  {false, true, 3, 192, true},  {false, true, 3, 192, false},
                                      {true, false, 4, 256, true}};
    static const kept_row input[] = {{true, false, 2, 128, true}, {false, true, 2, 128, true}, {false, true, 2, 128, true}};

    (void)state;
    check_kept(transformed, "e_36_16_16", weight, sizeof weight / sizeof weight[0], SIZE_MAX);
    check_kept(transformed, "e_36_3_3_16", input, sizeof input / sizeof input[0], SIZE_MAX);
}

static bl_plan *plan_of(bench *b, const document *d, bool *hit)
{
    bl_plan *plan = NULL;
    bl_err err = {0};
    assert_int_equal(get_plan(b, d, &plan, hit, &err), BL_OK);
    return plan;
}

/* A program that trains its weights keeps nothing of them.  Kept buffers count as memory of the plan, so that other plans may
 * be evicted. */
static void test_kept_bytes(void **state)
{
    bench b = open_bench(4);
    document trained = open_document(trains), kept = open_document(transformed);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = false;
    size_t before = 0;
    job j;

    (void)state;
    plan = plan_of(&b, &trained, &hit);
    open_job(&b, plan, 0, &j);
    before = plan_host_bytes(plan);
    j.run.steps = 5;
    assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
    assert_int_equal(plan_host_bytes(plan), before + 36 * 9 * 16 * sizeof(float)); /* tiles of x, which is unchanged */
    close_job(&j);

    bl_plans_destroy(b.plans);
    b.plans = bl_plans_create(4, SIZE_MAX);
    plan = plan_of(&b, &kept, &hit);
    before += plan_host_bytes(plan);
    bl_plan_release(plan);
    bl_plans_destroy(b.plans);
    b.plans = bl_plans_create(4, before + 1000);
    for (int i = 0; i < 2; i++) { /* both fit at first */
        plan = plan_of(&b, &trained, &hit);
        assert_int_equal(hit, i == 1);
        bl_plan_release(plan);
        plan = plan_of(&b, &kept, &hit);
        assert_int_equal(hit, i == 1);
        if (i == 0)
            bl_plan_release(plan);
    }
    open_job(&b, plan, 0, &j);
    for (int i = 0; i < 3; i++) {
        give(&j, &(kept_row){.write = i == 0, .again = true, .weight = 1});
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
        drop_outputs(&j);
    }
    bl_plan_release(plan_of(&b, &kept, &hit)); /* the next look-up measures its memory again */
    assert_true(hit);
    bl_plan_release(plan_of(&b, &trained, &hit));
    assert_false(hit);
    close_job(&j);
    bl_arena_destroy(trained.arena);
    bl_arena_destroy(kept.arena);
    close_bench(&b);
}

static void expect_current(bl_plan *plan, const bl_plan *want)
{
    bl_plan *current = bl_plan_current(plan);
    assert_ptr_equal(current, want);
    bl_plan_release(current);
}

/* The cache and all holders of an older plan get the better plan, until it is rolled back. */
static void test_superseded(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products);
    bl_plan *first = NULL, *second = NULL, *third = NULL, *again = NULL;
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &first, &hit, &err), BL_OK);
    assert_int_equal(bl_plan_remake(first, bl_plan_get_options(first), &second, &err), BL_OK);
    assert_int_equal(bl_plan_remake(second, bl_plan_get_options(first), &third, &err), BL_OK);
    assert_int_equal(bl_plan_get_info(third)->kernels, bl_plan_get_info(first)->kernels);
    expect_current(first, first);
    bl_plan_supersede(first, second);
    expect_current(first, second);
    again = bl_plans_lookup(b.plans, &d.key, 0, true);
    assert_ptr_equal(again, second);
    bl_plan_release(again);
    bl_plan_supersede(first, third);
    expect_current(second, third);
    expect_current(first, third);
    bl_plan_supersede(first, NULL);
    expect_current(third, first);
    expect_current(second, first);
    expect_current(first, first);
    assert_int_equal(bl_plans_list(b.plans, 1, &again), 1);
    assert_ptr_equal(again, first);
    bl_plan_release(again);
    bl_plan_release(third);
    bl_plan_release(second);
    bl_plan_release(first);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A simulated clock: candidates other than the heuristic's choice take half the time; the clock may fail, or report that no
 * caller waits. */
typedef struct clock_for_tests {
    int batches;
    bl_status fail;
    atomic_bool *cancel;
} clock_for_tests;

static bl_status time_trials(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    clock_for_tests *clock = arg;
    (void)dev;
    clock->batches++;
    if (clock->cancel != NULL)
        atomic_store(clock->cancel, true);
    if (clock->fail != BL_OK)
        return bl_fail(err, clock->fail, "on purpose");
    for (int i = 0; i < trials->ntrials; i++) {
        trials->trial[i].status = BL_OK;
        trials->trial[i].difference = 0;
        trials->trial[i].ns = i == 0 ? 100000 : 50000 + trials->trial[i].launch[0].source.len;
    }
    return BL_OK;
}

static bl_status get_searched(bench *b, const document *d, const bl_tuner *tuner, int beam, const atomic_bool *cancel,
                              bl_plan **plan, bool *hit)
{
    bl_plan_options options = {
        .spec = 1, .program = true, .max_compile_bytes = 1 << 26, .tuner = tuner, .beam = beam, .halt.cancel = cancel};
    return bl_plans_get(b->plans, &d->key, d->graph, b->dev, &options, plan, hit, NULL);
}

/* One structure has one plan: a request with a wider beam searches once, and then all callers get the better plan. */
static void test_beam(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products);
    clock_for_tests clock = {0};
    bl_tuner tuner = {.time = time_trials, .time_arg = &clock, .seconds = 60};
    bl_plan *plain = NULL, *searched = NULL, *again = NULL;
    bool hit = false;

    (void)state;
    assert_int_equal(bl_kernels_open(NULL, &tuner.kernels, NULL), BL_OK);
    assert_int_equal(get_searched(&b, &d, &tuner, 0, NULL, &plain, &hit), BL_OK);
    assert_false(hit);
    assert_int_equal(clock.batches, 0);
    assert_null(bl_plans_lookup(b.plans, &d.key, 1, true));
    assert_int_equal(get_searched(&b, &d, &tuner, 1, NULL, &searched, &hit), BL_OK);
    assert_false(hit);
    assert_true(clock.batches > 0);
    assert_ptr_not_equal(searched, plain);
    assert_int_equal(bl_plan_get_info(plain)->kernels, bl_plan_get_info(searched)->kernels);
    clock.batches = 0;
    for (int beam = 0; beam < 2; beam++) {
        assert_int_equal(get_searched(&b, &d, &tuner, beam, NULL, &again, &hit), BL_OK);
        assert_true(hit);
        assert_ptr_equal(again, searched);
        bl_plan_release(again);
    }
    expect_current(plain, searched);
    bl_plan_release(plain);
    bl_plan_release(searched);
    bl_plans_destroy(b.plans); /* as after a restart: the kernels are known, and no search runs */
    b.plans = bl_plans_create(4, SIZE_MAX);
    assert_int_equal(get_searched(&b, &d, &tuner, 1, NULL, &again, &hit), BL_OK);
    assert_false(hit);
    assert_int_equal(clock.batches, 0);
    bl_plan_release(again);
    bl_kernels_close(tuner.kernels);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A failed search costs only the search; a search without waiting callers is repeated for the next request. */
static void test_beam_without_result(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products);
    atomic_bool cancel = false;
    clock_for_tests clock = {.fail = BL_EDEVICE, .cancel = &cancel};
    bl_tuner tuner = {.time = time_trials, .time_arg = &clock, .seconds = 60};
    bl_plan *plan = NULL;
    bool hit = false;

    (void)state;
    assert_int_equal(get_searched(&b, &d, &tuner, 2, &cancel, &plan, &hit), BL_ECANCELLED);
    assert_true(clock.batches > 0);
    assert_null(plan);
    assert_null(bl_plans_lookup(b.plans, &d.key, 0, true));
    clock = (clock_for_tests){.fail = BL_EDEVICE};
    assert_int_equal(get_searched(&b, &d, &tuner, 2, NULL, &plan, &hit), BL_OK);
    assert_true(clock.batches > 0);
    bl_plan_release(plan);
    plan = bl_plans_lookup(b.plans, &d.key, 2, true); /* the search was tried, and is not repeated per request */
    assert_non_null(plan);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A model of LAYERS equal layers. */
enum { LAYERS = 40 };
static document open_layers(void)
{
    bl_text text = {0};
    document d;

    bl_text_puts(&text, "{'dims': {'n': [1, 64]}, 'inputs': {'a0': {'dtype': 'float32', 'shape': ['n', 16]}, "
                        "'w': {'dtype': 'float32', 'shape': [16, 16]}}, 'nodes': [");
    for (int i = 0; i < LAYERS; i++)
        bl_text_printf(&text,
                       "%s{'id': 'p%d', 'op': 'matmul', 'in': ['a%d', 'w']}, {'id': 'a%d', 'op': 'softmax', 'in': ['p%d']}",
                       i > 0 ? ", " : "", i, i, i + 1, i);
    bl_text_printf(&text, "], 'outputs': ['a%d']}", LAYERS);
    d = open_document(bl_text_get(&text));
    bl_text_fini(&text);
    return d;
}

/* A plan keeps only the part of the compilation that its runs need, which is small per launch; nodes and maps of the compiler
 * are freed. */
static void test_host_bytes(void **state)
{
    enum { BYTES_A_LAUNCH = 4 << 10 }; /* 2,500 measured, and 86,000 with the memory of the compilation */
    bench b = open_bench(4);
    document d = open_layers();
    bl_plan *plan = NULL;
    bool hit = false;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, NULL), BL_OK);
    assert_true(plan->nsteps >= LAYERS);
    if (plan_host_bytes(plan) > (size_t)plan->nsteps * BYTES_A_LAUNCH)
        fail_msg("a plan of %d launches takes %zu bytes", plan->nsteps, plan_host_bytes(plan));
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* Equal nests share one choice of moves: those of the first layer. */
static void test_layers_share_moves(void **state)
{
    bench b = open_bench(4);
    document d = open_layers();
    bl_plan *plan = NULL;
    bool hit = false;
    int chosen = 0;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, NULL), BL_OK);
    for (const char *at = bl_plan_get_moves(plan); *at != '\0'; at++)
        chosen += *at == '\n';
    assert_in_range(chosen, 1, plan->nsteps / LAYERS + 1); /* the output may be written differently */
    for (int i = 2 * plan->nsteps / LAYERS; i < plan->nsteps; i++)
        assert_ptr_equal(plan->work[i]->lowered->linear, plan->work[i - plan->nsteps / LAYERS]->lowered->linear);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_in_service),
        cmocka_unit_test(test_the_least),
        cmocka_unit_test(test_counts_at_the_sizes),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_fixed_moves),
        cmocka_unit_test(test_superseded),
        cmocka_unit_test(test_panels_are_kept),
        cmocka_unit_test(test_panels_take_nothing_from_others),
        cmocka_unit_test(test_transforms_are_kept),
        cmocka_unit_test(test_kept_bytes),
        cmocka_unit_test(test_host_bytes),
        cmocka_unit_test(test_layers_share_moves),
        cmocka_unit_test(test_beam),
        cmocka_unit_test(test_beam_without_result),
    };
    return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
