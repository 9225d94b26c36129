/* SPDX-License-Identifier: MIT */
#include "engine/base/halt.h"

#include "engine/base/clock.h"

bl_status bl_halt_check(const bl_halt *halt, bl_err *err)
{
    if (halt->cancel != NULL && atomic_load_explicit(halt->cancel, memory_order_relaxed))
        return bl_fail(err, BL_ECANCELLED, "the client went away");
    if (halt->deadline_ns != 0 && bl_clock_ns() >= halt->deadline_ns)
        return bl_fail(err, BL_ETIMEOUT, "the time limit passed before the graph was compiled");
    return BL_OK;
}
