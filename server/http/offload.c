/* SPDX-License-Identifier: MIT */
#include "server/http/offload.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/http/body.h"
#include "server/http/coding.h"
#include "server/http/routes.h"
#include "server/ops/server.h"
#include "server/run/queue.h"

#include <stdlib.h>
#include <unistd.h>

/* Thresholds of the offload.  At these sizes a stage takes about half a millisecond on a core of 2024.  JSON with many short
 * members takes up to 3 ms. */
enum {
    TEXT_BYTES = 32 * 1024, /* bytes of a body that are parsed one by one */
    COPY_SHARE = 16,        /* binary numbers are copied, at least this many times as fast as text is parsed */
    LISTED = 16 * 1024,     /* elements that an answer prints */
    CODED_BYTES = 64 * 1024 /* bytes of an answer that are compressed */
};

enum {
    SPARE = 1, /* number of threads that the requests of one owner leave free for other owners */
    NICER = 5  /* nice value of the threads: small requests run first if all cores are busy */
};

/* ---- the threads */

static void begin_thread(void *arg)
{
    (void)arg;
    if (nice(NICER) == -1)
        bl_log(BL_LOG_DEBUG, "an offload thread cannot lower its priority and keeps the priority of the server");
}

static void charge_time(void *arg, uint32_t owner, int64_t took)
{
    const bl_server *server = arg;
    bl_access_charge(server->access, owner, -1, took);
}

/* Create one thread more than there are cores, so that one owner can use all cores. */
bl_status bl_offload_create(bl_server *server, bl_err *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bl_queue_hooks hooks = {.start = begin_thread, .charge = charge_time, .spare = SPARE, .arg = server};
    return bl_queue_create("the offload threads", server->settings.max_queue, (unsigned)(cores > 2 ? cores : 2) + SPARE, &hooks,
                           &server->offload, err);
}

/* ---- large bodies and answers */

static uint64_t read_header_length(const bl_request *rq)
{
    uint64_t length = 0;
    for (size_t i = 0; i < sizeof length && i < rq->body.len; i++)
        length |= (uint64_t)(unsigned char)rq->body.data[i] << 8 * i;
    return length;
}

/* The number of body bytes that are parsed one by one: JSON or other text. */
static size_t count_text(const bl_request *rq)
{
    uint64_t text = rq->body.len;
    if (rq->head.media == BL_MEDIA_SAFETENSORS)
        text = read_header_length(rq);
    else if (rq->head.infer_header != NULL)
        text = strtoull(rq->head.infer_header, NULL, 10);
    else if (rq->head.media == BL_MEDIA_OCTETS)
        text = 0;
    return text < rq->body.len ? (size_t)text : rq->body.len;
}

static bool has_large_body(const bl_request *rq)
{
    size_t text = 0;
    if (rq->body.intake != NULL || rq->body.len <= TEXT_BYTES)
        return false;
    text = count_text(rq);
    return text + (rq->body.len - text) / COPY_SHARE > TEXT_BYTES;
}

static bool has_large_coding(const bl_request *rq)
{
    size_t bytes = rq->reply.out.len;
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bytes += rq->reply.pieces[i].bytes;
    return rq->head.accept_coding != NULL && bytes > CODED_BYTES;
}

/* ---- the stages */

/* Call the handler.  After a submission the request belongs to another thread. */
static bl_status offload_handle(bl_request *rq, const bool *moved)
{
    bl_status st = BL_OK;
    bl_request_step(rq, BL_REQUEST_ON_HANDLE);
    rq->handling_ns = bl_clock_ns();
    st = rq->head.route->handler(rq);
    if (*moved)
        return st;
    if (rq->state == BL_REQUEST_HANDLE) /* the handler has submitted nothing */
        bl_request_trace_add(&rq->trace, BL_TIME_HANDLE, rq->handling_ns, bl_clock_ns());
    return st == BL_OK ? rq->err.status : st; /* a queue may have failed the work on this thread */
}

/* Fill the answer after the end of the work. */
static bl_status offload_conclude(bl_request *rq, const bool *moved)
{
    bl_status (*then)(bl_request *) = rq->then;
    int64_t begin = bl_clock_ns();
    bl_status st = BL_OK;
    rq->then = NULL;
    bl_request_step(rq, BL_REQUEST_ON_ANSWER);
    st = then(rq);
    if (*moved)
        return st;
    bl_request_trace_add(&rq->trace, BL_TIME_ENCODE, begin, bl_clock_ns());
    return st == BL_OK ? rq->err.status : st;
}

static bl_step go_on_apart(bl_request *rq)
{
    bool moved = false;
    /* |moved| does not outlive its pointer: give_away clears the pointer, or the end of this function does. */
    /* cppcheck-suppress autoVariables */
    rq->conn.moved = &moved;
    bl_offload_proceed(rq, &moved);
    if (moved)
        return BL_STEP_MOVED;
    rq->conn.moved = NULL;
    return BL_STEP_DONE;
}

static bl_step handle_apart(bl_request *rq)
{
    bl_request_step(rq, BL_REQUEST_ON_APART);
    return go_on_apart(rq);
}

static bl_status submit_answer(bl_request *rq)
{
    bl_request_step(rq, BL_REQUEST_ON_PRINT); /* quotas do not bind an answer to finished work */
    return bl_offload_work(rq, go_on_apart);
}

bl_status bl_offload_work(bl_request *rq, bl_work work)
{
    return bl_request_submit(rq, rq->server->offload, work, NULL);
}

bl_status bl_offload_handler(bl_request *rq)
{
    return bl_offload_work(rq, handle_apart);
}

static bl_status offload_end_body(bl_request *rq, const bool *moved)
{
    bl_status st = bl_body_end(rq, moved);
    if (*moved || st != BL_OK)
        return st;
    bl_request_step(rq, BL_REQUEST_ON_WHOLE);
    if (rq->head.has_body)
        bl_request_trace_add(&rq->trace, BL_TIME_RECEIVE, rq->start_ns, bl_clock_ns());
    return BL_OK;
}

/* Run the stages until the request has an answer. */
static bl_status offload_make_answer(bl_request *rq, const bool *moved)
{
    bl_status st = rq->err.status;
    if (rq->state == BL_REQUEST_BODY && st == BL_OK)
        st = offload_end_body(rq, moved);
    if (!*moved && rq->state == BL_REQUEST_READY && st == BL_OK)
        st = !bl_request_is_apart(rq) && has_large_body(rq) ? bl_offload_handler(rq) : offload_handle(rq, moved);
    while (!*moved && st == BL_OK && rq->reply.status == 0 && rq->then != NULL)
        st = !bl_request_is_apart(rq) && rq->reply.listed > LISTED ? submit_answer(rq) : offload_conclude(rq, moved);
    return st;
}

void bl_offload_proceed(bl_request *rq, const bool *moved)
{
    bl_status st = offload_make_answer(rq, moved);
    if (!*moved && st == BL_OK && rq->reply.coding == BL_REPLY_UNDECIDED && (rq->head.route->flags & BL_ROUTE_CODES) != 0) {
        if (bl_request_is_apart(rq) || !has_large_coding(rq))
            bl_reply_code(rq);
        else
            st = submit_answer(rq);
    }
    if (!*moved && st != BL_OK)
        (void)bl_fail(&rq->err, BL_EBUG, "a failure without a reason"); /* bl_fail keeps an earlier failure */
}
