/* SPDX-License-Identifier: MIT */
/* One HTTP request: its memory, its body, its reply, and where it waits.
 * A request belongs to one thread at a time: the HTTP thread that reads it, then the queue and worker it was submitted to, and
 * after bl_request_finish the HTTP thread again.  A large body is read, and a large answer printed, on an offload thread.  Only
 * |cancel| may be touched by others.  Everything it owns hangs on the defer list, so that ending it needs no knowledge of what it
 * did. */
#ifndef BL_SERVER_REQUEST_H
#define BL_SERVER_REQUEST_H

#include "engine/base/arena.h"
#include "engine/base/halt.h"
#include "engine/base/text.h"
#include "server/telemetry/trail.h"

#include <stdatomic.h>

struct MHD_Connection;
struct MHD_Response;
typedef struct bl_server bl_server;
typedef struct bl_request bl_request;
typedef struct bl_route bl_route;
typedef struct bl_queue bl_queue;
typedef struct bl_peer bl_peer;
typedef struct bl_inflate bl_inflate;
typedef struct bl_intake bl_intake;
typedef struct bl_stream bl_stream;

/* What a piece of work says when it returns.  After MOVED the request is somebody else's.  After FLIES the device is at it: the
 * work is called once more, to wait for it, when no other that |may_fly| is to be had or enough do. */
typedef enum bl_step { BL_STEP_DONE, BL_STEP_AGAIN, BL_STEP_MOVED, BL_STEP_FLIES } bl_step;
typedef bl_step (*bl_work)(bl_request *rq);

/* Requests that must not overlap (runs of one program); they take turns in order of arrival.  Guarded by the lock of the one
 * queue it is used with; zeroed is ready. */
typedef struct bl_serial {
    bl_request *holder; /* at work, or between two slices of it; compared only */
} bl_serial;

/* What a request that is in a queue waits for: it has no turn until the gate has changed since the request looked at it
 * (bl_queue_open).  Zeroed is ready. */
typedef struct bl_gate {
    atomic_ullong changes;
} bl_gate;

/* Of the requests of one owner that wait for a device, and of those of several where it is nobody's turn, the first are served
 * before the last: who waits for an answer, before what runs for long. */
typedef enum bl_rank { BL_RANK_INFER = -1, BL_RANK_RUN = 0, BL_RANK_TRAIN = 1 } bl_rank;

enum {
    BL_MAX_PARAMS = 2,
    BL_MAX_QUERIES = 8,
    BL_ID_SIZE = 72,
    BL_NAME_SIZE = 132,
    BL_PURPOSE_SIZE = 2 * BL_NAME_SIZE + 64 /* two names in a pattern of routes */
};

typedef enum bl_media {
    BL_MEDIA_NONE,
    BL_MEDIA_JSON = 1,
    BL_MEDIA_SAFETENSORS = 2,
    BL_MEDIA_OCTETS = 4,
    BL_MEDIA_ONNX = 8,
    BL_MEDIA_PICTURE = 16
} bl_media;

typedef struct bl_query {
    const char *name, *value;
} bl_query;

/* A header of a reply beyond those of every reply. */
typedef struct bl_header {
    const char *name, *value;
} bl_header;

typedef struct bl_defer {
    struct bl_defer *next;
    void (*fn)(void *arg);
    void *arg;
} bl_defer;

/* Somebody else's part of what the work of a request takes. */
typedef struct bl_time_part {
    uint32_t owner;
    double part; /* all of a request's are at most 1 */
} bl_time_part;

/* What a request of the server's own is for: "job" "4f2a" "line".  They live as long as it; |of| may be NULL. */
typedef struct bl_purpose {
    const char *kind, *name, *of;
} bl_purpose;

/* Part of a reply that is sent from where it lies. */
typedef struct bl_piece {
    const void *data;
    size_t bytes;
} bl_piece;

typedef enum bl_request_state {
    BL_REQUEST_BODY,    /* body bytes go to |body| or |intake| */
    BL_REQUEST_DISCARD, /* failed: the rest of the body is dropped, then the failure is told */
    BL_REQUEST_READY,   /* all of the body is here */
    BL_REQUEST_WORK,    /* the handler has it, or a queue */
    BL_REQUEST_SENT     /* a response was queued */
} bl_request_state;

struct bl_request {
    bl_server *server;
    struct MHD_Connection *connection;
    struct bl_poller *poller; /* whose connection that is; or NULL */
    bl_arena *arena;
    bl_err err;
    bl_request_state state;

