/* SPDX-License-Identifier: MIT */
/* Sums in which only every n-th iteration contributes: their loops skip the other iterations. Nests of strided gradients compute
 * no sum for an element that no window reaches. */
#include "engine/ir/rewrite.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define F32(...) "{'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"

/* The gradient to |to| of an op of x and w whose result has the shape of g. */
#define GRADIENT(op, to, x, w, g, attrs)                                                                                         \
    "{'inputs': {'x': " x ", 'w': " w ", 'g': " g "}, 'nodes': [{'id': 'y', 'op': '" op "', 'in': ['x', 'w'], 'attrs': {" attrs  \
    "}}, {'id': 'd', 'op': 'grad', 'in': ['y', '" to "', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"

typedef struct row {
    const char *name;
    int64_t turns; /* iterations of all loops of the first nest's sums */
    const char *document;
} row;

/* clang-format off */
static const row rows[] = {
    {"windows of 3 two apart: two of their places, of 16 channels", 2 * 16, GRADIENT("conv", "x", F32(2, 3, 12), F32(16, 3, 3), F32(2, 16, 6), "'stride': 2, 'padding': 1")},
    {"an odd number of elements", 2 * 16, GRADIENT("conv", "x", F32(2, 3, 11), F32(16, 3, 3), F32(2, 16, 6), "'stride': 2, 'padding': 1")},
    {"both ways", 2 * 3 * 16, GRADIENT("conv", "x", F32(2, 3, 12, 12), F32(16, 3, 4, 7), F32(2, 16, 5, 2), "'stride': [2, 3]")},
    {"as far apart as they are long: one place", 16, GRADIENT("conv", "x", F32(2, 3, 12, 12), F32(16, 3, 4, 4), F32(2, 16, 3, 3), "'stride': 4")},
    {"farther", 16, GRADIENT("conv", "x", F32(2, 3, 14), F32(16, 3, 3), F32(2, 16, 3), "'stride': 5")},
    {"places two apart in windows three apart", 2 * 16, GRADIENT("conv", "x", F32(2, 3, 15), F32(16, 3, 4), F32(2, 16, 3), "'stride': 3, 'dilation': 2")},
    {"a named batch", 2 * 16, "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n', 3, 11]}, 'w': " F32(16, 3, 3) ", 'g': {'dtype': 'float32', 'shape': ['n', 16, 5]}}, 'nodes': [{'id': 'y', 'op': 'conv', 'in': ['x', 'w'], 'attrs': {'stride': 2}}, {'id': 'd', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"a named length", 2 * 16, "{'dims': {'n': [4, 90]}, 'inputs': {'x': {'dtype': 'float32', 'shape': [2, 3, 'n']}, 'w': " F32(16, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv', 'in': ['x', 'w'], 'attrs': {'stride': 2}}, {'id': 's', 'op': 'sum', 'in': ['y']}, {'id': 'd', 'op': 'grad', 'in': ['s', 'x']}], 'outputs': ['d']}"},
    {"a transposed convolution", 2 * 2 * 16, "{'inputs': {'x': " F32(2, 16, 6, 7) ", 'w': " F32(16, 3, 4, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv_transpose', 'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 1}}], 'outputs': ['y']}"},
    {"its gradient: a convolution, of all places of 3 channels", 3 * 4 * 3, GRADIENT("conv_transpose", "x", F32(2, 16, 6, 7), F32(16, 3, 4, 3), F32(2, 3, 12, 13), "'stride': 2, 'padding': 1")},
    {"... to the weight: of all elements of x, and no zeros between them", 2 * 6 * 7, GRADIENT("conv_transpose", "w", F32(2, 16, 6, 7), F32(16, 3, 4, 3), F32(2, 3, 12, 13), "'stride': 2, 'padding': 1")},
    {"averages of windows beside each other: nothing is summed", 1, "{'inputs': {'x': " F32(2, 3, 12, 12) ", 'g': " F32(2, 3, 4, 4) "}, 'nodes': [{'id': 'y', 'op': 'avg_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 3}}, {'id': 'd', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
};
/* clang-format on */

static void test_turns(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_graph g;
        const bl_schedule *schedule = NULL;
        bl_nodes below = {NULL, 0};
        int64_t turns = 1;
        test_graph_open(rows[i].document, &g);
        schedule = test_graph_schedule(&g, 2);
        below = bl_reach(g.graph->ir, 1, &schedule->nests[0].sink, false);
        for (size_t k = 0; k < below.count; k++) {
            const bl_node *node = below.at[k];
            turns *= node->op == BL_OP_RANGE && node->sub == BL_AXIS_REDUCE ? node->hi + 1 : 1;
        }
        if (turns != rows[i].turns || schedule->nnests != 1)
            fail_msg("%s: %d nests, %lld turns", rows[i].name, schedule->nnests, (long long)turns);
        test_graph_close(&g);
    }
}

