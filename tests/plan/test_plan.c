/* SPDX-License-Identifier: MIT */
/* Plans: the cache, many steps, what is left after a failure, and every failure that can be had. */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/plan/plan.h"
#include "proto/decode.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_TENSORS = 8, THREADS = 8, MOST_FAULTS = 5000, FINE_IN_A_ROW = 8 };

/* Counts in w, and says what w was before; m takes turns with n; a chain of products needs temporaries. */
static const char counter[] = "{'inputs': {'x': {'dtype': 'float32', 'shape': [3]}}, 'state': {'w': {'dtype': 'float32', "
                              "'shape': [3]}, 'm': {'dtype': 'float32', "
                              "'shape': []}, 'n': {'dtype': 'float32', 'shape': []}}, 'nodes': [{'id': 'w1', 'op': 'add', 'in': "
                              "['w', 'x']}, {'id': 'y', 'op': 'mul', "
                              "'in': ['w', 1]}, {'id': 'm1', 'op': 'add', 'in': ['n', 0.5]}, {'id': 'n1', 'op': 'mul', 'in': "
                              "['m', 1]}], 'updates': {'w': 'w1', 'm': "
                              "'m1', 'n': 'n1'}, 'outputs': ['y']}";
static const char products[] = "{'inputs': {'x': {'dtype': 'float32', 'shape': [4, 4]}}, 'nodes': [{'id': 'a', 'op': 'matmul', "
                               "'in': ['x', 'x']}, {'id': 'b', 'op': "
                               "'matmul', 'in': ['a', 'x']}, {'id': 'c', 'op': 'matmul', 'in': ['b', 'a']}, {'id': 's', 'op': "
                               "'softmax', 'in': ['c']}], 'outputs': ['c', "
                               "'s']}";
static const char named[] =
    "{'dims': {'n': [2, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n']}}, 'nodes': [{'id': 'y', 'op': 'add', "
    "'in': ['x', 1]}, {'id': 's', 'op': 'sum', 'in': ['y']}], 'outputs': ['y', 's']}";
static const char weighed[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [8, 8, 3, 3]}}, 'state': {'w': {'dtype': 'float32', 'shape': [1, 8, 20, "
    "20]}}, "
    "'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['w', 'x'], 'attrs': {'padding': 1}}], 'outputs': ['y']}";
static const char wrong[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [2, 3]}}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'x']}], "
    "'outputs': ['y']}";

typedef struct document {
    bl_arena *arena;
    const bl_wire_graph *graph;
    bl_wire_key key;
} document;

/* What the tests have open: the interpreter, a pool, a cache. */
typedef struct bench {
    bl_device *dev;
    bl_pool *pool;
    bl_plans *plans;
} bench;

static document open_document(const char *text)
{
    document d = {.arena = bl_arena_create(0)};
    bl_json_limits json_limits = {0};
    bl_decode_env env = {.arena = d.arena,
                         .limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 12, .max_tensor_bytes = 1 << 30}};
    bl_program_doc *program = bl_arena_alloc(d.arena, sizeof *program);
    bl_json_doc doc = {0};
    bl_err err = {0};
    char *json = bl_arena_strdup(d.arena, text);
    bl_status st = BL_OK;

    for (char *at = json; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    st = bl_json_parse(&doc, d.arena, (bl_span){json, strlen(json)}, &json_limits, &err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, program, &err);
    }
    bl_json_fini(&doc);
    if (st == BL_OK)
        st = bl_wire_make_key(d.arena, &program->entries[0].graph, "test", &d.key, &err);
    if (st != BL_OK)
        fail_msg("%s\n%s", err.text, json);
    d.graph = &program->entries[0].graph;
    return d;
}

static bench open_bench(size_t max_plans)
{
    bench b = {0};
    uint32_t count = 0;
    bl_text why = {0};
    if (bl_backend_interp.open(1, &b.dev, &count, &why, NULL) != BL_OK || count != 1)
        fail_msg("no interpreter");
    bl_text_fini(&why);
    b.pool = bl_pool_create(b.dev, 1 << 20);
    b.plans = bl_plans_create(max_plans, SIZE_MAX);
    return b;
}

