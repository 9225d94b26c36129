/* SPDX-License-Identifier: MIT */
/* One HTTP request: its memory, its body, its reply, and the queue in which it waits.  A request belongs to one thread at a
 * time: first to the HTTP thread that reads it, then to the queue and the worker to which it was submitted, and after
 * bl_request_finish to the HTTP thread again.  An offload thread decodes a large body and prints a large answer.  Other threads
 * may touch only |cancel|.  The defer list of a request holds everything that the request owns, so all handlers end a request
 * in the same way.
 *
 * An internal request is a request of the server's own (bl_request_create_own): it has no connection. */
#ifndef BL_SERVER_HTTP_REQUEST_H
#define BL_SERVER_HTTP_REQUEST_H

#include "engine/base/arena.h"
#include "engine/base/halt.h"
#include "engine/base/text.h"
#include "server/http/request_state.h"
#include "server/run/work_item.h"
#include "server/telemetry/request_trace.h"

#include <stdatomic.h>

struct MHD_Connection;
struct MHD_Response;
typedef struct bl_server bl_server;
typedef struct bl_request bl_request;
typedef struct bl_route bl_route;
typedef struct bl_peer bl_peer;
typedef struct bl_inflate bl_inflate;
typedef struct bl_intake bl_intake;
typedef struct bl_stream bl_stream;

enum {
    BL_MAX_PARAMS = 2,
    BL_MAX_QUERIES = 8,
    BL_ID_SIZE = 72,
    BL_NAME_SIZE = 132,
    BL_PURPOSE_SIZE = 2 * BL_NAME_SIZE + 64 /* for two names in a route pattern */
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

/* A header of a reply, in addition to the common headers. */
typedef struct bl_header {
    const char *name, *value;
} bl_header;

typedef struct bl_defer {
    struct bl_defer *next;
    void (*fn)(void *arg);
    void *arg;
} bl_defer;

/* The purpose of an internal request: "job" "4f2a" "line".  The strings live as long as the request.  |of| may be NULL. */
typedef struct bl_purpose {
    const char *kind, *name, *of;
} bl_purpose;

/* A part of a reply that libmicrohttpd sends without a copy. */
typedef struct bl_piece {
    const void *data;
    size_t bytes;
} bl_piece;

/* The connection of a request.  Owner: the HTTP thread of the connection.  An internal request has no connection. */
typedef struct bl_request_conn {
    struct MHD_Connection *mhd;
    struct bl_poller *poller; /* the poller of the connection, or NULL */
    bl_peer *peer;
    bool *moved;                     /* a flag on the stack of the thread that owns the request; give_away sets it; or NULL */
    bool accepted;                   /* counted in server->life.accepted */
    bool (*on_gone)(bl_request *rq); /* callback of a parked request (bl_request_park) */
} bl_request_conn;

/* The parsed head: constant after the HTTP thread has read it. */
typedef struct bl_request_head {
    const char *uri; /* as sent by the client; the peer owns the string */
    const char *method;
    const bl_route *route;
    const char *param[BL_MAX_PARAMS]; /* parameters of the path, decoded */
    bl_query query[BL_MAX_QUERIES];
    int nquery;
    bl_media media;            /* content type of the body */
    const char *accept;        /* or NULL; libmicrohttpd owns the string, which lives as long as the request */
    const char *if_none_match; /* or NULL; owned likewise */
    const char *infer_header;  /* Inference-Header-Content-Length, or NULL; owned likewise */
    const char *accept_coding; /* Accept-Encoding, or NULL; owned likewise */
    int infer_headers;         /* number of Inference-Header-Content-Length headers */
    const char *content_range; /* or NULL; owned likewise */
    uint64_t content_length;   /* 0 if the head has none */
    bool has_body;
} bl_request_head;

/* The body.  The HTTP thread reads the body, and the handler decodes it. */
typedef struct bl_body {
    char *data; /* heap; a small buffer is reused for the next request */
    size_t len, cap;
    uint64_t droppable; /* bytes that the server may still drop after a failure */
    bl_inflate *inflate;
    bl_intake *intake; /* destination of the body; NULL: the body is in |data| */
} bl_body;

/* What the HTTP thread sends after the head of the reply. */
typedef enum bl_reply_kind {
    BL_REPLY_BYTES, /* |out| and then |pieces| */
    BL_REPLY_FILE,  /* |file|; libmicrohttpd closes the descriptor */
    BL_REPLY_STREAM /* |stream| */
} bl_reply_kind;

/* The content coding of the reply. */
typedef enum bl_reply_coding {
    BL_REPLY_UNDECIDED, /* bl_reply_code chooses */
    BL_REPLY_PLAIN,
    BL_REPLY_GZIP,
    BL_REPLY_DEFLATE
} bl_reply_coding;

/* The reply: the handler or |then| fills it, the HTTP thread sends it. */
typedef struct bl_reply {
    int status; /* 0: there is no reply yet */
    const char *content_type;
    const char *allow;        /* value of the header "allow" for status 405 */
    const char *location;     /* or NULL */
    const bl_header *headers; /* arena; additional headers, ended by a NULL name; or NULL */
    bl_text out;
    bl_reply_kind kind;
    bl_piece *pieces; /* arena; |npieces| of them */
    unsigned npieces;
    bl_piece coded; /* the whole reply after content coding */
    int file;
    uint64_t file_bytes;
    bl_reply_coding coding;
    size_t listed;          /* number of elements that the answer prints as JSON, if the number may be large; else 0 */
    int retry_after;        /* seconds, for status 429 and 503; 0: the default */
    size_t envelope;        /* bytes of |out| that Inference-Header-Content-Length of the answer states; 0: no such header */
    bl_stream *stream;      /* arena; or NULL */
    long long problem_step; /* "step" of the problem document, or -1 */
    const char *problem_type,
        *problem_members; /* OpenAI's error object: a type that replaces the default type, and additional members; or NULL */
    int64_t sent_ns;      /* time at which libmicrohttpd got the answer */
} bl_reply;

/* Members of an internal request. */
typedef struct bl_own_work {
    void (*done)(bl_request *rq); /* called on the worker's thread after the work; no connection is resumed.  NULL: the request
                                   * came from a client */
    void *arg;                    /* argument of the caller */
    bl_purpose purpose;           /* kind is NULL if the purpose is not set */
    bool asked;                   /* a client waits for the result */
} bl_own_work;

struct bl_request {
    bl_server *server;
    bl_arena *arena;
    bl_err err;
    bl_request_state state;          /* changed by bl_request_step */
    _Atomic(bl_request_place) place; /* changed by bl_request_move */
    char id[BL_ID_SIZE];
    uint32_t owner;   /* the key of the request; 0: the request has no key, because the server has no keys */
    unsigned scopes;  /* BL_SCOPE_ bits: the permissions of the key */
    unsigned secrets; /* number of secrets that the key had had when the request arrived, since the server started */
    uint64_t purges;  /* number of purges of the key when the request arrived or was made */

