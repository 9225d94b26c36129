/* SPDX-License-Identifier: MIT */
/* Vectorised evaluation gives the results of separate evaluation, and casts those of bl_scalar_cast. */
#include "engine/ir/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { VALUES = 24, LONG = 70 };

/* Special values of a dtype: bounds, zeros of both signs, NaN, and some ordinary values. */
static int odd_values(bl_dtype dtype, bl_scalar out[VALUES])
{
    static const double real[] = {0.0, -0.0,     1.0,       -1.0,     0.5,  -2.75, 3.0,    1e10,       -1e30,       1e300,
                                  NAN, INFINITY, -INFINITY, 1.000001, 7.25, 1e-40, 5e-324, 16777217.0, 2147483648.0};
    static const int64_t whole[] = {0,  1,         -1,        2,         3,         -3,         7,      -7,    31,     32,
                                    33, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, UINT32_MAX, 100000, 12345, -99999, 64};
    int n = 0;

    if (bl_dtype_is_float(dtype)) {
        for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
            out[n++] = bl_scalar_fit(dtype, (bl_scalar){.f = real[i]});
        return n;
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        out[n++] = bl_scalar_fit(dtype, (bl_scalar){.i = whole[i]});
    out[n++] = bl_scalar_lowest(dtype);
    out[n++] = bl_scalar_highest(dtype);
    return n;
}

typedef struct evaluation {
    bl_op op;
    bl_dtype dtype, from; /* dtype of the result, and of the operands */
} evaluation;

static bool same(bl_dtype dtype, bl_scalar a, bl_scalar b)
{
    return a.u == b.u || (bl_dtype_is_float(dtype) && isnan(a.f) && isnan(b.f));
}

static void check_values(const evaluation *how, const bl_scalar operand[3], int nargs)
{
    bl_scalar in[3][LONG], out[LONG], want;
    const bl_scalar *args[3] = {NULL, NULL, NULL};

    for (int k = 0; k < nargs; k++) {
        args[k] = in[k];
        for (int i = 0; i < LONG; i++)
            in[k][i] = operand[k];
    }
    bl_eval_many(how->op, how->dtype, how->from, LONG, out, args);
    if (how->op == BL_OP_CAST)
        want = bl_scalar_cast(how->dtype, how->from, operand[0]);
    else if (how->op == BL_OP_BITCAST)
        want = bl_eval_bitcast(how->dtype, how->from, operand[0]);
    else
        want = bl_eval(how->op, how->from, operand);
    for (int i = 0; i < LONG; i += LONG - 1)
        if (!same(how->dtype, want, out[i]))
            fail_msg("%s %s from %s of %llx, %llx, %llx: want %llx, got %llx", bl_op_name(how->op), bl_dtype_name(how->dtype),
                     bl_dtype_name(how->from), (unsigned long long)operand[0].u, (unsigned long long)operand[1].u,
                     (unsigned long long)operand[2].u, (unsigned long long)want.u, (unsigned long long)out[i].u);
}

static void check_op(bl_op op, int nargs, bl_dtype from)
{
    evaluation how = {op, bl_op_flags(op) & BL_OPF_COMPARE ? BL_BOOL : from, from};
    bl_scalar values[VALUES];
    int n = odd_values(from, values);

    for (int x = 0; x < (op == BL_OP_WHERE ? 2 : n); x++)
        for (int y = 0; y < (nargs > 1 ? n : 1); y++)
            for (int z = 0; z < (nargs > 2 ? n : 1); z += 3) {
                bl_scalar operand[3] = {values[x], values[y], values[z]};

                if (op == BL_OP_WHERE)
                    operand[0].u = (uint64_t)x;
                check_values(&how, operand, nargs);
            }
}

static void ops(void **state)
{
    int checked = 0;

    (void)state;
    for (int op = 0; op < BL_OP_COUNT; op++) {
        if (bl_op_get_class((bl_op)op) != BL_CLASS_ALU || op == BL_OP_CAST || op == BL_OP_BITCAST)
            continue;
        for (int from = 0; from < BL_DTYPE_WIRE; from++)
            if (bl_op_takes((bl_op)op, (bl_dtype)from)) {
                check_op((bl_op)op, bl_op_sources((bl_op)op), (bl_dtype)from);
                checked++;
            }
    }
    assert_true(checked > 200);
}

static void casts(void **state)
{
    (void)state;
    for (int from = 0; from < BL_DTYPE_WIRE; from++)
        for (int to = 0; to < BL_DTYPE_WIRE; to++) {
            bl_scalar values[VALUES];
            int n = odd_values((bl_dtype)from, values);

            for (int i = 0; i < n; i++) {
                check_values(&(evaluation){BL_OP_CAST, (bl_dtype)to, (bl_dtype)from}, (bl_scalar[3]){values[i]}, 1);
                if (bl_dtype_bytes((bl_dtype)from) == bl_dtype_bytes((bl_dtype)to))
                    check_values(&(evaluation){BL_OP_BITCAST, (bl_dtype)to, (bl_dtype)from}, (bl_scalar[3]){values[i]}, 1);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops), cmocka_unit_test(casts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
