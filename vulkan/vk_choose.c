/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_choose.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Flags of ordinary memory: no protected, lazily allocated or uncached kinds. */
static const VkMemoryPropertyFlags plain_flags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                                 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
static const VkMemoryPropertyFlags host_flags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

static uint32_t vk_choose_smaller(uint64_t a, uint64_t b)
{
    uint64_t least = a < b ? a : b;
    return least > UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}

uint32_t bl_vk_most_bindings(const bl_vk_facts *f)
{
    const VkPhysicalDeviceLimits *limits = &f->props.limits;
    uint32_t of_stage = vk_choose_smaller(limits->maxPerStageDescriptorStorageBuffers, limits->maxPerStageResources);
    return vk_choose_smaller(vk_choose_smaller(of_stage, limits->maxDescriptorSetStorageBuffers), BL_MAX_BINDINGS);
}

const char *bl_vk_judge(const bl_vk_facts *f)
{
    if (f->props.apiVersion < VK_API_VERSION_1_2)
        return "older than Vulkan 1.2";
    if (bl_vk_choose_family(f->families, f->nfamilies) < 0)
        return "no compute queue";
    if (!f->v12.timelineSemaphore)
        return "no timeline semaphores";
    if (bl_vk_most_bindings(f) < BL_FEWEST_BINDINGS)
        return "too few buffers in a kernel";
    return NULL;
}

int bl_vk_choose_family(const VkQueueFamilyProperties *families, uint32_t n)
{
    int best = -1, best_score = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0)
            continue;
        /* Timestamps count most, since the kernel search needs them. The next criterion is a queue that is not shared with
         * the desktop. */
        int score = (families[i].timestampValidBits > 0 ? 2 : 0) + (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT ? 0 : 1);
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

/* A transfer-only family belongs to copy engines; a second queue of another family can at least overlap with kernels. */
bool bl_vk_choose_transfer(const VkQueueFamilyProperties *families, uint32_t n, uint32_t compute, uint32_t *family,
                           uint32_t *index)
{
    *family = compute;
    *index = 0;
    for (uint32_t i = 0; i < n; i++) {
        /* the family must not decode or encode video; the ignored flags do not make the family another engine */
        VkQueueFlags does = families[i].queueFlags & ~(VkQueueFlags)(VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT);
        if (does == VK_QUEUE_TRANSFER_BIT && families[i].queueCount > 0) {
            *family = i;
            return true;
        }
    }
    *index = families[compute].queueCount > 1;
    return *index == 1;
}

/* The best plain type of |type_bits|, in |heap| unless |heap| is UINT32_MAX, with all flags of |need|. The best type has
 * most flags of |like|; among equal types the first in the driver's order is the best, since drivers list the plainest type
 * first.  -1 if there is no such type. */
