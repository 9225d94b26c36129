/* SPDX-License-Identifier: MIT */
/* OpenCL C 1.2. A bool is an int: 0 or 1 as a scalar, 0 or -1 in the lanes of a vector, like the results of comparisons. */
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOCAL_ALIGNMENT = 16 /* bytes of the widest access of a GPU, in global and in local memory */ };

#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) [BL_##id] = cl,
static const char *const computed_type[BL_DTYPE_COUNT] = {
#include "engine/ir/dtypes.def"
};
#undef BL_DTYPE

static const char *opencl_stored_type(bl_dtype dtype)
{
    return dtype == BL_BOOL ? "uchar" : dtype == BL_F16 ? "half" : dtype == BL_BF16 ? "ushort" : computed_type[dtype];
}

/* Does a vector have the same type in memory and in registers? */
static bool is_stored_as_computed(bl_dtype dtype)
{
    return dtype != BL_BOOL && strcmp(opencl_stored_type(dtype), computed_type[dtype]) == 0;
}

/* The element type of a vector that is loaded or stored as a whole; a float16 is moved as its 16 bits. */
static const char *moved_type(bl_dtype dtype)
{
    return dtype == BL_F16 ? "ushort" : opencl_stored_type(dtype);
}

static const char *opencl_type(bl_arena *arena, bl_dtype dtype, int lanes)
{
    return lanes > 1 ? SAY(arena, "%s%d", computed_type[dtype], lanes) : computed_type[dtype];
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
            return SAY(arena, "((%s)%" PRId64 ")", computed_type[dtype], value.i);
        return SAY(arena, value.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", value.i, dtype == BL_I64 ? "L" : "");
    case BL_KIND_UINT:
        return SAY(arena, "((%s)%" PRIu64 "%s)", computed_type[dtype], value.u, dtype == BL_U64 ? "UL" : "U");
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
        return SAY(arena, "((%s)%s)", computed_type[dtype], x); /* C computes these types as int */
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
    if (strcmp(computed_type[to], computed_type[x.dtype]) == 0)
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
    return p.lanes > 1 && (!p.local || is_stored_as_computed(p.dtype));
}

/* A vector in memory: see prelude_move. */
static const char *load_vector(bl_arena *arena, place p)
{
    if (!p.local && is_one_access(p))
        return SAY(arena, "*(const __global %s%d *)(%s + %s)", moved_type(p.dtype), p.lanes, p.buffer, p.index);
    return SAY(arena, "load_%s%s%d(%s + %s)", p.local ? "local_" : "", moved_type(p.dtype), p.lanes, p.buffer, p.index);
}

static const char *store_vector(bl_arena *arena, place p, const char *value)
{
    if (!p.local && is_one_access(p))
        return SAY(arena, "*(__global %s%d *)(%s + %s) = %s", moved_type(p.dtype), p.lanes, p.buffer, p.index, value);
    return SAY(arena, "store_%s%s%d(%s, %s + %s)", p.local ? "local_" : "", moved_type(p.dtype), p.lanes, value, p.buffer,
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
    if (p.streams && p.aligned && p.lanes > 1 && is_stored_as_computed(p.dtype))
        return SAY(arena, "STREAM(%s, (__global %s *)(%s + %s))", value, opencl_type(arena, p.dtype, p.lanes), p.buffer, p.index);
    if (is_moved(p))
        return store_vector(arena, p, value);
    return p.lanes > 1 ? SAY(arena, "vstore%d(%s, 0, %s + %s)", p.lanes, value, p.buffer, p.index)
                       : SAY(arena, "%s[%s] = %s", p.buffer, p.index, value);
}

static const char *opencl_gather(bl_arena *arena, place from, int64_t stride)
{
    return is_stored_as_computed(from.dtype) ? SAY(arena, "gather_%s(%s + %s, %" PRId64 ")",
                                                   opencl_type(arena, from.dtype, from.lanes), from.buffer, from.index, stride)
                                             : NULL;
}

static const char *opencl_scatter(bl_arena *arena, place to, int64_t stride, const char *value)
{
    return is_stored_as_computed(to.dtype) ? SAY(arena, "scatter_%s(%s, %s + %s, %" PRId64 ")",
                                                 opencl_type(arena, to.dtype, to.lanes), value, to.buffer, to.index, stride)
                                           : NULL;
}

static const char *local_buffer(bl_arena *arena, const char *name, const bl_inst *buffer, int64_t offset)
{
    const char *t = buffer->sub == BL_LOCAL_NARROW ? "ushort" : computed_type[buffer->dtype];

    if (offset >= 0)
        return SAY(arena, "__local %s *%s = (__local %s *)(memory + %" PRId64 ");\n", t, name, t, offset);
    return SAY(arena, "__local %s %s[%" PRId64 "] __attribute__((aligned(%d)));\n", t, name, buffer->arg, LOCAL_ALIGNMENT);
}

/* In C, a function that is only inline has no external definition, and the compiler need not inline the function: with clang
 * some of these functions are undefined in NVIDIA's linker. */
static const char own_functions[] =
    "#ifndef HAS_own_functions\n#define HAS_own_functions\n#define inline static inline\n#endif\n";

/* Functions for some kernels, emitted only for the vector widths that occur in the kernel. */
static const char whole[] =
    "#define WHOLE(T, N, B) \\\n"
    "inline T floor_div_##N(T x, T y) { if (y == 0) return 0; if (y == (T)-1 && (T)-1 < 0) return (T)(0 - x); \\\n"
    "  T q = x / y, r = x % y; return (T)(q - (r != 0 && ((r < 0) != (y < 0)))); } \\\n"
    "inline T floor_mod_##N(T x, T y) { if (y == 0 || (y == (T)-1 && (T)-1 < 0)) return 0; \\\n"
    "  T r = x % y; return (T)(r != 0 && ((r < 0) != (y < 0)) ? r + y : r); } \\\n"
    "inline T shift_left_##N(T x, T y) { return (T)(y >= 0 && y < B ? x << y : 0); } \\\n"
    "inline T shift_right_##N(T x, T y) { return (T)(y >= 0 && y < B ? x >> y : x < 0 ? -1 : 0); }\n"
    "WHOLE(char, int8, 8) WHOLE(short, int16, 16) WHOLE(int, int32, 32) WHOLE(long, int64, 64)\n"
    "WHOLE(uchar, uint8, 8) WHOLE(ushort, uint16, 16) WHOLE(uint, uint32, 32) WHOLE(ulong, uint64, 64)\n";

static void prelude_whole(bl_text *out, const char *real, int lanes)
{
    (void)real; /* the text is the same for all types */
    (void)lanes;
    bl_text_puts(out, whole);
}

/* max and min that give NaN if either operand is NaN, as in alu.def. The instruction of x86 gives its second operand if either is
 * NaN: a sum waits for it and for one move, while the comparison of y with itself is done ahead. From selects alone, LLVM makes
 * two comparisons and a combination of masks, which the next step waits for. */
static void prelude_extremes(bl_text *out, const char *real, int lanes)
{
    bool instruction = strcmp(real, "float") == 0 && (lanes == 4 || lanes == 8 || lanes == 16);
    char t[24], suffix[24] = "";
    snprintf(t, sizeof t, lanes > 1 ? "%s%d" : "%s", real, lanes);
    if (lanes > 4)
        snprintf(suffix, sizeof suffix, "%d", 32 * lanes);
    if (instruction)
        bl_text_printf(
            out,
            "#if defined(__clang__) && defined(%s)\n#define EXTREME%d(NAME, S, x, y) __builtin_ia32_##NAME##ps%s(y, x%s)\n"
            "#else\n#define EXTREME%d(NAME, S, x, y) select(x, y, x S y)\n#endif\n",
            lanes == 16  ? "__AVX512F__"
            : lanes == 8 ? "__AVX__"
                         : "__SSE__",
            lanes, suffix, lanes == 16 ? ", 4" : "", lanes);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "max" : "min", *sign = i == 0 ? "<" : ">";
        if (instruction)
            bl_text_printf(out,
                           "inline %s __attribute__((overloadable)) %s_nan(%s x, %s y) { return select(EXTREME%d(%s, %s, x, y), "
                           "y, y != y); }\n",
                           t, name, t, t, lanes, name, sign);
        else if (lanes > 1)
            bl_text_printf(out,
                           "inline %s __attribute__((overloadable)) %s_nan(%s x, %s y) { return select(select(x, y, x %s y), y, "
                           "y != y); }\n",
                           t, name, t, t, sign);
        else
            bl_text_printf(out,
                           "inline %s __attribute__((overloadable)) %s_nan(%s x, %s y) { return x %s y || y != y ? y : x; }\n", t,
                           name, t, t, sign);
    }
}

/* PoCL 3.1's sin of a vector is wrong in every lane if one lane exceeds about 1e8. */
static void prelude_sin(bl_text *out, const char *real, int lanes)
{
    if (lanes == 1) {
        bl_text_printf(out, "inline %s __attribute__((overloadable)) sin_each(%s x) { return sin(x); }\n", real, real);
        return;
    }
    bl_text_printf(
        out,
        "inline %s%d __attribute__((overloadable)) sin_each(%s%d x) { if (all(fabs(x) <= (%s%d)(1e6f))) return sin(x);\n"
        "  return (%s%d)(",
        real, lanes, real, lanes, real, lanes, real, lanes);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, i == 0 ? "sin(x.s%x)" : ", sin(x.s%x)", (unsigned)i);
    bl_text_puts(out, "); }\n");
}

