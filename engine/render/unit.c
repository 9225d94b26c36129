/* SPDX-License-Identifier: MIT */
#include "engine/render/unit.h"

static bl_dtype unit_dtype_of(const bl_matrix_unit *unit)
{
    static const bl_dtype dtype[] = {
        [BL_UNIT_F16] = BL_F16, [BL_UNIT_BF16] = BL_BF16, [BL_UNIT_I8] = BL_I8, [BL_UNIT_U8] = BL_U8};
    return dtype[unit->dtype];
}

const bl_matrix_unit *unit_of(const bl_device_info *info, int64_t shape)
{
    bl_matrix x = bl_matrix_unpack(shape);

    for (uint32_t i = 0; i < info->nmatrix; i++) {
        const bl_matrix_unit *unit = &info->matrix[i];
        if (unit->m == x.m && unit->n == x.n && unit->k == x.k && unit->scope == x.scope && unit->group == x.group &&
            unit_dtype_of(unit) == (bl_dtype)x.from)
            return unit;
    }
    return NULL;
}

const bl_inst *unit_first(const bl_linear *linear)
{
    for (uint32_t i = 0; i < linear->ninst; i++) {
        if (linear->inst[i].op == BL_OP_FRAGMENT)
            return &linear->inst[i];
    }
    return NULL;
}
