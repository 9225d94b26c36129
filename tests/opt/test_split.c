/* SPDX-License-Identifier: MIT */
/* Split-K: move lists on products and other long sums, on every device, against the nest without moves; the heuristic's choice
 * for a GPU; and whole plans, with the helper that adds the partial sums and the helpers that pack panels. */
#include "engine/opt/heuristic.h"
#include "engine/search/tuner.h"
#include "tests/opt/bench.h"
#include "tests/plan/on_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define IN(name, dtype, ...)      "'" name "': {'dtype': '" dtype "', 'shape': [" #__VA_ARGS__ "]}"
#define NODE(id, op, in, attrs)   "{'id': '" id "', 'op': '" op "', 'in': [" in "], 'attrs': {" attrs "}}"
#define DOC(inputs, nodes, out)   "{'inputs': {" inputs "}, 'nodes': [" nodes "], 'outputs': [" out "]}"
#define PRODUCT(dtype, m, k, n)   DOC(IN("x", dtype, m, k) ", " IN("y", dtype, k, n), NODE("z", "matmul", "'x', 'y'", ""), "'z'")
#define ROWS(op, dtype, rows, of) DOC(IN("x", dtype, rows, of), NODE("y", op, "'x'", "'axis': 1"), "'y'")
#define LAYER(dtype, m, k, n)                                                                                                    \
    DOC(IN("x", dtype, m, k) ", " IN("y", dtype, k, n) ", " IN("b", dtype, n),                                                   \
        NODE("m", "matmul", "'x', 'y'", "") ", " NODE("s", "add", "'m', 'b'", "") ", " NODE("z", "relu", "'s'", ""), "'z', 'm'")
#define CONV(n, ci, h, w, co, k)                                                                                                 \
    DOC(IN("x", "float32", n, ci, h, w) ", " IN("w", "float32", co, ci, k, k), NODE("y", "conv2d", "'x', 'w'", "'padding': 1"),  \
        "'y'")
#define GRADIENT(n, ci, h, w, co, k)                                                                                             \
    DOC(IN("x", "float32", n, ci, h, w) ", " IN("w", "float32", co, ci, k, k) ", " IN("g", "float32", n, co, h, w),              \
        NODE("y", "conv2d", "'x', 'w'", "'padding': 1") ", " NODE("d", "grad", "'y', 'w', 'g'", "'cotangent': true"), "'d'")
#define NAMED                                                                                                                    \
    "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n', 64]}, 'y': {'dtype': 'float32', 'shape': [64, " \
    "24]}}, 'nodes': [{'id': 'z', 'op': 'matmul', 'in': ['x', 'y']}], 'outputs': ['z']}"

/* Axes of a product: 0 rows, 1 columns, 2 the reduction; after the split, 2 the parts and 3 the rest of the reduction.  Each
 * row runs on each device. */
