/* SPDX-License-Identifier: MIT */
/* What the launches of a plan do at the sizes of a run: who compiled it knew the largest ones alone. */
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/plan/internal.h"

int64_t plan_slot_bytes(const bl_plan *plan, int slot, const int64_t *vars)
{
    const bl_graph *graph = plan->graph;
    int64_t count = 1, bytes = 0;

    if (plan->slot_count[slot] != NULL)
        count = bl_extent_eval(plan->slot_count[slot], vars);
    else if (slot < graph->ninputs + graph->nstates + graph->nhidden)
        for (uint32_t i = 0; i < graph->inputs[slot]->ndim; i++)
            count = bl_i64_mul(count, bl_extent_eval(graph->inputs[slot]->dim[i], vars), &count) ? count : INT64_MAX;
    return bl_i64_mul(count, (int64_t)bl_dtype_bytes(plan->slot_dtype[slot]), &bytes) ? bytes : INT64_MAX;
}

bl_status plan_count(const bl_plan *plan, const plan_work *work, const int64_t *vars, bl_arena *arena, plan_counts *out,
                     bl_err *err)
{
    *out = (plan_counts){0};
    for (; work != NULL; work = work->next) {
        bl_cost cost;
        BL_TRY(bl_cost_count(arena, work->lowered, plan->graph->nvars, vars, &cost, err));
        if (!bl_i64_add(out->ops, cost.ops, &out->ops))
            out->ops = INT64_MAX;
        for (int k = 0; k < work->nparams; k++) {
            int64_t whole = plan_slot_bytes(plan, work->slot[k], vars);
            int64_t moved = cost.moved[k] < whole ? cost.moved[k] : whole; /* what is read again comes from a cache */
            if (!bl_i64_add(out->bytes, moved, &out->bytes))
                out->bytes = INT64_MAX;
        }
    }
    return BL_OK;
}

void plan_count_all(const bl_plan *plan, const int64_t *vars, plan_counts *out)
{
    bl_arena *arena = plan->graph->nvars > 0 ? bl_arena_create(0) : NULL;

    for (int i = 0; i < plan->nsteps; i++)
        out[plan->steps[i].kernel] = (plan_counts){.ops = plan->steps[i].ops, .bytes = plan->steps[i].bytes};
    for (int i = 0; arena != NULL && i < plan->nkernels; i++) {
        bl_err err = {0};
        plan_counts counts;
        if (plan_count(plan, plan->work[i], vars, arena, &counts, &err) == BL_OK)
            out[i] = counts;
        bl_arena_reset(arena);
    }
    bl_arena_destroy(arena);
}
