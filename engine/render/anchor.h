/* Anchors: accesses whose indices differ by a constant share one base pointer. From (b + i)[400] and (b + i)[0] a compiler sees
 * at once that the addresses differ, and that one address register serves both. A pointer must not leave its buffer, not even
 * in intermediate results (C11, 6.5.6). That holds if no part of i is negative; otherwise the base pointer is that of one of
 * the accesses, the first. */
#ifndef BL_RENDER_ANCHOR_H
#define BL_RENDER_ANCHOR_H

#include "engine/lower/linear.h"

/* For each LOAD or STORE at a sum of a base and a constant: the least constant among the accesses without a gate to the same
 * buffer, at the same base, in the same iteration of a loop. ANCHOR_NONE for other instructions. NULL without memory. */
enum { ANCHOR_NONE = -1 };
int64_t *anchor_find(bl_arena *arena, const bl_linear *linear);

#endif
