/* SPDX-License-Identifier: MIT */
#include "engine/render/dialect.h"

enum {
    MOST_TURNS = 256, /* of a loop that a driver's compiler might write out whole */
    MOST_WORK = 512   /* values that it would compute then */
};

/* What is worth writing out is so already (TILE).  Compilers that write out the rest have all of its loads wait in registers:
 * Mesa's for AMD moved 12,887 of them to memory in a kernel of 14 minima of 125 turns, and 183 in one of an attention. */
bool render_is_rolled(const bl_linear *linear, const bl_device_info *info, uint32_t number)
{
    const bl_inst *loop = &linear->inst[number], *turns = NULL;
    int64_t work = 0;
    int depth = 1;

    if (info->type == BL_DEVICE_CPU || loop->op != BL_OP_LOOP)
        return false;
    turns = &linear->inst[loop->args[0]]; /* others may have no operand */
    if (turns->op != BL_OP_CONST || turns->arg > MOST_TURNS)
        return false;
    for (uint32_t i = number + 1; i < linear->ninst && depth > 0; i++) {
        const bl_inst *inst = &linear->inst[i];
        depth += inst->op == BL_OP_LOOP ? 1 : inst->op == BL_OP_END ? -1 : 0;
        work += inst->op == BL_OP_CONST ? 0 : inst->lanes;
    }
    return turns->arg > 1 && turns->arg * work > MOST_WORK;
}
