/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_internal.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"
#include "vulkan/vk_cache.h"
#include "vulkan/vk_shader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVE_EVERY = 32 }; /* largest number of pipelines that a crash can lose from the disk cache */

/* ---- the driver's cache, on disk */

/* The key of a driver cache: one driver build on one kind of device. */
typedef struct cache_key {
    uint8_t driver[VK_UUID_SIZE], cache[VK_UUID_SIZE];
    uint32_t vendor, device, version, api;
} cache_key;

static cache_key vk_pipeline_key_of(const bl_vk_facts *f, char *name, size_t cap)
{
    cache_key key = {
        .vendor = f->props.vendorID, .device = f->props.deviceID, .version = f->props.driverVersion, .api = f->props.apiVersion};
    memcpy(key.driver, f->driver_uuid, sizeof key.driver);
    memcpy(key.cache, f->props.pipelineCacheUUID, sizeof key.cache);
    snprintf(name, cap, "pipeline-%016llx", (unsigned long long)bl_hash_bytes(&key, sizeof key, 0));
    return key;
}

static void load_cache(bl_vk_context *ctx)
{
    char name[40];
    cache_key key = vk_pipeline_key_of(&ctx->dev->facts, name, sizeof name);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    void *data = NULL;
    size_t len = 0;
    if (bl_vk_cache_load(name, &key, sizeof key, &data, &len)) {
        info.pInitialData = data;
        info.initialDataSize = len;
    }
    /* Kernels compile without the driver's cache too. */
    if (ctx->vk.CreatePipelineCache(ctx->handle, &info, NULL, &ctx->pipeline_cache) != VK_SUCCESS)
        ctx->pipeline_cache = VK_NULL_HANDLE;
    free(data);
}

static void save_cache(bl_vk_context *ctx)
{
    char name[40];
    cache_key key = vk_pipeline_key_of(&ctx->dev->facts, name, sizeof name);
    size_t len = 0;
    if (ctx->pipeline_cache == VK_NULL_HANDLE ||
        ctx->vk.GetPipelineCacheData(ctx->handle, ctx->pipeline_cache, &len, NULL) != VK_SUCCESS || len == 0)
        return;
    void *data = bl_calloc(1, len);
    if (data != NULL && ctx->vk.GetPipelineCacheData(ctx->handle, ctx->pipeline_cache, &len, data) == VK_SUCCESS)
        bl_vk_cache_store(name, &key, sizeof key, data, len);
    free(data);
}

/* ---- layouts: one for each number of buffers, with room for every scalar */

static VkResult create_layout(bl_vk_context *ctx, uint32_t nbuffers)
{
    VkDescriptorSetLayoutBinding bindings[BL_MAX_BINDINGS] = {0};
    for (uint32_t i = 0; i < nbuffers; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = nbuffers, .pBindings = bindings};
    VkResult r = ctx->vk.CreateDescriptorSetLayout(ctx->handle, &set, NULL, &ctx->set_layouts[nbuffers]);
    if (r != VK_SUCCESS)
        return r;
    VkPushConstantRange scalars = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = BL_MAX_SCALARS * sizeof(int32_t)};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &ctx->set_layouts[nbuffers],
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &scalars};
    return ctx->vk.CreatePipelineLayout(ctx->handle, &info, NULL, &ctx->layouts[nbuffers]);
}

bl_status bl_vk_pipelines_init(bl_vk_context *ctx, bl_err *err)
{
    uint32_t most = bl_vk_most_bindings(&ctx->dev->facts);
    for (uint32_t i = 0; i <= most; i++)
        BL_TRY(bl_vk_check(ctx, create_layout(ctx, i), "making a layout", err));
    load_cache(ctx);
    return BL_OK;
}

void bl_vk_pipelines_fini(bl_vk_context *ctx)
{
    if (atomic_load(&ctx->pipelines) > 0)
        save_cache(ctx);
    ctx->vk.DestroyPipelineCache(ctx->handle, ctx->pipeline_cache, NULL);
    for (uint32_t i = 0; i <= BL_MAX_BINDINGS; i++) {
        ctx->vk.DestroyPipelineLayout(ctx->handle, ctx->layouts[i], NULL);
        ctx->vk.DestroyDescriptorSetLayout(ctx->handle, ctx->set_layouts[i], NULL);
    }
}

/* ---- kernels */

/* Checks limits that the wrappers do not check. */
static bl_status vk_pipeline_check_source(bl_vk_context *ctx, const bl_kernel_source *source, bl_err *err)
{
    const uint32_t *most = ctx->dev->facts.props.limits.maxComputeWorkGroupSize;
    for (int i = 0; i < 3; i++)
        if (source->local[i] > most[i])
            return bl_fail(err, BL_EUNSUPPORTED, "kernel %s has groups of %u along axis %d, this device %u", source->entry,
                           source->local[i], i, most[i]);
    return BL_OK;
}

static VkResult create_pipeline(bl_vk_context *ctx, const bl_vk_spirv *spirv, const bl_kernel_source *source, VkPipeline *out)
{
    VkShaderModule module = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = spirv->bytes, .pCode = spirv->words};
    VkResult r = ctx->vk.CreateShaderModule(ctx->handle, &code, NULL, &module);
    if (r != VK_SUCCESS)
        return r;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = ctx->dev->facts.subgroup};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = module,
                                                  .pName = "main"},
                                        .layout = ctx->layouts[source->nbuffers]};
    if (ctx->dev->facts.matrix.asked_subgroup && bl_vk_shader_has_matrices(source)) {
        info.stage.pNext = &size;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    r = ctx->vk.CreateComputePipelines(ctx->handle, ctx->pipeline_cache, 1, &info, NULL, out);
    ctx->vk.DestroyShaderModule(ctx->handle, module, NULL);
    return r;
}

static bl_status vk_pipeline_make(bl_vk_context *ctx, const bl_kernel_source *source, bl_vk_kernel *kernel, bl_err *err)
{
    bl_vk_spirv spirv = {0};
    BL_TRY(vk_pipeline_check_source(ctx, source, err));
    BL_TRY(bl_vk_shader_compile(ctx->instance, source, &spirv, err));
    VkResult r = create_pipeline(ctx, &spirv, source, &kernel->pipeline);
    bl_vk_spirv_fini(&spirv);
    BL_TRY(bl_vk_check(ctx, r, "compiling a kernel", err));
    if ((atomic_fetch_add(&ctx->pipelines, 1) + 1) % SAVE_EVERY == 0)
        save_cache(ctx);
    return BL_OK;
}

bl_status bl_vk_kernel_make(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    *out = NULL;
    bl_vk_kernel *kernel = bl_calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a kernel");
    kernel->ctx = bl_vk_context_get(dev);
    kernel->writes = source->writes;
    bl_status st = vk_pipeline_make(kernel->ctx, source, kernel, err);
    if (st != BL_OK) {
        bl_vk_kernel_free(&kernel->base);
        return st;
    }
    *out = &kernel->base;
    return BL_OK;
}

void bl_vk_kernel_free(bl_kernel *base)
{
    bl_vk_kernel *kernel = (bl_vk_kernel *)base;
    kernel->ctx->vk.DestroyPipeline(kernel->ctx->handle, kernel->pipeline, NULL);
    bl_vk_context_release(kernel->ctx);
    free(kernel);
}
