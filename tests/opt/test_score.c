/* SPDX-License-Identifier: MIT */
/* Scores that the work-items of a group compute together (BL_STAGE_VALUES): move lists on attention with sizes that are no
 * multiples, on every device with work-groups, against the nest without moves; refusals; and the contents of the kernels. */
#include "engine/lower/lower.h"
#include "engine/opt/heuristic.h"
#include "tests/opt/bench.h"
#include "tests/plan/on_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define IN(name, ...) "'" name "': {'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"
#define ATTENTION(b, n, m, d, e, attrs)                                                                                          \
    "{'inputs': {" IN("q", b, n, d) ", " IN("k", b, m, d) ", " IN(                                                               \
        "v", b, m, e) "}, "                                                                                                      \
                      "'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {" attrs                         \
                      "}}], 'outputs': ['y']}"
#define GRADIENT(b, n, d, attrs)                                                                                                 \
    "{'inputs': {" IN("q", b, n, d) ", " IN("k", b, n, d) ", " IN("v", b, n, d) ", " IN(                                         \
        "w", b, n,                                                                                                               \
        d) "}, "                                                                                                                 \
           "'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {" attrs                                    \
           "}}, {'id': ['dq', 'dk', 'dv'], 'op': "                                                                               \
           "'grad', 'in': ['y', 'q', 'k', 'v', 'w'], 'attrs': {'cotangent': true}}], 'outputs': ['y', 'dq', 'dk', 'dv']}"

/* Axes of the first nest: 0 heads, 1 rows, 2 columns, 3 the keys, 4 the size of a key; each split appends an axis.  |nest|:
 * index in the schedule; |taken|: false if the last move is refused. */
