/* SPDX-License-Identifier: MIT */
/* The search with a simulated clock: the time of a candidate is a function of its instructions, so that the best candidate is
 * known.  Then once with the interpreter's clock, on real kernels. */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/lower/linear.h"
#include "engine/search/search_internal.h"
#include "tests/search/subjects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST_FAULTS = 4000 };

static const char matmul[] = "{'inputs': {'a': {'dtype': 'float32', 'shape': [96, 80]}, 'b': {'dtype': 'float32', 'shape': [80, "
                             "64]}}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['a', 'b']}], 'outputs': ['y']}";

static const bl_target cpu = {
    .units = 2, .vector_bits = 512, .registers = 32, .cache_bytes = 1 << 20, .subgroup = 1, .max_local = 1, .max_params = 32};

/* The interpreter, and the single nest of |document|. */
typedef struct bench {
    bl_device *dev;
    test_graph graph;
    int64_t elements[BL_MAX_BINDINGS];
    bl_search_nest nest;
} bench;

static void open_bench(bench *b, const char *document)
{
    bl_schedule *schedule = NULL;
    uint32_t count = 0;
    bl_text why = {0};

    *b = (bench){0};
    assert_int_equal(bl_backend_interp.open(1, &b->dev, &count, &why, NULL), BL_OK);
    bl_text_fini(&why);
    test_graph_open(document, &b->graph);
    schedule = test_graph_schedule(&b->graph, cpu.units);
    assert_int_equal(schedule->nnests, 1);
    b->nest = test_search_nest(&b->graph, schedule, 0, b->dev, &cpu, b->elements);
}

static void close_bench(bench *b)
{
    test_graph_close(&b->graph);
    bl_device_destroy(b->dev);
}

/* ---- clocks */

typedef struct fake {
    uint64_t (*cost)(const bl_trial *trial);
    int batches, trials, most_in_a_batch;
    bl_status fail;      /* status of the next batch */
    bool wrong;          /* all candidates that are faster than the first compute wrong results */
    atomic_bool *cancel; /* set after the first batch */
    uint64_t best;       /* least time of all correct candidates */
} fake;

static bl_status fake_time(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    fake *f = arg;
    (void)dev;
    if (f->fail != BL_OK)
        return bl_fail(err, f->fail, "on purpose");
    f->batches++;
    f->trials += trials->ntrials;
    f->most_in_a_batch = trials->ntrials > f->most_in_a_batch ? trials->ntrials : f->most_in_a_batch;
    for (int i = 0; i < trials->ntrials; i++) {
        bl_trial *trial = &trials->trial[i];
        for (int k = 0; k < trial->nlaunches; k++)
            for (uint32_t p = 0; p < trial->launch[k].source.nbuffers; p++)
                if (trial->launch[k].slot[p] >= trials->nbuffers || trials->buffer[trial->launch[k].slot[p]].bytes == 0)
                    fail_msg("launch %d of trial %d binds buffer %d of %d", k, i, trial->launch[k].slot[p], trials->nbuffers);
        trial->status = BL_OK;
        trial->ns = f->cost(trial);
        trial->difference = f->wrong && trial->ns < trials->trial[0].ns ? 1 : 0;
        if (trial->difference == 0 && (f->best == 0 || trial->ns < f->best))
            f->best = trial->ns;
    }
    if (f->cancel != NULL)
        atomic_store(f->cancel, true);
    return BL_OK;
}

static int count_tiles(const bl_trial *trial)
{
    const bl_linear *linear = trial->launch[trial->nlaunches - 1].source.linear;
    int n = 0;
    for (uint32_t i = 0; i < linear->ninst; i++)
        n += linear->inst[i].op == BL_OP_ACC;
    return n;
}

/* The heuristic has 24 accumulators here, six rows of four vectors: the optimum is 5, which takes two changes. */
static uint64_t prefers_five(const bl_trial *trial)
{
    int off = abs(count_tiles(trial) - 5);
    return 100000 + 10000 * (uint64_t)off;
}

static uint64_t all_the_same(const bl_trial *trial)
{
    (void)trial;
    return 50000;
}

/* As if the machine became slower with each batch, for all candidates alike. */
static uint64_t prefers_none(const bl_trial *trial)
{
    static uint64_t slower;
    slower += 1000;
    return 100000 + slower + (trial->nlaunches > 1 ? 50000 : 0);
}

static bl_status search_with(bench *b, fake *f, int width, bl_search_report *report, bl_err *err)
{
    bl_search_options options = {
        .width = width, .seconds = 60, .spec = 2, .time = fake_time, .time_arg = f, .halt.cancel = f->cancel};
    return bl_search_run(&b->nest, &options, report, err);
}

