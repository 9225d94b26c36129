/* SPDX-License-Identifier: MIT */
/* The order in which a loop adds an iteration's values to its accumulators. LLVM mostly keeps the order of the text, so it
 * decides how many values are in registers at a time.
 *
 * In a register tile of 2 vectors by 12 rows, an iteration multiplies 2 vectors by 12 factors of rows. In the order of the
 * vectors all 12 factors stay in registers for the second vector, and some accumulators do not have room. In the order of the
 * rows 2 vectors stay, and the factor of a row is used at once.
 *
 * A sum of products, as in the gradient of a weight that each step of a recurrent network uses, is added product by product: the
 * products of one step by all accumulators, then those of the next. */
#include "engine/ir/affine.h"
#include "engine/lower/emit.h"

enum {
    MOST_TERMS = 16,
    FEWEST_CHAINS = 4 /* accumulators that hide the latency of an addition; with fewer, a sum of products is made apart */
};

/* Append the products of the sum |node| to |term|, which has |n|. The new number; -1 if a part is no product, or without room.
 * |depth|: levels of additions that are followed. */
static int flatten_products(const bl_node *node, int depth, int n, const bl_node **term)
{
    if (node->op == BL_OP_ADD && depth > 0) {
        n = flatten_products(node->src[0], depth - 1, n, term);
        return n < 0 ? n : flatten_products(node->src[1], depth - 1, n, term);
    }
    if (node->op != BL_OP_MUL || n == MOST_TERMS)
        return -1;
    term[n] = node;
    return n + 1;
}

/* The terms of value |k| of |reduce|, one of |n| accumulators; 0 if it has fewer values. */
static int list_terms(const bl_node *reduce, int64_t k, int n, const bl_node *term[MOST_TERMS])
{
    const bl_node *sum = k < reduce->arg ? reduce->src[k] : NULL;
    bool is_free = reduce->sub == BL_OP_ADD && (reduce->dtype == BL_F32 || reduce->dtype == BL_F64);
    int terms = sum != NULL && is_free && n >= FEWEST_CHAINS ? flatten_products(sum, MOST_TERMS, 0, term) : -1;

    if (sum == NULL || terms > 0)
        return sum == NULL ? 0 : terms;
    term[0] = sum;
    return 1;
}

/* The first product of |member|, if its value is a product or a sum of products. */
static const bl_node *first_product(const bl_node *member)
{
    const bl_node *x = member->src[0];

    while (x->op == BL_OP_ADD)
        x = x->src[0];
    return x->op == BL_OP_MUL ? x : NULL;
}

/* The factor that the first products of two members share; NULL if there is none. */
static const bl_node *common_factor(const bl_node *a, const bl_node *b)
{
    const bl_node *x = first_product(a), *y = first_product(b);

    for (int i = 0; x != NULL && y != NULL && i < 2; i++) {
        if (x->src[i] == y->src[0] || x->src[i] == y->src[1])
            return x->src[i];
    }
    return NULL;
}

/* The load behind the factor of |member| that is not |common|. */
static const bl_node *load_beside(const bl_node *member, const bl_node *common)
{
    const bl_node *product = first_product(member), *x = product->src[product->src[0] == common];

    while (x->op == BL_OP_STACK || x->op == BL_OP_CAST)
        x = x->src[0];
    return x->op == BL_OP_LOAD ? x : NULL;
}

/* Are the elements a constant number of elements apart? Rows at a distance that is known at run time have addresses of their own:
 * LLVM then loads the elements of all rows first, for want of integer registers, and keeps them on the stack. */
static bool are_constant_apart(const bl_node *a, const bl_node *b)
{
    bl_affine apart;

    if (a == NULL || b == NULL || a->src[0] != b->src[0])
        return false;
    bl_affine_difference(&apart, a->src[1], b->src[1]);
    return !apart.failed && apart.count == 0;
}

/* The members are summed in the order 0, run, 2 run, .., 1, run + 1, .. The result is the run: |n|, which keeps the order of the
 * members, unless they are a tile of products in which each run has a common factor and is longer than there are runs. */
static int find_run(int n, const bl_node *const *members)
{
    const bl_node *first = n > 1 ? common_factor(members[0], members[1]) : NULL;
    int run = 1;

    while (first != NULL && run < n && common_factor(members[0], members[run]) == first &&
           are_constant_apart(load_beside(members[0], first), load_beside(members[run], first)))
        run++;
    if (n % run != 0 || n / run >= run)
        return n;
    for (int i = run; i < n; i++) {
        if (common_factor(members[i], members[i - run]) == NULL)
            return n;
    }
    return run;
}

void emit_accumulate(build *b, scope *inner, int n, const bl_node *const *members, value *const *accs, value **sums)
{
    const bl_node *term[MOST_TERMS];
    int64_t most = 0;
    int run = find_run(n, members), runs = n / run;

    for (int i = 0; i < n; i++) {
        sums[i] = accs[i];
        most = members[i]->arg > most ? members[i]->arg : most;
    }
    for (int64_t k = 0; k < most; k++) {
        for (int t = 0, left = 1; left > 0; t++) {
            left = 0;
            for (int j = 0; j < n; j++) {
                int i = j % runs * run + j / runs, terms = list_terms(members[i], k, n, term);
                if (t < terms)
                    sums[i] = emit_sum(b, inner, members[i], term[t], sums[i]);
                left += t + 1 < terms;
            }
        }
    }
    for (int i = 0; i < n; i++)
        emit_inst(b, inner, BL_OP_SET, emit_dtype(b, members[i]), members[i]->lanes, 2, ARGS(accs[i], sums[i]));
}
