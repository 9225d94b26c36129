/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_internal.h"

#include <string.h>

/* ---- staging, for memory that the host cannot access */

static bl_status staging_init(bl_vk_context *ctx, bl_err *err)
{
    bl_vk_staging *s = &ctx->staging;
    if (s->storage.handle != VK_NULL_HANDLE)
        return BL_OK;
    if (s->commands[0] == NULL)
        BL_TRY(bl_vk_commands_create(ctx, ctx->copies, BL_VK_STAGING_PARTS, &s->pool, s->commands, err));
    return bl_vk_storage_create(ctx, (uint64_t)BL_VK_STAGING_BYTES * BL_VK_STAGING_PARTS, ctx->places.staging, true, &s->storage,
                                err);
}

void bl_vk_staging_fini(bl_vk_context *ctx)
{
    bl_vk_storage_destroy(ctx, &ctx->staging.storage);
    ctx->vk.DestroyCommandPool(ctx->handle, ctx->staging.pool, NULL); /* destroying the pool also frees its command buffers */
}

/* Submits a copy with the commands of staging part |part|, after all earlier copies and after the kernels up to ticket
 * |after|. A copy on a separate queue waits for no other kernel. */
static bl_status submit_region(bl_vk_context *ctx, uint32_t part, VkBuffer from, VkBuffer to, const VkBufferCopy *region,
                               uint64_t after, bool seen, bl_err *err)
{
    bl_vk_staging *s = &ctx->staging;
    bool own = ctx->copies != &ctx->compute;
    VkCommandBuffer commands = s->commands[part];
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkPipelineStageFlags earlier = VK_PIPELINE_STAGE_TRANSFER_BIT | (own ? 0 : VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    BL_TRY(bl_vk_check(ctx, ctx->vk.BeginCommandBuffer(commands, &begin), "recording a copy", err));
    bl_vk_barrier(ctx, commands, earlier, VK_ACCESS_TRANSFER_WRITE_BIT | (own ? 0 : VK_ACCESS_SHADER_WRITE_BIT),
                  VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    ctx->vk.CmdCopyBuffer(commands, from, to, 1, region);
    if (seen)
        bl_vk_barrier(ctx, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                      VK_ACCESS_HOST_READ_BIT);
    BL_TRY(bl_vk_check(ctx, ctx->vk.EndCommandBuffer(commands), "recording a copy", err));
    return bl_vk_queue_submit(ctx, ctx->copies, commands, own ? after : 0, &s->tickets[part], err);
}

/* Copies between staging part |part| and |buffer|, after earlier uses of the buffer's memory. */
static bl_status submit_copy(bl_vk_context *ctx, uint32_t part, bl_vk_buffer *buffer, size_t offset, size_t bytes, bool upload,
                             bl_err *err)
{
    VkBuffer staging = ctx->staging.storage.handle, other = buffer->storage.handle;
    uint64_t here = (uint64_t)part * BL_VK_STAGING_BYTES, there = buffer->at + offset;
    VkBufferCopy copy = {.srcOffset = upload ? here : there, .dstOffset = upload ? there : here, .size = bytes};
    BL_TRY(submit_region(ctx, part, upload ? staging : other, upload ? other : staging, &copy, *buffer->used, !upload, err));
    *buffer->copied = ctx->staging.tickets[part];
    return BL_OK;
}

static size_t vk_copy_part_bytes(size_t total, size_t done)
{
    return total - done < BL_VK_STAGING_BYTES ? total - done : BL_VK_STAGING_BYTES;
}

static char *part_host(bl_vk_context *ctx, uint32_t part)
{
    return (char *)ctx->staging.storage.host + (size_t)part * BL_VK_STAGING_BYTES;
}

static bl_status upload(bl_vk_context *ctx, bl_vk_buffer *buffer, size_t offset, const char *data, size_t bytes, bl_err *err)
{
    BL_TRY(staging_init(ctx, err));
    uint32_t part = 0;
    for (size_t done = 0; done < bytes; part = (part + 1) % BL_VK_STAGING_PARTS) {
        size_t n = vk_copy_part_bytes(bytes, done);
        /* wait until the last copy of the part has read the part */
        BL_TRY(bl_vk_queue_wait(ctx, ctx->copies, ctx->staging.tickets[part], err));
        memcpy(part_host(ctx, part), data + done, n);
        BL_TRY(submit_copy(ctx, part, buffer, offset + done, n, true, err));
        done += n;
    }
    return BL_OK;
}

/* Submits one copy ahead: the device fills the next part while the host empties the current part (double buffering). */
static bl_status download(bl_vk_context *ctx, bl_vk_buffer *buffer, size_t offset, char *data, size_t bytes, bl_err *err)
{
    BL_TRY(staging_init(ctx, err));
    size_t asked = 0, done = 0;
    for (uint32_t i = 0; done < bytes; i++) {
        uint32_t ahead = i % BL_VK_STAGING_PARTS, part = (i + BL_VK_STAGING_PARTS - 1) % BL_VK_STAGING_PARTS;
        if (asked < bytes) {
            size_t n = vk_copy_part_bytes(bytes, asked);
            BL_TRY(bl_vk_queue_wait(ctx, ctx->copies, ctx->staging.tickets[ahead], err));
            BL_TRY(submit_copy(ctx, ahead, buffer, offset + asked, n, false, err));
            asked += n;
        }
        if (i == 0)
            continue; /* only the first copy is in flight */
        size_t n = vk_copy_part_bytes(bytes, done);
        BL_TRY(bl_vk_queue_wait(ctx, ctx->copies, ctx->staging.tickets[part], err));
        memcpy(data + done, part_host(ctx, part), n);
        done += n;
    }
    return BL_OK;
}

/* ---- rows of bl_device_ops */

bl_status bl_vk_buffer_write(bl_buffer *base, size_t offset, const void *data, size_t bytes, bl_err *err)
{
    bl_vk_buffer *buffer = (bl_vk_buffer *)base;
    if (base->host == NULL)
        return upload(buffer->ctx, buffer, offset, data, bytes, err);
    BL_TRY(bl_vk_queue_wait_all(buffer->ctx, err)); /* submitted work may still read the old contents */
    memcpy((char *)base->host + offset, data, bytes);
    return BL_OK;
}

bl_status bl_vk_buffer_read(bl_buffer *base, size_t offset, void *data, size_t bytes, bl_err *err)
{
    bl_vk_buffer *buffer = (bl_vk_buffer *)base;
    if (base->host == NULL)
        return download(buffer->ctx, buffer, offset, data, bytes, err);
    BL_TRY(bl_vk_queue_wait_all(buffer->ctx, err));
    memcpy(data, (const char *)base->host + offset, bytes);
    return BL_OK;
}

bl_status bl_vk_buffer_copy(bl_buffer *to_base, size_t at, bl_buffer *from_base, size_t offset, size_t bytes, bl_err *err)
{
    bl_vk_buffer *to = (bl_vk_buffer *)to_base, *from = (bl_vk_buffer *)from_base;
    bl_vk_context *ctx = to->ctx;
    VkBufferCopy copy = {.srcOffset = from->at + offset, .dstOffset = to->at + at, .size = bytes};
    uint64_t after = *to->used > *from->used ? *to->used : *from->used;
    BL_TRY(staging_init(ctx, err));
    BL_TRY(bl_vk_queue_wait(ctx, ctx->copies, ctx->staging.tickets[0], err));
    BL_TRY(submit_region(ctx, 0, from->storage.handle, to->storage.handle, &copy, after, false, err));
    return bl_vk_queue_wait(ctx, ctx->copies, ctx->staging.tickets[0], err);
}
