/* SPDX-License-Identifier: MIT */
#include "engine/sched/parts.h"

#include <stddef.h>

/* Estimates in multiply-adds of one multiprocessor: the latency that the sums of one part add to the helper that adds them up,
 * and one element that is written to memory and read back, at four per clock. */
#define PART_COST 8192.0
#define PASS_COST 64.0

double bl_parts_sum_cost(uint32_t units, int64_t results, int64_t parts)
{
    return parts == 1 ? 0 : BL_PARTS_LAUNCH_COST + (double)parts * (PART_COST + PASS_COST * (double)results / units);
}

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
