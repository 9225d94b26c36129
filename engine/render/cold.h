/* Vectors that are read or written lane by lane, a constant step apart, in parts of a kernel that seldom run: what follows a
 * product whose lanes go along another axis than the result's.  Said lane by lane, the 16 x 2 x 8 elements of a tile with an
 * optimiser's moments are 1,500 statements, and take a compiler longer than all the rest; a call for each vector costs the kernel
 * nothing. */
#ifndef BL_RENDER_COLD_H
#define BL_RENDER_COLD_H

#include "engine/lower/linear.h"

typedef enum cold_kind {
    COLD_NOT,
    COLD_CALL, /* a call makes it: a LOAD or STORE whose index is a vector, or a STACK of ... */
    COLD_PART  /* ... LOADs, which nothing else uses */
} cold_kind;

/* By instruction.  NULL where memory ran out. */
cold_kind *cold_find(bl_arena *arena, const bl_linear *linear);

#endif
