/* SPDX-License-Identifier: MIT */
/* The lowering of a nest, as facts about the linear kernel: vector loads and stores, copies for tiles, hoisting out of loops,
 * and reductions that share a loop. */
#include "engine/ir/stage.h"
#include "engine/ir/verify.h"
#include "engine/lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A nest under construction, with short names for frequent operations. */
typedef struct bench {
    bl_ir *ir;
    bl_lowered *lowered;
    const bl_linear *linear;
} bench;

static bench open_bench(void)
{
    return (bench){.ir = bl_ir_create(1 << 24)};
}

static const bl_node *param(bench *b, int number)
{
    return bl_param(b->ir, number, BL_F32, false);
}

static const bl_node *loop(bench *b, int number, bl_axis_kind kind, int64_t extent)
{
    return bl_range(b->ir, number, kind, bl_index(b->ir, extent));
}

/* a * n + i */
static const bl_node *at(bench *b, const bl_node *a, int64_t n, const bl_node *i)
{
    return bl_add(b->ir, bl_mul(b->ir, a, bl_index(b->ir, n)), i);
}

static const bl_node *load(bench *b, int number, const bl_node *index)
{
    return bl_load(b->ir, param(b, number), index, NULL);
}

static const bl_node *sum(bench *b, const bl_node *value, const bl_node *range)
{
    return bl_reduce_over(b->ir, BL_OP_ADD, 1, &value, 1, &range);
}

static void lower(bench *b, int nstores, const bl_node *const *stores, uint32_t nbuffers)
{
    const bl_node *sink = bl_sink(b->ir, nstores, stores);
    bl_err err = {0};
    if (bl_ir_status(b->ir, &err) != BL_OK || bl_ir_verify(b->ir, 1, &sink, BL_STAGE_KERNEL, "test", 2, &err) != BL_OK ||
        bl_lower(b->ir, sink, "nest", nbuffers, 2, &b->lowered, &err) != BL_OK)
        fail_msg("%s", err.text);
    b->linear = b->lowered->linear;
}

/* The facts that a row can check; -1: not checked. */
typedef struct facts {
    int loads, stores; /* number of instructions */
    int load_lanes;    /* of the widest load */
    int gathers;       /* stacks of scalars */
    int loops, depth;  /* |depth|: nesting depth */
    int accs;
    int deep_loads; /* loads in the innermost loop */
    int groups;     /* work-groups of the grid, over all dimensions */
} facts;

static facts survey(const bench *b)
{
    facts f = {.groups = 1};
    int depth = 0;

    for (int pass = 0; pass < 2; pass++) {
        int deepest = f.depth;
        for (uint32_t i = 0; i < b->linear->ninst; i++) {
            const bl_inst *inst = &b->linear->inst[i];
            depth += inst->op == BL_OP_LOOP;
            depth -= inst->op == BL_OP_END;
            if (pass == 1) {
                f.deep_loads += inst->op == BL_OP_LOAD && depth == deepest;
                continue;
            }
            f.depth = depth > f.depth ? depth : f.depth;
            f.loops += inst->op == BL_OP_LOOP;
            f.loads += inst->op == BL_OP_LOAD;
            f.stores += inst->op == BL_OP_STORE;
            f.accs += inst->op == BL_OP_ACC;
            f.gathers += inst->op == BL_OP_STACK;
            if (inst->op == BL_OP_LOAD && inst->lanes > f.load_lanes)
                f.load_lanes = inst->lanes;
        }
    }
    for (int i = 0; i < BL_GRID_DIMS; i++)
        f.groups *= (int)b->lowered->grid[i]->hi;
    return f;
}

static void expect(bench *b, facts want)
{
    facts got = survey(b);
    const struct {
        const char *what;
        int got, want;
    } rows[] = {{"loads", got.loads, want.loads},
                {"stores", got.stores, want.stores},
                {"lanes of a load", got.load_lanes, want.load_lanes},
                {"stacks", got.gathers, want.gathers},
                {"loops", got.loops, want.loops},
                {"depth", got.depth, want.depth},
                {"accumulators", got.accs, want.accs},
                {"loads in the deepest loop", got.deep_loads, want.deep_loads},
                {"groups", got.groups, want.groups}};
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].want >= 0 && rows[i].got != rows[i].want) {
            print_error("%d %s, not %d\n", rows[i].got, rows[i].what, rows[i].want);
            wrong++;
        }
    }
    if (wrong > 0) {
        bl_text text = {0};
        bl_linear_print(b->linear, &text);
        print_error("%s", text.data);
        bl_text_fini(&text);
    }
    bl_ir_destroy(b->ir);
    assert_int_equal(wrong, 0);
}

