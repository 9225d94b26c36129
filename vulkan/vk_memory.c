/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_internal.h"

#include "engine/base/fault.h"
#include "engine/base/size.h"

#include <stdlib.h>

enum {
    MIN_SHIFT = 8, /* 2^8: the largest alignment of bindings that Vulkan allows a device to require is 256 */
    MAX_SHIFT = MIN_SHIFT + BL_VK_SLAB_CLASSES - 1,
    SLAB_SLOTS = 256,
    MIN_SLAB = 64 << 10,
    MAX_SLAB = 4 << 20,
};

/* A slab: many buffers of one size in one allocation, since drivers may limit a process to 4096 allocations. */
struct bl_vk_slab {
    bl_vk_slab *next;
    bl_vk_storage storage;
    uint32_t class, nslots, nfree;
    uint64_t taken[SLAB_SLOTS / 64];
    uint64_t used[SLAB_SLOTS], copied[SLAB_SLOTS]; /* the tickets of each slot; see bl_vk_buffer */
};

static VkResult create_buffer(bl_vk_context *ctx, uint64_t bytes, VkBuffer *out)
{
    const uint32_t families[] = {ctx->compute.family, ctx->transfer.family};
    bool both = families[0] != families[1];
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .sharingMode = both ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
                               .queueFamilyIndexCount = both ? 2 : 0,
                               .pQueueFamilyIndices = families,
                               .size = bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    return ctx->vk.CreateBuffer(ctx->handle, &info, NULL, out);
}

bl_status bl_vk_memory_init(bl_vk_context *ctx, VkPhysicalDeviceType type, bool staged, bl_err *err)
{
    VkBuffer probe = VK_NULL_HANDLE;
    VkMemoryRequirements needs;
    /* The memory types of a buffer depend on its usage only, not on its size. */
    BL_TRY(bl_vk_check(ctx, create_buffer(ctx, 256, &probe), "making a buffer", err));
    ctx->vk.GetBufferMemoryRequirements(ctx->handle, probe, &needs);
    ctx->vk.DestroyBuffer(ctx->handle, probe, NULL);
    if (!bl_vk_choose_places(&ctx->dev->facts.memory, type, needs.memoryTypeBits, staged, &ctx->places))
        return bl_fail(err, BL_EDEVICE, "no memory type for buffers");
    return BL_OK;
}

void bl_vk_memory_fini(bl_vk_context *ctx)
{
    for (uint32_t i = 0; i < BL_VK_SLAB_CLASSES; i++) {
        while (ctx->slabs[i] != NULL) {
            bl_vk_slab *slab = ctx->slabs[i];
            ctx->slabs[i] = slab->next;
            bl_vk_storage_destroy(ctx, &slab->storage);
            free(slab);
        }
    }
}

static VkResult allocate(bl_vk_context *ctx, uint64_t bytes, uint32_t type, VkDeviceMemory *out)
{
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = bytes, .memoryTypeIndex = type};
    VkResult r = VK_ERROR_TOO_MANY_OBJECTS;

    if (atomic_fetch_add(&ctx->allocations, 1) < ctx->dev->facts.props.limits.maxMemoryAllocationCount)
        r = ctx->vk.AllocateMemory(ctx->handle, &info, NULL, out);
    if (r != VK_SUCCESS)
        atomic_fetch_sub(&ctx->allocations, 1);
    return r;
}

static VkResult fill_storage(bl_vk_context *ctx, uint64_t bytes, uint32_t type, bool map, bl_vk_storage *s)
{
    VkMemoryRequirements needs;
    VkResult r = create_buffer(ctx, bytes, &s->handle);
    if (r != VK_SUCCESS)
        return r;
    ctx->vk.GetBufferMemoryRequirements(ctx->handle, s->handle, &needs);
    r = allocate(ctx, needs.size, type, &s->memory);
    if (r == VK_SUCCESS)
        r = ctx->vk.BindBufferMemory(ctx->handle, s->handle, s->memory, 0);
    if (r == VK_SUCCESS && map)
        r = ctx->vk.MapMemory(ctx->handle, s->memory, 0, VK_WHOLE_SIZE, 0, &s->host);
    return r;
}

