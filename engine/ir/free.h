/* Free variables of kernel expressions: the RANGEs (loops) that an expression depends on and that no node below it binds. A
 * REDUCE binds the RANGEs it folds over. A STAGE binds the RANGEs it is filled over. */
#ifndef BL_IR_FREE_H
#define BL_IR_FREE_H

#include "engine/base/map.h"
#include "engine/ir/node.h"

enum { BL_MAX_RANGES = 64 };

/* The RANGEs of one kernel, numbered in order of discovery, and the set of free RANGEs of each node as a bit set. */
typedef struct bl_free {
    bl_ir *ir;
    int nranges;
    const bl_node *range[BL_MAX_RANGES];
    bl_ptrmap sets; /* node -> its set */
    bool failed;    /* more ranges than fit, or out of memory */
} bl_free;

void bl_free_init(bl_free *free, bl_ir *ir);
/* The set of |node|. Also computes the sets of all nodes below it; not recursive. */
uint64_t bl_free_get(bl_free *free, const bl_node *node);
/* The bit of |range|; a new RANGE gets the next number. */
uint64_t bl_free_bit(bl_free *free, const bl_node *range);
/* The RANGEs that |reduce|, a REDUCE or a STAGE, binds. */
uint64_t bl_free_bound(bl_free *free, const bl_node *reduce);
/* The largest number of iterations of the loops in |set| together: the product of their largest extents. INT64_MAX on
 * overflow. */
int64_t bl_free_size(const bl_free *free, uint64_t set);
/* By how much |index| grows from one iteration of |range| to the next; false if that is no constant. */
bool bl_free_stride(bl_free *free, const bl_node *index, const bl_node *range, int64_t *stride);
/* The number of distinct elements that |load| reads over all its loops. Overlapping windows count their common elements
 * once. */
int64_t bl_free_places(bl_free *free, const bl_node *load);
/* The number of values that a REDUCE folds, over all iterations of the loops around it. */
int64_t bl_free_work(bl_free *free, const bl_node *reduce);
/* Does |reduce| reuse its operands, as a matmul does: does each element of at least two operands serve |times| or more of its
 * iterations? Operands are loads, and results of inner reductions, that vary along its loops. With |windows| set, an element
 * that overlapping windows read counts once for all windows, and edge elements may add up to a quarter; then a depthwise
 * convolution reuses its input too. */
bool bl_reads_over_and_over(bl_free *free, const bl_node *reduce, int64_t times, bool windows);

#endif
