/* SPDX-License-Identifier: MIT */
/* Operands copied to shared memory by the work-items of a group: move lists on products and convolutions with sizes that are no
 * multiples, on every device with work-groups, against the nest without moves. */
#include "engine/lower/lower.h"
#include "engine/opt/heuristic.h"
#include "engine/render/render.h"
#include "tests/opt/bench.h"
#include "tests/plan/on_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define IN(name, dtype, ...)    "'" name "': {'dtype': '" dtype "', 'shape': [" #__VA_ARGS__ "]}"
#define NODE(id, op, in, attrs) "{'id': '" id "', 'op': '" op "', 'in': [" in "], 'attrs': {" attrs "}}"
#define DOC(inputs, nodes, out) "{'inputs': {" inputs "}, 'nodes': [" nodes "], 'outputs': ['" out "']}"
#define PRODUCT(dtype, m, k, n) DOC(IN("x", dtype, m, k) ", " IN("y", dtype, k, n), NODE("z", "matmul", "'x', 'y'", ""), "z")
#define TRANSPOSED(m, k, n)                                                                                                      \
    DOC(IN("x", "float32", k, m) ", " IN("y", "float32", n, k),                                                                  \
        NODE("t", "transpose", "'x'", "") ", " NODE("u", "transpose", "'y'", "") ", " NODE("z", "matmul", "'t', 'u'", ""), "z")
#define CONV(dtype, n, ci, h, w, co, k, attrs)                                                                                   \
    DOC(IN("x", dtype, n, ci, h, w) ", " IN("w", dtype, co, ci, k, k), NODE("y", "conv2d", "'x', 'w'", attrs), "y")
#define BATCHED(b, m, k, n)                                                                                                      \
    DOC(IN("x", "float32", b, m, k) ", " IN("y", "float32", b, k, n), NODE("z", "matmul", "'x', 'y'", ""), "z")
#define CONV_GRADIENT(n, ci, h, w, co, k)                                                                                        \
    DOC(IN("x", "float32", n, ci, h, w) ", " IN("w", "float32", co, ci, k, k),                                                   \
        NODE("y", "conv2d", "'x', 'w'", "") ", " NODE("s", "sum", "'y'", "") ", " NODE("q", "mul", "'y', 'y'", "") ", " NODE(    \
            "r", "sum", "'q'", "") ", " NODE("d", "grad", "'r', 'x'", ""),                                                       \
        "d")

/* Axes of a product: 0 rows, 1 columns, 2 the reduction; each split appends an axis.  The amount of |share| is a sum: 1 double
 * buffering, 2 swizzle, 4 per loop within a copy, 256 per element of padding, 65536 for 16 bits.  Each row runs on each
 * device. */
