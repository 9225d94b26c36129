/* SPDX-License-Identifier: MIT */
/* Every row of both rule sets in one harness: the harness makes expressions from the row's own pattern in every matching dtype,
 * applies the row alone, and compares the values on special operands.  A row that never applies fails the test. */
#include "engine/ir/private.h"
#include "tests/ir/node_value.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_CASTS = 2, N_LEAF_KINDS = 3, MAX_ODD = 24 };

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

static const bl_node *raw(bl_op op, bl_dtype dtype, int nsrc, const bl_node *const *src)
{
    return bl_node_make(ir,
                        &(bl_node){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = 1, .nsrc = (uint32_t)nsrc, .src = src});
}

/* ---- operands */

static int odd_values(bl_dtype dtype, bl_scalar *out)
{
    static const double floats[] = {0.0, -0.0, 1, -1, 0.5, 3, -2.75, 65504, 1e-7, 1e30, INFINITY, -INFINITY, NAN};
    static const int64_t ints[] = {0, 1, -1, 2, 3, 5, 7, 8, 9, 13, 64, INT64_MIN, INT64_MAX};
    int n = 0;

    if (dtype == BL_BOOL) {
        out[0].u = 0;
        out[1].u = 1;
        return 2;
    }
    if (!bl_dtype_is_float(dtype)) {
        for (; n < 13; n++)
            out[n] = bl_scalar_fit(dtype, (bl_scalar){.i = ints[n]});
        out[n++] = bl_scalar_lowest(dtype);
        out[n++] = bl_scalar_highest(dtype);
        return n;
    }
    for (; n < 13; n++)
        out[n] = bl_scalar_fit(dtype, (bl_scalar){.f = floats[n]});
    return n;
}

/* Makes a leaf: any value, 0 to 7, or 8 to 15. */
static const bl_node *make_leaf(int slot, bl_dtype dtype, int kind)
{
    const bl_node *load = bl_load(ir, bl_param(ir, slot, dtype, false), bl_index(ir, 0), NULL);
    const bl_node *seven = bl_const_int(ir, dtype, 7);
    const bl_node *src[2] = {load, seven};

    if (kind == 0 || !bl_dtype_is_int(dtype) || dtype == BL_U64) /* unknown bounds */
        return load;
    src[0] = raw(BL_OP_AND, dtype, 2, src);
    if (kind == 1)
        return src[0];
    src[1] = bl_const_int(ir, dtype, 8);
    return raw(BL_OP_OR, dtype, 2, src);
}

/* ---- expressions from patterns */

typedef struct maker {
    bl_dtype type;            /* dtype of the root's operands */
    bl_dtype from[MAX_CASTS]; /* operand dtypes of the conversions, outermost first */
    int ncasts;
    unsigned swap; /* bit i: exchange the operands of the i-th commutative op */
    int ncommute;
    int constant[3]; /* indices of the special values for K, K2 and K3 */
    int leaf_kind[BL_MAX_CAPTURES];
    bl_dtype slot_type[BL_MAX_CAPTURES];
    const bl_node *slot[BL_MAX_CAPTURES];
    bool bad;
} maker;

static const bl_node *make(maker *m, const bl_pat *pat, bl_dtype dtype);

static const bl_node *make_slot(maker *m, const bl_pat *pat, bl_dtype dtype)
{
    bl_scalar odd[MAX_ODD];
    int n = odd_values(dtype, odd);

    if (m->slot[pat->slot] != NULL) {
        m->bad = m->bad || m->slot_type[pat->slot] != dtype;
        return m->slot[pat->slot];
    }
    m->slot_type[pat->slot] = dtype;
    if (pat->kind == BL_PAT_ANY)
        m->slot[pat->slot] = make_leaf(pat->slot, dtype, m->leaf_kind[pat->slot]);
    else
        m->slot[pat->slot] = bl_const(ir, dtype, odd[m->constant[pat->slot - 4] % n]);
    return m->slot[pat->slot];
}

