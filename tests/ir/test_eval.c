/* SPDX-License-Identifier: MIT */
#include "engine/ir/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    int nsrc;
    bl_op_class class;
    unsigned flags;
} ops[BL_OP_COUNT] = {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = {#id, nsrc, BL_CLASS_##cls, flags},
#include "engine/ir/ops.def"
#undef BL_OP
};

static void every_scalar_op_has_a_meaning(void **state)
{
    static const bool in_alu[BL_OP_COUNT] = {
#define BL_ALU(ID, real, integer, text) [BL_OP_##ID] = true,
#include "engine/ir/alu.def"
#undef BL_ALU
    };

    (void)state;
    for (int op = 0; op < BL_OP_COUNT; op++) {
        bool wanted = ops[op].class == BL_CLASS_ALU && op != BL_OP_CAST && op != BL_OP_BITCAST;

        if (in_alu[op] != wanted)
            fail_msg("%s: in alu.def %d, wanted %d", ops[op].name, in_alu[op], wanted);
    }
}

/* ---- integers, against a reference that computes in 128 bits and wraps bit by bit */

static const int64_t odd_ints[] = {
    0,      1,   -1,  2,    3,   -3,  5,     7,      -7,    8,         31,        32,         33,        63,        64,
    65,     127, 128, -128, 255, 256, 32767, -32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, INT64_MIN + 1,
    1000003};
enum { N_ODD_INTS = sizeof odd_ints / sizeof odd_ints[0] };

static const bl_dtype int_types[] = {BL_I8, BL_I16, BL_I32, BL_I64, BL_U8, BL_U16, BL_U32, BL_U64, BL_INDEX};

__extension__ typedef __int128 wide;

static wide value_of(bl_dtype d, bl_scalar s)
{
    return bl_dtype_get_kind(d) == BL_KIND_INT ? (wide)s.i : (wide)s.u;
}

static wide floor_div(wide x, wide y)
{
    wide q = 0;

    if (y == 0)
        return 0;
    q = x / y;
    while (q * y > x && y > 0) /* floor division: q * y <= x for positive y, q * y >= x for negative y */
        q--;
    while (q * y < x && y < 0)
        q--;
    return q;
}

/* The result of an integer op before it wraps; false if the op has no such definition. */
static bool reference(bl_op op, bl_dtype d, wide x, wide y, wide z, wide *out)
{
    int width = (int)bl_dtype_bytes(d) * 8;
    bool past = y < 0 || y >= width;

    switch ((int)op) {
    case BL_OP_NEG:
        *out = -x;
        return true;
    case BL_OP_NOT:
        *out = -x - 1;
        return true;
    case BL_OP_ADD:
        *out = x + y;
        return true;
    case BL_OP_SUB:
        *out = x - y;
        return true;
    case BL_OP_IDIV:
        *out = floor_div(x, y);
        return true;
    case BL_OP_MOD:
        *out = y == 0 ? 0 : x - y * floor_div(x, y);
        return true;
    case BL_OP_MAX:
        *out = x > y ? x : y;
        return true;
    case BL_OP_MIN:
        *out = x < y ? x : y;
        return true;
    case BL_OP_CMPLT:
        *out = x < y;
        return true;
    case BL_OP_CMPEQ:
        *out = x == y;
        return true;
    case BL_OP_AND:
        *out = (wide)((uint64_t)x & (uint64_t)y);
        return true;
    case BL_OP_OR:
        *out = (wide)((uint64_t)x | (uint64_t)y);
        return true;
    case BL_OP_XOR:
        *out = (wide)((uint64_t)x ^ (uint64_t)y);
        return true;
    case BL_OP_SHL:
        *out = past ? 0 : (wide)((uint64_t)x << (int)y);
        return true;
    case BL_OP_SHR:
        *out = past ? (x < 0 ? -1 : 0) : floor_div(x, (wide)1 << (int)y);
        return true;
    case BL_OP_MUL:
        *out = (wide)((uint64_t)x * (uint64_t)y);
        return true;
    case BL_OP_FMA:
        *out = (wide)((uint64_t)x * (uint64_t)y + (uint64_t)z);
        return true;
    case BL_OP_DOT4:
        *out = z;
        for (int i = 0; i < 4; i++) {
            int byte = (int)((uint64_t)y >> 8 * i & 255);
            *out += (wide)((uint64_t)x >> 8 * i & 255) * (byte < 128 ? byte : byte - 256);
        }
        return d == BL_I32;
    default:
        return false;
    }
}

static void check_int(bl_op op, bl_dtype d, const bl_scalar *v)
{
    bool compares = (ops[op].flags & BL_OPF_COMPARE) != 0;
    bl_scalar got, want;
    wide exact;

    if (!reference(op, d, value_of(d, v[0]), value_of(d, v[1]), value_of(d, v[2]), &exact))
        return;
    got = bl_eval(op, d, v);
    want = bl_scalar_fit(compares ? BL_BOOL : d, (bl_scalar){.u = (uint64_t)exact});
    if (got.u != want.u)
        fail_msg("%s %s(%lld, %lld, %lld): got %lld, want %lld", bl_dtype_name(d), ops[op].name, (long long)v[0].i,
                 (long long)v[1].i, (long long)v[2].i, (long long)got.i, (long long)want.i);
}

static void integers_are_total(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof int_types / sizeof int_types[0]; t++) {
        bl_dtype d = int_types[t];

        for (size_t i = 0; i < N_ODD_INTS * N_ODD_INTS; i++) {
            bl_scalar v[3] = {bl_scalar_fit(d, (bl_scalar){.i = odd_ints[i / N_ODD_INTS]}),
                              bl_scalar_fit(d, (bl_scalar){.i = odd_ints[i % N_ODD_INTS]}),
                              bl_scalar_fit(d, (bl_scalar){.i = odd_ints[i * 7 % N_ODD_INTS]})};

            for (int op = 0; op < BL_OP_COUNT; op++)
                check_int((bl_op)op, d, v);
        }
    }
}

