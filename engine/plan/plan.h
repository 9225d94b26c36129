/* A compiled graph: kernels, memory plan and recording, found by structural key and replayed.
 * bl_plan is counted and immutable but for its recording, which only its device's worker thread touches. */
#ifndef BL_PLAN_PLAN_H
#define BL_PLAN_PLAN_H

#include "engine/device/child.h"
#include "engine/device/pool.h"
#include "engine/front/front.h"
#include "engine/opt/heuristic.h"
#include "engine/search/peaks.h"
#include "engine/search/tuner.h"

typedef struct bl_plan bl_plan;
typedef struct bl_plans bl_plans; /* the cache */

/* Kernels that are wanted soon, to be compiled in one go with a plan's: see bl_plan_gather. */
typedef struct bl_plan_sources {
    int n, capacity;
    bl_kernel_source *at;
} bl_plan_sources;

/* Does its device run a plan in the thread that submits it (info.brief_ns)? */
typedef enum bl_plan_brief { BL_BRIEF_BY_WORK, BL_BRIEF_NO, BL_BRIEF_YES } bl_plan_brief;

typedef struct bl_plan_options {
    int debug;  /* 0 to 7: how much of the compilation is kept as text */
    bool noopt; /* no moves at all */
    bl_matrix_use matrix;
    bl_winograd_use winograd;
    bl_precision precision; /* of float32's products */
    int spec;               /* bl_ir_verify level after every pass */
    size_t max_compile_bytes;
    double max_compile_seconds; /* of the engine's own part; 0: no limit */
    bool program;               /* see bl_front_options */
    bl_training training;       /* what a job asks of its steps */
    bool early;                 /* kernels that are not compiled yet may be interpreted: info.interpreted */
    bool hot;                   /* it runs over and over: compiling it may take longer than a first answer should */
    const bl_tuner *tuner;      /* what is known of kernels, and what searches them; NULL: the heuristic's moves for all */
    const char *only;           /* if not NULL, no other nest than that of this name is searched */
    const char *fixed; /* as bl_plan_get_moves gave it: nests that stand there get those moves, whatever else is known, and no
                          other is searched; NULL: none are */
    int beam;          /* width with which nests are searched that were not yet; 0: none is */
    bl_halt halt;      /* ends the compilation, and a wait for another's: there is no plan then.  The cache sees who else waits */
    void (*progress)(void *arg, const bl_search_report *report); /* of each search; may be NULL */
    void *progress_arg;
    bl_children *children;        /* compile its kernels; NULL: this process does */
    const bl_plan_sources *along; /* compiled with them, where there is anything to compile, and as brief; NULL: none */
    bl_plan_brief brief;          /* of plans whose kernels were compiled along: as those of the other */
} bl_plan_options;

/* A tensor that goes in or out.  bl_plan_sizes evaluates |dim|, in which a named dimension counts steps. */
typedef struct bl_plan_tensor {
    const char *name; /* hidden states only; else NULL: the request knows its own names */
    bl_dtype dtype;
    int ndim;
    const bl_node *const *dim; /* in the plan's memory, as |vars| */
    const struct bl_wire_var *vars;
    int nvars;
    double init; /* hidden states: what every element starts as */
} bl_plan_tensor;

