/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_internal.h"

#include "engine/base/fault.h"
#include "vulkan/vk_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PHYSICAL = 64, MAX_EXTENSIONS = 512 };

/* ---- errors */

bl_status bl_vk_check(bl_vk_context *ctx, VkResult result, const char *what, bl_err *err)
{
    if (result >= 0)
        return BL_OK;
    if (result == VK_ERROR_DEVICE_LOST) {
        pthread_mutex_lock(&ctx->dev->lock);
        if (ctx->dev->context == ctx) /* mark the device as lost unless it was reopened since */
            atomic_store(&ctx->dev->base.lost, true);
        pthread_mutex_unlock(&ctx->dev->lock);
    }
    return bl_fail(err, bl_vk_result_status(result), "%s: %s: %s", ctx->dev->base.info.id, what, bl_vk_result_text(result));
}

/* ---- one lifetime of the VkDevice */

/* |second|: index of the copy queue, if it is in the compute family: 0 or 1. */
static VkResult vk_device_create_handle(bl_vk_device *dev, bl_vk_context *ctx, uint32_t second)
{
    float priorities[] = {1, 1};
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
    bl_vk_choose_features(&dev->facts, &features.features, &v11, &v12);
    bl_vk_matrix_features matrix = {.sType = (VkStructureType)BL_VK_MATRIX_FEATURES, .matrix = VK_TRUE};
    bl_vk_bfloat16_features bfloat16 = {.sType = (VkStructureType)BL_VK_BFLOAT16_FEATURES, .type = VK_TRUE, .matrix = VK_TRUE};
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {.sType =
                                                               VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                                                           .subgroupSizeControl = VK_TRUE,
                                                           .computeFullSubgroups = VK_TRUE};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .pNext = &v11,
        .shaderIntegerDotProduct = VK_TRUE};
    const char *extensions[2];
    uint32_t nextensions = 0;
    v11.pNext = &v12;
    if (dev->facts.dot4)
        features.pNext = &dot4;
    if (dev->facts.matrix.matrix) {
        extensions[nextensions++] = BL_VK_MATRIX_EXTENSION;
        v12.pNext = &matrix;
    }
    if (dev->facts.matrix.matrix && dev->facts.matrix.asked_subgroup)
        matrix.pNext = &control;
    if (dev->facts.matrix.matrix && dev->facts.matrix.bfloat16) {
        extensions[nextensions++] = BL_VK_BFLOAT16_EXTENSION;
        bfloat16.pNext = matrix.pNext;
        matrix.pNext = &bfloat16;
    }
    VkDeviceQueueCreateInfo queues[] = {{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                         .queueFamilyIndex = ctx->compute.family,
                                         .queueCount = 1 + second,
                                         .pQueuePriorities = priorities},
                                        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                         .queueFamilyIndex = ctx->transfer.family,
                                         .queueCount = 1,
                                         .pQueuePriorities = priorities}};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = ctx->compute.family == ctx->transfer.family ? 1 : 2,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = nextensions,
                               .ppEnabledExtensionNames = extensions};
    return dev->instance->vk.CreateDevice(dev->physical, &info, NULL, &ctx->handle);
}

static bl_status open_queue(bl_vk_context *ctx, bl_vk_queue *queue, uint32_t index, bl_err *err)
{
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    ctx->vk.GetDeviceQueue(ctx->handle, queue->family, index, &queue->handle);
    return bl_vk_check(ctx, ctx->vk.CreateSemaphore(ctx->handle, &info, NULL, &queue->timeline), "making a semaphore", err);
}

static bl_status fill_context(bl_vk_device *dev, bl_vk_context *ctx, bl_err *err)
{
    const VkPhysicalDeviceLimits *limits = &dev->facts.props.limits;
    int family = bl_vk_choose_family(dev->facts.families, dev->facts.nfamilies);
    if (family < 0)
        return bl_fail(err, BL_EDEVICE, "no compute queue");
    ctx->compute.family = (uint32_t)family;
    uint32_t second = 0; /* index of the copy queue in its family */
    bool own =
        bl_vk_choose_transfer(dev->facts.families, dev->facts.nfamilies, ctx->compute.family, &ctx->transfer.family, &second);
    ctx->copies = own || dev->parted ? &ctx->transfer : &ctx->compute;
    ctx->timestamp_bits = dev->facts.families[family].timestampValidBits;
    ctx->ns_per_tick = (double)limits->timestampPeriod;
    ctx->max_binding = limits->maxStorageBufferRange;
    VkResult r = vk_device_create_handle(dev, ctx, second);
    if (r != VK_SUCCESS) {
        ctx->handle = NULL;
        return bl_vk_check(ctx, r, "opening the device", err);
    }
    const char *missing = bl_vk_load_device_calls(ctx->instance, ctx->handle, &ctx->vk);
    if (missing != NULL)
        return bl_fail(err, BL_EDEVICE, "the driver lacks vk%s", missing);
    BL_TRY(open_queue(ctx, &ctx->compute, 0, err));
    BL_TRY(open_queue(ctx, &ctx->transfer, second, err));
    BL_TRY(bl_vk_memory_init(ctx, dev->facts.props.deviceType, dev->staged, err));
    return bl_vk_pipelines_init(ctx, err);
}

