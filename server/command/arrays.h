/* SPDX-License-Identifier: MIT */
/* Tensors that a command sends and receives: NumPy, safetensors, IDX and CSV files, and JSON on the command line. */
#ifndef BL_SERVER_COMMAND_ARRAYS_H
#define BL_SERVER_COMMAND_ARRAYS_H

#include "proto/safetensors.h"

enum { BL_ARRAYS_MOST = 256 };

extern const bl_wire_limits bl_arrays_limits; /* limits for files that a command reads */

typedef struct bl_arrays {
    bl_arena *arena;
    bl_file_tensor tensors[BL_ARRAYS_MOST];
    size_t count;
} bl_arrays;

/* Take "NAME=VALUE".  A JSON value becomes member NAME of |member| in |document|.  A file becomes a tensor and replaces that
 * member.  "FILE.safetensors" alone takes all tensors of the file. */
BL_NODISCARD bl_status bl_arrays_take(bl_arrays *arrays, const char *given, bl_text *document, const char *member, bl_err *err);
void bl_arrays_fini(bl_arrays *arrays);
/* Make the body of a request: |document| itself, or, if there are tensors, a safetensors file that contains |document|. */
BL_NODISCARD bl_status bl_arrays_body(const bl_arrays *arrays, const bl_text *document, bl_text *out, const char **media,
                                      bl_err *err);

/* Save to "FILE.npy" (if there is only one tensor), "NAME=FILE.npy" (one tensor), or "FILE.safetensors" (all tensors). */
BL_NODISCARD bl_status bl_arrays_save(const bl_file_tensor *tensors, size_t count, const char *to, bl_err *err);
/* Print "y  float32 [2,3]  [[1,2,3],[4,5,6]]". Only the first elements of a large tensor are printed. */
void bl_array_print(const bl_file_tensor *tensor, bl_text *out);

#endif
