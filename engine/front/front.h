/* From the wire graph to IR: promotion, broadcasting, and every wire op written in primitives once.
 * The table of wire ops is wire_ops.def; an op is one row and expand_<id>. */
#ifndef BL_FRONT_FRONT_H
#define BL_FRONT_FRONT_H

#include "engine/ir/node.h"
#include "proto/wire.h"

/* State that the graph itself asks for: what an optimiser remembers ("w1.m.w"), and "rng". */
typedef struct bl_hidden_state {
    const char *name; /* arena of the ir */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_MAX_DIMS];
    double init; /* every element starts as this */
} bl_hidden_state;

/* The legal indices: from 0, or from -extent if negative indices count from the end, to extent - 1. */
typedef struct bl_index_bound {
    const bl_node *extent;      /* INDEX */
    const char *what;           /* "index" or "target" */
    const char *before, *after; /* the extent in words: "axis 0 of x has size", "" */
    bool wraps;
    bool ignores; /* |ignored| is legal too */
    int64_t ignored;
} bl_index_bound;

#define BL_INDEX_CHECK_PLACE (INT64_C(1) << 32)
#define BL_INDEX_CHECK_LAST  (INT32_MAX - 1) /* stands for all larger positions too */

/* The check of a tensor of indices, which each step computes (index_check.c).  |first| is int64: INT64_MAX if all indices are in
 * range.  Otherwise |first| describes the first index out of range: its position in the flat index tensor times
 * BL_INDEX_CHECK_PLACE, plus its value, clamped to 32 bits, minus INT32_MIN.  Within scans |first| has an axis for the steps of
 * each scan, the outermost scan first. */
typedef struct bl_index_check {
    struct bl_index_check *next; /* a list only while the graph is built */
    const char *op, *node;       /* the wire op and the first id of its node; arena of the ir */
    bl_index_bound bound;
    int ndim; /* of the index tensor */
    const bl_node *const *dim;
    const bl_node *first;
} bl_index_check;

/* A graph ready to schedule.  Slots of INPUT nodes: inputs first, then the wire's states, then the hidden ones. */
typedef struct bl_graph {
    bl_ir *ir; /* owned */
    int nvars, ninputs, nstates, nhidden;
    bl_wire_var *vars;      /* copied into the ir's arena; lo and hi count steps, as the VAR nodes do */
    const bl_node **inputs; /* ninputs + nstates + nhidden INPUT nodes */
    bl_hidden_state *hidden;
    int noutputs; /* as in the wire graph */
    const bl_node **outputs;
    const bl_node **updates; /* nstates + nhidden: the new value, or NULL where the state stays */
    int nvalues;             /* where options.keeps_values: the results of the wire's nodes, in their order */
    const bl_node **values;
    int nchecks;
    bl_index_check *checks; /* of indices, in the order of the nodes; none unless the wire graph asks for checks */
    bool uses_rng;          /* some node draws; then the hidden state "rng" (uint32[2]: seed, step) is there */
} bl_graph;

/* When a convolution is computed by Winograd's transforms: never, where they are sure to win, or wherever they can be. */
typedef enum bl_winograd_use { BL_WINOGRAD_NEVER, BL_WINOGRAD_SURE, BL_WINOGRAD_ALWAYS } bl_winograd_use;

/* How a training step is made of what a program says.  Zeroed: as it is written. */
typedef struct bl_training {
    bool mixed;
    bl_dtype compute; /* mixed: float16 or bfloat16, in which products are; parameters, sums and losses stay float32 */
    bool dynamic;     /* the loss is scaled so that no gradient underflows, by what has proved good so far; a step whose gradients
                         are not finite is left out */
    double scale;     /* else: by so much; 0: not at all */
    int passes;       /* over 1: a step takes the mean of so many passes' gradients, and ... */
    bool gathers;     /* ... this is one before the last: it changes no parameter, nor what is made of them */
} bl_training;

typedef struct bl_front_options {
    bool program;       /* optimisers may remember (else 422) */
    size_t max_bytes;   /* of the compile arena */
    double max_seconds; /* of the whole compilation; 0: no limit */
    bl_halt halt;       /* likewise (bl_ir_obey) */
    bl_winograd_use winograd;
    int lanes; /* float32 in a vector of the device; 0: work-items do what lanes would, and no transform is sure to win */
    bl_training training;
    uint64_t max_buffer; /* bytes that a transform may write; 0: no limit */
    bool keeps_values;   /* for explanations of the plan */
    /* Hidden state that earlier entries of the program already have: same name, dtype and shape is shared. */
} bl_front_options;

/* The extent of named dimension |number|: the VAR counts steps. */
const bl_node *bl_front_extent(bl_ir *ir, int number, const bl_wire_var *var);
/* *out is NULL on failure; errors name the wire node and say shapes and dtypes as a person would. */
BL_NODISCARD bl_status bl_front_build(const bl_wire_graph *wire, const bl_front_options *options, bl_graph **out, bl_err *err);
void bl_graph_destroy(bl_graph *graph); /* and its ir */

#endif
