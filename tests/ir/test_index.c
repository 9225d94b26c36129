/* SPDX-License-Identifier: MIT */
/* Index expressions: typical expressions of schedules simplify completely, and random expressions keep their values. */
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/shape.h"
#include "tests/ir/node_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bl_ir *ir;

static const bl_node *num(int64_t value)
{
    return bl_index(ir, value);
}

/* A range is identified by its number and extent: the same arguments give the same node. */
static const bl_node *range(int number, int64_t extent)
{
    return bl_range(ir, number, BL_AXIS_LOOP, num(extent));
}

static const bl_node *add(const bl_node *x, const bl_node *y)
{
    return bl_add(ir, x, y);
}

static const bl_node *mul(const bl_node *x, int64_t y)
{
    return bl_mul(ir, x, num(y));
}

static const bl_node *quo(const bl_node *x, int64_t y)
{
    return bl_idiv(ir, x, num(y));
}

static const bl_node *rem(const bl_node *x, int64_t y)
{
    return bl_mod(ir, x, num(y));
}

static const bl_node *less(const bl_node *x, const bl_node *y)
{
    return bl_less(ir, x, y);
}

static const bl_node *equal(const bl_node *x, const bl_node *y)
{
    return bl_alu2(ir, BL_OP_CMPEQ, x, y);
}

static int start(void **state)
{
    (void)state;
    ir = bl_ir_create(0);
    return ir == NULL;
}

static int stop(void **state)
{
    bl_err err = {0};
    bl_status st = bl_ir_status(ir, &err);

    (void)state;
    bl_ir_destroy(ir);
    if (st != BL_OK)
        print_error("%s\n", err.text);
    return st != BL_OK;
}

static void same(const char *what, const bl_node *got, const bl_node *wanted)
{
    if (got != wanted)
        fail_msg("%s: got %s, wanted %s", what, node_formula(got), node_formula(wanted));
}
#define SAME(got, wanted) same(#got, (got), (wanted))

static const bl_node *simplified(const bl_node *node)
{
    bl_simplify(ir, 1, &node);
    return node;
}

static void a_convolution_splits_into_its_digits(void **state)
{
    const bl_node *y = range(0, 26), *x = range(1, 26), *ky = range(2, 3), *kx = range(3, 3);
    const bl_node *c = range(4, 32), *n = range(5, 64);
    const bl_node *e = add(mul(add(mul(add(mul(n, 32), c), 28), add(y, ky)), 28), add(x, kx));

    (void)state;
    SAME(rem(e, 28), add(x, kx));
    SAME(rem(quo(e, 28), 28), add(y, ky));
    SAME(rem(quo(e, 784), 32), c);
    SAME(quo(e, 784 * 32), n);
    SAME(rem(quo(e, 28), 28 * 32), add(mul(c, 28), add(y, ky)));
    SAME(quo(rem(e, 784), 28), add(y, ky));
}

static void splits_and_diagonals_resolve(void **state)
{
    const bl_node *q = range(0, 5), *o = range(1, 4), *i = range(2, 6);
    const bl_node *lane = bl_lane(ir, 0, 16), *j = range(3, 4), *p = range(4, 10), *x = range(5, 13), *k = range(6, 2);
    const bl_node *u = range(7, 40), *v = range(8, 4);

    (void)state;
    SAME(quo(mul(q, 6), 5), q);
    SAME(rem(mul(q, 6), 5), q);
    SAME(quo(add(mul(o, 6), i), 6), o);
    SAME(rem(add(mul(o, 6), i), 6), i);
    SAME(quo(add(add(lane, mul(j, 16)), mul(p, 64)), 16), add(j, mul(p, 4)));
    SAME(rem(add(lane, mul(j, 16)), 16), lane);
    SAME(quo(add(mul(x, 2), k), 2), x);
    SAME(quo(add(mul(u, 4), v), 8), quo(u, 2)); /* the common factor cancels */
    SAME(quo(add(k, num(1)), 2), k);            /* k has two values */
    SAME(rem(add(k, num(1)), 2), bl_sub(ir, num(1), k));
    SAME(quo(add(mul(x, 2), add(k, num(3))), 2), add(add(x, k), num(1)));
    SAME(rem(add(mul(k, 5), num(4)), 7), bl_sub(ir, num(4), mul(k, 2)));
    SAME(rem(add(mul(u, 4), v), 8), add(mul(rem(u, 2), 4), v));
    SAME(add(u, v), add(v, u));
    SAME(bl_sub(ir, add(u, num(7)), u), num(7));
    SAME(bl_mul(ir, add(u, num(1)), add(v, num(1))), add(add(bl_mul(ir, u, v), add(u, v)), num(1)));
    SAME(bl_sub(ir, add(u, num(7)), rem(add(u, num(3)), 16)), add(mul(quo(add(u, num(3)), 16), 16), num(4)));
    SAME(add(u, rem(mul(u, -1), 4)), mul(quo(mul(u, -1), 4), -4)); /* rounds up */
}

