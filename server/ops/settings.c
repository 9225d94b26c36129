/* SPDX-License-Identifier: MIT */
#include "server/ops/settings.h"

#include "engine/base/near.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting_row {
    const char *flag, *def, *argument, *help;
    size_t offset;
    double least, most;
    bl_setting_kind kind;
} setting_row;

static const setting_row rows[] = {
#define BL_SETTING(field, flag_, kind_, def_, least_, most_, argument_, help_)                                                   \
    {.flag = flag_,                                                                                                              \
     .def = def_,                                                                                                                \
     .argument = argument_,                                                                                                      \
     .help = help_,                                                                                                              \
     .offset = offsetof(bl_settings, field),                                                                                     \
     .least = least_,                                                                                                            \
     .most = most_,                                                                                                              \
     .kind = BL_SETTING_##kind_},
#include "server/ops/settings.def"
#undef BL_SETTING
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0], MAX_LINE = 4096 };

static const setting_row *settings_find_row(const char *flag, size_t len)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].flag) == len && memcmp(rows[i].flag, flag, len) == 0)
            return &rows[i];
    return NULL;
}

/* The hint for an unknown flag; the hint lives as long as |near|. */
static const char *near_flag(bl_near *near, const char *flag, size_t len)
{
    bl_near_init(near, (bl_span){flag, len});
    for (size_t i = 0; i < ROW_COUNT; i++)
        bl_near_offer(near, (bl_span){rows[i].flag, strlen(rows[i].flag)});
    return bl_near_hint(near);
}

static void env_name(const setting_row *row, char *name, size_t size)
{
    int len = snprintf(name, size, "BEAMLINE_%s", row->flag);
    for (int i = 0; i < len && (size_t)i < size; i++)
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
}

bl_status bl_setting_number(bl_setting_kind kind, double least, double most, const char *text, const char *from, double *out,
                            bl_err *err)
{
    static const char units[] = "kMGT";
    char *end = NULL;
    double value = strtod(text, &end);
    if (end != text && kind == BL_SETTING_BYTES && *end != '\0') {
        const char *unit = strchr(units, *end);
        if (unit != NULL) {
            value = ldexp(value, 10 * (int)(unit - units + 1));
            end++;
        }
    }
    if (end == text || *end != '\0' || !isfinite(value))
        return bl_fail(err, BL_EINVAL, "%s: \"%s\" is not a number", from, text);
    if (kind != BL_SETTING_SECONDS && value != floor(value))
        return bl_fail(err, BL_EINVAL, "%s: %s is not a whole number", from, text);
    if (value < least || value > most)
        return bl_fail(err, BL_EINVAL, "%s: %s is not between %.15g and %.15g", from, text, least, most);
    *out = value;
    return BL_OK;
}

static bl_status parse_switch(const char *text, const char *from, bool *out, bl_err *err)
{
    static const char *const yes[] = {"", "on", "yes", "true", "1"};
    static const char *const no[] = {"off", "no", "false", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (strcmp(text, yes[i]) == 0) {
            *out = true;
            return BL_OK;
        }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (strcmp(text, no[i]) == 0) {
            *out = false;
            return BL_OK;
        }
    return bl_fail(err, BL_EINVAL, "%s: \"%s\" is neither on nor off", from, text);
}

/* |from| names the source of the value in error messages. */
static bl_status set_row(bl_settings *settings, const setting_row *row, const char *text, const char *from, bl_err *err)
{
    void *field = (char *)settings + row->offset;
    double number = 0;
    char *copy = NULL;

    switch (row->kind) {
    case BL_SETTING_TEXT:
        copy = strdup(text);
        if (copy == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for settings");
        free(*(bl_setting_text *)field);
        *(bl_setting_text *)field = copy;
        return BL_OK;
    case BL_SETTING_COUNT:
    case BL_SETTING_BYTES:
        BL_TRY(bl_setting_number(row->kind, row->least, row->most, text, from, &number, err));
        *(uint64_t *)field = (uint64_t)number;
        return BL_OK;
    case BL_SETTING_SECONDS:
        BL_TRY(bl_setting_number(row->kind, row->least, row->most, text, from, &number, err));
        *(bl_setting_seconds *)field = number;
        return BL_OK;
    case BL_SETTING_SWITCH:
        return parse_switch(text, from, field, err);
    }
    return BL_OK;
}

/* Trim white space at both ends, in place. */
static char *settings_trim(char *text)
{
    size_t len = 0;
    while (isspace((unsigned char)*text))
        text++;
    len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

static bl_status settings_load_file(bl_settings *settings, const char *path, bl_err *err)
{
    char line[MAX_LINE], from[300];
    bl_status st = BL_OK;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return bl_fail(err, BL_EINVAL, "configuration file %s: %s", path, strerror(errno));
    for (int number = 1; st == BL_OK && fgets(line, sizeof line, file) != NULL; number++) {
        char *key = NULL, *value = NULL;
        const setting_row *row = NULL;
        bl_near near;
        line[strcspn(line, "#\n")] = '\0';
        key = settings_trim(line);
        if (*key == '\0')
            continue;
        value = strchr(key, '=');
        if (value != NULL)
            *value++ = '\0';
        key = settings_trim(key);
        row = settings_find_row(key, strlen(key));
        if (row == NULL || value == NULL || strcmp(key, "config") == 0)
            st = bl_fail(err, BL_EINVAL, "%s line %d: %s \"%s\"%s", path, number,
                         row == NULL ? "no such setting:" : "expected flag = value, got", key,
                         row == NULL ? near_flag(&near, key, strlen(key)) : "");
        else {
            snprintf(from, sizeof from, "%.250s line %d: %s", path, number, key);
            st = set_row(settings, row, settings_trim(value), from, err);
        }
    }
    fclose(file);
    return st;
}

static bl_status load_environment(bl_settings *settings, bl_err *err)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char name[64];
        const char *value = NULL;
        env_name(&rows[i], name, sizeof name);
        value = getenv(name);
        if (value != NULL)
            BL_TRY(set_row(settings, &rows[i], value, name, err));
    }
    return BL_OK;
}

/* Apply the flags. With |only_config| apply --config alone, since the configuration file is read before the other flags. */
static bl_status load_flags(bl_settings *settings, int argc, char *const *argv, bool only_config, bl_err *err)
{
    for (int i = 0; i < argc; i++) {
        const char *flag = argv[i], *value = NULL;
        const setting_row *row = NULL;
        size_t len = 0;
        bl_near near;
        if (strncmp(flag, "--", 2) != 0)
            return bl_fail(err, BL_EINVAL, "unexpected argument \"%s\"; beamline --help lists the options", flag);
        len = strcspn(flag + 2, "=");
        row = settings_find_row(flag + 2, len);
        if (row == NULL)
            return bl_fail(err, BL_EINVAL, "unknown option \"%s\"; beamline --help lists the options%s", flag,
                           near_flag(&near, flag + 2, len));
        if (flag[2 + len] == '=')
            value = flag + 3 + len;
        else if (row->kind == BL_SETTING_SWITCH)
            value = "on";
        else if (i + 1 < argc)
            value = argv[++i];
        else
            return bl_fail(err, BL_EINVAL, "option \"%s\" needs a value", flag);
        if (only_config == (row->offset == offsetof(bl_settings, config)))
            BL_TRY(set_row(settings, row, value, flag, err));
    }
    return BL_OK;
}

bl_status bl_settings_load(bl_settings *settings, int argc, char *const *argv, bl_err *err)
{
    const char *path = getenv("BEAMLINE_CONFIG");
    *settings = (bl_settings){0};
    for (size_t i = 0; i < ROW_COUNT; i++)
        BL_TRY(set_row(settings, &rows[i], rows[i].def, rows[i].flag, err));
    BL_TRY(load_flags(settings, argc, argv, true, err));
    if (settings->config[0] != '\0')
        path = settings->config;
    if (path != NULL && *path != '\0')
        BL_TRY(settings_load_file(settings, path, err));
    BL_TRY(load_environment(settings, err));
    return load_flags(settings, argc, argv, false, err);
}

void bl_settings_fini(bl_settings *settings)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].kind == BL_SETTING_TEXT)
            free(*(bl_setting_text *)(void *)((char *)settings + rows[i].offset));
    *settings = (bl_settings){0};
}

