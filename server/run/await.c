/* SPDX-License-Identifier: MIT */
#include "server/run/await.h"

static void await_end(bl_request *rq)
{
    bl_await *await = rq->own.arg;
    pthread_mutex_lock(&await->lock);
    await->over = true;
    pthread_cond_signal(&await->ended);
    pthread_mutex_unlock(&await->lock);
}

bl_request *bl_await_create(bl_server *server, uint32_t owner, bl_await *await)
{
    bl_request *rq = bl_request_create_own(server, owner, await_end, await);
    if (rq != NULL)
        rq->item.rank = BL_RANK_INFER; /* the calling thread blocks until the request ends */
    return rq;
}

bl_status bl_await_end(bl_request *rq, bl_status submitted, bl_err *err)
{
    bl_await *await = rq->own.arg;
    pthread_mutex_lock(&await->lock);
    while (submitted == BL_OK && !await->over)
        pthread_cond_wait(&await->ended, &await->lock);
    pthread_mutex_unlock(&await->lock);
    if (submitted == BL_OK && rq->err.status == BL_OK)
        return BL_OK;
    return bl_fail(err, rq->err.status != BL_OK ? rq->err.status : submitted, "%s", rq->err.text);
}
