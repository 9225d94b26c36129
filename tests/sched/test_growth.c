/* SPDX-License-Identifier: MIT */
/* The work of the scheduler, and the work of its kernels, grow linearly with the length of a recurrence.  The test counts nodes
 * made by scheduling and iterations of reductions; it measures no time. */
#include "engine/base/text.h"
#include "engine/ir/free.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct recurrence {
    const char *name;
    int hidden;
    bool gradient;
    /* Writes step |t|: from h<t> (and c<t>) to h<t + 1> (and c<t + 1>). */
    void (*put_step)(bl_text *text, int t, uint32_t *random);
    int gates; /* rows of the weights, in units of |hidden| */
} recurrence;

/* ---- documents */

enum { BATCH = 3, INPUT = 5 };

static void put_lstm(bl_text *text, int t, uint32_t *random)
{
    (void)random;
    bl_text_printf(text, "{'id': ['h%d', 'c%d'], 'op': 'lstm_cell', 'in': ['x', 'h%d', 'c%d', 'wi', 'wh', 'bi', 'bh']}, ", t + 1,
                   t + 1, t, t);
}

static void put_gru(bl_text *text, int t, uint32_t *random)
{
    (void)random;
    bl_text_printf(text, "{'id': 'h%d', 'op': 'gru_cell', 'in': ['x', 'h%d', 'wi', 'wh', 'bi', 'bh']}, ", t + 1, t);
}

static void put_rnn(bl_text *text, int t, uint32_t *random)
{
    (void)random;
    bl_text_printf(text, "{'id': 'i%d', 'op': 'linear', 'in': ['x', 'wi', 'bi']}, ", t);
    bl_text_printf(text, "{'id': 'r%d', 'op': 'linear', 'in': ['h%d', 'wh', 'bh']}, ", t, t);
    bl_text_printf(text, "{'id': 's%d', 'op': 'add', 'in': ['i%d', 'r%d']}, ", t, t, t);
    bl_text_printf(text, "{'id': 'h%d', 'op': 'tanh', 'in': ['s%d']}, ", t + 1, t);
}

/* A small product, a reduction or elementwise ops of the last value and of one of the three values before. */
static void put_random(bl_text *text, int t, uint32_t *random)
{
    uint32_t drawn = *random = *random * 1664525 + 1013904223;
    int other = t - (int)(drawn >> 16 & 3);
    const char *op = "mul", *first = "'op': 'tanh'", *also = "";

    switch ((drawn >> 24) % 5) {
    case 0:
        op = "add", first = "'op': 'matmul'", also = ", 'wh'";
        break;
    case 1:
        op = "add", first = "'op': 'softmax'";
        break;
    case 2:
        op = "sub", first = "'op': 'mean', 'attrs': {'axis': 1, 'keepdim': true}";
        break;
    case 3:
        op = "sub", first = "'op': 'max', 'attrs': {'axis': 0, 'keepdim': true}";
        break;
    default:
        break;
    }
    bl_text_printf(text, "{'id': 'a%d', %s, 'in': ['h%d'%s]}, ", t, first, t, also);
    bl_text_printf(text, "{'id': 'h%d', 'op': '%s', 'in': ['a%d', 'h%d']}, ", t + 1, op, t, other < 0 ? 0 : other);
}

static void put_document(const recurrence *r, int steps, uint32_t seed, bl_text *text)
{
    int rows = r->gates * r->hidden;

    bl_text_printf(text, "{'inputs': {'x': {'dtype': 'float32', 'shape': [%d, %d]}, ", BATCH, INPUT);
    bl_text_printf(text, "'h0': {'dtype': 'float32', 'shape': [%d, %d]}, ", BATCH, r->hidden);
    bl_text_printf(text, "'c0': {'dtype': 'float32', 'shape': [%d, %d]}, ", BATCH, r->hidden);
    bl_text_printf(text, "'wi': {'dtype': 'float32', 'shape': [%d, %d]}, ", rows, INPUT);
    bl_text_printf(text, "'wh': {'dtype': 'float32', 'shape': [%d, %d]}, ", rows, r->hidden);
    bl_text_printf(text, "'bi': {'dtype': 'float32', 'shape': [%d]}, ", rows);
    bl_text_printf(text, "'bh': {'dtype': 'float32', 'shape': [%d]}}, 'nodes': [", rows);
    for (int t = 0; t < steps; t++)
        r->put_step(text, t, &seed);
    bl_text_printf(text, "{'id': 'q', 'op': 'square', 'in': ['h%d']}, {'id': 'loss', 'op': 'sum', 'in': ['q']}", steps);
    if (r->gradient)
        bl_text_puts(text, ", {'id': ['dh', 'dw'], 'op': 'grad', 'in': ['loss', 'h0', 'wh']}");
    bl_text_printf(text, "], 'outputs': ['loss'%s]}", r->gradient ? ", 'dh', 'dw'" : "");
}

