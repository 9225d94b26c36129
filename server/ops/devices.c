/* SPDX-License-Identifier: MIT */
#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/http/routes.h"
#include "server/ops/drain.h"
#include "server/store/eviction.h"

#include <string.h>

static void devices_put_text(bl_text *out, const char *name, const char *value)
{
    bl_encode_key(out, name);
    bl_encode_string(out, value);
}

static void devices_put_number(bl_text *out, const char *name, uint64_t value)
{
    bl_encode_key(out, name);
    bl_encode_u64(out, value);
}

/* Write the number of objects that remain on the device, summed over all keys, for administrators who drain the device. */
static void put_left(const bl_drain_left *left, bl_text *out)
{
    bl_encode_key(out, "left");
    bl_text_puts(out, "{");
    devices_put_number(out, "requests", left->requests);
    devices_put_number(out, "models", left->models);
    devices_put_number(out, "jobs", left->jobs);
    devices_put_number(out, "programs", left->programs);
    devices_put_number(out, "tensors", left->tensors);
    bl_text_puts(out, "}");
}

void bl_device_put_members(bl_request *rq, bl_worker *worker, bl_drain_left *left)
{
    bl_text *out = &rq->reply.out;
    static const char *const types[] = {"cpu", "gpu", "accelerator", "none"};
    static const struct {
        unsigned bit;
        const char *dtype;
    } features[] = {{BL_FEATURE_F64, "float64"}, {BL_FEATURE_I64, "int64"}};
    const bl_device_info *info = &worker->dev->info;
    bl_drain_look(worker, left);
    bl_text_puts(out, "{");
    devices_put_text(out, "id", info->id);
    devices_put_text(out, "name", info->name);
    devices_put_text(out, "driver", info->driver);
    devices_put_text(out, "type", types[info->type]);
    bl_encode_key(out, "default");
    bl_text_puts(out, worker == &worker->server->workers[worker->server->default_worker] ? "true" : "false");
    devices_put_text(out, "state", bl_drain_state(left));
    if ((rq->scopes & BL_SCOPE_ADMIN) != 0)
        put_left(left, out);
    devices_put_number(out, "memory", info->memory);
    devices_put_number(out, "memory_used", atomic_load(&worker->dev->bytes_used));
    devices_put_number(out, "memory_peak", atomic_load(&worker->dev->bytes_peak));
    devices_put_number(out, "memory_moved", bl_evictables_away(worker->evictables));
    devices_put_number(out, "max_buffer", info->max_alloc < info->max_binding ? info->max_alloc : info->max_binding);
    devices_put_number(out, "units", info->units);
    devices_put_number(out, "queue", bl_queue_length(worker->queue));
    bl_encode_key(out, "native");
    bl_text_puts(out, "[");
    for (size_t i = 0, n = 0; i < sizeof features / sizeof features[0]; i++)
        if ((info->features & features[i].bit) != 0)
            bl_text_printf(out, "%s\"%s\"", n++ > 0 ? "," : "", features[i].dtype);
    bl_text_puts(out, "]");
}

void bl_device_describe(bl_request *rq, bl_worker *worker)
{
    bl_drain_left left;
    bl_device_put_members(rq, worker, &left);
    bl_text_puts(&rq->reply.out, "}");
}

bl_status bl_handle_devices(bl_request *rq)
{
    bl_server *server = rq->server;
    bl_text_puts(&rq->reply.out, "{\"devices\":[");
    for (uint32_t i = 0; i < server->nworkers; i++) {
        if (i > 0)
            bl_text_puts(&rq->reply.out, ",");
        bl_device_describe(rq, &server->workers[i]);
    }
    bl_text_puts(&rq->reply.out, "],\"left_out\":[");
    for (const char *line = server->start.device_notes; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        bl_encode_span(&rq->reply.out, (bl_span){line, len});
        line += len + (line[len] == '\n');
        bl_text_puts(&rq->reply.out, *line != '\0' ? "," : "");
    }
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
