/* SPDX-License-Identifier: MIT */
#include "engine/ir/affine.h"

#include "engine/base/size.h"
#include "engine/ir/private.h"
#include "engine/ir/shape.h"

#include <string.h>

__extension__ typedef __int128 wide;

enum {
    MAX_FACTORS = 12,
    MAX_PENDING = 64, /* nodes of a sum that are still to be expanded */
    /* Recombining builds quotients, whose sums are recombined in turn. This limits the recursion into nested remainders. */
    MAX_RECOMBINING = 3
};

void bl_affine_init(bl_affine *sum, int64_t constant)
{
    sum->count = 0;
    sum->failed = false;
    sum->constant = constant;
}

void bl_affine_add_constant(bl_affine *sum, int64_t value)
{
    if (!bl_i64_add(sum->constant, value, &sum->constant))
        sum->failed = true;
}

static void add_scaled_constant(bl_affine *sum, int64_t value, int64_t factor)
{
    if (!bl_i64_mul(value, factor, &value))
        sum->failed = true;
    else
        bl_affine_add_constant(sum, value);
}

static void add_term(bl_affine *sum, const bl_node *node, int64_t coefficient)
{
    int at = sum->count;

    if (coefficient == 0)
        return;
    if (node->lo == node->hi) {
        add_scaled_constant(sum, node->lo, coefficient);
        return;
    }
    while (at > 0 && sum->at[at - 1].node->id >= node->id)
        at--;
    if (at < sum->count && sum->at[at].node == node) {
        if (!bl_i64_add(sum->at[at].coefficient, coefficient, &coefficient))
            sum->failed = true;
        sum->at[at].coefficient = coefficient;
        if (coefficient != 0)
            return;
        sum->count--;
        memmove(sum->at + at, sum->at + at + 1, (size_t)(sum->count - at) * sizeof sum->at[0]);
        return;
    }
    if (sum->count == BL_MAX_TERMS) {
        sum->failed = true;
        return;
    }
    memmove(sum->at + at + 1, sum->at + at, (size_t)(sum->count - at) * sizeof sum->at[0]);
    sum->at[at] = (bl_term){node, coefficient};
    sum->count++;
}

/* Split an addend into up to two addends with factors. Returns 0 if it is a term. */
static int affine_take_apart(const bl_term *from, bl_term out[2], bool *overflow)
{
    const bl_node *node = from->node;
    int64_t factor = from->coefficient;

    if (node->op == BL_OP_ADD || node->op == BL_OP_SUB) {
        out[0] = (bl_term){node->src[0], factor};
        out[1] = (bl_term){node->src[1], factor};
        if (node->op == BL_OP_SUB && !bl_i64_sub(0, factor, &out[1].coefficient))
            *overflow = true;
        return 2;
    }
    out[0] = (bl_term){node->src[0], factor};
    if (node->op == BL_OP_NEG) {
        if (!bl_i64_sub(0, factor, &out[0].coefficient))
            *overflow = true;
        return 1;
    }
    if (node->op != BL_OP_MUL || (!bl_is_const(node->src[1]) && !bl_is_const(node->src[0])))
        return 0;
    if (!bl_is_const(node->src[1]))
        out[0].node = node->src[1];
    if (!bl_i64_mul(factor, node->src[bl_is_const(node->src[1]) ? 1 : 0]->arg, &out[0].coefficient))
        *overflow = true;
    return 1;
}

void bl_affine_add(bl_affine *sum, const bl_node *index, int64_t factor)
{
    bl_term pending[MAX_PENDING] = {{index, factor}};
    int n = 1;

    while (n > 0 && !sum->failed) {
        bl_term term = pending[--n];
        bl_term parts[2];
        int nparts = 0;

        if (term.coefficient == 0)
            continue;
        if (bl_is_const(term.node)) {
            add_scaled_constant(sum, term.node->arg, term.coefficient);
            continue;
        }
        if (bl_op_get_class((bl_op)term.node->op) == BL_CLASS_ALU)
            nparts = affine_take_apart(&term, parts, &sum->failed);
        if (nparts == 0)
            add_term(sum, term.node, term.coefficient);
        if (n + nparts > MAX_PENDING)
            sum->failed = true;
        for (int i = 0; i < nparts && !sum->failed; i++)
            pending[n++] = parts[i];
    }
}

bool bl_affine_of(bl_affine *sum, const bl_node *index)
{
    bl_affine_init(sum, 0);
    bl_affine_add(sum, index, 1);
    return !sum->failed;
}