static bool op_takes(bl_op op, bl_dtype dtype)
{
    unsigned flags = bl_op_flags(op);

    if (flags & BL_OPF_WORDS)
        return dtype == BL_I32;
    if (bl_dtype_is_float(dtype))
        return (flags & BL_OPF_INT) == 0 && op != BL_OP_NOT;
    if (flags & BL_OPF_FLOAT)
        return false;
    return dtype != BL_BOOL || (flags & BL_OPF_INT) == 0 || (flags & BL_OPF_BOOL) != 0;
}

static const bl_node *make_op(maker *m, const bl_pat *pat, bl_dtype dtype)
{
    const bl_node *src[3] = {NULL, NULL, NULL};
    bl_dtype operand = dtype;
    bool compares = (bl_op_flags(pat->op) & BL_OPF_COMPARE) != 0;
    bool swapped = false;

    if (compares)
        operand = m->type;
    if (pat->op == BL_OP_CAST || pat->op == BL_OP_BITCAST)
        operand = m->from[m->ncasts++];
    if (pat->op == BL_OP_BITCAST && (bl_dtype_bytes(operand) != bl_dtype_bytes(dtype) || operand == BL_BOOL || dtype == BL_BOOL ||
                                     operand == BL_INDEX || dtype == BL_INDEX))
        m->bad = true;
    m->bad = m->bad || (compares && dtype != BL_BOOL) || !op_takes(pat->op, operand);
    if (m->bad)
        return NULL;
    if (bl_op_flags(pat->op) & BL_OPF_COMMUTES)
        swapped = (m->swap >> m->ncommute++ & 1) != 0;
    for (int i = 0; i < pat->nsrc; i++) {
        src[swapped ? 1 - i : i] = make(m, pat->src[i], pat->op == BL_OP_WHERE && i == 0 ? BL_BOOL : operand);
        if (m->bad)
            return NULL;
    }
    return raw(pat->op, dtype, pat->nsrc, src);
}

static const bl_node *make(maker *m, const bl_pat *pat, bl_dtype dtype)
{
    const bl_node *constant = NULL;

    if (pat->kind == BL_PAT_OP)
        return make_op(m, pat, dtype);
    if (pat->kind != BL_PAT_VALUE)
        return make_slot(m, pat, dtype);
    constant = bl_const_float(ir, dtype, pat->value);
    if (pat->value < 0 && bl_dtype_get_kind(dtype) != BL_KIND_INT && !bl_dtype_is_float(dtype))
        m->bad = true;
    return constant;
}

static int count_op(const bl_pat *pat, unsigned flags, bool casts)
{
    int n = 0;

    if (pat->kind != BL_PAT_OP)
        return 0;
    n = casts ? pat->op == BL_OP_CAST || pat->op == BL_OP_BITCAST : (bl_op_flags(pat->op) & flags) != 0;
    for (int i = 0; i < pat->nsrc; i++)
        n += count_op(pat->src[i], flags, casts);
    return n;
}

static bool has_slot(const bl_pat *pat, int slot)
{
    bool has = pat->kind != BL_PAT_OP && pat->kind != BL_PAT_VALUE && pat->slot == slot;

    for (int i = 0; pat->kind == BL_PAT_OP && i < pat->nsrc; i++)
        has = has || has_slot(pat->src[i], slot);
    return has;
}

/* ---- comparison of both sides */

static int values_of_leaf(const bl_node *leaf, bl_scalar *out)
{
    bl_scalar all[MAX_ODD];
    int n = odd_values((bl_dtype)leaf->dtype, all);
    int kept = 0;

    for (int i = 0; i < n; i++) {
        bool bounded = !bl_dtype_is_float((bl_dtype)leaf->dtype) && leaf->op != BL_OP_LOAD;
        if (!bounded || (all[i].i >= leaf->lo && all[i].i <= leaf->hi))
            out[kept++] = all[i];
    }
    return kept;
}