/* vcvtph2ps and vcvtps2ph, for 4 and for 8 numbers. PoCL 3.1's vload_half and vstore_half compute the bits one by one, with
 * branches: 12 instructions per number. */
static const char prelude_f16c[] =
    "#if defined(__clang__) && defined(__F16C__)\n"
    "#define FLOAT_OF_HALVES\n"
    "inline float4 float_of_4(ushort8 x) { return __builtin_ia32_vcvtph2ps(as_short8(x)); }\n"
    "inline float8 float_of_8(ushort8 x) { return __builtin_ia32_vcvtph2ps256(as_short8(x)); }\n"
    "inline ushort8 half_of_4(float4 x) { return as_ushort8(__builtin_ia32_vcvtps2ph(x, 0)); }\n"
    "inline ushort8 half_of_8(float8 x) { return as_ushort8(__builtin_ia32_vcvtps2ph256(x, 0)); }\n"
    "#define load_half(p) uint16_as_float16(*(const __global ushort *)(p))\n"
    "#define store_half(x, p) (*(__global ushort *)(p) = float16_as_uint16(x))\n"
    "#endif\n";

static void prelude_f16c_once(bl_text *out, const char *real, int lanes)
{
    (void)real; /* the text is the same for all types */
    (void)lanes;
    bl_text_puts(out, prelude_f16c);
}

