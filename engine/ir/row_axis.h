/* Row independence: does each row of the outputs depend only on the same row of the inputs? Then runs of a graph that differ
 * only in their rows can be batched into one run. */
#ifndef BL_IR_ROW_AXIS_H
#define BL_IR_ROW_AXIS_H

#include "engine/ir/node.h"

/* Rows are the first axis of all inputs (the INPUTs of slots below |ninputs|) and of all outputs. The extent of that axis must
 * be the named dimension |var|, which may occur in no other extent. The proof tracks the row axis through each node. False if
 * the dimension is used as a number, if rows are combined (as in a sum over rows), if a value depends on the position of its
 * row, or if the analysis cannot tell. */
bool bl_rows_are_apart(bl_ir *ir, int var, int ninputs, int noutputs, const bl_node *const *outputs);

#endif
