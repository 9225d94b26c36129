/* The counts of the cost model, and the static cost of a kernel: operations and memory traffic, counted before it runs. */
#ifndef BL_LOWER_COST_H
#define BL_LOWER_COST_H

#include "engine/lower/lower.h"

/* The cost of one launch: arithmetic operations on values, and bytes loaded from and stored to each buffer. */
typedef struct bl_cost {
    int64_t ops, moved[BL_LINEAR_MAX_BUFFERS];
} bl_cost;

/* Count the cost of |lowered|. |vars| are the values of the |nvars| named dimensions: the largest ones, or those of a run.
 * Counts saturate at INT64_MAX. */
BL_NODISCARD bl_status bl_cost_count(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars, bl_cost *cost,
                                     bl_err *err);
/* How often each instruction runs, summed over all work-items: |ninst| numbers in |arena|. NULL without memory. */
int64_t *bl_cost_runs(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars);

#endif
