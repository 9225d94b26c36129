/* The wire graph: the graph of a document (docs/api.md) after decoding, name resolution and topological sort, before the ops are
 * interpreted.  Everything lives in the request's arena.  Names are NUL-terminated and match the pattern in docs/api.md. */
#ifndef BL_PROTO_WIRE_H
#define BL_PROTO_WIRE_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "engine/ir/dtype.h"

typedef struct bl_wire_limits {
    size_t max_nodes, max_inputs; /* max_inputs also limits the states, and the operands of one node */
    size_t max_dims;              /* rank of a tensor, at most BL_MAX_DIMS */
    uint64_t max_tensor_bytes;
} bl_wire_limits;

enum { BL_WIRE_MAX_DIMS = 64 }; /* named dimensions of a document */

/* A named dimension with its range.  Its sizes are the multiples of |step| within the range, and both bounds are multiples; a
 * step of 0 counts as 1. */
typedef struct bl_wire_var {
    const char *name;
    int64_t lo, hi, step;
} bl_wire_var;

static inline int64_t bl_wire_var_step(const bl_wire_var *var)
{
    return var->step > 1 ? var->step : 1;
}

/* Whether |size| is a size of |var|. */
static inline bool bl_wire_var_has(const bl_wire_var *var, int64_t size)
{
    return size >= var->lo && size <= var->hi && size % bl_wire_var_step(var) == 0;
}

/* Moves both bounds inwards to multiples of the step.  False if the range contains none. */
bool bl_wire_var_round(bl_wire_var *var);
/* Appends "32 to 1280", or "32 to 1280 in steps of 32". */
void bl_wire_var_print(bl_text *out, const bl_wire_var *var);
/* Appends "[32,1280]", or "[32,1280,32]". */
void bl_wire_var_encode(bl_text *out, const bl_wire_var *var);

/* Separators of the words in a size expression, such as "2 * (n + 1)".  Names contain none of them. */
#define BL_SIZE_BREAKS " ()"

/* An extent: |size|, or the named dimension |var| if var >= 0. */
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

/* Makes a type without named dimensions; bl_wire_type_sizes gives its sizes. */
bl_wire_type bl_wire_type_make(bl_dtype dtype, int ndim, const int64_t *dim);
void bl_wire_type_sizes(const bl_wire_type *type, int64_t *dim);
/* Compares two types of one document, or two without named dimensions. */
bool bl_wire_type_same(const bl_wire_type *a, const bl_wire_type *b);
/* Appends "float32[2, n]"; |names|: of the named dimensions, or NULL. */
void bl_wire_type_print(bl_text *out, const bl_wire_type *type, const char *const *names);

/* An exact JSON number: an integer of 64 bits and a sign, or a double. */
typedef struct bl_wire_number {
    bool whole; /* written without fraction or exponent and fits 64 bits: |magnitude| holds it */
    bool negative;
    uint64_t magnitude;
    double value; /* always set; the strings "NaN" and "Infinity" set NaN and infinities */
} bl_wire_number;

typedef enum bl_wire_ref_kind { BL_REF_LITERAL, BL_REF_INPUT, BL_REF_STATE, BL_REF_NODE } bl_wire_ref_kind;

typedef struct bl_wire_ref {
    bl_wire_ref_kind kind;
    int index;  /* of the input, state or node */
    int result; /* index of the node's result */
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
    const char *string; /* also set for a number given as "NaN", "Infinity" or "-Infinity" */
    bl_wire_ref *ref;   /* set if the string is also the name of an input, state or node ("lr": "rate"); else NULL */
    int nitems;
    const struct bl_wire_attr *item;
    const struct bl_wire_graph *graph; /* a body: its inputs have names but no types, and it cannot refer to the outer graph */
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
    const char *name; /* as requested; for an update: the state's name */
    bl_wire_ref ref;
    int count; /* index of the output that holds the length of this output's axis |axis|; the server cuts off the rest.  0:
                * none */
    int axis;
} bl_wire_output;

/* One entry of a program, or one run.  Nodes are in topological order. */
typedef struct bl_wire_graph {
    int nvars, ninputs, nstates, nnodes, noutputs, nupdates;
    bl_wire_var *vars;
    bl_wire_tensor *inputs;
    bl_wire_tensor *states; /* of the whole program, in the program's order */
    bl_wire_node *nodes;
    bl_wire_output *outputs; /* "outputs", then "keep", then the outputs that hold lengths of others */
    bl_wire_output *updates; /* named after the states; at most one for each */
    int ncounts;             /* number of outputs that hold lengths of others; they are not sent */
    bool program;            /* optimisers may keep state, which is named after the ids and operands of their nodes */
    bool check_indices;      /* an index out of range fails the step (engine/front/index_check.h); bodies inherit it */
} bl_wire_graph;

/* Number of outputs that the client receives. */
static inline int bl_wire_shown(const bl_wire_graph *graph)
{
    return graph->noutputs - graph->ncounts;
}

/* Makes the key that the plan cache looks up: graphs of equal structure have equal keys.  Names of nodes, inputs and outputs do
 * not count; their order and everything else does.  Names of states and dimensions count.  In a program the names of nodes and
 * inputs count too: an optimiser's state is named after its id and operands.  With check_indices the names of nodes count, since
 * the plan's error messages contain them.  An attribute string that names something in the graph counts as a reference.  |salt|
 * is further text that distinguishes keys (device, settings).
 *
 * |hash| only speeds the look-up; equal keys have equal |bytes|. */
typedef struct bl_wire_key {
    uint64_t hash;
    const void *bytes; /* in the arena */
    size_t len;
} bl_wire_key;
BL_NODISCARD bl_status bl_wire_make_key(bl_arena *arena, const bl_wire_graph *graph, const char *salt, bl_wire_key *key,
                                        bl_err *err);

/* Copies all of |graph| into |arena|, for a compilation after the request has ended.  NULL if the arena has no memory; if memory
 * runs out midway, the copy is incomplete: check bl_arena_status. */
const bl_wire_graph *bl_wire_copy(bl_arena *arena, const bl_wire_graph *graph);

#endif
