/* SPDX-License-Identifier: MIT */
/* What to make of a physical device, decided from facts alone: no driver is called here, so tests can invent devices. */
#ifndef BL_VULKAN_CHOOSE_H
#define BL_VULKAN_CHOOSE_H

#include "engine/device/device.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

enum { BL_VK_MAX_FAMILIES = 16 };

/* Of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16, which are younger than the headers that this is built with: structures
 * and numbers of the specification. */
typedef struct bl_vk_matrix_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    int32_t a_type, b_type, c_type, result_type;
    VkBool32 saturating;
    int32_t scope;
} bl_vk_matrix_properties;
typedef struct bl_vk_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 matrix, robust_access;
} bl_vk_matrix_features;
typedef struct bl_vk_bfloat16_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 type, dot_product, matrix;
} bl_vk_bfloat16_features;
#define BL_VK_MATRIX_EXTENSION   "VK_KHR_cooperative_matrix"
#define BL_VK_BFLOAT16_EXTENSION "VK_KHR_shader_bfloat16"
enum {
    BL_VK_MATRIX_FEATURES = 1000506000,
    BL_VK_MATRIX_PROPERTIES = 1000506001,
    BL_VK_BFLOAT16_FEATURES = 1000141000,
    BL_VK_MATRIX_FLOAT16 = 0, /* component types */
    BL_VK_MATRIX_FLOAT32 = 1,
    BL_VK_MATRIX_SINT8 = 3,
    BL_VK_MATRIX_SINT32 = 5,
    BL_VK_MATRIX_BFLOAT16 = 1000141000,
    BL_VK_MATRIX_SUBGROUP = 3, /* scope */
    BL_VK_MOST_MATRICES = 128
};

/* What the driver said of matrices. */
typedef struct bl_vk_matrix_facts {
    bool matrix, bfloat16; /* the extension is there and its feature too */
    bool fixed_subgroup;   /* every kernel runs in subgroups of one size */
    bool asked_subgroup;   /* one that asks for the device's own size, and for whole subgroups, gets them */
    uint32_t count;
    bl_vk_matrix_properties shapes[BL_VK_MOST_MATRICES];
} bl_vk_matrix_facts;

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
    bl_vk_matrix_facts matrix;
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
/* A queue for copies beside that of family |compute|: its family and number there.  False, and the compute queue itself, where
 * there is none. */
bool bl_vk_choose_transfer(const VkQueueFamilyProperties *families, uint32_t n, uint32_t compute, uint32_t *family,
                           uint32_t *index);
/* |type_bits|: the memory types that a storage buffer may have.  |staged| treats shared memory as if it were not (a test of the
 * other road).  False if nothing fits. */
bool bl_vk_choose_places(const VkPhysicalDeviceMemoryProperties *memory, VkPhysicalDeviceType type, uint32_t type_bits,
                         bool staged, bl_vk_places *out);
/* The part of what the device offers that kernels may use. */
void bl_vk_choose_features(const bl_vk_facts *facts, VkPhysicalDeviceFeatures *core, VkPhysicalDeviceVulkan11Features *v11,
                           VkPhysicalDeviceVulkan12Features *v12);
/* Does a kernel that asks for subgroups of the device's own size get them?  Theirs would be another for matrices on Intel's,
 * whose units take 8 or 16 work-items: there none are listed. */
bool bl_vk_may_ask_subgroup(const bl_vk_facts *facts, const VkPhysicalDeviceSubgroupSizeControlFeatures *features,
                            const VkPhysicalDeviceSubgroupSizeControlProperties *sizes);
/* Buffers that a kernel may take. */
uint32_t bl_vk_most_bindings(const bl_vk_facts *facts);
void bl_vk_describe(const bl_vk_facts *facts, const bl_vk_places *places, uint32_t number, bl_device_info *out);

#endif