static bl_status create_context(bl_vk_device *dev, bl_vk_context **out, bl_err *err)
{
    *out = NULL;
    bl_vk_context *ctx = bl_calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory to open a Vulkan device");
    atomic_init(&ctx->refs, 1);
    ctx->dev = dev;
    ctx->instance = bl_vk_instance_retain(dev->instance);
    pthread_mutex_init(&ctx->memory_lock, NULL);
    pthread_mutex_init(&ctx->timed_lock, NULL);
    bl_status st = fill_context(dev, ctx, err);
    if (st != BL_OK) {
        bl_vk_context_release(ctx);
        return st;
    }
    *out = ctx;
    return BL_OK;
}

bl_vk_context *bl_vk_context_retain(bl_vk_context *ctx)
{
    atomic_fetch_add(&ctx->refs, 1);
    return ctx;
}

void bl_vk_context_release(bl_vk_context *ctx)
{
    if (ctx == NULL || atomic_fetch_sub(&ctx->refs, 1) != 1)
        return;
    if (ctx->vk.DeviceWaitIdle != NULL) {
        ctx->vk.DeviceWaitIdle(ctx->handle);
        bl_vk_staging_fini(ctx);
        bl_vk_pipelines_fini(ctx);
        bl_vk_memory_fini(ctx);
        ctx->vk.DestroySemaphore(ctx->handle, ctx->compute.timeline, NULL);
        ctx->vk.DestroySemaphore(ctx->handle, ctx->transfer.timeline, NULL);
    }
    if (ctx->vk.DestroyDevice != NULL)
        ctx->vk.DestroyDevice(ctx->handle, NULL);
    bl_vk_instance_release(ctx->instance);
    pthread_mutex_destroy(&ctx->memory_lock);
    pthread_mutex_destroy(&ctx->timed_lock);
    free(ctx);
}

bl_vk_context *bl_vk_context_get(bl_device *base)
{
    bl_vk_device *dev = (bl_vk_device *)base;
    pthread_mutex_lock(&dev->lock);
    bl_vk_context *ctx = bl_vk_context_retain(dev->context);
    pthread_mutex_unlock(&dev->lock);
    return ctx;
}

bl_vk_instance *bl_vk_instance_of(bl_device *base)
{
    return ((bl_vk_device *)base)->instance;
}

/* ---- the device */

static void vk_device_destroy(bl_device *base)
{
    bl_vk_device *dev = (bl_vk_device *)base;
    bl_vk_context_release(dev->context);
    bl_vk_instance_release(dev->instance);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

static bl_status vk_device_reopen(bl_device *base, bl_err *err)
{
    bl_vk_device *dev = (bl_vk_device *)base;
    bl_vk_context *fresh = NULL;
    BL_TRY(create_context(dev, &fresh, err));
    /* wait, so that no object that is released from now on is in use */
    (void)dev->context->vk.DeviceWaitIdle(dev->context->handle);
    pthread_mutex_lock(&dev->lock);
    bl_vk_context *old = dev->context;
    dev->context = fresh;
    atomic_store(&dev->base.lost, false);
    pthread_mutex_unlock(&dev->lock);
    bl_vk_context_release(old);
    return BL_OK;
}

static const bl_device_ops vulkan_ops = {
    .name = "vulkan",
    .destroy = vk_device_destroy,
    .reopen = vk_device_reopen,
    .alloc = bl_vk_buffer_alloc,
    .view = bl_vk_buffer_view,
    .dealloc = bl_vk_buffer_dealloc,
    .write = bl_vk_buffer_write,
    .read = bl_vk_buffer_read,
    .copy = bl_vk_buffer_copy,
    .kernel = bl_vk_kernel_make,
    .kernel_destroy = bl_vk_kernel_free,
    .record = bl_vk_record,
    .recording_destroy = bl_vk_recording_free,
    .submit = bl_vk_submit,
    .wait = bl_vk_wait,
};

/* ---- queries of the driver */

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].extensionName, name) == 0)
            return true;
    return false;
}

