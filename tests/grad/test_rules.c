/* SPDX-License-Identifier: MIT */
/* Every op with a gradient rule against finite differences, in float64, to first and second order. */
#include "engine/grad/grad.h"
#include "engine/grad/vjp.h"
#include "engine/ir/scan.h"
#include "engine/ir/verify.h"
#include "engine/ir/winograd_transforms.h"
#include "tests/interp/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 3, COLUMNS = 4, SIZE = ROWS * COLUMNS };

/* A function of x (float64[3, 4]) that contains the op. */
typedef const bl_node *(*build_fn)(bl_ir *ir, const bl_node *x);

static const bl_node *real(bl_ir *ir, const bl_node *like, double value)
{
    return bl_full_like(ir, like, value);
}

static const bl_node *twice(bl_ir *ir, const bl_node *x)
{
    return bl_mul(ir, x, real(ir, x, 2));
}

static const bl_node *build_neg(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_NEG, bl_mul(ir, x, x));
}

static const bl_node *build_sqrt(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_SQRT, bl_add(ir, bl_mul(ir, x, x), real(ir, x, 1)));
}

static const bl_node *build_exp(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_EXP, x);
}

static const bl_node *build_log(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_LOG, bl_add(ir, bl_mul(ir, x, x), real(ir, x, 1)));
}

static const bl_node *build_sin(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_SIN, x);
}

static const bl_node *build_cast(bl_ir *ir, const bl_node *x)
{
    return bl_cast(ir, BL_F64, bl_mul(ir, bl_cast(ir, BL_F64, x), bl_cast(ir, BL_F64, bl_cast(ir, BL_I32, x))));
}

static const bl_node *build_add(bl_ir *ir, const bl_node *x)
{
    return bl_add(ir, bl_mul(ir, x, x), x);
}

static const bl_node *build_sub(bl_ir *ir, const bl_node *x)
{
    return bl_sub(ir, x, bl_mul(ir, x, x));
}

static const bl_node *build_mul(bl_ir *ir, const bl_node *x)
{
    return bl_mul(ir, x, bl_mul(ir, x, x));
}

static const bl_node *build_div(bl_ir *ir, const bl_node *x)
{
    return bl_div(ir, x, bl_add(ir, bl_mul(ir, x, x), real(ir, x, 1)));
}

static const bl_node *build_max(bl_ir *ir, const bl_node *x)
{
    return bl_alu2(ir, BL_OP_MAX, bl_mul(ir, x, x), twice(ir, x));
}

static const bl_node *build_min(bl_ir *ir, const bl_node *x)
{
    return bl_alu2(ir, BL_OP_MIN, bl_mul(ir, x, x), twice(ir, x));
}

static const bl_node *build_where(bl_ir *ir, const bl_node *x)
{
    return bl_where(ir, bl_less(ir, x, real(ir, x, 0.5)), bl_mul(ir, x, x), twice(ir, x));
}

/* Weights of x's shape, all different, which make a wrong permutation of elements visible. */
static const bl_node *weigh(bl_ir *ir, const bl_node *y)
{
    const bl_node *count = bl_index(ir, 1);
    for (int i = 0; i < y->ndim; i++)
        count = bl_mul(ir, count, y->dim[i]);
    const bl_node *w = bl_cast(ir, BL_F64, bl_reshape(ir, bl_iota(ir, BL_I32, count), y->ndim, y->dim));
    return bl_mul(ir, bl_mul(ir, y, y), bl_add(ir, w, real(ir, w, 1)));
}

static const bl_node *build_reshape(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_reshape(ir, x, 2, (const bl_node *const[]){bl_index(ir, 2), bl_index(ir, 6)}));
}

static const bl_node *build_permute(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_permute(ir, x, (const int[]){1, 0}));
}

