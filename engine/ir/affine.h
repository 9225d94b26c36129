/* The affine view of INDEX expressions, which is also their normal form: a sum of coefficient * term, plus a constant. Terms are
 * distinct and in order of node id. A term is a RANGE, a VAR, a LANE, a quotient, a remainder or another opaque value, or a
 * product of such terms
 * ("n*i"). Equal expressions have the same sum, and bl_affine_build gives the same node for the same sum. Sums live on the stack.
 * A sum that has too many terms or overflows an int64 is |failed|; the caller then keeps the expression as it is. */
#ifndef BL_IR_AFFINE_H
#define BL_IR_AFFINE_H

#include "engine/ir/node.h"

enum { BL_MAX_TERMS = 48 };

typedef struct bl_term {
    const bl_node *node;
    int64_t coefficient; /* not 0 */
} bl_term;

typedef struct bl_affine {
    int count;
    bool failed;
    int64_t constant;
    bl_term at[BL_MAX_TERMS];
} bl_affine;

static inline int64_t bl_floor_quotient(int64_t x, int64_t y) /* y > 0 */
{
    return x / y - (x % y < 0);
}

/* ---- the view */
bool bl_affine_of(bl_affine *sum, const bl_node *index); /* false: it is |failed| */
/* The coefficient of |term|; 0 if it is no term of the sum. */
int64_t bl_affine_along(const bl_affine *sum, const bl_node *term);
/* Are the constant and all coefficients except that of |except| (NULL: none) multiples of |n|? False for a |failed| sum. */
bool bl_affine_is_multiple(const bl_affine *sum, const bl_node *except, int64_t n);

/* ---- arithmetic */
void bl_affine_init(bl_affine *sum, int64_t constant);
void bl_affine_add(bl_affine *sum, const bl_node *index, int64_t factor); /* + factor * index */
void bl_affine_add_constant(bl_affine *sum, int64_t value);
void bl_affine_add_sum(bl_affine *sum, const bl_affine *other, int64_t factor);
/* Add factor * term * other, multiplied out. */
void bl_affine_add_product(bl_ir *ir, bl_affine *sum, const bl_affine *other, const bl_node *term, int64_t factor);
/* Intern a node of |op|, an INDEX or a bool of a comparison or AND, without simplification: the operands are in normal form
 * already. */
const bl_node *bl_index_make(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y);
/* The difference x - y. */
void bl_affine_difference(bl_affine *d, const bl_node *x, const bl_node *y);
/* The node of a sum, in normal form. Recombines the sum. */
const bl_node *bl_affine_build(bl_ir *ir, bl_affine *sum);
/* Bounds of the sum by interval arithmetic. False on overflow of int64. */
bool bl_affine_bounds(const bl_affine *sum, int64_t *lo, int64_t *hi);
/* |term| / |by|, both products of factors; NULL if |by| does not divide |term|. The quotient of equal terms is 1. */
const bl_node *bl_term_divide(bl_ir *ir, const bl_node *term, const bl_node *by);
/* Is the sum proved to be at least 0? Extents of ranges are treated as symbols. */
bool bl_affine_never_negative(bl_ir *ir, const bl_affine *sum);
/* Apply c * floor(x / c) + x mod c = x to all such pairs of terms. True if a pair was found. */
bool bl_affine_recombine(bl_ir *ir, bl_affine *sum);

#endif
