/* SPDX-License-Identifier: MIT */
/* The text form of graphs. */
#include "engine/ir/ir_text.h"
#include "engine/ir/matrix_unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bl_ir *ir;

static int start(void **state)
{
    (void)state;
    ir = bl_ir_create(0);
    return ir == NULL;
}

static int stop(void **state)
{
    (void)state;
    bl_ir_destroy(ir);
    return 0;
}

static void expect_text(int nroots, const bl_node *const *roots, const char *wanted)
{
    bl_text out = {0};
    bl_err err = {0};

    assert_int_equal(bl_ir_status(ir, &err), BL_OK);
    bl_ir_print(ir, nroots, roots, &out);
    assert_string_equal(out.data, wanted);
    bl_text_fini(&out);
}

static void tensor_graphs(void **state)
{
    const bl_node *b = bl_var(ir, 0, 1, 64), *dim[3] = {b, bl_index(ir, 28), bl_index(ir, 28)};
    const bl_node *x = bl_input(ir, 3, BL_F32, 3, dim);
    const bl_node *zero = bl_index(ir, 0), *one = bl_index(ir, 1);
    const bl_node *padded = bl_pad(ir, x, (const bl_node *const[]){zero, one, one}, (const bl_node *const[]){zero, one, zero});
    const bl_node *windows = bl_window(ir, bl_window(ir, padded, 1, 3, 2, 1), 2, 3, 1, 2);
    const bl_node *sum = bl_reduce(ir, BL_OP_ADD, windows, 0x18);
    const bl_node *flat = bl_reshape(ir, x, 2, (const bl_node *const[]){b, bl_index(ir, 784)});
    const bl_node *cut = bl_shrink(ir, flat, (const bl_node *const[]){zero, one}, (const bl_node *const[]){b, bl_index(ir, 9)});
    const bl_node *index = bl_cast(ir, BL_I64, bl_flip(ir, cut, 2));
    const bl_node *roots[3] = {sum, bl_gather(ir, flat, index, 1),
                               bl_detach(ir, bl_mul(ir, bl_contiguous(ir, x), bl_full_like(ir, x, -0.0)))};

    (void)state;
    expect_text(3, roots,
                "%0 = var index arg=0 lo=1 hi=64\n"
                "%1 = input float32[%0, 28, 28] arg=3\n"
                "%2 = const index 0\n"
                "%3 = const index 1\n"
                "%4 = pad float32[%0, 30, 29] %1 %2 %3 %3\n"
                "%5 = window float32[%0, 14, 29, 3] %4 arg=72057594574798849\n"
                "%6 = window float32[%0, 14, 25, 3, 3] %5 arg=144115188344291330\n"
                "%7 = reduce float32[%0, 14, 25, 1, 1] %6 sub=add arg=24\n"
                "%8 = reshape float32[%0, 784] %1\n"
                "%9 = shrink float32[%0, 9] %8 %2 %3\n"
                "%10 = flip float32[%0, 9] %9 arg=2\n"
                "%11 = cast int64[%0, 9] %10\n"
                "%12 = gather float32[%0, 9] %8 %11 arg=1\n"
                "%13 = const float32 -0\n"
                "%14 = expand float32[%0, 28, 28] %13\n"
                "%15 = contiguous float32[%0, 28, 28] %1\n"
                "%16 = mul float32[%0, 28, 28] %14 %15\n"
                "%17 = detach float32[%0, 28, 28] %16\n");
}