int64_t bl_affine_along(const bl_affine *sum, const bl_node *term)
{
    for (int i = 0; i < sum->count; i++) {
        if (sum->at[i].node == term)
            return sum->at[i].coefficient;
    }
    return 0;
}

bool bl_affine_is_multiple(const bl_affine *sum, const bl_node *except, int64_t n)
{
    for (int i = 0; i < sum->count; i++) {
        if (sum->at[i].node != except && sum->at[i].coefficient % n != 0)
            return false;
    }
    return !sum->failed && sum->constant % n == 0;
}

void bl_affine_difference(bl_affine *d, const bl_node *x, const bl_node *y)
{
    bl_affine_of(d, x);
    bl_affine_add(d, y, -1);
}

void bl_affine_add_sum(bl_affine *sum, const bl_affine *other, int64_t factor)
{
    sum->failed = sum->failed || other->failed;
    add_scaled_constant(sum, other->constant, factor);
    for (int i = 0; i < other->count && !sum->failed; i++) {
        int64_t coefficient = 0;
        if (!bl_i64_mul(other->at[i].coefficient, factor, &coefficient))
            sum->failed = true;
        else
            add_term(sum, other->at[i].node, coefficient);
    }
}

const bl_node *bl_index_make(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y)
{
    bl_dtype dtype = op == BL_OP_CMPLT || op == BL_OP_CMPEQ || op == BL_OP_AND ? BL_BOOL : BL_INDEX;
    const bl_node *src[2] = {x, y};
    bl_node made = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nsrc = 2, .src = src};

    made.lanes = x->lanes > y->lanes ? x->lanes : y->lanes;
    return bl_node_make(ir, &made);
}

/* The factors of a term, sorted by id. Returns their number, or 0 if there are too many. */
static int factors_of(const bl_node *term, const bl_node *factor[MAX_FACTORS])
{
    int n = 0;

    for (; term->op == BL_OP_MUL; term = term->src[0]) { /* (a*b)*c */
        if (n == MAX_FACTORS - 1 || term->src[1]->op == BL_OP_MUL)
            return 0;
        factor[n++] = term->src[1];
    }
    factor[n++] = term;
    for (int i = 1; i < n; i++) {
        const bl_node *moved = factor[i];
        int at = i;
        for (; at > 0 && factor[at - 1]->id > moved->id; at--)
            factor[at] = factor[at - 1];
        factor[at] = moved;
    }
    return n;
}

static const bl_node *product_of(bl_ir *ir, int n, const bl_node *const *factor)
{
    const bl_node *product = n == 0 ? bl_index(ir, 1) : factor[0];

    for (int i = 1; i < n; i++)
        product = bl_index_make(ir, BL_OP_MUL, product, factor[i]);
    return product;
}

static const bl_node *term_product(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    const bl_node *a[MAX_FACTORS];
    const bl_node *b[MAX_FACTORS];
    const bl_node *merged[MAX_FACTORS];
    int na = factors_of(x, a);
    int nb = factors_of(y, b);
    int n = 0;

    if (na == 0 || nb == 0 || na + nb > MAX_FACTORS)
        return NULL;
    for (int i = 0, k = 0; i < na || k < nb;) {
        if (k == nb || (i < na && a[i]->id <= b[k]->id))
            merged[n++] = a[i++];
        else
            merged[n++] = b[k++];
    }
    return product_of(ir, n, merged);
}

const bl_node *bl_term_divide(bl_ir *ir, const bl_node *term, const bl_node *by)
{
    const bl_node *a[MAX_FACTORS];
    const bl_node *b[MAX_FACTORS];
    const bl_node *left[MAX_FACTORS];
    int na = factors_of(term, a);
    int nb = factors_of(by, b);
    int n = 0;
    int k = 0;

    if (na == 0 || nb == 0)
        return NULL;
    for (int i = 0; i < na; i++) {
        if (k < nb && a[i] == b[k])
            k++;
        else
            left[n++] = a[i];
    }
    return k == nb ? product_of(ir, n, left) : NULL;
}

