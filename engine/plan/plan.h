/* A plan: a compiled graph with its kernels, memory plan and recorded launches. The cache keys plans by the structural key
 * of the graph. A bl_plan is reference-counted. A plan is immutable except for its recording, which only the worker thread
 * of its device uses. */
#ifndef BL_PLAN_H
#define BL_PLAN_H

#include "engine/device/child.h"
#include "engine/device/pool.h"
#include "engine/front/front.h"
#include "engine/opt/heuristic.h"
#include "engine/search/peaks.h"
#include "engine/search/tuner.h"

typedef struct bl_plan bl_plan;
typedef struct bl_plans bl_plans; /* the cache of plans */

/* Kernels to be compiled together with a plan's kernels (bl_plan_gather). */
typedef struct bl_plan_sources {
    int n, capacity;
    bl_kernel_source *at;
} bl_plan_sources;

typedef struct bl_plan_options {
    int debug;  /* debug level, 0 to 7: how much of the compilation is recorded as text */
    bool noopt; /* apply no moves */
    bl_matrix_use matrix;
    bl_winograd_use winograd;
    bl_precision precision; /* precision of products of float32 */
    int spec;               /* bl_ir_verify level after every pass */
    size_t max_compile_bytes;
    double max_compile_seconds; /* time of the engine itself, without the driver; 0: no limit */
    bool program;               /* see bl_front_options */
    bl_training training;       /* how a training job changes the steps of the graph */
    bool early;                 /* the interpreter may run kernels that are not compiled yet: see info.interpreted */
    bool hot;                   /* the plan will run many times: compilation may take longer than for a first answer */
    const bl_tuner *tuner;      /* the kernel database and the search; NULL: use the heuristic's moves */
    const char *only;           /* if not NULL, only the nest of this name is searched */
    /* moves in the form of bl_plan_get_moves. A nest in that list gets these moves, and no other nest is searched; NULL: no
     * list */
    const char *fixed;
    int beam;     /* beam width with which nests are searched, unless a search of at least this width is known; 0: no search */
    bl_halt halt; /* ends the compilation, or the wait for another compilation, without a plan. The cache sets the audience */
    void (*progress)(void *arg, const bl_search_report *report); /* called during each search; may be NULL */
    void *progress_arg;
    bl_children *children; /* child processes that compile the kernels; NULL: this process compiles them */
    /* kernels of other plans to compile together with the plan's own kernels, if the plan has kernels to compile; NULL:
     * none */
    const bl_plan_sources *along;
} bl_plan_options;

/* An input, output or state of a plan. bl_plan_sizes evaluates |dim|, in which a named dimension counts in steps. */
typedef struct bl_plan_tensor {
    const char *name; /* name of a hidden state; otherwise NULL: the request has the names */
    bl_dtype dtype;
    int ndim;
    const bl_node *const *dim; /* in the memory of the plan, like |vars| */
    const struct bl_wire_var *vars;
    int nvars;
    double init; /* for a hidden state: initial value of every element */
} bl_plan_tensor;

typedef struct bl_plan_info {
    const char *device;
    uint32_t kernels, helpers;
    uint32_t interpreted; /* number of kernels, helpers included, that the driver has not compiled: see bl_plan_wants_compiling */
    int ninputs, nstates, nhidden, noutputs, nvars;
    const bl_plan_tensor *inputs, *states, *hidden, *outputs;
    const bool *updated;  /* nstates + nhidden entries: does a run compute a new value of the state? */
    const bool *in_place; /* nstates + nhidden entries: is the new value written into the old buffer (in-place update)? */
    const int64_t *var_lo, *var_hi;
    /* cost of one run at the largest sizes: arithmetic operations on values, and bytes of device memory traffic */
    int64_t ops, bytes;
    size_t peak_bytes; /* bytes of device memory besides inputs, states and outputs, at the largest sizes */
    /* further device memory that the plan may keep between runs: packed panels and transforms of weights (kept_values.c) */
    size_t keep_bytes;
    double estimate_s; /* rough device time of one run at the largest sizes */
    double compile_ms; /* time of the whole compilation */
    double engine_ms;  /* time of the engine alone, without the driver: from the wire graph to the source of the kernels */
    const char *debug; /* text of the requested debug levels; "": none */
    bool uses_rng;
    bool brief;          /* the submitting thread alone runs the plan: see bl_submission */
    bool checks_indices; /* a step waits for its index checks, and fails if an index is out of range */
    /* the named dimension that is the first axis of all inputs and outputs, if each row of the outputs depends only on the same
     * row of the inputs (engine/ir/row_axis.h); -1 if there is none or no proof. Runs of such a plan can be batched */
    int rows;
} bl_plan_info;

