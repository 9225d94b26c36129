/* SPDX-License-Identifier: MIT */
/* OpenCL C has no matrix units; inline assembly of its compilers gives access to them.
 *
 * mma.sync (NVIDIA, PTX ISA, "Warp-level matrix instructions"): the 32 work-items of a warp each hold a part of every fragment in
 * registers of 32 bits. With g = work-item / 4, t = work-item % 4, and w elements in a register (2 of 16 bits, 4 of 8 bits):
 *   a, 4 registers: register i has row g + 8 * (i % 2) and the w columns from w * t + 4 * w * (i / 2)
 *   b, 2 registers: register i has column g and the w rows from w * t + 4 * w * i
 *   c, 4 registers of one element: register i has row g + 8 * (i / 2), column 2 * t + i % 2
 *
 * AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, chapter 18): eight tiles of 16 rows of 64 bytes.
 * Instructions name tiles by number, so this file allocates them as registers: a value holds its tile up to its last use.
 *
 * AVX512-BF16: vdpbf16ps adds two products to each of 16 floats. */
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64 };

static bool unit_opencl_is_whole(const bl_matrix_unit *unit)
{
    return unit->dtype == BL_UNIT_I8 || unit->dtype == BL_UNIT_U8;
}

/* ---- mma.sync */

static const char mma_loads[] =
    "#define MMA_G (mma_item >> 2)\n#define MMA_T (mma_item & 3)\n"
    /* w elements, |step| apart, in one register; from global memory and from local memory */
    "#define MMA_LOADS(S, N) \\\n"
    "inline uint mma_side##N(const S MMA_E *p) { return *(const S uint *)p; } \\\n"
    "inline uint mma_apart##N(const S MMA_E *p, int step) { uint x = 0; \\\n"
    "  for (int i = 0; i < MMA_W; i++) x |= (uint)(MMA_U)p[i * step] << (32 / MMA_W * i); return x; } \\\n"
    "inline uint4 mma_a_rows##N(const S MMA_E *p, int stride, int mma_item) { \\\n"
    "  p += MMA_G * stride + MMA_W * MMA_T; const S MMA_E *q = p + 8 * stride; \\\n"
    "  return (uint4)(mma_side##N(p), mma_side##N(q), mma_side##N(p + 4 * MMA_W), mma_side##N(q + 4 * MMA_W)); } \\\n"
    "inline uint4 mma_a_columns##N(const S MMA_E *p, int stride, int mma_item) { \\\n"
    "  p += MMA_G + MMA_W * MMA_T * stride; const S MMA_E *q = p + 4 * MMA_W * stride; \\\n"
    "  return (uint4)(mma_apart##N(p, stride), mma_apart##N(p + 8, stride), mma_apart##N(q, stride), \\\n"
    "                 mma_apart##N(q + 8, stride)); } \\\n"
    "inline uint2 mma_b_columns##N(const S MMA_E *p, int stride, int mma_item) { \\\n"
    "  p += MMA_G * stride + MMA_W * MMA_T; return (uint2)(mma_side##N(p), mma_side##N(p + 4 * MMA_W)); } \\\n"
    "inline uint2 mma_b_rows##N(const S MMA_E *p, int stride, int mma_item) { \\\n"
    "  p += MMA_G + MMA_W * MMA_T * stride; \\\n"
    "  return (uint2)(mma_apart##N(p, stride), mma_apart##N(p + 4 * MMA_W * stride, stride)); }\n"
    "MMA_LOADS(__global, )\n"
    "inline void mma_store(MMA_C4 c, __local MMA_C *p, int mma_item) { p += MMA_G * 8 + 2 * MMA_T;\n"
    "  p[0] = c.x; p[1] = c.y; p[64] = c.z; p[65] = c.w; }\n";

/* 16-bit elements: ldmatrix (PTX ISA, "ldmatrix") loads up to four matrices of 8 by 8 from local memory. Work-item i gives
 * the address of row i % 8 of matrix i / 8. Register j of work-item i then has the elements from 2 * (i % 4) of row i / 4 of
 * matrix j, or, transposed, of column i / 4. This layout is the layout of fragments. The matrices of an a operand are
 * ordered down the columns first. */