static int vk_choose_find_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t type_bits, uint32_t heap,
                               VkMemoryPropertyFlags need, VkMemoryPropertyFlags like, VkMemoryPropertyFlags dislike)
{
    int best = -1, best_score = -1;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        if (!(type_bits & (1u << i)) || (flags & ~plain_flags) != 0 || (flags & need) != need)
            continue;
        if (heap != UINT32_MAX && memory->memoryTypes[i].heapIndex != heap)
            continue;
        int score = (flags & like ? 2 : 0) + (flags & dislike ? 0 : 1);
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

/* The largest device-local heap that |type_bits| reach. If there is no such heap, the largest heap.  -1 if there is no heap. */
static int main_heap(const VkPhysicalDeviceMemoryProperties *memory, uint32_t type_bits)
{
    int best = -1;
    for (int local = 1; local >= 0 && best < 0; local--) {
        for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
            const VkMemoryType *type = &memory->memoryTypes[i];
            if (!(type_bits & (1u << i)) || (type->propertyFlags & ~plain_flags) != 0)
                continue;
            if (local && !(type->propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
                continue;
            if (best < 0 || memory->memoryHeaps[type->heapIndex].size > memory->memoryHeaps[best].size)
                best = (int)type->heapIndex;
        }
    }
    return best;
}

bool bl_vk_choose_places(const VkPhysicalDeviceMemoryProperties *memory, VkPhysicalDeviceType type, uint32_t type_bits,
                         bool staged, bl_vk_places *out)
{
    /* The host may see the memory of a discrete card too, but accesses it over the bus, uncached, so a copy is faster. */
    bool shared = type == VK_PHYSICAL_DEVICE_TYPE_CPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    int heap = main_heap(memory, type_bits);
    if (heap < 0)
        return false;
    int buffers = -1;
    if (shared && !staged)
        buffers = vk_choose_find_type(memory, type_bits, (uint32_t)heap, host_flags, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0);
    out->host_memory = buffers >= 0;
    if (buffers < 0)
        buffers = vk_choose_find_type(memory, type_bits, (uint32_t)heap, 0, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    int staging = vk_choose_find_type(memory, type_bits, UINT32_MAX, host_flags, VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                                      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    if (buffers < 0 || staging < 0)
        return false;
    out->buffers = (uint32_t)buffers;
    out->staging = (uint32_t)staging;
    out->heap = (uint32_t)heap;
    return true;
}

void bl_vk_choose_features(const bl_vk_facts *f, VkPhysicalDeviceFeatures *core, VkPhysicalDeviceVulkan11Features *v11,
                           VkPhysicalDeviceVulkan12Features *v12)
{
    *core = (VkPhysicalDeviceFeatures){
        .shaderFloat64 = f->core.shaderFloat64, .shaderInt64 = f->core.shaderInt64, .shaderInt16 = f->core.shaderInt16};
    *v11 = (VkPhysicalDeviceVulkan11Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .storageBuffer16BitAccess = f->v11.storageBuffer16BitAccess,
        .uniformAndStorageBuffer16BitAccess = f->v11.uniformAndStorageBuffer16BitAccess,
    };
    *v12 = (VkPhysicalDeviceVulkan12Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .storageBuffer8BitAccess = f->v12.storageBuffer8BitAccess,
        .uniformAndStorageBuffer8BitAccess = f->v12.uniformAndStorageBuffer8BitAccess,
        .shaderFloat16 = f->v12.shaderFloat16,
        .shaderInt8 = f->v12.shaderInt8,
        .shaderSubgroupExtendedTypes = f->v12.shaderSubgroupExtendedTypes,
        .timelineSemaphore = f->v12.timelineSemaphore,
    };
}

static unsigned feature_bits(const bl_vk_facts *f)
{
    unsigned bits = 0;
    if (f->core.shaderFloat64)
        bits |= BL_FEATURE_F64;
    if (f->core.shaderInt64)
        bits |= BL_FEATURE_I64;
    /* Access to small elements is only useful with the integer type of the same size. */
    if (f->v12.storageBuffer8BitAccess && f->v12.shaderInt8)
        bits |= BL_FEATURE_STORE8;
    if (f->v11.storageBuffer16BitAccess && f->core.shaderInt16)
        bits |= BL_FEATURE_STORE16;
    return bits;
}

static bl_device_type device_type(VkPhysicalDeviceType type)
{
    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        return BL_DEVICE_CPU;
    return type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? BL_DEVICE_ACCELERATOR : BL_DEVICE_GPU;
}

/* A CPU driver maps a subgroup's work-items to the lanes of the host's vectors, and is fastest if each work-item uses vec4. */
static void vk_choose_describe_cpu(const bl_vk_facts *f, bl_device_info *out)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    out->units = cores > 0 ? (uint32_t)cores : 1;
    out->cache_bytes = cache > 0 ? vk_choose_smaller((uint64_t)cache, UINT32_MAX) : 0;
    out->subgroup = f->subgroup > 0 ? f->subgroup : 1;
    out->vector_bits = 128;
    /* 12 x 4 vec4 accumulators and their operands: more registers than the CPU has, but keeping values on the stack costs
     * less than loading the values again */
    out->registers = 68;
}

bool bl_vk_may_ask_subgroup(const bl_vk_facts *f, const VkPhysicalDeviceSubgroupSizeControlFeatures *features,
                            const VkPhysicalDeviceSubgroupSizeControlProperties *sizes)
{
    return features->subgroupSizeControl && features->computeFullSubgroups &&
           (sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 && f->subgroup >= sizes->minSubgroupSize &&
           f->subgroup <= sizes->maxSubgroupSize && f->driver.driverID != VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA &&
           f->driver.driverID != VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS;
}

/* The operand dtype of a shape; false if no kernel accumulates in its result type. */
static bool unit_dtype(const bl_vk_matrix_properties *p, bool bfloat16, bl_unit_dtype *out)
{
    if (p->a_type != p->b_type || p->c_type != p->result_type || p->scope != BL_VK_MATRIX_SUBGROUP || p->saturating)
        return false;
    *out = p->a_type == BL_VK_MATRIX_FLOAT16 ? BL_UNIT_F16 : p->a_type == BL_VK_MATRIX_BFLOAT16 ? BL_UNIT_BF16 : BL_UNIT_I8;
    if (p->a_type == BL_VK_MATRIX_SINT8)
        return p->c_type == BL_VK_MATRIX_SINT32;
    return (p->a_type == BL_VK_MATRIX_FLOAT16 || (bfloat16 && p->a_type == BL_VK_MATRIX_BFLOAT16)) &&
           p->c_type == BL_VK_MATRIX_FLOAT32;
}

static uint32_t unit_work(const bl_matrix_unit *unit)
{
    return (uint32_t)unit->m * unit->n * unit->k;
}

/* Lists the matrix units. Among units of one dtype, larger units come first. */
static void describe_matrices(const bl_vk_facts *f, bl_device_info *out)
{
    for (uint32_t i = 0; i < f->matrix.count; i++) {
        const bl_vk_matrix_properties *p = &f->matrix.shapes[i];
        bl_matrix_unit unit = {
            .kind = BL_UNIT_COOPERATIVE, .m = (uint8_t)p->m, .n = (uint8_t)p->n, .k = (uint8_t)p->k, .group = 1};
        uint32_t at = out->nmatrix;
        if (!f->matrix.matrix || !(f->matrix.fixed_subgroup || f->matrix.asked_subgroup) ||
            !unit_dtype(p, f->matrix.bfloat16, &unit.dtype) || p->m > 64 || p->n > 64 || p->k > 64 || f->subgroup < 2 ||
            f->subgroup > 128 || at == BL_MAX_MATRIX_UNITS)
            continue;
        unit.scope = (uint8_t)f->subgroup;
        for (; at > 0 && unit_work(&out->matrix[at - 1]) < unit_work(&unit); at--)
            out->matrix[at] = out->matrix[at - 1];
        out->matrix[at] = unit;
        out->nmatrix++;
    }
}

void bl_vk_describe(const bl_vk_facts *f, const bl_vk_places *places, uint32_t number, bl_device_info *out)
{
    const VkPhysicalDeviceLimits *limits = &f->props.limits;
    uint64_t heap = f->memory.memoryHeaps[places->heap].size;
    *out = (bl_device_info){
        .type = device_type(f->props.deviceType),
        .dialect = BL_DIALECT_GLSL,
        .features = feature_bits(f),
        .memory = heap,
        .max_alloc = f->max_alloc < heap ? f->max_alloc : heap,
        .max_binding = limits->maxStorageBufferRange,
        .max_bindings = bl_vk_most_bindings(f),
        .alignment = vk_choose_smaller(limits->minStorageBufferOffsetAlignment, UINT32_MAX),
        .units = f->units > 0 ? f->units : 32, /* the number of a mid-range GPU, if the driver does not report units */
        .vector_bits = 0,
        .max_lanes = 4,   /* GLSL has no wider vectors */
        .registers = 128, /* number of scalars of a work-item if two groups of 256 share a register file of 64 Ki registers */
        /* some drivers report no subgroup size, or report 1, which would mean a CPU here */
        .subgroup = f->subgroup > 1 ? f->subgroup : 32,
        .max_local = vk_choose_smaller(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]),
        .local_bytes = limits->maxComputeSharedMemorySize,
        .dot4 = f->dot4 && f->dot4_fast ? BL_DOT4_SPIRV : BL_DOT4_NONE,
        .host_memory = places->host_memory,
    };
    if (out->alignment < 4)
        out->alignment = 4; /* bindings begin and end at a 4-byte word */
    out->serial_groups = out->type == BL_DEVICE_CPU;
    if (out->serial_groups)
        vk_choose_describe_cpu(f, out);
    out->mega_ops = out->serial_groups ? 10000 * out->units : 1000000;
    out->mega_bytes = out->serial_groups ? 5000 * out->units : 200000;
    out->launch_ns = 500;
    if (f->driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE)
        out->max_turns = 65535; /* LP_MAX_TGSI_LOOP_ITERATIONS of lp_bld_limits.h: counted over all loops of an invocation */
    describe_matrices(f, out);
    memcpy(out->max_groups, limits->maxComputeWorkGroupCount, sizeof out->max_groups);
    snprintf(out->id, sizeof out->id, "vulkan:%u", number);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, f->props.deviceName);
    snprintf(out->driver, sizeof out->driver, "%.48s %.76s", f->driver.driverName, f->driver.driverInfo);
}
