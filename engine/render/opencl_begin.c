/* SPDX-License-Identifier: MIT */
/* The text of an OpenCL kernel before its first statement: helper functions for what the kernel uses, its name and its
 * parameters. */
#include "engine/render/opencl_text.h"
#include "engine/render/unit.h"

#include <stdio.h>
#include <string.h>

#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) [BL_##id] = cl,
const char *const opencl_computed_type[BL_DTYPE_COUNT] = {
#include "engine/ir/dtypes.def"
};
#undef BL_DTYPE

const char *opencl_stored_type(bl_dtype dtype)
{
    return dtype == BL_BOOL ? "uchar" : dtype == BL_F16 ? "half" : dtype == BL_BF16 ? "ushort" : opencl_computed_type[dtype];
}

bool opencl_stores_as_computed(bl_dtype dtype)
{
    return dtype != BL_BOOL && strcmp(opencl_stored_type(dtype), opencl_computed_type[dtype]) == 0;
}

const char *opencl_moved_type(bl_dtype dtype)
{
    return dtype == BL_F16 ? "ushort" : opencl_stored_type(dtype);
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

/* Are vectors of |lanes| numbers registers of x86 with float32 instructions (SSE, AVX or AVX-512)? */
static bool is_x86_vector(const char *real, int lanes)
{
    return strcmp(real, "float") == 0 && (lanes == 4 || lanes == 8 || lanes == 16);
}

/* max and min that give NaN if either operand is NaN, as in alu.def. The instruction of x86 gives its second operand if either is
 * NaN: a sum waits for it and for one move, while the comparison of y with itself is done ahead. From selects alone, LLVM makes
 * two comparisons and a combination of masks, which the next step waits for. */
static void prelude_extremes(bl_text *out, const char *real, int lanes)
{
    bool instruction = is_x86_vector(real, lanes);
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

/* exp. AVX-512 scales a number by a power of two in one instruction (vscalefps), which also rounds to subnormals and overflows:
 * 14 instructions, where PoCL's function takes 28. Otherwise each step is that of lower/elementary.c, so the bits are the same
 * (BL_FEATURE_EXACT_EXP). The bounds are first operands of vmaxps and vminps, which give the second one if it is NaN. */
static void prelude_exp(bl_text *out, const char *real, int lanes)
{
    bool instruction = is_x86_vector(real, lanes);
    char t[24], mask[24] = "";

    snprintf(t, sizeof t, lanes > 1 ? "%s%d" : "%s", real, lanes);
    if (instruction) {
        const char *max = lanes == 16 ? "maxps512" : lanes == 8 ? "maxps256" : "maxps", *round = lanes == 16 ? ", 4" : "";
        snprintf(mask, sizeof mask, lanes == 16 ? "(ushort)-1, 4" : "(uchar)-1");
        bl_text_printf(out,
                       "#if defined(__clang__) && defined(__AVX512F__) && defined(__AVX512VL__)\n"
                       "inline %s __attribute__((overloadable)) exp_each(%s x) {\n"
                       "  %s c = __builtin_ia32_min%s((%s)(89.0f), __builtin_ia32_%s((%s)(-104.0f), x%s)%s);\n"
                       "  %s n = fma(c, (%s)(1.44269504f), (%s)(12582912.0f)) - 12582912.0f;\n"
                       "  %s r = fma(n, (%s)(2.12194442e-4f), fma(n, (%s)(-0.693359375f), c));\n"
                       "  %s p = fma((%s)(1.98756912e-4f), r, (%s)(1.39819994e-3f));\n"
                       "  p = fma(fma(fma(fma(p, r, (%s)(8.33345205e-3f)), r, (%s)(4.16657962e-2f)), r, (%s)(0.166666657f)), r, "
                       "(%s)(0.5f));\n"
                       "  p = fma(p, r * r, r) + 1.0f;\n"
                       "  return __builtin_ia32_scalefps%d_mask(p, n, p, %s); }\n#else\n",
                       t, t, t, max + 3, t, max, t, round, round, t, t, t, t, t, t, t, t, t, t, t, t, t, 32 * lanes, mask);
    }
    bl_text_printf(out, "inline %s __attribute__((overloadable)) exp_each(%s x) { return exp(x); }\n%s", t, t,
                   instruction ? "#endif\n" : "");
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

/* Contiguous lanes with a gate each: one instruction of AVX-512. */
static void prelude_masked(bl_text *out, const char *real, int lanes)
{
    char t[24];

    snprintf(t, sizeof t, "%s%d", real, lanes);
    if (lanes >= 4)
        bl_text_printf(
            out,
            "#if defined(__clang__) && defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
            "inline %s load_masked_%s(const __global %s *p, int%d open) {\n"
            "  return as_%s(__builtin_ia32_loadups%d_mask((const float%d *)(size_t)p, (float%d)(0.0f), "
            "__builtin_ia32_cvtd2mask%d(open))); }\n"
            "inline void store_masked_%s(%s v, __global %s *p, int%d open) {\n"
            "  __builtin_ia32_storeups%d_mask((float%d *)(size_t)p, as_float%d(v), __builtin_ia32_cvtd2mask%d(open)); }\n"
            "#else\n",
            t, t, real, lanes, t, 32 * lanes, lanes, lanes, 32 * lanes, t, t, real, lanes, 32 * lanes, lanes, lanes, 32 * lanes);
    bl_text_printf(
        out, "inline %s load_masked_%s(const __global %s *p, int%d open) {\n  if (all(open)) return load_%s(p);\n  %s v = 0;\n",
        t, t, real, lanes, t, t);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, "  if (open.s%x) v.s%x = p[%d];\n", (unsigned)i, (unsigned)i, i);
    bl_text_printf(out,
                   "  return v; }\ninline void store_masked_%s(%s v, __global %s *p, int%d open) {\n  if (all(open)) { "
                   "store_%s(v, p); return; }\n",
                   t, t, real, lanes, t);
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, "  if (open.s%x) p[%d] = v.s%x;\n", (unsigned)i, i, (unsigned)i);
    bl_text_puts(out, lanes >= 4 ? "}\n#endif\n" : "}\n");
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
    bool stream, whole, half, f64, f64_to_half, extremes, exp, sin;
    bool lanes[BL_MAX_LANES + 1];
    bool dot4[BL_MAX_LANES + 1];
    bool moved[BL_DTYPE_COUNT][BL_MAX_LANES + 1];  /* vectors that the kernel moves between memory and registers */
    bool masked[BL_DTYPE_COUNT][BL_MAX_LANES + 1]; /* vectors that the kernel loads or stores under a mask */
    bool called[BL_DTYPE_COUNT][BL_MAX_LANES + 1]; /* vectors that the kernel gathers or scatters by calls */
} needs;

static bool moves_vector(const bl_linear *linear, const bl_inst *inst)
{
    return (inst->op == BL_OP_LOAD || inst->op == BL_OP_STORE) && inst->lanes > 1 && linear->inst[inst->args[1]].lanes == 1;
}

/* Has each lane of the contiguous vector that the kernel loads or stores a gate? */
static bool masks_vector(const bl_linear *linear, const bl_inst *inst)
{
    uint32_t gate = inst->op == BL_OP_LOAD ? 2 : 3;
    return moves_vector(linear, inst) && inst->nargs > gate && linear->inst[inst->args[gate]].lanes > 1;
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
        if (masks_vector(linear, inst))
            n.masked[linear->inst[inst->args[0]].dtype][inst->lanes] = true;
        if (cold != NULL && cold[i] == COLD_CALL)
            n.called[linear->inst[(op == BL_OP_STACK ? &linear->inst[inst->args[0]] : inst)->args[0]].dtype][inst->lanes] = true;
        n.stream = n.stream || (op == BL_OP_STORE && inst->arg == BL_STORE_STREAMS);
        n.whole = n.whole || ((op == BL_OP_IDIV || op == BL_OP_MOD || op == BL_OP_SHL || op == BL_OP_SHR) && inst->sub == 0);
        n.half = n.half || is_half((bl_dtype)inst->dtype);
        n.f64 = n.f64 || inst->dtype == BL_F64;
        n.exp = n.exp || op == BL_OP_EXP;
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

bl_status opencl_begin(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold, bl_text *out,
                       bl_err *err)
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
        if (n.exp)
            once(out, "exp", "float", lanes, prelude_exp);
        if (n.exp && n.f64)
            once(out, "exp", "double", lanes, prelude_exp);
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
                once(out, "move", opencl_moved_type((bl_dtype)i), lanes, prelude_move);
            if (n.masked[i][lanes] && opencl_stores_as_computed((bl_dtype)i) && bl_dtype_bytes((bl_dtype)i) == 4)
                once(out, "masked", opencl_computed_type[i], lanes, prelude_masked);
            if (n.called[i][lanes] && opencl_stores_as_computed((bl_dtype)i))
                once(out, "call", opencl_computed_type[i], lanes, prelude_call);
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