/* The cost of a move list by the same clock. */
static uint64_t cost_of(bench *b, const bl_search_report *report, uint64_t (*cost)(const bl_trial *trial))
{
    subject s;
    steps what = {0};
    candidate *c = NULL;
    uint64_t ns = 0;
    bl_tune tune;

    assert_true(subject_init(&s, &b->nest, 2));
    bl_tune_init(&tune, b->nest.ir, b->nest.sink, b->nest.nparams);
    for (int i = 0; i < report->nmoves; i++) {
        what.at[what.n++] = report->moves[i];
        assert_true(bl_tune_apply(&tune, report->moves[i]));
    }
    c = candidate_make(&s, &what, b->nest.target, NULL);
    assert_non_null(c);
    assert_int_equal(c->nmoves, report->nmoves);
    assert_memory_equal(c->moves, report->moves, (size_t)c->nmoves * sizeof *c->moves);
    ns = cost(&c->trial);
    candidate_destroy(c);
    return ns;
}

/* ---- tests */

static void test_finds_the_best(void **state)
{
    bench b;
    fake f = {.cost = prefers_five};
    bl_search_report report;
    bl_err err = {0};

    (void)state;
    open_bench(&b, matmul);
    assert_int_equal(search_with(&b, &f, 2, &report, &err), BL_OK);
    assert_int_equal(report.heuristic_ns, 290000);
    assert_int_equal(report.best_ns, 100000);
    assert_int_equal(f.best, 100000);
    assert_int_equal(cost_of(&b, &report, prefers_five), 100000);
    assert_int_equal(report.refused, 0);
    assert_true(report.tried > 4 && report.tried <= f.trials);
    assert_true(f.most_in_a_batch <= BATCH);
    close_bench(&b);
}

/* If nothing is better, the search quickly returns the heuristic's moves. */
static void test_keeps_the_first(void **state)
{
    static uint64_t (*const costs[])(const bl_trial *trial) = {all_the_same, prefers_none};
    bench b;
    bl_tune tune;

    (void)state;
    open_bench(&b, matmul);
    bl_tune_init(&tune, b.nest.ir, b.nest.sink, b.nest.nparams);
    bl_heuristic(&tune, &cpu);
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        fake f = {.cost = costs[i]};
        bl_search_report report;
        bl_err err = {0};
        assert_int_equal(search_with(&b, &f, 3, &report, &err), BL_OK);
        assert_int_equal(report.nmoves, tune.nmoves);
        assert_memory_equal(report.moves, tune.moves, (size_t)tune.nmoves * sizeof *tune.moves);
        assert_int_equal(report.best_ns, report.heuristic_ns);
        assert_true(report.tried < 200);
    }
    close_bench(&b);
}

/* A faster candidate with wrong results is rejected. */
static void test_refuses_the_wrong(void **state)
{
    bench b;
    fake f = {.cost = prefers_five, .wrong = true};
    bl_search_report report;
    bl_err err = {0};

    (void)state;
    open_bench(&b, matmul);
    assert_int_equal(search_with(&b, &f, 2, &report, &err), BL_OK);
    assert_int_equal(report.best_ns, 290000);
    assert_true(report.refused > 0);
    close_bench(&b);
}

static void test_ends_early(void **state)
{
    bench b;
    atomic_bool cancel = false;
    fake cancelled = {.cost = prefers_five, .cancel = &cancel}, failing = {.cost = prefers_five, .fail = BL_EDEVICE};
    bl_search_options hurried = {.width = 1, .seconds = 0, .time = fake_time, .time_arg = &cancelled};
    bl_search_report report;
    bl_err err = {0};

    (void)state;
    open_bench(&b, matmul);
    assert_int_equal(search_with(&b, &cancelled, 2, &report, &err), BL_ECANCELLED);
    assert_int_equal(cancelled.batches, 1);
    err = (bl_err){0};
    assert_int_equal(search_with(&b, &failing, 2, &report, &err), BL_EDEVICE);
    err = (bl_err){0};
    cancelled = (fake){.cost = prefers_five};
    assert_int_equal(bl_search_run(&b.nest, &hurried, &report, &err), BL_OK);
    assert_int_equal(report.best_ns, report.heuristic_ns);
    close_bench(&b);
}

/* A clock that is slow for all candidates but the heuristic's choice, and checks the halt as waits for a device do. */
typedef struct slow {
    int alone, together;
    double most_seconds; /* longest time of a launch in a batch */
} slow;

static bl_status slow_time(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    enum { LONG_MS = 4000 };
    const struct timespec nap = {.tv_nsec = 1000000};
    int64_t start = bl_clock_ns();
    slow *f = arg;

    (void)dev;
    for (int i = 0; i < trials->ntrials; i++) {
        trials->trial[i].status = BL_OK;
        trials->trial[i].ns = i == 0 ? 200000 : 100000;
        trials->trial[i].difference = 0;
    }
    if (trials->ntrials == 1) {
        f->alone++;
        return BL_OK;
    }
    f->together++;
    f->most_seconds = trials->max_seconds > f->most_seconds ? trials->max_seconds : f->most_seconds;
    while (bl_clock_ms(start, bl_clock_ns()) < LONG_MS) {
        BL_TRY(bl_halt_check(&trials->halt, err));
        nanosleep(&nap, NULL);
    }
    return BL_OK;
}

