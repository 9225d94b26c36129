/* Internals of the import. A value of the model has one or more of these forms: known (the import has its elements), a tensor
 * of the file, and written (a wire reference).  A value is written when a node first needs it, in the graph of that node: a
 * tensor becomes a state of the program, and a value from outside a body (of cond or scan) becomes an additional input of the
 * body.
 *
 * Failures are sticky: import->err has the first failure, later calls return NULL, and callers continue until they return. */
#ifndef BL_ONNX_IMPORT_H
#define BL_ONNX_IMPORT_H

#include "engine/base/map.h"
#include "engine/front/front.h"
#include "engine/front/typer.h"
#include "engine/ir/elements.h"
#include "engine/ir/shape.h"
#include "proto/onnx/onnx.h"
#include "proto/onnx/onnx_file.h"
#include "proto/write/write.h"

enum {
    BL_ONNX_MAX_KNOWN = 65536, /* most elements of a tensor that is computed at import */
    BL_ONNX_MAX_NESTING = 16,  /* of functions and branches that are inlined */
    BL_ONNX_MAX_NODES = 1000000,
    BL_ONNX_KEPT_NAME = 112 /* longest part of a model name that is kept in the wire name */
};

typedef struct bl_onnx_graph bl_onnx_graph;

/* The elements of a tensor, in order. */
typedef struct bl_onnx_known {
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_MAX_DIMS];
    int count;
    /* Integers: INDEX nodes, constants or expressions of named dimensions.  Bool: 0 or 1, or a bool node if undecided.  Floats
     * that contain named dimensions: elements (engine/ir/elements.h).  Else NULL. */
    const bl_node **size;
    double *real; /* floats without named dimensions; else NULL */
} bl_onnx_known;

/* An element type without a bl_dtype, and the dtype that stores its values (narrow.c). */
typedef struct bl_onnx_narrow {
    int data_type; /* TensorProto's number of the type */
    bl_dtype dtype;
    int bits;               /* of an element in the file; the first element is in the low bits */
    int mantissa, exponent; /* floats: bits after the leading one; exponent of the smallest normal value */
    double least, most;
    bool has_nan;  /* the type has NaN, no infinities, and only one zero */
    bool is_power; /* a float without sign and mantissa */
} bl_onnx_narrow;

typedef struct bl_onnx_value {
    const char *name;
    const bl_node *type; /* a node with its dtype and shape */
    const bl_onnx_known *known;
    const Onnx__TensorProto *tensor; /* an initialiser that is not yet a state */
    bl_onnx_graph *graph;            /* the graph with the value's wire reference, or NULL */
    bl_wire_ref ref;                 /* its reference in |graph| */
    const bl_onnx_narrow *narrow;    /* element type in the model if narrower than the dtype; else NULL */
    int nitems;                      /* a sequence: the number of its tensors; a sequence has no type */
    struct bl_onnx_value **item;
    bool sequence;
    unsigned unknown;            /* the round (bl_onnx_importer.round) in which its elements were requested and found unknown */
    struct bl_onnx_value *count; /* actual length of axis |counted|, an int64 value; NULL: the whole axis */
    int counted;
    bool texts;                   /* a tensor of strings: int64 numbers of texts in the model's table */
    struct bl_onnx_value *keys;   /* a sequence of maps, stored as a tensor [rows, keys]: the keys, which are known */
    struct bl_onnx_value *pixels; /* an input that is an encoded picture and has no type: its pixels in the program */
} bl_onnx_value;

/* A wire graph under construction: the graph of the program, of a body, or of a node during folding. */
struct bl_onnx_graph {
    bl_onnx_graph *outer;
    bool folds; /* a graph for folding: every outer value becomes an input, even a known one */
    bl_typer_graph *typer;
    bl_wire_graph wire;
    int node_cap, input_cap;
    int ncaptured, captured_cap, first_captured; /* captured[i] is the body's input first_captured + i */
    bl_onnx_value **captured;
    bl_onnx_value **inside; /* the captured values within the body */
    int inside_cap;
    const bl_node **given; /* elements of a body's own one-element inputs, NULL for other inputs; NULL: none */
};

typedef struct bl_onnx_slot {
    const char *name; /* NULL: free slot */
    bl_onnx_value *value;
} bl_onnx_slot;

