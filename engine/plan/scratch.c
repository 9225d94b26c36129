/* SPDX-License-Identifier: MIT */
/* Layout of the temporaries in the scratch memory of the device. A plan is laid out for its largest sizes when it is
 * compiled. If that layout needs little memory, every run uses the layout. Otherwise the plan is laid out again for the
 * sizes of a run, unless the last run had the same sizes. Without a layout for the sizes of a run, a network for pictures of
 * any size would need the memory of 64 large pictures for one small picture, and a small language model several times the
 * memory of its weights. */
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/plan/plan_internal.h"

#include <string.h>

enum { LAID_OUT_ONCE = 4 * 1024 * 1024 }; /* bytes up to which one layout serves all sizes */

static bool is_elastic(const bl_plan *plan)
{
    return plan->info.nvars > 0 && plan->scratch_bytes > LAID_OUT_ONCE;
}

static bl_status slot_size(const bl_plan *plan, int slot, const int64_t *vars, size_t *bytes, bl_err *err)
{
    int64_t count = bl_extent_eval(plan->slot_count[slot], vars);

    if (count < 0 || !bl_size_mul((size_t)count, bl_dtype_bytes(plan->slot_dtype[slot]), bytes))
        return bl_fail(err, BL_ENODEVMEM, "an intermediate result has more bytes than can be counted");
    *bytes = *bytes == 0 ? 1 : *bytes;
    return BL_OK;
}

/* Lay out |lives| for the sizes |vars|; *bytes is the memory that the layout needs. */
static bl_status scratch_lay_out(const bl_plan *plan, const int64_t *vars, bl_arena *arena, bl_lifetime *lives, size_t *bytes,
                                 bl_err *err)
{
    memcpy(lives, plan->lives, (size_t)plan->nslots * sizeof *lives);
    for (int i = 0; i < plan->nslots; i++)
        if (plan->slot_offset[i] != SIZE_MAX)
            BL_TRY(slot_size(plan, i, vars, &lives[i].bytes, err));
    *bytes = bl_memory_plan(plan->nslots, lives, plan->alignment, arena);
    return bl_arena_status(arena, err);
}

bl_status bl_plan_peak(const bl_plan *plan, const int64_t *vars, size_t *bytes, bl_err *err)
{
    int64_t counted[BL_WIRE_MAX_DIMS];
    bl_arena *arena = is_elastic(plan) ? bl_arena_create(0) : NULL;
    bl_lifetime *lives = arena != NULL ? bl_arena_array(arena, (size_t)plan->nslots, sizeof *lives) : NULL;
    bl_status st = BL_OK;

    *bytes = plan->scratch_bytes;
    vars = plan_count_steps(plan->info.nvars, plan->dims, vars, counted);
    if (lives != NULL)
        st = scratch_lay_out(plan, vars, arena, lives, bytes, err);
    bl_arena_destroy(arena);
    return st;
}

void plan_unbind_scratch(bl_plan *plan)
{
    for (int i = 0; plan->slots != NULL && i < plan->nslots; i++) {
        if (plan->slot_offset[i] == SIZE_MAX)
            continue;
        bl_buffer_release(plan->slots[i]);
        plan->slots[i] = NULL;
    }
    bl_buffer_release(plan->scratch);
    plan->scratch = NULL;
}

/* Take over |scratch|, and make views of it for all temporaries. */
static bl_status bind_views(bl_plan *plan, bl_buffer *scratch, const bl_lifetime *lives, bl_err *err)
{
    bl_status st = BL_OK;

    if (plan->scratch != NULL) /* the plan may be in flight, and the release below frees its views */
        st = bl_device_wait(plan->dev, err);
    if (st != BL_OK) {
        bl_buffer_release(scratch);
        return st;
    }
    plan_unbind_scratch(plan);
    plan->scratch = scratch;
    for (int i = 0; i < plan->nslots && st == BL_OK; i++)
        if (plan->slot_offset[i] != SIZE_MAX)
            st = bl_buffer_view(scratch, lives[i].offset, lives[i].bytes, &plan->slots[i], err);
    if (st != BL_OK)
        plan_unbind_scratch(plan); /* a partial set of views must not remain: the next run makes all views */
    return st;
}

/* Lay out and bind the temporaries for the sizes |vars|, because the sizes or the buffer differ from those of the last run. */
static bl_status bind_layout(bl_plan *plan, const int64_t *vars, bl_pool *pool, bl_err *err)
{
    size_t each = (size_t)plan->info.nvars * sizeof *vars, bytes = 0;
    bl_arena *arena = bl_arena_create(0);
    bl_lifetime *lives = arena != NULL ? bl_arena_array(arena, (size_t)plan->nslots, sizeof *lives) : NULL;
    bl_buffer *scratch = NULL;
    bl_status st = lives != NULL ? scratch_lay_out(plan, vars, arena, lives, &bytes, err)
                                 : bl_fail(err, BL_ENOMEM, "out of host memory for a run");

    if (st == BL_OK && bytes > plan->dev->info.max_alloc)
        st = bl_fail(err, BL_ENODEVMEM,
                     "at these sizes the graph needs %zu bytes for intermediate results at once; %s allocates at most %llu",
                     bytes, plan->info.device, (unsigned long long)plan->dev->info.max_alloc);
    if (st == BL_OK)
        st = bl_pool_scratch(pool, bytes, &scratch, err);
    if (st == BL_OK)
        st = bind_views(plan, scratch, lives, err);
    if (st == BL_OK) {
        memcpy(plan->laid_vars, vars, each);
        plan->laid_bytes = bytes;
    }
    bl_arena_destroy(arena);
    return st;
}

bl_status plan_check_bindings(const bl_plan *plan, const int64_t *vars, bl_err *err)
{
    uint64_t most = plan->info.nvars > 0 ? plan->dev->info.max_binding : 0;

    for (int i = 0; most > 0 && i < plan->nslots; i++) {
        int64_t bytes = plan_slot_bytes(plan, i, vars);
        if ((uint64_t)bytes > most)
            return bl_fail(err, BL_EUNSUPPORTED,
                           "a kernel on %s can address %llu bytes of one tensor; at these sizes a tensor has %lld",
                           plan->info.device, (unsigned long long)most, (long long)bytes);
    }
    return BL_OK;
}

bl_status plan_bind_scratch(bl_plan *plan, const int64_t *vars, bl_pool *pool, bl_err *err)
{
    size_t each = (size_t)plan->info.nvars * sizeof *vars, bytes = plan->scratch_bytes;
    bl_buffer *scratch = NULL;

    if (plan->scratch_bytes == 0)
        return BL_OK;
    if (is_elastic(plan)) {
        if (plan->scratch == NULL || memcmp(plan->laid_vars, vars, each) != 0)
            return bind_layout(plan, vars, pool, err);
        bytes = plan->laid_bytes;
    }
    BL_TRY(bl_pool_scratch(pool, bytes, &scratch, err));
    if (scratch == plan->scratch) {
        bl_buffer_release(scratch);
        return BL_OK;
    }
    if (!is_elastic(plan))
        return bind_views(plan, scratch, plan->lives, err);
    bl_buffer_release(scratch);
    return bind_layout(plan, vars, pool, err);
}
