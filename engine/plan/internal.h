/* Between the files of a plan. */
#ifndef BL_PLAN_INTERNAL_H
#define BL_PLAN_INTERNAL_H

#include "engine/base/fault.h"
#include "engine/lower/cost.h"
#include "engine/plan/plan.h"

#include <pthread.h>

/* One launch of a plan. */
typedef struct step {
    const char *name;
    bool helper;
    const bl_node *grid[3];
    uint32_t groups[3]; /* at the sizes of the last run */
    int64_t ops, bytes; /* at the largest sizes */
    const char *moves;
    int kernel; /* which of the plan's it launches */
} step;

/* Launches that are submitted together: as many as take a fraction of a second, so that a run can be cancelled between two. */
typedef struct part {
    int first, count;
    bl_recording *recording;
} part;

struct bl_plan {
    atomic_int refs;
    bl_plan_info info;
    bl_graph *graph; /* owns the arena in which all that is const here lives */
    bl_device *dev;
    int nsteps;
    step *steps;
    uint32_t (*groups)[3]; /* of each launch */
    int nkernels;
    bl_kernel **kernels;
    const bl_launch *launches;
    int nparts;
    part *parts; /* recorded on the worker thread before the first run */
    int nslots;  /* inputs, roots, temporaries, panels */
    int nroots;
    const int *root_slot;             /* outputs, then updates in order of state */
    const bl_node *const *slot_count; /* elements; NULL for inputs and unused */
    const bl_dtype *slot_dtype;
    const size_t *slot_offset; /* in the scratch memory, for temporaries; SIZE_MAX for others */
    size_t scratch_bytes;
    bl_buffer *scratch; /* the device's, retained; worker thread only, as all below */
    bl_buffer **slots;
    int nvars;
    int32_t *vars; /* named dimensions, then 0, 1, ... for the steps of loops */
    bl_text debug;
    int beam; /* width that all of its nests were searched with */
};

/* compile.c: everything up to a recording that waits for its first run.  *out has one reference. */
BL_NODISCARD bl_status plan_compile(const bl_wire_graph *wire, bl_device *dev, const bl_plan_options *options, bl_plan **out,
                                    bl_err *err);
void plan_destroy(bl_plan *plan);
bool plan_has_moves_of(const bl_plan *plan, const bl_plan *other); /* the same kernels, of one graph */
/* choose.c: the nest with its moves.  A |helper|, which writes a panel, has the heuristic's. */
BL_NODISCARD bl_status plan_tune(bl_tune *tune, const bl_search_nest *nest, const bl_plan_options *options, bl_plan *plan,
                                 bool helper, bl_err *err);
size_t plan_host_bytes(const bl_plan *plan); /* roughly, with what a driver keeps for a launch */
void plan_unbind_scratch(bl_plan *plan);
#endif
