/* SPDX-License-Identifier: MIT */
#include "engine/ir/eval.h"

#include <math.h>

/* Signed integers are computed where no operation of alu.def can overflow (the largest is the FMA's, below 2^127), and wrap
 * when the result is fitted. */
__extension__ typedef __int128 wide;

static wide signed_floor_div(wide x, wide y)
{
    wide quotient;

    if (y == 0)
        return 0;
    quotient = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

static wide signed_floor_mod(wide x, wide y)
{
    return y == 0 ? 0 : x - y * signed_floor_div(x, y);
}

/* A negative amount is a huge one, as its bits say. */
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

/* An op where alu.def says NONE: the builders and the verifier let none through. */
static int no_meaning(void)
{
    BL_ASSERT(false);
    return 0;
}

/* Each function below is a column of alu.def, a case a row. */
#define NONE no_meaning()

#define BL_ALU(ID, real, integer, text)                                                                                          \
    case BL_OP_##ID:                                                                                                             \
        return (float)(real);
#define BL_FN(name) name##f
static float eval_float(bl_op op, float x, float y, float z)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    default:
        return (float)NONE;
    }
}
#undef BL_FN
#undef BL_ALU

#define BL_ALU(ID, real, integer, text)                                                                                          \
    case BL_OP_##ID:                                                                                                             \
        return (double)(real);
#define BL_FN(name) name
static double eval_double(bl_op op, double x, double y, double z)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    default:
        return (double)NONE;
    }
}
#undef BL_FN
#undef BL_ALU

#define BL_ALU(ID, real, integer, text)                                                                                          \
    case BL_OP_##ID:                                                                                                             \
        return (uint64_t)(integer);
#define BL_INT(name) signed_##name
static uint64_t eval_signed(bl_op op, wide x, wide y, wide z)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    default:
        return (uint64_t)NONE;
    }
}
#undef BL_INT

#define BL_INT(name) unsigned_##name
static uint64_t eval_unsigned(bl_op op, uint64_t x, uint64_t y, uint64_t z)
{
    switch ((int)op) {
#include "engine/ir/alu.def"
    default:
        return (uint64_t)NONE;
    }
}
#undef BL_INT
#undef BL_ALU

static const signed char operands[BL_OP_COUNT] = {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = nsrc,
#include "engine/ir/ops.def"
#undef BL_OP
};

static bl_scalar eval_real(bl_op op, bl_dtype dtype, const bl_scalar *operand, int n)
{
    double v[3] = {0};

    for (int i = 0; i < n; i++)
        v[i] = operand[i].f;
    if (dtype == BL_F64)
        return (bl_scalar){.f = eval_double(op, v[0], v[1], v[2])};
    return (bl_scalar){.f = (double)eval_float(op, (float)v[0], (float)v[1], (float)v[2])};
}

static bl_scalar eval_integer(bl_op op, bl_dtype dtype, const bl_scalar *operand, int n)
{
    bl_scalar v[3] = {{.u = 0}};

    for (int i = 0; i < n; i++)
        v[i] = operand[i];
    if (dtype == BL_BOOL && op == BL_OP_NOT)
        return (bl_scalar){.u = v[0].u == 0}; /* the other ops come out right once the result is fitted: 1 + 1 is 2, true */
    if (bl_dtype_get_kind(dtype) == BL_KIND_INT)
        return (bl_scalar){.u = eval_signed(op, v[0].i, v[1].i, v[2].i)};
    return (bl_scalar){.u = eval_unsigned(op, v[0].u, v[1].u, v[2].u)};
}

bl_scalar bl_eval(bl_op op, bl_dtype dtype, const bl_scalar *operand)
{
    bool real = bl_dtype_is_float(dtype);
    int n = operands[op];
    bl_scalar result;

    if (op == BL_OP_WHERE) /* as the table says, but the chosen value must keep the bits of a NaN */
        return operand[0].u != 0 ? operand[1] : operand[2];
    result = real ? eval_real(op, dtype, operand, n) : eval_integer(op, dtype, operand, n);
    if (op == BL_OP_CMPLT || op == BL_OP_CMPEQ)
        return (bl_scalar){.u = real ? result.f != 0 : result.u != 0};
    return bl_scalar_fit(dtype, result);
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
