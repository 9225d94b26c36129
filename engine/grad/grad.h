/* Reverse-mode differentiation of tensor graphs. The gradient is again a graph, so higher derivatives are further calls. Each
 * primitive has one vector-Jacobian product (vjp.c), selected by the grad column of ops.def; one backward walk (backward.c)
 * applies them. */
#ifndef BL_GRAD_H
#define BL_GRAD_H

#include "engine/ir/node.h"

/* out[i] = d(sum(y * cotangent)) / d x[i], in the shape and dtype of x[i]; zeros if y does not depend on x[i]. |cotangent| has
 * y's shape and dtype; NULL stands for ones. Every x must be a float tensor, which the caller has checked. */
void bl_grad(bl_ir *ir, const bl_node *y, const bl_node *cotangent, int n, const bl_node *const *x, const bl_node **out);
/* The same for the sum over |ny| values y; cotangent[i] may be NULL. */
void bl_grad_many(bl_ir *ir, int ny, const bl_node *const *y, const bl_node *const *cotangent, int n, const bl_node *const *x,
                  const bl_node **out);
/* The gradient of WINDOW: each element of |g| [.., o, .., k] is added at the position of |axis|, of extent |extent|, from which
 * the window took it. The last axis, k, is summed away. */
const bl_node *bl_unwindow(bl_ir *ir, const bl_node *g, int axis, const bl_node *extent, int64_t stride, int64_t dilation);
/* SHRINK. Of a bl_unwindow, only the elements that are left are computed. */
const bl_node *bl_crop(bl_ir *ir, const bl_node *x, const bl_node *const *start, const bl_node *const *size);
/* cos(x) in primitives: the gradient of SIN, and the wire op cos. */
const bl_node *bl_cos(bl_ir *ir, const bl_node *x);

#endif