typedef struct bl_plan_info {
    const char *device;
    uint32_t kernels, helpers;
    uint32_t interpreted; /* kernels, helpers included, that the driver has not compiled: see bl_plan_wants_compiling */
    int ninputs, nstates, nhidden, noutputs, nvars;
    const bl_plan_tensor *inputs, *states, *hidden, *outputs;
    const bool *updated;  /* nstates + nhidden: is there a new value */
    const bool *in_place; /* likewise: it is written into the old one, of which a part stays */
    const int64_t *var_lo, *var_hi;
    int64_t ops, bytes; /* one run at the largest sizes: arithmetic on values, and device memory traffic */
    size_t peak_bytes;  /* device memory beyond inputs, states and outputs, at the largest sizes */
    size_t keep_bytes;  /* device memory that it may keep between runs, besides: panels and transforms of weights (keep.c) */
    double estimate_s;  /* rough device time of one run, likewise */
    double compile_ms;  /* whole miss */
    double engine_ms;   /* of that, our own part: wire graph to kernel source */
    const char *debug;  /* text of the levels asked for, or "" */
    bool uses_rng;
    bool brief;
    bool checks_indices; /* a step waits for its checks, and fails if an index is out of range */
    int rows; /* the named dimension that is the first of all inputs and outputs, each row of which depends on that row alone
                 (engine/ir/rows.h); -1: there is none, or it is not proven */
} bl_plan_info;

/* ---- the cache.  Thread: any.  Bounded by count and host memory; the least recently used go first.  Concurrent misses on one
 * key compile once.
 */
bl_plans *bl_plans_create(size_t max_plans, size_t max_bytes);
void bl_plans_destroy(bl_plans *plans);
/* A hit at once: *out retained, or NULL.  Never blocks on a compile.  A plan whose kernels were searched less widely than |beam|
 * is no hit, nor, unless |early|, one of interpreted kernels. */
bl_plan *bl_plans_lookup(bl_plans *plans, const bl_wire_key *key, int beam, bool early);
/* Up to |most| plans that are there, each retained, the last used first; how many. */
size_t bl_plans_list(bl_plans *plans, size_t most, bl_plan **out);
/* Hit, or compile (blocking; for a compile thread).  *hit tells which; a wait for somebody else's compile is a hit.  If
 * the kernels of the cached plan were searched less widely than options->beam, the call searches them, and the new plan
 * supersedes the cached plan; likewise if the cached plan has interpreted kernels and options->early is false.  Until then calls
 * that ask for less get the cached plan.  A compilation ends once options->halt and the halts of all calls that wait for it are
 * set; a search ends once the halt of its own call is set.  Calls that wait for the plan of such a search do not fail: one of
 * them compiles, with the moves found so far. */
BL_NODISCARD bl_status bl_plans_get(bl_plans *plans, const bl_wire_key *key, const bl_wire_graph *graph, bl_device *dev,
                                    const bl_plan_options *options, bl_plan **out, bool *hit, bl_err *err);
/* Add the kernels of |graph|, as a plan made with |options| would have them, to |sources|; their texts are in |arena|.  Kernels
 * that are there stay once. */
BL_NODISCARD bl_status bl_plan_gather(const bl_wire_graph *graph, bl_device *dev, const bl_plan_options *options, bl_arena *arena,
                                      bl_plan_sources *sources, bl_err *err);
void bl_plans_forget(bl_plans *plans, const bl_plan *plan);   /* what it keeps of its operands goes with its last holder */
void bl_plans_forget_device(bl_plans *plans, bl_device *dev); /* after a device was reopened */
size_t bl_plans_count(bl_plans *plans);
size_t bl_plans_waiting(bl_plans *plans); /* calls of bl_plans_get that wait for what another compiles */

bl_plan *bl_plan_retain(bl_plan *plan);
void bl_plan_release(bl_plan *plan);
const bl_plan_info *bl_plan_get_info(const bl_plan *plan);
/* Sizes of a tensor when the named dimensions are |vars|. */
void bl_plan_sizes(const bl_plan_tensor *tensor, const int64_t *vars, int64_t *dim);
double bl_plan_estimate(const bl_plan *plan, const int64_t *vars); /* as info.estimate_s, at these sizes */
/* As info.peak_bytes, at these sizes.  Takes as long as a small run. */
BL_NODISCARD bl_status bl_plan_peak(const bl_plan *plan, const int64_t *vars, size_t *bytes, bl_err *err);