bl_status bl_vk_storage_create(bl_vk_context *ctx, uint64_t bytes, uint32_t type, bool map, bl_vk_storage *out, bl_err *err)
{
    *out = (bl_vk_storage){.serial = atomic_fetch_add(&ctx->serials, 1) + 1};
    VkResult r = fill_storage(ctx, bytes, type, map, out);
    if (r == VK_SUCCESS)
        return BL_OK;
    bl_vk_storage_destroy(ctx, out);
    if (bl_vk_result_status(r) == BL_ENODEVMEM)
        return bl_fail(err, BL_ENODEVMEM, "%s: no room for a buffer of %llu bytes: %s", ctx->dev->base.info.id,
                       (unsigned long long)bytes, bl_vk_result_text(r));
    return bl_vk_check(ctx, r, "making a buffer", err);
}

void bl_vk_storage_destroy(bl_vk_context *ctx, bl_vk_storage *s)
{
    ctx->vk.DestroyBuffer(ctx->handle, s->handle, NULL);
    if (s->memory != VK_NULL_HANDLE) {
        ctx->vk.FreeMemory(ctx->handle, s->memory, NULL); /* freeing the memory also unmaps it */
        atomic_fetch_sub(&ctx->allocations, 1);
    }
    *s = (bl_vk_storage){0};
}

/* ---- small buffers */

static uint32_t class_of(size_t bytes)
{
    uint32_t shift = MIN_SHIFT;
    while (((size_t)1 << shift) < bytes)
        shift++;
    return shift - MIN_SHIFT;
}

/* Adds a slab of |class| with a free slot; NULL on failure. */
static bl_vk_slab *add_slab(bl_vk_context *ctx, uint32_t class, bl_err *err)
{
    size_t slot = (size_t)1 << (class + MIN_SHIFT), bytes = slot * 64;
    bytes = bytes < MIN_SLAB ? MIN_SLAB : bytes > MAX_SLAB ? MAX_SLAB : bytes;
    bl_vk_slab *slab = bl_calloc(1, sizeof *slab);
    if (slab == NULL) {
        bl_fail(err, BL_ENOMEM, "out of host memory for small buffers");
        return NULL;
    }
    if (bl_vk_storage_create(ctx, bytes, ctx->places.buffers, ctx->places.host_memory, &slab->storage, err) != BL_OK) {
        free(slab);
        return NULL;
    }
    slab->class = class;
    slab->nslots = slab->nfree = (uint32_t)(bytes / slot);
    slab->next = ctx->slabs[class];
    ctx->slabs[class] = slab;
    return slab;
}

/* Takes a free slot of |slab|, which must have one. */
static uint32_t take_slot(bl_vk_slab *slab)
{
    uint32_t slot = 0;
    while (slab->taken[slot / 64] >> (slot % 64) & 1)
        slot++;
    slab->taken[slot / 64] |= (uint64_t)1 << (slot % 64);
    slab->nfree--;
    return slot;
}

static bl_status alloc_small(bl_vk_context *ctx, size_t bytes, bl_vk_buffer *buffer, bl_err *err)
{
    uint32_t class = class_of(bytes);
    bl_err failure = {0};
    pthread_mutex_lock(&ctx->memory_lock);
    bl_vk_slab *slab = ctx->slabs[class];
    while (slab != NULL && slab->nfree == 0)
        slab = slab->next;
    if (slab == NULL)
        slab = add_slab(ctx, class, &failure);
    if (slab != NULL) {
        buffer->slab = slab;
        buffer->slot = take_slot(slab);
        buffer->used = &slab->used[buffer->slot];
        buffer->copied = &slab->copied[buffer->slot];
        buffer->storage = slab->storage;
        buffer->at = (uint64_t)buffer->slot << (class + MIN_SHIFT);
    }
    pthread_mutex_unlock(&ctx->memory_lock);
    return slab != NULL ? BL_OK : bl_fail(err, failure.status, "%s", failure.text);
}

