/* SPDX-License-Identifier: MIT */
#include "engine/opt/heuristic.h"

#include "engine/opt/facts.h"

void bl_heuristic(bl_tune *tune, const bl_target *target)
{
    facts f;

    facts_init(&f, tune);
    if (unit_nest(&f, target))
        return;
    if (target->groups)
        heuristic_gpu(&f, target);
    else
        heuristic_cpu(&f, target);
}