/* Conversions of |lanes| numbers between the types |f| and |s|, which holds their bits. */
static void prelude_half_by_instruction(bl_text *out, const char *f, const char *s, const char *n, int lanes)
{
    static const char *const to_float[] = {[1] = "float_of_4((ushort8)(x, 0, 0, 0, 0, 0, 0, 0)).s0",
                                           [2] = "float_of_4((ushort8)(x, 0, 0, 0, 0, 0, 0)).lo",
                                           [4] = "float_of_4((ushort8)(x, 0, 0, 0, 0))",
                                           [8] = "float_of_8(x)",
                                           [16] = "(float16)(float_of_8(x.lo), float_of_8(x.hi))"};
    static const char *const to_half[] = {[1] = "half_of_4((float4)(x, 0, 0, 0)).s0",
                                          [2] = "half_of_4((float4)(x, 0, 0)).s01",
                                          [4] = "half_of_4(x).lo",
                                          [8] = "half_of_8(x)",
                                          [16] = "(ushort16)(half_of_8(x.lo), half_of_8(x.hi))"};
    bl_text_printf(out, "inline %s float16_as_uint16%s(%s x) { return %s; }\n", s, n, f, to_half[lanes]);
    bl_text_printf(out, "inline %s uint16_as_float16%s(%s x) { return %s; }\n", f, n, s, to_float[lanes]);
}

