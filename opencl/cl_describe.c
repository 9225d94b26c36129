/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Queries of extensions and of OpenCL 3.0 for the number of work-items that run in lockstep. A driver without a query fails
 * the query. Values: cl_ext.h (NVIDIA, AMD) and cl.h of 3.0. */
enum { WARP_SIZE_NV = 0x4003, WAVEFRONT_WIDTH_AMD = 0x4043, PREFERRED_MULTIPLE_30 = 0x1067 };

static uint64_t query_u64(const bl_cl_device *dev, cl_device_info what)
{
    uint64_t value = 0;

    return dev->cl.GetDeviceInfo(dev->id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static uint32_t query_u32(const bl_cl_device *dev, cl_device_info what)
{
    uint32_t value = 0;

    return dev->cl.GetDeviceInfo(dev->id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static size_t query_size(const bl_cl_device *dev, cl_device_info what)
{
    size_t value = 0;

    return dev->cl.GetDeviceInfo(dev->id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* A string of the device, or of its platform; empty if the driver has no such string.  The caller frees the string; NULL if
 * out of memory. */
static char *query_text(const bl_cl_device *dev, bool platform, cl_uint what)
{
    size_t len = 0;
    char *text;
    cl_int rc = platform ? dev->cl.GetPlatformInfo(dev->platform, what, 0, NULL, &len)
                         : dev->cl.GetDeviceInfo(dev->id, what, 0, NULL, &len);

    if (rc != CL_SUCCESS)
        len = 0;
    text = calloc(1, len + 1);
    if (text == NULL || len == 0)
        return text;
    rc = platform ? dev->cl.GetPlatformInfo(dev->platform, what, len, text, NULL)
                  : dev->cl.GetDeviceInfo(dev->id, what, len, text, NULL);
    if (rc != CL_SUCCESS)
        text[0] = '\0';
    return text;
}

static uint32_t clamp_u32(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* The reason why the device cannot be used, or NULL. */
static const char *unusable(const bl_cl_device *dev, cl_device_type type, const char *version, const char *profile)
{
    unsigned major = 0, minor = 0;

    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major * 10 + minor < 12)
        return "OpenCL is older than 1.2";
    if ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR)) == 0)
        return "a custom device compiles no programs";
    if (strcmp(profile, "FULL_PROFILE") != 0)
        return "the embedded profile has no 64-bit integers";
    if (!query_u32(dev, CL_DEVICE_AVAILABLE))
        return "the driver reports the device as unavailable";
    if (!query_u32(dev, CL_DEVICE_COMPILER_AVAILABLE))
        return "the driver has no compiler";
    if (!query_u32(dev, CL_DEVICE_ENDIAN_LITTLE))
        return "the device is big-endian";
    return NULL;
}

/* Some drivers vectorise over the work-items of a group and make no machine vectors of vector types in the source (rusticl
 * with llvmpipe). Describe such a device so that kernels have groups of work-items. */
static void describe_items(bl_cl_device *dev, bl_device_info *info)
{
    size_t multiple = query_size(dev, PREFERRED_MULTIPLE_30);

    info->subgroup = multiple > 1 ? clamp_u32(multiple) : 8; /* the floats of a 256-bit vector */
    info->vector_bits = 128; /* the value of lavapipe, which has the same compiler; vulkan/vk_choose.c gives the reasons */
    info->registers = 68;
}

static void cl_describe_describe_cpu(bl_cl_device *dev, bl_device_info *info)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (cores > 0 && info->units > (uint32_t)cores) /* llvmpipe always reports 8 units */
        info->units = (uint32_t)cores;
    info->subgroup = 1;
    info->serial_groups = true;
    info->mega_ops = 10000 * info->units;
    info->mega_bytes = 5000 * info->units;
    info->vector_bits = query_u32(dev, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) * 32;
    info->registers = info->vector_bits >= 512 ? 32 : 16; /* a CPU with AVX-512 has twice the number of registers */
    if (info->vector_bits <= 32)
        describe_items(dev, info);
    info->calls_kernels = info->subgroup == 1;
    if (pages > 0 && page > 0) /* PoCL reports the memory of one NUMA node */
        info->memory = (uint64_t)pages * (uint64_t)page;
    /* use the size that the driver reports; the third level of sysconf is the level of a virtual machine's host */
    info->last_cache_bytes = info->cache_bytes;
    if (l2 > 0)
        info->cache_bytes = clamp_u32((uint64_t)l2);
    info->host_memory = query_u32(dev, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    for (int i = 0; i < 3; i++)
        info->max_groups[i] = INT32_MAX;
}

static void describe_gpu(bl_cl_device *dev, bl_device_info *info)
{
    static const cl_device_info step[] = {WARP_SIZE_NV, WAVEFRONT_WIDTH_AMD};

    info->mega_ops = 1000000;
    info->mega_bytes = 200000;
    info->registers = 128; /* registers of 32 bits; a work-item may have 255, but then fewer work-items run at once */
    if (info->units > 1 && info->cache_bytes / info->units >= 4096)
        info->cache_bytes /= info->units; /* NVIDIA reports the sum over all multiprocessors */
    for (size_t i = 0; i < sizeof step / sizeof step[0] && info->subgroup == 0; i++)
        info->subgroup = query_u32(dev, step[i]);
    if (info->subgroup == 0)
        info->subgroup = clamp_u32(query_size(dev, PREFERRED_MULTIPLE_30));
    if (info->subgroup <= 1) /* drivers report 1 if every multiple is equally good; 1 would mean a CPU here */
        info->subgroup = 32;
    info->max_groups[0] = INT32_MAX; /* CUDA's grid limit, the smallest known (Programming Guide, technical specifications) */
    info->max_groups[1] = info->max_groups[2] = 65535;
}

static void describe_common(bl_cl_device *dev, cl_device_type type, bl_device_info *info)
{
    const uint64_t exact =
        CL_FP_FMA | CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    uint32_t align_bits = query_u32(dev, CL_DEVICE_MEM_BASE_ADDR_ALIGN);

    /* A simulator (Oclgrind) reports all three types. It is described as a GPU, since work-groups of a GPU let the simulator
     * check more than the groups of a CPU, which the compiler makes single work-items. */
    info->type = (type & CL_DEVICE_TYPE_GPU)   ? BL_DEVICE_GPU
                 : (type & CL_DEVICE_TYPE_CPU) ? BL_DEVICE_CPU
                                               : BL_DEVICE_ACCELERATOR;
    info->dialect = BL_DIALECT_OPENCL;
    info->converts_half = true;
    info->launch_ns = 500;                                                    /* time measured on PoCL */
    info->features = BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16; /* features of core OpenCL since 1.1 */
    if (query_u64(dev, CL_DEVICE_DOUBLE_FP_CONFIG) != 0)
        info->features |= BL_FEATURE_F64;
    if ((query_u64(dev, CL_DEVICE_SINGLE_FP_CONFIG) & exact) == exact && info->type == BL_DEVICE_CPU)
        info->features |= BL_FEATURE_EXACT;
    info->memory = query_u64(dev, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc = query_u64(dev, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->max_binding = info->max_alloc;
    info->alignment = align_bits >= 8 ? align_bits / 8 : 1;
    info->units = query_u32(dev, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->cache_bytes = clamp_u32(query_u64(dev, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE));
    info->max_local = clamp_u32(query_size(dev, CL_DEVICE_MAX_WORK_GROUP_SIZE));
    info->local_bytes = clamp_u32(query_u64(dev, CL_DEVICE_LOCAL_MEM_SIZE));
    if (info->type == BL_DEVICE_CPU)
        cl_describe_describe_cpu(dev, info);
    else
        describe_gpu(dev, info);
}

enum { NAME, VERSION, PROFILE, DRIVER, PLATFORM, PLATFORM_VERSION, TEXTS };

static bool cl_describe_describe(bl_cl_device *dev, char *const texts[TEXTS], bl_text *why)
{
    bl_device_info *info = &dev->base.info;
    cl_device_type type = query_u64(dev, CL_DEVICE_TYPE);
    const char *reason = unusable(dev, type, texts[VERSION], texts[PROFILE]);
    bl_text identity = {0};

    snprintf(info->name, sizeof info->name, "%s", texts[NAME]);
    snprintf(info->driver, sizeof info->driver, "%s %s", texts[PLATFORM], texts[DRIVER]);
    if (reason != NULL) {
        bl_text_printf(why, "%s: %s\n", info->name[0] != '\0' ? info->name : "opencl", reason);
        return false;
    }
    describe_common(dev, type, info);
    dev->fuses = (query_u64(dev, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_FMA) != 0;
    dev->coherent = strcmp(texts[PLATFORM], "Portable Computing Language") == 0;
    for (int i = 0; i < TEXTS; i++)
        bl_text_printf(&identity, "%s\n", texts[i]);
    if (identity.failed) {
        bl_text_fini(&identity);
        bl_text_printf(why, "%s: out of host memory\n", info->name);
        return false;
    }
    dev->identity = bl_text_take(&identity);
    return true;
}

bool bl_cl_describe(bl_cl_device *dev, bl_text *why)
{
    char *texts[TEXTS] = {
        [NAME] = query_text(dev, false, CL_DEVICE_NAME),       [VERSION] = query_text(dev, false, CL_DEVICE_VERSION),
        [PROFILE] = query_text(dev, false, CL_DEVICE_PROFILE), [DRIVER] = query_text(dev, false, CL_DRIVER_VERSION),
        [PLATFORM] = query_text(dev, true, CL_PLATFORM_NAME),  [PLATFORM_VERSION] = query_text(dev, true, CL_PLATFORM_VERSION),
    };
    bool whole = true, usable = false;

    for (int i = 0; i < TEXTS; i++)
        whole = whole && texts[i] != NULL;
    if (whole)
        usable = cl_describe_describe(dev, texts, why);
    else
        bl_text_puts(why, "opencl: out of host memory\n");
    for (int i = 0; i < TEXTS; i++)
        free(texts[i]);
    return usable;
}
