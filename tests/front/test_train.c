/* SPDX-License-Identifier: MIT */
/* Optimisers against torch.optim over three steps, their state, and the flow of gradients. */
#include "tests/front/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* loss = sum(w * w * [1, 3, 0.25]) from w = [1, -2, 0.5]: w after three steps of torch.optim. */
static const struct {
    const char *op, *attrs, *want;
} rows[] = {
    {"sgd", "'lr': 0.1", "float32[3] 0.51199996 -0.12799998 0.42868748"},
    {"sgd", "'lr': 'rate', 'weight_decay': 0.5", "float32[3] 0.66992188 -0.61509377 0.42868748"},
    {"sgd", "'lr': 0.1, 'momentum': 0.9", "float32[3] 0.061999999 1.7079998 0.36568752"},
    {"sgd", "'lr': 0.1, 'momentum': 0.9, 'dampening': 0.5", "float32[3] 0.25200003 1.5519998 0.39867187"},
    {"sgd", "'lr': 0.1, 'momentum': 0.9, 'nesterov': true, 'weight_decay': 0.1", "float32[3] -0.14046837 0.58317173 0.28282362"},
    {"adam", "'lr': 0.001", "float32[3] 0.9970001 -1.997 0.49700019"},
    {"adam", "'lr': 'rate', 'betas': [0.5, 0.9], 'eps': 0.01, 'weight_decay': 0.1",
     "float32[3] 0.85208058 -1.8507754 0.35786611"},
    {"adamw", "'lr': 0.1", "float32[3] 0.69891125 -1.6949446 0.20371242"},
};

static bl_status step(bench *b, const char *op, const char *attrs, const double w[3])
{
    char document[1024];
    snprintf(document, sizeof document,
             "{'inputs': {'w': [%.9g, %.9g, %.9g], 'k': [1, 3, 0.25], 'rate': 0.05},"
             " 'nodes': [{'id': 'ww', 'op': 'mul', 'in': ['w', 'w']}, {'id': 'l', 'op': 'mul', 'in': ['ww', 'k']},"
             " {'id': 'loss', 'op': 'sum', 'in': ['l']},"
             " {'id': ['w1'], 'op': '%s', 'in': ['loss', 'w'], 'attrs': {%s}}], 'outputs': ['w1']}",
             w[0], w[1], w[2], op, attrs);
    return bench_run(b, document);
}

static void test_optimisers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = {.program = true};
        double w[3] = {1, -2, 0.5};
        for (int n = 0; n < 3; n++) {
            if (step(&b, rows[i].op, rows[i].attrs, w) != BL_OK)
                fail_msg("%s(%s): %s", rows[i].op, rows[i].attrs, b.err.text);
            for (int k = 0; k < 3; k++)
                w[k] = bench_number(b.text.data, k);
        }
        if (!bench_same(b.text.data, rows[i].want, 1e-6))
            fail_msg("%s(%s): got %s, want %s", rows[i].op, rows[i].attrs, b.text.data, rows[i].want);
        bench_fini(&b);
    }
}

static bool is_kept(const bench *b, const char *name)
{
    for (int k = 0; k < b->nkept; k++) {
        if (strcmp(b->kept[k].name, name) == 0)
            return true;
    }
    return false;
}

static void test_what_is_remembered(void **state)
{
    const double w[3] = {1, 2, 3};
    bench b = {.program = true};
    float steps;

    (void)state;
    assert_int_equal(BL_OK, step(&b, "adam", "", w));
    assert_int_equal(BL_OK, step(&b, "adam", "", w));
    assert_int_equal(3, b.nkept);
    assert_true(is_kept(&b, "w1.m.w") && is_kept(&b, "w1.v.w") && is_kept(&b, "w1.step"));
    for (int k = 0; k < b.nkept; k++) {
        if (strcmp(b.kept[k].name, "w1.step") == 0) {
            memcpy(&steps, b.kept[k].data, sizeof steps);
            assert_true(steps == 2);
        }
    }
    bench_fini(&b);

    b = (bench){.program = true};
    assert_int_equal(BL_OK, step(&b, "sgd", "'lr': 1, 'momentum': 0.5", w));
    assert_int_equal(1, b.nkept);
    assert_true(is_kept(&b, "w1.buf.w"));
    bench_fini(&b);

    b = (bench){.program = false};
    assert_int_equal(BL_EGRAPH, step(&b, "adam", "", w));
    assert_string_equal("adam: keeps state; only a program has state", b.err.text);
    assert_string_equal("w1", b.err.node);
    assert_int_equal(BL_OK, step(&b, "sgd", "'lr': 1", w)); /* plain sgd has no state */
    bench_fini(&b);
}

/* The gradient to a wire node is the gradient through this node, not through other nodes of equal value; the gradient also
 * flows on to the node's operands. */
