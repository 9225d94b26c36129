/* SPDX-License-Identifier: MIT */
/* Every setting of the server, from one table: command line over environment over configuration file over default.
 * Read once at the start, and by SIGHUP (server/reload.c); borrowed by everything, and but for what that file names constant. */
#ifndef BL_SERVER_SETTINGS_H
#define BL_SERVER_SETTINGS_H

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
    BL_SETTING_SECONDS, /* any number */
    BL_SETTING_SWITCH
} bl_setting_kind;

/* The number in |text|; |from| says where it stands, for the message. */
BL_NODISCARD bl_status bl_setting_number(bl_setting_kind kind, double least, double most, const char *text, const char *from,
                                         double *out, bl_err *err);

typedef struct bl_settings {
#define BL_SETTING(field, flag, kind, def, least, most, argument, help) BL_SETTING_TYPE_##kind field;
#include "server/settings.def"
#undef BL_SETTING
} bl_settings;

/* |argv| are the arguments after the command's name.  On failure |settings| may still be given to fini. */
BL_NODISCARD bl_status bl_settings_load(bl_settings *settings, int argc, char *const *argv, bl_err *err);
void bl_settings_fini(bl_settings *settings);

/* The flag of the first setting from row |*at| on that differs, which is then left behind; NULL: none does. */
const char *bl_settings_difference(const bl_settings *a, const bl_settings *b, int *at);
/* The values of |flag| change places: what is read again is moved, and the old one freed, with the settings that it came with. */
void bl_settings_exchange(bl_settings *a, bl_settings *b, const char *flag);

/* The flag of row |i| and what stands behind it, "" of a switch; NULL behind the last row. */
const char *bl_settings_flag(size_t i, const char **argument);
/* The options part of --help, and the man page in man(7) format. */
void bl_settings_help(bl_text *out);
void bl_settings_man(bl_text *out);
/* |text| with hyphens and backslashes escaped: man(7) reads a bare hyphen as a soft hyphen. */
void bl_man_put(bl_text *out, const char *text);

#endif
