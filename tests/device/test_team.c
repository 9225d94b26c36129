/* SPDX-License-Identifier: MIT */
/* The team of threads of a CPU device: each group of each launch runs once, after the groups of the launches before. */
#include "opencl/cl_team.h"

#include "engine/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 4, MANY = 11 /* more than regions */, LAUNCHES = 200, ROUNDS = 100, MOST_GROUPS = 90, LOCAL = 1000 };

/* Buffer 0: a counter of the groups of this launch; buffer 1: that of the launch before, or 0; scalar 0: how many groups the
 * launch before has; buffer 2: a flag for each group; buffer 3: errors. */
static void count(const uint64_t *buffers, const int32_t *scalars, void *memory, int32_t g0, int32_t g1, int32_t g2)
{
    atomic_int *own = (atomic_int *)(uintptr_t)buffers[0], *before = (atomic_int *)(uintptr_t)buffers[1];
    atomic_char *seen = (atomic_char *)(uintptr_t)buffers[2];
    atomic_int *errors = (atomic_int *)(uintptr_t)buffers[3];
    char *local = memory;

    if (before != NULL && atomic_load_explicit(before, memory_order_relaxed) != scalars[0])
        atomic_fetch_add(errors, 1);
    if (atomic_fetch_add(&seen[(g2 * scalars[2] + g1) * scalars[1] + g0], 1) != 0)
        atomic_fetch_add(errors, 1);
    memset(local, g0, LOCAL); /* threads do not share local memory */
    for (int i = 0; i < LOCAL; i++) {
        if (local[i] != (char)g0)
            atomic_fetch_add(errors, 1);
    }
    atomic_fetch_add_explicit(own, 1, memory_order_relaxed);
}

typedef struct launches {
    bl_cl_call calls[LAUNCHES];
    uint64_t buffers[LAUNCHES][4];
    int32_t scalars[LAUNCHES][3];
    atomic_int counts[LAUNCHES];
    atomic_char seen[LAUNCHES][MOST_GROUPS];
    atomic_int errors;
} launches;

static int groups_of(const bl_cl_call *call)
{
    return (int)(call->groups[0] * call->groups[1] * call->groups[2]);
}

static void fill(launches *l, unsigned *state)
{
    memset(l, 0, sizeof *l);
    for (int i = 0; i < LAUNCHES; i++) {
        uint32_t *groups = l->calls[i].groups;
        *state = *state * 1664525 + 1013904223;
        groups[0] = (*state >> 28) % 4 == 0 ? 1 : 1 + (*state >> 20) % 15; /* also launches of one group */
        groups[1] = groups[0] == 1 ? 1 : 1 + (*state >> 16) % 3;
        groups[2] = groups[0] == 1 ? 1 : 1 + (*state >> 12) % 2;
        if (i % 17 == 5) /* a launch that does nothing */
            groups[i / 17 % 3] = 0;
        l->calls[i].function = count;
        l->calls[i].buffers = l->buffers[i];
        l->calls[i].scalars = l->scalars[i];
        l->calls[i].local_bytes = LOCAL;
        l->buffers[i][0] = (uint64_t)(uintptr_t)&l->counts[i];
        l->buffers[i][1] = i > 0 ? (uint64_t)(uintptr_t)&l->counts[i - 1] : 0;
        l->buffers[i][2] = (uint64_t)(uintptr_t)l->seen[i];
        l->buffers[i][3] = (uint64_t)(uintptr_t)&l->errors;
        l->scalars[i][0] = i > 0 ? groups_of(&l->calls[i - 1]) : 0;
        l->scalars[i][1] = (int32_t)groups[0];
        l->scalars[i][2] = (int32_t)groups[1];
    }
}

static void run_all(unsigned threads, bool alone)
{
    launches *l = malloc(sizeof *l);
    bl_cl_team *team = NULL;
    bl_err err = {0};
    uint64_t times[LAUNCHES];
    unsigned state = 7;

    assert_non_null(l);
    assert_int_equal(BL_OK, bl_cl_team_create(threads, &team, &err));
    for (int round = 0; round < ROUNDS; round++) {
        fill(l, &state);
        memset(times, 0xff, sizeof times);
        assert_int_equal(BL_OK, bl_cl_team_run(team, alone, LAUNCHES, l->calls, round % 2 == 0 ? times : NULL, &err));
        assert_int_equal(0, l->errors);
        for (int i = 0; i < LAUNCHES; i++) {
            assert_int_equal(groups_of(&l->calls[i]), l->counts[i]);
            if (round % 2 == 0)
                assert_true(groups_of(&l->calls[i]) == 0 ? times[i] == 0 : times[i] < 60000000000);
        }
    }
    bl_cl_team_destroy(team);
    free(l);
}

