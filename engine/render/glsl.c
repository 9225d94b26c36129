/* SPDX-License-Identifier: MIT */
/* GLSL 4.50 for Vulkan. 8- and 16-bit integers are computed as int or uint and wrapped after each op. float16 and bfloat16 are
 * computed as float and rounded by integer arithmetic, so that every driver rounds alike. Vectors have at most four lanes. */
#include "engine/render/dialect.h"
#include "engine/render/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) [BL_##id] = glsl,
static const char *const computed_type[BL_DTYPE_COUNT] = {
#include "engine/ir/dtypes.def"
};
#undef BL_DTYPE

static const char *glsl_stored_type(bl_dtype dtype)
{
    if (bl_dtype_bytes(dtype) == 1)
        return dtype == BL_I8 ? "int8_t" : "uint8_t";
    if (bl_dtype_bytes(dtype) == 2)
        return dtype == BL_I16 ? "int16_t" : "uint16_t";
    return computed_type[dtype];
}

static const char *glsl_vector_of(bl_dtype dtype)
{
    bool wide = bl_dtype_bytes(dtype) == 8;

    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return wide ? "dvec" : "vec";
    case BL_KIND_INT:
        return wide ? "i64vec" : "ivec";
    case BL_KIND_UINT:
        return wide ? "u64vec" : "uvec";
    case BL_KIND_BOOL:
        break;
    }
    return "bvec";
}

static const char *glsl_type(bl_arena *arena, bl_dtype dtype, int lanes)
{
    return lanes > 1 ? SAY(arena, "%s%d", glsl_vector_of(dtype), lanes) : computed_type[dtype];
}

static const char *glsl_real_literal(bl_arena *arena, double value, bool wide)
{
    char text[40];

    if (!isfinite(value))
        return SAY(arena, wide ? "double(uintBitsToFloat(%s))" : "uintBitsToFloat(%s)",
                   isnan(value) ? "0x7fc00000u"
                   : value > 0  ? "0x7f800000u"
                                : "0xff800000u");
    snprintf(text, sizeof text, wide ? "%.17g" : "%.9g", value);
    return SAY(arena, signbit(value) ? "(%s%s%s)" : "%s%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "", wide ? "lf" : "");
}

static const char *glsl_literal(bl_arena *arena, bl_dtype dtype, bl_scalar value)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return glsl_real_literal(arena, value.f, dtype == BL_F64);
    case BL_KIND_INT:
        if (value.i == INT64_MIN)
            return "(-9223372036854775807L - 1L)";
        if (value.i == INT32_MIN && dtype != BL_I64)
            return "(-2147483647 - 1)";
        return SAY(arena, value.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", value.i, dtype == BL_I64 ? "L" : "");
    case BL_KIND_UINT:
        return SAY(arena, "%" PRIu64 "%s", value.u, dtype == BL_U64 ? "UL" : "u");
    case BL_KIND_BOOL:
        break;
    }
    return value.u != 0 ? "true" : "false";
}

static const char *glsl_repeat(bl_arena *arena, operand x, int lanes)
{
    return SAY(arena, "%s(%s)", glsl_type(arena, x.dtype, lanes), x.text);
}

static const char *glsl_lane(bl_arena *arena, operand x, int number)
{
    return SAY(arena, "(%s).%c", x.text, "xyzw"[number & 3]);
}

static const char *glsl_half(bl_arena *arena, operand x, int which)
{
    return SAY(arena, "(%s).%s", x.text, which == 0 ? "xy" : "zw");
}

static const char *glsl_stack(bl_arena *arena, bl_dtype dtype, int lanes, int n, const operand *parts)
{
    return SAY(arena, "%s(%s)", glsl_type(arena, dtype, lanes), list_of(arena, n, parts));
}

static const char *glsl_fit(bl_arena *arena, bl_dtype dtype, int lanes, const char *x)
{
    (void)lanes;
    if (is_half(dtype))
        return SAY(arena, dtype == BL_F16 ? "round_f16(%s)" : "round_bf16(%s)", x);
    return bl_dtype_is_int(dtype) && bl_dtype_bytes(dtype) < 4
               ? SAY(arena, "bitfieldExtract(%s, 0, %d)", x, (int)bl_dtype_bytes(dtype) * 8)
               : x;
}

/* Call a prelude function that takes scalars, lane by lane. The result has dtype |to|. */
static const char *glsl_call(bl_arena *arena, const char *name, bl_dtype to, operand x)
{
    operand each[BL_MAX_LANES] = {{0}};

    if (x.lanes == 1)
        return SAY(arena, "%s(%s)", name, x.text);
    for (int i = 0; i < x.lanes; i++)
        each[i] = (operand){SAY(arena, "%s(%s)", name, glsl_lane(arena, x, i)), to, 1};
    return glsl_stack(arena, to, x.lanes, x.lanes, each);
}

static const char *glsl_cast(bl_arena *arena, bl_dtype to, operand x)
{
    if (bl_dtype_is_float(x.dtype) && bl_dtype_is_int(to))
        return glsl_call(arena, SAY(arena, "%s_to_%s", x.dtype == BL_F64 ? "double" : "float", bl_dtype_name(to)), to, x);
    if (to == BL_BOOL && bl_dtype_is_float(x.dtype)) /* bool(NaN) is true */
        return SAY(arena, x.lanes > 1 ? "notEqual(%s, %s(0.0))" : "(%s != %s(0.0))", x.text, glsl_type(arena, x.dtype, x.lanes));
    if (to == x.dtype)
        return x.text;
    if (is_half(to) && x.dtype == BL_F64)
        return glsl_fit(arena, to, x.lanes, glsl_call(arena, "to_odd", to, x));
    if (to == BL_I64 && bl_dtype_get_kind(x.dtype) == BL_KIND_INT)
        /* Not int64_t(x): Mesa 22.3 evaluates 0 < int64_t(x) to true for every x. */
        return SAY(arena, "(%s(%s(%s(%s) ^ 0x80000000u)) - 2147483648L)", glsl_type(arena, BL_I64, x.lanes),
                   glsl_type(arena, BL_U64, x.lanes), glsl_type(arena, BL_U32, x.lanes), x.text);
    return glsl_fit(arena, to, x.lanes, glsl_repeat(arena, (operand){x.text, to, x.lanes}, x.lanes));
}

