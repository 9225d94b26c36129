/* SPDX-License-Identifier: MIT */
/* Plans under every possible failure. */
#include "engine/base/fault.h"
#include "tests/plan/jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_FAULTS = 5000, FINE_IN_A_ROW = 8, FLIGHTS = 4 };

/* ---- the n-th allocation or device call fails, for every n until the whole test passes */

static bool is_resource(bl_status st)
{
    return st == BL_ENOMEM || st == BL_ENODEVMEM || st == BL_EDEVICE || st == BL_ELIMIT;
}

static void test_faults_of_compiling(void **state)
{
    const bl_fault_kind kind = (bl_fault_kind)(intptr_t)*state;
    document d = open_document(job_products);
    bench b = open_bench(4);
    bl_status st = BL_ENOMEM;
    long nth = 1;

    for (; st != BL_OK; nth++) {
        bl_plan *plan = NULL;
        bl_err err = {0};
        bool hit = false;
        bl_fault_arm(kind, nth);
        st = get_plan(&b, &d, &plan, &hit, &err);
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

/* After a failure on a live device: exactly the reported steps are complete, and the same plan continues. */
static void check_after(job *j, long nth, bool counts)
{
    uint64_t done = j->run.steps_done;
    bl_err err = {0};

    if (counts)
        check_counter(j, done);
    drop_outputs(j);
    if (bl_plan_run(&j->run, &err) != BL_OK)
        fail_msg("after call %ld failed, nothing else runs: %s", nth, err.text);
    if (counts)
        check_counter(j, done + j->run.steps);
    else if (value_of(j->outputs[0]) != 256 || value_of(j->outputs[1]) != 0.25F)
        fail_msg("after call %ld failed, results are %g and %g", nth, value_of(j->outputs[0]), value_of(j->outputs[1]));
}

/* After a failure that lost the device: the device is reopened, and a new plan runs. */
static void check_reopened(bench *b, const document *d, long nth)
{
    bl_plan *plan = NULL;
    bl_err err = {0};
    bool hit = true;
    job j;

    bl_plans_forget_device(b->plans, b->dev);
    bl_pool_trim(b->pool);
    if (bl_device_reopen(b->dev, &err) != BL_OK || get_plan(b, d, &plan, &hit, &err) != BL_OK)
        fail_msg("after call %ld failed, the device is not reopened: %s", nth, err.text);
    assert_false(hit);
    open_job(b, plan, 0, &j);
    if (bl_plan_run(&j.run, &err) != BL_OK)
        fail_msg("after call %ld failed, the reopened device runs nothing: %s", nth, err.text);
    close_job(&j);
}

/* Returns whether a call failed. */
static bool run_with_fault(const document *d, bl_fault_kind kind, long nth, bool counts)
{
    bench b = open_bench(4);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bl_status st = BL_OK;
    bool hit = false, lost = false;
    job j;

    assert_int_equal(get_plan(&b, d, &plan, &hit, NULL), BL_OK);
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

/* An allocation that fails once may be retried successfully, so some faults do not end the run. */
static void test_faults_of_running(void **state)
{
    const bl_fault_kind kind = (bl_fault_kind)(intptr_t)*state;
    const char *const texts[] = {job_counter, job_checked, job_products};
    int failures = 0;

    for (int t = 0; t < 3; t++) {
        document d = open_document(texts[t]);
        int fine = 0;
        for (long nth = 1; fine < FINE_IN_A_ROW; nth++) {
            bool failed = run_with_fault(&d, kind, nth, t < 2);
            failures += failed;
            fine = failed ? 0 : fine + 1;
        }
        bl_arena_destroy(d.arena);
    }
    if (failures < 5)
        fail_msg("only %d calls were made to fail", failures);
}

/* A part of w is x times the number of the step.  The output is computed from the new w, with enough work that it needs
 * separate launches after the launch that writes w. */
static const char part_then_sum[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [2]}}, 'state': {'w': {'dtype': 'float32', 'shape': [8]}, 'n': {'dtype': "
    "'float32', 'shape': []}}, 'nodes': [{'id': 'n1', 'op': 'add', 'in': ['n', 1]}, {'id': 'v', 'op': 'mul', 'in': ['x', 'n1']}, "
    "{'id': 'a', 'op': 'slice', 'in': ['w'], 'attrs': {'stop': [3]}}, {'id': 'c', 'op': 'slice', 'in': ['w'], 'attrs': {'start': "
    "[5]}}, {'id': 'w1', 'op': 'cat', 'in': ['a', 'v', 'c']}, {'id': 'r', 'op': 'reshape', 'in': ['w1'], 'attrs': {'shape': [8, "
    "1]}}, {'id': 'i', 'op': 'arange', 'attrs': {'stop': 65536, 'dtype': 'float32'}}, {'id': 'p', 'op': 'mul', 'in': ['r', "
    "'i']}, {'id': 'y', 'op': 'sum', 'in': ['p']}], 'updates': {'w': 'w1', 'n': 'n1'}, 'outputs': ['y']}";

/* The |nth| launch of three steps fails for lack of memory.  The device and other buffers are unchanged.  If the launch was the
 * first of a step, the states are those after the reported steps; otherwise w, which is updated in place, is lost: it cannot be
 * read, and after its replacement the plan continues.  False if all steps succeeded. */
static bool refuse_launch(const document *d, long nth, int *whole, int *lost)
{
    bench b = open_bench(4);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bl_status st = BL_OK;
    bl_buffer *other = filled(&b, sizeof(float), 7);
    bl_kernel_use launches[8];
    bool hit = false, first = false;
    job j;

    assert_int_equal(get_plan(&b, d, &plan, &hit, NULL), BL_OK);
    assert_true(bl_plan_get_info(plan)->in_place[0]);
    first = (nth - 1) % bl_plan_list_kernels(plan, 8, launches) == 0;
    open_job(&b, plan, 0, &j);
    j.run.steps = 3;
    bl_fault_arm(BL_FAULT_LAUNCH, nth);
    st = bl_plan_run(&j.run, &err);
    bl_fault_arm(BL_FAULT_LAUNCH, 0);
    assert_int_equal(st, j.run.steps_done == 3 ? BL_OK : BL_ENODEVMEM);
    assert_false(atomic_load(&b.dev->lost));
    assert_int_equal(bl_buffer_is_lost(j.states[0]), st != BL_OK && !first);
    assert_true(value_of(other) == 7 && value_of(j.states[1]) == (float)j.run.steps_done);
    if (bl_buffer_is_lost(j.states[0])) {
        float ignored = 0;
        assert_int_equal(bl_buffer_read(j.states[0], 0, &ignored, sizeof ignored, NULL), BL_EDEVICE);
        err = (bl_err){0};
        assert_int_equal(bl_plan_run(&j.run, &err), BL_EDEVICE);
        bl_pool_release(b.pool, j.states[0]);
        j.states[0] = filled(&b, 8 * sizeof(float), 0);
        ++*lost;
    } else {
        check_part(j.states[0], j.run.steps_done);
        ++*whole;
    }
    drop_outputs(&j);
    err = (bl_err){0};
    if (bl_plan_run(&j.run, &err) != BL_OK)
        fail_msg("after launch %ld was refused, nothing else runs: %s", nth, err.text);
    check_part(j.states[0], (uint64_t)value_of(j.states[1]));
    bl_pool_release(b.pool, other);
    close_job(&j);
    close_bench(&b);
    return st != BL_OK;
}

static void test_refused_launches(void **state)
{
    document d = open_document(part_then_sum);
    int whole = 0, lost = 0;
    long nth = 1;

    (void)state;
    while (refuse_launch(&d, nth, &whole, &lost))
        nth++;
    assert_int_equal(whole, 4); /* the first launch of each step, and all steps */
    assert_true(lost >= 3);
    bl_arena_destroy(d.arena);
}

/* Several runs of one plan with inputs 1, 2, 3 and 4 are submitted before a wait for the first; each gives its own result.
 * With a fault: a failed run fails alone unless the device is lost, and has no outputs; the other runs are correct.  Returns
 * whether a call failed. */
static bool fly_with_fault(const document *d, bl_fault_kind kind, long nth)
{
    static float wanted[FLIGHTS]; /* results of the first call, which has no fault */
    bench b = open_bench(4);
    bl_plan *plan = NULL;
    bl_err err = {0};
    bl_status submitted[FLIGHTS], finished[FLIGHTS];
    bool hit = false, failed = false;
    job jobs[FLIGHTS];

    assert_int_equal(get_plan(&b, d, &plan, &hit, NULL), BL_OK);
    for (int i = 0; i < FLIGHTS; i++) {
        open_job(&b, i == 0 ? plan : bl_plan_retain(plan), 0, &jobs[i]);
        bl_pool_release(b.pool, jobs[i].inputs[0]);
        jobs[i].inputs[0] = filled(&b, bytes_of(&jobs[i].info->inputs[0], jobs[i].vars), (float)(i + 1));
        jobs[i].run.steps = 1;
    }
    for (int i = 0; i < FLIGHTS && nth == 0; i++) {
        assert_int_equal(bl_plan_run(&jobs[i].run, &err), BL_OK);
        wanted[i] = value_of(jobs[i].outputs[0]);
        drop_outputs(&jobs[i]);
    }
    bl_fault_arm(kind, nth);
    for (int i = 0; i < FLIGHTS; i++)
        submitted[i] = bl_plan_submit(&jobs[i].run, &err);
    for (int i = 0; i < FLIGHTS; i++)
        finished[i] = submitted[i] == BL_OK ? bl_plan_finish(&jobs[i].run, 1000, &err) : submitted[i];
    bl_fault_arm(kind, 0);
    for (int i = 0; i < FLIGHTS; i++) {
        bool good = finished[i] == BL_OK;
        failed = failed || !good;
        if ((jobs[i].outputs[0] != NULL) != good || jobs[i].run.steps_done != (good ? 1U : 0U))
            fail_msg("call %ld: run %d gives %s", nth, i, bl_status_name(finished[i]));
        if (good && !atomic_load(&b.dev->lost) && value_of(jobs[i].outputs[0]) != wanted[i])
            fail_msg("call %ld: run %d gives %g, not %g", nth, i, (double)value_of(jobs[i].outputs[0]), (double)wanted[i]);
        if (!good && !is_resource(finished[i]))
            fail_msg("call %ld failed: %s", nth, bl_status_name(finished[i]));
    }
    for (int i = 0; i < FLIGHTS; i++)
        close_job(&jobs[i]);
    close_bench(&b);
    return failed;
}

static void test_in_flight(void **state)
{
    document d = open_document(job_products);
    int failures = 0;

    (void)state;
    assert_false(fly_with_fault(&d, BL_FAULT_ALLOC, 0));
    for (long nth = 1; nth < 60; nth++) {
        failures += fly_with_fault(&d, BL_FAULT_ALLOC, nth);
        failures += fly_with_fault(&d, BL_FAULT_DEVICE, nth);
    }
    if (failures < 10)
        fail_msg("only %d calls were made to fail", failures);
    bl_arena_destroy(d.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_launches),
        cmocka_unit_test(test_in_flight),
        {"faults of compiling: allocations", test_faults_of_compiling, NULL, NULL, (void *)(intptr_t)BL_FAULT_ALLOC},
        {"faults of compiling: the device", test_faults_of_compiling, NULL, NULL, (void *)(intptr_t)BL_FAULT_DEVICE},
        {"faults of running: allocations", test_faults_of_running, NULL, NULL, (void *)(intptr_t)BL_FAULT_ALLOC},
        {"faults of running: the device", test_faults_of_running, NULL, NULL, (void *)(intptr_t)BL_FAULT_DEVICE},
    };
    return cmocka_run_group_tests_name("faults of plans", tests, NULL, NULL);
}
