/* SPDX-License-Identifier: MIT */
#include "engine/sched/parts.h"

#include <stddef.h>

int64_t bl_parts_choose(const bl_parting *how)
{
    double least = how->cost == NULL ? 0 : how->cost(how->arg, 1);
    int64_t best = 1;

    for (int64_t parts = 2;
         parts <= how->most && parts <= how->extent / how->shortest && (how->enough == 0 || best < how->enough); parts++) {
        double cost = 0;
        if (how->extent % parts != 0 || (how->multiple > 0 && how->extent / parts % how->multiple != 0))
            continue;
        cost = how->cost == NULL ? 0 : how->cost(how->arg, parts);
        if (how->cost == NULL || cost < least * (1 - how->gain)) {
            least = cost;
            best = parts;
        }
    }
    return best;
}
