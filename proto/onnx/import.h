/* Inside of the import.  A value of the model is one or more of: known (its elements are, at import), a tensor of the file, and
 * written (a wire reference).  It gets written when a node needs it, in the graph that needs it: a tensor becomes a state of the
 * program, and in a body (of cond or scan) what stands outside becomes one more input.
 *
 * Failures are sticky: the first one is in import->err, everything after it gives NULL, and callers go on until they return. */
#ifndef BL_ONNX_IMPORT_H
#define BL_ONNX_IMPORT_H

#include "engine/base/map.h"
#include "engine/front/front.h"
#include "engine/front/typer.h"
#include "engine/ir/elements.h"
#include "engine/ir/shape.h"
#include "proto/onnx/file.h"
#include "proto/onnx/onnx.h"
#include "proto/write/write.h"

enum {
    BL_ONNX_MAX_KNOWN = 65536, /* elements of a tensor that is computed with at import */
    BL_ONNX_MAX_NESTING = 16,  /* of functions and branches that are written in place */
    BL_ONNX_MAX_NODES = 1000000,
    BL_ONNX_KEPT_NAME = 112 /* of a name that becomes the wire's */
};

typedef struct bl_onnx_graph bl_onnx_graph;

/* The elements of a tensor, in order. */
typedef struct bl_onnx_known {
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_MAX_DIMS];
    int count;
    /* Of integers INDEX nodes, constants or expressions of named dimensions; of bool 0 or 1 or, where that is not decided, a
     * bool; of floats, where there are named dimensions in them, elements (engine/ir/elements.h); else NULL. */
    const bl_node **size;
    double *real; /* of floats without named dimensions; else NULL */
} bl_onnx_known;

/* An element type that no tensor here has, and the dtype that holds its values (narrow.c). */
typedef struct bl_onnx_narrow {
    int data_type; /* TensorProto's */
    bl_dtype dtype;
    int bits;               /* of an element in the file, the first in the low ones */
    int mantissa, exponent; /* of floats: bits behind the leading one; the exponent of the smallest normal value */
    double least, most;
    bool has_nan;  /* and no infinities, and one zero */
    bool is_power; /* a float without sign and mantissa */
} bl_onnx_narrow;

typedef struct bl_onnx_value {
    const char *name;
    const bl_node *type; /* some node of its dtype and shape */
    const bl_onnx_known *known;
    const Onnx__TensorProto *tensor; /* an initialiser that no state is made of yet */
    bl_onnx_graph *graph;            /* in which it is written, or NULL */
    bl_wire_ref ref;                 /* there */
    const bl_onnx_narrow *narrow;    /* its type in the model, where that is narrower; else NULL */
    int nitems;                      /* of a sequence: these are its tensors, and it has no type */
    struct bl_onnx_value **item;
    bool sequence;
    unsigned unknown;            /* its elements were asked for in this round (bl_onnx_importer.round), and are not known */
    struct bl_onnx_value *count; /* how long axis |counted| is for these data, an int64; NULL: all of it counts */
    int counted;
    bool texts;                   /* a tensor of strings: int64, the numbers of its texts */
    struct bl_onnx_value *keys;   /* of a sequence of maps, which is the tensor [rows, keys] here: the keys, known */
    struct bl_onnx_value *pixels; /* of an encoded picture that is an input, which has no type: what it is in the program */
} bl_onnx_value;

/* A wire graph that grows: that of the program, a body, or that of a node which is folded. */
struct bl_onnx_graph {
    bl_onnx_graph *outer;
    bool folds; /* the last: everything from outside is an input, also what is known */
    bl_typer_graph *typer;
    bl_wire_graph wire;
    int node_cap, input_cap;
    int ncaptured, captured_cap, first_captured; /* inputs of a body from first_captured on stand for these */
    bl_onnx_value **captured;
    bl_onnx_value **inside; /* what they are in the body */
    int inside_cap;
    const bl_node **given; /* elements of a body's own inputs, of one element each, and NULL of others; NULL: of none */
};

typedef struct bl_onnx_slot {
    const char *name; /* NULL: free */
    bl_onnx_value *value;
} bl_onnx_slot;