static void matrices(void **state)
{
    bl_matrix shape = {8, 8, 8, 8, 1, 15, BL_F16, BL_F32, false}, back = {0};
    bl_text printed = {0};
    const bl_node *eight = bl_index(ir, 8), *row = bl_range(ir, 0, BL_AXIS_MATRIX, eight),
                  *column = bl_range(ir, 1, BL_AXIS_MATRIX, eight), *depth = bl_range(ir, 70, BL_AXIS_MATRIX, eight);
    const bl_node *a = bl_load(ir, bl_param(ir, 1, BL_F16, false), bl_add(ir, bl_mul(ir, row, eight), depth), NULL),
                  *b = bl_load(ir, bl_param(ir, 2, BL_F16, false), bl_add(ir, bl_mul(ir, depth, eight), column), NULL);
    const bl_node *product = bl_mul(ir, bl_cast(ir, BL_F32, a), bl_cast(ir, BL_F32, b)),
                  *sum = bl_reduce_over(ir, BL_OP_ADD, 1, &product, 1, &depth);
    const bl_node *element = bl_matrix_element(ir, bl_matrix_node(ir, shape, sum, row, column), bl_index(ir, 3));

    (void)state;
    expect_text(1, &element,
                "%0 = buffer float16 arg=2\n"
                "%1 = const index 8\n"
                "%2 = range index %1 sub=matrix arg=1\n"
                "%3 = range index %1 sub=matrix arg=70\n"
                "%4 = mul index %3 %1\n"
                "%5 = add index %2 %4\n"
                "%6 = load float16 %0 %5\n"
                "%7 = cast float32 %6\n"
                "%8 = buffer float16 arg=1\n"
                "%9 = range index %1 sub=matrix arg=0\n"
                "%10 = mul index %9 %1\n"
                "%11 = add index %10 %3\n"
                "%12 = load float16 %8 %11\n"
                "%13 = cast float32 %12\n"
                "%14 = mul float32 %7 %13\n"
                "%15 = reduce float32 %14 %3 sub=add arg=1\n"
                "%16 = matrix float32 %15 %9 %2 shape=8x8x8 8,1,15 float16 float32\n"
                "%17 = const index 3\n"
                "%18 = load float32 %16 %17\n");
    assert_int_equal(bl_matrix_parse("8x8x8 8,1,15 float16 float32, tile", &back), 28);
    assert_int_equal(bl_matrix_pack(back), bl_matrix_pack(shape));
    assert_int_equal(bl_matrix_parse("8x8x256 8,1,15 float16 float32", &back), 0);
    assert_int_equal(bl_matrix_parse("8x8 8,1,15 float16 float32", &back), 0);
    assert_int_equal(bl_matrix_parse("8x8x8 8,1,143 float16 float32", &back), 0);
    assert_int_equal(bl_matrix_parse("16x16x32 1,2,17 bfloat16x3 float32", &back), 34);
    assert_true(back.split && back.from == BL_BF16 && back.layouts == 17 && bl_matrix_is_valid(back));
    assert_int_equal(bl_matrix_pack(bl_matrix_unpack(bl_matrix_pack(back))), bl_matrix_pack(back));
    assert_int_not_equal(bl_matrix_pack(bl_matrix_unsplit(back)), bl_matrix_pack(back));
    bl_matrix_print(back, &printed);
    assert_string_equal(bl_text_get(&printed), "16x16x32 1,2,17 bfloat16x3 float32");
    bl_text_fini(&printed);
    back.from = BL_F16;
    assert_false(bl_matrix_is_valid(back)); /* the exponent range of float16 is too small for halves */
}

static void loop_nests(void **state)
{
    const bl_node *in = bl_param(ir, 1, BL_F16, false), *out = bl_param(ir, 0, BL_F32, false);
    const bl_node *r = bl_range(ir, 0, BL_AXIS_GLOBAL, bl_var(ir, 0, 1, 9)),
                  *k = bl_range(ir, 1, BL_AXIS_REDUCE, bl_index(ir, 24));
    const bl_node *at =
        bl_add(ir, bl_mul(ir, r, bl_index(ir, 96)), bl_add(ir, bl_mul(ir, k, bl_index(ir, 4)), bl_lane(ir, 0, 4)));
    const bl_node *x = bl_cast(ir, BL_F32, bl_load(ir, in, at, bl_less(ir, at, bl_index(ir, 95))));
    const bl_node *both[2] = {
        x, bl_stack(ir, 4,
                    (const bl_node *const[]){bl_const_float(ir, BL_F32, 1), bl_const_float(ir, BL_F32, INFINITY),
                                             bl_const_float(ir, BL_F32, NAN), bl_const_float(ir, BL_F32, 0.1)})};
    const bl_node *sum = bl_fold(ir, BL_OP_MAX, bl_reduce_over(ir, BL_OP_ADD, 2, both, 1, &k));
    const bl_node *store = bl_store(ir, out, r, sum, NULL), *sink = bl_sink(ir, 1, &store);

    (void)state;
    expect_text(1, &sink,
                "%0 = buffer float32 arg=0\n"
                "%1 = var index arg=0 lo=1 hi=9\n"
                "%2 = range index %1 sub=global arg=0\n"
                "%3 = buffer float16 arg=1\n"
                "%4 = const index 96\n"
                "%5 = mul index %2 %4\n"
                "%6 = const index 24\n"
                "%7 = range index %6 sub=reduce arg=1\n"
                "%8 = const index 4\n"
                "%9 = mul index %7 %8\n"
                "%10 = add index %5 %9\n"
                "%11 = lane indexx4\n"
                "%12 = add indexx4 %10 %11\n"
                "%13 = const index 95\n"
                "%14 = cmplt boolx4 %12 %13\n"
                "%15 = load float16x4 %3 %12 %14\n"
                "%16 = cast float32x4 %15\n"
                "%17 = const float32 1\n"
                "%18 = const float32 inf\n"
                "%19 = const float32 nan\n"
                "%20 = const float32 0.10000000149011612\n"
                "%21 = stack float32x4 %17 %18 %19 %20\n"
                "%22 = reduce float32x4 %16 %21 %7 sub=add arg=2\n"
                "%23 = fold float32 %22 sub=max\n"
                "%24 = store float32 %0 %2 %23\n"
                "%25 = sink bool %24\n");
}

