/* SPDX-License-Identifier: MIT */
#include "vulkan/internal.h"

bl_status bl_vk_queue_submit(bl_vk_context *ctx, VkCommandBuffer commands, uint64_t *ticket, bl_err *err)
{
    uint64_t value = atomic_load(&ctx->submitted) + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &value};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &ctx->timeline};
    BL_TRY(bl_vk_check(ctx, ctx->vk.QueueSubmit(ctx->queue, 1, &info, VK_NULL_HANDLE), "submitting work", err));
    atomic_store(&ctx->submitted, value);
    *ticket = value;
    return BL_OK;
}

bl_status bl_vk_queue_wait(bl_vk_context *ctx, uint64_t ticket, bl_err *err)
{
    if (ticket <= atomic_load(&ctx->completed))
        return BL_OK;
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &ctx->timeline, .pValues = &ticket};
    BL_TRY(bl_vk_check(ctx, ctx->vk.WaitSemaphores(ctx->handle, &info, UINT64_MAX), "waiting for work", err));
    unsigned long long seen = atomic_load(&ctx->completed);
    while (seen < ticket && !atomic_compare_exchange_weak(&ctx->completed, &seen, ticket))
        ;
    return BL_OK;
}

bl_status bl_vk_queue_wait_all(bl_vk_context *ctx, bl_err *err)
{
    return bl_vk_queue_wait(ctx, atomic_load(&ctx->submitted), err);
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
