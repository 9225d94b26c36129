/* SPDX-License-Identifier: MIT */
/* Vector-Jacobian products: from the cotangent of a node to the cotangents of its sources. */
#ifndef BL_GRAD_VJP_H
#define BL_GRAD_VJP_H

#include "engine/ir/node.h"

/* |g| is the cotangent, in the node's shape and dtype. Sets out[i] for each source that has a gradient; the others stay
 * NULL. */
typedef void (*bl_vjp_fn)(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out);

/* Indexed by bl_op. NULL if no gradient flows through the op, or if backward.c handles it. */
extern const bl_vjp_fn bl_vjp_table[BL_OP_COUNT];

#endif