/* Different constants have different texts, and decimals read back exactly. */
static void every_constant_has_its_text(void **state)
{
    static const double floats[] = {0.0, -0.0, 0.1, 1e-45, 65504, 1e300, INFINITY, -INFINITY, 5e-324};
    static const struct {
        bl_dtype dtype;
        bl_scalar value;
        const char *text;
    } others[] = {
        {BL_F64, {.f = 0.1}, "0.10000000000000001"},
        {BL_F32, {.u = 0x7ff8000000000000}, "nan"},
        {BL_F64, {.u = 0x7ff800000000beef}, "0x7ff800000000beef"},
        {BL_I8, {.i = -128}, "-128"},
        {BL_INDEX, {.i = INT64_MIN}, "-9223372036854775808"},
        {BL_U64, {.u = UINT64_MAX}, "18446744073709551615"},
        {BL_BOOL, {.u = 1}, "1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        bl_scalar value = {.f = floats[i]}, back;
        bl_text out = {0};

        bl_scalar_print(BL_F64, value, &out);
        back.f = strtod(out.data, NULL);
        if (back.u != value.u)
            fail_msg("%g is printed as %s", value.f, out.data);
        bl_text_fini(&out);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        bl_text out = {0};

        bl_scalar_print(others[i].dtype, others[i].value, &out);
        assert_string_equal(out.data, others[i].text);
        bl_text_fini(&out);
    }
}

static void the_format_is_as_documented(void **state)
{
    const bl_node *dim[2] = {bl_index(ir, 2), bl_index(ir, 3)};
    const bl_node *x = bl_input(ir, 0, BL_F32, 2, dim);
    const bl_node *sum = bl_reduce(ir, BL_OP_ADD, bl_mul(ir, x, bl_full_like(ir, x, 2.5)), 2);

    (void)state;
    expect_text(1, &sum,
                "%0 = input float32[2, 3] arg=0\n"
                "%1 = const float32 2.5\n"
                "%2 = expand float32[2, 3] %1\n"
                "%3 = mul float32[2, 3] %0 %2\n"
                "%4 = reduce float32[2, 1] %3 sub=add arg=2\n");
}

static void deep_graphs_print_without_recursion(void **state)
{
    const bl_node *x = bl_load(ir, bl_param(ir, 0, BL_F32, false), bl_index(ir, 0), NULL);
    bl_text out = {0};
    size_t lines = 0;

    (void)state;
    for (int i = 0; i < 20000; i++)
        x = bl_alu1(ir, i % 2 ? BL_OP_SIN : BL_OP_EXP, x);
    bl_ir_print(ir, 1, &x, &out);
    for (const char *at = out.data; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 20003);
    bl_text_fini(&out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensor_graphs, start, stop),
        cmocka_unit_test_setup_teardown(loop_nests, start, stop),
        cmocka_unit_test_setup_teardown(matrices, start, stop),
        cmocka_unit_test_setup_teardown(every_constant_has_its_text, start, stop),
        cmocka_unit_test_setup_teardown(the_format_is_as_documented, start, stop),
        cmocka_unit_test_setup_teardown(deep_graphs_print_without_recursion, start, stop),
    };

    return cmocka_run_group_tests_name("ir/text", tests, NULL, NULL);
}
