/* SPDX-License-Identifier: MIT */
/* Graphs as text: there and back exactly, and bad texts refused with their line. */
#include "engine/ir/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ROOTS = 4 };

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

/* Print, parse in a fresh ir, print again: one text. */
static void there_and_back(int nroots, const bl_node *const *roots)
{
    bl_ir *other = bl_ir_create(0);
    const bl_node *again[MAX_ROOTS];
    bl_text first = {0}, second = {0};
    bl_err err = {0};
    int nagain = 0;

    assert_int_equal(bl_ir_status(ir, &err), BL_OK);
    bl_ir_print(ir, nroots, roots, &first);
    if (bl_ir_parse(other, first.data, MAX_ROOTS, again, &nagain, &err) != BL_OK)
        fail_msg("%s\n%s", err.text, first.data);
    assert_int_equal(nagain, nroots);
    bl_ir_print(other, nagain, again, &second);
    assert_string_equal(second.data, first.data);
    for (int i = 0; i < nroots; i++)
        assert_int_equal(roots[i]->hash, again[i]->hash);
    bl_text_fini(&first);
    bl_text_fini(&second);
    bl_ir_destroy(other);
}

static void tensor_graphs_come_back(void **state)
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
    there_and_back(3, roots);
}

static void loop_nests_come_back(void **state)
{
    const bl_node *in = bl_param(ir, 1, BL_F16, false), *out = bl_param(ir, 0, BL_F32, false);
    const bl_node *r = bl_range(ir, 0, BL_AXIS_GLOBAL, bl_var(ir, 0, 1, 9)),
                  *k = bl_range(ir, 1, BL_AXIS_REDUCE, bl_index(ir, 24));
    const bl_node *at = bl_add(ir, bl_mul(ir, r, bl_index(ir, 96)), bl_add(ir, bl_mul(ir, k, bl_index(ir, 4)), bl_lane(ir, 4)));
    const bl_node *x = bl_cast(ir, BL_F32, bl_load(ir, in, at, bl_less(ir, at, bl_index(ir, 95))));
    const bl_node *both[2] = {
        x, bl_stack(ir, 4,
                    (const bl_node *const[]){bl_const_float(ir, BL_F32, 1), bl_const_float(ir, BL_F32, INFINITY),
                                             bl_const_float(ir, BL_F32, NAN), bl_const_float(ir, BL_F32, 0.1)})};
    const bl_node *sum = bl_fold(ir, BL_OP_MAX, bl_reduce_over(ir, BL_OP_ADD, 2, both, 1, &k));
    const bl_node *store = bl_store(ir, out, r, sum, NULL), *sink = bl_sink(ir, 1, &store);

    (void)state;
    there_and_back(1, &sink);
}

static void every_constant_comes_back(void **state)
{
    static const double floats[] = {0.0, -0.0, 0.1, 1e-45, 65504, 1e300, INFINITY, -INFINITY, NAN, 5e-324};

    (void)state;
    for (int dtype = 0; dtype < BL_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
            const bl_node *x = bl_const_float(ir, (bl_dtype)dtype, floats[i]);
            there_and_back(1, &x);
        }
        const bl_node *lowest = bl_const(ir, (bl_dtype)dtype, bl_scalar_lowest((bl_dtype)dtype));
        const bl_node *highest = bl_const(ir, (bl_dtype)dtype, bl_scalar_highest((bl_dtype)dtype));
        there_and_back(1, &lowest);
        there_and_back(1, &highest);
    }
}

static void the_format_is_as_documented(void **state)
{
    static const char text[] = "# a comment\n"
                               "%0 = input float32[2, 3] arg=0\n"
                               "\n"
                               "%1 = const float32 2.5   # another\n"
                               "%2 = expand float32[2, 3] %1\n"
                               "%3 = mul float32[2, 3] %0 %2\n"
                               "%4 = reduce float32[2, 1] %3 sub=add arg=2\n";
    const bl_node *root = NULL;
    bl_text out = {0};
    bl_err err = {0};
    int nroots = 0;

    (void)state;
    assert_int_equal(bl_ir_parse(ir, text, 1, &root, &nroots, &err), BL_OK);
    assert_int_equal(nroots, 1);
    bl_ir_print(ir, 1, &root, &out);
    assert_string_equal(out.data, "%0 = input float32[2, 3] arg=0\n"
                                  "%1 = const float32 2.5\n"
                                  "%2 = expand float32[2, 3] %1\n"
                                  "%3 = mul float32[2, 3] %0 %2\n"
                                  "%4 = reduce float32[2, 1] %3 sub=add arg=2\n");
    bl_text_fini(&out);
}

