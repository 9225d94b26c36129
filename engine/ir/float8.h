/* float8_e4m3 and float8_e5m2, taken out of a tensor graph before it is scheduled.  Thread: that of the ir. */
#ifndef BL_IR_FLOAT8_H
#define BL_IR_FLOAT8_H

#include "engine/ir/node.h"

/* Replace each root by one in which float8 values are float32 that were rounded, inputs of float8 are read as uint8, and a root
 * of float8 is the uint8 that is stored. */
void bl_lower_float8(bl_ir *ir, int nroots, const bl_node **roots);

#endif