static const char *glsl_bitcast(bl_arena *arena, bl_dtype to, operand x)
{
    const char *name = SAY(arena, "%s_as_%s", bl_dtype_name(x.dtype), bl_dtype_name(to));

    if (bl_dtype_is_int(to) && bl_dtype_is_int(x.dtype))
        return glsl_cast(arena, to, x); /* both types have the same size, so the value wraps */
    return is_half(to) || is_half(x.dtype) ? glsl_call(arena, name, to, x) : SAY(arena, "%s(%s)", name, x.text);
}

static const char *glsl_compare(bl_arena *arena, bl_op op, operand x, operand y)
{
    bool less = op == BL_OP_CMPLT;

    if (x.dtype == BL_BOOL && less)
        return SAY(arena, "bool_less(%s, %s)", x.text, y.text);
    if (x.lanes == 1)
        return SAY(arena, "(%s %s %s)", x.text, less ? "<" : "==", y.text);
    if (y.text[0] == 'f' && x.dtype == BL_BOOL)
        return SAY(arena, "not(%s)", x.text);
    return SAY(arena, "%s(%s, %s)", less ? "lessThan" : "equal", x.text, y.text);
}

static const char *glsl_where(bl_arena *arena, operand condition, operand yes, operand no)
{
    return SAY(arena, yes.lanes == 1 ? "(%s ? %s : %s)" : "choose(%s, %s, %s)", condition.text, yes.text, no.text);
}

/* The index of a lane. GLSL rejects a constant negative index even if the gate of the lane is closed, so the index is
 * clamped. */
static const char *element_index(bl_arena *arena, const char *index, int offset)
{
    const char *first = index;

    while (*first == '(' || strncmp(first, "int(", 4) == 0)
        first += *first == '(' ? 1 : 4;
    if (*first == '-')
        return SAY(arena, "max(%s + %d, 0)", index, offset);
    return offset > 0 ? SAY(arena, "%s + %d", index, offset) : index;
}

/* The value of |stored|, an element in memory. */
static const char *glsl_widened(bl_arena *arena, place p, const char *stored)
{
    return p.narrow ? SAY(arena, "uint16_as_%s(uint(%s))", bl_dtype_name(p.dtype), stored) : stored;
}

static const char *glsl_load_one(bl_arena *arena, place p, int offset)
{
    const char *at = element_index(arena, p.index, offset);

    if (p.quads)
        return glsl_widened(arena, p, SAY(arena, "%s[(%s) >> 2][(%s) & 3]", p.buffer, at, at));
    if (p.local)
        return glsl_widened(arena, p, SAY(arena, "%s[%s]", p.buffer, at));
    if (p.dtype == BL_BOOL)
        return SAY(arena, "(uint(%s.at[%s]) != 0u)", p.buffer, at);
    if (is_half(p.dtype))
        return SAY(arena, "uint16_as_%s(uint(%s.at[%s]))", bl_dtype_name(p.dtype), p.buffer, at);
    return SAY(arena, "%s(%s.at[%s])", computed_type[p.dtype], p.buffer, at);
}

/* Is the access one vec4, or one u16vec4, in memory? */
static bool is_quad(place p)
{
    return p.aligned && p.lanes == 4 && (p.local ? p.quads : p.dtype == BL_F32);
}

static const char *quad(bl_arena *arena, place p)
{
    return SAY(arena, p.local ? "%s[(%s) >> 2]" : "%sv.at[(%s) >> 2]", p.buffer, p.index);
}

static const char *glsl_load(bl_arena *arena, place p)
{
    operand each[BL_MAX_LANES] = {{0}};

    if (p.lanes == 1)
        return glsl_load_one(arena, p, 0);
    if (is_quad(p) && p.narrow)
        return SAY(arena, "uint16_as_%s(uvec4(%s))", bl_dtype_name(p.dtype), quad(arena, p));
    if (is_quad(p))
        return quad(arena, p);
    for (int i = 0; i < p.lanes; i++)
        each[i] = (operand){glsl_load_one(arena, p, i), p.dtype, 1};
    return glsl_stack(arena, p.dtype, p.lanes, p.lanes, each);
}

static const char *store_one(bl_arena *arena, place p, int offset, const char *value)
{
    if (p.narrow)
        value = SAY(arena, "uint16_t(%s_as_uint16(%s))", bl_dtype_name(p.dtype), value);
    if (p.quads)
        return SAY(arena, "%s[(%s + %d) >> 2][(%s + %d) & 3] = %s", p.buffer, p.index, offset, p.index, offset, value);
    if (p.local)
        return SAY(arena, "%s[%s + %d] = %s", p.buffer, p.index, offset, value);
    if (p.dtype == BL_BOOL)
        value = SAY(arena, "uint8_t(%s ? 1u : 0u)", value);
    else if (is_half(p.dtype))
        value = SAY(arena, "uint16_t(%s_as_uint16(%s))", bl_dtype_name(p.dtype), value);
    else
        value = SAY(arena, "%s(%s)", glsl_stored_type(p.dtype), value);
    return SAY(arena, "%s.at[%s + %d] = %s", p.buffer, p.index, offset, value);
}

