/* SPDX-License-Identifier: MIT */
/* Comparisons of INDEX expressions, and their conjunctions, which are gates. */
#include "engine/base/size.h"
#include "engine/ir/affine.h"
#include "engine/ir/private.h"

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Split d = g * high + low. |high| has the terms that g divides, |low| the other terms and the constant. False if |high| has no
 * term. */
static bool part(const bl_affine *d, int64_t g, bl_affine *high, bl_affine *low)
{
    bl_affine_init(high, 0);
    bl_affine_init(low, d->constant);
    for (int i = 0; i < d->count; i++) {
        if (d->at[i].coefficient % g == 0)
            high->at[high->count++] = (bl_term){d->at[i].node, d->at[i].coefficient / g};
        else
            low->at[low->count++] = d->at[i];
    }
    return high->count > 0;
}

/* Simplify d > 0. With d = g*e + r and g > 1, d > 0 is e > -r/g, that is e + floor((r - 1) / g) + 1 > 0. Applies if the floor
 * is the same for all values of r. */
static bool reduce_positive(bl_affine *d)
{
    for (int i = 0; i < d->count; i++) {
        int64_t g = 0;
        int64_t lo = 0;
        int64_t hi = 0;
        bl_affine high, low;
        if (d->at[i].coefficient == INT64_MIN || (g = magnitude(d->at[i].coefficient)) == 1)
            continue;
        part(d, g, &high, &low);
        if (!bl_affine_bounds(&low, &lo, &hi) || lo == INT64_MIN)
            continue;
        if (bl_floor_quotient(lo - 1, g) != bl_floor_quotient(hi - 1, g))
            continue;
        high.constant = bl_floor_quotient(lo - 1, g) + 1;
        *d = high;
        return true;
    }
    return false;
}

/* Simplify d > 0 for a single quotient: floor(x / c) + k > 0 is x + c*k - c + 1 > 0, and k - floor(x / c) > 0 is c*k - x >
 * 0. */
static bool open_quotient(bl_affine *d)
{
    const bl_node *quotient = NULL;
    int64_t c = 0;
    int64_t constant = 0;
    bl_affine opened;

    if (d->count != 1 || magnitude(d->at[0].coefficient) != 1)
        return false;
    quotient = d->at[0].node;
    if (quotient->op != BL_OP_IDIV || !bl_is_const(quotient->src[1]))
        return false;
    c = quotient->src[1]->arg;
    if (c < 1 || !bl_i64_mul(c, d->constant, &constant))
        return false;
    bl_affine_init(&opened, constant);
    bl_affine_add(&opened, quotient->src[0], d->at[0].coefficient);
    if (d->at[0].coefficient > 0)
        bl_affine_add_constant(&opened, 1 - c);
    if (opened.failed)
        return false;
    *d = opened;
    return true;
}

static const bl_node *make_compare(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y)
{
    bool swapped = op == BL_OP_CMPEQ && !bl_is_const(y) && (bl_is_const(x) || x->id > y->id);

    return swapped ? bl_index_make(ir, op, y, x) : bl_index_make(ir, op, x, y);
}

/* Build "d > 0" or "d = 0" with two sides: negative terms move to the left. The constant stands on the side of the positive
 * terms, or alone on an empty side. */
static const bl_node *build_sides(bl_ir *ir, bl_op op, const bl_affine *d)
{
    bl_affine left, right;

    bl_affine_init(&left, 0);
    bl_affine_init(&right, 0);
    for (int i = 0; i < d->count; i++) {
        if (d->at[i].coefficient < 0)
            bl_affine_add(&left, d->at[i].node, -d->at[i].coefficient);
        else
            bl_affine_add(&right, d->at[i].node, d->at[i].coefficient);
    }
    if (left.count == 0)
        left.constant = -d->constant;
    else
        right.constant = d->constant;
    return make_compare(ir, op, bl_affine_build(ir, &left), bl_affine_build(ir, &right));
}

static bool fits_sides(const bl_affine *d)
{
    for (int i = 0; i < d->count; i++) {
        if (d->at[i].coefficient == INT64_MIN)
            return false;
    }
    return !d->failed && d->constant != INT64_MIN;
}

