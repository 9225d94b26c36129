/* SPDX-License-Identifier: MIT */
/* A recording and its variants: the same launches with other buffers, numbers or groups.  Each variant is a command buffer
 * that is recorded once and replayed.  Private to vk_record.c and vk_encode.c.  Thread: the worker's, except for freeing. */
#ifndef BL_VULKAN_VK_RECORD_H
#define BL_VULKAN_VK_RECORD_H

#include "vulkan/vk_internal.h"

enum {
    /* a training step has two variants, since the buffers of its states alternate; reports have eight sets of outputs */
    BL_VK_VARIANTS = 16,
    /* largest number of spans between two barriers; beyond the limit a barrier is cheaper than the search for conflicts */
    BL_VK_MAX_SPANS = 256,
};

/* The binding of a slot. */
typedef struct bl_vk_bound {
    VkBuffer handle;
    uint64_t serial, begin, end;
} bl_vk_bound;

/* Memory that was accessed since the last barrier. */
typedef struct bl_vk_span {
    uint64_t serial, begin, end;
    bool written;
} bl_vk_span;

struct bl_vk_variant {
    bl_vk_variant *next_timed;
    bool valid; /* the commands are complete */
    bool timed;
    VkCommandBuffer commands;
    VkDescriptorPool pool;
    VkDescriptorSet *sets; /* one set per launch */
    VkQueryPool queries;   /* two queries per launch; created when times are first requested */
    uint64_t *ticks;
    uint32_t nlaunches;
    bl_vk_bound *slots; /* the slots, vars and groups with which the commands were recorded */
    int32_t *vars;
    uint32_t (*groups)[3];
    uint64_t ticket;       /* ticket of the last submission */
    uint64_t used;         /* time of last use on the recording's clock */
    uint64_t *nanoseconds; /* where to write the times of the submission; NULL: no times requested */
};

typedef struct bl_vk_recording {
    bl_recording base;
    bl_vk_context *ctx;
    bl_launch *launches;
    uint32_t nbindings; /* number of bindings of all launches */
    VkCommandPool pool;
    uint64_t clock;
    bl_vk_bound *slots; /* bindings of the slots of the current submission */
    bl_vk_span *spans;  /* scratch memory of the encoder */
    uint32_t nspans;
    bl_vk_variant variants[BL_VK_VARIANTS];
} bl_vk_recording;

/* Records the commands of |v| for its bindings. All objects that |v| needs must exist. */
BL_NODISCARD bl_status bl_vk_encode(bl_vk_recording *recording, bl_vk_variant *v, bl_err *err);

#endif
