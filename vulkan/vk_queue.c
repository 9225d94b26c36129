/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_internal.h"

#include "engine/base/fault.h"

bl_status bl_vk_commands_create(bl_vk_context *ctx, const bl_vk_queue *queue, uint32_t n, VkCommandPool *pool,
                                VkCommandBuffer *out, bl_err *err)
{
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = queue->family};
    if (*pool == VK_NULL_HANDLE)
        BL_TRY(bl_vk_check(ctx, ctx->vk.CreateCommandPool(ctx->handle, &info, NULL, pool), "making a command pool", err));
    VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = *pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = n};
    return bl_vk_check(ctx, ctx->vk.AllocateCommandBuffers(ctx->handle, &buffers, out), "making commands", err);
}

void bl_vk_barrier(bl_vk_context *ctx, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote,
                   VkPipelineStageFlags to, VkAccessFlags touches)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = wrote, .dstAccessMask = touches};
    ctx->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &all, 0, NULL, 0, NULL);
}

/* Submits |commands|. A semaphore between the queues makes writes of one queue visible to the other queue; a wait on the
 * host would not. */
bl_status bl_vk_queue_submit(bl_vk_context *ctx, bl_vk_queue *queue, VkCommandBuffer commands, uint64_t after, uint64_t *ticket,
                             bl_err *err)
{
    uint64_t value = atomic_load(&queue->submitted) + 1;
    uint32_t waits = after > queue->waited;
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .waitSemaphoreValueCount = waits,
                                              .pWaitSemaphoreValues = &after,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &value};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .waitSemaphoreCount = waits,
                         .pWaitSemaphores = queue == &ctx->compute ? &ctx->transfer.timeline : &ctx->compute.timeline,
                         .pWaitDstStageMask = &stages,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &queue->timeline};
    VkResult r = bl_fault_hit(BL_FAULT_LAUNCH) ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                                               : ctx->vk.QueueSubmit(queue->handle, 1, &info, VK_NULL_HANDLE);
    BL_TRY(bl_vk_check(ctx, r, "submitting work", err));
    atomic_store(&queue->submitted, value);
    queue->waited = waits ? after : queue->waited;
    *ticket = value;
    return BL_OK;
}

bl_status bl_vk_queue_wait(bl_vk_context *ctx, bl_vk_queue *queue, uint64_t ticket, bl_err *err)
{
    if (ticket <= atomic_load(&queue->completed))
        return BL_OK;
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &queue->timeline, .pValues = &ticket};
    BL_TRY(bl_vk_check(ctx, ctx->vk.WaitSemaphores(ctx->handle, &info, UINT64_MAX), "waiting for work", err));
    unsigned long long seen = atomic_load(&queue->completed);
    while (seen < ticket && !atomic_compare_exchange_weak(&queue->completed, &seen, ticket))
        ;
    return BL_OK;
}

bl_status bl_vk_queue_wait_all(bl_vk_context *ctx, bl_err *err)
{
    BL_TRY(bl_vk_queue_wait(ctx, &ctx->compute, atomic_load(&ctx->compute.submitted), err));
    return bl_vk_queue_wait(ctx, &ctx->transfer, atomic_load(&ctx->transfer.submitted), err);
}

bl_status bl_vk_wait(bl_device *dev, bl_err *err)
{
    bl_vk_context *ctx = bl_vk_context_get(dev);
    bl_status st = bl_vk_queue_wait_all(ctx, err);
    if (st == BL_OK)
        st = bl_vk_read_times(ctx, err);
    bl_vk_context_release(ctx);
    return st;
}
