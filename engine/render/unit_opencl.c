/* SPDX-License-Identifier: MIT */
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

void unit_opencl_prelude(const bl_matrix_unit *unit, bl_text *out)
{
    (void)unit;
    (void)out;
}

const char *unit_opencl(bl_arena *arena, const unit_inst *u)
{
    (void)arena;
    (void)u;
    return "";
}