static void prelude_half(bl_text *out, const char *real, int lanes)
{
    char f[24] = "float", u[24] = "uint", s[24] = "ushort", n[16] = "";

    (void)real; /* the function computes in float */
    if (lanes > 1) {
        snprintf(f, sizeof f, "float%d", lanes);
        snprintf(u, sizeof u, "uint%d", lanes);
        snprintf(s, sizeof s, "ushort%d", lanes);
        snprintf(n, sizeof n, "_%d", lanes);
    }
    bl_text_printf(out,
                   "inline %s bfloat16_as_uint16%s(%s x) { return convert_%s(as_%s(x) >> 16); }\n"
                   "inline %s uint16_as_bfloat16%s(%s x) { return as_%s(convert_%s(x) << 16); }\n"
                   "inline %s round_bf16%s(%s x) { %s b = as_%s(x); %s r = (b + 0x7fff + ((b >> 16) & 1)) & 0xffff0000u;\n",
                   s, n, f, s, u, f, n, s, f, u, f, n, f, u, u, u);
    if (lanes > 1)
        bl_text_printf(out, "  return as_%s(select(r, (b | 0x400000u) & 0xffff0000u, (x != x))); }\n", f);
    else
        bl_text_puts(out, "  return as_float(x != x ? (b | 0x400000u) & 0xffff0000u : r); }\n");
    bl_text_puts(out, "#ifdef FLOAT_OF_HALVES\n");
    prelude_half_by_instruction(out, f, s, n, lanes);
    bl_text_puts(out, "#else\n");
    if (lanes > 1)
        bl_text_printf(out,
                       "inline %s float16_as_uint16%s(%s x) { ushort h[%d] __attribute__((aligned(32))); vstore_half%d_rte(x, 0, "
                       "(half *)h); return vload%d(0, h); }\n"
                       "inline %s uint16_as_float16%s(%s x) { ushort h[%d] __attribute__((aligned(32))); vstore%d(x, 0, h); "
                       "return vload_half%d(0, (half *)h); }\n",
                       s, n, f, lanes, lanes, lanes, f, n, s, lanes, lanes, lanes);
    else
        bl_text_puts(out, "inline ushort float16_as_uint16(float x) { ushort h; vstore_half_rte(x, 0, (half *)&h); return h; }\n"
                          "inline float uint16_as_float16(ushort x) { ushort h = x; return vload_half(0, (half *)&h); }\n"
                          "#define load_half(p) vload_half(0, p)\n#define store_half(x, p) vstore_half_rte(x, 0, p)\n");
    bl_text_printf(out, "#endif\ninline %s round_f16%s(%s x) { return uint16_as_float16%s(float16_as_uint16%s(x)); }\n", f, n, f,
                   n, n);
}

/* The instructions of VNNI, for a function: clang compiles for the processor that its driver names, which may be an older one. */
#define TARGET_VNNI "__attribute__((target(\"avx512vnni,avx512vl\")))"

/* The functions of DOT4. dot4_small requires that all bytes of x are below 128. */
static const char dot4_head[] = "inline %s __attribute__((overloadable)) %s(%s x, %s y, %s z) {";
#define DOT4_HEAD(out, t, name) bl_text_printf(out, dot4_head, t, name, t, t, t)

static void dot4_small_is_dot4(bl_text *out, const char *t)
{
    DOT4_HEAD(out, t, "dot4_small");
    bl_text_puts(out, " return dot4(x, y, z); }\n");
}

static const char *int_type(char t[16], int lanes)
{
    snprintf(t, 16, lanes > 1 ? "int%d" : "int", lanes);
    return t;
}

static void prelude_vnni(bl_text *out, const char *real, int lanes)
{
    char text[16];
    const char *t = int_type(text, lanes);

    (void)real; /* the type is always int */
    /* the compiler merges a repeated y with its load, which it cannot do for an assembly statement: a product of 128 rows runs at
     * 775 GOP/s instead of 450 */
    bl_text_puts(out, TARGET_VNNI " ");
    DOT4_HEAD(out, t, "dot4");
    bl_text_printf(out, " return __builtin_ia32_vpdpbusd%d(z, x, y); }\n" TARGET_VNNI " ", 32 * lanes);
    dot4_small_is_dot4(out, t);
}

static void prelude_dp4a(bl_text *out, const char *real, int lanes)
{
    (void)real; /* the type is always int */
    (void)lanes;
    DOT4_HEAD(out, "int", "dot4");
    bl_text_puts(out, " asm(\"dp4a.u32.s32 %0, %1, %2, %0;\" : \"+r\"(z) : \"r\"(x), \"r\"(y)); return z; }\n");
    dot4_small_is_dot4(out, "int");
}

