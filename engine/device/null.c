/* SPDX-License-Identifier: MIT */
/* The device that runs nothing: memory of the host, kernels that are accepted unread, submissions that are done at once.
 * What is above a device is tested with it, and docs/backend.md walks through it as the model of a back end. */
#include "engine/device/device.h"

#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY = 1 << 30, ALIGNMENT = 64 };

static void destroy(bl_device *dev)
{
    free(dev);
}

static bl_status reopen(bl_device *dev, bl_err *err)
{
    (void)dev, (void)err; /* nothing to open */
    return BL_OK;
}

/* ---- memory */

/* Zeroed, since no kernel ever writes it: a client must not see what the host's heap held before. */
static bl_status alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_buffer *buffer = bl_calloc(1, sizeof *buffer);

    if (buffer != NULL)
        buffer->host = bl_calloc(1, bytes);
    if (buffer == NULL || buffer->host == NULL) {
        free(buffer);
        return bl_fail(err, BL_ENODEVMEM, "device %s: the host has no %zu bytes", dev->info.id, bytes);
    }
    *out = buffer;
    return BL_OK;
}

static bl_status view(bl_buffer *parent, size_t offset, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_buffer *buffer = bl_calloc(1, sizeof *buffer);

    if (buffer == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a view of %zu bytes", bytes);
    buffer->host = (char *)parent->host + offset;
    *out = buffer;
    return BL_OK;
}

static void dealloc(bl_buffer *buffer)
{
    if (buffer->parent == NULL)
        free(buffer->host);
    free(buffer);
}

static bl_status write_bytes(bl_buffer *buffer, size_t offset, const void *data, size_t bytes, bl_err *err)
{
    (void)err;
    memcpy((char *)buffer->host + offset, data, bytes);
    return BL_OK;
}

static bl_status read_bytes(bl_buffer *buffer, size_t offset, void *data, size_t bytes, bl_err *err)
{
    (void)err;
    memcpy(data, (const char *)buffer->host + offset, bytes);
    return BL_OK;
}

/* ---- kernels and recordings: a real back end keeps the driver's handles in a struct that begins with these */

static bl_status make_kernel(bl_device *dev, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    (void)dev;
    *out = bl_calloc(1, sizeof **out);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for kernel %s", source->entry);
}

static void destroy_kernel(bl_kernel *kernel)
{
    free(kernel);
}

static bl_status record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
                        bl_recording **out, bl_err *err)
{
    (void)dev, (void)launches, (void)nslots, (void)nvars;
    *out = bl_calloc(1, sizeof **out);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for %u launches", (unsigned)n);
}

static void destroy_recording(bl_recording *recording)
{
    free(recording);
}

static bl_status submit(bl_recording *recording, const bl_submission *submission, bl_err *err)
{
    (void)err;
    for (uint32_t i = 0; submission->nanoseconds != NULL && i < recording->nlaunches; i++)
        submission->nanoseconds[i] = 0;
    return BL_OK;
}

static bl_status wait_all(bl_device *dev, bl_err *err)
{
    (void)dev, (void)err; /* nothing is ever under way */
    return BL_OK;
}

static const bl_device_ops null_ops = {
    .name = "null",
    .destroy = destroy,
    .reopen = reopen,
    .alloc = alloc,
    .view = view,
    .dealloc = dealloc,
    .write = write_bytes,
    .read = read_bytes,
    .kernel = make_kernel,
    .kernel_destroy = destroy_kernel,
    .record = record,
    .recording_destroy = destroy_recording,
    .submit = submit,
    .wait = wait_all,
};

static const bl_device_info null_info = {
    .id = "null:0",
    .name = "the device that runs nothing",
    .driver = "null 1",
    .type = BL_DEVICE_NONE,
    .dialect = BL_DIALECT_LINEAR,
    .features = BL_FEATURE_F64 | BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16,
    .memory = MEMORY,
    .max_alloc = MEMORY,
    .max_binding = MEMORY,
    .alignment = ALIGNMENT,
    .units = 1,
    .registers = 16,
    .subgroup = 1,
    .max_local = 1024,
    .local_bytes = 32 << 10,
    .max_groups = {INT32_MAX, INT32_MAX, INT32_MAX},
    .host_memory = true,
};

static bl_status open_devices(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err)
{
    bl_device *dev;

    (void)why; /* nothing can be left out */
    *count = 0;
    if (max == 0)
        return BL_OK;
    dev = bl_calloc(1, sizeof *dev);
    if (dev == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a device");
    dev->ops = &null_ops;
    dev->info = null_info;
    out[(*count)++] = dev;
    return BL_OK;
}

const bl_backend bl_backend_null = {.name = "null", .open = open_devices};
