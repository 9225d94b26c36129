/* SPDX-License-Identifier: MIT */
/* When somebody stops waiting for a piece of work: long work looks now and then, and ends. */
#ifndef BL_BASE_HALT_H
#define BL_BASE_HALT_H

#include "engine/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

enum { BL_HALT_LOOK_NS = 20000000 }; /* how often who waits for somebody else's work looks whether he still should */

/* Who else waits for a piece of work, besides whom it is done for.  Zeroed: nobody.  Any thread. */
typedef struct bl_audience {
    atomic_int others; /* below zero: the work was given up */
} bl_audience;

/* While somebody is in |audience| work goes on, whoever has begun it.  False where it has been given up already: who comes then
 * has to see to it himself. */
BL_NODISCARD bool bl_audience_join(bl_audience *audience);
void bl_audience_leave(bl_audience *audience); /* who has joined */

/* Zeroed: never.  By value; |cancel| and |audience| are the waiter's and outlive the work. */
typedef struct bl_halt {
    const atomic_bool *cancel; /* nobody waits any more; may be NULL */
    int64_t deadline_ns;       /* nor after this, by bl_clock_ns; 0: no deadline */
    bl_audience *audience;     /* but these, if there are any; may be NULL */
} bl_halt;

/* BL_ECANCELLED or BL_ETIMEOUT, and so from then on: nobody joins the audience any more.  Any thread. */
BL_NODISCARD bl_status bl_halt_check(const bl_halt *halt, bl_err *err);

#endif
