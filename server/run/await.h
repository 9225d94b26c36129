/* SPDX-License-Identifier: MIT */
/* A blocking wait for a request of the server's own.  Never wait on a thread that the request's work needs: that would
 * deadlock. */
#ifndef BL_SERVER_RUN_AWAIT_H
#define BL_SERVER_RUN_AWAIT_H

#include "server/http/request.h"

#include <pthread.h>

typedef struct bl_await {
    void *what; /* the caller's; the request's work reads it by bl_await_what */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
} bl_await;

#define BL_AWAIT(thing)                                                                                                          \
    {                                                                                                                            \
        .what = (thing), .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER                                    \
    }

/* Create a request of the server's own on behalf of |owner|.  NULL if out of memory. */
bl_request *bl_await_create(bl_server *server, uint32_t owner, bl_await *await);
/* If |submitted| is BL_OK, wait until the request has finished.  Returns the result of the request, or |submitted|.  The caller
 * still has to end the request. */
BL_NODISCARD bl_status bl_await_end(bl_request *rq, bl_status submitted, bl_err *err);
static inline void *bl_await_what(const bl_request *rq)
{
    return ((const bl_await *)rq->own.arg)->what;
}

#endif