static const bl_node *build_expand(bl_ir *ir, const bl_node *x)
{
    const bl_node *wide[] = {bl_index(ir, 2), x->dim[0], x->dim[1], bl_index(ir, 3)};
    return weigh(ir,
                 bl_expand(ir, bl_reshape(ir, x, 3, (const bl_node *const[]){x->dim[0], x->dim[1], bl_index(ir, 1)}), 4, wide));
}

static const bl_node *build_pad(bl_ir *ir, const bl_node *x)
{
    const bl_node *before[] = {bl_index(ir, 1), bl_index(ir, 0)};
    const bl_node *after[] = {bl_index(ir, 0), bl_index(ir, 2)};
    return weigh(ir, bl_pad(ir, x, before, after));
}

static const bl_node *build_shrink(bl_ir *ir, const bl_node *x)
{
    const bl_node *start[] = {bl_index(ir, 1), bl_index(ir, 0)};
    const bl_node *size[] = {bl_index(ir, 2), bl_index(ir, 3)};
    return weigh(ir, bl_shrink(ir, x, start, size));
}

static const bl_node *build_flip(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_flip(ir, x, 2));
}

static const bl_node *build_window(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_window(ir, bl_window(ir, x, 1, 2, 1, 2), 0, 2, 1, 1));
}

static const bl_node *build_window_strided(bl_ir *ir, const bl_node *x)
{
    const bl_node *flat = bl_reshape(ir, x, 1, (const bl_node *const[]){bl_index(ir, SIZE)});
    return weigh(ir, bl_window(ir, flat, 0, 3, 2, 2)); /* the last element is in no window */
}

static const bl_node *build_window_apart(bl_ir *ir, const bl_node *x)
{
    const bl_node *flat = bl_reshape(ir, x, 1, (const bl_node *const[]){bl_index(ir, SIZE)});
    return weigh(ir, bl_window(ir, flat, 0, 2, 5, 1)); /* strides over elements */
}

/* Adds windows of two elements with dilation three and stride two; applies the gradient rule of the window op, and the rule of
 * this gradient. */
static const bl_node *build_unwindow(bl_ir *ir, const bl_node *x)
{
    const bl_node *pairs = bl_reshape(ir, x, 2, (const bl_node *const[]){bl_index(ir, SIZE / 2), bl_index(ir, 2)});
    const bl_node *y = bl_unwindow(ir, pairs, 0, bl_index(ir, SIZE + 2), 2, 3);
    return bl_reduce(ir, BL_OP_ADD, bl_mul(ir, y, y), 1);
}

static const bl_node *build_sum(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_reduce(ir, BL_OP_ADD, x, 1));
}

static const bl_node *build_product(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_reduce(ir, BL_OP_MUL, x, 2));
}

static const bl_node *build_largest(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_reduce(ir, BL_OP_MAX, x, 2));
}

static const bl_node *build_smallest(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_reduce(ir, BL_OP_MIN, x, 3));
}

/* Gathers with every index twice, and with one index out of range. */
static const bl_node *build_gather(bl_ir *ir, const bl_node *x)
{
    const bl_node *dim[] = {bl_index(ir, ROWS), bl_index(ir, 7)};
    const bl_node *row = bl_reshape(ir, bl_iota(ir, BL_I32, dim[1]), 2, (const bl_node *const[]){bl_index(ir, 1), dim[1]});
    const bl_node *half = bl_alu2(ir, BL_OP_SHR, bl_alu2(ir, BL_OP_MUL, row, real(ir, row, 3)), real(ir, row, 2));
    return weigh(ir, bl_gather(ir, x, bl_expand(ir, half, 2, dim), 1));
}

static const bl_node *build_contiguous(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_contiguous(ir, x));
}

