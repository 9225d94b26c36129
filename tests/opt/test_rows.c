/* SPDX-License-Identifier: MIT */
/* Reductions shared by the work-items of a group, and outputs distributed among them afterwards: move lists on each device
 * against the nest without moves; refusals without effect; random moves; and the heuristic's choice for a GPU, as a table that
 * fails when a form changes. */
#include "engine/opt/heuristic.h"
#include "tests/opt/bench.h"
#include "tests/plan/on_devices.h"

#include <string.h>

#define IN(name, dtype, ...)         "'" name "': {'dtype': '" dtype "', 'shape': [" #__VA_ARGS__ "]}"
#define NODE(id, op, in, attrs)      "{'id': '" id "', 'op': '" op "', 'in': [" in "], 'attrs': {" attrs "}}"
#define DOC(inputs, nodes, out)      "{'inputs': {" inputs "}, 'nodes': [" nodes "], 'outputs': [" out "]}"
#define UNARY(op, dtype, attrs, ...) DOC(IN("x", dtype, __VA_ARGS__), NODE("y", op, "'x'", attrs), "'y'")
#define SOFTMAX(...)                 UNARY("softmax", "float32", "'axis': 1", __VA_ARGS__)
#define NORM(...)                                                                                                                \
    DOC(IN("x", "float32", __VA_ARGS__) ", " IN("w", "float32", 48) ", " IN("b", "float32", 48),                                 \
        NODE("y", "layer_norm", "'x', 'w', 'b'", ""), "'y'")
#define TWO                                                                                                                      \
    DOC(IN("x", "float32", 20, 48), NODE("y", "softmax", "'x'", "'axis': 1") ", " NODE("z", "mul", "'y', 'x'", ""), "'y', 'z'")

/* Axes of a softmax: 0 the rows, 1 the columns of the result, 2 the columns of its reductions. */
static const struct {
    const char *name, *document, *moves, *refused; /* |refused|: the reason why the last move is refused; NULL: no move is
                                                    * refused */
} rows[] = {
    {"eight to a row", SOFTMAX(20, 48), "split(r0, group, 8), split(1, group, 8)", NULL},
    {"... which the last part overlaps", SOFTMAX(20, 40), "split(r0, group, 8), split(1, group, 8), split(0, group, 3)", NULL},
    {"all of a row", SOFTMAX(20, 16), "split(r0, group, 16), split(1, group, 16)", NULL},
    {"rows of a group", SOFTMAX(20, 48), "split(r0, group, 8), split(1, group, 8), split(0, group, 4)", NULL},
    {"... before", SOFTMAX(20, 48), "split(0, group, 4), split(r0, group, 8), split(1, group, 8)", NULL},
    {"so many that they fold in two steps", SOFTMAX(5, 128), "split(r0, group, 64), split(1, group, 64)", NULL},
    {"lanes of the result, neighbours of the reductions", SOFTMAX(20, 64),
     "split(1, vector, 4), split(r0, unroll, 4), split(r0.0, group, 8), split(1.0, group, 8)", NULL},
    {"a rest", SOFTMAX(20, 44), "split(r0, loop, 8), split(r0.1, group, 8), split(1, group, 8)", NULL},
    {"two reductions, one behind the other", NORM(20, 48), "split(r0, group, 8), split(1, group, 8)", NULL},
    {"a loop that is unrolled", SOFTMAX(20, 64), "split(r0, group, 8), split(1, group, 8), split(1.0, unroll, 4)", NULL},
    {"two results", TWO, "split(r0, group, 8), split(1, group, 8), split(0, group, 2)", NULL},
    {"float16", UNARY("softmax", "float16", "'axis': 1", 20, 48), "split(r0, group, 8), split(1, group, 8)", NULL},
    {"64 bits", UNARY("argmax", "float32", "'axis': 1", 7, 256), "split(r0, group, 64)", NULL},
    {"columns that several share", UNARY("sum", "float32", "'axis': 0", 64, 32),
     "split(0, vector, 4), split(0.0, group, 4), split(r0, group, 4)", NULL},
    {"nobody shares the reductions", SOFTMAX(20, 48), "split(1, group, 8)", "all work-items would do all of them"},
    {"others than those", SOFTMAX(20, 48), "split(r0, group, 8), split(1, group, 4)", "outputs go by their numbers"},
    {"more than the outputs", SOFTMAX(20, 48), "split(r0, group, 48), split(1, group, 48), split(1.1, group, 2)",
     "nothing is left of the loop"},
    {"twice", SOFTMAX(20, 64), "split(r0, group, 8), split(1, group, 8), split(1.0, group, 8)",
     "the outer part would meet the inner one"},
    {"split afterwards", SOFTMAX(20, 64), "split(r0, group, 8), split(1, group, 8), split(1.1, unroll, 2)",
     "then they were fewer"},
};
enum { NROWS = sizeof rows / sizeof rows[0], ROUNDS = 60 };

static void run_row(bl_device *dev, int row)
{
    test_graph graph;
    bench b = {.name = rows[row].name, .dev = dev, .graph = &graph};

    test_graph_open(rows[row].document, &graph);
    b.schedule = test_graph_schedule_groups(&graph, 16);
    bench_row(&b, rows[row].moves, rows[row].refused);
    test_graph_close(&graph);
}

static void test_device(void **state)
{
    for (int i = 0; i < NROWS; i++)
        run_row(*state, i);
}

static bool draw(bl_tune *tune, bl_move_kind kind, bool output, int64_t amount, uint64_t *seed)
{
    int axis = (int)(bench_random(seed) % (uint64_t)tune->naxes);
    return tune->axis[axis].output == output && bl_tune_apply_at(tune, kind, axis, amount);
}

