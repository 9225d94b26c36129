/* SPDX-License-Identifier: MIT */
/* Every wire op on small values, compared with PyTorch and NumPy, and the API's rules for literals and dtypes. */
#include "engine/front/build.h"
#include "tests/front/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *node, *inputs, *want;
} rows[] = {
#define BL_EXAMPLE(node, inputs, want) {node, inputs, want},
#include "engine/front/examples.def"
#undef BL_EXAMPLE
};

/* The ids of row |i|'s node: one per result of the op. */
static const char *ids_of(size_t i)
{
    static const char *const ids[] = {"", "'out'", "'out', 'out1'", "'out', 'out1', 'out2'", "'out', 'out1', 'out2', 'out3'"};
    char op[64] = "";
    bl_sig sig;

    sscanf(rows[i].node, "'op': '%63[^']'", op);
    if (bl_wire_op_find(op) == NULL || !bl_sig_parse(bl_wire_op_find(op)->signature, &sig))
        fail_msg("%s: no such op", rows[i].node);
    return ids[sig.nresults];
}

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = {.program = true};
        char document[2048];
        const char *ids = ids_of(i);
        snprintf(document, sizeof document, "{'inputs': %s, 'nodes': [{'id': [%s], %s}], 'outputs': [%s]}", rows[i].inputs, ids,
                 rows[i].node, ids);
        if (bench_run(&b, document) != BL_OK)
            fail_msg("%s: %s", rows[i].node, b.err.text);
        if (!bench_same(b.text.data, rows[i].want, 2e-6))
            fail_msg("%s of %s: got %s, want %s", rows[i].node, rows[i].inputs, b.text.data, rows[i].want);
        bench_fini(&b);
    }
}

/* With too little memory, every op ends with the matching status. */
static void test_little_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char document[2048];
        snprintf(document, sizeof document,
                 "{'inputs': %s, 'nodes': [{'id': [%s], %s}, {'id': 'total', 'op': 'sum', 'in': ['out']},"
                 " {'id': 'small', 'op': 'cast', 'in': ['total'], 'attrs': {'dtype': 'float32'}}, {'id': 'nothing', 'op': "
                 "'zeros', 'attrs':"
                 " {'shape': [2]}}, {'id': ['slope'], 'op': 'grad', 'in': ['small', %s]}], 'outputs': ['slope']}",
                 rows[i].inputs, ids_of(i), rows[i].node, strncmp(rows[i].inputs, "{'x': [", 7) == 0 ? "'x'" : "'nothing'");
        size_t bytes = 1024;
        while (bench_build(document, bytes, 0) != BL_OK)
            bytes += bytes / 64 + 48;
        assert_true(bytes > 1024);
    }
}

/* Ops whose values other tests check: random ops, and an op with a result of one MiB. */
static const char *const elsewhere[] = {"kaiming_uniform", "kaiming_normal", "glorot_uniform",
                                        "scaled_uniform",  "random_bits",    "hash"};

static void every_op_has_an_example(void **state)
{
    (void)state;
    for (size_t i = 0; i < bl_wire_ops_count; i++) {
        char wanted[64];
        bool found = false;
        snprintf(wanted, sizeof wanted, "'op': '%s'", bl_wire_ops[i].name);
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            found = found || strstr(rows[k].node, wanted) != NULL;
        for (size_t k = 0; k < sizeof elsewhere / sizeof elsewhere[0]; k++)
            found = found || strcmp(elsewhere[k], bl_wire_ops[i].name) == 0;
        found = found || bl_wire_ops[i].name[0] == '_'; /* used only by formulas, which have their own rows */
        if (!found)
            fail_msg("no example of op \"%s\"", bl_wire_ops[i].name);
    }
}