/* ---- the plan cache.  Thread: any. Limited by count and by host memory, with LRU eviction. Concurrent misses on one key
 * share one compilation. */
bl_plans *bl_plans_create(size_t max_plans, size_t max_bytes);
void bl_plans_destroy(bl_plans *plans);
/* Look up a plan without waiting for a compilation. Returns the plan, retained, or NULL. A plan whose kernels were searched
 * with a smaller width than |beam| is a miss. A plan with interpreted kernels is a miss unless |early|. */
bl_plan *bl_plans_lookup(bl_plans *plans, const bl_wire_key *key, int beam, bool early);
/* Store up to |most| plans of the cache in |out|, retained, most recently used first. Returns their number. */
size_t bl_plans_list(bl_plans *plans, size_t most, bl_plan **out);
/* Look up a plan, or compile it. Blocks while it compiles: call it on a compile thread. *hit is true if the plan was cached or
 * another call compiled it.
 * If the kernels of the cached plan were searched less widely than options->beam, the call searches them, and the new plan
 * supersedes the cached plan; likewise if the cached plan has interpreted kernels and options->early is false. Until then calls
 * that ask for less get the cached plan.
 * A compilation ends once options->halt and the halts of all calls that wait for it are set. A search ends once the halt of its
 * own call is set; calls that wait for its plan do not fail: one of them compiles, with the moves found so far. */
BL_NODISCARD bl_status bl_plans_get(bl_plans *plans, const bl_wire_key *key, const bl_wire_graph *graph, bl_device *dev,
                                    const bl_plan_options *options, bl_plan **out, bool *hit, bl_err *err);
/* Add the kernels of |graph|, compiled with |options|, to |sources|. Their texts are in |arena|. A kernel that |sources| has
 * already is not added again. */
BL_NODISCARD bl_status bl_plan_gather(const bl_wire_graph *graph, bl_device *dev, const bl_plan_options *options, bl_arena *arena,
                                      bl_plan_sources *sources, bl_err *err);
void bl_plans_forget(
    bl_plans *plans,
    const bl_plan *plan); /* drop the plan from the cache; the values it keeps between runs are freed with its last reference */
void bl_plans_forget_device(bl_plans *plans, bl_device *dev); /* drop the plans of a device after the device was reopened */
size_t bl_plans_count(bl_plans *plans);
size_t bl_plans_waiting(bl_plans *plans); /* number of bl_plans_get calls that wait for another call's compilation */

bl_plan *bl_plan_retain(bl_plan *plan);
void bl_plan_release(bl_plan *plan);
const bl_plan_info *bl_plan_get_info(const bl_plan *plan);
/* The sizes of a tensor if the named dimensions are |vars|. */
void bl_plan_sizes(const bl_plan_tensor *tensor, const int64_t *vars, int64_t *dim);
double bl_plan_estimate(const bl_plan *plan, const int64_t *vars); /* info.estimate_s at the sizes |vars| */
/* info.peak_bytes at the sizes |vars|. A call takes as long as a small run. */
BL_NODISCARD bl_status bl_plan_peak(const bl_plan *plan, const int64_t *vars, size_t *bytes, bl_err *err);

/* ---- timing in service.  Thread: any. One step per second is timed, whichever run it belongs to. */
enum { BL_PLAN_RECENT = 15 }; /* number of timed steps whose times are kept */

