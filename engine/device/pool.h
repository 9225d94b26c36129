/* A pool of device memory: freed buffers are kept by size class and reused, most recently used first. The contents of a new
 * buffer are undefined; its owner must write all of it before any read. Thread: any. */
#ifndef BL_DEVICE_POOL_H
#define BL_DEVICE_POOL_H

#include "engine/device/device.h"

typedef struct bl_pool bl_pool;

/* The pool keeps at most |max_idle| bytes of unused buffers. */
bl_pool *bl_pool_create(bl_device *dev, size_t max_idle);
void bl_pool_destroy(bl_pool *pool);
/* A buffer of at least |bytes| with one reference; after the last bl_pool_release the pool keeps the buffer for reuse. If
 * the device is out of memory, the pool frees its unused buffers and tries again, then repeats while make_room frees memory.
 * Otherwise the call fails with BL_ENODEVMEM. */
BL_NODISCARD bl_status bl_pool_alloc(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
/* bl_pool_alloc without rounding up to a size class, for long-lived buffers. A release usually frees the buffer. */
BL_NODISCARD bl_status bl_pool_alloc_exact(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_release(bl_pool *pool, bl_buffer *buffer);
/* Set the function that frees device memory when the pool cannot. The pool calls it without a lock. The function returns
 * true if it freed memory; the pool then tries again. Set the function before any thread allocates, or after all threads
 * have finished. NULL: none. */
void bl_pool_set_room(bl_pool *pool, bool (*make_room)(void *arg, size_t bytes), void *arg);
/* Scratch memory for intermediate results, at least |bytes|, with one reference for the caller. All plans of the device share
 * one buffer, since its worker thread runs one plan at a time. Returns the same buffer as the last call unless the buffer had
 * to grow. Worker thread only. */
BL_NODISCARD bl_status bl_pool_scratch(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_trim(bl_pool *pool); /* Free all unused buffers. */

/* A buffer with contents that can be recomputed. The pool drops the buffer when its memory is needed elsewhere.
 * Zero-initialised: no buffer. Thread: worker only, except bl_pool_spare_release. */
typedef struct bl_spare {
    struct bl_spare *before, *next; /* links of the pool's list, under the pool's lock */
    bl_pool *pool;
    bl_buffer *buffer;    /* under the pool's lock; NULL: not allocated, or dropped; only the worker thread drops a buffer */
    atomic_size_t *total; /* the owner's counter of the bytes of all its spare buffers */
    size_t bytes;
    uint64_t used; /* pool clock at the last use; worker thread only */
} bl_spare;

/* Allocate from free device memory; nothing is freed to make room. On success *total grows by |bytes|. False if there is no
 * memory. */
bool bl_pool_spare_alloc(bl_pool *pool, size_t bytes, atomic_size_t *total, bl_spare *spare);
void bl_pool_spare_use(bl_spare *spare); /* Mark the spare as most recently used. */
/* Free the buffer. No submitted work may use the buffer. Thread: any thread that owns the spare. Accepts a spare without a
 * buffer. */
void bl_pool_spare_release(bl_spare *spare);
/* Wait for submitted work, then drop spares, least recently used first, until |bytes| are freed. Returns the number of bytes
 * freed. */
size_t bl_pool_drop_spares(bl_pool *pool, size_t bytes);
size_t bl_pool_spare_bytes(bl_pool *pool); /* Bytes of all spares. Thread: any. */

size_t bl_pool_idle_bytes(bl_pool *pool);

#endif
