/* Declarations shared by the files of engine/plan. */
#ifndef BL_PLAN_INTERNAL_H
#define BL_PLAN_INTERNAL_H

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "engine/lower/cost.h"
#include "engine/plan/plan.h"
#include "engine/sched/memory.h"

#include <pthread.h>

/* The computation of a kernel, from which count.c counts the cost of a launch at the sizes of a run. */
typedef struct plan_work {
    const struct plan_work *next; /* for a joined kernel: the next of the kernels that were joined */
    const bl_lowered *lowered;
    int nparams;
    const int *slot; /* slot of each parameter */
} plan_work;

/* Cost of a launch: arithmetic operations on values, and bytes of device memory traffic. */
typedef struct plan_counts {
    int64_t ops, bytes;
} plan_counts;

/* One step of an unrolled loop whose number of steps depends on named dimensions. The launches of the step do nothing in a run
 * of |number| or fewer steps. */
typedef struct plan_turn {
    const bl_node *steps;
    int64_t number;                /* number of the step, counted from 0 */
    const struct plan_turn *outer; /* the step of an outer loop; NULL if no outer loop has a variable number of steps */
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
    int kernels, helpers; /* number of kernels and helpers that are joined in the launch */
    const bl_node *grid[3];
    const plan_turn *turn; /* NULL: the launch runs at all sizes */
    uint32_t groups[3];    /* grid at the sizes of the last run */
    int64_t ops, bytes;    /* cost at the largest sizes */
    const char *moves;
    uint64_t key; /* hash of the launch's nest (bl_kernels_key); 0 if several nests were joined */
    int kernel;   /* index of the kernel in the plan */
    int cut;      /* made.cut of the kernel */
} step;

/* Launches that are submitted together. The work of a part takes a fraction of a second, so that a run can be cancelled between
 * two parts. */
typedef struct part {
    int first, count;
    int cut;        /* made.cut of a part with one launch: the launch is submitted in slices */
    double seconds; /* estimated device time at the largest sizes */
    bl_recording *recording;
} part;

/* Timing statistics of a plan in service. The device's worker thread writes them; any thread may read the atomics. */
typedef struct plan_census {
    atomic_ullong steps;
    atomic_ullong wall_ns; /* wall time of all steps except the steps of the first run, waits included */
    atomic_ullong wall_steps;
    atomic_uint samples;
    atomic_ullong recent_ns[BL_PLAN_RECENT]; /* device time of the last timed steps, summed over the launches */
    atomic_ullong *kernel_ns;                /* per kernel, summed over all timed steps */
    /* operations of one launch, per kernel, summed over all timed steps. Without named dimensions this field and
     * |kernel_bytes|, |counted| and |vars| are NULL */
    atomic_ullong *kernel_ops;
    atomic_ullong *kernel_bytes;
    /* cost of a launch of each kernel at |vars| */
    plan_counts *counted;
    int64_t *vars;       /* sizes of the last timed step */
    int64_t next_ns;     /* time on bl_clock_ns at which the next step is timed */
    uint64_t *launch_ns; /* device time of each launch of the current step */
} plan_census;

/* A value that depends only on the inputs and states of the plan, and that may be kept from one step to the next
 * (kept_values.c). */
typedef struct plan_kept {
    int slot;
    size_t bytes;
    /* bit i: the value depends on source i */
    const uint64_t *from;
    bool panel;         /* the value is a packed panel of a source */
    bool outside;       /* a launch that is not in |spared| reads the value */
    bool stable;        /* the sources of the value are unchanged since the last step */
    bool wanted;        /* a launch of this step reads the value */
    bool full;          /* |own| holds the value */
    bool given;         /* the plan gave |own| a buffer; if |own| has no buffer now, the pool has dropped it */
    bl_spare own;       /* the value's own buffer, allocated once keeping the value saves work */
    bl_buffer *scratch; /* the plan's own buffer, while |own| replaces it in the plan's slots */
} plan_kept;

/* A launch that computes kept values. The launch is skipped when all wanted values are kept. */
typedef struct plan_spared {
    int step;
    const uint64_t *from;
    int nreads, nwrites;
    const int *value; /* numbers of the values that the launch reads, then of the values that it writes */
    bool out;
    uint32_t groups[3]; /* saved grid of the launch, while the launch is skipped */
} plan_spared;

/* The buffer of an input or state in the last step. Pointers are compared only, never dereferenced. */
typedef struct plan_source {
    const bl_buffer *last;
    uint64_t version;
} plan_source;

/* Values kept between steps. Used on the worker thread only, except |bytes|. */
typedef struct plan_keeps {
    int n, nspared, nsources; /* nsources: number of inputs and states */
    plan_kept *kept;
    plan_spared *spared; /* launches that compute kept values, in the order of the launches */
    plan_source *sources;
    /* bit i: source i is unchanged since the last step; |before|: the value of |same| one step earlier */
    uint64_t *same, *before;
    bool seen;           /* at least one step has run */
    bool settled;        /* the last step had the same sources and the same kept values as the step before it */
    int denied;          /* steps until the plan asks again for memory that was refused; 0: no request was refused */
    atomic_size_t bytes; /* bytes of all kept buffers; any thread reads the field */
} plan_keeps;

