/* SPDX-License-Identifier: MIT */
/* planes FORMAT ROWS COLUMNS: reads ggml's blocks from standard input and writes the planes of bl_quant_planes, one after the
 * other, to standard output.  Standard error has a line per plane: its dtype and extents.  For test_quant.py. */
#include "proto/llm/repack.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const bl_quant_type *type = argc == 4 ? bl_quant_get(argv[1]) : NULL;
    long long rows = argc == 4 ? atoll(argv[2]) : 0, columns = argc == 4 ? atoll(argv[3]) : 0;
    bl_quant_plane plane[BL_QUANT_PLANES];
    void *data[BL_QUANT_PLANES] = {NULL};
    int n = type == NULL ? 0 : bl_quant_planes(type, rows, columns, plane);

    if (n == 0)
        return 2;
    size_t bytes = (size_t)(rows * (columns / type->block)) * (size_t)type->bytes;
    char *blocks = malloc(bytes + 1);
    for (int i = 0; i < n; i++)
        data[i] = malloc(plane[i].bytes + 1);
    if (blocks == NULL || fread(blocks, 1, bytes, stdin) != bytes)
        return 2;
    bl_quant_fill(type, rows, columns, blocks, data);
    for (int i = 0; i < n; i++) {
        fprintf(stderr, "%s", bl_dtype_name(plane[i].dtype));
        for (int d = 0; d < plane[i].ndim; d++)
            fprintf(stderr, " %lld", (long long)plane[i].dim[d]);
        fprintf(stderr, "\n");
        if (fwrite(data[i], 1, plane[i].bytes, stdout) != plane[i].bytes)
            return 2;
        free(data[i]);
    }
    free(blocks);
    return 0;
}