static const bl_node *truth(bl_ir *ir, bool value)
{
    return bl_const(ir, BL_BOOL, (bl_scalar){.u = value});
}

/* Is d > 0? 1 or 0 if it is proved, -1 if it is unknown. */
static int decide_positive(bl_ir *ir, const bl_affine *d)
{
    bl_affine less_one, opposite;

    bl_affine_init(&less_one, -1);
    bl_affine_add_sum(&less_one, d, 1);
    if (bl_affine_never_negative(ir, &less_one))
        return 1;
    bl_affine_init(&opposite, 0);
    bl_affine_add_sum(&opposite, d, -1);
    return bl_affine_never_negative(ir, &opposite) ? 0 : -1;
}

const bl_node *bl_fn_less(bl_ir *ir, const bl_match *m)
{
    bl_affine d;
    int decided = -1;

    bl_affine_difference(&d, m->root->src[1], m->root->src[0]);
    do {
        bl_affine_recombine(ir, &d);
        if (!fits_sides(&d))
            return NULL;
        decided = decide_positive(ir, &d);
        if (decided >= 0)
            return truth(ir, decided == 1);
    } while (reduce_positive(&d) || open_quotient(&d));
    return build_sides(ir, BL_OP_CMPLT, &d);
}

/* A comparison of integers that are INDEX values for certain, as of the positions in a causal mask: loops can end where it
 * closes. */
const bl_node *bl_fn_compare_numbers(bl_ir *ir, const bl_match *m)
{
    const bl_node *x = bl_as_index(ir, m->root->src[0]), *y = bl_as_index(ir, m->root->src[1]);

    return x == NULL || y == NULL ? NULL : bl_alu2(ir, (bl_op)m->root->op, x, y);
}

/* Simplify d = 0. d = g*e + r is 0 only if r is a multiple of g. If the bounds of r contain no multiple of g: false. If they
 * contain one: two smaller comparisons. Otherwise NULL. */
static const bl_node *split_equal(bl_ir *ir, const bl_affine *d)
{
    for (int i = 0; i < d->count; i++) {
        int64_t g = magnitude(d->at[i].coefficient);
        int64_t lo = 0;
        int64_t hi = 0;
        int64_t multiple = 0;
        bl_affine high, low;
        if (g == 1 || !part(d, g, &high, &low) || !bl_affine_bounds(&low, &lo, &hi))
            continue;
        if (lo < INT64_MIN / 4 || hi > INT64_MAX / 4 || g > INT64_MAX / 4)
            continue;                        /* keeps the products below within int64 */
        multiple = bl_floor_quotient(hi, g); /* the largest multiple of g that is at most hi, divided by g */
        if (lo > multiple * g)
            return truth(ir, false);
        if (lo <= multiple * g - g)
            continue;
        high.constant = multiple;
        bl_affine_add_constant(&low, -multiple * g);
        if (low.failed)
            continue;
        return bl_and(ir, bl_alu2(ir, BL_OP_CMPEQ, bl_affine_build(ir, &high), bl_index(ir, 0)),
                      bl_alu2(ir, BL_OP_CMPEQ, bl_affine_build(ir, &low), bl_index(ir, 0)));
    }
    return NULL;
}

const bl_node *bl_fn_equal(bl_ir *ir, const bl_match *m)
{
    bl_affine d, opposite;
    const bl_node *made = NULL;

    bl_affine_difference(&d, m->root->src[0], m->root->src[1]);
    bl_affine_recombine(ir, &d);
    if (!fits_sides(&d))
        return NULL;
    if (d.count == 0)
        return truth(ir, d.constant == 0);
    bl_affine_init(&opposite, 0);
    bl_affine_add_sum(&opposite, &d, -1);
    if (decide_positive(ir, &d) == 1 || decide_positive(ir, &opposite) == 1)
        return truth(ir, false);
    if (d.at[0].coefficient < 0)
        d = opposite; /* one sign for both orders of the operands */
    made = split_equal(ir, &d);
    return made != NULL ? made : build_sides(ir, BL_OP_CMPEQ, &d);
}

