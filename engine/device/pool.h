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
 * empties the pool and tries once more before it is BL_ENODEVMEM. */
BL_NODISCARD bl_status bl_pool_alloc(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_release(bl_pool *pool, bl_buffer *buffer);
/* Called, without a lock, where the device has no |bytes| even with the pool empty: true where it freed some of its memory, upon
 * which the pool tries once more.  Before any thread allocates, or after all; NULL: nobody can. */
void bl_pool_set_room(bl_pool *pool, bool (*make_room)(void *arg, size_t bytes), void *arg);
/* Memory for intermediate results, shared by all plans of the device since its worker thread runs one at a time: at least
 * |bytes|, one reference for the caller.  The same buffer as last time unless it had to grow.  Only on the device's worker
 * thread. */
BL_NODISCARD bl_status bl_pool_scratch(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err);
void bl_pool_trim(bl_pool *pool); /* free all idle buffers */
size_t bl_pool_idle_bytes(bl_pool *pool);

#endif
