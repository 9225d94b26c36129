/* SPDX-License-Identifier: MIT */
/* The memory planner: temporaries with overlapping lifetimes do not overlap, and others share memory. */
#include "engine/sched/memory.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { MOST_LIVES = 60, ROUNDS = 200 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* Returns the largest number of simultaneously live bytes, a lower bound of all plans. */
static size_t busiest(int n, const bl_lifetime *lives)
{
    size_t most = 0;
    for (int at = 0; at < 100; at++) {
        size_t bytes = 0;
        for (int i = 0; i < n; i++)
            bytes += lives[i].first <= at && at <= lives[i].last ? lives[i].bytes : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void check_plan(int n, const bl_lifetime *lives, size_t align, size_t total)
{
    for (int i = 0; i < n; i++) {
        if (lives[i].first > lives[i].last)
            continue;
        if (lives[i].offset % align != 0 || lives[i].offset + lives[i].bytes > total)
            fail_msg("%zu bytes at %zu of %zu, aligned to %zu", lives[i].bytes, lives[i].offset, total, align);
        for (int k = 0; k < i; k++) {
            bool in_time = lives[k].first <= lives[k].last && lives[i].first <= lives[k].last && lives[k].first <= lives[i].last;
            bool in_space =
                lives[i].offset < lives[k].offset + lives[k].bytes && lives[k].offset < lives[i].offset + lives[i].bytes;
            if (in_time && in_space)
                fail_msg("[%d, %d] at %zu+%zu and [%d, %d] at %zu+%zu overlap", lives[i].first, lives[i].last, lives[i].offset,
                         lives[i].bytes, lives[k].first, lives[k].last, lives[k].offset, lives[k].bytes);
        }
    }
    if (total < busiest(n, lives))
        fail_msg("%zu bytes cannot hold the %zu that are needed at once", total, busiest(n, lives));
}

static void test_random(void **state)
{
    uint64_t seed = 3;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bl_lifetime lives[MOST_LIVES];
        bl_arena *arena = bl_arena_create(0);
        int n = (int)(next_random(&seed) % MOST_LIVES);
        size_t align = (size_t)1 << (next_random(&seed) % 9);
        for (int i = 0; i < n; i++) {
            int first = (int)(next_random(&seed) % 30);
            lives[i] = (bl_lifetime){
                .bytes = 1 + next_random(&seed) % 5000, .first = first, .last = first + (int)(next_random(&seed) % 9) - 1};
        }
        check_plan(n, lives, align, bl_memory_plan(n, lives, align, arena));
        bl_arena_destroy(arena);
    }
}

static void test_reuse(void **state)
{
    /* a chain: each is written while the previous one is read */
    bl_lifetime lives[8];
    bl_arena *arena = bl_arena_create(0);
    (void)state;
    for (int i = 0; i < 8; i++)
        lives[i] = (bl_lifetime){.bytes = 1000, .first = i, .last = i + 1};
    assert_int_equal(bl_memory_plan(8, lives, 8, arena), 2000);
    check_plan(8, lives, 8, 2000);
    lives[0] = (bl_lifetime){.bytes = 1000, .first = 5, .last = 4}; /* never used */
    assert_int_equal(bl_memory_plan(1, lives, 8, arena), 0);
    assert_int_equal(bl_memory_plan(0, lives, 8, arena), 0);
    bl_arena_destroy(arena);
}

/* Computes the lifetime of each temporary, in nests. */
static void live(const bl_schedule *schedule, bl_lifetime *lives)
{
    for (int i = 0; i < schedule->nplaces; i++)
        lives[i] = (bl_lifetime){.first = schedule->nnests, .last = -1};
    for (int k = 0; k < schedule->nnests; k++) {
        for (int i = 0; i < schedule->nests[k].nparams; i++) {
            const bl_place *place = &schedule->places[schedule->nests[k].param[i]];
            bl_lifetime *life = &lives[schedule->nests[k].param[i]];
            if (place->kind != BL_PLACE_TEMP)
                continue;
            life->bytes = (size_t)place->count->hi * bl_dtype_bytes(place->dtype);
            life->first = k < life->first ? k : life->first;
            life->last = k;
        }
    }
}

/* Temporaries of a real schedule: chains of products share memory. */
static void test_schedule(void **state)
{
    test_graph g;
    bl_schedule *schedule = NULL;
    bl_lifetime *lives = NULL;
    size_t total = 0, sum = 0;

    (void)state;
    test_graph_open("{'inputs': {'x': {'dtype': 'float32', 'shape': [64, 64]}}, 'nodes': ["
                    "{'id': 'a', 'op': 'matmul', 'in': ['x', 'x']}, {'id': 'b', 'op': 'matmul', 'in': ['a', 'a']},"
                    "{'id': 'c', 'op': 'matmul', 'in': ['b', 'b']}, {'id': 'd', 'op': 'matmul', 'in': ['c', 'c']},"
                    "{'id': 'e', 'op': 'matmul', 'in': ['d', 'd']}], 'outputs': ['e']}",
                    &g);
    schedule = test_graph_schedule(&g, 2);
    assert_int_equal(schedule->nnests, 5);
    lives = bl_arena_array(g.arena, (size_t)schedule->nplaces, sizeof *lives);
    live(schedule, lives);
    for (int i = 0; i < schedule->nplaces; i++)
        sum += lives[i].bytes;
    total = bl_memory_plan(schedule->nplaces, lives, 64, g.arena);
    check_plan(schedule->nplaces, lives, 64, total);
    assert_int_equal(sum, 4 * 64 * 64 * 4);
    assert_int_equal(total, 2 * 64 * 64 * 4);
    test_graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_reuse),
                                       cmocka_unit_test(test_schedule)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
