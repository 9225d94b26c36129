/* Free RANGEs: which loops an expression of a kernel must stand in.  A REDUCE binds the RANGEs that it folds over. */
#ifndef BL_IR_FREE_H
#define BL_IR_FREE_H

#include "engine/base/map.h"
#include "engine/ir/node.h"

enum { BL_MAX_RANGES = 64 };

/* The RANGEs of one kernel, numbered in order of first sight, and for each node the set of those it is free in. */
typedef struct bl_free {
    bl_ir *ir;
    int nranges;
    const bl_node *range[BL_MAX_RANGES];
    bl_ptrmap sets; /* node -> uint64_t * in the arena */
    bool failed;    /* more ranges than fit, or out of memory */
} bl_free;

void bl_free_init(bl_free *free, bl_ir *ir);
/* The set of |node|, computed for all below it on the way (no recursion). */
uint64_t bl_free_get(bl_free *free, const bl_node *node);
/* The bit of a RANGE, numbering it if it is new. */
uint64_t bl_free_bit(bl_free *free, const bl_node *range);

#endif
