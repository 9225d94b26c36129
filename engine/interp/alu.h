/* Scalar ops over arrays of values, for the interpreter of kernels.  The meaning is bl_eval's; what test graphs do most has a
 * typed loop of its own, which tests/interp/test_linear.c compares with bl_eval. */
#ifndef BL_INTERP_ALU_H
#define BL_INTERP_ALU_H

#include "engine/ir/node.h"

typedef struct bl_interp_op {
    bl_op op;
    bl_dtype dtype; /* of the result */
    bl_dtype from;  /* of the operands; of the second for WHERE */
} bl_interp_op;

/* out[i] = op(in[0][i], ...) for |n| values.  |out| is no operand. */
typedef void (*bl_interp_alu)(const bl_interp_op *how, bl_scalar *out, const bl_scalar *const *in, size_t n);

/* The best loop for an ALU op, casts included; never NULL. */
bl_interp_alu bl_interp_alu_get(const bl_interp_op *how);

#endif