/* Names of values, and where they are looked for next. */
typedef struct bl_onnx_names {
    struct bl_onnx_names *outer;
    bl_onnx_graph *graph;
    size_t count, cap; /* cap is a power of two */
    bl_onnx_slot *slot;
    const Onnx__FunctionProto *function; /* whose body they are of, or NULL */
    const Onnx__NodeProto *caller;       /* the node that stands for it: what ref_attr_name means */
    const struct bl_onnx_names *caller_names;
} bl_onnx_names;

/* What a dimension that the model leaves open is likely to be. */
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
    bl_wire_var var; /* the range that the import is tried with */
    bl_onnx_role role;
    int64_t most; /* the largest size that is wanted */
    int same;     /* the number of the dimension that it is; its own where it is its own */
    int input;    /* that has it first, for who looks for dimensions of other inputs */
    bool said;    /* by the options: it stays as it is */
} bl_onnx_dim;

typedef struct bl_onnx_importer {
    bl_span file;
    const bl_onnx_options *options;
    bl_onnx_model *model;
    bl_arena *arena;   /* of the result */
    bl_arena *scratch; /* of the rest */
    const Onnx__ModelProto *proto;
    bl_typer *typer;
    bl_ir *ir;
    bl_onnx_graph *main;
    int state_cap, value_cap;
    int ndims; /* that the model leaves open */
    bl_onnx_dim *dims;
    int nvars; /* of these, those that are their own and that an input has */
    bl_wire_var vars[BL_WIRE_MAX_DIMS];
    size_t nnodes; /* ONNX nodes so far */
    int depth;
    int64_t launches;       /* of all loops, at the largest sizes, roughly */
    bl_onnx_names *taken;   /* names of inputs and states */
    bl_onnx_names *encoded; /* of values that ImageDecoder takes */
    bool outline;           /* no nodes are written */
    bl_ptrmap *weights;     /* of the file's large tensors: their numbers plus 1, as a pointer; NULL where nobody asks */
    int nweights, weight_cap;
    unsigned round; /* in which it is asked what is known: from 1 on */
    bool *wanted;   /* of the model's inputs: something that was asked for depends on their elements */
    bool tabular;   /* it has operators of ai.onnx.ml: inputs have rows */
    bl_err *err;
    bool failed;
} bl_onnx_importer;

/* One node of the model on its way to the wire. */
typedef struct bl_onnx_call {
    bl_onnx_importer *import;
    bl_onnx_names *names;
    bl_onnx_graph *graph;
    const Onnx__NodeProto *node;
    const char *label; /* its name, or that of its first output */
    int64_t opset;     /* of its domain */
    int nin, nout;
    bl_onnx_value **in;  /* NULL where left out */
    bl_onnx_value **out; /* set by the op's function; NULL where nobody wants it */
    int nwritten;        /* wire nodes that it became so far */
} bl_onnx_call;

