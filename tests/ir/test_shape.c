/* SPDX-License-Identifier: MIT */
/* Shapes of movement ops with numbers and named dimensions, and the errors of mismatches. */
#include "engine/ir/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bl_ir *ir;
static const bl_node *batch, *seq;

static int start(void **state)
{
    static const char *const names[] = {"batch", "seq", "side"};
    static const int64_t steps[] = {1, 1, 32};

    (void)state;
    ir = bl_ir_create(0);
    if (ir == NULL)
        return 1;
    bl_ir_name_vars(ir, 3, names, steps);
    batch = bl_var(ir, 0, 1, 4096);
    seq = bl_var(ir, 1, 1, 100);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    bl_ir_destroy(ir);
    return 0;
}

static const bl_node *n(int64_t value)
{
    return bl_index(ir, value);
}

#define DIMS(...)                                                                                                                \
    (const bl_node *const[])                                                                                                     \
    {                                                                                                                            \
        __VA_ARGS__                                                                                                              \
    }

static const bl_node *input(int ndim, const bl_node *const *dim)
{
    return bl_input(ir, 0, BL_F32, ndim, dim);
}

static void is_shape(const bl_node *x, const char *wanted)
{
    bl_err err = {0};

    if (bl_ir_status(ir, &err) != BL_OK)
        fail_msg("%s, wanted %s", err.text, wanted);
    if (strcmp(bl_shape_text(ir, x->ndim, x->dim, NULL), wanted) != 0)
        fail_msg("%s, wanted %s", bl_shape_text(ir, x->ndim, x->dim, NULL), wanted);
}

static void movement_infers_shapes(void **state)
{
    const bl_node *x = input(3, DIMS(n(2), n(3), n(4)));

    (void)state;
    is_shape(bl_reshape(ir, x, 2, DIMS(n(6), n(4))), "[6, 4]");
    is_shape(bl_permute(ir, x, (const int[]){2, 0, 1}), "[4, 2, 3]");
    is_shape(bl_expand(ir, bl_reshape(ir, x, 4, DIMS(n(1), n(2), n(3), n(4))), 4, DIMS(n(5), n(2), n(3), n(4))), "[5, 2, 3, 4]");
    is_shape(bl_expand(ir, x, 4, DIMS(n(7), n(2), n(3), n(4))), "[7, 2, 3, 4]");
    is_shape(bl_pad(ir, x, DIMS(n(0), n(1), n(0)), DIMS(n(0), n(2), n(5))), "[2, 6, 9]");
    is_shape(bl_shrink(ir, x, DIMS(n(0), n(1), n(0)), DIMS(n(2), n(2), n(4))), "[2, 2, 4]");
    is_shape(bl_flip(ir, x, 5), "[2, 3, 4]");
    is_shape(bl_window(ir, x, 2, 2, 1, 2), "[2, 3, 2, 2]");
    is_shape(bl_window(ir, x, 2, 3, 2, 1), "[2, 3, 1, 3]");
    is_shape(bl_reduce(ir, BL_OP_ADD, x, 5), "[1, 3, 1]");
    is_shape(bl_gather(ir, x, bl_input(ir, 1, BL_I64, 3, DIMS(n(2), n(9), n(4))), 1), "[2, 9, 4]");
    is_shape(bl_full_like(ir, x, 2.5), "[2, 3, 4]");
    is_shape(bl_iota(ir, BL_I32, n(9)), "[9]");
}

/* A VAR that counts steps of 32 is printed as the dimension, or as a part or a multiple of it. */
static void steps_are_told_as_sizes(void **state)
{
    const bl_node *steps = bl_var(ir, 2, 1, 40), *side = bl_mul(ir, steps, n(32));

    (void)state;
    is_shape(input(3, DIMS(side, steps, bl_mul(ir, side, n(2)))), "[side, side/32, 2*side]");
    is_shape(input(2, DIMS(bl_idiv(ir, side, n(16)), bl_mul(ir, steps, n(24)))), "[side/16, 24*side/32]");
    is_shape(input(1, DIMS(bl_add(ir, bl_idiv(ir, bl_add(ir, side, n(31)), n(32)), batch))), "[batch + side/32]");
    assert_ptr_equal(bl_idiv(ir, bl_add(ir, side, n(15)), n(16)), bl_mul(ir, bl_idiv(ir, bl_add(ir, side, n(31)), n(32)), n(2)));
}

