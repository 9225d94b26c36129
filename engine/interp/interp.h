/* Runs both levels: a tensor graph with no scheduler, slowly and exactly (the reference of every test), and lowered kernels (the
 * device interp:0, what a machine without drivers falls back to). */
#ifndef BL_INTERP_INTERP_H
#define BL_INTERP_INTERP_H

#include "engine/ir/node.h"

/* Evaluate |roots| of a tensor graph.  inputs[slot] are row-major little-endian elements; vars[i] the named dimensions.
 * out[i] is malloc'ed by the callee (bl_dtype_bytes * elements) and freed by the caller. */
BL_NODISCARD bl_status bl_interp_graph(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs,
                                       const int64_t *vars, void **out, bl_err *err);

#endif