/* By pmaddubsw, which adds two products in 16 bits and saturates: dot4 gives it one byte of each pair at a time. */
static void prelude_dot4_pairs(bl_text *out, const char *t, int lanes)
{
    static const char *const has[BL_MAX_LANES + 1] = {[4] = "__SSSE3__", [8] = "__AVX2__", [16] = "__AVX512BW__"};

    bl_text_printf(out,
                   "#if defined(__clang__) && defined(%s)\n#define HAS_PAIRS_%d\n"
                   "typedef char dot4_bytes_%d __attribute__((ext_vector_type(%d)));\n"
                   "typedef short dot4_shorts_%d __attribute__((ext_vector_type(%d)));\n",
                   has[lanes], lanes, lanes, 4 * lanes, lanes, 2 * lanes);
    DOT4_HEAD(out, t, "dot4_small");
    bl_text_printf(out,
                   "\n  return z + __builtin_ia32_pmaddwd%d(__builtin_ia32_pmaddubsw%d(__builtin_astype(x, dot4_bytes_%d), "
                   "__builtin_astype(y, dot4_bytes_%d)), (dot4_shorts_%d)(1)); }\n",
                   32 * lanes, 32 * lanes, lanes, lanes, lanes);
    DOT4_HEAD(out, t, "dot4");
    bl_text_puts(out, "\n  return dot4_small(x & 0x00ff00ff, y, dot4_small((x >> 8) & 0x00ff00ff, y >> 8, z)); }\n#endif\n");
}

static void prelude_dot4(bl_text *out, const char *real, int lanes)
{
    char text[16];
    const char *t = int_type(text, lanes);

    (void)real; /* the type is always int */
    if (lanes >= 4)
        prelude_dot4_pairs(out, t, lanes);
    bl_text_printf(out, "#ifndef HAS_PAIRS_%d\n", lanes);
    DOT4_HEAD(out, t, "dot4");
    for (int i = 0; i < 4; i++)
        bl_text_printf(out, "\n  z = as_%s(as_u%s(z) + as_u%s((x >> %d & 255) * (y << %d >> 24)));", t, t, t, 8 * i, 24 - 8 * i);
    bl_text_puts(out, "\n  return z; }\n");
    dot4_small_is_dot4(out, t);
    bl_text_puts(out, "#endif\n");
}

/* Rounding a double to odd in float first makes the second rounding exact (Boldo and Melquiond, 2008). */
static void prelude_to_odd(bl_text *out, const char *real, int lanes)
{
    (void)real; /* the type is always double */
    if (lanes > 1) {
        bl_text_printf(out, "inline float%d to_odd_%d(double%d x) { return (float%d)(", lanes, lanes, lanes, lanes);
        for (int i = 0; i < lanes; i++)
            bl_text_printf(out, i == 0 ? "to_odd(x.s%x)" : ", to_odd(x.s%x)", (unsigned)i);
        bl_text_puts(out, "); }\n");
    } else {
        bl_text_puts(out, "inline float to_odd(double x) { float f = convert_float_rtz(x);\n"
                          "  return (double)f != x && x == x && !isinf(f) ? as_float(as_uint(f) | 1u) : f; }\n");
    }
}

/* Unaligned vectors of |real|. Clang has a type for unaligned vectors. A call of vload16 has the same effect, but PoCL 3.1
 * then takes three times as long to compile a product. */
static void prelude_move(bl_text *out, const char *real, int lanes)
{
    char t[24];
    snprintf(t, sizeof t, "%s%d", real, lanes);
    bl_text_printf(out,
                   "#ifdef __clang__\n"
                   "typedef %s any_%s __attribute__((aligned(sizeof(%s))));\n"
                   "#define LOAD_%s(SPACE, p) (*(const SPACE any_%s *)(p))\n"
                   "#define STORE_%s(SPACE, v, p) (*(SPACE any_%s *)(p) = (v))\n"
                   "#else\n",
                   t, t, real, t, t, t, t);
    bl_text_printf(out,
                   "#define LOAD_%s(SPACE, p) vload%d(0, (const SPACE %s *)(p))\n"
                   "#define STORE_%s(SPACE, v, p) vstore%d((v), 0, (SPACE %s *)(p))\n"
                   "#endif\n",
                   t, lanes, real, t, lanes, real);
    bl_text_printf(out,
                   "#define load_%s(p) LOAD_%s(__global, p)\n#define load_local_%s(p) LOAD_%s(__local, p)\n"
                   "#define store_%s(v, p) STORE_%s(__global, v, p)\n#define store_local_%s(v, p) STORE_%s(__local, v, p)\n",
                   t, t, t, t, t, t, t, t);
}

