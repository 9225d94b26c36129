/* Local memory of the STAGEs of a loop nest. A liveness analysis lets STAGEs that are not live at the same time share
 * memory. */
#ifndef BL_IR_STAGE_H
#define BL_IR_STAGE_H

#include "engine/base/map.h"
#include "engine/ir/free.h"

enum { BL_MAX_STAGES = 64 };

typedef struct bl_stage_memory {
    int nstages, nmemories;
    const bl_node *stage[BL_MAX_STAGES]; /* in topological order, sources first */
    int memory[BL_MAX_STAGES];           /* memory number of each stage, below |nmemories| */
} bl_stage_memory;

/* Bytes of local memory for |elements| elements. Each buffer starts at a multiple of the largest vector (128 bytes). |narrow|:
 * 16-bit floats take 16 bits each (BL_STAGE_NARROW). */
static inline int64_t bl_local_bytes(bl_dtype dtype, bool narrow, int64_t elements)
{
    return (elements * (int64_t)(narrow ? bl_dtype_bytes(dtype) : bl_dtype_local_bytes(dtype)) + 127) / 128 * 128;
}
/* The number of elements that the stores of a STAGE may touch. */
int64_t bl_stage_elements(const bl_node *stage);
/* Bytes of all memories together. Each memory is as large as its largest stage. */
int64_t bl_stage_memory_bytes(const bl_stage_memory *plan);
/* Assign memory to the STAGEs below |sink|. Two stages of one dtype that are filled in the same loops share memory if, in any
 * order of evaluation, all readers of the first are done before the second is filled. With |in_place|, they also share if the
 * only other reader is the second stage itself, which reads each element right before it overwrites that element; this needs
 * every element to be written once. False if there are more than BL_MAX_STAGES. */
bool bl_stage_memory_plan(bl_ir *ir, const bl_node *sink, bl_free *free, bool in_place, bl_stage_memory *plan);

#endif
