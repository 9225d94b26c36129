/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/interp/interp_device.h"
#include "server/access/access.h"
#include "server/ops/server.h"
#include "server/store/eviction.h"

#include <stdio.h>
#include <string.h>

enum { REOPEN_EVERY_NS = 1000000000, MEAN_PART = 8 /* the moving mean covers about this many turns */ };

static const bl_backend *const backends[] = {&bl_backend_opencl, &bl_backend_vulkan, &bl_backend_interp, &bl_backend_null};
enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

const bl_backend *const *bl_workers_backends(int *count)
{
    *count = BACKEND_COUNT;
    return backends;
}

/* Reopen a lost device.  After the loss, objects of the device may only be released.  So the plan cache drops the plans of the
 * device, and buffers record the generation of the device. */
static void reopen_if_lost(void *arg)
{
    bl_worker *worker = arg;
    bl_err err = {0};
    int64_t now = bl_clock_ns();
    if (worker->dev->stand_in != NULL && atomic_load(&worker->dev->stand_in->lost))
        atomic_store(&worker->dev->lost, true);
    if (!atomic_load(&worker->dev->lost) || (worker->reopen_ns != 0 && now - worker->reopen_ns < REOPEN_EVERY_NS))
        return;
    worker->reopen_ns = now;
    bl_log(BL_LOG_ERROR, "%s was lost; reopening it", worker->dev->info.id);
    bl_metrics_add(&worker->server->metrics, BL_COUNT_DEVICE_LOST, 1);
    bl_plans_forget_device(worker->server->plans, worker->dev);
    bl_pool_trim(worker->pool);
    if (bl_device_reopen(worker->dev, &err) == BL_OK &&
        (worker->dev->stand_in == NULL || bl_device_reopen(worker->dev->stand_in, &err) == BL_OK)) {
        worker->reopen_ns = 0;
        bl_log(BL_LOG_WARN, "%s is open again; tensors and programs that were on it are lost", worker->dev->info.id);
    } else {
        bl_log(BL_LOG_ERROR, "%s: %s", worker->dev->info.id, err.text);
    }
}

bl_status bl_device_open_again(const bl_device *dev, bl_device **out, bl_err *err)
{
    bl_device *found[BL_MAX_DEVICES];
    uint32_t count = 0;
    bl_text why = {0};

    *out = NULL;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (strcmp(backends[i]->name, dev->ops->name) == 0 &&
            backends[i]->open(BL_MAX_DEVICES, found, &count, &why, err) != BL_OK)
            count = 0;
    }
    bl_text_fini(&why);
    for (uint32_t i = 0; i < count; i++) {
        if (*out == NULL && strcmp(found[i]->info.id, dev->info.id) == 0)
            *out = found[i];
        else
            bl_device_destroy(found[i]);
    }
    return *out != NULL ? BL_OK : bl_fail(err, BL_EDEVICE, "%s cannot be reopened", dev->info.id);
}

/* Open the interpreter as a stand-in for kernels that are still being compiled.  Without a stand-in the kernels of the device
 * are compiled before they run. */
