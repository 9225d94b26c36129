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
    {"one copy", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 4, share 1 4"},
    {"two copies", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 5"},
    {"one of each", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 4"},
    {"the whole reduction", PRODUCT("float32", 32, 24, 32), "local 0 8, local 2 8, share 0 4, share 1 4"},
    {"other turns for each", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 1"},
    {"padded", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 1285, share 1 261"},
    {"swizzled", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 7, share 1 6"},
    {"padded and swizzled", PRODUCT("float32", 64, 32, 64),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 6 8, share 0 1027, share 1 1027"},
    {"fewer elements than work-items", PRODUCT("float32", 33, 30, 40), "local 0 8, local 2 8, chunk 4 3, share 0 5, share 1 5"},
    {"a rest of the reduction", PRODUCT("float32", 20, 37, 40), "local 0 8, local 2 8, chunk 4 8, share 1 5, share 2 5"},
    {"a tile", PRODUCT("float32", 64, 32, 64),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 6 8, share 0 1025, share 1 1"},
    {"nothing fits", PRODUCT("float32", 61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
    {"a loop of outputs inside", PRODUCT("float32", 48, 32, 48),
     "local 0 8, chunk 0 2, local 3 8, chunk 5 8, share 0 5, share 1 5"},
    {"a shared reduction in a loop", PRODUCT("float32", 12, 32, 20), "chunk 0 2, local 3 8"},
    {"scalars of a tile", PRODUCT("float32", 64, 32, 64),
     "local 1 8, tile 1 4, tile 0 4, local 0 8, chunk 6 8, share 0 5, share 1 5"},
    {"lanes along the reduction", PRODUCT("float32", 24, 64, 24), "local 0 8, local 2 8, vector 4 4, share 0 1, share 1 1025"},
    {"transposed", TRANSPOSED(61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
    {"float16", PRODUCT("float16", 61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
    {"bfloat16", PRODUCT("bfloat16", 64, 32, 64),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 6 8, share 0 1025, share 1 1"},
    {"float16 in 16 bits", PRODUCT("float16", 61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 66561, share 1 65537"},
    {"float16 in 16 bits, one by one", PRODUCT("float16", 32, 32, 32),
     "local 0 8, local 2 8, chunk 4 8, share 0 65543, share 1 65540"},
    {"bfloat16 in 16 bits", PRODUCT("bfloat16", 64, 32, 64),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 6 8, share 0 66561, share 1 65537"},
    {"bfloat16 in 16 bits, transposed lanes", PRODUCT("bfloat16", 24, 64, 24),
     "local 0 8, local 2 8, vector 4 4, share 0 65537, share 1 66561"},
    {"one operand in 16 bits", PRODUCT("float16", 33, 30, 40), "local 0 8, local 2 8, chunk 4 3, share 0 65541, share 1 5"},
    {"int32", PRODUCT("int32", 61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
    {"uint8", PRODUCT("uint8", 61, 40, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
    {"a window", CONV("float32", 2, 6, 9, 11, 20, 3, "'padding': 1"),
     "vector 3 4, local 3 2, local 2 4, tile 1 4, local 1 4, tile 10 3, share 0 1029, share 1 1029"},
    {"a window with strides", CONV("float32", 2, 6, 19, 17, 20, 3, "'padding': 1, 'stride': 2"),
     "vector 3 4, local 3 2, local 2 4, tile 1 4, local 1 4, tile 11 3, share 0 1029, share 1 1029"},
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
     "vector 1 4, local 1 16, tile 1 2, tile 0 8, local 0 16, chunk 7 8, tile 8 8, share 1 1, share 0 1025"},
    {"middling", PRODUCT("float32", 256, 256, 256), false,
     "vector 1 4, local 1 16, tile 0 4, local 0 16, chunk 6 16, tile 7 8, share 0 5, share 1 1029"},
    {"a layer", PRODUCT("float32", 128, 784, 512), false,
     "vector 1 4, local 1 16, tile 0 4, local 0 16, chunk 6 16, tile 7 8, share 0 5, share 1 1029"},
    {"small", PRODUCT("float32", 96, 64, 64), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 1 5, share 0 1029"},
    {"nothing divides", PRODUCT("float32", 67, 259, 133), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 8, chunk 6 7, tile 7 7, share 0 1, share 1 1025"},
    {"a prime reduction", PRODUCT("float32", 64, 67, 64), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 8, tile 8 8, share 2 1, share 0 1025"},
    {"transposed", TRANSPOSED(64, 96, 72), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 1 1029, share 0 5"},
    {"batched", BATCHED(4, 64, 32, 64), true,
     "vector 2 4, local 2 8, tile 1 4, local 1 8, chunk 7 16, tile 8 8, share 1 5, share 0 1029"},
    {"float16", PRODUCT("float16", 96, 64, 64), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 0 5, share 1 1029"},
    {"bfloat16", PRODUCT("bfloat16", 96, 64, 64), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 1 65541, share 0 66565"},
    {"int32", PRODUCT("int32", 96, 64, 64), true,
     "vector 1 4, local 1 8, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 1 5, share 0 1029"},
    {"windows", CONV("float32", 2, 16, 14, 14, 32, 3, "'padding': 1"), true,
     "vector 3 4, local 3 4, local 2 2, tile 1 4, local 1 8, tile 9 3, share 1 5, share 0 1029"},
    {"larger windows", CONV("float32", 2, 8, 15, 17, 32, 5, "'padding': 2, 'stride': 2"), true,
     "vector 3 4, local 3 2, tile 3 2, local 2 2, tile 1 4, local 1 8, tile 10 5, share 0 1025, share 1 1025"},
    {"pictures of one pixel a window", CONV("float32", 2, 32, 12, 12, 32, 1, ""), true,
     "vector 2 4, local 2 8, tile 1 4, local 1 8, chunk 6 16, tile 7 8, share 1 5, share 0 1029"},
    {"a gradient of windows", CONV_GRADIENT(2, 32, 12, 12, 16, 3), true,
     "edges 1 0, vector 3 4, local 3 2, tile 3 2, local 2 2, tile 1 4, local 1 8, tile 10 8, share 1 5, share 0 5"},
    {"too few rows", PRODUCT("float32", 8, 512, 512), false, "local 1 32, tile 1 4, tile 0 8, tile 4 4"},
    {"too little work", PRODUCT("float32", 32, 32, 32), false, "local 1 32, tile 0 8, local 0 4, tile 3 4"},
    {"float64", PRODUCT("float64", 96, 64, 64), false,
     "vector 1 2, local 1 16, tile 0 4, local 0 4, chunk 6 16, tile 7 8, share 0 5, share 1 1029"},
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

        if (strstr(chosen[i].moves, "share") == NULL || strcmp(chosen[i].name, "float64") == 0)
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
        {"float32", "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 5", true, 1024},
        {"float16", "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 5", true, 1024},
        {"float16", "local 0 8, local 2 8, chunk 4 8, share 0 65541, share 1 5", true, 768},
        {"float16", "local 0 8, local 2 8, chunk 4 8, share 0 65541, share 1 65541", true, 512},
        {"bfloat16", "local 0 8, local 2 8, chunk 4 8, share 0 65541, share 1 65541", true, 512},
        {"float32", "local 0 8, local 2 8, chunk 4 8, share 0 65541", false, 0},
        {"int16", "local 0 8, local 2 8, chunk 4 8, share 0 65541", false, 0},
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
