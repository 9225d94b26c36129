/* SPDX-License-Identifier: MIT */
/* Interning, bounds, poison, limits and traversals. */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "engine/ir/node.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bl_ir *ir;

static int start(void **state)
{
    (void)state;
    ir = bl_ir_create(0);
    return ir == NULL;
}

static int stop(void **state)
{
    (void)state;
    bl_ir_destroy(ir);
    return 0;
}

static const bl_node *load(int number, bl_dtype dtype)
{
    return bl_load(ir, bl_param(ir, number, dtype, false), bl_index(ir, 0), NULL);
}

static void equal_nodes_are_one(void **state)
{
    const bl_node *x = load(0, BL_F32), *y = load(1, BL_F32);
    const bl_node *dim[2] = {bl_index(ir, 2), bl_index(ir, 3)};

    (void)state;
    assert_ptr_equal(bl_add(ir, x, y), bl_add(ir, y, x));
    assert_ptr_not_equal(bl_sub(ir, x, y), bl_sub(ir, y, x));
    assert_ptr_equal(bl_input(ir, 0, BL_F32, 2, dim), bl_input(ir, 0, BL_F32, 2, dim));
    assert_ptr_not_equal(bl_input(ir, 0, BL_F32, 2, dim), bl_input(ir, 0, BL_F32, 1, dim));
    assert_ptr_not_equal(bl_const_float(ir, BL_F32, 0.0), bl_const_float(ir, BL_F32, -0.0));
    assert_ptr_equal(bl_const_float(ir, BL_F32, NAN), bl_const_float(ir, BL_F32, -NAN));
    assert_ptr_not_equal(bl_var(ir, 0, 1, 5), bl_var(ir, 0, 1, 6));
    assert_ptr_equal(bl_var(ir, 0, 5, 5), bl_index(ir, 5));
}

static void hashes_depend_on_structure_only(void **state)
{
    bl_ir *other = bl_ir_create(0);
    const bl_node *x = load(0, BL_F32), *y = load(1, BL_F32); /* in this order, since operands of commutative ops are sorted by
                                                               * age */
    const bl_node *sum = bl_add(ir, x, y);
    const bl_node *a = NULL, *b = NULL;

    (void)state;
    bl_index(other, 77); /* shifts the ids */
    a = bl_load(other, bl_param(other, 0, BL_F32, false), bl_index(other, 0), NULL);
    b = bl_load(other, bl_param(other, 1, BL_F32, false), bl_index(other, 0), NULL);
    assert_int_equal(sum->hash, bl_add(other, a, b)->hash);
    assert_int_not_equal(sum->hash, bl_add(other, a, a)->hash);
    bl_ir_destroy(other);
}

static void sources_are_older_than_users(void **state)
{
    const bl_node *x = load(0, BL_F32);
    bl_nodes nodes;

    (void)state;
    for (int i = 0; i < 5000; i++)
        x = bl_add(ir, x, bl_const_float(ir, BL_F32, i));
    nodes = bl_reach(ir, 1, &x, false);
    assert_true(nodes.count > 5000);
    for (size_t i = 0; i < nodes.count; i++) {
        assert_true(i == 0 || nodes.at[i - 1]->id < nodes.at[i]->id);
        for (uint32_t k = 0; k < nodes.at[i]->nsrc; k++)
            assert_true(nodes.at[i]->src[k]->id < nodes.at[i]->id);
    }
    assert_ptr_equal(nodes.at[nodes.count - 1], x);
}

