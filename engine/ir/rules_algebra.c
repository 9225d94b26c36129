/* SPDX-License-Identifier: MIT */
/* Algebraic laws of scalar ops of every dtype. A rule is exact: for floats with NaN, infinities and the sign of zero, for
 * integers with wrapping. */
#include "engine/ir/eval.h"
#include "engine/ir/pattern.h"
#include "engine/ir/private.h"

#include <math.h>

/* ---- guards */
GUARD(is_whole, !bl_dtype_is_float(DTYPE)) /* integers and bool */
GUARD(is_int, bl_dtype_is_int(DTYPE))
GUARD(is_number, DTYPE != BL_BOOL)
GUARD(is_no_index, DTYPE != BL_INDEX && DTYPE != BL_BOOL)
GUARD(is_bool, DTYPE == BL_BOOL)
GUARD(of_whole, !bl_dtype_is_float(FROM))
GUARD(of_bool, FROM == BL_BOOL)
/* Bounds decide max, min, and the quotient and remainder of a value below the divisor. */
GUARD(bounds_are_known, is_whole(m) && FROM != BL_U64)

/* ---- functions */
static bl_scalar rules_algebra_value_of(const bl_node *uniform)
{
    return bl_const_value(bl_uniform_const(uniform));
}

/* Is K the constant with all bits set? */
static bool ones_k(const bl_match *m)
{
    bl_scalar minus_one = bl_scalar_fit((bl_dtype)m->root->dtype, (bl_scalar){.i = -1});

    return is_whole(m) && rules_algebra_value_of(m->at[4]).i == minus_one.i;
}

/* Arithmetic with a NaN constant is folded here, since compilers fold it wrongly (PoCL's truncation of a NaN). */
static bool nan_k(const bl_match *m)
{
    return !is_whole(m) && isnan(rules_algebra_value_of(m->at[4]).f);
}

/* (x op K) op K2 = x op (K op K2), for integers modulo 2^width, and for max and min of any dtype. */
static const bl_node *join_constants(bl_ir *ir, const bl_match *m)
{
    const bl_node *both = NULL;

    if (m->root->dtype == BL_INDEX && (m->root->op == BL_OP_ADD || m->root->op == BL_OP_MUL))
        return NULL; /* INDEX has its own normal form */
    both = bl_alu2(ir, (bl_op)m->root->op, bl_uniform_const(m->at[4]), bl_uniform_const(m->at[5]));
    if (!bl_is_const(both))
        return NULL;
    return bl_alu2(ir, (bl_op)m->root->op, m->at[0], bl_const_like(ir, m->root, bl_const_value(both)));
}

static const bl_node *sub_constant(bl_ir *ir, const bl_match *m) /* x - K = x + (-K) */
{
    bl_dtype dtype = (bl_dtype)m->root->dtype;
    bl_scalar k = rules_algebra_value_of(m->at[4]);

    if (bl_dtype_is_float(dtype))
        k.f = -k.f;
    else
        k.u = 0 - k.u;
    return bl_alu2(ir, BL_OP_ADD, m->at[0], bl_const_like(ir, m->root, bl_scalar_fit(dtype, k)));
}

/* x / 2^n = x * 2^-n is exact while 2^-n is a normal number of the dtype. */
static const bl_node *div_power(bl_ir *ir, const bl_match *m)
{
    bl_dtype dtype = (bl_dtype)m->root->dtype;
    double k = rules_algebra_value_of(m->at[4]).f;
    int exponent = 0;
    int largest = dtype == BL_F64 ? 1021 : dtype == BL_F16 ? 13 : 125;

    if (!isfinite(k) || fabs(frexp(k, &exponent)) != 0.5 || exponent > largest || exponent < -largest)
        return NULL;
    return bl_alu2(ir, BL_OP_MUL, m->at[0], bl_const_like(ir, m->root, (bl_scalar){.f = 1 / k}));
}

/* Two conversions, of which the first preserves every value, are one conversion. */
static const bl_node *cast_cast(bl_ir *ir, const bl_match *m)
{
    const bl_node *inner = m->root->src[0];
    bl_dtype to = (bl_dtype)m->root->dtype;

    if (!bl_cast_keeps((bl_dtype)inner->dtype, inner->src[0]))
        return NULL;
    /* A conversion to integer saturates from a float and wraps from an integer. */
    if (bl_dtype_is_int(to) && bl_dtype_is_float((bl_dtype)inner->dtype) != bl_dtype_is_float((bl_dtype)inner->src[0]->dtype) &&
        !bl_cast_keeps(to, inner->src[0]))
        return NULL;
    return bl_cast(ir, to, inner->src[0]);
}