static const struct {
    const char *name, *document, *moves;
} rows[] = {
    {"alone", PRODUCT("float32", 12, 64, 20), "partial(r0, global, 4)"},
    {"with what follows", LAYER("float32", 12, 64, 20), "partial(r0, global, 4)"},
    {"of float16", LAYER("float16", 12, 64, 20), "partial(r0, global, 4)"},
    {"of int32", LAYER("int32", 12, 64, 20), "partial(r0, global, 4)"},
    {"of a named dimension", NAMED, "partial(r0, global, 4)"},
    {"a group's tile", PRODUCT("float32", 32, 64, 32),
     "partial(r0, global, 4), split(0, group, 8), split(1, group, 8), split(r0, loop, 8), stage(b1, local, 1 double), stage(b2, "
     "local, 1 double)"},
    {"a shared part", LAYER("float32", 12, 64, 20), "partial(r0, global, 4), split(r0, group, 8)"},
    {"panels", LAYER("float32", 12, 64, 20),
     "partial(r0, global, 4), split(1, vector, 4), split(0, unroll, 3), stage(b2, panels), stage(b6, panels)"},
    {"a panel before", LAYER("float32", 12, 64, 20), "stage(b2, panels), partial(r0, global, 4), split(0, unroll, 3)"},
    {"windows", CONV(2, 8, 6, 7, 6, 3), "partial(r0, global, 4), split(1, group, 2)"},
    {"windows with edges", CONV(2, 8, 6, 7, 6, 3), "stage(b2, halo, 0), partial(r0, global, 4), split(1, group, 2)"},
    {"a sum", ROWS("sum", "float32", 5, 96), "partial(r0, global, 3)"},
    {"a maximum", ROWS("max", "float32", 5, 96), "partial(r0, global, 3)"},
    {"a product of elements", ROWS("prod", "int32", 5, 96), "partial(r0, global, 3)"},
    {"two sums of a row",
     DOC(IN("x", "float32", 6, 64), NODE("a", "sum", "'x'", "'axis': 1") ", " NODE("b", "max", "'x'", "'axis': 1"), "'a', 'b'"),
     "partial(r0, global, 4), split(r0, group, 4)"},
    {"a norm, and who divides by it",
     DOC(IN("x", "float32", 6, 64),
         NODE("q", "mul", "'x', 'x'", "") ", " NODE("s", "sum", "'q'", "'axis': 1, 'keepdim': true") ", " NODE("y", "div",
                                                                                                               "'x', 's'", ""),
         "'y'"),
     "partial(r0, global, 4)"},
    {"a weight's gradient, part by part", GRADIENT(8, 4, 6, 7, 8, 3),
     "partial(r0, global, 4), split(0, vector, 4), split(0.0, unroll, 2), split(1, unroll, 2), stage(b1, panels), split(r2, "
     "unroll, 2), order(1.0, fastest), order(2, fastest), order(3, fastest)"},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static const bl_nest *last_of(const bl_schedule *schedule)
{
    return &schedule->nests[schedule->nnests - 1];
}

static void run_row(bl_device *dev, const char *name, const char *document, const char *list)
{
    test_graph graph;
    bench b = {.name = name, .dev = dev, .graph = &graph, .vars = {7}};
    bl_move moves[BL_MAX_MOVES];
    bl_err err = {0};
    int n = 0;

    test_graph_open(document, &graph);
    b.schedule = test_graph_schedule(&graph, 16);
    b.nest = last_of(b.schedule);
    assert_true(bl_moves_parse(list, moves, &n));
    bench_open(&b);
    for (int with = 0; with <= 1; with++) {
        bl_tune tune;
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        for (int i = 0; with == 1 && i < n; i++) {
            if (!bl_tune_apply(&tune, moves[i]))
                fail_msg("%s on %s: move %d of \"%s\" is refused", name, dev->info.id, i, list);
        }
        if (bench_run(&b, &tune, &err) != BL_OK)
            fail_msg("%s on %s with \"%s\": %s", name, dev->info.id, with == 1 ? list : "", err.text);
        bench_compare(&b, with == 1 ? list : "");
    }
    bench_close(&b);
    test_graph_close(&graph);
}

/* Runs a plan with moves from the database for each of its products; its kernels and helpers are counted, and its results are
 * compared with the interpreter's. */
static void run_plan(bl_device *dev, const char *name, const char *document, const char *list, uint32_t kernels, uint32_t helpers)
{
    test_graph graph;
    bl_tuner tuner = {0};
    harness_result result = {0};
    harness_options options = {.spec = 2, .tuner = &tuner};
    bl_kernel_record record = {.width = 1, .tried = 1, .heuristic_ns = 2, .best_ns = 1};

    char text[1024] = "";

    assert_true(strlen(document) < sizeof text);
    for (size_t i = 0; document[i] != '\0'; i++)
        text[i] = document[i] == '\'' ? '"' : document[i];
    assert_int_equal(bl_kernels_open(NULL, &tuner.kernels, NULL), BL_OK);
    assert_true(bl_moves_parse(list, record.moves, &record.nmoves));
    test_graph_open(document, &graph);
    const bl_schedule *schedule = test_graph_schedule(&graph, 16);
    for (int i = 0; i < schedule->nnests; i++)
        bl_kernels_store(tuner.kernels, &dev->info, graph.graph->ir, schedule->nests[i].sink, schedule->nests[i].name, &record);
    test_graph_close(&graph);
    assert_int_equal(harness_run(dev, text, &options, 1, &result), 1);
    if (result.err.status != BL_OK || !(result.worst <= 1))
        fail_msg("%s on %s: %s%s", name, dev->info.id, result.err.text, result.where);
    if (result.kernels != kernels || result.helpers != helpers)
        fail_msg("%s on %s: %u kernels and %u helpers", name, dev->info.id, result.kernels, result.helpers);
    bl_kernels_close(tuner.kernels);
}

/* Two products, of which the second reads the first. */
#define CHAIN(inputs, first, second, more)                                                                                       \
    "{'inputs': {" IN("x", "float32", 12, 64) inputs                                                                             \
        "}, " more "'nodes': [" NODE("m", "matmul", "'x', " first, "") ", " NODE("r", "relu", "'m'", "") ", " NODE(              \
            "z", "matmul", "'r', " second, "") ", " NODE("w1", "add", first ", 1", "") "], 'outputs': ['z']}"

/* Products by one weight: before a loop, in its body, and after it. */
#define RECURRENCE                                                                                                               \
    DOC(IN("x", "float32", 12, 64) ", " IN("w", "float32", 64, 64),                                                              \
        NODE("h", "matmul", "'x', 'w'", "") ", " NODE(                                                                           \
            "l", "scan", "'h', 'w'",                                                                                             \
            "'length': 5, 'body': {'inputs': ['h', 'w'], 'nodes': [" NODE("m", "matmul", "'h', 'w'", "") ", " NODE(              \
                "n", "mul", "'m', 0.05", "") "], 'outputs': ['n']}") ", " NODE("y", "matmul", "'l', 'w'", ""),                   \
        "'y'")

/* Panels of inputs and states: equal ones are packed once. */
static const struct {
    const char *name, *document;
    uint32_t kernels, helpers;
} panels[] = {
    {"a weight that two products use", CHAIN(", " IN("w", "float32", 64, 64), "'w'", "'w'", ""), 2, 1},
    {"two weights", CHAIN(", " IN("v", "float32", 64, 64) ", " IN("w", "float32", 64, 64), "'v'", "'w'", ""), 2, 2},
    {"a state that is updated",
     CHAIN("", "'w'", "'w'", "'state': {'w': {'dtype': 'float32', 'shape': [64, 64]}}, 'updates': {'w': 'w1'}, "), 3, 1},
    {"a weight before, in and after a loop: each part of the plan has its panel, the body in each of five steps", RECURRENCE, 7,
     7},
};

static void test_device(void **state)
{
    static const int whole[] = {0, 1, 2, 5, 11, 14, 15}; /* rows without packed panels */

    for (int i = 0; i < NROWS; i++)
        run_row(*state, rows[i].name, rows[i].document, rows[i].moves);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        run_plan(*state, rows[whole[i]].name, rows[whole[i]].document, rows[whole[i]].moves, 1, 1);
    for (size_t i = 0; i < sizeof panels / sizeof panels[0]; i++)
        run_plan(*state, panels[i].name, panels[i].document, "split(1, vector, 4), stage(b2, panels)", panels[i].kernels,
                 panels[i].helpers);
}

/* ---- the choice for a GPU that this machine need not have */

static const bl_target gpu = {.groups = true,
                              .units = 64,
                              .registers = 128,
                              .cache_bytes = 1 << 20,
                              .subgroup = 32,
                              .max_local = 1024,
                              .local_bytes = 48 << 10,
                              .max_params = BL_MAX_BINDINGS};

static const struct {
    const char *name, *document;
    int64_t parts; /* 1: no split */
} chosen[] = {
    {"few tiles of a long product", LAYER("float32", 128, 4096, 128), 16},
    {"one row of tiles", PRODUCT("float32", 32, 8192, 256), 32},
    {"as many tiles as multiprocessors", PRODUCT("float32", 1024, 4096, 1024), 1},
    {"few tiles of a short product", PRODUCT("float32", 128, 128, 128), 1},
    {"a prime reduction", PRODUCT("float32", 128, 4099, 128), 1},
    {"long rows", ROWS("sum", "float32", 8, 30720), 8},
    {"short rows", ROWS("sum", "float32", 8, 1024), 1},
    {"many rows", ROWS("sum", "float32", 512, 30720), 1},
};

static void test_chosen(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        test_graph graph;
        bl_tune tune;
        bl_text text = {0};
        int64_t parts = 1;

        test_graph_open(chosen[i].document, &graph);
        const bl_nest *nest = last_of(test_graph_schedule(&graph, gpu.units));
        bl_tune_init(&tune, graph.graph->ir, nest->sink, nest->nparams);
        bl_heuristic(&tune, &gpu);
        for (int k = 0; k < tune.nmoves; k++)
            parts = tune.moves[k].kind == BL_PARTIAL_GLOBAL ? tune.moves[k].size : parts;
        bl_tune_print(&tune, &text);
        if (parts != chosen[i].parts) {
            print_error("%s: %s has \"%s\", not %lld parts\n", chosen[i].name, nest->name, bl_text_get(&text),
                        (long long)chosen[i].parts);
            wrong++;
        }
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    static const struct CMUnitTest others[] = {cmocka_unit_test(test_chosen)};
    return on_devices("split", test_device, sizeof others / sizeof others[0], others);
}
