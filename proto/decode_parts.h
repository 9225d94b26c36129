/* Private declarations of the decoder's files; see decode.h.  Thread: one at a time per decoder. */
#ifndef BL_PROTO_DECODE_PARTS_H
#define BL_PROTO_DECODE_PARTS_H

#include "proto/decode.h"

#define BL_WIRE_MAX_EXTENT ((int64_t)1 << 40)

/* A range of "dims". */
typedef struct bl_dim_range {
    bl_wire_var var;
    bool used;
} bl_dim_range;

/* A named dimension of the graph that is decoded. */
typedef struct bl_dim_use {
    bl_wire_var var;
    bool ranged;  /* var.lo and var.hi are set */
    int64_t size; /* -1: not known yet */
} bl_dim_use;

typedef struct bl_decoder {
    const bl_decode_env *env;
    bl_arena *arena;
    const char *lease;
    bool need_ranges; /* a named dimension without a range is an error */
    int nranges, nuses;
    bl_dim_range ranges[BL_WIRE_MAX_DIMS];
    bl_dim_use uses[BL_WIRE_MAX_DIMS];
    int attr_items;
} bl_decoder;

/* ---- decode.c */
bl_decoder *bl_decoder_make(const bl_decode_env *env); /* NULL: call bl_decoder_fail for the reason */
bl_status bl_decoder_fail(const bl_decode_env *env, bl_err *err);
/* The common members of program runs and jobs. */
BL_NODISCARD bl_status bl_decode_steps(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries,
                                       bl_program_run *out, bl_err *err);
/* Decodes an entry with its inputs and the outputs that |steps| steps report. */
BL_NODISCARD bl_status bl_decode_reported(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries,
                                          uint64_t steps, bl_program_run *out, bl_err *err);

/* ---- decode_value.c */
BL_NODISCARD bl_status bl_decode_name(bl_decoder *d, const bl_json *at, const char *name, const char **out, bl_err *err);
BL_NODISCARD bl_status bl_decode_ranges(bl_decoder *d, const bl_json *doc, bl_err *err); /* decodes the member "dims" */
BL_NODISCARD bl_status bl_decode_unused_ranges(const bl_decoder *d, const bl_json *doc, bl_err *err);
/* Adds the dimensions that the attribute text |text| names to the graph's, if they have a range in "dims". */
BL_NODISCARD bl_status bl_decode_use_names(bl_decoder *d, const bl_json *at, const char *text, bl_err *err);
/* Decodes the member "sizes".  Fails unless every dimension of the graph has a size then, from "sizes" or from an input's
 * shape. */
BL_NODISCARD bl_status bl_decode_sizes(bl_decoder *d, const bl_json *doc, bl_err *err);
/* Extents are numbers or, with |named|, also names of dimensions. */
BL_NODISCARD bl_status bl_decode_shape(bl_decoder *d, const bl_json *shape, bool named, bl_wire_type *type, bl_err *err);
BL_NODISCARD bl_status bl_decode_dtype(const bl_json *at, bl_dtype *out, bl_err *err);
/* Decodes {"dtype", "shape"} and checks the largest size against the limits. */
BL_NODISCARD bl_status bl_decode_type(bl_decoder *d, const bl_json *at, bl_wire_type *type, bl_err *err);
/* Sets the size of the named dimension |use|, or checks it if it is already set. */
BL_NODISCARD bl_status bl_decode_bind(bl_decoder *d, const char *label, int use, int64_t size, bl_err *err);
/* Checks that dtype and shape of |value| equal those of |type|; binds the named dimensions of |type|. */
BL_NODISCARD bl_status bl_decode_match(bl_decoder *d, const bl_tensor_value *value, const bl_wire_type *type, bl_err *err);
/* |declared| (or NULL) gives the dtype if the value has none; bl_decode_match checks the shape.  |state|: also accepts zeros,
 * initialisers and "share". */
BL_NODISCARD bl_status bl_decode_value(bl_decoder *d, const bl_json *at, const bl_wire_type *declared, bool state,
                                       bl_tensor_value *out, bl_err *err);
/* Makes a value from a tensor of the safetensors file that holds the document. */
BL_NODISCARD bl_status bl_decode_binary(bl_decoder *d, const char *group, const bl_file_tensor *tensor, bl_tensor_value *out,
                                        bl_err *err);
bl_wire_type bl_value_type(const bl_tensor_value *value);

/* ---- decode_graph.c */
/* Decodes "nodes", "outputs", "updates" and "keep" of |doc| into |graph|; graph's inputs and states are already set. */
BL_NODISCARD bl_status bl_decode_graph(bl_decoder *d, const bl_json *doc, bl_wire_graph *graph, bl_err *err);
/* Decodes {"op", "attrs"} into a graph of one node and one output. */
BL_NODISCARD bl_status bl_decode_initialiser(bl_decoder *d, const bl_json *at, const bl_wire_graph **out, bl_err *err);
/* Fails with the first duplicate of |names|; sorts |names|. */
BL_NODISCARD bl_status bl_decode_distinct(const char **names, size_t count, const bl_json *at, bl_err *err);

#endif
