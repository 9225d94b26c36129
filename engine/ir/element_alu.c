/* SPDX-License-Identifier: MIT */
/* Scalar ops on elements. Integers become INDEX expressions, which do not wrap: the result of an operation that may leave the
 * range of int64 is unknown. Floats that contain named dimensions are exact fractions, without the rounding of floats. */
#include "engine/base/size.h"
#include "engine/ir/elements.h"
#include "engine/ir/eval.h"
#include "engine/ir/private.h"

#include <math.h>

enum { MAX_DENOMINATOR = 4096, MAX_CONDITION = 6 };
static const int64_t LARGEST_SUM = INT64_C(1) << 60, LARGEST_FACTOR = INT64_C(1) << 30;

const bl_node *bl_element_const(bl_ir *ir, bl_dtype dtype, bl_scalar value)
{
    if (bl_dtype_is_float(dtype) || dtype == BL_BOOL)
        return bl_const(ir, dtype == BL_BOOL ? BL_BOOL : BL_F64, value);
    return dtype == BL_U64 && value.u > INT64_MAX ? NULL : bl_index(ir, value.i);
}

/* ---- fractions */

static bool is_moderate(const bl_node *x, int64_t bound)
{
    return x->lo > -bound && x->hi < bound;
}

static const bl_node *element_alu_product(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    int64_t out;

    if (bl_is_const(x) && bl_is_const(y))
        return bl_i64_mul(x->lo, y->lo, &out) ? bl_index(ir, out) : NULL;
    if ((bl_is_const(x) && bl_is_int(x, 1)) || (bl_is_const(y) && bl_is_int(y, 1)))
        return bl_is_const(x) ? y : x;
    return is_moderate(x, LARGEST_FACTOR) && is_moderate(y, LARGEST_FACTOR) ? bl_mul(ir, x, y) : NULL;
}

/* x / y if y divides x for all sizes, else NULL. */
static const bl_node *exact_quotient(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *quotient, *back;

    if (bl_is_int(y, 0))
        return NULL;
    if (x == y)
        return bl_index(ir, 1);
    quotient = bl_idiv(ir, x, y);
    back = element_alu_product(ir, quotient, y);
    return back == x ? quotient : NULL;
}

const bl_node *bl_fraction_make(bl_ir *ir, const bl_node *num, int64_t den)
{
    const bl_node *whole;

    if (num == NULL || den == 0 || den == INT64_MIN)
        return NULL;
    if (den < 0) {
        num = bl_sub(ir, bl_index(ir, 0), num);
        den = -den;
    }
    if (bl_is_const(num))
        return bl_const(ir, BL_F64, (bl_scalar){.f = (double)num->lo / (double)den});
    for (int64_t p = 2; p <= den; p++) { /* reduce to lowest terms */
        while (den % p == 0 && (whole = exact_quotient(ir, num, bl_index(ir, p))) != NULL) {
            num = whole;
            den /= p;
        }
    }
    if (den > MAX_DENOMINATOR)
        return NULL;
    const bl_node *cast = bl_node_make(ir, &(bl_node){.op = BL_OP_CAST, .dtype = BL_F64, .lanes = 1, .nsrc = 1, .src = &num});
    if (den == 1)
        return cast;
    const bl_node *pair[2] = {cast, bl_index(ir, den)};
    return bl_node_make(ir, &(bl_node){.op = BL_OP_DIV, .dtype = BL_F64, .lanes = 1, .nsrc = 2, .src = pair});
}

bool bl_fraction_get(bl_ir *ir, const bl_node *element, const bl_node **num, int64_t *den)
{
    if (element->op == BL_OP_DIV) {
        *num = element->src[0]->src[0];
        *den = element->src[1]->lo;
        return true;
    }
    *den = 1;
    if (element->op == BL_OP_CAST) {
        *num = element->src[0];
        return true;
    }
    if (element->op != BL_OP_CONST)
        return false;
    double value = bl_const_value(element).f;
    for (; *den <= MAX_DENOMINATOR && fabs(value) < 1e9;
         ++*den) { /* find the fraction with the smallest denominator that rounds to the float */
        double top = nearbyint(value * (double)*den);
        if (fabs(top / (double)*den - value) <= ldexp(fabs(value), -24)) {
            *num = bl_index(ir, (int64_t)top);
            return true;
        }
    }
    return false;
}

/* ---- conditions */

