/* SPDX-License-Identifier: MIT */
/* One picture, JPEG or PNG, as rows of red, green and blue: 8 bits each, what is transparent on white.
 * First how large it is, which costs nothing, then its pixels into memory of the caller's.  Thread: any. */
#ifndef BL_PROTO_PICTURE_H
#define BL_PROTO_PICTURE_H

#include "engine/base/status.h"
#include "engine/base/text.h"

enum { BL_PICTURE_CHANNELS = 3, BL_PICTURE_MAX_SIDE = 16384 };

typedef struct bl_picture {
    bl_span file; /* the caller's, and has to stay */
    int height, width;
} bl_picture;

/* What the head of |file| says.  BL_EINVAL where it is no picture, BL_ELIMIT where a side is over BL_PICTURE_MAX_SIDE. */
BL_NODISCARD bl_status bl_picture_open(bl_span file, bl_picture *out, bl_err *err);
/* height * width * BL_PICTURE_CHANNELS bytes.  A JPEG that ends early is as its decoder fills it up. */
BL_NODISCARD bl_status bl_picture_read(const bl_picture *picture, void *out, bl_err *err);
static inline size_t bl_picture_bytes(const bl_picture *picture)
{
    return (size_t)picture->height * (size_t)picture->width * BL_PICTURE_CHANNELS;
}

/* Scale the pixels |from| to the size of |to|; |scratch| has room for bl_picture_scratch floats. */
void bl_picture_scale(const unsigned char *from, int height, int width, unsigned char *to, int to_height, int to_width,
                      float *scratch);
size_t bl_picture_scratch(int height, int width, int to_height, int to_width);

#endif
