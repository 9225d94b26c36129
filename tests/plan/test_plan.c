/* SPDX-License-Identifier: MIT */
/* Plans: the cache, runs of many steps, and the state after a failure. */
#include "engine/base/clock.h"
#include "tests/plan/jobs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 8 };

static const char named[] =
    "{'dims': {'n': [2, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n']}}, 'nodes': [{'id': 'y', 'op': 'add', "
    "'in': ['x', 1]}, {'id': 's', 'op': 'sum', 'in': ['y']}], 'outputs': ['y', 's']}";
static const char wrong[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [2, 3]}}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'x']}], "
    "'outputs': ['y']}";

/* ---- the cache */

static void test_hit(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_counter), other = open_document(job_products);
    bl_plan *first = NULL, *second = NULL, *third = NULL;
    bool hit = true;

    (void)state;
    assert_null(bl_plans_lookup(b.plans, &d.key, 0, true));
    assert_int_equal(get_plan(&b, &d, &first, &hit, NULL), BL_OK);
    assert_false(hit);
    assert_int_equal(get_plan(&b, &d, &second, &hit, NULL), BL_OK);
    assert_true(hit);
    assert_ptr_equal(first, second);
    bl_plan_release(second);
    second = bl_plans_lookup(b.plans, &d.key, 0, true);
    assert_ptr_equal(first, second);
    assert_int_equal(get_plan(&b, &other, &third, &hit, NULL), BL_OK);
    assert_false(hit);
    assert_ptr_not_equal(first, third);
    assert_int_equal(bl_plans_count(b.plans), 2);
    bl_plans_forget_device(b.plans, b.dev);
    assert_int_equal(bl_plans_count(b.plans), 0);
    assert_null(bl_plans_lookup(b.plans, &d.key, 0, true));
    bl_plan_release(first);
    bl_plan_release(second);
    bl_plan_release(third);
    bl_arena_destroy(d.arena);
    bl_arena_destroy(other.arena);
    close_bench(&b);
}

/* Whether a plan is brief is decided by its work at the largest sizes. */
static void test_brief(void **state)
{
    static const struct {
        const char *dims, *size;
        bool brief;
    } rows[] = {{"", "3", true}, {"'n': [1, 64]", "'n'", true}, {"", "100000", false}, {"'n': [1, 100000]", "'n'", false}};
    bench b = open_bench(4);

    (void)state;
    assert_true(b.dev->info.brief_ns > 0);
    for (int i = 0; i < 4; i++) {
        char text[256];
        bl_plan *plan = NULL;
        bool hit = true;
        snprintf(text, sizeof text,
                 "{'dims': {%s}, 'inputs': {'x': {'dtype': 'float32', 'shape': [%s]}}, 'nodes': "
                 "[{'id': 'y', 'op': 'neg', 'in': ['x']}], 'outputs': ['y']}",
                 rows[i].dims, rows[i].size);
        document d = open_document(text);
        assert_int_equal(get_plan(&b, &d, &plan, &hit, NULL), BL_OK);
        assert_int_equal(rows[i].brief, bl_plan_get_info(plan)->brief);
        bl_plan_release(plan);
        bl_arena_destroy(d.arena);
    }
    close_bench(&b);
}

/* Over the memory limit only the newest plan stays. */
static void test_eviction_by_memory(void **state)
{
    bench b = open_bench(4);
    document d[] = {open_document(job_counter), open_document(job_products), open_document(job_counter)};

    (void)state;
    bl_plans_destroy(b.plans);
    b.plans = bl_plans_create(4, 1);
    for (int i = 0; i < 3; i++) {
        bl_plan *plan = NULL;
        bool hit = true;
        assert_int_equal(get_plan(&b, &d[i], &plan, &hit, NULL), BL_OK);
        assert_false(hit);
        assert_int_equal(bl_plans_count(b.plans), 1);
        bl_plan_release(plan);
        bl_arena_destroy(d[i].arena);
    }
    close_bench(&b);
}

