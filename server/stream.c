/* SPDX-License-Identifier: MIT */
#include "server/stream.h"

#include "server/poller.h"
#include "server/watch.h"

#include <microhttpd.h>
#include <pthread.h>

struct bl_stream {
    bl_request *rq;
    bl_stream_read read;
    void *arg;
    pthread_mutex_t lock; /* of what follows; taken after the caller's of bl_stream_wake, and after a peer's */
    bool suspended, woken;
};

static void end_stream(void *arg)
{
    bl_stream *stream = arg;
    bl_watch_detach(stream->rq->peer);
    pthread_mutex_destroy(&stream->lock);
}

bl_status bl_stream_begin(bl_request *rq, const char *content_type, bl_stream_read read, void *arg)
{
    bl_stream *stream = bl_arena_alloc(rq->arena, sizeof *stream);
    if (stream == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *stream = (bl_stream){.rq = rq, .read = read, .arg = arg};
    pthread_mutex_init(&stream->lock, NULL);
    BL_TRY(bl_request_defer(rq, end_stream, stream));
    rq->stream = stream;
    bl_watch_attach(rq->peer, rq); /* from now on it may be told that the client went away */
    bl_request_reply(rq, 200, content_type);
    return BL_OK;
}

void bl_stream_wake(bl_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->woken = true;
    if (stream->suspended)
        bl_poller_resume(stream->rq->poller, stream->rq->connection);
    stream->suspended = false;
    pthread_mutex_unlock(&stream->lock);
}

/* Suspend, unless something came meanwhile. */
static bool sleeps(bl_stream *stream)
{
    bool suspends = false;
    pthread_mutex_lock(&stream->lock);
    suspends = stream->suspended = !stream->woken;
    if (suspends)
        MHD_suspend_connection(stream->rq->connection);
    pthread_mutex_unlock(&stream->lock);
    return suspends; /* it may be awake again */
}

ssize_t bl_stream_content(void *arg, uint64_t at, char *to, size_t most)
{
    bl_stream *stream = arg;
    (void)at;
    do {
        ssize_t n = 0;
        pthread_mutex_lock(&stream->lock);
        stream->woken = false;
        pthread_mutex_unlock(&stream->lock);
        if (atomic_load(&stream->rq->cancel))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        n = stream->read(stream->arg, to, most);
        if (n != 0)
            return n == BL_STREAM_END ? MHD_CONTENT_READER_END_OF_STREAM : n;
    } while (!sleeps(stream));
    return 0;
}