typedef struct bl_plan_service {
    uint64_t steps;      /* number of steps since the plan was compiled */
    unsigned samples;    /* number of timed steps */
    double step_seconds; /* device time of one step: the median of the kept times; 0 without samples */
    double wall_seconds; /* mean wall time of one step with all launches and waits; 0 before the second run */
} bl_plan_service;

typedef struct bl_kernel_use {
    const char *name, *moves; /* in the memory of the plan */
    uint64_t key;             /* hash of the kernel's nest (bl_kernels_key), for a helper too; 0 if several nests were joined */
    bool helper;
    int number; /* number of the kernel in the plan */
    /* number of the scheduler's kernels and helpers in this kernel; more than one if kernels were joined */
    int kernels;
    int launches;       /* number of launches per step */
    int64_t ops, bytes; /* cost of one launch at the largest sizes */
    /* device time of all launches of the kernel in a step: the mean over the samples; 0 without samples */
    double seconds;
    double timed_ops, timed_bytes; /* cost of one launch at the sizes of the samples: the mean */
} bl_kernel_use;

bl_plan_service bl_plan_get_service(const bl_plan *plan);
/* The shortest time of the last |last| timed steps (at most BL_PLAN_RECENT). Other load on the machine only lengthens a
 * step, so the shortest time is the least disturbed. 0 without samples. */
double bl_plan_least_seconds(const bl_plan *plan, unsigned last);
int bl_plan_list_kernels(const bl_plan *plan, int most, bl_kernel_use *out); /* returns the number of kernels */
/* Let |better|, which computes the same results, replace |plan| and all plans that |plan| superseded: bl_plan_current then
 * returns |better|. NULL undoes the replacement. Runs that have begun keep their plan. */
void bl_plan_supersede(bl_plan *plan, bl_plan *better);
bl_plan *bl_plan_current(bl_plan *plan); /* the plan that supersedes |plan|, or |plan|; retained */
/* Compile the graph of |plan| again, with the moves that |options| choose. */
BL_NODISCARD bl_status bl_plan_remake(const bl_plan *plan, const bl_plan_options *options, bl_plan **out, bl_err *err);
/* Does a plan have interpreted kernels, and has it run more than once? The caller then remakes the plan without options.early
 * and calls bl_plan_supersede, or bl_plan_stay if the kernels do not compile. */
bool bl_plan_wants_compiling(const bl_plan *plan);
void bl_plan_stay(bl_plan *plan);
BL_NODISCARD bl_status bl_plan_gather_again(const bl_plan *plan, const bl_plan_options *options, bl_arena *arena,
                                            bl_plan_sources *sources, bl_err *err); /* bl_plan_gather for the graph of |plan| */
bool bl_plan_same_moves(const bl_plan *plan, const bl_plan *other); /* do two plans of one graph have the same kernels? */
const bl_plan_options *bl_plan_get_options(const bl_plan *plan);
/* The moves of each nest, a line each, for options.fixed. A plan that is made with these moves from the same graph computes the
 * same bits on the same device and driver. Helpers have no lines: their kernels follow from the nest's moves. */
const char *bl_plan_get_moves(const bl_plan *plan);

/* ---- explanation of a plan */

typedef struct bl_plan_detail_kernel {
    const char *name, *moves;
    const char *nest, *source; /* the loop nest before its moves, as DEBUG=5 prints it; the text that the driver compiles */
    uint64_t key;              /* hash of the kernel's nest; 0 if several nests were joined */
    bool helper;
    int nnodes, *nodes; /* nodes of the wire graph that the kernel computes in whole or in part */
} bl_plan_detail_kernel;

typedef struct bl_plan_detail_value {
    bl_dtype dtype;
    int ndim;
    const char **dim; /* extents as text: "3" or "2 * batch" */
} bl_plan_detail_value;

/* A temporary; it is live from launch |first| to launch |last|. */
typedef struct bl_plan_detail_buffer {
    size_t bytes;
    int first, last;
} bl_plan_detail_buffer;

typedef struct bl_plan_detail {
    int nkernels, nbuffers;
    bl_plan_detail_kernel *kernels; /* indexed by bl_kernel_use.number */
    bl_plan_detail_value *values;   /* the first result of each node of the wire graph */
    bl_plan_detail_buffer *buffers;
    bool truncated; /* some of the details did not fit */
} bl_plan_detail;

