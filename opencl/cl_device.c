/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PLATFORMS = 32,
    MAX_PER_PLATFORM = 64,
    /* a launch takes less than a microsecond on the submitting thread, and waking another thread 30 to 60 us */
    BRIEF_NS = 20000
};

static void cl_device_destroy(bl_device *base)
{
    bl_cl_device *dev = (bl_cl_device *)base;

    bl_cl_session_close(dev);
    bl_cl_team_destroy(dev->team);
    bl_cl_slabs_fini(&dev->slabs);
    pthread_mutex_destroy(&dev->lock);
    free(dev->identity);
    free(dev->cache);
    free(dev);
}

static bl_status cl_device_reopen(bl_device *base, bl_err *err)
{
    bl_cl_session_close((bl_cl_device *)base);
    return bl_cl_session_open((bl_cl_device *)base, err);
}

static const bl_device_ops operations = {
    .name = "opencl",
    .destroy = cl_device_destroy,
    .reopen = cl_device_reopen,
    .alloc = bl_cl_alloc,
    .view = bl_cl_view,
    .dealloc = bl_cl_dealloc,
    .write = bl_cl_write,
    .read = bl_cl_read,
    .copy = bl_cl_copy,
    .kernel = bl_cl_kernel_create,
    .kernel_destroy = bl_cl_kernel_destroy,
    .compile = bl_cl_compile,
    .is_compiled = bl_cl_is_compiled,
    .record = bl_cl_record,
    .recording_destroy = bl_cl_recording_destroy,
    .submit = bl_cl_submit,
    .wait = bl_cl_wait,
    .disassemble = bl_cl_disassemble,
};

/* Opens the device; if it is unusable, |*out| stays NULL and |why| gives the reason. */
static bl_status cl_device_open_device(const bl_cl_api *cl, cl_platform_id platform, cl_device_id id, uint32_t number,
                                       bl_device **out, bl_text *why, bl_err *err)
{
    bl_cl_device *dev = bl_calloc(1, sizeof *dev);
    bl_err failure = {0};

    if (dev == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a device");
    dev->base.ops = &operations;
    dev->cl = *cl;
    dev->platform = platform;
    dev->id = id;
    pthread_mutex_init(&dev->lock, NULL);
    bl_cl_slabs_init(&dev->slabs);
    if (!bl_cl_describe(dev, why)) {
        cl_device_destroy(&dev->base);
        return BL_OK;
    }
    snprintf(dev->base.info.id, sizeof dev->base.info.id, "opencl:%u", number);
    dev->cache = bl_cl_cache_folder();
    if (bl_cl_session_open(dev, &failure) != BL_OK) {
        bl_text_printf(why, "%s: %s\n", dev->base.info.name, failure.text);
        cl_device_destroy(&dev->base);
        return BL_OK;
    }
    bl_cl_direct_begin(dev);
    dev->base.info.brief_ns = dev->team != NULL ? BRIEF_NS : 0;
    bl_cl_find_units(dev);
    *out = &dev->base;
    return BL_OK;
}

static bl_status open_platform(const bl_cl_api *cl, cl_platform_id platform, uint32_t max, bl_device **out, uint32_t *count,
                               bl_text *why, bl_err *err)
{
    cl_device_id ids[MAX_PER_PLATFORM];
    cl_uint n = 0;
    cl_int rc;

    rc = cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_PER_PLATFORM, ids, &n);
    if (rc != CL_SUCCESS) {
        bl_text_printf(why, "opencl: a platform lists no devices: %s (%d)\n", bl_cl_code_name(rc), (int)rc);
        return BL_OK;
    }
    for (cl_uint i = 0; i < n; i++) {
        bl_device *dev = NULL;

        if (*count >= max || i >= MAX_PER_PLATFORM) {
            bl_text_printf(why, "opencl: %u more devices are ignored; the limit is %u\n", n - i, *count);
            return BL_OK;
        }
        BL_TRY(cl_device_open_device(cl, platform, ids[i], *count, &dev, why, err));
        if (dev != NULL)
            out[(*count)++] = dev;
    }
    return BL_OK;
}

static bl_status cl_device_open_all(uint32_t max, bl_device **out, uint32_t *count, struct bl_text *why, bl_err *err)
{
    bl_cl_api cl;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    cl_int rc;
    bl_status st = BL_OK;

    *count = 0;
    /* Makes PoCL pin its threads to cores. Otherwise two threads may share a core, which makes kernels 1.5 times slower. */
    setenv("POCL_AFFINITY", "1", 0);
    /* Makes PoCL compile one body of a kernel for every grid size, instead of one body for small and one for large grids,
     * compiled at the first launch with such a grid (30 ms and more). The body that the creation of a kernel compiles, and
     * that the cache keeps, is then the body that runs.  The setting does not slow kernels down. */
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    bl_cl_own_folder();
    bl_cl_ask_for_tiles();
    if (!bl_cl_load(&cl, why))
        return BL_OK;
    rc = cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &n);
    if (rc != CL_SUCCESS || n == 0) {
        bl_text_puts(why, "opencl: no driver is installed\n");
        return BL_OK;
    }
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS && st == BL_OK; i++)
        st = open_platform(&cl, platforms[i], max, out, count, why, err);
    if (st != BL_OK) {
        while (*count > 0)
            cl_device_destroy(out[--*count]);
    }
    return st;
}

const bl_backend bl_backend_opencl = {.name = "opencl", .open = cl_device_open_all};