static const char *glsl_store(bl_arena *arena, place p, const char *value)
{
    const char *all = "{ ";

    if (p.lanes == 1)
        return store_one(arena, p, 0, value);
    if (is_quad(p) && p.narrow)
        value = SAY(arena, "u16vec4(%s_as_uint16(%s))", bl_dtype_name(p.dtype), value);
    if (is_quad(p))
        return SAY(arena, "%s = %s", quad(arena, p), value);
    for (int i = 0; i < p.lanes; i++)
        all = SAY(arena, "%s%s; ", all, store_one(arena, p, i, glsl_lane(arena, (operand){value, p.dtype, p.lanes}, i)));
    return SAY(arena, "%s}", all);
}

/* ---- the prelude: functions that a kernel may call; glslang drops unused functions */

static const char whole_functions[] =
    "#define WHOLE(T, N, B, W) \\\n"
    "T floor_div_##N(T x, T y) { if (y == T(0)) return T(0); T q = x / y; T r = x - q * y; \\\n"
    "  return W(r != T(0) && ((r < T(0)) != (y < T(0))) ? q - T(1) : q); } \\\n"
    "T floor_mod_##N(T x, T y) { if (y == T(0)) return T(0); T q = x / y; T r = x - q * y; \\\n"
    "  return W(r != T(0) && ((r < T(0)) != (y < T(0))) ? r + y : r); } \\\n"
    "T shift_left_##N(T x, T y) { return y >= T(0) && y < T(B) ? W(x << y) : T(0); } \\\n"
    "T shift_right_##N(T x, T y) { return y >= T(0) && y < T(B) ? W(x >> y) : x < T(0) ? W(T(0) - T(1)) : T(0); }\n"
    "#define SAME(x) (x)\n#define LOW8(x) bitfieldExtract(x, 0, 8)\n#define LOW16(x) bitfieldExtract(x, 0, 16)\n"
    "WHOLE(int, int8, 8, LOW8)\nWHOLE(int, int16, 16, LOW16)\nWHOLE(int, int32, 32, SAME)\n"
    "WHOLE(uint, uint8, 8, LOW8)\nWHOLE(uint, uint16, 16, LOW16)\nWHOLE(uint, uint32, 32, SAME)\n";

static const char whole64_functions[] =
    "CHOOSE4(i64vec4) CHOOSE4(u64vec4)\n"
    "i64vec2 choose(bvec2 c, i64vec2 y, i64vec2 n) { return i64vec2(c.x ? y.x : n.x, c.y ? y.y : n.y); }\n"
    "u64vec2 choose(bvec2 c, u64vec2 y, u64vec2 n) { return u64vec2(c.x ? y.x : n.x, c.y ? y.y : n.y); }\n"
    "WHOLE(int64_t, int64, 64, SAME)\nWHOLE(uint64_t, uint64, 64, SAME)\n";

/* Conversions that saturate and map NaN to 0. Bounds are the nearest floats inside the range. */
static const char saturate_functions[] =
    "#define SATURATE(F, N, T, LO, HI, ILO, IHI) \\\n"
    "T F##_to_##N(F x) { return x != x ? T(0) : x <= F(LO) ? T(ILO) : x >= F(HI) ? T(IHI) : T(x); }\n"
    "#define SATURATE_ALL(F) SATURATE(F, int8, int, -128.0, 127.0, -128, 127) \\\n"
    "SATURATE(F, int16, int, -32768.0, 32767.0, -32768, 32767) \\\n"
    "SATURATE(F, int32, int, -2147483648.0, 2147483648.0, (-2147483647 - 1), 2147483647) \\\n"
    "SATURATE(F, uint8, uint, 0.0, 255.0, 0, 255) SATURATE(F, uint16, uint, 0.0, 65535.0, 0, 65535) \\\n"
    "SATURATE(F, uint32, uint, 0.0, 4294967296.0, 0, 4294967295u)\n"
    "SATURATE_ALL(float)\n";

static const char saturate64_functions[] =
    "#define SATURATE_64(F) \\\n"
    "SATURATE(F, int64, int64_t, -9223372036854775808.0, 9223372036854775808.0, (-9223372036854775807L - 1L), "
    "9223372036854775807L) \\\n"
    "SATURATE(F, uint64, uint64_t, 0.0, 18446744073709551616.0, 0UL, 18446744073709551615UL)\n"
    "SATURATE_64(float)\n";

static const char bool_functions[] =
    "bool bool_and(bool x, bool y) { return x && y; }\nbool bool_or(bool x, bool y) { return x || y; }\n"
    "bool bool_xor(bool x, bool y) { return x != y; }\nbool bool_less(bool x, bool y) { return !x && y; }\n"
    "#define BOOLS(V, U) V bool_and(V x, V y) { return V(U(x) & U(y)); } V bool_or(V x, V y) { return V(U(x) | U(y)); } \\\n"
    "V bool_xor(V x, V y) { return notEqual(x, y); } V bool_less(V x, V y) { return V((U(1) - U(x)) & U(y)); } \\\n"
    "V choose(V c, V y, V n) { return V((U(c) & U(y)) | ((U(1) - U(c)) & U(n))); }\n"
    "BOOLS(bvec2, uvec2)\nBOOLS(bvec3, uvec3)\nBOOLS(bvec4, uvec4)\n"
    "#define CHOOSE(V, B) V choose(B c, V y, V n) { return mix(n, y, c); }\n"
    "CHOOSE(vec2, bvec2) CHOOSE(vec3, bvec3) CHOOSE(vec4, bvec4)\n"
    "ivec2 choose(bvec2 c, ivec2 y, ivec2 n) { return ivec2(c.x ? y.x : n.x, c.y ? y.y : n.y); }\n"
    "uvec2 choose(bvec2 c, uvec2 y, uvec2 n) { return uvec2(c.x ? y.x : n.x, c.y ? y.y : n.y); }\n"
    "#define CHOOSE4(V) V choose(bvec4 c, V y, V n) { return V(c.x ? y.x : n.x, c.y ? y.y : n.y, c.z ? y.z : n.z, c.w ? y.w : "
    "n.w); }\n"
    "CHOOSE4(ivec4) CHOOSE4(uvec4)\n";