/* ---- in service.  Thread: any.  A step a second is timed, whoever it is for. */
enum { BL_PLAN_RECENT = 15 }; /* of which the times are kept */

typedef struct bl_plan_service {
    uint64_t steps;      /* since it was compiled */
    unsigned samples;    /* of them timed */
    double step_seconds; /* device time of one: the median of the last samples, 0 without any */
    double wall_seconds; /* of one with all launches and waits, on average; 0 before the second run */
} bl_plan_service;

typedef struct bl_kernel_use {
    const char *name, *moves; /* in the plan's memory */
    uint64_t key;             /* of its nest, a helper's too (bl_kernels_key); 0 where several were joined */
    bool helper;
    int number;                    /* in the plan */
    int kernels;                   /* of the scheduler, helpers included, that it does: several where they were joined */
    int launches;                  /* in a step */
    int64_t ops, bytes;            /* of a launch, at the largest sizes */
    double seconds;                /* device time of all launches of a step: the mean of the samples, 0 without any */
    double timed_ops, timed_bytes; /* of a launch, at the sizes of these: likewise */
} bl_kernel_use;

bl_plan_service bl_plan_get_service(const bl_plan *plan);
/* The shortest of the last |last| timed steps, of at most BL_PLAN_RECENT: whatever else the machine does only adds to one.  0
 * without any. */
double bl_plan_least_seconds(const bl_plan *plan, unsigned last);
int bl_plan_list_kernels(const bl_plan *plan, int most, bl_kernel_use *out); /* how many */
/* From now on |better|, which computes the same, takes the place of |plan|, and of what did so before, for whoever asks
 * bl_plan_current; NULL takes that back.  Runs that have begun keep what they have. */
void bl_plan_supersede(bl_plan *plan, bl_plan *better);
bl_plan *bl_plan_current(bl_plan *plan); /* retained */
/* Compile what |plan| was made of once more, with |options|' choice of moves. */
BL_NODISCARD bl_status bl_plan_remake(const bl_plan *plan, const bl_plan_options *options, bl_plan **out, bl_err *err);
/* Has a plan of interpreted kernels been run more than once?  Then the caller remakes the plan without options.early, and calls
 * bl_plan_supersede, or bl_plan_stay if the kernels do not compile. */
bool bl_plan_wants_compiling(const bl_plan *plan);
void bl_plan_stay(bl_plan *plan);
BL_NODISCARD bl_status bl_plan_gather_again(const bl_plan *plan, const bl_plan_options *options, bl_arena *arena,
                                            bl_plan_sources *sources, bl_err *err); /* bl_plan_gather of what it was made of */
bool bl_plan_same_moves(const bl_plan *plan, const bl_plan *other); /* of two plans of one graph: the same kernels */
const bl_plan_options *bl_plan_get_options(const bl_plan *plan);
/* The moves of each nest, a line each, for options.fixed: what is made so of the same graph computes the same bits, on the same
 * device and driver.  Of helpers it has none: theirs follow from the nest's. */
const char *bl_plan_get_moves(const bl_plan *plan);

/* ---- explained */

typedef struct bl_plan_detail_kernel {
    const char *name, *moves;
    const char *nest, *source; /* the loop nest before its moves, as DEBUG=5 prints it; what the driver compiles */
    uint64_t key;              /* of its nest; 0 where several were joined */
    bool helper;
    int nnodes, *nodes; /* of the wire graph, of which the kernel computes some part */
} bl_plan_detail_kernel;

typedef struct bl_plan_detail_value {
    bl_dtype dtype;
    int ndim;
    const char **dim; /* "3", or "2 * batch" */
} bl_plan_detail_value;

/* A temporary: launches from |first| to |last| need it. */
typedef struct bl_plan_detail_buffer {
    size_t bytes;
    int first, last;
} bl_plan_detail_buffer;

