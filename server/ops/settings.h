/* SPDX-License-Identifier: MIT */
/* All settings of the server, from one table: the command line takes precedence over the environment, the environment over
 * the configuration file, and the configuration file over the default.  The settings are read once at the start, and by
 * SIGHUP (server/ops/reload.c).  All other code borrows the settings; only reload.c changes them. */
#ifndef BL_SERVER_OPS_SETTINGS_H
#define BL_SERVER_OPS_SETTINGS_H

#include "engine/base/text.h"

typedef char *bl_setting_text; /* never NULL */
typedef uint64_t bl_setting_count;
typedef uint64_t bl_setting_bytes;
typedef double bl_setting_seconds;
typedef bool bl_setting_switch;

#define BL_SETTING_TYPE_TEXT    bl_setting_text
#define BL_SETTING_TYPE_COUNT   bl_setting_count
#define BL_SETTING_TYPE_BYTES   bl_setting_bytes
#define BL_SETTING_TYPE_SECONDS bl_setting_seconds
#define BL_SETTING_TYPE_SWITCH  bl_setting_switch

typedef enum bl_setting_kind {
    BL_SETTING_TEXT,
    BL_SETTING_COUNT,
    BL_SETTING_BYTES,
    BL_SETTING_SECONDS, /* a number of seconds, with fractions */
    BL_SETTING_SWITCH
} bl_setting_kind;

/* Read the number in |text|; |from| names its source in error messages. */
BL_NODISCARD bl_status bl_setting_number(bl_setting_kind kind, double least, double most, const char *text, const char *from,
                                         double *out, bl_err *err);

typedef struct bl_settings {
#define BL_SETTING(field, flag, kind, def, least, most, argument, help) BL_SETTING_TYPE_##kind field;
#include "server/ops/settings.def"
#undef BL_SETTING
} bl_settings;

/* |argv| are the arguments after the command's name.  Call bl_settings_fini after a failure too. */
BL_NODISCARD bl_status bl_settings_load(bl_settings *settings, int argc, char *const *argv, bl_err *err);
void bl_settings_fini(bl_settings *settings);

/* The flag of the first setting, from row |*at| on, that differs; *at becomes the next row.  NULL: no setting differs. */
const char *bl_settings_difference(const bl_settings *a, const bl_settings *b, int *at);
/* Exchange the values of |flag|.  reload.c moves a new value in this way; the old value is freed with the settings that were
 * read again. */
void bl_settings_exchange(bl_settings *a, bl_settings *b, const char *flag);

/* The flag of row |i| and the placeholder of its argument, "" for a switch; NULL past the last row. */
const char *bl_settings_flag(size_t i, const char **argument);
/* The options part of --help, and the man page in man(7) format. */
void bl_settings_help(bl_text *out);
void bl_settings_man(bl_text *out);
/* |text| with hyphens and backslashes escaped: man(7) reads a bare hyphen as a soft hyphen. */
void bl_man_put(bl_text *out, const char *text);

#endif
