/* Vectors that are read or written lane by lane, a constant step apart, in parts of a kernel that seldom run: what follows a
 * product whose lanes go along another axis than the result's.  Said lane by lane, the 16 x 2 x 8 elements of a tile with an
 * optimiser's moments are 1,500 statements, and take a compiler longer than all the rest; a call for each vector costs the kernel
 * nothing. */
#ifndef BL_RENDER_COLD_H
#define BL_RENDER_COLD_H

#include "engine/lower/linear.h"

/* By instruction: an access that a call is to make.  NULL where memory ran out. */
bool *cold_find(bl_arena *arena, const bl_linear *linear);

#endif
