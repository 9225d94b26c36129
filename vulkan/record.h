/* SPDX-License-Identifier: MIT */
/* A recording and its variants: the same launches with other buffers, numbers or groups, each a command buffer that is recorded
 * once and replayed.  Inside record.c and encode.c.  Thread: the worker's, but for the freeing. */
#ifndef BL_VULKAN_RECORD_H
#define BL_VULKAN_RECORD_H

#include "vulkan/internal.h"

enum {
    BL_VK_VARIANTS = 16,   /* a step of training has two: its state's buffers change places; reports have eight sets of outputs */
    BL_VK_MAX_SPANS = 256, /* between two barriers; past that a barrier is cheaper than the search for its need */
};

/* What a slot is bound to. */
typedef struct bl_vk_bound {
    VkBuffer handle;
    uint64_t serial, begin, end;
} bl_vk_bound;

/* Memory that was touched since the last barrier. */
typedef struct bl_vk_span {
    uint64_t serial, begin, end;
    bool written;
} bl_vk_span;

struct bl_vk_variant {
    bl_vk_variant *next_timed;
    bool valid; /* the commands are whole */
    bool timed;
    VkCommandBuffer commands;
    VkDescriptorPool pool;
    VkDescriptorSet *sets; /* one a launch */
    VkQueryPool queries;   /* two a launch; made when times are first asked for */
    uint64_t *ticks;
    uint32_t nlaunches;
    bl_vk_bound *slots; /* the rest is what it was recorded with */
    int32_t *vars;
    uint32_t (*groups)[3];
    uint64_t ticket;       /* of its last submission */
    uint64_t used;         /* on the recording's clock */
    uint64_t *nanoseconds; /* where the times of a submission go; NULL: none are due */
};

typedef struct bl_vk_recording {
    bl_recording base;
    bl_vk_context *ctx;
    bl_launch *launches;
    uint32_t nbindings; /* of all launches together */
    VkCommandPool pool;
    uint64_t clock;
    bl_vk_bound *slots; /* of the submission at hand */
    bl_vk_span *spans;  /* scratch of encoding */
    uint32_t nspans;
    bl_vk_variant variants[BL_VK_VARIANTS];
} bl_vk_recording;

/* Make |v|'s commands, for what it is bound to; all that it needs exists. */
BL_NODISCARD bl_status bl_vk_encode(bl_vk_recording *recording, bl_vk_variant *v, bl_err *err);

#endif
