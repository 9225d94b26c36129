/* Reverse-mode differentiation on the tensor graph: the gradient is more graph, so gradients of gradients are another call.
 * One small function per primitive (vjp.c), chosen by the grad column of ops.def, and one backward walk (walk.c). */
#ifndef BL_GRAD_GRAD_H
#define BL_GRAD_GRAD_H

#include "engine/ir/node.h"

/* out[i] = d(sum(y * cotangent)) / d x[i], in x[i]'s shape and dtype; zeros where y does not depend on x[i].
 * |cotangent| has y's shape and dtype, or is NULL for ones.  Every x is float (the caller checked). */
void bl_grad(bl_ir *ir, const bl_node *y, const bl_node *cotangent, int n, const bl_node *const *x, const bl_node **out);
/* The same of the sum over all |ny| values y; cotangent[i] may be NULL. */
void bl_grad_many(bl_ir *ir, int ny, const bl_node *const *y, const bl_node *const *cotangent, int n, const bl_node *const *x,
                  const bl_node **out);
/* The gradient of WINDOW: |g| [.., o, .., k] is added up where a window of |axis|, that has |extent| elements, would have taken
 * it from.  Its last axis is gone then. */
const bl_node *bl_unwindow(bl_ir *ir, const bl_node *g, int axis, const bl_node *extent, int64_t stride, int64_t dilation);
/* cos(x) in primitives: the gradient of SIN, and the wire's cos. */
const bl_node *bl_cos(bl_ir *ir, const bl_node *x);

#endif
