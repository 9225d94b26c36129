/* SPDX-License-Identifier: MIT */
/* The rows of commands.def. */
#include "server/command/command.h"

#include <string.h>

#define BL_COMMAND(name, handler, takes, arguments, doc, more)
#define BL_VERB(command, verb, arguments, doc)
#define BL_OPTION(command, flag, letter, kind, least, most, argument, doc)

/* commands.def calls a number with fractions NUMBER; settings call the same kind SECONDS. */
enum { BL_SETTING_NUMBER = BL_SETTING_SECONDS };

static const bl_command commands[] = {
#undef BL_COMMAND
#define BL_COMMAND(name, handler, takes, arguments, doc, more) {name, handler, takes, arguments, doc, more},
#include "server/command/commands.def"
#undef BL_COMMAND
#define BL_COMMAND(name, handler, takes, arguments, doc, more)
};

static const bl_verb_row verbs[] = {
#undef BL_VERB
#define BL_VERB(command, verb, arguments, doc) {command, verb, arguments, doc},
#include "server/command/commands.def"
#undef BL_VERB
#define BL_VERB(command, verb, arguments, doc)
};

static const bl_option_row options[] = {
#undef BL_OPTION
#define BL_OPTION(command, flag, letter, kind, least, most, argument, doc)                                                       \
    {command, flag, letter, (bl_setting_kind)BL_SETTING_##kind, least, most, argument, doc},
#include "server/command/commands.def"
#undef BL_OPTION
};

enum {
    COMMANDS = sizeof commands / sizeof commands[0],
    VERBS = sizeof verbs / sizeof verbs[0],
    OPTIONS = sizeof options / sizeof options[0]
};

const bl_command *bl_command_at(size_t i)
{
    return i < COMMANDS ? &commands[i] : NULL;
}

const bl_command *bl_command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

const bl_verb_row *bl_command_verb(const bl_command *command, size_t *at)
{
    while (*at < VERBS) {
        const bl_verb_row *row = &verbs[(*at)++];
        if (strcmp(row->command, command->name) == 0)
            return row;
    }
    return NULL;
}

static bool command_rows_is_of(const bl_option_row *row, const bl_command *command)
{
    if (strcmp(row->command, "ASKS") == 0)
        return (command->takes & BL_COMMAND_ASKS) != 0;
    if (strcmp(row->command, "ANSWERS") == 0)
        return (command->takes & BL_COMMAND_ANSWERS) != 0;
    return strcmp(row->command, command->name) == 0;
}

/* The options of a command itself come before the shared options. The shared options are first in the table, so the table is
 * walked twice. */
const bl_option_row *bl_command_option(const bl_command *command, size_t *at)
{
    while (*at < (size_t)2 * OPTIONS) {
        size_t i = (*at)++;
        const bl_option_row *row = &options[i % OPTIONS];
        bool own = strcmp(row->command, command->name) == 0;
        if (own == (i < OPTIONS) && command_rows_is_of(row, command))
            return row;
    }
    return NULL;
}
