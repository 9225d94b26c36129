/* SPDX-License-Identifier: MIT */
/* The Vulkan library, loaded at run time, and the entry points of an instance and of a device.  An instance is
 * reference-counted: each device, and each reader of its messages, holds a reference.  Thread: any. */
#ifndef BL_VULKAN_VK_LOADER_H
#define BL_VULKAN_VK_LOADER_H

#include "engine/base/text.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct bl_vk_global_calls {
#define BL_VK_GLOBAL(name) PFN_vk##name name;
#include "vulkan/entry.def"
#undef BL_VK_GLOBAL
} bl_vk_global_calls;

typedef struct bl_vk_instance_calls {
#define BL_VK_INSTANCE(name) PFN_vk##name name;
#include "vulkan/entry.def"
#undef BL_VK_INSTANCE
} bl_vk_instance_calls;

typedef struct bl_vk_device_calls {
#define BL_VK_DEVICE(name) PFN_vk##name name;
#include "vulkan/entry.def"
#undef BL_VK_DEVICE
} bl_vk_device_calls;

typedef struct bl_vk_instance {
    atomic_int refs;
    PFN_vkGetInstanceProcAddr get_proc;
    bl_vk_global_calls global;
    bl_vk_instance_calls vk;
    VkInstance handle;
    uint32_t version; /* Vulkan version that the application requested */
    VkDebugUtilsMessengerEXT messenger;
    atomic_uint messages; /* number of errors and warnings of the validation layer */
    pthread_mutex_t compiler_lock;
    /* for vk_shader.c: does the compiler support GL_KHR_cooperative_matrix? 1: yes, -1: no, 0: not tested yet */
    atomic_int knows_khr;
    void *compiler; /* for vk_shader.c; created on first use, since the creation takes 0.1 s */
} bl_vk_instance;

/* |*out| is NULL, with the reason in |why|, if this machine has no Vulkan 1.2. */
BL_NODISCARD bl_status bl_vk_instance_create(const char *library, bl_vk_instance **out, bl_text *why, bl_err *err);
bl_vk_instance *bl_vk_instance_retain(bl_vk_instance *instance);
void bl_vk_instance_release(bl_vk_instance *instance);

/* NULL, or the name of the first entry point that |device| lacks. */
const char *bl_vk_load_device_calls(bl_vk_instance *instance, VkDevice device, bl_vk_device_calls *out);

const char *bl_vk_result_text(VkResult result);
bl_status bl_vk_result_status(VkResult result);

#endif