const bl_node *bl_fn_not_less(bl_ir *ir, const bl_match *m)
{
    const bl_node *less = m->root->src[0];

    if (less->src[0]->dtype != BL_INDEX)
        return NULL;
    return bl_less(ir, bl_sub(ir, less->src[1], bl_index(ir, 1)), less->src[0]);
}

enum { MAX_CLAUSES = 32 };

typedef struct clauses {
    int count;
    bool never;
    const bl_node *at[MAX_CLAUSES];
} clauses;

static bool bounds_term(const bl_node *less, int side)
{
    return less->op == BL_OP_CMPLT && less->src[0]->dtype == BL_INDEX && bl_is_const(less->src[1 - side]);
}

static bool is_choice_of(const bl_node *node, const bl_node *clause)
{
    return node->op == BL_OP_OR && (node->src[0] == clause || node->src[1] == clause);
}

/* Merge two clauses of a conjunction. Returns the clause that implies the other, or NULL if neither does; sets *never if they
 * exclude each other. */
static const bl_node *index_compare_merge(const bl_node *a, const bl_node *b, bool *never)
{
    if (a == b || is_choice_of(b, a))
        return a;
    if (is_choice_of(a, b))
        return b;
    *never = (a->op == BL_OP_NOT && a->src[0] == b) || (b->op == BL_OP_NOT && b->src[0] == a);
    for (int side = 0; side < 2 && !*never; side++) { /* side 0: t < c;  side 1: c < t */
        if (!bounds_term(a, side) || a->src[side]->op == BL_OP_CONST)
            continue;
        if (bounds_term(b, side) && a->src[side] == b->src[side])
            return (a->src[1 - side]->arg < b->src[1 - side]->arg) == (side == 0) ? a : b;
        if (bounds_term(b, 1 - side) && a->src[side] == b->src[1 - side]) {
            int64_t above = side == 0 ? a->src[1]->arg : b->src[1]->arg; /* t < above */
            int64_t below = side == 0 ? b->src[0]->arg : a->src[0]->arg; /* below < t */
            *never = below >= above - 1;
        }
    }
    return NULL;
}

static bool add_clause(clauses *all, const bl_node *clause)
{
    int at = 0;

    if (all->never)
        return true;
    if (bl_is_const(clause)) {
        all->never = clause->arg == 0;
        return true;
    }
    for (int i = 0; i < all->count; i++) {
        const bl_node *kept = index_compare_merge(all->at[i], clause, &all->never);
        if (all->never || kept == all->at[i])
            return true;
        if (kept == NULL)
            continue;
        for (int k = i + 1; k < all->count; k++)
            all->at[k - 1] = all->at[k];
        all->count--;
        i--;
    }
    if (all->count == MAX_CLAUSES)
        return false;
    for (at = all->count++; at > 0 && all->at[at - 1]->id > clause->id; at--)
        all->at[at] = all->at[at - 1];
    all->at[at] = clause;
    return true;
}

static bool add_clauses(clauses *all, const bl_node *node)
{
    const bl_node *pending[MAX_CLAUSES] = {node};

    for (int n = 1; n > 0;) {
        node = pending[--n];
        if (node->op != BL_OP_AND) {
            if (!add_clause(all, node))
                return false;
            continue;
        }
        if (n + 2 > MAX_CLAUSES)
            return false;
        pending[n++] = node->src[1];
        pending[n++] = node->src[0];
    }
    return true;
}

const bl_node *bl_fn_conjunction(bl_ir *ir, const bl_match *m)
{
    clauses all = {.count = 0};
    const bl_node *made = NULL;

    if (!add_clauses(&all, m->root->src[0]) || !add_clauses(&all, m->root->src[1]))
        return NULL;
    if (all.never)
        return truth(ir, false);
    for (int i = 0; i < all.count; i++)
        made = made == NULL ? all.at[i] : bl_index_make(ir, BL_OP_AND, made, all.at[i]);
    return made != NULL ? made : truth(ir, true);
}