/* Explain how |plan| computes |wire|, a graph of the same key. Compiles the graph again up to the source of the kernels: takes
 * as long as info.engine_ms and has the limits of the plan's own compilation. Call it on a compile thread. The result is in
 * |arena|. */
BL_NODISCARD bl_status bl_plan_explain(const bl_plan *plan, const bl_wire_graph *wire, const bl_halt *halt, bl_arena *arena,
                                       bl_plan_detail *out, bl_err *err);

/* ---- running a plan.  Thread: the worker thread of the device. */
typedef struct bl_run {
    bl_plan *plan;
    bl_pool *pool;
    const int64_t *vars;      /* info.nvars sizes of the named dimensions */
    bl_buffer *const *inputs; /* info.ninputs buffers, borrowed until the call returns */
    /* info.nstates + info.nhidden buffers, owned by the caller. An updated state is replaced by a new buffer from |pool|, and
     * the old buffer is released to |pool|, when all steps are complete, or all steps before a failed step */
    bl_buffer **states;
    /* number of references to each state that this run may overwrite; 0 means one. A state with no further reference is updated
     * in place */
    int holders;
    /* the caller accepts a state that was half updated in place because a step ended between two of its parts or failed. The
     * run then copies no state and loses no state for that reason */
    bool torn;
    bl_buffer **outputs; /* info.noutputs buffers from |pool|, filled by the last step. The caller releases them to |pool| */
    uint64_t steps;      /* at least 1 */
    const atomic_bool *cancel; /* checked between parts; may be NULL */
    int64_t deadline_ns;       /* time on bl_clock_ns after which the run fails with BL_ETIMEOUT; 0: no deadline */
    /* called after a step is submitted and after it is complete: true ends the run there with BL_OK and |steps_done|; may be
     * NULL */
    bool (*yield)(void *arg);
    void *yield_arg;
    /* Called after every |every|-th step with the outputs of that step, in order; may be NULL. Small outputs may be
     * delivered a few steps late; a failure of the call does not undo these steps. Runs on the worker thread. */
    uint64_t every;
    bl_status (*collect)(void *arg, uint64_t step, bl_buffer *const *outputs, bl_err *err);
    void *collect_arg;
    bool timed; /* fill |launch_ns| */
    /* device time of each launch of a step (info.kernels + info.helpers entries), summed over the steps; may be NULL */
    uint64_t *launch_ns;
    uint64_t steps_done; /* result: number of steps that are complete */
} bl_run;

/* Run a plan. BL_EINDEX: an index was out of range in some step (info.checks_indices); the steps before it are complete. If a
 * step that had begun fails, a state that is updated in place is lost (bl_buffer_lose); all other states have their values from
 * before that step. */
BL_NODISCARD bl_status bl_plan_run(bl_run *run, bl_err *err);
/* Asynchronous execution: bl_plan_run in two halves, for one step. Between the halves, other runs of this plan or of other
 * plans may be submitted. bl_plan_submit fills run->outputs. The contents of the outputs are complete after bl_plan_finish,
 * which takes the same |run| and the time |submit_ns| that the submission took. After a failure of either half there are no
 * outputs. Allowed only if bl_plan_may_overlap (any thread): the plan updates no state, checks no indices, and its last steps
 * were short. bl_plan_is_due: the next step must be timed, and only bl_plan_run times steps. */
bool bl_plan_may_overlap(const bl_plan *plan);
bool bl_plan_is_due(const bl_plan *plan);
BL_NODISCARD bl_status bl_plan_submit(bl_run *run, bl_err *err);
BL_NODISCARD bl_status bl_plan_finish(bl_run *run, int64_t submit_ns, bl_err *err);
/* Append one line per kernel, as DEBUG=2 prints the line: name, time, GFLOP/s, GB/s, and with |peaks| the share of the
 * device's peak. |vars| and |launch_ns| are the sizes and times of the run. */
void bl_plan_report(const bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns, uint64_t steps, const bl_peaks *peaks,
                    bl_text *out);

#endif