static void test_eviction(void **state)
{
    bench b = open_bench(3);
    document d[6];
    bl_plan *first = NULL;

    (void)state;
    for (int i = 0; i < 6; i++) {
        char text[256];
        bl_plan *plan = NULL;
        bool hit = true;
        snprintf(text, sizeof text,
                 "{'inputs': {'x': {'dtype': 'float32', 'shape': [%d]}}, 'nodes': [{'id': 'y', 'op': 'neg', 'in': ['x']}], "
                 "'outputs': ['y']}",
                 i + 1);
        d[i] = open_document(text);
        assert_int_equal(get_plan(&b, &d[i], &plan, &hit, NULL), BL_OK);
        assert_false(hit);
        if (i == 0) {
            first = plan;
            continue;
        }
        bl_plan_release(plan);
        plan = bl_plans_lookup(b.plans, &d[0].key, 0, true); /* used continuously, so it stays */
        assert_ptr_equal(plan, first);
        bl_plan_release(plan);
        assert_in_range(bl_plans_count(b.plans), 1, 3);
    }
    assert_null(bl_plans_lookup(b.plans, &d[1].key, 0, true));
    assert_int_equal(bl_plan_get_info(first)->noutputs, 1);
    bl_plan_release(first);
    for (int i = 0; i < 6; i++)
        bl_arena_destroy(d[i].arena);
    close_bench(&b);
}

static void test_failure_is_not_kept(void **state)
{
    bench b = open_bench(4);
    document d = open_document(wrong);

    (void)state;
    for (int i = 0; i < 2; i++) {
        bl_plan *plan = NULL;
        bl_err err = {0};
        bool hit = true;
        assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_EGRAPH);
        assert_false(hit);
        assert_null(plan);
        assert_non_null(strstr(err.text, "inner dimensions differ"));
        assert_string_equal(err.node, "y");
        assert_int_equal(bl_plans_count(b.plans), 0);
    }
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

typedef struct flight {
    bench *b;
    const document *d;
    pthread_barrier_t *start;
    bl_plan *plan;
    bool hit;
    bl_status status;
} flight;

static void *fly(void *arg)
{
    flight *f = arg;
    bl_err err = {0};
    pthread_barrier_wait(f->start);
    f->status = get_plan(f->b, f->d, &f->plan, &f->hit, &err);
    return NULL;
}