/* Waits until no copy writes to the memory. On a lost device no copy writes. */
static void wait_for_copies(bl_vk_context *ctx, uint64_t ticket)
{
    bl_status done = bl_vk_queue_wait(ctx, ctx->copies, ticket, NULL);
    (void)done;
}

static void destroy_slab(bl_vk_context *ctx, bl_vk_slab *slab)
{
    for (uint32_t i = 0; i < slab->nslots; i++)
        wait_for_copies(ctx, slab->copied[i]);
    bl_vk_storage_destroy(ctx, &slab->storage);
    free(slab);
}

/* Frees a slot, and the slab if it becomes empty, unless the slab is the last of its class: a buffer that is repeatedly
 * allocated and freed must not cost an allocation each time. */
static void free_small(bl_vk_context *ctx, bl_vk_slab *slab, uint32_t slot)
{
    bl_vk_slab *empty = NULL;
    pthread_mutex_lock(&ctx->memory_lock);
    slab->taken[slot / 64] &= ~((uint64_t)1 << (slot % 64));
    slab->nfree++;
    bl_vk_slab **at = &ctx->slabs[slab->class];
    if (slab->nfree == slab->nslots && (*at != slab || slab->next != NULL)) {
        while (*at != slab)
            at = &(*at)->next;
        *at = slab->next;
        empty = slab;
    }
    pthread_mutex_unlock(&ctx->memory_lock);
    if (empty != NULL)
        destroy_slab(ctx, empty);
}

/* ---- buffers */

static bl_vk_buffer *vk_memory_create(bl_vk_context *ctx)
{
    bl_vk_buffer *buffer = bl_calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return NULL;
    buffer->ctx = bl_vk_context_retain(ctx);
    buffer->used = &buffer->own;
    buffer->copied = &buffer->own_copied;
    return buffer;
}

static void set_host(bl_vk_buffer *buffer)
{
    if (buffer->storage.host != NULL)
        buffer->base.host = (char *)buffer->storage.host + buffer->at;
}

bl_status bl_vk_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err)
{
    size_t rounded = 0;
    bl_status st = BL_OK;
    *out = NULL;
    /* A binding spans whole words, so the memory spans whole words too. */
    if (!bl_size_align(bytes, 16, &rounded))
        return bl_fail(err, BL_ELIMIT, "a buffer of %zu bytes", bytes);
    bl_vk_context *ctx = bl_vk_context_get(dev);
    bl_vk_buffer *buffer = vk_memory_create(ctx);
    bl_vk_context_release(ctx); /* the buffer holds its own reference */
    if (buffer == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a buffer");
    if (rounded <= (size_t)1 << MAX_SHIFT) {
        st = alloc_small(ctx, bytes, buffer, err);
    } else {
        st = bl_vk_storage_create(ctx, rounded, ctx->places.buffers, ctx->places.host_memory, &buffer->storage, err);
        buffer->owner = st == BL_OK;
    }
    if (st != BL_OK) {
        bl_vk_buffer_dealloc(&buffer->base);
        return st;
    }
    set_host(buffer);
    *out = &buffer->base;
    return BL_OK;
}

bl_status bl_vk_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_vk_buffer *whole = (bl_vk_buffer *)parent;
    (void)bytes; /* the wrappers store the size in the base */
    *out = NULL;
    bl_vk_buffer *buffer = vk_memory_create(whole->ctx);
    if (buffer == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a buffer");
    buffer->storage = whole->storage;
    buffer->at = whole->at + offset;
    buffer->used = whole->used;
    buffer->copied = whole->copied;
    set_host(buffer);
    *out = &buffer->base;
    return BL_OK;
}

void bl_vk_buffer_dealloc(bl_buffer *base)
{
    bl_vk_buffer *buffer = (bl_vk_buffer *)base;
    if (buffer->slab != NULL)
        free_small(buffer->ctx, buffer->slab, buffer->slot);
    if (buffer->owner) {
        wait_for_copies(buffer->ctx, *buffer->copied);
        bl_vk_storage_destroy(buffer->ctx, &buffer->storage);
    }
    bl_vk_context_release(buffer->ctx);
    free(buffer);
}
