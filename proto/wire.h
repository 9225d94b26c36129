/* The wire graph: a graph of docs/api.md, decoded, resolved and sorted, before anything knows what an op means.
 * Everything lives in the request's arena.  Names are NUL-terminated and match the pattern that stands there. */
#ifndef BL_PROTO_WIRE_H
#define BL_PROTO_WIRE_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "engine/ir/dtype.h"

typedef struct bl_wire_limits {
    size_t max_nodes, max_inputs; /* inputs counts state too, and the operands of one node */
    size_t max_dims;              /* rank of a tensor, at most BL_MAX_DIMS */
    uint64_t max_tensor_bytes;
} bl_wire_limits;

enum { BL_WIRE_MAX_DIMS = 64 }; /* named dimensions of a document */

/* A named dimension with its range.  Its sizes are the multiples of |step| in the range, and both bounds are multiples; a step of
 * 0 is 1. */
typedef struct bl_wire_var {
    const char *name;
    int64_t lo, hi, step;
} bl_wire_var;

static inline int64_t bl_wire_var_step(const bl_wire_var *var)
{
    return var->step > 1 ? var->step : 1;
}

/* Is |size| one of the sizes of |var|? */
static inline bool bl_wire_var_has(const bl_wire_var *var, int64_t size)
{
    return size >= var->lo && size <= var->hi && size % bl_wire_var_step(var) == 0;
}

/* Make both bounds multiples of the step, inside the range.  False: the range has no such multiple. */
bool bl_wire_var_round(bl_wire_var *var);
/* Append "32 to 1280", or "32 to 1280 in steps of 32". */
void bl_wire_var_print(bl_text *out, const bl_wire_var *var);
/* Append "[32,1280]", or "[32,1280,32]". */
void bl_wire_var_encode(bl_text *out, const bl_wire_var *var);

/* What ends a word of an attribute that stands for a size, such as "2 * (n + 1)".  Names have none of these in them. */
#define BL_SIZE_BREAKS " ()"

/* An extent: |size|, or the named dimension |var| where var >= 0. */
typedef struct bl_wire_dim {
    int64_t size;
    int var;
} bl_wire_dim;

typedef struct bl_wire_type {
    bl_dtype dtype;
    int ndim;
    bl_wire_dim dim[16];
} bl_wire_type;

typedef struct bl_wire_tensor {
    const char *name;
    bl_wire_type type;
} bl_wire_tensor;

/* Without named dimensions, and its sizes again. */
bl_wire_type bl_wire_type_make(bl_dtype dtype, int ndim, const int64_t *dim);
void bl_wire_type_sizes(const bl_wire_type *type, int64_t *dim);
/* Of two of one document, or without named dimensions. */
bool bl_wire_type_same(const bl_wire_type *a, const bl_wire_type *b);
/* Append "float32[2, n]"; |names|: of the dimensions that are named, NULL where none is. */
void bl_wire_type_print(bl_text *out, const bl_wire_type *type, const char *const *names);

/* A JSON number kept exact: an integer in 64 bits (with its sign), or a double. */
typedef struct bl_wire_number {
    bool whole; /* written without fraction or exponent and fits: magnitude holds it */
    bool negative;
    uint64_t magnitude;
    double value; /* always set; NaN and infinities come from the strings */
} bl_wire_number;

typedef enum bl_wire_ref_kind { BL_REF_LITERAL, BL_REF_INPUT, BL_REF_STATE, BL_REF_NODE } bl_wire_ref_kind;

typedef struct bl_wire_ref {
    bl_wire_ref_kind kind;
    int index;  /* of the input, state or node */
    int result; /* which result of the node */
    bl_wire_number literal;
} bl_wire_ref;

typedef enum bl_wire_attr_kind {
    BL_ATTR_NUMBER,
    BL_ATTR_BOOL,
    BL_ATTR_STRING,
    BL_ATTR_NULL,
    BL_ATTR_LIST,
    BL_ATTR_GRAPH
} bl_wire_attr_kind;

typedef struct bl_wire_attr {
    const char *name; /* NULL for the items of a list */
    bl_wire_attr_kind kind;
    bl_wire_number number;
    bool boolean;
    const char *string; /* also of a number that came as "NaN", "Infinity" or "-Infinity" */
    bl_wire_ref *ref;   /* of a string that is the name of an input, state or node too ("lr": "rate"); else NULL */
    int nitems;
    const struct bl_wire_attr *item;
    const struct bl_wire_graph *graph; /* a body: its inputs have names and no types, and it sees nothing else */
} bl_wire_attr;

typedef struct bl_wire_node {
    int nids;
    const char *const *ids;
    const char *op;
    int nrefs;
    bl_wire_ref *refs;
    int nattrs; /* sorted by name */
    bl_wire_attr *attrs;
} bl_wire_node;

typedef struct bl_wire_output {
    const char *name; /* as asked; for an update: the state's name */
    bl_wire_ref ref;
    int count; /* number of the output that says how long axis |axis| of this one is; the rest of it is cut off.  0: nothing is */
    int axis;
} bl_wire_output;

/* One entry of a program, or one run.  Nodes stand sources first. */
typedef struct bl_wire_graph {
    int nvars, ninputs, nstates, nnodes, noutputs, nupdates;
    bl_wire_var *vars;
    bl_wire_tensor *inputs;
    bl_wire_tensor *states; /* of the whole program, in the program's order */
    bl_wire_node *nodes;
    bl_wire_output *outputs; /* "outputs", then "keep", then those that count others */
    bl_wire_output *updates; /* name is a state's; at most one for each */
    int ncounts;             /* outputs that count others, which are not sent */
    bool program;            /* an optimiser may remember: what it does is named after ids and operands */
    bool check_indices;      /* an index out of range fails the step (engine/front/index_check.h); bodies follow the graph */
} bl_wire_graph;

/* Outputs that a request gets. */
static inline int bl_wire_shown(const bl_wire_graph *graph)
{
    return graph->noutputs - graph->ncounts;
}

/* Structural identity: names of nodes, inputs and outputs do not count, their order and everything else does.  Names of states
 * and dimensions do, and in a program all of them: what an optimiser remembers is named after its id and operands.  With
 * check_indices those of nodes do too, since errors of the plan have them.  A string in an attribute that is the name of
 * something in the graph counts as that.  |salt| is text that also decides (device, settings). The key is SHA-256-strong enough
 * to compare by alone only together with |bytes|, which the cache compares too. */
typedef struct bl_wire_key {
    uint64_t hash;
    const void *bytes; /* arena */
    size_t len;
} bl_wire_key;
BL_NODISCARD bl_status bl_wire_make_key(bl_arena *arena, const bl_wire_graph *graph, const char *salt, bl_wire_key *key,
                                        bl_err *err);

/* All of |graph|, in |arena|: for who compiles it again when the request is gone.  NULL where the arena has no memory, and a
 * graph with holes where it ran out midway: ask bl_arena_status. */
const bl_wire_graph *bl_wire_copy(bl_arena *arena, const bl_wire_graph *graph);

#endif
