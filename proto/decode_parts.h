/* Shared by the files of the decoder; see decode.h. */
#ifndef BL_PROTO_DECODE_PARTS_H
#define BL_PROTO_DECODE_PARTS_H

#include "proto/decode.h"

#define BL_WIRE_MAX_EXTENT ((int64_t)1 << 40)

/* A range in "dims". */
typedef struct bl_dim_range {
    bl_wire_var var;
    bool used;
} bl_dim_range;

/* A named dimension of the graph being decoded. */
typedef struct bl_dim_use {
    bl_wire_var var;
    bool ranged;  /* var.lo and hi are set */
    int64_t size; /* -1: not met yet */
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
bl_decoder *bl_decoder_make(const bl_decode_env *env); /* NULL: bl_decoder_fail tells why */
bl_status bl_decoder_fail(const bl_decode_env *env, bl_err *err);
/* What runs and jobs have in common. */
BL_NODISCARD bl_status bl_decode_steps(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries,
                                       bl_program_run *out, bl_err *err);
/* An entry with its inputs, and which of its outputs are reported how often in |steps|. */
BL_NODISCARD bl_status bl_decode_reported(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries,
                                          uint64_t steps, bl_program_run *out, bl_err *err);

/* ---- decode_value.c */
BL_NODISCARD bl_status bl_decode_name(bl_decoder *d, const bl_json *at, const char *name, const char **out, bl_err *err);
BL_NODISCARD bl_status bl_decode_ranges(bl_decoder *d, const bl_json *doc, bl_err *err); /* the member "dims" */
BL_NODISCARD bl_status bl_decode_unused_ranges(const bl_decoder *d, const bl_json *doc, bl_err *err);
/* An attribute's text: the dimensions with a range in "dims" that are words of it become the graph's. */
BL_NODISCARD bl_status bl_decode_use_names(bl_decoder *d, const bl_json *at, const char *text, bl_err *err);
/* The member "sizes"; every dimension of the graph must have its size then, from there or from the shape of an input. */
BL_NODISCARD bl_status bl_decode_sizes(bl_decoder *d, const bl_json *doc, bl_err *err);
/* Extents may be numbers and, with |named|, names. */
BL_NODISCARD bl_status bl_decode_shape(bl_decoder *d, const bl_json *shape, bool named, bl_wire_type *type, bl_err *err);
BL_NODISCARD bl_status bl_decode_dtype(const bl_json *at, bl_dtype *out, bl_err *err);
/* {"dtype", "shape"}, the largest size checked. */
BL_NODISCARD bl_status bl_decode_type(bl_decoder *d, const bl_json *at, bl_wire_type *type, bl_err *err);
/* The named dimension |use| has this size here. */
BL_NODISCARD bl_status bl_decode_bind(bl_decoder *d, const char *label, int use, int64_t size, bl_err *err);
/* dtype and shape of a value must be those of |type|; binds the dimensions that it names. */
BL_NODISCARD bl_status bl_decode_match(bl_decoder *d, const bl_tensor_value *value, const bl_wire_type *type, bl_err *err);
/* |declared| gives the dtype where the value does not say (or NULL); the shape is bl_decode_match's affair.  |state|: zeros,
 * initialisers and "share" are taken too. */
BL_NODISCARD bl_status bl_decode_value(bl_decoder *d, const bl_json *at, const bl_wire_type *declared, bool state,
                                       bl_tensor_value *out, bl_err *err);
/* A value from the file beside the document. */
BL_NODISCARD bl_status bl_decode_binary(bl_decoder *d, const char *group, const bl_file_tensor *tensor, bl_tensor_value *out,
                                        bl_err *err);
bl_wire_type bl_value_type(const bl_tensor_value *value);

/* ---- decode_graph.c */
/* "nodes", "outputs", "updates" and "keep" of |doc| into |graph|, whose inputs and states are set. */
BL_NODISCARD bl_status bl_decode_graph(bl_decoder *d, const bl_json *doc, bl_wire_graph *graph, bl_err *err);
/* {"op", "attrs"} as a graph of one node and one output. */
BL_NODISCARD bl_status bl_decode_initialiser(bl_decoder *d, const bl_json *at, const bl_wire_graph **out, bl_err *err);
/* 422 naming the first of |names| that is there twice; |names| gets sorted. */
BL_NODISCARD bl_status bl_decode_distinct(const char **names, size_t count, const bl_json *at, bl_err *err);

#endif