/* A recurrence over the rows of x, which makes the next state and an output: h = sin(h * w + row), y = h * row. */
static const bl_node *recurrence(bl_ir *ir, const bl_node *start, const bl_node *rows, const bl_node *weight, bool reverse,
                                 const bl_node **last)
{
    const bl_node *const *dim = start->dim;
    const bl_node *h = bl_bound(ir, 0, BL_F64, 1, dim), *row = bl_bound(ir, 1, BL_F64, 1, dim),
                  *w = bl_bound(ir, 3, BL_F64, 1, dim);
    const bl_node *next = bl_alu1(ir, BL_OP_SIN, bl_add(ir, bl_mul(ir, h, w), row));
    const bl_node *root[] = {next, bl_mul(ir, next, row)}, *src[] = {start, rows, rows, weight};
    bl_scan scan = {.ncarries = 1,
                    .nsequences = 2,
                    .nconstants = 1,
                    .nys = 1,
                    .length = bl_index(ir, ROWS),
                    .reverse = reverse,
                    .root = root};
    const bl_node *node = bl_scan_make(ir, &scan, src); /* the second sequence has no reader */

    assert_int_equal(3, node->nsrc);
    *last = bl_scan_result(ir, node, 0);
    return bl_scan_result(ir, node, 1);
}

static const bl_node *first_row(bl_ir *ir, const bl_node *x)
{
    const bl_node *start[] = {bl_index(ir, 0), bl_index(ir, 0)}, *size[] = {bl_index(ir, 1), x->dim[1]};
    return bl_reshape(ir, bl_shrink(ir, x, start, size), 1, x->dim + 1);
}

static const bl_node *build_scan(bl_ir *ir, const bl_node *x)
{
    const bl_node *last = NULL, *row = first_row(ir, x);
    const bl_node *ys = recurrence(ir, bl_mul(ir, row, row), x, bl_mul(ir, row, real(ir, row, 0.1)), false, &last);
    return bl_add(ir, weigh(ir, ys),
                  bl_expand(ir, bl_reshape(ir, last, 2, (const bl_node *const[]){bl_index(ir, 1), x->dim[1]}), 2, x->dim));
}

static const bl_node *build_scan_back(bl_ir *ir, const bl_node *x)
{
    const bl_node *last = NULL;
    return weigh(ir, recurrence(ir, first_row(ir, x), x, first_row(ir, bl_mul(ir, x, real(ir, x, 0.2))), true, &last));
}

/* Each step contains another scan over its row, which starts with the sum of the outer state and counts steps in an integer. */
static const bl_node *build_scan_nested(bl_ir *ir, const bl_node *x)
{
    const bl_node *h = bl_bound(ir, 0, BL_F64, 0, NULL), *count = bl_bound(ir, 1, BL_I32, 0, NULL);
    const bl_node *row = bl_bound(ir, 2, BL_F64, 1, x->dim + 1);
    const bl_node *inner_h = bl_bound(ir, 0, BL_F64, 0, NULL), *element = bl_bound(ir, 1, BL_F64, 0, NULL);
    const bl_node *inner_root[] = {bl_add(ir, bl_mul(ir, inner_h, real(ir, h, 0.5)), bl_mul(ir, element, inner_h))};
    const bl_node *inner_src[] = {h, row};
    bl_scan inner = {.ncarries = 1, .nsequences = 1, .length = bl_index(ir, COLUMNS), .root = inner_root};
    const bl_node *made = bl_scan_result(ir, bl_scan_make(ir, &inner, inner_src), 0);
    const bl_node *more = bl_add(ir, count, bl_const_int(ir, BL_I32, 1));
    const bl_node *root[] = {bl_alu1(ir, BL_OP_SIN, bl_mul(ir, made, bl_cast(ir, BL_F64, more))), more};
    const bl_node *src[] = {bl_const_float(ir, BL_F64, 0.7), bl_const_int(ir, BL_I32, 0), x};
    bl_scan outer = {.ncarries = 2, .nsequences = 1, .length = bl_index(ir, ROWS), .root = root};
    return bl_scan_result(ir, bl_scan_make(ir, &outer, src), 0);
}