/* Functions for cold accesses that must not be inlined: see cold.h. */
static void prelude_call(bl_text *out, const char *real, int lanes)
{
    bl_text_printf(out, "__attribute__((noinline)) %s%d gather_%s%d(const __global %s *p, long s) {\n  return (%s%d)(", real,
                   lanes, real, lanes, real, real, lanes);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, i == 0 ? "p[0]" : ", p[%d * s]", i);
    bl_text_printf(out, ");\n}\n__attribute__((noinline)) void scatter_%s%d(%s%d x, __global %s *p, long s) {\n ", real, lanes,
                   real, lanes, real);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, " p[%d * s] = x.s%x;", i, (unsigned)i);
    bl_text_puts(out, "\n}\n");
}

/* Clang's builtin for non-temporal stores, if the driver's compiler has it. A buffer starts at a multiple of the largest vector
 * (CL_DEVICE_MEM_BASE_ADDR_ALIGN, OpenCL 1.2, table 4.3). */
static const char prelude_stream[] =
    "#if !defined(STREAM) && defined(__has_builtin)\n#if __has_builtin(__builtin_nontemporal_store)\n"
    "#define STREAM(x, p) __builtin_nontemporal_store(x, p)\n#endif\n#endif\n"
    "#ifndef STREAM\n#define STREAM(x, p) (*(p) = (x))\n#endif\n";

/* Write a helper function of the prelude. Several kernels may be compiled as one text: an include guard makes the compiler
 * read each helper once. */
static void once(bl_text *out, const char *what, const char *real, int lanes, void (*part)(bl_text *, const char *, int))
{
    bl_text_printf(out, "#ifndef HAS_%s_%s_%d\n#define HAS_%s_%s_%d\n", what, real, lanes, what, real, lanes);
    part(out, real, lanes);
    bl_text_puts(out, "#endif\n");
}

typedef struct needs {
    bool stream, whole, half, f64, f64_to_half, extremes, sin;
    bool lanes[BL_MAX_LANES + 1];
    bool dot4[BL_MAX_LANES + 1];
    bool moved[BL_DTYPE_COUNT][BL_MAX_LANES + 1];  /* vectors that the kernel moves between memory and registers */
    bool called[BL_DTYPE_COUNT][BL_MAX_LANES + 1]; /* vectors that the kernel gathers or scatters by calls */
} needs;

static bool moves_vector(const bl_linear *linear, const bl_inst *inst)
{
    return (inst->op == BL_OP_LOAD || inst->op == BL_OP_STORE) && inst->lanes > 1 && linear->inst[inst->args[1]].lanes == 1;
}

static needs opencl_survey(const bl_linear *linear, const cold_kind *cold)
{
    needs n = {0};
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        bl_op op = (bl_op)inst->op;
        for (int lanes = op == BL_OP_FOLD ? linear->inst[inst->args[0]].lanes : inst->lanes; lanes > 0; lanes /= 2)
            n.lanes[lanes] = true; /* a fold halves the vector repeatedly */
        if (moves_vector(linear, inst))
            n.moved[linear->inst[inst->args[0]].dtype][inst->lanes] = true;
        if (cold != NULL && cold[i] == COLD_CALL)
            n.called[linear->inst[(op == BL_OP_STACK ? &linear->inst[inst->args[0]] : inst)->args[0]].dtype][inst->lanes] = true;
        n.stream = n.stream || (op == BL_OP_STORE && inst->arg == BL_STORE_STREAMS);
        n.whole = n.whole || ((op == BL_OP_IDIV || op == BL_OP_MOD || op == BL_OP_SHL || op == BL_OP_SHR) && inst->sub == 0);
        n.half = n.half || is_half((bl_dtype)inst->dtype);
        n.f64 = n.f64 || inst->dtype == BL_F64;
        n.sin = n.sin || op == BL_OP_SIN;
        n.dot4[inst->lanes] = n.dot4[inst->lanes] || op == BL_OP_DOT4;
        n.extremes =
            n.extremes || ((op == BL_OP_MAX || op == BL_OP_MIN || op == BL_OP_FOLD) && bl_dtype_is_float((bl_dtype)inst->dtype));
    }
    for (uint32_t i = 0; i < linear->nbuffers; i++) {
        n.half = n.half || is_half(linear->buffer_dtype[i]);
        n.f64 = n.f64 || linear->buffer_dtype[i] == BL_F64;
    }
    n.lanes[1] = true;
    n.f64_to_half = n.f64 && n.half;
    return n;
}

