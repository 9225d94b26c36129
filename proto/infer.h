/* The Open Inference Protocol v2 with its binary tensor data extension: a JSON envelope, followed by the bytes of the binary
 * tensors in the envelope's order.  Decoded numbers and bytes refer to the body, which must outlive the decoded request.  Thread:
 * any. */
#ifndef BL_PROTO_INFER_H
#define BL_PROTO_INFER_H

#include "proto/tensor.h"

/* An element type of the protocol: a bl_dtype, or BYTES, whose elements are strings of any length. */
enum { BL_INFER_BYTES = BL_DTYPE_COUNT };

const char *bl_infer_datatype(int datatype); /* "FP32"; "" if the protocol has no such type */
/* -1 if there is no such name. */
int bl_infer_datatype_find(const char *name);

typedef struct bl_infer_input {
    const char *name;
    int datatype;
    bl_tensor_value value; /* of kind LIST or BYTES, with checked shape and count; datatype BYTES sets the shape and count only */
    const bl_span *items;  /* datatype BYTES: value.count items */
} bl_infer_input;

typedef struct bl_infer_output {
    const char *name;
    bool binary;
    uint64_t classes; /* 0: return the tensor; else return the |classes| largest elements with their labels */
} bl_infer_output;

typedef enum bl_infer_nonfinite { BL_NONFINITE_STRING, BL_NONFINITE_NULL, BL_NONFINITE_BARE } bl_infer_nonfinite;

typedef struct bl_infer_request {
    const char *id; /* NULL: not given */
    int ninputs;
    bl_infer_input *inputs;
    bool all; /* the request names no outputs: return all, binary if |binary| */
    int noutputs;
    bl_infer_output *outputs;
    bool raw;     /* the body is the bytes of one tensor, |tail|, without an envelope */
    bl_span tail; /* the bytes after the envelope */
    bool binary;  /* binary_data_output */
    bool sequenced, sequence_start, sequence_end;
    const char *sequence;          /* the id; a numeric id as its text */
    uint64_t priority, timeout_us; /* 0: not given */
    bl_infer_nonfinite nonfinite;
} bl_infer_request;

/* Decodes the body of a request.  |header| is the value of Inference-Header-Content-Length, or NULL.  Checks sizes against the
 * bytes present; the caller checks the inputs against the model. */
BL_NODISCARD bl_status bl_infer_decode(bl_arena *arena, bl_span body, const char *header, int depth, const bl_wire_limits *limits,
                                       bl_infer_request *out, bl_err *err);
/* Decodes one member of the request's "parameters".  Ignores an unknown key if its value is a string, a number or a bool. */
BL_NODISCARD bl_status bl_infer_decode_parameter(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err);
/* Whether |name| is a known parameter. */
bool bl_infer_is_parameter(const char *name);
/* Splits |text| into |count| elements, each preceded by its length in four bytes. */
BL_NODISCARD bl_status bl_infer_split(bl_arena *arena, const char *name, bl_span text, size_t count, const bl_span **out,
                                      bl_err *err);

/* A tensor of a response. */
typedef struct bl_infer_result {
    const char *name;
    int datatype;
    int ndim;
    int64_t dim[16];
    size_t count;
    const void *data;     /* elements of a numeric datatype */
    const bl_span *items; /* elements of datatype BYTES */
    bool binary;
    bl_infer_nonfinite nonfinite;
} bl_infer_result;

/* Size of the result's bytes after the envelope. */
size_t bl_infer_result_bytes(const bl_infer_result *result);
/* Appends the elements of a BYTES result, each preceded by its length. */
void bl_infer_join(bl_text *out, const bl_infer_result *result);
/* {"name","shape","datatype","parameters"?,"data"?} */
void bl_infer_put_result(bl_text *out, const bl_infer_result *result);

#endif