static void bytes_are_exhaustive(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 65536; i++) {
        for (size_t t = 0; t < 2; t++) {
            bl_dtype d = t == 0 ? BL_I8 : BL_U8;
            bl_scalar v[3] = {bl_scalar_fit(d, (bl_scalar){.u = i >> 8}), bl_scalar_fit(d, (bl_scalar){.u = i}),
                              bl_scalar_fit(d, (bl_scalar){.u = i * 3})};

            for (int op = 0; op < BL_OP_COUNT; op++)
                check_int((bl_op)op, d, v);
        }
    }
}

static void integers_by_hand(void **state)
{
    static const struct {
        bl_op op;
        bl_dtype dtype;
        int64_t x, y, want;
    } rows[] = {
        {BL_OP_IDIV, BL_I32, 7, -2, -4},
        {BL_OP_IDIV, BL_I32, -7, 2, -4},
        {BL_OP_IDIV, BL_I32, -7, -2, 3},
        {BL_OP_IDIV, BL_I32, 7, 0, 0},
        {BL_OP_IDIV, BL_I32, INT32_MIN, -1, INT32_MIN},
        {BL_OP_IDIV, BL_I64, INT64_MIN, -1, INT64_MIN},
        {BL_OP_MOD, BL_I32, 7, -2, -1},
        {BL_OP_MOD, BL_I32, -7, 2, 1},
        {BL_OP_MOD, BL_I32, -7, 0, 0},
        {BL_OP_MOD, BL_I64, INT64_MIN, -1, 0},
        {BL_OP_SHL, BL_I8, 1, 7, -128},
        {BL_OP_SHL, BL_I8, 1, 8, 0},
        {BL_OP_SHL, BL_I32, -1, 40, 0},
        {BL_OP_SHR, BL_I32, -8, 1, -4},
        {BL_OP_SHR, BL_I32, -1, 100, -1},
        {BL_OP_SHR, BL_I32, -5, -1, -1},
        {BL_OP_SHR, BL_U8, 255, 8, 0},
        {BL_OP_NEG, BL_I64, INT64_MIN, 0, INT64_MIN},
        {BL_OP_NEG, BL_U8, 1, 0, 255},
        {BL_OP_MUL, BL_I32, 65536, 65536, 0},
        {BL_OP_CMPLT, BL_U64, -1, 1, 0}, /* -1 is the largest number */
        {BL_OP_MAX, BL_U64, -1, 1, -1},
        {BL_OP_CMPLT, BL_I64, -1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_scalar v[2] = {{.i = rows[i].x}, {.i = rows[i].y}};
        int64_t got = bl_eval(rows[i].op, rows[i].dtype, v).i;

        if (got != rows[i].want)
            fail_msg("%s %s(%lld, %lld): got %lld, want %lld", bl_dtype_name(rows[i].dtype), ops[rows[i].op].name,
                     (long long)rows[i].x, (long long)rows[i].y, (long long)got, (long long)rows[i].want);
    }
}

static void bools_are_logic(void **state)
{
    static const struct {
        bl_op op;
        unsigned truth; /* truth table: bit 2x + y */
    } rows[] = {
        {BL_OP_ADD, 0xe}, {BL_OP_MUL, 0x8}, {BL_OP_AND, 0x8},   {BL_OP_OR, 0xe},    {BL_OP_XOR, 0x6},
        {BL_OP_MAX, 0xe}, {BL_OP_MIN, 0x8}, {BL_OP_CMPLT, 0x2}, {BL_OP_CMPEQ, 0x9}, {BL_OP_NOT, 0x3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned xy = 0; xy < 4; xy++) {
            bl_scalar v[2] = {{.u = xy >> 1}, {.u = xy & 1}};

            if (bl_eval(rows[i].op, BL_BOOL, v).u != (rows[i].truth >> xy & 1))
                fail_msg("%s(%u, %u)", ops[rows[i].op].name, xy >> 1, xy & 1);
        }
    }
}

/* ---- floats */

static void check_float(bl_op op, bl_dtype d, double x, double y, double z, double want)
{
    bl_scalar v[3] = {{.f = x}, {.f = y}, {.f = z}};
    double got = bl_eval(op, d, v).f;

    if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want)))
        fail_msg("%s %s(%a, %a, %a): got %a, want %a", bl_dtype_name(d), ops[op].name, x, y, z, got, want);
}

