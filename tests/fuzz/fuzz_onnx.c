/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is an ONNX model; imports it up to the key of its plan. */
#include "proto/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_onnx_options options = {.limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 12, .max_tensor_bytes = 1 << 24},
                               .max_bytes = 256 << 20,
                               .max_seconds = 5};
    bl_onnx_model model = {0};
    bl_err err = {0};
    bl_wire_key key;

    if (arena == NULL)
        return 0;
    if (bl_onnx_import((bl_span){(const char *)data, size}, &options, arena, &model, &err) == BL_OK &&
        bl_wire_make_key(arena, &model.program.entries[0].graph, "", &key, &err) != BL_OK)
        err = (bl_err){0};
    bl_arena_destroy(arena);
    return 0;
}
