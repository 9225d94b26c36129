/* Background tuning: kernels get faster while they are in service.  One thread examines the times of the kernels of all
 * plans (engine/plan/plan.h: one step a second is timed).  While a device is idle, the thread has the kernel that takes most
 * of the device's time searched, and replaces the old plan by the better plan between two runs.  If the new plan is slower
 * in service, the thread restores the old plan for good. */
#ifndef BL_SERVER_OPS_BACKGROUND_H
#define BL_SERVER_OPS_BACKGROUND_H

#include "engine/base/text.h"

typedef struct bl_server bl_server;
typedef struct bl_background bl_background;

/* *out is NULL if the setting turns background tuning off. */
BL_NODISCARD bl_status bl_background_create(bl_server *server, bl_background **out, bl_err *err);
void bl_background_destroy(bl_background *background); /* accepts NULL; ends a running search */
/* Write the members "service" (the kernels of the plans in memory, their times and their users) and "history" (the events of
 * this thread) of an object.  Thread: any; |background| may be NULL. */
void bl_background_describe(bl_server *server, bl_background *background, bl_text *out);

#endif