/* ---- counting */

/* Returns the iterations of the reductions of a nest; a nested reduction runs in all loops of the outer one. */
static int64_t count_iterations(bl_ir *ir, const bl_nest *nest)
{
    bl_nodes below = bl_reach(ir, 1, &nest->sink, false);
    uint64_t *around = bl_arena_array(bl_ir_arena(ir), below.count, sizeof *around), loops = 0;
    int64_t sum = 0;
    bl_ptrmap at;
    bl_free free;

    assert_non_null(around);
    bl_free_init(&free, ir);
    bl_ptrmap_init(&at, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        bl_ptrmap_put(&at, below.at[i], &around[i]);
        if (below.at[i]->op == BL_OP_RANGE && below.at[i]->sub == BL_AXIS_LOOP)
            loops |= bl_free_bit(&free, below.at[i]);
    }
    for (size_t i = below.count; i-- > 0;) { /* users first */
        const bl_node *node = below.at[i];
        uint64_t inside = around[i];
        if (node->op == BL_OP_REDUCE) {
            uint64_t set = bl_free_get(&free, node);
            inside = ((set & ~loops) == 0 ? set : around[i] | set) | bl_free_bound(&free, node);
            sum += bl_free_size(&free, inside);
        }
        for (uint32_t k = 0; k < node->nsrc; k++)
            *(uint64_t *)bl_ptrmap_get(&at, node->src[k]) |= inside;
    }
    return sum;
}

typedef struct tally {
    int64_t nodes, iterations;
} tally;

static tally schedule(const recurrence *r, int steps, uint32_t seed)
{
    bl_text text = {0};
    test_graph g;
    const bl_schedule *s = NULL;
    tally all = {0};

    put_document(r, steps, seed, &text);
    test_graph_open(text.data, &g);
    all.nodes = -(int64_t)bl_ir_count(g.graph->ir);
    s = test_graph_schedule(&g, 2);
    all.nodes += (int64_t)bl_ir_count(g.graph->ir);
    for (int i = 0; i < s->nnests; i++)
        all.iterations += count_iterations(g.graph->ir, &s->nests[i]);
    test_graph_close(&g);
    bl_text_fini(&text);
    return all;
}

enum {
    NODES_A_STEP = 6000,     /* a step of an LSTM with its gradient takes 3500 */
    SPARE_ITERATIONS = 45000 /* short chains are one kernel, for which a chain may recompute this much */
};

/* The work forward, and for the gradients to both factors of each product. */
static int64_t most_iterations(const recurrence *r, int steps)
{
    int64_t products = (int64_t)BATCH * r->gates * r->hidden * (INPUT + r->hidden);
    return SPARE_ITERATIONS + 4 * products * steps;
}

static void check(const recurrence *r, int steps, uint32_t seed)
{
    tally all = schedule(r, steps, seed);

    if (all.nodes > NODES_A_STEP * steps || all.iterations > most_iterations(r, steps))
        fail_msg("%s of %d%s, %d steps, seed %u: %lld nodes, at most %d expected; %lld iterations, at most %lld expected",
                 r->name, r->hidden, r->gradient ? " and its gradient" : "", steps, (unsigned)seed, (long long)all.nodes,
                 NODES_A_STEP * steps, (long long)all.iterations, (long long)most_iterations(r, steps));
}

static void test_cells(void **state)
{
    static const int steps[] = {1, 2, 3, 4, 5, 7, 10, 20};
    static const recurrence rows[] = {
        {"lstm", 6, true, put_lstm, 4}, {"lstm", 16, true, put_lstm, 4}, {"lstm", 8, false, put_lstm, 4},
        {"gru", 4, true, put_gru, 3},   {"gru", 64, true, put_gru, 3},   {"gru", 8, false, put_gru, 3},
        {"rnn", 6, true, put_rnn, 1},   {"rnn", 32, true, put_rnn, 1},   {"rnn", 6, false, put_rnn, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
            check(&rows[i], steps[k], 0);
    }
}

static void test_random(void **state)
{
    static const recurrence forward = {"a random chain", 6, false, put_random, 1},
                            both = {"a random chain", 6, true, put_random, 1};

    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        check(&forward, 20, seed);
        check(&both, 20, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