/* An INDEX expression of sums, products and quotients that is 1 if |condition| holds, else 0. NULL if there is none. */
static const bl_node *indicator(bl_ir *ir, const bl_node *condition, int depth)
{
    const bl_node *one = bl_index(ir, 1), *a = NULL, *b = NULL;

    if (depth > MAX_CONDITION)
        return NULL;
    if (bl_is_const(condition))
        return bl_index(ir, bl_const_value(condition).u != 0);
    if (condition->op == BL_OP_NOT) {
        a = indicator(ir, condition->src[0], depth + 1);
        return a != NULL ? bl_sub(ir, one, a) : NULL;
    }
    if (condition->op == BL_OP_AND || condition->op == BL_OP_OR) {
        a = indicator(ir, condition->src[0], depth + 1);
        b = indicator(ir, condition->src[1], depth + 1);
        const bl_node *both = a != NULL && b != NULL ? element_alu_product(ir, a, b) : NULL;
        return both == NULL || condition->op == BL_OP_AND ? both : bl_sub(ir, bl_add(ir, a, b), both);
    }
    if (condition->nsrc != 2 || condition->src[0]->dtype != BL_INDEX)
        return NULL;
    if (condition->op == BL_OP_CMPEQ) {
        a = indicator(ir, bl_less(ir, condition->src[0], condition->src[1]), depth + 1);
        b = indicator(ir, bl_less(ir, condition->src[1], condition->src[0]), depth + 1);
        return a != NULL && b != NULL ? bl_sub(ir, bl_sub(ir, one, a), b) : NULL;
    }
    if (condition->op != BL_OP_CMPLT)
        return NULL;
    /* d > 0 is floor((d + D - 1) / D) for D >= d and D > -d */
    const bl_node *d = bl_sub(ir, condition->src[1], condition->src[0]);
    if (!is_moderate(d, LARGEST_FACTOR))
        return NULL;
    int64_t most = d->hi > 1 - d->lo ? d->hi : 1 - d->lo;
    return bl_idiv(ir, bl_add(ir, d, bl_index(ir, most - 1)), bl_index(ir, most));
}

/* Recognise a quotient rounded up: floor(x / d) + 1 if d does not divide x, else floor(x / d). Returns it in the form that
 * shapes use, or NULL. */
static const bl_node *rounded_up(bl_ir *ir, const bl_node *condition, const bl_node *above, const bl_node *floor)
{
    const bl_node *rest = bl_sub(ir, above, floor);

    if (condition->op != BL_OP_CMPLT || !bl_is_int(rest, 1) || floor->op != BL_OP_IDIV)
        return NULL;
    const bl_node *x = floor->src[0], *d = floor->src[1];
    if (!bl_is_const(d) || d->lo < 2)
        return NULL;
    const bl_node *wanted = bl_less(ir, bl_mul(ir, floor, d), x);
    return wanted == condition ? bl_idiv(ir, bl_add(ir, x, bl_index(ir, d->lo - 1)), d) : NULL;
}

/* |yes| if |condition| holds, else |no|; both are INDEX. NULL if the result is unknown. */
static const bl_node *element_alu_choose(bl_ir *ir, const bl_node *condition, const bl_node *yes, const bl_node *no)
{
    const bl_node *zero = bl_index(ir, 0), *difference, *made;

    if (bl_is_const(condition))
        return bl_const_value(condition).u != 0 ? yes : no;
    if (yes == no)
        return yes;
    made = rounded_up(ir, condition, yes, no);
    if (made == NULL) {
        made = rounded_up(ir, condition, bl_sub(ir, zero, yes), bl_sub(ir, zero, no));
        made = made != NULL ? bl_sub(ir, zero, made) : NULL;
    }
    if (made != NULL)
        return made;
    if (!is_moderate(yes, LARGEST_FACTOR) || !is_moderate(no, LARGEST_FACTOR))
        return NULL;
    difference = bl_sub(ir, yes, no);
    const bl_node *holds = indicator(ir, condition, 0), *part = holds != NULL ? element_alu_product(ir, holds, difference) : NULL;
    return part != NULL ? bl_add(ir, no, part) : NULL;
}

/* ---- by dtype */

