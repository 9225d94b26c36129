/* SPDX-License-Identifier: MIT */
/* The periodic work that belongs to the whole server. */
#include "engine/base/clock.h"
#include "engine/base/folder.h"
#include "server/access/samples.h"
#include "server/http/watch.h"
#include "server/ops/server.h"
#include "server/store/registry.h"

#include <stdlib.h>

typedef struct bl_upkeep_row {
    bool disk; /* the task runs on the disk ticker */
    bool now;  /* the task runs at the start for the first time */
    int period_ms;
    void (*run)(void *upkeep);
} bl_upkeep_row;

enum { TASKS = 4 };

struct bl_upkeep {
    bl_server *server;
    bl_tick *task[TASKS];
    size_t cache_bytes; /* value of the gauge of the cache folder; disk ticker's thread */
};

/* End the requests and leases whose time has passed. */
static void expire_all(void *arg)
{
    bl_server *server = ((bl_upkeep *)arg)->server;
    int64_t now = bl_clock_ns();
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_queue_expire(server->workers[i].queue, now);
    bl_queue_expire(server->offload, now);
    bl_queue_expire(server->compiler, now);
    bl_queue_expire(server->search.queue, now);
    bl_registry_expire(server->registry, now);
}

static void close_late(void *arg)
{
    bl_watch_close_late(((bl_upkeep *)arg)->server->http.watch);
}

static void take_samples(void *arg)
{
    bl_samples_take(((bl_upkeep *)arg)->server->access);
}

/* Trim the cache folder. Child processes and other servers write to the folder too. */
static void trim_cache(void *arg)
{
    bl_upkeep *upkeep = arg;
    bl_server *server = upkeep->server;
    size_t bytes = bl_cache_trim((size_t)server->settings.cache_size);
    bl_metrics_add(&server->metrics, BL_COUNT_CACHE_BYTES, (long long)bytes - (long long)upkeep->cache_bytes);
    upkeep->cache_bytes = bytes;
}

/* Periods of the tasks. In 10 s a search writes some megabytes of kernels; reading a folder of 10,000 files takes 20 ms. */
static const bl_upkeep_row rows[TASKS] = {
    {.period_ms = 20, .run = expire_all},
    {.period_ms = 250, .run = close_late},
    {.period_ms = 1000, .run = take_samples, .now = true},
    {.period_ms = 10000, .run = trim_cache, .disk = true, .now = true},
};

bl_status bl_upkeep_create(bl_server *server, bl_upkeep **out, bl_err *err)
{
    bl_upkeep *upkeep = *out = calloc(1, sizeof *upkeep);
    if (upkeep == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the server's periodic work");
    upkeep->server = server;
    for (int i = 0; i < TASKS; i++) {
        BL_TRY(bl_ticker_add(rows[i].disk ? server->disk_ticker : server->ticker, INT64_C(1000000) * rows[i].period_ms,
                             rows[i].run, upkeep, &upkeep->task[i], err));
        if (rows[i].now)
            bl_tick_wake(upkeep->task[i]);
    }
    return BL_OK;
}

void bl_upkeep_destroy(bl_upkeep *upkeep)
{
    if (upkeep == NULL)
        return;
    for (int i = 0; i < TASKS; i++)
        bl_tick_remove(upkeep->task[i]);
    free(upkeep);
}
