/* SPDX-License-Identifier: MIT */
/* The verifier: valid graphs pass, and the error names each kind of invalid node. */
#include "engine/ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bl_ir *ir;
static const bl_node *two, *three, *x, *i, *load, *buffer, *range;

static int start(void **state)
{
    (void)state;
    ir = bl_ir_create(0);
    if (ir == NULL)
        return 1;
    two = bl_index(ir, 2);
    three = bl_index(ir, 3);
    x = bl_input(ir, 0, BL_F32, 2, (const bl_node *const[]){two, three});
    i = bl_input(ir, 1, BL_I32, 2, (const bl_node *const[]){two, three});
    buffer = bl_param(ir, 0, BL_F32, false);
    range = bl_range(ir, 0, BL_AXIS_LOOP, three);
    load = bl_load(ir, buffer, range, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    bl_ir_destroy(ir);
    return 0;
}

#define SRC(...)                                                                                                                 \
    (const bl_node *const[])                                                                                                     \
    {                                                                                                                            \
        __VA_ARGS__                                                                                                              \
    }

static void good_graphs_pass(void **state)
{
    const bl_node *tensor = bl_reduce(ir, BL_OP_MAX, bl_pad(ir, bl_mul(ir, x, x), SRC(two, two), SRC(three, two)), 2);
    const bl_node *value = bl_reduce_over(ir, BL_OP_ADD, 1, &load, 1, &range);
    const bl_node *store = bl_store(ir, buffer, bl_index(ir, 0), value, NULL), *sink = bl_sink(ir, 1, &store);
    bl_err err = {0};

    (void)state;
    for (int level = 1; level <= 2; level++) {
        if (bl_ir_verify(ir, 1, &tensor, BL_STAGE_TENSOR, "test", level, &err) != BL_OK)
            fail_msg("%s", err.text);
        if (bl_ir_verify(ir, 1, &sink, BL_STAGE_KERNEL, "test", level, &err) != BL_OK)
            fail_msg("%s", err.text);
    }
}

static void broken(bl_node proto, bl_stage stage, int level, const char *wanted)
{
    const bl_node *node = NULL;
    bl_err err = {0};
    bl_status st = BL_OK;

    proto.lanes = proto.lanes == 0 ? 1 : proto.lanes;
    node = bl_node_make(ir, &proto);
    if (level == 2) /* level 1 does not detect it */
        assert_int_equal(bl_ir_verify(ir, 1, &node, stage, "fusing", 1, &err), BL_OK);
    st = bl_ir_verify(ir, 1, &node, stage, "fusing", level, &err);
    if (st != BL_EBUG || strstr(err.text, wanted) == NULL || strncmp(err.text, "after fusing: node ", 19) != 0)
        fail_msg("%s: \"%s\", wanted \"%s\"", bl_op_name((bl_op)proto.op), err.text, wanted);
}

static void broken_tensor_nodes_are_named(void **state)
{
    const bl_node *wide[2] = {two, bl_index(ir, 4)};
    const bl_node *below_zero[1] = {bl_index(ir, -1)};

    (void)state;
#define TENSOR(type, n, dims, ...) ((bl_node){.dtype = BL_##type, .ndim = (n), .dim = (dims), __VA_ARGS__})
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_ADD, .nsrc = 1, .src = SRC(x)), BL_STAGE_TENSOR, 1, "number of sources");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_ADD, .nsrc = 2, .src = SRC(x, i)), BL_STAGE_TENSOR, 1, "dtypes differ");
    broken(TENSOR(I32, 2, x->dim, .op = BL_OP_SQRT, .nsrc = 1, .src = SRC(i)), BL_STAGE_TENSOR, 1, "takes floats");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_CMPLT, .nsrc = 2, .src = SRC(x, x)), BL_STAGE_TENSOR, 1, "dtype of the result");
    broken(TENSOR(F32, 2, wide, .op = BL_OP_NEG, .nsrc = 1, .src = SRC(x)), BL_STAGE_TENSOR, 1, "shapes differ");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_NEG, .nsrc = 1, .src = SRC(x), .lanes = 4), BL_STAGE_TENSOR, 1, "lanes");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_AND, .nsrc = 2, .src = SRC(x, x)), BL_STAGE_TENSOR, 1, "takes integers");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_PERMUTE, .nsrc = 1, .src = SRC(x), .arg = 0x11), BL_STAGE_TENSOR, 1,
           "no permutation");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_REDUCE, .nsrc = 1, .src = SRC(x), .arg = 2, .sub = BL_OP_NEG), BL_STAGE_TENSOR, 1,
           "no op that folds");
    broken(TENSOR(INDEX, 0, x->dim, .op = BL_OP_VAR, .arg = -1), BL_STAGE_TENSOR, 1, "negative number");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_WHERE, .nsrc = 3, .src = SRC(x, x, x)), BL_STAGE_TENSOR, 1, "not a bool");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_REDUCE, .nsrc = 1, .src = SRC(x), .arg = 2, .sub = BL_OP_ADD), BL_STAGE_TENSOR, 1,
           "shape");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_FLIP, .nsrc = 1, .src = SRC(x), .arg = 4), BL_STAGE_TENSOR, 1, "axes");
    broken(TENSOR(F32, 1, below_zero, .op = BL_OP_INPUT), BL_STAGE_TENSOR, 1, "no size");
    broken(TENSOR(F32, 2, wide, .op = BL_OP_RESHAPE, .nsrc = 1, .src = SRC(x)), BL_STAGE_TENSOR, 2, "infers");
    broken(TENSOR(F32, 2, wide, .op = BL_OP_EXPAND, .nsrc = 1, .src = SRC(x)), BL_STAGE_TENSOR, 2, "infers");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_PAD, .nsrc = 3, .src = SRC(x, two, two)), BL_STAGE_TENSOR, 2, "infers");
    broken(TENSOR(F32, 2, x->dim, .op = BL_OP_SHRINK, .nsrc = 3, .src = SRC(x, two, two)), BL_STAGE_TENSOR, 2, "infers");
    broken(TENSOR(INDEX, 0, x->dim, .op = BL_OP_RANGE, .nsrc = 1, .src = SRC(two)), BL_STAGE_TENSOR, 1, "loop nest");