static void what_changes_nothing_is_the_same_node(void **state)
{
    const bl_node *x = input(2, DIMS(n(2), n(3)));
    const bl_node *turned = bl_permute(ir, x, (const int[]){1, 0});

    (void)state;
    assert_ptr_equal(bl_reshape(ir, x, 2, DIMS(n(2), n(3))), x);
    assert_ptr_equal(bl_reshape(ir, bl_reshape(ir, x, 1, DIMS(n(6))), 2, DIMS(n(2), n(3))), x);
    assert_ptr_equal(bl_permute(ir, x, (const int[]){0, 1}), x);
    assert_ptr_equal(bl_permute(ir, turned, (const int[]){1, 0}), x);
    assert_ptr_equal(bl_expand(ir, x, 2, DIMS(n(2), n(3))), x);
    assert_ptr_equal(bl_pad(ir, x, DIMS(n(0), n(0)), DIMS(n(0), n(0))), x);
    assert_ptr_equal(bl_shrink(ir, x, DIMS(n(0), n(0)), DIMS(n(2), n(3))), x);
    assert_ptr_equal(bl_flip(ir, bl_flip(ir, x, 3), 3), x);
    assert_ptr_equal(bl_flip(ir, x, 0), x);
    assert_ptr_equal(bl_reduce(ir, BL_OP_ADD, bl_reduce(ir, BL_OP_ADD, x, 1), 1), bl_reduce(ir, BL_OP_ADD, x, 1));
    assert_ptr_equal(bl_detach(ir, bl_detach(ir, x)), bl_detach(ir, x));
}

static void permutations_compose(void **state)
{
    const bl_node *x = input(3, DIMS(n(2), n(3), n(4)));
    const bl_node *once = bl_permute(ir, x, (const int[]){1, 2, 0});
    const bl_node *twice = bl_permute(ir, once, (const int[]){1, 2, 0});

    (void)state;
    assert_ptr_equal(twice, bl_permute(ir, x, (const int[]){2, 0, 1}));
    assert_ptr_equal(bl_permute(ir, twice, (const int[]){1, 2, 0}), x);
    assert_int_equal(bl_perm_get(twice->arg, 0), 2);
}

static void named_dimensions_count_elements(void **state)
{
    const bl_node *x = input(3, DIMS(batch, n(28), n(28)));
    const bl_node *two = input(3, DIMS(batch, seq, n(8)));

    (void)state;
    is_shape(bl_reshape(ir, x, 2, DIMS(batch, n(784))), "[batch, 784]");
    is_shape(bl_reshape(ir, x, 1, DIMS(bl_mul(ir, n(784), batch))), "[batch*784]");
    is_shape(bl_reshape(ir, x, 2, DIMS(bl_mul(ir, bl_mul(ir, n(2), batch), n(14)), n(28))), "[batch*28, 28]");
    is_shape(bl_reshape(ir, two, 2, DIMS(bl_mul(ir, seq, batch), n(8))), "[batch*seq, 8]");
    is_shape(bl_pad(ir, x, DIMS(n(1), n(0), n(0)), DIMS(n(2), n(0), n(0))), "[batch + 3, 28, 28]");
    is_shape(bl_shrink(ir, x, DIMS(n(0), n(1), n(1)), DIMS(batch, n(26), n(26))), "[batch, 26, 26]");
    assert_ptr_equal(bl_shape_count(ir, 3, x->dim), bl_mul(ir, n(784), batch));
}

static void windows_of_named_dimensions(void **state)
{
    const bl_node *x = input(1, DIMS(bl_add(ir, batch, n(4))));
    const bl_node *w = bl_window(ir, x, 0, 3, 2, 1);
    int axis = -1;
    int64_t stride = 0, dilation = 0;

    (void)state;
    bl_window_get(w->arg, &axis, &stride, &dilation);
    assert_int_equal(axis, 0);
    assert_int_equal(stride, 2);
    assert_int_equal(dilation, 1);
    for (int64_t b = 1; b < 20; b++) {
        int64_t vars[2] = {b, 1};
        assert_int_equal(bl_extent_eval(w->dim[0], vars), (b + 4 - 2 - 1) / 2 + 1);
        assert_int_equal(bl_extent_eval(w->dim[1], vars), 3);
    }
}

static void largest_counts_are_checked(void **state)
{
    int64_t count = 0;

    (void)state;
    assert_true(bl_shape_max_count(2, DIMS(batch, n(784)), &count));
    assert_int_equal(count, 4096 * 784);
    assert_true(bl_shape_max_count(0, NULL, &count));
    assert_int_equal(count, 1);
    assert_false(bl_shape_max_count(3, DIMS(n(INT64_C(1) << 40), n(INT64_C(1) << 20), n(8)), &count));
}