/* A scope of value names, with its outer scope. */
typedef struct bl_onnx_names {
    struct bl_onnx_names *outer;
    bl_onnx_graph *graph;
    size_t count, cap; /* cap is a power of two */
    bl_onnx_slot *slot;
    const Onnx__FunctionProto *function; /* the function whose body this is, or NULL */
    const Onnx__NodeProto *caller;       /* the node that calls the function; ref_attr_name refers to its attributes */
    const struct bl_onnx_names *caller_names;
} bl_onnx_names;

/* The likely meaning of a dimension that the model leaves open. */
typedef enum bl_onnx_role {
    BL_ONNX_BATCH,
    BL_ONNX_SEQUENCE,
    BL_ONNX_SIDE,
    BL_ONNX_CHANNELS,
    BL_ONNX_FRAMES,
    BL_ONNX_SIGNAL,
    BL_ONNX_DECODED /* a side of an encoded picture */
} bl_onnx_role;

typedef struct bl_onnx_dim {
    bl_wire_var var; /* the range of the current attempt */
    bl_onnx_role role;
    int64_t most; /* largest requested size */
    int same;     /* number of the dimension that this dimension equals; the own number of an independent dimension */
    int input;    /* number of the first input with the dimension */
    bool said;    /* the options set the range: the search does not change it */
} bl_onnx_dim;

typedef struct bl_onnx_importer {
    bl_span file;
    const bl_onnx_options *options;
    bl_onnx_model *model;
    bl_arena *arena;   /* arena of the result */
    bl_arena *scratch; /* arena of temporary data */
    const Onnx__ModelProto *proto;
    bl_typer *typer;
    bl_ir *ir;
    bl_onnx_graph *main;
    int state_cap, value_cap;
    int ndims; /* number of dimensions that the model leaves open */
    bl_onnx_dim *dims;
    int nvars; /* number of independent dimensions that an input has */
    bl_wire_var vars[BL_WIRE_MAX_DIMS];
    size_t nnodes; /* ONNX nodes written so far */
    int depth;
    int64_t launches;       /* estimated launches of all loops at the largest sizes */
    bl_onnx_names *taken;   /* names of inputs and states */
    bl_onnx_names *encoded; /* names of values that are inputs of ImageDecoder */
    bool outline;           /* outline only: writes no nodes */
    bl_ptrmap *weights;     /* large tensors of the file, mapped to their number plus 1; NULL if not needed */
    int nweights, weight_cap;
    unsigned round; /* number of the current search for wanted inputs, from 1 */
    bool *wanted;   /* model inputs on whose elements a requested value depends */
    bool tabular;   /* the model has operators of ai.onnx.ml: inputs have rows */
    bl_err *err;
    bool failed;
} bl_onnx_importer;

/* One node of the model during its conversion. */
typedef struct bl_onnx_call {
    bl_onnx_importer *import;
    bl_onnx_names *names;
    bl_onnx_graph *graph;
    const Onnx__NodeProto *node;
    const char *label; /* its name, or its first output's name */
    int64_t opset;     /* of its domain */
    int nin, nout;
    bl_onnx_value **in;  /* NULL for an omitted input */
    bl_onnx_value **out; /* set by the op's function; NULL for an unused output */
    int nwritten;        /* wire nodes written for it so far */
} bl_onnx_call;