/* The padding to a multiple is not negative, also for a quotient. */
static void sizes_are_compared(void **state)
{
    const bl_node *h = bl_var(ir, 0, 64, 640), *y = quo(h, 4), *up = mul(quo(mul(y, -1), 4), -4);

    (void)state;
    assert_false(bl_may_be_negative(ir, bl_sub(ir, up, y)));
    assert_false(bl_may_be_negative(ir, bl_sub(ir, add(y, num(3)), up)));
    assert_true(bl_may_be_negative(ir, bl_sub(ir, add(y, num(2)), up)));
    assert_true(bl_may_be_negative(ir, bl_sub(ir, y, up)));
}

static void gates_imply_what_asks_less(void **state)
{
    const bl_node *x = range(0, 113), *k = range(1, 3), *place = add(bl_sub(ir, x, k), num(1));
    const bl_node *gate = bl_and(ir, bl_less(ir, place, num(111)), bl_less(ir, num(-1), place));

    (void)state;
    assert_true(bl_gate_implies(ir, gate, bl_less(ir, place, num(111))));
    assert_true(bl_gate_implies(ir, gate, bl_less(ir, place, num(112))));
    assert_true(bl_gate_implies(ir, gate, bl_and(ir, bl_less(ir, quo(place, 2), num(56)), bl_less(ir, num(-1), quo(place, 2)))));
    assert_false(bl_gate_implies(ir, gate, bl_less(ir, place, num(110))));
    assert_false(bl_gate_implies(ir, gate, bl_less(ir, num(0), place)));
    assert_false(bl_gate_implies(ir, gate, bl_less(ir, k, num(2))));
}

static void quotients_and_remainders_obey_their_laws(void **state)
{
    const bl_node *z = range(0, 1000), *shifted = bl_sub(ir, z, num(500));

    (void)state;
    SAME(quo(quo(z, 4), 7), quo(z, 28));
    SAME(quo(quo(shifted, 4), 7), quo(shifted, 28));
    SAME(rem(rem(z, 28), 7), rem(z, 7));
    SAME(quo(rem(z, 28), 7), rem(quo(z, 7), 4));
    SAME(rem(z, 1000), z);
    SAME(quo(z, 1000), num(0));
    SAME(quo(z, 1), z);
    SAME(rem(z, 1), num(0));
    SAME(rem(add(z, num(2000)), 1000), z);
    SAME(rem(rem(z, 10), 20), rem(z, 10));
    SAME(add(mul(quo(z, 7), 7), rem(z, 7)), z);
    SAME(add(mul(quo(z, 7), 21), mul(rem(z, 7), 3)), mul(z, 3));
    SAME(add(add(mul(quo(z, 28), 28), mul(rem(quo(z, 4), 7), 4)), rem(z, 4)), z);
    SAME(add(mul(rem(quo(z, 4), 7), 4), rem(z, 4)), rem(z, 28));
    SAME(rem(add(rem(z, 28), mul(range(1, 3), 7)), 7), rem(z, 7));
}

