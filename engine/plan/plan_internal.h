/* Shared by the files of engine/plan. */
#ifndef BL_PLAN_INTERNAL_H
#define BL_PLAN_INTERNAL_H

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "engine/lower/cost.h"
#include "engine/plan/plan.h"
#include "engine/sched/memory.h"

#include <pthread.h>

/* What a kernel computes, to count its cost at the sizes of a run (count.c). */
typedef struct plan_work {
    const struct plan_work *next; /* of a joined kernel: the next of the kernels it was made of */
    const bl_lowered *lowered;
    int nparams;
    const int *slot; /* the slot of each parameter */
} plan_work;

/* Cost of a launch: arithmetic operations on values, and bytes of device memory traffic. */
typedef struct plan_counts {
    int64_t ops, bytes;
} plan_counts;

/* One step of an unrolled loop whose number of steps depends on named dimensions. The launches of the step do nothing in a run
 * of |number| or fewer steps. */
typedef struct plan_turn {
    const bl_node *steps;
    int64_t number;                /* number of this step, from 0 */
    const struct plan_turn *outer; /* the same for an outer loop; NULL if no outer loop has a variable number of steps */
} plan_turn;

/* The slice numbers of a reverse loop whose length depends on named dimensions: vars[first + i] is length - 1 - i. */
typedef struct plan_countdown {
    const bl_node *steps;
    int first;
} plan_countdown;

/* One launch of a plan. */
typedef struct step {
    const char *name;
    bool helper;
    int kernels, helpers; /* number of kernels and helpers that are joined in it */
    const bl_node *grid[3];
    const plan_turn *turn; /* NULL: launched at all sizes */
    uint32_t groups[3];    /* at the sizes of the last run */
    int64_t ops, bytes;    /* at the largest sizes */
    const char *moves;
    uint64_t key; /* hash of its nest (bl_kernels_key); 0 if several nests were joined */
    int kernel;   /* index in the plan's kernels */
    int cut;      /* made.cut of its kernel */
} step;

/* Launches that are submitted together. The work of a part takes a fraction of a second, so that a run can be cancelled between
 * two parts. */
typedef struct part {
    int first, count;
    int cut;        /* of a part with one launch: it is submitted in slices */
    double seconds; /* estimated, at the largest sizes */
    bl_recording *recording;
} part;

/* Timing statistics of a plan in service. The device's worker thread writes them; any thread may read the atomics. */
typedef struct plan_census {
    atomic_ullong steps;
    atomic_ullong wall_ns; /* of all steps but those of the first run, waits included */
    atomic_ullong wall_steps;
    atomic_uint samples;
    atomic_ullong recent_ns[BL_PLAN_RECENT]; /* device time of the last timed steps, all launches together */
    atomic_ullong *kernel_ns;                /* per kernel, summed over all timed steps */
    /* operations of one launch, per kernel, summed likewise. Without named dimensions this field and |kernel_bytes|, |counted|
     * and |vars| are NULL */
    atomic_ullong *kernel_ops;
    atomic_ullong *kernel_bytes;
    /* cost of a launch of each kernel at |vars| */
    plan_counts *counted;
    int64_t *vars;       /* sizes of the last timed step */
    int64_t next_ns;     /* when the next step is to be timed, in bl_clock_ns */
    uint64_t *launch_ns; /* of the current step */
} plan_census;

/* A value that depends only on the plan's inputs and states, and that may be kept from one step to the next (kept_values.c). */
typedef struct plan_kept {
    int slot;
    size_t bytes;
    /* bit i: the value depends on source i */
    const uint64_t *from;
    bool panel;         /* it is a packed panel of a source */
    bool outside;       /* a launch that is not in |spared| reads it */
    bool stable;        /* its sources are unchanged since the last step */
    bool wanted;        /* a launch of this step reads it */
    bool full;          /* |own| holds the value */
    bool given;         /* |own| had a buffer; if it has none now, the pool has dropped it */
    bl_spare own;       /* its own buffer, once keeping pays */
    bl_buffer *scratch; /* the plan's own buffer, while |own| replaces it in the plan's slots */
} plan_kept;