/* "node \"NAME\" (OP): ..."; NULL. */
void *bl_onnx_fail(bl_onnx_call *c, const char *fmt, ...) BL_PRINTF(2, 3);
void *bl_onnx_fail_as(bl_onnx_call *c, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
/* Input |i| of the node, |what| ("its trip count,"), is not known, and must be.  The failure names the model's inputs on which
 * the elements depend, and bl_onnx_want is called. */
void *bl_onnx_fail_unknown(bl_onnx_call *c, int i, const char *what);
/* The import has failed, or will fail, and would not if input |i| of the node were known: model->wanted, where values of the
 * model's inputs tell it. */
void bl_onnx_want(bl_onnx_call *c, int i);

/* ---- values (import.c) */
bl_onnx_value *bl_onnx_find(const bl_onnx_names *names, const char *name); /* NULL if there is none */
void bl_onnx_put(bl_onnx_importer *m, bl_onnx_names *names, const char *name, bl_onnx_value *value);
/* Whether all is well, memory included. */
bool bl_onnx_ok(bl_onnx_importer *m);
/* A failure of no node. */
void *bl_onnx_stop(bl_onnx_importer *m, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
const char *bl_onnx_clean(bl_onnx_importer *m, const char *text); /* fit to be printed */
/* |text| with _ for all that the API's names cannot have. */
char *bl_onnx_legal_name(bl_onnx_importer *m, const char *text);
/* The same, unlike all others so far. */
const char *bl_onnx_wire_name(bl_onnx_importer *m, const char *text);
/* Nodes that give outputs get their names, where nothing else has them: a program that is stored is a document, whose outputs
 * are called what they refer to. */
void bl_onnx_name_outputs(bl_onnx_importer *m);
bl_onnx_value *bl_onnx_new_value(bl_onnx_importer *m, const char *name, const bl_node *type);
/* What stands for |value| in |graph|, written there if it is not yet. */
bl_wire_ref bl_onnx_use(bl_onnx_importer *m, bl_onnx_graph *graph, bl_onnx_value *value);
/* A state of the program with this name (made unique) and content. */
bl_wire_ref bl_onnx_add_state(bl_onnx_importer *m, const char *name, const bl_tensor_value *value);
/* The same as a value. */
bl_onnx_value *bl_onnx_state_value(bl_onnx_importer *m, const char *name, const bl_tensor_value *value);
bl_onnx_graph *bl_onnx_open_graph(bl_onnx_importer *m, bl_onnx_graph *outer);
bl_onnx_names *bl_onnx_open_names(bl_onnx_importer *m, bl_onnx_names *outer, bl_onnx_graph *graph);
/* The nodes of a graph, one after the other. */
void bl_onnx_write_graph(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph);
/* A body's input of this type. */
bl_onnx_value *bl_onnx_body_input(bl_onnx_importer *m, bl_onnx_graph *body, const char *name, bl_dtype dtype, int ndim,
                                  const bl_node *const *dim);
void bl_onnx_body_outputs(bl_onnx_importer *m, bl_onnx_graph *body, int n, bl_onnx_value **value);

/* ---- dimensions that the model leaves open (dims.c) */
/* List them, with what the options say of them. */
void bl_onnx_list_dims(bl_onnx_importer *m, const Onnx__GraphProto *graph);
/* An import failed: add to |err| the ranges that the options say, which may be the reason. */
void bl_onnx_blame_dims(const bl_onnx_importer *m, bl_err *err);
/* The name of one: of |from|, dimension |axis| of |input|. */
const char *bl_onnx_dim_name(bl_onnx_importer *m, const char *input, int axis, const Onnx__TensorShapeProto__Dimension *from);
bool bl_onnx_is_open(const Onnx__TensorShapeProto__Dimension *from);
bool bl_onnx_is_initialiser(const Onnx__GraphProto *graph, const char *name);
/* The tensor that an input is, an optional one too; NULL: it is none. */
const Onnx__TypeProto__Tensor *bl_onnx_tensor_type(const Onnx__ValueInfoProto *info);
const char *bl_onnx_side_name(bl_onnx_importer *m, const char *input, bool width);

/* ---- ranges (search.c) */
/* One import with the ranges that dims have, into |arena|. */
typedef bl_status bl_onnx_attempt(void *arg, bl_arena *arena, bl_onnx_model *out, bl_err *err);
/* The attempt failed as |first| says: choose ranges of what is not said with which it does not.  Changes |dims|; BL_OK or
 * |first|'s status. */
BL_NODISCARD bl_status bl_onnx_search(int ndims, bl_onnx_dim *dims, size_t max_bytes, double max_seconds,
                                      bl_onnx_attempt *attempt, void *arg, int *attempts, const bl_err *first);

/* ---- inputs (inputs.c) */
/* Types of the inputs, and so the named dimensions; then what the names stand for. */
void bl_onnx_take_inputs(bl_onnx_importer *m, const Onnx__GraphProto *graph, bl_wire_tensor *inputs, int *ninputs);
void bl_onnx_put_inputs(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph);

/* ---- outline.c */
/* Number the weights, in an order that the file alone decides. */
void bl_onnx_find_weights(bl_onnx_importer *m);
/* From 0 on; -1 for what is none. */
int bl_onnx_weight_of(const bl_onnx_importer *m, const Onnx__TensorProto *tensor);
/* All that there is of an outline but its inputs and the names of its outputs. */
void bl_onnx_write_outline(bl_onnx_importer *m, const Onnx__GraphProto *graph);
/* An output of the program that is written: it can be one, and is what an outline has said. */
bool bl_onnx_check_output(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, const bl_onnx_value *value);
/* What a value is declared as; false where it is no tensor of the wire. */
bool bl_onnx_declared_type(const Onnx__ValueInfoProto *info, bl_wire_type *out);
/* The opset of a domain for the nodes among |names|. */
int64_t bl_onnx_opset(const bl_onnx_importer *m, const bl_onnx_names *names, const char *domain);
const Onnx__FunctionProto *bl_onnx_find_function(const bl_onnx_importer *m, const char *domain, const Onnx__NodeProto *node);
const char *bl_onnx_node_label(bl_onnx_importer *m, const Onnx__NodeProto *node); /* its name, or that of its first output */
/* The failure of a node that has no operator. */
void *bl_onnx_fail_operator(bl_onnx_call *c, const char *domain);

/* ---- order (order.c) */
/* The nodes, each behind those whose outputs it takes: |node| itself where they are so. */
Onnx__NodeProto **bl_onnx_order(bl_onnx_importer *m, size_t n, Onnx__NodeProto **node);

/* ---- attributes (attribute.c); a wrong kind is a failure */
const Onnx__AttributeProto *bl_onnx_attr(const bl_onnx_call *c, const char *name); /* NULL if left out */
int64_t bl_onnx_int(bl_onnx_call *c, const char *name, int64_t preset);
double bl_onnx_float(bl_onnx_call *c, const char *name, double preset);
const char *bl_onnx_text(bl_onnx_call *c, const char *name, const char *preset);
/* How many; -1 if left out.  *out lives as long as the model. */
int bl_onnx_ints(bl_onnx_call *c, const char *name, const int64_t **out);
int bl_onnx_floats(bl_onnx_call *c, const char *name, const float **out);
const Onnx__GraphProto *bl_onnx_body(bl_onnx_call *c, const char *name);

/* ---- tensors of the file (tensor.c, external.c) */
/* TensorProto's number for the elements of a value. */
int bl_onnx_data_type(const bl_onnx_value *value);
/* The wire's dtype, or BL_DTYPE_COUNT; of narrower types the one that holds their values. */
bl_dtype bl_onnx_dtype(int data_type);
bool bl_onnx_is_strings(int data_type);
/* The same, and int64 where it is strings. */
bl_dtype bl_onnx_stored_dtype(int data_type);
/* dtype, shape, elements and bytes, within the limits. */
BL_NODISCARD bl_status bl_onnx_shape(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err);
/* These and where the bytes are: in the file where they can stay there, else in the result's arena. */
BL_NODISCARD bl_status bl_onnx_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err);
/* The bytes of external data, mapped. */
BL_NODISCARD bl_status bl_onnx_external(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_span *out, bl_err *err);

/* ---- narrower element types (narrow.c) */
const bl_onnx_narrow *bl_onnx_narrow_find(int data_type); /* NULL: it is none */
size_t bl_onnx_narrow_bytes(const bl_onnx_narrow *narrow, size_t count);
/* The elements of |out| from |raw|, where they are packed. */
BL_NODISCARD bl_status bl_onnx_widen(bl_onnx_importer *m, const bl_onnx_narrow *narrow, bl_span raw, bl_tensor_value *out,
                                     bl_err *err);
/* |x| as Cast has it: of integers the low bits, of floats the nearest value; what is too large saturates, or is NaN. */
bl_onnx_value *bl_onnx_narrow_cast(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow, bool saturates);
/* A float |x| as quantisation has it: what is too large or too small saturates. */
bl_onnx_value *bl_onnx_narrow_clamp(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_narrow *narrow);

/* ---- known values (known.c) */
/* The elements of |value|, or NULL where they are not known (no failure). */
const bl_onnx_known *bl_onnx_know(bl_onnx_importer *m, bl_onnx_value *value);
/* NULL where they are too many or do not fit. */
const bl_onnx_known *bl_onnx_read_content(bl_onnx_importer *m, const bl_tensor_value *content);
bl_onnx_known *bl_onnx_new_known(bl_onnx_importer *m, bl_dtype dtype, int ndim, const int64_t *dim);
bl_onnx_value *bl_onnx_known_value(bl_onnx_importer *m, const bl_onnx_known *known);
bl_onnx_value *bl_onnx_known_ints(bl_onnx_importer *m, int count, const int64_t *value); /* int64 [count] */
bl_onnx_value *bl_onnx_known_sizes(bl_onnx_importer *m, int count, const bl_node *const *size);
bl_onnx_value *bl_onnx_known_real(bl_onnx_importer *m, bl_dtype dtype, double value); /* a scalar of any dtype */
bl_onnx_value *bl_onnx_known_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor);
/* Of a state of the program; NULL where its content has too many elements. */
bl_onnx_value *bl_onnx_content_value(bl_onnx_importer *m, const bl_tensor_value *content);
/* An int64 scalar. */
bl_onnx_value *bl_onnx_size_value(bl_onnx_call *c, const bl_node *size);
/* The wire node (or state) that a known value is in |graph|. */
bl_wire_ref bl_onnx_write_known(bl_onnx_importer *m, bl_onnx_graph *graph, const char *name, const bl_onnx_known *known);
/* An INDEX node in the wire's language of sizes, or NULL where that has no words for it. */
const char *bl_onnx_size_text(bl_onnx_importer *m, const bl_node *size);
/* Input number |i| as whole numbers, all of them constants: how many, -1 where it is left out; a failure (and -1) where it is not
 * known. */