/* Fails with "node \"NAME\" (OP): ..."; returns NULL. */
void *bl_onnx_fail(bl_onnx_call *c, const char *fmt, ...) BL_PRINTF(2, 3);
void *bl_onnx_fail_as(bl_onnx_call *c, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
/* Fails because the elements of input |i| must be known and are not; |what| describes the input ("its trip count,").  The
 * message names the model inputs that determine the elements; also calls bl_onnx_want. */
void *bl_onnx_fail_unknown(bl_onnx_call *c, int i, const char *what);
/* Records in model->wanted that the import would succeed if the elements of input |i| were known, provided that values of model
 * inputs determine them. */
void bl_onnx_want(bl_onnx_call *c, int i);

/* ---- values (import.c) */
bl_onnx_value *bl_onnx_find(const bl_onnx_names *names, const char *name); /* NULL if there is none */
void bl_onnx_put(bl_onnx_importer *m, bl_onnx_names *names, const char *name, bl_onnx_value *value);
/* Whether nothing has failed, allocations included. */
bool bl_onnx_ok(bl_onnx_importer *m);
/* Fails without reference to a node. */
void *bl_onnx_stop(bl_onnx_importer *m, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
const char *bl_onnx_clean(bl_onnx_importer *m, const char *text); /* printable copy */
/* Replaces the characters of |text| that API names do not allow by _. */
char *bl_onnx_legal_name(bl_onnx_importer *m, const char *text);
/* Like bl_onnx_legal_name, and unique. */
const char *bl_onnx_wire_name(bl_onnx_importer *m, const char *text);
/* Names the nodes that give outputs after the outputs, unless the name is taken.  A stored program is a document, and its outputs
 * have the names of their nodes. */
void bl_onnx_name_outputs(bl_onnx_importer *m);
bl_onnx_value *bl_onnx_new_value(bl_onnx_importer *m, const char *name, const bl_node *type);
/* The reference to |value| in |graph|; writes the value first if necessary. */
bl_wire_ref bl_onnx_use(bl_onnx_importer *m, bl_onnx_graph *graph, bl_onnx_value *value);
/* Adds a state to the program with this name (made unique) and content. */
bl_wire_ref bl_onnx_add_state(bl_onnx_importer *m, const char *name, const bl_tensor_value *value);
/* Like bl_onnx_add_state, as a value. */
bl_onnx_value *bl_onnx_state_value(bl_onnx_importer *m, const char *name, const bl_tensor_value *value);
bl_onnx_graph *bl_onnx_open_graph(bl_onnx_importer *m, bl_onnx_graph *outer);
bl_onnx_names *bl_onnx_open_names(bl_onnx_importer *m, bl_onnx_names *outer, bl_onnx_graph *graph);
/* Converts the nodes of a graph in order. */
void bl_onnx_write_graph(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph);
/* Adds an input of this type to a body. */
bl_onnx_value *bl_onnx_body_input(bl_onnx_importer *m, bl_onnx_graph *body, const char *name, bl_dtype dtype, int ndim,
                                  const bl_node *const *dim);
void bl_onnx_body_outputs(bl_onnx_importer *m, bl_onnx_graph *body, int n, bl_onnx_value **value);

/* ---- dimensions that the model leaves open (dims.c) */
/* Lists the open dimensions, with their settings in the options. */
void bl_onnx_list_dims(bl_onnx_importer *m, const Onnx__GraphProto *graph);
/* After a failed import: adds the ranges set by the options to |err|, since they may be the reason. */
void bl_onnx_blame_dims(const bl_onnx_importer *m, bl_err *err);
/* The name of dimension |axis| of |input|, declared as |from|. */
const char *bl_onnx_dim_name(bl_onnx_importer *m, const char *input, int axis, const Onnx__TensorShapeProto__Dimension *from);
bool bl_onnx_is_open(const Onnx__TensorShapeProto__Dimension *from);
bool bl_onnx_is_initialiser(const Onnx__GraphProto *graph, const char *name);
/* The tensor type of an input, optional or not; NULL if it is no tensor. */
const Onnx__TypeProto__Tensor *bl_onnx_tensor_type(const Onnx__ValueInfoProto *info);
const char *bl_onnx_side_name(bl_onnx_importer *m, const char *input, bool width);

/* ---- ranges (search.c) */
/* One import into |arena| with the ranges in dims. */
typedef bl_status bl_onnx_attempt(void *arg, bl_arena *arena, bl_onnx_model *out, bl_err *err);
/* After an attempt failed with |first|: searches ranges of the unset dimensions for which the import succeeds.  Changes |dims|.
 * Returns BL_OK or |first|'s status. */
BL_NODISCARD bl_status bl_onnx_search(int ndims, bl_onnx_dim *dims, size_t max_bytes, double max_seconds,
                                      bl_onnx_attempt *attempt, void *arg, int *attempts, const bl_err *first);

/* ---- inputs (inputs.c) */
/* bl_onnx_take_inputs reads the types of the inputs and the named dimensions; bl_onnx_put_inputs binds the input names to
 * values. */
void bl_onnx_take_inputs(bl_onnx_importer *m, const Onnx__GraphProto *graph, bl_wire_tensor *inputs, int *ninputs);
void bl_onnx_put_inputs(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph);

/* ---- outline.c */
/* Numbers the weights in an order that depends on the file only. */
void bl_onnx_find_weights(bl_onnx_importer *m);
/* From 0; -1 if |tensor| is no weight. */
int bl_onnx_weight_of(const bl_onnx_importer *m, const Onnx__TensorProto *tensor);
/* Writes an outline, except for its inputs and the names of its outputs. */
void bl_onnx_write_outline(bl_onnx_importer *m, const Onnx__GraphProto *graph);
/* Checks that |value| can be an output and has the type that the outline declared. */
bool bl_onnx_check_output(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, const bl_onnx_value *value);
/* The declared type of a value; false if the wire has no such tensor type. */
bool bl_onnx_declared_type(const Onnx__ValueInfoProto *info, bl_wire_type *out);
/* The opset of a domain for the nodes in |names|. */
int64_t bl_onnx_opset(const bl_onnx_importer *m, const bl_onnx_names *names, const char *domain);
const Onnx__FunctionProto *bl_onnx_find_function(const bl_onnx_importer *m, const char *domain, const Onnx__NodeProto *node);
const char *bl_onnx_node_label(bl_onnx_importer *m, const Onnx__NodeProto *node); /* its name, or its first output's name */
/* Fails for a node whose operator is unknown. */
void *bl_onnx_fail_operator(bl_onnx_call *c, const char *domain);

/* ---- order (order.c) */
/* The nodes in topological order; |node| itself if it is already sorted. */
Onnx__NodeProto **bl_onnx_order(bl_onnx_importer *m, size_t n, Onnx__NodeProto **node);

/* ---- attributes (attribute.c); an attribute of a wrong kind is a failure */
const Onnx__AttributeProto *bl_onnx_attr(const bl_onnx_call *c, const char *name); /* NULL if omitted */
int64_t bl_onnx_int(bl_onnx_call *c, const char *name, int64_t preset);
double bl_onnx_float(bl_onnx_call *c, const char *name, double preset);
const char *bl_onnx_text(bl_onnx_call *c, const char *name, const char *preset);
/* The number of items, -1 if omitted.  |*out| lives as long as the model. */
int bl_onnx_ints(bl_onnx_call *c, const char *name, const int64_t **out);
int bl_onnx_floats(bl_onnx_call *c, const char *name, const float **out);
const Onnx__GraphProto *bl_onnx_body(bl_onnx_call *c, const char *name);

/* ---- tensors of the file (onnx_tensor.c, external.c) */
/* TensorProto's number of a value's element type. */
int bl_onnx_data_type(const bl_onnx_value *value);
/* The wire dtype, or BL_DTYPE_COUNT; for a narrow type, the dtype that stores its values. */
bl_dtype bl_onnx_dtype(int data_type);
bool bl_onnx_is_strings(int data_type);
/* Like bl_onnx_dtype, and int64 for strings. */
bl_dtype bl_onnx_stored_dtype(int data_type);
/* Sets dtype, shape, elements and bytes, within the limits. */
BL_NODISCARD bl_status bl_onnx_shape(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err);
/* Like bl_onnx_shape, and locates the bytes: in the file if they can stay there, else converted into the result's arena. */
BL_NODISCARD bl_status bl_onnx_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err);
/* Maps the bytes of external data. */
BL_NODISCARD bl_status bl_onnx_external(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_span *out, bl_err *err);

/* ---- narrower element types (narrow.c) */
const bl_onnx_narrow *bl_onnx_narrow_find(int data_type); /* NULL: not a narrow type */
size_t bl_onnx_narrow_bytes(const bl_onnx_narrow *narrow, size_t count);
/* Unpacks the elements from |raw| into |out|. */
BL_NODISCARD bl_status bl_onnx_widen(bl_onnx_importer *m, const bl_onnx_narrow *narrow, bl_span raw, bl_tensor_value *out,
                                     bl_err *err);
/* |x| converted as Cast does: integers keep the low bits, floats round to nearest; a value out of range saturates or becomes
 * NaN. */
bl_onnx_value *bl_onnx_narrow_cast(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow, bool saturates);
/* A float |x| converted as quantisation does: values out of range saturate. */
bl_onnx_value *bl_onnx_narrow_clamp(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow);

/* ---- known values (known.c) */
/* The elements of |value|, or NULL if they are not known (not a failure). */
const bl_onnx_known *bl_onnx_know(bl_onnx_importer *m, bl_onnx_value *value);
/* NULL if there are too many elements or the memory is short. */
const bl_onnx_known *bl_onnx_read_content(bl_onnx_importer *m, const bl_tensor_value *content);
bl_onnx_known *bl_onnx_new_known(bl_onnx_importer *m, bl_dtype dtype, int ndim, const int64_t *dim);
bl_onnx_value *bl_onnx_known_value(bl_onnx_importer *m, const bl_onnx_known *known);
bl_onnx_value *bl_onnx_known_ints(bl_onnx_importer *m, int count, const int64_t *value); /* int64 [count] */
bl_onnx_value *bl_onnx_known_sizes(bl_onnx_importer *m, int count, const bl_node *const *size);
bl_onnx_value *bl_onnx_known_real(bl_onnx_importer *m, bl_dtype dtype, double value); /* a scalar of any dtype */
bl_onnx_value *bl_onnx_known_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor);
/* A value with the content of a state; NULL if it has too many elements. */
bl_onnx_value *bl_onnx_content_value(bl_onnx_importer *m, const bl_tensor_value *content);
/* An int64 scalar. */
bl_onnx_value *bl_onnx_size_value(bl_onnx_call *c, const bl_node *size);
/* The wire node (or state) of a known value in |graph|. */
bl_wire_ref bl_onnx_write_known(bl_onnx_importer *m, bl_onnx_graph *graph, const char *name, const bl_onnx_known *known);
/* An INDEX node as a size expression of the wire, or NULL if the wire has no such expression. */
const char *bl_onnx_size_text(bl_onnx_importer *m, const bl_node *size);
/* Reads input |i| as constant integers.  Returns their number, -1 if the input is omitted; fails and returns -1 if it is not
 * known. */
