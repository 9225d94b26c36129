/* The verifier of graph invariants. It runs after every pass in checking builds, and elsewhere if the setting SPEC asks for it.
 * Level 1 checks arity, dtypes, shapes, lanes and that sources precede users. Level 2 also recomputes every inferred shape,
 * dtype and bound. A violation is BL_EBUG; the error names the pass, the node and the rule. */
#ifndef BL_IR_VERIFY_H
#define BL_IR_VERIFY_H

#include "engine/ir/node.h"

typedef enum bl_stage { BL_STAGE_TENSOR, BL_STAGE_KERNEL } bl_stage;

BL_NODISCARD bl_status bl_ir_verify(bl_ir *ir, int nroots, const bl_node *const *roots, bl_stage stage, const char *pass,
                                    int level, bl_err *err);

#endif
