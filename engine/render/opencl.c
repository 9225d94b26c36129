/* SPDX-License-Identifier: MIT */
/* OpenCL C 1.2.  A bool is an int: 0 or 1 as a scalar, 0 or -1 in a vector's lanes, as comparisons give it. */
#include "engine/render/dialect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const stored_type[BL_DTYPE_COUNT] = {
    [BL_BOOL] = "uchar",  [BL_I8] = "char",    [BL_I16] = "short",  [BL_I32] = "int",   [BL_I64] = "long",
    [BL_U8] = "uchar",    [BL_U16] = "ushort", [BL_U32] = "uint",   [BL_U64] = "ulong", [BL_F16] = "half",
    [BL_BF16] = "ushort", [BL_F32] = "float",  [BL_F64] = "double", [BL_INDEX] = "long"};

#define BL_DTYPE(id, name, bytes, kind, code, cl, glsl) [BL_##id] = cl,
static const char *const computed_type[BL_DTYPE_COUNT] = {
#include "engine/ir/dtypes.def"
};
#undef BL_DTYPE

static void type(bl_text *out, bl_dtype dtype, int lanes)
{
    bl_text_puts(out, computed_type[dtype]);
    if (lanes > 1)
        bl_text_printf(out, "%d", lanes);
}

static void real_literal(bl_text *out, double value, bool wide)
{
    char text[40];
    if (isnan(value)) {
        bl_text_puts(out, wide ? "((double)NAN)" : "NAN");
        return;
    }
    if (isinf(value)) {
        bl_text_printf(out, wide ? "(%s(double)INFINITY)" : "(%sINFINITY)", value < 0 ? "-" : "");
        return;
    }
    snprintf(text, sizeof text, wide ? "%.17g" : "%.9g", value);
    bl_text_printf(out, signbit(value) ? "(%s%s%s)" : "%s%s%s", text, strpbrk(text, ".en") == NULL ? ".0" : "", wide ? "" : "f");
}

static void literal(bl_text *out, bl_dtype dtype, bl_scalar value)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        real_literal(out, value.f, dtype == BL_F64);
        break;
    case BL_KIND_INT:
        if (value.i == INT64_MIN)
            bl_text_puts(out, "(-9223372036854775807L - 1)");
        else if (value.i == INT32_MIN && dtype == BL_I32)
            bl_text_puts(out, "(-2147483647 - 1)"); /* 2147483648 is a long */
        else if (dtype == BL_I32 || dtype == BL_I64)
            bl_text_printf(out, value.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", value.i, dtype == BL_I64 ? "L" : "");
        else
            bl_text_printf(out, "((%s)%" PRId64 ")", computed_type[dtype], value.i);
        break;
    case BL_KIND_UINT:
        bl_text_printf(out, "((%s)%" PRIu64 "%s)", computed_type[dtype], value.u, dtype == BL_U64 ? "UL" : "U");
        break;
    case BL_KIND_BOOL:
        bl_text_puts(out, value.u != 0 ? "1" : "0");
        break;
    }
}

static void repeat(bl_text *out, operand x, int lanes)
{
    bl_text_putc(out, '(');
    bl_text_putc(out, '(');
    type(out, x.dtype, lanes);
    bl_text_printf(out, x.dtype == BL_BOOL ? ")(-(%s)))" : ")(%s))", x.text);
}

static void lane(bl_text *out, operand x, int number)
{
    bl_text_printf(out, x.dtype == BL_BOOL ? "(-(%s).s%x)" : "(%s).s%x", x.text, (unsigned)number);
}

static void half(bl_text *out, operand x, int which)
{
    bl_text_printf(out, "(%s).%s", x.text, which == 0 ? "lo" : "hi");
}

static void stack(bl_text *out, bl_dtype dtype, int lanes, const operand *scalars)
{
    bl_text_puts(out, dtype == BL_BOOL ? "(-(" : "((");
    type(out, dtype, lanes);
    bl_text_puts(out, ")(");
    for (int i = 0; i < lanes; i++)
        bl_text_printf(out, i == 0 ? "%s" : ", %s", scalars[i].text);
    bl_text_puts(out, "))");
}

