/* SPDX-License-Identifier: MIT */
/* Help and the manual page, generated from the rows of commands.def and settings.def. */
#include "server/command/command.h"

#include "server/command/terminal.h"
#include "server/ops/server.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bl_status help_print_text(bl_text *text, bl_err *err)
{
    bool whole = bl_terminal_print(text);
    bl_text_fini(text);
    return whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}

/* ---- help */

static bool has_options(const bl_command *command)
{
    size_t at = 0;
    return (command->takes & BL_COMMAND_SETTINGS) != 0 || bl_command_option(command, &at) != NULL;
}

/* Append "list | show KEY", or the arguments if there are no verbs; in brackets if the verb is optional. */
static void put_arguments(const bl_command *command, bl_text *out)
{
    const bl_verb_row *row = NULL;
    bool must = (command->takes & BL_COMMAND_MUST) != 0, any = false;
    for (size_t at = 0; (row = bl_command_verb(command, &at)) != NULL; any = true)
        bl_text_printf(out, "%s%s%s%s",
                       any    ? " | "
                       : must ? " "
                              : " [",
                       row->verb, row->arguments[0] != '\0' ? " " : "", row->arguments);
    if (any && !must)
        bl_text_puts(out, "]");
    if (command->arguments[0] != '\0')
        bl_text_printf(out, " %s", command->arguments);
}

void bl_command_usage_line(const bl_command *command, bl_text *out)
{
    bl_text_printf(out, "beamline %s", command->name);
    put_arguments(command, out);
    bl_text_puts(out, has_options(command) ? " [options]" : "");
}

static void put_settings(bl_text *out)
{
    bl_text_puts(out, "Options, each also BEAMLINE_OPTION in the environment and `option = value` in the file of --config:\n");
    bl_settings_help(out);
}

static void put_option(const bl_option_row *row, bl_text *out)
{
    char left[80];
    (void)snprintf(left, sizeof left, "%s%s%s--%s%s%s", row->letter[0] != '\0' ? "-" : "", row->letter,
                   row->letter[0] != '\0' ? ", " : "", row->flag, row->argument[0] != '\0' ? " " : "", row->argument);
    bl_text_printf(out, "  %-26s %s\n", left, row->doc);
}

static void put_help(const bl_command *command, bl_text *out)
{
    const bl_verb_row *verb = NULL;
    const bl_option_row *option = NULL;
    char left[80];
    size_t from = 0;
    bl_command_usage_line(command, out);
    bl_text_printf(out, "\n\n%s.\n%s", command->doc, command->more);
    for (size_t at = 0; (verb = bl_command_verb(command, &at)) != NULL; from = at) {
        (void)snprintf(left, sizeof left, "%s %s", verb->verb, verb->arguments);
        bl_text_printf(out, "%s  %-26s %s\n", from == 0 ? "\n" : "", left, verb->doc);
    }
    from = 0;
    for (size_t at = 0; (option = bl_command_option(command, &at)) != NULL; from = at) {
        bl_text_puts(out, from == 0 ? "\n" : "");
        put_option(option, out);
    }
    if ((command->takes & BL_COMMAND_LISTS) != 0) {
        bl_text_puts(out, "\n");
        put_settings(out);
    } else if ((command->takes & BL_COMMAND_SETTINGS) != 0) {
        bl_text_puts(out,
                     "\nIt takes the options of the server too, such as --state FOLDER: beamline serve --help lists them.\n");
    }
}

void bl_command_print_help(const bl_command *command)
{
    bl_text out = {0};
    bl_err err = {0};
    put_help(command, &out);
    (void)help_print_text(&out, &err);
}

bl_status bl_command_help(bl_call *call, bl_err *err)
{
    bl_text out = {0};
    if (call->noperands > 0) {
        const bl_command *command = bl_command_find(call->operands[0]);
        if (command == NULL)
            return bl_call_misuse(call, err, "unknown command \"%.60s\"", call->operands[0]);
        put_help(command, &out);
        return help_print_text(&out, err);
    }
    bl_text_puts(&out, "beamline: POST a tensor graph to this machine's accelerators\n\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++) {
        const bl_command *command = bl_command_at(i);
        bl_text_puts(&out, "  ");
        bl_command_usage_line(command, &out);
        bl_text_printf(&out, "\n        %s\n", command->doc);
    }
    bl_text_puts(&out, "\nExit status: 0 done, 1 the server refused or the command failed, 2 the command line is wrong, 3 no "
                       "server answered.\n\n");
    put_settings(&out);
    return help_print_text(&out, err);
}

/* ---- the manual page */

/* Words in capitals are italic, the others bold. */
static void put_man_words(const char *text, bl_text *out)
{
    while (*text != '\0') {
        size_t len = strcspn(text, " []|");
        bool italic = len > 0 && isupper((unsigned char)text[0]);
        if (len > 0) {
            char word[64];
            (void)snprintf(word, sizeof word, "%.*s", (int)len, text);
            bl_text_puts(out, italic ? "\\fI" : "\\fB");
            bl_man_put(out, word);
            bl_text_puts(out, "\\fR");
            text += len;
        } else {
            bl_text_putc(out, *text++);
        }
    }
}

