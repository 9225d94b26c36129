/* SPDX-License-Identifier: MIT */
/* OpenCL C 1.2. A bool is an int: 0 or 1 as a scalar, 0 or -1 in the lanes of a vector, like the results of comparisons. */
#include "engine/render/opencl_text.h"
#include "engine/render/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOCAL_ALIGNMENT = 16 /* bytes of the widest access of a GPU, in global and in local memory */ };

static const char *opencl_type(bl_arena *arena, bl_dtype dtype, int lanes)
{
    return lanes > 1 ? SAY(arena, "%s%d", opencl_computed_type[dtype], lanes) : opencl_computed_type[dtype];
}

static const char *opencl_real_literal(bl_arena *arena, double value, bool wide)
{
    char text[40];

    if (isnan(value))
        return wide ? "((double)NAN)" : "NAN";
    if (isinf(value))
        return SAY(arena, wide ? "(%s(double)INFINITY)" : "(%sINFINITY)", value < 0 ? "-" : "");
    snprintf(text, sizeof text, wide ? "%.17g" : "%.9g", value);
    return SAY(arena, signbit(value) ? "(%s%s%s)" : "%s%s%s", text, strpbrk(text, ".en") == NULL ? ".0" : "", wide ? "" : "f");
}

static const char *opencl_literal(bl_arena *arena, bl_dtype dtype, bl_scalar value)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return opencl_real_literal(arena, value.f, dtype == BL_F64);
    case BL_KIND_INT:
        if (value.i == INT64_MIN)
            return "(-9223372036854775807L - 1)";
        if (value.i == INT32_MIN && dtype == BL_I32)
            return "(-2147483647 - 1)"; /* the literal 2147483648 is a long */
        if (dtype != BL_I32 && dtype != BL_I64)
            return SAY(arena, "((%s)%" PRId64 ")", opencl_computed_type[dtype], value.i);
        return SAY(arena, value.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", value.i, dtype == BL_I64 ? "L" : "");
    case BL_KIND_UINT:
        return SAY(arena, "((%s)%" PRIu64 "%s)", opencl_computed_type[dtype], value.u, dtype == BL_U64 ? "UL" : "U");
    case BL_KIND_BOOL:
        break;
    }
    return value.u != 0 ? "1" : "0";
}

static const char *opencl_repeat(bl_arena *arena, operand x, int lanes)
{
    return SAY(arena, x.dtype == BL_BOOL ? "((%s)(-(%s)))" : "((%s)(%s))", opencl_type(arena, x.dtype, lanes), x.text);
}

static const char *opencl_lane(bl_arena *arena, operand x, int number)
{
    return SAY(arena, x.dtype == BL_BOOL ? "(-(%s).s%x)" : "(%s).s%x", x.text, (unsigned)number);
}

static const char *opencl_half(bl_arena *arena, operand x, int which)
{
    return SAY(arena, "(%s).%s", x.text, which == 0 ? "lo" : "hi");
}

static const char *opencl_pick(bl_arena *arena, operand x, int first, int step, int count)
{
    const char *text = SAY(arena, "(%s).s", x.text);
    for (int i = 0; i < count; i++)
        text = SAY(arena, "%s%x", text, (unsigned)(first + i * step));
    return text;
}

static const char *opencl_stack(bl_arena *arena, bl_dtype dtype, int lanes, int n, const operand *parts)
{
    return SAY(arena, dtype == BL_BOOL ? "(-(%s)(%s))" : "((%s)(%s))", opencl_type(arena, dtype, lanes),
               list_of(arena, n, parts));
}

static const char *opencl_fit(bl_arena *arena, bl_dtype dtype, int lanes, const char *x)
{
    const char *round = dtype == BL_F16 ? "round_f16" : "round_bf16";

    if (is_half(dtype))
        return lanes > 1 ? SAY(arena, "%s_%d(%s)", round, lanes, x) : SAY(arena, "%s(%s)", round, x);
    if (bl_dtype_bytes(dtype) < 4 && dtype != BL_BOOL && lanes == 1)
        return SAY(arena, "((%s)%s)", opencl_computed_type[dtype], x); /* C computes these types as int */
    return x;
}

