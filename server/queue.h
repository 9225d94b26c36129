/* SPDX-License-Identifier: MIT */
/* A bounded queue of requests and the threads that work on it: one for a device, a few for the compiler.
 * Lock order: peer, then queue.  No lock is held while work runs or a request is finished. */
#ifndef BL_SERVER_QUEUE_H
#define BL_SERVER_QUEUE_H

#include "server/request.h"

/* |before| and |after| each piece of work are called on its thread with |arg|; they may be NULL. */
typedef struct bl_queue_hooks {
    void (*before)(void *arg);
    void (*after)(void *arg);
    void *arg;
} bl_queue_hooks;

/* Starts |threads| threads.  At most |max| requests wait. */
BL_NODISCARD bl_status bl_queue_create(const char *name, size_t max, unsigned threads, const bl_queue_hooks *hooks,
                                       bl_queue **out, bl_err *err);
/* Joins the threads; nothing may be queued any more. */
void bl_queue_destroy(bl_queue *queue);

/* Take a place, or BL_EBUSY; it must be used with bl_queue_push, which cannot fail. */
BL_NODISCARD bl_status bl_queue_reserve(bl_queue *queue, bl_err *err);
void bl_queue_push(bl_queue *queue, bl_request *rq);
size_t bl_queue_length(bl_queue *queue);

/* Take |rq| out of |queue| if it waits there; then it is the caller's, to finish. */
bool bl_queue_remove(bl_queue *queue, bl_request *rq);
/* Take out and finish, with BL_ETIMEOUT, all that waited too long. */
void bl_queue_expire(bl_queue *queue, int64_t now_ns);

#endif
