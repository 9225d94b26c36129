/* Instructions of fragments as text: one function for each way in which a dialect speaks to a matrix unit. */
#ifndef BL_RENDER_UNIT_H
#define BL_RENDER_UNIT_H

#include "engine/ir/matrix.h"
#include "engine/render/render.h"

/* An instruction in hand: FRAGMENT, FRAGMENT_LOAD, MATRIX_ADD or FRAGMENT_STORE. */
typedef struct unit_inst {
    const bl_linear *linear;
    uint32_t number; /* of it in |linear|: what it makes is called f and that number */
    const bl_matrix_unit *unit;
    bl_matrix shape;
    const char *buffer, *index; /* of a load or store; the index is parenthesised or a name */
    bool local;                 /* a load is from local memory, which every store is to */
    const char *work_item;      /* its place among those of its scope */
} unit_inst;

/* The device's unit of a shape, or NULL. */
const bl_matrix_unit *unit_of(const bl_device_info *info, int64_t shape);
/* The first instruction of fragments, or NULL: all of a kernel are of one shape. */
const bl_inst *unit_first(const bl_linear *linear);
/* Operand |i| of the instruction in hand, by its number. */
static inline uint32_t unit_operand(const unit_inst *u, uint32_t i)
{
    return u->linear->inst[u->number].args[i];
}
static inline int64_t unit_stride(const unit_inst *u)
{
    return u->linear->inst[unit_operand(u, 2)].arg;
}

/* Has the unit registers for all fragments that the kernel holds at once?  True where a compiler sees to that. */
bool unit_has_registers(const bl_matrix_unit *unit, const bl_linear *linear);
/* What stands before the kernel: extensions, types and functions of |unit|. */
void unit_glsl_prelude(const bl_matrix_unit *unit, bl_text *out);
void unit_opencl_prelude(const bl_matrix_unit *unit, bl_text *out);
/* A statement, semicolon and all. */
const char *unit_glsl(bl_arena *arena, const unit_inst *u);
const char *unit_opencl(bl_arena *arena, const unit_inst *u);

#endif