/* Conversion by value, before rounding to 16 bits. */
static const char *opencl_convert(bl_arena *arena, bl_dtype to, operand x)
{
    const char *saturates = bl_dtype_is_float(x.dtype) && bl_dtype_is_int(to) ? "_sat" : "";

    if (to == BL_BOOL && x.lanes == 1)
        return SAY(arena, "(%s != 0)", x.text);
    if (to == BL_BOOL)
        return SAY(arena, "convert_int%d(%s != (%s)(0))", x.lanes, x.text, opencl_type(arena, x.dtype, x.lanes));
    if (x.dtype == BL_BOOL && x.lanes > 1)
        return SAY(arena, "convert_%s(-(%s))", opencl_type(arena, to, x.lanes), x.text);
    if (is_half(to) && x.dtype == BL_F64)
        return x.lanes > 1 ? SAY(arena, "to_odd_%d(%s)", x.lanes, x.text) : SAY(arena, "to_odd(%s)", x.text);
    if (strcmp(opencl_computed_type[to], opencl_computed_type[x.dtype]) == 0)
        return x.text;
    return SAY(arena, "convert_%s%s(%s)", opencl_type(arena, to, x.lanes), saturates, x.text);
}

static const char *opencl_cast(bl_arena *arena, bl_dtype to, operand x)
{
    return is_half(to) && x.dtype != to ? opencl_fit(arena, to, x.lanes, opencl_convert(arena, to, x))
                                        : opencl_convert(arena, to, x);
}

/* Reinterpret bits. float16 and bfloat16 are held as float; their bits are a ushort. */
static const char *opencl_bitcast(bl_arena *arena, bl_dtype to, operand x)
{
    const char *lanes = x.lanes > 1 ? SAY(arena, "_%d", x.lanes) : "", *bits = x.text;

    if (is_half(x.dtype))
        bits = SAY(arena, "%s_as_uint16%s(%s)", bl_dtype_name(x.dtype), lanes, x.text);
    else if (is_half(to) && x.dtype != BL_U16)
        bits = SAY(arena, "as_%s(%s)", opencl_type(arena, BL_U16, x.lanes), x.text);
    if (is_half(to))
        return SAY(arena, "uint16_as_%s%s(%s)", bl_dtype_name(to), lanes, bits);
    return is_half(x.dtype) && to != BL_I16 ? bits : SAY(arena, "as_%s(%s)", opencl_type(arena, to, x.lanes), bits);
}

static const char *opencl_compare(bl_arena *arena, bl_op op, operand x, operand y)
{
    const char *sign = op == BL_OP_CMPLT ? "<" : "==";

    if (x.dtype == BL_BOOL && op == BL_OP_CMPLT)
        return SAY(arena, x.lanes > 1 ? "(~(%s) & (%s))" : "(!(%s) & (%s))", x.text, y.text);
    if (x.lanes == 1 || bl_dtype_bytes(x.dtype) == 4 || is_half(x.dtype) || x.dtype == BL_BOOL)
        return SAY(arena, "(%s %s %s)", x.text, sign, y.text);
    return SAY(arena, "convert_int%d(%s %s %s)", x.lanes, x.text, sign, y.text);
}

static const char *opencl_where(bl_arena *arena, operand condition, operand yes, operand no)
{
    static const char *const mask[9] = {[1] = "char", [2] = "short", [4] = "int", [8] = "long"};
    size_t bytes = is_half(yes.dtype) || yes.dtype == BL_BOOL ? 4 : bl_dtype_bytes(yes.dtype);

    if (yes.lanes == 1)
        return SAY(arena, "(%s ? %s : %s)", condition.text, yes.text, no.text);
    if (bytes == 4)
        return SAY(arena, "select(%s, %s, %s)", no.text, yes.text, condition.text);
    return SAY(arena, "select(%s, %s, convert_%s%d(%s))", no.text, yes.text, mask[bytes], yes.lanes, condition.text);
}

