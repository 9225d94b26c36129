/* Element-wise evaluation of small tensors at compile time, without a kernel. Elements are constants or expressions of named
 * dimensions. An importer evaluates shapes, axes and other values this way that must be known before anything runs.
 * An element is a scalar node. An integer of any width is an INDEX node, a bool is a BOOL node, a float of any width is a CONST
 * of float64 or a fraction of sizes (bl_fraction_make). Floats are computed in float64 and the caller rounds them, so that
 * intermediate results do not round: 1369 to the power of 0.5 is exactly 37. */
#ifndef BL_IR_ELEMENTS_H
#define BL_IR_ELEMENTS_H

#include "engine/ir/node.h"

/* The elements of an INPUT in row-major order, as many as its shape has; NULL if they are unknown. */
typedef const bl_node *const *(*bl_elements_input)(void *arg, const bl_node *input);

/* The elements of |root| in row-major order, allocated in |arena|. NULL if they are unknown: a shape contains a named
 * dimension, the elements of an input are unknown, the result of a comparison depends on the sizes of named dimensions, the
 * graph contains a SCAN, or some value has more than |most| elements. */
const bl_node *const *bl_elements(bl_ir *ir, const bl_node *root, int64_t most, bl_elements_input input, void *arg,
                                  bl_arena *arena);

/* ---- scalar ops on elements (element_alu.c) */

/* |value| of |dtype| as an element. NULL if it does not fit into an INDEX. */
const bl_node *bl_element_const(bl_ir *ir, bl_dtype dtype, bl_scalar value);
/* Evaluate an ALU op or a cast. |from| is the dtype of the operands (of the second operand for WHERE), |to| the dtype of the
 * result. NULL if the result is unknown. */
const bl_node *bl_element_alu(bl_ir *ir, bl_op op, bl_dtype to, bl_dtype from, const bl_node *const *operand);

/* num / den as a float: a CONST, or a node that is not simplified and occurs only in elements. */
const bl_node *bl_fraction_make(bl_ir *ir, const bl_node *num, int64_t den);
/* Store the quotient of two integers that equals |element| up to the rounding of float32. False if there is none. */
bool bl_fraction_get(bl_ir *ir, const bl_node *element, const bl_node **num, int64_t *den);

#endif
