/* A model's bytes as messages of the schema, without the bytes of its tensors.
 *
 * Every raw_data is left where it is: in the messages stands a bl_onnx_place instead, which says where.  Messages nested deeper
 * than BL_ONNX_MAX_DEPTH are refused before anybody recurses into them. */
#ifndef BL_ONNX_FILE_H
#define BL_ONNX_FILE_H

#include "engine/base/arena.h"
#include "engine/base/text.h"
#include "proto/onnx/onnx.pb-c.h"

enum { BL_ONNX_MAX_DEPTH = 64 };

/* Bytes of the file. */
typedef struct bl_onnx_place {
    uint64_t offset, len;
} bl_onnx_place;

/* *out lives in |arena|, and is not unpacked again. */
BL_NODISCARD bl_status bl_onnx_open(bl_span file, bl_arena *arena, Onnx__ModelProto **out, bl_err *err);
/* The bytes of a tensor's raw_data; false where it has none. */
bool bl_onnx_raw(bl_span file, const Onnx__TensorProto *tensor, bl_span *out);

#endif