static const bl_node *cast_same(bl_ir *ir, const bl_match *m)
{
    (void)ir;
    return m->root->src[0]->dtype == m->root->dtype ? m->root->src[0] : NULL;
}

static const bl_node *cast_constant(bl_ir *ir, const bl_match *m)
{
    const bl_node *k = bl_uniform_const(m->at[4]);

    return bl_const_like(ir, m->root, bl_scalar_cast((bl_dtype)m->root->dtype, (bl_dtype)k->dtype, bl_const_value(k)));
}

/* Convert the constants of a choice. */
static const bl_node *cast_where(bl_ir *ir, const bl_match *m)
{
    bl_dtype to = (bl_dtype)m->root->dtype;
    bl_dtype from = (bl_dtype)m->root->src[0]->dtype;

    return bl_where(ir, m->at[0], bl_const_like(ir, m->root, bl_scalar_cast(to, from, rules_algebra_value_of(m->at[4]))),
                    bl_const_like(ir, m->root, bl_scalar_cast(to, from, rules_algebra_value_of(m->at[5]))));
}

/* A comparison of a choice between constants with a constant: compare each constant. */
static const bl_node *compare_choice(bl_ir *ir, const bl_match *m)
{
    return bl_where(ir, m->at[0], bl_alu2(ir, (bl_op)m->root->op, m->at[4], m->at[6]),
                    bl_alu2(ir, (bl_op)m->root->op, m->at[5], m->at[6]));
}

static const bl_node *bitcast_bitcast(bl_ir *ir, const bl_match *m)
{
    return bl_bitcast(ir, (bl_dtype)m->root->dtype, m->at[0]);
}

/* A comparison of a converted bool with a constant: evaluate both cases. */
static const bl_node *compare_flag(bl_ir *ir, const bl_match *m)
{
    const bl_node *flag = m->at[0];
    bl_dtype dtype = (bl_dtype)m->at[4]->dtype;
    bool result[2];

    if (flag->dtype != BL_BOOL)
        return NULL;
    for (unsigned bit = 0; bit < 2; bit++) {
        bl_scalar converted = bl_scalar_cast(dtype, BL_BOOL, (bl_scalar){.u = bit});
        bl_scalar operand[2] = {converted, rules_algebra_value_of(m->at[4])};
        if (bl_uniform_const(m->root->src[0]) != NULL) {
            operand[1] = operand[0];
            operand[0] = rules_algebra_value_of(m->at[4]);
        }
        result[bit] = bl_eval((bl_op)m->root->op, dtype, operand).u != 0;
    }
    if (result[0] == result[1])
        return bl_const_like(ir, m->root, (bl_scalar){.u = result[0]});
    return result[1] ? flag : bl_not(ir, flag);
}

static const bl_node *extremum_decided(bl_ir *ir, const bl_match *m)
{
    const bl_node *x = m->at[0];
    const bl_node *y = m->at[1];
    bool is_max = m->root->op == BL_OP_MAX;

    (void)ir;
    if (x->hi <= y->lo)
        return is_max ? y : x;
    if (y->hi <= x->lo)
        return is_max ? x : y;
    return NULL;
}

static const bl_node *below_divisor(bl_ir *ir, const bl_match *m)
{
    (void)ir;
    if (m->at[0]->lo < 0 || m->at[0]->hi >= m->at[1]->lo)
        return NULL;
    return m->root->op == BL_OP_MOD ? m->at[0] : bl_const_like(ir, m->root, (bl_scalar){.i = 0});
}

