/* Tensor values of requests: the decoder describes a value, and bl_tensor_scan reads it directly into a typed buffer.  A value
 * refers to text, base64 or bytes in the body, so the body must live until the scan.  Thread: any. */
#ifndef BL_PROTO_TENSOR_H
#define BL_PROTO_TENSOR_H

#include "proto/json.h"

typedef enum bl_value_kind {
    BL_VALUE_LIST,   /* a nested or flat list, or a scalar */
    BL_VALUE_BASE64, /* little-endian, row-major */
    BL_VALUE_BYTES,  /* raw bytes in the same order: safetensors or an octet stream */
    BL_VALUE_ZEROS,  /* {"dtype", "shape"} in a program's state */
    BL_VALUE_HELD,   /* a retained tensor of the server's registry */
    BL_VALUE_FILLED, /* written by |fill| from files that an importer has mapped */
    BL_VALUE_MADE    /* the result of |graph|: {"op", "attrs"} in a program's state */
} bl_value_kind;

typedef struct bl_tensor_value {
    bl_value_kind kind;
    const char *label; /* "inputs.x", for messages */
    bl_dtype dtype;
    int ndim;
    int64_t dim[16];
    size_t count;                                /* elements */
    size_t bytes;                                /* count * bl_dtype_bytes, at most the limit of one tensor */
    bl_list list;                                /* BL_VALUE_LIST */
    bl_span span;                                /* BL_VALUE_BASE64, BL_VALUE_BYTES */
    const char *held;                            /* BL_VALUE_HELD */
    bool share;                                  /* BL_VALUE_HELD: use the retained tensor by reference, read-only */
    const bl_wire_graph *graph;                  /* BL_VALUE_MADE: one node, one output */
    void (*fill)(const void *source, void *out); /* BL_VALUE_FILLED */
    const void *source;
} bl_tensor_value;

/* Computes the elements and bytes of a shape.  BL_ELIMIT if they exceed |limits| or if a product overflows, even with a zero
 * extent. */
BL_NODISCARD bl_status bl_tensor_measure(const char *label, bl_dtype dtype, int ndim, const int64_t *dim,
                                         const bl_wire_limits *limits, size_t *count, size_t *bytes, bl_err *err);
/* Writes the elements of |value| to |out|, which has room for value->bytes.  For LIST, BASE64, BYTES, ZEROS and FILLED. */
BL_NODISCARD bl_status bl_tensor_scan(const bl_tensor_value *value, void *out, bl_err *err);
/* Appends |count| elements as "[12,30]". */
void bl_tensor_print(bl_text *out, bl_dtype dtype, const void *data, size_t count);
/* Appends "[2,3]". */
void bl_shape_print(bl_text *out, int ndim, const int64_t *dim);

#endif
