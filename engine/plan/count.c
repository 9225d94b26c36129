/* SPDX-License-Identifier: MIT */
/* Counts the work of a plan's launches at the sizes of a run. The compilation counts the work at the largest sizes only. */
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/plan/plan_internal.h"

/* The tensor of an input or a state; NULL for other slots. */
static const bl_plan_tensor *tensor_of(const bl_plan_info *info, int slot)
{
    if (slot < info->ninputs)
        return &info->inputs[slot];
    slot -= info->ninputs;
    if (slot < info->nstates)
        return &info->states[slot];
    slot -= info->nstates;
    return slot < info->nhidden ? &info->hidden[slot] : NULL;
}

int64_t plan_slot_bytes(const bl_plan *plan, int slot, const int64_t *vars)
{
    const bl_plan_tensor *tensor = tensor_of(&plan->info, slot);
    int64_t count = 1, bytes = 0;

    if (plan->slot_count[slot] != NULL)
        count = bl_extent_eval(plan->slot_count[slot], vars);
    else if (tensor != NULL)
        for (int i = 0; i < tensor->ndim; i++)
            count = bl_i64_mul(count, bl_extent_eval(tensor->dim[i], vars), &count) ? count : INT64_MAX;
    return bl_i64_mul(count, (int64_t)bl_dtype_bytes(plan->slot_dtype[slot]), &bytes) ? bytes : INT64_MAX;
}

static bl_lowered *copy_lowered(bl_arena *arena, bl_ptrmap *extents, const bl_lowered *lowered, bl_linear *linear)
{
    bl_lowered *copy = bl_arena_alloc(arena, sizeof *copy);
    int *vars = bl_arena_array(arena, (size_t)lowered->nvars, sizeof *vars);

    if (linear == NULL)
        linear = bl_linear_copy(arena, lowered->linear);
    if (copy == NULL || vars == NULL || linear == NULL)
        return NULL;
    for (int i = 0; i < lowered->nvars; i++)
        vars[i] = lowered->vars[i];
    *copy = (bl_lowered){.linear = linear, .nvars = lowered->nvars, .vars = vars};
    for (int i = 0; i < BL_GRID_DIMS; i++)
        copy->grid[i] = bl_extent_copy(arena, extents, lowered->grid[i]);
    return copy;
}

const plan_work *plan_work_copy(bl_arena *arena, bl_ptrmap *extents, const plan_work *work, const plan_work *like)
{
    const plan_work *first = NULL, **last = &first;

    for (; work != NULL; work = work->next) {
        plan_work *copy = bl_arena_alloc(arena, sizeof *copy);
        int *slot = bl_arena_array(arena, (size_t)work->nparams, sizeof *slot);
        if (copy == NULL || slot == NULL)
            return NULL;
        for (int i = 0; i < work->nparams; i++)
            slot[i] = work->slot[i];
        *copy = (plan_work){.nparams = work->nparams, .slot = slot};
        copy->lowered = copy_lowered(arena, extents, work->lowered, like != NULL ? like->lowered->linear : NULL);
        if (copy->lowered == NULL)
            return NULL;
        *last = copy;
        last = &copy->next;
        like = like != NULL ? like->next : NULL;
    }
    return first;
}

bl_status plan_count(const bl_plan *plan, const plan_work *work, const int64_t *vars, bl_arena *arena, plan_counts *out,
                     bl_err *err)
{
    *out = (plan_counts){0};
    for (; work != NULL; work = work->next) {
        bl_cost cost;
        BL_TRY(bl_cost_count(arena, work->lowered, plan->info.nvars, vars, &cost, err));
        if (!bl_i64_add(out->ops, cost.ops, &out->ops))
            out->ops = INT64_MAX;
        for (int k = 0; k < work->nparams; k++) {
            int64_t whole = plan_slot_bytes(plan, work->slot[k], vars);
            int64_t moved = cost.moved[k] < whole ? cost.moved[k] : whole; /* repeated reads hit the cache */
            if (!bl_i64_add(out->bytes, moved, &out->bytes))
                out->bytes = INT64_MAX;
        }
    }
    return BL_OK;
}

void plan_count_all(const bl_plan *plan, const int64_t *vars, plan_counts *out)
{
    bl_arena *arena = plan->info.nvars > 0 ? bl_arena_create(0) : NULL;

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
