/* SPDX-License-Identifier: MIT */
/* libFuzzer: the first byte selects a data format, the rest is a file in this format, from which a tensor is read. */
#include "proto/data.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *columns[] = {"0", "a"}, *categories[] = {"1"};
    const bl_wire_limits limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};
    unsigned kind = size > 0 ? data[0] : 0;
    bl_data_source source = {.format = (bl_data_format)(kind % BL_DATA_IMAGES),
                             .dtype = (kind & 64) != 0 ? BL_F32 : BL_I16,
                             .ndim = -1,
                             .name = "w",
                             .header = (kind & 32) != 0,
                             .ncolumns = (kind & 16) != 0 ? 2 : -1,
                             .columns = columns,
                             .ncategories = (kind & 128) != 0,
                             .categories = categories};
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_data found;
    bl_err err = {0};
    if (arena != NULL && size > 0 &&
        bl_data_find(arena, &source, (bl_span){(const char *)data + 1, size - 1}, &limits, &found, &err) == BL_OK) {
        void *out = malloc(found.bytes > 0 ? found.bytes : 1); /* the exact size, so that the sanitizer detects an overflow of
                                                                * one byte */
        if (out != NULL && bl_data_read(&found, out, &err) != BL_OK)
            err = (bl_err){0};
        free(out);
    }
    bl_arena_destroy(arena);
    return 0;
}