/* Is the access a single access of a GPU? Otherwise the compiler of the GPU, which does not know the alignment, splits the
 * access into elements. */
static bool is_one_access(place p)
{
    return p.whole && (size_t)p.lanes * bl_dtype_bytes(p.dtype) <= LOCAL_ALIGNMENT;
}

/* Is it a vector of which prelude_move has the accesses? Local memory holds some dtypes as they are computed. */
static bool is_moved(place p)
{
    return p.lanes > 1 && (!p.local || opencl_stores_as_computed(p.dtype));
}

/* A vector in memory: see prelude_move. */
static const char *load_vector(bl_arena *arena, place p)
{
    if (!p.local && is_one_access(p))
        return SAY(arena, "*(const __global %s%d *)(%s + %s)", opencl_moved_type(p.dtype), p.lanes, p.buffer, p.index);
    return SAY(arena, "load_%s%s%d(%s + %s)", p.local ? "local_" : "", opencl_moved_type(p.dtype), p.lanes, p.buffer, p.index);
}

static const char *store_vector(bl_arena *arena, place p, const char *value)
{
    if (!p.local && is_one_access(p))
        return SAY(arena, "*(__global %s%d *)(%s + %s) = %s", opencl_moved_type(p.dtype), p.lanes, p.buffer, p.index, value);
    return SAY(arena, "store_%s%s%d(%s, %s + %s)", p.local ? "local_" : "", opencl_moved_type(p.dtype), p.lanes, value, p.buffer,
               p.index);
}

/* A vector of up to 16 aligned bytes in local memory, as a single access: vload does not state the alignment. */
static const char *local_vector(bl_arena *arena, place p)
{
    size_t bytes = p.narrow ? bl_dtype_bytes(p.dtype) : bl_dtype_local_bytes(p.dtype);
    bool whole = p.local && p.aligned && p.lanes > 1 && p.dtype != BL_BOOL && (size_t)p.lanes * bytes <= LOCAL_ALIGNMENT;
    const char *t = p.narrow ? SAY(arena, "ushort%d", p.lanes) : opencl_type(arena, p.dtype, p.lanes);

    return !whole ? NULL : SAY(arena, "*(__local %s *)(%s + %s)", t, p.buffer, p.index);
}

/* Is the value a float16, or a vector of float16 that one call can convert, in 16-bit local memory? */
static bool is_local_half(bl_arena *arena, place p)
{
    return p.narrow && p.dtype == BL_F16 && (p.lanes == 1 || local_vector(arena, p) != NULL);
}

static const char *opencl_lanes_of(bl_arena *arena, int lanes)
{
    return lanes > 1 ? SAY(arena, "%d", lanes) : "";
}

static const char *opencl_load(bl_arena *arena, place p)
{
    const char *vector = local_vector(arena, p);
    const char *whole = vector != NULL ? vector
                        : is_moved(p)  ? load_vector(arena, p)
                        : p.lanes > 1  ? SAY(arena, "vload%d(0, %s + %s)", p.lanes, p.buffer, p.index)
                                       : SAY(arena, "%s[%s]", p.buffer, p.index);

    if (p.bits)
        return p.lanes > 1 ? whole : SAY(arena, "*(const __global ushort *)(%s + %s)", p.buffer, p.index);
    if (is_local_half(arena, p)) /* the local memory is declared as ushort */
        return SAY(arena, "vload_half%s(0, (__local half *)(%s + %s))", opencl_lanes_of(arena, p.lanes), p.buffer, p.index);
    if (p.local && !p.narrow) /* in local memory a bool is 0 or 1, whether it was stored as a scalar or in a vector */
        return p.dtype == BL_BOOL && p.lanes > 1 ? SAY(arena, "(%s != 0)", whole) : whole;
    if (p.dtype == BL_F16 && p.lanes == 1)
        return SAY(arena, "load_half(%s + %s)", p.buffer, p.index);
    if (p.dtype == BL_F16) /* PoCL 3.1's vload_halfN crashes if the address is not a multiple of the vector's size */
        return SAY(arena, "uint16_as_float16_%d(%s)", p.lanes, whole);
    if (p.dtype == BL_BF16)
        return p.lanes > 1 ? SAY(arena, "as_float%d(convert_uint%d(%s) << 16)", p.lanes, p.lanes, whole)
                           : SAY(arena, "as_float((uint)%s << 16)", whole);
    if (p.dtype == BL_BOOL)
        return p.lanes > 1 ? SAY(arena, "(convert_int%d(%s) != 0)", p.lanes, whole) : SAY(arena, "(%s != 0)", whole);
    return whole;
}