static bool has_vulkan13(const bl_vk_instance *in, const bl_vk_facts *facts)
{
    return in->version >= VK_API_VERSION_1_3 && facts->props.apiVersion >= VK_API_VERSION_1_3;
}

/* Core Vulkan does not report the number of multiprocessors. Extensions of two vendors report it, and can be queried without
 * being enabled. */
static void ask_units(bl_vk_instance *in, VkPhysicalDevice physical, const VkExtensionProperties *list, uint32_t n,
                      bl_vk_facts *facts)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCoreProperties2AMD amd = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD};
    VkPhysicalDeviceProperties2 props = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    if (has_extension(list, n, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        props.pNext = &nvidia;
    else if (has_extension(list, n, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME))
        props.pNext = &amd;
    if (props.pNext != NULL)
        in->vk.GetPhysicalDeviceProperties2(physical, &props);
    facts->units = nvidia.shaderSMCount > 0 ? nvidia.shaderSMCount : amd.activeComputeUnitCount;
}

/* Queries the matrix shapes that subgroups multiply. */
static void ask_matrices(bl_vk_instance *in, VkPhysicalDevice physical, const VkExtensionProperties *list, uint32_t n,
                         bl_vk_facts *facts)
{
    typedef VkResult(VKAPI_PTR * ask_shapes)(VkPhysicalDevice, uint32_t *, bl_vk_matrix_properties *);
    bl_vk_matrix_facts *m = &facts->matrix;
    ask_shapes shapes = (ask_shapes)in->get_proc(in->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    bl_vk_bfloat16_features bfloat16 = {.sType = (VkStructureType)BL_VK_BFLOAT16_FEATURES};
    bl_vk_matrix_features matrix = {.sType = (VkStructureType)BL_VK_MATRIX_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, .pNext = &matrix};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &control};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceProperties2 props = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};

    if (shapes == NULL || !has_extension(list, n, BL_VK_MATRIX_EXTENSION) || !has_vulkan13(in, facts))
        return;
    if (has_extension(list, n, BL_VK_BFLOAT16_EXTENSION))
        matrix.pNext = &bfloat16;
    in->vk.GetPhysicalDeviceFeatures2(physical, &features);
    in->vk.GetPhysicalDeviceProperties2(physical, &props);
    m->matrix = matrix.matrix == VK_TRUE && facts->v12.shaderFloat16;
    m->bfloat16 = bfloat16.type == VK_TRUE && bfloat16.matrix == VK_TRUE;
    m->fixed_subgroup = sizes.minSubgroupSize == sizes.maxSubgroupSize;
    m->asked_subgroup = !m->fixed_subgroup && bl_vk_may_ask_subgroup(facts, &control, &sizes);
    m->count = BL_VK_MOST_MATRICES;
    for (uint32_t i = 0; i < BL_VK_MOST_MATRICES; i++)
        m->shapes[i] = (bl_vk_matrix_properties){.sType = (VkStructureType)BL_VK_MATRIX_PROPERTIES};
    VkResult r = m->matrix ? shapes(physical, &m->count, m->shapes) : VK_ERROR_FEATURE_NOT_PRESENT;
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        *m = (bl_vk_matrix_facts){0};
}

/* Queries the facts that extensions report. */
static void ask_extensions(bl_vk_instance *in, VkPhysicalDevice physical, bl_vk_facts *facts)
{
    uint32_t n = MAX_EXTENSIONS;
    VkExtensionProperties *list = bl_calloc(n, sizeof *list);
    if (list == NULL)
        return;
    VkResult r = in->vk.EnumerateDeviceExtensionProperties(physical, NULL, &n, list);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        n = 0;
    ask_units(in, physical, list, n, facts);
    ask_matrices(in, physical, list, n, facts);
    free(list);
}

static void ask_properties(bl_vk_instance *in, VkPhysicalDevice physical, bl_vk_facts *facts)
{
    bool v13 = has_vulkan13(in, facts);
    VkPhysicalDeviceShaderIntegerDotProductProperties dot4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties limits = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
                                                     .pNext = &dot4};
    VkPhysicalDeviceVulkan11Properties v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
                                              .pNext = v13 ? &limits : NULL};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, .pNext = &v11};
    VkPhysicalDeviceProperties2 props = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
    in->vk.GetPhysicalDeviceProperties2(physical, &props);
    facts->subgroup = v11.subgroupSize;
    facts->max_alloc = v11.maxMemoryAllocationSize;
    if (v13 && limits.maxBufferSize < facts->max_alloc)
        facts->max_alloc = limits.maxBufferSize;
    facts->dot4_fast = dot4.integerDotProduct4x8BitPackedMixedSignednessAccelerated == VK_TRUE;
    memcpy(facts->driver_uuid, v11.driverUUID, sizeof facts->driver_uuid);
    facts->driver = driver;
    facts->driver.pNext = NULL;
}

