/* SPDX-License-Identifier: MIT */
/* Waiting for a request of the server's own, on a thread that may: not one that its work needs. */
#ifndef BL_SERVER_AWAIT_H
#define BL_SERVER_AWAIT_H

#include "server/request.h"

#include <pthread.h>

typedef struct bl_await {
    void *what; /* the caller's: the request's work finds it by rq->own */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
} bl_await;

#define BL_AWAIT(thing)                                                                                                          \
    {                                                                                                                            \
        .what = (thing), .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER                                    \
    }

/* On behalf of |owner|; NULL if out of memory. */
bl_request *bl_await_create(bl_server *server, uint32_t owner, bl_await *await);
/* Until it is over, where |submitted| says that it was begun; how it went.  The request is still the caller's to end. */
BL_NODISCARD bl_status bl_await_end(bl_request *rq, bl_status submitted, bl_err *err);
static inline void *bl_await_what(const bl_request *rq)
{
    return ((const bl_await *)rq->own)->what;
}

#endif