static void compare(const bl_rule *rule, const maker *m, const bl_node *found, const bl_node *made)
{
    leaf_values at = {.count = 0};
    leaf_values all = {.count = 0};
    bl_scalar odd[4][MAX_ODD];
    int n[4] = {1, 1, 1, 1}, which[4] = {0, 0, 0, 0};

    for (int slot = 0; slot < 4; slot++) {
        if (m->slot[slot] == NULL)
            continue;
        at.leaf[at.count] = m->slot[slot];
        n[at.count] = values_of_leaf(m->slot[slot], odd[at.count]);
        at.count++;
    }
    for (;;) {
        bl_scalar wanted, got;
        int i = 0;
        for (int k = 0; k < at.count; k++)
            at.value[k] = odd[k][which[k]];
        for (int k = 0; k < at.count; k++) { /* a bounded leaf contains a load, which a row may match */
            const bl_node *load = at.leaf[k];
            while (load->op != BL_OP_LOAD)
                load = load->src[0];
            all.leaf[k] = at.leaf[k];
            all.value[k] = at.value[k];
            all.leaf[at.count + k] = load;
            all.value[at.count + k] = at.value[k];
        }
        all.count = 2 * at.count;
        wanted = node_value(found, &all);
        got = node_value(made, &all);
        if (made->dtype != found->dtype || !same_value((bl_dtype)found->dtype, wanted, got))
            fail_msg("%s on %s: got %llx, wanted %llx (%g and %g)\n  %s\n  became %s", rule->name,
                     bl_dtype_name((bl_dtype)found->src[0]->dtype), (unsigned long long)got.u, (unsigned long long)wanted.u,
                     got.f, wanted.f, node_formula(found), node_formula(made));
        while (i < at.count && ++which[i] == n[i])
            which[i++] = 0;
        if (i == at.count)
            return;
    }
}

static const bl_node *apply_alone(const bl_rule *rule, const bl_node *node)
{
    bl_ruleset alone = {rule->name, rule, 1};
    bl_rule_table table;

    bl_rule_table_init(&table, &alone);
    return bl_rules_apply(ir, &table, node);
}

static bool try_row(const bl_rule *rule, maker *m)
{
    bool compares = (bl_op_flags(rule->find->op) & BL_OPF_COMPARE) != 0;
    const bl_node *found = make(m, rule->find, compares ? BL_BOOL : m->type);
    const bl_node *made = NULL;

    if (m->bad)
        return false;
    made = apply_alone(rule, found);
    if (bl_ir_status(ir, NULL) != BL_OK)
        fail_msg("%s made poison of %s", rule->name, node_formula(found));
    if (made == NULL)
        return false;
    compare(rule, m, found, made);
    return true;
}

/* Tries all dtypes, operand orders, constants and kinds of leaves for a row.  Returns how often the row applied. */
static int try_row_everywhere(const bl_rule *rule)
{
    int nconstants = (has_slot(rule->find, 4) ? 15 : 1) * (has_slot(rule->find, 5) ? 15 : 1) * (has_slot(rule->find, 6) ? 15 : 1);
    int ncasts = count_op(rule->find, 0, true);
    int orders = 1 << count_op(rule->find, BL_OPF_COMMUTES, false);
    int from = ncasts == 0 ? 1 : ncasts == 1 ? BL_DTYPE_COUNT : BL_DTYPE_COUNT * BL_DTYPE_COUNT;
    int fired = 0;

    for (int type = 0; type < BL_DTYPE_COUNT; type++) {
        for (int i = 0; i < from * orders * nconstants * N_LEAF_KINDS; i++) {
            int constants = i / orders / from % nconstants;
            int kind = i / orders / from / nconstants;
            maker m = {.type = (bl_dtype)type, .swap = (unsigned)(i % orders)};

            m.from[0] = (bl_dtype)(i / orders % from % BL_DTYPE_COUNT);
            m.from[1] = (bl_dtype)(i / orders % from / BL_DTYPE_COUNT);
            m.constant[0] = constants % 15;
            m.constant[1] = constants / 15 % 15;
            m.constant[2] = constants / 225;
            m.leaf_kind[0] = kind;
            m.leaf_kind[1] = kind == 0 ? 0 : 3 - kind;
            fired += try_row(rule, &m);
        }
    }
    return fired;
}

static void every_algebra_row_is_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < bl_rules_algebra.count; i++) {
        const bl_rule *rule = &bl_rules_algebra.rows[i];
        bl_err err = {0};

        if (try_row_everywhere(rule) == 0)
            fail_msg("%s never fired", rule->name);
        if (bl_ir_status(ir, &err) != BL_OK)
            fail_msg("%s: %s", rule->name, err.text);
        stop(NULL); /* a new arena for each row */
        start(NULL);
    }
}

