/* SPDX-License-Identifier: MIT */
/* The cost model of the search: the static cost of a candidate, counted on its instructions. The cost is precise enough to drop
 * hopeless candidates and to order the other candidates. Only timing decides. */
#include "engine/lower/cost.h"
#include "engine/search/search_internal.h"

#include <math.h>

/* Approximate cost of operations in instructions; a fused multiply-add counts as one instruction. */
#define OF_DIVISION 8.0
#define OF_FUNCTION 20.0 /* exp, log, sin: a polynomial and its range reduction */
#define OF_ADDRESS  0.25 /* compilers fold much index arithmetic into addressing, or hoist it out of loops */
#define OF_LOAD     0.5  /* a core issues two loads per cycle */

/* A candidate is hopeless if one of its costs exceeds the cost of the heuristic's choice and a limit. The limits of the
 * first two costs: */
#define TOO_MUCH_ISSUE 2.5 /* this factor times the issued instructions of the heuristic's choice */
#define TOO_MUCH_TEXT  4.0 /* this factor times the instructions in the text of the heuristic's choice ... */
enum { SMALL_TEXT = 600 }; /* ... and this number of instructions */

static double weight_of(const bl_inst *inst)
{
    static const double weight[BL_OP_COUNT] = {
        [BL_OP_DIV] = OF_DIVISION, [BL_OP_IDIV] = OF_DIVISION, [BL_OP_MOD] = OF_DIVISION, [BL_OP_SQRT] = OF_DIVISION,
        [BL_OP_EXP] = OF_FUNCTION, [BL_OP_LOG] = OF_FUNCTION,  [BL_OP_SIN] = OF_FUNCTION};
    return weight[inst->op] > 0 ? weight[inst->op] : 1;
}

/* The number of registers of a value. */
static double registers_of(const bl_inst *inst, const bl_target *target)
{
    size_t bytes = bl_dtype_bytes((bl_dtype)inst->dtype);
    double bits = (double)inst->lanes * 8 * (double)(bytes < 4 ? 4 : bytes); /* narrower values are computed in 32 bits */
    return inst->lanes == 1 || target->vector_bits == 0 ? inst->lanes : ceil(bits / target->vector_bits);
}

static double issue_of(const bl_linear *linear, const bl_inst *inst, const bl_target *target)
{
    double registers = registers_of(inst, target);

    if (inst->op == BL_OP_LOAD) /* a vector index gathers lane by lane */
        return linear->inst[inst->args[1]].lanes > 1 ? inst->lanes : OF_LOAD * registers;
    if (inst->op == BL_OP_STORE) {
        const bl_inst *value = &linear->inst[inst->args[2]];
        return linear->inst[inst->args[1]].lanes > 1 ? value->lanes : registers_of(value, target);
    }
    if (inst->op == BL_OP_STACK || inst->op == BL_OP_FOLD)
        return inst->op == BL_OP_STACK ? inst->lanes : linear->inst[inst->args[0]].lanes;
    if (inst->op == BL_OP_LOOP)
        return 1;
    if (bl_op_get_class((bl_op)inst->op) != BL_CLASS_ALU)
        return 0;
    if ((inst->dtype == BL_I32 || inst->dtype == BL_I64) && inst->lanes == 1)
        return OF_ADDRESS * weight_of(inst);
    return weight_of(inst) * registers;
}

/* The largest number of registers of live accumulators. An accumulator is live from its definition to its last use. */
static int64_t count_accumulators(const bl_linear *linear, bl_arena *arena, const bl_target *target)
{
    uint32_t *last = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *last);
    double *ends = bl_arena_array(arena, (size_t)linear->ninst + 1, sizeof *ends), live = 0, most = 0;

    if (last == NULL || ends == NULL)
        return 0;
    for (uint32_t i = 0; i < linear->ninst; i++) {
        for (uint32_t k = 0; k < linear->inst[i].nargs; k++)
            last[linear->inst[i].args[k]] = i;
    }
    for (uint32_t i = 0; i < linear->ninst; i++) {
        if (linear->inst[i].op == BL_OP_ACC && last[i] > i) {
            live += registers_of(&linear->inst[i], target);
            ends[last[i]] += registers_of(&linear->inst[i], target);
        }
        most = live > most ? live : most;
        live -= ends[i];
    }
    return (int64_t)most;
}

/* Bytes of packed panels that one group reads. */
static int64_t panel_bytes(bl_tune *tune)
{
    const bl_node *load[MOST_LOADS];
    int n = bl_tune_operands(tune, MOST_LOADS, load);
    int64_t bytes = 0;

    for (int i = 0; i < n; i++) {
        int64_t size = 1;
        if (load[i]->src[0]->arg < tune->nparams - tune->npacked)
            continue;
        for (int k = 0; k < tune->naxes && size < INT32_MAX; k++) {
            const bl_node *range = tune->axis[k].range;
            if (range->sub != BL_AXIS_GLOBAL && bl_depends(tune, load[i], range))
                size *= bl_extent_of(range);
        }
        bytes += size * (int64_t)bl_dtype_bytes((bl_dtype)load[i]->dtype);
    }
    return bytes;
}

bool measure_add(measure *m, const subject *s, bl_tune *tune, const bl_lowered *lowered)
{
    const bl_linear *linear = lowered->linear;
    const bl_target *target = s->nest->target;
    bl_arena *arena = bl_arena_create(0);
    const int64_t *runs = arena == NULL ? NULL : bl_cost_runs(arena, lowered, MOST_VARS, s->vars);
    double issue = 0, groups = 1, cores = target->units;
    int64_t accumulators = 0;

    for (int i = 0; i < BL_GRID_DIMS; i++)
        groups *= (double)lowered->grid[i]->hi;
    for (uint32_t i = 0; runs != NULL && i < linear->ninst; i++)
        issue += (double)runs[i] * issue_of(linear, &linear->inst[i], target);
    if (runs != NULL)
        accumulators = count_accumulators(linear, arena, target);
    bl_arena_destroy(arena);
    m->issue += issue / (groups < cores ? groups : cores);
    m->instructions += linear->ninst;
    if (tune != NULL) { /* |tune| is passed for the nest itself only, not for helpers */
        m->groups = (int64_t)groups;
        m->accumulators = accumulators;
        m->panel = panel_bytes(tune);
        m->local = linear->local_bytes;
    }
    return runs != NULL;
}

bool measure_is_hopeless(const measure *m, const measure *first, const bl_target *target)
{
    if (m->issue > TOO_MUCH_ISSUE * first->issue)
        return true;
    if (m->instructions > SMALL_TEXT && (double)m->instructions > TOO_MUCH_TEXT * (double)first->instructions)
        return true;
    if (m->groups < (int64_t)target->units && m->groups < first->groups)
        return true;
    if (m->accumulators + 2 > (int64_t)target->registers && m->accumulators > first->accumulators)
        return true; /* one operand and one broadcast value need registers too */
    if (target->groups && m->local > (int64_t)target->local_bytes / 3 * 2 && m->local > first->local)
        return true; /* no second group fits on the multiprocessor to compute while one group waits */
    return m->panel > (int64_t)target->cache_bytes && m->panel > first->panel;
}
