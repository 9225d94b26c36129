/* SPDX-License-Identifier: MIT */
/* Instruction counts of products of all shapes.  For each row of a table of convolutions, their gradients and matmuls, the
 * instructions of all kernels are bounded by a multiple of the vector instructions of the multiply-adds alone.  A nest without
 * a tile of the heuristic needs at least ten times as many.  No time is measured. */
#include "engine/lower/cost.h"
#include "engine/opt/heuristic.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LANES = 8 };

/* Two cores with AVX2: few registers, so that tiles are small. */
static const bl_target target = {.units = 2,
                                 .vector_bits = 32 * LANES,
                                 .registers = 16,
                                 .cache_bytes = 1 << 19,
                                 .last_cache_bytes = 1 << 25,
                                 .subgroup = 1,
                                 .max_local = 1,
                                 .local_bytes = 1 << 19,
                                 .max_params = 32};

typedef enum part { RESULT, TO_INPUT, TO_WEIGHT } part;
static const char *const part_names[] = {"result", "to input", "to weight"};

/* Counts the vector instructions of a kernel: arithmetic, loads and stores, scalar or vector; a load with a gate per lane
 * counts once per lane.  Index arithmetic does not count. */
static double count_instructions(bl_arena *arena, const bl_lowered *lowered)
{
    const bl_linear *linear = lowered->linear;
    const int64_t *runs = bl_cost_runs(arena, lowered, 0, NULL);
    double all = 0;

    assert_non_null(runs);
    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        bool computes = bl_op_get_class((bl_op)inst->op) == BL_CLASS_ALU && inst->dtype == BL_F32;
        bool gated = inst->op == BL_OP_LOAD && inst->nargs > 2 && linear->inst[inst->args[2]].lanes > 1;
        if (inst->op == BL_OP_LOAD || inst->op == BL_OP_STORE || computes || inst->op == BL_OP_FOLD)
            all += (double)runs[i] * (gated ? inst->lanes : 1);
    }
    return all;
}

static double count_nest(bl_ir *ir, const bl_node *sink, int nparams, bl_text *moves, int depth)
{
    bl_tune tune;
    bl_lowered *lowered = NULL;
    bl_err err = {0};
    double all = 0;

    bl_tune_init(&tune, ir, sink, nparams);
    bl_heuristic(&tune, &target);
    if (moves->len > 0)
        bl_text_printf(moves, " | ");
    bl_tune_print(&tune, moves);
    for (int i = 0; depth == 0 && i < tune.npacked; i++)
        all += count_nest(ir, tune.packed[i].sink, tune.packed[i].nfrom + 1, moves, 1);
    assert_int_equal(bl_lower(ir, tune.sink, "product", (uint32_t)tune.nparams, 2, &lowered, &err), BL_OK);
    return all + count_instructions(bl_ir_arena(ir), lowered);
}

/* Returns the instructions of the document's kernels per vector of multiply-adds. */
static double measure(const char *document, double multiply_adds, bl_text *moves)
{
    test_graph graph = {0};
    bl_schedule *schedule = NULL;
    double all = 0;

    test_graph_open(document, &graph);
    schedule = test_graph_schedule(&graph, target.units);
    for (int i = 0; i < schedule->nnests; i++)
        all += count_nest(graph.graph->ir, schedule->nests[i].sink, schedule->nests[i].nparams, moves, 0);
    test_graph_close(&graph);
    return all / (multiply_adds / LANES);
}

typedef struct convolution {
    int batch, ins, outs, extent, k, stride, groups, dilation;
} convolution;

static void conv_document(const convolution *c, part what, char *text, size_t size, double *multiply_adds)
{
    int pad = c->dilation * (c->k / 2), reach = c->dilation * (c->k - 1) + 1, out = (c->extent + 2 * pad - reach) / c->stride + 1;
    char gradient[128] = "";

    if (what != RESULT)
        snprintf(gradient, sizeof gradient, ", {'id': ['g'], 'op': 'grad', 'in': ['y', '%s', 'c'], 'attrs': {'cotangent': true}}",
                 what == TO_INPUT ? "x" : "w");
    snprintf(
        text, size,
        "{'inputs': {'x': {'dtype': 'float32', 'shape': [%d, %d, %d, %d]}, 'w': {'dtype': 'float32', 'shape': [%d, %d, %d, %d]}, "
        "'c': {'dtype': 'float32', 'shape': [%d, %d, %d, %d]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': "
        "{'padding': %d, 'stride': %d, 'groups': %d, 'dilation': %d, 'form': 'direct'}}%s], 'outputs': ['%s']}",
        c->batch, c->ins, c->extent, c->extent, c->outs, c->ins / c->groups, c->k, c->k, c->batch, c->outs, out, out, pad,
        c->stride, c->groups, c->dilation, gradient, what == RESULT ? "y" : "g");
    *multiply_adds = (double)c->batch * c->outs * out * out * (c->ins / c->groups) * c->k * c->k;
}

