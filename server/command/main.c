/* SPDX-License-Identifier: MIT */
/* The program `beamline`: dispatch of commands, and exit status. */
#include "server/command/command.h"

#include "engine/base/near.h"
#include "server/command/terminal.h"
#include "server/ops/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- requests to a server */

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
    return bl_call_print_json(bl_text_get(&call->ask.body)) ? BL_OK
                                                            : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}

bool bl_call_print_json(const char *document)
{
    bl_text out = {0};
    if (isatty(STDOUT_FILENO))
        bl_text_put_words(&out, document);
    else
        bl_text_puts(&out, document);
    bl_text_puts(&out, out.len == 0 || bl_text_last(&out) == '\n' ? "" : "\n");
    bool whole = bl_terminal_print(&out);
    bl_text_fini(&out);
    return whole;
}

/* ---- the command */

void bl_call_tell(const bl_err *err)
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
    static bl_call call; /* static because it is large; there is one per process */
    bl_err err = {0};
    int status = BL_EXIT_DONE;
    call.command = command;
    bl_status st = bl_call_parse(&call, argc, argv, &err);
    if (st == BL_OK && call.helps)
        bl_command_print_help(command);
    else if (st == BL_OK)
        st = command->run(&call, &err);
    if (st != BL_OK) {
        bl_call_tell(&err);
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
    bl_call_tell(&err);
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
    if (strcmp(name, "child") == 0) /* only the server starts a child process */
        bl_child_main(argc - 2, argv + 2);
    command = bl_command_find(name);
    return command != NULL ? run_command(command, argc > 2 ? argc - 2 : 0, argv + 2) : refuse_name(name);
}