static const char mma_matrices[] =
    "inline const __local MMA_E *mma_a_row(const __local MMA_E *p, int stride, int i) { return p + (i & 15) * stride + (i >> 4) "
    "* 8; }\n"
    "inline const __local MMA_E *mma_a_column(const __local MMA_E *p, int stride, int i) {\n"
    "  return p + ((i >> 4) * 8 + (i & 7)) * stride + (i & 8); }\n"
    "inline const __local MMA_E *mma_b_column(const __local MMA_E *p, int stride, int i) { return p + (i & 7) * stride + (i & "
    "8); }\n"
    "inline const __local MMA_E *mma_b_row(const __local MMA_E *p, int stride, int i) { return p + (i & 15) * stride; }\n"
    "#ifndef UNIT_EMULATED\n"
    "#define MMA_MATRICES(N, WORDS) \\\n"
    "inline uint4 mma_four##N(const __local MMA_E *p) { uint4 x; \\\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4\" WORDS \".shared.b16 {%0,%1,%2,%3}, [%4];\" \\\n"
    "    : \"=r\"(x.x), \"=r\"(x.y), \"=r\"(x.z), \"=r\"(x.w) : \"r\"((uint)(size_t)p) : \"memory\"); return x; } \\\n"
    "inline uint2 mma_two##N(const __local MMA_E *p) { uint2 x; \\\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x2\" WORDS \".shared.b16 {%0,%1}, [%2];\" \\\n"
    "    : \"=r\"(x.x), \"=r\"(x.y) : \"r\"((uint)(size_t)p) : \"memory\"); return x; }\n"
    "MMA_MATRICES(, \"\")\nMMA_MATRICES(_across, \".trans\")\n"
    "#define mma_load(HOW, AT, p, stride, item) HOW(AT(p, stride, item))\n#endif\n"
    "#define mma_a_rows_local(p, stride, item) mma_load(mma_four, mma_a_row, p, stride, item)\n"
    "#define mma_a_columns_local(p, stride, item) mma_load(mma_four_across, mma_a_column, p, stride, item)\n"
    "#define mma_b_columns_local(p, stride, item) mma_load(mma_two, mma_b_column, p, stride, item)\n"
    "#define mma_b_rows_local(p, stride, item) mma_load(mma_two_across, mma_b_row, p, stride, item)\n";

static void mma_prelude(const bl_matrix_unit *unit, bl_text *out)
{
    static const char *const type[] = {[BL_UNIT_F16] = "f16", [BL_UNIT_BF16] = "bf16", [BL_UNIT_I8] = "s8", [BL_UNIT_U8] = "u8"};
    const char *e = type[unit->dtype], *c = unit_opencl_is_whole(unit) ? "s32" : "f32",
               *constraint = unit_opencl_is_whole(unit) ? "+r" : "+f";

    bl_text_printf(out, "#define MMA_E %s\n#define MMA_U %s\n#define MMA_W %d\n#define MMA_C %s\n#define MMA_C4 %s4\n",
                   unit_opencl_is_whole(unit) ? "uchar" : "ushort", unit_opencl_is_whole(unit) ? "uchar" : "ushort",
                   unit_opencl_is_whole(unit) ? 4 : 2, unit_opencl_is_whole(unit) ? "int" : "float",
                   unit_opencl_is_whole(unit) ? "int" : "float");
    bl_text_puts(out, mma_loads);
    bl_text_puts(out, unit_opencl_is_whole(unit) ? "MMA_LOADS(__local, _local)\n" : mma_matrices);
    bl_text_printf(
        out,
        "#ifndef UNIT_EMULATED\ninline MMA_C4 mma_add(MMA_C4 c, uint4 a, uint2 b) {\n"
        "  asm volatile(\"mma.sync.aligned.m%un%uk%u.row.col.%s.%s.%s.%s {%%0,%%1,%%2,%%3}, {%%4,%%5,%%6,%%7}, {%%8,%%9}, "
        "{%%0,%%1,%%2,%%3};\"\n    : \"%s\"(c.x), \"%s\"(c.y), \"%s\"(c.z), \"%s\"(c.w) : \"r\"(a.x), \"r\"(a.y), "
        "\"r\"(a.z), \"r\"(a.w), \"r\"(b.x), \"r\"(b.y));\n  return c; }\n#endif\n",
        unit->m, unit->n, unit->k, c, e, e, c, constraint, constraint, constraint, constraint);
}

