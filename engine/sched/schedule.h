/* From a tensor graph to kernels: which values get a buffer, what fuses into one loop nest, and in which order nests run.
 *
 * A value that gets no buffer is recomputed inside its users, as an expression of their loop variables: movement ops are
 * nothing but arithmetic on indices (index.c).  The rules of what gets a buffer are in realise.c, of what shares a nest in
 * group.c.  Loop variables are canonical: the i-th extent of an output that is not 1 is RANGE number i, and a reduction at depth
 * d over axis a is RANGE number 16 * d + a, so two values of one shape, or two reductions over the same rows, are expressions of
 * the same RANGEs and share whatever they have in common. */
#ifndef BL_SCHED_SCHEDULE_H
#define BL_SCHED_SCHEDULE_H

#include "engine/ir/node.h"

typedef enum bl_place_kind {
    BL_PLACE_INPUT,
    BL_PLACE_ROOT,
    BL_PLACE_TEMP,
    BL_PLACE_CARRY /* no buffer: a name for that which holds a carry in the step at hand */
} bl_place_kind;

/* Values that a nest may keep in local memory at once: a softmax with its gradient keeps five for each head that it is for. */
enum { BL_STAGES_OF_NEST = 16 };

/* A buffer of the schedule. */
typedef struct bl_place {
    bl_place_kind kind;
    int index; /* INPUT: slot; ROOT: which of the roots; else 0 */
    bl_dtype dtype;
    const bl_node *count; /* elements, INDEX */
} bl_place;

/* A loop nest that becomes one kernel.  In |sink|, BUFFER number i is parameter i. */
typedef struct bl_nest {
    const bl_node *sink;
    int nparams;
    const int *param; /* which place each parameter is */
    uint32_t writes;  /* bit i: parameter i is stored to */
    const char *name; /* "r_64_10_1600": r if it reduces, e if it does not, and the extents */
    bool helper;      /* first half of a split reduction, or a packed operand */
    int nfrom;        /* where options.ntracked: the tensor nodes that it computes */
    const bl_node **from;
} bl_nest;

/* What goes from step to step.  Two places take turns, so that a step reads one and writes the other. */
typedef struct bl_carry {
    int in, out;  /* the CARRY places that nests name */
    int init;     /* what |in| is in the first step */
    int place[2]; /* what |out| is in steps of an even number (the first is 0), and of an odd one */
} bl_carry;

/* Nests [first, end) run once a step.  Loops nest, and those around stand before those inside. */
typedef struct bl_loop {
    int first, end;
    const bl_node *steps; /* INDEX: launches of further steps do nothing */
    bool reverse;         /* the VAR counts down */
    int var;              /* number of the VAR that says which slice this step is at */
    int ncarries;
    const bl_carry *carries;
} bl_loop;

typedef struct bl_schedule {
    int nplaces, nnests, nloops;
    bl_place *places;
    bl_nest *nests; /* in the order they run */
    bl_loop *loops;
    const int *root_place; /* for each root, the place that holds it */
} bl_schedule;

typedef struct bl_sched_options {
    uint32_t units;         /* cores of the device: how much must run side by side */
    uint32_t max_params;    /* buffers of one kernel */
    int64_t stage_bytes;    /* of each value that a nest may keep in local memory for an iteration of its outer loops; 0: none */
    int64_t group_columns;  /* where groups have work-items, which share such values: outputs that a group may have of one row;
                               else  0: a group is one work-item */
    bl_precision precision; /* of float32's products */
    int ntracked;           /* tensor nodes that somebody asks after (bl_nest.from): what they are called in the schedule */
    const bl_node **tracked;
    int first_var; /* VARs from this number on are free: those that count steps, by depth */
} bl_sched_options;

/* Everything lives in the ir's arena.  Roots are tensor nodes; each gets a place of its own, also where two are one node. */
BL_NODISCARD bl_status bl_schedule_make(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_sched_options *options,
                                        bl_schedule **out, bl_err *err);

#endif
