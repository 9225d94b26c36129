/* SPDX-License-Identifier: MIT */
/* `beamline models`, `load` and `unload`. */
#include "server/command/command.h"

#include "server/command/terminal.h"

#include <stdio.h>
#include <string.h>

static bl_status print_models(const cJSON *answer, bl_err *err)
{
    bl_table table = {.heads = {"model", "version", "state", "reason"}};
    for (const cJSON *row = bl_answer_first(answer); row != NULL; row = row->next) {
        static const char *const members[] = {"name", "version", "state", "reason"};
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
            bl_table_add(&table, bl_answer_text(row, members[i]));
    }
    return bl_table_end(&table, err);
}

/* Print each name once: the versions of a model are adjacent. */
static void print_names(const cJSON *answer)
{
    const char *before = "";
    for (const cJSON *row = bl_answer_first(answer); row != NULL; row = row->next) {
        const char *name = bl_answer_text(row, "name");
        if (strcmp(name, before) != 0)
            (void)bl_terminal_print_line(name);
        before = name;
    }
}

bl_status bl_command_models(bl_call *call, bl_err *err)
{
    bl_ask_request request = {.path = "/v2/repository/index", .body = BL_S("{}"), .seconds = BL_ASK_SECONDS};
    cJSON *answer = NULL;
    bl_status st = BL_OK;
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &answer, err));
    if (bl_call_has(call, "quiet"))
        print_names(answer);
    else
        st = print_models(answer, err);
    cJSON_Delete(answer);
    return st;
}

static bl_status change_model(bl_call *call, const char *verb, bl_err *err)
{
    bl_text path = {0}, end = {0}, out = {0};
    bl_ask_request request = {.body = BL_S("{}")};
    bool told = false;
    bl_text_printf(&end, "/%s", verb);
    bl_ask_path(&path, "/v2/repository/models/", call->operands[0], bl_text_get(&end));
    request.path = bl_text_get(&path);
    bl_status st = bl_call_ask(call, &request, &told, err);
    if (st == BL_OK && !told) {
        bl_text_put_safe(&out, call->operands[0]);
        bl_text_printf(&out, " is %sed\n", verb);
        (void)bl_terminal_print(&out);
    }
    bl_text_fini(&path);
    bl_text_fini(&end);
    bl_text_fini(&out);
    return st;
}

bl_status bl_command_load(bl_call *call, bl_err *err)
{
    return change_model(call, "load", err);
}

bl_status bl_command_unload(bl_call *call, bl_err *err)
{
    return change_model(call, "unload", err);
}
