/* SPDX-License-Identifier: MIT */
/* Cancelled compilations: without any waiting caller, and with a remaining caller. */
#include "engine/base/clock.h"
#include "tests/plan/jobs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { KERNELS = 4, PATIENCE_S = 60 };

static const char four_sums[] =
    "{'inputs': {'a': {'dtype': 'float32', 'shape': [2, 3]}, 'b': {'dtype': 'float32', 'shape': [3, 5]}, 'c': {'dtype': "
    "'float32', "
    "'shape': [4, 7]}, 'd': {'dtype': 'float32', 'shape': [5, 9]}}, 'nodes': [{'id': 'e', 'op': 'sum', 'in': ['a'], 'attrs': "
    "{'axis': 1}}, {'id': 'f', 'op': 'sum', 'in': ['b'], 'attrs': {'axis': 1}}, {'id': 'g', 'op': 'sum', 'in': ['c'], 'attrs': "
    "{'axis': 1}}, {'id': 'h', 'op': 'sum', 'in': ['d'], 'attrs': {'axis': 1}}], 'outputs': ['e', 'f', 'g', 'h']}";

/* A caller that requests the plan. */
typedef struct asker {
    bench *b;
    const document *d;
    bl_plan_options options;
    atomic_bool gone;
    pthread_t thread;
    bl_plan *plan;
    bool hit;
    bl_err err;
    bl_status status;
} asker;

/* The interpreter, with callbacks when a kernel is made or freed. */
typedef struct watched {
    bl_device_ops ops; /* first member: the position of the device's ops */
    const bl_device_ops *own;
    bench b;
    document d;
    int made; /* number of kernels made */
    int at;   /* |happens| is called at this kernel */
    void (*happens)(struct watched *w);
    void (*freed)(struct watched *w); /* called at the first freed kernel; or NULL */
    asker first, second;
} watched;

static bl_status make_kernel(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    watched *w = (watched *)(uintptr_t)dev->ops;
    bl_status st = w->own->kernel(dev, source, out, err);

    if (++w->made == w->at)
        w->happens(w);
    return st;
}

static void free_kernel(bl_kernel *kernel)
{
    watched *w = (watched *)(uintptr_t)kernel->dev->ops;
    void (*freed)(watched *) = w->freed;

    w->own->kernel_destroy(kernel);
    w->freed = NULL;
    if (freed != NULL)
        freed(w);
}

static void *ask(void *arg)
{
    asker *a = arg;

    a->status = bl_plans_get(a->b->plans, &a->d->key, a->d->graph, a->b->dev, &a->options, &a->plan, &a->hit, &a->err);
    return NULL;
}

static void init_asker(asker *a, watched *w)
{
    *a = (asker){.b = &w->b, .d = &w->d, .options = {.spec = 1, .noopt = true, .max_compile_bytes = 1 << 26}};
    a->options.halt.cancel = &a->gone;
}

static void open_watched(watched *w, int at, void (*happens)(watched *w))
{
    *w = (watched){.at = at, .happens = happens, .b = open_bench(4), .d = open_document(four_sums)};
    w->own = w->b.dev->ops;
    w->ops = *w->own;
    w->ops.kernel = make_kernel;
    w->ops.kernel_destroy = free_kernel;
    w->b.dev->ops = &w->ops;
    init_asker(&w->first, w);
    init_asker(&w->second, w);
}

static void close_watched(watched *w)
{
    bl_plan_release(w->first.plan);
    bl_plan_release(w->second.plan);
    bl_plans_destroy(w->b.plans);
    w->b.plans = NULL;
    w->b.dev->ops = w->own;
    bl_arena_destroy(w->d.arena);
    close_bench(&w->b);
}

/* Waits until |waiting| callers wait for the plan. */
static void wait_for(watched *w, size_t waiting)
{
    int64_t end = bl_clock_ns() + (int64_t)PATIENCE_S * 1000000000;

    while (bl_plans_waiting(w->b.plans) != waiting) {
        struct timespec moment = {.tv_nsec = 1000000};
        if (bl_clock_ns() > end)
            fail_msg("%zu wait, not %zu", bl_plans_waiting(w->b.plans), waiting);
        nanosleep(&moment, NULL);
    }
}

static void first_leaves(watched *w)
{
    atomic_store(&w->first.gone, true);
}

static void begin_second(watched *w)
{
    assert_int_equal(pthread_create(&w->second.thread, NULL, ask, &w->second), 0);
    wait_for(w, 1);
}

/* ---- the number of waiting callers */

