/* SPDX-License-Identifier: MIT */
#include "engine/base/halt.h"

#include "engine/base/clock.h"

enum { CLOSED = -1 };

bool bl_audience_join(bl_audience *audience)
{
    int others = atomic_load(&audience->others);

    while (others != CLOSED && !atomic_compare_exchange_weak(&audience->others, &others, others + 1))
        ;
    return others != CLOSED;
}

void bl_audience_leave(bl_audience *audience)
{
    atomic_fetch_sub(&audience->others, 1);
}

/* Close the audience if it has no members. True if it is closed: no other request waits for the work. */
static bool close_audience(bl_audience *audience)
{
    int others = 0;

    return audience == NULL || atomic_compare_exchange_strong(&audience->others, &others, CLOSED) || others == CLOSED;
}

bl_status bl_halt_check(const bl_halt *halt, bl_err *err)
{
    bool cancelled = halt->cancel != NULL && atomic_load_explicit(halt->cancel, memory_order_relaxed);
    bool late = halt->deadline_ns != 0 && bl_clock_ns() >= halt->deadline_ns;

    if ((!cancelled && !late) || !close_audience(halt->audience))
        return BL_OK;
    return cancelled ? bl_fail(err, BL_ECANCELLED, "the client went away")
                     : bl_fail(err, BL_ETIMEOUT, "the time limit passed before the graph was compiled");
}