static void comparisons_are_decided_or_small(void **state)
{
    const bl_node *x = range(0, 26), *y = range(1, 26), *k = range(2, 3), *r = range(3, 4);
    const bl_node *yes = bl_const_int(ir, BL_BOOL, 1), *no = bl_const_int(ir, BL_BOOL, 0);
    const bl_node *at = bl_sub(ir, add(y, k), num(1));
    const bl_node *from = less(num(0), add(y, k)), *below = less(add(y, k), num(27));

    (void)state;
    SAME(less(x, num(26)), yes);
    SAME(less(x, num(0)), no);
    SAME(less(x, x), no);
    SAME(equal(x, x), yes);
    SAME(equal(x, num(26)), no);
    SAME(bl_and(ir, bl_not(ir, less(at, num(0))), less(at, num(26))), bl_and(ir, from, below));
    assert_int_equal(bl_and(ir, from, below)->nsrc, 2);
    SAME(less(add(add(mul(x, 4), mul(y, 8)), r), num(100)), less(add(x, mul(y, 2)), num(25)));
    SAME(less(mul(x, 3), num(10)), less(x, num(4)));
    SAME(less(num(10), mul(x, 3)), less(num(3), x));
    SAME(less(x, add(x, k)), less(num(0), k));
    SAME(less(quo(x, 5), num(3)), less(x, num(15)));
    SAME(less(num(2), quo(x, 5)), less(num(14), x));
    SAME(equal(mul(x, 4), num(13)), no);
    SAME(equal(add(mul(x, 4), r), num(13)), bl_and(ir, equal(x, num(3)), equal(r, num(1))));
    SAME(equal(x, y), equal(y, x));
    SAME(bl_not(ir, bl_not(ir, less(x, num(5)))), less(x, num(5)));
    SAME(bl_and(ir, less(x, num(5)), less(x, num(9))), less(x, num(5)));
    SAME(bl_and(ir, less(num(5), x), less(num(9), x)), less(num(9), x));
    SAME(bl_and(ir, less(num(9), x), less(x, num(10))), no);
    SAME(bl_and(ir, less(x, num(5)), bl_and(ir, less(y, num(5)), less(x, num(5)))), bl_and(ir, less(y, num(5)), less(x, num(5))));
    SAME(bl_alu2(ir, BL_OP_MAX, x, num(-1)), x);
    SAME(bl_alu2(ir, BL_OP_MIN, x, add(x, num(3))), x);
    SAME(bl_where(ir, less(x, num(26)), x, y), x);
}

static void named_dimensions_divide_by_themselves(void **state)
{
    const bl_node *n = bl_var(ir, 0, 1, 4096), *m = bl_var(ir, 1, 2, 100);
    const bl_node *i = bl_range(ir, 0, BL_AXIS_LOOP, n), *a = range(1, 28), *b = range(2, 28);
    const bl_node *j = bl_range(ir, 3, BL_AXIS_LOOP, m);
    const bl_node *flat = add(mul(add(mul(i, 28), a), 28), b);
    const bl_node *columns = add(bl_mul(ir, a, n), i);
    const bl_node *square = add(bl_mul(ir, i, m), j);

    (void)state;
    SAME(bl_mod(ir, i, n), i);
    SAME(bl_idiv(ir, i, n), num(0));
    SAME(quo(flat, 784), i);
    SAME(rem(quo(flat, 28), 28), a);
    SAME(rem(flat, 28), b);
    SAME(bl_idiv(ir, flat, mul(n, 784)), num(0));
    SAME(bl_mod(ir, flat, mul(n, 784)), flat);
    SAME(bl_idiv(ir, columns, n), a);
    SAME(bl_mod(ir, columns, n), i);
    SAME(bl_idiv(ir, square, m), i);
    SAME(bl_mod(ir, square, m), j);
    SAME(bl_mod(ir, square, bl_mul(ir, n, m)), square);
    SAME(less(flat, mul(n, 784)), bl_const_int(ir, BL_BOOL, 1));
    SAME(less(i, n), bl_const_int(ir, BL_BOOL, 1));
    SAME(bl_mod(ir, add(mul(columns, 3), num(2)), mul(n, 3)), add(mul(i, 3), num(2)));
    SAME(bl_idiv(ir, mul(n, 784), n), num(784));
    SAME(bl_mul(ir, n, num(784)), bl_mul(ir, num(784), n));
    SAME(add(bl_mul(ir, bl_idiv(ir, range(4, 5000), n), n), bl_mod(ir, range(4, 5000), n)), range(4, 5000));
}

