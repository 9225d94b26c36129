/* SPDX-License-Identifier: MIT */
#include "server/handlers.h"
#include "server/models/models.h"
#include "server/openapi.h"
#include "server/server.h"
#include "server/storage.h"

bl_status bl_handle_live(bl_request *rq)
{
    bl_text_puts(&rq->out, "{\"live\":true}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bool bl_server_is_ready(bl_server *server)
{
    return !atomic_load(&server->leaving) && bl_models_ready(server->models) && bl_storage_is_there(server->storage);
}

bl_status bl_handle_ready(bl_request *rq)
{
    bool ready = bl_server_is_ready(rq->server);
    bl_text_puts(&rq->out, ready ? "{\"ready\":true}" : "{\"ready\":false}");
    bl_request_reply_json(rq, ready ? 200 : 503);
    return BL_OK;
}

bl_status bl_handle_v2(bl_request *rq)
{
    bl_text_printf(&rq->out,
                   "{\"name\":\"beamline\",\"version\":\"%s\",\"extensions\":[\"classification\",\"sequence\",\"sequence(string_"
                   "id)\",\"model_repository\",\"model_repository(unload_dependents)\","
                   "\"model_configuration\",\"binary_tensor_data\",\"parameters\",\"statistics\",\"trace\",\"logging\"]}",
                   BL_VERSION);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_openapi(bl_request *rq)
{
    bl_text_append(&rq->out, bl_openapi_json, bl_openapi_size);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_page(bl_request *rq)
{
    bl_text_printf(&rq->out,
                   "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>beamline</title>\n"
                   "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}</style>\n"
                   "<h1>beamline %s</h1>\n"
                   "<p>POST a tensor graph, get tensors back. This server speaks JSON and safetensors.</p>\n<ul>\n"
                   "<li><a href=\"/openapi.json\">the API, as OpenAPI 3.1</a></li>\n"
                   "<li><a href=\"/api/v1/devices\">devices</a>, <a href=\"/api/v1/tensors\">tensors</a>,\n"
                   "    <a href=\"/api/v1/programs\">programs</a>, <a href=\"/api/v1/jobs\">jobs</a></li>\n"
                   "<li><a href=\"/metrics\">metrics</a>, <a href=\"/v2/health/ready\">health</a></li>\n</ul>\n</html>\n",
                   BL_VERSION);
    bl_request_reply(rq, 200, "text/html; charset=utf-8");
    return BL_OK;
}
