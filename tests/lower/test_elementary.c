/* SPDX-License-Identifier: MIT */
/* exp, log and sin as exact arithmetic, compared with libm in double precision. */
#include "engine/interp/interp_kernel.h"
#include "engine/lower/lower.h"
#include "tests/lower/read_linear.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LANES = 4, MOST = 4096 };

static const char text[] = "linear f buffers=float32,float32 writes=1 scalars=0 local=1,1,1 localbytes=0\n"
                           "0 group_id int32 arg=0\n"
                           "1 const int32 4\n"
                           "2 mul int32 %%0 %%1\n"
                           "3 buffer float32 arg=1\n"
                           "4 load float32x4 %%3 %%2\n"
                           "5 %s float32x4 %%4\n"
                           "6 buffer float32 arg=0\n"
                           "7 store float32x4 %%6 %%2 %%5\n";

/* Computes y = op(x) with the arithmetic expansion of |op|. */
static void run(const char *op, const float *x, float *y, uint32_t n)
{
    bl_ir *ir = bl_ir_create(0);
    bl_interp_code *code = NULL;
    bl_lowered from = {0}, *exact = NULL;
    bl_err err = {0};
    bl_interp_memory memory[] = {{(unsigned char *)y, n * sizeof *y}, {(unsigned char *)(uintptr_t)x, n * sizeof *x}};
    bl_interp_launch launch = {.buffers = memory, .groups = {n / LANES, 1, 1}};
    char own[sizeof text + 8];

    snprintf(own, sizeof own, text, op);
    if (read_linear(bl_ir_arena(ir), own, strlen(own), &from.linear, &err) != BL_OK)
        fail_msg("%s", err.text);
    assert_false(bl_lower_is_exact(from.linear, true, false));
    if (bl_lower_exact(ir, &from, false, &exact, &err) != BL_OK ||
        bl_interp_compile(bl_ir_arena(ir), exact->linear, &code, &err) != BL_OK)
        fail_msg("%s", err.text);
    assert_true(bl_lower_is_exact(exact->linear, true, false));
    assert_false(bl_lower_is_exact(exact->linear, false, false));
    launch.scratch = aligned_alloc(16, (bl_interp_scratch(code) + 15) / 16 * 16);
    if (bl_interp_run(code, &launch, &err) != BL_OK)
        fail_msg("%s", err.text);
    free(launch.scratch);
    bl_ir_destroy(ir);
}

/* Error in units in the last place of the result, or of |least| for smaller results. */
static double error(float is, double wanted, double least)
{
    int exponent = 0;
    float rounded = (float)wanted;

    if (isnan(wanted) || isinf(rounded) || isnan(is) || isinf(is) || wanted == 0)
        return (isnan(wanted) ? isnan(is) : is == rounded && signbit(is) == signbit(rounded)) ? 0 : INFINITY;
    (void)frexp(wanted, &exponent);
    return fabs((double)is - wanted) / fmax(fmax(ldexp(1, exponent - 24), 0x1p-149), least);
}

typedef struct row {
    const char *op;
    double (*real)(double);
    float from, to;     /* evenly spaced arguments */
    double least, most; /* see error() */
} row;

/* OpenCL allows 3 units for exp and log, 4 for sin (OpenCL 1.2, table 7.4); small results of sin have the absolute bound of
 * results near 1. */
static const row rows[] = {
    {"exp", exp, -104, 89, 0, 1.2},          {"exp", exp, -1, 1, 0, 1.2},           {"log", log, 0x1p-149f, 0x1p-120f, 0, 1.2},
    {"log", log, 0.5f, 2, 0, 1.2},           {"log", log, 1, 3e38f, 0, 1.2},        {"sin", sin, -10, 10, 0x1p-25, 2},
    {"sin", sin, -16400, 16400, 0x1p-25, 2}, {"sin", sin, 16384, 1e6f, 0x1p-25, 2}, {"sin", sin, -3.4e38f, 3.4e38f, 0x1p-25, 2},
};
static const float special[] = {0.0f,      -0.0f,   INFINITY, -INFINITY,  NAN,      0x1p-149f, -0x1p-149f,
                                0x1p-126f, 1.0f,    -1.0f,    88.7228f,   88.7229f, -87.4f,    -103.9f,
                                -103.98f,  -104.1f, 3e38f,    16384.001f, 1e30f,    -1e20f};

static void test_functions(void **state)
{
    static float x[MOST], y[MOST];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        size_t n = sizeof special / sizeof *special;

        memcpy(x, special, sizeof special);
        for (size_t k = n; k < MOST; k++)
            x[k] = (float)((double)r->from + ((double)r->to - (double)r->from) * (double)(k - n) / (double)(MOST - 1 - n));
        run(r->op, x, y, MOST);
        for (size_t k = 0; k < MOST; k++) {
            double e = error(y[k], r->real((double)x[k]), r->least);
            if (!(e <= r->most))
                fail_msg("%s(%a) is %a, not %a: %g units", r->op, (double)x[k], (double)y[k], r->real((double)x[k]), e);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
