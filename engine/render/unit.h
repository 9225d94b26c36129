/* Renders the instructions of matrix units: one function per dialect and kind of unit. */
#ifndef BL_RENDER_UNIT_H
#define BL_RENDER_UNIT_H

#include "engine/ir/matrix_unit.h"
#include "engine/render/render.h"

/* The instruction to render: FRAGMENT, FRAGMENT_LOAD, MATRIX_ADD or FRAGMENT_STORE. */
typedef struct unit_inst {
    const bl_linear *linear;
    /* number of the instruction in |linear|; the variable that the instruction defines is f followed by the number */
    uint32_t number;
    const bl_matrix_unit *unit;
    bl_matrix shape;
    const char *buffer, *index; /* operands of a load or a store; the index is a name or is in parentheses */
    bool local;                 /* a load reads local memory (a store always writes local memory) */
    const char *work_item;      /* index of the work-item within the scope */
} unit_inst;

/* The device's matrix unit of |shape|, or NULL. */
const bl_matrix_unit *unit_of(const bl_device_info *info, int64_t shape);
/* The first instruction on fragments, or NULL. All instructions on fragments of a kernel have one shape. */
const bl_inst *unit_first(const bl_linear *linear);
/* The number of operand |i| of the instruction. */
static inline uint32_t unit_operand(const unit_inst *u, uint32_t i)
{
    return u->linear->inst[u->number].args[i];
}
static inline int64_t unit_stride(const unit_inst *u)
{
    return u->linear->inst[unit_operand(u, 2)].arg;
}

/* Does the unit have registers for all fragments that are live at once? Always true if a compiler allocates the registers. */
bool unit_has_registers(const bl_matrix_unit *unit, const bl_linear *linear);
/* Write the text before the kernel: extensions, types and functions for |unit|. */
void unit_glsl_prelude(const bl_matrix_unit *unit, bl_text *out);
void unit_opencl_prelude(const bl_matrix_unit *unit, bl_text *out);
/* A complete statement, with its semicolon. */
const char *unit_glsl(bl_arena *arena, const unit_inst *u);
const char *unit_opencl(bl_arena *arena, const unit_inst *u);

#endif
