/* Between the files of the search. */
#ifndef BL_SEARCH_INTERNAL_H
#define BL_SEARCH_INTERNAL_H

#include "engine/lower/lower.h"
#include "engine/search/search.h"

enum {
    BATCH = 16, /* trials at once: what a driver compiles cheaper together (PoCL: 46 ms each for 150) */
    MOST_VARS = 96,
    MOST_LOADS = 128,
    MOST_AMOUNTS = 40,
    MOST_VARIANTS = 512 /* of one candidate */
};

/* What is searched, in a form that each candidate begins from. */
typedef struct subject {
    const bl_search_nest *nest;
    bl_nodes nodes;                          /* of the nest, sources first */
    int64_t vars[MOST_VARS];                 /* named dimensions and steps of loops, at their largest */
    bl_trial_buffer buffer[BL_MAX_BINDINGS]; /* of each parameter */
    int spec;
} subject;

/* A move by what it splits.  Every move renumbers the axes, but what an axis is part of stays: so a move can be left out of a
 * list, or changed, and those behind it still mean the same. */
typedef struct step {
    bl_move_kind kind;
    int origin; /* bl_axis_origin; of EDGES and PACK: the parameter that the operand reads; of STREAM: that it writes */
    int part;   /* which part of that, outermost first; which of the operands that read it */
    int64_t amount;
} step;

typedef struct steps {
    int n;
    step at[BL_MAX_MOVES];
} steps;

/* What a candidate would ask of the device, counted without a compiler. */
typedef struct measure {
    double issue;         /* vector instructions that one core is given */
    int64_t accumulators; /* registers that hold sums, at the most at once */
    int64_t instructions; /* of all kernels' text */
    int64_t groups;
    int64_t local; /* bytes of local memory that a group takes */
    int64_t panel; /* bytes of panels that one group reads */
} measure;

/* One way to compute the nest, ready to be timed. */
typedef struct candidate {
    steps steps;
    int nmoves; /* as applied, with those that the device's bounds ask for */
    bl_move moves[BL_MAX_MOVES];
    bl_ir *ir;
    int npanels;
    bl_trial_buffer panel[BL_MAX_HELPERS];
    bl_trial trial;
    measure measure;
    uint64_t hash;          /* of the kernels' text and how they are launched */
    double expected, ratio; /* time by that of the heuristic's choice: before and after it was measured */
    int family;             /* of changes from its parent */
    bool expanded;
} candidate;

/* ---- candidate.c */
/* False where the nest cannot be tried: nothing is in it, or its buffers are larger than the device has room for twice. */
bool subject_init(subject *s, const bl_search_nest *nest, int spec);
/* The nest before any move, in an ir of its own.  False without memory. */
bool subject_tune(const subject *s, bl_ir *ir, bl_tune *tune);
/* The axis of |tune| that a step splits, or the operand that it is for; -1: there is none. */
int step_axis(bl_tune *tune, const step *s);
step step_of(bl_tune *tune, bl_move move); /* the other way */
step step_of_operand(bl_tune *tune, bl_move_kind kind, int operand);
step step_of_store(const bl_tune *tune, int number);
/* False where a step is not legal here. */
bool steps_apply(bl_tune *tune, const steps *what);
/* Apply |what|, or, where it is NULL, the heuristic's choice for |target|, and render the kernels.  NULL where a move is not
 * legal, or this device cannot have the kernel; then |err|, which may be NULL, is BL_EBUG where moves that were legal led to
 * something that is against the compiler's own rules. */
candidate *candidate_make(const subject *s, const steps *what, const bl_target *target, bl_err *err);
void candidate_destroy(candidate *c); /* accepts NULL */
/* Its kernels can no longer be timed: the memory goes, the moves stay. */
void candidate_strip(candidate *c);

/* ---- space.c: the lists of moves one change away from |from|; how many, at most |most|. */
int space_variants(const subject *s, const steps *from, int most, steps *out);

/* ---- measure.c */
/* Add what one launch asks; the panels of |tune| where it is the nest itself and not a helper. */
bool measure_add(measure *m, const subject *s, bl_tune *tune, const bl_lowered *lowered);
/* Is this not worth a compile, where the heuristic's choice asks |first| of the device? */
bool measure_is_hopeless(const measure *m, const measure *first, const bl_target *target);

#endif
