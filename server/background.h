/* Kernels get faster while they are served.  One thread looks at what the plans' kernels take (engine/plan/plan.h: a step a
 * second is timed), has the one that takes most of a device searched while that is idle, and lets the better plan take the place
 * of the old one between two runs.  Where the new one turns out slower in service, it is taken back for good. */
#ifndef BL_SERVER_BACKGROUND_H
#define BL_SERVER_BACKGROUND_H

#include "engine/base/text.h"

typedef struct bl_server bl_server;
typedef struct bl_background bl_background;

/* *out NULL where the setting says so. */
BL_NODISCARD bl_status bl_background_create(bl_server *server, bl_background **out, bl_err *err);
void bl_background_destroy(bl_background *background); /* accepts NULL; ends a search */
/* The members "service" (kernels of the plans that are there, what they took, who uses them) and "history" (what this thread did)
 * of an object.  Thread: any; |background| may be NULL. */
void bl_background_describe(bl_server *server, bl_background *background, bl_text *out);

#endif