/* Many concurrent requests: one compiles. */
static void test_single_flight(void **state)
{
    const char *const texts[] = {job_products, wrong};
    (void)state;
    for (int t = 0; t < 2; t++) {
        bench b = open_bench(4);
        document d = open_document(texts[t]);
        pthread_barrier_t start;
        pthread_t threads[THREADS];
        flight flights[THREADS];
        int compiled = 0;

        pthread_barrier_init(&start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            flights[i] = (flight){.b = &b, .d = &d, .start = &start};
            pthread_create(&threads[i], NULL, fly, &flights[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(flights[i].status, t == 0 ? BL_OK : BL_EGRAPH);
            assert_ptr_equal(flights[i].plan, t == 0 ? flights[0].plan : NULL);
            compiled += !flights[i].hit;
        }
        assert_true(t == 0 ? compiled == 1 : compiled >= 1);
        assert_int_equal(bl_plans_count(b.plans), t == 0 ? 1 : 0);
        for (int i = 0; i < THREADS; i++)
            bl_plan_release(flights[i].plan);
        pthread_barrier_destroy(&start);
        bl_arena_destroy(d.arena);
        close_bench(&b);
    }
}

/* ---- running */

static void test_steps(void **state)
{
    bench b = open_bench(4);
    document d;
    job j;
    uint64_t total = 0;

    (void)state;
    open_counter(&b, &d, &j);
    for (uint64_t steps = 1; steps <= 100; steps = steps * 3 + 1) {
        bl_err err = {0};
        j.run.steps = steps;
        if (bl_plan_run(&j.run, &err) != BL_OK)
            fail_msg("%s", err.text);
        total += steps;
        assert_int_equal(j.run.steps_done, steps);
        check_counter(&j, total);
        if (value_of(j.outputs[0]) != (float)(total - 1)) /* the state before the last step */
            fail_msg("output is %g after %llu steps", value_of(j.outputs[0]), (unsigned long long)total);
        drop_outputs(&j);
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A caller that retains a state between two runs keeps its contents, however many steps follow. */
static void test_lent_state(void **state)
{
    bench b = open_bench(4);
    document d;
    job j;

    (void)state;
    open_counter(&b, &d, &j);
    for (uint64_t steps = 1; steps <= 8; steps *= 2) {
        bl_err err = {0};
        bl_buffer *lent = bl_buffer_retain(j.states[0]);
        float before = value_of(lent);
        j.run.steps = steps;
        if (bl_plan_run(&j.run, &err) != BL_OK)
            fail_msg("%s", err.text);
        drop_outputs(&j);
        if (value_of(lent) != before || value_of(j.states[0]) != before + (float)steps)
            fail_msg("lent %g was %g; after %llu steps %g", value_of(lent), before, (unsigned long long)steps,
                     value_of(j.states[0]));
        bl_pool_release(b.pool, lent);
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A part of w is x times the number of the step; the output is the sum of the old w. */
static const char part[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [2]}}, 'state': {'w': {'dtype': 'float32', 'shape': [8]}, 'n': {'dtype': "
    "'float32', 'shape': []}}, 'nodes': [{'id': 'n1', 'op': 'add', 'in': ['n', 1]}, {'id': 'v', 'op': 'mul', 'in': ['x', 'n1']}, "
    "{'id': 'a', 'op': 'slice', 'in': ['w'], 'attrs': {'stop': [3]}}, {'id': 'c', 'op': 'slice', 'in': ['w'], 'attrs': {'start': "
    "[5]}}, {'id': 'w1', 'op': 'cat', 'in': ['a', 'v', 'c']}, {'id': 'y', 'op': 'sum', 'in': ['w']}], 'updates': {'w': 'w1', "
    "'n': 'n1'}, 'outputs': ['y']}";

/* Rows of w at an index tensor become x. */
static const char places[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [3, 8]}, 'i': {'dtype': 'int32', 'shape': [3]}}, 'state': {'w': {'dtype': "
    "'float32', 'shape': [4096, 8]}}, 'nodes': [{'id': 'w1', 'op': 'index_put', 'in': ['w', 'x', 'i']}], 'updates': {'w': 'w1'}, "
    "'outputs': ['i']}";

/* Rows of a state at an index tensor are stored in place, without a pass over all rows. */
static void test_places_of_state(void **state)
{
    bench b = open_bench(4);
    document d = open_document(places);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    assert_true(bl_plan_get_info(plan)->in_place[0]);
    assert_in_range(bl_plan_get_info(plan)->peak_bytes, 0, 256);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A part of a state is updated in place.  If another caller retains the state, the update once goes to a new buffer, and later
 * updates are in place there. */
static void test_part_of_state(void **state)
{
    bench b = open_bench(4);
    document d = open_document(part);
    bl_plan *plan = NULL;
    bl_err err = {0};
    uint64_t total = 0;
    bool hit = false;
    job j;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
    assert_true(bl_plan_get_info(plan)->in_place[0]);
    assert_false(bl_plan_get_info(plan)->in_place[1]);
    open_job(&b, plan, 0, &j);
    for (int round = 0; round < 12; round++) {
        bl_buffer *before = j.states[0], *lent = round % 3 == 2 ? bl_buffer_retain(before) : NULL;
        j.run.steps = 1 + (uint64_t)round % 4;
        if (bl_plan_run(&j.run, &err) != BL_OK)
            fail_msg("%s", err.text);
        if (value_of(j.outputs[0]) != 2 * (float)(total + j.run.steps - 1))
            fail_msg("the sum was %g before step %llu", value_of(j.outputs[0]), (unsigned long long)(total + j.run.steps));
        drop_outputs(&j);
        assert_int_equal(j.states[0] == before, lent == NULL);
        if (lent != NULL)
            check_part(lent, total);
        bl_pool_release(b.pool, lent);
        total += j.run.steps;
        check_part(j.states[0], total);
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

typedef struct collected {
    int count;
    uint64_t every, stop_at;
    bl_status with;
    atomic_bool *cancel;
    bool right;
} collected;

static bl_status collect(void *arg, uint64_t step, bl_buffer *const *outputs, bl_err *err)
{
    collected *c = arg;
    c->count++;
    c->right = c->right && step == (uint64_t)c->count * c->every && value_of(outputs[0]) == (float)(step - 1);
    if (step != c->stop_at)
        return BL_OK;
    if (c->cancel != NULL)
        atomic_store(c->cancel, true);
    return c->with == BL_OK ? BL_OK : bl_fail(err, c->with, "no more");
}

static void test_collect_and_stop(void **state)
{
    static const struct {
        uint64_t every, stop_at;
        bl_status with;
        bool cancel;
        int calls;
        uint64_t done; /* reports come after 8 steps, after 32 steps, or at the end */
        bl_status status;
    } rows[] = {{10, 0, BL_OK, false, 7, 75, BL_OK},         {10, 30, BL_ENODEVMEM, false, 3, 32, BL_ENODEVMEM},
                {10, 20, BL_OK, true, 3, 32, BL_ECANCELLED}, {10, 50, BL_OK, true, 6, 64, BL_ECANCELLED},
                {10, 70, BL_OK, true, 7, 75, BL_OK},         {1, 0, BL_OK, false, 75, 75, BL_OK},
                {1, 4, BL_OK, true, 8, 8, BL_ECANCELLED},    {3, 3, BL_ENODEVMEM, false, 1, 24, BL_ENODEVMEM},
                {75, 0, BL_OK, false, 1, 75, BL_OK}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = open_bench(4);
        document d;
        job j;
        bl_err err = {0};
        atomic_bool cancel = false;
        collected c = {.every = rows[i].every,
                       .stop_at = rows[i].stop_at,
                       .with = rows[i].with,
                       .cancel = rows[i].cancel ? &cancel : NULL,
                       .right = true};
        open_counter(&b, &d, &j);
        j.run.steps = 75;
        j.run.every = rows[i].every;
        j.run.collect = collect;
        j.run.collect_arg = &c;
        j.run.cancel = &cancel;
        assert_int_equal(bl_plan_run(&j.run, &err), rows[i].status);
        assert_int_equal(c.count, rows[i].calls);
        assert_true(c.right);
        assert_int_equal(j.run.steps_done, rows[i].done);
        check_counter(&j, j.run.steps_done);
        assert_true((j.outputs[0] != NULL) == (rows[i].status == BL_OK));
        close_job(&j);
        bl_arena_destroy(d.arena);
        close_bench(&b);
    }
}

typedef struct asker {
    int asked, from; /* the device is requested from query number |from| on */
} asker;

static bool asks(void *arg)
{
    asker *a = arg;
    return ++a->asked >= a->from;
}

/* A caller that arrives during a step waits only for this step. */
static void test_yield(void **state)
{
    static const struct {
        int from; /* a step has one query at its submission, and one at its end */
        uint64_t done;
    } rows[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {7, 4}, {100, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = open_bench(4);
        document d;
        job j;
        bl_err err = {0};
        asker a = {.from = rows[i].from};
        open_counter(&b, &d, &j);
        j.run.steps = 5;
        j.run.yield = asks;
        j.run.yield_arg = &a;
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK); /* the first step, whose duration is unknown, so only one step is in
                                                             * flight */
        assert_int_equal(j.run.steps_done, rows[i].done);
        check_counter(&j, rows[i].done);
        assert_true(value_of(j.outputs[0]) == (float)(rows[i].done - 1));
        close_job(&j);
        bl_arena_destroy(d.arena);
        close_bench(&b);
    }
}

static void test_cancelled_and_late(void **state)
{
    bench b = open_bench(4);
    document d;
    job j;
    bl_err err = {0};
    atomic_bool cancel = true;

    (void)state;
    open_counter(&b, &d, &j);
    j.run.steps = 5;
    j.run.cancel = &cancel;
    assert_int_equal(bl_plan_run(&j.run, &err), BL_ECANCELLED);
    assert_int_equal(j.run.steps_done, 0);
    check_counter(&j, 0);
    err = (bl_err){0};
    j.run.cancel = NULL;
    j.run.steps = 1 << 30;
    j.run.deadline_ns = bl_clock_ns() + 30 * 1000 * 1000;
    assert_int_equal(bl_plan_run(&j.run, &err), BL_ETIMEOUT);
    assert_true(j.run.steps_done > 0);
    check_counter(&j, j.run.steps_done);
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

static void test_named_dimensions(void **state)
{
    static const struct {
        int64_t n;
        bl_status status;
    } rows[] = {{2, BL_OK}, {9, BL_OK}, {5, BL_OK}, {1, BL_EGRAPH}, {10, BL_EGRAPH}, {-3, BL_EGRAPH}, {0, BL_EGRAPH}};
    bench b = open_bench(4);
    document d = open_document(named);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_plan *plan = NULL;
        bl_err err = {0};
        bool hit = false;
        job j;
        assert_int_equal(get_plan(&b, &d, &plan, &hit, &err), BL_OK);
        assert_int_equal(hit, i > 0);
        assert_int_equal(bl_plan_get_info(plan)->nvars, 1);
        open_job(&b, plan, rows[i].n < 1 ? 1 : rows[i].n, &j);
        j.vars[0] = rows[i].n;
        assert_int_equal(bl_plan_run(&j.run, &err), rows[i].status);
        if (rows[i].status == BL_OK && value_of(j.outputs[1]) != 2 * (float)rows[i].n)
            fail_msg("the sum of %lld twos is %g", (long long)rows[i].n, value_of(j.outputs[1]));
        close_job(&j);
    }
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* Runs with state, long runs and unmeasured runs are waited for at once; so are runs whose client has left. */
static void test_which_may_overlap(void **state)
{
    bench b = open_bench(4);
    document d = open_document(job_products), counter;
    bl_plan *plan = NULL;
    bl_err err = {0};
    atomic_bool cancel = true;
    bool hit = false;
    job j, with_state;

    (void)state;
    assert_int_equal(get_plan(&b, &d, &plan, &hit, NULL), BL_OK);
    open_job(&b, plan, 0, &j);
    j.run.steps = 1;
    assert_false(bl_plan_may_overlap(plan));
    for (int i = 0; i < 2; i++) { /* the second run is timed */
        assert_true(i == 0 || bl_plan_is_due(plan));
        assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
        drop_outputs(&j);
    }
    assert_false(bl_plan_is_due(plan));
    assert_true(bl_plan_may_overlap(plan) == (bl_plan_get_service(plan).step_seconds <= 300e-6));
    j.run.cancel = &cancel;
    assert_int_equal(bl_plan_submit(&j.run, &err), BL_ECANCELLED);
    assert_null(j.outputs[0]);
    close_job(&j);
    open_counter(&b, &counter, &with_state);
    with_state.run.steps = 3;
    assert_int_equal(bl_plan_run(&with_state.run, &err), BL_OK);
    assert_false(bl_plan_may_overlap(with_state.plan));
    close_job(&with_state);
    bl_arena_destroy(counter.arena);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* Counts in w, reads x[w] and writes it to a position of v; with |checks|, index 3 of x is an error. */
static document open_taker(bool checks)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{'inputs': {'x': {'dtype': 'float32', 'shape': [3]}}, 'state': {'w': {'dtype': 'float32', 'shape': [1]}, 'v': "
        "{'dtype': 'float32', 'shape': [64]}}, 'nodes': [{'id': 'w1', 'op': 'add', 'in': ['w', 1]}, {'id': 'k', 'op': 'cast', "
        "'in': ['w'], 'attrs': {'dtype': 'int32'}}, {'id': 'y', 'op': 'take', 'in': ['x', 'k']}, {'id': 'at', 'op': 'arange', "
        "'attrs': {'stop': 64, 'dtype': 'int32'}}, {'id': 'here', 'op': 'equal', 'in': ['at', 'k']}, {'id': 'v1', 'op': "
        "'where', 'in': ['here', 'y', 'v']}], 'updates': {'w': 'w1', 'v': 'v1'}, 'outputs': ['y'], 'check_indices': %s}",
        checks ? "true" : "false");
    return open_document(text);
}

/* A step with an index out of range changes no state and gives no output; a checked step updates nothing in place, since it may
 * fail. */
static void test_checked_steps(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        bench b = open_bench(4);
        document d = open_taker(checks);
        bl_plan *plan = NULL;
        bl_err err = {0};
        bool hit = false;
        job j;

        assert_int_equal(get_plan(&b, &d, &plan, &hit, NULL), BL_OK);
        bl_arena_destroy(d.arena); /* the plan has copies of the names */
        open_job(&b, plan, 0, &j);
        assert_true(j.info->checks_indices == (checks == 1));
        assert_true(j.info->in_place[1] == (checks == 0));
        j.run.steps = 7;
        assert_int_equal(bl_plan_run(&j.run, &err), checks == 1 ? BL_EINDEX : BL_OK);
        assert_int_equal(j.run.steps_done, checks == 1 ? 3 : 7);
        assert_true((j.outputs[0] == NULL) == (checks == 1));
        assert_true(value_of(j.states[0]) == (checks == 1 ? 3 : 7) && value_of(j.states[1]) == 1);
        if (checks == 1) {
            assert_string_equal(err.node, "y");
            assert_string_equal(err.text,
                                "take: index 3 at [0] is out of range: axis 0 of x has size 3; it must be from -3 to 2");
        }
        close_job(&j);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hit),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_eviction_by_memory),
        cmocka_unit_test(test_failure_is_not_kept),
        cmocka_unit_test(test_single_flight),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_lent_state),
        cmocka_unit_test(test_part_of_state),
        cmocka_unit_test(test_places_of_state),
        cmocka_unit_test(test_collect_and_stop),
        cmocka_unit_test(test_yield),
        cmocka_unit_test(test_cancelled_and_late),
        cmocka_unit_test(test_named_dimensions),
        cmocka_unit_test(test_which_may_overlap),
        cmocka_unit_test(test_checked_steps),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
