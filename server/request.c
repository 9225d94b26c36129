/* SPDX-License-Identifier: MIT */
#include "server/request.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "proto/encode.h"
#include "proto/problem.h"
#include "server/body.h"
#include "server/queue.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/watch.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_BYTES = 256 * 1024,         /* a buffer up to this size waits for the next request */
    ARENA_BYTES = 256 * 1024 * 1024, /* names and graph of one request; its numbers are not in there */
};

static void free_request(bl_request *rq)
{
    bl_arena_destroy(rq->arena);
    bl_text_fini(&rq->out);
    free(rq->body);
    bl_budget_give(&rq->server->memory, rq->body_cap);
    free(rq);
}

static bl_request *new_request(bl_server *server)
{
    bl_request *rq = calloc(1, sizeof *rq);
    if (rq == NULL)
        return NULL;
    rq->arena = bl_arena_create(ARENA_BYTES);
    if (rq->arena == NULL) {
        free(rq);
        return NULL;
    }
    rq->server = server;
    rq->out.budget = &server->memory;
    return rq;
}

bl_request *bl_request_create(bl_server *server)
{
    bl_request *rq = NULL;
    pthread_mutex_lock(&server->free_lock);
    rq = server->free_requests;
    if (rq != NULL) {
        server->free_requests = rq->next_free;
        server->free_count--;
    }
    pthread_mutex_unlock(&server->free_lock);
    if (rq == NULL)
        rq = new_request(server);
    if (rq == NULL)
        return NULL;
    rq->start_ns = bl_clock_ns();
    rq->problem_step = -1;
    bl_metrics_add(&server->metrics, BL_COUNT_ACTIVE, 1);
    return rq;
}

static size_t reply_bytes(const bl_request *rq)
{
    size_t bytes = rq->out.len;
    for (unsigned i = 0; i < rq->npieces; i++)
        bytes += rq->pieces[i].bytes;
    return bytes;
}

static void log_access(const bl_request *rq, double ms)
{
    bl_log(BL_LOG_INFO, "%.16s %.200s %d %zu bytes %.3f ms id=%s", rq->method != NULL ? rq->method : "?", rq->uri, rq->status,
           reply_bytes(rq), ms, rq->id);
}

/* Everything back to zero but the memory worth keeping. */
static void recycle(bl_request *rq)
{
    bl_arena *arena = rq->arena;
    bl_text out = rq->out;
    char *body = rq->body;
    size_t body_cap = rq->body_cap;
    if (out.cap > KEEP_BYTES || out.failed)
        bl_text_fini(&out);
    if (body_cap > KEEP_BYTES) {
        free(body);
        bl_budget_give(&rq->server->memory, body_cap);
        body = NULL;
        body_cap = 0;
    }
    bl_text_clear(&out);
    bl_arena_reset(arena);
    *rq = (bl_request){.server = rq->server, .arena = arena, .out = out, .body = body, .body_cap = body_cap};
}

void bl_request_end(bl_request *rq)
{
    bl_server *server = rq->server;
    int64_t now = bl_clock_ns();
    bool kept = false;
    for (bl_defer *d = rq->defers; d != NULL; d = d->next)
        d->fn(d->arg);
    bl_body_fini(rq);
    if (rq->status != 0) { /* else the connection broke before there was an answer */
        if (rq->status < BL_HTTP_CODES)
            atomic_fetch_add_explicit(&server->metrics.code[rq->status], 1, memory_order_relaxed);
        bl_metrics_time(&server->metrics, BL_TIME_REQUEST, now - rq->start_ns);
        bl_metrics_add(&server->metrics, BL_COUNT_BYTES_OUT, (long long)reply_bytes(rq));
    }
    log_access(rq, bl_clock_ms(rq->start_ns, now));
    bl_metrics_add(&server->metrics, BL_COUNT_BYTES_IN, (long long)rq->body_len);
    recycle(rq);
    pthread_mutex_lock(&server->free_lock);
    kept = server->free_count < server->settings.connections;
    if (kept) {
        rq->next_free = server->free_requests;
        server->free_requests = rq;
        server->free_count++;
    }
    pthread_mutex_unlock(&server->free_lock);
    if (!kept)
        free_request(rq);
    bl_metrics_add(&server->metrics, BL_COUNT_ACTIVE, -1);
}

void bl_requests_fini(bl_server *server)
{
    while (server->free_requests != NULL) {
        bl_request *rq = server->free_requests;
        server->free_requests = rq->next_free;
        free_request(rq);
    }
}

bl_status bl_request_defer(bl_request *rq, void (*fn)(void *arg), void *arg)
{
    bl_defer *d = bl_arena_alloc(rq->arena, sizeof *d);
    if (d == NULL) {
        fn(arg);
        return bl_arena_status(rq->arena, &rq->err);
    }
    *d = (bl_defer){rq->defers, fn, arg};
    rq->defers = d;
    return BL_OK;
}