/* The bounds: slightly above the worst row of a kind, so that no row can become much worse.  Few channels, and feature maps of
 * one or four pixels, do not fill vectors; strided windows give strided lanes. */
static double most_for(const convolution *c, part what)
{
    static const double close[] = {5, 5, 5}, apart[] = {10, 22, 6}, close_depthwise[] = {3, 3, 3}, apart_depthwise[] = {4, 52, 5};

    if (c->groups > 1)
        return c->stride == 1 ? close_depthwise[what] : apart_depthwise[what];
    if (c->extent < 4 || c->ins < 16 || c->outs < 16)
        return c->stride == 1 ? 33 : 83;
    return c->stride == 1 ? close[what] : apart[what];
}

static int check_convolution(const convolution *c)
{
    int wrong = 0;

    for (part what = RESULT; what <= TO_WEIGHT; what++) {
        char text[2048];
        double multiply_adds = 0, ratio = 0;
        bl_text moves = {0};
        conv_document(c, what, text, sizeof text, &multiply_adds);
        ratio = measure(text, multiply_adds, &moves);
        if (ratio > most_for(c, what)) {
            print_error(
                "%6.1f %d pictures, %d to %d channels in %d groups, %d squared, windows of %d, %d apart, dilation %d, %s: %s\n",
                ratio, c->batch, c->ins, c->outs, c->groups, c->extent, c->k, c->stride, c->dilation, part_names[what],
                bl_text_get(&moves));
            wrong++;
        }
        bl_text_fini(&moves);
    }
    return wrong;
}

static void test_convolutions(void **state)
{
    static const int extents[] = {1, 2, 4, 7, 14, 28, 56, 112}, channels[] = {1, 3, 16, 31, 64, 129, 512},
                     kernels[] = {1, 2, 3, 5, 7};
    int wrong = 0;

    (void)state;
    for (size_t e = 0; e < sizeof extents / sizeof extents[0]; e++) {
        for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
            for (size_t o = 0; o < sizeof channels / sizeof channels[0]; o++) {
                for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
                    size_t which = e * 7 + i * 5 + o * 3 + k;
                    convolution c = {which % 3 == 0   ? 1
                                     : which % 3 == 1 ? 8
                                                      : 16,
                                     channels[i],
                                     channels[o],
                                     extents[e],
                                     kernels[k],
                                     which % 2 == 0 ? 1 : 2,
                                     1,
                                     which % 7 == 0 ? 2 : 1};
                    if (which % 5 == 0 && c.dilation * (c.k - 1) < c.extent + 2 * c.dilation * (c.k / 2))
                        wrong += check_convolution(&c);
                }
            }
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_depthwise(void **state)
{
    static const int extents[] = {7, 14, 28, 56, 112};
    int wrong = 0;

    (void)state;
    for (size_t e = 0; e < sizeof extents / sizeof extents[0]; e++) {
        for (int k = 3; k <= 7; k += 2) {
            for (int stride = 1; stride <= 2; stride++) {
                for (int batch = 1; batch <= 8; batch += 7) {
                    convolution c = {batch, 96, 96, extents[e], k, stride, 96, 1};
                    wrong += check_convolution(&c);
                }
            }
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_matmuls(void **state)
{
    static const int extents[] = {2, 3, 8, 17, 64, 255, 1000, 2048};
    enum { COUNT = sizeof extents / sizeof extents[0] };
    int wrong = 0;

    (void)state;
    for (int i = 0; i < COUNT * COUNT * COUNT; i++) {
        int m = extents[i / COUNT / COUNT], n = extents[i / COUNT % COUNT], depth = extents[i % COUNT];
        char text[512];
        bl_text moves = {0};
        double ratio = 0;
        snprintf(text, sizeof text,
                 "{'inputs': {'x': {'dtype': 'float32', 'shape': [%d, %d]}, 'w': {'dtype': 'float32', 'shape': [%d, %d]}}, "
                 "'nodes': [{'id': "
                 "'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}",
                 m, depth, depth, n);
        ratio = measure(text, (double)m * n * depth, &moves);
        if (ratio > (m < 8 || n < 8 || depth < 8 ? 16.1 : 3)) {
            print_error("%6.1f %d x %d x %d: %s\n", ratio, m, n, depth, bl_text_get(&moves));
            wrong++;
        }
        bl_text_fini(&moves);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolutions), cmocka_unit_test(test_depthwise),
                                       cmocka_unit_test(test_matmuls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
