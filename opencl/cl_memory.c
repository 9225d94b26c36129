/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"
#include "engine/base/size.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_ALIGN = 64 }; /* one 512-bit vector */

/* Is a buffer of |bytes| a block of a slab? AddressSanitizer sees an access outside of a buffer only if each has its own memory.
 */
static bool in_slab(const bl_cl_device *dev, size_t bytes)
{
#if defined(__SANITIZE_ADDRESS__)
    (void)dev, (void)bytes;
    return false;
#else
    return bytes >= BL_CL_LEAST_BLOCK && bytes < BL_CL_HUGE_PAGE && dev->base.info.alignment <= BL_CL_BLOCK_ALIGN;
#endif
}

/* Allocates memory that a CPU device can use in place. */
static void *host_alloc(bl_cl_device *dev, size_t bytes)
{
    size_t align = dev->base.info.alignment < MIN_ALIGN ? MIN_ALIGN : dev->base.info.alignment, padded;

    if (bl_fault_hit(BL_FAULT_ALLOC) || !bl_size_align(bytes, MIN_ALIGN, &padded))
        return NULL;
    return in_slab(dev, bytes) ? bl_cl_slabs_alloc(&dev->slabs, padded) : bl_cl_huge_alloc(padded, align);
}

static void host_free(bl_cl_device *dev, void *storage, size_t bytes)
{
    if (storage != NULL && in_slab(dev, bytes))
        bl_cl_slabs_free(&dev->slabs, storage, bytes);
    else
        free(storage);
}

/* Maps the buffer for its whole life, for drivers that do not promise that the host sees a buffer in place. */
static bl_status map_forever(bl_cl_device *dev, const bl_cl_session *session, bl_cl_buffer *buffer, bl_err *err)
{
    cl_int rc = CL_SUCCESS;
    void *at = dev->cl.EnqueueMapBuffer(session->queues[BL_CL_PLAIN], buffer->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                        buffer->base.bytes, 0, NULL, NULL, &rc);

    if (rc != CL_SUCCESS)
        return bl_cl_fail_queue(dev, rc, "mapping a buffer", err);
    buffer->mapped = true;
    if (at != buffer->storage)
        return bl_fail(err, BL_EDEVICE, "opencl: the driver maps a buffer outside of its host memory");
    return BL_OK;
}

static void unmap(bl_cl_device *dev, bl_cl_buffer *buffer)
{
    bl_cl_session session;
    cl_command_queue queue;

    bl_cl_session_hold(dev, &session);
    queue = session.queues[BL_CL_PLAIN]; /* the queue of a newer session does not know the buffer and would fail */
    if (queue != NULL && dev->cl.EnqueueUnmapMemObject(queue, buffer->mem, buffer->storage, 0, NULL, NULL) == CL_SUCCESS)
        (void)dev->cl.Finish(queue);
    bl_cl_session_drop(dev, &session);
}

static bl_status create_memory(bl_cl_device *dev, const bl_cl_session *session, bl_cl_buffer *buffer, bl_err *err)
{
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    cl_int rc = CL_SUCCESS;

    if (dev->base.info.host_memory) {
        buffer->storage = host_alloc(dev, buffer->base.bytes);
        if (buffer->storage == NULL)
            return bl_fail(err, BL_ENODEVMEM, "out of host memory for a buffer of %zu bytes", buffer->base.bytes);
        flags |= CL_MEM_USE_HOST_PTR;
    }
    buffer->mem = dev->cl.CreateBuffer(session->context, flags, buffer->base.bytes, buffer->storage, &rc);
    if (rc == CL_MEM_OBJECT_ALLOCATION_FAILURE || rc == CL_INVALID_BUFFER_SIZE)
        return bl_fail(err, BL_ENODEVMEM,
                       "%s refuses a buffer of %zu bytes; the device has %llu bytes and allows %llu for one buffer: %s (%d)",
                       dev->base.info.id, buffer->base.bytes, (unsigned long long)dev->base.info.memory,
                       (unsigned long long)dev->base.info.max_alloc, bl_cl_code_name(rc), (int)rc);
    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateBuffer", err);
    buffer->base.host = buffer->storage;
    return buffer->storage != NULL && !dev->coherent ? map_forever(dev, session, buffer, err) : BL_OK;
}

