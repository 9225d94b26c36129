/* SPDX-License-Identifier: MIT */
#include "engine/interp/alu.h"

#include "engine/ir/eval.h"

/* ---- any op, by its meaning */

static void any_op(const bl_interp_op *how, bl_scalar *out, const bl_scalar *const *in, size_t n)
{
    bool two = in[1] != NULL, three = in[2] != NULL;

    for (size_t i = 0; i < n; i++) {
        bl_scalar operand[3] = {in[0][i], two ? in[1][i] : (bl_scalar){0}, three ? in[2][i] : (bl_scalar){0}};

        out[i] = bl_eval(how->op, how->from, operand);
    }
}

static void any_cast(const bl_interp_op *how, bl_scalar *out, const bl_scalar *const *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bl_scalar_cast(how->dtype, how->from, in[0][i]);
}

static void any_bitcast(const bl_interp_op *how, bl_scalar *out, const bl_scalar *const *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bl_eval_bitcast(how->dtype, how->from, in[0][i]);
}

/* ---- typed loops: x and y are the operands as |type|, taken from member |get|; the result goes to member |put| */

#define UNARY(name, type, get, put, wide, value)                                                                                 \
    static void name(const bl_interp_op *how, bl_scalar *restrict out, const bl_scalar *const *in, size_t n)                     \
    {                                                                                                                            \
        const bl_scalar *a = in[0];                                                                                              \
        (void)how;                                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type x = (type)a[i].get;                                                                                             \
            out[i].put = (wide)(value);                                                                                          \
        }                                                                                                                        \
    }
#define BINARY(name, type, get, put, wide, value)                                                                                \
    static void name(const bl_interp_op *how, bl_scalar *restrict out, const bl_scalar *const *in, size_t n)                     \
    {                                                                                                                            \
        const bl_scalar *a = in[0], *b = in[1];                                                                                  \
        (void)how;                                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type x = (type)a[i].get, y = (type)b[i].get;                                                                         \
            out[i].put = (wide)(value);                                                                                          \
        }                                                                                                                        \
    }

UNARY(copy, uint64_t, u, u, uint64_t, x)
UNARY(f32_neg, float, f, f, double, -x)
UNARY(f32_from_int, float, i, f, double, x)
UNARY(i32_from_i64, int32_t, i, i, int64_t, x)
UNARY(bool_not, uint64_t, u, u, uint64_t, x ^ 1)
BINARY(f32_add, float, f, f, double, x + y)
BINARY(f32_sub, float, f, f, double, x - y)
BINARY(f32_mul, float, f, f, double, x *y)
BINARY(f32_div, float, f, f, double, x / y)
BINARY(f64_add, double, f, f, double, x + y)
BINARY(f64_sub, double, f, f, double, x - y)
BINARY(f64_mul, double, f, f, double, x *y)
BINARY(float_less, double, f, u, uint64_t, x < y)
BINARY(float_equal, double, f, u, uint64_t, x == y)
BINARY(int_less, int64_t, i, u, uint64_t, x < y)
BINARY(uint_less, uint64_t, u, u, uint64_t, x < y)
BINARY(int_equal, uint64_t, u, u, uint64_t, x == y)
/* Values are held extended to 64 bits by their sign, so that these need no width. */
BINARY(bits_and, uint64_t, u, u, uint64_t, x &y)
BINARY(bits_or, uint64_t, u, u, uint64_t, x | y)
BINARY(bits_xor, uint64_t, u, u, uint64_t, x ^ y)
BINARY(i32_add, int64_t, i, i, int32_t, x + y)
BINARY(i32_sub, int64_t, i, i, int32_t, x - y)
BINARY(i32_mul, int64_t, i, i, int32_t, x *y)
BINARY(i32_floor_div, int64_t, i, i, int32_t, y == 0 ? 0 : x / y - (x % y != 0 && (x ^ y) < 0))
BINARY(i32_floor_mod, int64_t, i, i, int32_t, y == 0 ? 0 : x % y + (x % y != 0 && (x ^ y) < 0 ? y : 0))
BINARY(i64_add, uint64_t, u, u, uint64_t, x + y)
BINARY(i64_sub, uint64_t, u, u, uint64_t, x - y)
BINARY(i64_mul, uint64_t, u, u, uint64_t, x *y)
BINARY(u32_add, uint64_t, u, u, uint32_t, x + y)
BINARY(u32_sub, uint64_t, u, u, uint32_t, x - y)
BINARY(u32_mul, uint64_t, u, u, uint32_t, x *y)
BINARY(u32_shl, uint64_t, u, u, uint32_t, y < 32 ? x << y : 0)
BINARY(u32_shr, uint64_t, u, u, uint32_t, y < 32 ? x >> y : 0)

