/* SPDX-License-Identifier: MIT */
#include "engine/lower/cost.h"

#include "engine/base/size.h"
#include "engine/ir/eval.h"
#include "engine/ir/matrix_unit.h"
#include "engine/ir/shape.h"

enum { MOST_NESTING = 64, GUESS = 64 };

static int64_t cost_times(int64_t a, int64_t b)
{
    int64_t product = 0;
    return bl_i64_mul(a, b, &product) ? product : INT64_MAX;
}

static int64_t cost_plus(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return bl_i64_add(a, b, &sum) ? sum : INT64_MAX;
}

/* Mark the instructions that compute stored values, rather than indices. |of_value| has one flag per instruction, initially
 * false. Users follow their operands, except that the readers of a variable follow its SET. */
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
    return inst->lanes * (inst->op == BL_OP_FMA ? 2 : inst->op == BL_OP_DOT4 ? 8 : 1);
}

typedef struct sizes {
    const bl_lowered *lowered;
    int nvars;
    const int64_t *vars;
} sizes;

/* The value of an instruction that depends on constants and named dimensions only. False if it depends on anything else, or if
 * the expression is deeper than |depth|. */
static bool cost_is_known(const sizes *s, uint32_t at, int depth, int64_t *value)
{
    const bl_inst *inst = &s->lowered->linear->inst[at];
    bl_scalar operand[3] = {{.i = 0}, {.i = 0}, {.i = 0}};

    if (inst->op == BL_OP_CONST) {
        *value = inst->arg;
        return true;
    }
    if (inst->op == BL_OP_VAR && inst->arg < s->lowered->nvars && s->lowered->vars[inst->arg] < s->nvars) {
        *value = s->vars[s->lowered->vars[inst->arg]];
        return true;
    }
    if (bl_op_get_class((bl_op)inst->op) != BL_CLASS_ALU || inst->lanes != 1 || inst->nargs > 3 || depth == 0)
        return false;
    for (uint32_t i = 0; i < inst->nargs; i++) {
        bl_dtype of = (bl_dtype)s->lowered->linear->inst[inst->args[i]].dtype;
        if ((of != BL_I32 && of != BL_I64 && of != BL_BOOL) || !cost_is_known(s, inst->args[i], depth - 1, &operand[i].i))
            return false;
    }
    if (inst->op == BL_OP_BITCAST || (inst->op == BL_OP_CAST && inst->dtype != BL_I32 && inst->dtype != BL_I64))
        return false;
    *value =
        inst->op == BL_OP_CAST
            ? operand[0].i
            : bl_eval((bl_op)inst->op, (bl_dtype)s->lowered->linear->inst[inst->args[inst->nargs == 1 ? 0 : 1]].dtype, operand).i;
    return true;
}

static int64_t cost_turns_of(const sizes *s, uint32_t at, int depth);

/* An estimate for an unknown number: GUESS, or its upper bound if that is less. Bounds are known for a remainder, a quotient, a
 * loop counter and a group number. */
static int64_t guess_of(const sizes *s, const bl_inst *inst, int depth)
{
    int64_t below = INT64_MAX, by = 0;

    if (depth > 0 && inst->op == BL_OP_LOOP)
        below = cost_turns_of(s, inst->args[0], depth - 1);
    else if (inst->op == BL_OP_MOD && cost_is_known(s, inst->args[1], 1, &by))
        below = by;
    else if (depth > 0 && inst->op == BL_OP_IDIV && cost_is_known(s, inst->args[1], 1, &by) && by > 0)
        below = cost_turns_of(s, inst->args[0], depth - 1) / by + 1;
    else if (inst->op == BL_OP_GROUP_ID && inst->arg >= 0 && inst->arg < BL_GRID_DIMS)
        below = bl_extent_eval(s->lowered->grid[inst->arg], s->vars);
    return below < 1 ? 0 : below - 1 < GUESS ? below - 1 : GUESS;
}

/* The number of iterations of a loop: exact for known values, sums and products; an estimate for the rest, for instance for an
 * outer loop's counter in a causal sum. */
static int64_t cost_turns_of(const sizes *s, uint32_t at, int depth)
{
    const bl_inst *inst = &s->lowered->linear->inst[at];
    int64_t x = 0, y = 0;

    if (cost_is_known(s, at, depth, &x))
        return x;
    if (inst->dtype == BL_BOOL) /* a gate that was lowered to a loop of one iteration (stages.c) */
        return 1;
    if (inst->op == BL_OP_CAST && depth > 0)
        return cost_turns_of(s, inst->args[0], depth - 1);
    if ((inst->op != BL_OP_ADD && inst->op != BL_OP_MUL && inst->op != BL_OP_MIN) || depth == 0)
        return guess_of(s, inst, depth);
    x = cost_turns_of(s, inst->args[0], depth - 1);
    y = cost_turns_of(s, inst->args[1], depth - 1);
    if (inst->op == BL_OP_MUL)
        return cost_times(x, y);
    if (inst->op == BL_OP_MIN) /* a reduction that ends where its gate closes */
        return x < y ? x : y;
    return cost_plus(x > 0 ? x : 0, y > 0 ? y : 0); /* a negative operand counts as 0, since it may be small */
}

int64_t *bl_cost_runs(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars)
{
    const sizes at = {.lowered = lowered, .nvars = nvars, .vars = vars};
    const bl_linear *linear = lowered->linear;
    int64_t *runs = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *runs), around[MOST_NESTING] = {1};
    int depth = 0;

    if (runs == NULL)
        return NULL;
    for (int i = 0; i < BL_GRID_DIMS; i++)
        around[0] = cost_times(around[0], cost_times(bl_extent_eval(lowered->grid[i], vars), linear->local[i]));
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOOP && depth + 1 < MOST_NESTING) {
            int64_t turns = cost_turns_of(&at, inst->args[0], 8);
            around[depth + 1] = cost_times(around[depth], turns > 0 ? turns : 0);
            depth++;
        }
        runs[i] = around[depth];
        if (inst->op == BL_OP_END && depth > 0)
            depth--;
    }
    return runs;
}

bl_status bl_cost_count(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars, bl_cost *cost, bl_err *err)
{
    const bl_linear *linear = lowered->linear;
    bool *of_value = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *of_value);
    const int64_t *runs = bl_cost_runs(arena, lowered, nvars, vars);

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
            *moved = cost_plus(*moved, cost_times(runs[i], inst->lanes * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)));
        } else if (inst->op == BL_OP_MATRIX_ADD) {
            bl_matrix x = bl_matrix_unpack(inst->arg);
            cost->ops = cost_plus(cost->ops, cost_times(runs[i], 2 * x.m * x.n * x.k) / x.scope);
        } else if (inst->op == BL_OP_FRAGMENT_LOAD && linear->inst[inst->args[0]].sub == 0) {
            bl_matrix x = bl_matrix_unpack(inst->arg);
            int64_t rows = 0, columns = 0, *moved = &cost->moved[linear->inst[inst->args[0]].arg];
            bl_matrix_cells(x, (bl_matrix_layout)inst->sub, &rows, &columns);
            *moved =
                cost_plus(*moved, cost_times(runs[i], rows * columns * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)) / x.scope);
        } else if (of_value[i]) {
            cost->ops = cost_plus(cost->ops, cost_times(runs[i], operations(linear, inst)));
        }
    }
    return BL_OK;
}
