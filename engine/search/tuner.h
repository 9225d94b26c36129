/* Which moves a nest gets: those that a search found, on this machine or another, or else the heuristic's.  One for all
 * compilations; everything in it is shared.  Thread: any. */
#ifndef BL_SEARCH_TUNER_H
#define BL_SEARCH_TUNER_H

#include "engine/search/kernels.h"
#include "engine/search/search.h"

typedef struct bl_tuner {
    bl_kernels *kernels; /* NULL: nothing is known, and nothing kept */
    /* As bl_search_options.time; NULL: no search is ever made. */
    bl_status (*time)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);
    void *time_arg;
    double seconds; /* for each kernel */
} bl_tuner;

/* What a search is asked for. */
typedef struct bl_tuner_request {
    int width;    /* of the beam; 0: what is known will do */
    bl_halt halt; /* ends a search without a result */
    int spec;
    void (*progress)(void *arg, const bl_search_report *report);
    void *progress_arg;
} bl_tuner_request;

typedef enum bl_tuned {
    BL_TUNED_NOT,      /* nothing is known: the heuristic's moves */
    BL_TUNED_KNOWN,    /* from the database */
    BL_TUNED_SEARCHED, /* just now */
    BL_TUNED_FAILED    /* a search was wanted and came to nothing; what is known, if anything, is in the record */
} bl_tuned;

/* The moves for a nest.  It is searched, and the result kept, where nothing as wide as |request| asks is known. */
bl_tuned bl_tuner_find(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                       bl_kernel_record *record);
/* Search a nest, whatever is known of it, and keep the result. */
BL_NODISCARD bl_status bl_tuner_search(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                                       bl_kernel_record *record, bl_err *err);

#endif
