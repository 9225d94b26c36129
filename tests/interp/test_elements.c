/* SPDX-License-Identifier: MIT */
/* bl_elements: for random graphs over named dimensions, its elements with sizes substituted equal the values of the reference
 * interpreter; also the forms that shapes need. */
#include "engine/ir/elements.h"

#include "engine/ir/shape.h"
#include "tests/interp/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 6, ROUNDS = 3000, STEPS = 12, MOST = 64 };

typedef struct bench {
    bl_ir *ir;
    bl_arena *arena;
    const bl_node *var[2];
    int64_t input[ELEMENTS]; /* input 0, int64 */
    const bl_node *known[ELEMENTS];
    uint64_t seed;
} bench;

static void open_bench(bench *b)
{
    memset(b, 0, sizeof *b);
    b->ir = bl_ir_create(0);
    b->arena = bl_arena_create(0);
    assert_non_null(b->ir);
    assert_non_null(b->arena);
    b->var[0] = bl_var(b->ir, 0, 1, 64);
    b->var[1] = bl_var(b->ir, 1, 2, 9);
    for (int i = 0; i < ELEMENTS; i++) {
        b->input[i] = i - 2;
        b->known[i] = bl_index(b->ir, b->input[i]);
    }
}

static void close_bench(bench *b)
{
    bl_arena_destroy(b->arena);
    bl_ir_destroy(b->ir);
}

static uint32_t draw(bench *b, uint32_t below)
{
    b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->seed >> 33) % below;
}

static const bl_node *const *input_of(void *arg, const bl_node *input)
{
    bench *b = arg;

    return input->arg == 0 ? b->known : NULL;
}

/* Evaluates an element for the sizes |vars|; false if the element has no numeric form. */
static bool number_of(bench *b, const bl_node *element, const int64_t *vars, double *out)
{
    const bl_node *num = NULL;
    int64_t den = 1;

    if (element->dtype == BL_F64 && bl_is_const(element))
        *out = bl_const_value(element).f;
    else if (element->dtype == BL_F64 && bl_fraction_get(b->ir, element, &num, &den))
        *out = (double)bl_extent_eval(num, vars) / (double)den;
    else if (element->dtype == BL_F64)
        return false;
    else
        *out = (double)bl_extent_eval(element, vars);
    return true;
}

/* Returns two rows of three elements. */
static const bl_node *grid(bench *b, const bl_node *x)
{
    const bl_node *dim[2] = {bl_index(b->ir, 2), bl_index(b->ir, 3)};

    return bl_expand(b->ir, x, 2, dim);
}

static const bl_node *operand(bench *b, bl_dtype dtype)
{
    const bl_node *dim[2] = {bl_index(b->ir, 2), bl_index(b->ir, 3)};
    const bl_node *x;

    switch (draw(b, 4)) {
    case 0:
        x = bl_input(b->ir, 0, BL_I64, 2, dim);
        break;
    case 1:
        x = grid(b, bl_const_int(b->ir, BL_I64, (int64_t)draw(b, 9) - 2));
        break;
    default:
        x = grid(b, bl_cast(b->ir, BL_I64, b->var[draw(b, 2)]));
    }
    x = bl_cast(b->ir, dtype, x);
    return bl_dtype_is_float(dtype) && draw(b, 2) ? bl_alu2(b->ir, BL_OP_MUL, x, bl_full_like(b->ir, x, 0.25)) : x;
}

static const bl_node *moved(bench *b, const bl_node *x)
{
    static const int turned[2] = {1, 0};
    const bl_node *zero = bl_index(b->ir, 0), *one = bl_index(b->ir, 1), *two = bl_index(b->ir, 2), *three = bl_index(b->ir, 3);
    const bl_node *back[2] = {two, three}, *start[2] = {zero, one}, *size[2] = {two, two}, *none[2] = {zero, zero},
                  *left[2] = {zero, one};

    switch (draw(b, 4)) {
    case 0:
        return bl_reshape(b->ir, bl_permute(b->ir, x, turned), 2, back);
    case 1:
        return bl_flip(b->ir, x, 1 + draw(b, 3));
    case 2:
        return bl_pad(b->ir, bl_shrink(b->ir, x, start, size), left, none);
    default:
        return bl_expand(b->ir, bl_reduce(b->ir, draw(b, 2) ? BL_OP_ADD : BL_OP_MAX, x, 2), 2, back);
    }
}

static const bl_node *random_graph(bench *b)
{
    static const bl_op binary[] = {BL_OP_ADD, BL_OP_SUB, BL_OP_MUL, BL_OP_MAX, BL_OP_MIN, BL_OP_IDIV, BL_OP_MOD};
    bl_dtype dtype = draw(b, 2) ? BL_I64 : BL_F32;
    const bl_node *x = operand(b, dtype);

    for (uint32_t i = 0, n = 1 + draw(b, STEPS); i < n; i++) {
        const bl_node *y = operand(b, dtype);
        switch (draw(b, 5)) {
        case 0:
            x = moved(b, x);
            break;
        case 1:
            x = bl_where(b->ir, draw(b, 2) ? bl_less(b->ir, x, y) : bl_alu2(b->ir, BL_OP_CMPEQ, x, y), y, x);
            break;
        case 2:
            x = dtype == BL_F32 ? bl_alu1(b->ir, BL_OP_TRUNC, x) : bl_cast(b->ir, BL_I64, bl_cast(b->ir, BL_F32, x));
            break;
        default:
            x = bl_alu2(b->ir, binary[draw(b, dtype == BL_F32 ? 5 : 7)], x, y);
        }
    }
    return draw(b, 4) == 0 ? bl_less(b->ir, x, operand(b, dtype)) : x;
}