static void bad_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"hello", "line 1: expected %0"},
        {"%0 = const float32 1\n%2 = const float32 1", "line 2: expected %1 ="},
        {"%0 = frobnicate float32", "line 1: no op \"frobnicate\""},
        {"%0 = const float33 1", "line 1: expected a dtype"},
        {"%0 = const float32x99 1", "line 1: expected a dtype"},
        {"%0 = const int8 200", "line 1: int8 cannot hold 200"},
        {"%0 = const uint8 -1", "line 1: a negative uint8"},
        {"%0 = const int64 9223372036854775808", "line 1: expected a value"},
        {"%0 = const float32", "line 1: expected a value"},
        {"%0 = neg float32 %0", "line 1: %0 is not above"},
        {"%0 = const float32 1\n%1 = neg float32", "line 2: neg: number of sources"},
        {"%0 = const float32 1\n%1 = neg float64 %0", "line 2: neg: dtype of the result"},
        {"%0 = const float32 1\n%1 = and float32 %0 %0", "line 2: and: takes integers"},
        {"%0 = input float32[2 arg=0", "line 1: expected ]"},
        {"%0 = input float32[-2] arg=0", "line 1: input: an extent is no size"},
        {"%0 = input float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] arg=0", "line 1: too many dimensions"},
        {"%0 = input float32[6] arg=0\n%1 = reshape float32[7] %0", "line 2: reshape: the shape is not what its builder infers"},
        {"%0 = input float32[6] arg=0\n%1 = permute float32[6] %0 arg=1", "line 2: permute: no permutation"},
        {"%0 = input float32[6] arg=0\n%1 = reduce float32[6] %0 sub=add arg=1", "line 2: reduce: shape"},
        {"%0 = input float32[6] arg=0\n%1 = reduce float32[1] %0 sub=neg arg=1", "line 2: reduce: fold or dtype"},
        {"%0 = input float32[6] arg=0\n%1 = window float32[4, 3] %0 arg=0",
         "line 2: window: the shape is not what its builder infers"},
        {"%0 = const float32 1 colour=red", "line 1: no attribute \"colour\""},
        {"%0 = const index 1\n%1 = range index %0 sub=sideways", "line 2: sub=sideways"},
        {"%0 = var index arg=0 lo=5 hi=2", "line 1: var: no named dimension"},
        {"%0 = poison float32", "line 1: poison: poison"},
        {"%0 = loop index", "line 1: loop: number of sources"},
        {"%0 = end float32", "line 1: end: only a linear kernel has this"},
        {"%0 = const float32 1\n%1 = const float32 2", "more than 1 nodes are used by no other"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bl_node *root = NULL;
        bl_err err = {0};
        int nroots = 0;

        start(NULL);
        if (bl_ir_parse(ir, cases[i].text, 1, &root, &nroots, &err) != BL_EINVAL || strcmp(err.text, cases[i].error) != 0)
            fail_msg("%s\ngave \"%s\", wanted \"%s\"", cases[i].text, err.text, cases[i].error);
        stop(NULL);
    }
}

/* No damage to a good text may do more than fail. */
static void damaged_texts_do_no_harm(void **state)
{
    static const char text[] =
        "%0 = var index arg=0 lo=1 hi=64\n%1 = input float32[%0, 8] arg=1\n%2 = const index 0\n"
        "%3 = pad float32[%0, 10] %1 %2 %2\n%4 = permute float32[10, %0] %3 arg=1\n"
        "%5 = reduce float32[1, %0] %4 sub=max arg=1\n%6 = const index 16\n%7 = range index %6 sub=loop arg=2\n"
        "%8 = buffer float32 arg=0\n%9 = load float32 %8 %7\n%10 = cast int8 %9\n%11 = add int8 %10 %10\n";
    uint64_t seed = 99;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char damaged[sizeof text];
        const bl_node *roots[MAX_ROOTS];
        bl_ir *victim = bl_ir_create(1 << 20);
        bl_err err = {0};
        int nroots = 0;

        memcpy(damaged, text, sizeof text);
        for (int k = 0; k < 1 + i % 3; k++) {
            static const char bytes[] = "0123456789%=[], #\nx-sub";
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            damaged[(seed >> 33) % (sizeof text - 1)] = bytes[(seed >> 20) % (sizeof bytes - 1)];
        }
        if (bl_ir_parse(victim, damaged, MAX_ROOTS, roots, &nroots, &err) == BL_OK)
            assert_true(nroots <= MAX_ROOTS);
        else
            assert_true(err.text[0] != '\0');
        bl_ir_destroy(victim);
    }
}

static void deep_graphs_print_without_recursion(void **state)
{
    const bl_node *x = bl_load(ir, bl_param(ir, 0, BL_F32, false), bl_index(ir, 0), NULL);

    (void)state;
    for (int i = 0; i < 20000; i++)
        x = bl_alu1(ir, i % 2 ? BL_OP_SIN : BL_OP_EXP, x);
    there_and_back(1, &x);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensor_graphs_come_back, start, stop),
        cmocka_unit_test_setup_teardown(loop_nests_come_back, start, stop),
        cmocka_unit_test_setup_teardown(every_constant_comes_back, start, stop),
        cmocka_unit_test_setup_teardown(the_format_is_as_documented, start, stop),
        cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(damaged_texts_do_no_harm),
        cmocka_unit_test_setup_teardown(deep_graphs_print_without_recursion, start, stop),
    };

    return cmocka_run_group_tests_name("ir/text", tests, NULL, NULL);
}
