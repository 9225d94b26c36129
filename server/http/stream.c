/* SPDX-License-Identifier: MIT */
#include "server/http/stream.h"

#include "proto/encode.h"
#include "server/access/access.h"
#include "server/http/poller.h"
#include "server/http/watch.h"
#include "server/ops/server.h"
#include "server/store/registry.h"

#include <microhttpd.h>
#include <pthread.h>
#include <string.h>

struct bl_stream {
    bl_request *rq;
    bl_stream_read read;
    void *arg;
    bl_grant by;     /* the share by which the request reads data of another key; |kind| NULL: the data is of its own key */
    int line_feeds;  /* number of line feeds at the end of the bytes sent so far; two line feeds end an event */
    bl_text refusal; /* the last event, an error; |refused| of its bytes were sent */
    size_t refused;
    pthread_mutex_t lock; /* guards the members below; taken after the locks of a peer and of the caller of bl_stream_wake */
    bool suspended, woken;
};

static void stream_end_stream(void *arg)
{
    bl_stream *stream = arg;
    bl_watch_detach(stream->rq->conn.peer);
    bl_text_fini(&stream->refusal);
    pthread_mutex_destroy(&stream->lock);
}

bl_status bl_stream_begin(bl_request *rq, const char *content_type, const bl_grant *by, bl_stream_read read, void *arg)
{
    bl_stream *stream = bl_arena_alloc(rq->arena, sizeof *stream);
    if (stream == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *stream = (bl_stream){.rq = rq, .read = read, .arg = arg, .line_feeds = 2};
    if (by != NULL)
        stream->by = *by;
    pthread_mutex_init(&stream->lock, NULL);
    BL_TRY(bl_request_defer(rq, stream_end_stream, stream));
    rq->reply.stream = stream;
    rq->reply.kind = BL_REPLY_STREAM;
    bl_request_reply(rq, 200, content_type);
    return BL_OK;
}

void bl_stream_wake(bl_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->woken = true;
    if (stream->suspended)
        bl_poller_resume(stream->rq->conn.poller, stream->rq->conn.mhd);
    stream->suspended = false;
    pthread_mutex_unlock(&stream->lock);
}

/* Suspend the connection, unless new data has arrived meanwhile.  False if the connection stays active. */
static bool sleeps(bl_stream *stream)
{
    bool suspends = false;
    pthread_mutex_lock(&stream->lock);
    suspends = stream->suspended = !stream->woken;
    if (suspends)
        MHD_suspend_connection(stream->rq->conn.mhd);
    pthread_mutex_unlock(&stream->lock);
    return suspends; /* by now another thread may have resumed the connection */
}

static bl_status check_grant(const bl_stream *stream, bl_err *err)
{
    bl_server *server = stream->rq->server;
    BL_TRY(bl_access_check_still(stream->rq, err));
    if (stream->by.kind == NULL || bl_grants_has(bl_registry_grants(server->registry), stream->rq->owner, &stream->by))
        return BL_OK;
    return bl_fail(err, BL_EFORBIDDEN, "%s \"%.128s\" is no longer shared with the key", stream->by.kind, stream->by.name);
}

bool bl_stream_is_granted(const bl_stream *stream)
{
    bl_err ignored = {0};
    return check_grant(stream, &ignored) == BL_OK;
}

/* Write the error event.  The client already has the status of the answer, so the access log keeps that status. */
static void write_refusal(bl_stream *stream, const bl_err *why)
{
    bl_request *rq = stream->rq;
    const char *type = rq->reply.content_type;
    int status = rq->reply.status;
    rq->err = *why;
    bl_request_reply_problem(rq);
    rq->reply.status = status;
    rq->reply.content_type = type;
    bl_text_printf(&stream->refusal, "event: error\ndata: %s\n\n", bl_text_get(&rq->reply.out));
}

/* The number of the |n| bytes to send: all of them, or, once there is a refusal, the bytes up to the end of the current
 * event. */
static ssize_t cut_event(bl_stream *stream, const char *data, ssize_t n)
{
    for (ssize_t i = 0; i < n; i++) {
        stream->line_feeds = data[i] == '\n' ? stream->line_feeds + 1 : 0;
        if (stream->line_feeds >= 2 && stream->refusal.len > 0)
            return i + 1;
    }
    return n;
}

/* Fill |to| with the next bytes of |read|.  After a refusal and the end of the current event, fill |to| with the next bytes of
 * the refusal. */
static ssize_t read_next(bl_stream *stream, char *to, size_t most)
{
    bl_err why = {0};
    size_t left = 0;
    ssize_t n = 0;
    if (stream->refusal.len == 0 && check_grant(stream, &why) != BL_OK)
        write_refusal(stream, &why);
    if (stream->refusal.failed)
        return BL_STREAM_END;
    if (stream->refusal.len == 0 || stream->line_feeds < 2) {
        n = stream->read(stream->arg, to, most);
        return n > 0 ? cut_event(stream, to, n) : n;
    }
    left = stream->refusal.len - stream->refused;
    left = left < most ? left : most;
    memcpy(to, stream->refusal.data + stream->refused, left);
    stream->refused += left;
    return left > 0 ? (ssize_t)left : BL_STREAM_END;
}

/* Fail the answer.  libmicrohttpd 0.9.75 closes a connection whose content reader fails.  The next run of the daemon frees the
 * connection only if it is the oldest connection with the daemon's timeout, or if it has another timeout.  So this function
 * sets another timeout. */
static ssize_t fail_content(const bl_stream *stream)
{
    const bl_request *rq = stream->rq;
    unsigned other = (unsigned)rq->server->settings.idle + 1;
    (void)MHD_set_connection_option(rq->conn.mhd, MHD_CONNECTION_OPTION_TIMEOUT, other);
    bl_poller_call(rq->conn.poller);
    return MHD_CONTENT_READER_END_WITH_ERROR;
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
            return fail_content(stream);
        n = read_next(stream, to, most);
        if (n != 0)
            return n == BL_STREAM_END ? MHD_CONTENT_READER_END_OF_STREAM : n;
    } while (!sleeps(stream));
    return 0;
}