static void floats_by_hand(void **state)
{
    static const struct {
        bl_op op;
        bl_dtype dtype;
        double x, y, z, want;
    } rows[] = {
        {BL_OP_ADD, BL_F32, 16777216, 1, 0, 16777216},
        {BL_OP_ADD, BL_F64, 16777216, 1, 0, 16777217},
        {BL_OP_ADD, BL_F16, 2048, 1, 0, 2048},
        {BL_OP_ADD, BL_BF16, 256, 1, 0, 256},
        {BL_OP_ADD, BL_F32, -0.0, -0.0, 0, -0.0},
        {BL_OP_NEG, BL_F32, 0.0, 0, 0, -0.0},
        {BL_OP_SUB, BL_F32, INFINITY, INFINITY, 0, NAN},
        {BL_OP_MUL, BL_F16, 256, 256, 0, INFINITY},
        {BL_OP_MUL, BL_F32, 1e30, 1e30, 0, INFINITY},
        {BL_OP_MUL, BL_F64, 1e30, 1e30, 0, 1e30 * 1e30},
        {BL_OP_DIV, BL_F32, 1, -0.0, 0, -INFINITY},
        {BL_OP_DIV, BL_F32, 0, 0, 0, NAN},
        {BL_OP_DIV, BL_F64, 1, 3, 0, 1.0 / 3},
        {BL_OP_SQRT, BL_F32, -1, 0, 0, NAN},
        {BL_OP_SQRT, BL_F32, -0.0, 0, 0, -0.0},
        {BL_OP_LOG, BL_F64, 0, 0, 0, -INFINITY},
        {BL_OP_EXP, BL_F32, 1000, 0, 0, INFINITY},
        {BL_OP_EXP, BL_F64, 0, 0, 0, 1},
        {BL_OP_SIN, BL_F32, INFINITY, 0, 0, NAN},
        {BL_OP_SIN, BL_F32, -0.0, 0, 0, -0.0},
        {BL_OP_TRUNC, BL_F32, -1.9, 0, 0, -1},
        {BL_OP_TRUNC, BL_F64, 1e300, 0, 0, 1e300},
        {BL_OP_MAX, BL_F32, NAN, 1, 0, NAN},
        {BL_OP_MAX, BL_F32, 1, NAN, 0, NAN},
        {BL_OP_MIN, BL_F64, NAN, -INFINITY, 0, NAN},
        {BL_OP_MIN, BL_F64, -INFINITY, NAN, 0, NAN},
        {BL_OP_MAX, BL_F64, -INFINITY, -1, 0, -1},
        {BL_OP_MIN, BL_F16, 2, -3, 0, -3},
        {BL_OP_FMA, BL_F64, 1 + 0x1p-52, 1 - 0x1p-52, -1, -0x1p-104},
        {BL_OP_FMA, BL_F32, 1 + 0x1p-23, 1 - 0x1p-23, -1, -0x1p-46},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_float(rows[i].op, rows[i].dtype, rows[i].x, rows[i].y, rows[i].z, rows[i].want);
}

/* Every float op on every combination of special values gives a value of the dtype, and commutes if its row says so. */
static void floats_are_total(void **state)
{
    static const double odd[] = {0.0,   -0.0,  1.0,     -1.0,     0.5,       3.0,      1e-8,      65504, 1e30,
                                 -1e30, 1e300, 0x1p-24, 0x1p-149, 0x1p-1074, INFINITY, -INFINITY, NAN};
    enum { N = sizeof odd / sizeof odd[0] };
    static const bl_dtype types[] = {BL_F16, BL_BF16, BL_F32, BL_F64};

    (void)state;
    for (size_t i = 0; i < N * N * 4; i++) {
        bl_dtype d = types[i % 4];
        double x = bl_scalar_fit(d, (bl_scalar){.f = odd[i / 4 / N]}).f, y = bl_scalar_fit(d, (bl_scalar){.f = odd[i / 4 % N]}).f;

        for (int k = 0; k < BL_OP_COUNT; k++) {
            bl_op op = (bl_op)k;
            bl_scalar v[3] = {{.f = x}, {.f = y}, {.f = x}}, swapped[3] = {{.f = y}, {.f = x}, {.f = x}};
            bool integer_only = (ops[k].flags & (BL_OPF_INT | BL_OPF_BOOL | BL_OPF_WORDS)) != 0 || op == BL_OP_NOT;
            bl_scalar got;

            if (ops[k].class != BL_CLASS_ALU || integer_only || op == BL_OP_CAST || op == BL_OP_BITCAST || op == BL_OP_WHERE)
                continue;
            got = bl_eval(op, d, v);
            if ((ops[k].flags & BL_OPF_COMPARE) != 0) {
                assert_int_equal(got.u, op == BL_OP_CMPLT ? x < y : x == y);
                continue;
            }
            if (!isnan(got.f) && bl_scalar_fit(d, got).u != got.u)
                fail_msg("%s %s(%a, %a) is %a, no value of it", bl_dtype_name(d), ops[k].name, x, y, got.f);
            if ((ops[k].flags & BL_OPF_COMMUTES) != 0 && !isnan(got.f) && got.f != bl_eval(op, d, swapped).f)
                fail_msg("%s %s(%a, %a) does not commute", bl_dtype_name(d), ops[k].name, x, y);
        }
    }
}

static void where_keeps_bits(void **state)
{
    bl_scalar nan = bl_eval_bitcast(BL_F32, BL_U32, (bl_scalar){.u = 0x7f800001});
    bl_scalar v[3] = {{.u = 1}, nan, {.f = 2}};

    (void)state;
    assert_int_equal(bl_eval(BL_OP_WHERE, BL_F32, v).u, nan.u);
    v[0].u = 0;
    assert_true(bl_eval(BL_OP_WHERE, BL_F32, v).f == 2);
}

static void bitcasts(void **state)
{
    static const uint32_t patterns[] = {0x3f800000, 0x80000000, 0x7f800001, 0x7fc00000, 0xffc12345, 1};

    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        bl_scalar f = bl_eval_bitcast(BL_F32, BL_U32, (bl_scalar){.u = patterns[i]});

        assert_int_equal(bl_eval_bitcast(BL_U32, BL_F32, f).u, patterns[i]);
    }
    assert_true(bl_eval_bitcast(BL_F32, BL_I32, (bl_scalar){.i = 0x3f800000}).f == 1.0);
    assert_int_equal(bl_eval_bitcast(BL_I16, BL_BF16, (bl_scalar){.f = -1.0}).i, (int16_t)0xbf80);
    assert_int_equal(bl_eval_bitcast(BL_I8, BL_U8, (bl_scalar){.u = 255}).i, -1);
    assert_int_equal(bl_eval_bitcast(BL_U64, BL_F64, (bl_scalar){.f = -0.0}).u, UINT64_C(1) << 63);
}

