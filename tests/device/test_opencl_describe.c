/* SPDX-License-Identifier: MIT */
/* How the back end interprets an OpenCL driver's device information: rows of drivers, as observed or from their manuals; needs
 * no driver. */
#include "opencl/opencl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WARP_SIZE_NV = 0x4003, WAVEFRONT_WIDTH_AMD = 0x4043, PREFERRED_MULTIPLE_30 = 0x1067, CPU_GPU_AND_ACCELERATOR = 0xf };

/* 0: the driver does not support the query. */
typedef struct driver {
    const char *name, *platform;
    cl_device_type says;
    cl_uint warp, wavefront, vector;
    size_t multiple;
    cl_ulong cache, floats; /* CL_DEVICE_SINGLE_FP_CONFIG */
    bl_device_type type;
    uint32_t subgroup, vector_bits, cache_bytes;
} driver;

enum {
    FUSED = CL_FP_FMA | CL_FP_ROUND_TO_NEAREST,
    APART = CL_FP_ROUND_TO_NEAREST,
    UNITS = 1 << 20 /* more units than cores */
};

static const driver drivers[] = {
    {"PoCL", "Portable Computing Language", CL_DEVICE_TYPE_CPU, 0, 0, 16, 0, 1 << 20, FUSED, BL_DEVICE_CPU, 1, 512, 0},
    {"Intel's CPU", "Intel(R) OpenCL", CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT, 0, 0, 8, 128, 1 << 20, APART, BL_DEVICE_CPU,
     1, 256, 0},
    /* rusticl's CPU device vectorises work-items, so work-groups have vectors of them */
    {"llvmpipe", "rusticl", CL_DEVICE_TYPE_CPU, 0, 0, 1, 8, 0, APART, BL_DEVICE_CPU, 8, 128, 0},
    {"such a one of 1.2", "another", CL_DEVICE_TYPE_CPU, 0, 0, 1, 0, 0, APART, BL_DEVICE_CPU, 8, 128, 0},
    {"NVIDIA", "NVIDIA CUDA", CL_DEVICE_TYPE_GPU, 32, 0, 1, 32, 4 << 20, FUSED, BL_DEVICE_GPU, 32, 0, 1 << 20},
    {"AMD", "AMD Accelerated Parallel Processing", CL_DEVICE_TYPE_GPU, 0, 64, 1, 0, 16 << 10, FUSED, BL_DEVICE_GPU, 64, 0,
     4 << 10},
    {"a GPU of 3.0", "rusticl", CL_DEVICE_TYPE_GPU, 0, 0, 1, 16, 0, FUSED, BL_DEVICE_GPU, 16, 0, 0},
    {"a GPU that says nothing", "another", CL_DEVICE_TYPE_GPU, 0, 0, 1, 0, 0, APART, BL_DEVICE_GPU, 32, 0, 0},
    /* any multiple is equally good; the compiler would take a device with a subgroup of 1 for a CPU */
    {"a GPU that says 1", "another", CL_DEVICE_TYPE_GPU, 0, 0, 1, 1, 0, FUSED, BL_DEVICE_GPU, 32, 0, 0},
    {"a simulator", "Oclgrind", CPU_GPU_AND_ACCELERATOR, 0, 0, 1, 1, 0, APART, BL_DEVICE_GPU, 32, 0, 0},
    {"an accelerator", "another", CL_DEVICE_TYPE_ACCELERATOR, 0, 0, 1, 0, 0, FUSED, BL_DEVICE_ACCELERATOR, 32, 0, 0},
};
static const driver *asked;

static cl_int answer(const void *value, size_t len, size_t size, void *out, size_t *needed)
{
    if (needed != NULL)
        *needed = len;
    if (out != NULL && size >= len)
        memcpy(out, value, len);
    return out != NULL && size < len ? CL_INVALID_VALUE : CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *out, size_t *needed)
{
    return answer(text, strlen(text) + 1, size, out, needed);
}

static cl_int platform_info(cl_platform_id id, cl_platform_info what, size_t size, void *out, size_t *needed)
{
    (void)id;
    return answer_text(what == CL_PLATFORM_NAME ? asked->platform : "OpenCL 1.2", size, out, needed);
}

static cl_int device_info(cl_device_id id, cl_device_info what, size_t size, void *out, size_t *needed)
{
    const struct {
        cl_device_info what;
        uint64_t value;
        size_t len;
    } rows[] = {
        {CL_DEVICE_TYPE, asked->says, 8},
        {CL_DEVICE_AVAILABLE, CL_TRUE, 4},
        {CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE, 4},
        {CL_DEVICE_ENDIAN_LITTLE, CL_TRUE, 4},
        {CL_DEVICE_GLOBAL_MEM_SIZE, 1 << 30, 8},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, 1 << 28, 8},
        {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024, 4},
        {CL_DEVICE_MAX_COMPUTE_UNITS, asked->type == BL_DEVICE_CPU ? UNITS : 4, 4},
        {CL_DEVICE_SINGLE_FP_CONFIG, asked->floats, 8},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, 1024, sizeof(size_t)},
        {CL_DEVICE_LOCAL_MEM_SIZE, 32 << 10, 8},
        {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, asked->cache, 8},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, asked->vector, 4},
        {WARP_SIZE_NV, asked->warp, 4},
        {WAVEFRONT_WIDTH_AMD, asked->wavefront, 4},
        {PREFERRED_MULTIPLE_30, asked->multiple, sizeof(size_t)},
    };

    (void)id;
    if (what == CL_DEVICE_NAME || what == CL_DRIVER_VERSION)
        return answer_text(asked->name, size, out, needed);
    if (what == CL_DEVICE_VERSION || what == CL_DEVICE_PROFILE)
        return answer_text(what == CL_DEVICE_PROFILE ? "FULL_PROFILE" : "OpenCL 1.2 of a test", size, out, needed);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].what == what && rows[i].value != 0)
            return answer(&rows[i].value, rows[i].len, size, out, needed);
    }
    return CL_INVALID_VALUE;
}

static void drivers_are_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        bl_cl_device dev = {.cl = {.GetDeviceInfo = device_info, .GetPlatformInfo = platform_info}};
        const bl_device_info *info = &dev.base.info;
        bl_text why = {0};

        asked = &drivers[i];
        if (!bl_cl_describe(&dev, &why))
            fail_msg("%s: %s", asked->name, bl_text_get(&why));
        if (info->type != asked->type || info->subgroup != asked->subgroup || info->vector_bits != asked->vector_bits)
            fail_msg("%s: type %d, %u in step, vectors of %u bits; expected %d, %u, %u", asked->name, (int)info->type,
                     info->subgroup, info->vector_bits, (int)asked->type, asked->subgroup, asked->vector_bits);
        if (info->type != BL_DEVICE_CPU && info->cache_bytes != asked->cache_bytes) /* the cache size of a CPU comes from the
                                                                                     * system */
            fail_msg("%s: %u bytes of cache, expected %u", asked->name, info->cache_bytes, asked->cache_bytes);
        if (dev.fuses != (asked->floats == FUSED))
            fail_msg("%s: %s", asked->name, dev.fuses ? "fuses" : "does not fuse");
        if (info->type == BL_DEVICE_CPU && info->units != (uint32_t)sysconf(_SC_NPROCESSORS_ONLN))
            fail_msg("%s: %u units", asked->name, info->units);
        bl_text_fini(&why);
        free(dev.identity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drivers_are_understood)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
