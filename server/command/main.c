/* SPDX-License-Identifier: MIT */
/* The program `beamline`: which command is called, and what the process ends with. */
#include "server/command/command.h"

#include "engine/base/near.h"
#include "server/command/terminal.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the server that a command asks */

bl_status bl_call_connect(bl_call *call, bl_err *err)
{
    return bl_ask_open(&call->ask, bl_call_text(call, "url"), bl_call_text(call, "key-file"), err);
}

bl_status bl_call_ask(bl_call *call, const bl_ask_request *request, bool *told, bl_err *err)
{
    *told = false;
    if (call->ask.url == NULL)
        BL_TRY(bl_call_connect(call, err));
    BL_TRY(bl_ask_send(&call->ask, request, err));
    if (!bl_call_has(call, "json"))
        return BL_OK;
    *told = true;
    bl_text_puts(&call->ask.body, bl_text_last(&call->ask.body) == '\n' ? "" : "\n");
    return bl_terminal_print(&call->ask.body) ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}

/* ---- the command */

/* What went wrong, and the node that is to blame, on standard error. */
static void tell_failure(const bl_err *err)
{
    bl_text out = {0};
    if (err->text[0] == '\0')
        return;
    bl_text_puts(&out, "beamline: ");
    bl_text_put_safe(&out, err->text);
    if (err->node[0] != '\0' && strstr(err->text, err->node) == NULL) {
        bl_text_puts(&out, "\n  node: ");
        bl_text_put_safe(&out, err->node);
    }
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s\n", bl_text_get(&out));
    bl_text_fini(&out);
}

static int run_command(const bl_command *command, int argc, char *const *argv)
{
    static bl_call call; /* large, and one per process */
    bl_err err = {0};
    int status = BL_EXIT_DONE;
    call.command = command;
    bl_status st = bl_call_parse(&call, argc, argv, &err);
    if (st == BL_OK && call.helps)
        bl_command_print_help(command);
    else if (st == BL_OK)
        st = command->run(&call, &err);
    if (st != BL_OK) {
        tell_failure(&err);
        status = call.misused ? BL_EXIT_MISUSED : call.ask.silent ? BL_EXIT_SILENT : BL_EXIT_FAILED;
    }
    bl_ask_close(&call.ask);
    return status;
}

static int refuse_name(const char *name)
{
    bl_near near;
    bl_err err = {0};
    bl_near_init(&near, (bl_span){name, strlen(name)});
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        bl_near_offer(&near, (bl_span){bl_command_at(i)->name, strlen(bl_command_at(i)->name)});
    (void)bl_fail(&err, BL_EINVAL, "unknown command \"%.100s\"; beamline help lists the commands%s", name, bl_near_hint(&near));
    tell_failure(&err);
    return BL_EXIT_MISUSED;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    const bl_command *command = NULL;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    if (strcmp(name, "child") == 0) /* only the server starts a child */
        bl_child_main(argc - 2, argv + 2);
    command = bl_command_find(name);
    return command != NULL ? run_command(command, argc > 2 ? argc - 2 : 0, argv + 2) : refuse_name(name);
}
