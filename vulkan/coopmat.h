/* SPDX-License-Identifier: MIT */
/* SPIR-V of SPV_NV_cooperative_matrix as that of SPV_KHR_cooperative_matrix, word by word: glslang before 14 compiles only the
 * former's GLSL, and drivers take only the latter's code.  The two differ in the numbers of their instructions, in the order of a
 * few operands, and in that KHR's types say whether a matrix is an a, a b or an accumulator: that follows from the products that
 * it comes to, through loads and stores of variables.  Thread: any. */
#ifndef BL_VULKAN_COOPMAT_H
#define BL_VULKAN_COOPMAT_H

#include "engine/base/status.h"

#include <stdint.h>

/* |count| words of a module to a new one, freed by the caller.  |bfloat16|: matrices of 16-bit floats are of bfloat16
 * (SPV_KHR_bfloat16).  BL_EBUG where the module is not what glslang makes of our kernels. */
BL_NODISCARD bl_status bl_vk_coopmat_rewrite(const uint32_t *words, size_t count, bool bfloat16, uint32_t **out,
                                             size_t *out_count, bl_err *err);

#endif