static void terms_of_a_sum_are_found(void **state)
{
    const bl_node *x = range(0, 26), *y = range(1, 26);
    bl_affine sum;

    (void)state;
    assert_true(bl_affine_of(&sum, add(add(mul(x, 4), num(7)), y)));
    assert_int_equal(sum.count, 2);
    assert_int_equal(sum.constant, 7);
    assert_ptr_equal(sum.at[0].node, x);
    assert_int_equal(bl_affine_along(&sum, x), 4);
    assert_int_equal(bl_affine_along(&sum, y), 1);
    assert_int_equal(bl_affine_along(&sum, range(2, 26)), 0);
    assert_false(bl_affine_is_multiple(&sum, y, 4));
    sum.constant = 8;
    assert_true(bl_affine_is_multiple(&sum, y, 4));
    assert_false(bl_affine_is_multiple(&sum, NULL, 4));
    assert_true(bl_affine_of(&sum, num(-3)));
    assert_int_equal(sum.count, 0);
    assert_int_equal(sum.constant, -3);
}

/* ---- random expressions */

static uint64_t seed = 20240607;

static int64_t pick(int64_t below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* The same expression twice: built with simplification, and without. */
typedef struct twin {
    const bl_node *simple, *plain;
} twin;

static const bl_node *plain_node(bl_op op, bl_dtype dtype, int nsrc, const bl_node *x, const bl_node *y)
{
    const bl_node *src[2] = {x, y};

    return bl_node_make(ir,
                        &(bl_node){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = 1, .nsrc = (uint32_t)nsrc, .src = src});
}

static twin combine(bl_op op, twin x, twin y)
{
    bl_dtype dtype = bl_op_flags(op) & BL_OPF_COMPARE ? BL_BOOL : (bl_dtype)x.plain->dtype;

    return (twin){bl_alu2(ir, op, x.simple, y.simple), plain_node(op, dtype, 2, x.plain, y.plain)};
}

static twin constant(int64_t value)
{
    return (twin){num(value), num(value)};
}

static twin random_index(int depth, const bl_node *const *leaf, int nleaves)
{
    static const int64_t divisors[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 28, -3, -1, 0};
    twin x;

    if (depth == 0) {
        const bl_node *at = leaf[pick(nleaves)];
        return pick(6) == 0 ? constant(pick(30) - 8) : (twin){at, at};
    }
    x = random_index(depth - 1, leaf, nleaves);
    switch (pick(9)) {
    case 0:
    case 1:
    case 2:
        return combine(BL_OP_ADD, x, random_index(depth - 1 - (int)pick(depth), leaf, nleaves));
    case 3:
        return combine(BL_OP_MUL, x, constant(pick(14) - 3));
    case 4:
    case 5:
        return combine(BL_OP_IDIV, x, constant(divisors[pick(14)]));
    case 6:
    case 7:
        return combine(BL_OP_MOD, x, constant(divisors[pick(14)]));
    default:
        return combine(pick(2)   ? BL_OP_SUB
                       : pick(2) ? BL_OP_MAX
                                 : BL_OP_MUL,
                       x, random_index(depth - 1 - (int)pick(depth), leaf, nleaves));
    }
}

static twin random_bool(int depth, const bl_node *const *leaf, int nleaves)
{
    twin x;

    if (depth == 0)
        return combine(pick(3) ? BL_OP_CMPLT : BL_OP_CMPEQ, random_index(2, leaf, nleaves),
                       pick(2) ? constant(pick(60) - 10) : random_index(1, leaf, nleaves));
    x = random_bool(depth - 1, leaf, nleaves);
    if (pick(4) == 0)
        return (twin){bl_not(ir, x.simple), plain_node(BL_OP_NOT, BL_BOOL, 1, x.plain, NULL)};
    return combine(pick(3) ? BL_OP_AND : BL_OP_OR, x, random_bool(depth - 1, leaf, nleaves));
}

static void check_everywhere(int number, twin made, const leaf_values *start_values, const int64_t *extent)
{
    leaf_values at = *start_values;

    for (int i = 0; i < at.count; i++)
        at.value[i].i = 0;
    for (;;) {
        int64_t got = index_value(made.simple, &at), wanted = index_value(made.plain, &at);
        int i = 0;
        if (got != wanted)
            fail_msg("expression %d, at %lld %lld %lld: %lld, wanted %lld\n  %s\n  became %s", number, (long long)at.value[0].i,
                     (long long)at.value[1].i, (long long)at.value[2].i, (long long)got, (long long)wanted,
                     node_formula(made.plain), node_formula(made.simple));
        if (got < made.simple->lo || got > made.simple->hi || got < made.plain->lo || got > made.plain->hi)
            fail_msg("expression %d: %lld is outside [%lld, %lld] or [%lld, %lld]: %s", number, (long long)got,
                     (long long)made.simple->lo, (long long)made.simple->hi, (long long)made.plain->lo, (long long)made.plain->hi,
                     node_formula(made.plain));
        while (i < at.count && ++at.value[i].i == extent[i])
            at.value[i++].i = 0;
        if (i == at.count)
            return;
    }
}

static void random_expressions_keep_their_value(void **state)
{
    static const int64_t extents[] = {1, 2, 3, 4, 5, 6, 7, 8, 13};

    (void)state;
    for (int i = 0; i < 3000; i++) {
        leaf_values leaves = {.count = 3};
        int64_t extent[3];
        twin made;

        for (int k = 0; k < 3; k++) {
            extent[k] = extents[pick(9)];
            leaves.leaf[k] = range(k, extent[k]);
        }
        made = i % 3 == 2 ? random_bool((int)pick(3), leaves.leaf, 3) : random_index(1 + (int)pick(5), leaves.leaf, 3);
        check_everywhere(i, made, &leaves, extent);
        same("simplified again", simplified(made.simple), made.simple);
    }
}

static void random_named_dimensions_keep_their_value(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        const bl_node *var = bl_var(ir, 0, 1, 5);
        leaf_values leaves = {.count = 3, .leaf = {bl_range(ir, 7, BL_AXIS_LOOP, var), range(1, 4), range(2, 3)}};
        const bl_node *leaf[4] = {leaves.leaf[0], leaves.leaf[1], leaves.leaf[2], var};
        int64_t divisor = 1 + pick(4);
        twin by = combine(BL_OP_MUL, (twin){var, var}, constant(divisor));
        twin made = random_index(1 + (int)pick(3), leaf, 4);

        made = combine(pick(2) ? BL_OP_ADD : BL_OP_MUL, made, pick(2) ? (twin){var, var} : constant(divisor));
        made = combine(BL_OP_ADD, made, (twin){leaf[0], leaf[0]});
        made = combine(pick(2) ? BL_OP_MOD : pick(2) ? BL_OP_IDIV : BL_OP_CMPLT, made, by);
        leaves.leaf[3] = var;
        leaves.count = 4;
        for (int64_t n = 1; n <= 5; n++) {
            for (int64_t at = 0; at < n * 12; at++) {
                leaves.value[0].i = at % n;
                leaves.value[1].i = at / n % 4;
                leaves.value[2].i = at / n / 4;
                leaves.value[3].i = n;
                if (index_value(made.simple, &leaves) != index_value(made.plain, &leaves))
                    fail_msg("expression %d, n = %lld: %s became %s", i, (long long)n, node_formula(made.plain),
                             node_formula(made.simple));
            }
        }
    }
}

static void long_sums_are_left_as_they_are(void **state)
{
    const bl_node *sum = num(0);

    (void)state;
    for (int i = 0; i < 2000; i++)
        sum = add(sum, range(i, 1000));
    assert_int_equal(sum->hi, 2000 * 999);
    assert_ptr_equal(simplified(sum), sum);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_splits_into_its_digits),
        cmocka_unit_test(splits_and_diagonals_resolve),
        cmocka_unit_test(sizes_are_compared),
        cmocka_unit_test(gates_imply_what_asks_less),
        cmocka_unit_test(quotients_and_remainders_obey_their_laws),
        cmocka_unit_test(comparisons_are_decided_or_small),
        cmocka_unit_test(named_dimensions_divide_by_themselves),
        cmocka_unit_test(terms_of_a_sum_are_found),
        cmocka_unit_test(random_expressions_keep_their_value),
        cmocka_unit_test(random_named_dimensions_keep_their_value),
        cmocka_unit_test(long_sums_are_left_as_they_are),
    };

    return cmocka_run_group_tests_name("ir/index", tests, start, stop);
}
