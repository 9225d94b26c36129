/* SPDX-License-Identifier: MIT */
/* Joins several kernels into one: a single work-item runs all groups of the first kernel, then those of the second, and so on.
 * This pays where all of them together take less time than a launch. */
#include "engine/lower/lower.h"

#include <string.h>

typedef struct joiner {
    bl_arena *arena;
    bl_linear *out;
    uint32_t *buffer; /* for each parameter: 1 + its BUFFER instruction, or 0 */
    uint32_t *to;     /* for each instruction of the current part: its number in the joined kernel */
} joiner;

static uint32_t join_kernels_add(joiner *j, bl_inst inst, uint32_t nargs, const uint32_t *args)
{
    inst.nargs = nargs;
    inst.args = args;
    j->out->inst[j->out->ninst] = inst;
    return j->out->ninst++;
}

/* Replace a group number: by a loop, or by 0 if there is one group. */
static uint32_t open_loop(joiner *j, bl_dtype index, int64_t groups, int *depth)
{
    bl_inst count = {.op = BL_OP_CONST, .dtype = (uint8_t)index, .lanes = 1, .arg = groups > 1 ? groups : 0};
    uint32_t number = join_kernels_add(j, count, 0, NULL), *arg = NULL;

    if (groups <= 1)
        return number;
    arg = bl_arena_array(j->arena, 1, sizeof *arg);
    if (arg != NULL)
        *arg = number;
    ++*depth;
    return join_kernels_add(j, (bl_inst){.op = BL_OP_LOOP, .dtype = (uint8_t)index, .lanes = 1}, 1, arg);
}

static uint32_t add_buffer(joiner *j, const bl_inst *inst, int param)
{
    if (j->buffer[param] == 0) {
        bl_inst buffer = *inst;
        buffer.arg = param;
        j->buffer[param] = 1 + join_kernels_add(j, buffer, 0, NULL);
    }
    return j->buffer[param] - 1;
}

static bl_dtype index_dtype(const bl_linear *linear)
{
    for (uint32_t i = 0; i < linear->ninst; i++) {
        if (linear->inst[i].op == BL_OP_GROUP_ID)
            return (bl_dtype)linear->inst[i].dtype;
    }
    return BL_I32;
}

static void join_kernels_add_part(joiner *j, const bl_join_part *part)
{
    const bl_linear *linear = part->linear;
    bl_dtype index = index_dtype(linear);
    uint32_t group[BL_GRID_DIMS];
    int depth = 0;

    /* before any loop, since other parts use the buffers too */
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_BUFFER)
            j->to[i] = inst->sub != 0 ? join_kernels_add(j, *inst, 0, NULL) : add_buffer(j, inst, part->param[inst->arg]);
    }
    for (int d = BL_GRID_DIMS - 1; d >= 0; d--)
        group[d] = open_loop(j, index, part->groups[d], &depth);
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        uint32_t *args = NULL;
        if (inst->op == BL_OP_BUFFER || inst->op == BL_OP_BARRIER) /* a single work-item needs no barrier */
            continue;
        if (inst->op == BL_OP_GROUP_ID) {
            j->to[i] = group[inst->arg];
            continue;
        }
        args = bl_arena_array(j->arena, inst->nargs, sizeof *args);
        for (uint32_t k = 0; args != NULL && k < inst->nargs; k++)
            args[k] = j->to[inst->args[k]];
        j->to[i] = join_kernels_add(j, *inst, inst->nargs, args);
    }
    while (depth-- > 0)
        join_kernels_add(j, (bl_inst){.op = BL_OP_END, .dtype = (uint8_t)index, .lanes = 1}, 0, NULL);
    for (uint32_t i = 0; i < linear->nbuffers; i++) {
        if (linear->writes >> i & 1)
            j->out->writes |= UINT32_C(1) << part->param[i];
    }
}

bool bl_lower_can_join(const bl_lowered *lowered)
{
    const bl_linear *linear = lowered->linear;
    bool single = linear->local[0] == 1 && linear->local[1] == 1 && linear->local[2] == 1;

    for (int d = 0; d < BL_GRID_DIMS; d++)
        single = single && bl_is_const(lowered->grid[d]);
    for (uint32_t i = 0; i < linear->ninst; i++)
        single = single && linear->inst[i].op != BL_OP_LOCAL_ID;
    return single && linear->nscalars == 0;
}

bl_status bl_lower_join(bl_ir *ir, const char *name, uint32_t nbuffers, const bl_dtype *dtypes, int n, const bl_join_part *parts,
                        bl_lowered **out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    const bl_node *one = bl_index(ir, 1);
    bl_lowered *made = bl_arena_alloc(arena, sizeof *made);
    bl_linear *linear = bl_arena_alloc(arena, sizeof *linear);
    joiner j = {.arena = arena, .out = linear, .buffer = bl_arena_array(arena, nbuffers, sizeof *j.buffer)};
    size_t most = nbuffers, longest = 1;

    *out = NULL;
    for (int i = 0; i < n; i++) {
        size_t own = parts[i].linear->ninst;
        most += own + 3 * BL_GRID_DIMS;
        longest = own > longest ? own : longest;
    }
    j.to = bl_arena_array(arena, longest, sizeof *j.to);
    BL_TRY(bl_arena_status(arena, err));
    linear->inst = bl_arena_array(arena, most, sizeof *linear->inst);
    BL_TRY(bl_arena_status(arena, err));
    linear->name = name;
    linear->nbuffers = nbuffers;
    linear->buffer_dtype = dtypes;
    for (int d = 0; d < BL_GRID_DIMS; d++)
        linear->local[d] = 1;
    for (int i = 0; i < n; i++) {
        join_kernels_add_part(&j, &parts[i]);
        linear->local_bytes += parts[i].linear->local_bytes;
    }
    *made = (bl_lowered){.linear = linear, .grid = {one, one, one}};
    *out = made;
    BL_TRY(bl_ir_status(ir, err));
    return bl_linear_check(arena, linear, err);
}
