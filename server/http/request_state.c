/* SPDX-License-Identifier: MIT */
/* The tables of transitions of a request.  A cached run goes from IDLE to QUEUED to WORK to IDLE once, or from IDLE to INLINE to
 * IDLE. */
#include "server/http/request_state.h"

/* Rows: [from][event] = TO(to).  A row that is missing has the value 0: the transition is a bug. */
#define TO(state) (1 + (state))

static const unsigned char states[BL_REQUEST_STATES][BL_REQUEST_EVENTS] = {
    [BL_REQUEST_NEW][BL_REQUEST_ON_HEAD] = TO(BL_REQUEST_BODY),
    [BL_REQUEST_NEW][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_WORK), /* an internal request */
    [BL_REQUEST_NEW][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),    /* no queue took the internal request */
    [BL_REQUEST_BODY][BL_REQUEST_ON_REFUSE] = TO(BL_REQUEST_DISCARD),
    [BL_REQUEST_BODY][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_BODY), /* a part of the body is inflated or flushed */
    [BL_REQUEST_BODY][BL_REQUEST_ON_WHOLE] = TO(BL_REQUEST_READY),
    [BL_REQUEST_BODY][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT), /* the head or the end of the body is refused */
    [BL_REQUEST_BODY][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),  /* here and below: the connection broke */
    [BL_REQUEST_DISCARD][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT),
    [BL_REQUEST_DISCARD][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_READY][BL_REQUEST_ON_HANDLE] = TO(BL_REQUEST_HANDLE),
    [BL_REQUEST_READY][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_WORK), /* a large body: an offload thread calls the handler */
    [BL_REQUEST_READY][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT),   /* the queue of the offload threads is full */
    [BL_REQUEST_READY][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_HANDLE][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_WORK),
    [BL_REQUEST_HANDLE][BL_REQUEST_ON_ANSWER] = TO(BL_REQUEST_ANSWER), /* the handler had nothing to submit */
    [BL_REQUEST_HANDLE][BL_REQUEST_ON_PRINT] = TO(BL_REQUEST_PRINT),
    [BL_REQUEST_HANDLE][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT), /* the handler filled the answer */
    [BL_REQUEST_HANDLE][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_WORK][BL_REQUEST_ON_APART] = TO(BL_REQUEST_READY),
    [BL_REQUEST_WORK][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_WORK), /* from queue to queue */
    [BL_REQUEST_WORK][BL_REQUEST_ON_ANSWER] = TO(BL_REQUEST_ANSWER),
    [BL_REQUEST_WORK][BL_REQUEST_ON_PRINT] = TO(BL_REQUEST_PRINT),
    [BL_REQUEST_WORK][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT), /* the work failed or has filled the answer */
    [BL_REQUEST_WORK][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),  /* also the end of an internal request */
    [BL_REQUEST_PRINT][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_PRINT),
    [BL_REQUEST_PRINT][BL_REQUEST_ON_ANSWER] = TO(BL_REQUEST_ANSWER),
    [BL_REQUEST_PRINT][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT),
    [BL_REQUEST_PRINT][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_ANSWER][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_WORK),   /* |then| needs more work, such as a write to the disk */
    [BL_REQUEST_ANSWER][BL_REQUEST_ON_ANSWER] = TO(BL_REQUEST_ANSWER), /* |then| has set another |then| */
    [BL_REQUEST_ANSWER][BL_REQUEST_ON_PRINT] = TO(BL_REQUEST_PRINT),   /* to compress the answer */
    [BL_REQUEST_ANSWER][BL_REQUEST_ON_SEND] = TO(BL_REQUEST_SENT),
    [BL_REQUEST_ANSWER][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_SENT][BL_REQUEST_ON_END] = TO(BL_REQUEST_OVER),
    [BL_REQUEST_OVER][BL_REQUEST_ON_SUBMIT] = TO(BL_REQUEST_OVER), /* an offload thread frees much memory */
};

static const unsigned char places[BL_REQUEST_PLACES][BL_REQUEST_PLACE_EVENTS] = {
    [BL_REQUEST_PLACE_IDLE][BL_REQUEST_PLACE_ON_PUSH] = TO(BL_REQUEST_PLACE_QUEUED),
    [BL_REQUEST_PLACE_IDLE][BL_REQUEST_PLACE_ON_INLINE] = TO(BL_REQUEST_PLACE_INLINE),
    [BL_REQUEST_PLACE_IDLE][BL_REQUEST_PLACE_ON_PARK] = TO(BL_REQUEST_PLACE_PARKED),
    [BL_REQUEST_PLACE_INLINE][BL_REQUEST_PLACE_ON_RETURN] = TO(BL_REQUEST_PLACE_IDLE),
    [BL_REQUEST_PLACE_INLINE][BL_REQUEST_PLACE_ON_PUSH] =
        TO(BL_REQUEST_PLACE_QUEUED), /* the device was lost: another device does the work */
    [BL_REQUEST_PLACE_QUEUED][BL_REQUEST_PLACE_ON_TAKE] = TO(BL_REQUEST_PLACE_WORK),
    [BL_REQUEST_PLACE_QUEUED][BL_REQUEST_PLACE_ON_BATCH] = TO(BL_REQUEST_PLACE_BATCHED),
    [BL_REQUEST_PLACE_BATCHED][BL_REQUEST_PLACE_ON_TAKE] = TO(BL_REQUEST_PLACE_WORK),
    [BL_REQUEST_PLACE_WORK][BL_REQUEST_PLACE_ON_PUSH] = TO(BL_REQUEST_PLACE_QUEUED), /* the next slice, or the next queue */
    [BL_REQUEST_PLACE_WORK][BL_REQUEST_PLACE_ON_LEND] = TO(BL_REQUEST_PLACE_LENT),
    [BL_REQUEST_PLACE_WORK][BL_REQUEST_PLACE_ON_PARK] = TO(BL_REQUEST_PLACE_PARKED), /* a handler on an offload thread */
    [BL_REQUEST_PLACE_WORK][BL_REQUEST_PLACE_ON_FINISH] = TO(BL_REQUEST_PLACE_IDLE),
    [BL_REQUEST_PLACE_LENT][BL_REQUEST_PLACE_ON_TAKE] =
        TO(BL_REQUEST_PLACE_WORK), /* by the work; or to answer, and then the work has only its memory */
    [BL_REQUEST_PLACE_PARKED][BL_REQUEST_PLACE_ON_FINISH] = TO(BL_REQUEST_PLACE_IDLE),
};

bool bl_request_state_next(bl_request_state from, bl_request_event event, bl_request_state *to)
{
    unsigned next = states[from][event];
    *to = next != 0 ? (bl_request_state)(next - 1) : from;
    return next != 0;
}

bool bl_request_place_next(bl_request_place from, bl_request_place_event event, bl_request_place *to)
{
    unsigned next = places[from][event];
    *to = next != 0 ? (bl_request_place)(next - 1) : from;
    return next != 0;
}
