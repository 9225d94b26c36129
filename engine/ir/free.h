/* Free RANGEs: which loops an expression of a kernel must stand in.  A REDUCE binds the RANGEs that it folds over, a STAGE those
 * that it is filled over. */
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
/* The RANGEs that a REDUCE or a STAGE binds. */
uint64_t bl_free_bound(bl_free *free, const bl_node *reduce);
/* The product of the largest extents in |set|; INT64_MAX where that does not fit. */
int64_t bl_free_size(const bl_free *free, uint64_t set);
/* How many places |load| reads in all its loops together: windows that overlap share theirs. */
int64_t bl_free_places(bl_free *free, const bl_node *load);
/* How often the value of a REDUCE is added to, all loops around it counted. */
int64_t bl_free_work(bl_free *free, const bl_node *reduce);
/* Does a REDUCE read two operands, or more, each element of which serves at least |times| of its iterations, as a matmul does?
 * Operands are loads, and the results of reductions further in, that differ along its loops.  |windows|: an element that
 * overlapping windows read counts once for all of them, and up to a quarter of what they read as edges, so that a depthwise
 * convolution reads its picture over and over too. */
bool bl_reads_over_and_over(bl_free *free, const bl_node *reduce, int64_t times, bool windows);

#endif
