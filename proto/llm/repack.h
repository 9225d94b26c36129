/* SPDX-License-Identifier: MIT */
/* Repacks ggml's quantised blocks to the planes that block_linear and block_take read (engine/front/quant.h has the types
 * and the planes).  Repacking moves bits and rounds no number.  Thread: any. */
#ifndef BL_PROTO_LLM_REPACK_H
#define BL_PROTO_LLM_REPACK_H

#include "engine/front/quant.h"

#include <stdint.h>

/* Repacks a matrix with |columns| columns, a multiple of type->block.  |blocks|: the matrix as stored in the file.  planes[i]:
 * writable memory for plane i of bl_quant_planes, aligned to 16 bytes; NULL: skip the plane. */
void bl_quant_fill(const bl_quant_type *type, int64_t rows, int64_t columns, const void *blocks, void *const *planes);

#endif
