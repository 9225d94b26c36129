/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Checks that the driver's kernel has the properties that the kernel compiler states.  PoCL aborts the process at the launch
 * of a kernel with too much local memory, and other drivers fail the launch with a code that gives no reason. */
bl_status bl_cl_kernel_check(const bl_cl_device *dev, cl_kernel kernel, const bl_kernel_source *source, bl_err *err)
{
    const bl_device_info *info = &dev->base.info;
    cl_uint arguments = 0;
    cl_ulong local_bytes = 0;
    size_t items = 0;
    size_t needed = (size_t)source->local[0] * source->local[1] * source->local[2];
    cl_int rc = dev->cl.GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);

    if (rc == CL_SUCCESS)
        rc = dev->cl.GetKernelWorkGroupInfo(kernel, dev->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes, NULL);
    if (rc == CL_SUCCESS)
        rc = dev->cl.GetKernelWorkGroupInfo(kernel, dev->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof items, &items, NULL);
    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "asking about a kernel", err);
    if (source->function ? arguments < BL_CL_CALL_BUFFERS + source->nbuffers : arguments != source->nbuffers + source->nscalars)
        return bl_fail(err, BL_EBUG, "kernel %s has %u parameters, expected %u", source->entry, arguments,
                       source->nbuffers + source->nscalars);
    if (local_bytes > info->local_bytes)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s needs %llu bytes of local memory; %s has %u", source->entry,
                       (unsigned long long)local_bytes, info->id, info->local_bytes);
    if (needed > items)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s needs groups of %zu work-items; %s runs at most %zu of this kernel",
                       source->entry, needed, info->id, items);
    return BL_OK;
}

static bl_status cl_kernel_make(bl_cl_device *dev, const bl_kernel_source *source, bl_cl_kernel *kernel, bl_err *err)
{
    cl_int rc = CL_SUCCESS;
    cl_kernel first;
    bl_status st;

    BL_TRY(bl_cl_program_get(dev, source, &kernel->program, &kernel->entry, err));
    first = dev->cl.CreateKernel(kernel->program->handle, kernel->entry.name, &rc);
    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateKernel", err);
    st = bl_cl_kernel_check(dev, first, source, err);
    (void)dev->cl.ReleaseKernel(first);
    return st;
}

bl_status bl_cl_kernel_create(bl_device *base, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    bl_cl_kernel *kernel = bl_calloc(1, sizeof *kernel);
    bl_status st;

    if (kernel == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a kernel");
    kernel->base.dev = base;
    kernel->local_bytes = source->local_bytes;
    st = cl_kernel_make((bl_cl_device *)base, source, kernel, err);
    if (st == BL_OK && kernel->program->functions != NULL && kernel->entry.number >= 0)
        kernel->function = kernel->program->functions[kernel->entry.number];
    if (st != BL_OK) {
        bl_cl_kernel_destroy(&kernel->base);
        return st;
    }
    *out = &kernel->base;
    return BL_OK;
}

void bl_cl_kernel_destroy(bl_kernel *base)
{
    bl_cl_kernel *kernel = (bl_cl_kernel *)base;

    bl_cl_program_release((bl_cl_device *)base->dev, kernel->program);
    bl_cl_entry_fini(&kernel->entry);
    free(kernel);
}

/* If a batch does not compile or is not stored, each kernel is compiled separately, so that only the faulty kernel fails. */
void bl_cl_compile(bl_device *base, uint32_t n, const bl_kernel_source *sources, bl_err *outcomes)
{
    bl_cl_device *dev = (bl_cl_device *)base;

    if (dev->cache == NULL)
        return;
    for (uint32_t i = 0, some; i < n; i += some) {
        some = n - i < BL_CL_BATCH ? n - i : BL_CL_BATCH;
        if (some > 1 && bl_cl_batch_compile(dev, some, sources + i))
            continue;
        for (uint32_t k = i; k < i + some; k++) {
            bl_kernel *kernel = NULL;

            outcomes[k].status = bl_cl_kernel_create(base, &sources[k], &kernel, &outcomes[k]);
            if (kernel != NULL)
                bl_cl_kernel_destroy(kernel);
        }
    }
}

/* Returns NULL unless the driver's binary is text (NVIDIA's is PTX). */
char *bl_cl_disassemble(bl_kernel *base)
{
    size_t len = 0, text_len;
    unsigned char *binary = bl_cl_program_binary((bl_cl_device *)base->dev, ((bl_cl_kernel *)base)->program->handle, &len);
    char *text;

    if (binary == NULL)
        return NULL;
    text_len = strnlen((char *)binary, len);
    for (size_t i = 0; i < text_len; i++) {
        if (!isprint(binary[i]) && !isspace(binary[i]))
            text_len = 0;
    }
    text = text_len > 0 && text_len + 1 >= len ? strndup((char *)binary, text_len) : NULL;
    free(binary);
    return text;
}
