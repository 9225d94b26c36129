/* SPDX-License-Identifier: MIT */
#include "server/http/request.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "proto/encode.h"
#include "proto/problem.h"
#include "server/access/access.h"
#include "server/http/body.h"
#include "server/http/offload.h"
#include "server/http/poller.h"
#include "server/http/routes.h"
#include "server/http/stream.h"
#include "server/http/watch.h"
#include "server/ops/server.h"
#include "server/run/queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEEP_BYTES = 256 * 1024,         /* a buffer up to this size is always reused for a next request */
    KEEP_LARGE = 32 * 1024 * 1024,   /* larger buffers are reused too, while all that are kept have at most this size: the first
                                      * touch of new memory takes longer than to receive a body into it */
    KEEP_PART = 128,                 /* ... and at most this part of the host memory */
    RECLAIM_BYTES = 4 * 1024 * 1024, /* for body and answer together: unmapping this much memory takes about a millisecond */
    ARENA_BYTES = 256 * 1024 * 1024, /* for names and graph of one request; tensor data is not in the arena */
};

static void free_request(bl_request *rq)
{
    bl_arena_destroy(rq->arena);
    bl_text_fini(&rq->reply.out);
    free(rq->body.data);
    bl_budget_give(&rq->server->memory, rq->body.cap);
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
    rq->reply.out.budget = &server->memory;
    return rq;
}

/* The size of the buffers of |rq| that are larger than KEEP_BYTES. */
static uint64_t large_bytes(const bl_request *rq)
{
    return (rq->body.cap > KEEP_BYTES ? rq->body.cap : 0) + (rq->reply.out.cap > KEEP_BYTES ? rq->reply.out.cap : 0);
}

/* May |bytes| of large buffers be kept, in all? */
static bool may_keep_large(bl_server *server, uint64_t bytes)
{
    uint64_t part = server->memory.limit / KEEP_PART;
    return bytes <= (part < KEEP_LARGE ? part : KEEP_LARGE) && !bl_budget_is_short(&server->memory);
}

/* Count the large buffers of |rq| as kept. False, and nothing counted, if that would be too much. */
static bool keep_large(bl_request *rq)
{
    bl_server *server = rq->server;
    uint64_t own = large_bytes(rq), all = atomic_fetch_add(&server->spare.large, own) + own;
    if (own == 0 || may_keep_large(server, all))
        return true;
    atomic_fetch_sub(&server->spare.large, own);
    return false;
}

/* Take a kept request, or allocate one. */
static bl_request *take_request(bl_server *server)
{
    bl_request *rq = NULL;
    pthread_mutex_lock(&server->spare.lock);
    rq = server->spare.requests;
    if (rq != NULL) {
        server->spare.requests = rq->next_free;
        server->spare.count--;
        atomic_fetch_sub(&server->spare.large, large_bytes(rq));
    }
    pthread_mutex_unlock(&server->spare.lock);
    if (rq == NULL)
        rq = new_request(server);
    if (rq == NULL)
        return NULL;
    atomic_init(&rq->holders, 1);
    rq->start_ns = bl_clock_ns();
    rq->reply.problem_step = -1;
    return rq;
}

bl_request *bl_request_create(bl_server *server)
{
    bl_request *rq = take_request(server);
    if (rq != NULL)
        bl_metrics_add(&server->metrics, BL_COUNT_ACTIVE, 1);
    return rq;
}

bl_request *bl_request_create_own(bl_server *server, uint32_t owner, void (*done)(bl_request *rq), void *own)
{
    bl_request *rq = take_request(server);
    if (rq == NULL)
        return NULL;
    rq->owner = owner;
    rq->purges = bl_access_purges(server->access, owner);
    rq->own.done = done;
    rq->own.arg = own;
    return rq;
}

static size_t reply_bytes(const bl_request *rq)
{
    size_t bytes = rq->reply.kind == BL_REPLY_FILE ? (size_t)rq->reply.file_bytes : rq->reply.out.len;
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bytes += rq->reply.pieces[i].bytes;
    return bytes;
}