static const char *opencl_store(bl_arena *arena, place p, const char *value)
{
    if (p.bits)
        return local_vector(arena, p) != NULL ? SAY(arena, "%s = %s", local_vector(arena, p), value)
               : p.lanes > 1                  ? SAY(arena, "vstore%d(%s, 0, %s + %s)", p.lanes, value, p.buffer, p.index)
                                              : SAY(arena, "%s[%s] = %s", p.buffer, p.index, value);
    if (is_local_half(arena, p))
        return SAY(arena, "vstore_half%s_rte(%s, 0, (__local half *)(%s + %s))", opencl_lanes_of(arena, p.lanes), value, p.buffer,
                   p.index);
    if (p.dtype == BL_F16 && p.lanes == 1 && !p.local)
        return SAY(arena, "store_half(%s, %s + %s)", value, p.buffer, p.index);
    if (p.dtype == BL_F16 && (!p.local || p.narrow))
        value = SAY(arena, "float16_as_uint16_%d(%s)", p.lanes, value);
    if (p.dtype == BL_BF16 && (!p.local || p.narrow))
        value = p.lanes > 1 ? SAY(arena, "convert_ushort%d(as_uint%d(%s) >> 16)", p.lanes, p.lanes, value)
                            : SAY(arena, "(ushort)(as_uint(%s) >> 16)", value);
    if (local_vector(arena, p) != NULL)
        return SAY(arena, "%s = %s", local_vector(arena, p), value);
    if (p.dtype == BL_BOOL && p.lanes > 1)
        value = p.local ? SAY(arena, "(-(%s))", value) : SAY(arena, "convert_uchar%d(-(%s))", p.lanes, value);
    if (p.streams && p.aligned && p.lanes > 1 && opencl_stores_as_computed(p.dtype))
        return SAY(arena, "STREAM(%s, (__global %s *)(%s + %s))", value, opencl_type(arena, p.dtype, p.lanes), p.buffer, p.index);
    if (is_moved(p))
        return store_vector(arena, p, value);
    return p.lanes > 1 ? SAY(arena, "vstore%d(%s, 0, %s + %s)", p.lanes, value, p.buffer, p.index)
                       : SAY(arena, "%s[%s] = %s", p.buffer, p.index, value);
}

/* Does prelude_masked have the accesses of such a vector? The lanes of a gate are 32 bits wide. */
static bool has_masked(place p)
{
    return !p.local && !p.bits && opencl_stores_as_computed(p.dtype) && bl_dtype_bytes(p.dtype) == 4;
}

static const char *opencl_load_masked(bl_arena *arena, place from, const char *open)
{
    return !has_masked(from) ? NULL
                             : SAY(arena, "load_masked_%s(%s + %s, %s)", opencl_type(arena, from.dtype, from.lanes), from.buffer,
                                   from.index, open);
}

static const char *opencl_store_masked(bl_arena *arena, place to, const char *value, const char *open)
{
    return !has_masked(to) ? NULL
                           : SAY(arena, "store_masked_%s(%s, %s + %s, %s)", opencl_type(arena, to.dtype, to.lanes), value,
                                 to.buffer, to.index, open);
}