static const bl_node *bool_alu(bl_ir *ir, bl_op op, const bl_node *const *x)
{
    switch ((int)op) {
    case BL_OP_NOT:
        return bl_not(ir, x[0]);
    case BL_OP_AND:
    case BL_OP_MUL:
    case BL_OP_MIN:
        return bl_and(ir, x[0], x[1]);
    case BL_OP_OR:
    case BL_OP_ADD:
    case BL_OP_MAX:
        return bl_alu2(ir, BL_OP_OR, x[0], x[1]);
    case BL_OP_XOR:
        if (bl_is_const(x[0]) || bl_is_const(x[1])) {
            const bl_node *fixed = bl_is_const(x[0]) ? x[0] : x[1], *other = bl_is_const(x[0]) ? x[1] : x[0];
            return bl_const_value(fixed).u != 0 ? bl_not(ir, other) : other;
        }
        return NULL;
    case BL_OP_WHERE:
        return bl_is_const(x[0]) ? x[bl_const_value(x[0]).u != 0 ? 1 : 2] : x[1] == x[2] ? x[1] : NULL;
    default:
        return NULL;
    }
}

static const bl_node *int_alu(bl_ir *ir, bl_op op, const bl_node *const *x)
{
    switch ((int)op) {
    case BL_OP_NEG:
        return bl_sub(ir, bl_index(ir, 0), x[0]);
    case BL_OP_ADD:
    case BL_OP_SUB:
        return is_moderate(x[0], LARGEST_SUM) && is_moderate(x[1], LARGEST_SUM) ? bl_alu2(ir, op, x[0], x[1]) : NULL;
    case BL_OP_MUL:
        return element_alu_product(ir, x[0], x[1]);
    case BL_OP_IDIV:
    case BL_OP_MOD:
        return x[1]->lo > 0 ? bl_alu2(ir, op, x[0], x[1]) : NULL;
    case BL_OP_MIN:
        return x[0]->hi <= x[1]->lo   ? x[0]
               : x[1]->hi <= x[0]->lo ? x[1]
                                      : element_alu_choose(ir, bl_less(ir, x[0], x[1]), x[0], x[1]);
    case BL_OP_MAX:
        return x[0]->lo >= x[1]->hi   ? x[0]
               : x[1]->lo >= x[0]->hi ? x[1]
                                      : element_alu_choose(ir, bl_less(ir, x[0], x[1]), x[1], x[0]);
    case BL_OP_CMPLT:
    case BL_OP_CMPEQ:
        return bl_alu2(ir, op, x[0], x[1]);
    case BL_OP_WHERE:
        return element_alu_choose(ir, x[0], x[1], x[2]);
    default:
        return NULL;
    }
}

/* The quotient of two fractions; NULL if it is not a fraction with a constant denominator. */
static const bl_node *fraction_quotient(bl_ir *ir, const bl_node *const *num, const int64_t *den)
{
    const bl_node *top = element_alu_product(ir, num[0], bl_index(ir, den[1])),
                  *bottom = element_alu_product(ir, num[1], bl_index(ir, den[0]));
    const bl_node *quotient;

    if (top == NULL || bottom == NULL || bl_is_int(bottom, 0))
        return NULL;
    if (bl_is_const(bottom))
        return bl_fraction_make(ir, top, bottom->lo);
    quotient = exact_quotient(ir, top, bottom);
    if (quotient != NULL)
        return bl_fraction_make(ir, quotient, 1);
    quotient = exact_quotient(ir, bottom, top);
    return quotient != NULL && bl_is_const(quotient) ? bl_fraction_make(ir, bl_index(ir, 1), quotient->lo) : NULL;
}

/* The fraction truncated towards zero. */
static const bl_node *fraction_whole(bl_ir *ir, const bl_node *num, int64_t den)
{
    const bl_node *zero = bl_index(ir, 0), *by = bl_index(ir, den);

    if (den == 1)
        return num;
    if (num->lo >= 0)
        return bl_idiv(ir, num, by);
    return num->hi <= 0 ? bl_sub(ir, zero, bl_idiv(ir, bl_sub(ir, zero, num), by)) : NULL;
}

