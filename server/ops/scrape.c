/* SPDX-License-Identifier: MIT */
#include "server/http/handlers.h"
#include "server/http/routes.h"
#include "server/models/models.h"
#include "server/ops/server.h"
#include "server/store/eviction.h"

/* Write a gauge with a value for each device. */
static void print_devices(bl_server *server, const char *name, const char *help, size_t (*value)(const bl_worker *), bl_text *out)
{
    bl_metrics_head(out, name, "gauge", help);
    for (uint32_t i = 0; i < server->nworkers; i++)
        bl_text_printf(out, "%s{device=\"%s\"} %zu\n", name, server->workers[i].dev->info.id, value(&server->workers[i]));
}

static size_t queue_length(const bl_worker *worker)
{
    return bl_queue_length(worker->queue);
}

static size_t is_drained(const bl_worker *worker)
{
    return atomic_load(&worker->drained);
}

static size_t memory_bytes(const bl_worker *worker)
{
    return worker->dev->info.memory;
}

static size_t used_bytes(const bl_worker *worker)
{
    return atomic_load(&worker->dev->bytes_used);
}

static size_t peak_bytes(const bl_worker *worker)
{
    return atomic_load(&worker->dev->bytes_peak);
}

static size_t pool_bytes(const bl_worker *worker)
{
    return bl_pool_idle_bytes(worker->pool);
}

static size_t spare_bytes(const bl_worker *worker)
{
    return bl_pool_spare_bytes(worker->pool);
}

static size_t moved_bytes(const bl_worker *worker)
{
    return bl_evictables_away(worker->evictables);
}

static void print_server(bl_server *server, bl_text *out)
{
    bl_metrics_head(out, "beamline_build_info", "gauge", "1, with the version");
    bl_text_printf(out, "beamline_build_info{version=\"%s\"} 1\n", BL_VERSION);
    bl_metrics_head(out, "beamline_ready", "gauge", "1 while /v2/health/ready says so");
    bl_text_printf(out, "beamline_ready %d\n", bl_server_is_ready(server));
    bl_metrics_head(out, "beamline_plans", "gauge", "compiled graphs in the cache");
    bl_text_printf(out, "beamline_plans %zu\n", bl_plans_count(server->plans));
    bl_metrics_head(out, "beamline_plans_waiting", "gauge", "requests that wait for a graph that is compiled for another");
    bl_text_printf(out, "beamline_plans_waiting %zu\n", bl_plans_waiting(server->plans));
    bl_metrics_head(out, "beamline_host_bytes", "gauge", "host memory of bodies, answers and the buffers of CPU devices");
    bl_text_printf(out, "beamline_host_bytes %zu\n", atomic_load(&server->memory.used));
    bl_metrics_head(out, "beamline_host_limit_bytes", "gauge", "how much that may be");
    bl_text_printf(out, "beamline_host_limit_bytes %zu\n", server->memory.limit);
}

bl_status bl_handle_metrics(bl_request *rq)
{
    bl_server *server = rq->server;
    bl_text *out = &rq->reply.out;
    int nroutes = 0;
    const bl_metric_route *routes = bl_route_labels(&nroutes);
    bl_metrics_print(&server->metrics, routes, nroutes, out);
    print_server(server, out);
    print_devices(server, "beamline_queue_length", "requests that wait for the device or run on it", queue_length, out);
    bl_text_printf(out, "beamline_queue_length{device=\"compiler\"} %zu\n", bl_queue_length(server->compiler));
    bl_text_printf(out, "beamline_queue_length{device=\"offload\"} %zu\n", bl_queue_length(server->offload));
    print_devices(server, "beamline_device_drained", "1 where a device takes no new work, since it is drained", is_drained, out);
    print_devices(server, "beamline_device_bytes", "device memory in use, idle pool and packed weights included", used_bytes,
                  out);
    print_devices(server, "beamline_device_peak_bytes", "the most device memory ever in use", peak_bytes, out);
    print_devices(server, "beamline_device_pool_bytes", "device memory kept for the next request", pool_bytes, out);
    print_devices(server, "beamline_device_spare_bytes",
                  "packed weights and the like, which can be made again and go when memory is wanted", spare_bytes, out);
    print_devices(server, "beamline_device_moved_bytes", "what of the device's waits in host memory", moved_bytes, out);
    print_devices(server, "beamline_device_limit_bytes", "device memory that there is", memory_bytes, out);
    BL_TRY(bl_models_print_metrics(server->models, rq->arena, out, &rq->err));
    bl_metrics_print_process(out);
    bl_request_reply(rq, 200, "text/plain; version=0.0.4; charset=utf-8");
    return BL_OK;
}