static void convert(bl_text *out, const char *name, int lanes, const char *suffix, const char *x)
{
    bl_text_printf(out, "convert_%s", name);
    if (lanes > 1)
        bl_text_printf(out, "%d", lanes);
    bl_text_printf(out, "%s(%s)", suffix, x);
}

static void fit(bl_text *out, bl_dtype dtype, int lanes, const char *x)
{
    if (is_half(dtype)) {
        bl_text_printf(out, "%s", dtype == BL_F16 ? "round_f16" : "round_bf16");
        if (lanes > 1)
            bl_text_printf(out, "_%d", lanes);
        bl_text_printf(out, "(%s)", x);
    } else if (bl_dtype_bytes(dtype) < 4 && dtype != BL_BOOL && lanes == 1) {
        bl_text_printf(out, "((%s)%s)", computed_type[dtype], x); /* C computes them as int */
    } else {
        bl_text_puts(out, x);
    }
}

/* The conversion by value, before any rounding to 16 bits. */
static void convert_value(bl_text *out, bl_dtype to, operand x)
{
    const char *from_type = computed_type[x.dtype], *to_type = computed_type[to];

    if (to == BL_BOOL && x.lanes == 1)
        bl_text_printf(out, "(%s != 0)", x.text);
    else if (to == BL_BOOL && x.lanes > 1)
        bl_text_printf(out, "convert_int%d(%s != (%s%d)(0))", x.lanes, x.text, from_type, x.lanes);
    else if (x.dtype == BL_BOOL && x.lanes > 1)
        bl_text_printf(out, "convert_%s%d(-(%s))", to_type, x.lanes, x.text);
    else if (is_half(to) && x.dtype == BL_F64 && x.lanes > 1)
        bl_text_printf(out, "to_odd_%d(%s)", x.lanes, x.text);
    else if (is_half(to) && x.dtype == BL_F64)
        bl_text_printf(out, "to_odd(%s)", x.text);
    else if (strcmp(to_type, from_type) == 0)
        bl_text_puts(out, x.text);
    else
        convert(out, to_type, x.lanes, bl_dtype_is_float(x.dtype) && bl_dtype_is_int(to) ? "_sat" : "", x.text);
}

static void cast(bl_text *out, bl_dtype to, operand x)
{
    bl_text text = {0};

    if (!is_half(to) || x.dtype == to) {
        convert_value(out, to, x);
        return;
    }
    convert_value(&text, to, x);
    fit(out, to, x.lanes, bl_text_get(&text));
    bl_text_fini_part(&text, out);
}

/* float16 and bfloat16 are held as float: their bits are those of a ushort. */
static void bitcast(bl_text *out, bl_dtype to, operand x)
{
    char lanes[16] = "", wide[16] = "";
    if (x.lanes > 1) {
        snprintf(lanes, sizeof lanes, "_%d", x.lanes);
        snprintf(wide, sizeof wide, "%d", x.lanes);
    }
    if (is_half(to))
        bl_text_printf(out, "uint16_as_%s%s(", bl_dtype_name(to), lanes);
    else if (!is_half(x.dtype) || to == BL_I16)
        bl_text_printf(out, "as_%s%s(", computed_type[to], wide);
    if (is_half(x.dtype))
        bl_text_printf(out, "%s_as_uint16%s(%s)", bl_dtype_name(x.dtype), lanes, x.text);
    else if (is_half(to) && x.dtype != BL_U16)
        bl_text_printf(out, "as_ushort%s(%s)", wide, x.text);
    else
        bl_text_puts(out, x.text);
    if (is_half(to) || !is_half(x.dtype) || to == BL_I16)
        bl_text_putc(out, ')');
}

