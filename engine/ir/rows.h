/* Does a row of what comes out depend on nothing but the same row of what goes in?  Then runs of a graph that differ in their
 * rows alone can be one run, of all their rows. */
#ifndef BL_IR_ROWS_H
#define BL_IR_ROWS_H

#include "engine/ir/node.h"

/* Along the first axis of all inputs, which are the INPUTs below |ninputs|, and of all outputs, whose extent there is named
 * dimension |var| and nowhere else: proven by where each node has its rows.  False where that dimension is a number that is
 * computed with, where rows meet, as in a sum over them, where one is told from another by its place, and where this does not see
 * it. */
bool bl_rows_are_apart(bl_ir *ir, int var, int ninputs, int noutputs, const bl_node *const *outputs);

#endif
