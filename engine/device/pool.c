/* SPDX-License-Identifier: MIT */
#include "engine/device/pool.h"

#include "engine/base/fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST = 4096,   /* a page: drivers round sizes up to a page anyway */
    MAX_IDLE = 1024,   /* largest number of unused buffers; a plan has tens of buffers */
    SCRATCH_GROWTH = 8 /* scratch memory grows by at least 1/8, so that many different sizes cause few reallocations */
};

struct bl_pool {
    bl_device *dev;
    size_t max_idle;
    pthread_mutex_t lock;      /* protects the fields below; no device function is called under the lock */
    bl_buffer *idle[MAX_IDLE]; /* unused buffers; the most recently released buffer is last */
    size_t count, bytes;
    bl_spare *spares; /* list of spares, unordered */
    uint64_t uses;    /* clock of spare uses; worker thread only, like |scratch| */
    bl_buffer *scratch;
    bool (*make_room)(void *arg, size_t bytes);
    void *room_arg;
};

bl_pool *bl_pool_create(bl_device *dev, size_t max_idle)
{
    bl_pool *pool = bl_calloc(1, sizeof *pool);

    if (pool == NULL)
        return NULL;
    pool->dev = dev;
    pool->max_idle = max_idle;
    pthread_mutex_init(&pool->lock, NULL); /* cannot fail without attributes */
    return pool;
}

