/* SPDX-License-Identifier: MIT */
/* One thread for periodic work.  Every second it takes a sample of what the devices do (access/samples.h).  At the start and
 * every few seconds it keeps the cache folder within --cache-size, since child processes and other servers write to the folder
 * too, and it saves durable programs. */
#ifndef BL_SERVER_OPS_KEEPER_H
#define BL_SERVER_OPS_KEEPER_H

#include "engine/base/status.h"

typedef struct bl_server bl_server;
typedef struct bl_keeper bl_keeper;

BL_NODISCARD bl_status bl_keeper_create(bl_server *server, bl_keeper **out, bl_err *err);
void bl_keeper_destroy(bl_keeper *keeper); /* accepts NULL */

#endif
