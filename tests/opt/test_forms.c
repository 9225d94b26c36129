/* SPDX-License-Identifier: MIT */
/* The heuristic's moves for two cores with vectors of 16 floats.  A change of a form fails the table, so that an improvement is
 * measured and kept. */
#include "engine/opt/heuristic.h"
#include "tests/opt/forms.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_forms(void **state)
{
    bl_target target = {.units = 2,
                        .vector_bits = 512,
                        .registers = 32,
                        .cache_bytes = 1 << 20,
                        .last_cache_bytes = 1 << 25,
                        .subgroup = 1,
                        .max_local = 1,
                        .local_bytes = 1 << 20,
                        .max_params = 32};
    int wrong = 0;

    (void)state;
    for (int i = 0; i < nforms + nmasked_forms; i++) {
        const form_row *r = i < nforms ? &forms[i] : &masked_forms[i - nforms];
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};
        int axes = 0;

        test_graph_open(r->document, &graph);
        schedule = test_graph_schedule(&graph, target.units);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        axes = tune.naxes;
        target.masks = i >= nforms;
        bl_heuristic(&tune, &target);
        bl_tune_print(&tune, &text);
        if (axes != r->axes || strcmp(bl_text_get(&text), r->moves) != 0) {
            print_error("%s: %d axes, \"%s\"; the table says %d, \"%s\"\n", r->name, axes, bl_text_get(&text), r->axes, r->moves);
            wrong++;
        }
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

/* Opens a graph and its first nest. */
static void open_nest(const char *document, test_graph *graph, bl_tune *tune)
{
    bl_schedule *schedule = NULL;

    test_graph_open(document, graph);
    schedule = test_graph_schedule(graph, 2);
    bl_tune_init(tune, graph->graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
}

/* A padded picture under windows with a stride of two is materialized once, not once per position of a window. */
static void test_edges_apart(void **state)
{
    test_graph graph;
    bl_tune tune;

    (void)state;
    open_nest("{'inputs': {'x': " F32(8, 64, 56, 56) ", 'w': " F32(
                  128, 64, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', "
                                 "'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 1}}], 'outputs': ['y']}",
              &graph, &tune);
    assert_true(bl_tune_apply_at(&tune, BL_STAGE_HALO, 0, 0) || bl_tune_apply_at(&tune, BL_STAGE_HALO, 1, 0));
    assert_true(bl_is_int(tune.packed[0].count, (int64_t)8 * 64 * 57 * 57));
    test_graph_close(&graph);
}

/* The products with the padding of a picture are left out once. */
static void test_edges_trimmed(void **state)
{
    test_graph graph;
    bl_tune tune;
    int trimmed = 0, again = 0;

    (void)state;
    open_nest("{'inputs': {'x': " F32(1, 3, 16, 16) ", 'w': " F32(
                  16, 3, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', "
                               "'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}",
              &graph, &tune);
    for (int operand = 0; operand < 2; operand++)
        trimmed += bl_tune_apply_at(&tune, BL_HINT_TRIM, operand, 0);
    for (int operand = 0; operand < 2; operand++)
        again += bl_tune_apply_at(&tune, BL_HINT_TRIM, operand, 0);
    assert_int_equal(trimmed, 1);
    assert_int_equal(again, 0);
    test_graph_close(&graph);
}

/* A copy has no border along the axes that the nest tests itself: 16 lines of 18 pixels. */
static void test_borders(void **state)
{
    test_graph graph;
    bl_tune tune;
    int copied = -1;

    (void)state;
    open_nest("{'inputs': {'x': " F32(1, 3, 16, 16) ", 'w': " F32(
                  16, 3, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', "
                               "'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}",
              &graph, &tune);
    for (int operand = 0; operand < 2 && copied < 0; operand++) {
        if (bl_tune_apply_at(&tune, BL_HINT_TRIM, operand, 0))
            copied = operand;
    }
    assert_true(bl_tune_apply_at(&tune, BL_STAGE_HALO, copied, ~(INT64_C(1) << 1))); /* axes: channels, lines, pixels */
    assert_true(bl_is_int(tune.packed[0].count, 3 * 16 * 18));
    test_graph_close(&graph);
}

#define PRODUCT(dtype, m, n, k)                                                                                                  \
    "{'inputs': {'x': " TYPED(dtype, m, k) ", 'w': " TYPED(                                                                      \
        dtype, k, n) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"

static const bl_matrix warp = {16, 16, 16, 32, 1, 15, BL_F16, BL_F32, false},
                       tiles = {16, 16, 32, 1, 2, 17, BL_BF16, BL_F32, false}, dot = {1, 16, 2, 1, 2, 17, BL_BF16, BL_F32, false};

typedef struct unit_form {
    const char *name, *document, *moves;
    const bl_matrix *unit;
    bool cpu, groups;
    bl_matrix_use use;
    bl_precision precision;
    uint8_t rate;
} unit_form;

static const unit_form unit_forms[] = {
    {"a GPU", PRODUCT(float16, 256, 256, 256),
     "unit(0, matrix, 16x16x16 32,1,15 float16 float32), "
     "split(0.0, unroll, 2), split(0.0.0, group, 2), split(1.0, unroll, 2), split(1.0.0, group, 2), split(r0.0, unroll, 2), "
     "stage(b1, local, 0 double padded 8 narrow), stage(b2, local, 0 double padded 8 narrow)",
     &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"a GPU, and fewer tiles than it has multiprocessors", PRODUCT(float16, 128, 128, 8192),
     "partial(r0, global, 4), unit(0, matrix, 16x16x16 32,1,15 float16 float32), "
     "split(0.0, unroll, 2), split(0.0.0, group, 2), split(1.0, unroll, 2), split(1.0.0, group, 2), split(r0.0, unroll, 2), "
     "stage(b1, local, 0 double padded 8 narrow), stage(b2, local, 0 double padded 8 narrow)",
     &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"not float32", PRODUCT(float32, 256, 256, 256), "", &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"never", PRODUCT(float16, 256, 256, 256), "", &warp, false, true, BL_MATRIX_NEVER, BL_PRECISION_HIGHEST, 16},
    {"half of the tiles would be computed twice", PRODUCT(float16, 9, 256, 256), "", &warp, false, true, BL_MATRIX_ALWAYS,
     BL_PRECISION_HIGHEST, 16},
    {"a CPU that plays a GPU", PRODUCT(float16, 256, 256, 256), "", &warp, true, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"... asked to", PRODUCT(float16, 256, 256, 256),
     "unit(0, matrix, 16x16x16 32,1,15 float16 float32), split(0.0, unroll, 2), split(1.0, unroll, 2)", &warp, true, true,
     BL_MATRIX_ALWAYS, BL_PRECISION_HIGHEST, 16},
    {"tiles: four of them, and two of each operand", PRODUCT(bfloat16, 256, 256, 256),
     "unit(0, matrix, 16x16x32 1,2,17 bfloat16 float32), split(0.0, unroll, 2), split(1.0, unroll, 2), split(r0.0, unroll, 4)",
     &tiles, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"vectors: as for float32", PRODUCT(bfloat16, 256, 256, 256),
     "unit(0, matrix, 1x16x2 1,2,17 bfloat16 float32), split(0, unroll, 6), split(1.0, unroll, 4), split(r0.0, unroll, 4)", &dot,
     true, false, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"a convolution's picture is not turned for them, but lies as their columns",
     "{'inputs': {'x': " TYPED(bfloat16, 8, 64, 32, 32) ", 'w': " TYPED(
         bfloat16, 64, 64, 3,
         3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}",
     "unit(1, matrix, 1x16x2 1,2,17 bfloat16 float32), split(1, unroll, 8), split(3.0, unroll, 2), split(r0.0, unroll, 4)", &dot,
     true, false, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 2},
    {"float32, allowed to be split, on a unit of sixteen times the rate", PRODUCT(float32, 256, 256, 256),
     "unit(0, matrix, 16x16x32 1,2,17 bfloat16x3 float32), split(0.0, unroll, 2), split(1.0, unroll, 2)", &tiles, true, false,
     BL_MATRIX_SURE, BL_PRECISION_HIGH, 16},
    {"... not allowed", PRODUCT(float32, 256, 256, 256), "", &tiles, true, false, BL_MATRIX_ALWAYS, BL_PRECISION_HIGHEST, 16},
    {"... of twice the rate", PRODUCT(float32, 256, 256, 256), "", &dot, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH, 2},
    {"... of an unknown one", PRODUCT(float32, 256, 256, 256), "", &tiles, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH, 0},
    {"... asked to", PRODUCT(float32, 256, 256, 256),
     "unit(0, matrix, 1x16x2 1,2,17 bfloat16x3 float32), split(0, unroll, 6), split(1.0, unroll, 4)", &dot, true, false,
     BL_MATRIX_ALWAYS, BL_PRECISION_HIGH, 2},
    {"... of float16, which has no halves", PRODUCT(float32, 256, 256, 256), "", &warp, false, true, BL_MATRIX_ALWAYS,
     BL_PRECISION_HIGH, 16},
    {"what is bfloat16 itself is not split", PRODUCT(bfloat16, 256, 256, 256),
     "unit(0, matrix, 16x16x32 1,2,17 bfloat16 float32), split(0.0, unroll, 2), split(1.0, unroll, 2), split(r0.0, unroll, 4)",
     &tiles, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH, 16},
};

/* Products on matrix units: of a CPU, of a GPU, and of a CPU device with work-groups; and nests that keep other moves. */
static void test_units(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof unit_forms / sizeof unit_forms[0]; i++) {
        const unit_form *form = &unit_forms[i];
        bl_target target = {.groups = !form->groups ? BL_GROUP_OF_ONE
                                      : form->cpu   ? BL_GROUP_SERIAL
                                                    : BL_GROUP_PARALLEL,
                            .units = 16,
                            .vector_bits = form->groups ? 0 : 512,
                            .registers = form->groups ? 128 : 32,
                            .cache_bytes = 1 << 20,
                            .subgroup = form->groups ? 32 : 1,
                            .max_local = 1024,
                            .local_bytes = 48 << 10,
                            .max_params = 32,
                            .use = form->use,
                            .nmatrix = 1,
                            .matrix = {{*form->unit, form->rate}},
                            .fragments = form->unit->k == 32 ? 8 : 0};
        test_graph graph;
        bl_schedule *schedule = NULL;
        const bl_node *sink = NULL;
        bl_tune tune;
        bl_text text = {0};
        bl_move moves[BL_MAX_MOVES];
        int n = 0;

        test_graph_open(form->document, &graph);
        schedule = test_graph_schedule(&graph, target.units);
        sink = schedule->nests[0].sink;
        if (form->precision == BL_PRECISION_HIGH)
            bl_target_split(&target);
        if (target.precision == BL_PRECISION_HIGH)
            sink = bl_sink_relax(graph.graph->ir, sink);
        bl_tune_init(&tune, graph.graph->ir, sink, schedule->nests[0].nparams);
        bl_heuristic(&tune, &target);
        bl_tune_print(&tune, &text);
        if (form->moves[0] == '\0' ? strstr(bl_text_get(&text), "matrix") != NULL
                                   : strcmp(bl_text_get(&text), form->moves) != 0) {
            print_error("%s: \"%s\"; the table says \"%s\"\n", form->name, bl_text_get(&text), form->moves);
            wrong++;
        }
        assert_true(bl_moves_parse(bl_text_get(&text), moves, &n)); /* the printed moves can be parsed */
        assert_int_equal(n, tune.nmoves);
        for (int k = 0; k < n; k++)
            assert_memory_equal(&moves[k], &tune.moves[k], sizeof moves[k]);
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

/* A grid that is too large for the device: work-items take several iterations. */
static void test_few_groups(void **state)
{
    static const struct {
        const char *document, *moves;
        uint32_t most[3];
    } grids[] = {
        {"{'inputs': {'x': " F32(1000, 96) "}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}",
         "split(0, loop, 96)",
         {1000, 1, 1}},
        {"{'inputs': {'x': " F32(997, 96) "}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}",
         "split(0, loop, 96)",
         {1000, 1, 1}},
        {"{'inputs': {'x': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'transpose', 'in': ['x']}], 'outputs': ['y']}",
         "",
         {64, 64, 1}},
        {"{'inputs': {'x': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'transpose', 'in': ['x']}], 'outputs': ['y']}",
         "split(1, loop, 4), split(0, loop, 2)",
         {16, 24, 1}},
        /* a prime extent: each split has a remainder, and the search cannot try all */
        {"{'inputs': {'x': " F32(
             1) "}, 'nodes': [{'id': 'y', 'op': 'expand', 'in': ['x'], 'attrs': {'shape': [2305843009213693951]}}], "
                "'outputs': ['y']}",
         "split(0, loop, 35184908967937)",
         {65535, 1, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};

        test_graph_open(grids[i].document, &graph);
        schedule = test_graph_schedule(&graph, 2);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        assert_true(bl_tune_limit_groups(&tune, grids[i].most));
        bl_tune_print(&tune, &text);
        assert_string_equal(grids[i].moves, bl_text_get(&text));
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),         cmocka_unit_test(test_edges_apart),
                                       cmocka_unit_test(test_edges_trimmed), cmocka_unit_test(test_borders),
                                       cmocka_unit_test(test_units),         cmocka_unit_test(test_few_groups)};
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