int bl_onnx_in_ints(bl_onnx_call *c, int i, const int64_t **out);
/* The same, where named dimensions may be in them. */
int bl_onnx_in_sizes(bl_onnx_call *c, int i, const bl_node *const **out);
int bl_onnx_in_reals(bl_onnx_call *c, int i, const double **out);
/* Input number |i|, one float, as num / den, where named dimensions may be in it. */
bool bl_onnx_in_fraction(bl_onnx_call *c, int i, const bl_node **num, int64_t *den);
/* An attribute up to some opset, an input from then on: whichever is there. */
int bl_onnx_ints_or_in(bl_onnx_call *c, const char *name, int i, const int64_t **out);

/* ---- axes whose length the data decide (rows.c): as long as they can be, with a count of what is theirs */
/* Axis |axis| of |value| has so many elements as |count| says.  |value|. */
bl_onnx_value *bl_onnx_count(bl_onnx_value *value, bl_onnx_value *count, int axis);
/* Whether the node can take such axes as its inputs have; else a failure. */
bool bl_onnx_may_take_counted(bl_onnx_call *c);
/* Which axes of its results are such ones. */
void bl_onnx_keep_counted(bl_onnx_call *c);

/* ---- strings (text.c) */
/* The number of a text, a new one where the model does not have the text yet. */
int64_t bl_onnx_text_number(bl_onnx_importer *m, bl_span text);
/* False after a failure: the node is given strings that its operator does not take. */
bool bl_onnx_check_texts(bl_onnx_call *c);
/* Results of a node that moves strings are strings. */
void bl_onnx_mark_texts(bl_onnx_call *c);