/* ---- index rows: every pair of examples under the row's op, over all values of their ranges */

enum { N_EXAMPLES = 20 };

static void make_examples(const bl_node *const *r, const bl_node **out)
{
    static const int64_t constants[] = {0, 1, 2, 4, 6, -3};
    int n = 0;

    for (int i = 0; i < 6; i++)
        out[n++] = bl_index(ir, constants[i]);
    for (int i = 0; i < 3; i++)
        out[n++] = r[i];
    out[n++] = bl_mul(ir, r[0], bl_index(ir, 4));
    out[n++] = bl_mul(ir, r[1], bl_index(ir, -3));
    out[n++] = bl_add(ir, bl_mul(ir, r[0], bl_index(ir, 6)), r[2]);
    out[n++] = bl_sub(ir, r[1], bl_index(ir, 2));
    out[n++] = bl_idiv(ir, r[1], bl_index(ir, 2));
    out[n++] = bl_mod(ir, r[1], bl_index(ir, 2));
    out[n++] = bl_add(ir, bl_add(ir, r[0], r[1]), bl_index(ir, 5));
    out[n++] = bl_mul(ir, r[0], r[1]);
    out[n++] = bl_mod(ir, bl_add(ir, r[0], r[1]), bl_index(ir, 4));
    out[n++] = bl_idiv(ir, bl_sub(ir, r[0], r[1]), bl_index(ir, 4));
    out[n++] = bl_mul(ir, bl_mod(ir, r[2], bl_index(ir, 4)), bl_index(ir, 2));
    assert_int_equal(n, N_EXAMPLES);
}

static void compare_over_ranges(const bl_rule *rule, const bl_node *const *r, const bl_node *found, const bl_node *made)
{
    leaf_values at = {.count = 3, .leaf = {r[0], r[1], r[2]}};

    for (int64_t i = 0; i < (r[0]->hi + 1) * (r[1]->hi + 1) * (r[2]->hi + 1); i++) {
        at.value[0].i = i % (r[0]->hi + 1);
        at.value[1].i = i / (r[0]->hi + 1) % (r[1]->hi + 1);
        at.value[2].i = i / (r[0]->hi + 1) / (r[1]->hi + 1);
        if (index_value(found, &at) != index_value(made, &at))
            fail_msg("%s: at %lld %lld %lld: %lld, wanted %lld\n  %s\n  became %s", rule->name, (long long)at.value[0].i,
                     (long long)at.value[1].i, (long long)at.value[2].i, (long long)index_value(made, &at),
                     (long long)index_value(found, &at), node_formula(found), node_formula(made));
    }
}

static const bl_node *raw_compare(bl_op op, const bl_node *x, const bl_node *y)
{
    return raw(op, BL_BOOL, 2, (const bl_node *const[]){x, y});
}

/* Builds the row's pattern over the examples x and y; bool operands are comparisons of x and y. */
static const bl_node *index_example(const bl_rule *rule, const bl_node *x, const bl_node *y)
{
    const bl_pat *pat = rule->find;
    const bl_node *src[2] = {x, y};

    if (pat->op == BL_OP_NOT)
        src[0] = raw_compare(BL_OP_CMPLT, x, y);
    if (strstr(rule->name, "_numbers") != NULL) {
        src[0] = bl_sub(ir, bl_cast(ir, BL_I16, x), bl_const_int(ir, BL_I16, 2));
        src[1] = bl_cast(ir, BL_I16, y);
    }
    if (pat->op == BL_OP_AND) {
        src[0] = raw_compare(BL_OP_CMPLT, x, y);
        src[1] = raw_compare(BL_OP_CMPLT, y, bl_index(ir, 3));
        return raw(BL_OP_AND, BL_BOOL, 2, src);
    }
    return raw(pat->op, pat->op == BL_OP_NOT || bl_op_flags(pat->op) & BL_OPF_COMPARE ? BL_BOOL : BL_INDEX, pat->nsrc, src);
}

