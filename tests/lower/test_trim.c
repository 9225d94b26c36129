/* SPDX-License-Identifier: MIT */
/* Sums whose gates become bounds of their loops: y[i] is the sum over k of w[k] * g[i - k] for 0 <= i - k < 6, as in the
 * gradient of a convolution of 10 by 5. */
#include "engine/ir/rewrite.h"
#include "engine/ir/verify.h"
#include "engine/lower/lower.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { OUTPUTS = 10, TAPS = 5, GIVEN = 6 };

typedef struct counts {
    int loops, fixed_loops, gated_loads, choices;
} counts;

/* Counts the instructions of the kernel whose outputs are an axis of |kind|; the sum is over products or over sums. */
static counts lower(bl_axis_kind kind, bool product, bool load_is_gated)
{
    bl_ir *ir = bl_ir_create(1 << 24);
    const bl_node *i = bl_range(ir, 0, kind, bl_index(ir, OUTPUTS)), *k = bl_range(ir, 100, BL_AXIS_REDUCE, bl_index(ir, TAPS));
    const bl_node *at = bl_sub(ir, i, k);
    const bl_node *gate = bl_and(ir, bl_less(ir, bl_index(ir, -1), at), bl_less(ir, at, bl_index(ir, GIVEN)));
    const bl_node *given = bl_load(ir, bl_param(ir, 1, BL_F32, false), at, load_is_gated ? gate : NULL);
    const bl_node *weight = bl_load(ir, bl_param(ir, 2, BL_F32, false), k, NULL);
    const bl_node *value =
        bl_where(ir, gate, product ? bl_mul(ir, weight, given) : bl_add(ir, weight, given), bl_const_float(ir, BL_F32, 0));
    const bl_node *store = bl_store(ir, bl_param(ir, 0, BL_F32, false), i, bl_reduce_over(ir, BL_OP_ADD, 1, &value, 1, &k), NULL);
    const bl_node *sink = bl_sink(ir, 1, &store);
    bl_lowered *lowered = NULL;
    bl_err err = {0};
    counts n = {0};

    if (bl_ir_status(ir, &err) != BL_OK || bl_lower(ir, sink, "nest", 3, 2, &lowered, &err) != BL_OK)
        fail_msg("%s", err.text);
    for (uint32_t at_inst = 0; at_inst < lowered->linear->ninst; at_inst++) {
        const bl_inst *inst = &lowered->linear->inst[at_inst];
        n.loops += inst->op == BL_OP_LOOP;
        n.fixed_loops += inst->op == BL_OP_LOOP && lowered->linear->inst[inst->args[0]].op == BL_OP_CONST;
        n.gated_loads += inst->op == BL_OP_LOAD && inst->nargs > 2;
        n.choices += inst->op == BL_OP_WHERE;
    }
    bl_ir_destroy(ir);
    return n;
}

static void test_groups(void **state)
{
    counts n = lower(BL_AXIS_GLOBAL, true, true);
    (void)state;
    assert_int_equal(n.loops, 1);
    assert_int_equal(n.fixed_loops, 0);
    assert_int_equal(n.gated_loads, 0);
    assert_int_equal(n.choices, 0);
}

/* The gate belongs to the sum: no factor of the terms needs to be zero. */
static void test_no_product(void **state)
{
    counts n = lower(BL_AXIS_GLOBAL, false, true);
    (void)state;
    assert_int_equal(n.fixed_loops, 0);
    assert_int_equal(n.gated_loads, 0);
    assert_int_equal(n.choices, 0);
}

/* An enclosing loop: the bounds of the inner loop change between iterations. */
static void test_loop_around(void **state)
{
    counts n = lower(BL_AXIS_LOOP, true, true);
    (void)state;
    assert_int_equal(n.loops, 2);
    assert_int_equal(n.fixed_loops, 1);
    assert_int_equal(n.gated_loads, 0);
}

/* A stride of two: 2 k + i mod 2 below 5, so that even elements have three iterations and odd elements two. */
static void test_apart(void **state)
{
    bl_ir *ir = bl_ir_create(1 << 24);
    const bl_node *i = bl_range(ir, 0, BL_AXIS_GLOBAL, bl_index(ir, 2)), *k = bl_range(ir, 100, BL_AXIS_REDUCE, bl_index(ir, 3));
    const bl_node *at = bl_add(ir, bl_mul(ir, k, bl_index(ir, 2)), i), *gate = bl_less(ir, at, bl_index(ir, TAPS));
    const bl_node *value =
        bl_where(ir, gate, bl_load(ir, bl_param(ir, 1, BL_F32, false), at, gate), bl_const_float(ir, BL_F32, 0));
    const bl_node *store = bl_store(ir, bl_param(ir, 0, BL_F32, false), i, bl_reduce_over(ir, BL_OP_ADD, 1, &value, 1, &k), NULL);
    const bl_node *sink = bl_lower_trim(ir, bl_sink(ir, 1, &store)), *sum = sink->src[0]->src[2], *turns = NULL;

    (void)state;
    assert_int_equal(sum->op, BL_OP_REDUCE);
    assert_int_equal(sum->src[0]->op, BL_OP_LOAD);
    assert_int_equal(sum->src[0]->nsrc, 2);
    turns = sum->src[1]->src[0];
    assert_true(bl_is_int(bl_replace(ir, turns, i, bl_index(ir, 0)), 3));
    assert_true(bl_is_int(bl_replace(ir, turns, i, bl_index(ir, 1)), 2));
    bl_ir_destroy(ir);
}

