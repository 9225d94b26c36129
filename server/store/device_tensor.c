/* SPDX-License-Identifier: MIT */
#include "server/store/device_tensor.h"

#include "proto/tensor.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_device_tensor_wrap(bl_worker *worker, bl_buffer *buffer, bl_dtype dtype, int ndim, const int64_t *dim,
                                bl_device_tensor **out, bl_err *err)
{
    bl_device_tensor *held = calloc(1, sizeof *held);
    *out = NULL;
    if (held == NULL) {
        bl_pool_release(worker->pool, buffer);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a tensor");
    }
    atomic_init(&held->refs, 1);
    held->worker = worker;
    held->buffer = buffer;
    held->mapped = buffer->host;
    atomic_init(&held->generation, buffer->generation);
    held->dtype = dtype;
    held->ndim = ndim;
    held->bytes = bl_dtype_bytes(dtype);
    for (int i = 0; i < ndim; i++) {
        held->dim[i] = dim[i];
        held->bytes *= (size_t)dim[i];
    }
    *out = held;
    return BL_OK;
}

static bl_status device_tensor_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bool stays,
                                      bl_device_tensor **out, bl_err *err)
{
    bl_buffer *buffer = NULL;
    size_t count = 0, bytes = 0;
    *out = NULL;
    BL_TRY(bl_tensor_measure("tensor", dtype, ndim, dim, &worker->server->limits, &count, &bytes, err));
    BL_TRY((stays ? bl_pool_alloc_exact : bl_pool_alloc)(worker->pool, bytes, &buffer, err));
    return bl_device_tensor_wrap(worker, buffer, dtype, ndim, dim, out, err);
}

bl_status bl_device_tensor_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_device_tensor **out,
                                  bl_err *err)
{
    return device_tensor_create(worker, dtype, ndim, dim, false, out, err);
}

bl_status bl_device_tensor_create_exact(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_device_tensor **out,
                                        bl_err *err)
{
    return device_tensor_create(worker, dtype, ndim, dim, true, out, err);
}

bl_device_tensor *bl_device_tensor_retain(bl_device_tensor *held)
{
    atomic_fetch_add(&held->refs, 1);
    return held;
}

static void free_scratch(bl_device_tensor *held)
{
    if (held->scratch == NULL)
        return;
    free(held->scratch);
    held->scratch = NULL;
    bl_budget_give(&held->worker->server->memory, held->bytes);
}

void bl_device_tensor_release(bl_device_tensor *held)
{
    if (held == NULL || atomic_fetch_sub(&held->refs, 1) != 1)
        return;
    bl_evictable_remove(&held->evictable);
    bl_pool_release(held->worker->pool, held->buffer);
    bl_evictable_free_copy(held->worker, held->away, held->bytes);
    free_scratch(held);
    free(held);
}

void bl_device_tensor_release_any(void *held)
{
    bl_device_tensor_release(held);
}

char *bl_device_tensor_host(bl_device_tensor *held)
{
    bl_budget *budget = &held->worker->server->memory;
    if (held->mapped != NULL)
        return held->mapped;
    if (held->scratch != NULL)
        return held->scratch;
    if (bl_budget_take(budget, held->bytes, BL_ENOMEM, "a tensor", NULL) != BL_OK)
        return NULL;
    held->scratch = malloc(held->bytes > 0 ? held->bytes : 1);
    if (held->scratch == NULL)
        bl_budget_give(budget, held->bytes);
    return held->scratch;
}

bl_status bl_device_tensor_flush(bl_device_tensor *held, bl_err *err)
{
    if (held->scratch == NULL)
        return BL_OK;
    BL_TRY(bl_buffer_write(held->buffer, 0, held->scratch, held->bytes, err));
    free_scratch(held);
    return BL_OK;
}

void bl_device_tensor_empty(bl_device_tensor *held)
{
    if (atomic_load(&held->refs) != 1 || held->evictable.kind != NULL)
        return;
    bl_pool_release(held->worker->pool, held->buffer);
    held->buffer = NULL;
    held->mapped = NULL;
}

/* ---- eviction to the host */

static bl_device_tensor *device_tensor_held_of(bl_evictable *evictable)
{
    return (bl_device_tensor *)evictable;
}

static bool device_tensor_retain_living(bl_evictable *evictable)
{
    return bl_evictable_retain_living(&device_tensor_held_of(evictable)->refs);
}

static void device_tensor_release(bl_evictable *evictable)
{
    bl_device_tensor_release(device_tensor_held_of(evictable));
}

/* A user of the tensor holds a reference to its buffer: a run, or a program that has the tensor by reference.  A lost tensor
 * cannot be copied. */
static bool device_tensor_may_leave(bl_evictable *evictable)
{
    const bl_device_tensor *held = device_tensor_held_of(evictable);
    return held->buffer != NULL && held->scratch == NULL && !bl_device_tensor_lost(held) && atomic_load(&held->buffer->refs) == 1;
}

static bl_status device_tensor_leave(bl_evictable *evictable, size_t *bytes, bl_err *err)
{
    bl_device_tensor *held = device_tensor_held_of(evictable);
    *bytes = 0;
    BL_TRY(bl_evictable_copy(held->worker, held->buffer, held->bytes, &held->away, err));
    bl_buffer_release(held->buffer);
    held->buffer = NULL;
    atomic_store(&held->moved, true);
    *bytes = held->bytes;
    return BL_OK;
}

void bl_device_tensor_settle(bl_device_tensor *held)
{
    static const bl_evictable_kind kind = {.name = "a tensor",
                                           .left = BL_COUNT_TENSORS_OUT,
                                           .back = BL_COUNT_TENSORS_IN,
                                           .retain = device_tensor_retain_living,
                                           .release = device_tensor_release,
                                           .may_leave = device_tensor_may_leave,
                                           .leave = device_tensor_leave};
    if (held->evictable.kind == NULL && held->mapped == NULL && held->bytes > 0)
        bl_evictable_add(&held->evictable, &kind, held->worker);
}

bl_status bl_device_tensor_wake(bl_device_tensor *held, bl_buffer **out, bl_err *err)
{
    *out = NULL;
    if (held->buffer == NULL) {
        BL_TRY(bl_evictable_bring(held->worker, held->away, held->bytes, &held->buffer, err));
        atomic_store(&held->generation, held->buffer->generation);
        atomic_store(&held->moved, false);
        bl_evictable_free_copy(held->worker, held->away, held->bytes);
        held->away = NULL;
        bl_evictable_back(&held->evictable);
    } else if (held->evictable.kind != NULL) {
        bl_evictable_use(&held->evictable);
    }
    *out = bl_buffer_retain(held->buffer);
    return BL_OK;
}

const char *bl_device_tensor_mapped(const bl_device_tensor *held)
{
    return held->mapped;
}

bl_status bl_device_tensor_read(bl_device_tensor *held, void *to, bl_err *err)
{
    const char *host = held->mapped != NULL ? held->mapped : held->away;
    if (host == NULL)
        return bl_buffer_read(held->buffer, 0, to, held->bytes, err);
    memcpy(to, host, held->bytes);
    return BL_OK;
}

bool bl_device_tensor_lost(const bl_device_tensor *held)
{
    const bl_device *dev = held->worker->dev;
    if (atomic_load(&held->moved)) /* the contents are in host memory */
        return false;
    return atomic_load(&dev->lost) || atomic_load(&held->generation) != atomic_load(&dev->generation);
}
