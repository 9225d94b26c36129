/* SPDX-License-Identifier: MIT */
/* Commands about searched kernels: what `beamline tune` and `beamline kernels` do.  Each gives the exit status of the process. */
#ifndef BL_SERVER_KERNELS_H
#define BL_SERVER_KERNELS_H

#include "engine/search/kernels.h"

/* |argv| is what stands behind the command's name: operands first, then flags. */
int bl_tune_main(int argc, char *const *argv);
int bl_kernels_main(int argc, char *const *argv);

/* A row as an object; |whole|: with the text of its nest. */
void bl_encode_kernel(bl_text *out, const bl_kernel_row *row, bool whole);

#endif