static void close_bench(bench *b)
{
    bl_plans_destroy(b->plans);
    bl_pool_destroy(b->pool);
    if (atomic_load(&b->dev->bytes_used) != 0)
        fail_msg("%zu bytes of the device are still used", (size_t)atomic_load(&b->dev->bytes_used));
    bl_device_destroy(b->dev);
}

static bl_status get(bench *b, const document *d, bl_plan **plan, bool *hit, bl_err *err)
{
    static const bl_plan_options options = {.spec = 1, .program = true, .max_compile_bytes = 1 << 26};
    return bl_plans_get(b->plans, &d->key, d->graph, b->dev, &options, plan, hit, err);
}

/* ---- the cache */

static void test_hit(void **state)
{
    bench b = open_bench(4);
    document d = open_document(counter), other = open_document(products);
    bl_plan *first = NULL, *second = NULL, *third = NULL;
    bool hit = true;

    (void)state;
    assert_null(bl_plans_lookup(b.plans, &d.key, 0));
    assert_int_equal(get(&b, &d, &first, &hit, NULL), BL_OK);
    assert_false(hit);
    assert_int_equal(get(&b, &d, &second, &hit, NULL), BL_OK);
    assert_true(hit);
    assert_ptr_equal(first, second);
    bl_plan_release(second);
    second = bl_plans_lookup(b.plans, &d.key, 0);
    assert_ptr_equal(first, second);
    assert_int_equal(get(&b, &other, &third, &hit, NULL), BL_OK);
    assert_false(hit);
    assert_ptr_not_equal(first, third);
    assert_int_equal(bl_plans_count(b.plans), 2);
    bl_plans_forget_device(b.plans, b.dev);
    assert_int_equal(bl_plans_count(b.plans), 0);
    assert_null(bl_plans_lookup(b.plans, &d.key, 0));
    bl_plan_release(first);
    bl_plan_release(second);
    bl_plan_release(third);
    bl_arena_destroy(d.arena);
    bl_arena_destroy(other.arena);
    close_bench(&b);
}

/* Over the bound on memory the newest stays alone. */
static void test_eviction_by_memory(void **state)
{
    bench b = open_bench(4);
    document d[] = {open_document(counter), open_document(products), open_document(counter)};

    (void)state;
    bl_plans_destroy(b.plans);
    b.plans = bl_plans_create(4, 1);
    for (int i = 0; i < 3; i++) {
        bl_plan *plan = NULL;
        bool hit = true;
        assert_int_equal(get(&b, &d[i], &plan, &hit, NULL), BL_OK);
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
        assert_int_equal(get(&b, &d[i], &plan, &hit, NULL), BL_OK);
        assert_false(hit);
        if (i == 0) {
            first = plan;
            continue;
        }
        bl_plan_release(plan);
        plan = bl_plans_lookup(b.plans, &d[0].key, 0); /* used all the time: it stays */
        assert_ptr_equal(plan, first);
        bl_plan_release(plan);
        assert_in_range(bl_plans_count(b.plans), 1, 3);
    }
    assert_null(bl_plans_lookup(b.plans, &d[1].key, 0));
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
        assert_int_equal(get(&b, &d, &plan, &hit, &err), BL_EGRAPH);
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
    f->status = get(f->b, f->d, &f->plan, &f->hit, &err);
    return NULL;
}

/* Many ask at once: one compiles. */
static void test_single_flight(void **state)
{
    const char *const texts[] = {products, wrong};
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

/* A run with its tensors. */
typedef struct job {
    bench *b;
    bl_plan *plan;
    const bl_plan_info *info;
    int64_t vars[4];
    bl_buffer *inputs[MOST_TENSORS], *states[MOST_TENSORS], *outputs[MOST_TENSORS];
    bl_run run;
} job;

static size_t bytes_of(const bl_plan_tensor *tensor, const int64_t *vars)
{
    int64_t dim[BL_MAX_DIMS];
    size_t bytes = bl_dtype_bytes(tensor->dtype);
    bl_plan_sizes(tensor, vars, dim);
    for (int i = 0; i < tensor->ndim; i++)
        bytes *= (size_t)dim[i];
    return bytes;
}

static bl_buffer *filled(bench *b, size_t bytes, float value)
{
    float data[4096];
    bl_buffer *buffer = NULL;
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++)
        data[i] = value;
    if (bytes > sizeof data || bl_pool_alloc(b->pool, bytes, &buffer, NULL) != BL_OK ||
        bl_buffer_write(buffer, 0, data, bytes, NULL) != BL_OK)
        fail_msg("no buffer of %zu bytes", bytes);
    return buffer;
}

