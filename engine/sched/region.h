/* SPDX-License-Identifier: MIT */
/* Updates that change a part of a state: where(region, new, state).  Their nest stores the region alone, into the state itself,
 * once all who read what was there before have run. */
#ifndef BL_SCHED_REGION_H
#define BL_SCHED_REGION_H

#include "engine/sched/schedule.h"

/* |state|: for each root the place of the state that it is the next value of, or -1.  Sets in_place[i] for each root whose place
 * nothing names any more: its nests name the state's. */
BL_NODISCARD bl_status bl_schedule_in_place(bl_ir *ir, bl_schedule *schedule, int nroots, const int *state, bool *in_place,
                                            bl_err *err);

#endif
