/* SPDX-License-Identifier: MIT */
/* Rules for sums, products, quotients and remainders of INDEX expressions in affine normal form. */
#include "engine/base/size.h"
#include "engine/ir/affine.h"
#include "engine/ir/private.h"

/* The sum of |root|, which need not be interned. */
static void sum_of(bl_ir *ir, bl_affine *sum, const bl_node *root)
{
    bl_affine left, right;

    bl_affine_init(sum, 0);
    if (root->op != BL_OP_MUL) {
        bl_affine_add(sum, root, 1);
        return;
    }
    bl_affine_of(&left, root->src[0]);
    bl_affine_of(&right, root->src[1]);
    bl_affine_add_sum(sum, &left, right.constant);
    sum->failed = sum->failed || right.failed;
    for (int i = 0; i < right.count && !sum->failed; i++)
        bl_affine_add_product(ir, sum, &left, right.at[i].node, right.at[i].coefficient);
}

const bl_node *bl_fn_sum(bl_ir *ir, const bl_match *m)
{
    bl_affine sum;

    sum_of(ir, &sum, m->root);
    return sum.failed ? NULL : bl_affine_build(ir, &sum);
}

/* Divide x = c * quotient + rest term by term. Coefficients of the rest lie between -c and c (exclusive), its constant between
 * 0 and c - 1. */
static void index_divide_split(bl_affine *x, int64_t c, bl_affine *quotient, bl_affine *rest)
{
    bl_affine_init(quotient, bl_floor_quotient(x->constant, c));
    bl_affine_init(rest, x->constant % c < 0 ? x->constant % c + c : x->constant % c);
    for (int i = 0; i < x->count; i++) {
        bl_term term = x->at[i];
        if (term.coefficient / c != 0)
            quotient->at[quotient->count++] = (bl_term){term.node, term.coefficient / c};
        if (term.coefficient % c != 0)
            rest->at[rest->count++] = (bl_term){term.node, term.coefficient % c};
    }
}

/* Do all values of |x| have the same quotient by c? Stores it in *multiple. */
static bool one_multiple(bl_affine *x, int64_t c, int64_t *multiple)
{
    int64_t lo = 0;
    int64_t hi = 0;

    if (!bl_affine_bounds(x, &lo, &hi))
        return false;
    *multiple = bl_floor_quotient(lo, c);
    return *multiple == bl_floor_quotient(hi, c);
}

/* Find coefficients of the rest, equal modulo c, with which the bounds prove that the rest has one quotient by c, *multiple.
 * Tries coefficients from 0 to c - 1, then coefficients nearest to 0. On success |rest| and |quotient| have the new
 * coefficients. */
static bool index_divide_resolve(bl_affine *quotient, bl_affine *rest, int64_t c, int64_t *multiple)
{
    bl_affine up;
    bl_affine other;

    if (one_multiple(rest, c, multiple))
        return true;
    for (int way = 0; way < 2; way++) {
        up = *quotient;
        bl_affine_init(&other, rest->constant);
        for (int i = 0; i < rest->count; i++) {
            bl_term term = rest->at[i];
            int64_t carry = term.coefficient < 0 ? -1 : 0; /* makes all coefficients 0 to c - 1 */
            if (way == 1)
                carry = term.coefficient > c / 2 ? 1 : term.coefficient < -(c / 2) ? -1 : 0;
            bl_affine_add(&up, term.node, carry);
            bl_affine_add(&other, term.node, term.coefficient - carry * c);
        }
        if (!up.failed && !other.failed && one_multiple(&other, c, multiple)) {
            *quotient = up;
            *rest = other;
            return true;
        }
    }
    return false;
}

/* Subtract multiple * c from x. */
static void subtract_multiple(bl_affine *x, int64_t multiple, int64_t c)
{
    int64_t product = 0;

    if (!bl_i64_mul(multiple, c, &product) || !bl_i64_sub(x->constant, product, &x->constant))
        x->failed = true;
}

/* The largest common divisor g of c and some coefficient for which x = g * high + low and all values of |low| have one quotient
 * by g. That quotient is added to |high|; |low| keeps 0 to g - 1. 1 if there is none. */