static bl_status opencl_begin(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold,
                              bl_text *out, bl_err *err)
{
    needs n = opencl_survey(linear, cold);
    bool vnni = info->dot4 == BL_DOT4_VNNI && function && (n.dot4[4] || n.dot4[8] || n.dot4[16]);

    if (n.f64 && (info->features & BL_FEATURE_F64) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no float64", info->id);
    if (n.f64)
        bl_text_puts(out, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
    if (info->subgroup > 1)
        bl_text_puts(out, own_functions);
    if (n.stream)
        bl_text_puts(out, prelude_stream);
    if (n.whole)
        once(out, "whole", "any", 1, prelude_whole);
    if (n.half)
        once(out, "f16c", "float", 1, prelude_f16c_once);
    for (int lanes = 1; lanes <= BL_MAX_LANES; lanes++) {
        if (!n.lanes[lanes])
            continue;
        if (n.extremes)
            once(out, "extremes", "float", lanes, prelude_extremes);
        if (n.extremes && n.f64)
            once(out, "extremes", "double", lanes, prelude_extremes);
        if (n.dot4[lanes])
            once(out, "dot4", "int", lanes,
                 vnni && lanes >= 4                         ? prelude_vnni
                 : info->dot4 == BL_DOT4_DP4A && lanes == 1 ? prelude_dp4a
                                                            : prelude_dot4);
        if (n.sin)
            once(out, "sin", "float", lanes, prelude_sin);
        if (n.sin && n.f64)
            once(out, "sin", "double", lanes, prelude_sin);
        if (n.half)
            once(out, "half", "float", lanes, prelude_half);
        if (n.f64_to_half)
            once(out, "to_odd", "double", lanes, prelude_to_odd);
        for (int i = 0; i < BL_DTYPE_COUNT; i++) {
            if (n.moved[i][lanes])
                once(out, "move", moved_type((bl_dtype)i), lanes, prelude_move);
            if (n.called[i][lanes] && is_stored_as_computed((bl_dtype)i))
                once(out, "call", computed_type[i], lanes, prelude_call);
        }
    }
    if (unit_first(linear) != NULL)
        unit_opencl_prelude(unit_of(info, unit_first(linear)->arg), out);
    if (function) /* a function is large enough for a call, and too large to be inlined at each call */
        bl_text_printf(out, "__attribute__((noinline))%s\nvoid %s(", vnni ? " " TARGET_VNNI : "", linear->name);
    else
        bl_text_printf(out, "__kernel __attribute__((reqd_work_group_size(%u, %u, %u)))\nvoid %s(", linear->local[0],
                       linear->local[1], linear->local[2], linear->name);
    for (uint32_t i = 0; i < linear->nbuffers; i++)
        bl_text_printf(out, "%s__global %s%s *restrict b%u", i == 0 ? "" : ", ", (linear->writes >> i & 1) != 0 ? "" : "const ",
                       opencl_stored_type(linear->buffer_dtype[i]), i);
    for (uint32_t i = 0; i < linear->nscalars; i++)
        bl_text_printf(out, ", const int n%u", i);
    if (function && linear->local_bytes > 0)
        bl_text_puts(out, ", __local uchar *restrict memory");
    bl_text_puts(out, function ? ", const int g0, const int g1, const int g2) {\n" : ") {\n");
    return BL_OK;
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

static const char *const alu[BL_OP_COUNT] = {[BL_OP_SIN] = "sin_each({0})"};

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
