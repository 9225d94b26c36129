/* SPDX-License-Identifier: MIT */
/* What the moves are chosen by, of what a device says of itself. */
#include "engine/plan/internal.h"

static bl_matrix matrix_of(const bl_matrix_unit *unit)
{
    static const uint8_t dtype[] = {[BL_UNIT_F16] = BL_F16, [BL_UNIT_BF16] = BL_BF16, [BL_UNIT_I8] = BL_I8, [BL_UNIT_U8] = BL_U8};
    bool whole = unit->dtype == BL_UNIT_I8 || unit->dtype == BL_UNIT_U8;
    uint8_t all = 1 << BL_MATRIX_A_ROWS | 1 << BL_MATRIX_A_COLUMNS | 1 << BL_MATRIX_B_ROWS | 1 << BL_MATRIX_B_COLUMNS;

    return (bl_matrix){.m = unit->m,
                       .n = unit->n,
                       .k = unit->k,
                       .scope = unit->scope,
                       .group = unit->group,
                       .layouts = unit->group > 1 ? 1 << BL_MATRIX_A_ROWS | 1 << BL_MATRIX_B_GROUPS : all,
                       .from = dtype[unit->dtype],
                       .to = whole ? BL_I32 : BL_F32};
}

bl_target plan_target(const bl_device_info *info, bl_matrix_use use)
{
    bl_target target = {.use = use,
                        .groups = info->subgroup > 1,
                        .cpu = info->type == BL_DEVICE_CPU,
                        .units = info->units == 0 ? 1 : info->units,
                        .vector_bits = info->vector_bits,
                        .max_lanes = info->max_lanes,
                        .registers = info->registers,
                        .cache_bytes = info->cache_bytes == 0 ? 512 * 1024 : info->cache_bytes,
                        .subgroup = info->subgroup,
                        .max_local = info->max_local,
                        .local_bytes = info->local_bytes,
                        .max_params = BL_MAX_BINDINGS};

    for (uint32_t i = 0; i < info->nmatrix && i < sizeof target.matrix / sizeof target.matrix[0]; i++) {
        target.matrix[target.nmatrix++] = matrix_of(&info->matrix[i]);
        target.fragments = info->matrix[i].kind == BL_UNIT_AMX ? 8 : target.fragments;
    }
    return target;
}
