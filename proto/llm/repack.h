/* SPDX-License-Identifier: MIT */
/* Repacking: from ggml's blocks to the planes that block_linear and block_take read (engine/front/quant.h has the types and the
 * planes).  Only bits are moved: no number is rounded.  Thread: any. */
#ifndef BL_PROTO_LLM_REPACK_H
#define BL_PROTO_LLM_REPACK_H

#include "engine/front/quant.h"

#include <stdint.h>

/* Rows |first| up to |last| of a matrix of |columns| columns, a multiple of type->block.  |blocks| is the whole matrix as the
 * file has it.  planes[i] is the whole plane number i of bl_quant_planes, writable memory of its size, aligned to 16 bytes; NULL:
 * that plane is not wanted. */
void bl_quant_fill(const bl_quant_type *type, int64_t first, int64_t last, int64_t columns, const void *blocks,
                   void *const *planes);

#endif