int bl_onnx_in_ints(bl_onnx_call *c, int i, const int64_t **out);
/* Like bl_onnx_in_ints, with named dimensions allowed. */
int bl_onnx_in_sizes(bl_onnx_call *c, int i, const bl_node *const **out);
int bl_onnx_in_reals(bl_onnx_call *c, int i, const double **out);
/* Reads input |i|, one float, as num / den, with named dimensions allowed. */
bool bl_onnx_in_fraction(bl_onnx_call *c, int i, const bl_node **num, int64_t *den);
/* Reads an operand that older opsets have as the attribute |name| and newer opsets as input |i|: whichever is present. */
int bl_onnx_ints_or_in(bl_onnx_call *c, const char *name, int i, const int64_t **out);

/* ---- axes with data-dependent length (row_counts.c): the tensor has the largest length, a count has the actual length */
/* Marks that axis |axis| of |value| has |count| valid elements.  Returns |value|. */
bl_onnx_value *bl_onnx_count(bl_onnx_value *value, bl_onnx_value *count, int axis);
/* Whether the node supports the counted axes of its inputs; fails if not. */
bool bl_onnx_may_take_counted(bl_onnx_call *c);
/* Marks the counted axes of the node's results. */
void bl_onnx_keep_counted(bl_onnx_call *c);