typedef struct places_row {
    const char *name;
    int nests;
    int64_t places, turns; /* of the first nest: iterations of the loops over its results, and of all loops of its sums */
    const char *document;
} places_row;

/* clang-format off */
static const places_row places_rows[] = {
    {"windows of one column, two apart: no sum for a column between them", 2, 2 * 16 * 12 * 6, 2 * 32, GRADIENT("conv", "x", F32(2, 16, 12, 12), F32(32, 16, 3, 1), F32(2, 32, 6, 6), "'stride': 2, 'padding': [1, 0]")},
    {"... beside rows that are not apart", 2, 2 * 16 * 12 * 6, 3 * 32, GRADIENT("conv", "x", F32(2, 16, 12, 12), F32(32, 16, 3, 1), F32(2, 32, 12, 6), "'stride': [1, 2], 'padding': [1, 0]")},
    {"places four apart in windows two apart: a sum for each second place, without the padding", 2, 2 * 16 * 7 * 7, 3 * 3 * 32, GRADIENT("conv", "x", F32(2, 16, 13, 13), F32(32, 16, 3, 3), F32(2, 32, 7, 7), "'stride': 2, 'dilation': 4, 'padding': 4")},
    {"... an odd padding: the first sum is at the second place", 2, 2 * 16 * 6 * 6, 3 * 3 * 32, GRADIENT("conv", "x", F32(2, 16, 13, 13), F32(32, 16, 3, 3), F32(2, 32, 6, 6), "'stride': 2, 'dilation': 4, 'padding': 3")},
    {"six apart in windows four apart: two phases of the second places", 2, 8 * 16 * 24, 2 * 32, GRADIENT("conv", "x", F32(8, 16, 45), F32(32, 16, 3), F32(8, 32, 9), "'stride': 4, 'dilation': 6")},
    {"one window: one place of it", 1, 2 * 16 * 7 * 7, 32, GRADIENT("conv", "x", F32(2, 16, 7, 7), F32(32, 16, 1, 7), F32(2, 32, 7, 1), "")},
    {"an odd number of elements: equal phases", 2, 8 * 16 * 48, 2 * 32, GRADIENT("conv", "x", F32(8, 16, 47), F32(32, 16, 3), F32(8, 32, 24), "'stride': 2, 'padding': 1")},
    {"three phases, without the padding", 2, 16 * 14 * 42, 2 * 16, GRADIENT("conv", "x", F32(1, 16, 40, 40), F32(16, 16, 1, 5), F32(1, 16, 14, 14), "'stride': 3, 'dilation': 4, 'padding': [0, 8]")},
};
/* clang-format on */

static void test_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places_rows / sizeof places_rows[0]; i++) {
        const places_row *want = &places_rows[i];
        test_graph g;
        const bl_schedule *schedule = NULL;
        bl_nodes below = {NULL, 0};
        int64_t places = 1, turns = 1;
        test_graph_open(want->document, &g);
        schedule = test_graph_schedule(&g, 2);
        below = bl_reach(g.graph->ir, 1, &schedule->nests[0].sink, false);
        for (size_t k = 0; k < below.count; k++) {
            const bl_node *node = below.at[k];
            int64_t *of = node->sub == BL_AXIS_REDUCE ? &turns : &places;
            *of *= node->op == BL_OP_RANGE ? node->hi + 1 : 1;
        }
        if (places != want->places || turns != want->turns || schedule->nnests != want->nests)
            fail_msg("%s: %d nests, %lld places, %lld turns", want->name, schedule->nnests, (long long)places, (long long)turns);
        test_graph_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_places)};
    return cmocka_run_group_tests_name("stride", tests, NULL, NULL);
}
