/* SPDX-License-Identifier: MIT */
#include "engine/opt/heuristic.h"

#include "engine/opt/facts.h"

void bl_heuristic(bl_tune *tune, const bl_target *target)
{
    facts f;

    if (target->groups && tune->local_bytes > (int64_t)target->local_bytes)
        tune->local_bytes = (int64_t)target->local_bytes;
    facts_init(&f, tune);
    if (unit_nest(&f, target))
        return;
    if (target->groups)
        heuristic_gpu(&f, target);
    else
        heuristic_cpu(&f, target);
}
