/* SPDX-License-Identifier: MIT */
/* Accesses lane by lane that are worth a call. */
#include "engine/render/cold.h"

#include "engine/base/size.h"

enum {
    SELDOM = 32,  /* an access is cold where another part of the kernel runs this often for each time it is done ... */
    FEW = 4,      /* ... and not worth it where there are no more than these */
    UNKNOWN = 64, /* turns of a loop over a named dimension */
    MOST_LOOPS = BL_LINEAR_MAX_DEPTH
};

/* A vector of indices with the same step from lane to lane: constants times the lane's number, and sums with what is scalar. */
static bool is_strided(const bl_linear *linear, uint32_t number)
{
    const bl_inst *inst = &linear->inst[number];
    const bl_inst *x = inst->nargs > 0 ? &linear->inst[inst->args[0]] : NULL,
                  *y = inst->nargs > 1 ? &linear->inst[inst->args[1]] : NULL;

    if (inst->op == BL_OP_LANE || inst->lanes == 1)
        return true;
    if (inst->op == BL_OP_MUL && inst->sub == 1)
        return (x->op == BL_OP_LANE && y->op == BL_OP_CONST) || (x->op == BL_OP_CONST && y->op == BL_OP_LANE);
    return inst->op == BL_OP_ADD && inst->sub == 1 && is_strided(linear, inst->args[0]) && is_strided(linear, inst->args[1]);
}

static bool goes_lane_by_lane(const bl_linear *linear, const bl_inst *inst)
{
    uint32_t plain = inst->op == BL_OP_LOAD ? 2 : inst->op == BL_OP_STORE ? 3 : 0; /* operands, where there is no gate */

    return plain > 0 && inst->nargs == plain && inst->lanes > 1 && linear->inst[inst->args[0]].sub == 0 &&
           linear->inst[inst->args[1]].lanes > 1 && is_strided(linear, inst->args[1]);
}

bool *cold_find(bl_arena *arena, const bl_linear *linear)
{
    bool *cold = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *cold);
    int64_t *runs = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *runs), within[MOST_LOOPS + 1] = {1}, most = 1;
    int depth = 0, n = 0;

    if (cold == NULL || runs == NULL)
        return NULL;
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];

        if (inst->op == BL_OP_LOOP && depth < MOST_LOOPS) {
            const bl_inst *turns = &linear->inst[inst->args[0]];

            if (!bl_i64_mul(within[depth], turns->op == BL_OP_CONST ? turns->arg : UNKNOWN, &within[depth + 1]))
                within[depth + 1] = INT64_MAX / SELDOM;
            depth++;
        } else if (inst->op == BL_OP_END) {
            depth--;
        }
        runs[i] = within[depth];
        most = runs[i] > most ? runs[i] : most;
    }
    for (uint32_t i = 0; i < linear->ninst; i++) {
        cold[i] = runs[i] <= most / SELDOM && goes_lane_by_lane(linear, &linear->inst[i]);
        n += cold[i];
    }
    for (uint32_t i = 0; i < linear->ninst; i++)
        cold[i] = cold[i] && n > FEW;
    return cold;
}
