/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_record.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

/* ---- device times of launches */

/* Stores the times of |v|, whose submission is complete, if they were requested. */
static bl_status read_ticks(bl_vk_context *ctx, bl_vk_variant *v, bl_err *err)
{
    uint64_t *out = v->nanoseconds;
    uint64_t mask = ctx->timestamp_bits < 64 ? ((uint64_t)1 << ctx->timestamp_bits) - 1 : UINT64_MAX;
    uint32_t n = 2 * v->nlaunches;
    v->nanoseconds = NULL;
    if (n == 0)
        return BL_OK;
    VkResult r = ctx->vk.GetQueryPoolResults(ctx->handle, v->queries, 0, n, n * sizeof *v->ticks, v->ticks, sizeof *v->ticks,
                                             VK_QUERY_RESULT_64_BIT);
    BL_TRY(bl_vk_check(ctx, r, "reading times", err));
    if (r == VK_NOT_READY)
        return bl_fail(err, BL_EDEVICE, "%s: there are no times of finished work", ctx->dev->base.info.id);
    for (uint32_t i = 0; i < v->nlaunches; i++)
        out[i] = (uint64_t)((double)((v->ticks[(size_t)2 * i + 1] - v->ticks[(size_t)2 * i]) & mask) * ctx->ns_per_tick);
    return BL_OK;
}

static void expect_times(bl_vk_context *ctx, bl_vk_variant *v, uint64_t *nanoseconds)
{
    pthread_mutex_lock(&ctx->timed_lock);
    v->nanoseconds = nanoseconds;
    v->next_timed = ctx->timed;
    ctx->timed = v;
    pthread_mutex_unlock(&ctx->timed_lock);
}

/* Removes |v| from the list of timed submissions if it is in the list. */
static void forget_times(bl_vk_context *ctx, bl_vk_variant *v)
{
    pthread_mutex_lock(&ctx->timed_lock);
    for (bl_vk_variant **at = &ctx->timed; *at != NULL; at = &(*at)->next_timed) {
        if (*at == v) {
            *at = v->next_timed;
            break;
        }
    }
    pthread_mutex_unlock(&ctx->timed_lock);
}

bl_status bl_vk_read_times(bl_vk_context *ctx, bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&ctx->timed_lock);
    while (ctx->timed != NULL) {
        bl_vk_variant *v = ctx->timed;
        ctx->timed = v->next_timed;
        bl_status one = read_ticks(ctx, v, err);
        st = st == BL_OK ? one : st;
    }
    pthread_mutex_unlock(&ctx->timed_lock);
    return st;
}

/* ---- variants */

static void destroy_variant(bl_vk_context *ctx, bl_vk_variant *v)
{
    ctx->vk.DestroyDescriptorPool(ctx->handle, v->pool, NULL); /* destroying the pool also frees its sets */
    ctx->vk.DestroyQueryPool(ctx->handle, v->queries, NULL);
    free(v->sets);
    free(v->ticks);
    free(v->slots);
    free(v->vars);
    free(v->groups);
    /* the pool of the recording owns the command buffer, and a second attempt may use it */
    VkCommandBuffer commands = v->commands;
    *v = (bl_vk_variant){.commands = commands};
}

/* Allocates zeroed items; not NULL for n = 0. */
static void *items(uint32_t n, size_t size)
{
    return bl_calloc(n > 0 ? n : 1, size);
}

static bl_status create_sets(bl_vk_recording *r, bl_vk_variant *v, bl_err *err)
{
    bl_vk_context *ctx = r->ctx;
    VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = r->nbindings};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = r->base.nlaunches,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    if (r->nbindings == 0)
        return BL_OK;
    BL_TRY(bl_vk_check(ctx, ctx->vk.CreateDescriptorPool(ctx->handle, &pool, NULL, &v->pool), "making descriptors", err));
    for (uint32_t i = 0; i < r->base.nlaunches; i++) {
        VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = v->pool,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &ctx->set_layouts[r->launches[i].kernel->nbuffers]};
        BL_TRY(bl_vk_check(ctx, ctx->vk.AllocateDescriptorSets(ctx->handle, &info, &v->sets[i]), "making descriptors", err));
    }
    return BL_OK;
}

