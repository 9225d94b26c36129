/* SPDX-License-Identifier: MIT */
/* The ticker: tasks run at their times, can be woken early, and can be removed while they run. */
#include "server/ops/ticker.h"

#include "engine/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>

#include <cmocka.h>

enum { MS = 1000000, LONG_MS = 100 };

typedef struct counted {
    atomic_int calls;
    atomic_bool inside;
    bl_tick *again; /* the function wakes this task twice */
    int takes_ms;
} counted;

static void pause_ms(int ms)
{
    struct timespec moment = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * (long)MS};
    nanosleep(&moment, NULL);
}

static void count(void *arg)
{
    counted *c = arg;
    atomic_store(&c->inside, true);
    pause_ms(c->takes_ms);
    if (atomic_fetch_add(&c->calls, 1) < 2 && c->again != NULL)
        bl_tick_wake(c->again);
    atomic_store(&c->inside, false);
}

/* Waits until |c| was called |calls| times; false after ten seconds. */
static bool reaches(counted *c, int calls)
{
    int64_t begin = bl_clock_ns();
    while (atomic_load(&c->calls) < calls && bl_clock_ms(begin, bl_clock_ns()) < 10000)
        pause_ms(1);
    return atomic_load(&c->calls) >= calls;
}

static void check_periods(bl_ticker *ticker)
{
    counted often = {0}, seldom = {0};
    bl_err err = {0};
    bl_tick *task = NULL;
    int calls = 0;
    assert_true(bl_ticker_add(ticker, 5 * MS, count, &often, &task, &err) == BL_OK);
    assert_true(bl_ticker_add(ticker, INT64_C(3600000) * MS, count, &seldom, NULL, &err) == BL_OK);
    assert_true(reaches(&often, 5));
    assert_true(atomic_load(&seldom.calls) == 0);
    assert_true(bl_clock_ms(bl_ticker_moved(ticker), bl_clock_ns()) < 5000);
    bl_tick_remove(task);
    calls = atomic_load(&often.calls);
    pause_ms(20);
    assert_true(atomic_load(&often.calls) == calls);
}

static void check_wake(bl_ticker *ticker)
{
    counted woken = {0};
    bl_err err = {0};
    assert_true(bl_ticker_add(ticker, INT64_C(3600000) * MS, count, &woken, &woken.again, &err) == BL_OK);
    pause_ms(10);
    assert_true(atomic_load(&woken.calls) == 0);
    bl_tick_wake(woken.again);
    assert_true(reaches(&woken, 3)); /* woken once here, and twice by the function */
    bl_tick_wake_at(woken.again, bl_clock_ns() + 30 * MS);
    assert_true(atomic_load(&woken.calls) == 3);
    assert_true(reaches(&woken, 4));
    bl_tick_remove(woken.again);
    assert_true(atomic_load(&woken.calls) == 4);
}

static void check_remove(bl_ticker *ticker)
{
    counted slow = {.takes_ms = LONG_MS};
    bl_err err = {0};
    bl_tick *task = NULL;
    assert_true(bl_ticker_add(ticker, INT64_C(3600000) * MS, count, &slow, &task, &err) == BL_OK);
    bl_tick_wake(task);
    while (!atomic_load(&slow.inside))
        pause_ms(1);
    bl_tick_remove(task); /* waits for the end of the call */
    assert_true(!atomic_load(&slow.inside) && atomic_load(&slow.calls) == 1);
    bl_tick_remove(NULL);
}

static void test_tasks(void **state)
{
    bl_ticker *ticker = NULL;
    bl_err err = {0};
    (void)state;
    assert_true(bl_ticker_create(&ticker, &err) == BL_OK);
    check_periods(ticker);
    check_wake(ticker);
    check_remove(ticker);
    bl_ticker_destroy(ticker);
    bl_ticker_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tasks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
