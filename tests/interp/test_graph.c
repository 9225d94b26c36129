/* SPDX-License-Identifier: MIT */
/* The reference interpreter: unscheduled graphs, compared with plain loops in this file. */
#include "tests/interp/graph.h"

#include "engine/base/fault.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 256 };

typedef struct bench {
    bl_ir *ir;
    bl_err err;
    const void *inputs[4];
    int64_t vars[2];
    float x[ROOM]; /* 0.5, 1.5, ..; input 0 by default */
} bench;

static void open_bench(bench *b)
{
    memset(b, 0, sizeof *b);
    b->ir = bl_ir_create(0);
    assert_non_null(b->ir);
    for (int i = 0; i < ROOM; i++)
        b->x[i] = (float)i + 0.5f;
    b->inputs[0] = b->x;
}

static void close_bench(bench *b)
{
    bl_ir_destroy(b->ir);
}

/* Makes an input with constant extents. */
static const bl_node *input(bench *b, int slot, bl_dtype dtype, int ndim, const int64_t *dim)
{
    const bl_node *extents[BL_MAX_DIMS];

    for (int d = 0; d < ndim; d++)
        extents[d] = bl_index(b->ir, dim[d]);
    return bl_input(b->ir, slot, dtype, ndim, extents);
}
#define INPUT(b, slot, dtype, ...)                                                                                               \
    input((b), (slot), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static const bl_node *reshape(bench *b, const bl_node *x, int ndim, const int64_t *dim)
{
    const bl_node *extents[BL_MAX_DIMS];

    for (int d = 0; d < ndim; d++)
        extents[d] = bl_index(b->ir, dim[d]);
    return bl_reshape(b->ir, x, ndim, extents);
}

static const bl_node *expand(bench *b, const bl_node *x, int ndim, const int64_t *dim)
{
    const bl_node *extents[BL_MAX_DIMS];

    for (int d = 0; d < ndim; d++)
        extents[d] = bl_index(b->ir, dim[d]);
    return bl_expand(b->ir, x, ndim, extents);
}

static void *eval(bench *b, const bl_node *root)
{
    void *out = NULL;

    if (bl_ir_status(b->ir, &b->err) != BL_OK)
        fail_msg("building: %s", b->err.text);
    if (bl_interp_graph(b->ir, 1, &root, b->inputs, b->vars, &out, &b->err) != BL_OK)
        fail_msg("%s: %s", bl_op_name((bl_op)root->op), b->err.text);
    return out;
}

/* Evaluates |root| and compares its |n| elements. */
static void expect(bench *b, const char *what, const bl_node *root, int n, const double *want)
{
    unsigned char *got = eval(b, root);
    bl_dtype dtype = (bl_dtype)root->dtype;

    for (int i = 0; i < n; i++) {
        bl_scalar v = bl_scalar_read(dtype, got + (size_t)i * bl_dtype_bytes(dtype));
        double g = bl_scalar_cast(BL_F64, dtype, v).f;

        if (!(g == want[i] && signbit(g) == signbit(want[i])) && !(isnan(g) && isnan(want[i])))
            fail_msg("%s: element %d is %g, not %g", what, i, g, want[i]);
    }
    free(got);
}
#define EXPECT(b, what, root, ...)                                                                                               \
    expect((b), (what), (root), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__})

static void scalar_ops(void **state)
{
    bench b;
    const bl_node *x, *less, *sum;
    const float values[4] = {1.75f, -2.5f, NAN, -0.0f};

    (void)state;
    open_bench(&b);
    b.inputs[0] = values;
    x = INPUT(&b, 0, BL_F32, 4);
    less = bl_less(b.ir, x, bl_full_like(b.ir, x, 0));
    sum = bl_add(b.ir, x, x);
    EXPECT(&b, "add", sum, 3.5, -5, NAN, -0.0);
    EXPECT(&b, "less", less, 0, 1, 0, 0);
    EXPECT(&b, "where", bl_where(b.ir, less, x, sum), 3.5, -2.5, NAN, -0.0);
    EXPECT(&b, "cast", bl_cast(b.ir, BL_I8, x), 1, -2, 0, 0);
    EXPECT(&b, "bitcast", bl_bitcast(b.ir, BL_U32, x), 0x3fe00000, 0xc0200000, 0x7fc00000, 0x80000000);
    EXPECT(&b, "max", bl_alu2(b.ir, BL_OP_MAX, x, bl_full_like(b.ir, x, 1)), 1.75, 1, NAN, 1);
    EXPECT(&b, "iota", bl_iota(b.ir, BL_I64, bl_index(b.ir, 3)), 0, 1, 2);
    EXPECT(&b, "const", bl_const_float(b.ir, BL_F16, 0.1), 0.0999755859375);
    EXPECT(&b, "input", x, 1.75, -2.5, NAN, -0.0);
    close_bench(&b);
}