/* Creates everything the variant needs except the queries.  After a failure |v| owns what was created. */
static bl_status vk_record_fill_variant(bl_vk_recording *r, bl_vk_variant *v, bl_err *err)
{
    v->nlaunches = r->base.nlaunches;
    v->sets = items(v->nlaunches, sizeof *v->sets);
    v->groups = items(v->nlaunches, sizeof *v->groups);
    v->slots = items(r->base.nslots, sizeof *v->slots);
    v->vars = items(r->base.nvars, sizeof *v->vars);
    if (v->sets == NULL || v->groups == NULL || v->slots == NULL || v->vars == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording of %u launches", v->nlaunches);
    if (v->commands == NULL)
        BL_TRY(bl_vk_commands_create(r->ctx, &r->ctx->compute, 1, &r->pool, &v->commands, err));
    return create_sets(r, v, err);
}

static bl_status create_queries(bl_vk_recording *r, bl_vk_variant *v, bl_err *err)
{
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2 * v->nlaunches};
    if (v->queries != VK_NULL_HANDLE || v->nlaunches == 0)
        return BL_OK;
    if (v->ticks == NULL)
        v->ticks = items(2 * v->nlaunches, sizeof *v->ticks);
    if (v->ticks == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the times of %u launches", v->nlaunches);
    return bl_vk_check(r->ctx, r->ctx->vk.CreateQueryPool(r->ctx->handle, &info, NULL, &v->queries), "making queries", err);
}

static bool same_slots(const bl_vk_bound *a, const bl_vk_bound *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].serial != b[i].serial || a[i].begin != b[i].begin || a[i].end != b[i].end)
            return false;
    return true;
}

static bool vk_record_same(const bl_vk_recording *r, const bl_vk_variant *v, const bl_submission *s, bool timed)
{
    if (!v->valid || v->timed != timed || !same_slots(v->slots, r->slots, r->base.nslots))
        return false;
    if (r->base.nvars > 0 && memcmp(v->vars, s->vars, r->base.nvars * sizeof *v->vars) != 0)
        return false;
    return r->base.nlaunches == 0 || memcmp(v->groups, s->groups, r->base.nlaunches * sizeof *v->groups) == 0;
}

/* The least recently used variant; an unused variant comes first. */
static bl_vk_variant *stalest(bl_vk_recording *r)
{
    bl_vk_variant *v = &r->variants[0];
    for (uint32_t i = 1; i < BL_VK_VARIANTS; i++)
        if (r->variants[i].used < v->used)
            v = &r->variants[i];
    return v;
}

/* Waits for the last submission of |v| and stores its times. */
static bl_status vk_record_settle(bl_vk_context *ctx, bl_vk_variant *v, bl_err *err)
{
    BL_TRY(bl_vk_queue_wait(ctx, &ctx->compute, v->ticket, err));
    if (v->nanoseconds == NULL)
        return BL_OK;
    forget_times(ctx, v);
    return read_ticks(ctx, v, err);
}

static bl_status record_variant(bl_vk_recording *r, bl_vk_variant *v, const bl_submission *s, bool timed, bl_err *err)
{
    BL_TRY(vk_record_settle(r->ctx, v, err));
    v->valid = false;
    if (v->slots == NULL) {
        bl_status st = vk_record_fill_variant(r, v, err);
        if (st != BL_OK) {
            destroy_variant(r->ctx, v);
            return st;
        }
    }
    if (timed)
        BL_TRY(create_queries(r, v, err));
    v->timed = timed;
    memcpy(v->slots, r->slots, r->base.nslots * sizeof *v->slots);
    if (r->base.nvars > 0)
        memcpy(v->vars, s->vars, r->base.nvars * sizeof *v->vars);
    if (v->nlaunches > 0)
        memcpy(v->groups, s->groups, v->nlaunches * sizeof *v->groups);
    BL_TRY(bl_vk_encode(r, v, err));
    v->valid = true;
    return BL_OK;
}