    /* what was asked */
    char id[BL_ID_SIZE];
    uint32_t owner;   /* the key that it came with; 0: nobody, there are no keys */
    unsigned scopes;  /* of BL_SCOPE_: what the key is good for */
    unsigned secrets; /* number of secrets of the key, since the start, when the request came */
    uint64_t purges;  /* how often the key had been purged when it came, or was made */
    const char *uri;  /* as sent; the peer's */
    const char *method;
    const bl_route *route;
    const char *param[BL_MAX_PARAMS]; /* of the path, decoded */
    bl_query query[BL_MAX_QUERIES];
    int nquery;
    bl_media media;            /* of the body */
    const char *accept;        /* or NULL; MHD's memory, as long as the request */
    const char *if_none_match; /* likewise */
    const char *infer_header;  /* Inference-Header-Content-Length, or NULL; likewise */
    const char *accept_coding; /* Accept-Encoding, or NULL; likewise */
    int infer_headers;         /* how often it stands there */
    const char *content_range; /* likewise */
    uint64_t content_length;   /* 0 where none was given */
    bool has_body;
    bool accepted; /* counted in server->accepted */
    int64_t start_ns;
    int64_t handling_ns; /* when the handler began, until it answers or submits; or 0 */
    int64_t sent_ns;     /* when the answer was given to libmicrohttpd, or 0 */
    bl_trail trail;

    /* the body */
    char *body; /* heap, kept for the next request while small */
    size_t body_len, body_cap;
    uint64_t droppable; /* bytes that may still come after a failure */
    bl_inflate *inflate;
    bl_intake *intake; /* or NULL: the body is kept in memory */

    /* the reply */
    int status;
    const char *content_type;
    const char *allow;        /* 405 */
    const char *location;     /* or NULL */
    const bl_header *headers; /* arena, more of them, the last one with a NULL name; or NULL */
    bl_text out;
    bl_piece *pieces; /* arena, sent after |out|; NULL */
    unsigned npieces;
    bl_piece coded;  /* all of it, where it is coded */
    bool sends_file; /* |file|, of which libmicrohttpd closes the descriptor, in place of all that */
    int file;
    uint64_t file_bytes;
    const char *coding;     /* of |coded|: what content-encoding says; or NULL */
    bool coding_done;       /* it was chosen */
    size_t listed;          /* elements that the answer prints as JSON, where they may be many; else 0 */
    bool apart;             /* an offload thread has it (offload.h) */
    bool answering;         /* it is submitted for its answer alone */
    int retry_after;        /* seconds, of 429 and 503; 0: as is usual */
    size_t envelope;        /* bytes of |out| that the same header of the answer tells; 0: it has none */
    bl_stream *stream;      /* arena, in place of |out|; NULL */
    long long problem_step; /* "step" of the problem document, or -1 */
    const char *problem_type,
        *problem_members; /* of OpenAI's error object: in place of the usual type, and more members; or NULL */

    /* waiting: guarded by the lock of |queue| */
    bl_request *next, *prev;
    bl_request *along;         /* the next of those that the work of one took along */
    _Atomic(bl_queue *) queue; /* where it waits now, or NULL; changed under the lock of that queue */
    struct bl_waiter *waiter;  /* of that queue, where it has a place: waiting or at work */
    bl_serial *serial;
    bl_gate *gate;      /* NULL: it waits for its turn alone.  Set by its work, before that says AGAIN */
    uint64_t gate_seen; /* the changes of |gate| that its work knew of */
    bl_work work;
    bl_rank rank;
    int priority;               /* among those of its rank and owner, the lower first */
    bool may_fly;               /* |work| may begin while others fly */
    bool brief;                 /* and is over before a thread was woken for it: the one that submits it may do it, once */
    int64_t expected_ns;        /* what it then is known to take, or 0 */
    const bl_time_part *shares; /* of its device time, which others are charged for; the arena's, or NULL */
    unsigned nshares;
    void *data; /* of the handler, in the arena */
    int64_t queued_ns, deadline_ns;
    void (*done)(bl_request *rq); /* of the server's own request: called on the worker's thread in place of waking a connection */
    void *own;                    /* |done|'s */
    bl_purpose purpose;           /* likewise of one's own; its kind is NULL where nobody said it */
    bool asked;                   /* of the server's own request: a client waits for what it does */
    bl_status (*then)(
        bl_request *rq); /* called when the work is over, to fill the reply: on the HTTP thread or on an offload thread */
    bool (*_Atomic leave)(bl_request *rq); /* of one that was parked */
    bl_peer *peer;
    bool *moved;           /* a flag of the thread that has the request, set where the request is given away; or NULL */
    atomic_bool suspended; /* the connection is */
    atomic_bool stays;     /* only its work ends it, and no client that goes away: |cancel| is set when the server ends */
    atomic_bool cancel;    /* the client went away, or the server ends: stop at the next launch */
    atomic_int holders;    /* of its memory, where answer and work have parted (bl_queue_lend): the last frees it; else 0 */

