/* SPDX-License-Identifier: MIT */
/* Private declarations of the Vulkan back end.  The engine holds a bl_vk_device. A bl_vk_context is one lifetime of the
 * VkDevice. Reopening makes a new context. The old context ends with its last buffer, kernel and recording. */
#ifndef BL_VULKAN_VK_INTERNAL_H
#define BL_VULKAN_VK_INTERNAL_H

#include "engine/device/device.h"
#include "vulkan/vk_choose.h"
#include "vulkan/vk_loader.h"

#include <pthread.h>

enum {
    BL_VK_SLAB_CLASSES = 11, /* slot sizes of slabs: 256 bytes to 256 KiB by powers of two */
    BL_VK_STAGING_BYTES = 4 << 20,
    BL_VK_STAGING_PARTS = 2, /* double buffering: the host fills one part while the device empties the other part */
};

/* A VkBuffer and its memory. */
typedef struct bl_vk_storage {
    VkBuffer handle;
    VkDeviceMemory memory;
    void *host;      /* address of the mapped memory; NULL: not mapped */
    uint64_t serial; /* unique number, since a handle can be reused */
} bl_vk_storage;

typedef struct bl_vk_slab bl_vk_slab;
typedef struct bl_vk_variant bl_vk_variant;
typedef struct bl_vk_device bl_vk_device;

/* A queue, with a semaphore that counts its completed submissions. */
typedef struct bl_vk_queue {
    VkQueue handle;
    uint32_t family;
    VkSemaphore timeline;    /* semaphore whose value is the last completed ticket */
    atomic_ullong submitted; /* last ticket issued; only the worker thread writes it */
    atomic_ullong completed; /* latest ticket that is known to be complete */
    uint64_t waited;         /* last ticket of the other queue that this queue waits for */
} bl_vk_queue;

/* Staging memory for copies to and from memory that the host cannot access. */
typedef struct bl_vk_staging {
    bl_vk_storage storage;
    VkCommandPool pool;
    VkCommandBuffer commands[BL_VK_STAGING_PARTS];
    uint64_t tickets[BL_VK_STAGING_PARTS];
} bl_vk_staging;

typedef struct bl_vk_context {
    atomic_int refs;
    bl_vk_instance *instance;
    bl_vk_device *dev;
    VkDevice handle;
    bl_vk_device_calls vk;
    bl_vk_queue compute, transfer; /* |transfer| is a queue for copies only, if the device has such a queue */
    bl_vk_queue *copies;           /* the queue that does the copies: |compute| or |transfer| */
    uint32_t timestamp_bits;
    double ns_per_tick;
    uint32_t max_binding; /* largest range of a binding in bytes */
    bl_vk_places places;
    VkDescriptorSetLayout set_layouts[BL_MAX_BINDINGS + 1]; /* layouts for 0 to bl_vk_most_bindings buffers */
    VkPipelineLayout layouts[BL_MAX_BINDINGS + 1];
    VkPipelineCache pipeline_cache;
    atomic_uint pipelines; /* number of pipelines created since the start */
    atomic_ullong serials;
    /* number of memory allocations: at most maxMemoryAllocationCount, a limit that drivers need not check */
    atomic_uint allocations;
    pthread_mutex_t memory_lock;
    bl_vk_slab *slabs[BL_VK_SLAB_CLASSES]; /* slabs by class; guarded by memory_lock */
    bl_vk_staging staging;                 /* used on the worker thread only */
    pthread_mutex_t timed_lock;
    bl_vk_variant *timed; /* submissions whose times have not been read; guarded by timed_lock */
} bl_vk_context;

struct bl_vk_device {
    bl_device base; /* must be first: bl_device * converts to bl_vk_device * */
    VkPhysicalDevice physical;
    bl_vk_facts facts;
    bl_vk_instance *instance;
    pthread_mutex_t lock; /* guards |context|; never taken while another lock is held */
    bl_vk_context *context;
    bool staged, parted; /* test switches: see create_device */
};