static const char *opencl_gather(bl_arena *arena, place from, int64_t stride)
{
    return opencl_stores_as_computed(from.dtype)
               ? SAY(arena, "gather_%s(%s + %s, %" PRId64 ")", opencl_type(arena, from.dtype, from.lanes), from.buffer,
                     from.index, stride)
               : NULL;
}

static const char *opencl_scatter(bl_arena *arena, place to, int64_t stride, const char *value)
{
    return opencl_stores_as_computed(to.dtype) ? SAY(arena, "scatter_%s(%s, %s + %s, %" PRId64 ")",
                                                     opencl_type(arena, to.dtype, to.lanes), value, to.buffer, to.index, stride)
                                               : NULL;
}

static const char *local_buffer(bl_arena *arena, const char *name, const bl_inst *buffer, int64_t offset)
{
    const char *t = buffer->sub == BL_LOCAL_NARROW ? "ushort" : opencl_computed_type[buffer->dtype];

    if (offset >= 0)
        return SAY(arena, "__local %s *%s = (__local %s *)(memory + %" PRId64 ");\n", t, name, t, offset);
    return SAY(arena, "__local %s %s[%" PRId64 "] __attribute__((aligned(%d)));\n", t, name, buffer->arg, LOCAL_ALIGNMENT);
}

/* Overflow of signed scalars is undefined in C, and clang exploits that. */
static const char *const wraps32[BL_OP_COUNT] = {[BL_OP_ADD] = "((int)((uint)({0}) + (uint)({1})))",
                                                 [BL_OP_SUB] = "((int)((uint)({0}) - (uint)({1})))",
                                                 [BL_OP_MUL] = "((int)((uint)({0}) * (uint)({1})))",
                                                 [BL_OP_NEG] = "((int)(0U - (uint)({0})))"};
static const char *const wraps64[BL_OP_COUNT] = {[BL_OP_ADD] = "((long)((ulong)({0}) + (ulong)({1})))",
                                                 [BL_OP_SUB] = "((long)((ulong)({0}) - (ulong)({1})))",
                                                 [BL_OP_MUL] = "((long)((ulong)({0}) * (ulong)({1})))",
                                                 [BL_OP_NEG] = "((long)(0UL - (ulong)({0})))"};

static const char *const alu[BL_OP_COUNT] = {[BL_OP_EXP] = "exp_each({0})", [BL_OP_SIN] = "sin_each({0})"};

const dialect dialect_opencl = {.wraps = {wraps32, wraps64},
                                .alu = alu,
                                .type = opencl_type,
                                .literal = opencl_literal,
                                .repeat = opencl_repeat,
                                .lane = opencl_lane,
                                .half = opencl_half,
                                .pick = opencl_pick,
                                .stack = opencl_stack,
                                .cast = opencl_cast,
                                .bitcast = opencl_bitcast,
                                .fit = opencl_fit,
                                .compare = opencl_compare,
                                .where = opencl_where,
                                .pointers = true,
                                .moves_bits = true,
                                .load = opencl_load,
                                .store = opencl_store,
                                .load_masked = opencl_load_masked,
                                .store_masked = opencl_store_masked,
                                .gather = opencl_gather,
                                .scatter = opencl_scatter,
                                .local_buffer = local_buffer,
                                .false_text = "0",
                                .group_id = {"(int)get_group_id(0)", "(int)get_group_id(1)", "(int)get_group_id(2)"},
                                .group_parameter = {"g0", "g1", "g2"},
                                .local_id = {"(int)get_local_id(0)", "(int)get_local_id(1)", "(int)get_local_id(2)"},
                                .barrier = "barrier(CLK_LOCAL_MEM_FENCE)",
                                .scalar = "n",
                                .unit = unit_opencl,
                                .begin = opencl_begin};
