/* Accesses that differ by a number share a pointer: (b + i)[400] shows a compiler at once that it is another place than (b +
 * i)[0], and that both need one address.  A pointer must not leave its buffer, not even on the way (C11, 6.5.6), which is plain
 * where no part of i is negative; else the pointer is that of an access which is made together with the others, the first of
 * them. */
#ifndef BL_RENDER_ANCHOR_H
#define BL_RENDER_ANCHOR_H

#include "engine/lower/linear.h"

/* By instruction, for a LOAD or STORE at a sum of something and a number: the least such number of those without a gate that go
 * to the same buffer by the same sum in the same turn of a loop; ANCHOR_NONE for others.  NULL where memory ran out. */
enum { ANCHOR_NONE = -1 };
int64_t *anchor_find(bl_arena *arena, const bl_linear *linear);

#endif
