/* Memory of the STAGEs of a nest: which of them may use the same, one after the other. */
#ifndef BL_IR_STAGE_H
#define BL_IR_STAGE_H

#include "engine/base/map.h"
#include "engine/ir/free.h"

enum { BL_MAX_STAGES = 64 };

typedef struct bl_stage_memory {
    int nstages, nmemories;
    const bl_node *stage[BL_MAX_STAGES]; /* sources first */
    int memory[BL_MAX_STAGES];           /* of each: a number below nmemories */
} bl_stage_memory;

/* What so many elements take of a group's local memory, where each buffer begins at a multiple of the largest vector.  |narrow|:
 * of 16 bits each (BL_STAGE_NARROW). */
static inline int64_t bl_local_bytes(bl_dtype dtype, bool narrow, int64_t elements)
{
    return (elements * (int64_t)(narrow ? bl_dtype_bytes(dtype) : bl_dtype_local_bytes(dtype)) + 127) / 128 * 128;
}
/* How many elements the stores of a STAGE may touch. */
int64_t bl_stage_elements(const bl_node *stage);
/* Bytes of all memories together: each is as large as the largest of its stages. */
int64_t bl_stage_memory_bytes(const bl_stage_memory *plan);
/* Share out memory among the STAGEs below |sink|.  Two of one dtype, filled in the same loops, share where in any order of
 * evaluation all who read the first are done before the second is filled; or where the only one who is not is the second itself,
 * which reads each element right before it writes it.  |in_place| says whether the latter counts: it needs every element to be
 * written once.  False if there are more than BL_MAX_STAGES. */
bool bl_stage_memory_plan(bl_ir *ir, const bl_node *sink, bl_free *free, bool in_place, bl_stage_memory *plan);

#endif