static void movement(void **state)
{
    bench b;
    const bl_node *x, *t, *one, *zero, *two;

    (void)state;
    open_bench(&b);
    x = INPUT(&b, 0, BL_F32, 2, 3); /* 0.5 1.5 2.5 / 3.5 4.5 5.5 */
    zero = bl_index(b.ir, 0);
    one = bl_index(b.ir, 1);
    two = bl_index(b.ir, 2);
    t = bl_permute(b.ir, x, (const int[]){1, 0});
    EXPECT(&b, "permute", t, 0.5, 3.5, 1.5, 4.5, 2.5, 5.5);
    EXPECT(&b, "reshape of a permute", reshape(&b, t, 1, (const int64_t[]){6}), 0.5, 3.5, 1.5, 4.5, 2.5, 5.5);
    EXPECT(&b, "permute of an input of three axes", bl_permute(b.ir, INPUT(&b, 0, BL_F32, 2, 1, 3), (const int[]){2, 0, 1}), 0.5,
           3.5, 1.5, 4.5, 2.5, 5.5);
    EXPECT(&b, "flip", bl_flip(b.ir, x, 3), 5.5, 4.5, 3.5, 2.5, 1.5, 0.5);
    EXPECT(&b, "flip rows", bl_flip(b.ir, x, 1), 3.5, 4.5, 5.5, 0.5, 1.5, 2.5);
    EXPECT(&b, "shrink of a flip",
           bl_shrink(b.ir, bl_flip(b.ir, x, 2), (const bl_node *[]){one, zero}, (const bl_node *[]){one, two}), 5.5, 4.5);
    EXPECT(&b, "pad", bl_pad(b.ir, x, (const bl_node *[]){zero, one}, (const bl_node *[]){one, zero}), 0, 0.5, 1.5, 2.5, 0, 3.5,
           4.5, 5.5, 0, 0, 0, 0);
    EXPECT(&b, "pad of a permute", bl_pad(b.ir, t, (const bl_node *[]){zero, one}, (const bl_node *[]){zero, zero}), 0, 0.5, 3.5,
           0, 1.5, 4.5, 0, 2.5, 5.5);
    EXPECT(&b, "expand", expand(&b, reshape(&b, x, 3, (const int64_t[]){2, 1, 3}), 4, (const int64_t[]){2, 2, 2, 3}), 0.5, 1.5,
           2.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 3.5, 4.5, 5.5, 0.5, 1.5, 2.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 3.5, 4.5, 5.5);
    EXPECT(&b, "detach", bl_detach(b.ir, t), 0.5, 3.5, 1.5, 4.5, 2.5, 5.5);
    EXPECT(&b, "contiguous", bl_contiguous(b.ir, t), 0.5, 3.5, 1.5, 4.5, 2.5, 5.5);
    close_bench(&b);
}

static void windows(void **state)
{
    static const struct {
        int64_t size, stride, dilation, windows;
    } rows[] = {{1, 1, 1, 10}, {3, 1, 1, 8}, {3, 2, 1, 4}, {2, 1, 4, 6}, {3, 3, 2, 2}, {10, 5, 1, 1}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        bench b;
        const bl_node *x, *w;
        float *got;

        open_bench(&b);
        x = INPUT(&b, 0, BL_F32, 2, 10, 3);
        w = bl_window(b.ir, x, 1, rows[r].size, rows[r].stride, rows[r].dilation);
        got = eval(&b, w);
        for (int64_t i = 0, n = 0; i < 2; i++)
            for (int64_t o = 0; o < rows[r].windows; o++)
                for (int64_t c = 0; c < 3; c++)
                    for (int64_t k = 0; k < rows[r].size; k++, n++) {
                        double want = (double)b.x[(i * 10 + o * rows[r].stride + k * rows[r].dilation) * 3 + c];

                        if ((double)got[n] != want)
                            fail_msg("row %zu, element %lld: %g, not %g", r, (long long)n, (double)got[n], want);
                    }
        free(got);
        close_bench(&b);
    }
}

