/* SPDX-License-Identifier: MIT */
#include "engine/opt/heuristic.h"

#include "engine/opt/facts.h"

enum { REUSE_OF_GROUPS = 8 }; /* reads of each operand from which work-items have tiles: fewer were not measured on a GPU */

void bl_heuristic(bl_tune *tune, const bl_target *target)
{
    facts f;

    if (target->groups && tune->local_bytes > (int64_t)target->local_bytes)
        tune->local_bytes = (int64_t)target->local_bytes;
    facts_init(&f, tune);
    if (target->groups == BL_GROUP_PARALLEL && f.main != NULL &&
        !bl_reads_over_and_over(&tune->free, f.main, REUSE_OF_GROUPS, false))
        f.main = NULL;
    if (unit_nest(&f, target))
        return;
    if (target->groups)
        heuristic_gpu(&f, target);
    else
        heuristic_cpu(&f, target);
}