static void compare(bl_text *out, bl_op op, operand x, operand y)
{
    const char *sign = op == BL_OP_CMPLT ? "<" : "==";
    if (x.dtype == BL_BOOL && op == BL_OP_CMPLT)
        bl_text_printf(out, x.lanes > 1 ? "(~(%s) & (%s))" : "(!(%s) & (%s))", x.text, y.text);
    else if (x.lanes == 1)
        bl_text_printf(out, "(%s %s %s)", x.text, sign, y.text);
    else if (bl_dtype_bytes(x.dtype) == 4 || is_half(x.dtype) || x.dtype == BL_BOOL)
        bl_text_printf(out, "(%s %s %s)", x.text, sign, y.text);
    else
        bl_text_printf(out, "convert_int%d(%s %s %s)", x.lanes, x.text, sign, y.text);
}

static void where(bl_text *out, operand condition, operand yes, operand no)
{
    static const char *const mask[9] = {[1] = "char", [2] = "short", [4] = "int", [8] = "long"};
    size_t bytes = is_half(yes.dtype) || yes.dtype == BL_BOOL ? 4 : bl_dtype_bytes(yes.dtype);
    if (yes.lanes == 1)
        bl_text_printf(out, "(%s ? %s : %s)", condition.text, yes.text, no.text);
    else if (bytes == 4)
        bl_text_printf(out, "select(%s, %s, %s)", no.text, yes.text, condition.text);
    else
        bl_text_printf(out, "select(%s, %s, convert_%s%d(%s))", no.text, yes.text, mask[bytes], yes.lanes, condition.text);
}

static void load(bl_text *out, const char *buffer, bl_dtype dtype, int lanes, const char *index, bool aligned, bool local)
{
    (void)aligned;
    if (local && lanes == 1) {
        bl_text_printf(out, "%s[%s]", buffer, index);
    } else if (local) {
        bl_text_printf(out, "vload%d(0, %s + %s)", lanes, buffer, index);
    } else if (dtype == BL_F16 && lanes == 1) {
        bl_text_printf(out, "vload_half(0, %s + %s)", buffer, index);
    } else if (dtype == BL_F16) { /* PoCL 3.1's vload_halfN crashes where the address is no multiple of the vector */
        bl_text_printf(out, "uint16_as_float16_%d(vload%d(0, (const __global ushort *)(%s + %s)))", lanes, lanes, buffer, index);
    } else if (lanes == 1) {
        const char *before = dtype == BL_BOOL ? "(" : dtype == BL_BF16 ? "as_float((uint)" : "";
        const char *after = dtype == BL_BOOL ? " != 0)" : dtype == BL_BF16 ? " << 16)" : "";
        bl_text_printf(out, "%s%s[%s]%s", before, buffer, index, after);
    } else if (dtype == BL_BOOL) {
        bl_text_printf(out, "(convert_int%d(vload%d(0, %s + %s)) != 0)", lanes, lanes, buffer, index);
    } else if (dtype == BL_BF16) {
        bl_text_printf(out, "as_float%d(convert_uint%d(vload%d(0, %s + %s)) << 16)", lanes, lanes, lanes, buffer, index);
    } else {
        bl_text_printf(out, "vload%d(0, %s + %s)", lanes, buffer, index);
    }
}

static void store(bl_text *out, const char *buffer, bl_dtype dtype, int lanes, const char *index, const char *value, bool aligned,
                  bool local)
{
    (void)aligned;
    if (local && lanes == 1) {
        bl_text_printf(out, "%s[%s] = %s", buffer, index, value);
    } else if (local) {
        bl_text_printf(out, "vstore%d(%s, 0, %s + %s)", lanes, value, buffer, index);
    } else if (dtype == BL_F16 && lanes == 1) {
        bl_text_printf(out, "vstore_half_rte(%s, 0, %s + %s)", value, buffer, index);
    } else if (dtype == BL_F16) {
        bl_text_printf(out, "vstore%d(float16_as_uint16_%d(%s), 0, (__global ushort *)(%s + %s))", lanes, lanes, value, buffer,
                       index);
    } else if (lanes == 1) {
        const char *before = dtype == BL_BF16 ? "(ushort)(as_uint(" : "", *after = dtype == BL_BF16 ? ") >> 16)" : "";
        bl_text_printf(out, "%s[%s] = %s%s%s", buffer, index, before, value, after);
    } else if (dtype == BL_BOOL) {
        bl_text_printf(out, "vstore%d(convert_uchar%d(-(%s)), 0, %s + %s)", lanes, lanes, value, buffer, index);
    } else if (dtype == BL_BF16) {
        bl_text_printf(out, "vstore%d(convert_ushort%d(as_uint%d(%s) >> 16), 0, %s + %s)", lanes, lanes, lanes, value, buffer,
                       index);
    } else {
        bl_text_printf(out, "vstore%d(%s, 0, %s + %s)", lanes, value, buffer, index);
    }
}

