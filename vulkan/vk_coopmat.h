/* SPDX-License-Identifier: MIT */
/* Rewrites SPIR-V of SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix. glslang before 14 compiles only GLSL of the NV
 * extension, and drivers accept only SPIR-V of the KHR extension.  The two extensions differ in instruction numbers and in
 * the order of a few operands. The types of KHR also say whether a matrix is an a, a b or an accumulator. The rewriter
 * derives the use of a matrix from the products that use the matrix, through loads and stores of variables.  Thread: any. */
#ifndef BL_VULKAN_VK_COOPMAT_H
#define BL_VULKAN_VK_COOPMAT_H

#include "engine/base/status.h"

#include <stdint.h>

/* Rewrites |count| words of a module into a new module, which the caller frees.  |bfloat16|: matrices of 16-bit floats are
 * bfloat16 (SPV_KHR_bfloat16).  BL_EBUG if the module differs from the modules that glslang makes of the kernels. */
BL_NODISCARD bl_status bl_vk_coopmat_rewrite(const uint32_t *words, size_t count, bool bfloat16, uint32_t **out,
                                             size_t *out_count, bl_err *err);

#endif