    bl_defer *defers;
    bl_request *next_free;
};

/* ---- lifetime, by the HTTP layer */
bl_request *bl_request_create(bl_server *server); /* NULL if out of memory */
void bl_request_end(bl_request *rq);              /* logs, runs what was deferred, and keeps the memory for the next one */
/* The same of its memory alone, by the work that was left behind when it was answered (bl_queue_take_back). */
void bl_request_release(bl_request *rq);
void bl_requests_fini(bl_server *server); /* frees those kept */

/* A request of the server's own, on behalf of |owner|: it has no connection and is not logged.  It is submitted like any other,
 * and |done| is called when its work is over or was given up, rq->err saying how it went; from then on it is the caller's again,
 * to submit once more (clear rq->err) or to end with bl_request_end.  NULL if out of memory. */
bl_request *bl_request_create_own(bl_server *server, uint32_t owner, void (*done)(bl_request *rq), void *own);
/* Do the quotas of its owner hold for |rq|?  Not for what the server does by itself: what was accepted before is done, and what
 * was there comes back, whatever the key may ask for now; nor where its work is done and only the answer is left. */
static inline bool bl_request_is_bound(const bl_request *rq)
{
    return (rq->done == NULL || rq->asked) && !rq->answering;
}
/* What it is for, in words, cut to BL_PURPOSE_SIZE: "job 4f2a of line", "model m", "run of p", "PUT /api/v1/tensors/x".  Nothing
 * that its work changes is looked at. */
void bl_request_print_purpose(const bl_request *rq, char *to);
/* Stop it at its next launch, or at once where it waits: |done| is called, by this call in that case.  The caller sees to it that
 * it has not ended.  Also what happens to a client's that went away. */
void bl_request_cancel(bl_request *rq, const char *why);
/* The first half of that: true where the caller now must finish it. */
bool bl_request_withdraw(bl_request *rq);

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
/* 202: the change has taken effect, but is not on the disk yet (bl_storage_owe).  |detail| states the consequence. */
void bl_request_reply_owed(bl_request *rq, const char *detail);
/* Answer with rq->file_bytes bytes of the descriptor rq->file, which moves to the reply. */
void bl_request_reply_file(bl_request *rq, const char *content_type);
/* Fill the reply with the problem document of rq->err. */
void bl_request_reply_problem(bl_request *rq);
/* Whether Accept prefers |type| to JSON. */
bool bl_request_accepts(const bl_request *rq, const char *type);
/* The query |name|, a whole number from |lo| to |hi|; *out stays as it is where there is none. */
BL_NODISCARD bl_status bl_request_query_count(bl_request *rq, const char *name, uint64_t lo, uint64_t hi, uint64_t *out);

/* Does it wait in its queue for what has not changed yet? */
static inline bool bl_request_is_gated(const bl_request *rq)
{
    return rq->gate != NULL && atomic_load(&rq->gate->changes) == rq->gate_seen;
}

/* Suspend the connection (if it is not yet) and put the request into |queue|, where |work| is called on a worker's thread; or,
 * where it is |brief| and nobody waits there, do it now.  BL_EBUSY where the queue is full.  After BL_OK the caller must not
 * touch the request. */
BL_NODISCARD bl_status bl_request_submit(bl_request *rq, bl_queue *queue, bl_work work, bl_serial *serial);
/* Suspend the connection for somebody who finishes the request later, without a queue.  Where the client goes away meanwhile
 * |leave| is asked, on any thread and with the lock of the request's peer held: true takes it back, and the asker finishes it. */
void bl_request_park(bl_request *rq, bool (*leave)(bl_request *rq));
/* Its client waits no more, or its time is over. */
static inline bl_halt bl_request_halt(const bl_request *rq)
{
    return (bl_halt){.cancel = &rq->cancel, .deadline_ns = rq->deadline_ns};
}
/* Room for the body of a request of the server's own, which the caller fills.  NULL where there is none. */
char *bl_request_make_body(bl_request *rq, size_t len, bl_media media);
/* The work is over: wake the connection, whose thread then answers.  By the queue. */
void bl_request_finish(bl_request *rq);

#endif
