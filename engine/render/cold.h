/* Strided vector accesses in rarely executed code, such as the epilogue of a product whose lanes run along another axis than
 * the axis of the result's lanes. Rendered lane by lane, the 16 x 2 x 8 elements of a tile with an optimiser's moments are
 * 1,500 statements, and the driver spends more time on these statements than on the rest of the kernel. A function call per
 * vector has no measurable cost at run time. */
#ifndef BL_RENDER_COLD_H
#define BL_RENDER_COLD_H

#include "engine/lower/linear.h"

typedef enum cold_kind {
    COLD_NOT,
    COLD_CALL, /* rendered as a call: a LOAD or STORE whose index is a vector, or a STACK of LOADs */
    COLD_PART  /* a LOAD that only a STACK rendered as a call uses */
} cold_kind;

/* The kind of each instruction. NULL without memory. */
cold_kind *cold_find(bl_arena *arena, const bl_linear *linear);

#endif