static const bl_node *build_alias(bl_ir *ir, const bl_node *x)
{
    return weigh(ir, bl_alias(ir, bl_mul(ir, x, x), bl_mul(ir, x, x), 1));
}

/* The sine of x * y for y = x * x, by its partial derivatives. */
static const bl_node *build_partials(bl_ir *ir, const bl_node *x)
{
    const bl_node *y = bl_mul(ir, x, x), *angle = bl_mul(ir, x, y), *slope = bl_cos(ir, angle);
    const bl_node *of[2] = {x, y}, *partial[2] = {bl_mul(ir, slope, y), bl_mul(ir, slope, x)};
    return weigh(ir, bl_with_partials(ir, bl_alu1(ir, BL_OP_SIN, angle), 2, of, partial));
}

/* Correlates pictures of x and 2 x with weights that are parts of x: a bilinear map. */
static const bl_node *correlate(bl_ir *ir, const bl_node *x, int tile)
{
    const bl_correlation c = {.tile = tile, .before = {1, 0}, .after = {1, 2}};
    const bl_node *one = bl_index(ir, 1), *two = bl_index(ir, 2), *three = bl_index(ir, 3), *zero = bl_index(ir, 0);
    const bl_node *picture = bl_reshape(ir, x, 4, (const bl_node *const[]){one, one, x->dim[0], x->dim[1]});
    const bl_node *none[4] = {zero, zero, zero, zero}, *second[4] = {zero, one, zero, zero}, *first[4] = {zero, one, zero, zero};
    const bl_node *pair = bl_add(ir, bl_pad(ir, picture, none, second), bl_pad(ir, twice(ir, picture), first, none));
    const bl_node *weight = bl_shrink(ir, pair, none, (const bl_node *const[]){one, two, three, three});
    const bl_node *y = bl_winograd(ir, pair, weight, c);
    return bl_reduce(ir, BL_OP_ADD, bl_mul(ir, y, y), 0xf);
}

static const bl_node *build_correlate(bl_ir *ir, const bl_node *x)
{
    return correlate(ir, bl_alu1(ir, BL_OP_SIN, x), 2);
}

static const bl_node *build_correlate_large(bl_ir *ir, const bl_node *x)
{
    return correlate(ir, bl_alu1(ir, BL_OP_SIN, x), 4);
}

static const struct {
    bl_op op;
    const char *name;
    build_fn build;
} cases[] = {
    {BL_OP_NEG, "neg", build_neg},
    {BL_OP_SQRT, "sqrt", build_sqrt},
    {BL_OP_EXP, "exp", build_exp},
    {BL_OP_LOG, "log", build_log},
    {BL_OP_SIN, "sin", build_sin},
    {BL_OP_CAST, "cast", build_cast},
    {BL_OP_ADD, "add", build_add},
    {BL_OP_SUB, "sub", build_sub},
    {BL_OP_MUL, "mul", build_mul},
    {BL_OP_DIV, "div", build_div},
    {BL_OP_MAX, "max", build_max},
    {BL_OP_MIN, "min", build_min},
    {BL_OP_WHERE, "where", build_where},
    {BL_OP_RESHAPE, "reshape", build_reshape},
    {BL_OP_PERMUTE, "permute", build_permute},
    {BL_OP_EXPAND, "expand", build_expand},
    {BL_OP_PAD, "pad", build_pad},
    {BL_OP_SHRINK, "shrink", build_shrink},
    {BL_OP_FLIP, "flip", build_flip},
    {BL_OP_WINDOW, "window", build_window},
    {BL_OP_WINDOW, "window, stride and dilation", build_window_strided},
    {BL_OP_WINDOW, "window, stride over elements", build_window_apart},
    {BL_OP_UNWINDOW, "unwindow", build_unwindow},
    {BL_OP_REDUCE, "sum", build_sum},
    {BL_OP_REDUCE, "product", build_product},
    {BL_OP_REDUCE, "largest", build_largest},
    {BL_OP_REDUCE, "smallest", build_smallest},
    {BL_OP_GATHER, "gather", build_gather},
    {BL_OP_CONTIGUOUS, "contiguous", build_contiguous},
    {BL_OP_ALIAS, "alias", build_alias},
    {BL_OP_PARTIALS, "partials", build_partials},
    {BL_OP_CORRELATE, "correlate, tiles of 2", build_correlate},
    {BL_OP_CORRELATE, "correlate, tiles of 4", build_correlate_large},
    {BL_OP_SCAN, "scan", build_scan},
    {BL_OP_SCAN, "scan, reverse", build_scan_back},
    {BL_OP_SCAN, "scan in a scan", build_scan_nested},
};