static void bounds_are_intervals(void **state)
{
    const bl_node *b = load(0, BL_I8), *u = load(1, BL_U8), *q = load(2, BL_U64), *i = load(3, BL_I64), *f = load(4, BL_F32);
    const bl_node *r = bl_range(ir, 0, BL_AXIS_LOOP, bl_index(ir, 10)), *flag = bl_less(ir, f, f);
    const bl_node *wide = bl_cast(ir, BL_I32, b), *low = bl_and(ir, i, bl_const_int(ir, BL_I64, 63));
    const struct {
        const char *what;
        const bl_node *node;
        int64_t lo, hi;
    } cases[] = {
        {"int8", b, -128, 127},
        {"uint8", u, 0, 255},
        {"uint64", q, INT64_MIN, INT64_MAX},
        {"range", r, 0, 9},
        {"lane", bl_lane(ir, 0, 4), 0, 3},
        {"widened", wide, -128, 127},
        {"sum", bl_add(ir, wide, wide), -256, 254},
        {"wrapping sum", bl_add(ir, b, b), -128, 127},
        {"product", bl_mul(ir, wide, wide), -16256, 16384},
        {"quotient", bl_idiv(ir, wide, bl_const_int(ir, BL_I32, -3)), -43, 42},
        {"remainder", bl_mod(ir, wide, bl_const_int(ir, BL_I32, 7)), 0, 6},
        {"remainder by unknown", bl_mod(ir, r, bl_cast(ir, BL_INDEX, u)), 0, 9},
        {"mask", low, 0, 63},
        {"or", bl_alu2(ir, BL_OP_OR, low, bl_const_int(ir, BL_I64, 5)), 5, 63},
        {"xor", bl_alu2(ir, BL_OP_XOR, low, bl_const_int(ir, BL_I64, 64)), 0, 127},
        {"complement", bl_not(ir, u), 0, 255},
        {"complement of int", bl_not(ir, wide), -128, 127},
        {"shift", bl_alu2(ir, BL_OP_SHL, low, bl_const_int(ir, BL_I64, 4)), 0, 1008},
        {"shift back", bl_alu2(ir, BL_OP_SHR, i, bl_const_int(ir, BL_I64, 60)), -8, 7},
        {"maximum", bl_alu2(ir, BL_OP_MAX, wide, bl_const_int(ir, BL_I32, 5)), 5, 127},
        {"choice", bl_where(ir, bl_less(ir, u, bl_const_int(ir, BL_U8, 9)), r, bl_index(ir, 20)), 0, 20},
        {"from float", bl_cast(ir, BL_I8, f), -128, 127},
        {"from uint64", bl_cast(ir, BL_I64, q), INT64_MIN, INT64_MAX},
        {"large sum", bl_add(ir, bl_cast(ir, BL_INDEX, i), bl_cast(ir, BL_INDEX, i)), INT64_MIN, INT64_MAX},
        {"stack", bl_stack(ir, 2, (const bl_node *const[]){r, bl_index(ir, -4)}), -4, 9},
        {"fold", bl_fold(ir, BL_OP_ADD, bl_lane(ir, 0, 4)), 0, 12},
        {"reduction", bl_reduce_over(ir, BL_OP_ADD, 1, &wide, 1, &r), -1280, 1270},
    };

    (void)state;
    assert_true(flag->op == BL_OP_CONST); /* x < x */
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        if (cases[n].node->lo != cases[n].lo || cases[n].node->hi != cases[n].hi)
            fail_msg("%s: [%lld, %lld], wanted [%lld, %lld]", cases[n].what, (long long)cases[n].node->lo,
                     (long long)cases[n].node->hi, (long long)cases[n].lo, (long long)cases[n].hi);
    }
}

static void errors_stick_and_name_the_first(void **state)
{
    const bl_node *x = load(0, BL_F32), *i = load(1, BL_I32);
    const bl_node *bad = NULL;
    bl_err err = {0};

    (void)state;
    bl_ir_blame(ir, "node_a");
    bad = bl_add(ir, x, i);
    assert_int_equal(bad->op, BL_OP_POISON);
    bl_ir_blame(ir, "node_b");
    bad = bl_mul(ir, bad, bl_alu1(ir, BL_OP_SQRT, i));
    assert_int_equal(bad->op, BL_OP_POISON);
    assert_int_equal(bl_reduce(ir, BL_OP_ADD, bad, 1)->op, BL_OP_POISON);
    assert_int_equal(bl_ir_status(ir, &err), BL_EGRAPH);
    assert_string_equal(err.text, "add: dtypes differ: float32 and int32");
    assert_string_equal(err.node, "node_a");
}

static void sizes_that_overflow_are_refused(void **state)
{
    bl_err err = {0};
    const bl_node *big = bl_index(ir, INT64_MAX);

    (void)state;
    assert_int_equal(bl_mul(ir, big, big)->op, BL_OP_POISON);
    assert_int_equal(bl_ir_status(ir, &err), BL_ELIMIT);
}