/* ---- comparing and exchanging settings */

static size_t row_bytes(const setting_row *row)
{
    switch (row->kind) {
    case BL_SETTING_TEXT:
        return sizeof(bl_setting_text);
    case BL_SETTING_COUNT:
    case BL_SETTING_BYTES:
        return sizeof(bl_setting_count);
    case BL_SETTING_SECONDS:
        return sizeof(bl_setting_seconds);
    case BL_SETTING_SWITCH:
        return sizeof(bl_setting_switch);
    }
    return 0;
}

const char *bl_settings_difference(const bl_settings *a, const bl_settings *b, int *at)
{
    while (*at < ROW_COUNT) {
        const setting_row *row = &rows[(*at)++];
        const void *left = (const char *)a + row->offset, *right = (const char *)b + row->offset;
        bool same = row->kind == BL_SETTING_TEXT ? strcmp(*(const bl_setting_text *)left, *(const bl_setting_text *)right) == 0
                                                 : memcmp(left, right, row_bytes(row)) == 0;
        if (!same)
            return row->flag;
    }
    return NULL;
}

void bl_settings_exchange(bl_settings *a, bl_settings *b, const char *flag)
{
    const setting_row *row = settings_find_row(flag, strlen(flag));
    char *left = (char *)a + row->offset, *right = (char *)b + row->offset, kept[sizeof(double)];
    size_t bytes = row_bytes(row);
    memcpy(kept, left, bytes);
    memcpy(left, right, bytes);
    memcpy(right, kept, bytes);
}

/* ---- printing */

static void print_default(const setting_row *row, bl_text *out)
{
    if (*row->def != '\0')
        bl_text_printf(out, " [%s]", row->def);
}

const char *bl_settings_flag(size_t i, const char **argument)
{
    if (i >= ROW_COUNT)
        return NULL;
    *argument = rows[i].argument;
    return rows[i].flag;
}

void bl_settings_help(bl_text *out)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", rows[i].flag, *rows[i].argument ? " " : "", rows[i].argument);
        bl_text_printf(out, "  %-26s %s", left, rows[i].help);
        print_default(&rows[i], out);
        bl_text_putc(out, '\n');
    }
}

void bl_man_put(bl_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\')
            bl_text_putc(out, '\\');
        bl_text_putc(out, *text);
    }
}

void bl_settings_man(bl_text *out)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char name[64];
        env_name(&rows[i], name, sizeof name);
        bl_text_puts(out, ".TP\n.BR \\-\\-");
        bl_man_put(out, rows[i].flag);
        if (*rows[i].argument != '\0')
            bl_text_printf(out, " \" \" \\fI%s\\fR", rows[i].argument);
        bl_text_puts(out, "\n");
        bl_man_put(out, rows[i].help);
        bl_text_puts(out, ".\n");
        if (*rows[i].def != '\0')
            bl_text_printf(out, "Default: %s.\n", rows[i].def);
        bl_text_printf(out, "Environment: %s.\n", name);
    }
}