static void put_man_option(const bl_option_row *row, bl_text *out)
{
    bl_text_puts(out, ".TP\n");
    if (row->letter[0] != '\0')
        bl_text_printf(out, "\\fB\\-%s\\fR, ", row->letter);
    bl_text_puts(out, "\\fB\\-\\-");
    bl_man_put(out, row->flag);
    bl_text_printf(out, "\\fR%s\\fI%s\\fR\n", row->argument[0] != '\0' ? " " : "", row->argument);
    bl_man_put(out, row->doc);
    bl_text_puts(out, ".\n");
}

static void put_man_command(const bl_command *command, bl_text *out)
{
    const bl_verb_row *verb = NULL;
    const bl_option_row *option = NULL;
    bl_text usage = {0};
    bl_command_usage_line(command, &usage);
    bl_text_puts(out, ".SS ");
    put_man_words(bl_text_get(&usage), out);
    bl_text_fini(&usage);
    bl_text_puts(out, "\n");
    bl_man_put(out, command->doc);
    bl_text_puts(out, ".\n");
    bl_man_put(out, command->more);
    for (size_t at = 0; (verb = bl_command_verb(command, &at)) != NULL;) {
        bl_text_printf(out, ".TP\n\\fB%s\\fR ", verb->verb);
        put_man_words(verb->arguments, out);
        bl_text_puts(out, "\n");
        bl_man_put(out, verb->doc);
        bl_text_puts(out, ".\n");
    }
    for (size_t at = 0; (option = bl_command_option(command, &at)) != NULL;)
        put_man_option(option, out);
}

static void put_man_ends(bl_text *out)
{
    bl_text_puts(
        out, ".SH ENVIRONMENT\nBeside the variables of the options:\n"
             ".TP\n.BR BEAMLINE_CACHE \", else \" XDG_CACHE_HOME \", \" HOME\nwhere the folder of compiled kernels is.\n"
             ".TP\n.BR STATE_DIRECTORY \", else \" XDG_STATE_HOME \", \" HOME\nwhere the folder of \\-\\-state is by default.\n"
             ".TP\n.B TMPDIR\nwhere files lie that are never named, instead of /tmp.\n"
             ".TP\n.BR BEAMLINE_URL \", \" BEAMLINE_KEY \", \" SSL_CERT_FILE\nof the commands that ask a running server: its "
             "address, a key, and the certificate to trust.\n"
             ".TP\n.BR HF_ENDPOINT \", \" HF_TOKEN\nof pull: the hub, and a token for it.\n"
             ".TP\n.B BEAMLINE_INTERP_DEVICES\nhow many interpreters there are (1).\n"
             ".TP\n.B BEAMLINE_VULKAN_STAGING\n2: copies and kernels on queues of their own, on one that Vulkan has, to try that "
             "out.\n");
    bl_text_puts(out, ".SH EXIT STATUS\n0 when the command is done, or the server has obeyed a signal; 130 where a second signal "
                      "cut that short;\n1 where a server refused, or the command failed, or the server could not start;\n2 where "
                      "the command line is wrong; 3 where no server answered.\n"
                      ".SH SEE ALSO\n.BR curl (1),\nthe description of the API at\n.IR /openapi.json .\n");
}

bl_status bl_command_man(bl_call *call, bl_err *err)
{
    bl_text out = {0};
    (void)call;
    bl_text_puts(&out, ".\\\" Made by `beamline man` from server/command/commands.def and server/ops/settings.def.\n"
                       ".TH BEAMLINE 1 \"\" \"beamline " BL_VERSION "\" \"User Commands\"\n"
                       ".SH NAME\nbeamline \\- run tensor graphs on this machine's accelerators over HTTP\n"
                       ".SH SYNOPSIS\n.B beamline\n.I COMMAND\n.RI [ arguments ] \" \" [ options ]\n");
    bl_text_puts(&out,
                 ".SH DESCRIPTION\nThe server takes tensor graphs as JSON, compiles them for OpenCL or Vulkan devices, runs them "
                 "and answers with tensors; the other commands ask a server that runs, or look at this machine.\n"
                 "After the start it prints one line,\n.IR \"listening on ADDRESS:PORT\" .\n"
                 "SIGTERM or SIGINT make it answer what it has accepted and end; a second one ends it at once.\n"
                 "SIGHUP makes it read its settings again: those of the log, \\-\\-grace and \\-\\-drain\\-delay are then in "
                 "force, and the log tells which others have changed; keys, the folder of models and the certificate are read "
                 "again too.\n");
    bl_text_puts(&out, ".SH COMMANDS\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        put_man_command(bl_command_at(i), &out);
    bl_text_puts(&out, ".SH OPTIONS OF THE SERVER\nA flag of the command line goes before the environment, that before the "
                       "configuration file, and that before the default.\n"
                       "A switch is on where its flag stands alone.\n");
    bl_settings_man(&out);
    put_man_ends(&out);
    return help_print_text(&out, err);
}