static int64_t common_part(bl_affine *x, int64_t c, bl_affine *high, bl_affine *low)
{
    int64_t best = 1;

    for (int i = 0; i < x->count; i++) {
        int64_t g = bl_common_divisor(x->at[i].coefficient, c);
        int64_t multiple = 0;
        bl_affine up, rest;
        if (g <= best || g == c)
            continue;
        index_divide_split(x, g, &up, &rest);
        if (!one_multiple(&rest, g, &multiple))
            continue;
        bl_affine_add_constant(&up, multiple);
        subtract_multiple(&rest, multiple, g);
        if (up.failed || rest.failed)
            continue;
        best = g;
        *high = up;
        *low = rest;
    }
    return best;
}

/* |sum| + node, in normal form. */
static const bl_node *index_divide_plus(bl_ir *ir, bl_affine *sum, const bl_node *node)
{
    if (sum->failed)
        return NULL;
    return sum->count == 0 && sum->constant == 0 ? node : bl_add(ir, bl_affine_build(ir, sum), node);
}

/* Divide a sum with one term that has two values: the quotient by c is then linear in the term. Example: (r + 1) div 2 is r for
 * r in {0, 1}. False if |x| has another form. */
static bool divide_two_valued(const bl_affine *x, int64_t c, bl_affine *quotient)
{
    const bl_node *term = x->count == 1 ? x->at[0].node : NULL;
    int64_t low = 0, high = 0, step = 0, first = 0;

    if (term == NULL || term->hi != term->lo + 1 || !bl_i64_mul(x->at[0].coefficient, term->lo, &low) ||
        !bl_i64_add(low, x->constant, &low) || !bl_i64_add(low, x->at[0].coefficient, &high))
        return false;
    step = bl_floor_quotient(high, c) - bl_floor_quotient(low, c);
    if (!bl_i64_mul(step, term->lo, &first) || !bl_i64_sub(bl_floor_quotient(low, c), first, &first))
        return false;
    bl_affine_init(quotient, first);
    if (step != 0)
        bl_affine_add(quotient, term, step);
    return !quotient->failed;
}

/* The quotient by c of a rest that neither split nor resolve simplified. */
static const bl_node *divide_rest(bl_ir *ir, bl_affine *rest, int64_t c)
{
    bl_affine high, low, two;
    int64_t g = common_part(rest, c, &high, &low);
    const bl_node *only = rest->count == 1 && rest->at[0].coefficient == 1 ? rest->at[0].node : NULL;
    const bl_node *by = only != NULL && (only->op == BL_OP_IDIV || only->op == BL_OP_MOD) ? only->src[1] : NULL;

    if (divide_two_valued(rest, c, &two))
        return bl_affine_build(ir, &two);
    if (g > 1)
        return bl_idiv(ir, bl_affine_build(ir, &high), bl_index(ir, c / g));
    if (by != NULL && bl_is_const(by) && by->arg > 0) {
        int64_t product = 0;
        int64_t shift = 0;
        if (only->op == BL_OP_IDIV && bl_i64_mul(by->arg, c, &product) && bl_i64_mul(rest->constant, by->arg, &shift))
            return bl_idiv(ir, bl_add(ir, only->src[0], bl_index(ir, shift)), bl_index(ir, product));
        if (only->op == BL_OP_MOD && by->arg % c == 0 && rest->constant == 0)
            return bl_mod(ir, bl_idiv(ir, only->src[0], bl_index(ir, c)), bl_index(ir, by->arg / c));
    }
    return bl_index_make(ir, BL_OP_IDIV, bl_affine_build(ir, rest), bl_index(ir, c));
}

