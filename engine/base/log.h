/* One line an event on stderr, for people or as JSON.  Control bytes in the text are escaped, so that no
 * name from the wire can forge a line.  Thread: any. */
#ifndef BL_BASE_LOG_H
#define BL_BASE_LOG_H

#include "engine/base/status.h"

typedef enum bl_log_level { BL_LOG_ERROR, BL_LOG_WARN, BL_LOG_INFO, BL_LOG_DEBUG } bl_log_level;

void bl_log_configure(bl_log_level level, bool json); /* at any time */
void bl_log(bl_log_level level, const char *fmt, ...) BL_PRINTF(2, 3);
/* Whether a line of that level is written at all: where it costs something to say. */
void bl_log_set_level(bl_log_level level); /* and leave the form as it is */
bool bl_log_is_on(bl_log_level level);

/* What a line says in a form that a program reads: `name=value` behind the text, or members of the JSON object. */
typedef struct bl_log_field {
    const char *name; /* a word of ours, up to 24 letters */
    const char *text; /* cut at 255 bytes, in quotes unless it is one plain word; NULL: a number */
    double number;
} bl_log_field;
/* |event| is such a word too; at most 16 fields. */
void bl_log_fields(bl_log_level level, const char *event, const bl_log_field *fields, int count);

#endif
