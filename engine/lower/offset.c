/* SPDX-License-Identifier: MIT */
/* A kernel whose grid can be launched in slices: along one dimension, its group numbers start at a scalar parameter. */
#include "engine/lower/lower.h"

#include <string.h>

/* Copy |from| to |out|, and add a new scalar parameter to each GROUP_ID of dimension |dim|. */
static void copy_offset(bl_arena *arena, const bl_linear *from, int dim, uint32_t *to, bl_linear *out)
{
    for (uint32_t i = 0; i < from->ninst; i++) {
        bl_inst inst = from->inst[i];
        uint32_t *args = bl_arena_array(arena, inst.nargs + 2, sizeof *args);
        if (args == NULL)
            return;
        for (uint32_t k = 0; k < inst.nargs; k++)
            args[k] = to[inst.args[k]];
        inst.args = args;
        out->inst[out->ninst++] = inst;
        if (inst.op == BL_OP_GROUP_ID && inst.arg == dim) {
            out->inst[out->ninst++] = (bl_inst){.op = BL_OP_VAR, .dtype = inst.dtype, .lanes = 1, .arg = from->nscalars};
            args[0] = out->ninst - 2;
            args[1] = out->ninst - 1;
            out->inst[out->ninst++] =
                (bl_inst){.op = BL_OP_ADD, .dtype = inst.dtype, .lanes = 1, .sub = 1, .nargs = 2, .args = args};
        }
        to[i] = out->ninst - 1;
    }
}

bl_status bl_lower_offset(bl_ir *ir, const bl_lowered *lowered, int dim, bl_lowered **out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    const bl_linear *from = lowered->linear;
    bl_lowered *made = bl_arena_alloc(arena, sizeof *made);
    bl_linear *linear = bl_arena_alloc(arena, sizeof *linear);
    uint32_t *to = bl_arena_array(arena, (size_t)from->ninst + 1, sizeof *to);
    size_t most = from->ninst;

    *out = NULL;
    for (uint32_t i = 0; i < from->ninst; i++)
        most += from->inst[i].op == BL_OP_GROUP_ID ? 2 : 0;
    BL_TRY(bl_arena_status(arena, err));
    *linear = *from;
    linear->ninst = 0;
    linear->inst = bl_arena_array(arena, most + 1, sizeof *linear->inst);
    BL_TRY(bl_arena_status(arena, err));
    copy_offset(arena, from, dim, to, linear);
    linear->nscalars = from->nscalars + 1;
    *made = *lowered;
    made->linear = linear;
    *out = made;
    BL_TRY(bl_arena_status(arena, err));
    return bl_linear_check(arena, linear, err);
}
