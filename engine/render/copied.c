/* SPDX-License-Identifier: MIT */
#include "engine/render/copied.h"

static bool may_be_copied(const bl_linear *linear, const bl_inst *inst, const bool *copied)
{
    bool half = inst->dtype == BL_F16 || inst->dtype == BL_BF16;

    if (inst->op == BL_OP_EXTRACT)
        return copied[inst->args[0]];
    return half && inst->op == BL_OP_LOAD && inst->nargs == 2 && linear->inst[inst->args[0]].sub == BL_PARAM &&
           linear->inst[inst->args[1]].lanes == 1;
}

/* Does |user| only store operand |k|, or take a lane of the operand that is only stored? */
static bool keeps_bits(const bl_linear *linear, const bl_inst *user, uint32_t k, const bool *copied)
{
    const bl_inst *value = &linear->inst[user->args[k]], *to = &linear->inst[user->args[0]];

    if (user->op == BL_OP_EXTRACT)
        return copied[user - linear->inst];
    return user->op == BL_OP_STORE && k == 2 && user->nargs == 3 && to->sub == BL_LOCAL_NARROW && to->dtype == value->dtype &&
           user->lanes == value->lanes && linear->inst[user->args[1]].lanes == 1;
}

const bool *copied_find(bl_arena *arena, const bl_linear *linear)
{
    bool *copied = bl_arena_array(arena, linear->ninst, sizeof *copied);
    bool changed = copied != NULL;

    for (uint32_t i = 0; copied != NULL && i < linear->ninst; i++)
        copied[i] = may_be_copied(linear, &linear->inst[i], copied);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < linear->ninst; i++) {
            const bl_inst *user = &linear->inst[i];
            for (uint32_t k = 0; k < user->nargs; k++) {
                if (!copied[user->args[k]] || keeps_bits(linear, user, k, copied))
                    continue;
                copied[user->args[k]] = false;
                changed = true;
            }
            if (copied[i] && user->op == BL_OP_EXTRACT && !copied[user->args[0]]) {
                copied[i] = false;
                changed = true;
            }
        }
    }
    return copied;
}