void bl_pool_destroy(bl_pool *pool)
{
    if (pool == NULL)
        return;
    for (bl_spare *spare = pool->spares; spare != NULL; spare = spare->next)
        spare->pool = NULL; /* the owner of the spare releases it after the pool is destroyed */
    bl_buffer_release(pool->scratch);
    bl_pool_trim(pool);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Size classes 4096, 6144, 8192, 12288, ...: at most a third of a buffer is wasted. Above half of the device's largest
 * buffer there are two classes: three quarters of the largest buffer, and the largest buffer. */
static size_t class_bytes(const bl_pool *pool, size_t bytes)
{
    size_t largest = (size_t)pool->dev->info.max_alloc;
    size_t size = SMALLEST;

    if (bytes > largest / 2 && bytes > SMALLEST)
        return bytes <= largest / 4 * 3 ? largest / 4 * 3 : largest;
    while (size < bytes) {
        if (bytes <= size + size / 2)
            return size + size / 2;
        size *= 2;
    }
    return size;
}

/* Under the lock: remove idle buffer |at|. */
static bl_buffer *pool_take(bl_pool *pool, size_t at)
{
    bl_buffer *buffer = pool->idle[at];

    pool->count--;
    pool->bytes -= buffer->bytes;
    memmove(&pool->idle[at], &pool->idle[at + 1], (pool->count - at) * sizeof pool->idle[0]);
    return buffer;
}

/* Take the most recently used buffer of |size| bytes, since its memory is the most likely to be cached. */
static bl_buffer *take_size(bl_pool *pool, size_t size)
{
    bl_buffer *found = NULL;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = pool->count; i-- > 0 && found == NULL;) {
        if (pool->idle[i]->bytes == size)
            found = pool_take(pool, i);
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

/* Take the least recently used buffer if the idle buffers exceed |max_bytes| or |max_count|; else NULL. */
static bl_buffer *take_surplus(bl_pool *pool, size_t max_bytes, size_t max_count)
{
    bl_buffer *oldest = NULL;

    pthread_mutex_lock(&pool->lock);
    if (pool->count > max_count || pool->bytes > max_bytes)
        oldest = pool_take(pool, 0);
    pthread_mutex_unlock(&pool->lock);
    return oldest;
}

static bool pool_is_current(const bl_pool *pool, const bl_buffer *buffer)
{
    return !atomic_load(&pool->dev->lost) && buffer->generation == atomic_load(&pool->dev->generation);
}

/* Allocate from the idle buffers or from the device's free memory. |exact|: without rounding up. */
static bl_status alloc_free(bl_pool *pool, size_t bytes, bool exact, bl_buffer **out, bl_err *err)
{
    size_t size = class_bytes(pool, bytes);
    bl_buffer *found;

    if (exact && size != bytes)
        return bl_buffer_alloc(pool->dev, bytes, out, err);
    while ((found = take_size(pool, size)) != NULL) {
        if (pool_is_current(pool, found)) {
            bl_buffer_change(found);
            *out = found;
            return BL_OK;
        }
        bl_buffer_release(found); /* the buffer was made before the device was lost */
    }
    return bl_buffer_alloc(pool->dev, size, out, err);
}

static bl_status pool_alloc(bl_pool *pool, size_t bytes, bool exact, bl_buffer **out, bl_err *err)
{
    bl_err last = {0};
    bl_status st;

    *out = NULL;
    if (bytes > pool->dev->info.max_alloc || bytes > pool->dev->info.memory)
        /* too large for the device: the allocation fails, and freed buffers would not help */
        return bl_buffer_alloc(pool->dev, bytes, out, err);
    st = alloc_free(pool, bytes, exact, out, &last);
    if (st == BL_ENODEVMEM) {
        do {
            bl_pool_trim(pool);
            last = (bl_err){0};
            st = bl_buffer_alloc(pool->dev, bytes, out, &last); /* memory is short: allocate the exact size */
        } while (st == BL_ENODEVMEM && pool->make_room != NULL &&
                 pool->make_room(pool->room_arg, bytes)); /* another thread may take the freed memory, so the loop repeats */
    }
    if (st != BL_OK && err != NULL && err->status == BL_OK)
        *err = last;
    return st;
}

bl_status bl_pool_alloc(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err)
{
    return pool_alloc(pool, bytes, false, out, err);
}

bl_status bl_pool_alloc_exact(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err)
{
    return pool_alloc(pool, bytes, true, out, err);
}

void bl_pool_set_room(bl_pool *pool, bool (*make_room)(void *arg, size_t bytes), void *arg)
{
    pool->make_room = make_room;
    pool->room_arg = arg;
}

bl_status bl_pool_scratch(bl_pool *pool, size_t bytes, bl_buffer **out, bl_err *err)
{
    size_t least = pool->scratch != NULL ? pool->scratch->bytes : 0;
    *out = NULL;
    if (pool->scratch == NULL || least < bytes || !pool_is_current(pool, pool->scratch)) {
        bl_buffer_release(pool->scratch);
        pool->scratch = NULL;
        least += least / SCRATCH_GROWTH;
        if (least > bytes && bl_pool_alloc_exact(pool, least, &pool->scratch, NULL) != BL_OK)
            pool->scratch = NULL;
        if (pool->scratch == NULL)
            BL_TRY(bl_pool_alloc_exact(pool, bytes, &pool->scratch, err));
    }
    *out = bl_buffer_retain(pool->scratch);
    return BL_OK;
}

void bl_pool_release(bl_pool *pool, bl_buffer *buffer)
{
    bl_buffer *surplus = NULL;

    if (buffer == NULL || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1)
        return;
    atomic_store(&buffer->refs, 1); /* the pool holds the last reference now */
    if (!pool_is_current(pool, buffer) || buffer->bytes != class_bytes(pool, buffer->bytes)) {
        bl_buffer_release(buffer); /* not reusable: the buffer is lost, or has an odd size because memory was short */
        return;
    }
    pthread_mutex_lock(&pool->lock);
    if (pool->count == MAX_IDLE)
        surplus = pool_take(pool, 0);
    pool->idle[pool->count++] = buffer;
    pool->bytes += buffer->bytes;
    pthread_mutex_unlock(&pool->lock);
    do
        bl_buffer_release(surplus);
    while ((surplus = take_surplus(pool, pool->max_idle, MAX_IDLE)) != NULL);
}

void bl_pool_trim(bl_pool *pool)
{
    bl_buffer *idle;

    while ((idle = take_surplus(pool, 0, 0)) != NULL)
        bl_buffer_release(idle);
}

bool bl_pool_spare_alloc(bl_pool *pool, size_t bytes, atomic_size_t *total, bl_spare *spare)
{
    bl_err err = {0};
    bl_status st;

    *spare = (bl_spare){.pool = pool, .total = total, .bytes = bytes, .used = ++pool->uses};
    st = alloc_free(pool, bytes, false, &spare->buffer, &err);
    if (st == BL_ENODEVMEM) {
        bl_pool_trim(pool);
        err = (bl_err){0};
        st = bl_buffer_alloc(pool->dev, bytes, &spare->buffer, &err);
    }
    if (st != BL_OK)
        return false;
    atomic_fetch_add(total, bytes);
    pthread_mutex_lock(&pool->lock);
    spare->next = pool->spares;
    if (spare->next != NULL)
        spare->next->before = spare;
    pool->spares = spare;
    pthread_mutex_unlock(&pool->lock);
    return true;
}

void bl_pool_spare_use(bl_spare *spare)
{
    spare->used = ++spare->pool->uses;
}

/* Under the lock: take the buffer from |spare|. */
static bl_buffer *take_spare(bl_pool *pool, bl_spare *spare)
{
    bl_buffer *buffer = spare->buffer;

    if (spare->next != NULL)
        spare->next->before = spare->before;
    if (spare->before != NULL)
        spare->before->next = spare->next;
    else
        pool->spares = spare->next;
    spare->before = spare->next = NULL;
    spare->buffer = NULL;
    atomic_fetch_sub(spare->total, spare->bytes);
    return buffer;
}

void bl_pool_spare_release(bl_spare *spare)
{
    bl_pool *pool = spare->pool;
    bl_buffer *buffer = NULL;

    if (pool == NULL) { /* the pool was destroyed earlier, or the spare is empty */
        bl_buffer_release(spare->buffer);
        spare->buffer = NULL;
        return;
    }
    pthread_mutex_lock(&pool->lock);
    if (spare->buffer != NULL)
        buffer = take_spare(pool, spare);
    pthread_mutex_unlock(&pool->lock);
    bl_pool_release(pool, buffer);
}

static bl_buffer *take_oldest_spare(bl_pool *pool)
{
    bl_spare *oldest;
    bl_buffer *buffer = NULL;

    pthread_mutex_lock(&pool->lock);
    oldest = pool->spares;
    for (bl_spare *at = oldest; at != NULL; at = at->next)
        oldest = at->used < oldest->used ? at : oldest;
    if (oldest != NULL)
        buffer = take_spare(pool, oldest);
    pthread_mutex_unlock(&pool->lock);
    return buffer;
}

size_t bl_pool_spare_bytes(bl_pool *pool)
{
    size_t bytes = 0;

    pthread_mutex_lock(&pool->lock);
    for (const bl_spare *spare = pool->spares; spare != NULL; spare = spare->next)
        bytes += spare->buffer->bytes;
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

size_t bl_pool_drop_spares(bl_pool *pool, size_t bytes)
{
    bl_err ignored = {0};
    bl_status waited = bl_pool_spare_bytes(pool) > 0 ? bl_device_wait(pool->dev, &ignored) : BL_OK;
    bl_buffer *buffer = NULL;
    size_t freed = 0;

    (void)waited; /* a lost device fails the work in flight and reads no buffer any more */
    while (freed < bytes && (buffer = take_oldest_spare(pool)) != NULL) {
        freed += buffer->bytes;
        bl_buffer_release(buffer);
    }
    return freed;
}

size_t bl_pool_idle_bytes(bl_pool *pool)
{
    size_t bytes;

    pthread_mutex_lock(&pool->lock);
    bytes = pool->bytes;
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}