static void the_byte_limit_is_an_error(void **state)
{
    bl_ir *small = bl_ir_create(1 << 16);
    const bl_node *sum = bl_param(small, 0, BL_F32, false);
    bl_err err = {0};

    (void)state;
    for (int i = 0; i < 100000; i++)
        sum = bl_const_int(small, BL_I64, i);
    assert_int_equal(sum->op, BL_OP_POISON);
    assert_int_equal(bl_ir_status(small, &err), BL_ELIMIT);
    bl_ir_destroy(small);
}

static void nothing_is_built_for_nobody(void **state)
{
    enum { MANY = 5000 };
    atomic_bool gone = false;
    bl_err err = {0};
    int64_t n = 0;

    (void)state;
    bl_ir_obey(ir, &(bl_halt){.cancel = &gone});
    for (; n < MANY; n++)
        assert_int_not_equal(bl_index(ir, n)->op, BL_OP_POISON);
    atomic_store(&gone, true);
    while (n < 2 * MANY && bl_index(ir, n)->op != BL_OP_POISON)
        n++;
    assert_in_range(n, MANY, 2 * MANY - 1);
    assert_int_equal(bl_ir_status(ir, &err), BL_ECANCELLED);
    bl_ir_obey(ir, &(bl_halt){0});
    assert_int_equal(bl_index(ir, 1)->op, BL_OP_POISON); /* after a failure the bl_ir stays poisoned */
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        bl_ir *made = NULL;
        bl_status st = BL_ENOMEM;

        bl_fault_arm(BL_FAULT_ALLOC, nth);
        made = bl_ir_create(0);
        if (made != NULL) {
            for (int i = 0; i < 3000; i++)
                bl_const_int(made, BL_I64, i);
            st = bl_ir_status(made, NULL);
        }
        bl_ir_destroy(made);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        if (st == BL_OK) {
            assert_true(nth > 5);
            return;
        }
        assert_true(nth < 1000);
    }
}

static void substitution_simplifies_on_the_way(void **state)
{
    const bl_node *buffer = bl_param(ir, 0, BL_F32, false);
    const bl_node *r = bl_range(ir, 0, BL_AXIS_LOOP, bl_index(ir, 24));
    const bl_node *o = bl_range(ir, 1, BL_AXIS_LOOP, bl_index(ir, 4)), *i = bl_range(ir, 2, BL_AXIS_TILE, bl_index(ir, 6));
    const bl_node *x = bl_load(ir, buffer, r, bl_less(ir, r, bl_index(ir, 20)));
    const bl_node *e = bl_add(ir, x, bl_cast(ir, BL_F32, bl_mod(ir, r, bl_index(ir, 6))));
    const bl_node *both = bl_add(ir, bl_mul(ir, o, bl_index(ir, 6)), i), *got = NULL;
    bl_ptrmap map;

    (void)state;
    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, r, both);
    got = bl_substitute(ir, e, &map);
    assert_ptr_equal(got, bl_add(ir, bl_load(ir, buffer, both, bl_less(ir, both, bl_index(ir, 20))), bl_cast(ir, BL_F32, i)));
    bl_ptrmap_clear(&map);
    bl_ptrmap_put(&map, r, bl_index(ir, 3));
    got = bl_substitute(ir, e, &map); /* the gate becomes constant */
    assert_ptr_equal(got, bl_add(ir, bl_load(ir, buffer, bl_index(ir, 3), NULL), bl_const_float(ir, BL_F32, 3)));
    bl_ptrmap_clear(&map);
    bl_ptrmap_put(&map, r, bl_lane(ir, 0, 4));
    got = bl_substitute(ir, e, &map); /* a range becomes lanes, and so do all users */
    assert_int_equal(got->lanes, 4);
    assert_int_equal(bl_ir_status(ir, NULL), BL_OK);
}

