/* SPDX-License-Identifier: MIT */
/* libFuzzer: bytes as an encoded picture, which is decoded where it is small. */
#include "proto/picture.h"

#include <stdlib.h>

enum { LARGEST = 1 << 20 }; /* bytes of pixels */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_picture picture;
    bl_err err = {0};
    if (bl_picture_open((bl_span){(const char *)data, size}, &picture, &err) == BL_OK && bl_picture_bytes(&picture) <= LARGEST) {
        void *out = malloc(bl_picture_bytes(&picture)); /* exactly: the sanitizer sees a byte too much */
        if (out != NULL && bl_picture_read(&picture, out, &err) != BL_OK)
            err = (bl_err){0};
        free(out);
    }
    return 0;
}