/* Replace k * (y mod m) by k * y, modulo c, if c divides k * m. True if a term was replaced. */
static bool open_remainders(bl_affine *x, int64_t c)
{
    bl_affine opened;
    bool any = false;

    bl_affine_init(&opened, x->constant);
    for (int i = 0; i < x->count; i++) {
        const bl_term *term = &x->at[i];
        int64_t whole = 0;
        if (term->node->op == BL_OP_MOD && bl_is_const(term->node->src[1]) && term->node->src[1]->arg > 0 &&
            bl_i64_mul(term->coefficient, term->node->src[1]->arg, &whole) && whole % c == 0) {
            bl_affine_add(&opened, term->node->src[0], term->coefficient);
            any = true;
        } else {
            bl_affine_add(&opened, term->node, term->coefficient);
        }
    }
    if (!any || opened.failed)
        return false;
    *x = opened;
    return true;
}

static const bl_node *remainder_of(bl_ir *ir, bl_affine *x, int64_t c)
{
    bl_affine sum = *x;
    bl_affine quotient, rest, high, low;
    int64_t multiple = 0;
    int64_t g = 1;

    do {
        index_divide_split(&sum, c, &quotient, &rest);
        if (index_divide_resolve(&quotient, &rest, c, &multiple)) {
            subtract_multiple(&rest, multiple, c);
            return rest.failed ? NULL : bl_affine_build(ir, &rest);
        }
        sum = rest;
    } while (open_remainders(&sum, c) || bl_affine_recombine(ir, &sum));
    if (divide_two_valued(&rest, c, &quotient)) {
        bl_affine_init(&low, 0);
        bl_affine_add_sum(&low, &rest, 1);
        bl_affine_add_sum(&low, &quotient, -c);
        return low.failed ? NULL : bl_affine_build(ir, &low);
    }
    g = common_part(&rest, c, &high, &low);
    if (g > 1) {
        const bl_node *upper = bl_mod(ir, bl_affine_build(ir, &high), bl_index(ir, c / g));
        return index_divide_plus(ir, &low, bl_mul(ir, upper, bl_index(ir, g)));
    }
    return bl_index_make(ir, BL_OP_MOD, bl_affine_build(ir, &rest), bl_index(ir, c));
}

/* Polynomial long division by a sum of symbols: |x| becomes the remainder, |quotient| grows. */
static void divide_symbolic(bl_ir *ir, bl_affine *x, bl_affine *by, bl_affine *quotient)
{
    const bl_term *lead = &by->at[0];

    for (int i = 0; i < x->count;) {
        const bl_node *factor = bl_term_divide(ir, x->at[i].node, lead->node);
        int64_t times = x->at[i].coefficient / lead->coefficient;
        bl_affine next;

        bl_affine_init(&next, 0);
        bl_affine_add_sum(&next, x, 1);
        if (factor != NULL && times != 0 && times != INT64_MIN)
            bl_affine_add_product(ir, &next, by, factor, -times);
        if (next.failed || next.count >= x->count) {
            i++;
            continue;
        }
        bl_affine_add(quotient, factor, times);
        *x = next;
        i = 0;
    }
}

/* Division by g*n: (g*y + r) div (g*n) is y div n, and (g*y + r) mod (g*n) is g*(y mod n) + r, for 0 <= r < g. NULL if |x| and
 * |by| have another form. */
static const bl_node *by_scaled_symbol(bl_ir *ir, bl_affine *x, bl_affine *by, bool remainder)
{
    bl_affine high, low, n, unused;
    int64_t g = by->constant;
    int64_t multiple = 0;
    const bl_node *made = NULL;

    if (g == INT64_MIN)
        return NULL;
    for (int i = 0; i < by->count; i++) {
        if (by->at[i].coefficient == INT64_MIN)
            return NULL;
        g = bl_common_divisor(by->at[i].coefficient, g);
    }
    if (g <= 1)
        return NULL;
    index_divide_split(x, g, &high, &low);
    if (!one_multiple(&low, g, &multiple))
        return NULL;
    bl_affine_add_constant(&high, multiple);
    subtract_multiple(&low, multiple, g);
    if (high.failed || low.failed)
        return NULL;
    index_divide_split(by, g, &n, &unused);
    made = bl_alu2(ir, remainder ? BL_OP_MOD : BL_OP_IDIV, bl_affine_build(ir, &high), bl_affine_build(ir, &n));
    return remainder ? index_divide_plus(ir, &low, bl_mul(ir, made, bl_index(ir, g))) : made;
}