static void reductions(void **state)
{
    bench b;
    const bl_node *x, *f, *bytes, *bits;
    const float big[3] = {16777216.0f, 1.0f, 1.0f};
    const int8_t small[4] = {100, 100, -5, 3};
    const uint8_t flags[4] = {0, 1, 0, 0};

    (void)state;
    open_bench(&b);
    b.inputs[1] = big;
    b.inputs[2] = small;
    b.inputs[3] = flags;
    x = INPUT(&b, 0, BL_F32, 2, 3);
    f = INPUT(&b, 1, BL_F32, 3);
    bytes = INPUT(&b, 2, BL_I8, 2, 2);
    bits = INPUT(&b, 3, BL_BOOL, 2, 2);
    EXPECT(&b, "sum of rows", bl_reduce(b.ir, BL_OP_ADD, x, 2), 4.5, 13.5);
    EXPECT(&b, "sum of columns", bl_reduce(b.ir, BL_OP_ADD, x, 1), 4, 6, 8);
    EXPECT(&b, "sum of all", bl_reduce(b.ir, BL_OP_ADD, x, 3), 18);
    EXPECT(&b, "max of a permute", bl_reduce(b.ir, BL_OP_MAX, bl_permute(b.ir, x, (const int[]){1, 0}), 1), 2.5, 5.5);
    EXPECT(&b, "min", bl_reduce(b.ir, BL_OP_MIN, x, 2), 0.5, 3.5);
    EXPECT(&b, "product", bl_reduce(b.ir, BL_OP_MUL, x, 2), 1.875, 86.625);
    EXPECT(&b, "rounded once", bl_reduce(b.ir, BL_OP_ADD, f, 1), 16777218.0);
    EXPECT(&b, "int8 wraps", bl_reduce(b.ir, BL_OP_ADD, bytes, 2), -56, -2);
    EXPECT(&b, "int8 max", bl_reduce(b.ir, BL_OP_MAX, bytes, 1), 100, 100);
    EXPECT(&b, "any", bl_reduce(b.ir, BL_OP_ADD, bits, 2), 1, 0);
    EXPECT(&b, "all", bl_reduce(b.ir, BL_OP_MUL, bits, 1), 0, 0);
    close_bench(&b);
}

static void gathers(void **state)
{
    bench b;
    const bl_node *x, *rows, *columns;
    const int64_t row[3] = {1, -1, 0};
    const uint64_t column[4] = {2, 0, 3, UINT64_MAX};

    (void)state;
    open_bench(&b);
    b.inputs[1] = row;
    b.inputs[2] = column;
    x = INPUT(&b, 0, BL_F32, 2, 3);
    rows = INPUT(&b, 1, BL_I64, 1, 3);
    columns = INPUT(&b, 2, BL_U64, 2, 2);
    EXPECT(&b, "gather rows", bl_gather(b.ir, x, rows, 0), 3.5, 0, 2.5);
    EXPECT(&b, "gather columns", bl_gather(b.ir, x, columns, 1), 2.5, 0.5, 0, 0);
    close_bench(&b);
}