/* What bl_request_alloc gave; the bytes stand behind it. */
typedef struct bl_request_block {
    bl_budget *budget;
    size_t bytes;
    void *data;
} bl_request_block;

static void free_block(void *arg)
{
    bl_request_block *block = arg;
    free(block->data);
    bl_budget_give(block->budget, block->bytes);
}

void *bl_request_alloc(bl_request *rq, size_t bytes, const char *what)
{
    bl_request_block *block = bl_arena_alloc(rq->arena, sizeof *block);
    if (block == NULL && bl_arena_status(rq->arena, &rq->err) != BL_OK)
        return NULL;
    if (bl_budget_take(&rq->server->memory, bytes, BL_ENOMEM, what, &rq->err) != BL_OK)
        return NULL;
    *block = (bl_request_block){&rq->server->memory, bytes, malloc(bytes > 0 ? bytes : 1)};
    if (bl_request_defer(rq, free_block, block) != BL_OK)
        return NULL;
    if (block->data == NULL)
        (void)bl_fail(&rq->err, BL_ENOMEM, "%s of %zu bytes", what, bytes);
    return block->data;
}

const char *bl_request_query(const bl_request *rq, const char *name)
{
    for (int i = 0; i < rq->nquery; i++)
        if (strcmp(rq->query[i].name, name) == 0)
            return rq->query[i].value;
    return NULL;
}

bl_span bl_request_body(const bl_request *rq)
{
    return (bl_span){rq->body_len > 0 ? rq->body : "", rq->body_len};
}

void bl_request_reply(bl_request *rq, int status, const char *content_type)
{
    rq->status = status;
    rq->content_type = content_type;
}

void bl_request_reply_json(bl_request *rq, int status)
{
    bl_request_reply(rq, status, "application/json");
}

void bl_request_reply_problem(bl_request *rq)
{
    uint64_t step = (uint64_t)rq->problem_step;
    bl_text_clear(&rq->out);
    rq->out.failed = false;
    rq->pieces = NULL;
    rq->npieces = 0;
    rq->status = bl_status_http(rq->err.status);
    if (rq->status >= 500 && rq->err.status != BL_EBUSY && rq->err.status != BL_ECANCELLED)
        bl_log(BL_LOG_WARN, "request %s: %s (%s:%d)", rq->id, rq->err.text, rq->err.file ? rq->err.file : "?", rq->err.line);
    if (rq->err.status == BL_ETIMEOUT)
        bl_metrics_add(&rq->server->metrics, BL_COUNT_TIMEOUTS, 1);
    if (rq->route != NULL && (rq->route->flags & BL_ROUTE_ERRORV2) != 0) {
        bl_text_puts(&rq->out, "{\"error\":");
        bl_encode_string(&rq->out, rq->err.text);
        bl_text_puts(&rq->out, "}");
        rq->content_type = "application/json";
        return;
    }
    bl_problem_write(&rq->out, &rq->err, rq->problem_step >= 0 ? &step : NULL);
    rq->content_type = "application/problem+json";
}

/* The first of JSON's and |type|'s names that stands in Accept wins; quality values are not weighed. */
bool bl_request_accepts(const bl_request *rq, const char *type)
{
    const char *json = NULL, *found = NULL;
    if (rq->accept == NULL)
        return false;
    found = strcasestr(rq->accept, type);
    json = strcasestr(rq->accept, "application/json");
    return found != NULL && (json == NULL || found < json);
}

bl_status bl_request_submit(bl_request *rq, bl_queue *queue, bl_work work, bl_serial *serial)
{
    bl_status st = bl_queue_reserve(queue, &rq->err);
    if (st != BL_OK) {
        bl_metrics_add(&rq->server->metrics, BL_COUNT_QUEUE_FULL, 1);
        return st;
    }
    rq->work = work;
    rq->serial = serial;
    rq->queued_ns = bl_clock_ns();
    if (!atomic_load(&rq->suspended)) {
        rq->submitted = true;
        atomic_store(&rq->suspended, true);
        MHD_suspend_connection(rq->connection);
        bl_watch_attach(rq->peer, rq);
    }
    bl_queue_push(queue, rq);
    return BL_OK;
}

/* A second resume of one suspension is undefined in libmicrohttpd: the exchange lets only the first through. */
void bl_request_finish(bl_request *rq)
{
    bl_watch_detach(rq->peer);
    if (atomic_exchange(&rq->suspended, false))
        MHD_resume_connection(rq->connection);
    else
        bl_log(BL_LOG_ERROR, "bug: request %s was finished twice", rq->id);
}