static void test_audience(void **state)
{
    bl_audience audience = {0};
    atomic_bool gone = false;
    bl_halt halt = {.cancel = &gone, .audience = &audience};
    bl_err err = {0};

    (void)state;
    assert_true(bl_audience_join(&audience));
    assert_true(bl_audience_join(&audience));
    bl_audience_leave(&audience);
    atomic_store(&gone, true);
    assert_int_equal(bl_halt_check(&halt, NULL), BL_OK);
    bl_audience_leave(&audience);
    assert_true(bl_audience_join(&audience)); /* the audience was not checked meanwhile */
    assert_int_equal(bl_halt_check(&halt, NULL), BL_OK);
    bl_audience_leave(&audience);
    assert_int_equal(bl_halt_check(&halt, &err), BL_ECANCELLED);
    assert_false(bl_audience_join(&audience));
    assert_int_equal(bl_halt_check(&halt, NULL), BL_ECANCELLED);
    halt = (bl_halt){.deadline_ns = bl_clock_ns(), .audience = &audience};
    assert_int_equal(bl_halt_check(&halt, NULL), BL_ETIMEOUT);
}

/* ---- one caller */

/* The only caller leaves while a kernel is made: no further kernel is made, nothing is kept, and the next caller gets a
 * complete plan. */
static void test_ends_between_kernels(void **state)
{
    (void)state;
    for (int at = 1; at < KERNELS; at++) {
        watched w;
        open_watched(&w, at, first_leaves);
        ask(&w.first);
        assert_int_equal(w.first.status, BL_ECANCELLED);
        assert_int_equal(w.made, at);
        assert_null(w.first.plan);
        assert_int_equal(bl_plans_count(w.b.plans), 0);
        ask(&w.second);
        assert_int_equal(w.second.status, BL_OK);
        assert_false(w.second.hit);
        assert_int_equal(w.made, at + KERNELS);
        close_watched(&w);
    }
}

static void test_before_the_driver(void **state)
{
    watched w;

    (void)state;
    open_watched(&w, 0, NULL);
    first_leaves(&w);
    w.second.options.halt.deadline_ns = bl_clock_ns();
    ask(&w.first);
    ask(&w.second);
    assert_int_equal(w.first.status, BL_ECANCELLED);
    assert_int_equal(w.second.status, BL_ETIMEOUT);
    assert_int_equal(w.made, 0);
    assert_int_equal(bl_plans_count(w.b.plans), 0);
    close_watched(&w);
}

/* ---- two callers */

static void second_comes_and_first_leaves(watched *w)
{
    begin_second(w);
    first_leaves(w);
}

static void test_another_waits(void **state)
{
    watched w;

    (void)state;
    open_watched(&w, 1, second_comes_and_first_leaves);
    ask(&w.first);
    pthread_join(w.second.thread, NULL);
    assert_int_equal(w.second.status, BL_OK);
    assert_true(w.second.hit);
    assert_ptr_equal(w.second.plan, w.first.plan);
    assert_int_equal(w.made, KERNELS);
    assert_int_equal(bl_plans_waiting(w.b.plans), 0);
    close_watched(&w);
}

static void both_leave(watched *w)
{
    begin_second(w);
    first_leaves(w);
    atomic_store(&w->second.gone, true);
    wait_for(w, 0);
}

static void test_both_leave(void **state)
{
    watched w;

    (void)state;
    open_watched(&w, 1, both_leave);
    ask(&w.first);
    pthread_join(w.second.thread, NULL);
    assert_int_equal(w.first.status, BL_ECANCELLED);
    assert_int_equal(w.second.status, BL_ECANCELLED);
    assert_int_equal(w.made, 1);
    assert_int_equal(bl_plans_count(w.b.plans), 0);
    close_watched(&w);
}

static void second_leaves(watched *w)
{
    begin_second(w);
    atomic_store(&w->second.gone, true);
    wait_for(w, 0);
}

static void test_who_waits_leaves(void **state)
{
    watched w;

    (void)state;
    open_watched(&w, 1, second_leaves);
    ask(&w.first);
    pthread_join(w.second.thread, NULL);
    assert_int_equal(w.first.status, BL_OK);
    assert_int_equal(w.second.status, BL_ECANCELLED);
    assert_int_equal(w.made, KERNELS);
    close_watched(&w);
}

/* A cancelled compilation is still in the cache and its kernels are being freed when the second caller arrives: the second
 * caller compiles everything. */
static void test_who_comes_at_that_moment(void **state)
{
    watched w;

    (void)state;
    open_watched(&w, 1, first_leaves);
    w.freed = begin_second;
    ask(&w.first);
    pthread_join(w.second.thread, NULL);
    assert_int_equal(w.first.status, BL_ECANCELLED);
    assert_int_equal(w.second.status, BL_OK);
    assert_false(w.second.hit);
    assert_int_equal(w.made, 1 + KERNELS);
    assert_int_equal(bl_plans_count(w.b.plans), 1);
    close_watched(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audience),
        cmocka_unit_test(test_ends_between_kernels),
        cmocka_unit_test(test_before_the_driver),
        cmocka_unit_test(test_another_waits),
        cmocka_unit_test(test_both_leave),
        cmocka_unit_test(test_who_waits_leaves),
        cmocka_unit_test(test_who_comes_at_that_moment),
    };
    return cmocka_run_group_tests_name("halt", tests, NULL, NULL);
}
