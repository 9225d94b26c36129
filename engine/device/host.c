/* SPDX-License-Identifier: MIT */
#include "engine/device/host.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_host_alloc(bl_device *dev, size_t bytes, unsigned char fill, bl_buffer **out, bl_err *err)
{
    bl_buffer *buffer = bl_calloc(1, sizeof *buffer);

    if (buffer != NULL)
        buffer->host = fill == 0 ? bl_calloc(1, bytes) : bl_realloc(NULL, bytes);
    if (buffer == NULL || buffer->host == NULL) {
        free(buffer);
        return bl_fail(err, BL_ENODEVMEM, "device %s: the host cannot allocate %zu bytes", dev->info.id, bytes);
    }
    if (fill != 0) /* the pages of fresh memory are zero and take no memory until they are written */
        memset(buffer->host, fill, bytes);
    *out = buffer;
    return BL_OK;
}

bl_status bl_host_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_buffer *buffer = bl_calloc(1, sizeof *buffer);

    if (buffer == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a view of %zu bytes", bytes);
    buffer->host = (char *)parent->host + offset;
    *out = buffer;
    return BL_OK;
}

void bl_host_dealloc(bl_buffer *buffer)
{
    if (buffer->parent == NULL)
        free(buffer->host);
    free(buffer);
}

bl_status bl_host_write(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err)
{
    (void)err;
    memcpy((char *)buffer->host + offset, data, bytes);
    return BL_OK;
}

bl_status bl_host_read(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err)
{
    (void)err;
    memcpy(data, (const char *)buffer->host + offset, bytes);
    return BL_OK;
}

bl_status bl_host_nothing(bl_device *dev, bl_err *err)
{
    (void)dev, (void)err;
    return BL_OK;
}
