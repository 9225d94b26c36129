/* SPDX-License-Identifier: MIT */
/* Parsing of the command line by the rows of commands.def. */
#include "server/command/command.h"

#include "engine/base/near.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bl_status bl_call_misuse(bl_call *call, bl_err *err, const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    call->misused = true;
    return bl_fail(err, BL_EINVAL, "%s%s%s: %s; see beamline %s --help", call->command->name, call->verb != NULL ? " " : "",
                   call->verb != NULL ? call->verb : "", text, call->command->name);
}

/* ---- options */

static bool is_setting(const bl_call *call, const char *name, size_t len, bool *is_switch)
{
    const char *argument = NULL, *flag = NULL;
    if ((call->command->takes & BL_COMMAND_SETTINGS) == 0)
        return false;
    for (size_t i = 0; (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        if (strlen(flag) == len && memcmp(flag, name, len) == 0) {
            *is_switch = *argument == '\0';
            return true;
        }
    return false;
}

static const bl_option_row *find_option(const bl_command *command, const char *name, size_t len, bool letter)
{
    const bl_option_row *row = NULL;
    for (size_t at = 0; (row = bl_command_option(command, &at)) != NULL;) {
        const char *known = letter ? row->letter : row->flag;
        if (strlen(known) == len && memcmp(known, name, len) == 0)
            return row;
    }
    return NULL;
}

static bl_status refuse_option(bl_call *call, const char *word, const char *name, size_t len, bl_err *err)
{
    const bl_option_row *row = NULL;
    const char *flag = NULL, *argument = NULL;
    bl_near near;
    bl_near_init(&near, (bl_span){name, len});
    for (size_t at = 0; (row = bl_command_option(call->command, &at)) != NULL;)
        bl_near_offer(&near, (bl_span){row->flag, strlen(row->flag)});
    for (size_t i = 0; (call->command->takes & BL_COMMAND_SETTINGS) != 0 && (flag = bl_settings_flag(i, &argument)) != NULL; i++)
        bl_near_offer(&near, (bl_span){flag, strlen(flag)});
    call->misused = true;
    return bl_fail(err, BL_EINVAL, "%s: unknown option \"%.100s\"; beamline %s --help lists the options%s", call->command->name,
                   word, call->command->name, bl_near_hint(&near));
}

static bl_status keep_setting(bl_call *call, char *word, char *value, bl_err *err)
{
    if (call->nsettings + 2 > BL_CALL_OPTIONS)
        return bl_call_misuse(call, err, "too many options");
    call->settings[call->nsettings++] = word;
    if (value != NULL)
        call->settings[call->nsettings++] = value;
    return BL_OK;
}

static bl_status keep_option(bl_call *call, const bl_option_row *row, const char *word, const char *value, bl_err *err)
{
    bl_call_option *option = &call->options[call->noptions];
    if (call->noptions == BL_CALL_OPTIONS)
        return bl_call_misuse(call, err, "too many options");
    *option = (bl_call_option){.row = row, .text = value};
    call->noptions++;
    if (row->kind == BL_SETTING_TEXT || row->kind == BL_SETTING_SWITCH)
        return BL_OK;
    call->misused = true;
    BL_TRY(bl_setting_number(row->kind, row->least, row->most, value, word, &option->number, err));
    call->misused = false;
    return BL_OK;
}

/* Parse "--flag", "--flag=value", "--flag value", "-c 8" or "-c8" at argv[*at]; *at becomes the index of its last word. */
static bl_status take_option(bl_call *call, int argc, char *const *argv, int *at, bl_err *err)
{
    char *word = argv[*at], *name = word + 1, *value = NULL;
    bool letter = word[1] != '-', is_switch = false, given = false;
    size_t len = letter ? 1 : strcspn(++name, "=");
    const bl_option_row *row = find_option(call->command, name, len, letter);
    bool setting = row == NULL && !letter && is_setting(call, name, len, &is_switch);
    if (row == NULL && !setting)
        return refuse_option(call, word, name, len, err);
    is_switch = row != NULL ? row->kind == BL_SETTING_SWITCH : is_switch;
    given = name[len] != '\0';
    if (given && is_switch && row != NULL)
        return bl_call_misuse(call, err, "option \"%.*s\" takes no value", (int)(name + len - word), word);
    if (given)
        value = name + len + (name[len] == '=');
    else if (!is_switch && *at + 1 < argc)
        value = argv[++*at];
    if (value == NULL && !is_switch)
        return bl_call_misuse(call, err, "option \"%.100s\" needs a value", word);
    return row != NULL ? keep_option(call, row, word, value, err) : keep_setting(call, word, given ? NULL : value, err);
}

/* ---- operands */

/* The number of operands that "NAME [URL]" or "FILE..." allows. */
static void count_operands(const char *arguments, int *least, int *most)
{
    *least = *most = 0;
    for (const char *p = arguments; *p != '\0';) {
        size_t len = strcspn(p, " ");
        ++*most;
        *least += *p != '[';
        if (len > 3 && memcmp(p + len - 3, "...", 3) == 0)
            *most = BL_CALL_OPERANDS;
        p += len + strspn(p + len, " ");
    }
}

static bl_status arguments_check_operands(bl_call *call, const char *arguments, bl_err *err)
{
    bl_text usage = {0};
    int least = 0, most = 0;
    count_operands(arguments, &least, &most);
    if (call->noperands >= least && call->noperands <= most)
        return BL_OK;
    bl_command_usage_line(call->command, &usage);
    call->misused = true;
    if (call->noperands > most)
        (void)bl_fail(err, BL_EINVAL, "unexpected argument \"%.100s\"; the command is %s", call->operands[most],
                      bl_text_get(&usage));
    else
        (void)bl_fail(err, BL_EINVAL, "an argument is missing; the command is %s", bl_text_get(&usage));
    bl_text_fini(&usage);
    return err->status;
}

/* If the command has verbs, the first operand is the verb; the verb's operands follow. */
static bl_status take_verb(bl_call *call, const char **arguments, bl_err *err)
{
    const bl_verb_row *row = NULL;
    bool any = false;
    *arguments = call->command->arguments;
    for (size_t at = 0; (row = bl_command_verb(call->command, &at)) != NULL; any = true) {
        if (call->noperands == 0 || strcmp(call->operands[0], row->verb) != 0)
            continue;
        call->verb = row->verb;
        call->noperands--;
        memmove(call->operands, call->operands + 1, (size_t)call->noperands * sizeof call->operands[0]);
        *arguments = row->arguments;
        return BL_OK;
    }
    if (any && (call->noperands > 0 || (call->command->takes & BL_COMMAND_MUST) != 0)) {
        bl_text usage = {0};
        bl_command_usage_line(call->command, &usage);
        call->misused = true;
        (void)bl_fail(err, BL_EINVAL, "%s%.60s%s the command is %s",
                      call->noperands > 0 ? "no verb is \"" : "a verb is missing:", call->noperands > 0 ? call->operands[0] : "",
                      call->noperands > 0 ? "\":" : "", bl_text_get(&usage));
        bl_text_fini(&usage);
        return err->status;
    }
    return BL_OK;
}

bl_status bl_call_parse(bl_call *call, int argc, char *const *argv, bl_err *err)
{
    const char *arguments = NULL;
    bool ended = false; /* "--" has ended the options */
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!ended && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            call->helps = true;
            return BL_OK;
        }
        if (!ended && strcmp(word, "--") == 0)
            ended = true;
        else if (!ended && word[0] == '-' && word[1] != '\0')
            BL_TRY(take_option(call, argc, argv, &i, err));
        else if (call->noperands == BL_CALL_OPERANDS)
            return bl_call_misuse(call, err, "too many arguments");
        else
            call->operands[call->noperands++] = word;
    }
    BL_TRY(take_verb(call, &arguments, err));
    return arguments_check_operands(call, arguments, err);
}

/* ---- reading options */

static const bl_call_option *last_option(const bl_call *call, const char *flag)
{
    BL_ASSERT(find_option(call->command, flag, strlen(flag), false) != NULL);
    for (int i = call->noptions - 1; i >= 0; i--)
        if (strcmp(call->options[i].row->flag, flag) == 0)
            return &call->options[i];
    return NULL;
}

const char *bl_call_text(const bl_call *call, const char *flag)
{
    const bl_call_option *option = last_option(call, flag);
    return option != NULL ? option->text : NULL;
}

double bl_call_number(const bl_call *call, const char *flag, double usual)
{
    const bl_call_option *option = last_option(call, flag);
    return option != NULL ? option->number : usual;
}

bool bl_call_has(const bl_call *call, const char *flag)
{
    return last_option(call, flag) != NULL;
}

const char *bl_call_next(const bl_call *call, const char *flag, int *at)
{
    while (*at < call->noptions) {
        const bl_call_option *option = &call->options[(*at)++];
        if (strcmp(option->row->flag, flag) == 0)
            return option->text;
    }
    return NULL;
}

bool bl_call_is_remote(const bl_call *call)
{
    return bl_call_has(call, "url") || bl_call_has(call, "key-file") || bl_call_has(call, "json");
}
