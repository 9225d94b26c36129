/* SPDX-License-Identifier: MIT */
/* libFuzzer: a request of the Open Inference Protocol.  The first line is the header Inference-Header-Content-Length (empty: no
 * header), the rest is the body.  Reads each element of its tensors. */
#include "proto/infer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const bl_infer_input *input)
{
    static volatile unsigned char sum;
    bl_err err = {0};
    if (input->datatype == BL_INFER_BYTES) {
        for (size_t i = 0; i < input->value.count; i++)
            for (size_t k = 0; k < input->items[i].len; k++)
                sum = (unsigned char)(sum ^ (unsigned char)input->items[i].data[k]);
        return;
    }
    void *out = malloc(input->value.bytes > 0 ? input->value.bytes : 1);
    if (out != NULL && bl_tensor_scan(&input->value, out, &err) != BL_OK)
        err = (bl_err){0};
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bl_wire_limits limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_infer_request request;
    bl_err err = {0};
    if (arena != NULL && line != NULL) {
        size_t len = (size_t)(line - data);
        const char *header = bl_arena_strndup(arena, (const char *)data, len);
        bl_span body = {(const char *)line + 1, size - len - 1};
        if (bl_infer_decode(arena, body, len > 0 ? header : NULL, 64, &limits, &request, &err) == BL_OK)
            for (int i = 0; i < request.ninputs; i++)
                touch(&request.inputs[i]);
    }
    bl_arena_destroy(arena);
    return 0;
}