static void any_where(const bl_interp_op *how, bl_scalar *restrict out, const bl_scalar *const *in, size_t n)
{
    const bl_scalar *cond = in[0], *yes = in[1], *no = in[2];

    (void)how;
    for (size_t i = 0; i < n; i++)
        out[i].u = cond[i].u ? yes[i].u : no[i].u;
}

/* ---- which loop for which op and dtype of operands */

#define D(id)    (1u << BL_##id)
#define SIGNED   (D(I8) | D(I16) | D(I32) | D(I64))
#define UNSIGNED (D(BOOL) | D(U8) | D(U16) | D(U32) | D(U64))
#define FLOATS   (D(F8E4M3) | D(F8E5M2) | D(F16) | D(BF16) | D(F32) | D(F64))

static const struct {
    bl_op op;
    unsigned from;
    bl_interp_alu run;
} rows[] = {
    {BL_OP_NEG, D(F32), f32_neg},
    {BL_OP_NOT, D(BOOL), bool_not},
    {BL_OP_ADD, D(F32), f32_add},
    {BL_OP_ADD, D(F64), f64_add},
    {BL_OP_ADD, D(I32), i32_add},
    {BL_OP_ADD, D(I64) | D(U64), i64_add},
    {BL_OP_ADD, D(U32), u32_add},
    {BL_OP_SUB, D(F32), f32_sub},
    {BL_OP_SUB, D(F64), f64_sub},
    {BL_OP_SUB, D(I32), i32_sub},
    {BL_OP_SUB, D(I64) | D(U64), i64_sub},
    {BL_OP_SUB, D(U32), u32_sub},
    {BL_OP_MUL, D(F32), f32_mul},
    {BL_OP_MUL, D(F64), f64_mul},
    {BL_OP_MUL, D(I32), i32_mul},
    {BL_OP_MUL, D(I64) | D(U64), i64_mul},
    {BL_OP_MUL, D(U32), u32_mul},
    {BL_OP_DIV, D(F32), f32_div},
    {BL_OP_IDIV, D(I32), i32_floor_div},
    {BL_OP_MOD, D(I32), i32_floor_mod},
    {BL_OP_CMPLT, FLOATS, float_less},
    {BL_OP_CMPLT, SIGNED, int_less},
    {BL_OP_CMPLT, UNSIGNED, uint_less},
    {BL_OP_CMPEQ, FLOATS, float_equal},
    {BL_OP_CMPEQ, SIGNED | UNSIGNED, int_equal},
    {BL_OP_AND, SIGNED | UNSIGNED, bits_and},
    {BL_OP_OR, SIGNED | UNSIGNED, bits_or},
    {BL_OP_XOR, SIGNED | UNSIGNED, bits_xor},
    {BL_OP_SHL, D(U32), u32_shl},
    {BL_OP_SHR, D(U32), u32_shr},
    {BL_OP_WHERE, SIGNED | UNSIGNED | FLOATS, any_where},
};

/* The same for casts; |copy| where the value's bits stay. */
static const struct {
    bl_dtype to;
    unsigned from;
    bl_interp_alu run;
} casts[] = {
    {BL_I32, D(BOOL) | D(I8) | D(I16) | D(U8) | D(U16), copy},
    {BL_I64, D(BOOL) | D(I8) | D(I16) | D(I32) | D(U8) | D(U16) | D(U32), copy},
    {BL_I32, D(I64), i32_from_i64},
    {BL_F32, D(F8E4M3) | D(F8E5M2) | D(F16) | D(BF16), copy},
    {BL_F64, D(F8E4M3) | D(F8E5M2) | D(F16) | D(BF16) | D(F32), copy},
    {BL_F32, D(BOOL) | D(I8) | D(I16) | D(I32) | D(U8) | D(U16) | D(U32), f32_from_int},
};

bl_interp_alu bl_interp_alu_get(const bl_interp_op *how)
{
    unsigned from = 1u << how->from;

    if (how->op == BL_OP_BITCAST)
        return any_bitcast;
    if (how->op == BL_OP_CAST) {
        for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
            if (casts[i].to == how->dtype && (casts[i].from & from))
                return casts[i].run;
        return any_cast;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].op == how->op && (rows[i].from & from))
            return rows[i].run;
    return any_op;
}
