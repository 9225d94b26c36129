/* SPDX-License-Identifier: MIT */
#include "server/held.h"

#include "proto/tensor.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_held_wrap(bl_worker *worker, bl_buffer *buffer, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
                       bl_err *err)
{
    bl_held *held = calloc(1, sizeof *held);
    *out = NULL;
    if (held == NULL) {
        bl_pool_release(worker->pool, buffer);
        return bl_fail(err, BL_ENOMEM, "tensor");
    }
    atomic_init(&held->refs, 1);
    held->worker = worker;
    held->buffer = buffer;
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

bl_status bl_held_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out, bl_err *err)
{
    bl_buffer *buffer = NULL;
    size_t count = 0, bytes = 0;
    *out = NULL;
    BL_TRY(bl_tensor_measure("tensor", dtype, ndim, dim, &worker->server->limits, &count, &bytes, err));
    BL_TRY(bl_pool_alloc(worker->pool, bytes, &buffer, err));
    return bl_held_wrap(worker, buffer, dtype, ndim, dim, out, err);
}

bl_held *bl_held_retain(bl_held *held)
{
    atomic_fetch_add(&held->refs, 1);
    return held;
}

static void free_scratch(bl_held *held)
{
    if (held->scratch == NULL)
        return;
    free(held->scratch);
    held->scratch = NULL;
    bl_budget_give(&held->worker->server->memory, held->bytes);
}

void bl_held_release(bl_held *held)
{
    if (held == NULL || atomic_fetch_sub(&held->refs, 1) != 1)
        return;
    bl_pool_release(held->worker->pool, held->buffer);
    free_scratch(held);
    free(held);
}

void bl_held_release_any(void *held)
{
    bl_held_release(held);
}

char *bl_held_host(bl_held *held)
{
    bl_budget *budget = &held->worker->server->memory;
    if (held->buffer->host != NULL)
        return held->buffer->host;
    if (held->scratch != NULL)
        return held->scratch;
    if (bl_budget_take(budget, held->bytes, BL_ENOMEM, "a tensor", NULL) != BL_OK)
        return NULL;
    held->scratch = malloc(held->bytes > 0 ? held->bytes : 1);
    if (held->scratch == NULL)
        bl_budget_give(budget, held->bytes);
    return held->scratch;
}

bl_status bl_held_flush(bl_held *held, bl_err *err)
{
    if (held->scratch == NULL)
        return BL_OK;
    BL_TRY(bl_buffer_write(held->buffer, 0, held->scratch, held->bytes, err));
    free_scratch(held);
    return BL_OK;
}

const char *bl_held_mapped(const bl_held *held)
{
    return held->buffer->host;
}

bl_status bl_held_read(bl_held *held, void *to, bl_err *err)
{
    if (held->buffer->host != NULL)
        memcpy(to, held->buffer->host, held->bytes);
    else
        BL_TRY(bl_buffer_read(held->buffer, 0, to, held->bytes, err));
    return BL_OK;
}

bool bl_held_lost(const bl_held *held)
{
    const bl_device *dev = held->worker->dev;
    return atomic_load(&dev->lost) || held->buffer->generation != atomic_load(&dev->generation);
}
