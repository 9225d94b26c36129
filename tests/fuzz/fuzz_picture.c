/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is an encoded picture, which is decoded if small. */
#include "proto/picture.h"

#include <stdlib.h>

enum { LARGEST = 1 << 20 }; /* limit of the pixels in bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_picture picture;
    bl_err err = {0};
    if (bl_picture_open((bl_span){(const char *)data, size}, &picture, &err) == BL_OK && bl_picture_bytes(&picture) <= LARGEST) {
        void *out = malloc(bl_picture_bytes(&picture)); /* the exact size, so that the sanitizer detects an overflow of one
                                                         * byte */
        if (out != NULL && bl_picture_read(&picture, out, &err) != BL_OK)
            err = (bl_err){0};
        free(out);
    }
    return 0;
}
