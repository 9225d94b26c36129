/* The tuner chooses the moves of a nest: a search result from the kernel database, the result of a new search, or the choice
 * of the heuristic. One tuner serves all compilations. Thread: any. */
#ifndef BL_SEARCH_TUNER_H
#define BL_SEARCH_TUNER_H

#include "engine/search/kernel_store.h"
#include "engine/search/search.h"

typedef struct bl_tuner {
    bl_kernels *kernels; /* NULL: the tuner looks up no results and stores no results */
    /* As bl_search_options.time; NULL: never search. */
    bl_status (*time)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);
    void *time_arg;
    double seconds; /* time limit of a search */
} bl_tuner;

/* The request of a compilation to the tuner. */
typedef struct bl_tuner_request {
    int width;    /* beam width; 0: do not search */
    bl_halt halt; /* ends a search without a result */
    int spec;
    void (*progress)(void *arg, const bl_search_report *report);
    void *progress_arg;
} bl_tuner_request;

typedef enum bl_tuned {
    BL_TUNED_NOT,      /* no result is known: use the heuristic's moves */
    BL_TUNED_KNOWN,    /* found in the database */
    BL_TUNED_SEARCHED, /* searched by this call */
    BL_TUNED_FAILED    /* a search failed; the record has the known moves, if any */
} bl_tuned;

/* Find the moves for a nest. If no search of the requested width is known, the nest is searched and the result is stored. */
bl_tuned bl_tuner_find(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                       bl_kernel_record *record);
/* Search a nest, even if a result is known, and store the result. */
BL_NODISCARD bl_status bl_tuner_search(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                                       bl_kernel_record *record, bl_err *err);

#endif
