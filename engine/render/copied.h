/* 16-bit floats that a kernel only copies from a buffer to local memory. */
#ifndef BL_RENDER_COPIED_H
#define BL_RENDER_COPIED_H

#include "engine/base/arena.h"
#include "engine/lower/linear.h"

/* For each instruction: is it a LOAD of float16 or bfloat16, or a lane of such a LOAD, and is its only use a store to local
 * memory that holds 16-bit floats? Such a value needs no conversion to float and back. NULL without memory. */
const bool *copied_find(bl_arena *arena, const bl_linear *linear);

#endif
