/* The scheduler: from a tensor graph to loop nests. It decides which values are materialized in buffers, which are fused into
 * one loop nest, and in which order nests run. A value without a buffer is recomputed inside its users, as an expression of
 * their loop variables; movement ops become index arithmetic (index.c). realise.c decides which values get buffers, group.c
 * which share a nest.
 * Loop variables are canonical: the i-th extent of an output that is not 1 is RANGE number i, and a reduction over axis a at
 * depth d is RANGE number 16 * d + a. Two values of one shape, or two reductions over the same rows, are thus expressions of
 * the same RANGEs and share common subexpressions. */
#ifndef BL_SCHED_SCHEDULE_H
#define BL_SCHED_SCHEDULE_H

#include "engine/ir/node.h"

typedef enum bl_place_kind {
    BL_PLACE_INPUT,
    BL_PLACE_ROOT,
    BL_PLACE_TEMP,
    BL_PLACE_CARRY /* no buffer: stands for the place that holds a carry in the current step */
} bl_place_kind;

/* Most values that a nest may keep in local memory at once: a softmax with its gradient keeps five per head. */
enum { BL_STAGES_OF_NEST = 16 };

/* A buffer of the schedule. */
typedef struct bl_place {
    bl_place_kind kind;
    int index; /* INPUT: the slot; ROOT: the number of the root; else 0 */
    bl_dtype dtype;
    const bl_node *count; /* number of elements, INDEX */
} bl_place;

/* A loop nest that becomes one kernel.  In |sink|, BUFFER number i is parameter i. */
typedef struct bl_nest {
    const bl_node *sink;
    int nparams;
    const int *param; /* the place of each parameter */
    uint32_t writes;  /* bit i: the nest stores to parameter i */
    const char *name; /* "r_64_10_1600": r if it reduces, e if it does not, and the extents */
    bool helper;      /* the first half of a split reduction, or a packed operand */
    int nfrom;        /* if options.ntracked: the tensor nodes that the nest computes */
    const bl_node **from;
} bl_nest;

/* A carry of a loop. Its two places alternate: a step reads one and writes the other. */
typedef struct bl_carry {
    int in, out;  /* the CARRY places that nests use */
    int init;     /* the place that |in| stands for in the first step */
    int place[2]; /* the place that |out| stands for in steps of even number (the first is 0), and of odd number */
} bl_carry;

/* A loop: the nests [first, end) run once per step. Loops nest; an outer loop precedes its inner loops. */
typedef struct bl_loop {
    int first, end;
    const bl_node *steps; /* INDEX: launches of later steps do nothing */
    bool reverse;         /* the VAR counts down */
    int var;              /* number of the VAR that holds the slice number of the current step */
    int ncarries;
    const bl_carry *carries;
} bl_loop;

typedef struct bl_schedule {
    int nplaces, nnests, nloops;
    bl_place *places;
    bl_nest *nests; /* in execution order */
    bl_loop *loops;
    const int *root_place; /* for each root, the place that holds it */
} bl_schedule;

typedef struct bl_sched_options {
    uint32_t units;      /* cores of the device: how much work must run in parallel */
    uint32_t max_params; /* most buffers of a kernel */
    /* bytes of local memory for each value that a nest keeps for an iteration of its outer loops; 0: none */
    int64_t stage_bytes;
    /* if groups have several work-items, which share such values: most outputs of one row per group; 0: a group is one
     * work-item */
    int64_t group_columns;
    bl_precision precision; /* of products of float32 */
    /* number of tensor nodes to track (bl_nest.from); |tracked| is replaced by the nodes after scheduling */
    int ntracked;
    const bl_node **tracked;
    int first_var; /* VARs from this number on are free; they count steps of loops, by depth */
} bl_sched_options;

/* Make a schedule. Everything lives in the ir's arena. Roots are tensor nodes; each root gets a place of its own, even if two
 * roots are one node. */
BL_NODISCARD bl_status bl_schedule_make(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_sched_options *options,
                                        bl_schedule **out, bl_err *err);

#endif