static void local_buffer(bl_text *out, const char *name, bl_dtype dtype, int64_t elements)
{
    bl_text_printf(out, "__local %s %s[%" PRId64 "];\n", computed_type[dtype], name, elements);
}

/* Functions that some kernels need; only the widths that occur in them. */
static const char prelude_whole[] =
    "#define WHOLE(T, N, B) \\\n"
    "inline T floor_div_##N(T x, T y) { if (y == 0) return 0; if (y == (T)-1 && (T)-1 < 0) return (T)(0 - x); \\\n"
    "  T q = x / y, r = x % y; return (T)(q - (r != 0 && ((r < 0) != (y < 0)))); } \\\n"
    "inline T floor_mod_##N(T x, T y) { if (y == 0 || (y == (T)-1 && (T)-1 < 0)) return 0; \\\n"
    "  T r = x % y; return (T)(r != 0 && ((r < 0) != (y < 0)) ? r + y : r); } \\\n"
    "inline T shift_left_##N(T x, T y) { return (T)(y >= 0 && y < B ? x << y : 0); } \\\n"
    "inline T shift_right_##N(T x, T y) { return (T)(y >= 0 && y < B ? x >> y : x < 0 ? -1 : 0); }\n"
    "WHOLE(char, int8, 8) WHOLE(short, int16, 16) WHOLE(int, int32, 32) WHOLE(long, int64, 64)\n"
    "WHOLE(uchar, uint8, 8) WHOLE(ushort, uint16, 16) WHOLE(uint, uint32, 32) WHOLE(ulong, uint64, 64)\n";

/* The larger or smaller, NaN if either is: as alu.def has it. */
static void prelude_extremes(bl_text *out, const char *real, int lanes)
{
    char t[24];
    snprintf(t, sizeof t, lanes > 1 ? "%s%d" : "%s", real, lanes);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "max" : "min", *sign = i == 0 ? "<" : ">";
        if (lanes > 1)
            bl_text_printf(
                out, "inline %s __attribute__((overloadable)) %s_nan(%s x, %s y) { return select(x, y, (x %s y) | (y != y)); }\n",
                t, name, t, t, sign);
        else
            bl_text_printf(out,
                           "inline %s __attribute__((overloadable)) %s_nan(%s x, %s y) { return x %s y || y != y ? y : x; }\n", t,
                           name, t, t, sign);
    }
}

/* PoCL 3.1's sin of a vector is wrong in every lane when one lane is over about 1e8. */
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

static void prelude_half(bl_text *out, int lanes)
{
    char f[24] = "float", u[24] = "uint", s[24] = "ushort", n[16] = "";
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
    if (lanes > 1)
        bl_text_printf(out,
                       "inline %s round_f16%s(%s x) { ushort h[%d] __attribute__((aligned(32))); vstore_half%d_rte(x, 0, (half "
                       "*)h); return vload_half%d(0, (half *)h); "
                       "}\n"
                       "inline %s float16_as_uint16%s(%s x) { ushort h[%d] __attribute__((aligned(32))); vstore_half%d_rte(x, 0, "
                       "(half *)h); return vload%d(0, h); }\n"
                       "inline %s uint16_as_float16%s(%s x) { ushort h[%d] __attribute__((aligned(32))); vstore%d(x, 0, h); "
                       "return vload_half%d(0, (half *)h); }\n",
                       f, n, f, lanes, lanes, lanes, s, n, f, lanes, lanes, lanes, f, n, s, lanes, lanes, lanes);
    else
        bl_text_puts(
            out,
            "inline float round_f16(float x) { ushort h; vstore_half_rte(x, 0, (half *)&h); return vload_half(0, (half *)&h); }\n"
            "inline ushort float16_as_uint16(float x) { ushort h; vstore_half_rte(x, 0, (half *)&h); return h; }\n"
            "inline float uint16_as_float16(ushort x) { ushort h = x; return vload_half(0, (half *)&h); }\n");
}

