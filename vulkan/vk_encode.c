/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_record.h"

static void launch_barrier(bl_vk_recording *r, VkCommandBuffer commands)
{
    bl_vk_barrier(r->ctx, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    r->nspans = 0;
}

/* Whether the launch needs a barrier.  Every buffer of a kernel counts as read, since the back end does not know which
 * buffers the kernel reads. A write conflicts with earlier reads and writes. */
static bool conflicts(const bl_vk_recording *r, const bl_vk_variant *v, const bl_launch *launch)
{
    const bl_vk_kernel *kernel = (const bl_vk_kernel *)launch->kernel;
    for (uint32_t i = 0; i < kernel->base.nbuffers; i++) {
        const bl_vk_bound *b = &v->slots[launch->slot[i]];
        bool writes = kernel->writes >> i & 1;
        for (uint32_t j = 0; j < r->nspans; j++) {
            const bl_vk_span *s = &r->spans[j];
            if ((writes || s->written) && s->serial == b->serial && s->begin < b->end && b->begin < s->end)
                return true;
        }
    }
    return false;
}

static void note_spans(bl_vk_recording *r, const bl_vk_variant *v, const bl_launch *launch)
{
    const bl_vk_kernel *kernel = (const bl_vk_kernel *)launch->kernel;
    for (uint32_t i = 0; i < kernel->base.nbuffers; i++) {
        const bl_vk_bound *b = &v->slots[launch->slot[i]];
        r->spans[r->nspans++] = (bl_vk_span){b->serial, b->begin, b->end, kernel->writes >> i & 1};
    }
}

/* Binds the launch's buffers in its descriptor set. */
static void write_set(bl_vk_recording *r, const bl_vk_variant *v, uint32_t index)
{
    const bl_launch *launch = &r->launches[index];
    VkDescriptorBufferInfo infos[BL_MAX_BINDINGS];
    uint32_t n = launch->kernel->nbuffers;
    for (uint32_t i = 0; i < n; i++) {
        const bl_vk_bound *b = &v->slots[launch->slot[i]];
        /* the kernel may access elements of the binding as whole 4-byte words */
        uint64_t bytes = (b->end - b->begin + 3) & ~(uint64_t)3;
        infos[i] = (VkDescriptorBufferInfo){
            .buffer = b->handle, .offset = b->begin, .range = bytes < r->ctx->max_binding ? bytes : r->ctx->max_binding};
    }
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = v->sets[index],
                                  .descriptorCount = n,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = infos};
    if (n > 0)
        r->ctx->vk.UpdateDescriptorSets(r->ctx->handle, 1, &write, 0, NULL);
}

static void vk_encode_bind(bl_vk_recording *r, const bl_vk_variant *v, uint32_t index)
{
    bl_vk_context *ctx = r->ctx;
    const bl_launch *launch = &r->launches[index];
    const bl_vk_kernel *kernel = (const bl_vk_kernel *)launch->kernel;
    VkPipelineLayout layout = ctx->layouts[kernel->base.nbuffers];
    int32_t scalars[BL_MAX_SCALARS];
    ctx->vk.CmdBindPipeline(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    if (kernel->base.nbuffers > 0)
        ctx->vk.CmdBindDescriptorSets(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &v->sets[index], 0, NULL);
    for (uint32_t i = 0; i < kernel->base.nscalars; i++)
        scalars[i] = v->vars[launch->var[i]];
    if (kernel->base.nscalars > 0)
        ctx->vk.CmdPushConstants(v->commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 kernel->base.nscalars * (uint32_t)sizeof *scalars, scalars);
}

static void vk_encode_stamp(bl_vk_recording *r, const bl_vk_variant *v, uint32_t query)
{
    if (v->timed)
        r->ctx->vk.CmdWriteTimestamp(v->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, v->queries, query);
}

static void encode_launch(bl_vk_recording *r, const bl_vk_variant *v, uint32_t index)
{
    const bl_launch *launch = &r->launches[index];
    const uint32_t *groups = v->groups[index];
    bool empty = groups[0] == 0 || groups[1] == 0 || groups[2] == 0;
    if (!empty) {
        write_set(r, v, index);
        /* A timed launch must not overlap another launch. */
        if (v->timed || r->nspans + launch->kernel->nbuffers > BL_VK_MAX_SPANS || conflicts(r, v, launch))
            launch_barrier(r, v->commands);
        note_spans(r, v, launch);
        vk_encode_bind(r, v, index);
    }
    vk_encode_stamp(r, v, 2 * index);
    if (!empty)
        r->ctx->vk.CmdDispatch(v->commands, groups[0], groups[1], groups[2]);
    vk_encode_stamp(r, v, 2 * index + 1);
}

bl_status bl_vk_encode(bl_vk_recording *r, bl_vk_variant *v, bl_err *err)
{
    bl_vk_context *ctx = r->ctx;
    /* The commands may be submitted again before their last submission has finished. */
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    BL_TRY(bl_vk_check(ctx, ctx->vk.BeginCommandBuffer(v->commands, &begin), "recording", err));
    if (v->timed && v->nlaunches > 0)
        ctx->vk.CmdResetQueryPool(v->commands, v->queries, 0, 2 * v->nlaunches);
    /* Waits for all work that other recordings and copies submitted before. */
    bl_vk_barrier(ctx, v->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                  VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    r->nspans = 0;
    for (uint32_t i = 0; i < v->nlaunches; i++)
        encode_launch(r, v, i);
    if (ctx->places.host_memory)
        bl_vk_barrier(ctx, v->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                      VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    return bl_vk_check(ctx, ctx->vk.EndCommandBuffer(v->commands), "recording", err);
}