/* out[g * 16 + v] = a[g * 16 + v] + b[g * stride ...]: contiguous loads, broadcasts, selection from two or three vectors, and
 * scattered accesses. */
static void vectors(void **state)
{
    static const struct {
        int64_t stride;
        facts want;
    } rows[] = {
        {1, {2, 1, 16, 0, 0, 0, 0, -1, 8}}, {0, {2, 1, 16, 0, 0, 0, 0, -1, 8}},  {2, {3, 1, 16, 1, 0, 0, 0, -1, 8}},
        {3, {4, 1, 16, 1, 0, 0, 0, -1, 8}}, {4, {17, 1, 16, 1, 0, 0, 0, -1, 8}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = open_bench();
        const bl_node *g = loop(&b, 0, BL_AXIS_GLOBAL, 8), *v = loop(&b, 1, BL_AXIS_VECTOR, 16), *index = at(&b, g, 16, v);
        const bl_node *other =
            bl_add(b.ir, bl_mul(b.ir, g, bl_index(b.ir, 100)), bl_mul(b.ir, v, bl_index(b.ir, rows[i].stride)));
        const bl_node *store = bl_store(b.ir, param(&b, 0), index, bl_add(b.ir, load(&b, 1, index), load(&b, 2, other)), NULL);
        lower(&b, 1, &store, 3);
        expect(&b, rows[i].want);
    }
}

/* Strided lanes and contiguous copies of a tile: one vector per lane, transposed in log2 steps of the number of copies, a power
 * of two; stores likewise.  Copies behind separate gates are not transposed. */
static void turned(void **state)
{
    static const struct {
        int copies;
        bool stores, gates;
        facts want;
    } rows[] = {
        {16, false, false, {16, 16, 16, 16 * 4, 0, 0, 0, -1, 8}},
        {4, false, false, {16, 4, 4, 4 * 3 + 4 * 2, 0, 0, 0, -1, 8}},
        {3, false, false, {32, 3, 2, 2 * 7 + 2 * 1 + 1, 0, 0, 0, -1, 8}},
        {4, false, true, {4 * 16, 4, 1, 4, 0, 0, 0, -1, 8}},
        {16, true, false, {16, 16, 16, 16 * 4, 0, 0, 0, -1, 8}},
        {4, true, false, {4, 16, 16, 4 * 4 + 16, 0, 0, 0, -1, 8}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = open_bench();
        const bl_node *g = loop(&b, 0, BL_AXIS_GLOBAL, 8), *v = loop(&b, 1, BL_AXIS_VECTOR, 16);
        const bl_node *t = loop(&b, 2, BL_AXIS_TILE, rows[i].copies),
                      *gate = bl_less(b.ir, bl_add(b.ir, g, t), bl_index(b.ir, 4));
        const bl_node *apart = at(&b, v, 500, at(&b, g, 16, t)), *lanes = at(&b, t, 500, at(&b, g, 16, v));
        const bl_node *value = bl_load(b.ir, param(&b, 1), rows[i].stores ? lanes : apart, rows[i].gates ? gate : NULL);
        const bl_node *store = bl_store(b.ir, param(&b, 0), rows[i].stores ? apart : lanes, value, NULL);
        lower(&b, 1, &store, 2);
        expect(&b, rows[i].want);
    }
}

/* Lanes selected from vectors, while one copy of a tile is behind a closed gate: its values are zeros. */
static void picked_behind_a_gate(void **state)
{
    bench b = open_bench();
    const bl_node *g = loop(&b, 0, BL_AXIS_GLOBAL, 8), *v = loop(&b, 1, BL_AXIS_VECTOR, 16), *t = loop(&b, 2, BL_AXIS_TILE, 2);
    const bl_node *from = bl_add(b.ir, at(&b, g, 100, bl_mul(b.ir, v, bl_index(b.ir, 2))), t);
    const bl_node *value = bl_load(b.ir, param(&b, 1), from, bl_less(b.ir, t, bl_index(b.ir, 1)));
    const bl_node *store = bl_store(b.ir, param(&b, 0), at(&b, t, 128, at(&b, g, 16, v)), value, NULL);
    (void)state;
    lower(&b, 1, &store, 2);
    expect(&b, (facts){2, 2, 16, 2, 0, 0, 0, -1, 8});
}

/* A loaded index: each lane has its own index. */
static void gathered_index(void **state)
{
    bench b = open_bench();
    const bl_node *v = loop(&b, 0, BL_AXIS_VECTOR, 4);
    const bl_node *from = bl_cast(b.ir, BL_INDEX, bl_load(b.ir, bl_param(b.ir, 1, BL_I32, false), v, NULL));
    const bl_node *store = bl_store(b.ir, param(&b, 0), v, load(&b, 2, from), NULL);
    (void)state;
    lower(&b, 1, &store, 3);
    expect(&b, (facts){8, 1, 1, 1, 0, 0, 0, -1, 1});
}

/* Two vectors in one nest: the second does not change values with the lanes of the first. */
static void two_vectors(void **state)
{
    bench b = open_bench();
    const bl_node *v = loop(&b, 0, BL_AXIS_VECTOR, 8), *k = loop(&b, 100, BL_AXIS_VECTOR, 4);
    const bl_node *some = bl_load(b.ir, param(&b, 1), k, bl_alu2(b.ir, BL_OP_CMPLT, k, bl_index(b.ir, 3)));
    const bl_node *store = bl_store(b.ir, param(&b, 0), v, bl_add(b.ir, load(&b, 2, v), sum(&b, some, k)), NULL);
    (void)state;
    lower(&b, 1, &store, 3);
    expect(&b, (facts){2, 1, 8, 0, 0, 0, 0, -1, 1});
}

/* The tile of a matmul: a value that does not depend on an axis of the tile is loaded once for the axis. */
static void tiles(void **state)
{
    bench b = open_bench();
    const bl_node *gi = loop(&b, 0, BL_AXIS_GLOBAL, 8), *i = loop(&b, 1, BL_AXIS_TILE, 4), *j = loop(&b, 2, BL_AXIS_TILE, 2);
    const bl_node *v = loop(&b, 3, BL_AXIS_VECTOR, 16), *k = loop(&b, 100, BL_AXIS_REDUCE, 64);
    const bl_node *row = at(&b, gi, 4, i), *column = at(&b, j, 16, v);
    const bl_node *product = bl_mul(b.ir, load(&b, 1, at(&b, row, 64, k)), load(&b, 2, at(&b, k, 32, column)));
    const bl_node *store = bl_store(b.ir, param(&b, 0), at(&b, row, 32, column), sum(&b, product, k), NULL);
    (void)state;
    lower(&b, 1, &store, 3);
    expect(&b, (facts){4 + 2, 8, 16, 0, 1, 1, 8, 4 + 2, 8});
}

/* The shape of softmax: max, then the sum of exp(x - max), then the quotient: three consecutive loops. */
static void waiting_reductions(void **state)
{
    bench b = open_bench();
    const bl_node *row = loop(&b, 0, BL_AXIS_GLOBAL, 8), *k = loop(&b, 100, BL_AXIS_REDUCE, 32),
                  *o = loop(&b, 1, BL_AXIS_LOOP, 32);
    const bl_node *x = load(&b, 1, at(&b, row, 32, k));
    const bl_node *most = bl_reduce_over(b.ir, BL_OP_MAX, 1, &x, 1, &k);
    const bl_node *total = sum(&b, bl_alu1(b.ir, BL_OP_EXP, bl_sub(b.ir, x, most)), k);
    const bl_node *value = bl_alu1(b.ir, BL_OP_EXP, bl_sub(b.ir, load(&b, 1, at(&b, row, 32, o)), most));
    const bl_node *store = bl_store(b.ir, param(&b, 0), at(&b, row, 32, o), bl_div(b.ir, value, total), NULL);
    (void)state;
    lower(&b, 1, &store, 2);
    expect(&b, (facts){3, 1, 1, 0, 3, 1, 2, 3, 8});
}

/* A sum and a sum of squares read their rows once. */
static void shared_loop(void **state)
{
    bench b = open_bench();
    const bl_node *row = loop(&b, 0, BL_AXIS_GLOBAL, 8), *k = loop(&b, 100, BL_AXIS_REDUCE, 32);
    const bl_node *x = load(&b, 2, at(&b, row, 32, k));
    const bl_node *stores[2] = {bl_store(b.ir, param(&b, 0), row, sum(&b, x, k), NULL),
                                bl_store(b.ir, param(&b, 1), row, sum(&b, bl_mul(b.ir, x, x), k), NULL)};
    (void)state;
    lower(&b, 2, stores, 3);
    expect(&b, (facts){1, 2, 1, 0, 1, 1, 2, 1, 8});
}

/* A value that does not depend on the inner loop is computed before the loop. */
static void hoisting(void **state)
{
    bench b = open_bench();
    const bl_node *i = loop(&b, 0, BL_AXIS_LOOP, 8), *j = loop(&b, 1, BL_AXIS_LOOP, 16);
    const bl_node *value = bl_add(b.ir, bl_alu1(b.ir, BL_OP_EXP, load(&b, 1, i)), load(&b, 2, j));
    const bl_node *store = bl_store(b.ir, param(&b, 0), at(&b, i, 16, j), value, NULL);
    (void)state;
    lower(&b, 1, &store, 3);
    expect(&b, (facts){2, 1, 1, 0, 2, 2, 0, 1, 1});
}

/* A reduction over reductions: the inner loop is nested in the outer loop. */
static void nested_reductions(void **state)
{
    bench b = open_bench();
    const bl_node *k = loop(&b, 100, BL_AXIS_REDUCE, 8), *l = loop(&b, 101, BL_AXIS_REDUCE, 16);
    const bl_node *inner = sum(&b, load(&b, 1, at(&b, k, 16, l)), l);
    const bl_node *store = bl_store(b.ir, param(&b, 0), bl_index(b.ir, 0), sum(&b, bl_mul(b.ir, inner, inner), k), NULL);
    (void)state;
    lower(&b, 1, &store, 2);
    expect(&b, (facts){1, 1, 1, 0, 2, 2, 2, 1, 1});
}

/* Vector lanes of a reduction: a vector accumulator, folded after the loop. */
static void vector_reduction(void **state)
{
    bench b = open_bench();
    const bl_node *k = loop(&b, 100, BL_AXIS_REDUCE, 8), *v = loop(&b, 101, BL_AXIS_VECTOR, 4), *ranges[2] = {k, v};
    const bl_node *x = load(&b, 1, at(&b, k, 4, v));
    const bl_node *store =
        bl_store(b.ir, param(&b, 0), bl_index(b.ir, 0), bl_reduce_over(b.ir, BL_OP_ADD, 1, &x, 2, ranges), NULL);
    int folds = 0;
    (void)state;
    lower(&b, 1, &store, 2);
    for (uint32_t i = 0; i < b.linear->ninst; i++)
        folds += b.linear->inst[i].op == BL_OP_FOLD;
    assert_int_equal(folds, 1);
    expect(&b, (facts){1, 1, 4, 0, 1, 1, 1, 1, 1});
}

/* Work-items that share a reduction: each writes its partial result, all wait at a barrier, and each folds all partial
 * results. */
static void group_reduction(void **state)
{
    bench b = open_bench();
    const bl_node *row = loop(&b, 0, BL_AXIS_GLOBAL, 3), *k = loop(&b, 100, BL_AXIS_REDUCE, 8),
                  *g = loop(&b, 101, BL_AXIS_GROUP, 16);
    const bl_node *ranges[2] = {k, g}, *x = load(&b, 1, at(&b, at(&b, row, 8, k), 16, g));
    const bl_node *store = bl_store(b.ir, param(&b, 0), row, bl_reduce_over(b.ir, BL_OP_ADD, 1, &x, 2, ranges), NULL);
    int barriers = 0;
    (void)state;
    lower(&b, 1, &store, 2);
    for (uint32_t i = 0; i < b.linear->ninst; i++)
        barriers += b.linear->inst[i].op == BL_OP_BARRIER;
    assert_int_equal(barriers, 2);
    assert_int_equal(b.linear->local[0], 16);
    assert_int_equal(b.linear->local_bytes, bl_local_bytes(BL_F32, false, 16));
    expect(&b, (facts){2, 2, 1, 0, 2, 1, 2, 2, 3});
}

/* Five grid axes are mapped to three dimensions: the same number of work-groups, all in range. */
static void many_grid_axes(void **state)
{
    bench b = open_bench();
    const bl_node *index = bl_index(b.ir, 0);
    const bl_node *store = NULL;
    (void)state;
    for (int i = 0; i < 5; i++)
        index = at(&b, index, i + 2, loop(&b, i, BL_AXIS_GLOBAL, i + 2));
    store = bl_store(b.ir, param(&b, 0), index, load(&b, 1, index), NULL);
    lower(&b, 1, &store, 2);
    expect(&b, (facts){1, 1, 1, 0, 0, 0, 0, -1, 2 * 3 * 4 * 5 * 6});
}

/* The largest number of loaded values that are used later. */
static int loads_in_flight(const bl_linear *linear)
{
    int most = 0;

    for (uint32_t i = 0; i < linear->ninst; i++) {
        int live = 0;
        for (uint32_t k = 0; k <= i; k++) {
            bool later = false;
            for (uint32_t j = i + 1; linear->inst[k].op == BL_OP_LOAD && j < linear->ninst && !later; j++) {
                for (uint32_t s = 0; s < linear->inst[j].nargs; s++)
                    later = later || linear->inst[j].args[s] == k;
            }
            live += later;
        }
        most = live > most ? live : most;
    }
    return most;
}

/* Tiles of products, of vectors of columns by rows: a factor of the longer side is used by all of the shorter side before the
 * next is loaded, and each product is fused with its addition, also those of a sum of products. */
static void tiles_of_products(void **state)
{
    enum { K = 64 };
    static const struct {
        int vectors, rows, products;
        bool named; /* the distance of rows is known at run time: the order of the vectors is kept */
    } rows[] = {{2, 12, 1, false}, {4, 6, 1, false}, {12, 2, 1, false}, {4, 4, 1, false},
                {2, 12, 3, false}, {4, 6, 8, false}, {4, 6, 1, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int shorter = rows[i].vectors < rows[i].rows ? rows[i].vectors : rows[i].rows, fused = 0, apart = 0;
        int most = (rows[i].named ? rows[i].rows : shorter) + 1;
        bench b = open_bench();
        const bl_node *length = rows[i].named ? bl_var(b.ir, 0, K, 2 * K) : bl_index(b.ir, K);
        const bl_node *g = loop(&b, 0, BL_AXIS_GLOBAL, 8), *v = loop(&b, 1, BL_AXIS_VECTOR, 16),
                      *k = loop(&b, 4, BL_AXIS_REDUCE, K);
        const bl_node *column = at(&b, loop(&b, 2, BL_AXIS_TILE, rows[i].vectors), 16, v);
        const bl_node *row = at(&b, g, rows[i].rows, loop(&b, 3, BL_AXIS_TILE, rows[i].rows)), *value = NULL, *store = NULL;
        for (int p = 0; p < rows[i].products; p++) {
            const bl_node *product = bl_mul(b.ir, load(&b, 1 + 2 * p, bl_add(b.ir, bl_mul(b.ir, row, length), k)),
                                            load(&b, 2 + 2 * p, at(&b, k, (int64_t)16 * rows[i].vectors, column)));
            value = value == NULL ? product : bl_add(b.ir, value, product);
        }
        store = bl_store(b.ir, param(&b, 0), at(&b, row, (int64_t)16 * rows[i].vectors, column), sum(&b, value, k), NULL);
        lower(&b, 1, &store, 1 + 2 * (uint32_t)rows[i].products);
        for (uint32_t n = 0; n < b.linear->ninst; n++) {
            const bl_inst *inst = &b.linear->inst[n];
            fused += inst->op == BL_OP_FMA;
            apart += inst->dtype == BL_F32 && (inst->op == BL_OP_MUL || inst->op == BL_OP_ADD);
        }
        if (loads_in_flight(b.linear) != most || fused != rows[i].vectors * rows[i].rows * rows[i].products || apart != 0)
            fail_msg("%d vectors by %d rows, %d products: %d loads in flight, %d fused and %d other operations", rows[i].vectors,
                     rows[i].rows, rows[i].products, loads_in_flight(b.linear), fused, apart);
        bl_ir_destroy(b.ir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(tiles_of_products),
        cmocka_unit_test(turned),
        cmocka_unit_test(picked_behind_a_gate),
        cmocka_unit_test(gathered_index),
        cmocka_unit_test(two_vectors),
        cmocka_unit_test(tiles),
        cmocka_unit_test(waiting_reductions),
        cmocka_unit_test(shared_loop),
        cmocka_unit_test(hoisting),
        cmocka_unit_test(nested_reductions),
        cmocka_unit_test(vector_reduction),
        cmocka_unit_test(group_reduction),
        cmocka_unit_test(many_grid_axes),
    };
    return cmocka_run_group_tests_name("expand", tests, NULL, NULL);
}
