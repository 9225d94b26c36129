/* The log: one line per event on stderr, as plain text or as JSON. Control characters are escaped, so a name from the wire
 * cannot forge a line. Thread: any. */
#ifndef BL_BASE_LOG_H
#define BL_BASE_LOG_H

#include "engine/base/status.h"

typedef enum bl_log_level { BL_LOG_ERROR, BL_LOG_WARN, BL_LOG_INFO, BL_LOG_DEBUG } bl_log_level;

void bl_log_configure(bl_log_level level, bool json); /* may be called at any time */
void bl_log(bl_log_level level, const char *fmt, ...) BL_PRINTF(2, 3);
void bl_log_set_level(bl_log_level level); /* keeps the format */
bool bl_log_is_on(bl_log_level level);

/* A field of a machine-readable line: `name=value` after the text, or a member of the JSON object. */
typedef struct bl_log_field {
    const char *name; /* a word that the caller fixes, up to 24 letters */
    const char *text; /* cut at 255 bytes; quoted unless it is one plain word; NULL: the value is |number| */
    double number;
} bl_log_field;
/* Write a line of fields. |event| is a fixed word like a field name. At most 16 fields. */
void bl_log_fields(bl_log_level level, const char *event, const bl_log_field *fields, int count);

#endif
