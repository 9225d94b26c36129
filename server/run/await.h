/* SPDX-License-Identifier: MIT */
/* A blocking wait for an internal request.  A thread that the work of the request needs must not wait: the wait would
 * deadlock. */
#ifndef BL_SERVER_RUN_AWAIT_H
#define BL_SERVER_RUN_AWAIT_H

#include "server/http/request.h"

#include <pthread.h>

typedef struct bl_await {
    void *what; /* data of the caller; the work of the request reads it by bl_await_what */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
} bl_await;

#define BL_AWAIT(thing)                                                                                                          \
    {                                                                                                                            \
        .what = (thing), .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER                                    \
    }

/* Create an internal request on behalf of |owner|.  NULL if out of memory. */
bl_request *bl_await_create(bl_server *server, uint32_t owner, bl_await *await);
/* If |submitted| is BL_OK, wait until the request has finished.  Returns the result of the request, or |submitted|.  The caller
 * still has to end the request. */
BL_NODISCARD bl_status bl_await_end(bl_request *rq, bl_status submitted, bl_err *err);
static inline void *bl_await_what(const bl_request *rq)
{
    return ((const bl_await *)rq->own.arg)->what;
}

#endif