bl_status bl_cl_alloc(bl_device *base, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)base;
    bl_cl_buffer *buffer = bl_calloc(1, sizeof *buffer);
    bl_cl_session session;
    bl_status st;

    if (buffer == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a buffer");
    buffer->base.dev = base;
    buffer->base.bytes = bytes;
    buffer->serial = atomic_fetch_add(&dev->serials, 1) + 1;
    bl_cl_session_hold(dev, &session);
    st = create_memory(dev, &session, buffer, err);
    bl_cl_session_drop(dev, &session);
    if (st != BL_OK) {
        bl_cl_dealloc(&buffer->base);
        return st;
    }
    *out = &buffer->base;
    return BL_OK;
}

bl_status bl_cl_view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)parent->dev;
    bl_cl_buffer *view = bl_calloc(1, sizeof *view);
    cl_buffer_region region = {offset, bytes};
    cl_int rc = CL_SUCCESS;

    if (view == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a view of a buffer");
    view->base.dev = parent->dev;
    view->serial = atomic_fetch_add(&dev->serials, 1) + 1;
    view->mem =
        dev->cl.CreateSubBuffer(((bl_cl_buffer *)parent)->mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &rc);
    if (rc != CL_SUCCESS) {
        free(view);
        return bl_cl_fail(rc, "clCreateSubBuffer", err);
    }
    if (parent->host != NULL)
        view->base.host = (char *)parent->host + offset;
    *out = &view->base;
    return BL_OK;
}

void bl_cl_dealloc(bl_buffer *base)
{
    bl_cl_buffer *buffer = (bl_cl_buffer *)base;
    bl_cl_device *dev = (bl_cl_device *)base->dev;

    if (buffer->mapped)
        unmap(dev, buffer);
    if (buffer->storage != NULL && atomic_load(&dev->base.lost))
        bl_cl_quiesce(dev); /* submitted commands that write to the buffer may still run */
    if (buffer->mem != NULL)
        (void)dev->cl.ReleaseMemObject(buffer->mem);
    host_free(dev, buffer->storage, buffer->base.bytes);
    free(buffer);
}

/* Waits until the queue is empty. Host memory is then current. */
static bl_status cl_memory_settle(bl_cl_device *dev, bl_err *err)
{
    return dev->pending ? bl_cl_wait(&dev->base, err) : BL_OK;
}

bl_status bl_cl_write(bl_buffer *base, size_t offset, const void *data, size_t bytes, bl_err *err)
{
    bl_cl_buffer *buffer = (bl_cl_buffer *)base;
    bl_cl_device *dev = (bl_cl_device *)base->dev;
    cl_int rc;

    if (base->host != NULL) {
        BL_TRY(cl_memory_settle(dev, err));
        memcpy((char *)base->host + offset, data, bytes);
        return BL_OK;
    }
    rc = dev->cl.EnqueueWriteBuffer(dev->session.queues[dev->current], buffer->mem, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
    return rc == CL_SUCCESS ? BL_OK : bl_cl_fail_queue(dev, rc, "writing a buffer", err);
}

bl_status bl_cl_read(bl_buffer *base, size_t offset, void *data, size_t bytes, bl_err *err)
{
    bl_cl_buffer *buffer = (bl_cl_buffer *)base;
    bl_cl_device *dev = (bl_cl_device *)base->dev;
    cl_int rc;

    if (base->host != NULL) {
        BL_TRY(cl_memory_settle(dev, err));
        memcpy(data, (const char *)base->host + offset, bytes);
        return BL_OK;
    }
    rc = dev->cl.EnqueueReadBuffer(dev->session.queues[dev->current], buffer->mem, CL_TRUE, offset, bytes, data, 0, NULL, NULL);
    return rc == CL_SUCCESS ? BL_OK : bl_cl_fail_queue(dev, rc, "reading a buffer", err);
}

bl_status bl_cl_copy(bl_buffer *to, size_t at, bl_buffer *from, size_t offset, size_t bytes, bl_err *err)
{
    bl_cl_device *dev = (bl_cl_device *)to->dev;
    cl_int rc = dev->cl.EnqueueCopyBuffer(dev->session.queues[dev->current], ((bl_cl_buffer *)from)->mem,
                                          ((bl_cl_buffer *)to)->mem, offset, at, bytes, 0, NULL, NULL);

    if (rc != CL_SUCCESS)
        return bl_cl_fail_queue(dev, rc, "copying a buffer", err);
    dev->pending = true;
    return bl_cl_wait(&dev->base, err);
}