static float value_of(bl_buffer *buffer)
{
    float value = -1;
    if (bl_buffer_read(buffer, 0, &value, sizeof value, NULL) != BL_OK)
        fail_msg("cannot read");
    return value;
}

/* Inputs are ones, states zeros. */
static void open_job(bench *b, bl_plan *plan, int64_t var, job *j)
{
    *j = (job){.b = b, .plan = plan, .info = bl_plan_get_info(plan), .vars = {var}};
    for (int i = 0; i < j->info->ninputs; i++)
        j->inputs[i] = filled(b, bytes_of(&j->info->inputs[i], j->vars), 1);
    for (int i = 0; i < j->info->nstates; i++)
        j->states[i] = filled(b, bytes_of(&j->info->states[i], j->vars), 0);
    j->run = (bl_run){.plan = plan,
                      .pool = b->pool,
                      .vars = j->vars,
                      .inputs = j->inputs,
                      .states = j->states,
                      .outputs = j->outputs,
                      .steps = 1};
}

static void drop_outputs(job *j)
{
    for (int i = 0; i < j->info->noutputs; i++) {
        bl_pool_release(j->b->pool, j->outputs[i]);
        j->outputs[i] = NULL;
    }
}

static void close_job(job *j)
{
    drop_outputs(j);
    for (int i = 0; i < j->info->ninputs; i++)
        bl_pool_release(j->b->pool, j->inputs[i]);
    for (int i = 0; i < j->info->nstates; i++)
        bl_pool_release(j->b->pool, j->states[i]);
    bl_plan_release(j->plan);
}

static void open_counter(bench *b, document *d, job *j)
{
    bl_plan *plan = NULL;
    bool hit = false;
    bl_err err = {0};
    *d = open_document(counter);
    if (get(b, d, &plan, &hit, &err) != BL_OK)
        fail_msg("%s", err.text);
    open_job(b, plan, 0, j);
}

/* All states are those after |steps|: w counted, m and n took turns. */
static void check_states(const job *j, uint64_t steps)
{
    float w = value_of(j->states[0]), m = value_of(j->states[1]), n = value_of(j->states[2]);
    float turns = (float)(steps / 2) * 0.5F;
    float want_m = steps % 2 == 0 ? turns : turns + 0.5F, want_n = turns;
    if (w != (float)steps || m != want_m || n != want_n)
        fail_msg("after %llu steps: w %g, m %g, n %g, not %llu, %g, %g", (unsigned long long)steps, w, m, n,
                 (unsigned long long)steps, want_m, want_n);
}

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
        check_states(&j, total);
        if (value_of(j.outputs[0]) != (float)(total - 1)) /* of the last step: the state before it */
            fail_msg("output is %g after %llu steps", value_of(j.outputs[0]), (unsigned long long)total);
        drop_outputs(&j);
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
        uint64_t done; /* reports come when there are 8, or 32 steps are done, or all */
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
        check_states(&j, j.run.steps_done);
        assert_true((j.outputs[0] != NULL) == (rows[i].status == BL_OK));
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
    check_states(&j, 0);
    err = (bl_err){0};
    j.run.cancel = NULL;
    j.run.steps = 1 << 30;
    j.run.deadline_ns = bl_clock_ns() + 30 * 1000 * 1000;
    assert_int_equal(bl_plan_run(&j.run, &err), BL_ETIMEOUT);
    assert_true(j.run.steps_done > 0);
    check_states(&j, j.run.steps_done);
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
        assert_int_equal(get(&b, &d, &plan, &hit, &err), BL_OK);
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

/* ---- in service */

/* Every kernel's time is known after the second run; the first is not looked at. */
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