/* Random moves around moves that distribute outputs, which random lists rarely contain. */
static void test_random(void **state)
{
    static const char *const documents[] = {SOFTMAX(20, 48), SOFTMAX(9, 64), NORM(12, 48), TWO};
    static const bl_move_kind kinds[] = {BL_SPLIT_UNROLL, BL_SPLIT_VECTOR, BL_SPLIT_LOOP, BL_SPLIT_GROUP};
    bl_device *dev = bench_interp();
    uint64_t seed = 31;
    int dealt = 0;

    (void)state;
    for (size_t d = 0; d < sizeof documents / sizeof documents[0]; d++) {
        test_graph graph;
        bench b = {.name = "dealt", .dev = dev, .graph = &graph};
        test_graph_open(documents[d], &graph);
        b.schedule = test_graph_schedule_groups(&graph, 16);
        b.nest = &b.schedule->nests[b.schedule->nnests - 1];
        bench_open(&b);
        for (int round = 0; round <= ROUNDS; round++) {
            bl_tune tune;
            bl_text text = {0};
            bl_err err = {0};
            int64_t amount = 2 + (int64_t)(bench_random(&seed) % 7);
            bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
            for (int tries = round == 0 ? 0 : (int)(bench_random(&seed) % 3); tries > 0; tries--)
                (void)draw(&tune, kinds[bench_random(&seed) % 4], bench_random(&seed) % 2 == 0, 2, &seed);
            for (int tries = round == 0 ? 0 : 12; tries > 0 && !draw(&tune, BL_SPLIT_GROUP, false, amount, &seed); tries--)
                continue;
            for (int i = 0; round > 0 && i < tune.naxes; i++) {
                if (tune.axis[i].output && !tune.axis[i].outer)
                    dealt += bl_tune_apply_at(&tune, BL_SPLIT_GROUP, i, amount);
            }
            for (int tries = round == 0 ? 0 : 3; tries > 0; tries--)
                (void)draw(&tune, kinds[bench_random(&seed) % 4], bench_random(&seed) % 2 == 0, 2, &seed);
            bl_tune_print(&tune, &text);
            if (bench_run(&b, &tune, &err) != BL_OK)
                fail_msg("document %zu with \"%s\": %s", d, bl_text_get(&text), err.text);
            bench_compare(&b, bl_text_get(&text));
            bl_text_fini(&text);
        }
        bench_close(&b);
        test_graph_close(&graph);
    }
    bl_device_destroy(dev);
    if (dealt < ROUNDS)
        fail_msg("%d loops were dealt out", dealt);
}

static const struct {
    const char *name, *document, *moves;
} forms[] = {
    {"16 bytes a work-item, and large groups", UNARY("exp", "float32", "", 65536, 1024),
     "split(0, vector, 4), split(0.0, group, 256)"},
    {"... of float16", UNARY("relu", "float16", "", 65536, 1024), "split(0, vector, 8), split(0.0, group, 256)"},
    {"... not where rows begin anywhere", UNARY("exp", "float32", "", 1000003), "split(0, group, 256)"},
    {"few elements: as many multiprocessors as there are have some", UNARY("exp", "float32", "", 64, 64), "split(0, group, 64)"},
    {"short rows: several to a group", UNARY("max_pool2d", "float32", "'kernel_size': 2", 64, 32, 20, 20),
     "split(3, group, 10), split(0, group, 5)"},
    {"a transpose: neighbours on both sides", UNARY("transpose", "float32", "", 4096, 4096),
     "split(1, group, 32), split(0, group, 8)"},
    {"a softmax: rows are shared, neighbours take neighbours", SOFTMAX(65536, 1024),
     "split(1, vector, 4), split(r0, unroll, 4), split(r0.0, group, 128), split(1.0, group, 128), split(0, group, 2)"},
    {"... with a rest", SOFTMAX(4096, 1001),
     "split(r0, loop, 32), split(r0.1, group, 32), split(1, group, 32), split(0, group, 8)"},
    {"sums of rows", UNARY("sum", "float32", "'axis': 1", 65536, 1024),
     "split(r0, unroll, 4), split(r0.0, group, 128), split(0, group, 2)"},
    {"... few of them", UNARY("sum", "float32", "'axis': 1", 200, 4096), "split(r0, unroll, 4), split(r0.0, group, 256)"},
    {"... of few elements: none share one", UNARY("sum", "float32", "'axis': 1", 65536, 10), "split(0, group, 64)"},
    {"sums of columns: in parts", UNARY("sum", "float32", "'axis': 0", 65536, 1024),
     "partial(r0, global, 64), split(0, vector, 4), split(0.0, group, 64), split(r0, group, 4)"},
};
enum { NFORMS = sizeof forms / sizeof forms[0] };

static void test_forms(void **state)
{
    static const bl_target target = {.groups = BL_GROUP_PARALLEL,
                                     .units = 132,
                                     .registers = 128,
                                     .cache_bytes = 32 << 10,
                                     .subgroup = 32,
                                     .max_local = 1024,
                                     .local_bytes = 48 << 10,
                                     .max_params = 32};
    int wrong = 0;

    (void)state;
    for (int i = 0; i < NFORMS; i++) {
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};

        test_graph_open(forms[i].document, &graph);
        schedule = test_graph_schedule_groups(&graph, target.units);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        bl_heuristic(&tune, &target);
        bl_tune_print(&tune, &text);
        if (strcmp(bl_text_get(&text), forms[i].moves) != 0) {
            print_error("%s: \"%s\"; the table says \"%s\"\n", forms[i].name, bl_text_get(&text), forms[i].moves);
            wrong++;
        }
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    static const struct CMUnitTest more[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_forms)};
    return on_devices("rows", test_device, 2, more);
}
