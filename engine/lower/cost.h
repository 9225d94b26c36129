/* What a kernel costs, counted before it runs. */
#ifndef BL_LOWER_COST_H
#define BL_LOWER_COST_H

#include "engine/lower/lower.h"

/* What a launch does: arithmetic on values, and bytes loaded from or stored to each of its buffers. */
typedef struct bl_cost {
    int64_t ops, moved[BL_LINEAR_MAX_BUFFERS];
} bl_cost;

/* |vars| are the values of the |nvars| named dimensions: the largest, or those of a run.  Sums stop at INT64_MAX. */
BL_NODISCARD bl_status bl_cost_count(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars, bl_cost *cost,
                                     bl_err *err);
/* How often each instruction runs, all work-items together: ninst numbers in |arena|; NULL without memory. */
int64_t *bl_cost_runs(bl_arena *arena, const bl_lowered *lowered, int nvars, const int64_t *vars);

#endif
