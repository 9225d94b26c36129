/* SPDX-License-Identifier: MIT */
/* One HTTP request: its memory, its body, its reply, and where it waits.
 * A request belongs to one thread at a time: the HTTP thread that reads it, then the queue and worker it was submitted to, and
 * after bl_request_finish the HTTP thread again.  Only |cancel| may be touched by others.  Everything it owns hangs on the defer
 * list, so that ending it needs no knowledge of what it did. */
#ifndef BL_SERVER_REQUEST_H
#define BL_SERVER_REQUEST_H

#include "engine/base/arena.h"
#include "engine/base/text.h"

#include <stdatomic.h>

struct MHD_Connection;
struct MHD_Response;
typedef struct bl_server bl_server;
typedef struct bl_request bl_request;
typedef struct bl_route bl_route;
typedef struct bl_queue bl_queue;
typedef struct bl_peer bl_peer;
typedef struct bl_inflate bl_inflate;
typedef struct bl_upload bl_upload;

/* What a piece of work says when it returns.  After MOVED the request is somebody else's.  After FLIES the device is at it: the
 * work is called once more, to wait for it, when no other that |may_fly| is to be had or enough do. */
typedef enum bl_step { BL_STEP_DONE, BL_STEP_AGAIN, BL_STEP_MOVED, BL_STEP_FLIES } bl_step;
typedef bl_step (*bl_work)(bl_request *rq);

/* Requests that must not overlap (runs of one program); they take turns in order of arrival.  Guarded by the lock of the one
 * queue it is used with; zeroed is ready. */
typedef struct bl_serial {
    bl_request *holder; /* at work, or between two slices of it; compared only */
} bl_serial;

enum { BL_MAX_PARAMS = 2, BL_MAX_QUERIES = 8, BL_ID_SIZE = 72, BL_NAME_SIZE = 132 };

typedef enum bl_media { BL_MEDIA_NONE, BL_MEDIA_JSON = 1, BL_MEDIA_SAFETENSORS = 2, BL_MEDIA_OCTETS = 4 } bl_media;

typedef struct bl_query {
    const char *name, *value;
} bl_query;

typedef struct bl_defer {
    struct bl_defer *next;
    void (*fn)(void *arg);
    void *arg;
} bl_defer;

/* Part of a reply that is sent from where it lies. */
typedef struct bl_piece {
    const void *data;
    size_t bytes;
} bl_piece;

typedef enum bl_request_state {
    BL_REQUEST_BODY,    /* body bytes go to |body| or |upload| */
    BL_REQUEST_DISCARD, /* failed: the rest of the body is dropped, then the failure is told */
    BL_REQUEST_WORK,    /* the handler has it, or a queue */
    BL_REQUEST_SENT     /* a response was queued */
} bl_request_state;

struct bl_request {
    bl_server *server;
    struct MHD_Connection *connection;
    bl_arena *arena;
    bl_err err;
    bl_request_state state;

    /* what was asked */
    char id[BL_ID_SIZE];
    const char *uri; /* as sent; the peer's */
    const char *method;
    const bl_route *route;
    const char *param[BL_MAX_PARAMS]; /* of the path, decoded */
    bl_query query[BL_MAX_QUERIES];
    int nquery;
    bl_media media;            /* of the body */
    const char *accept;        /* or NULL; MHD's memory, as long as the request */
    const char *if_none_match; /* likewise */
    uint64_t content_length;   /* 0 where none was given */
    bool has_body;
    int64_t start_ns;

    /* the body */
    char *body; /* heap, kept for the next request while small */
    size_t body_len, body_cap;
    uint64_t swallowed; /* bytes dropped after a failure */
    bl_inflate *inflate;
    bl_upload *upload;

    /* the reply */
    int status;
    const char *content_type;
    const char *allow;    /* 405 */
    const char *location; /* or NULL */
    bl_text out;
    bl_piece *pieces; /* arena, sent after |out|; NULL */
    unsigned npieces;
    long long problem_step; /* "step" of the problem document, or -1 */

    /* waiting: guarded by the lock of |queue| */
    bl_request *next, *prev;
    _Atomic(bl_queue *) queue; /* where it waits now, or NULL; changed under the lock of that queue */
    bl_serial *serial;
    bl_work work;
    bool may_fly; /* |work| may begin while others fly */
    void *data;   /* of the handler, in the arena */
    int64_t queued_ns, queue_wait_ns, deadline_ns;
    bl_status (*then)(bl_request *rq); /* called on the HTTP thread when the work is over, to fill the reply */
    bl_peer *peer;
    bool submitted;        /* in this call of the HTTP thread, whose own flag it is */
    atomic_bool suspended; /* the connection is */
    atomic_bool cancel;    /* the client went away, or the server ends: stop at the next launch */

    bl_defer *defers;
    bl_request *next_free;
};

/* ---- lifetime, by the HTTP layer */
bl_request *bl_request_create(bl_server *server); /* NULL if out of memory */
void bl_request_end(bl_request *rq);              /* runs what was deferred, logs, and keeps the memory for the next one */
void bl_requests_fini(bl_server *server);         /* frees those kept */

/* ---- for handlers */
/* |fn| is called with |arg| when the request ends, the last one first.  If that cannot be arranged it is called at once. */
BL_NODISCARD bl_status bl_request_defer(bl_request *rq, void (*fn)(void *arg), void *arg);
/* Host memory for as long as the request, counted against --max-memory: for all whose size a request decides.  NULL, and
 * rq->err says what it was for, where there is none. */
void *bl_request_alloc(bl_request *rq, size_t bytes, const char *what);
const char *bl_request_query(const bl_request *rq, const char *name); /* NULL if absent */
bl_span bl_request_body(const bl_request *rq);
/* Answer with |status| and what is in rq->out. */
void bl_request_reply(bl_request *rq, int status, const char *content_type);
void bl_request_reply_json(bl_request *rq, int status);
/* Fill the reply with the problem document of rq->err. */
void bl_request_reply_problem(bl_request *rq);
/* Whether Accept prefers |type| to JSON. */
bool bl_request_accepts(const bl_request *rq, const char *type);

/* Suspend the connection (if it is not yet) and put the request into |queue|, where |work| is called on a worker's thread.
 * BL_EBUSY where the queue is full.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_request_submit(bl_request *rq, bl_queue *queue, bl_work work, bl_serial *serial);
/* The work is over: wake the connection, whose thread then answers.  By the queue. */
void bl_request_finish(bl_request *rq);

#endif
