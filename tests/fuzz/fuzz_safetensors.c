/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is a safetensors file; reads each byte of its tensors. */
#include "proto/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile unsigned char sink;
    const bl_wire_limits limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_tensor_file file;
    bl_err err = {0};

    if (arena == NULL)
        return 0;
    if (bl_safetensors_open(arena, (bl_span){(const char *)data, size}, &limits, &file, &err) == BL_OK) {
        for (size_t i = 0; i < file.ntensors; i++) {
            for (size_t k = 0; k < file.tensors[i].bytes; k++)
                sink = (unsigned char)(sink ^ (unsigned char)file.tensors[i].data[k]);
        }
    }
    bl_arena_destroy(arena);
    return 0;
}
