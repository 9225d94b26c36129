/* The elements of a small tensor, computed one by one without a kernel: constants, and expressions of named dimensions.  An
 * importer asks this way for shapes, axes and other values that must be known before anything runs.
 *
 * An element is a scalar node: of integers an INDEX node, whatever their width; of bool a BOOL node; of floats, whatever their
 * width, a CONST of float64, or a fraction of sizes (bl_fraction_make).  Floats are computed in float64 and rounded by the
 * caller, so that what an op is composed of does not round by itself: 1369 to the power of 0.5 is 37. */
#ifndef BL_IR_ELEMENTS_H
#define BL_IR_ELEMENTS_H

#include "engine/ir/node.h"

/* The elements of an INPUT in row-major order, as many as its type says; NULL where they are not known. */
typedef const bl_node *const *(*bl_elements_input)(void *arg, const bl_node *input);

/* The elements of |root| in row-major order, in |arena|; NULL where they are not known: a shape with a named dimension in it, an
 * input whose elements are not known, a comparison that its named dimensions do not decide, a SCAN, or more than |most|
 * elements of any value on the way. */
const bl_node *const *bl_elements(bl_ir *ir, const bl_node *root, int64_t most, bl_elements_input input, void *arg,
                                  bl_arena *arena);

/* ---- scalar ops on elements (element_alu.c) */

/* |constant| of |dtype| as an element; NULL where no INDEX holds it. */
const bl_node *bl_element_const(bl_ir *ir, bl_dtype dtype, bl_scalar value);
/* An ALU op, casts included; |from| is the operands' dtype (the second's for WHERE), |to| the result's.  NULL: not decided. */
const bl_node *bl_element_alu(bl_ir *ir, bl_op op, bl_dtype to, bl_dtype from, const bl_node *const *operand);

/* num / den as a float: CONST, or a node that is not simplified and that only elements consist of. */
const bl_node *bl_fraction_make(bl_ir *ir, const bl_node *num, int64_t den);
/* False where |element| is not the quotient of two integers, up to the rounding of a float32. */
bool bl_fraction_get(bl_ir *ir, const bl_node *element, const bl_node **num, int64_t *den);

#endif
