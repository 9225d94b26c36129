/* Beam search over the moves of one nest, by timing (engine/opt defines the moves, engine/device/trial.h times candidates).
 * The heuristic's choice is the first candidate, and a result must beat the heuristic's choice, timed side by side. The
 * search then tries neighbours of the best candidates (one more move, one move less, another amount) in the order of their
 * static cost, and continues from the best few candidates. A search works on a copy of the nest, so the compilation that
 * asks for the search is unaffected. The search ends at its time limit, after a level that gains less than 1.5 %, after 12
 * levels, and at once for a kernel below 10 microseconds. Thread: any; a search is one call. */
#ifndef BL_SEARCH_H
#define BL_SEARCH_H

#include "engine/device/trial.h"
#include "engine/opt/heuristic.h"

/* A nest of the schedule, and its device. */
typedef struct bl_search_nest {
    const char *name; /* name of the kernel of the nest */
    uint64_t key;     /* bl_kernels_key of the nest if known, else 0 */
    bl_ir *ir;
    const bl_node *sink;
    int nparams;
    const int64_t *elements; /* number of elements of each parameter at the largest sizes */
    uint32_t writes;         /* bit i: the nest stores to parameter i */
    bl_device *dev;
    const bl_target *target;
} bl_search_nest;

/* Progress or result of a search. */
typedef struct bl_search_report {
    const char *name;
    int tried;                      /* number of candidates that were compiled and timed */
    int refused;                    /* number of the tried candidates that did not compile or computed a wrong result */
    uint64_t heuristic_ns, best_ns; /* kernel times, helpers included */
    double seconds;
    int nmoves;
    bl_move moves[BL_MAX_MOVES]; /* the best moves found; the heuristic's moves if no candidate beats them */
} bl_search_report;

typedef struct bl_search_options {
    int width; /* beam width, at least 1 */
    /* time limit: after the limit no batch starts, and a batch that is being timed is dropped. The heuristic's choice is
     * always timed */
    double seconds;
    bl_halt halt; /* checked between candidates and during timing */
    int spec;     /* bl_ir_verify level for each candidate */
    /* Times a batch: bl_trials_run, or a wrapper of bl_children_time. */
    bl_status (*time)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);
    void *time_arg;
    void (*progress)(void *arg, const bl_search_report *report); /* called after each batch; may be NULL */
    void *progress_arg;
} bl_search_options;

/* Search one nest. Fails without a result on BL_ECANCELLED, BL_ETIMEOUT, an error of the timer, or if there is no memory for
 * the trials. */
BL_NODISCARD bl_status bl_search_run(const bl_search_nest *nest, const bl_search_options *options, bl_search_report *report,
                                     bl_err *err);

/* Apply, after the chosen moves, the moves that the device's limits require. False if the device limits the number of
 * iterations per work-item and no move brings the nest below the limit. */
bool bl_search_fit(bl_tune *tune, const bl_device_info *info);
/* The target description of a device. All choices of the compiler follow from the target. */
bl_target bl_search_target(const bl_device_info *info);

#endif
