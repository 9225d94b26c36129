/* Numbers of 16 bits that a kernel only copies, from a buffer to local memory. */
#ifndef BL_RENDER_COPIED_H
#define BL_RENDER_COPIED_H

#include "engine/base/arena.h"
#include "engine/lower/linear.h"

/* By instruction: is it a LOAD, or a lane of one, of float16 or bfloat16 that is nothing but stored to local memory where such
 * take 16 bits?  Then it needs no conversion to float and back.  NULL where memory ran out. */
const bool *copied_find(bl_arena *arena, const bl_linear *linear);

#endif