/* ---- tables and maps (ops_ml_map.c) */
/* The port's maps have these known keys. (import.c) */
void bl_onnx_take_keys(bl_onnx_importer *m, const bl_onnx_value *keys, bl_onnx_port *port);
/* Whether the graph has operators of ai.onnx.ml. */
bool bl_onnx_is_tabular(const Onnx__GraphProto *graph);
/* How many keys the map of this name has: those that the operator which takes it knows, 0 where it takes any number of them, -1
 * where no such operator takes it. */
int64_t bl_onnx_count_keys(const Onnx__GraphProto *graph, const char *name);

/* ---- pictures (ops_image.c) */
/* Whether the node is an ImageDecoder. */
bool bl_onnx_decodes(const Onnx__NodeProto *node);
/* Put what such nodes take into m->encoded. */
void bl_onnx_find_pictures(bl_onnx_importer *m, const Onnx__GraphProto *graph, int depth);

/* ---- trip counts (trips.c) */
/* How many steps a loop's condition allows that holds before the first, an INDEX node; NULL where that is not known.  |body| was
 * written with the number of the step as its first input and the carries of |c| behind it; |next| are the carries after a step,
 * and |goes_on| is the condition. */
const bl_node *bl_onnx_count_trips(bl_onnx_call *c, bl_onnx_graph *body, int ncarries, bl_onnx_value *const *next,
                                   bl_onnx_value *goes_on);