typedef struct bl_vk_buffer {
    bl_buffer base;
    bl_vk_context *ctx;
    bl_vk_storage storage; /* the storage that contains the buffer; owned only if |owner| */
    uint64_t at;           /* offset of the buffer in the storage */
    bl_vk_slab *slab;      /* the slab of a small buffer; else NULL */
    uint32_t slot;
    bool owner;
    uint64_t own, own_copied; /* the tickets to which |used| and |copied| of an owner point */
    uint64_t *used;           /* last ticket of the compute queue that uses the memory; worker thread */
    /* last ticket of the copy queue that uses the memory.  A write returns before its copy is complete, so freeing waits for
     * this ticket */
    uint64_t *copied;
} bl_vk_buffer;

typedef struct bl_vk_kernel {
    bl_kernel base;
    bl_vk_context *ctx;
    VkPipeline pipeline;
    uint32_t writes;
} bl_vk_kernel;

/* vk_device.c */
bl_vk_context *bl_vk_context_get(bl_device *dev); /* returns the current context with a new reference */
bl_vk_context *bl_vk_context_retain(bl_vk_context *ctx);
void bl_vk_context_release(bl_vk_context *ctx);
/* Returns BL_OK unless |result| is a failure.  Marks a lost device as lost. */
BL_NODISCARD bl_status bl_vk_check(bl_vk_context *ctx, VkResult result, const char *what, bl_err *err);
/* The instance; tests read its message count. */
bl_vk_instance *bl_vk_instance_of(bl_device *dev);

/* vk_memory.c */
BL_NODISCARD bl_status bl_vk_memory_init(bl_vk_context *ctx, VkPhysicalDeviceType type, bool staged, bl_err *err);
void bl_vk_memory_fini(bl_vk_context *ctx);
BL_NODISCARD bl_status bl_vk_storage_create(bl_vk_context *ctx, uint64_t bytes, uint32_t memory_type, bool map,
                                            bl_vk_storage *out, bl_err *err);
void bl_vk_storage_destroy(bl_vk_context *ctx, bl_vk_storage *storage);
bl_status bl_vk_buffer_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err);
bl_status bl_vk_buffer_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err);
void bl_vk_buffer_dealloc(bl_buffer *buffer);

/* vk_copy.c */
void bl_vk_staging_fini(bl_vk_context *ctx);
bl_status bl_vk_buffer_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err);
bl_status bl_vk_buffer_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err);
bl_status bl_vk_buffer_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err);

/* vk_pipeline.c */
BL_NODISCARD bl_status bl_vk_pipelines_init(bl_vk_context *ctx, bl_err *err);
void bl_vk_pipelines_fini(bl_vk_context *ctx);
bl_status bl_vk_kernel_make(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err);
void bl_vk_kernel_free(bl_kernel *kernel);

/* vk_queue.c.  Thread: the worker's, except for bl_vk_queue_wait on one ticket */
BL_NODISCARD bl_status bl_vk_commands_create(bl_vk_context *ctx, const bl_vk_queue *queue, uint32_t n, VkCommandPool *pool,
                                             VkCommandBuffer *out, bl_err *err); /* makes a new pool if *pool is null */
void bl_vk_barrier(bl_vk_context *ctx, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote,
                   VkPipelineStageFlags to, VkAccessFlags touches);
/* Submits |commands| after all earlier submissions of |queue| and after the other queue's ticket |after|. */
BL_NODISCARD bl_status bl_vk_queue_submit(bl_vk_context *ctx, bl_vk_queue *queue, VkCommandBuffer commands, uint64_t after,
                                          uint64_t *ticket, bl_err *err);
BL_NODISCARD bl_status bl_vk_queue_wait(bl_vk_context *ctx, bl_vk_queue *queue, uint64_t ticket, bl_err *err);
BL_NODISCARD bl_status bl_vk_queue_wait_all(bl_vk_context *ctx, bl_err *err); /* waits for both queues */
bl_status bl_vk_wait(bl_device *dev, bl_err *err);

/* vk_record.c */
bl_status bl_vk_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars, bl_recording **out,
                       bl_err *err);
void bl_vk_recording_free(bl_recording *recording);
bl_status bl_vk_submit(bl_recording *recording, const bl_submission *submission, bl_err *err);
/* Reads the times of every finished submission that requested them. */
BL_NODISCARD bl_status bl_vk_read_times(bl_vk_context *ctx, bl_err *err);

#endif