static void a_fold_of_equal_lanes_stays_a_fold(void **state)
{
    const bl_node *vector = bl_load(ir, bl_param(ir, 0, BL_F32, false), bl_lane(ir, 0, 4), NULL);
    const bl_node *scalar = load(1, BL_F32), *got = NULL;
    bl_ptrmap map;

    (void)state;
    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, vector, scalar);
    got = bl_substitute(ir, bl_fold(ir, BL_OP_ADD, vector), &map);
    assert_int_equal(got->op, BL_OP_FOLD);
    assert_int_equal(got->src[0]->op, BL_OP_STACK);
    assert_int_equal(got->src[0]->nsrc, 4);
}

static bool is_load_of(const bl_node *node, const void *buffer)
{
    return node->op == BL_OP_LOAD && node->src[0]->arg == *(const int *)buffer;
}

static void a_search_finds_the_first(void **state)
{
    const bl_node *a = load(0, BL_F32), *b = load(1, BL_F32), *apart = load(2, BL_F32);
    const bl_node *sum = bl_add(ir, bl_mul(ir, b, b), bl_alu1(ir, BL_OP_EXP, a)), *roots[] = {b, sum};
    const int first = 0, second = 1, third = 2;

    (void)state;
    assert_ptr_equal(bl_find_op(ir, sum, BL_OP_LOAD), a);
    assert_ptr_equal(bl_find_op(ir, sum, BL_OP_ADD), sum);
    assert_null(bl_find_op(ir, sum, BL_OP_MAX));
    assert_ptr_equal(bl_find_only(ir, sum, BL_OP_ADD), sum);
    assert_null(bl_find_only(ir, sum, BL_OP_LOAD)); /* two LOADs */
    assert_null(bl_find_only(ir, sum, BL_OP_MAX));
    assert_ptr_equal(bl_find(ir, 1, &sum, is_load_of, &first), a);
    assert_ptr_equal(bl_find(ir, 2, roots, is_load_of, &second), b);
    assert_null(bl_find(ir, 1, roots, is_load_of, &first)); /* b alone does not reach a */
    assert_null(bl_find(ir, 1, &sum, is_load_of, &third));
    assert_true(bl_reaches(ir, 1, &sum, 2, (const bl_node *[]){apart, a}));
    assert_true(bl_reaches(ir, 1, &sum, 1, &sum));
    assert_false(bl_reaches(ir, 2, roots, 1, &apart));
    assert_false(bl_reaches(ir, 2, roots, 0, NULL));
}

/* A graph of a request may have sums of sums that share operands: visiting each operand of each sum would take 2^40 visits. */
static void shared_sums_are_no_index(void **state)
{
    const bl_node *x = bl_cast(ir, BL_I64, bl_range(ir, 0, BL_AXIS_LOOP, bl_index(ir, 8)));
    const bl_node *y = bl_mul(ir, x, x), *z = NULL;

    (void)state;
    for (int i = 0; i < 60; i++) {
        z = bl_alu2(ir, i % 2 == 0 ? BL_OP_ADD : BL_OP_SUB, y, x);
        x = y;
        y = z;
    }
    assert_null(bl_as_index(ir, y));
    assert_int_equal(bl_alu2(ir, BL_OP_CMPLT, y, x)->dtype, BL_BOOL);
}

static void an_integer_may_be_an_index(void **state)
{
    const bl_node *range = bl_range(ir, 0, BL_AXIS_LOOP, bl_index(ir, 300));

    (void)state;
    assert_ptr_equal(bl_as_index(ir, range), range);
    assert_ptr_equal(bl_as_index(ir, bl_cast(ir, BL_I32, range)), range);
    assert_ptr_equal(bl_as_index(ir, bl_const_int(ir, BL_I64, -7)), bl_index(ir, -7));
    assert_null(bl_as_index(ir, bl_cast(ir, BL_I8, range))); /* the cast wraps */
    assert_null(bl_as_index(ir, bl_const_int(ir, BL_U64, -1)));
    assert_null(bl_as_index(ir, bl_cast(ir, BL_F32, range)));
    assert_null(bl_as_index(ir, load(0, BL_I32)));
    assert_null(bl_as_index(ir, bl_lane(ir, 0, 4)));
}

