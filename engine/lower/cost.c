/* SPDX-License-Identifier: MIT */
#include "engine/lower/cost.h"

#include "engine/base/size.h"
#include "engine/ir/matrix.h"

enum { MOST_NESTING = 64 };

static int64_t times(int64_t a, int64_t b)
{
    int64_t product = 0;
    return bl_i64_mul(a, b, &product) ? product : INT64_MAX;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return bl_i64_add(a, b, &sum) ? sum : INT64_MAX;
}

/* Which instructions compute what is stored, rather than where: |of_value| has one flag for each and starts as false.  Users
 * stand behind what they use, but for SET, whose variable is read further behind still. */
static void mark_values(const bl_linear *linear, bool *of_value)
{
    for (uint32_t i = linear->ninst; i-- > 0;) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_STORE)
            of_value[inst->args[2]] = true;
        else if (inst->op == BL_OP_SET && of_value[inst->args[0]])
            of_value[inst->args[1]] = true;
        else if (of_value[i] && inst->op != BL_OP_LOAD && inst->op != BL_OP_LOOP)
            for (uint32_t k = 0; k < inst->nargs; k++)
                of_value[inst->args[k]] = true;
    }
}

static int64_t operations(const bl_linear *linear, const bl_inst *inst)
{
    if (inst->op == BL_OP_FOLD)
        return linear->inst[inst->args[0]].lanes - 1;
    if (bl_op_get_class((bl_op)inst->op) != BL_CLASS_ALU || inst->op == BL_OP_CAST || inst->op == BL_OP_BITCAST ||
        inst->op == BL_OP_WHERE)
        return 0;
    return inst->lanes * (inst->op == BL_OP_FMA ? 2 : 1);
}

/* A size at the largest sizes of the dimensions: a sum of products of constants and scalar parameters; else 64, which is a guess.
 */
static int64_t largest(const bl_lowered *lowered, int nvars, const int64_t *most, uint32_t at, int depth)
{
    const bl_inst *inst = &lowered->linear->inst[at];

    if (inst->op == BL_OP_CONST)
        return inst->arg;
    if (inst->op == BL_OP_VAR && inst->arg < lowered->nvars && lowered->vars[inst->arg] < nvars)
        return most[lowered->vars[inst->arg]];
    if (inst->op == BL_OP_CAST && depth > 0)
        return largest(lowered, nvars, most, inst->args[0], depth - 1);
    if ((inst->op == BL_OP_ADD || inst->op == BL_OP_MUL) && depth > 0) {
        int64_t x = largest(lowered, nvars, most, inst->args[0], depth - 1),
                y = largest(lowered, nvars, most, inst->args[1], depth - 1);
        if (inst->op == BL_OP_MUL)
            return times(x, y);
        return plus(x > 0 ? x : 0, y > 0 ? y : 0); /* what is taken off may be nothing */
    }
    if (inst->op == BL_OP_MIN && depth > 0) { /* where a sum ends by its gate */
        int64_t x = largest(lowered, nvars, most, inst->args[0], depth - 1),
                y = largest(lowered, nvars, most, inst->args[1], depth - 1);
        return x < y ? x : y;
    }
    return 64;
}

int64_t *bl_cost_runs(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *most)
{
    const bl_linear *linear = lowered->linear;
    int64_t *runs = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *runs), around[MOST_NESTING] = {1};
    int depth = 0;

    if (runs == NULL)
        return NULL;
    for (int i = 0; i < BL_GRID_DIMS; i++)
        around[0] = times(around[0], times(lowered->grid[i]->hi, linear->local[i]));
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOOP && depth + 1 < MOST_NESTING) {
            around[depth + 1] = times(around[depth], largest(lowered, nvars, most, inst->args[0], 8));
            depth++;
        }
        runs[i] = around[depth];
        if (inst->op == BL_OP_END && depth > 0)
            depth--;
    }
    return runs;
}

bl_status bl_cost_count(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *most, bl_cost *cost, bl_err *err)
{
    const bl_linear *linear = lowered->linear;
    bool *of_value = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *of_value);
    const int64_t *runs = bl_cost_runs(arena, lowered, nvars, most);

    *cost = (bl_cost){0};
    if (of_value == NULL || runs == NULL)
        return bl_arena_status(arena, err);
    mark_values(linear, of_value);
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOOP || inst->op == BL_OP_END)
            continue;
        if ((inst->op == BL_OP_STORE || inst->op == BL_OP_LOAD) && linear->inst[inst->args[0]].sub == 0) {
            int64_t *moved = &cost->moved[linear->inst[inst->args[0]].arg];
            *moved = plus(*moved, times(runs[i], inst->lanes * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)));
        } else if (inst->op == BL_OP_MATRIX_ADD) {
            bl_matrix x = bl_matrix_unpack(inst->arg);
            cost->ops = plus(cost->ops, times(runs[i], 2 * x.m * x.n * x.k) / x.scope);
        } else if (inst->op == BL_OP_FRAGMENT_LOAD && linear->inst[inst->args[0]].sub == 0) {
            bl_matrix x = bl_matrix_unpack(inst->arg);
            int64_t rows = 0, columns = 0, *moved = &cost->moved[linear->inst[inst->args[0]].arg];
            bl_matrix_cells(x, (bl_matrix_layout)inst->sub, &rows, &columns);
            *moved = plus(*moved, times(runs[i], rows * columns * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)) / x.scope);
        } else if (of_value[i]) {
            cost->ops = plus(cost->ops, times(runs[i], operations(linear, inst)));
        }
    }
    return BL_OK;
}
