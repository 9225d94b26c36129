/* Device memory kept for the next user: buffers by size class, most recently used first.
 * A pooled buffer's contents are undefined; whoever takes one writes all of it before anything can read it.  Thread: any. */
#ifndef BL_DEVICE_POOL_H
#define BL_DEVICE_POOL_H

#include "engine/device/device.h"

typedef struct bl_pool bl_pool;

/* Keeps at most |max_idle| bytes that nobody uses. */
bl_pool *bl_pool_create(bl_device *dev, size_t max_idle);
void bl_pool_destroy(bl_pool *pool);
/* A buffer of at least |bytes| with one reference; after its last bl_pool_release it returns here.  Out of memory
 * empties the pool and tries again, for as long as somebody makes room, before it is BL_ENODEVMEM. */
BL_NODISCARD bl_status bl_pool_alloc(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
/* The same without the rounding to a size class: for what stays there for long.  Its release mostly frees it. */
BL_NODISCARD bl_status bl_pool_alloc_exact(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_release(bl_pool *pool, bl_buffer *buffer);
/* Called, without a lock, where the device has no |bytes| even with the pool empty: true where it freed some of its memory, upon
 * which the pool tries again.  Before any thread allocates, or after all; NULL: nobody can. */
void bl_pool_set_room(bl_pool *pool, bool (*make_room)(void *arg, size_t bytes), void *arg);
/* Memory for intermediate results, shared by all plans of the device since its worker thread runs one at a time: at least
 * |bytes|, one reference for the caller.  The same buffer as last time unless it had to grow.  Only on the device's worker
 * thread. */
BL_NODISCARD bl_status bl_pool_scratch(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_trim(bl_pool *pool); /* free all idle buffers */

/* What can be made again, and is kept only while nobody else wants its memory.  Zeroed is none.  The device's worker thread, but
 * for bl_pool_spare_release. */
typedef struct bl_spare {
    struct bl_spare *before, *next; /* the pool's, under its lock */
    bl_pool *pool;
    bl_buffer *buffer;    /* under the lock; NULL: it was not given, or was dropped, which only the worker's thread does */
    atomic_size_t *total; /* its owner's, which has the bytes of all that are there */
    size_t bytes;
    uint64_t used; /* worker's thread */
} bl_spare;

/* From memory that is free: nothing is freed for it.  False where there is none; else |bytes| are added to *total. */
bool bl_pool_spare_alloc(bl_pool *pool, size_t bytes, atomic_size_t *total, bl_spare *spare);
void bl_pool_spare_use(bl_spare *spare); /* it is the one that was used last */
/* What was submitted does not use it any more.  Any thread that owns the spare; accepts one that is none. */
void bl_pool_spare_release(bl_spare *spare);
/* Free spares until |bytes| of them are free, those used longest ago first, and what was submitted is waited for before: how many
 * bytes that were. */
size_t bl_pool_drop_spares(bl_pool *pool, size_t bytes);
size_t bl_pool_spare_bytes(bl_pool *pool); /* of all spares; any thread */

size_t bl_pool_idle_bytes(bl_pool *pool);

#endif