/* ---- strings (onnx_text.c) */
/* The number of a text; adds it to the model's table if it is new. */
int64_t bl_onnx_text_number(bl_onnx_importer *m, bl_span text);
/* False after a failure: an input is strings, which the operator does not support. */
bool bl_onnx_check_texts(bl_onnx_call *c);
/* Marks the results of a node that moves strings as strings. */
void bl_onnx_mark_texts(bl_onnx_call *c);

/* ---- tables and maps (ops_ml_map.c) */
/* Sets the known keys of the port's maps. (import.c) */
void bl_onnx_take_keys(bl_onnx_importer *m, const bl_onnx_value *keys, bl_onnx_port *port);
/* Whether the graph has operators of ai.onnx.ml. */
bool bl_onnx_is_tabular(const Onnx__GraphProto *graph);
/* The number of keys of the map |name|: the number that its consumer needs; 0 if the consumer accepts any number; -1 if no
 * operator with maps consumes |name|, or if its attributes lack the number. */
int64_t bl_onnx_count_keys(const Onnx__GraphProto *graph, const char *name);

/* ---- pictures (ops_image.c) */
/* Whether the node is an ImageDecoder. */
bool bl_onnx_decodes(const Onnx__NodeProto *node);
/* Adds the inputs of such nodes to m->encoded. */
void bl_onnx_find_pictures(bl_onnx_importer *m, const Onnx__GraphProto *graph, int depth);