static bl_status find_variant(bl_vk_recording *r, const bl_submission *s, bool timed, bl_vk_variant **out, bl_err *err)
{
    for (uint32_t i = 0; i < BL_VK_VARIANTS; i++) {
        if (vk_record_same(r, &r->variants[i], s, timed)) {
            *out = &r->variants[i];
            /* the queries of a variant hold the times of one submission */
            return timed ? vk_record_settle(r->ctx, *out, err) : BL_OK;
        }
    }
    *out = stalest(r);
    return record_variant(r, *out, s, timed, err);
}

/* ---- submission */

static void vk_record_bind_slots(bl_vk_recording *r, const bl_submission *s)
{
    for (uint32_t i = 0; i < r->base.nslots; i++) {
        const bl_vk_buffer *buffer = (const bl_vk_buffer *)s->slots[i];
        r->slots[i] = (bl_vk_bound){.handle = buffer->storage.handle,
                                    .serial = buffer->storage.serial,
                                    .begin = buffer->at,
                                    .end = buffer->at + buffer->base.bytes};
    }
}

bl_status bl_vk_submit(bl_recording *base, const bl_submission *s, bl_err *err)
{
    bl_vk_recording *r = (bl_vk_recording *)base;
    bl_vk_variant *v = NULL;
    bool timed = s->nanoseconds != NULL && r->ctx->timestamp_bits > 0;
    vk_record_bind_slots(r, s);
    if (s->nanoseconds != NULL)
        memset(s->nanoseconds, 0, base->nlaunches * sizeof *s->nanoseconds); /* the times stay zero if the queue has no clock */
    BL_TRY(find_variant(r, s, timed, &v, err));
    bl_status st =
        bl_vk_queue_submit(r->ctx, &r->ctx->compute, v->commands, atomic_load(&r->ctx->transfer.submitted), &v->ticket, err);
    if (st != BL_OK) {
        base->begun = st != BL_ENODEVMEM; /* vkQueueSubmit without memory changes no state, by its specification */
        return st;
    }
    for (uint32_t i = 0; i < base->nslots; i++)
        *((bl_vk_buffer *)s->slots[i])->used = v->ticket;
    v->used = ++r->clock;
    if (timed)
        expect_times(r->ctx, v, s->nanoseconds);
    return BL_OK;
}

/* ---- recordings */

static bl_status fill_recording(bl_vk_recording *r, const bl_launch *launches, bl_err *err)
{
    r->launches = items(r->base.nlaunches, sizeof *r->launches);
    r->slots = items(r->base.nslots, sizeof *r->slots);
    r->spans = items(BL_VK_MAX_SPANS, sizeof *r->spans);
    if (r->launches == NULL || r->slots == NULL || r->spans == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording of %u launches", r->base.nlaunches);
    if (r->base.nlaunches > 0)
        memcpy(r->launches, launches, r->base.nlaunches * sizeof *launches);
    for (uint32_t i = 0; i < r->base.nlaunches; i++)
        r->nbindings += launches[i].kernel->nbuffers;
    return BL_OK;
}

bl_status bl_vk_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars, bl_recording **out,
                       bl_err *err)
{
    *out = NULL;
    bl_vk_recording *r = bl_calloc(1, sizeof *r);
    if (r == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a recording");
    r->ctx = bl_vk_context_get(dev);
    r->base = (bl_recording){.nlaunches = n, .nslots = nslots, .nvars = nvars};
    bl_status st = fill_recording(r, launches, err);
    if (st != BL_OK) {
        bl_vk_recording_free(&r->base);
        return st;
    }
    *out = &r->base;
    return BL_OK;
}

void bl_vk_recording_free(bl_recording *base)
{
    bl_vk_recording *r = (bl_vk_recording *)base;
    for (uint32_t i = 0; i < BL_VK_VARIANTS; i++) {
        bl_vk_variant *v = &r->variants[i];
        bl_status done = bl_vk_queue_wait(r->ctx, &r->ctx->compute, v->ticket, NULL);
        (void)done; /* a lost device runs nothing */
        forget_times(r->ctx, v);
        destroy_variant(r->ctx, v);
    }
    r->ctx->vk.DestroyCommandPool(r->ctx->handle, r->pool, NULL);
    bl_vk_context_release(r->ctx);
    free(r->launches);
    free(r->slots);
    free(r->spans);
    free(r);
}