/* Replaces each LOAD by its root, and |range| by a constant. */
static const bl_node *take_roots(void *arg, const bl_node *node, const bl_node *const *src)
{
    const bl_node *range = arg, *made = bl_node_with(ir, node, src);
    if (node == range)
        return bl_index(ir, 3);
    return node->op == BL_OP_LOAD ? bl_alu1(ir, BL_OP_SQRT, made) : made;
}

static void a_rewrite_goes_sources_first(void **state)
{
    const bl_node *buffer = bl_param(ir, 0, BL_F32, false), *range = bl_range(ir, 0, BL_AXIS_REDUCE, bl_index(ir, 10));
    const bl_node *value = bl_load(ir, buffer, range, NULL), *reduce = bl_reduce_over(ir, BL_OP_ADD, 1, &value, 1, &range);
    const bl_node *other = bl_alu1(ir, BL_OP_EXP, load(1, BL_F32)), *roots[] = {reduce, other},
                  *tracked[] = {value, load(2, BL_F32)};
    const bl_node *moved = bl_alu1(ir, BL_OP_SQRT, bl_load(ir, buffer, bl_index(ir, 3), NULL)), *apart = tracked[1];

    (void)state;
    bl_rewrite_tracked(ir, 2, roots, 2, tracked, take_roots, (void *)(uintptr_t)range);
    assert_ptr_equal(roots[0], bl_reduce_over(ir, BL_OP_ADD, 1, &moved, 1, &range)); /* the reduction still binds its range */
    assert_ptr_equal(roots[1], bl_alu1(ir, BL_OP_EXP, bl_alu1(ir, BL_OP_SQRT, load(1, BL_F32))));
    assert_ptr_equal(tracked[0], moved);
    assert_ptr_equal(tracked[1], apart);
    assert_ptr_equal(bl_rewrite(ir, range, take_roots, NULL), range);
    assert_int_equal(bl_ir_status(ir, NULL), BL_OK);
}

/* Makes |n| nodes. */
static void make_many(int n)
{
    static int64_t next;
    for (int i = 0; i < n; i++)
        (void)bl_index(ir, next++);
}

/* The limit is one of processor time: waiting on a busy machine does not count. */
static void only_work_counts(void **state)
{
    const struct timespec nap = {.tv_nsec = 200000000};
    bl_err err = {0};

    (void)state;
    bl_ir_limit_time(ir, 0.1);
    nanosleep(&nap, NULL);
    make_many(4096);
    assert_int_equal(bl_ir_status(ir, NULL), BL_OK);
    bl_ir_tell(ir, "r_4_5");
    for (int64_t end = bl_clock_thread_ns() + 200000000; bl_clock_thread_ns() < end;)
        ;
    make_many(4096);
    assert_int_equal(bl_ir_status(ir, &err), BL_ELIMIT);
    assert_non_null(strstr(err.text, "--max-compile-seconds"));
    assert_non_null(strstr(err.text, "r_4_5"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_nodes_are_one, start, stop),
        cmocka_unit_test_setup_teardown(hashes_depend_on_structure_only, start, stop),
        cmocka_unit_test_setup_teardown(sources_are_older_than_users, start, stop),
        cmocka_unit_test_setup_teardown(bounds_are_intervals, start, stop),
        cmocka_unit_test_setup_teardown(errors_stick_and_name_the_first, start, stop),
        cmocka_unit_test_setup_teardown(sizes_that_overflow_are_refused, start, stop),
        cmocka_unit_test(the_byte_limit_is_an_error),
        cmocka_unit_test_setup_teardown(nothing_is_built_for_nobody, start, stop),
        cmocka_unit_test_setup_teardown(only_work_counts, start, stop),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test_setup_teardown(substitution_simplifies_on_the_way, start, stop),
        cmocka_unit_test_setup_teardown(a_fold_of_equal_lanes_stays_a_fold, start, stop),
        cmocka_unit_test_setup_teardown(a_search_finds_the_first, start, stop),
        cmocka_unit_test_setup_teardown(shared_sums_are_no_index, start, stop),
        cmocka_unit_test_setup_teardown(an_integer_may_be_an_index, start, stop),
        cmocka_unit_test_setup_teardown(a_rewrite_goes_sources_first, start, stop),
    };

    return cmocka_run_group_tests_name("ir/node", tests, NULL, NULL);
}