/* A batch that exceeds the remaining time is cancelled, and no batch begins after it. */
static void test_ends_in_time(void **state)
{
    static const double seconds[] = {0, 1};
    bench b;

    (void)state;
    open_bench(&b, matmul);
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        slow f = {0};
        bl_search_options options = {.width = 2, .seconds = seconds[i], .time = slow_time, .time_arg = &f};
        bl_search_report report;
        bl_err err = {0};
        assert_int_equal(bl_search_run(&b.nest, &options, &report, &err), BL_OK);
        assert_int_equal(f.alone, 1);
        assert_true(f.together <= (seconds[i] > 0 ? 1 : 0));
        assert_true(f.most_seconds <= seconds[i]);
        assert_int_equal(report.tried, 1);
        assert_int_equal(report.heuristic_ns, 200000);
        assert_int_equal(report.best_ns, 200000);
    }
    close_bench(&b);
}

/* On a device with less memory than two sets of the buffers there is no search. */
static void test_too_large(void **state)
{
    bench b;
    fake f = {.cost = all_the_same};
    bl_search_report report;
    bl_err err = {0};

    (void)state;
    open_bench(&b, matmul);
    b.elements[0] = INT64_MAX / 8;
    assert_int_equal(search_with(&b, &f, 2, &report, &err), BL_ENODEVMEM);
    b.elements[0] = 0;
    err = (bl_err){0};
    assert_int_equal(search_with(&b, &f, 2, &report, &err), BL_ENODEVMEM);
    close_bench(&b);
}

/* Converts the heuristic's moves to steps, which name the axes that they split, and back; then omits each step. */
static void test_steps(void **state)
{
    bench b;
    subject s;
    candidate *first = NULL, *again = NULL;

    (void)state;
    open_bench(&b, matmul);
    assert_true(subject_init(&s, &b.nest, 2));
    first = candidate_make(&s, NULL, &cpu, NULL);
    assert_non_null(first);
    again = candidate_make(&s, &first->steps, &cpu, NULL);
    assert_non_null(again);
    assert_int_equal(first->nmoves, again->nmoves);
    assert_memory_equal(first->moves, again->moves, (size_t)first->nmoves * sizeof *first->moves);
    assert_int_equal(first->hash, again->hash);
    for (int i = 0; i < first->steps.n; i++) { /* one move less: the others still split the same axes */
        steps less = first->steps;
        memmove(&less.at[i], &less.at[i + 1], (size_t)(less.n - 1 - i) * sizeof less.at[0]);
        less.n--;
        candidate *c = candidate_make(&s, &less, &cpu, NULL);
        assert_non_null(c);
        assert_int_equal(c->nmoves, first->nmoves - 1);
        assert_true(c->hash != first->hash);
        candidate_destroy(c);
    }
    candidate_destroy(first);
    candidate_destroy(again);
    close_bench(&b);
}

/* Each allocation may fail: the search ends with this error, or continues without a candidate, and leaks nothing. */
static void test_faults(void **state)
{
    static const char exp_of[] = "{'inputs': {'x': {'dtype': 'float32', 'shape': [60, 70]}}, 'nodes': [{'id': 'y', 'op': 'exp', "
                                 "'in': ['x']}], 'outputs': ['y']}";
    bl_status st = BL_OK;
    int failures = 0;

    (void)state;
    for (long nth = 1; nth < MOST_FAULTS; nth += 1 + nth / 12) { /* a search makes some thousands */
        bench b;
        fake f = {.cost = prefers_five};
        bl_search_report report;
        bl_err err = {0};
        open_bench(&b, exp_of);
        bl_fault_arm(BL_FAULT_ALLOC, nth);
        st = search_with(&b, &f, 1, &report, &err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        if (st != BL_OK && st != BL_ENOMEM && st != BL_EUNSUPPORTED && st != BL_ENODEVMEM)
            fail_msg("allocation %ld: %s: %s", nth, bl_status_name(st), err.text);
        failures += st != BL_OK;
        close_bench(&b);
    }
    assert_true(failures > 3);
}

static bl_status time_here(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    (void)arg;
    return bl_trials_run(dev, trials, err);
}

/* With real kernels every candidate computes the same results. */
static void test_on_the_interpreter(void **state)
{
    bench b;
    bl_search_options options = {.width = 1, .seconds = 20, .spec = 2, .time = time_here};
    bl_search_report report;
    bl_err err = {0};

    (void)state;
    open_bench(&b, "{'inputs': {'a': {'dtype': 'float32', 'shape': [12, 20]}, 'b': {'dtype': 'float32', 'shape': [20, 18]}}, "
                   "'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['a', 'b']}], 'outputs': ['y']}");
    if (bl_search_run(&b.nest, &options, &report, &err) != BL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(report.refused, 0);
    assert_true(report.tried > 4 && report.best_ns <= report.heuristic_ns);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_finds_the_best),
                                       cmocka_unit_test(test_keeps_the_first),
                                       cmocka_unit_test(test_refuses_the_wrong),
                                       cmocka_unit_test(test_ends_early),
                                       cmocka_unit_test(test_ends_in_time),
                                       cmocka_unit_test(test_too_large),
                                       cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_on_the_interpreter)};
    return cmocka_run_group_tests_name("beam", tests, NULL, NULL);
}