static const char *mma(bl_arena *arena, const unit_inst *u)
{
    static const char *const loads[BL_MATRIX_LAYOUTS] = {[BL_MATRIX_A_ROWS] = "mma_a_rows",
                                                         [BL_MATRIX_A_COLUMNS] = "mma_a_columns",
                                                         [BL_MATRIX_B_ROWS] = "mma_b_rows",
                                                         [BL_MATRIX_B_COLUMNS] = "mma_b_columns"};
    const bl_inst *inst = &u->linear->inst[u->number];

    switch ((int)inst->op) {
    case BL_OP_FRAGMENT:
        return SAY(arena, "MMA_C4 f%u = (MMA_C4)(0);", u->number);
    case BL_OP_FRAGMENT_LOAD:
        return SAY(arena, "%s f%u = %s%s((const %s MMA_E *)%s + %s, %lld, %s);",
                   bl_matrix_is_a((bl_matrix_layout)inst->sub) ? "uint4" : "uint2", u->number, loads[inst->sub],
                   u->local ? "_local" : "", u->local ? "__local" : "__global", u->buffer, u->index, (long long)unit_stride(u),
                   u->work_item);
    case BL_OP_MATRIX_ADD:
        return SAY(arena, "f%u = mma_add(f%u, f%u, f%u);", unit_operand(u, 0), unit_operand(u, 0), unit_operand(u, 1),
                   unit_operand(u, 2));
    default:
        return SAY(arena, "mma_store(f%u, %s + %s, %s);", unit_operand(u, 2), u->buffer, u->index, u->work_item);
    }
}

/* ---- AMX */

/* The last instruction up to which a value must be kept; |number| itself if the value is unused. A use in a loop that does
 * not define the value keeps the value to the end of the loop. */
static uint32_t last_use(const bl_linear *linear, uint32_t number)
{
    uint32_t last = number;
    int depth = 0;
    bool inside = false;

    for (uint32_t i = number + 1; i < linear->ninst && depth >= 0; i++) {
        const bl_inst *inst = &linear->inst[i];
        depth += inst->op == BL_OP_LOOP ? 1 : inst->op == BL_OP_END ? -1 : 0;
        for (uint32_t k = 0; k < inst->nargs; k++) {
            if (inst->args[k] == number) {
                last = i;
                inside = depth > 0;
            }
        }
        if (inside && depth == 0) {
            last = i;
            inside = false;
        }
    }
    return last;
}

/* The tile register of FRAGMENT or FRAGMENT_LOAD |number|: the first register that is free from this instruction on. TILES
 * if no register is free. */
static uint32_t tile_of(const bl_linear *linear, uint32_t number)
{
    uint32_t until[TILES] = {0};

    for (uint32_t i = 0; i <= number; i++) {
        uint32_t tile = 0;
        if (linear->inst[i].op != BL_OP_FRAGMENT && linear->inst[i].op != BL_OP_FRAGMENT_LOAD)
            continue;
        while (tile < TILES && until[tile] > i)
            tile++;
        if (i == number || tile == TILES)
            return tile;
        until[tile] = last_use(linear, i) + 1;
    }
    return TILES;
}

bool unit_has_registers(const bl_matrix_unit *unit, const bl_linear *linear)
{
    for (uint32_t i = 0; unit->kind == BL_UNIT_AMX && i < linear->ninst; i++) {
        bl_op op = (bl_op)linear->inst[i].op;
        if ((op == BL_OP_FRAGMENT || op == BL_OP_FRAGMENT_LOAD) && tile_of(linear, i) == TILES)
            return false;
    }
    return true;
}

static void amx_prelude(bl_text *out)
{
    bl_text_printf(out,
                   "#ifndef UNIT_EMULATED\ninline void amx_configure(void) { uchar c[64] __attribute__((aligned(64)));\n"
                   "  for (int i = 0; i < 64; i++) c[i] = 0;\n  c[0] = 1; /* palette */\n"
                   "  for (int i = 0; i < %d; i++) { c[16 + 2 * i] = %d; c[48 + i] = %d; } /* bytes of a row, rows */\n"
                   "  __asm__ volatile(\"ldtilecfg %%0\" :: \"m\"(c)); }\n",
                   TILES, TILE_BYTES, TILE_ROWS);
    bl_text_puts(out, "#define AMX_RELEASE() __asm__ volatile(\"tilerelease\" ::)\n"
                      "#define AMX_ZERO(t) __asm__ volatile(\"tilezero %%tmm\" #t ::)\n"
                      "#define AMX_LOAD(t, p, bytes) __asm__ volatile(\"tileloadd (%0,%1,1), %%tmm\" #t :: \"r\"((ulong)(p)), "
                      "\"r\"((ulong)(bytes)) : \"memory\")\n"
                      "#define AMX_ADD(name, c, a, b) __asm__ volatile(#name \" %%tmm\" #b \", %%tmm\" #a \", %%tmm\" #c ::)\n"
                      "#define AMX_STORE(t, p) __asm__ volatile(\"tilestored %%tmm\" #t \", (%0,%1,1)\" :: \"r\"((ulong)(p)), "
                      "\"r\"(64ul) : \"memory\")\n#endif\n");
}

