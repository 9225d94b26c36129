/* SPDX-License-Identifier: MIT */
/* Vector-Jacobian products: what the cotangent of a node is worth at its sources. */
#ifndef BL_GRAD_VJP_H
#define BL_GRAD_VJP_H

#include "engine/ir/node.h"

/* |g| is the cotangent, in the node's shape and dtype.  Sets out[i] for each source that takes part; the others stay NULL. */
typedef void (*bl_vjp_fn)(bl_ir *ir, const bl_node *node, const bl_node *g, const bl_node **out);

/* By bl_op; NULL where nothing flows through, or the walk itself sees to it. */
extern const bl_vjp_fn bl_vjp_table[BL_OP_COUNT];

#endif