static void test_gradients_of_inner_nodes(void **state)
{
    bench b = {0};

    (void)state;
    /* h and k are exp(x), v is x; s = h * k * v */
    assert_int_equal(BL_OK,
                     bench_run(&b, "{'inputs': {'x': [0]}, 'nodes': [{'id': 'h', 'op': 'exp', 'in': ['x']},"
                                   "{'id': 'k', 'op': 'exp', 'in': ['x']},"
                                   "{'id': 'v', 'op': 'reshape', 'in': ['x'], 'attrs': {'shape': [1]}},"
                                   "{'id': 'hk', 'op': 'mul', 'in': ['h', 'k']}, {'id': 's', 'op': 'mul', 'in': ['hk', 'v']},"
                                   "{'id': ['dh', 'dk', 'dv', 'dx'], 'op': 'grad', 'in': ['s', 'h', 'k', 'v', 'x']}],"
                                   " 'outputs': ['dh', 'dk', 'dv', 'dx']}"));
    assert_string_equal("float32[1] 0; float32[1] 0; float32[1] 1; float32[1] 1", b.text.data);
    bench_fini(&b);
}

static void test_gradients(void **state)
{
    static const struct {
        const char *nodes, *want;
    } cases[] = {
        /* a second derivative: d/dx (3 x^2) */
        {"{'id': 'xx', 'op': 'mul', 'in': ['x', 'x']}, {'id': 'y', 'op': 'mul', 'in': ['xx', 'x']},"
         "{'id': ['g'], 'op': 'grad', 'in': ['y', 'x']}, {'id': ['out'], 'op': 'grad', 'in': ['g', 'x']}",
         "float32[1] 12"},
        /* no gradient flows through detach, a comparison or an integer */
        {"{'id': 'd', 'op': 'detach', 'in': ['x']}, {'id': 'y', 'op': 'mul', 'in': ['d', 'x']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'x']}",
         "float32[1] 2"},
        {"{'id': 'i', 'op': 'cast', 'in': ['x'], 'attrs': {'dtype': 'int32'}}, {'id': 'y', 'op': 'mul', 'in': ['i', 1.5]},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'x']}",
         "float32[1] 0"},
        /* y does not depend on x */
        {"{'id': 'y', 'op': 'sum', 'in': ['z']}, {'id': ['out'], 'op': 'grad', 'in': ['y', 'x']}", "float32[1] 0"},
        /* y itself */
        {"{'id': ['out'], 'op': 'grad', 'in': ['x', 'x']}", "float32[1] 1"},
        /* a cotangent in y's shape */
        {"{'id': 'y', 'op': 'mul', 'in': ['x', 'z']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'x', 'c'], 'attrs': {'cotangent': true}}",
         "float32[1] 3210"},
        /* PyTorch's choices at points without a derivative: relu and abs at 0, ties */
        {"{'id': 'r', 'op': 'relu', 'in': ['o']}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 0 0 0"},
        {"{'id': 'r', 'op': 'abs', 'in': ['o']}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 0 0 0"},
        {"{'id': 'y', 'op': 'max', 'in': ['o']}, {'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 0.33333334 0.33333334 0.33333334"},
        {"{'id': 'r', 'op': 'maximum', 'in': ['o', 0]}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 0.5 0.5 0.5"},
        {"{'id': 'r', 'op': 'clamp', 'in': ['o'], 'attrs': {'min': 0, 'max': 0}}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 1 1 1"},
        {"{'id': 'r', 'op': 'sigmoid', 'in': ['o']}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'o']}",
         "float32[3] 0.25 0.25 0.25"},
        /* finite where the function saturates */
        {"{'id': 'r', 'op': 'sigmoid', 'in': ['far']}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'far']}",
         "float32[2] 0 0"},
        {"{'id': 'r', 'op': 'softplus', 'in': ['far']}, {'id': 'y', 'op': 'sum', 'in': ['r']},"
         "{'id': ['out'], 'op': 'grad', 'in': ['y', 'far']}",
         "float32[2] 0 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b = {0};
        char document[1024];
        snprintf(document, sizeof document,
                 "{'inputs': {'x': [2], 'z': [1000, 200, 10], 'c': [3, 1, 1], 'o': [0, 0, 0], 'far': [-200, 200]},"
                 " 'nodes': [%s], 'outputs': ['out']}",
                 cases[i].nodes);
        if (bench_run(&b, document) != BL_OK)
            fail_msg("%s: %s", cases[i].nodes, b.err.text);
        if (!bench_same(b.text.data, cases[i].want, 1e-6))
            fail_msg("%s: got %s, want %s", cases[i].nodes, b.text.data, cases[i].want);
        bench_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimisers),
        cmocka_unit_test(test_what_is_remembered),
        cmocka_unit_test(test_gradients_of_inner_nodes),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