/* Copies and lanes have different positions in one loop, so the gate stays; if the load is a factor, the gate stays at the load
 * alone. */
static void test_copies(void **state)
{
    counts n = lower(BL_AXIS_TILE, true, true);
    (void)state;
    assert_int_equal(n.fixed_loops, n.loops);
    assert_in_range(n.gated_loads, 1, OUTPUTS);
    assert_int_equal(n.choices, 0);
    n = lower(BL_AXIS_TILE, false, true);
    assert_in_range(n.choices, 1, OUTPUTS);
}

/* A copy of a tile may be padding alone, and zero: it bounds no loop, and is not added. */
static void test_zeros(void **state)
{
    bl_ir *ir = bl_ir_create(1 << 24);
    const bl_node *i = bl_range(ir, 0, BL_AXIS_GLOBAL, bl_index(ir, OUTPUTS)),
                  *k = bl_range(ir, 100, BL_AXIS_REDUCE, bl_index(ir, TAPS));
    const bl_node *gate = bl_less(ir, k, i), *zero = bl_const_float(ir, BL_F32, 0);
    const bl_node *values[3] = {zero, bl_where(ir, gate, bl_load(ir, bl_param(ir, 1, BL_F32, false), k, gate), zero), zero};
    const bl_node *store = bl_store(ir, bl_param(ir, 0, BL_F32, false), i, bl_reduce_over(ir, BL_OP_ADD, 3, values, 1, &k), NULL);
    const bl_node *sum = bl_lower_trim(ir, bl_sink(ir, 1, &store))->src[0]->src[2];

    (void)state;
    assert_int_equal(sum->op, BL_OP_REDUCE);
    assert_int_equal(sum->arg, 1);
    assert_int_equal(sum->src[0]->op, BL_OP_LOAD);
    assert_int_equal(sum->src[0]->nsrc, 2);
    assert_true(bl_is_int(bl_replace(ir, sum->src[1]->src[0], i, bl_index(ir, 2)), 2));
    bl_ir_destroy(ir);
}

/* Causal scores in a stage: row i has -inf from element i + 1 on, so that its maximum and its stage end there. */
static void test_stage_of_a_row(void **state)
{
    enum { KEYS = 8 };
    bl_ir *ir = bl_ir_create(1 << 24);
    const bl_node *i = bl_range(ir, 0, BL_AXIS_GLOBAL, bl_index(ir, KEYS)),
                  *own = bl_range(ir, 50, BL_AXIS_LOOP, bl_index(ir, KEYS));
    const bl_node *k = bl_range(ir, 100, BL_AXIS_REDUCE, bl_index(ir, KEYS)), *ranges[2];
    const bl_node *score = bl_where(ir, bl_less(ir, i, own), bl_const_float(ir, BL_F32, -INFINITY),
                                    bl_load(ir, bl_param(ir, 1, BL_F32, false), own, NULL));
    const bl_node *filled = bl_store(ir, bl_param(ir, 0, BL_F32, true), own, score, NULL);
    const bl_node *stage = bl_stage_over(ir, BL_STAGE_FILLS, 1, &filled, 1, &own), *read = bl_load(ir, stage, k, NULL);
    const bl_node *store = bl_store(ir, bl_param(ir, 0, BL_F32, false), i, bl_reduce_over(ir, BL_OP_MAX, 1, &read, 1, &k), NULL);
    const bl_node *sink = bl_lower_trim_stages(ir, bl_sink(ir, 1, &store)), *peak = sink->src[0]->src[2];

    (void)state;
    ranges[0] = peak->src[1];
    ranges[1] = bl_find_op(ir, peak, BL_OP_STAGE)->src[1];
    for (int n = 0; n < 2; n++) {
        assert_true(bl_is_int(bl_replace(ir, ranges[n]->src[0], i, bl_index(ir, 2)), 3));
        assert_true(bl_is_int(bl_replace(ir, ranges[n]->src[0], i, bl_index(ir, KEYS - 1)), KEYS));
    }
    /* A sum of these elements does not end early, because they are not 0, and the stage is then filled to its end. */
    store = bl_store(ir, bl_param(ir, 0, BL_F32, false), i, bl_reduce_over(ir, BL_OP_ADD, 1, &read, 1, &k), NULL);
    sink = bl_sink(ir, 1, &store);
    assert_ptr_equal(bl_lower_trim_stages(ir, sink), sink);
    bl_ir_destroy(ir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups),        cmocka_unit_test(test_no_product),
                                       cmocka_unit_test(test_loop_around),   cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_copies),        cmocka_unit_test(test_zeros),
                                       cmocka_unit_test(test_stage_of_a_row)};
    return cmocka_run_group_tests_name("lower/trim", tests, NULL, NULL);
}