/* x div n or x mod n for an expression n of extents that is at least 1. */
static const bl_node *by_symbol(bl_ir *ir, const bl_node *root, bool remainder)
{
    bl_affine x, by, quotient, room;
    int64_t lo = 0;
    int64_t hi = 0;
    const bl_node *rest = NULL;

    bl_affine_of(&x, root->src[0]);
    bl_affine_of(&by, root->src[1]);
    bl_affine_init(&quotient, 0);
    if (x.failed || by.failed || by.count == 0 || !bl_affine_bounds(&by, &lo, &hi) || lo < 1)
        return NULL;
    rest = by_scaled_symbol(ir, &x, &by, remainder);
    if (rest != NULL)
        return rest;
    divide_symbolic(ir, &x, &by, &quotient);
    if (quotient.failed || x.failed)
        return NULL;
    bl_affine_init(&room, -1); /* n - 1 - x */
    bl_affine_add_sum(&room, &by, 1);
    bl_affine_add_sum(&room, &x, -1);
    if (bl_affine_never_negative(ir, &x) && bl_affine_never_negative(ir, &room))
        return bl_affine_build(ir, remainder ? &x : &quotient);
    rest = bl_index_make(ir, (bl_op)root->op, bl_affine_build(ir, &x), root->src[1]);
    return remainder ? rest : index_divide_plus(ir, &quotient, rest);
}

/* Move the sign of the divisor into x: floor(x / -c) = floor(-x / c), x mod -c = -(-x mod c). */
static bool constant_divisor(const bl_node *root, bl_affine *x, int64_t *c)
{
    bool negative = root->src[1]->arg < 0;

    *c = root->src[1]->arg;
    if (*c == INT64_MIN)
        return false;
    bl_affine_init(x, 0);
    bl_affine_add(x, root->src[0], negative ? -1 : 1);
    *c = negative ? -*c : *c;
    return !x->failed;
}

const bl_node *bl_fn_idiv(bl_ir *ir, const bl_match *m)
{
    bl_affine x, quotient, part, rest;
    int64_t c = 0;
    int64_t multiple = 0;

    if (!bl_is_const(m->root->src[1]))
        return by_symbol(ir, m->root, false);
    if (!constant_divisor(m->root, &x, &c))
        return NULL;
    if (c == 0)
        return bl_index(ir, 0);
    bl_affine_init(&quotient, 0);
    do {
        index_divide_split(&x, c, &part, &rest);
        bl_affine_add_sum(&quotient, &part, 1);
        x = rest;
    } while (bl_affine_recombine(ir, &x)); /* recombination may create multiples of c */
    if (index_divide_resolve(&quotient, &rest, c, &multiple)) {
        bl_affine_add_constant(&quotient, multiple);
        return quotient.failed ? NULL : bl_affine_build(ir, &quotient);
    }
    return index_divide_plus(ir, &quotient, divide_rest(ir, &rest, c));
}

const bl_node *bl_fn_mod(bl_ir *ir, const bl_match *m)
{
    bl_affine x;
    int64_t c = 0;
    const bl_node *rest = NULL;

    if (!bl_is_const(m->root->src[1]))
        return by_symbol(ir, m->root, true);
    if (!constant_divisor(m->root, &x, &c))
        return NULL;
    if (c == 0)
        return bl_index(ir, 0);
    rest = remainder_of(ir, &x, c);
    return rest != NULL && m->root->src[1]->arg < 0 ? bl_alu1(ir, BL_OP_NEG, rest) : rest;
}

const bl_node *bl_fn_extremum(bl_ir *ir, const bl_match *m)
{
    const bl_node *x = m->root->src[0];
    const bl_node *y = m->root->src[1];
    bl_affine difference, opposite;

    bl_affine_difference(&difference, y, x);
    bl_affine_difference(&opposite, x, y);
    if (bl_affine_never_negative(ir, &difference))
        return m->root->op == BL_OP_MAX ? y : x;
    if (bl_affine_never_negative(ir, &opposite))
        return m->root->op == BL_OP_MAX ? x : y;
    return NULL;
}
