/* SPDX-License-Identifier: MIT */
/* When somebody stops waiting for a piece of work: long work looks now and then, and ends. */
#ifndef BL_BASE_HALT_H
#define BL_BASE_HALT_H

#include "engine/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

enum { BL_HALT_LOOK_NS = 20000000 }; /* how often who waits for somebody else's work looks whether he still should */

/* Zeroed: never.  By value; |cancel| is the waiter's and outlives the work. */
typedef struct bl_halt {
    const atomic_bool *cancel; /* nobody waits any more; may be NULL */
    int64_t deadline_ns;       /* nor after this, by bl_clock_ns; 0: no deadline */
} bl_halt;

/* BL_ECANCELLED or BL_ETIMEOUT, and so from then on.  Any thread. */
BL_NODISCARD bl_status bl_halt_check(const bl_halt *halt, bl_err *err);

#endif
