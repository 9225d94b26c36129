/* Declarations shared by the files of engine/search. */
#ifndef BL_SEARCH_INTERNAL_H
#define BL_SEARCH_INTERNAL_H

#include "engine/lower/lower.h"
#include "engine/search/search.h"

enum {
    /* number of trials per batch: several kernels compiled at once cost a driver less (PoCL: 46 ms each for 150) */
    BATCH = 16,
    MOST_VARS = 96,
    MOST_LOADS = 128,
    MOST_MOVE_SIZES = 40,
    MOST_VARIANTS = 512 /* most variants of one candidate */
};

/* The nest to search, and the data of the nest that every candidate needs. */
typedef struct subject {
    const bl_search_nest *nest;
    bl_nodes nodes;                          /* nodes of the nest, sources first */
    int64_t vars[MOST_VARS];                 /* named dimensions and step numbers of loops, at their largest values */
    bl_trial_buffer buffer[BL_MAX_BINDINGS]; /* one buffer for each parameter */
    int spec;
} subject;

/* A list of moves. If a move of the list is dropped or changed, the later moves keep their meaning, since the names of axes,
 * operands and stores do not depend on other moves. */
typedef struct steps {
    int n;
    bl_move at[BL_MAX_MOVES];
} steps;

/* The static cost of a candidate, counted without a driver. */
typedef struct measure {
    double issue;         /* vector instructions that one core issues */
    int64_t accumulators; /* largest number of accumulator registers that are live at once */
    int64_t instructions; /* instructions in the text of all kernels */
    int64_t groups;
    int64_t local; /* bytes of local memory of a group */
    int64_t panel; /* bytes of packed panels that one group reads */
} measure;

/* A candidate: one schedule of the nest, rendered and ready to be timed. */
typedef struct candidate {
    steps steps;
    int nmoves; /* the moves as applied, including the moves that the device's limits require */
    bl_move moves[BL_MAX_MOVES];
    bl_ir *ir;
    int npanels;
    bl_trial_buffer panel[BL_MAX_HELPERS];
    bl_trial trial;
    measure measure;
    uint64_t hash;          /* hash of the texts of the kernels and of their launches */
    double expected, ratio; /* time relative to the heuristic's choice: predicted, and measured */
    int family;             /* the kind of change that made the candidate from its parent */
    bool expanded;
} candidate;

/* ---- candidate.c */
/* Describe the nest. False if the nest cannot be searched: the nest is empty, or the device has no room for two copies of
 * its buffers. */
bool subject_init(subject *s, const bl_search_nest *nest, int spec);
/* Make the nest, without moves, in the new |ir|. False without memory. */
bool subject_tune(const subject *s, bl_ir *ir, bl_tune *tune);
/* Apply all steps. False if a step is not legal. */
bool steps_apply(bl_tune *tune, const steps *what);
/* Apply |what| and render the kernels. |what| NULL: apply the heuristic's choice for |target|. NULL if a move is not legal or
 * the device does not support the kernel. |err|, which may be NULL, is set to BL_EBUG if legal moves led to an invalid nest. */
candidate *candidate_make(const subject *s, const steps *what, const bl_target *target, bl_err *err);
void candidate_destroy(candidate *c); /* accepts NULL */
/* Free the kernels of a candidate that will not be timed again. The candidate keeps its moves. */
void candidate_strip(candidate *c);

/* ---- space.c: the lists of moves that are one change away from |from|. Returns the number of lists, at most |most|. */
int space_variants(const subject *s, const steps *from, int most, steps *out);

/* ---- measure.c */
/* Add the cost of one launch of |lowered|. If |tune| is the nest itself rather than a helper, add its packed panels too. */
bool measure_add(measure *m, const subject *s, bl_tune *tune, const bl_lowered *lowered);
/* Is the candidate predicted to be so much slower than the heuristic's choice, whose cost is |first|, that it is not worth
 * compiling? */
bool measure_is_hopeless(const measure *m, const measure *first, const bl_target *target);

#endif
