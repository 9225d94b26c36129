/* SPDX-License-Identifier: MIT */
/* Cooperative matrices. Macros cover the differences between GL_NV_cooperative_matrix and GL_KHR_cooperative_matrix. The
 * back end defines KHR_MATRICES if its compiler supports the KHR extension. Otherwise the back end translates SPIR-V of the
 * NV extension to SPIR-V of the KHR extension (vulkan/vk_coopmat.c). BFLOAT16_MATRICES tells the back end to treat the
 * 16-bit floats of fragments as bfloat16, since GLSL of that compiler version has no bfloat16 type. No other value of a
 * kernel has that type. */
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

void unit_glsl_prelude(const bl_matrix_unit *unit, bl_text *out)
{
    bool whole = unit->dtype == BL_UNIT_I8 || unit->dtype == BL_UNIT_U8;
    const char *family = unit->dtype == BL_UNIT_I8 ? "i" : unit->dtype == BL_UNIT_U8 ? "u" : "f";
    const char *element = unit->dtype == BL_UNIT_I8 ? "int8_t" : unit->dtype == BL_UNIT_U8 ? "uint8_t" : "float16_t";
    const char *sum = unit->dtype == BL_UNIT_I8 ? "int" : unit->dtype == BL_UNIT_U8 ? "uint" : "float";
    int bits = whole ? 8 : 16;

    if (unit->dtype == BL_UNIT_BF16)
        bl_text_puts(out, "#define BFLOAT16_MATRICES\n");
    bl_text_puts(out, "#extension GL_KHR_memory_scope_semantics : require\n");
    bl_text_printf(out, "#extension GL_EXT_shader_explicit_arithmetic_types_%s : require\n", whole ? "int8" : "int16");
    if (!whole)
        bl_text_puts(out, "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n");
    bl_text_puts(out, "#ifdef KHR_MATRICES\n#extension GL_KHR_cooperative_matrix : require\n");
    bl_text_printf(out, "#define MATRIX_A coopmat<%s, gl_ScopeSubgroup, %u, %u, gl_MatrixUseA>\n", element, unit->m, unit->k);
    bl_text_printf(out, "#define MATRIX_B coopmat<%s, gl_ScopeSubgroup, %u, %u, gl_MatrixUseB>\n", element, unit->k, unit->n);
    bl_text_printf(out, "#define MATRIX_C coopmat<%s, gl_ScopeSubgroup, %u, %u, gl_MatrixUseAccumulator>\n", sum, unit->m,
                   unit->n);
    bl_text_puts(out, "#define MATRIX_LOAD(x, from, at, stride, columns) coopMatLoad(x, from, uint(at), stride, columns)\n"
                      "#define MATRIX_ADD(c, a, b) c = coopMatMulAdd(a, b, c)\n"
                      "#define MATRIX_STORE(x, to, at, stride) coopMatStore(x, to, uint(at), stride, 0)\n#else\n");
    bl_text_printf(out, "#extension GL_NV_cooperative_matrix : require\n%s",
                   whole ? "#extension GL_NV_integer_cooperative_matrix : require\n" : "");
    bl_text_printf(out, "#define MATRIX_A %scoopmatNV<%d, gl_ScopeSubgroup, %u, %u>\n", family, bits, unit->m, unit->k);
    bl_text_printf(out, "#define MATRIX_B %scoopmatNV<%d, gl_ScopeSubgroup, %u, %u>\n", family, bits, unit->k, unit->n);
    bl_text_printf(out, "#define MATRIX_C %scoopmatNV<32, gl_ScopeSubgroup, %u, %u>\n", family, unit->m, unit->n);
    bl_text_puts(out,
                 "#define MATRIX_LOAD(x, from, at, stride, columns) coopMatLoadNV(x, from, uint(at), stride, bool(columns))\n"
                 "#define MATRIX_ADD(c, a, b) c = coopMatMulAddNV(a, b, c)\n"
                 "#define MATRIX_STORE(x, to, at, stride) coopMatStoreNV(x, to, uint(at), stride, false)\n#endif\n");
}

const char *unit_glsl(bl_arena *arena, const unit_inst *u)
{
    const bl_inst *inst = &u->linear->inst[u->number];
    bool columns = inst->sub == BL_MATRIX_A_COLUMNS || inst->sub == BL_MATRIX_B_COLUMNS;

    switch ((int)inst->op) {
    case BL_OP_FRAGMENT:
        return SAY(arena, "MATRIX_C f%u = MATRIX_C(0);", u->number);
    case BL_OP_FRAGMENT_LOAD:
        return SAY(arena, "%s f%u; MATRIX_LOAD(f%u, %s%s, %s, %lldu, %d);",
                   bl_matrix_is_a((bl_matrix_layout)inst->sub) ? "MATRIX_A" : "MATRIX_B", u->number, u->number, u->buffer,
                   u->local ? "" : ".at", u->index, (long long)unit_stride(u), columns);
    case BL_OP_MATRIX_ADD:
        return SAY(arena, "MATRIX_ADD(f%u, f%u, f%u);", unit_operand(u, 0), unit_operand(u, 1), unit_operand(u, 2));
    default:
        return SAY(arena, "MATRIX_STORE(f%u, %s, %s, %u);", unit_operand(u, 2), u->buffer, u->index, u->shape.n);
    }
}