/* Rounding a double to odd in float first makes the second rounding exact (Boldo and Melquiond, 2008). */
static void prelude_to_odd(bl_text *out, int lanes)
{
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

typedef struct needs {
    bool whole, half, f64, f64_to_half, extremes, sin;
    bool lanes[BL_MAX_LANES + 1];
} needs;

static needs survey(const bl_linear *linear)
{
    needs n = {0};
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        bl_op op = (bl_op)inst->op;
        for (int lanes = op == BL_OP_FOLD ? linear->inst[inst->args[0]].lanes : inst->lanes; lanes > 0; lanes /= 2)
            n.lanes[lanes] = true; /* a fold takes halves of halves */
        n.whole = n.whole || ((op == BL_OP_IDIV || op == BL_OP_MOD || op == BL_OP_SHL || op == BL_OP_SHR) && inst->sub == 0);
        n.half = n.half || is_half((bl_dtype)inst->dtype);
        n.f64 = n.f64 || inst->dtype == BL_F64;
        n.sin = n.sin || op == BL_OP_SIN;
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

static bl_status begin(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err)
{
    needs n = survey(linear);

    if (n.f64 && (info->features & BL_FEATURE_F64) == 0)
        return bl_fail(err, BL_EUNSUPPORTED, "%s has no float64", info->id);
    if (n.f64)
        bl_text_puts(out, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
    if (n.whole)
        bl_text_puts(out, prelude_whole);
    for (int lanes = 1; lanes <= BL_MAX_LANES; lanes++) {
        if (!n.lanes[lanes])
            continue;
        if (n.extremes)
            prelude_extremes(out, "float", lanes);
        if (n.extremes && n.f64)
            prelude_extremes(out, "double", lanes);
        if (n.sin)
            prelude_sin(out, "float", lanes);
        if (n.sin && n.f64)
            prelude_sin(out, "double", lanes);
        if (n.half)
            prelude_half(out, lanes);
        if (n.f64_to_half)
            prelude_to_odd(out, lanes);
    }
    bl_text_printf(out, "__kernel __attribute__((reqd_work_group_size(%u, %u, %u)))\nvoid %s(", linear->local[0],
                   linear->local[1], linear->local[2], linear->name);
    for (uint32_t i = 0; i < linear->nbuffers; i++)
        bl_text_printf(out, "%s__global %s%s *restrict b%u", i == 0 ? "" : ", ", (linear->writes >> i & 1) != 0 ? "" : "const ",
                       stored_type[linear->buffer_dtype[i]], i);
    for (uint32_t i = 0; i < linear->nscalars; i++)
        bl_text_printf(out, ", const int n%u", i);
    bl_text_puts(out, ") {\n");
    return BL_OK;
}

/* C leaves the overflow of signed scalars open, and clang makes use of that. */
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
                                .type = type,
                                .literal = literal,
                                .repeat = repeat,
                                .lane = lane,
                                .half = half,
                                .stack = stack,
                                .cast = cast,
                                .bitcast = bitcast,
                                .fit = fit,
                                .compare = compare,
                                .where = where,
                                .load = load,
                                .store = store,
                                .local_buffer = local_buffer,
                                .false_text = "0",
                                .group_id = {"(int)get_group_id(0)", "(int)get_group_id(1)", "(int)get_group_id(2)"},
                                .local_id = {"(int)get_local_id(0)", "(int)get_local_id(1)", "(int)get_local_id(2)"},
                                .barrier = "barrier(CLK_LOCAL_MEM_FENCE)",
                                .scalar = "n",
                                .begin = begin};
