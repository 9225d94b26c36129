/* SPDX-License-Identifier: MIT */
/* Panels that outlive a run.  An operand that is rewritten before a product reads it (opt/pack.c) is often a weight, the same run
 * after run: from the second time on that its source is the very same, its panel has a buffer of its own, and is not written
 * again. */
#include "engine/plan/internal.h"

#include <stdlib.h>

enum { MOST_PANEL_BYTES = 256 << 20 }; /* of one plan */

/* Are the sources what they were at the last step?  Afterwards they are remembered. */
static bool same_sources(plan_kept *kept, bl_buffer *const *slots)
{
    bool same = true;

    for (int i = 0; i < kept->nfrom; i++) {
        const bl_buffer *from = slots[kept->from[i]];
        same = same && kept->last[i] == from && kept->version[i] == from->version;
        kept->last[i] = from;
        kept->version[i] = from->version;
    }
    return same;
}

/* Whoever gets the panel's memory next may write to it at once, and a run of the plan that reads it may be in flight. */
static void drop(bl_device *dev, plan_kept *kept, bl_pool *pool)
{
    bl_err ignored = {0};

    if (kept->buffer != NULL) {
        bl_status waited = bl_device_wait(dev, &ignored);
        (void)waited; /* a lost device fails what is in flight, and reads nothing any more */
    }
    bl_pool_release(pool, kept->buffer);
    kept->buffer = NULL;
    kept->full = false;
}

void plan_keep_begin(bl_plan *plan, bl_pool *pool)
{
    for (int i = 0; i < plan->nkept; i++) {
        plan_kept *kept = &plan->kept[i];
        bl_err ignored = {0};

        kept->scratch = plan->slots[kept->slot];
        if (!same_sources(kept, plan->slots))
            drop(plan->dev, kept, pool);
        else if (kept->buffer == NULL && bl_pool_alloc(pool, kept->bytes, &kept->buffer, &ignored) != BL_OK)
            continue; /* there is scratch memory for it */
        if (kept->buffer == NULL)
            continue;
        plan->slots[kept->slot] = kept->buffer;
        for (int d = 0; d < 3; d++) {
            kept->groups[d] = plan->groups[kept->step][d];
            if (kept->full)
                plan->groups[kept->step][d] = 0;
        }
    }
}

void plan_keep_end(bl_plan *plan, bool good)
{
    for (int i = 0; i < plan->nkept; i++) {
        plan_kept *kept = &plan->kept[i];

        if (kept->buffer == NULL)
            continue;
        plan->slots[kept->slot] = kept->scratch;
        for (int d = 0; d < 3; d++)
            plan->groups[kept->step][d] = kept->groups[d];
        kept->full = good;
    }
}

void plan_keep_forget(bl_plan *plan)
{
    for (int i = 0; i < plan->nkept; i++) {
        plan->kept[i].full = false;
        for (int k = 0; k < plan->kept[i].nfrom; k++)
            plan->kept[i].last[k] = NULL;
    }
}

void plan_keep_fini(bl_plan *plan)
{
    for (int i = 0; i < plan->nkept; i++)
        bl_buffer_release(plan->kept[i].buffer);
}

/* May the panel that step |i| writes be kept: is it made of what the plan is given and does not change, once a step, and small
 * enough? */
void plan_keep_add(bl_plan *plan, int i, int slot, size_t bytes, int nfrom, const int *from)
{
    const bl_graph *graph = plan->graph;
    plan_kept *kept = &plan->kept[plan->nkept];
    size_t all = bytes;

    if (plan->nkept == PLAN_MOST_KEPT || nfrom > PLAN_KEPT_FROM || graph->nvars > 0)
        return;
    for (int k = 0; k < plan->nkept; k++)
        all += plan->kept[k].bytes;
    if (all > MOST_PANEL_BYTES)
        return;
    for (int k = 0; k < nfrom; k++) {
        int state = from[k] - graph->ninputs;
        if (from[k] >= graph->ninputs + graph->nstates + graph->nhidden || (state >= 0 && graph->updates[state] != NULL))
            return;
    }
    *kept = (plan_kept){.step = i, .slot = slot, .nfrom = nfrom, .bytes = bytes};
    for (int k = 0; k < nfrom; k++)
        kept->from[k] = from[k];
    plan->nkept++;
}
