/* SPDX-License-Identifier: MIT */
#include "server/ops/ticker.h"

#include "engine/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct bl_tick {
    bl_ticker *ticker;
    void (*run)(void *arg);
    void *arg;
    int64_t begin_ns, period_ns; /* the usual times of calls: begin_ns + n * period_ns */
    int64_t next_ns;             /* time of the next call; under the ticker's lock, like |next| */
    bl_tick *next;
};

struct bl_ticker {
    pthread_t thread;
    pthread_mutex_t lock;   /* guards all members below; no function of a task runs under the lock */
    pthread_cond_t changed; /* signalled when tasks or |stop| change, or when a function ends */
    bl_tick *tasks, *running;
    bool stop;
    atomic_llong moved_ns; /* not guarded by the lock */
};

/* Under the lock: the task that is called next, or NULL. */
static bl_tick *first_task(const bl_ticker *ticker)
{
    bl_tick *first = ticker->tasks;
    for (bl_tick *at = first; at != NULL; at = at->next)
        if (at->next_ns < first->next_ns)
            first = at;
    return first;
}

/* Under the lock: wait until |ns|, or until the ticker changes; INT64_MAX waits without limit. */
static void wait_for_tick(bl_ticker *ticker, int64_t ns)
{
    struct timespec until = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    if (ns == INT64_MAX)
        pthread_cond_wait(&ticker->changed, &ticker->lock);
    else
        pthread_cond_timedwait(&ticker->changed, &ticker->lock, &until);
}

/* Run the function of |task|. Under the lock, which is released meanwhile. */
static void run_task(bl_ticker *ticker, bl_tick *task, int64_t now)
{
    task->next_ns = now + task->period_ns - (now - task->begin_ns) % task->period_ns;
    ticker->running = task;
    pthread_mutex_unlock(&ticker->lock);
    task->run(task->arg);
    pthread_mutex_lock(&ticker->lock);
    ticker->running = NULL;
    pthread_cond_broadcast(&ticker->changed);
}

static void *run_ticker(void *arg)
{
    bl_ticker *ticker = arg;
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->stop) {
        bl_tick *first = first_task(ticker);
        int64_t now = bl_clock_ns();
        atomic_store(&ticker->moved_ns, now);
        if (first != NULL && first->next_ns <= now)
            run_task(ticker, first, now);
        else
            wait_for_tick(ticker, first != NULL ? first->next_ns : INT64_MAX);
    }
    pthread_mutex_unlock(&ticker->lock);
    return NULL;
}

static void free_ticker(bl_ticker *ticker)
{
    while (ticker->tasks != NULL) {
        bl_tick *task = ticker->tasks;
        ticker->tasks = task->next;
        free(task);
    }
    pthread_cond_destroy(&ticker->changed);
    pthread_mutex_destroy(&ticker->lock);
    free(ticker);
}

bl_status bl_ticker_create(bl_ticker **out, bl_err *err)
{
    bl_ticker *ticker = *out = calloc(1, sizeof *ticker);
    if (ticker == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a ticker");
    pthread_mutex_init(&ticker->lock, NULL);
    bl_clock_cond_init(&ticker->changed);
    atomic_init(&ticker->moved_ns, bl_clock_ns());
    if (pthread_create(&ticker->thread, NULL, run_ticker, ticker) == 0)
        return BL_OK;
    free_ticker(ticker);
    *out = NULL;
    return bl_fail(err, BL_ENOMEM, "out of host memory for the thread of a ticker");
}

void bl_ticker_destroy(bl_ticker *ticker)
{
    if (ticker == NULL)
        return;
    pthread_mutex_lock(&ticker->lock);
    ticker->stop = true;
    pthread_cond_broadcast(&ticker->changed);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    free_ticker(ticker);
}

int64_t bl_ticker_moved(const bl_ticker *ticker)
{
    return atomic_load(&ticker->moved_ns);
}

bl_status bl_ticker_add(bl_ticker *ticker, int64_t period_ns, void (*run)(void *arg), void *arg, bl_tick **out, bl_err *err)
{
    bl_tick *task = calloc(1, sizeof *task);
    int64_t now = bl_clock_ns();
    if (out != NULL)
        *out = task;
    if (task == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a task of a ticker");
    *task =
        (bl_tick){.ticker = ticker, .run = run, .arg = arg, .begin_ns = now, .period_ns = period_ns, .next_ns = now + period_ns};
    pthread_mutex_lock(&ticker->lock);
    task->next = ticker->tasks;
    ticker->tasks = task;
    pthread_cond_broadcast(&ticker->changed);
    pthread_mutex_unlock(&ticker->lock);
    return BL_OK;
}

void bl_tick_wake_at(bl_tick *task, int64_t ns)
{
    pthread_mutex_lock(&task->ticker->lock);
    if (ns < task->next_ns) {
        task->next_ns = ns;
        pthread_cond_broadcast(&task->ticker->changed);
    }
    pthread_mutex_unlock(&task->ticker->lock);
}

void bl_tick_wake(bl_tick *task)
{
    bl_tick_wake_at(task, bl_clock_ns());
}

void bl_tick_remove(bl_tick *task)
{
    bl_ticker *ticker = NULL;
    bl_tick **at = NULL;
    if (task == NULL)
        return;
    ticker = task->ticker;
    pthread_mutex_lock(&ticker->lock);
    for (at = &ticker->tasks; *at != task; at = &(*at)->next)
        continue;
    *at = task->next;
    while (ticker->running == task)
        pthread_cond_wait(&ticker->changed, &ticker->lock);
    pthread_mutex_unlock(&ticker->lock);
    free(task);
}