    bl_request_conn conn;
    bl_request_head head;
    bl_body body;
    bl_work_item item;
    bl_reply reply;
    bl_own_work own;

    int64_t start_ns;
    int64_t handling_ns; /* time at which the handler began */
    bl_request_trace trace;
    void *data;                        /* data of the handler, in the arena */
    bl_status (*then)(bl_request *rq); /* fills the reply after the work: on the HTTP thread or on an offload thread */
    atomic_bool stays;  /* the request lasts until its work ends, even if the client closes the connection: |cancel| is set only
                         * when the server ends */
    atomic_bool cancel; /* the client closed the connection, or the server ends: the work stops before the next launch */
    atomic_int holders; /* references to the memory of the request: 2 if the request was answered before its work ended
                         * (bl_queue_lend), else 1 */
    bl_defer *defers;
    bl_request *next_free;
};

/* ---- lifetime, called by the HTTP layer */
bl_request *bl_request_create(bl_server *server); /* NULL if out of memory */
void bl_request_end(bl_request *rq); /* writes the access log, runs the defer list, keeps the memory for the next request */
/* Release the memory of a request that was answered before its work ended.  The work calls this (bl_queue_take_back). */
void bl_request_release(bl_request *rq);
void bl_requests_fini(bl_server *server); /* frees the kept requests */

/* Create an internal request on behalf of |owner|: the request has no connection and no line in the access log.  Submit it like
 * any other request.  |done| is called after the work, or after the work was given up, with the result in rq->err.  After
 * |done| the caller owns the request again.  The caller may clear rq->err and submit the request once more, or end the request
 * with bl_request_end.  NULL if out of memory. */
bl_request *bl_request_create_own(bl_server *server, uint32_t owner, void (*done)(bl_request *rq), void *own);
/* Do the quotas of the owner apply to |rq|?  Quotas do not apply to an internal request for which no client waits: the server
 * finishes accepted work and restores stored state whatever the key may do now.  Quotas do not apply to a request whose work is
 * done and whose answer is still to be printed. */
static inline bool bl_request_is_bound(const bl_request *rq)
{
    return (rq->own.done == NULL || rq->own.asked) && rq->state != BL_REQUEST_PRINT;
}
/* Write the purpose as text of at most BL_PURPOSE_SIZE bytes: "job 4f2a of line", "model m", "run of p", "PUT
 * /api/v1/tensors/x".  The function reads no member that the work of the request changes. */
void bl_request_print_purpose(const bl_request *rq, char *to);
/* Cancel the request.  A running request stops before its next launch.  A waiting request finishes at once: this call calls
 * |done|.  The caller guarantees that the request has not ended.  The watcher also calls this when a client closes its
 * connection. */
void bl_request_cancel(bl_request *rq, const char *why);
/* The first half of bl_request_cancel: set |cancel| and remove the request from its queue.  True: the caller must finish the
 * request. */
bool bl_request_withdraw(bl_request *rq);

/* Make a transition of the request (request_state.h).  A transition that the table does not have is a bug: the functions log
 * it and change nothing, and bl_request_move returns false. */
void bl_request_step(bl_request *rq, bl_request_event event);
bool bl_request_move(bl_request *rq, bl_request_place_event event);
/* For the handler and |then|: do they run on an offload thread? */
static inline bool bl_request_is_apart(const bl_request *rq)
{
    return atomic_load_explicit(&rq->place, memory_order_relaxed) == BL_REQUEST_PLACE_WORK;
}

/* ---- for handlers */
/* Call |fn| with |arg| when the request ends.  The function registered last runs first.  If memory is short, |fn| is called at
 * once. */
BL_NODISCARD bl_status bl_request_defer(bl_request *rq, void (*fn)(void *arg), void *arg);
/* Allocate host memory that lives as long as the request and is charged to --max-memory.  Use this for every size that a
 * request determines.  NULL if out of memory; rq->err then names |what|. */
void *bl_request_alloc(bl_request *rq, size_t bytes, const char *what);
const char *bl_request_query(const bl_request *rq, const char *name); /* NULL if absent */
bl_span bl_request_body(const bl_request *rq);
/* Answer with |status| and the text in rq->reply.out. */
void bl_request_reply(bl_request *rq, int status, const char *content_type);
void bl_request_reply_json(bl_request *rq, int status);
/* Answer 202: the change has taken effect but is not on the disk yet (bl_storage_owe).  |detail| states the consequence. */
void bl_request_reply_owed(bl_request *rq, const char *detail);
/* Answer with rq->reply.file_bytes bytes of the descriptor rq->reply.file.  Takes ownership of the descriptor. */
void bl_request_reply_file(bl_request *rq, const char *content_type);
/* Fill the reply with the problem document of rq->err. */
void bl_request_reply_problem(bl_request *rq);
/* Does the Accept header prefer |type| to JSON? */
bool bl_request_accepts(const bl_request *rq, const char *type);
/* Read the query parameter |name|, a whole number from |lo| to |hi|.  Without the parameter *out keeps its value. */
BL_NODISCARD bl_status bl_request_query_count(bl_request *rq, const char *name, uint64_t lo, uint64_t hi, uint64_t *out);

/* Suspend the connection, unless it is suspended already, and put the request into |queue|, where a worker's thread calls
 * |work|.  The calling thread does work of the mode INLINE at once if nothing waits in the queue.  BL_EBUSY if the queue is
 * full.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_request_submit(bl_request *rq, bl_queue *queue, bl_work work, bl_serial *serial);
/* Suspend the connection without a queue: another object finishes the request later.  If the client closes the connection
 * meanwhile, |on_gone| is called, on any thread and under the lock of the request's peer.  If |on_gone| returns true, its caller
 * owns the request and finishes it. */
void bl_request_park(bl_request *rq, bool (*on_gone)(bl_request *rq));
/* The conditions that stop the work: the client closed the connection, the server ends, or the deadline has passed. */
static inline bl_halt bl_request_halt(const bl_request *rq)
{
    return (bl_halt){.cancel = &rq->cancel, .deadline_ns = rq->item.deadline_ns};
}
/* Allocate the body of an internal request.  The caller fills the body.  NULL if out of memory. */
char *bl_request_make_body(bl_request *rq, size_t len, bl_media media);
/* End the work: resume the connection, whose thread then answers.  The queue calls this. */
void bl_request_finish(bl_request *rq);

#endif