#undef TENSOR
}

static void broken_loop_nodes_are_named(void **state)
{
    (void)state;
#define LOOP(type, ...) ((bl_node){.dtype = BL_##type, __VA_ARGS__})
    broken(LOOP(F32, .op = BL_OP_LOAD, .nsrc = 2, .src = SRC(load, range)), BL_STAGE_KERNEL, 1, "no buffer");
    broken(LOOP(F32, .op = BL_OP_LOAD, .nsrc = 2, .src = SRC(buffer, load)), BL_STAGE_KERNEL, 1, "index");
    broken(LOOP(F32, .op = BL_OP_LOAD, .nsrc = 3, .src = SRC(buffer, range, range)), BL_STAGE_KERNEL, 1, "gate");
    broken(LOOP(F32, .op = BL_OP_STORE, .nsrc = 3, .src = SRC(buffer, range, range)), BL_STAGE_KERNEL, 1, "value");
    broken(LOOP(F32, .op = BL_OP_NEG, .nsrc = 1, .src = SRC(buffer)), BL_STAGE_KERNEL, 1, "buffer is no value");
    broken(LOOP(F32, .op = BL_OP_REDUCE, .nsrc = 2, .src = SRC(load, two), .arg = 1, .sub = BL_OP_ADD), BL_STAGE_KERNEL, 1,
           "no range");
    broken(LOOP(F32, .op = BL_OP_REDUCE, .nsrc = 2, .src = SRC(load, range), .arg = 2, .sub = BL_OP_ADD), BL_STAGE_KERNEL, 1,
           "values");
    broken(LOOP(F32, .op = BL_OP_FOLD, .nsrc = 1, .src = SRC(load), .sub = BL_OP_ADD), BL_STAGE_KERNEL, 1, "lanes");
    broken(LOOP(F32, .op = BL_OP_ADD, .nsrc = 2, .src = SRC(load, load), .lanes = 4), BL_STAGE_KERNEL, 1, "lanes");
    broken(LOOP(F32, .op = BL_OP_SINK, .nsrc = 1, .src = SRC(load)), BL_STAGE_KERNEL, 1, "takes stores");
    const bl_node *local = bl_param(ir, 3, BL_F32, true);
    const bl_node *fill = bl_store(ir, local, range, load, NULL), *store = bl_store(ir, buffer, range, load, NULL);
    const bl_node *filled = bl_stage_over(ir, BL_STAGE_FILLS, 1, &fill, 1, &range);
    broken(LOOP(F32, .op = BL_OP_STAGE, .nsrc = 2, .src = SRC(store, range), .arg = 1), BL_STAGE_KERNEL, 1, "one local buffer");
    broken(LOOP(F32, .op = BL_OP_STAGE, .nsrc = 2, .src = SRC(fill, two), .arg = 1), BL_STAGE_KERNEL, 1, "no range");
    broken(LOOP(F32, .op = BL_OP_STAGE, .nsrc = 2, .src = SRC(fill, range), .arg = 1, .sub = BL_OP_SUB), BL_STAGE_KERNEL, 1,
           "fold");
    broken(LOOP(F32, .op = BL_OP_STAGE, .nsrc = 1, .src = SRC(fill), .arg = 2), BL_STAGE_KERNEL, 1, "number of stores");
    broken(LOOP(F32, .op = BL_OP_STORE, .nsrc = 3, .src = SRC(filled, range, load)), BL_STAGE_KERNEL, 1, "no buffer");
    broken(LOOP(F32, .op = BL_OP_NEG, .nsrc = 1, .src = SRC(filled)), BL_STAGE_KERNEL, 1, "buffer is no value");
    broken(LOOP(F32, .op = BL_OP_LOAD, .nsrc = 2, .src = SRC(filled, bl_index(ir, range->hi + 1))), BL_STAGE_KERNEL, 1,
           "behind what its stage holds");
    broken(LOOP(F32, .op = BL_OP_BARRIER), BL_STAGE_KERNEL, 1, "linear kernel");
    broken(LOOP(F32, .op = BL_OP_INPUT), BL_STAGE_KERNEL, 1, "tensor in a loop nest");
    broken(LOOP(I8, .op = BL_OP_CONST, .arg = 300), BL_STAGE_KERNEL, 1, "cannot hold");
#undef LOOP
}

/* A node that was changed after construction is detected. */
static void stale_bounds_are_found(void **state)
{
    const bl_node *root = bl_add(ir, range, bl_index(ir, 1));
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_ir_verify(ir, 1, &root, BL_STAGE_KERNEL, "test", 2, &err), BL_OK);
    ((bl_node *)(uintptr_t)root)->hi = 100;
    assert_int_equal(bl_ir_verify(ir, 1, &root, BL_STAGE_KERNEL, "test", 1, &err), BL_OK);
    assert_int_equal(bl_ir_verify(ir, 1, &root, BL_STAGE_KERNEL, "test", 2, &err), BL_EBUG);
    assert_non_null(strstr(err.text, "bounds"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_graphs_pass, start, stop),
        cmocka_unit_test_setup_teardown(broken_tensor_nodes_are_named, start, stop),
        cmocka_unit_test_setup_teardown(broken_loop_nodes_are_named, start, stop),
        cmocka_unit_test_setup_teardown(stale_bounds_are_found, start, stop),
    };

    return cmocka_run_group_tests_name("ir/verify", tests, NULL, NULL);
}
