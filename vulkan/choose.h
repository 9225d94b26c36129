/* SPDX-License-Identifier: MIT */
/* What to make of a physical device, decided from facts alone: no driver is called here, so tests can invent devices. */
#ifndef BL_VULKAN_CHOOSE_H
#define BL_VULKAN_CHOOSE_H

#include "engine/device/device.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

enum { BL_VK_MAX_FAMILIES = 16 };

/* What the driver said of a device. */
typedef struct bl_vk_facts {
    VkPhysicalDeviceProperties props;
    VkPhysicalDeviceDriverProperties driver;
    uint32_t subgroup;
    uint64_t max_alloc; /* of one allocation and one buffer */
    uint8_t driver_uuid[VK_UUID_SIZE];
    VkPhysicalDeviceFeatures core;
    VkPhysicalDeviceVulkan11Features v11; /* pNext is NULL in both */
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceMemoryProperties memory;
    VkQueueFamilyProperties families[BL_VK_MAX_FAMILIES];
    uint32_t nfamilies;
    uint32_t units; /* multiprocessors; 0: the driver does not say */
} bl_vk_facts;

/* Where buffers live. */
typedef struct bl_vk_places {
    uint32_t buffers; /* memory type */
    uint32_t staging; /* memory type for the host's side of copies; used where |host_memory| is false */
    uint32_t heap;
    bool host_memory; /* the host sees buffers where they are, without a bus between */
} bl_vk_places;

/* NULL if the device can be used, else why not. */
const char *bl_vk_judge(const bl_vk_facts *facts);
/* The queue family for compute, or -1. */
int bl_vk_choose_family(const VkQueueFamilyProperties *families, uint32_t n);
/* |type_bits|: the memory types that a storage buffer may have.  |staged| treats shared memory as if it were not (a test of the
 * other road).  False if nothing fits. */
bool bl_vk_choose_places(const VkPhysicalDeviceMemoryProperties *memory, VkPhysicalDeviceType type, uint32_t type_bits,
                         bool staged, bl_vk_places *out);
/* The part of what the device offers that kernels may use. */
void bl_vk_choose_features(const bl_vk_facts *facts, VkPhysicalDeviceFeatures *core, VkPhysicalDeviceVulkan11Features *v11,
                           VkPhysicalDeviceVulkan12Features *v12);
void bl_vk_describe(const bl_vk_facts *facts, const bl_vk_places *places, uint32_t number, bl_device_info *out);

#endif