struct bl_plan {
    atomic_int refs;
    bl_plan_info info;
    bl_arena *arena; /* arena of all constant data of the plan */
    bl_device *dev;
    const bl_wire_graph *wire; /* copy of the wire graph, for compiling the plan again */
    const bl_wire_var *dims;   /* info.nvars named dimensions; lo and hi in steps */
    int nchecks;
    const bl_index_check *checks; /* the index checks of the graph */
    bl_plan_options options;
    pthread_mutex_t lock;
    bl_plan *better; /* the plan that supersedes this plan, retained; under the lock */
    plan_census census;
    plan_keeps keeps;
    int nsteps;
    step *steps;
    uint32_t (*groups)[3]; /* grid of each launch */
    int nkernels;
    bl_kernel **kernels;
    const plan_work *const *work; /* work of each kernel */
    const bl_launch *launches;
    bool pauses; /* a step may end early: between two parts, or between two slices of a part */
    int nparts;
    part *parts; /* recorded on the worker thread before the first run */
    int nslots;  /* number of slots: inputs, roots, temporaries, packed panels */
    int nroots;
    /* slots of the outputs, then of the updates in the order of the states, then of the index checks */
    const int *root_slot;
    const bl_node *const *slot_count; /* number of elements of each slot; NULL for inputs and unused slots */
    const bl_dtype *slot_dtype;
    const size_t *slot_offset; /* offset of a temporary in the scratch memory, at the largest sizes; SIZE_MAX for other slots */
    const bl_lifetime *lives;  /* lifetime of each slot, at the largest sizes */
    size_t scratch_bytes, alignment;
    bl_buffer *scratch; /* the device's scratch memory, retained; worker thread only, like all fields below */
    size_t laid_bytes;  /* size of the bound layout if the layout was made for the sizes of a run (scratch.c) */
    int64_t *laid_vars; /* the sizes of that run, in steps */
    bl_buffer **slots;
    int nvars;
    int32_t *vars; /* named dimensions, then 0, 1, ... for the steps of loops, then the countdowns */
    int ncountdowns;
    plan_countdown *countdowns;
    bl_text debug;
    bl_text moves;     /* "KEY MOVES" of each nest, one per line */
    int beam;          /* beam width with which all nests of the plan were searched */
    atomic_bool stays; /* the interpreted kernels do not compile, so the interpreter keeps running them */
};

/* compile.c: compile a plan up to its recording; the first run makes the recording. *out has one reference. */
BL_NODISCARD bl_status plan_compile(const bl_wire_graph *wire, bl_device *dev, const bl_plan_options *options, bl_plan **out,
                                    bl_err *err);
void plan_destroy(bl_plan *plan);
/* choose_moves.c: choose and apply the moves of a nest. A |helper|, a nest that packs a panel, gets the moves of the
 * heuristic. */
BL_NODISCARD bl_status plan_tune(bl_tune *tune, const bl_search_nest *nest, const bl_plan_options *options, bl_plan *plan,
                                 bool helper, bl_err *err);
/* Estimated host memory of a plan, including the driver's memory per launch and the values kept between runs. Thread: any. */
size_t plan_host_bytes(const bl_plan *plan);
/* scratch.c: bind the temporaries for the sizes |vars|, counted in steps. */
BL_NODISCARD bl_status plan_bind_scratch(bl_plan *plan, const int64_t *vars, bl_pool *pool, bl_err *err);
void plan_unbind_scratch(bl_plan *plan);
/* Check that kernels of the device can access whole tensors of these sizes. */
BL_NODISCARD bl_status plan_check_bindings(const bl_plan *plan, const int64_t *vars, bl_err *err);
/* join_launches.c */
/* A kernel to join, or the kernel into which several kernels were joined. */
typedef struct plan_piece {
    const char *name;
    bl_lowered *lowered;
    int nparams;
    const int *slot; /* slot of each parameter */
    double seconds;  /* estimated time on one core */
    /* a loop begins or ends before this kernel: the kernel must not share a launch with the kernel before it */
    bool first;
} plan_piece;
/* Join small consecutive kernels where that is faster. |out| and |members| have room for |n| entries. *nout kernels result;
 * members[i] of |pieces| are joined in each, in order. */
BL_NODISCARD bl_status plan_join(bl_ir *ir, const bl_target *target, bool hot, int n, const plan_piece *pieces, plan_piece *out,
                                 int *members, int *nout, bl_err *err);
/* check.c */
/* Fail if an index check of the completed step found an index out of range. |words| has one buffer per check of the plan. */
BL_NODISCARD bl_status plan_check_indices(const bl_plan *plan, bl_buffer *const *words, const int64_t *vars, bl_err *err);
/* kept_values.c */
/* Called before and after the submission of a step whose slots are bound, so that kept values are not computed again. */
void plan_keep_begin(bl_plan *plan, bl_pool *pool);
void plan_keep_end(bl_plan *plan, bool good);
void plan_keep_forget(bl_plan *plan); /* after a failed run: kept values may be half-written */
void plan_keep_fini(bl_plan *plan);
/* service.c */
BL_NODISCARD bl_status plan_census_init(plan_census *census, int nkernels, int nsteps, int nvars, bl_err *err);
void plan_census_fini(plan_census *census);
/* Where the next step's launches write their times if the step is to be timed; else NULL. */
uint64_t *plan_census_begin(bl_plan *plan);
/* did one of the last timed steps take at most |ns|?  Thread: any. */
bool plan_census_is_short(const bl_plan *plan, uint64_t ns);
void plan_census_end(bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns);
void plan_census_wall(bl_plan *plan, uint64_t steps, int64_t ns); /* record the wall time of a run */
/* count.c */
/* Bytes of a buffer if the named dimensions are |vars|; INT64_MAX on overflow. */
int64_t plan_slot_bytes(const bl_plan *plan, int slot, const int64_t *vars);
/* The cost of one launch of a kernel if the named dimensions are |vars|. Allocates in |arena| and frees nothing. */
BL_NODISCARD bl_status plan_count(const bl_plan *plan, const plan_work *work, const int64_t *vars, bl_arena *arena,
                                  plan_counts *out, bl_err *err);
/* plan_count for each kernel of the plan. Without memory, the cost of a kernel is its cost at the largest sizes. */
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