/* A size attribute may name a dimension; one graph serves all sizes of the dimension. */
static void test_named_dimensions(void **state)
{
    static const struct {
        const char *node, *want;
    } named[] = {
        {"'op': 'reshape', 'in': ['x'], 'attrs': {'shape': ['b', 1, -1]}", "float32[3, 1, 2] 1 2 3 4 5 6"},
        {"'op': 'flatten', 'in': ['x']", "float32[6] 1 2 3 4 5 6"},
        {"'op': 'mean', 'in': ['x'], 'attrs': {'axis': 0}", "float32[2] 3 4"},
        {"'op': 'slice', 'in': ['x'], 'attrs': {'start': [0], 'stop': ['b'], 'step': [2]}", "float32[2, 2] 1 2 5 6"},
        {"'op': 'take', 'in': ['x', -1]", "float32[2] 5 6"},
        {"'op': 'argmax', 'in': ['x'], 'attrs': {'axis': 0}", "int64[2] 2 2"},
        {"'op': 'arange', 'attrs': {'stop': 'b'}", "int64[3] 0 1 2"},
        {"'op': 'ones', 'attrs': {'shape': ['b', 1]}", "float32[3, 1] 1 1 1"},
        {"'op': 'expand', 'in': [5], 'attrs': {'shape': ['b']}", "float32[3] 5 5 5"},
        {"'op': 'cat', 'in': ['x', 'x'], 'attrs': {'axis': 1}", "float32[3, 4] 1 2 1 2 3 4 3 4 5 6 5 6"},
        {"'op': 'max_pool', 'in': ['x'], 'attrs': {'kernel_size': [2, 1], 'ceil_mode': true}", "float32[2, 2] 3 4 5 6"},
        {"'op': 'avg_pool', 'in': ['x'], 'attrs': {'kernel_size': [2, 1], 'ceil_mode': true}", "float32[2, 2] 2 3 5 6"},
        {"'op': 'pad', 'in': ['x'], 'attrs': {'padding': [1, 1, 0, -1], 'mode': 'replicate'}", "float32[5, 1] 1 1 3 5 5"},
        {"'op': 'pad', 'in': ['x'], 'attrs': {'padding': ['b', 0, 0, 0], 'mode': 'circular'}",
         "float32[6, 2] 1 2 3 4 5 6 1 2 3 4 5 6"},
        {"'op': 'slice', 'in': ['x'], 'attrs': {'step': [-2]}", "float32[2, 2] 5 6 1 2"},
        {"'op': 'roll', 'in': ['x'], 'attrs': {'shift': 1, 'axis': 0}", "float32[3, 2] 5 6 1 2 3 4"},
        {"'op': 'reshape', 'in': ['x'], 'attrs': {'shape': ['2 * b']}", "float32[6] 1 2 3 4 5 6"},
        {"'op': 'reshape', 'in': ['x'], 'attrs': {'shape': [1, '(b + b) * 3 // 3']}", "float32[1, 6] 1 2 3 4 5 6"},
        {"'op': 'shrink', 'in': ['x'], 'attrs': {'ranges': [['b - 1', 'b'], [0, 2]]}", "float32[1, 2] 5 6"},
        {"'op': 'full', 'attrs': {'shape': [], 'value': '(b + -5) * 2', 'dtype': 'int32'}", "int32[] -4"},
        {"'op': 'full', 'attrs': {'shape': ['b % 2 + 1'], 'value': 'b - b + 4'}", "float32[2] 4 4"},
        {"'op': 'repeat', 'in': ['x'], 'attrs': {'repeats': [2, 1]}", "float32[6, 2] 1 2 3 4 5 6 1 2 3 4 5 6"},
        {"'op': 'repeat_interleave', 'in': ['x'], 'attrs': {'repeats': 'b', 'axis': 1}",
         "float32[3, 6] 1 1 1 2 2 2 3 3 3 4 4 4 5 5 5 6 6 6"},
        {"'op': 'interpolate', 'in': ['x'], 'attrs': {'size': ['b', 4]}", "float32[3, 4] 1 1 2 2 3 3 4 4 5 5 6 6"},
        {"'op': 'interpolate', 'in': ['x'], 'attrs': {'size': [2, 2]}", "float32[2, 2] 1 2 3 4"},
        {"'op': 'interpolate', 'in': ['x'], 'attrs': {'size': [5, 2], 'mode': 'bilinear', 'align_corners': true}",
         "float32[5, 2] 1 2 2 3 3 4 4 5 5 6"},
        {"'op': 'rearrange', 'in': ['x'], 'attrs': {'formula': 'a b -> (b a) 1'}", "float32[6, 1] 1 3 5 2 4 6"},
        {"'op': 'linspace', 'attrs': {'start': 0, 'stop': 1, 'steps': 'b'}", "float32[3] 0 0.5 1"},
        {"'op': 'unfold', 'in': ['x'], 'attrs': {'axis': 0, 'size': 1, 'step': 2}", "float32[2, 2, 1] 1 2 5 6"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        bench b = {0};
        char document[1024];
        snprintf(document, sizeof document,
                 "{'inputs': {'x': [[1, 2], [3, 4], [5, 6]]}, 'shapes': {'x': ['b', 2]}, 'dims': {'b': [1, 100]},"
                 " 'nodes': [{'id': 'out', %s}], 'outputs': ['out']}",
                 named[i].node);
        if (bench_run(&b, document) != BL_OK)
            fail_msg("%s: %s", named[i].node, b.err.text);
        if (!bench_same(b.text.data, named[i].want, 1e-6))
            fail_msg("%s: got %s, want %s", named[i].node, b.text.data, named[i].want);
        bench_fini(&b);
    }
}

/* The diagonal of a square with a named dimension, and the inverse operation. */
static void test_named_diagonal(void **state)
{
    bench b = {0};

    (void)state;
    assert_int_equal(
        BL_OK, bench_run(&b, "{'inputs': {'x': [[1, 2], [3, 4]]}, 'shapes': {'x': ['n', 'n']}, 'dims': {'n': [1, 9]}, 'nodes': ["
                             "{'id': 'd', 'op': 'diagonal', 'in': ['x']},"
                             "{'id': 'y', 'op': 'diag', 'in': ['d'], 'attrs': {'offset': 1}},"
                             "{'id': 'e', 'op': 'diag', 'in': ['y'], 'attrs': {'offset': 1}}], 'outputs': ['d', 'y', 'e']}"));
    assert_string_equal("float32[2] 1 4; float32[3, 3] 0 1 0 0 0 4 0 0 0; float32[2] 1 4", b.text.data);
    bench_fini(&b);
}

/* The examples of docs/api.md. */
static void test_contract(void **state)
{
    bench b = {0};

    (void)state;
    assert_int_equal(BL_OK, bench_run(&b, "{'inputs': {'x': [[1, 2, 3], [4, 5, 6]]}, 'nodes': ["
                                          "{'id': 'y', 'op': 'mul', 'in': ['x', 2]},"
                                          "{'id': 's', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': 1}}], 'outputs': ['s']}"));
    assert_string_equal("float32[2] 12 30", b.text.data);
    assert_int_equal(BL_OK,
                     bench_run(&b, "{'inputs': {'a': [1, 2, 3], 'b': [4, 5, 6]}, 'nodes': ["
                                   "{'id': 'ab', 'op': 'mul', 'in': ['a', 'b']}, {'id': 'c', 'op': 'add', 'in': ['ab', 'a']},"
                                   "{'id': 'd', 'op': 'sum', 'in': ['c']},"
                                   "{'id': ['da', 'db'], 'op': 'grad', 'in': ['d', 'a', 'b']}], 'outputs': ['c', 'da', 'db']}"));
    assert_string_equal("float32[3] 5 12 21; float32[3] 5 6 7; float32[3] 1 2 3", b.text.data);
    bench_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),           cmocka_unit_test(test_little_memory),  cmocka_unit_test(every_op_has_an_example),
        cmocka_unit_test(test_named_dimensions), cmocka_unit_test(test_named_diagonal), cmocka_unit_test(test_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
