/* SPDX-License-Identifier: MIT */
/* The null device runs nothing: buffers are host memory, kernels are accepted unread, submissions complete at once. Tests of
 * the code above the device use the null device. docs/backend.md explains it as the template of a back end. */
#include "engine/device/host.h"

#include "engine/base/fault.h"

#include <stdlib.h>

enum { MEMORY = 1 << 30, ALIGNMENT = 64 };

static void null_destroy(bl_device *dev)
{
    free(dev);
}

/* The memory is zeroed, since no kernel ever writes it: a client must not see old contents of the host's heap. */
static bl_status null_alloc(bl_device *dev, size_t bytes, bl_buffer **out, bl_err *err)
{
    return bl_host_alloc(dev, bytes, 0, out, err);
}

/* ---- kernels and recordings.  A real back end keeps the driver's handles in structs that begin with these structs */

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

static bl_status null_record(bl_device *dev, uint32_t n, const bl_launch *launches, uint32_t nslots, uint32_t nvars,
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

static bl_status null_submit(bl_recording *recording, const bl_submission *submission, bl_err *err)
{
    (void)err;
    for (uint32_t i = 0; submission->nanoseconds != NULL && i < recording->nlaunches; i++)
        submission->nanoseconds[i] = 0;
    return BL_OK;
}

static const bl_device_ops null_ops = {
    .name = "null",
    .destroy = null_destroy,
    .reopen = bl_host_nothing,
    .alloc = null_alloc,
    .view = bl_host_view,
    .dealloc = bl_host_dealloc,
    .write = bl_host_write,
    .read = bl_host_read,
    .kernel = make_kernel,
    .kernel_destroy = destroy_kernel,
    .record = null_record,
    .recording_destroy = destroy_recording,
    .submit = null_submit,
    .wait = bl_host_nothing, /* the device never has work in flight */
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
    .mega_ops = 100,
    .mega_bytes = 1000,
    .launch_ns = 500,
    .registers = 16,
    .subgroup = 1,
    .max_local = 1024,
    .local_bytes = 32 << 10,
    .max_groups = {INT32_MAX, INT32_MAX, INT32_MAX},
    .host_memory = true,
};

static bl_status null_open_devices(uint32_t max, bl_device **out, uint32_t *count, bl_text *why, bl_err *err)
{
    bl_device *dev;

    (void)why; /* every device is opened */
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

const bl_backend bl_backend_null = {.name = "null", .open = null_open_devices};