static void refused(const bl_node *got, const char *wanted)
{
    bl_err err = {0};

    if (got->op != BL_OP_POISON || bl_ir_status(ir, &err) != BL_EGRAPH || strcmp(err.text, wanted) != 0)
        fail_msg("%s: \"%s\", wanted \"%s\"", bl_op_name((bl_op)got->op), err.text, wanted);
    stop(NULL); /* errors are sticky, so the test continues with a new bl_ir */
    start(NULL);
}

static void what_does_not_fit_is_said(void **state)
{
#define X input(2, DIMS(n(2), n(3)))
    (void)state;
    refused(bl_add(ir, X, input(1, DIMS(n(4)))), "add: shapes differ: [2, 3] and [4]");
    refused(bl_add(ir, X, input(2, DIMS(batch, n(3)))), "add: shapes differ: [2, 3] and [batch, 3]");
    refused(bl_reshape(ir, X, 1, DIMS(n(7))), "reshape: [2, 3] and [7] have different numbers of elements");
    refused(bl_reshape(ir, X, 1, DIMS(batch)), "reshape: [2, 3] and [batch] have different numbers of elements");
    refused(bl_permute(ir, X, (const int[]){0, 0}), "permute: the given axes are not a permutation of the 2 axes of [2, 3]");
    refused(bl_expand(ir, X, 2, DIMS(n(2), n(4))), "expand: [2, 3] cannot become [2, 4]");
    refused(bl_expand(ir, X, 1, DIMS(n(3))), "expand: [2, 3] cannot become [3]");
    refused(bl_pad(ir, X, DIMS(n(0), n(-1)), DIMS(n(0), n(0))), "pad: the amount at axis 1 of [2, 3] is negative");
    refused(bl_shrink(ir, X, DIMS(n(0), n(1)), DIMS(n(2), n(3))), "shrink: the box at axis 1 of [2, 3] reaches outside");
    refused(bl_flip(ir, X, 4), "flip: an axis does not exist in [2, 3]");
    refused(bl_window(ir, X, 1, 4, 1, 1), "window: 4 elements, 1 apart, do not fit in axis 1 of [2, 3]");
    refused(bl_reduce(ir, BL_OP_ADD, X, 4), "reduce: an axis does not exist in [2, 3]");
    refused(bl_gather(ir, X, X, 0), "gather: the index is float32, not an integer");
    refused(bl_alu1(ir, BL_OP_SQRT, bl_iota(ir, BL_I32, n(3))), "sqrt: takes floats, not int32");
    refused(bl_and(ir, X, X), "and: takes integers or bools, not float32");
    refused(bl_where(ir, X, X, X), "where: the condition is float32, not bool");
    refused(bl_bitcast(ir, BL_I16, X), "bitcast: float32 and int16 have different sizes");
    refused(bl_input(ir, 0, BL_F32, 1, DIMS(n(-1))), "input: an extent of [-1] can be negative");
#undef X
}

/* Size expressions of names stay small enough for cheap evaluation. */
static void extents_stay_small(void **state)
{
    const bl_node *extent = batch;
    bl_err err = {0};

    (void)state;
    for (int i = 0; i < 200 && extent->op != BL_OP_POISON; i++) {
        extent = bl_add(ir, bl_idiv(ir, bl_add(ir, extent, bl_mul(ir, seq, n(i % 5 + 2))), n(3)), bl_mod(ir, extent, n(5)));
        bl_input(ir, 0, BL_F32, 1, &extent);
    }
    assert_int_equal(bl_ir_status(ir, &err), BL_EGRAPH);
    assert_string_equal(err.text, "input: the extent of axis 0 is too long an expression");
    assert_true(strlen(bl_shape_text(ir, 1, &extent, NULL)) < 500);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(movement_infers_shapes, start, stop),
        cmocka_unit_test_setup_teardown(steps_are_told_as_sizes, start, stop),
        cmocka_unit_test_setup_teardown(what_changes_nothing_is_the_same_node, start, stop),
        cmocka_unit_test_setup_teardown(permutations_compose, start, stop),
        cmocka_unit_test_setup_teardown(named_dimensions_count_elements, start, stop),
        cmocka_unit_test_setup_teardown(windows_of_named_dimensions, start, stop),
        cmocka_unit_test_setup_teardown(largest_counts_are_checked, start, stop),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_said, start, stop),
        cmocka_unit_test_setup_teardown(extents_stay_small, start, stop),
    };

    return cmocka_run_group_tests_name("ir/shape", tests, NULL, NULL);
}
