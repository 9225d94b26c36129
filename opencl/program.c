/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/fault.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char options[] = "-cl-std=CL1.2"; /* a*b+c contracts by default, as the compiler of kernels expects */

/* The device's compiled form of |program|, freed by the caller, or NULL.  PoCL compiles to machine code here. */
static unsigned char *get_binary(const bl_cl_device *dev, cl_program program, size_t *len)
{
    unsigned char *binary;

    *len = 0;
    if (dev->cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *len, len, NULL) != CL_SUCCESS || *len == 0)
        return NULL;
    binary = malloc(*len);
    if (binary != NULL && dev->cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) != CL_SUCCESS) {
        free(binary);
        return NULL;
    }
    return binary;
}

static bl_status build_failed(const bl_cl_device *dev, cl_program program, cl_int rc, const char *entry, bl_err *err)
{
    bl_text summary = {0};
    size_t len = 0;
    char *log = NULL;
    bl_status st;

    if (rc != CL_BUILD_PROGRAM_FAILURE)
        return bl_cl_fail(rc, "clBuildProgram", err);
    if (dev->cl.GetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &len) == CL_SUCCESS && len > 0)
        log = calloc(1, len + 1);
    if (log != NULL && dev->cl.GetProgramBuildInfo(program, dev->id, CL_PROGRAM_BUILD_LOG, len, log, NULL) != CL_SUCCESS)
        len = 0;
    bl_cl_log_summary(log != NULL ? log : "", log != NULL ? len : 0, &summary);
    st = bl_fail(err, BL_EBUG, "kernel %s does not compile: %s", entry, summary.data != NULL ? summary.data : "");
    bl_text_fini(&summary);
    free(log);
    return st;
}

/* A program from the cache, or NULL: a driver may refuse what it wrote itself, after an update say. */
static cl_program load_cached(const bl_cl_device *dev, cl_context context, bl_span key)
{
    size_t len = 0;
    unsigned char *binary = bl_cl_cache_load(dev->cache, key, &len);
    const unsigned char *const_binary = binary;
    cl_int rc = CL_SUCCESS, loaded = CL_SUCCESS;
    cl_program program;

    if (binary == NULL)
        return NULL;
    program = dev->cl.CreateProgramWithBinary(context, 1, &dev->id, &len, &const_binary, &loaded, &rc);
    free(binary);
    if (program == NULL || rc != CL_SUCCESS)
        return NULL;
    if (loaded == CL_SUCCESS && dev->cl.BuildProgram(program, 1, &dev->id, options, NULL, NULL) == CL_SUCCESS)
        return program;
    (void)dev->cl.ReleaseProgram(program);
    return NULL;
}

static bl_status build(const bl_cl_device *dev, cl_context context, const bl_kernel_source *source, cl_program *out, bl_err *err)
{
    const char *text = source->text;
    cl_int rc = CL_SUCCESS;
    cl_program program = dev->cl.CreateProgramWithSource(context, 1, &text, &source->len, &rc);
    bl_status st;

    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateProgramWithSource", err);
    rc = dev->cl.BuildProgram(program, 1, &dev->id, options, NULL, NULL);
    if (rc != CL_SUCCESS) {
        st = build_failed(dev, program, rc, source->entry, err);
        (void)dev->cl.ReleaseProgram(program);
        return st;
    }
    *out = program;
    return BL_OK;
}

/* Asking for the binary also has PoCL compile to the end here, on this thread, and not at the first launch on the worker's. */
static void finish(const bl_cl_device *dev, bl_span key, cl_program program)
{
    size_t len = 0;
    unsigned char *binary = get_binary(dev, program, &len);

    if (binary != NULL && dev->cache != NULL)
        bl_cl_cache_store(dev->cache, key, binary, len);
    free(binary);
}

static bl_status get_program(const bl_cl_device *dev, cl_context context, const bl_kernel_source *source, cl_program *out,
                             bl_err *err)
{
    bl_text text = {0};
    bl_span key;
    bl_status st;

    bl_text_printf(&text, "%s%s\n", dev->identity, options);
    bl_text_append(&text, source->text, source->len);
    st = bl_text_status(&text, err);
    key = (bl_span){text.data, text.len};
    if (st == BL_OK)
        *out = dev->cache != NULL ? load_cached(dev, context, key) : NULL;
    if (st == BL_OK && *out == NULL) {
        st = build(dev, context, source, out, err);
        if (st == BL_OK)
            finish(dev, key, *out);
    }
    bl_text_fini(&text);
    return st;
}

/* What the compiler of kernels promised must hold of what the driver made of it: PoCL aborts the process at the launch of a
 * kernel with more local memory than there is, and others fail there with a code that names no reason. */
static bl_status check(const bl_cl_device *dev, cl_kernel kernel, const bl_kernel_source *source, bl_err *err)
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
    if (arguments != source->nbuffers + source->nscalars)
        return bl_fail(err, BL_EBUG, "kernel %s has %u parameters, expected %u", source->entry, arguments,
                       source->nbuffers + source->nscalars);
    if (local_bytes > info->local_bytes)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s needs %llu bytes of local memory, %s has %u", source->entry,
                       (unsigned long long)local_bytes, info->id, info->local_bytes);
    if (needed > items)
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s needs groups of %zu work-items, %s can run %zu of it", source->entry,
                       needed, info->id, items);
    return BL_OK;
}

static bl_status make(bl_cl_device *dev, const bl_kernel_source *source, bl_cl_kernel *kernel, bl_err *err)
{
    cl_int rc = CL_SUCCESS;
    cl_kernel first;
    bl_cl_session session;
    bl_status st;

    kernel->entry = strdup(source->entry);
    if (kernel->entry == NULL)
        return bl_fail(err, BL_ENOMEM, "kernel");
    bl_cl_session_hold(dev, &session);
    st = get_program(dev, session.context, source, &kernel->program, err);
    bl_cl_session_drop(dev, &session);
    if (st != BL_OK)
        return st;
    first = dev->cl.CreateKernel(kernel->program, kernel->entry, &rc);
    if (rc != CL_SUCCESS)
        return bl_cl_fail(rc, "clCreateKernel", err);
    st = check(dev, first, source, err);
    (void)dev->cl.ReleaseKernel(first);
    return st;
}

bl_status bl_cl_kernel_create(bl_device *base, const bl_kernel_source *source, bl_kernel **out, bl_err *err)
{
    bl_cl_kernel *kernel = bl_calloc(1, sizeof *kernel);
    bl_status st;

    if (kernel == NULL)
        return bl_fail(err, BL_ENOMEM, "kernel");
    kernel->base.dev = base;
    st = make((bl_cl_device *)base, source, kernel, err);
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
    bl_cl_device *dev = (bl_cl_device *)base->dev;

    if (kernel->program != NULL)
        (void)dev->cl.ReleaseProgram(kernel->program);
    free(kernel->entry);
    free(kernel);
}

/* Drivers whose compiled form is a text (NVIDIA's is PTX) have an assembly to show; others give NULL. */
char *bl_cl_disassemble(bl_kernel *base)
{
    size_t len = 0, text_len;
    unsigned char *binary = get_binary((bl_cl_device *)base->dev, ((bl_cl_kernel *)base)->program, &len);
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