/* All queries except the query of the properties need Vulkan 1.2. */
static void ask(bl_vk_instance *in, VkPhysicalDevice physical, bl_vk_facts *facts)
{
    in->vk.GetPhysicalDeviceProperties(physical, &facts->props);
    if (facts->props.apiVersion < VK_API_VERSION_1_2)
        return;
    ask_properties(in, physical, facts);
    facts->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    facts->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    facts->v11.pNext = &facts->v12;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    facts->v12.pNext = has_vulkan13(in, facts) ? &dot4 : NULL;
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &facts->v11};
    in->vk.GetPhysicalDeviceFeatures2(physical, &features);
    facts->core = features.features;
    facts->dot4 = dot4.shaderIntegerDotProduct == VK_TRUE;
    facts->v11.pNext = facts->v12.pNext = NULL;
    ask_extensions(in, physical, facts);
    in->vk.GetPhysicalDeviceMemoryProperties(physical, &facts->memory);
    facts->nfamilies = BL_VK_MAX_FAMILIES;
    in->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &facts->nfamilies, facts->families);
}

/* ---- opening */

/* Makes |dev| without a context.  BEAMLINE_VULKAN_STAGING=1 makes the back end copy through staging memory even if the host
 * sees all memory. BEAMLINE_VULKAN_STAGING=2 also makes the back end treat the only queue of a device as two queues. */
static bl_vk_device *create_device(bl_vk_instance *in, VkPhysicalDevice physical, uint32_t number)
{
    bl_vk_device *dev = bl_calloc(1, sizeof *dev);
    if (dev == NULL)
        return NULL;
    const char *staged = getenv("BEAMLINE_VULKAN_STAGING");
    dev->base.ops = &vulkan_ops;
    dev->physical = physical;
    dev->instance = bl_vk_instance_retain(in);
    dev->parted = staged != NULL && strcmp(staged, "2") == 0;
    dev->staged = dev->parted || (staged != NULL && strcmp(staged, "1") == 0);
    pthread_mutex_init(&dev->lock, NULL);
    snprintf(dev->base.info.id, sizeof dev->base.info.id, "vulkan:%u", number);
    ask(in, physical, &dev->facts);
    return dev;
}

/* Opens a device. For an unusable device, adds a line to |why| and sets |*out| to NULL. */
static bl_status open_one(bl_vk_instance *in, VkPhysicalDevice physical, uint32_t number, bl_device **out, bl_text *why,
                          bl_err *err)
{
    bl_err refused = {0};
    *out = NULL;
    bl_vk_device *dev = create_device(in, physical, number);
    if (dev == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a Vulkan device");
    const char *reason = bl_vk_judge(&dev->facts);
    if (reason == NULL && create_context(dev, &dev->context, &refused) != BL_OK)
        reason = refused.text;
    if (reason != NULL) {
        bl_text_printf(why, "%s: %s\n", dev->facts.props.deviceName, reason);
        vk_device_destroy(&dev->base);
        return BL_OK;
    }
    bl_vk_describe(&dev->facts, &dev->context->places, number, &dev->base.info);
    *out = &dev->base;
    return BL_OK;
}

static bl_status vk_device_open_all(uint32_t max, bl_device **out, uint32_t *count, struct bl_text *why, bl_err *err)
{
    bl_vk_instance *in = NULL;
    VkPhysicalDevice physical[MAX_PHYSICAL];
    uint32_t n = MAX_PHYSICAL;
    bl_status st = BL_OK;
    *count = 0;
    BL_TRY(bl_vk_instance_create("libvulkan.so.1", &in, why, err));
    if (in == NULL)
        return BL_OK;
    VkResult r = in->vk.EnumeratePhysicalDevices(in->handle, &n, physical);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE) {
        bl_text_printf(why, "vulkan: listing the devices: %s\n", bl_vk_result_text(r));
        n = 0;
    } else if (n == 0) {
        bl_text_puts(why, "vulkan: no driver is installed\n");
    }
    for (uint32_t i = 0; i < n && *count < max && st == BL_OK; i++) {
        st = open_one(in, physical[i], *count, &out[*count], why, err);
        if (st == BL_OK && out[*count] != NULL)
            (*count)++;
    }
    if (st != BL_OK)
        while (*count > 0)
            vk_device_destroy(out[--*count]);
    bl_vk_instance_release(in);
    return st;
}

const bl_backend bl_backend_vulkan = {.name = "vulkan", .open = vk_device_open_all};