static const char dot4_functions[] = "#define DOT4(V) V dot4(V x, V y, V z) { for (int i = 0; i < 32; i += 8) z += (x >> i & "
                                     "255) * (y << (24 - i) >> 24); return z; }\n"
                                     "DOT4(int) DOT4(ivec2) DOT4(ivec3) DOT4(ivec4)\n#define dot4_small(x, y, z) dot4(x, y, z)\n";

/* OpSUDot (4452) with the capabilities DotProduct and DotProductInput4x8BitPacked; the literal 0 is PackedVectorFormat4x8Bit.
 * glslang 12 has no function for it, but can name the instruction (GL_EXT_spirv_intrinsics). */
static const char dot4_instruction[] =
    "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6019, 6018], id = 4452)\n"
    "int dot4_packed(int y, int x, spirv_literal int format);\n"
    "int dot4(int x, int y, int z) { return z + dot4_packed(y, x, 0); }\n"
    "ivec2 dot4(ivec2 x, ivec2 y, ivec2 z) { return ivec2(dot4(x.x, y.x, z.x), dot4(x.y, y.y, z.y)); }\n"
    "ivec3 dot4(ivec3 x, ivec3 y, ivec3 z) { return ivec3(dot4(x.xy, y.xy, z.xy), dot4(x.z, y.z, z.z)); }\n"
    "ivec4 dot4(ivec4 x, ivec4 y, ivec4 z) { return ivec4(dot4(x.xy, y.xy, z.xy), dot4(x.zw, y.zw, z.zw)); }\n"
    "#define dot4_small(x, y, z) dot4(x, y, z)\n";

static const char extreme_functions[] =
    "float max_nan(float x, float y) { return x < y || y != y ? y : x; }\nfloat min_nan(float x, float y) { return y < x || y != "
    "y ? y : x; }\n"
    "#define EXTREMES(V) V max_nan(V x, V y) { return choose(lessThan(x, y), y, choose(notEqual(y, y), y, x)); } \\\n"
    "V min_nan(V x, V y) { return choose(lessThan(y, x), y, choose(notEqual(y, y), y, x)); }\n"
    "EXTREMES(vec2) EXTREMES(vec3) EXTREMES(vec4)\n";

/* Conversion to float16 by integer arithmetic, to nearest even: the driver chooses the rounding of packHalf2x16. */
static const char half_to_bits_function[] =
    "uint float16_as_uint16(float x) { uint b = floatBitsToUint(x), s = (b >> 16) & 0x8000u, m = b & 0x7fffffffu;\n"
    "  if (m > 0x7f800000u) return s | 0x7e00u; if (m >= 0x477ff000u) return s | 0x7c00u;\n"
    "  if (m < 0x38800000u) { float f = uintBitsToFloat(m) + 0.5; return s | (floatBitsToUint(f) - 0x3f000000u); }\n"
    "  return s | ((m - 0x38000000u + 0xfffu + ((m >> 13) & 1u)) >> 13); }\n";

/* For CPUs, where a driver may compute both sides of a branch. */
static const char half_functions_branching[] =
    "float uint16_as_float16(uint h) { uint m = h & 0x7fffu, s = (h & 0x8000u) << 16;\n"
    "  if (m >= 0x7c00u) return uintBitsToFloat(s | 0x7f800000u | ((m & 0x3ffu) << 13));\n"
    "  if (m < 0x400u) return uintBitsToFloat(s | floatBitsToUint(float(m) * 5.9604644775390625e-8));\n"
    "  return uintBitsToFloat(s | ((m << 13) + 0x38000000u)); }\n"
    "float round_f16(float x) { return uint16_as_float16(float16_as_uint16(x)); }\n";

/* For GPUs: use the hardware where it is exact. Subnormals, infinity and NaN are computed separately. No branches. */
static const char half_functions_plain[] =
    "float uint16_as_float16(uint h) { uint m = h & 0x7fffu, s = (h & 0x8000u) << 16;\n"
    "  uint odd = m < 0x400u ? floatBitsToUint(float(m) * 5.9604644775390625e-8) : 0x7f800000u | ((m & 0x3ffu) << 13);\n"
    "  return m - 0x400u < 0x7800u ? unpackHalf2x16(h).x : uintBitsToFloat(s | odd); }\n"
    "float round_f16(float x) { uint b = floatBitsToUint(x), s = b & 0x80000000u, m = b & 0x7fffffffu;\n"
    "  uint n = (m + 0xfffu + ((m >> 13) & 1u)) & 0xffffe000u; n = n > 0x477fe000u ? 0x7f800000u : n;\n"
    "  float least = float(floatBitsToUint(uintBitsToFloat(m) + 0.5) - 0x3f000000u) * 5.9604644775390625e-8;\n"
    "  n = m < 0x38800000u ? floatBitsToUint(least) : m > 0x7f800000u ? 0x7fc00000u : n;\n"
    "  return uintBitsToFloat(s | n); }\n";

