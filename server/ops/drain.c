/* SPDX-License-Identifier: MIT */
/* Takes one device out of service while the other devices continue.  No new work is placed on the device, running work ends
 * there, and hosted models and jobs move to other devices. */
#include "server/ops/drain.h"

#include "engine/base/log.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs.h"
#include "server/models/models.h"
#include "server/store/storage.h"

#include <string.h>

/* ---- state */

static void count_program(void *arg, const char *name, bl_program *program)
{
    bl_drain_left *left = arg;
    (void)name;
    left->programs += program->worker == left->worker;
}

void bl_drain_look(bl_worker *worker, bl_drain_left *left)
{
    bl_server *server = worker->server;
    *left = (bl_drain_left){.worker = worker,
                            .requests = bl_queue_length(worker->queue),
                            .models = bl_models_count_on(server->models, worker),
                            .jobs = bl_jobs_count_on(server->jobs, worker),
                            .tensors = atomic_load(&worker->tensors)};
    bl_registry_all_programs(server->registry, count_program, left);
}

const char *bl_drain_state(const bl_drain_left *left)
{
    if (atomic_load(&left->worker->dev->lost))
        return "lost";
    if (!atomic_load(&left->worker->drained))
        return "ready";
    return left->requests + left->models + left->jobs + left->programs + left->tensors > 0 ? "draining" : "drained";
}

/* ---- the routes */

/* Is |worker| the only device that takes new work?  Under drain.lock. */
static bool is_last(bl_server *server, const bl_worker *worker)
{
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *other = &server->workers[i];
        if (other != worker && !atomic_load(&other->drained) && !atomic_load(&other->dev->lost))
            return false;
    }
    return true;
}

/* Store the state for the next start. */
static bl_status drain_write_down(const bl_worker *worker, bool drained, bl_err *err)
{
    return bl_storage_run(worker->server->storage,
                          drained ? "INSERT OR REPLACE INTO drained_devices (device) VALUES (?1)"
                                  : "DELETE FROM drained_devices WHERE device = ?1",
                          BL_CELLS(bl_cell_text(worker->dev->info.id)), NULL, NULL, err);
}

static bl_status drain_change(bl_request *rq, bl_worker *worker, bool drained)
{
    bl_server *server = rq->server;
    bool changed = false;
    bl_status st = BL_OK;
    pthread_mutex_lock(&server->drain.lock);
    if (drained && is_last(server, worker))
        st = bl_fail(&rq->err, BL_ECONFLICT, "%s is the last device that takes new work: resume another first",
                     worker->dev->info.id);
    else
        st = drain_write_down(worker, drained, &rq->err);
    if (st == BL_OK)
        changed = atomic_exchange(&worker->drained, drained) != drained;
    atomic_fetch_add(&server->drain.count, changed);
    pthread_mutex_unlock(&server->drain.lock);
    if (changed) {
        bl_log(BL_LOG_WARN, drained ? "%s is drained and takes no new work" : "%s takes new work again", worker->dev->info.id);
        bl_models_replace(server->models);
    }
    return st;
}

static bl_status drain_handle(bl_request *rq, bool drained)
{
    bl_server *server = rq->server;
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        if (strcmp(worker->dev->info.id, rq->head.param[0]) != 0)
            continue;
        BL_TRY(drain_change(rq, worker, drained));
        bl_device_describe(rq, worker);
        bl_request_reply_json(rq, 200);
        return BL_OK;
    }
    return bl_fail(&rq->err, BL_ENOTFOUND, "there is no device \"%.64s\"; GET /api/v1/devices lists them", rq->head.param[0]);
}

bl_status bl_handle_device_drain(bl_request *rq)
{
    return drain_handle(rq, true);
}

bl_status bl_handle_device_resume(bl_request *rq)
{
    return drain_handle(rq, false);
}

/* ---- at the start */

static bool drain_again(void *arg, const bl_cell *cells, int n)
{
    bl_server *server = arg;
    (void)n;
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        const char *id = worker->dev->info.id;
        if (strcmp(id, cells[0].bytes.data) != 0)
            continue;
        atomic_store(&worker->drained, !is_last(server, worker));
        bl_log(BL_LOG_WARN,
               atomic_load(&worker->drained) ? "%s is still drained and takes no new work until it is resumed"
                                             : "%s was drained, but takes work again, as the server has no other device",
               id);
    }
    return true;
}

bl_status bl_drain_load(bl_server *server, bl_err *err)
{
    return bl_storage_run(server->storage, "SELECT device FROM drained_devices ORDER BY device", 0, NULL, drain_again, server,
                          err);
}
