/* SPDX-License-Identifier: MIT */
#include "server/http/handlers.h"
#include "server/models/models.h"
#include "server/ops/server.h"
#include "server/store/storage.h"

bl_status bl_handle_live(bl_request *rq)
{
    bl_text_puts(&rq->reply.out, "{\"live\":true}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bool bl_server_is_ready(bl_server *server)
{
    return !atomic_load(&server->life.leaving) && bl_models_ready(server->models) && bl_storage_is_there(server->storage);
}

bl_status bl_handle_ready(bl_request *rq)
{
    bool ready = bl_server_is_ready(rq->server);
    bl_text_puts(&rq->reply.out, ready ? "{\"ready\":true}" : "{\"ready\":false}");
    bl_request_reply_json(rq, ready ? 200 : 503);
    return BL_OK;
}

bl_status bl_handle_v2(bl_request *rq)
{
    bl_text_printf(&rq->reply.out,
                   "{\"name\":\"beamline\",\"version\":\"%s\",\"extensions\":[\"classification\",\"sequence\",\"sequence(string_"
                   "id)\",\"model_repository\",\"model_repository(unload_dependents)\","
                   "\"model_configuration\",\"binary_tensor_data\",\"parameters\",\"statistics\",\"trace\",\"logging\"]}",
                   BL_VERSION);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
