/* SPDX-License-Identifier: MIT */
/* Cancellation of long work. The work calls bl_halt_check now and then, and ends when no request waits for its result any
 * more. */
#ifndef BL_BASE_HALT_H
#define BL_BASE_HALT_H

#include "engine/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

enum { BL_HALT_LOOK_NS = 20000000 }; /* a request that waits for the work of another request checks its own halt this often */

/* The number of requests that wait for a piece of work besides the request that started the work. Zero-initialised: none.
 * Thread: any. */
typedef struct bl_audience {
    atomic_int others; /* below zero: the work was cancelled */
} bl_audience;

/* Join the requests that wait for the work. The work then goes on even if the request that started it is cancelled. False if
 * the work was cancelled already: the caller must do the work itself. */
BL_NODISCARD bool bl_audience_join(bl_audience *audience);
void bl_audience_leave(bl_audience *audience); /* only after a successful bl_audience_join */

/* When to cancel. Zero-initialised: never. Passed by value. The caller owns |cancel| and |audience| and keeps them until the
 * work has ended. */
typedef struct bl_halt {
    const atomic_bool *cancel; /* true: the request was cancelled; may be NULL */
    int64_t deadline_ns;       /* in time of bl_clock_ns; 0 means no deadline */
    bl_audience *audience;     /* while it has members, the work goes on; may be NULL */
} bl_halt;

/* BL_ECANCELLED or BL_ETIMEOUT if the work must end. That closes the audience: bl_audience_join fails from then on. Thread:
 * any. */
BL_NODISCARD bl_status bl_halt_check(const bl_halt *halt, bl_err *err);

#endif
