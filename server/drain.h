/* SPDX-License-Identifier: MIT */
/* A device that takes no new work, since somebody is about to take it away or to look at it, until a request brings it back: the
 * store remembers it. */
#ifndef BL_SERVER_DRAIN_H
#define BL_SERVER_DRAIN_H

#include "server/shelf.h"

/* ---- drain.c */

/* What is on a device still. */
typedef struct bl_drain_left {
    bl_worker *worker;
    size_t requests, models, jobs, programs, tensors;
} bl_drain_left;

/* Those that were drained before are so again, but for the last one.  At the start, before anything is placed. */
BL_NODISCARD bl_status bl_drain_load(bl_server *server, bl_err *err);
/* Any thread. */
void bl_drain_look(bl_worker *worker, bl_drain_left *left);
/* "ready", "draining", "drained" when nothing is left, "lost". */
const char *bl_drain_state(const bl_drain_left *left);
/* ---- devices.c */
/* The members of a device, after "{", into the reply, for whoever adds more; *left: what is on the device. */
void bl_device_put_members(bl_request *rq, bl_worker *worker, bl_drain_left *left);
/* Into the reply: what it is, how it stands, and for the scope admin what is on it. */
void bl_device_describe(bl_request *rq, bl_worker *worker);

#endif