static const bl_node *float_alu(bl_ir *ir, bl_op op, const bl_node *const *x)
{
    const bl_node *num[3] = {NULL}, *left, *right;
    int64_t den[3] = {1, 1, 1};
    int n = op == BL_OP_WHERE ? 3 : bl_op_sources(op);

    if (op == BL_OP_WHERE && (bl_is_const(x[0]) || x[1] == x[2]))
        return bl_is_const(x[0]) && bl_const_value(x[0]).u == 0 ? x[2] : x[1];
    for (int i = op == BL_OP_WHERE; i < n; i++) {
        if (!bl_fraction_get(ir, x[i], &num[i], &den[i]))
            return NULL;
    }
    switch ((int)op) {
    case BL_OP_NEG:
        return bl_fraction_make(ir, bl_sub(ir, bl_index(ir, 0), num[0]), den[0]);
    case BL_OP_TRUNC:
        return bl_fraction_make(ir, fraction_whole(ir, num[0], den[0]), 1);
    case BL_OP_MUL:
        return bl_fraction_make(ir, element_alu_product(ir, num[0], num[1]), den[0] * den[1]);
    case BL_OP_DIV:
        return fraction_quotient(ir, num, den);
    case BL_OP_WHERE:
        return den[1] == den[2] ? bl_fraction_make(ir, element_alu_choose(ir, x[0], num[1], num[2]), den[1]) : NULL;
    default:
        break;
    }
    if (n != 2)
        return NULL;
    left = element_alu_product(ir, num[0], bl_index(ir, den[1]));
    right = element_alu_product(ir, num[1], bl_index(ir, den[0]));
    if (left == NULL || right == NULL)
        return NULL;
    const bl_node *pair[2] = {left, right}, *made = int_alu(ir, op, pair);
    return made == NULL || op == BL_OP_CMPLT || op == BL_OP_CMPEQ ? made : bl_fraction_make(ir, made, den[0] * den[1]);
}

static const bl_node *element_cast(bl_ir *ir, bl_dtype to, bl_dtype from, const bl_node *x)
{
    const bl_node *num = NULL, *zero = bl_index(ir, 0);
    int64_t den = 1;

    if (from == BL_BOOL)
        num = to == BL_BOOL ? x : indicator(ir, x, 0);
    else if (!bl_dtype_is_float(from))
        num = x;
    else if (!bl_fraction_get(ir, x, &num, &den))
        return NULL;
    if (num == NULL || (from == BL_BOOL && to == BL_BOOL))
        return num;
    if (to == BL_BOOL)
        return bl_not(ir, bl_alu2(ir, BL_OP_CMPEQ, num, zero));
    return bl_dtype_is_float(to) ? bl_fraction_make(ir, num, den) : fraction_whole(ir, num, den);
}

/* ---- an op */

static const bl_node *constant_alu(bl_ir *ir, bl_op op, bl_dtype to, bl_dtype from, const bl_node *const *x, int n)
{
    bl_scalar operand[3] = {{.u = 0}}, out;

    for (int i = 0; i < n; i++)
        operand[i] = bl_const_value(x[i]);
    if (op == BL_OP_CAST)
        out = bl_scalar_cast(to, from, operand[0]);
    else if (op == BL_OP_BITCAST)
        out = bl_eval_bitcast(to, from, bl_scalar_fit(from, operand[0]));
    else
        out = bl_eval(op, bl_dtype_is_float(from) ? BL_F64 : from, operand);
    return bl_element_const(ir, to, out);
}

static const bl_node *symbolic_alu(bl_ir *ir, bl_op op, bl_dtype to, bl_dtype from, const bl_node *const *operand)
{
    if (op == BL_OP_CAST)
        return element_cast(ir, to, from, operand[0]);
    if (op == BL_OP_BITCAST)
        return to == from ? operand[0] : NULL;
    if (bl_dtype_is_float(from))
        return float_alu(ir, op, operand);
    return from == BL_BOOL ? bool_alu(ir, op, operand) : int_alu(ir, op, operand);
}

/* Is the expression small enough? An expression whose operand occurs twice at each of many levels grows exponentially when it
 * is expanded as a tree. */
static bool is_bounded(bl_ir *ir, const bl_node *element)
{
    const bl_node *num = element;
    int64_t den;

    return bl_is_const(element) ||
           ((element->dtype != BL_F64 || bl_fraction_get(ir, element, &num, &den)) && bl_extent_is_simple(num));
}

const bl_node *bl_element_alu(bl_ir *ir, bl_op op, bl_dtype to, bl_dtype from, const bl_node *const *operand)
{
    int n = bl_op_sources(op), constants = 0;
    const bl_node *made;

    for (int i = 0; i < n; i++)
        constants += bl_is_const(operand[i]);
    if (constants == n)
        return constant_alu(ir, op, to, from, operand, n);
    made = symbolic_alu(ir, op, to, from, operand);
    return made != NULL && is_bounded(ir, made) ? made : NULL;
}
