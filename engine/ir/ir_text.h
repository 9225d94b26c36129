/* Graphs as text, for DEBUG and tests: one node per line, sources first.
 *   %0 = input float32[2, 3] arg=0
 *   %1 = const float32 2.5
 *   %2 = expand float32[2, 3] %1
 *   %3 = mul float32[2, 3] %0 %2
 *   %4 = reduce float32[2, 1] %3 sub=add arg=2
 * A dimension that is not constant is the number of its node: float32[%7, 3]. */
#ifndef BL_IR_TEXT_H
#define BL_IR_TEXT_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

void bl_ir_print(bl_ir *ir, int nroots, const bl_node *const *roots, bl_text *out);
/* Print a literal: a decimal number, or 0x and the bits of the bl_scalar if a decimal number would lose precision. */
void bl_scalar_print(bl_dtype dtype, bl_scalar value, bl_text *out);

#endif
