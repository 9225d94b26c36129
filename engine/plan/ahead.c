/* SPDX-License-Identifier: MIT */
#include "engine/plan/plan_internal.h"

enum { AT_ONCE = 16 }; /* largest number of kernels that a back end compiles as one program */

/* Compile in this process. A batch of one kernel is skipped: bl_kernel_create compiles a single kernel in the same time. */
static bl_status compile_here(bl_device *dev, const bl_halt *halt, bl_arena *arena, int n, const bl_kernel_source *sources,
                              bl_err *err)
{
    bl_err *outcomes = bl_arena_array(arena, (size_t)n, sizeof *outcomes);

    if (outcomes == NULL)
        return bl_arena_status(arena, err);
    for (int i = 0; i < n && n > 1; i += AT_ONCE) {
        BL_TRY(bl_halt_check(halt, err));
        bl_kernels_compile(dev, (uint32_t)(n - i < AT_ONCE ? n - i : AT_ONCE), sources + i, outcomes + i);
    }
    for (int i = 0; i < n; i++) {
        if (outcomes[i].status != BL_OK) {
            *err = outcomes[i];
            return err->status;
        }
    }
    return BL_OK;
}

bl_status plan_compile_ahead(bl_device *dev, bl_children *children, const bl_halt *halt, bl_arena *arena, int n,
                             const bl_kernel_source *sources, bl_err *err)
{
    bl_kernel_source *missing = bl_arena_array(arena, (size_t)n + 1, sizeof *missing);
    int nmissing = 0;

    if (missing == NULL)
        return bl_arena_status(arena, err);
    for (int i = 0; i < n; i++) {
        if (bl_kernel_wants_compiling(dev, &sources[i]))
            missing[nmissing++] = sources[i];
    }
    if (nmissing == 0) /* all kernels are in the cache: a warm start starts no child process */
        return BL_OK;
    return children != NULL ? bl_children_compile(children, dev, nmissing, missing, halt, err)
                            : compile_here(dev, halt, arena, nmissing, missing, err);
}