/* Small kernels in a row are one launch, and still count as what they are; without moves each is on its own. */
static void test_joined(void **state)
{
    bench b = open_bench(4);
    document d = open_document(products);
    bl_kernel_use use[MOST_TENSORS];
    bl_plan *plan = NULL, *apart = NULL;
    bl_plan_options options = {0};
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get(&b, &d, &plan, &hit, &err), BL_OK);
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

/* A panel (here a picture with its edges) is written for the first run and, into memory of its own, for the second; from then on
 * only when what it is made of is another. */
static void test_panels_are_kept(void **state)
{
    static const struct {
        bool write, again; /* the weight is written to before the run; the input is another buffer */
        float weight, wanted;
        bool packed;
    } rows[] = {{true, false, 2, 64, true},  {false, false, 2, 64, true}, {false, false, 2, 64, false},
                {false, true, 2, 64, false}, {true, false, 3, 96, true},  {false, false, 3, 96, true},
                {false, false, 3, 96, false}};
    bench b = open_bench(4);
    document d = open_document(weighed);
    bl_kernel_use use[MOST_TENSORS];
    uint64_t ns[MOST_TENSORS] = {0};
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = false;
    int helper = -1;
    uint64_t once = 0;
    job j;

    (void)state;
    assert_int_equal(get(&b, &d, &plan, &hit, &err), BL_OK);
    assert_int_equal(bl_plan_get_info(plan)->helpers, 1);
    for (int i = bl_plan_list_kernels(plan, MOST_TENSORS, use); i-- > 0;)
        helper = use[i].helper ? use[i].number : helper;
    open_job(&b, plan, 0, &j);
    j.run.timed = true;
    j.run.launch_ns = ns;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t least = UINT64_MAX;
        if (rows[i].again) {
            bl_pool_release(b.pool, j.inputs[0]);
            j.inputs[0] = filled(&b, bytes_of(&j.info->inputs[0], j.vars), 1);
        }
        for (size_t k = 0; rows[i].write && k < 8 * 20 * 20; k++)
            assert_int_equal(bl_buffer_write(j.states[0], k * sizeof(float), &rows[i].weight, sizeof(float), &err), BL_OK);
        for (int try = 0; try < (rows[i].packed ? 1 : 5); try++) { /* the machine may have been busy otherwise meanwhile */
            memset(ns, 0, sizeof ns);
            assert_int_equal(bl_plan_run(&j.run, &err), BL_OK);
            if (value_of(j.outputs[0]) != rows[i].wanted)
                fail_msg("row %zu: %g", i, (double)value_of(j.outputs[0]));
            drop_outputs(&j);
            least = ns[helper] < least ? ns[helper] : least;
        }
        once = i == 0 ? least : once;
        if ((least > once / 4) != rows[i].packed) /* an empty launch takes next to nothing, a panel much more */
            fail_msg("row %zu: the panel took %llu ns", i, (unsigned long long)least);
    }
    close_job(&j);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

static void expect_current(bl_plan *plan, const bl_plan *want)
{
    bl_plan *current = bl_plan_current(plan);
    assert_ptr_equal(current, want);
    bl_plan_release(current);
}

/* A better plan is what the cache and every holder of an older one gives, until it is taken back. */
static void test_superseded(void **state)
{
    bench b = open_bench(4);
    document d = open_document(products);
    bl_plan *first = NULL, *second = NULL, *third = NULL, *again = NULL;
    bl_err err = {0};
    bool hit = false;

    (void)state;
    assert_int_equal(get(&b, &d, &first, &hit, &err), BL_OK);
    assert_int_equal(bl_plan_remake(first, bl_plan_get_options(first), &second, &err), BL_OK);
    assert_int_equal(bl_plan_remake(second, bl_plan_get_options(first), &third, &err), BL_OK);
    assert_int_equal(bl_plan_get_info(third)->kernels, bl_plan_get_info(first)->kernels);
    expect_current(first, first);
    bl_plan_supersede(first, second);
    expect_current(first, second);
    again = bl_plans_lookup(b.plans, &d.key, 0);
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

/* ---- searches */

/* A clock for which whatever is not the heuristic's choice takes half the time; it may fail, or say that nobody waits. */
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
        .spec = 1, .program = true, .max_compile_bytes = 1 << 26, .tuner = tuner, .beam = beam, .cancel = cancel};
    return bl_plans_get(b->plans, &d->key, d->graph, b->dev, &options, plan, hit, NULL);
}

