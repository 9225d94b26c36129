/* Parses a model file without the bytes of its tensors.
 *
 * Each raw_data stays in the file; the parsed message holds a bl_onnx_place in its place.  Messages nested deeper than
 * BL_ONNX_MAX_DEPTH are rejected before any code recurses into them. */
#ifndef BL_PROTO_ONNX_FILE_H
#define BL_PROTO_ONNX_FILE_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "proto/onnx/onnx.pb-c.h"

enum { BL_ONNX_MAX_DEPTH = 64 };

/* A range of bytes in the file. */
typedef struct bl_onnx_place {
    uint64_t offset, len;
} bl_onnx_place;

/* |*out| lives in |arena|; do not call protobuf-c's free_unpacked on it. */
BL_NODISCARD bl_status bl_onnx_open(bl_span file, bl_arena *arena, Onnx__ModelProto **out, bl_err *err);
/* The bytes of a tensor's raw_data; false if it has none. */
bool bl_onnx_raw(bl_span file, const Onnx__TensorProto *tensor, bl_span *out);

#endif