/* A launch that computes such values, and that is skipped when all wanted values are kept. */
typedef struct plan_spared {
    int step;
    const uint64_t *from;
    int nreads, nwrites;
    const int *value; /* the numbers of the values that it reads, then of those that it writes */
    bool out;
    uint32_t groups[3]; /* the plan's own grid, while the launch is skipped */
} plan_spared;

/* What the last step had for an input or state; only compared, never dereferenced. */
typedef struct plan_source {
    const bl_buffer *last;
    uint64_t version;
} plan_source;

/* Values kept between steps. Used on the worker thread only, except |bytes|. */
typedef struct plan_keeps {
    int n, nspared, nsources; /* sources: inputs and states */
    plan_kept *kept;
    plan_spared *spared; /* in the order of the launches */
    plan_source *sources;
    uint64_t *same, *before; /* bit i: source i is unchanged since the last step; and likewise one step earlier */
    bool seen;               /* at least one step has run */
    bool settled;            /* the last step had the same sources and the same kept values as the step before it */
    int denied;              /* steps until the plan asks again for memory that was refused; 0: no request was refused */
    atomic_size_t bytes;     /* of all kept buffers; read by any thread */
} plan_keeps;

struct bl_plan {
    atomic_int refs;
    bl_plan_info info;
    bl_arena *arena; /* holds all constant data of the plan */
    bl_device *dev;
    const bl_wire_graph *wire; /* a copy of the graph it was compiled from, to compile it again */
    const bl_wire_var *dims;   /* info.nvars named dimensions; lo and hi in steps */
    int nchecks;
    const bl_index_check *checks; /* the index checks */
    bl_plan_options options;
    pthread_mutex_t lock;
    bl_plan *better; /* retained; under the lock */
    plan_census census;
    plan_keeps keeps;
    int nsteps;
    step *steps;
    uint32_t (*groups)[3]; /* grid of each launch */
    int nkernels;
    bl_kernel **kernels;
    const plan_work *const *work; /* of each kernel */
    const bl_launch *launches;
    bool pauses; /* a step may end early: between two parts, or between two slices of a part */
    int nparts;
    part *parts; /* recorded on the worker thread before the first run */
    int nslots;  /* inputs, roots, temporaries, packed panels */
    int nroots;
    const int *root_slot;             /* outputs, then updates in the order of the states, then index checks */
    const bl_node *const *slot_count; /* number of elements; NULL for inputs and unused slots */
    const bl_dtype *slot_dtype;
    const size_t *slot_offset; /* offset of a temporary in the scratch memory, at the largest sizes; SIZE_MAX for other slots */
    const bl_lifetime *lives;  /* lifetimes of the slots, at the largest sizes */
    size_t scratch_bytes, alignment;
    bl_buffer *scratch; /* the device's scratch memory, retained; worker thread only, like all fields below */
    size_t laid_bytes;  /* size of the bound layout, if it was made for the sizes of a run (scratch.c) */
    int64_t *laid_vars; /* those sizes, in steps */
    bl_buffer **slots;
    int nvars;
    int32_t *vars; /* named dimensions, then 0, 1, ... for the steps of loops, then the countdowns */
    int ncountdowns;
    plan_countdown *countdowns;
    bl_text debug;
    bl_text moves;     /* "KEY MOVES" of each nest, one per line */
    int beam;          /* beam width with which all its nests were searched */
    atomic_bool stays; /* its interpreted kernels do not compile */
};

/* compile.c: compile a plan up to its recording, which waits for the first run. *out has one reference. */
BL_NODISCARD bl_status plan_compile(const bl_wire_graph *wire, bl_device *dev, const bl_plan_options *options, bl_plan **out,
                                    bl_err *err);
void plan_destroy(bl_plan *plan);
/* choose_moves.c: choose and apply the moves of a nest. A |helper|, which packs a panel, gets the heuristic's moves. */
BL_NODISCARD bl_status plan_tune(bl_tune *tune, const bl_search_nest *nest, const bl_plan_options *options, bl_plan *plan,
                                 bool helper, bl_err *err);
