/* The meaning of one scalar op on values, from alu.def: constant folding, the interpreters and the tests of rules. */
#ifndef BL_IR_EVAL_H
#define BL_IR_EVAL_H

#include "engine/ir/node.h"

/* |op| is an ALU op other than the casts; |dtype| is that of the operands (of the second for WHERE).  The result of a
 * comparison is bool, else |dtype|, already fitted. */
bl_scalar bl_eval(bl_op op, bl_dtype dtype, const bl_scalar *operand);
bl_scalar bl_eval_bitcast(bl_dtype to, bl_dtype from, bl_scalar value);
/* What a fold starts at: 0 for ADD, 1 for MUL, the lowest value for MAX, the highest for MIN. */
bl_scalar bl_fold_identity(bl_op fold, bl_dtype dtype);

#endif