static void open_stand_in(bl_device *dev)
{
    bl_err err = {0};

    if (dev->info.host_memory && dev->info.dialect != BL_DIALECT_LINEAR && bl_interp_stand_in(dev, &dev->stand_in, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "%s: %s", dev->info.id, err.text);
}

static bl_status workers_open_backend(bl_server *server, const bl_backend *backend, bl_text *why, bl_err *err)
{
    bl_device *found[BL_MAX_DEVICES];
    uint32_t count = 0;
    BL_TRY(backend->open(BL_MAX_DEVICES - server->nworkers, found, &count, why, err));
    for (uint32_t i = 0; i < count; i++) {
        bl_worker *worker = &server->workers[server->nworkers++];
        worker->server = server;
        worker->dev = found[i];
        if (server->settings.device_memory > 0 && server->settings.device_memory < found[i]->info.memory)
            found[i]->info.memory = server->settings.device_memory;
        if (worker->dev->info.host_memory)
            worker->dev->host = &server->memory;
        if (server->settings.interpret_first)
            open_stand_in(worker->dev);
        bl_log(BL_LOG_INFO, "device %s: %s (%s)", found[i]->info.id, found[i]->info.name, found[i]->info.driver);
    }
    return BL_OK;
}

/* Open every back end that the settings name, in the order of the settings. */
static bl_status open_named(bl_server *server, bl_text *why, bl_err *err)
{
    for (const char *at = server->settings.backends; *at != '\0';) {
        size_t len = strcspn(at, ",");
        const bl_backend *backend = NULL;
        bl_err problem = {0};
        for (size_t i = 0; i < BACKEND_COUNT; i++)
            if (strlen(backends[i]->name) == len && memcmp(backends[i]->name, at, len) == 0)
                backend = backends[i];
        if (backend == NULL)
            return bl_fail(err, BL_EINVAL, "--backends: there is no back end \"%.*s\"", (int)len, at);
        if (server->nworkers < BL_MAX_DEVICES && workers_open_backend(server, backend, why, &problem) != BL_OK)
            bl_text_printf(why, "%s: %s\n", backend->name, problem.text);
        at += len + (at[len] == ',');
    }
    return BL_OK;
}

static void log_notes(bl_server *server, const bl_text *why)
{
    const char *line = why->data != NULL ? why->data : "";
    snprintf(server->start.device_notes, sizeof server->start.device_notes, "%s", line);
    while (*line != '\0') {
        size_t len = strcspn(line, "\n");
        bl_log(BL_LOG_INFO, "not used: %.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void before_work(void *arg)
{
    bl_worker *worker = arg;
    bl_evictables_begin(worker->evictables);
    reopen_if_lost(worker);
}

/* The submitting thread takes the place of the worker's thread, so it also reopens a lost device. */
static void workers_around_inline(void *arg, bool begins)
{
    const bl_worker *worker = arg;
    if (begins)
        bl_evictables_run_inline(worker->evictables, true);
    reopen_if_lost(arg);
    if (!begins)
        bl_evictables_run_inline(worker->evictables, false);
}

static void workers_charge(void *arg, uint32_t owner, int64_t took)
{
    bl_worker *worker = arg;
    long long mean = atomic_load(&worker->turn_ns);
    atomic_store(&worker->turn_ns, mean + (took - mean) / MEAN_PART);
    bl_access_charge(worker->server->access, owner, (int)(worker - worker->server->workers), took);
}

static bl_status start_worker(bl_worker *worker, bl_err *err)
{
    bl_queue_hooks hooks = {.before = before_work,
                            .after = reopen_if_lost,
                            .around_inline = workers_around_inline,
                            .charge = workers_charge,
                            .arg = worker};
    worker->pool = bl_pool_create(worker->dev, worker->server->settings.pool);
    if (worker->pool == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the memory pool of %s", worker->dev->info.id);
    BL_TRY(bl_evictables_create(worker, &worker->evictables, err));
    return bl_queue_create(worker->dev->info.id, worker->server->settings.max_queue, 1, &hooks, &worker->queue, err);
}

bl_status bl_workers_start(bl_server *server, bl_err *err)
{
    bl_text why = {0};
    bl_worker *chosen = NULL;
    bl_status st = open_named(server, &why, err);
    if (st == BL_OK && server->nworkers == 0) {
        bl_text_puts(&why, "no device was found: the interpreter takes their place\n");
        st = workers_open_backend(server, &bl_backend_interp, &why, err);
    }
    log_notes(server, &why);
    bl_text_fini(&why);
    if (st != BL_OK)
        return st;
    for (uint32_t i = 0; i < server->nworkers; i++)
        BL_TRY(start_worker(&server->workers[i], err));
    BL_TRY(bl_worker_find(server, server->settings.device, &chosen, err));
    server->default_worker = (uint32_t)(chosen - server->workers);
    return BL_OK;
}

static bl_step do_nothing(bl_request *rq)
{
    (void)rq;
    return BL_STEP_DONE;
}

/* Submit an empty request to the workers, because a worker reopens a lost device before any work. */
void bl_workers_mend(bl_server *server)
{
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        bl_request *rq = atomic_load(&worker->dev->lost) ? bl_request_create_own(server, 0, bl_request_end, NULL) : NULL;
        if (rq != NULL && bl_request_submit(rq, worker->queue, do_nothing, NULL) != BL_OK)
            bl_request_end(rq);
    }
}

void bl_workers_stop(bl_server *server)
{
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_queue_destroy(server->workers[i].queue);
        server->workers[i].queue = NULL;
    }
}

void bl_workers_close(bl_server *server)
{
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        bl_evictables_destroy(worker->evictables);
        if (worker->pool != NULL)
            bl_pool_destroy(worker->pool);
        bl_device_destroy(worker->dev->stand_in);
        bl_device_destroy(worker->dev);
    }
    server->nworkers = 0;
}

const bl_peaks *bl_worker_peaks(const bl_worker *worker)
{
    static const bl_peaks unknown;
    return atomic_load(&worker->peaks_measured) ? &worker->measured : &unknown;
}

/* The default device, or the first device that takes new work.  At least one device takes new work. */
static bl_worker *best_worker(bl_server *server)
{
    bl_worker *best = &server->workers[server->default_worker];
    for (uint32_t i = 0; i < server->nworkers && atomic_load(&best->drained); i++)
        best = &server->workers[i];
    return best;
}

bl_status bl_worker_place(bl_server *server, const char *id, bool own, bl_worker **out, bl_err *err)
{
    BL_TRY(bl_worker_find(server, id, out, err));
    if (!atomic_load(&(*out)->drained))
        return BL_OK;
    if (!own)
        return bl_fail(err, BL_EBUSY, "%s is drained and takes no new work; GET /api/v1/devices lists the devices",
                       (*out)->dev->info.id);
    *out = best_worker(server);
    return BL_OK;
}

bl_status bl_worker_find(bl_server *server, const char *id, bl_worker **out, bl_err *err)
{
    *out = best_worker(server);
    if (id == NULL || *id == '\0')
        return BL_OK;
    for (uint32_t i = 0; i < server->nworkers; i++)
        if (strcmp(server->workers[i].dev->info.id, id) == 0) {
            *out = &server->workers[i];
            return BL_OK;
        }
    return bl_fail(err, BL_EGRAPH, "there is no device \"%.64s\"; GET /api/v1/devices lists them", id);
}
