/* BEAM: the moves of one nest, chosen by timing (engine/opt says what moves are, engine/device/trial.h how they are timed).
 *
 * The heuristic's choice is the first candidate and is never lost: what is found must beat it, timed side by side.  From there on
 * a candidate's neighbours (a move more, a move less, another amount) are tried, those that a count of their instructions
 * favours first, and the best few are the next to be varied.  A search works on a copy of the nest and leaves the compilation
 * that asks for it alone.  Thread: any; a search is one call. */
#ifndef BL_SEARCH_SEARCH_H
#define BL_SEARCH_SEARCH_H

#include "engine/device/trial.h"
#include "engine/opt/heuristic.h"

/* A nest of the scheduler, and what it is to run on. */
typedef struct bl_search_nest {
    const char *name; /* of its kernel */
    uint64_t key;     /* bl_kernels_key, where it is known; else 0 */
    bl_ir *ir;
    const bl_node *sink;
    int nparams;
    const int64_t *elements; /* of each parameter at the largest sizes */
    uint32_t writes;         /* bit i: parameter i is stored to */
    bl_device *dev;
    const bl_target *target;
} bl_search_nest;

/* How far a search has come, or what came of it. */
typedef struct bl_search_report {
    const char *name;
    int tried;                      /* candidates that were compiled and timed */
    int refused;                    /* of these: did not compile, or computed something else */
    uint64_t heuristic_ns, best_ns; /* helpers included */
    double seconds;
    int nmoves;
    bl_move moves[BL_MAX_MOVES]; /* the best ones: the heuristic's where nothing beats them */
} bl_search_report;

typedef struct bl_search_options {
    int width;      /* of the beam, at least 1 */
    double seconds; /* after which no batch is begun, and one that is timed is given up; but the heuristic's choice is timed
                       always */
    bl_halt halt;   /* looked at between candidates, and by who times them */
    int spec;       /* bl_ir_verify level of each candidate */
    /* Time a batch: bl_trials_run, or bl_children_time around it. */
    bl_status (*time)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);
    void *time_arg;
    void (*progress)(void *arg, const bl_search_report *report); /* after each batch; may be NULL */
    void *progress_arg;
} bl_search_options;

/* BL_ECANCELLED, BL_ETIMEOUT or the timer's own failure end a search without a result; so does a nest that has no memory for its
 * trials. */
BL_NODISCARD bl_status bl_search_run(const bl_search_nest *nest, const bl_search_options *options, bl_search_report *report,
                                     bl_err *err);

/* After the moves that were chosen: those that the device's bounds ask for.  False where it ends loops after fewer turns than
 * this nest can be brought to take. */
bool bl_search_fit(bl_tune *tune, const bl_device_info *info);
/* What the choices follow from. */
bl_target bl_search_target(const bl_device_info *info);

#endif