static void test_together(void **state)
{
    (void)state;
    run_all(THREADS, false);
    run_all(MANY, false);
}

static void test_alone(void **state)
{
    (void)state;
    run_all(THREADS, true);
}

/* Buffer 0: how many groups have begun; buffer 1: how many of them run on a thread that may use scalar 0 CPUs. A group
 * waits for the other one, so that a thread beside the submitter runs one of the two. */
static void look_at_cpus(const uint64_t *buffers, const int32_t *scalars, void *memory, int32_t g0, int32_t g1, int32_t g2)
{
    atomic_int *begun = (atomic_int *)(uintptr_t)buffers[0], *fewer = (atomic_int *)(uintptr_t)buffers[1];
    int64_t start = bl_clock_ns();
    cpu_set_t own;

    (void)memory, (void)g0, (void)g1, (void)g2;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < 2 && bl_clock_ms(start, bl_clock_ns()) < 10000)
        (void)sched_yield();
    if (sched_getaffinity(0, sizeof own, &own) == 0 && CPU_COUNT(&own) == scalars[0])
        atomic_fetch_add(fewer, 1);
}

/* The other threads stay off the CPU of the submitter. */
static void test_apart(void **state)
{
    atomic_int begun = 0, fewer = 0;
    uint64_t buffers[] = {(uint64_t)(uintptr_t)&begun, (uint64_t)(uintptr_t)&fewer};
    bl_cl_team *team = NULL;
    bl_err err = {0};
    cpu_set_t all;

    (void)state;
    assert_int_equal(0, sched_getaffinity(0, sizeof all, &all));
    if (CPU_COUNT(&all) < 2)
        skip();
    const int32_t scalars[] = {CPU_COUNT(&all) - 1};
    const bl_cl_call call = {look_at_cpus, buffers, scalars, 0, {2, 1, 1}};
    assert_int_equal(BL_OK, bl_cl_team_create(2, &team, &err));
    assert_int_equal(BL_OK, bl_cl_team_run(team, false, 1, &call, NULL, &err));
    assert_int_equal(2, begun);
    assert_int_equal(1, fewer);
    bl_cl_team_destroy(team);
}

/* Buffer 0: how many groups of this launch have begun; buffer 1: whether the submitter ran each group; buffer 2: its thread. A
 * group waits for the other one, so that each thread runs one. */
static void tell_thread(const uint64_t *buffers, const int32_t *scalars, void *memory, int32_t g0, int32_t g1, int32_t g2)
{
    atomic_int *begun = (atomic_int *)(uintptr_t)buffers[0];
    int64_t start = bl_clock_ns();

    (void)scalars, (void)memory, (void)g1, (void)g2;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < 2 && bl_clock_ms(start, bl_clock_ns()) < 10000)
        (void)sched_yield();
    ((bool *)(uintptr_t)buffers[1])[g0] = pthread_equal(*(pthread_t *)(uintptr_t)buffers[2], pthread_self()) != 0;
}

/* In each launch a thread begins with the same groups. */
static void test_same_groups(void **state)
{
    enum { TIMES = 300 };
    atomic_int begun[TIMES] = {0};
    bool mine[TIMES][2] = {{false}};
    uint64_t buffers[TIMES][3];
    bl_cl_call calls[TIMES];
    pthread_t submitter = pthread_self();
    bl_cl_team *team = NULL;
    bl_err err = {0};

    (void)state;
    for (int i = 0; i < TIMES; i++) {
        buffers[i][0] = (uint64_t)(uintptr_t)&begun[i];
        buffers[i][1] = (uint64_t)(uintptr_t)mine[i];
        buffers[i][2] = (uint64_t)(uintptr_t)&submitter;
        calls[i] = (bl_cl_call){tell_thread, buffers[i], NULL, 0, {2, 1, 1}};
    }
    assert_int_equal(BL_OK, bl_cl_team_create(2, &team, &err));
    assert_int_equal(BL_OK, bl_cl_team_run(team, false, TIMES, calls, NULL, &err));
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(2, begun[i]);
        assert_true(mine[i][0]);
        assert_false(mine[i][1]);
    }
    bl_cl_team_destroy(team);
}

/* Threads that sleep are woken, and a team without work ends at once. */
static void test_idle(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        bl_cl_team *team = NULL;
        bl_err err = {0};
        assert_int_equal(BL_OK, bl_cl_team_create(THREADS, &team, &err));
        bl_cl_team_destroy(team);
    }
    bl_cl_team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_together), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_apart), cmocka_unit_test(test_same_groups),
                                       cmocka_unit_test(test_idle)};
    return cmocka_run_group_tests_name("device/team", tests, NULL, NULL);
}
