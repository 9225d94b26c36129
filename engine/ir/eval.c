/* SPDX-License-Identifier: MIT */
#include "engine/ir/eval.h"

#include <math.h>

/* Signed integers are computed in 128 bits, where no operation of alu.def overflows (the largest result is that of FMA, below
 * 2^127). They wrap when the result is fitted. */
__extension__ typedef __int128 wide;

/* The operands are int64. Only the quotient by -1 may exceed int64, and a division in 128 bits is slow. */
static wide signed_floor_div(wide x, wide y)
{
    int64_t a = (int64_t)x, b = (int64_t)y;

    if (b == 0 || b == -1)
        return b == 0 ? 0 : -x;
    return a / b - (a % b != 0 && (a ^ b) < 0);
}

static wide signed_floor_mod(wide x, wide y)
{
    int64_t a = (int64_t)x, b = (int64_t)y, rest = 0;

    if (b == 0 || b == -1)
        return 0;
    rest = a % b;
    return rest != 0 && (a ^ b) < 0 ? rest + b : rest;
}

/* A negative amount counts as its unsigned value, which is at least 2^63. */
static wide signed_shift_left(wide x, wide y)
{
    return y < 0 || y > 63 ? 0 : x * ((wide)1 << y);
}

static wide signed_shift_right(wide x, wide y)
{
    return x >> (y < 0 || y > 63 ? 63 : (int)y);
}

static uint64_t unsigned_floor_div(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x / y;
}

static uint64_t unsigned_floor_mod(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x % y;
}

static uint64_t unsigned_shift_left(uint64_t x, uint64_t y)
{
    return y > 63 ? 0 : x << y;
}

static uint64_t unsigned_shift_right(uint64_t x, uint64_t y)
{
    return y > 63 ? 0 : x >> y;
}

/* x holds four uint8, y four int8. */
static wide signed_dot4(wide x, wide y, wide z)
{
    for (int i = 0; i < 4; i++)
        z += (uint8_t)(x >> 8 * i) * (int8_t)(y >> 8 * i);
    return z;
}

static uint64_t unsigned_dot4(uint64_t x, uint64_t y, uint64_t z)
{
    return (uint64_t)signed_dot4((wide)x, (wide)y, (wide)z);
}

/* Stands for NONE in alu.def. Builders and verifier reject such an op. */
static int no_meaning(void)
{
    BL_ASSERT(false);
    return 0;
}

/* Each function below evaluates one column of alu.def with one loop per row. |member| of the operands is converted to
 * |type|. */
#define LOOP(ID, type, member, result)                                                                                           \
    case BL_OP_##ID:                                                                                                             \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type x = (type)a[i].member, y = (type)b[i].member, z = (type)c[i].member;                                            \
            (void)x, (void)y, (void)z;                                                                                           \
            out[i].member = (result);                                                                                            \
        }                                                                                                                        \
        return;
#define NONE no_meaning()

#define BL_FN(name)                     name##f
#define BL_ALU(ID, real, integer, text) LOOP(ID, float, f, (double)(float)(real))
static void eval_float(bl_op op, size_t n, bl_scalar *restrict out, const bl_scalar *a, const bl_scalar *b, const bl_scalar *c)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    }
}
#undef BL_FN
#undef BL_ALU

#define BL_FN(name)                     name
#define BL_ALU(ID, real, integer, text) LOOP(ID, double, f, (double)(real))
static void eval_double(bl_op op, size_t n, bl_scalar *restrict out, const bl_scalar *a, const bl_scalar *b, const bl_scalar *c)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    }
}
#undef BL_FN
#undef BL_ALU

#define BL_INT(name)                    signed_##name
#define BL_ALU(ID, real, integer, text) LOOP(ID, wide, i, (int64_t)(integer))
static void eval_signed(bl_op op, size_t n, bl_scalar *restrict out, const bl_scalar *a, const bl_scalar *b, const bl_scalar *c)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    }
}
#undef BL_INT
#undef BL_ALU

#define BL_INT(name)                    unsigned_##name
#define BL_ALU(ID, real, integer, text) LOOP(ID, uint64_t, u, (uint64_t)(integer))
static void eval_unsigned(bl_op op, size_t n, bl_scalar *restrict out, const bl_scalar *a, const bl_scalar *b, const bl_scalar *c)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    }
}
#undef BL_INT
#undef BL_ALU

