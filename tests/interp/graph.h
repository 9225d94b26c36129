/* Runs a tensor graph with no scheduler and no kernels, slowly and exactly: what every device is compared with. */
#ifndef BL_TESTS_INTERP_GRAPH_H
#define BL_TESTS_INTERP_GRAPH_H

#include "engine/ir/node.h"

/* Evaluate |roots| of a tensor graph.  inputs[slot] are row-major little-endian elements; vars[i] the named dimensions.
 * out[i] is malloc'ed by the callee (bl_dtype_bytes * elements) and freed by the caller. */
BL_NODISCARD bl_status bl_interp_graph(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs,
                                       const int64_t *vars, void **out, bl_err *err);

#endif
