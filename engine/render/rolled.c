/* SPDX-License-Identifier: MIT */
#include "engine/render/dialect.h"

enum {
    MOST_TURNS = 256, /* largest number of iterations of a loop that a driver's compiler might unroll completely */
    MOST_WORK = 512   /* largest number of values in the unrolled loop that needs no hint */
};

/* A loop that should be unrolled is a TILE and is unrolled already. A compiler that unrolls further loops keeps all loads of
 * these loops in registers: Mesa for AMD spilled 12,887 registers in a kernel of 14 minima over 125 elements, and 183 in an
 * attention kernel. */
bool render_is_rolled(const bl_linear *linear, const bl_device_info *info, uint32_t number)
{
    const bl_inst *loop = &linear->inst[number], *turns = NULL;
    int64_t work = 0;
    int depth = 1;

    if (info->serial_groups || loop->op != BL_OP_LOOP)
        return false;
    turns = &linear->inst[loop->args[0]]; /* read after the check of the op: other ops may have no operand */
    if (turns->op != BL_OP_CONST || turns->arg > MOST_TURNS)
        return false;
    for (uint32_t i = number + 1; i < linear->ninst && depth > 0; i++) {
        const bl_inst *inst = &linear->inst[i];
        depth += inst->op == BL_OP_LOOP ? 1 : inst->op == BL_OP_END ? -1 : 0;
        work += inst->op == BL_OP_CONST ? 0 : inst->lanes;
    }
    return turns->arg > 1 && turns->arg * work > MOST_WORK;
}
