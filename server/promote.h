/* Plans of interpreted kernels (engine/plan/early.c) that are run again get compiled ones, which take their place between two
 * runs.  One thread has the kernels of several plans compiled at once, by processes that leave the machine to others. */
#ifndef BL_SERVER_PROMOTE_H
#define BL_SERVER_PROMOTE_H

#include "engine/base/status.h"

typedef struct bl_server bl_server;
typedef struct bl_promoter bl_promoter;

/* *out NULL where the setting says so. */
BL_NODISCARD bl_status bl_promoter_create(bl_server *server, bl_promoter **out, bl_err *err);
void bl_promoter_destroy(bl_promoter *promoter); /* accepts NULL; ends a compilation */

#endif
