/* SPDX-License-Identifier: MIT */
/* Decodes a JPEG or PNG picture to rows of 8-bit red, green and blue; transparent pixels are blended with white.  bl_picture_open
 * reads the size only, bl_picture_read decodes the pixels into the caller's memory.  Thread: any. */
#ifndef BL_PROTO_PICTURE_H
#define BL_PROTO_PICTURE_H

#include "engine/base/status.h"
#include "engine/base/text.h"

enum { BL_PICTURE_CHANNELS = 3, BL_PICTURE_MAX_SIDE = 16384 };

typedef struct bl_picture {
    bl_span file; /* the caller's; must outlive the picture */
    int height, width;
} bl_picture;

/* Reads the header of |file|.  BL_EINVAL if it is no picture, BL_ELIMIT if a side exceeds BL_PICTURE_MAX_SIDE. */
BL_NODISCARD bl_status bl_picture_open(bl_span file, bl_picture *out, bl_err *err);
/* Writes height * width * BL_PICTURE_CHANNELS bytes.  A truncated JPEG does not fail: the decoder fills the missing part. */
BL_NODISCARD bl_status bl_picture_read(const bl_picture *picture, void *out, bl_err *err);
static inline size_t bl_picture_bytes(const bl_picture *picture)
{
    return (size_t)picture->height * (size_t)picture->width * BL_PICTURE_CHANNELS;
}

/* Scales the pixels |from| to the size of |to|; |scratch| has room for bl_picture_scratch floats. */
void bl_picture_scale(const unsigned char *from, int height, int width, unsigned char *to, int to_height, int to_width,
                      float *scratch);
size_t bl_picture_scratch(int height, int width, int to_height, int to_width);

#endif