void bl_affine_add_product(bl_ir *ir, bl_affine *sum, const bl_affine *other, const bl_node *term, int64_t factor)
{
    int64_t scaled = 0;

    if (bl_is_const(term)) {
        if (!bl_i64_mul(factor, term->arg, &scaled))
            sum->failed = true;
        else
            bl_affine_add_sum(sum, other, scaled);
        return;
    }
    sum->failed = sum->failed || other->failed;
    if (!bl_i64_mul(other->constant, factor, &scaled))
        sum->failed = true;
    if (!sum->failed)
        add_term(sum, term, scaled);
    for (int i = 0; i < other->count && !sum->failed; i++) {
        const bl_node *product = term_product(ir, other->at[i].node, term);
        if (product == NULL || !bl_i64_mul(other->at[i].coefficient, factor, &scaled))
            sum->failed = true;
        else
            add_term(sum, product, scaled);
    }
}

bool bl_affine_bounds(const bl_affine *sum, int64_t *lo, int64_t *hi)
{
    wide low = sum->constant;
    wide high = sum->constant;

    for (int i = 0; i < sum->count; i++) {
        const bl_term *term = &sum->at[i];
        bool up = term->coefficient > 0;
        low += (wide)term->coefficient * (up ? term->node->lo : term->node->hi);
        high += (wide)term->coefficient * (up ? term->node->hi : term->node->lo);
    }
    if (sum->failed || low < INT64_MIN || high > INT64_MAX)
        return false;
    *lo = (int64_t)low;
    *hi = (int64_t)high;
    return true;
}

/* Add a bound of a factor, the greatest or the least value, as an expression of extents: a value that is the same in every
 * iteration. */
static void add_extreme_factor(bl_affine *sum, const bl_node *factor, bool greatest)
{
    if (bl_extent_is_simple(factor)) {
        bl_affine_add(sum, factor, 1);
    } else if (!greatest) {
        bl_affine_add_constant(sum, factor->lo);
    } else if (factor->op == BL_OP_RANGE && !bl_is_const(factor->src[0]) && bl_extent_is_simple(factor->src[0])) {
        bl_affine_add(sum, factor->src[0], 1);
        bl_affine_add_constant(sum, -1);
    } else if (factor->op == BL_OP_MOD && factor->src[1]->lo > 0 && bl_extent_is_simple(factor->src[1])) {
        bl_affine_add(sum, factor->src[1], 1);
        bl_affine_add_constant(sum, -1);
    } else {
        bl_affine_add_constant(sum, factor->hi);
    }
}

static void add_extreme(bl_ir *ir, bl_affine *sum, const bl_term *term)
{
    const bl_node *factor[MAX_FACTORS];
    int n = factors_of(term->node, factor);
    bool greatest = term->coefficient > 0;
    bl_affine product;

    for (int i = 0; n > 1 && i < n; i++) {
        if (factor[i]->lo < 0)
            n = 0; /* the bound of the product is not the product of the bounds */
    }
    if (n == 0) {
        add_scaled_constant(sum, greatest ? term->node->hi : term->node->lo, term->coefficient);
        return;
    }
    bl_affine_init(&product, 1);
    for (int i = 0; i < n; i++) {
        bl_affine extreme, next;
        bl_affine_init(&extreme, 0);
        add_extreme_factor(&extreme, factor[i], greatest);
        bl_affine_init(&next, 0);
        bl_affine_add_product(ir, &next, &product, bl_index(ir, 1), extreme.constant);
        for (int k = 0; k < extreme.count; k++)
            bl_affine_add_product(ir, &next, &product, extreme.at[k].node, extreme.at[k].coefficient);
        next.failed = next.failed || extreme.failed;
        product = next;
    }
    bl_affine_add_sum(sum, &product, term->coefficient);
}

static bool is_symbolic(const bl_node *term)
{
    if (term->op == BL_OP_RANGE)
        return !bl_is_const(term->src[0]);
    if (term->op == BL_OP_MOD)
        return !bl_is_const(term->src[1]);
    return term->op == BL_OP_VAR || term->op == BL_OP_MUL;
}

/* The sum is not negative if the greatest value of its negation is at most 0. Bounds of terms are chosen by the sign of their
 * coefficients. */
static bool is_never_negative(bl_ir *ir, const bl_affine *sum)
{
    int64_t lo = 0;
    int64_t hi = 0;
    bl_affine least;
    bool symbolic = false;

    if (sum->failed || sum->constant == INT64_MIN)
        return false;
    if (bl_affine_bounds(sum, &lo, &hi) && lo >= 0)
        return true;
    bl_affine_init(&least, -sum->constant);
    for (int i = 0; i < sum->count; i++) {
        bl_term negated = {sum->at[i].node, 0};
        if (!bl_i64_sub(0, sum->at[i].coefficient, &negated.coefficient))
            return false;
        symbolic = symbolic || is_symbolic(negated.node);
        add_extreme(ir, &least, &negated);
    }
    return symbolic && bl_affine_bounds(&least, &lo, &hi) && hi <= 0;
}

