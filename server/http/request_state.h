/* SPDX-License-Identifier: MIT */
/* The two state machines of a request.  request_state.c has their tables of transitions.
 *
 * The state is the stage of the request.  The thread that owns the request reads and writes the state.
 *
 * The place tells who owns the request.  Only the owner changes the place; the owner of a queued, batched or lent request is the
 * thread that has the lock of the queue.  The place is atomic, because the watcher reads the place to cancel a waiting
 * request. */
#ifndef BL_SERVER_HTTP_REQUEST_STATE_H
#define BL_SERVER_HTTP_REQUEST_STATE_H

#include <stdbool.h>

typedef enum bl_request_state {
    BL_REQUEST_NEW,     /* the request has no head: it was made just now, or it is internal */
    BL_REQUEST_BODY,    /* body bytes go to |body| or |intake| */
    BL_REQUEST_DISCARD, /* failed: the server reads and drops the rest of the body, then reports the failure */
    BL_REQUEST_READY,   /* the whole body has arrived */
    BL_REQUEST_HANDLE,  /* the handler runs */
    BL_REQUEST_WORK,    /* submitted or parked; |then| follows */
    BL_REQUEST_PRINT,   /* the work is done, and an offload thread prints or compresses the answer */
    BL_REQUEST_ANSWER,  /* |then| fills the answer */
    BL_REQUEST_SENT,    /* a response was queued */
    BL_REQUEST_OVER,    /* the request has ended; its memory is still to be freed */
    BL_REQUEST_STATES
} bl_request_state;

typedef enum bl_request_event {
    BL_REQUEST_ON_HEAD,   /* the head was read */
    BL_REQUEST_ON_REFUSE, /* the head or a part of the body is refused, and the rest of the body is dropped */
    BL_REQUEST_ON_WHOLE,  /* the body has ended */
    BL_REQUEST_ON_HANDLE, /* the handler is called */
    BL_REQUEST_ON_SUBMIT, /* the request was accepted by a queue, or is parked */
    BL_REQUEST_ON_APART,  /* an offload thread begins the handler from its beginning */
    BL_REQUEST_ON_PRINT,  /* the answer is large: an offload thread continues */
    BL_REQUEST_ON_ANSWER, /* |then| is called */
    BL_REQUEST_ON_SEND,   /* the response is queued */
    BL_REQUEST_ON_END,    /* libmicrohttpd or the owner of an internal request ends the request */
    BL_REQUEST_EVENTS
} bl_request_event;

typedef enum bl_request_place {
    BL_REQUEST_PLACE_IDLE,    /* the thread that made the request owns it; the connection is active */
    BL_REQUEST_PLACE_INLINE,  /* that thread does the work of a queue (bl_queue_run_inline); the connection is active */
    BL_REQUEST_PLACE_QUEUED,  /* the request waits in a queue; here and below the connection is suspended */
    BL_REQUEST_PLACE_BATCHED, /* the request is in the batch of another request's work */
    BL_REQUEST_PLACE_WORK,    /* one thread or object does the work, or finishes the request next */
    BL_REQUEST_PLACE_LENT,   /* the work also serves other requests, so the request may be answered before its end (bl_queue_lend)
                              */
    BL_REQUEST_PLACE_PARKED, /* an object outside the queues finishes the request later (bl_request_park) */
    BL_REQUEST_PLACES
} bl_request_place;

typedef enum bl_request_place_event {
    BL_REQUEST_PLACE_ON_PUSH,   /* a queue lists the request */
    BL_REQUEST_PLACE_ON_TAKE,   /* a thread takes the request, to do its work or to finish it */
    BL_REQUEST_PLACE_ON_BATCH,  /* the work of another request takes the request into its batch */
    BL_REQUEST_PLACE_ON_INLINE, /* the submitting thread begins the work */
    BL_REQUEST_PLACE_ON_RETURN, /* the submitting thread has done the work */
    BL_REQUEST_PLACE_ON_LEND,   /* the work begins to serve other requests too */
    BL_REQUEST_PLACE_ON_PARK,   /* the request waits without a queue */
    BL_REQUEST_PLACE_ON_FINISH, /* the work is over */
    BL_REQUEST_PLACE_EVENTS
} bl_request_place_event;

/* The state or place after |event|.  False if the table has no such transition. */
bool bl_request_state_next(bl_request_state from, bl_request_event event, bl_request_state *to);
bool bl_request_place_next(bl_request_place from, bl_request_place_event event, bl_request_place *to);

#endif
