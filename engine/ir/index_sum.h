/* INDEX expressions as polynomials: a sum of coefficient * term + constant, terms distinct and in order of id.
 * A term is a RANGE, VAR, LANE, quotient, remainder or another opaque value, or a product of such ("n*i").  Equal expressions
 * become the same sum, and building it gives the same node.  Sums are values on the stack; one that outgrows its room or an
 * int64 is |failed|, and the caller leaves the expression as it is. */
#ifndef BL_IR_INDEX_SUM_H
#define BL_IR_INDEX_SUM_H

#include "engine/ir/private.h"

enum { BL_MAX_TERMS = 48 };

typedef struct bl_term {
    const bl_node *node;
    int64_t coefficient; /* not 0 */
} bl_term;

typedef struct bl_sum {
    int count;
    bool failed;
    int64_t constant;
    bl_term at[BL_MAX_TERMS];
} bl_sum;

static inline int64_t bl_floor_quotient(int64_t x, int64_t y) /* y > 0 */
{
    return x / y - (x % y < 0);
}

void bl_sum_init(bl_sum *sum, int64_t constant);
void bl_sum_of(bl_sum *sum, const bl_node *index);
void bl_sum_add(bl_sum *sum, const bl_node *index, int64_t factor); /* + factor * index */
void bl_sum_add_constant(bl_sum *sum, int64_t value);
void bl_sum_add_sum(bl_sum *sum, const bl_sum *other, int64_t factor);
/* + factor * term * other, multiplied out. */
void bl_sum_add_product(bl_ir *ir, bl_sum *sum, const bl_sum *other, const bl_node *term, int64_t factor);
/* The node of |op| over what is in normal form, which it is not simplified with: an INDEX, or a bool of a comparison or AND. */
const bl_node *bl_index_make(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y);
/* The difference x - y. */
void bl_sum_difference(bl_sum *d, const bl_node *x, const bl_node *y);
/* The node of a sum, in normal form (the sum is recombined). */
const bl_node *bl_sum_build(bl_ir *ir, bl_sum *sum);
/* Bounds by interval arithmetic; false where they leave int64. */
bool bl_sum_bounds(const bl_sum *sum, int64_t *lo, int64_t *hi);
/* |term| / |by| where that is a product of what is left of its factors; NULL if |by| does not divide it.  The quotient of equal
 * terms is 1. */
const bl_node *bl_term_divide(bl_ir *ir, const bl_node *term, const bl_node *by);
/* Is it proved that the sum is at least 0, with extents of ranges taken as symbols? */
bool bl_sum_never_negative(bl_ir *ir, const bl_sum *sum);
/* c * floor(x / c) + x mod c is x: put pairs together again.  True if there were any. */
bool bl_sum_recombine(bl_ir *ir, bl_sum *sum);

#endif
