/* Lower float8_e4m3 and float8_e5m2 to float32 and uint8, before scheduling: no device computes in float8. Thread: that of the
 * ir. */
#ifndef BL_IR_FLOAT8_H
#define BL_IR_FLOAT8_H

#include "engine/ir/node.h"

/* Replace each root by an equal graph without float8. A float8 value becomes a float32 that is rounded to float8. A float8
 * input is read as uint8, and a float8 root becomes the uint8 to store. */
void bl_lower_float8(bl_ir *ir, int nroots, const bl_node **roots);

#endif