static const char half_functions[] =
    "uint bfloat16_as_uint16(float x) { return floatBitsToUint(x) >> 16; }\n"
    "float uint16_as_bfloat16(uint h) { return uintBitsToFloat(h << 16); }\n"
    "float round_bf16(float x) { uint b = floatBitsToUint(x); return uintBitsToFloat(x != x ? (b | 0x400000u) & 0xffff0000u : "
    "(b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u); }\n"
    "vec2 round_f16(vec2 x) { return vec2(round_f16(x.x), round_f16(x.y)); }\n"
    "vec2 round_bf16(vec2 x) { return vec2(round_bf16(x.x), round_bf16(x.y)); }\n"
    "vec4 round_f16(vec4 x) { return vec4(round_f16(x.x), round_f16(x.y), round_f16(x.z), round_f16(x.w)); }\n"
    "vec4 round_bf16(vec4 x) { return vec4(round_bf16(x.x), round_bf16(x.y), round_bf16(x.z), round_bf16(x.w)); }\n"
    "uvec4 float16_as_uint16(vec4 x) { return uvec4(float16_as_uint16(x.x), float16_as_uint16(x.y), float16_as_uint16(x.z), "
    "float16_as_uint16(x.w)); }\n"
    "vec4 uint16_as_float16(uvec4 h) { return vec4(uint16_as_float16(h.x), uint16_as_float16(h.y), uint16_as_float16(h.z), "
    "uint16_as_float16(h.w)); }\n"
    "uvec4 bfloat16_as_uint16(vec4 x) { return floatBitsToUint(x) >> 16; }\n"
    "vec4 uint16_as_bfloat16(uvec4 h) { return uintBitsToFloat(h << 16); }\n"
    "#define float16_as_int16(x) bitfieldExtract(int(float16_as_uint16(x)), 0, 16)\n"
    "#define bfloat16_as_int16(x) bitfieldExtract(int(bfloat16_as_uint16(x)), 0, 16)\n"
    "#define float16_as_bfloat16(x) uint16_as_bfloat16(float16_as_uint16(x))\n"
    "#define bfloat16_as_float16(x) uint16_as_float16(bfloat16_as_uint16(x))\n"
    "#define int16_as_float16(x) uint16_as_float16(uint(x) & 0xffffu)\n#define int16_as_bfloat16(x) uint16_as_bfloat16(uint(x) & "
    "0xffffu)\n";

static const char bit_functions[] =
    "#define float32_as_uint32(x) floatBitsToUint(x)\n#define float32_as_int32(x) floatBitsToInt(x)\n"
    "#define uint32_as_float32(x) uintBitsToFloat(x)\n#define int32_as_float32(x) intBitsToFloat(x)\n"
    "#define float64_as_uint64(x) doubleBitsToUint64(x)\n#define float64_as_int64(x) doubleBitsToInt64(x)\n"
    "#define uint64_as_float64(x) uint64BitsToDouble(x)\n#define int64_as_float64(x) int64BitsToDouble(x)\n";

static const char double_functions[] =
    "double max_nan(double x, double y) { return x < y || y != y ? y : x; }\n"
    "double min_nan(double x, double y) { return y < x || y != y ? y : x; }\n"
    "CHOOSE(dvec2, bvec2) CHOOSE(dvec4, bvec4)\nEXTREMES(dvec2) EXTREMES(dvec4)\n"
    "SATURATE_ALL(double)\n"
    "float to_odd(double x) { float f = float(x); if (double(f) == x || x != x || isinf(f)) return f;\n"
    "  uint b = floatBitsToUint(f); if (abs(double(f)) > abs(x)) b--; return uintBitsToFloat(b | 1u); }\n"
    /* llvmpipe without AVX-512 truncates -0.0 of float64 to 0.0 */
    "#define TRUNC_SAME(T) T trunc_each(T x) { return trunc(x); }\n"
    "TRUNC_SAME(float) TRUNC_SAME(vec2) TRUNC_SAME(vec3) TRUNC_SAME(vec4)\n"
    "double trunc_each(double x) { return x == 0.0 ? x : trunc(x); }\n"
    "dvec2 trunc_each(dvec2 x) { return dvec2(trunc_each(x.x), trunc_each(x.y)); }\n"
    "dvec4 trunc_each(dvec4 x) { return dvec4(trunc_each(x.xy), trunc_each(x.zw)); }\n"
    "#define trunc trunc_each\n";

/* exp and log of float64: GLSL has neither.  exp(x) = 2^n exp(r), |r| <= ln(2) / 2; the Taylor series of exp(r) up to r^13
 * has a remainder of 4e-18.  log is the algorithm of FreeBSD's msun (e_log.c, Sun Microsystems, 1993).  Both are at most 1
 * unit in the last place off.  exp reduces without fma: lavapipe's fma of doubles gave 703 units there. */
static const char double_elementary_functions[] =
    "double scale_of(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }\n"
    "double exp(double x) { double c = clamp(x, -746.0lf, 710.0lf), n = floor(c * 1.4426950408889634lf + 0.5lf);\n"
    "  precise double r = c - n * 0.6931471803691238lf; r = r - n * 1.9082149292705877e-10lf;\n"
    "  double y = 1.6059043836821613e-10lf; y = fma(y, r, 2.08767569878681e-09lf); y = fma(y, r, 2.505210838544172e-08lf);\n"
    "  y = fma(y, r, 2.755731922398589e-07lf); y = fma(y, r, 2.7557319223985893e-06lf); y = fma(y, r, 2.48015873015873e-05lf);\n"
    "  y = fma(y, r, 0.0001984126984126984lf); y = fma(y, r, 0.001388888888888889lf); y = fma(y, r, 0.008333333333333333lf);\n"
    "  y = fma(y, r, 0.041666666666666664lf); y = fma(y, r, 0.16666666666666666lf); y = fma(y, r, 0.5lf);\n"
    "  y = fma(fma(y, r, 1.0lf), r, 1.0lf);\n"
    "  int k = int(n), h = k >> 1; y = y * scale_of(h) * scale_of(k - h);\n"
    "  if (x > 709.782712893384lf) y = packDouble2x32(uvec2(0u, 0x7ff00000u));\n"
    "  if (x < -745.1332191019412lf) y = 0.0lf;\n"
    "  return x != x ? x : y; }\n"
    "double log(double x) {\n"
    "  int k = -1023; double m = x; if (x < 2.2250738585072014e-308lf) { m = x * 1.8014398509481984e+16lf; k -= 54; }\n"
    "  uvec2 b = unpackDouble2x32(m); b.y += 0x3ff00000u - 0x3fe6a09eu;\n"
    "  k += int(b.y >> 20); b.y = (b.y & 0xfffffu) + 0x3fe6a09eu;\n"
    "  precise double f = packDouble2x32(b) - 1.0lf, q = 0.5lf * f * f, s = f / (2.0lf + f), z = s * s, w = z * z;\n"
    "  precise double t = w * (0.3999999999940942lf + w * (0.22222198432149784lf + w * 0.15313837699209373lf));\n"
    "  precise double u = w * (0.2857142874366239lf + w * (0.1818357216161805lf + w * 0.14798198605116586lf));\n"
    "  precise double e = double(k), y = s * (q + (t + z * (0.6666666666666735lf + u)));\n"
    "  y = y + e * 1.9082149292705877e-10lf - q + f + e * 0.6931471803691238lf;\n"
    "  if (x == 0.0lf) y = packDouble2x32(uvec2(0u, 0xfff00000u));\n"
    "  if (x < 0.0lf) y = packDouble2x32(uvec2(0u, 0x7ff80000u));\n"
    "  return x < packDouble2x32(uvec2(0u, 0x7ff00000u)) ? y : x; }\n"
    "#define EACH_LANE(F) dvec2 F(dvec2 x) { return dvec2(F(x.x), F(x.y)); } dvec3 F(dvec3 x) { return dvec3(F(x.xy), F(x.z)); } "
    "dvec4 F(dvec4 x) { return dvec4(F(x.xy), F(x.zw)); }\n"
    "EACH_LANE(exp)\nEACH_LANE(log)\n";