/* ---- trip counts (trips.c) */
/* The number of steps of a loop whose condition holds before the first step, an INDEX node; NULL if unknown.  |body| has the step
 * number as its first input, followed by the carries of |c|; |next| are the carries after a step, |goes_on| is the condition. */
const bl_node *bl_onnx_count_trips(bl_onnx_call *c, bl_onnx_graph *body, int ncarries, bl_onnx_value *const *next,
                                   bl_onnx_value *goes_on);
/* Adds the steps of a loop to the total; fails and returns false if the model's loops have too many. */
bool bl_onnx_add_steps(bl_onnx_call *c, const bl_node *length, const bl_onnx_graph *body);

/* ---- writing nodes (nodes.c) */
/* bl_write_one and bl_write_many of proto/write for a node: letters stand for its inputs, @name for its attributes. */
bl_onnx_value *bl_onnx_make(bl_onnx_call *c, const char *text, const bl_write_arg *args);
bool bl_onnx_make_many(bl_onnx_call *c, const char *text, const bl_write_arg *args, int n, bl_onnx_value **out);

/* ---- operators (ops.c) */
typedef struct bl_onnx_op {
    const char *domain; /* "" is ONNX's own domain */
    const char *name;
    int since; /* first opset of its domain */
    const char *recipe;
    bl_onnx_value *(*write)(bl_onnx_call *c); /* returns the first result; a function with several results also sets c->out */
    const char *doc;
} bl_onnx_op;
extern const bl_onnx_op bl_onnx_ops[];
extern const size_t bl_onnx_ops_count;
/* The row for an opset, or NULL. */
const bl_onnx_op *bl_onnx_op_find(const char *domain, const char *name, int64_t opset);
/* Writes |c| by the row |op|; sets c->out. */
void bl_onnx_write_op(bl_onnx_call *c, const bl_onnx_op *op);

/* ---- folding (fold.c) */
/* Computes the node at import if all its inputs are known and small.  False: the caller must write it. */
bool bl_onnx_fold(bl_onnx_call *c, const bl_onnx_op *op);
/* Computes the elements of |value| again, and records in m->wanted the model inputs that determine them.  False: the elements
 * are known. */
bool bl_onnx_find_wanted(bl_onnx_importer *m, bl_onnx_value *value);
/* The elements of |node|, a value written in |graph|; NULL if not known. */
const bl_onnx_known *bl_onnx_compute(bl_onnx_importer *m, bl_onnx_graph *graph, const bl_node *node);

#define BL_ONNX(domain, name, since, recipe, doc)
#define BL_ONNX_CALL(domain, name, since, id, doc) bl_onnx_value *bl_onnx_write_##id(bl_onnx_call *c);
#include "proto/onnx/ops.def"
#undef BL_ONNX
#undef BL_ONNX_CALL

/* |x| after the named activation of a recurrent network; |alpha| and |beta| NULL: the function's defaults (ops_recurrent.c). */
bl_onnx_value *bl_onnx_activate(bl_onnx_call *c, const char *name, bl_onnx_value *x, const double *alpha, const double *beta);
/* Input |i|; NULL if omitted. */
static inline bl_onnx_value *bl_onnx_in(const bl_onnx_call *c, int i)
{
    return i < c->nin ? c->in[i] : NULL;
}
/* Whether the node uses output |i|. */
static inline bool bl_onnx_wants(const bl_onnx_call *c, int i)
{
    return i < c->nout && *c->node->output[i] != '\0';
}
/* A negative axis counts from the end.  Returns 0 <= result < rank; after a failure, 0. */
int bl_onnx_axis(bl_onnx_call *c, int64_t axis, int rank);
/* Rank and dtype; arbitrary for NULL after a failure. */
static inline int bl_onnx_rank(const bl_onnx_value *v)
{
    return v != NULL && v->type != NULL ? v->type->ndim : 0;
}
static inline bl_dtype bl_onnx_type(const bl_onnx_value *v)
{
    return v != NULL && v->type != NULL ? (bl_dtype)v->type->dtype : BL_F32;
}

#endif
