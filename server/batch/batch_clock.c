/* SPDX-License-Identifier: MIT */
#include "server/batch/batcher.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <time.h>

static const int64_t PERIOD_NS = 1000000000; /* the period of the task; the task is also woken when a batcher is due */

struct bl_batching {
    pthread_mutex_t lock;
    bl_batcher *first; /* batchers whose items wait for a delay or a deadline; the owners of these batchers are retained */
    bl_tick *tick;
    atomic_int runs;
};

/* Remove a batcher that is due at |now|; NULL: there is none. */
static bl_batcher *take_due(bl_batching *batching, int64_t now)
{
    bl_batcher *due = NULL;
    pthread_mutex_lock(&batching->lock);
    for (bl_batcher **at = &batching->first; *at != NULL && due == NULL; at = &(*at)->next_due) {
        if ((*at)->due_ns > now)
            continue;
        due = *at;
        *at = due->next_due;
        due->due_ns = 0;
        break;
    }
    pthread_mutex_unlock(&batching->lock);
    return due;
}

static void wake_for_next(bl_batching *batching)
{
    pthread_mutex_lock(&batching->lock);
    for (const bl_batcher *b = batching->first; b != NULL; b = b->next_due)
        bl_tick_wake_at(batching->tick, b->due_ns);
    pthread_mutex_unlock(&batching->lock);
}

static void look_at_batchers(void *arg)
{
    bl_batching *batching = arg;
    int64_t now = bl_clock_ns();
    bl_batcher *b = NULL;
    while ((b = take_due(batching, now)) != NULL) {
        int64_t next = bl_batch_look(b, now);
        if (next > 0)
            bl_batching_watch(b, next);
        b->user->release(b->owner);
    }
    wake_for_next(batching);
}

void bl_batching_watch(bl_batcher *b, int64_t when_ns)
{
    bl_batching *batching = b->server->batching;
    pthread_mutex_lock(&batching->lock);
    if (b->due_ns == 0) {
        b->user->retain(b->owner);
        b->next_due = batching->first;
        batching->first = b;
    }
    if (b->due_ns == 0 || when_ns < b->due_ns)
        b->due_ns = when_ns;
    bl_tick_wake_at(batching->tick, b->due_ns);
    pthread_mutex_unlock(&batching->lock);
}

void bl_batching_count(bl_batching *batching, int runs)
{
    atomic_fetch_add(&batching->runs, runs);
}

bl_status bl_batching_create(bl_server *server, bl_batching **out, bl_err *err)
{
    bl_batching *batching = *out = bl_calloc(1, sizeof *batching);
    if (batching == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the clock of batches");
    pthread_mutex_init(&batching->lock, NULL);
    return bl_ticker_add(server->ticker, PERIOD_NS, look_at_batchers, batching, &batching->tick, err);
}

void bl_batching_stop(bl_batching *batching)
{
    if (batching == NULL)
        return;
    bl_tick_remove(batching->tick);
    batching->tick = NULL;
    for (bl_batcher *b = NULL; (b = take_due(batching, INT64_MAX)) != NULL;)
        b->user->release(b->owner);
    while (atomic_load(&batching->runs) > 0) /* runs without a client end at their next launch */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void bl_batching_destroy(bl_batching *batching)
{
    if (batching == NULL)
        return;
    pthread_mutex_destroy(&batching->lock);
    free(batching);
}