/* sin of float64, by the method of sin of float32 below.  Up to 2^20 pi is subtracted in parts of 33 bits.  Above, the exponent
 * selects 192 bits of 1/pi: a double is at least about 2^-62 away from each multiple of pi, so the reduced angle keeps all its
 * bits.  The Taylor series up to r^21 has a remainder of 1.3e-18. */
static const char double_sine_functions[] =
    "const uint inverse_of_pi[39] = uint[39](0x00000000u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, "
    "0x4f10e410u, 0x7f9458eau, 0xf7aef158u, 0x6dc91b8eu, 0x909374b8u, 0x01924bbau, 0x82746487u, 0x3f877ac7u, 0x2c4a69cfu, "
    "0xba208d7du, 0x4baed121u, 0x3a671c09u, 0xad17df90u, 0x4e64758eu, 0x60d4ce7du, 0x272117e2u, 0xef7e4a0eu, 0xc7fe25ffu, "
    "0xf7816603u, 0xfbcbc462u, 0xd6829b47u, 0xdb4d9fb3u, 0xc9f2c26du, 0xd3d18fd9u, 0xa797fa8bu, 0x5d49eeb1u, 0xfaf97c5eu, "
    "0xcf41ce7du, 0xe294a4bau, 0x9afed7ecu, 0x47e35742u, 0x1580cc11u, 0xbf1edaeau);\n"
    "double far_angle(uvec2 b, out uint k) {\n"
    "  uint at = (b.y >> 20) - 1043u, l = at & 31u, r = 31u - l, high, low, carry = 0u, c, p[6], w[6];\n"
    "  for (int i = 0; i < 6; i++) { uint j = (at >> 5) + 5u - uint(i);\n"
    "    w[i] = (inverse_of_pi[j] << l) | (inverse_of_pi[j + 1u] >> 1 >> r); }\n"
    "  for (int i = 0; i < 6; i++) { umulExtended(b.x, w[i], high, low); p[i] = uaddCarry(low, carry, c); carry = high + c; }\n"
    "  carry = 0u; b.y = (b.y & 0xfffffu) | 0x100000u;\n"
    "  for (int i = 1; i < 6; i++) { umulExtended(b.y, w[i - 1], high, low); low = uaddCarry(low, carry, c); high += c;\n"
    "    p[i] = uaddCarry(p[i], low, c); carry = high + c; }\n"
    "  k = (p[5] >> 31) ^ (p[5] >> 30 & 1u); uint s = 0u - (p[5] >> 30 & 1u); double y = 0.0lf;\n"
    "  for (int i = 1; i < 6; i++) y = y * 2.3283064365386963e-10lf + double(((p[i] << 1) | (p[i - 1] >> 31)) ^ s);\n"
    "  y *= 7.314590396335798e-10lf; return s == 0u ? y : -y; }\n"
    "double sin_each(double x) {\n"
    "  double a = abs(x), n = floor(a * 0.3183098861837907lf + 0.5lf); uvec2 b = unpackDouble2x32(a); uint k; precise double r;\n"
    "  if (a < 1048576.0lf) { k = uint(n);\n"
    "    r = a - n * 3.1415926534682512lf; r = r - n * 1.2154201012607932e-10lf; r = r - n * 4.044532497422333e-21lf;\n"
    "    r = r - n * 1.69568553207378e-31lf;\n"
    "  } else r = far_angle(b, k);\n"
    "  double s = r * r, y = 1.9572941063391263e-20lf; y = fma(y, s, -8.22063524662433e-18lf);\n"
    "  y = fma(y, s, 2.8114572543455206e-15lf); y = fma(y, s, -7.647163731819816e-13lf); y = fma(y, s, "
    "1.6059043836821613e-10lf);\n"
    "  y = fma(y, s, -2.505210838544172e-08lf); y = fma(y, s, 2.7557319223985893e-06lf); y = fma(y, s, "
    "-0.0001984126984126984lf);\n"
    "  y = fma(y, s, 0.008333333333333333lf); y = fma(y, s, -0.16666666666666666lf); y = fma(y * s, r, r);\n"
    "  uvec2 v = unpackDouble2x32(y); v.y ^= (k << 31) ^ (unpackDouble2x32(x).y & 0x80000000u);\n"
    "  return b.y < 0x7ff00000u ? packDouble2x32(v) : packDouble2x32(uvec2(0u, 0x7ff80000u)); }\n"
    "EACH_LANE(sin_each)\n";