/* "ADDRESS:PORT" of the client. */
static void print_peer(struct MHD_Connection *connection, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    char host[INET6_ADDRSTRLEN] = "";
    if (address != NULL && address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (address != NULL && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

/* Fill the members that the access log and the trace need, except the times. */
static void request_describe(bl_request *rq)
{
    bl_request_trace *trace = &rq->trace;
    bool secret = rq->head.route != NULL && (rq->head.route->flags & BL_ROUTE_SECRET) != 0;
    snprintf(trace->id, sizeof trace->id, "%s", rq->id);
    snprintf(trace->method, sizeof trace->method, "%s", rq->head.method != NULL ? rq->head.method : "");
    trace->pattern = rq->head.route != NULL ? rq->head.route->pattern : "";
    bl_request_trace_set_path(trace, secret ? rq->head.route->pattern : rq->head.uri != NULL ? rq->head.uri : "");
    print_peer(rq->conn.mhd, trace->peer, sizeof trace->peer);
    bl_access_name(rq->server->access, rq->owner, trace->key, sizeof trace->key);
    trace->bytes_in = rq->body.len;
    trace->bytes_out = reply_bytes(rq);
}

/* Record the request in the metrics, the access log and the trace. */
static void tell_client(bl_request *rq)
{
    bl_metrics *metrics = &rq->server->metrics;
    bl_request_trace *trace = &rq->trace;
    bl_log_level level = rq->head.route != NULL && (rq->head.route->flags & BL_ROUTE_PROBE) != 0 ? BL_LOG_DEBUG : BL_LOG_INFO;
    trace->status = rq->reply.status;
    trace->begin_ns = rq->start_ns;
    trace->end_ns = bl_clock_ns();
    if (rq->reply.status != 0) { /* 0: the connection broke before the server had an answer */
        trace->seen |= 1U << BL_TIME_REQUEST;
        trace->time_ns[BL_TIME_REQUEST] = trace->end_ns - trace->begin_ns;
        bl_metrics_add(metrics, BL_COUNT_BYTES_OUT, (long long)reply_bytes(rq));
    }
    if (rq->state == BL_REQUEST_SENT)
        bl_request_trace_add(trace, BL_TIME_SEND, rq->reply.sent_ns, trace->end_ns);
    bl_request_trace_count(trace, metrics, bl_route_index(rq->head.route));
    bl_metrics_add(metrics, BL_COUNT_BYTES_IN, (long long)rq->body.len);
    if (rq->reply.status != 0)
        bl_access_count(rq->server->access, rq->owner, rq->body.len, reply_bytes(rq));
    if (!trace->traced && !bl_log_is_on(level))
        return;
    request_describe(rq);
    bl_request_trace_log(trace, level);
    if (trace->traced)
        bl_exporter_take(rq->server->exporter, trace);
}

/* The access log omits internal requests.  The metrics include their device time. */
static void request_tell(bl_request *rq)
{
    if (rq->own.done == NULL)
        tell_client(rq);
    else
        bl_request_trace_count(&rq->trace, &rq->server->metrics, BL_METRIC_OWN_WORK);
}

/* Reset all fields.  Keep the buffers for a next request, unless the memory budget is short. */
static void recycle(bl_request *rq)
{
    bool large = keep_large(rq);
    uint64_t counted = large ? large_bytes(rq) : 0;
    size_t keep = bl_budget_is_short(&rq->server->memory) ? 0 : large ? SIZE_MAX : KEEP_BYTES;
    bl_arena *arena = rq->arena;
    bl_text out = rq->reply.out;
    char *body = rq->body.data;
    size_t body_cap = rq->body.cap;
    if (out.cap > keep || out.failed)
        bl_text_fini(&out);
    if (body_cap > keep) {
        free(body);
        bl_budget_give(&rq->server->memory, body_cap);
        body = NULL;
        body_cap = 0;
    }
    bl_text_clear(&out);
    bl_arena_reset(arena);
    *rq = (bl_request){.server = rq->server, .arena = arena, .reply.out = out, .body.data = body, .body.cap = body_cap};
    atomic_fetch_sub(&rq->server->spare.large, counted - large_bytes(rq)); /* a failed answer, for example, is not kept */
}

/* Run the defer list, and keep the memory for the next request. */
static void reclaim(bl_request *rq)
{
    bl_server *server = rq->server;
    bool kept = false;
    for (bl_defer *d = rq->defers; d != NULL; d = d->next)
        d->fn(d->arg);
    bl_body_fini(rq);
    recycle(rq);
    pthread_mutex_lock(&server->spare.lock);
    kept = server->spare.count < server->settings.connections;
    if (kept) {
        rq->next_free = server->spare.requests;
        server->spare.requests = rq;
        server->spare.count++;
    }
    pthread_mutex_unlock(&server->spare.lock);
    if (!kept) {
        atomic_fetch_sub(&server->spare.large, large_bytes(rq));
        free_request(rq);
    }
}

void bl_request_release(bl_request *rq)
{
    if (atomic_fetch_sub(&rq->holders, 1) == 1)
        reclaim(rq);
}

static bl_step reclaim_apart(bl_request *rq)
{
    reclaim(rq);
    return BL_STEP_MOVED;
}

/* Free the memory of a large request on an offload thread, because returning much memory to the system takes long.  The request
 * becomes an internal request.  False if the memory is small or if the queue of the offload threads is full. */
static bool leave_memory(bl_request *rq)
{
    bool own = rq->own.done != NULL;
    uint64_t own_bytes = large_bytes(rq), all = atomic_load(&rq->server->spare.large) + own_bytes;
    uint64_t kept = may_keep_large(rq->server, all) ? own_bytes : 0;
    if (own || rq->body.cap + reply_bytes(rq) + rq->reply.listed < RECLAIM_BYTES + kept)
        return false;
    rq->own.done = reclaim;
    rq->err = (bl_err){0};
    rq->item.deadline_ns = 0;
    atomic_store(&rq->cancel, false);
    if (bl_offload_work(rq, reclaim_apart) == BL_OK)
        return true;
    return false;
}

void bl_request_end(bl_request *rq)
{
    bl_server *server = rq->server;
    bool own = rq->own.done != NULL, accepted = rq->conn.accepted;
    BL_ASSERT(rq->conn.moved == NULL); /* |moved| pointed to the stack frame of a call that has returned */
    request_tell(rq);
    bl_request_step(rq, BL_REQUEST_ON_END);
    if (atomic_load(&rq->holders) > 1)
        bl_request_release(rq);
    else if (!leave_memory(rq))
        reclaim(rq);
    if (!own)
        bl_metrics_add(&server->metrics, BL_COUNT_ACTIVE, -1);
    atomic_fetch_sub(&server->life.accepted, accepted);
}

void bl_requests_fini(bl_server *server)
{
    while (server->spare.requests != NULL) {
        bl_request *rq = server->spare.requests;
        server->spare.requests = rq->next_free;
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

/* An allocation of bl_request_alloc. */
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
    if (bl_budget_borrow(&rq->server->memory, bytes, BL_ENOMEM, what, &rq->err) != BL_OK)
        return NULL;
    *block = (bl_request_block){&rq->server->memory, bytes, malloc(bytes > 0 ? bytes : 1)};
    if (bl_request_defer(rq, free_block, block) != BL_OK)
        return NULL;
    if (block->data == NULL)
        (void)bl_fail(&rq->err, BL_ENOMEM, "%s of %zu bytes", what, bytes);
    return block->data;
}

char *bl_request_make_body(bl_request *rq, size_t len, bl_media media)
{
    if (bl_budget_borrow(&rq->server->memory, len, BL_ENOMEM, "a body", &rq->err) != BL_OK)
        return NULL;
    free(rq->body.data);
    bl_budget_give(&rq->server->memory, rq->body.cap);
    rq->body.data = malloc(len > 0 ? len : 1);
    rq->body.cap = len;
    rq->body.len = rq->body.data != NULL ? len : 0;
    rq->head.media = media;
    rq->head.has_body = true;
    if (rq->body.data == NULL)
        (void)bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a body of %zu bytes", len);
    return rq->body.data;
}

const char *bl_request_query(const bl_request *rq, const char *name)
{
    for (int i = 0; i < rq->head.nquery; i++)
        if (strcmp(rq->head.query[i].name, name) == 0)
            return rq->head.query[i].value;
    return NULL;
}

bl_status bl_request_query_count(bl_request *rq, const char *name, uint64_t lo, uint64_t hi, uint64_t *out)
{
    const char *text = bl_request_query(rq, name);
    char *end = NULL;
    uint64_t value = 0;
    if (text == NULL)
        return BL_OK;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || text[0] < '0' || text[0] > '9' || value < lo || value > hi)
        return bl_fail(&rq->err, BL_EINVAL, "%s is \"%.40s\"; it must be a whole number from %llu to %llu", name, text,
                       (unsigned long long)lo, (unsigned long long)hi);
    *out = value;
    return BL_OK;
}

bl_span bl_request_body(const bl_request *rq)
{
    return (bl_span){rq->body.len > 0 ? rq->body.data : "", rq->body.len};
}

void bl_request_reply(bl_request *rq, int status, const char *content_type)
{
    rq->reply.status = status;
    rq->reply.content_type = content_type;
}

void bl_request_reply_json(bl_request *rq, int status)
{
    bl_request_reply(rq, status, "application/json");
}

void bl_request_reply_owed(bl_request *rq, const char *detail)
{
    bl_text_puts(&rq->reply.out, "{\"written\":false");
    bl_encode_key(&rq->reply.out, "detail");
    bl_encode_string(&rq->reply.out, detail);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 202);
}

void bl_request_reply_file(bl_request *rq, const char *content_type)
{
    bl_request_reply(rq, 200, content_type);
    rq->reply.kind = BL_REPLY_FILE;
}

/* Map |status| to the HTTP status codes of Triton, because clients of Triton handle only a few codes. */
static int v2_status(bl_status status)
{
    int code = bl_status_http(status);
    if (status == BL_EUNSUPPORTED)
        return 501;
    if (status == BL_ENODEVMEM || status == BL_ESTORAGE || status == BL_ETIMEOUT)
        return 503;
    return code == 422 || code == 409 || code == 412 ? 400 : code;
}

void bl_request_reply_problem(bl_request *rq)
{
    bool v2 = rq->head.route != NULL ? (rq->head.route->flags & BL_ROUTE_ERRORV2) != 0 : strncmp(rq->head.uri, "/v2/", 4) == 0;
    bool openai =
        rq->head.route != NULL ? (rq->head.route->flags & BL_ROUTE_ERROROPENAI) != 0 : strncmp(rq->head.uri, "/v1/", 4) == 0;
    uint64_t step = (uint64_t)rq->reply.problem_step;
    bl_text_clear(&rq->reply.out);
    rq->reply.out.failed = false;
    if (rq->reply.kind == BL_REPLY_FILE)
        close(rq->reply.file);
    rq->reply.kind = BL_REPLY_BYTES;
    rq->reply.npieces = 0;
    rq->reply.envelope = 0;
    rq->reply.headers = NULL;
    rq->reply.coding = BL_REPLY_UNDECIDED;
    rq->reply.status = v2       ? v2_status(rq->err.status)
                       : openai ? bl_problem_status_openai(rq->err.status)
                                : bl_status_http(rq->err.status);
    if (rq->reply.status >= 500 && rq->err.status != BL_EBUSY && rq->err.status != BL_ECANCELLED)
        bl_log(BL_LOG_WARN, "request %s: %s (%s:%d)", rq->id, rq->err.text, rq->err.file ? rq->err.file : "?", rq->err.line);
    if (rq->err.status == BL_EQUOTA)
        bl_metrics_add(&rq->server->metrics, BL_COUNT_OVER_QUOTA, 1);
    if (rq->err.status == BL_ETIMEOUT)
        bl_metrics_add(&rq->server->metrics, BL_COUNT_TIMEOUTS, 1);
    if (v2) {
        bl_text_puts(&rq->reply.out, "{\"error\":");
        bl_encode_string(&rq->reply.out, rq->err.text);
        bl_text_puts(&rq->reply.out, "}");
        rq->reply.content_type = "application/json";
        return;
    }
    if (openai) {
        bl_problem_write_openai(&rq->reply.out, &rq->err,
                                rq->head.route == NULL ? "invalid_request_error" : rq->reply.problem_type,
                                rq->reply.problem_members);
        rq->reply.content_type = "application/json";
        return;
    }
    bl_problem_write(&rq->reply.out, &rq->err, rq->reply.problem_step >= 0 ? &step : NULL);
    rq->reply.content_type = "application/problem+json";
}

/* The type that comes first in Accept wins; quality values are ignored. */
bool bl_request_accepts(const bl_request *rq, const char *type)
{
    const char *json = NULL, *found = NULL;
    if (rq->head.accept == NULL)
        return false;
    found = strcasestr(rq->head.accept, type);
    json = strcasestr(rq->head.accept, "application/json");
    return found != NULL && (json == NULL || found < json);
}

typedef struct phrase {
    char *to;
    size_t len;
} phrase;

static void request_say(phrase *p, const char *text, size_t len)
{
    size_t room = BL_PURPOSE_SIZE - 1 - p->len;
    len = len < room ? len : room;
    memcpy(p->to + p->len, text, len);
    p->len += len;
    p->to[p->len] = '\0';
}

static void say_word(phrase *p, const char *word)
{
    if (word != NULL)
        request_say(p, word, strlen(word));
}

/* Write the pattern of the route, with its parameters in place of their names. */
static void say_route(phrase *p, const bl_request *rq)
{
    int param = 0;
    say_word(p, rq->head.route->method); /* rq->head.method is invalid while the body of an answer is sent */
    say_word(p, " ");
    for (const char *at = rq->head.route->pattern; *at != '\0';) {
        size_t plain = strcspn(at, "{");
        request_say(p, at, plain);
        at += plain;
        if (*at == '\0')
            break;
        say_word(p, param < BL_MAX_PARAMS ? rq->head.param[param++] : NULL);
        at += strcspn(at, "}");
        at += *at != '\0';
    }
}

void bl_request_print_purpose(const bl_request *rq, char *to)
{
    const char *pattern = rq->head.route != NULL ? rq->head.route->pattern : "";
    phrase p = {to, 0};
    bool asks = rq->head.route != NULL && strcmp(rq->head.route->method, "POST") == 0;
    to[0] = '\0';
    if (rq->own.done != NULL) {
        say_word(&p, rq->own.purpose.kind != NULL ? rq->own.purpose.kind : "the server's own");
        say_word(&p, rq->own.purpose.name != NULL ? " " : NULL);
        say_word(&p, rq->own.purpose.name);
        say_word(&p, rq->own.purpose.of != NULL ? " of " : NULL);
        say_word(&p, rq->own.purpose.of);
    } else if (asks && strncmp(pattern, "/v2/models/{name}/", 18) == 0) {
        say_word(&p, "model ");
        say_word(&p, rq->head.param[0]);
    } else if (asks && strcmp(pattern, "/api/v1/programs/{name}/run") == 0) {
        say_word(&p, "run of ");
        say_word(&p, rq->head.param[0]);
    } else if (rq->head.route != NULL) {
        say_route(&p, rq);
    }
}

/* ---- transitions */

void bl_request_step(bl_request *rq, bl_request_event event)
{
    bool legal = bl_request_state_next(rq->state, event, &rq->state);
    BL_ASSERT(legal);
    if (!legal)
        bl_log(BL_LOG_ERROR, "bug: request %s: event %d in state %d; the table of transitions does not have it", rq->id,
               (int)event, (int)rq->state);
}

/* The exchange lets only one of two threads make a transition, so that a request is not finished twice. */
bool bl_request_move(bl_request *rq, bl_request_place_event event)
{
    bl_request_place from = atomic_load(&rq->place), to = from;
    bool legal = false;
    do
        legal = bl_request_place_next(from, event, &to);
    while (legal && !atomic_compare_exchange_weak(&rq->place, &from, to));
    BL_ASSERT(legal);
    if (!legal)
        bl_log(BL_LOG_ERROR, "bug: request %s: event %d in place %d; the table of transitions does not have it", rq->id,
               (int)event, (int)from);
    return legal;
}

/* Suspend the connection, unless it is suspended.  The calling thread must not touch the request after it has passed the request
 * on.  The connection stays suspended until bl_request_finish. */
static void give_away(bl_request *rq, bl_request_place from)
{
    if (rq->conn.moved != NULL)
        *rq->conn.moved = true;
    rq->conn.moved = NULL;
    if ((from == BL_REQUEST_PLACE_IDLE || from == BL_REQUEST_PLACE_INLINE) && rq->own.done == NULL) {
        MHD_suspend_connection(rq->conn.mhd);
        bl_watch_attach(rq->conn.peer, rq);
    }
}

bl_status bl_request_submit(bl_request *rq, bl_queue *queue, bl_work work, bl_serial *serial)
{
    bl_status st = bl_queue_reserve(queue, rq, bl_access_queue_quota(rq->server->access, rq->owner), &rq->err);
    bl_request_place from = atomic_load(&rq->place);
    bool may_inline = rq->item.mode == BL_WORK_INLINE && from == BL_REQUEST_PLACE_IDLE && rq->own.done == NULL;
    if (rq->item.mode == BL_WORK_INLINE)
        rq->item.mode = BL_WORK_IN_FLIGHT;
    if (st == BL_EBUSY)
        bl_metrics_add(&rq->server->metrics, BL_COUNT_QUEUE_FULL, 1);
    if (st != BL_OK)
        return st;
    rq->item.work = work;
    rq->item.serial = serial;
    rq->item.queued_ns = bl_clock_ns();
    if (rq->state == BL_REQUEST_HANDLE)
        bl_request_trace_add(&rq->trace, BL_TIME_DECODE, rq->handling_ns, rq->item.queued_ns);
    bl_request_step(rq, BL_REQUEST_ON_SUBMIT);
    if (may_inline && bl_queue_run_inline(queue, rq))
        return BL_OK;
    give_away(rq, from);
    bl_queue_push(queue, rq);
    return BL_OK;
}

void bl_request_park(bl_request *rq, bool (*on_gone)(bl_request *rq))
{
    bl_request_place from = atomic_load(&rq->place);
    rq->conn.on_gone = on_gone;
    rq->item.queued_ns = bl_clock_ns();
    bl_request_step(rq, BL_REQUEST_ON_SUBMIT);
    (void)bl_request_move(
        rq, BL_REQUEST_PLACE_ON_PARK); /* before the watcher knows the request, so that the watcher calls |on_gone| */
    give_away(rq, from);
}

/* libmicrohttpd does not define a second resume of one suspension, so a second call must not resume. */
void bl_request_finish(bl_request *rq)
{
    if (rq->own.done == NULL)
        bl_watch_detach(rq->conn.peer);
    if (!bl_request_move(rq, BL_REQUEST_PLACE_ON_FINISH))
        return;
    if (rq->own.done != NULL)
        rq->own.done(rq);
    else
        bl_poller_resume(rq->conn.poller, rq->conn.mhd);
}

bool bl_request_withdraw(bl_request *rq)
{
    bl_queue *queue = NULL;
    bl_request_place place = BL_REQUEST_PLACE_IDLE;
    if (atomic_load(&rq->stays) && !atomic_load(&rq->server->life.ends))
        return false;
    atomic_store(&rq->cancel, true);
    if (rq->reply.stream != NULL)
        bl_stream_wake(rq->reply.stream);
    if (atomic_load(&rq->stays)) /* the work of the request reads |cancel| and ends the request */
        return false;
    place = atomic_load(&rq->place);
    if (place == BL_REQUEST_PLACE_PARKED)
        return rq->conn.on_gone(rq);
    queue = place == BL_REQUEST_PLACE_QUEUED ? atomic_load(&rq->item.queue) : NULL;
    return queue != NULL && bl_queue_remove(queue, rq);
}

void bl_request_cancel(bl_request *rq, const char *why)
{
    if (!bl_request_withdraw(rq))
        return;
    (void)bl_fail(&rq->err, BL_ECANCELLED, "%s", why);
    bl_request_finish(rq);
}