static const bl_rule rows[] = {
    /* sums */
    RULE_IF("add_zero", P2(ADD, X, C(0)), X, is_int),
    RULE("add_minus_zero", P2(ADD, X, C(-0.0)), X),
    RULE_IF("add_is_or", P2(ADD, X, Y), P2(OR, X, Y), is_bool),
    RULE_IF("add_nan", P2(ADD, X, K), K, nan_k),
    RULE_FN("add_constants", P2(ADD, P2(ADD, X, K), K2), join_constants, is_int),
    RULE_IF("add_neg", P2(ADD, X, P1(NEG, Y)), P2(SUB, X, Y), is_number),
    RULE("sub_zero", P2(SUB, X, C(0)), X),
    RULE_IF("sub_self", P2(SUB, X, X), C(0), is_whole),
    RULE_IF("sub_neg", P2(SUB, X, P1(NEG, Y)), P2(ADD, X, Y), is_number),
    RULE_IF("sub_nan", P2(SUB, X, K), K, nan_k),
    RULE_IF("nan_sub", P2(SUB, K, X), K, nan_k),
    RULE_FN("sub_constant", P2(SUB, X, K), sub_constant, is_int),
    RULE("neg_neg", P1(NEG, P1(NEG, X)), X),
    RULE_IF("neg_sub", P1(NEG, P2(SUB, X, Y)), P2(SUB, Y, X), is_int),
    /* products */
    RULE("mul_one", P2(MUL, X, C(1)), X),
    RULE_IF("mul_zero", P2(MUL, X, C(0)), C(0), is_whole),
    RULE_IF("mul_minus_one", P2(MUL, X, C(-1)), P1(NEG, X), is_no_index),
    RULE_IF("mul_is_and", P2(MUL, X, Y), P2(AND, X, Y), is_bool),
    RULE_IF("mul_nan", P2(MUL, X, K), K, nan_k),
    RULE_FN("mul_constants", P2(MUL, P2(MUL, X, K), K2), join_constants, is_int),
    RULE_IF("mul_neg_neg", P2(MUL, P1(NEG, X), P1(NEG, Y)), P2(MUL, X, Y), is_number),
    RULE("div_one", P2(DIV, X, C(1)), X),
    RULE_IF("div_nan", P2(DIV, X, K), K, nan_k),
    RULE_IF("nan_div", P2(DIV, K, X), K, nan_k),
    RULE_FN("div_power", P2(DIV, X, K), div_power, NULL),
    RULE("div_neg_neg", P2(DIV, P1(NEG, X), P1(NEG, Y)), P2(DIV, X, Y)),
    RULE("idiv_one", P2(IDIV, X, C(1)), X),
    RULE("idiv_zero", P2(IDIV, X, C(0)), C(0)),
    RULE("zero_idiv", P2(IDIV, C(0), X), C(0)),
    RULE("mod_one", P2(MOD, X, C(1)), C(0)),
    RULE("mod_zero", P2(MOD, X, C(0)), C(0)),
    RULE("zero_mod", P2(MOD, C(0), X), C(0)),
    RULE("mod_self", P2(MOD, X, X), C(0)),
    RULE_FN("idiv_below", P2(IDIV, X, Y), below_divisor, bounds_are_known),
    RULE_FN("mod_below", P2(MOD, X, Y), below_divisor, bounds_are_known),
    RULE("trunc_trunc", P1(TRUNC, P1(TRUNC, X)), P1(TRUNC, X)),
    /* extrema */
    RULE("max_self", P2(MAX, X, X), X),
    RULE("min_self", P2(MIN, X, X), X),
    RULE_IF("max_is_or", P2(MAX, X, Y), P2(OR, X, Y), is_bool),
    RULE_IF("min_is_and", P2(MIN, X, Y), P2(AND, X, Y), is_bool),
    RULE_IF("max_max", P2(MAX, X, P2(MAX, X, Y)), P2(MAX, X, Y), is_whole), /* not for floats: the sign of zero */
    RULE_IF("min_min", P2(MIN, X, P2(MIN, X, Y)), P2(MIN, X, Y), is_whole),
    RULE_IF("max_nan", P2(MAX, X, K), K, nan_k),
    RULE_IF("min_nan", P2(MIN, X, K), K, nan_k),
    RULE_FN("max_constants", P2(MAX, P2(MAX, X, K), K2), join_constants, is_whole),
    RULE_FN("min_constants", P2(MIN, P2(MIN, X, K), K2), join_constants, is_whole),
    RULE_FN("max_bounds", P2(MAX, X, Y), extremum_decided, bounds_are_known),
    RULE_FN("min_bounds", P2(MIN, X, Y), extremum_decided, bounds_are_known),
    /* bits */
    RULE("not_not", P1(NOT, P1(NOT, X)), X),
    RULE("and_self", P2(AND, X, X), X),
    RULE("and_zero", P2(AND, X, C(0)), C(0)),
    RULE_IF("and_ones", P2(AND, X, K), X, ones_k),
    RULE("and_not_self", P2(AND, X, P1(NOT, X)), C(0)),
    RULE("and_absorbs_or", P2(AND, X, P2(OR, X, Y)), X),
    RULE_FN("and_constants", P2(AND, P2(AND, X, K), K2), join_constants, NULL),
    RULE("or_self", P2(OR, X, X), X),
    RULE("or_zero", P2(OR, X, C(0)), X),
    RULE_IF("or_ones", P2(OR, X, K), K, ones_k),
    RULE_IF("or_not_self", P2(OR, X, P1(NOT, X)), C(1), is_bool),
    RULE("or_absorbs_and", P2(OR, X, P2(AND, X, Y)), X),
    RULE("or_or", P2(OR, X, P2(OR, X, Y)), P2(OR, X, Y)),
    RULE_FN("or_constants", P2(OR, P2(OR, X, K), K2), join_constants, NULL),
    RULE("xor_self", P2(XOR, X, X), C(0)),
    RULE("xor_zero", P2(XOR, X, C(0)), X),
    RULE_IF("xor_ones", P2(XOR, X, K), P1(NOT, X), ones_k),
    RULE_FN("xor_constants", P2(XOR, P2(XOR, X, K), K2), join_constants, NULL),
    RULE("shl_zero", P2(SHL, X, C(0)), X),
    RULE("shr_zero", P2(SHR, X, C(0)), X),
    RULE("zero_shl", P2(SHL, C(0), X), C(0)),
    RULE("zero_shr", P2(SHR, C(0), X), C(0)),
    /* comparisons */
    RULE("less_self", P2(CMPLT, X, X), C(0)), /* NaN < NaN is false too */
    RULE_IF("equal_self", P2(CMPEQ, X, X), C(1), of_whole),
    RULE_IF("equal_true", P2(CMPEQ, X, C(1)), X, of_bool),
    RULE_IF("equal_false", P2(CMPEQ, X, C(0)), P1(NOT, X), of_bool),
    RULE_IF("false_less", P2(CMPLT, C(0), X), X, of_bool),
    RULE_IF("less_true", P2(CMPLT, X, C(1)), P1(NOT, X), of_bool),
    RULE_FN("equal_flag", P2(CMPEQ, P1(CAST, X), K), compare_flag, NULL),
    RULE_FN("flag_less", P2(CMPLT, P1(CAST, X), K), compare_flag, NULL),
    RULE_FN("less_flag", P2(CMPLT, K, P1(CAST, X)), compare_flag, NULL),
    RULE_FN("choice_less", P2(CMPLT, P3(WHERE, X, K, K2), K3), compare_choice, NULL),
    RULE_FN("choice_equal", P2(CMPEQ, P3(WHERE, X, K, K2), K3), compare_choice, NULL),
    /* choices */
    RULE("where_true", P3(WHERE, C(1), X, Y), X),
    RULE("where_false", P3(WHERE, C(0), X, Y), Y),
    RULE("where_same", P3(WHERE, X, Y, Y), Y),
    RULE("where_not", P3(WHERE, P1(NOT, X), Y, Z), P3(WHERE, X, Z, Y)),
    RULE("where_where_yes", P3(WHERE, X, P3(WHERE, X, Y, Z), W), P3(WHERE, X, Y, W)),
    RULE("where_where_no", P3(WHERE, X, Y, P3(WHERE, X, Z, W)), P3(WHERE, X, Y, W)),
    /* Nested gates are one gate: the conjunction. */
    RULE("where_gates", P3(WHERE, X, P3(WHERE, Y, Z, W), W), P3(WHERE, P2(AND, X, Y), Z, W)),
    RULE_IF("where_is_condition", P3(WHERE, X, C(1), C(0)), X, is_bool),
    RULE_IF("where_is_not", P3(WHERE, X, C(0), C(1)), P1(NOT, X), is_bool),
    RULE_IF("where_is_and", P3(WHERE, X, Y, C(0)), P2(AND, X, Y), is_bool),
    RULE_IF("where_is_or", P3(WHERE, X, C(1), Y), P2(OR, X, Y), is_bool),
    /* conversions */
    RULE_FN("cast_same", P1(CAST, X), cast_same, NULL),
    RULE_FN("cast_constant", P1(CAST, K), cast_constant, NULL),
    RULE_FN("cast_cast", P1(CAST, P1(CAST, X)), cast_cast, NULL),
    RULE_FN("cast_where", P1(CAST, P3(WHERE, X, K, K2)), cast_where, NULL),
    RULE_FN("bitcast_bitcast", P1(BITCAST, P1(BITCAST, X)), bitcast_bitcast, NULL),
};

const bl_ruleset bl_rules_algebra = {"algebra", rows, sizeof rows / sizeof rows[0]};