/* Estimated host memory of a plan, with the driver's memory per launch and the values kept between runs. Thread: any. */
size_t plan_host_bytes(const bl_plan *plan);
/* scratch.c: bind the temporaries for the sizes |vars|, counted in steps */
BL_NODISCARD bl_status plan_bind_scratch(bl_plan *plan, const int64_t *vars, bl_pool *pool, bl_err *err);
void plan_unbind_scratch(bl_plan *plan);
/* Can kernels of the device access whole tensors of these sizes? */
BL_NODISCARD bl_status plan_check_bindings(const bl_plan *plan, const int64_t *vars, bl_err *err);
/* join_launches.c */
/* A kernel to join, or the kernel that several were joined into. */
typedef struct plan_piece {
    const char *name;
    bl_lowered *lowered;
    int nparams;
    const int *slot; /* the slot of each parameter */
    double seconds;  /* estimated, on one core */
    bool first;      /* a loop begins or ends here: it must not share a launch with the kernel before it */
} plan_piece;
/* Join small consecutive kernels where that is faster. |out| and |members| have room for |n| entries. *nout kernels result;
 * members[i] of |pieces| are joined in each, in order. */
BL_NODISCARD bl_status plan_join(bl_ir *ir, const bl_target *target, bool hot, int n, const plan_piece *pieces, plan_piece *out,
                                 int *members, int *nout, bl_err *err);
/* check.c */
/* Fail if an index check of the completed step found an index out of range. |words| has one buffer per check of the plan. */
BL_NODISCARD bl_status plan_check_indices(const bl_plan *plan, bl_buffer *const *words, const int64_t *vars, bl_err *err);
/* kept_values.c */
/* Called around the submission of a step whose slots are bound: values that are kept are not computed again. */
void plan_keep_begin(bl_plan *plan, bl_pool *pool);
void plan_keep_end(bl_plan *plan, bool good);
void plan_keep_forget(bl_plan *plan); /* after a failed run: kept values may be half-written */
void plan_keep_fini(bl_plan *plan);
/* service.c */
BL_NODISCARD bl_status plan_census_init(plan_census *census, int nkernels, int nsteps, int nvars, bl_err *err);
void plan_census_fini(plan_census *census);
/* Where the next step's launches write their times if the step is to be timed; else NULL. */
uint64_t *plan_census_begin(bl_plan *plan);
bool plan_census_is_short(const bl_plan *plan, uint64_t ns); /* did one of the last timed steps take at most |ns|? any thread */
void plan_census_end(bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns);
void plan_census_wall(bl_plan *plan, uint64_t steps, int64_t ns); /* record the wall time of a run */
/* count.c */
/* Bytes of a buffer if the named dimensions are |vars|; INT64_MAX on overflow. */
int64_t plan_slot_bytes(const bl_plan *plan, int slot, const int64_t *vars);
/* The cost of one launch of a kernel if the named dimensions are |vars|. Allocates in |arena| and frees nothing. */
BL_NODISCARD bl_status plan_count(const bl_plan *plan, const plan_work *work, const int64_t *vars, bl_arena *arena,
                                  plan_counts *out, bl_err *err);
/* The same for each kernel of the plan. Without memory, a kernel's cost is the cost at the largest sizes. */
void plan_count_all(const bl_plan *plan, const int64_t *vars, plan_counts *out);
/* A copy of |work| in |arena|. |like| is the copy for a kernel of the same source, whose linear kernels the copy shares, or
 * NULL; |extents| as in bl_extent_copy. NULL without memory. */
const plan_work *plan_work_copy(bl_arena *arena, bl_ptrmap *extents, const plan_work *work, const plan_work *like);
/* The sizes |size| in steps of each named dimension: stored in |counted|, or |size| itself if all steps are 1. */
const int64_t *plan_count_steps(int nvars, const bl_wire_var *vars, const int64_t *size, int64_t *counted);
/* ahead.c */
/* Have the driver compile the |sources| that the device's disk cache lacks, several at once, and in |children| unless that is
 * NULL. bl_kernel_create then finds them in the cache. |halt| may end it between two batches, and stops children at once. */
BL_NODISCARD bl_status plan_compile_ahead(bl_device *dev, bl_children *children, const bl_halt *halt, bl_arena *arena, int n,
                                          const bl_kernel_source *sources, bl_err *err);

#endif
