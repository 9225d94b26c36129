/* SPDX-License-Identifier: MIT */
/* Decisions about a physical device from its properties alone. No function calls the driver, so tests can invent devices. */
#ifndef BL_VULKAN_VK_CHOOSE_H
#define BL_VULKAN_VK_CHOOSE_H

#include "engine/device/device.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

enum { BL_VK_MAX_FAMILIES = 16 };

/* Structures and numbers of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16, which are newer than the headers used for the
 * build. */
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

/* The driver's matrix properties. */
typedef struct bl_vk_matrix_facts {
    bool matrix, bfloat16; /* the extension and its feature are available: for matrices, for bfloat16 */
    bool fixed_subgroup;   /* every kernel runs in subgroups of one size */
    bool asked_subgroup;   /* a kernel can request the device's own subgroup size, and full subgroups */
    uint32_t count;
    bl_vk_matrix_properties shapes[BL_VK_MOST_MATRICES];
} bl_vk_matrix_facts;

/* The driver's description of a physical device. */
typedef struct bl_vk_facts {
    VkPhysicalDeviceProperties props;
    VkPhysicalDeviceDriverProperties driver;
    uint32_t subgroup;
    uint64_t max_alloc; /* largest size of one allocation and of one buffer */
    uint8_t driver_uuid[VK_UUID_SIZE];
    VkPhysicalDeviceFeatures core;
    VkPhysicalDeviceVulkan11Features v11; /* pNext is NULL in |v11| and in |v12| */
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceMemoryProperties memory;
    VkQueueFamilyProperties families[BL_VK_MAX_FAMILIES];
    uint32_t nfamilies;
    bl_vk_matrix_facts matrix;
    bool dot4;      /* shaderIntegerDotProduct: kernels can have dot products of four packed bytes */
    bool dot4_fast; /* ... which are one instruction for signed by unsigned bytes */
    uint32_t units; /* number of multiprocessors; 0: not reported */
} bl_vk_facts;

/* The memory types of the back end's buffers. */
typedef struct bl_vk_places {
    uint32_t buffers; /* memory type of buffers */
    uint32_t staging; /* memory type of the staging buffers; used unless |host_memory| */
    uint32_t heap;
    bool host_memory; /* the host accesses buffers in place, without a bus */
} bl_vk_places;

/* NULL if the device can be used, else the reason why it cannot. */
const char *bl_vk_judge(const bl_vk_facts *facts);
/* The queue family for compute, or -1. */
int bl_vk_choose_family(const VkQueueFamilyProperties *families, uint32_t n);
/* Finds a separate queue for copies: its family, and its index in the family.  False, with the compute queue itself, if
 * there is no separate queue. */
bool bl_vk_choose_transfer(const VkQueueFamilyProperties *families, uint32_t n, uint32_t compute, uint32_t *family,
                           uint32_t *index);
/* |type_bits|: the memory types that a storage buffer may have.  |staged| treats shared memory as separate, so that tests cover
 * the staging path.  False if no memory type fits. */
bool bl_vk_choose_places(const VkPhysicalDeviceMemoryProperties *memory, VkPhysicalDeviceType type, uint32_t type_bits,
                         bool staged, bl_vk_places *out);
/* The device's features that kernels may use. */
void bl_vk_choose_features(const bl_vk_facts *facts, VkPhysicalDeviceFeatures *core, VkPhysicalDeviceVulkan11Features *v11,
                           VkPhysicalDeviceVulkan12Features *v12);
/* Whether a kernel can request subgroups of the device's own size.  On Intel's devices matrices need another size, since the
 * matrix units take 8 or 16 work-items; such devices list no matrix shapes. */
bool bl_vk_may_ask_subgroup(const bl_vk_facts *facts, const VkPhysicalDeviceSubgroupSizeControlFeatures *features,
                            const VkPhysicalDeviceSubgroupSizeControlProperties *sizes);
/* Largest number of buffers of a kernel. */
uint32_t bl_vk_most_bindings(const bl_vk_facts *facts);
void bl_vk_describe(const bl_vk_facts *facts, const bl_vk_places *places, uint32_t number, bl_device_info *out);

#endif
