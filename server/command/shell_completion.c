/* SPDX-License-Identifier: MIT */
/* `beamline completion SHELL`: a completion script for bash, zsh or fish, made from the rows of commands.def. */
#include "server/command/command.h"

#include "server/command/terminal.h"

#include <stdio.h>
#include <string.h>

/* The kind of completion of an argument. */
typedef enum completed { BY_NOTHING, BY_FILES, BY_FOLDERS, BY_MODELS, BY_JOBS, BY_COMMANDS, BY_WORDS } completed;

static completed kind_of(const char *argument)
{
    static const struct {
        const char *word;
        completed by;
    } known[] = {{"FILE", BY_FILES},       {"GRAPH", BY_FILES},    {"PROGRAM", BY_FILES},
                 {"NAME=VALUE", BY_FILES}, {"FOLDER", BY_FOLDERS}, {"MODELS", BY_FOLDERS},
                 {"MODEL", BY_MODELS},     {"ID", BY_JOBS},        {"COMMAND", BY_COMMANDS}};
    size_t len = strcspn(argument, " .]");
    argument += argument[0] == '[';
    len = strcspn(argument, " .]");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].word) == len && memcmp(known[i].word, argument, len) == 0)
            return known[i].by;
    return memchr(argument, '|', len) != NULL ? BY_WORDS : BY_NOTHING;
}