/* GLSL does not define the precision of sin outside [-pi, pi] and allows an error of 2^-11 inside (Vulkan, "Precision of
 * GLSL.std.450 Instructions"). The sin of some drivers is noise for large arguments. So reduce |x| = k * pi + r with
 * |r| <= pi / 2.
 *
 * Up to 2^14: subtract pi in parts of 8, 11 and 11 bits, and then the rest. The products of the parts with k are exact with
 * and without fma (Cody and Waite, Software Manual for the Elementary Functions, 1980).
 *
 * Above 2^14: multiply the 96 bits of 1/pi that the exponent selects by the mantissa, modulo 2 (Payne and Hanek, Radian
 * Reduction for Trigonometric Functions, SIGNUM 1983).  The first selected bit, times the unit of the mantissa, has the
 * weight 1. The table of bits begins at the weight 2^9. The difference from the nearest whole number is r / pi with its
 * sign.  Conditions select the bits: on lavapipe a table took several times as long as all other steps.
 *
 * The last step is the polynomial for [-pi / 2, pi / 2] of SLEEF's sinf_u35 (Shibata and Petrogalli, 2020). */
static const char sine_functions[] =
    "float far_angle(uint b, out uint k) {\n"
    "  uint m = (b & 0x7fffffu) | 0x800000u, s = (b >> 23) - 141u, l = s & 31u, r = 31u - l;\n"
    "#define BITS(A, B, C, D) (s < 64u ? s < 32u ? A : B : s < 96u ? C : D)\n"
    "  uint p0 = BITS(0x00145f30u, 0x6dc9c882u, 0xa53f84eau, 0xfa3ea69bu), p1 = BITS(0x6dc9c882u, 0xa53f84eau, 0xfa3ea69bu, "
    "0xb81b6c52u);\n"
    "  uint p2 = BITS(0xa53f84eau, 0xfa3ea69bu, 0xb81b6c52u, 0xb3278872u), p3 = BITS(0xfa3ea69bu, 0xb81b6c52u, 0xb3278872u, "
    "0x083fca2cu);\n"
    "  uint w0 = (p0 << l) | (p1 >> 1 >> r), w1 = (p1 << l) | (p2 >> 1 >> r), w2 = (p2 << l) | (p3 >> 1 >> r);\n"
    "  uint high, low, next, rest, carry; umulExtended(m, w1, high, low); umulExtended(m, w2, next, rest);\n"
    "  low = uaddCarry(low, next, carry); high += m * w0 + carry; k = (high >> 31) ^ (high >> 30);\n"
    "  return (float(int((high << 1) | (low >> 31))) + float(int(low & 0x7fffffffu)) * 4.656612873077393e-10) * "
    "7.314590396335576e-10; }\n"
    "float sin_each(float x) { float a = abs(x); uint b = floatBitsToUint(a), k; precise float r;\n"
    "  if (a < 16384.0) { int n = int(a * 0.31830988618 + 0.5); float q = float(n); k = uint(n);\n"
    "    r = a - q * 3.140625; r = r - q * 9.675025939941406e-4; r = r - q * 1.5099067240953445e-7; r = r - q * "
    "5.126688136514179e-12;\n"
    "  } else r = far_angle(b, k);\n"
    "  float s = r * r, y = (2.6083159809786593541503e-6 * s - 1.981069071916863322258e-4) * s + 8.33307858556509017944336e-3;\n"
    "  y = (y * s - 0.166666597127914428710938) * s * r + r;\n"
    "  uint bits = floatBitsToUint(y) ^ (k << 31) ^ (floatBitsToUint(x) & 0x80000000u);\n"
    "  return uintBitsToFloat(b < 0x7f800000u ? bits : 0x7fc00000u); }\n"
    "vec2 sin_each(vec2 x) { return vec2(sin_each(x.x), sin_each(x.y)); }\n"
    "vec3 sin_each(vec3 x) { return vec3(sin_each(x.xy), sin_each(x.z)); }\n"
    "vec4 sin_each(vec4 x) { return vec4(sin_each(x.xy), sin_each(x.zw)); }\n";

typedef struct needs {
    bool half, f64, i64, byte, word, narrow, sine, dot4, rolled, elementary64, sine64;
} needs;

static void need(needs *n, bl_dtype dtype, bool stored)
{
    n->half = n->half || is_half(dtype);
    n->f64 = n->f64 || dtype == BL_F64;
    n->i64 = n->i64 || dtype == BL_I64 || dtype == BL_U64;
    n->byte = n->byte || (stored && bl_dtype_bytes(dtype) == 1);
    n->word = n->word || (stored && bl_dtype_bytes(dtype) == 2);
}

static void need_function(needs *n, const bl_inst *inst)
{
    bool wide = inst->dtype == BL_F64;
    n->dot4 = n->dot4 || inst->op == BL_OP_DOT4;
    n->sine = n->sine || inst->op == BL_OP_SIN;
    n->sine64 = n->sine64 || (wide && inst->op == BL_OP_SIN);
    n->elementary64 = n->elementary64 || n->sine64 || (wide && (inst->op == BL_OP_EXP || inst->op == BL_OP_LOG));
}

