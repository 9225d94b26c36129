/* The meaning of scalar ops on values, from alu.def: constant folding, the interpreter and the tests of rules. */
#ifndef BL_IR_EVAL_H
#define BL_IR_EVAL_H

#include "engine/ir/node.h"

/* |op| is an ALU op other than the casts; |dtype| is that of the operands (of the second for WHERE).  The result of a
 * comparison is bool, else |dtype|, already fitted. */
bl_scalar bl_eval(bl_op op, bl_dtype dtype, const bl_scalar *operand);
/* out[i] = op(in[0][i], ...) for |n| values, casts included: |from| is the operands' dtype (the second's for WHERE), |to| the
 * result's.  |in| has three places, NULL past the last operand; |out| is no operand. */
void bl_eval_many(bl_op op, bl_dtype to, bl_dtype from, size_t n, bl_scalar *restrict out, const bl_scalar *const *in);
bl_scalar bl_eval_bitcast(bl_dtype to, bl_dtype from, bl_scalar value);
/* What a fold starts at: 0 for ADD, 1 for MUL, the lowest value for MAX, the highest for MIN. */
bl_scalar bl_fold_identity(bl_op fold, bl_dtype dtype);

#endif