/* One structure has one plan: asked for with a wider beam it is searched once, and then everyone has the better one. */
static void test_beam(void **state)
{
    bench b = open_bench(4);
    document d = open_document(products);
    clock_for_tests clock = {0};
    bl_tuner tuner = {.time = time_trials, .time_arg = &clock, .seconds = 60};
    bl_plan *plain = NULL, *searched = NULL, *again = NULL;
    bool hit = false;

    (void)state;
    assert_int_equal(bl_kernels_open(NULL, &tuner.kernels, NULL), BL_OK);
    assert_int_equal(get_searched(&b, &d, &tuner, 0, NULL, &plain, &hit), BL_OK);
    assert_false(hit);
    assert_int_equal(clock.batches, 0);
    assert_null(bl_plans_lookup(b.plans, &d.key, 1));
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
    bl_plans_destroy(b.plans); /* as after a restart: the kernels are known, and nothing is searched */
    b.plans = bl_plans_create(4, SIZE_MAX);
    assert_int_equal(get_searched(&b, &d, &tuner, 1, NULL, &again, &hit), BL_OK);
    assert_false(hit);
    assert_int_equal(clock.batches, 0);
    bl_plan_release(again);
    bl_kernels_close(tuner.kernels);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* A search that fails costs the search; one that nobody waits for is made again for who asks. */
static void test_beam_without_result(void **state)
{
    bench b = open_bench(4);
    document d = open_document(products);
    atomic_bool cancel = false;
    clock_for_tests clock = {.fail = BL_EDEVICE, .cancel = &cancel};
    bl_tuner tuner = {.time = time_trials, .time_arg = &clock, .seconds = 60};
    bl_plan *plan = NULL;
    bool hit = false;

    (void)state;
    assert_int_equal(get_searched(&b, &d, &tuner, 2, &cancel, &plan, &hit), BL_OK);
    assert_true(clock.batches > 0);
    bl_plan_release(plan);
    assert_null(bl_plans_lookup(b.plans, &d.key, 1));
    clock = (clock_for_tests){.fail = BL_EDEVICE};
    assert_int_equal(get_searched(&b, &d, &tuner, 2, NULL, &plan, &hit), BL_OK);
    assert_true(clock.batches > 0);
    bl_plan_release(plan);
    plan = bl_plans_lookup(b.plans, &d.key, 2); /* it was tried, and is not with each request */
    assert_non_null(plan);
    bl_plan_release(plan);
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* ---- faults: the n-th allocation or device call fails, for every n until all of it passes */

static bool is_resource(bl_status st)
{
    return st == BL_ENOMEM || st == BL_ENODEVMEM || st == BL_EDEVICE || st == BL_ELIMIT;
}

static void test_faults_of_compiling(void **state)
{
    const bl_fault_kind kind = (bl_fault_kind)(intptr_t)*state;
    document d = open_document(products);
    bench b = open_bench(4);
    bl_status st = BL_ENOMEM;
    long nth = 1;

    for (; st != BL_OK; nth++) {
        bl_plan *plan = NULL;
        bl_err err = {0};
        bool hit = false;
        bl_fault_arm(kind, nth);
        st = get(&b, &d, &plan, &hit, &err);
        bl_fault_arm(kind, 0);
        if (st != BL_OK && !is_resource(st))
            fail_msg("call %ld failed: %s: %s", nth, bl_status_name(st), err.text);
        if (nth == MOST_FAULTS)
            fail_msg("still failing: %s", err.text);
        assert_int_equal(bl_plans_count(b.plans), st == BL_OK);
        bl_plan_release(plan);
    }
    if (nth < 3)
        fail_msg("nothing was made to fail");
    bl_arena_destroy(d.arena);
    close_bench(&b);
}

/* After a failure on a device that lives: all of the steps that it says, none of the next, and the same plan goes on. */
static void check_after(job *j, long nth, bool counts)
{
    uint64_t done = j->run.steps_done;
    bl_err err = {0};

    if (counts)
        check_states(j, done);
    drop_outputs(j);
    if (bl_plan_run(&j->run, &err) != BL_OK)
        fail_msg("after call %ld failed, nothing else runs: %s", nth, err.text);
    if (counts)
        check_states(j, done + j->run.steps);
    else if (value_of(j->outputs[0]) != 256 || value_of(j->outputs[1]) != 0.25F)
        fail_msg("after call %ld failed, results are %g and %g", nth, value_of(j->outputs[0]), value_of(j->outputs[1]));
}

/* After one that took the device with it: reopened, a new plan runs. */
static void check_reopened(bench *b, const document *d, long nth)
{
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = true;
    job j;

    bl_plans_forget_device(b->plans, b->dev);
    bl_pool_trim(b->pool);
    if (bl_device_reopen(b->dev, &err) != BL_OK || get(b, d, &plan, &hit, &err) != BL_OK)
        fail_msg("after call %ld failed, the device is not reopened: %s", nth, err.text);
    assert_false(hit);
    open_job(b, plan, 0, &j);
    if (bl_plan_run(&j.run, &err) != BL_OK)
        fail_msg("after call %ld failed, the reopened device runs nothing: %s", nth, err.text);
    close_job(&j);
}

/* True if something failed. */
static bool run_with_fault(const document *d, bl_fault_kind kind, long nth, bool counts)
{
    bench b = open_bench(4);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bl_status st = BL_OK;
    bool hit = false, lost = false;
    job j;

    assert_int_equal(get(&b, d, &plan, &hit, NULL), BL_OK);
    open_job(&b, plan, 0, &j);
    j.run.steps = 3;
    bl_fault_arm(kind, nth);
    st = bl_plan_run(&j.run, &err);
    bl_fault_arm(kind, 0);
    lost = atomic_load(&b.dev->lost);
    if (st != BL_OK && !is_resource(st))
        fail_msg("call %ld failed: %s: %s", nth, bl_status_name(st), err.text);
    if (!lost)
        check_after(&j, nth, counts);
    close_job(&j);
    if (lost)
        check_reopened(&b, d, nth);
    close_bench(&b);
    return st != BL_OK;
}

/* An allocation that fails once may be tried again and pass, so some that pass do not end it. */
static void test_faults_of_running(void **state)
{
    const bl_fault_kind kind = (bl_fault_kind)(intptr_t)*state;
    const char *const texts[] = {counter, products};
    int failures = 0;

    for (int t = 0; t < 2; t++) {
        document d = open_document(texts[t]);
        int fine = 0;
        for (long nth = 1; fine < FINE_IN_A_ROW; nth++) {
            bool failed = run_with_fault(&d, kind, nth, t == 0);
            failures += failed;
            fine = failed ? 0 : fine + 1;
        }
        bl_arena_destroy(d.arena);
    }
    if (failures < 5)
        fail_msg("only %d calls were made to fail", failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hit),
        cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_eviction_by_memory),
        cmocka_unit_test(test_failure_is_not_kept),
        cmocka_unit_test(test_single_flight),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_collect_and_stop),
        cmocka_unit_test(test_cancelled_and_late),
        cmocka_unit_test(test_named_dimensions),
        cmocka_unit_test(test_times_in_service),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_superseded),
        cmocka_unit_test(test_panels_are_kept),
        cmocka_unit_test(test_beam),
        cmocka_unit_test(test_beam_without_result),
        {"faults of compiling: allocations", test_faults_of_compiling, NULL, NULL, (void *)(intptr_t)BL_FAULT_ALLOC},
        {"faults of compiling: the device", test_faults_of_compiling, NULL, NULL, (void *)(intptr_t)BL_FAULT_DEVICE},
        {"faults of running: allocations", test_faults_of_running, NULL, NULL, (void *)(intptr_t)BL_FAULT_ALLOC},
        {"faults of running: the device", test_faults_of_running, NULL, NULL, (void *)(intptr_t)BL_FAULT_DEVICE},
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