/* matmul as it appears in a graph: expanded operands, a product and a sum.  Two roots share it, and one root occurs twice. */
static void matmul(void **state)
{
    enum { M = 3, K = 5, N = 4 };
    bench b;
    const bl_node *x, *y, *roots[3];
    void *out[3];

    (void)state;
    open_bench(&b);
    b.inputs[1] = b.x + 40;
    x = expand(&b, reshape(&b, INPUT(&b, 0, BL_F32, M, K), 3, (const int64_t[]){M, 1, K}), 3, (const int64_t[]){M, N, K});
    y = bl_permute(b.ir, INPUT(&b, 1, BL_F32, K, N), (const int[]){1, 0});
    y = expand(&b, reshape(&b, y, 3, (const int64_t[]){1, N, K}), 3, (const int64_t[]){M, N, K});
    roots[0] = bl_reduce(b.ir, BL_OP_ADD, bl_mul(b.ir, x, y), 4);
    roots[1] = bl_alu1(b.ir, BL_OP_NEG, roots[0]);
    roots[2] = roots[0];
    assert_int_equal(BL_OK, bl_ir_status(b.ir, &b.err));
    assert_int_equal(BL_OK, bl_interp_graph(b.ir, 3, roots, b.inputs, b.vars, out, &b.err));
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double want = 0;

            for (int k = 0; k < K; k++)
                want += (double)b.x[m * K + k] * (double)b.x[40 + k * N + n];
            for (int r = 0; r < 3; r++) {
                double got = (double)((float *)out[r])[m * N + n];

                if (got != (r == 1 ? -want : want))
                    fail_msg("root %d, [%d, %d]: %g, not %g", r, m, n, got, want);
            }
        }
    for (int r = 0; r < 3; r++)
        free(out[r]);
    close_bench(&b);
}

/* One graph at several sizes of a named dimension, which the graph uses as an extent, an amount and a number. */
static void named_dimensions(void **state)
{
    bench b;
    const bl_node *n, *three, *x, *mean, *padded;

    (void)state;
    open_bench(&b);
    n = bl_var(b.ir, 1, 0, 80);
    three = bl_index(b.ir, 3);
    x = bl_input(b.ir, 0, BL_F32, 2, (const bl_node *[]){n, three});
    padded = bl_pad(b.ir, x, (const bl_node *[]){n, bl_index(b.ir, 0)}, (const bl_node *[]){three, three});
    mean = bl_mul(b.ir, bl_reduce(b.ir, BL_OP_ADD, padded, 1),
                  expand(&b, reshape(&b, bl_cast(b.ir, BL_F32, n), 2, (const int64_t[]){1, 1}), 2, (const int64_t[]){1, 6}));
    b.vars[1] = 1;
    EXPECT(&b, "one row", mean, 0.5, 1.5, 2.5, 0, 0, 0);
    b.vars[1] = 2;
    EXPECT(&b, "two rows", mean, 2 * 4.0, 2 * 6.0, 2 * 8.0, 0, 0, 0);
    b.vars[1] = 0;
    EXPECT(&b, "no row", bl_reduce(b.ir, BL_OP_MAX, x, 1), -INFINITY, -INFINITY, -INFINITY);
    b.vars[1] = 0;
    EXPECT(&b, "sum of no row", bl_reduce(b.ir, BL_OP_ADD, x, 3), 0);
    close_bench(&b);
}