typedef struct bl_plan_detail {
    int nkernels, nbuffers;
    bl_plan_detail_kernel *kernels; /* by their number (bl_kernel_use) */
    bl_plan_detail_value *values;   /* the first result of each node of the wire graph */
    bl_plan_detail_buffer *buffers;
    bool truncated; /* there was too much to tell */
} bl_plan_detail;

/* How |plan| computes |wire|, a graph of the same key: by another compilation up to the source of its kernels, which takes as
 * long as info.engine_ms and is bounded as the plan's own; for a compile thread.  All is in |arena|. */
BL_NODISCARD bl_status bl_plan_explain(const bl_plan *plan, const bl_wire_graph *wire, const bl_halt *halt, bl_arena *arena,
                                       bl_plan_detail *out, bl_err *err);

/* ---- running.  Only on the device's worker thread. */
typedef struct bl_run {
    bl_plan *plan;
    bl_pool *pool;
    const int64_t *vars;      /* nvars */
    bl_buffer *const *inputs; /* ninputs, borrowed until the call returns */
    bl_buffer *
        *states;         /* nstates + nhidden, owned by the caller; each updated one is exchanged for its new buffer (from
                            |pool|; the old one goes back there) only when all steps asked for, or those before a failure, are whole */
    int holders;         /* references to each state that are for this run alone; 0: one.  Of a state that others have nothing
                            is written in place */
    bool torn;           /* what is written in place is as good where a step ends between two of its parts, or fails: no state is
                            copied or lost for that */
    bl_buffer **outputs; /* noutputs, filled from |pool| with those of the last step; the caller releases them there */
    uint64_t steps;      /* at least 1 */
    const atomic_bool *cancel; /* looked at between launches' flushes; may be NULL */
    int64_t deadline_ns;       /* bl_clock_ns after which it is BL_ETIMEOUT; 0: none */
    bool (*yield)(void *arg);  /* asked when a step is submitted and when it is over: true ends the run there, with BL_OK and
                                  |steps_done|; may be NULL */
    void *yield_arg;
    /* Called for every |every|-th step with that step's outputs, in order, or NULL; small outputs are kept until the device has
     * done some steps more, which a failure of the call then does not undo.  Runs on this thread. */
    uint64_t every;
    bl_status (*collect)(void *arg, uint64_t step, bl_buffer *const *outputs, bl_err *err);
    void *collect_arg;
    bool timed;          /* fill |launch_ns| */
    uint64_t *launch_ns; /* of each launch of a step (info.kernels + info.helpers), sums over the steps; may be NULL */
    uint64_t steps_done; /* out */
} bl_run;

/* BL_EINDEX: an index of the step was out of range (info.checks_indices); the steps before it are whole.
 * A state that is written in place is lost (bl_buffer_lose) where the step that failed had begun; of all others those before that
 * step are whole. */
BL_NODISCARD bl_status bl_plan_run(bl_run *run, bl_err *err);
/* The same in two halves, for one step: in between other plans, and this one again, may be submitted or run.  run->outputs are
 * there after the first, and hold what they should after the second, for which |run| is filled in as before; |submit_ns| is what
 * the first took.  After a failure of either there are none.  Only
 * where bl_plan_may_fly (any thread): the plan changes no state, and its last steps were short.  bl_plan_is_due: the next step is
 * to be timed, which bl_plan_run does. */
bool bl_plan_may_fly(const bl_plan *plan);
bool bl_plan_is_due(const bl_plan *plan);
BL_NODISCARD bl_status bl_plan_submit(bl_run *run, bl_err *err);
BL_NODISCARD bl_status bl_plan_finish(bl_run *run, int64_t submit_ns, bl_err *err);
/* One line a kernel as DEBUG=2 prints it: name, time, GFLOP/s, GB/s, and with peaks which share of one that is.  |vars| and
 * |launch_ns| are those of the run. */
void bl_plan_report(const bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns, uint64_t steps, const bl_peaks *peaks,
                    bl_text *out);

#endif
