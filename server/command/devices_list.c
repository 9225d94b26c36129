/* SPDX-License-Identifier: MIT */
/* `beamline serve`, `version`, and `devices`: lists the devices of this machine or of a running server, and drains or resumes a
 * device of a server. */
#include "server/command/command.h"

#include "engine/device/device.h"
#include "server/command/terminal.h"
#include "server/ops/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bl_status bl_command_serve(bl_call *call, bl_err *err)
{
    return bl_server_main(call->nsettings, call->settings) == EXIT_SUCCESS ? BL_OK : bl_fail(err, BL_EINVAL, "%s", "");
}

bl_status bl_command_version(bl_call *call, bl_err *err)
{
    (void)call;
    (void)err;
    printf("beamline %s\n", BL_VERSION);
    return BL_OK;
}

/* ---- this machine */

static bl_status list_here(const bl_call *call, bl_err *err)
{
    bl_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the list of devices");
    server->plans = bl_plans_create(1, 0);
    bl_status st = server->plans != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the list of devices");
    if (st == BL_OK)
        st = bl_settings_load(&server->settings, call->nsettings, call->settings, err);
    if (st == BL_OK)
        st = bl_workers_start(server, err);
    for (uint32_t i = 0; st == BL_OK && i < server->nworkers; i++)
        printf("%-12s %s (%s)%s\n", server->workers[i].dev->info.id, server->workers[i].dev->info.name,
               server->workers[i].dev->info.driver, i == server->default_worker ? ", the default" : "");
    bl_workers_stop(server);
    if (server->plans != NULL)
        bl_plans_destroy(server->plans);
    bl_workers_close(server);
    bl_settings_fini(&server->settings);
    free(server);
    return st;
}

/* ---- a running server */

static bl_status list_there(bl_call *call, bl_err *err)
{
    bl_table table = {.heads = {"device", "name", "driver", "state", ">memory", ">used"}};
    bl_ask_request request = {.path = "/api/v1/devices", .seconds = BL_ASK_SECONDS};
    cJSON *body = NULL;
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &body, err));
    for (const cJSON *row = bl_answer_first(bl_answer_at(body, "devices")); row != NULL; row = row->next) {
        static const char *const sizes[] = {"memory", "memory_used"};
        static const char *const texts[] = {"id", "name", "driver", "state"};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            bl_table_add(&table, bl_answer_text(row, texts[i]));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            bl_text size = {0};
            bl_text_put_bytes(&size, bl_answer_number(row, sizes[i], 0));
            bl_table_add(&table, bl_text_get(&size));
            bl_text_fini(&size);
        }
    }
    cJSON_Delete(body);
    return bl_table_end(&table, err);
}

static bl_status change_device(bl_call *call, bl_err *err)
{
    bl_text path = {0}, end = {0};
    const char *url = call->noperands > 1 ? call->operands[1] : bl_call_text(call, "url");
    bl_ask_request request = {.method = "POST", .seconds = BL_ASK_SECONDS};
    bl_text_printf(&end, "/%s", call->verb);
    bl_ask_path(&path, "/api/v1/devices/", call->operands[0], bl_text_get(&end));
    request.path = bl_text_get(&path);
    bl_status st = bl_ask_open(&call->ask, url, bl_call_text(call, "key-file"), err);
    if (st == BL_OK)
        st = bl_ask_send(&call->ask, &request, err);
    if (st == BL_OK)
        (void)bl_call_print_json(bl_text_get(&call->ask.body));
    bl_text_fini(&path);
    bl_text_fini(&end);
    return st;
}

bl_status bl_command_devices(bl_call *call, bl_err *err)
{
    if (call->verb != NULL)
        return change_device(call, err);
    return bl_call_is_remote(call) ? list_there(call, err) : list_here(call, err);
}