/* Is the instruction the first (way -1) or the last (way 1) of a run of instructions of its kind? A run ends at an
 * instruction |end| or at a LOOP or END. */
static bool is_edge(const unit_inst *u, int way, bl_op end)
{
    bl_op own = (bl_op)u->linear->inst[u->number].op;
    for (uint32_t i = u->number + (uint32_t)way; i < u->linear->ninst; i += (uint32_t)way) {
        bl_op op = (bl_op)u->linear->inst[i].op;
        if (op == own)
            return false;
        if (op == end || op == BL_OP_LOOP || op == BL_OP_END)
            return true;
    }
    return true;
}

static const char *amx(bl_arena *arena, const unit_inst *u)
{
    static const char *const add[] = {
        [BL_UNIT_F16] = "tdpfp16ps", [BL_UNIT_BF16] = "tdpbf16ps", [BL_UNIT_I8] = "tdpbssd", [BL_UNIT_U8] = "tdpbuud"};
    const bl_inst *inst = &u->linear->inst[u->number];
    const bl_linear *l = u->linear;

    switch ((int)inst->op) {
    case BL_OP_FRAGMENT: /* the first FRAGMENT configures the unit, which clears every tile */
        return SAY(arena, "%sAMX_ZERO(%u);", is_edge(u, -1, BL_OP_FRAGMENT_STORE) ? "amx_configure(); " : "",
                   tile_of(l, u->number));
    case BL_OP_FRAGMENT_LOAD:
        return SAY(arena, "AMX_LOAD(%u, %s + %s, %lld);", tile_of(l, u->number), u->buffer, u->index,
                   (long long)(unit_stride(u) * (int64_t)bl_dtype_bytes((bl_dtype)inst->dtype)));
    case BL_OP_MATRIX_ADD:
        return SAY(arena, "AMX_ADD(%s, %u, %u, %u);", add[u->unit->dtype], tile_of(l, unit_operand(u, 0)),
                   tile_of(l, unit_operand(u, 1)), tile_of(l, unit_operand(u, 2)));
    default:
        return SAY(arena, "AMX_STORE(%u, %s + %s);%s", tile_of(l, unit_operand(u, 2)), u->buffer, u->index,
                   is_edge(u, 1, BL_OP_FRAGMENT) ? " AMX_RELEASE();" : "");
    }
}

/* ---- AVX512-BF16 */

static void dot_prelude(bl_text *out)
{
    bl_text_puts(out, "#ifndef UNIT_EMULATED\ninline float16 dot_add(float16 c, uint a, uint16 b) {\n"
                      "  __asm__(\"vdpbf16ps %2, %1, %0\" : \"+v\"(c) : \"v\"(b), \"v\"((uint16)(a))); return c; }\n#endif\n");
}

static const char *dot(bl_arena *arena, const unit_inst *u)
{
    const bl_inst *inst = &u->linear->inst[u->number];

    switch ((int)inst->op) {
    case BL_OP_FRAGMENT:
        return SAY(arena, "float16 f%u = (float16)(0.0f);", u->number);
    case BL_OP_FRAGMENT_LOAD:
        return SAY(arena,
                   inst->sub == BL_MATRIX_A_ROWS ? "uint f%u = *(const __global uint *)(%s + %s);"
                                                 : "uint16 f%u = vload16(0, (const __global uint *)(%s + %s));",
                   u->number, u->buffer, u->index);
    case BL_OP_MATRIX_ADD:
        return SAY(arena, "f%u = dot_add(f%u, f%u, f%u);", unit_operand(u, 0), unit_operand(u, 0), unit_operand(u, 1),
                   unit_operand(u, 2));
    default:
        return SAY(arena, "vstore16(f%u, 0, %s + %s);", unit_operand(u, 2), u->buffer, u->index);
    }
}

/* ---- dispatch by kind of unit */

void unit_opencl_prelude(const bl_matrix_unit *unit, bl_text *out)
{
    switch (unit->kind) {
    case BL_UNIT_MMA:
        mma_prelude(unit, out);
        return;
    case BL_UNIT_AMX:
        amx_prelude(out);
        return;
    case BL_UNIT_DOT:
        dot_prelude(out);
        return;
    case BL_UNIT_COOPERATIVE:
        return;
    }
}

const char *unit_opencl(bl_arena *arena, const unit_inst *u)
{
    switch (u->unit->kind) {
    case BL_UNIT_MMA:
        return mma(arena, u);
    case BL_UNIT_AMX:
        return amx(arena, u);
    case BL_UNIT_DOT:
        return dot(arena, u);
    case BL_UNIT_COOPERATIVE:
        break;
    }
    return "";
}