/* Compares |got| with the reference for several sizes.  Returns the number of compared sizes. */
static int compare(bench *b, const bl_node *root, const bl_node *const *got)
{
    const void *inputs[1] = {b->input};
    int compared = 0;

    for (int64_t n = 1; n <= 64; n += 7) {
        const int64_t vars[2] = {n, 2 + n % 8};
        unsigned char *want = NULL;
        bl_err err;
        if (bl_interp_graph(b->ir, 1, &root, inputs, vars, (void **)&want, &err) != BL_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < ELEMENTS; i++) {
            bl_dtype dtype = (bl_dtype)root->dtype;
            double is = 0,
                   should = bl_scalar_cast(BL_F64, dtype, bl_scalar_read(dtype, want + (size_t)i * bl_dtype_bytes(dtype))).f;
            if (!number_of(b, got[i], vars, &is))
                fail_msg("element %d is no number", i);
            if (fabs(is - should) > 1e-6 * fabs(should))
                fail_msg("%s, element %d at %lld: %g, not %g", bl_node_text(b->ir, root), i, (long long)n, is, should);
        }
        free(want);
        compared++;
    }
    return compared;
}

static void random_graphs(void **state)
{
    int known = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bench b;
        open_bench(&b);
        b.seed = (uint64_t)round;
        const bl_node *root = random_graph(&b);
        bl_err err;
        if (bl_ir_status(b.ir, &err) != BL_OK)
            fail_msg("%s", err.text);
        const bl_node *const *got = bl_elements(b.ir, root, MOST, input_of, &b, b.arena);
        if (got != NULL && compare(&b, root, got) > 0)
            known++;
        close_bench(&b);
    }
    assert_true(known > ROUNDS / 3);
}

/* Returns the single element of a float graph over a named dimension of 1 to 64. */
static const bl_node *element(bench *b, const bl_node *root)
{
    const bl_node *const *got = bl_elements(b->ir, root, MOST, input_of, b, b->arena);

    assert_non_null(got);
    return got[0];
}

static const bl_node *f32(bench *b, const bl_node *index)
{
    return bl_cast(b->ir, BL_F32, index);
}

static const bl_node *number(bench *b, double value)
{
    return bl_const_float(b->ir, BL_F32, value);
}

/* Builds floor as the front end does. */
static const bl_node *floor_of(bench *b, const bl_node *x)
{
    const bl_node *t = bl_alu1(b->ir, BL_OP_TRUNC, x);

    return bl_where(b->ir, bl_less(b->ir, x, t), bl_sub(b->ir, t, number(b, 1)), t);
}

static void forms_that_shapes_have(void **state)
{
    bench b;
    const bl_node *n, *half;

    (void)state;
    open_bench(&b);
    n = b.var[0];
    half = bl_div(b.ir, f32(&b, n), number(&b, 2));
    assert_ptr_equal(element(&b, bl_cast(b.ir, BL_I64, floor_of(&b, half))), bl_idiv(b.ir, n, bl_index(b.ir, 2)));
    const bl_node *ceiling = bl_alu1(b.ir, BL_OP_NEG, floor_of(&b, bl_alu1(b.ir, BL_OP_NEG, half)));
    assert_ptr_equal(element(&b, bl_cast(b.ir, BL_I64, ceiling)),
                     bl_idiv(b.ir, bl_add(b.ir, n, bl_index(b.ir, 1)), bl_index(b.ir, 2)));
    const bl_node *twice = bl_alu2(b.ir, BL_OP_MUL, f32(&b, n), number(&b, 2));
    assert_ptr_equal(element(&b, bl_cast(b.ir, BL_I32, bl_div(b.ir, twice, f32(&b, n)))), bl_index(b.ir, 2));
    assert_ptr_equal(element(&b, bl_cast(b.ir, BL_I64, bl_alu2(b.ir, BL_OP_MUL, twice, number(&b, 0.5)))), n);
    close_bench(&b);
}

static void what_is_not_known(void **state)
{
    bench b;
    const bl_node *dim[1], *big[1];

    (void)state;
    open_bench(&b);
    dim[0] = b.var[0];
    big[0] = bl_index(b.ir, MOST + 1);
    assert_null(bl_elements(b.ir, bl_iota(b.ir, BL_I64, b.var[0]), MOST, input_of, &b, b.arena));
    assert_null(bl_elements(b.ir, bl_input(b.ir, 0, BL_I64, 1, dim), MOST, input_of, &b, b.arena));
    assert_null(bl_elements(b.ir, bl_iota(b.ir, BL_I64, big[0]), MOST, input_of, &b, b.arena));
    dim[0] = bl_index(b.ir, 2);
    assert_null(bl_elements(b.ir, bl_input(b.ir, 1, BL_I64, 1, dim), MOST, input_of, &b, b.arena));
    assert_null(bl_elements(b.ir, bl_alu1(b.ir, BL_OP_EXP, f32(&b, b.var[0])), MOST, input_of, &b, b.arena));
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(forms_that_shapes_have),
        cmocka_unit_test(what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