/* The differentiated function of x, at |at|. */
typedef struct problem {
    bl_ir *ir;
    const bl_node *x, *value, *gradient;
    double at[SIZE];
} problem;

static const bl_node *total(bl_ir *ir, const bl_node *y)
{
    return bl_reshape(ir, bl_reduce(ir, BL_OP_ADD, y, (1u << y->ndim) - 1), 0, NULL);
}

static void evaluate(problem *p, const bl_node *root, double *out, size_t count)
{
    const void *inputs[1] = {p->at};
    void *values[1] = {NULL};
    bl_err err = {0};

    if (bl_interp_graph(p->ir, 1, &root, inputs, NULL, values, &err) != BL_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++)
        out[i] = ((double *)values[0])[i];
    free(values[0]);
}

/* The derivative by element |i| from four points; the error is of order h^4. */
static double difference(problem *p, int i)
{
    static const double step[4] = {-2, -1, 1, 2};
    static const double weight[4] = {1, -8, 8, -1};
    const double h = 1e-3;
    double kept = p->at[i];
    double sum = 0;

    for (int k = 0; k < 4; k++) {
        double value;
        p->at[i] = kept + step[k] * h;
        evaluate(p, p->value, &value, 1);
        sum += weight[k] * value;
    }
    p->at[i] = kept;
    return sum / (12 * h);
}

static void check_gradient(problem *p, const char *name, int order)
{
    double got[SIZE];

    evaluate(p, p->gradient, got, SIZE);
    for (int i = 0; i < SIZE; i++) {
        double want = difference(p, i);
        if (!(fabs(got[i] - want) <= 1e-6 * (1 + fabs(want))))
            fail_msg("%s, order %d, element %d: the rule gives %.9g, the difference %.9g", name, order, i, got[i], want);
    }
}

static void open_problem(problem *p)
{
    static const double values[SIZE] = {0.3, -1.2, 0.9, 1.7, -0.4, 2.6, 1.1, -2.1, 0.7, -0.8, 1.4, 0.2};

    p->ir = bl_ir_create(0);
    p->x = bl_input(p->ir, 0, BL_F64, 2, (const bl_node *const[]){bl_index(p->ir, ROWS), bl_index(p->ir, COLUMNS)});
    for (int i = 0; i < SIZE; i++)
        p->at[i] = values[i];
}

static void test_finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p;
        open_problem(&p);
        p.value = total(p.ir, cases[i].build(p.ir, p.x));
        for (int order = 1; order <= 2; order++) {
            bl_err err = {0};
            bl_grad(p.ir, p.value, NULL, 1, &p.x, &p.gradient);
            if (bl_ir_status(p.ir, &err) != BL_OK)
                fail_msg("%s: %s", cases[i].name, err.text);
            if (bl_ir_verify(p.ir, 1, &p.gradient, BL_STAGE_TENSOR, "grad", 2, &err) != BL_OK)
                fail_msg("%s: %s", cases[i].name, err.text);
            check_gradient(&p, cases[i].name, order);
            p.value = total(p.ir, bl_alu1(p.ir, BL_OP_SIN, bl_mul(p.ir, p.gradient, real(p.ir, p.gradient, 0.01))));
        }
        bl_ir_destroy(p.ir);
    }
}