static void identities_change_nothing(void **state)
{
    static const bl_op folds[] = {BL_OP_ADD, BL_OP_MUL, BL_OP_MAX, BL_OP_MIN};

    (void)state;
    for (int d = 0; d < BL_DTYPE_COUNT; d++) {
        for (size_t f = 0; f < 4; f++) {
            bl_scalar identity = bl_fold_identity(folds[f], (bl_dtype)d);
            bl_scalar values[3] = {bl_scalar_lowest((bl_dtype)d), bl_scalar_highest((bl_dtype)d),
                                   bl_scalar_cast((bl_dtype)d, BL_I32, (bl_scalar){.i = 1})};

            for (size_t i = 0; i < 3; i++) {
                bl_scalar v[2] = {identity, values[i]};

                assert_int_equal(bl_eval(folds[f], (bl_dtype)d, v).u, values[i].u);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_op_has_a_meaning),
        cmocka_unit_test(integers_are_total),
        cmocka_unit_test(bytes_are_exhaustive),
        cmocka_unit_test(integers_by_hand),
        cmocka_unit_test(bools_are_logic),
        cmocka_unit_test(floats_by_hand),
        cmocka_unit_test(floats_are_total),
        cmocka_unit_test(where_keeps_bits),
        cmocka_unit_test(bitcasts),
        cmocka_unit_test(identities_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
