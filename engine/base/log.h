/* One line an event on stderr, for people or as JSON.  Control bytes in the text are escaped, so that no
 * name from the wire can forge a line.  Thread: any. */
#ifndef BL_BASE_LOG_H
#define BL_BASE_LOG_H

#include "engine/base/status.h"

typedef enum bl_log_level { BL_LOG_ERROR, BL_LOG_WARN, BL_LOG_INFO, BL_LOG_DEBUG } bl_log_level;

void bl_log_configure(bl_log_level level, bool json); /* once, before other threads start */
void bl_log(bl_log_level level, const char *fmt, ...) BL_PRINTF(2, 3);

#endif