static void test_every_rule_has_a_case(void **state)
{
    (void)state;
    for (int op = 0; op < BL_OP_COUNT; op++) {
        bool found = bl_vjp_table[op] == NULL;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            found = found || cases[i].op == (bl_op)op;
        if (!found)
            fail_msg("no case for the gradient of %s", bl_op_name((bl_op)op));
    }
}

/* Points where finite differences do not apply: zeros in a product, ties. */
static void test_special_points(void **state)
{
    static const struct {
        const char *name;
        build_fn build;
        double at[4], want[4];
    } rows[] = {
        {"product, no zero", build_product, {1, 2, 3, 4}, {1152, 576, 384, 288}},
        {"product, one zero", build_product, {1, 0, 3, 4}, {0, 0, 0, 0}}, /* 2 * product * other factors */
        {"largest, ties", build_largest, {1, 7, 7, 3}, {0, 7, 7, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        problem p;
        double got[SIZE];
        open_problem(&p);
        for (int k = 0; k < COLUMNS; k++)
            p.at[k] = rows[i].at[k];
        p.value = total(p.ir, rows[i].build(p.ir, p.x));
        bl_grad(p.ir, p.value, NULL, 1, &p.x, &p.gradient);
        evaluate(&p, p.gradient, got, SIZE);
        for (int k = 0; k < COLUMNS; k++) {
            if (fabs(got[k] - rows[i].want[k]) > 1e-9)
                fail_msg("%s, element %d: got %g, want %g", rows[i].name, k, got[k], rows[i].want[k]);
        }
        bl_ir_destroy(p.ir);
    }
}

/* d/dx of the product of a row with no, one and two zeros. */
static void test_product_with_zeros(void **state)
{
    static const double at[SIZE] = {2, 3, 4, 5, 2, 0, 4, 5, 2, 0, 0, 5};
    static const double want[SIZE] = {60, 40, 30, 24, 0, 40, 0, 0, 0, 0, 0, 0};
    double got[SIZE];
    problem p;

    (void)state;
    open_problem(&p);
    for (int i = 0; i < SIZE; i++)
        p.at[i] = at[i];
    p.value = total(p.ir, bl_reduce(p.ir, BL_OP_MUL, p.x, 2));
    bl_grad(p.ir, p.value, NULL, 1, &p.x, &p.gradient);
    evaluate(&p, p.gradient, got, SIZE);
    for (int i = 0; i < SIZE; i++) {
        if (got[i] != want[i])
            fail_msg("element %d: got %g, want %g", i, got[i], want[i]);
    }
    bl_ir_destroy(p.ir);
}

/* The gradient visits only nodes between y and x: it makes no nodes for operands without influence. */
static void test_nothing_for_nothing(void **state)
{
    problem p;
    (void)state;
    open_problem(&p);
    const bl_node *other = bl_input(p.ir, 1, BL_F64, 2, p.x->dim);
    const bl_node *y = total(p.ir, bl_alu1(p.ir, BL_OP_EXP, other));
    bl_full_like(p.ir, p.x, 0);
    bl_full_like(p.ir, y, 1);
    size_t before = bl_ir_count(p.ir);
    bl_grad(p.ir, y, NULL, 1, &p.x, &p.gradient);
    assert_int_equal(before, bl_ir_count(p.ir));
    assert_ptr_equal(bl_full_like(p.ir, p.x, 0), p.gradient);

    bl_grad(p.ir, bl_add(p.ir, p.x, other), other, 1, &p.x, &p.gradient); /* the result is the cotangent itself */
    assert_ptr_equal(other, p.gradient);
    bl_ir_destroy(p.ir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),  cmocka_unit_test(test_every_rule_has_a_case),
        cmocka_unit_test(test_special_points),      cmocka_unit_test(test_product_with_zeros),
        cmocka_unit_test(test_nothing_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