static const struct {
    const char *name, *document;
    int nest;
    bool taken;
    const char *moves;
} rows[] = {
    {"one row, one key a work-item", ATTENTION(2, 33, 64, 8, 16, ""), 0, true, "split(2, group, 16), stage(r0, values, 1)"},
    {"some keys", ATTENTION(2, 33, 64, 8, 16, ""), 0, true, "split(2, group, 16), stage(r0, values, 3)"},
    {"all keys in one block", ATTENTION(2, 33, 64, 8, 16, ""), 0, true, "split(2, group, 16), stage(r0, values, 4)"},
    {"more than all keys", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(2, group, 16), stage(r0, values, 5)"},
    {"vectors of a row", ATTENTION(2, 33, 64, 8, 18, ""), 0, true,
     "split(2, vector, 4), split(2.0, group, 5), stage(r0, values, 2)"},
    {"several of them", ATTENTION(2, 33, 64, 8, 18, ""), 0, true,
     "split(2, vector, 2), split(2.0, unroll, 3), split(2.0.0, group, 3), stage(r0, values, 4)"},
    {"rows of a work-item", ATTENTION(2, 33, 64, 8, 16, ""), 0, true,
     "split(2, vector, 4), split(2.0, group, 4), split(1, unroll, 4), stage(r0, values, 4)"},
    {"rows of a group", ATTENTION(2, 33, 64, 8, 16, ""), 0, true,
     "split(2, vector, 4), split(2.0, group, 4), split(1, unroll, 4), split(1.0, group, 4), stage(r0, values, 4)"},
    {"a loop over rows", ATTENTION(2, 33, 64, 8, 16, ""), 0, true,
     "split(2, group, 16), split(1, loop, 3), stage(r0, values, 2)"},
    {"a loop over columns", ATTENTION(2, 33, 64, 8, 16, ""), 0, true,
     "split(2, group, 4), split(1, unroll, 2), stage(r0, values, 4)"},
    {"unrolled sums", ATTENTION(2, 33, 60, 8, 16, ""), 0, true,
     "split(2, vector, 4), split(2.0, group, 4), split(1, unroll, 2), stage(r0, values, 4), split(r128, unroll, 4), split(r0.1, "
     "unroll, 4)"},
    {"rows alone", ATTENTION(2, 33, 64, 8, 16, ""), 0, true, "split(1, unroll, 2), split(1.0, group, 8), stage(r0, values, 8)"},
    {"no work-items", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(1, unroll, 2), stage(r0, values, 8)"},
    {"lanes along rows", ATTENTION(2, 32, 64, 8, 16, ""), 0, false,
     "split(2, group, 16), split(1, vector, 4), stage(r0, values, 2)"},
    {"causal", ATTENTION(2, 37, 37, 9, 11, "'causal': true"), 0, true,
     "split(2, group, 11), split(1, unroll, 2), split(1.0, group, 3), stage(r0, values, 2)"},
    {"so few that no sum follows another", ATTENTION(2, 9, 9, 5, 5, "'causal': true"), 0, true,
     "split(1, group, 9), stage(r0, values, 2)"},
    {"so few, by tiles", ATTENTION(2, 9, 9, 5, 5, "'causal': true"), 0, true,
     "split(1, group, 9), split(2, unroll, 3), stage(r0, values, 2)"},
    {"keys that go on together", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(r0, unroll, 4)"},
    {"lanes along them", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(r0, vector, 4)"},
    {"a block of them", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(r0, loop, 8)"},
    {"an operand in panels", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "stage(b2, panels)"},
    {"twice", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(2, group, 16), stage(r0, values, 2), stage(r0.0, values, 2)"},
    {"not the size of a key", ATTENTION(2, 33, 64, 8, 16, ""), 0, false, "split(2, group, 16), stage(r128, values, 2)"},
    {"work-items after it", ATTENTION(2, 33, 64, 8, 16, ""), 0, false,
     "split(2, group, 16), stage(r0, values, 2), split(1, group, 2)"},
    {"gradient to queries", GRADIENT(2, 48, 8, ""), 0, true,
     "split(2, vector, 4), split(2.0, group, 2), split(1, unroll, 4), split(1.0, group, 4), stage(r0, values, 4)"},
    {"nothing divides", GRADIENT(2, 43, 7, "'causal': true"), 0, true,
     "split(2, vector, 4), split(2.0, group, 2), split(1, unroll, 3), split(1.0, group, 4), stage(r0, values, 3)"},
    {"gradient to keys", GRADIENT(2, 48, 8, ""), 1, true,
     "split(2, vector, 4), split(2.0, group, 2), split(1, unroll, 4), split(1.0, group, 4), stage(r0, values, 4)"},
    {"nothing divides, keys", GRADIENT(2, 43, 7, "'causal': true"), 1, true,
     "split(2, vector, 4), split(2.0, group, 2), split(1, unroll, 3), split(1.0, group, 4), stage(r0, values, 3)"},
    {"some queries at once", GRADIENT(2, 97, 5, ""), 1, true, "split(r0, unroll, 8), split(1, group, 8), stage(r0.0, values, 1)"},
    {"lanes along queries", GRADIENT(2, 97, 5, ""), 1, true, "split(r0, vector, 4), split(1, group, 8), stage(r0.0, values, 1)"},
    {"two lanes, some turns a work-item", GRADIENT(2, 43, 7, "'causal': true"), 1, true,
     "split(r0, vector, 2), split(1, unroll, 3), split(1.0, group, 3), stage(r0.0, values, 3)"},
};

static void run_row(bl_device *dev, int i)
{
    test_graph graph;
    bench b = {.name = rows[i].name, .dev = dev, .graph = &graph};
    bl_schedule *schedule = NULL;
    bl_move moves[BL_MAX_MOVES];
    bl_err err = {0};
    int n = 0;

    test_graph_open(rows[i].document, &graph);
    schedule = test_graph_schedule_groups(&graph, 2);
    b.schedule = schedule;
    b.nest = &schedule->nests[rows[i].nest];
    if (!bl_moves_parse(rows[i].moves, moves, &n))
        fail_msg("%s: no list of moves: %s", rows[i].name, rows[i].moves);
    bench_open(&b);
    for (int with = 0; with <= 1; with++) {
        bl_tune tune;
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        tune.local_bytes = dev->info.local_bytes;
        for (int k = 0; with && k < n; k++) {
            const bl_node *before = tune.sink;
            bool taken = bl_tune_apply(&tune, moves[k]);
            if (taken != (rows[i].taken || k < n - 1))
                fail_msg("%s: move %d of \"%s\" is %s", rows[i].name, k, rows[i].moves, taken ? "taken" : "refused");
            if (!taken)
                assert_ptr_equal(before, tune.sink);
        }
        if (bench_run(&b, &tune, &err) != BL_OK)
            fail_msg("%s %s with \"%s\": %s", dev->info.id, rows[i].name, with ? rows[i].moves : "", err.text);
        bench_compare(&b, with ? rows[i].moves : "");
    }
    bench_close(&b);
    test_graph_close(&graph);
}

static void test_device(void **state)
{
    const bl_device *dev = *state;

    if (dev->info.max_local <= 1)
        skip(); /* no work-groups to share a row */
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++)
        run_row(*state, i);
}

/* GPUs that this machine need not have: with much local memory, and with little. */
static const bl_target large = {.groups = true,
                                .units = 16,
                                .registers = 128,
                                .cache_bytes = 1 << 20,
                                .subgroup = 32,
                                .max_local = 1024,
                                .local_bytes = 48 << 10,
                                .max_params = BL_MAX_BINDINGS},
                       small = {.groups = true,
                                .units = 2,
                                .registers = 64,
                                .cache_bytes = 1 << 18,
                                .subgroup = 16,
                                .max_local = 128,
                                .local_bytes = 8 << 10,
                                .max_params = BL_MAX_BINDINGS};

/* The moves that docs/engine.md explains. */
static const struct {
    const char *name, *document;
    const bl_target *target;
    int nest;
    const char *moves;
} chosen[] = {
    {"long", ATTENTION(8, 4096, 4096, 64, 64, ""), &large, 0,
     "split(2, vector, 4), split(2.0, group, 16), split(1, unroll, 4), split(1.0, group, 16), stage(r0, values, 4), split(r3199, "
     "unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
    {"long, little memory", ATTENTION(8, 4096, 4096, 64, 64, ""), &small, 0,
     "split(2, vector, 4), split(2.0, group, 16), split(1, unroll, 4), split(1.0, group, 8), stage(r0, values, 2), split(r3199, "
     "unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
    {"few rows", ATTENTION(1, 128, 512, 64, 64, ""), &large, 0,
     "split(1, vector, 4), split(1.0, group, 16), split(0, unroll, 4), split(0.0, group, 2), stage(r0, values, 4), split(r3199, "
     "unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
    {"wide", ATTENTION(2, 1024, 1024, 256, 256, ""), &large, 0,
     "split(2, vector, 4), split(2.0, unroll, 2), split(2.0.0, group, 32), split(1, unroll, 4), split(1.0, group, 8), stage(r0, "
     "values, 4), split(r3199, unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
    {"gradient to queries", GRADIENT(8, 4096, 64, ""), &large, 0,
     "split(2, vector, 4), split(2.0, group, 16), split(1, unroll, 4), split(1.0, group, 16), stage(r0, values, 4), split(r3199, "
     "unroll, 4), split(r160, unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
    {"gradient to keys", GRADIENT(8, 4096, 64, ""), &large, 1,
     "split(2, vector, 4), split(2.0, group, 16), split(1, unroll, 4), split(1.0, group, 16), stage(r0, values, 4), split(r160, "
     "unroll, 4), split(r128, unroll, 4), split(r0.1, unroll, 4)"},
};
enum { NCHOSEN = sizeof chosen / sizeof chosen[0] };

/* The contents of a kernel's loop over blocks of keys. */
typedef struct content {
    int barriers, exps, vectors, scalars; /* |vectors|, |scalars|: loads of local memory */
    int64_t local_bytes;
} content;

static content count(const bl_linear *linear)
{
    content c = {.local_bytes = linear->local_bytes};
    int depth = 0;

    for (uint32_t i = 0; i < linear->ninst; i++) {
        const bl_inst *inst = &linear->inst[i];
        depth += (inst->op == BL_OP_LOOP) - (inst->op == BL_OP_END);
        c.barriers += inst->op == BL_OP_BARRIER && depth == 1;
        c.exps += inst->op == BL_OP_EXP;
        if (inst->op != BL_OP_LOAD || linear->inst[inst->args[0]].sub == 0)
            continue;
        c.vectors += inst->lanes > 1;
        c.scalars += inst->lanes == 1;
    }
    return c;
}

static void test_chosen(void **state)
{
    int wrong = 0;

    (void)state;
    for (int i = 0; i < NCHOSEN; i++) {
        const bl_target *target = chosen[i].target;
        test_graph graph;
        const bl_nest *nest = NULL;
        bl_lowered *lowered = NULL;
        bl_tune tune;
        bl_text text = {0};
        bl_err err = {0};
        content c;

        test_graph_open(chosen[i].document, &graph);
        nest = &test_graph_schedule_groups(&graph, target->units)->nests[chosen[i].nest];
        bl_tune_init(&tune, graph.graph->ir, nest->sink, nest->nparams);
        bl_heuristic(&tune, target);
        bl_tune_print(&tune, &text);
        if (strcmp(bl_text_get(&text), chosen[i].moves) != 0) {
            print_error("%s: \"%s\"; the table says \"%s\"\n", chosen[i].name, bl_text_get(&text), chosen[i].moves);
            wrong++;
        }
        if (bl_lower(tune.ir, tune.sink, "nest", (uint32_t)tune.nparams, 2, &lowered, &err) != BL_OK)
            fail_msg("%s: %s", chosen[i].name, err.text);
        c = count(lowered->linear);
        /* barriers after the scores or their maximum, after the values computed from them, and at the end of the iteration; the
         * gradient to keys needs no maximum */
        if (c.barriers != (chosen[i].nest == 0 ? 3 : 2) || c.scalars > 0 || c.local_bytes > target->local_bytes) {
            print_error("%s: %d barriers, %d loads of single elements, %lld bytes of local memory\n", chosen[i].name, c.barriers,
                        c.scalars, (long long)c.local_bytes);
            wrong++;
        }
        if (c.exps > 32) { /* four scores for each of four rows, and their rescaling: not once per column */
            print_error("%s: %d exps\n", chosen[i].name, c.exps);
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
    return on_devices("score", test_device, sizeof others / sizeof others[0], others);
}