static bl_status check_features(const bl_device_info *info, const needs *n, bl_err *err)
{
    if (n->f64 && (info->features & BL_FEATURE_F64) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no float64", info->id);
    if (n->i64 && (info->features & BL_FEATURE_I64) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no 64-bit integers", info->id);
    if (n->byte && (info->features & BL_FEATURE_STORE8) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no 8-bit storage", info->id);
    if (n->word && (info->features & BL_FEATURE_STORE16) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no 16-bit storage", info->id);
    return BL_OK;
}

static void buffers(const bl_linear *linear, bl_text *out)
{
    for (uint32_t i = 0; i < linear->nbuffers; i++) {
        bl_dtype dtype = linear->buffer_dtype[i];
        const char *access = (linear->writes >> i & 1) != 0 ? "" : "readonly ";
        bl_text_printf(out, "layout(set = 0, binding = %u) %sbuffer B%u { %s at[]; } b%u;\n", i, access, i,
                       glsl_stored_type(dtype), i);
        if (dtype == BL_F32)
            bl_text_printf(out, "layout(set = 0, binding = %u) %sbuffer V%u { vec4 at[]; } b%uv;\n", i, access, i, i);
    }
    if (linear->nscalars > 0) {
        bl_text_puts(out, "layout(push_constant) uniform Scalars { ");
        for (uint32_t i = 0; i < linear->nscalars; i++)
            bl_text_printf(out, "int n%u; ", i);
        bl_text_puts(out, "} scalars;\n");
    }
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        bool narrow = inst->op == BL_OP_BUFFER && inst->sub == BL_LOCAL_NARROW;
        if (render_has_quads(linear, i))
            bl_text_printf(out, "shared %s l%u[%" PRId64 "];\n", narrow ? "u16vec4" : "vec4", i, inst->arg / 4);
        else if (inst->op == BL_OP_BUFFER && inst->sub != BL_PARAM)
            bl_text_printf(out, "shared %s l%u[%" PRId64 "];\n", narrow ? "uint16_t" : computed_type[inst->dtype], i, inst->arg);
    }
}

static bl_status glsl_begin(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold,
                            bl_text *out, bl_err *err)
{
    needs n = {0};

    (void)function; /* a GLSL module has one entry point */
    (void)cold;
    for (uint32_t i = 0; i < linear->ninst; i++)
        need(&n, (bl_dtype)linear->inst[i].dtype, false);
    for (uint32_t i = 0; i < linear->ninst; i++)
        need_function(&n, &linear->inst[i]);
    for (uint32_t i = 0; i < linear->ninst; i++)
        n.rolled = n.rolled || render_is_rolled(linear, info, i);
    for (uint32_t i = 0; i < linear->ninst; i++)
        n.narrow = n.narrow || (linear->inst[i].op == BL_OP_BUFFER && linear->inst[i].sub == BL_LOCAL_NARROW);
    for (uint32_t i = 0; i < linear->nbuffers; i++)
        need(&n, linear->buffer_dtype[i], true);
    n.word = n.word || n.narrow; /* the feature is required because the shader uses 16-bit integers */
    BL_TRY(check_features(info, &n, err));
    bl_text_puts(out, "#version 450\n");
    if (n.i64 || (n.f64 && (info->features & BL_FEATURE_I64) != 0))
        bl_text_puts(out, "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n");
    if (n.byte)
        bl_text_puts(out, "#extension GL_EXT_shader_8bit_storage : require\n");
    if (n.word)
        bl_text_puts(out, "#extension GL_EXT_shader_16bit_storage : require\n");
    if (n.rolled)
        bl_text_puts(out, "#extension GL_EXT_control_flow_attributes : require\n");
    if (n.narrow)
        bl_text_puts(out, "#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require\n");
    if (n.dot4 && info->dot4 == BL_DOT4_SPIRV)
        bl_text_puts(out, "#extension GL_EXT_spirv_intrinsics : require\n");
    if (unit_first(linear) != NULL)
        unit_glsl_prelude(unit_of(info, unit_first(linear)->arg), out);
    bl_text_printf(out, "layout(local_size_x = %u, local_size_y = %u, local_size_z = %u) in;\n", linear->local[0],
                   linear->local[1], linear->local[2]);
    buffers(linear, out);
    bl_text_puts(out, whole_functions);
    bl_text_puts(out, saturate_functions);
    bl_text_puts(out, bool_functions);
    bl_text_puts(out, extreme_functions);
    bl_text_puts(out, bit_functions);
    if (n.dot4)
        bl_text_puts(out, info->dot4 == BL_DOT4_SPIRV ? dot4_instruction : dot4_functions);
    if (n.sine)
        bl_text_puts(out, sine_functions);
    if (n.i64) {
        bl_text_puts(out, whole64_functions);
        bl_text_puts(out, saturate64_functions);
    }
    if (n.half) {
        bl_text_puts(out, half_to_bits_function);
        bl_text_puts(out, info->serial_groups ? half_functions_branching : half_functions_plain);
        bl_text_puts(out, half_functions);
    }
    if (n.f64)
        bl_text_puts(out, double_functions);
    if (n.elementary64)
        bl_text_puts(out, double_elementary_functions);
    if (n.sine64)
        bl_text_puts(out, double_sine_functions);
    if (n.f64 && n.i64)
        bl_text_puts(out, "SATURATE_64(double)\n");
    bl_text_puts(out, "void main() {\n");
    return BL_OK;
}

static const char *const alu[BL_OP_COUNT] = {[BL_OP_SIN] = "sin_each({0})"};

const dialect dialect_glsl = {
    .alu = alu,
    .type = glsl_type,
    .literal = glsl_literal,
    .repeat = glsl_repeat,
    .lane = glsl_lane,
    .half = glsl_half,
    .stack = glsl_stack,
    .cast = glsl_cast,
    .bitcast = glsl_bitcast,
    .fit = glsl_fit,
    .compare = glsl_compare,
    .where = glsl_where,
    .load = glsl_load,
    .store = glsl_store,
    .false_text = "false",
    .bool_functions = true,
    .narrow_index = true,
    .group_id = {"int(gl_WorkGroupID.x)", "int(gl_WorkGroupID.y)", "int(gl_WorkGroupID.z)"},
    .local_id = {"int(gl_LocalInvocationID.x)", "int(gl_LocalInvocationID.y)", "int(gl_LocalInvocationID.z)"},
    .rolled = "[[dont_unroll]] ",
    .barrier = "barrier()",
    .scalar = "scalars.n",
    .unit = unit_glsl,
    .begin = glsl_begin};
