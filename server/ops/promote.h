/* The promoter replaces plans with interpreted kernels (engine/plan/early.c) that were run again by plans with compiled
 * kernels, between two runs.  One thread starts the compilation of the kernels of several plans at once, in processes of low
 * priority. */
#ifndef BL_SERVER_OPS_PROMOTE_H
#define BL_SERVER_OPS_PROMOTE_H

#include "engine/base/status.h"

typedef struct bl_server bl_server;
typedef struct bl_promoter bl_promoter;

/* *out is NULL if --interpret-first is off. */
BL_NODISCARD bl_status bl_promoter_create(bl_server *server, bl_promoter **out, bl_err *err);
void bl_promoter_destroy(bl_promoter *promoter); /* accepts NULL; ends a running compilation */

#endif
