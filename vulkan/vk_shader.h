/* SPDX-License-Identifier: MIT */
/* Compiles GLSL to SPIR-V, with a disk cache.  Thread: any. */
#ifndef BL_VULKAN_VK_SHADER_H
#define BL_VULKAN_VK_SHADER_H

#include "engine/device/device.h"
#include "vulkan/vk_loader.h"

/* Compiled code; free it with bl_vk_spirv_fini. */
typedef struct bl_vk_spirv {
    uint32_t *words;
    size_t bytes;
} bl_vk_spirv;

BL_NODISCARD bl_status bl_vk_shader_compile(bl_vk_instance *instance, const bl_kernel_source *source, bl_vk_spirv *out,
                                            bl_err *err);
/* Whether the text uses cooperative matrices; the renderer then defines a macro (engine/render/unit_glsl.c). */
bool bl_vk_shader_has_matrices(const bl_kernel_source *source);
void bl_vk_spirv_fini(bl_vk_spirv *spirv);
/* Frees the compiler of |instance|; called by bl_vk_instance_release. */
void bl_vk_shader_fini(bl_vk_instance *instance);

#endif