/* Nodes that no builder makes, and sizes whose errors are visible only at evaluation. */
static void bad_sizes(void **state)
{
    bench b;
    const bl_node *x, *small, *four, *index, *wrong[9], *dims[2];

    (void)state;
    open_bench(&b);
    b.vars[0] = 5;
    b.inputs[1] = b.x; /* arbitrary contents, since the test never reads the indices */
    four = dims[0] = dims[1] = bl_index(b.ir, 4);
    x = bl_input(b.ir, 0, BL_F32, 2, dims);
    small = INPUT(&b, 0, BL_F32, 3, 3);
    index = INPUT(&b, 1, BL_I32, 4, 3);
#define NODE(name, ...)                                                                                                          \
    bl_node_make(b.ir, &(bl_node){.op = BL_OP_##name, .dtype = BL_F32, .lanes = 1, .ndim = 2, .dim = dims, __VA_ARGS__})
#define SRC(...) .nsrc = sizeof((const bl_node *[]){__VA_ARGS__}) / sizeof(bl_node *), .src = (const bl_node *[]){__VA_ARGS__}
    wrong[0] = NODE(RESHAPE, SRC(small));
    wrong[1] = NODE(EXPAND, SRC(small));
    wrong[2] = NODE(PERMUTE, SRC(small), .arg = 1);
    wrong[3] = NODE(FLIP, SRC(small));
    wrong[4] = NODE(PAD, SRC(small, four, four));
    wrong[5] = NODE(SHRINK, SRC(small, bl_index(b.ir, 0), bl_index(b.ir, 0)));
    wrong[6] = NODE(ADD, SRC(x, small));
    wrong[7] = NODE(REDUCE, SRC(x), .sub = BL_OP_ADD, .arg = 1);
    wrong[8] = NODE(GATHER, SRC(x, index), .arg = 0);
    for (int i = 0; i < 9; i++) {
        void *out = &b;
        bl_err err = {0};
        bl_status st = bl_interp_graph(b.ir, 1, &wrong[i], b.inputs, b.vars, &out, &err);

        if (st != BL_EGRAPH || strstr(err.text, "at these sizes") == NULL)
            fail_msg("%s: %s: %s", bl_op_name((bl_op)wrong[i]->op), bl_status_name(st), err.text);
        assert_null(out);
    }
    close_bench(&b);
}

static void bad_extents(void **state)
{
    bench b;
    const bl_node *n, *x, *huge;
    void *out = &b;

    (void)state;
    open_bench(&b);
    n = bl_var(b.ir, 0, 1, INT64_C(1) << 40);
    x = bl_input(b.ir, 0, BL_F32, 1, (const bl_node *[]){n});
    b.vars[0] = -1;
    assert_int_equal(BL_EGRAPH, bl_interp_graph(b.ir, 1, &x, b.inputs, b.vars, &out, &b.err));
    assert_null(out);
    b.vars[0] = INT64_C(1) << 40;
    huge = bl_node_make(b.ir,
                        &(bl_node){.op = BL_OP_CONST, .dtype = BL_F32, .lanes = 1, .ndim = 2, .dim = (const bl_node *[]){n, n}});
    b.err = (bl_err){0};
    assert_int_equal(BL_EGRAPH, bl_interp_graph(b.ir, 1, &huge, b.inputs, b.vars, &out, &b.err));
    b.vars[0] = INT64_C(1) << 31; /* the number of elements fits 64 bits, the number of bytes does not */
    b.err = (bl_err){0};
    assert_int_equal(BL_ELIMIT, bl_interp_graph(b.ir, 1, &huge, b.inputs, b.vars, &out, &b.err));
    b.vars[0] = 4;
    b.inputs[0] = NULL;
    b.err = (bl_err){0};
    assert_int_equal(BL_EGRAPH, bl_interp_graph(b.ir, 1, &x, b.inputs, b.vars, &out, &b.err));
    close_bench(&b);
}

/* A poisoned bl_ir gives its error and no result. */
static void poison(void **state)
{
    bench b;
    const bl_node *x, *root;
    void *out = &b;

    (void)state;
    open_bench(&b);
    x = INPUT(&b, 0, BL_F32, 4);
    root = bl_add(b.ir, x, INPUT(&b, 0, BL_F32, 5));
    assert_int_equal(BL_OP_POISON, root->op);
    assert_int_not_equal(BL_OK, bl_interp_graph(b.ir, 1, &root, b.inputs, b.vars, &out, &b.err));
    assert_null(out);
    close_bench(&b);
}

/* Each allocation fails once: the status is ENOMEM, without a leak or a crash. */
static void out_of_memory(void **state)
{
    bench b;
    const bl_node *x, *root;
    bl_status st = BL_ENOMEM;

    (void)state;
    open_bench(&b);
    x = INPUT(&b, 0, BL_F32, 2, 3);
    root = bl_add(b.ir, bl_reduce(b.ir, BL_OP_ADD, bl_flip(b.ir, bl_mul(b.ir, x, x), 3), 2),
                  bl_reduce(b.ir, BL_OP_MAX, bl_contiguous(b.ir, x), 2));
    free(eval(&b, root)); /* now the arena has the memory of the traversal */
    for (long n = 1; st != BL_OK; n++) {
        void *out = &b;

        assert_true(n < 100);
        b.err = (bl_err){0};
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = bl_interp_graph(b.ir, 1, &root, b.inputs, b.vars, &out, &b.err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        assert_int_equal(st == BL_OK ? BL_OK : BL_ENOMEM, st);
        assert_int_equal(st == BL_OK, out != NULL);
        assert_true(n > 5 || st != BL_OK);
        free(out);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_ops),  cmocka_unit_test(movement),         cmocka_unit_test(windows),
        cmocka_unit_test(reductions),  cmocka_unit_test(gathers),          cmocka_unit_test(matmul),
        cmocka_unit_test(poison),      cmocka_unit_test(named_dimensions), cmocka_unit_test(bad_sizes),
        cmocka_unit_test(bad_extents), cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
