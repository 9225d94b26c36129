/* SPDX-License-Identifier: MIT */
/* Drained devices.  A drained device takes no new work, because an operator wants to remove or inspect it, until a request
 * resumes the device.  The store keeps the drained state across restarts. */
#ifndef BL_SERVER_OPS_DRAIN_H
#define BL_SERVER_OPS_DRAIN_H

#include "server/store/registry.h"

/* ---- drain.c */

/* The objects that remain on a device. */
typedef struct bl_drain_left {
    bl_worker *worker;
    size_t requests, models, jobs, programs, tensors;
} bl_drain_left;

/* Call at the start, before any object is placed: drain the devices that were drained before the restart, except the last
 * device. */
BL_NODISCARD bl_status bl_drain_load(bl_server *server, bl_err *err);
/* Count the objects that remain on the device of |worker|.  Thread: any. */
void bl_drain_look(bl_worker *worker, bl_drain_left *left);
/* "ready", "draining", "drained" if no object remains on the device, or "lost". */
const char *bl_drain_state(const bl_drain_left *left);
/* ---- devices.c */
/* Write the members of a device, after "{", into the reply; the caller may add members.  *left becomes the objects that
 * remain on the device. */
void bl_device_put_members(bl_request *rq, bl_worker *worker, bl_drain_left *left);
/* Write the device into the reply: its properties and its state, and the objects on the device if the request has the scope
 * admin. */
void bl_device_describe(bl_request *rq, bl_worker *worker);

#endif
