/* The Open Inference Protocol v2 with the binary tensor data extension: a JSON envelope, and behind it the bytes of those tensors
 * that the envelope says are binary, in its order.
 * Numbers and bytes stay where they are in the body, which must live as long as what is decoded here.  Thread: any. */
#ifndef BL_PROTO_INFER_H
#define BL_PROTO_INFER_H

#include "proto/tensor.h"

/* An element type of the protocol: one of ours, or BYTES, whose elements are strings of any length. */
enum { BL_INFER_BYTES = BL_DTYPE_COUNT };

const char *bl_infer_datatype(int datatype); /* "FP32"; "" for those that the protocol does not know */
/* -1 where there is no such name. */
int bl_infer_datatype_find(const char *name);

typedef struct bl_infer_input {
    const char *name;
    int datatype;
    bl_tensor_value value; /* of kind LIST or BYTES, its shape and count checked; of BYTES the shape and count alone */
    const bl_span *items;  /* BYTES: value.count of them */
} bl_infer_input;

typedef struct bl_infer_output {
    const char *name;
    bool binary;
    uint64_t classes; /* 0: the tensor itself; else so many of its largest elements, named */
} bl_infer_output;

typedef enum bl_infer_nonfinite { BL_NONFINITE_STRING, BL_NONFINITE_NULL, BL_NONFINITE_BARE } bl_infer_nonfinite;

typedef struct bl_infer_request {
    const char *id; /* NULL: none */
    int ninputs;
    bl_infer_input *inputs;
    bool all; /* outputs were not named: each is asked for, binary or not as |binary| says */
    int noutputs;
    bl_infer_output *outputs;
    bool raw;     /* the body is one tensor, |tail|, and there is no envelope */
    bl_span tail; /* what follows the envelope */
    bool binary;  /* binary_data_output */
    bool sequenced, sequence_start, sequence_end;
    const char *sequence;          /* the id, a number as it was written */
    uint64_t priority, timeout_us; /* 0: not given */
    bl_infer_nonfinite nonfinite;
} bl_infer_request;

/* The body of a request.  |header| is the value of Inference-Header-Content-Length, or NULL where there was none.  Whether the
 * inputs are those of a model is the caller's affair, but sizes and bytes are checked against each other. */
BL_NODISCARD bl_status bl_infer_decode(bl_arena *arena, bl_span body, const char *header, int depth, const bl_wire_limits *limits,
                                       bl_infer_request *out, bl_err *err);
/* A member of the request's "parameters", by its key.  One that means nothing here is somebody's own: taken without effect where
 * it is a string, a number or a bool. */
BL_NODISCARD bl_status bl_infer_decode_parameter(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err);
/* Does it mean something? */
bool bl_infer_is_parameter(const char *name);
/* The elements of |text|, each behind its length in four bytes; exactly |count|. */
BL_NODISCARD bl_status bl_infer_split(bl_arena *arena, const char *name, bl_span text, size_t count, const bl_span **out,
                                      bl_err *err);

/* A tensor of an answer. */
typedef struct bl_infer_result {
    const char *name;
    int datatype;
    int ndim;
    int64_t dim[16];
    size_t count;
    const void *data;     /* numbers */
    const bl_span *items; /* BYTES */
    bool binary;
    bl_infer_nonfinite nonfinite;
} bl_infer_result;

/* Bytes of a result behind the envelope. */
size_t bl_infer_result_bytes(const bl_infer_result *result);
/* The elements of a result of BYTES, each behind its length. */
void bl_infer_join(bl_text *out, const bl_infer_result *result);
/* {"name","shape","datatype","parameters"?,"data"?} */
void bl_infer_put_result(bl_text *out, const bl_infer_result *result);

#endif