/* Append the flags of the command and, if it takes them, of the server, each after a blank. */
static void put_flags(const bl_command *command, bl_text *out)
{
    const bl_option_row *row = NULL;
    const char *flag = NULL, *argument = NULL;
    for (size_t at = 0; (row = bl_command_option(command, &at)) != NULL;) {
        if (row->letter[0] != '\0')
            bl_text_printf(out, " -%s", row->letter);
        bl_text_printf(out, " --%s", row->flag);
    }
    for (size_t i = 0; (command->takes & BL_COMMAND_SETTINGS) != 0 && (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        bl_text_printf(out, " --%s", flag);
    bl_text_puts(out, " --help");
}

static void put_commands(bl_text *out)
{
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        bl_text_printf(out, "%s%s", i > 0 ? " " : "", bl_command_at(i)->name);
}

/* Append the verbs, or the words of a list "a|b". */
static void shell_completion_put_words(const bl_command *command, bl_text *out)
{
    const bl_verb_row *row = NULL;
    for (size_t at = 0; (row = bl_command_verb(command, &at)) != NULL;)
        bl_text_printf(out, " %s", row->verb);
    if (kind_of(command->arguments) == BY_WORDS)
        for (const char *p = command->arguments; *p != '\0'; p++)
            bl_text_putc(out, *p == '|' ? ' ' : *p);
}

/* ---- bash */

static const char *bash_action(completed by)
{
    switch (by) {
    case BY_FOLDERS:
        return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    case BY_MODELS:
        return "COMPREPLY=($(compgen -W \"$(beamline models -q 2>/dev/null)\" -- \"$cur\"))";
    case BY_JOBS:
        return "COMPREPLY=($(compgen -W \"$(beamline jobs -q 2>/dev/null)\" -- \"$cur\"))";
    case BY_COMMANDS:
        return "COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))";
    case BY_NOTHING:
    case BY_FILES: /* with an empty reply bash completes files itself */
    case BY_WORDS:
        break;
    }
    return ":";
}

/* After an option that takes a value, complete the value. */
static void put_bash_values(const bl_command *command, bl_text *out)
{
    const bl_option_row *row = NULL;
    const char *flag = NULL, *argument = NULL;
    for (size_t at = 0; (row = bl_command_option(command, &at)) != NULL;)
        if (row->kind != BL_SETTING_SWITCH)
            bl_text_printf(out, "    %s:--%s) %s; return ;;\n", command->name, row->flag, bash_action(kind_of(row->argument)));
    for (size_t i = 0; (command->takes & BL_COMMAND_SETTINGS) != 0 && (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        if (argument[0] != '\0')
            bl_text_printf(out, "    %s:--%s) %s; return ;;\n", command->name, flag, bash_action(kind_of(argument)));
}

static void put_bash(bl_text *out)
{
    bl_text_puts(
        out, "# Completion of beamline for bash, made by `beamline completion bash`.\n"
             "_beamline() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags= words=\n"
             "    local commands=\"");
    put_commands(out);
    bl_text_puts(out, "\"\n    COMPREPLY=()\n"
                      "    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\")); return; fi\n"
                      "    case $command:$prev in\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        put_bash_values(bl_command_at(i), out);
    bl_text_puts(out, "    esac\n    case $command in\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++) {
        const bl_command *command = bl_command_at(i);
        bl_text_printf(out, "    %s) flags=\"", command->name);
        put_flags(command, out);
        bl_text_puts(out, "\" words=\"");
        shell_completion_put_words(command, out);
        bl_text_puts(out, "\" ;;\n");
    }
    bl_text_puts(out, "    esac\n"
                      "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")); return; fi\n"
                      "    if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return; fi\n"
                      "    case $command in\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        bl_text_printf(out, "    %s) %s ;;\n", bl_command_at(i)->name, bash_action(kind_of(bl_command_at(i)->arguments)));
    bl_text_puts(out, "    esac\n}\ncomplete -o default -F _beamline beamline\n");
}

/* ---- zsh */

/* Append |text| for use within single quotes, with characters that are special in _arguments escaped. */
static void put_zsh_text(const char *text, bl_text *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            bl_text_puts(out, "'\\'");
        else if (strchr("[]:\\", *text) != NULL)
            bl_text_putc(out, '\\');
        bl_text_putc(out, *text);
    }
}

static const char *zsh_action(completed by)
{
    switch (by) {
    case BY_FILES:
        return "_files";
    case BY_FOLDERS:
        return "_files -/";
    case BY_MODELS:
        return "compadd -- ${(f)\"$(beamline models -q 2>/dev/null)\"}";
    case BY_JOBS:
        return "compadd -- ${(f)\"$(beamline jobs -q 2>/dev/null)\"}";
    case BY_COMMANDS:
        return "compadd -- ${commands%%\\:*}";
    case BY_NOTHING:
    case BY_WORDS:
        break;
    }
    return " ";
}

static void put_zsh_option(const char *letter, const char *flag, const char *argument, const char *doc, bl_text *out)
{
    for (int i = letter[0] == '\0'; i < 2; i++) {
        bl_text_printf(out, " \\\n            '*%s%s[", i == 0 ? "-" : "--", i == 0 ? letter : flag);
        put_zsh_text(doc, out);
        bl_text_puts(out, "]");
        if (argument[0] != '\0') {
            bl_text_puts(out, ":");
            put_zsh_text(argument, out);
            bl_text_printf(out, ":%s", zsh_action(kind_of(argument)));
        }
        bl_text_puts(out, "'");
    }
}

static void put_zsh_command(const bl_command *command, bl_text *out)
{
    const bl_option_row *row = NULL;
    const char *flag = NULL, *argument = NULL;
    bl_text words = {0};
    shell_completion_put_words(command, &words);
    bl_text_printf(out, "    %s)\n        _arguments '1: :'", command->name);
    for (size_t at = 0; (row = bl_command_option(command, &at)) != NULL;)
        put_zsh_option(row->letter, row->flag, row->argument, row->doc, out);
    for (size_t i = 0; (command->takes & BL_COMMAND_SETTINGS) != 0 && (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        put_zsh_option("", flag, argument, "an option of the server", out);
    if (words.len > 0)
        bl_text_printf(out, " \\\n            '2: :(%s)'", words.data + 1 - (words.data[0] != ' '));
    else if (command->arguments[0] != '\0')
        bl_text_printf(out, " \\\n            '*: :%s'", zsh_action(kind_of(command->arguments)));
    bl_text_puts(out, "\n        ;;\n");
    bl_text_fini(&words);
}

static void put_zsh(bl_text *out)
{
    bl_text_puts(out, "#compdef beamline\n# Completion of beamline for zsh, made by `beamline completion zsh`.\n"
                      "local -a commands\ncommands=(\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++) {
        bl_text_printf(out, "    '%s:", bl_command_at(i)->name);
        put_zsh_text(bl_command_at(i)->doc, out);
        bl_text_puts(out, "'\n");
    }
    bl_text_puts(out, ")\nif ((CURRENT == 2)); then\n    _describe command commands\n    return\nfi\ncase $words[2] in\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        put_zsh_command(bl_command_at(i), out);
    bl_text_puts(out, "esac\n");
}

/* ---- fish */

static void put_fish_text(const char *text, bl_text *out)
{
    bl_text_putc(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            bl_text_putc(out, '\\');
        bl_text_putc(out, *text);
    }
    bl_text_putc(out, '\'');
}

static const char *fish_action(completed by)
{
    switch (by) {
    case BY_FILES:
        return " -F";
    case BY_FOLDERS:
        return " -a '(__fish_complete_directories)'";
    case BY_MODELS:
        return " -a '(beamline models -q 2>/dev/null)'";
    case BY_JOBS:
        return " -a '(beamline jobs -q 2>/dev/null)'";
    case BY_COMMANDS:
    case BY_NOTHING:
    case BY_WORDS:
        break;
    }
    return "";
}

static void put_fish_option(const bl_command *command, const char *letter, const char *flag, const char *argument,
                            const char *doc, bl_text *out)
{
    bl_text_printf(out, "complete -c beamline -n '__fish_seen_subcommand_from %s'", command->name);
    if (letter[0] != '\0')
        bl_text_printf(out, " -s %s", letter);
    bl_text_printf(out, " -l %s%s%s -d ", flag, argument[0] != '\0' ? " -x" : "", fish_action(kind_of(argument)));
    put_fish_text(doc, out);
    bl_text_puts(out, "\n");
}

static void put_fish_command(const bl_command *command, bl_text *out)
{
    const bl_option_row *row = NULL;
    const char *flag = NULL, *argument = NULL;
    bl_text words = {0};
    shell_completion_put_words(command, &words);
    bl_text_printf(out, "complete -c beamline -n __fish_use_subcommand -a %s -d ", command->name);
    put_fish_text(command->doc, out);
    bl_text_puts(out, "\n");
    if (words.len > 0)
        bl_text_printf(out, "complete -c beamline -n '__fish_seen_subcommand_from %s' -a '%s'\n", command->name, words.data);
    else if (fish_action(kind_of(command->arguments))[0] != '\0')
        bl_text_printf(out, "complete -c beamline -n '__fish_seen_subcommand_from %s'%s\n", command->name,
                       fish_action(kind_of(command->arguments)));
    for (size_t at = 0; (row = bl_command_option(command, &at)) != NULL;)
        put_fish_option(command, row->letter, row->flag, row->argument, row->doc, out);
    for (size_t i = 0; (command->takes & BL_COMMAND_SETTINGS) != 0 && (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        put_fish_option(command, "", flag, argument, "an option of the server", out);
    bl_text_fini(&words);
}

static void put_fish(bl_text *out)
{
    bl_text_puts(out, "# Completion of beamline for fish, made by `beamline completion fish`.\ncomplete -c beamline -f\n");
    for (size_t i = 0; bl_command_at(i) != NULL; i++)
        put_fish_command(bl_command_at(i), out);
}

bl_status bl_command_completion(bl_call *call, bl_err *err)
{
    static const struct {
        const char *name;
        void (*put)(bl_text *out);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    bl_text out = {0};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(call->operands[0], shells[i].name) == 0)
            shells[i].put(&out);
    if (out.len == 0 && !out.failed)
        return bl_call_misuse(call, err, "the shell is \"%.40s\"; it must be bash, zsh or fish", call->operands[0]);
    bool whole = bl_terminal_print(&out);
    bl_text_fini(&out);
    return whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}
