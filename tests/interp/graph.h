/* Evaluates a tensor graph without scheduler and kernels, slowly and exactly: the reference for all devices. */
#ifndef BL_TESTS_INTERP_GRAPH_H
#define BL_TESTS_INTERP_GRAPH_H

#include "engine/ir/node.h"

/* Evaluates |roots| of a tensor graph.  inputs[slot] has row-major little-endian elements; vars[i] has the sizes of the named
 * dimensions.  out[i] is allocated with malloc (bl_dtype_bytes * elements); the caller frees it. */
BL_NODISCARD bl_status bl_interp_graph(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs,
                                       const int64_t *vars, void **out, bl_err *err);

#endif
