/* SPDX-License-Identifier: MIT */
/* The state machine of an execution. */
#include "engine/base/log.h"
#include "server/run/exec.h"

/* Rows: [from][event] = to.  A row that is missing has the value 0, BL_EXEC_NEW: the transition is a bug. */
static const unsigned char states[BL_EXEC_STATES][BL_EXEC_EVENTS] = {
    [BL_EXEC_NEW][BL_EXEC_ON_FETCH] = BL_EXEC_FETCH,
    [BL_EXEC_NEW][BL_EXEC_ON_COMPILE] = BL_EXEC_COMPILE,
    [BL_EXEC_NEW][BL_EXEC_ON_QUEUE] = BL_EXEC_READY,
    [BL_EXEC_NEW][BL_EXEC_ON_BEGIN] = BL_EXEC_BEGUN, /* submitted without bl_exec_advance, as batches are */
    [BL_EXEC_FETCH][BL_EXEC_ON_FETCH] = BL_EXEC_FETCH,
    [BL_EXEC_FETCH][BL_EXEC_ON_COMPILE] = BL_EXEC_COMPILE,
    [BL_EXEC_FETCH][BL_EXEC_ON_QUEUE] = BL_EXEC_READY,
    [BL_EXEC_COMPILE][BL_EXEC_ON_QUEUE] = BL_EXEC_READY,
    [BL_EXEC_COMPILE][BL_EXEC_ON_LEAVE] = BL_EXEC_LEFT,
    [BL_EXEC_READY][BL_EXEC_ON_QUEUE] = BL_EXEC_READY, /* a job takes the states of two programs, one after the other */
    [BL_EXEC_READY][BL_EXEC_ON_BEGIN] = BL_EXEC_BEGUN,
    [BL_EXEC_BEGUN][BL_EXEC_ON_SUBMIT] = BL_EXEC_IN_FLIGHT,
    [BL_EXEC_BEGUN][BL_EXEC_ON_RETRY] = BL_EXEC_READY,
    [BL_EXEC_BEGUN][BL_EXEC_ON_END] = BL_EXEC_OVER,
    [BL_EXEC_IN_FLIGHT][BL_EXEC_ON_END] = BL_EXEC_OVER,
};

bool bl_exec_state_next(bl_exec_state from, bl_exec_event event, bl_exec_state *to)
{
    *to = (bl_exec_state)states[from][event];
    if (*to != BL_EXEC_NEW)
        return true;
    *to = from;
    return false;
}

void bl_exec_step(bl_exec *x, bl_exec_event event)
{
    bool legal = bl_exec_state_next(x->state, event, &x->state);
    BL_ASSERT(legal);
    if (!legal)
        bl_log(BL_LOG_ERROR, "bug: request %s: event %d of a run in state %d; the table of transitions does not have it",
               x->rq->id, (int)event, (int)x->state);
}
