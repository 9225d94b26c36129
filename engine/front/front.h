/* The front end: from the wire graph to IR. It promotes dtypes, broadcasts shapes and expresses every wire op in primitives.
 * wire_ops.def is the table of wire ops; an op is one row and, unless it is a formula, expand_<id>. */
#ifndef BL_FRONT_H
#define BL_FRONT_H

#include "engine/ir/node.h"
#include "proto/wire.h"

/* State that the graph itself creates: what an optimiser stores between steps ("w1.m.w"), and "rng". */
typedef struct bl_hidden_state {
    const char *name; /* arena of the ir */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_MAX_DIMS];
    double init; /* initial value of every element */
} bl_hidden_state;

/* The legal indices: from 0, or from -extent if negative indices count from the end, to extent - 1. */
typedef struct bl_index_bound {
    const bl_node *extent;      /* INDEX */
    const char *what;           /* "index" or "target" */
    const char *before, *after; /* the extent in words, for error texts: "axis 0 of x has size", "" */
    bool wraps;
    bool ignores; /* |ignored| is a legal index too */
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
    int ndim; /* rank of the index tensor */
    const bl_node *const *dim;
    const bl_node *first;
} bl_index_check;

/* A graph ready for scheduling. INPUT slots: first the inputs, then the wire's states, then the hidden states. */
typedef struct bl_graph {
    bl_ir *ir; /* owned */
    int nvars, ninputs, nstates, nhidden;
    bl_wire_var *vars;      /* copied into the ir's arena; lo and hi count steps, as in the VAR nodes */
    const bl_node **inputs; /* ninputs + nstates + nhidden INPUT nodes */
    bl_hidden_state *hidden;
    int noutputs; /* as many as in the wire graph */
    const bl_node **outputs;
    const bl_node **updates; /* nstates + nhidden entries: the new value, or NULL if the state does not change */
    int nvalues;             /* if options.keeps_values: the results of the wire's nodes, in order */
    const bl_node **values;
    int nchecks;
    bl_index_check *checks; /* in the order of the nodes; none unless the wire graph asks for checks */
    bool uses_rng;          /* some node draws random numbers; the hidden state "rng" (uint32[2]: seed, step) then exists */
} bl_graph;

/* When to compute a convolution by Winograd's transforms: never, where they are sure to be faster, or wherever they apply. */
typedef enum bl_winograd_use { BL_WINOGRAD_NEVER, BL_WINOGRAD_SURE, BL_WINOGRAD_ALWAYS } bl_winograd_use;

/* Changes to a training step that its program does not state. Zero-initialised: none. */
typedef struct bl_training {
    bool mixed;
    /* mixed: products are computed in this dtype, float16 or bfloat16; parameters, sums and losses stay float32 */
    bl_dtype compute;
    /* dynamic loss scaling: the scale adapts so that gradients do not underflow; a step with a gradient that is not finite is
     * skipped */
    bool dynamic;
    double scale; /* else: the fixed loss scale; 0: no scaling */
    int passes;   /* over 1: gradient accumulation; a step uses the mean gradient of this many passes */
    /* this pass is not the last of its step: it changes no parameter and nothing that follows from the parameters */
    bool gathers;
} bl_training;

typedef struct bl_front_options {
    bool program;       /* optimisers may create hidden states (otherwise 422) */
    size_t max_bytes;   /* limit of the compile arena */
    double max_seconds; /* limit for the whole compilation; 0: none */
    bl_halt halt;       /* cancels the compilation (bl_ir_obey) */
    bl_winograd_use winograd;
    /* number of float32 lanes of the device's vectors; 0: work-items are scalar, and no Winograd transform is sure to be faster
     */
    int lanes;
    bl_training training;
    uint64_t max_buffer; /* most bytes that a Winograd transform may write; 0: no limit */
    bool keeps_values;   /* to explain the plan */
    /* Hidden state that earlier entries of the program already have: same name, dtype and shape is shared. */
} bl_front_options;

/* The extent of named dimension |number|, for which the VAR counts steps. */
const bl_node *bl_front_extent(bl_ir *ir, int number, const bl_wire_var *var);
/* *out is NULL on failure. Errors name the wire node, and write shapes and dtypes as on the wire. */
BL_NODISCARD bl_status bl_front_build(const bl_wire_graph *wire, const bl_front_options *options, bl_graph **out, bl_err *err);
void bl_graph_destroy(bl_graph *graph); /* and its ir */

#endif
