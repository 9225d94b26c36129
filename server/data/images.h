/* SPDX-License-Identifier: MIT */
/* A folder of pictures as one tensor. The folder has a sub-folder for each class, with JPEG and PNG files.  Classes and
 * files are sorted by the bytes of their names; a folder without sub-folders is one class.  Thread: any. */
#ifndef BL_SERVER_DATA_IMAGES_H
#define BL_SERVER_DATA_IMAGES_H

#include "proto/data.h"

#include <stdatomic.h>

typedef struct bl_images bl_images;

/* List the folder |fd|, which the caller keeps.  The result is in |arena|.  *out gets dtype and shape: uint8 [n, height, width,
 * 3], or int64 [n] for labels. */
BL_NODISCARD bl_status bl_images_find(bl_arena *arena, int fd, const bl_data_source *source, const bl_wire_limits *limits,
                                      bl_images **images, bl_data *out, bl_err *err);
/* Decode all pictures into |out|; BL_ECANCELLED soon after *cancel is set. */
BL_NODISCARD bl_status bl_images_read(const bl_images *images, void *out, atomic_bool *cancel, bl_err *err);

#endif
