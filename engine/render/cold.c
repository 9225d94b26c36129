/* SPDX-License-Identifier: MIT */
/* Finds strided vector accesses in rarely executed code, to render them as function calls. */
#include "engine/render/cold.h"

#include "engine/base/size.h"

enum {
    SELDOM = 32,  /* an access is cold if another part of the kernel runs at least this often for each time the access runs */
    FEW = 4,      /* with at most this number of cold accesses, the renderer makes no calls */
    UNKNOWN = 64, /* assumed iterations of a loop over a named dimension */
    MOST_LOOPS = BL_LINEAR_MAX_DEPTH
};

/* Is the index a vector with a constant stride? Such a vector is a constant times the lane number, or a sum of such vectors
 * and scalars. */
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
    /* number of operands of an access without a gate */
    uint32_t plain = inst->op == BL_OP_LOAD ? 2 : inst->op == BL_OP_STORE ? 3 : 0;

    return plain > 0 && inst->nargs == plain && inst->lanes > 1 && linear->inst[inst->args[0]].sub == 0 &&
           linear->inst[inst->args[1]].lanes > 1 && is_strided(linear, inst->args[1]);
}

/* Is the STACK made of loads with a constant stride from a buffer that the kernel does not write? Then the loads can be
 * moved to the position of the STACK. */
static bool stacks_loads(const bl_linear *linear, const uint32_t *uses, const bl_inst *stack)
{
    const bl_inst *first = &linear->inst[stack->args[0]];
    int64_t start = 0, step = 0;
    uint32_t base = 0;

    /* elements of these dtypes may have another type in memory than in registers */
    if (bl_dtype_bytes((bl_dtype)stack->dtype) < 4)
        return false;
    for (uint32_t i = 0; i < stack->nargs; i++) {
        const bl_inst *load = &linear->inst[stack->args[i]], *buffer = NULL;
        uint32_t own = 0;
        int64_t number;

        if (load->op != BL_OP_LOAD || load->nargs != 2 || load->lanes != 1 || load->args[0] != first->args[0] ||
            uses[stack->args[i]] != 1)
            return false;
        buffer = &linear->inst[load->args[0]];
        if (buffer->sub != 0 || (linear->writes >> buffer->arg & 1) != 0)
            return false;
        number = bl_linear_split(linear, load->args[1], &own);
        if (i == 0) {
            base = own;
            start = number;
        } else if (i == 1) {
            step = number - start;
        }
        if (own != base || number != start + step * i)
            return false;
    }
    return true;
}

static bool is_call(const bl_linear *linear, const uint32_t *uses, const bl_inst *inst)
{
    return inst->op == BL_OP_STACK ? stacks_loads(linear, uses, inst) : goes_lane_by_lane(linear, inst);
}

static void count_uses(const bl_linear *linear, uint32_t *uses)
{
    for (uint32_t i = 0; i < linear->ninst; i++) {
        for (uint32_t k = 0; k < linear->inst[i].nargs; k++)
            uses[linear->inst[i].args[k]]++;
    }
}

/* Count the runs of each instruction; returns the largest count. */
static int64_t cold_count_runs(const bl_linear *linear, int64_t *runs)
{
    int64_t within[MOST_LOOPS + 1] = {1}, most = 1;
    int depth = 0;

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
    return most;
}

cold_kind *cold_find(bl_arena *arena, const bl_linear *linear)
{
    cold_kind *cold = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *cold);
    int64_t *runs = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *runs), most = 0;
    uint32_t *uses = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *uses);
    int n = 0;

    if (cold == NULL || runs == NULL || uses == NULL)
        return NULL;
    count_uses(linear, uses);
    most = cold_count_runs(linear, runs);
    for (uint32_t i = 0; i < linear->ninst; i++) {
        if (runs[i] > most / SELDOM || !is_call(linear, uses, &linear->inst[i]))
            continue;
        cold[i] = COLD_CALL;
        n++;
    }
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];

        if (n <= FEW)
            cold[i] = COLD_NOT;
        for (uint32_t k = 0; cold[i] == COLD_CALL && inst->op == BL_OP_STACK && k < inst->nargs; k++)
            cold[inst->args[k]] = COLD_PART;
    }
    return cold;
}
