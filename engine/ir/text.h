/* Graphs as text, for DEBUG, replay files and tests: one node a line, sources first.
 *   %0 = input float32[2, 3] arg=0
 *   %1 = const float32 2.5
 *   %2 = expand float32[2, 3] %1
 *   %3 = mul float32[2, 3] %0 %2
 *   %4 = reduce float32[2, 1] %3 sub=add arg=2
 * A dimension that is no constant is the number of its node: float32[%7, 3]. */
#ifndef BL_IR_TEXT_H
#define BL_IR_TEXT_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

void bl_ir_print(bl_ir *ir, int nroots, const bl_node *const *roots, bl_text *out);
/* Parse what bl_ir_print wrote ("#" begins a comment).  |roots| gets the last *nroots lines' nodes on entry's capacity:
 * every node that no other uses, in order.  A bad text is BL_EINVAL with the line in the error. */
BL_NODISCARD bl_status bl_ir_parse(bl_ir *ir, const char *text, int max_roots, const bl_node **roots, int *nroots, bl_err *err);

#endif