/* A loop of so many steps is written; false, and a failure, where the loops of the model have too many. */
bool bl_onnx_add_steps(bl_onnx_call *c, const bl_node *length, const bl_onnx_graph *body);

/* ---- writing nodes (nodes.c) */
/* bl_write_one and bl_write_many of proto/write for a node: the letters are its inputs, and @name is an attribute of the node. */
bl_onnx_value *bl_onnx_make(bl_onnx_call *c, const char *text, const bl_write_arg *args);
bool bl_onnx_make_many(bl_onnx_call *c, const char *text, const bl_write_arg *args, int n, bl_onnx_value **out);

/* ---- operators (ops.c) */
typedef struct bl_onnx_op {
    const char *domain; /* "" is ONNX's own */
    const char *name;
    int since; /* opset of its domain */
    const char *recipe;
    bl_onnx_value *(*write)(bl_onnx_call *c); /* its first result, or all in c->out and the first */
    const char *doc;
} bl_onnx_op;
extern const bl_onnx_op bl_onnx_ops[];
extern const size_t bl_onnx_ops_count;
/* The row for an opset, or NULL. */
const bl_onnx_op *bl_onnx_op_find(const char *domain, const char *name, int64_t opset);
/* Write |c| as |op| says: c->out. */
void bl_onnx_write_op(bl_onnx_call *c, const bl_onnx_op *op);

/* ---- folding (fold.c) */
/* Compute the node at import, where all its inputs are known and small.  False: it is to be written. */
bool bl_onnx_fold(bl_onnx_call *c, const bl_onnx_op *op);
/* The elements of |value| are asked for again, and m->wanted says which inputs they depend on.  False: they are known. */
bool bl_onnx_find_wanted(bl_onnx_importer *m, bl_onnx_value *value);
/* The elements of |node|, the value of something written in |graph|; NULL where they are not known. */
const bl_onnx_known *bl_onnx_compute(bl_onnx_importer *m, bl_onnx_graph *graph, const bl_node *node);

#define BL_ONNX(domain, name, since, recipe, doc)
#define BL_ONNX_CALL(domain, name, since, id, doc) bl_onnx_value *bl_onnx_write_##id(bl_onnx_call *c);
#include "proto/onnx/ops.def"
#undef BL_ONNX
#undef BL_ONNX_CALL

/* |x| by the activation of a recurrent network that is called so; the function's own numbers where |alpha| and |beta| are NULL
 * (ops_recurrent.c). */
bl_onnx_value *bl_onnx_activate(bl_onnx_call *c, const char *name, bl_onnx_value *x, const double *alpha, const double *beta);
/* Input number |i|; NULL where it is left out. */
static inline bl_onnx_value *bl_onnx_in(const bl_onnx_call *c, int i)
{
    return i < c->nin ? c->in[i] : NULL;
}
/* The node wants output number |i|. */
static inline bool bl_onnx_wants(const bl_onnx_call *c, int i)
{
    return i < c->nout && *c->node->output[i] != '\0';
}
/* 0 <= result < rank, counted from the end where negative; or a failure and 0. */
int bl_onnx_axis(bl_onnx_call *c, int64_t axis, int rank);
/* Rank and dtype; of NULL, after a failure, some. */
static inline int bl_onnx_rank(const bl_onnx_value *v)
{
    return v != NULL && v->type != NULL ? v->type->ndim : 0;
}
static inline bl_dtype bl_onnx_type(const bl_onnx_value *v)
{
    return v != NULL && v->type != NULL ? (bl_dtype)v->type->dtype : BL_F32;
}

#endif
