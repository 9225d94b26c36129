/* SPDX-License-Identifier: MIT */
/* A folder of pictures as one tensor: below it a folder for each class, with JPEG and PNG files.  Classes and files stand in the
 * order of their names' bytes; a folder that has pictures itself is one class.  Thread: any. */
#ifndef BL_SERVER_DATA_IMAGES_H
#define BL_SERVER_DATA_IMAGES_H

#include "proto/data.h"

#include <stdatomic.h>

typedef struct bl_images bl_images;

/* Look through the folder |fd|, which stays the caller's.  What comes out belongs to |arena|; dtype and shape are set in *out:
 * uint8 [n, height, width, 3], or int64 [n] for labels. */
BL_NODISCARD bl_status bl_images_find(bl_arena *arena, int fd, const bl_data_source *source, const bl_wire_limits *limits,
                                      bl_images **images, bl_data *out, bl_err *err);
/* Decode them all into |out|; BL_ECANCELLED soon after *cancel. */
BL_NODISCARD bl_status bl_images_read(const bl_images *images, void *out, atomic_bool *cancel, bl_err *err);

#endif
