/* Anchors: accesses whose indices differ by a constant share one base pointer. From (b + i)[400] and (b + i)[0] a compiler
 * sees at once that the addresses differ, and that one address register serves both accesses. A pointer must not leave its
 * buffer, not even in intermediate results (C11, 6.5.6). The rule holds if no part of i is negative. Otherwise the base
 * pointer is the pointer of one access, the first of them. */
#ifndef BL_RENDER_ANCHOR_H
#define BL_RENDER_ANCHOR_H

#include "engine/lower/linear.h"

/* For each LOAD or STORE at a sum of a base and a constant: the least constant among the accesses without a gate to the same
 * buffer, at the same base, in the same iteration of a loop. ANCHOR_NONE for other instructions. NULL without memory. */
enum { ANCHOR_NONE = -1 };
int64_t *anchor_find(bl_arena *arena, const bl_linear *linear);

#endif
