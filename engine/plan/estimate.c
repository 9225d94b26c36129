/* SPDX-License-Identifier: MIT */
/* What a kernel costs, counted before it runs. */
#include "engine/base/size.h"
#include "engine/plan/internal.h"

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

static int64_t operations(const bl_inst *inst)
{
    if (bl_op_get_class((bl_op)inst->op) != BL_CLASS_ALU || !bl_dtype_is_float((bl_dtype)inst->dtype))
        return inst->op == BL_OP_FOLD ? 1 : 0;
    if (inst->op == BL_OP_FMA)
        return 2;
    return inst->op == BL_OP_CAST || inst->op == BL_OP_BITCAST || inst->op == BL_OP_WHERE ? 0 : 1;
}

/* Extent of a LOOP at the largest sizes: its bound is a constant, or made of scalar parameters and taken as that of the node. */
static int64_t loop_count(const bl_linear *linear, const bl_inst *loop)
{
    const bl_inst *bound = &linear->inst[loop->args[0]];
    return bound->op == BL_OP_CONST ? bound->arg : 64;
}

void plan_estimate(const bl_lowered *lowered, int64_t *flops, int64_t *bytes)
{
    const bl_linear *linear = lowered->linear;
    int64_t runs[MOST_NESTING] = {1};
    int depth = 0;

    *flops = *bytes = 0;
    for (int i = 0; i < BL_GRID_DIMS; i++)
        runs[0] = times(runs[0], times(lowered->grid[i]->hi, linear->local[i]));
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        if (inst->op == BL_OP_LOOP && depth + 1 < MOST_NESTING) {
            runs[depth + 1] = times(runs[depth], loop_count(linear, inst));
            depth++;
        } else if (inst->op == BL_OP_END && depth > 0) {
            depth--;
        } else if (inst->op == BL_OP_STORE && linear->inst[inst->args[0]].sub == 0) {
            *bytes = plus(*bytes, times(runs[depth], inst->lanes * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)));
        } else {
            *flops = plus(*flops, times(runs[depth], inst->lanes * operations(inst)));
        }
    }
}

double plan_seconds(const bl_device_info *info, int64_t flops, int64_t bytes)
{
    double rate = 1e8, bandwidth = 1e9; /* the interpreter */
    if (info->dialect != BL_DIALECT_LINEAR && info->type == BL_DEVICE_CPU) {
        rate = 1e10 * info->units;
        bandwidth = 5e9 * info->units;
    } else if (info->dialect != BL_DIALECT_LINEAR) {
        rate = 1e12;
        bandwidth = 2e11;
    }
    return (double)flops / rate + (double)bytes / bandwidth;
}