static void every_index_row_is_exact(void **state)
{
    const bl_node *r[3], *example[N_EXAMPLES];

    (void)state;
    for (int i = 0; i < 3; i++)
        r[i] = bl_range(ir, i, BL_AXIS_LOOP, bl_index(ir, 5 + i));
    make_examples(r, example);
    for (size_t row = 0; row < bl_rules_index.count; row++) {
        const bl_rule *rule = &bl_rules_index.rows[row];
        int fired = 0;

        for (int i = 0; i < N_EXAMPLES * N_EXAMPLES; i++) {
            const bl_node *found = index_example(rule, example[i % N_EXAMPLES], example[i / N_EXAMPLES]);
            const bl_node *made = apply_alone(rule, found);
            if (made == NULL)
                continue;
            fired++;
            compare_over_ranges(rule, r, found, made);
        }
        if (fired == 0)
            fail_msg("%s never fired", rule->name);
    }
}

/* ---- requirements on the complete rewriter */

static void constants_fold_and_identities_vanish(void **state)
{
    const bl_node *x = make_leaf(0, BL_F32, 0), *i = make_leaf(1, BL_I32, 0);
    const bl_node *flag = bl_less(ir, i, bl_const_int(ir, BL_I32, 5));
    const bl_node *zero = bl_const_float(ir, BL_F32, 0), *one = bl_const_float(ir, BL_F32, 1);

    (void)state;
    assert_ptr_equal(bl_add(ir, one, one), bl_const_float(ir, BL_F32, 2));
    assert_ptr_equal(bl_mul(ir, one, x), x);
    assert_ptr_not_equal(bl_add(ir, x, zero), x); /* -0.0 + 0.0 is 0.0 */
    assert_ptr_equal(bl_add(ir, i, bl_const_int(ir, BL_I32, 0)), i);
    assert_ptr_equal(bl_cast(ir, BL_I32, bl_cast(ir, BL_I64, i)), i);
    assert_ptr_not_equal(bl_cast(ir, BL_I32, bl_cast(ir, BL_I8, i)), i);
    assert_ptr_equal(bl_cast(ir, BL_F32, bl_cast(ir, BL_I32, flag)), bl_cast(ir, BL_F32, flag));
    assert_ptr_equal(bl_not(ir, bl_not(ir, flag)), flag);
    assert_ptr_equal(bl_where(ir, bl_not(ir, flag), x, zero), bl_where(ir, flag, zero, x));
    assert_ptr_equal(bl_where(ir, flag, bl_where(ir, flag, x, one), zero), bl_where(ir, flag, x, zero));
}

static void tensors_are_simplified_too(void **state)
{
    const bl_node *dim[2] = {bl_index(ir, 2), bl_index(ir, 3)};
    const bl_node *x = bl_input(ir, 0, BL_F32, 2, dim);
    const bl_node *product = bl_mul(ir, x, bl_full_like(ir, x, 1));
    const bl_node *roots[3] = {product, bl_alu1(ir, BL_OP_NEG, bl_alu1(ir, BL_OP_NEG, x)), x};

    (void)state;
    assert_ptr_not_equal(product, x);
    bl_simplify(ir, 3, roots);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(roots[i], x);
}

static void long_chains_do_not_recurse(void **state)
{
    const bl_node *x = make_leaf(0, BL_F32, 0);
    const bl_node *chain = x;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        const bl_node *src[2] = {chain, i % 2 ? x : bl_const_float(ir, BL_F32, 1)};
        chain = raw(i % 2 ? BL_OP_ADD : BL_OP_MUL, BL_F32, 2, src);
    }
    bl_simplify(ir, 1, &chain);
    assert_int_equal(bl_reach(ir, 1, &chain, false).count, 50000 + 3); /* the sums, and a load of two operands */
    assert_int_equal(bl_ir_status(ir, NULL), BL_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_algebra_row_is_exact, start, stop),
        cmocka_unit_test_setup_teardown(every_index_row_is_exact, start, stop),
        cmocka_unit_test_setup_teardown(constants_fold_and_identities_vanish, start, stop),
        cmocka_unit_test_setup_teardown(tensors_are_simplified_too, start, stop),
        cmocka_unit_test_setup_teardown(long_chains_do_not_recurse, start, stop),
    };

    return cmocka_run_group_tests_name("ir/rules", tests, NULL, NULL);
}
