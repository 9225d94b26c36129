/* SPDX-License-Identifier: MIT */
#include "server/ops/keeper.h"

#include "engine/base/clock.h"
#include "engine/base/folder.h"
#include "server/access/samples.h"
#include "server/data/saver.h"
#include "server/ops/server.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    TICK_NS = 1000000000, /* between two samples of the devices */
    LOOK_TICKS = 10       /* in that time a search writes some megabytes; reading a folder of 10,000 files takes 20 ms */
};

struct bl_keeper {
    bl_server *server;
    pthread_t thread;
    pthread_mutex_t lock; /* guards |ends| */
    pthread_cond_t ending;
    bool ends;
    size_t bytes; /* own thread: the present value of the gauge */
};

static void look(bl_keeper *keeper)
{
    size_t bytes = bl_cache_trim((size_t)keeper->server->settings.cache_size);
    bl_metrics_add(&keeper->server->metrics, BL_COUNT_CACHE_BYTES, (long long)bytes - (long long)keeper->bytes);
    keeper->bytes = bytes;
}

static void tick(bl_keeper *keeper, uint64_t number)
{
    bl_samples_take(keeper->server->access);
    if (number % LOOK_TICKS != 0)
        return;
    look(keeper);
    if (keeper->server->saver != NULL)
        bl_saver_tick(keeper->server->saver);
}

/* Ticks have fixed times, so that the samples of a minute cover a minute. */
static void *run_thread(void *arg)
{
    bl_keeper *keeper = arg;
    int64_t begin = bl_clock_ns();
    uint64_t number = 0;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->ends) {
        struct timespec until;
        pthread_mutex_unlock(&keeper->lock);
        tick(keeper, number++);
        until = bl_clock_after(CLOCK_MONOTONIC, TICK_NS - (bl_clock_ns() - begin) % TICK_NS);
        pthread_mutex_lock(&keeper->lock);
        if (!keeper->ends)
            pthread_cond_timedwait(&keeper->ending, &keeper->lock, &until);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

static void fini(bl_keeper *keeper)
{
    pthread_cond_destroy(&keeper->ending);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

bl_status bl_keeper_create(bl_server *server, bl_keeper **out, bl_err *err)
{
    bl_keeper *keeper = calloc(1, sizeof *keeper);
    *out = NULL;
    if (keeper == NULL)
        return bl_fail(err, BL_ENOMEM, "keeper");
    keeper->server = server;
    pthread_mutex_init(&keeper->lock, NULL);
    bl_clock_cond_init(&keeper->ending);
    if (pthread_create(&keeper->thread, NULL, run_thread, keeper) != 0) {
        fini(keeper);
        return bl_fail(err, BL_ENOMEM, "the keeper's thread");
    }
    *out = keeper;
    return BL_OK;
}

void bl_keeper_destroy(bl_keeper *keeper)
{
    if (keeper == NULL)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->ends = true;
    pthread_cond_signal(&keeper->ending);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    fini(keeper);
}
