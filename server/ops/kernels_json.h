/* SPDX-License-Identifier: MIT */
/* The rows of searched kernels, written as JSON. */
#ifndef BL_SERVER_OPS_KERNELS_JSON_H
#define BL_SERVER_OPS_KERNELS_JSON_H

#include "engine/search/kernel_store.h"

/* Write a row as an object. With |whole| the object includes the text of the nest. */
void bl_encode_kernel(bl_text *out, const bl_kernel_row *row, bool whole);

#endif