/* The constant c of a term floor(x / c); 0 for any other term. */
static int64_t divisor_of(const bl_node *term)
{
    bool quotient = term->op == BL_OP_IDIV && bl_is_const(term->src[1]) && term->src[1]->arg > 0;
    return quotient ? term->src[1]->arg : 0;
}

int64_t bl_common_divisor(int64_t a, int64_t b)
{
    if (a < 0)
        a = -a;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

enum { ALL = -1, FEW_TERMS = 4 };

/* The divisor of term |i|; 0 if |only| selects another term. */
static int64_t taken_divisor(const bl_affine *sum, int i, int only)
{
    return only == ALL || only == i ? divisor_of(sum->at[i].node) : 0;
}

/* Bound |sum| from below by a sum without quotients, or without the quotient of term |only|: if |least| is never negative,
 * |sum| is not either. Scale by m so that every c * floor(x / c) is a multiple; such a term lies between x - (c - 1) and x. The
 * scaled sum is a multiple of m, so it is at least 0 if it is more than -m. False if there is no quotient, or on overflow. */
static bool without_quotients(const bl_affine *sum, int only, bl_affine *least)
{
    int64_t m = 1, constant = 0;
    bool any = false;

    for (int i = 0; i < sum->count; i++) {
        int64_t by = taken_divisor(sum, i, only), coefficient = sum->at[i].coefficient, scaled = 0;
        any = any || by > 0;
        if (by > 0 && (!bl_i64_mul(m, coefficient, &scaled) || scaled == INT64_MIN ||
                       !bl_i64_mul(m, by / bl_common_divisor(scaled, by), &m)))
            return false;
    }
    if (!any || !bl_i64_mul(sum->constant, m, &constant))
        return false;
    bl_affine_init(least, constant);
    bl_affine_add_constant(least, m - 1);
    for (int i = 0; i < sum->count; i++) {
        int64_t by = taken_divisor(sum, i, only), times = 0, room = 0;
        if (!bl_i64_mul(sum->at[i].coefficient, m, &times))
            return false;
        bl_affine_add(least, by > 0 ? sum->at[i].node->src[0] : sum->at[i].node, by > 0 ? times / by : times);
        if (by > 0 && times > 0 && (!bl_i64_mul(times / by, by - 1, &room) || room == INT64_MIN))
            return false;
        bl_affine_add_constant(least, -room);
    }
    return !least->failed;
}

bool bl_affine_never_negative(bl_ir *ir, const bl_affine *sum)
{
    bl_affine least;

    if (is_never_negative(ir, sum))
        return true;
    if (sum->failed || !without_quotients(sum, ALL, &least))
        return false;
    if (is_never_negative(ir, &least))
        return true;
    for (int i = 0; i < sum->count && sum->count <= FEW_TERMS;
         i++) { /* a quotient may also be a term of another quotient's sum, so try each one alone */
        if (divisor_of(sum->at[i].node) > 0 && without_quotients(sum, i, &least) && is_never_negative(ir, &least))
            return true;
    }
    return false;
}

bool bl_may_be_negative(bl_ir *ir, const bl_node *index)
{
    bl_affine sum;
    if (index->lo >= 0)
        return false;
    bl_affine_of(&sum, index);
    return !bl_affine_never_negative(ir, &sum);
}

/* Does the sum contain a term of -k * x beside k * (x mod c)? */
static bool has_opposite(const bl_affine *sum, int at)
{
    int64_t opposite = 0;
    bl_affine x;

    bl_affine_of(&x, sum->at[at].node->src[0]);
    for (int k = 0; k < x.count; k++) {
        if (!bl_i64_mul(x.at[k].coefficient, sum->at[at].coefficient, &opposite))
            return false;
        for (int i = 0; i < sum->count; i++) {
            if (i != at && sum->at[i].node == x.at[k].node && opposite != INT64_MIN && sum->at[i].coefficient == -opposite)
                return true;
        }
    }
    return false;
}

/* A cheap test: may the sum contain k * c * floor(x / c), or -k * x, beside k * (x mod c)? False for most sums. */
static bool has_partner(const bl_affine *sum, int at)
{
    const bl_node *c = sum->at[at].node->src[1];
    int64_t whole = 0;

    if (bl_is_const(c) && has_opposite(sum, at))
        return true;
    if (bl_is_const(c) && (!bl_i64_mul(c->arg, sum->at[at].coefficient, &whole) || whole == 0 || whole == -1))
        return false;
    for (int i = 0; i < sum->count; i++) {
        if (i != at && (bl_is_const(c) ? sum->at[i].coefficient % whole == 0 : sum->at[i].node->op == BL_OP_MUL))
            return true;
    }
    return false;
}

/* Replace term |at|, k * (x mod c), by k*x - k*c*floor(x / c) if that leaves fewer terms. */
static bool try_recombine(bl_ir *ir, bl_affine *sum, int at)
{
    const bl_node *mod = sum->at[at].node;
    int64_t k = sum->at[at].coefficient;
    const bl_node *quotient = NULL;
    const bl_node *whole = NULL;
    bl_affine next, product;

    if (!has_partner(sum, at) || !bl_i64_sub(0, k, &k))
        return false;
    quotient = bl_idiv(ir, mod->src[0], mod->src[1]);
    whole = bl_mul(ir, quotient, mod->src[1]);
    if (bl_is_poison(whole))
        return false;
    bl_affine_init(&next, 0);
    bl_affine_add_sum(&next, sum, 1);
    add_term(&next, mod, k);
    bl_affine_add(&next, whole, k);
    bl_affine_of(&product, mod->src[0]);
    if (sum->at[at].coefficient == INT64_MIN)
        return false;
    bl_affine_add_sum(&next, &product, sum->at[at].coefficient);
    if (next.failed || next.count >= sum->count)
        return false;
    *sum = next;
    return true;
}

/* Join x mod a + a * (floor(x / a) mod b) into x mod (a*b). */
static bool try_join(bl_ir *ir, bl_affine *sum, int at)
{
    const bl_node *mod = sum->at[at].node;
    int64_t k = sum->at[at].coefficient;
    const bl_node *quotient = NULL;
    int64_t high_coefficient = 0;
    int64_t modulus = 0;
    bl_affine next;

    if (!bl_is_const(mod->src[1]) || mod->src[1]->arg <= 0 || !bl_i64_mul(k, mod->src[1]->arg, &high_coefficient) ||
        high_coefficient == INT64_MIN)
        return false;
    for (int i = 0; i < sum->count; i++) {
        const bl_node *high = sum->at[i].node;
        if (sum->at[i].coefficient != high_coefficient || high->op != BL_OP_MOD || !bl_is_const(high->src[1]) ||
            high->src[1]->arg <= 0 || !bl_i64_mul(high->src[1]->arg, mod->src[1]->arg, &modulus))
            continue;
        if (quotient == NULL)
            quotient = bl_idiv(ir, mod->src[0], mod->src[1]);
        if (high->src[0] != quotient)
            continue;
        bl_affine_init(&next, 0);
        bl_affine_add_sum(&next, sum, 1);
        add_term(&next, high, -high_coefficient);
        add_term(&next, mod, -k);
        bl_affine_add(&next, bl_mod(ir, mod->src[0], bl_index(ir, modulus)), k);
        if (next.failed)
            return false;
        *sum = next;
        return true;
    }
    return false;
}

bool bl_affine_recombine(bl_ir *ir, bl_affine *sum)
{
    bool any = false;
    bool changed = ir->recombining < MAX_RECOMBINING;

    ir->recombining++;
    while (changed && !sum->failed) {
        changed = false;
        for (int i = 0; i < sum->count && sum->count > 1 && !changed; i++) {
            if (sum->at[i].node->op == BL_OP_MOD)
                changed = try_recombine(ir, sum, i) || try_join(ir, sum, i);
        }
        any = any || changed;
    }
    ir->recombining--;
    return any;
}

const bl_node *bl_affine_build(bl_ir *ir, bl_affine *sum)
{
    const bl_node *made = NULL;

    bl_affine_recombine(ir, sum);
    for (int i = 0; i < sum->count; i++) {
        const bl_term *term = &sum->at[i];
        const bl_node *addend = term->node;
        if (term->coefficient != 1)
            addend = bl_index_make(ir, BL_OP_MUL, addend, bl_index(ir, term->coefficient));
        made = made == NULL ? addend : bl_index_make(ir, BL_OP_ADD, made, addend);
    }
    if (made == NULL)
        return bl_index(ir, sum->constant);
    return sum->constant == 0 ? made : bl_index_make(ir, BL_OP_ADD, made, bl_index(ir, sum->constant));
}