static const struct {
    const char *name, *document, *moves;
} rows[] = {
    {"one copy", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1), stage(b2, local, 1)"},
    {"two copies", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, local, 1 double)"},
    {"one of each", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, local, 1)"},
    {"the whole reduction", PRODUCT("float32", 32, 24, 32),
     "split(0, group, 8), split(1, group, 8), stage(b1, local, 1), stage(b2, local, 1)"},
    {"other turns for each", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, local, 0 double)"},
    {"padded", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double padded 5), stage(b2, local, 1 double "
     "padded 1)"},
    {"swizzled", PRODUCT("float32", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double swizzled), stage(b2, local, 1 "
     "swizzled)"},
    {"padded and swizzled", PRODUCT("float32", 64, 32, 64),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double swizzled padded 4), stage(b2, local, 0 double swizzled padded 4)"},
    {"fewer elements than work-items", PRODUCT("float32", 33, 30, 40),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 3), stage(b1, local, 1 double), stage(b2, local, 1 double)"},
    {"a rest of the reduction", PRODUCT("float32", 20, 37, 40),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1:1, local, 1 double), stage(b2, local, 1 double)"},
    {"a tile", PRODUCT("float32", 64, 32, 64),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"nothing fits", PRODUCT("float32", 61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"a loop of outputs inside", PRODUCT("float32", 48, 32, 48),
     "split(0, group, 8), split(0.0, loop, 2), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, "
     "local, 1 double)"},
    {"a shared reduction in a loop", PRODUCT("float32", 12, 32, 20), "split(0, loop, 2), split(r0, group, 8)"},
    {"scalars of a tile", PRODUCT("float32", 64, 32, 64),
     "split(1, group, 8), split(1.0, unroll, 4), split(0, unroll, 4), split(0.0, group, 8), split(r0, loop, 8), stage(b1, local, "
     "1 double), stage(b2, local, 1 double)"},
    {"lanes along the reduction", PRODUCT("float32", 24, 64, 24),
     "split(0, group, 8), split(1, group, 8), split(r0, vector, 4), stage(b1, local, 0 double), stage(b2, local, 0 double padded "
     "4)"},
    {"transposed", TRANSPOSED(61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"float16", PRODUCT("float16", 61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"bfloat16", PRODUCT("bfloat16", 64, 32, 64),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"float16 in 16 bits", PRODUCT("float16", 61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4 narrow), stage(b2, local, 0 double narrow)"},
    {"float16 in 16 bits, one by one", PRODUCT("float16", 32, 32, 32),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double swizzled narrow), stage(b2, local, 1 "
     "narrow)"},
    {"bfloat16 in 16 bits", PRODUCT("bfloat16", 64, 32, 64),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4 narrow), stage(b2, local, 0 double narrow)"},
    {"bfloat16 in 16 bits, transposed lanes", PRODUCT("bfloat16", 24, 64, 24),
     "split(0, group, 8), split(1, group, 8), split(r0, vector, 4), stage(b1, local, 0 double narrow), stage(b2, local, 0 double "
     "padded 4 narrow)"},
    {"one operand in 16 bits", PRODUCT("float16", 33, 30, 40),
     "split(0, group, 8), split(1, group, 8), split(r0, loop, 3), stage(b1, local, 1 double narrow), stage(b2, local, 1 double)"},
    {"int32", PRODUCT("int32", 61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"uint8", PRODUCT("uint8", 61, 40, 75),
     "split(1, vector, 4), split(1.0, group, 8), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 4), split(r0, "
     "unroll, 8), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double)"},
    {"a window", CONV("float32", 2, 6, 9, 11, 20, 3, "'padding': 1"),
     "split(3, vector, 4), split(3.0, group, 2), split(2, group, 4), split(1, unroll, 4), split(1.0, group, 4), split(r1, "
     "unroll, 3), stage(b1, local, 1 double padded 4), stage(b2, local, 1 double padded 4)"},
    {"a window with strides", CONV("float32", 2, 6, 19, 17, 20, 3, "'padding': 1, 'stride': 2"),
     "split(3, vector, 4), split(3.0, group, 2), split(2, group, 4), split(1, unroll, 4), split(1.0, group, 4), split(r2, "
     "unroll, 3), stage(b1, local, 1 double padded 4), stage(b2, local, 1 double padded 4)"},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

/* A GPU that this machine need not have. */
static const bl_target gpu = {.groups = BL_GROUP_PARALLEL,
                              .units = 16,
                              .registers = 128,
                              .cache_bytes = 1 << 20,
                              .subgroup = 32,
                              .max_local = 1024,
                              .local_bytes = 48 << 10,
                              .max_params = BL_MAX_BINDINGS};

/* Returns the nest with the most work. */
static const bl_nest *largest(const bl_schedule *schedule)
{
    return &schedule->nests[schedule->nnests - 1];
}

static void show(const bl_device *dev, const bench *b, const bl_tune *tune)
{
    bl_lowered *lowered = NULL;
    bl_text text = {0};
    bl_err err = {0};

    if (getenv("BL_TEST_SHOW") == NULL)
        return;
    if (bl_lower(tune->ir, tune->sink, "nest", (uint32_t)tune->nparams, 2, &lowered, &err) == BL_OK &&
        bl_render(lowered->linear, &dev->info, &text, &err) == BL_OK)
        printf("---- %s %s\n%s\n", dev->info.id, b->name, bl_text_get(&text));
    bl_text_fini(&text);
}

static void run_row(bl_device *dev, const char *name, const char *document, const char *list)
{
    test_graph graph;
    bl_schedule *schedule = NULL;
    bench b = {.name = name, .dev = dev, .graph = &graph};
    bl_move moves[BL_MAX_MOVES];
    bl_tune tune;
    bl_err err = {0};
    int n = 0;

    test_graph_open(document, &graph);
    schedule = test_graph_schedule(&graph, gpu.units);
    b.schedule = schedule;
    b.nest = largest(schedule);
    if (!bl_moves_parse(list, moves, &n))
        fail_msg("%s: no list of moves: %s", name, list);
    bench_open(&b);
    for (int with = 0; with <= 1; with++) {
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        tune.local_bytes = dev->info.local_bytes;
        for (int i = 0; with && i < n; i++) {
            if (!bl_tune_apply(&tune, moves[i]))
                fail_msg("%s: move %d of \"%s\" is refused", name, i, list);
        }
        if (with)
            show(dev, &b, &tune);
        if (bench_run(&b, &tune, &err) != BL_OK)
            fail_msg("%s %s with \"%s\": %s", dev->info.id, name, with ? list : "", err.text);
        bench_compare(&b, with ? list : "");
    }
    bench_close(&b);
    test_graph_close(&graph);
}

/* The moves that docs/engine.md explains; with |runs|, each also runs on each device. */
static const struct {
    const char *name, *document;
    bool runs;
    const char *moves;
} chosen[] = {
    {"large", PRODUCT("float32", 1024, 1024, 1024), false,
     "split(1, vector, 4), split(1.0, group, 16), split(1.0.0, unroll, 2), split(0, unroll, 8), split(0.0, group, 16), split(r0, "
     "loop, 8), split(r0.1, unroll, 8), stage(b2, local, 0 double), stage(b1, local, 0 double padded 4)"},
    {"middling", PRODUCT("float32", 256, 256, 256), false,
     "split(1, vector, 4), split(1.0, group, 16), split(0, unroll, 4), split(0.0, group, 16), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b1, local, 1 double), stage(b2, local, 1 double padded 4)"},
    {"a layer", PRODUCT("float32", 128, 784, 512), false,
     "split(1, vector, 4), split(1.0, group, 16), split(0, unroll, 4), split(0.0, group, 16), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b1, local, 1 double), stage(b2, local, 1 double padded 4)"},
    {"small", PRODUCT("float32", 96, 64, 64), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double), stage(b1, local, 1 double padded 4)"},
    {"nothing divides", PRODUCT("float32", 67, 259, 133), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 8), split(r0, loop, 7), split(r0.1, "
     "unroll, 7), stage(b1, local, 0 double), stage(b2, local, 0 double padded 4)"},
    {"a prime reduction", PRODUCT("float32", 64, 67, 64), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 8), split(r0.1, "
     "unroll, 8), stage(b2, local, 0 double), stage(b1, local, 0 double padded 4)"},
    {"transposed", TRANSPOSED(64, 96, 72), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double padded 4), stage(b1, local, 1 double)"},
    {"batched", BATCHED(4, 64, 32, 64), true,
     "split(2, vector, 4), split(2.0, group, 8), split(1, unroll, 4), split(1.0, group, 8), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double), stage(b1, local, 1 double padded 4)"},
    {"float16", PRODUCT("float16", 96, 64, 64), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b1, local, 1 double), stage(b2, local, 1 double padded 4)"},
    {"bfloat16", PRODUCT("bfloat16", 96, 64, 64), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double narrow), stage(b1, local, 1 double padded 4 narrow)"},
    {"int32", PRODUCT("int32", 96, 64, 64), true,
     "split(1, vector, 4), split(1.0, group, 8), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double), stage(b1, local, 1 double padded 4)"},
    {"windows", CONV("float32", 2, 16, 14, 14, 32, 3, "'padding': 1"), true,
     "split(3, vector, 4), split(3.0, group, 4), split(2, group, 2), split(1, unroll, 4), split(1.0, group, 8), split(r2, "
     "unroll, 3), stage(b2, local, 1 double), stage(b1, local, 1 double padded 4)"},
    {"larger windows", CONV("float32", 2, 8, 15, 17, 32, 5, "'padding': 2, 'stride': 2"), true,
     "split(3, vector, 4), split(3.0, group, 2), split(3.0.0, unroll, 2), split(2, group, 2), split(1, unroll, 4), split(1.0, "
     "group, 8), split(r2, unroll, 5), stage(b1, local, 0 double padded 4), stage(b2, local, 0 double padded 4)"},
    {"pictures of one pixel a window", CONV("float32", 2, 32, 12, 12, 32, 1, ""), true,
     "split(2, vector, 4), split(2.0, group, 8), split(1, unroll, 4), split(1.0, group, 8), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b2, local, 1 double), stage(b1, local, 1 double padded 4)"},
    {"a gradient of windows", CONV_GRADIENT(2, 32, 12, 12, 16, 3), true,
     "stage(b2, halo, 0), split(3, vector, 4), split(3.0, group, 2), split(3.0.0, unroll, 2), split(2, group, 2), split(1, "
     "unroll, 4), split(1.0, group, 8), split(r32, unroll, 8), stage(b3, local, 1 double), stage(b1, local, 1 double)"},
    {"too few rows", PRODUCT("float32", 8, 512, 512), false,
     "split(1, group, 32), split(1.0, unroll, 4), split(0, unroll, 8), split(r0, unroll, 4)"},
    {"too little work", PRODUCT("float32", 32, 32, 32), false,
     "split(1, group, 32), split(0, unroll, 8), split(0.0, group, 4), split(r0, unroll, 4)"},
    {"float64", PRODUCT("float64", 96, 64, 64), false,
     "split(1, vector, 2), split(1.0, group, 16), split(0, unroll, 4), split(0.0, group, 4), split(r0, loop, 16), split(r0.1, "
     "unroll, 8), stage(b1, local, 1 double), stage(b2, local, 1 double padded 4)"},
};
enum { NCHOSEN = sizeof chosen / sizeof chosen[0] };

static void test_chosen(void **state)
{
    int wrong = 0;

    (void)state;
    for (int i = 0; i < NCHOSEN; i++) {
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};

        test_graph_open(chosen[i].document, &graph);
        schedule = test_graph_schedule(&graph, gpu.units);
        bl_tune_init(&tune, graph.graph->ir, largest(schedule)->sink, largest(schedule)->nparams);
        bl_heuristic(&tune, &gpu);
        bl_tune_print(&tune, &text);
        if (strcmp(bl_text_get(&text), chosen[i].moves) != 0) {
            print_error("%s: \"%s\"; the table says \"%s\"\n", chosen[i].name, bl_text_get(&text), chosen[i].moves);
            wrong++;
        }
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

/* Instructions that dominate the time of a GPU: shared memory is read in whole vectors without gates, and each iteration has
 * one barrier. */
static void test_instructions(void **state)
{
    (void)state;
    for (int i = 0; i < NCHOSEN; i++) {
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_lowered *lowered = NULL;
        bl_err err = {0};
        int depth = 0, barriers = 0, loads = 0, products = 0;

        if (strstr(chosen[i].moves, "stage(") == NULL || strcmp(chosen[i].name, "float64") == 0)
            continue;
        test_graph_open(chosen[i].document, &graph);
        schedule = test_graph_schedule(&graph, gpu.units);
        bl_tune_init(&tune, graph.graph->ir, largest(schedule)->sink, largest(schedule)->nparams);
        bl_heuristic(&tune, &gpu);
        if (bl_lower(tune.ir, tune.sink, "nest", (uint32_t)tune.nparams, 2, &lowered, &err) != BL_OK)
            fail_msg("%s: %s", chosen[i].name, err.text);
        for (uint32_t k = 0; k < lowered->linear->ninst; k++) {
            const bl_inst *inst = &lowered->linear->inst[k];
            depth += (inst->op == BL_OP_LOOP) - (inst->op == BL_OP_END);
            barriers += inst->op == BL_OP_BARRIER;
            products += depth > 0 && (inst->op == BL_OP_FMA || (inst->op == BL_OP_MUL && inst->lanes == 4));
            if (inst->op != BL_OP_LOAD || lowered->linear->inst[inst->args[0]].sub == 0)
                continue;
            loads++;
            if (inst->lanes != 4 || inst->sub != 1 || inst->nargs != 2)
                fail_msg("%s: instruction %u reads %u lanes of local memory", chosen[i].name, k, inst->lanes);
        }
        if (barriers != 2) /* one before the loop, and one in the loop */
            fail_msg("%s: %d barriers", chosen[i].name, barriers);
        if (loads * 2 > products)
            fail_msg("%s: %d loads for %d products of vectors", chosen[i].name, loads, products);
        test_graph_close(&graph);
    }
}

/* Copies of 16 bits need half the memory, in each language; other copies do not. */
static void test_room(void **state)
{
    static const struct {
        const char *dtype, *moves;
        bool legal;
        uint32_t bytes;
    } sizes[] = {
        {"float32",
         "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, local, 1 double)",
         true, 1024},
        {"float16",
         "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, local, 1 double)",
         true, 1024},
        {"float16",
         "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double narrow), stage(b2, local, 1 "
         "double)",
         true, 768},
        {"float16",
         "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double narrow), stage(b2, local, 1 "
         "double narrow)",
         true, 512},
        {"bfloat16",
         "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double narrow), stage(b2, local, 1 "
         "double narrow)",
         true, 512},
        {"float32", "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double narrow)", false, 0},
        {"int16", "split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double narrow)", false, 0},
    };
    static const struct {
        bl_device_info info;
        const char *declares;
    } languages[] = {
        {{.id = "a", .dialect = BL_DIALECT_OPENCL, .subgroup = 32}, "__local ushort l"},
        {{.id = "b", .dialect = BL_DIALECT_GLSL, .subgroup = 32, .features = BL_FEATURE_STORE16}, "shared uint16_t l"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char document[400];
        test_graph graph;
        bl_move moves[BL_MAX_MOVES];
        bl_tune tune;
        bl_lowered *lowered = NULL;
        bl_err err = {0};
        bool legal = true;
        int n = 0;

        snprintf(document, sizeof document, PRODUCT("%s", 32, 32, 32), sizes[i].dtype, sizes[i].dtype);
        test_graph_open(document, &graph);
        const bl_nest *nest = largest(test_graph_schedule(&graph, gpu.units));
        bl_tune_init(&tune, graph.graph->ir, nest->sink, nest->nparams);
        assert_true(bl_moves_parse(sizes[i].moves, moves, &n));
        for (int k = 0; k < n; k++)
            legal = legal && bl_tune_apply(&tune, moves[k]);
        if (legal != sizes[i].legal)
            fail_msg("%s with \"%s\" is %s", sizes[i].dtype, sizes[i].moves, legal ? "taken" : "refused");
        if (legal && bl_lower(tune.ir, tune.sink, "nest", (uint32_t)tune.nparams, 2, &lowered, &err) != BL_OK)
            fail_msg("%s: %s", sizes[i].dtype, err.text);
        if (legal && lowered->linear->local_bytes != sizes[i].bytes)
            fail_msg("%s with \"%s\" takes %u bytes, not %u", sizes[i].dtype, sizes[i].moves, lowered->linear->local_bytes,
                     sizes[i].bytes);
        for (size_t k = 0; legal && k < sizeof languages / sizeof languages[0]; k++) {
            bl_text text = {0};
            assert_int_equal(bl_render(lowered->linear, &languages[k].info, &text, &err), BL_OK);
            if ((strstr(bl_text_get(&text), languages[k].declares) != NULL) != (sizes[i].bytes < 1024))
                fail_msg("%s with \"%s\": \"%s\" in\n%s", sizes[i].dtype, sizes[i].moves, languages[k].declares,
                         bl_text_get(&text));
            bl_text_fini(&text);
        }
        test_graph_close(&graph);
    }
}

static void test_device(void **state)
{
    for (int i = 0; i < NROWS; i++)
        run_row(*state, rows[i].name, rows[i].document, rows[i].moves);
    for (int i = 0; i < NCHOSEN; i++) {
        if (chosen[i].runs)
            run_row(*state, chosen[i].name, chosen[i].document, chosen[i].moves);
    }
}

int main(void)
{
    static const struct CMUnitTest others[] = {cmocka_unit_test(test_chosen), cmocka_unit_test(test_instructions),
                                               cmocka_unit_test(test_room)};
    return on_devices("share", test_device, sizeof others / sizeof others[0], others);
}
