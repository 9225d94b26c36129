/* SPDX-License-Identifier: MIT */
/* In-place updates that change a part of a state: where(region, new, state). The nest stores only the region, into the state
 * itself, after all nests that read the old values. */
#ifndef BL_SCHED_REGION_H
#define BL_SCHED_REGION_H

#include "engine/sched/schedule.h"

/* |state| has, for each root, the place of the state whose next value it is, or -1. Sets in_place[i] for each root whose own
 * place is no longer used: its nests store into the state's place. */
BL_NODISCARD bl_status bl_schedule_in_place(bl_ir *ir, bl_schedule *schedule, int nroots, const int *state, bool *in_place,
                                            bl_err *err);

#endif
