/* Evaluation of scalar ops by the rows of alu.def. Used by constant folding, by the interpreter and by the tests of rules. */
#ifndef BL_IR_EVAL_H
#define BL_IR_EVAL_H

#include "engine/ir/node.h"

/* Evaluate |op|, an ALU op but no cast. |dtype| is the dtype of the operands (of the second operand for WHERE). The result is a
 * bool for a comparison, otherwise a value of |dtype|, already rounded or wrapped. */
bl_scalar bl_eval(bl_op op, bl_dtype dtype, const bl_scalar *operand);
/* out[i] = op(in[0][i], ...) for |n| values; casts are allowed. |from| is the dtype of the operands (of the second operand for
 * WHERE), |to| the dtype of the result. |in| has three entries; those after the last operand are NULL. |out| must not overlap
 * an operand. */
void bl_eval_many(bl_op op, bl_dtype to, bl_dtype from, size_t n, bl_scalar *restrict out, const bl_scalar *const *in);
bl_scalar bl_eval_bitcast(bl_dtype to, bl_dtype from, bl_scalar value);
/* The identity of a fold: 0 for ADD, 1 for MUL, the lowest value for MAX, the highest for MIN. */
bl_scalar bl_fold_identity(bl_op fold, bl_dtype dtype);

#endif
