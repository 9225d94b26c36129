/* SPDX-License-Identifier: MIT */
/* Operands that the work-items of a group copy into local memory together: lists of moves on products and convolutions whose
 * sizes are no multiples of anything, on every device that has work-groups, beside the nest without moves. */
#include "engine/lower/lower.h"
#include "engine/opt/heuristic.h"
#include "engine/render/render.h"
#include "tests/opt/bench.h"
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16 };

#define IN(name, dtype, ...)    "'" name "': {'dtype': '" dtype "', 'shape': [" #__VA_ARGS__ "]}"
#define NODE(id, op, in, attrs) "{'id': '" id "', 'op': '" op "', 'in': [" in "], 'attrs': {" attrs "}}"
#define DOC(inputs, nodes, out) "{'inputs': {" inputs "}, 'nodes': [" nodes "], 'outputs': ['" out "']}"
#define PRODUCT(dtype, m, k, n) DOC(IN("x", dtype, m, k) ", " IN("y", dtype, k, n), NODE("z", "matmul", "'x', 'y'", ""), "z")

/* Axes of a product: 0 rows, 1 columns, 2 the reduction; each split puts one more behind.  Amounts of |share|: 1 two copies, 2
 * swizzle, 4 for each loop within a copy, 256 for each element of padding. */
static const struct {
    const char *name, *document, *moves;
} rows[] = {
    {"one copy", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 4, share 1 4"},
    {"two copies", PRODUCT("float32", 32, 32, 32), "local 0 8, local 2 8, chunk 4 8, share 0 5, share 1 5"},
    {"a tile", PRODUCT("float32", 64, 32, 64),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 6 8, share 0 1025, share 1 1"},
    {"nothing fits", PRODUCT("float32", 61, 45, 75),
     "vector 1 4, local 1 8, tile 1 2, tile 0 8, local 0 4, tile 7 8, share 0 1025, share 1 1"},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

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
    schedule = test_graph_schedule(&graph, 2);
    b.schedule = schedule;
    b.nest = &schedule->nests[0];
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

/* ---- what is chosen for a GPU */

static const bl_target gpu = {.groups = true,
                              .units = 16,
                              .registers = 128,
                              .cache_bytes = 1 << 20,
                              .subgroup = 32,
                              .max_local = 1024,
                              .local_bytes = 48 << 10,
                              .max_params = BL_MAX_BINDINGS};

static const struct {
    const char *name, *document, *moves;
} chosen[] = {
    {"1024", PRODUCT("float32", 1024, 1024, 1024), ""},
    {"512", PRODUCT("float32", 512, 512, 512), ""},
    {"256", PRODUCT("float32", 256, 256, 256), ""},
    {"128x784x512", PRODUCT("float32", 128, 784, 512), ""},
    {"odd", PRODUCT("float32", 131, 259, 133), ""},
    {"transposed",
     DOC(IN("x", "float32", 256, 128) ", " IN("y", "float32", 192, 256),
         NODE("t", "transpose", "'x'", "") ", " NODE("u", "transpose", "'y'", "") ", " NODE("z", "matmul", "'t', 'u'", ""), "z"),
     ""},
    {"conv",
     DOC(IN("x", "float32", 4, 16, 14, 14) ", " IN("w", "float32", 32, 16, 3, 3), NODE("y", "conv2d", "'x', 'w'", "'padding': 1"),
         "y"),
     ""},
    {"batched", DOC(IN("x", "float32", 4, 64, 32) ", " IN("y", "float32", 4, 32, 64), NODE("z", "matmul", "'x', 'y'", ""), "z"),
     ""},
};

static void choose(const char *name, const char *document)
{
    test_graph graph;
    bl_schedule *schedule = NULL;
    bl_tune tune;
    bl_text text = {0};

    test_graph_open(document, &graph);
    schedule = test_graph_schedule(&graph, gpu.units);
    bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
    bl_heuristic(&tune, &gpu);
    bl_tune_print(&tune, &text);
    printf("%s: %s\n", name, bl_text_get(&text));
    bl_text_fini(&text);
    test_graph_close(&graph);
}

static void test_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
        choose(chosen[i].name, chosen[i].document);
}

static void test_device(void **state)
{
    for (int i = 0; i < NROWS; i++)
        run_row(*state, rows[i].name, rows[i].document, rows[i].moves);
}

int main(void)
{
    static struct CMUnitTest tests[MOST_DEVICES + 1];
    bl_device *devices[MOST_DEVICES];
    uint32_t n = harness_open(MOST_DEVICES, devices);
    int failed = 0;

    for (uint32_t d = 0; d < n; d++)
        tests[d] = (struct CMUnitTest){.name = devices[d]->info.id, .test_func = test_device, .initial_state = devices[d]};
    tests[n] = (struct CMUnitTest)cmocka_unit_test(test_chosen);
    failed = _cmocka_run_group_tests("share", tests, n + 1, NULL, NULL);
    for (uint32_t d = 0; d < n; d++)
        bl_device_destroy(devices[d]);
    return failed != 0 || n == 0;
}