/* Apply bl_scalar_fit to each value. Frequent dtypes have a loop of their own. */
static void eval_fit(bl_dtype dtype, size_t n, bl_scalar *v)
{
    if (dtype == BL_I64 || dtype == BL_U64 || dtype == BL_F64 || dtype == BL_INDEX)
        return;
    if (dtype == BL_I32) {
        for (size_t i = 0; i < n; i++)
            v[i].i = (int32_t)v[i].i;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (dtype == BL_F32 && v[i].f == v[i].f)
            v[i].f = (double)(float)v[i].f;
        else
            v[i] = bl_scalar_fit(dtype, v[i]);
    }
}

static void eval_cast(bl_dtype to, bl_dtype from, size_t n, bl_scalar *restrict out, const bl_scalar *in)
{
    bool whole = !bl_dtype_is_float(from);

    if (whole ? bl_dtype_is_float(to) && bl_dtype_bytes(from) < 8 : bl_dtype_is_float(to)) {
        /* exact; an unsigned integer of up to 32 bits is not negative as an int64 */
        for (size_t i = 0; i < n; i++)
            out[i].f = whole ? (double)in[i].i : in[i].f;
        eval_fit(to, n, out);
    } else if (whole && !bl_dtype_is_float(to)) {
        for (size_t i = 0; i < n; i++)
            out[i] = in[i];
        eval_fit(to, n, out);
    } else {
        for (size_t i = 0; i < n; i++)
            out[i] = bl_scalar_cast(to, from, in[i]);
    }
}

void bl_eval_many(bl_op op, bl_dtype to, bl_dtype from, size_t n, bl_scalar *restrict out, const bl_scalar *const *in)
{
    const bl_scalar *a = in[0], *b = in[1] != NULL ? in[1] : a, *c = in[2] != NULL ? in[2] : a;

    BL_ASSERT(bl_op_get_class(op) == BL_CLASS_ALU);
    if (op == BL_OP_CAST) {
        eval_cast(to, from, n, out, a);
        return;
    }
    if (op == BL_OP_BITCAST || op == BL_OP_WHERE || (op == BL_OP_NOT && from == BL_BOOL)) {
        for (size_t i = 0; i < n; i++) {
            if (op == BL_OP_BITCAST)
                out[i] = bl_eval_bitcast(to, from, a[i]);
            else if (op == BL_OP_WHERE) /* as in alu.def, but the chosen value keeps the bits of a NaN */
                out[i].u = a[i].u != 0 ? b[i].u : c[i].u;
            else /* other ops on bool give the right value when the result is fitted: 1 + 1 is 2, which is true */
                out[i].u = a[i].u == 0;
        }
        return;
    }
    if (from == BL_F64)
        eval_double(op, n, out, a, b, c);
    else if (bl_dtype_is_float(from))
        eval_float(op, n, out, a, b, c);
    else if (bl_dtype_get_kind(from) == BL_KIND_INT)
        eval_signed(op, n, out, a, b, c);
    else
        eval_unsigned(op, n, out, a, b, c);
    if (op != BL_OP_CMPLT && op != BL_OP_CMPEQ) {
        if (from != BL_F32)
            eval_fit(to, n, out);
        return;
    }
    for (size_t i = 0; bl_dtype_is_float(from) && i < n; i++)
        out[i].u = out[i].f != 0;
}

bl_scalar bl_eval(bl_op op, bl_dtype dtype, const bl_scalar *operand)
{
    bool compares = op == BL_OP_CMPLT || op == BL_OP_CMPEQ;
    int n = bl_op_sources(op);
    bl_scalar result;

    bl_eval_many(op, compares ? BL_BOOL : dtype, dtype, 1, &result,
                 (const bl_scalar *const[3]){operand, n > 1 ? operand + 1 : NULL, n > 2 ? operand + 2 : NULL});
    return result;
}

bl_scalar bl_eval_bitcast(bl_dtype to, bl_dtype from, bl_scalar value)
{
    unsigned char bytes[sizeof value] = {0};

    bl_scalar_write(from, value, bytes);
    return bl_scalar_read(to, bytes);
}

bl_scalar bl_fold_identity(bl_op fold, bl_dtype dtype)
{
    if (fold == BL_OP_MAX)
        return bl_scalar_lowest(dtype);
    if (fold == BL_OP_MIN)
        return bl_scalar_highest(dtype);
    if (bl_dtype_is_float(dtype))
        return (bl_scalar){.f = fold == BL_OP_MUL ? 1.0 : 0.0};
    return (bl_scalar){.u = fold == BL_OP_MUL};
}
