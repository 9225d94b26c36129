/* SPDX-License-Identifier: MIT */
#include "tests/render/described.h"

#include <string.h>

enum { ALL = BL_FEATURE_F64 | BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16 };

static const bl_device_info descriptions[] = {
    {
        /* An x86 processor with AVX2 in PoCL 3.1: an AMD EPYC. */
        .id = "as:avx2",
        .name = "as x86 with AVX2",
        .driver = "described 1",
        .type = BL_DEVICE_CPU,
        .dialect = BL_DIALECT_OPENCL,
        .features = ALL | BL_FEATURE_EXACT,
        .memory = 24ULL << 30,
        .max_alloc = 8ULL << 30,
        .max_binding = 8ULL << 30,
        .alignment = 128,
        .units = 2,
        .vector_bits = 256,
        .registers = 16,
        .cache_bytes = 512 << 10,
        .last_cache_bytes = 32 << 20,
        .subgroup = 1,
        .serial_groups = true,
        .converts_half = true,
        .calls_kernels = true,
        .mega_ops = 20000,
        .mega_bytes = 10000,
        .launch_ns = 500,
        .max_local = 4096,
        .local_bytes = 512 << 10,
        .max_groups = {INT32_MAX, INT32_MAX, INT32_MAX},
        .host_memory = true,
        .brief_ns = 20000,
    },
    {
        /* An x86 processor with AVX-512 and AMX in PoCL 3.1: an Intel Xeon of the fourth generation.  opencl/cl_units.c has the
         * units. */
        .id = "as:amx",
        .name = "as x86 with AVX-512 and AMX",
        .driver = "described 1",
        .type = BL_DEVICE_CPU,
        .dialect = BL_DIALECT_OPENCL,
        .features = ALL | BL_FEATURE_EXACT | BL_FEATURE_EXACT_EXP,
        .memory = 64ULL << 30,
        .max_alloc = 16ULL << 30,
        .max_binding = 16ULL << 30,
        .alignment = 128,
        .units = 16,
        .vector_bits = 512,
        .registers = 32,
        .cache_bytes = 2 << 20,
        .last_cache_bytes = 105 << 20,
        .subgroup = 1,
        .serial_groups = true,
        .dot4 = BL_DOT4_VNNI,
        .masks = true,
        .converts_half = true,
        .calls_kernels = true,
        .fragments = 8,
        .mega_ops = 160000,
        .mega_bytes = 80000,
        .launch_ns = 500,
        .max_local = 4096,
        .local_bytes = 2 << 20,
        .max_groups = {INT32_MAX, INT32_MAX, INT32_MAX},
        .nmatrix = 4,
        .matrix = {{BL_UNIT_AMX, BL_UNIT_BF16, 16, 16, 32, 1, 2, 16},
                   {BL_UNIT_AMX, BL_UNIT_I8, 16, 16, 64, 1, 4, 32},
                   {BL_UNIT_AMX, BL_UNIT_U8, 16, 16, 64, 1, 4, 32},
                   {BL_UNIT_DOT, BL_UNIT_BF16, 1, 16, 2, 1, 2, 2}},
        .host_memory = true,
        .brief_ns = 20000,
    },
    {
        /* lavapipe of Mesa 22.3 on a processor with AVX2: Vulkan without a GPU. */
        .id = "as:lavapipe",
        .name = "as llvmpipe",
        .driver = "described 1",
        .type = BL_DEVICE_CPU,
        .dialect = BL_DIALECT_GLSL,
        .features = ALL,
        .memory = 2ULL << 30,
        .max_alloc = 2ULL << 30,
        .max_binding = 128ULL << 20,
        .alignment = 16,
        .units = 2,
        .vector_bits = 128,
        .max_lanes = 4,
        .registers = 68,
        .cache_bytes = 512 << 10,
        .subgroup = 8,
        .serial_groups = true,
        .mega_ops = 20000,
        .mega_bytes = 10000,
        .launch_ns = 500,
        .max_local = 1024,
        .local_bytes = 32 << 10,
        .max_groups = {65535, 65535, 65535},
        .max_bindings = 32,
        .max_turns = 65535,
        .host_memory = true,
    },
    {
        /* An NVIDIA H100 (SXM5) with OpenCL 3.0: the driver's figures, as far as known for GPUs of this kind. */
        .id = "as:h100",
        .name = "as NVIDIA H100",
        .driver = "described 1",
        .type = BL_DEVICE_GPU,
        .dialect = BL_DIALECT_OPENCL,
        .features = ALL,
        .memory = 80ULL << 30,
        .max_alloc = 20ULL << 30, /* a quarter of the memory */
        .max_binding = 20ULL << 30,
        .alignment = 512, /* CL_DEVICE_MEM_BASE_ADDR_ALIGN is 4096 bits */
        .units = 132,
        .registers = 128,
        .cache_bytes = 32 << 10, /* of a multiprocessor; the driver reports the sum */
        .subgroup = 32,
        .dot4 = BL_DOT4_DP4A,
        .converts_half = true,
        .mega_ops = 1000000,
        .mega_bytes = 200000,
        .launch_ns = 500,
        .max_local = 1024,
        .local_bytes = 48 << 10,
        .max_groups = {INT32_MAX, 65535, 65535},
        .nmatrix = 3,
        .matrix = {{BL_UNIT_MMA, BL_UNIT_F16, 16, 8, 16, 32, 1, 0},
                   {BL_UNIT_MMA, BL_UNIT_BF16, 16, 8, 16, 32, 1, 0},
                   {BL_UNIT_MMA, BL_UNIT_I8, 16, 8, 32, 32, 1, 0}},
    },
    {
        /* An AMD GPU of the third RDNA generation with Vulkan: the description of RADV in Mesa 22.3 for GFX1100 without the
         * GPU, with the cooperative matrices of later versions. */
        .id = "as:gfx1100",
        .name = "as AMD GFX1100",
        .driver = "described 1",
        .type = BL_DEVICE_GPU,
        .dialect = BL_DIALECT_GLSL,
        .features = ALL,
        .memory = 16ULL << 30,
        .max_alloc = 4294967292,
        .max_binding = 4294967295,
        .alignment = 4,
        .units = 32,
        .max_lanes = 4,
        .registers = 128,
        .subgroup = 64,
        .dot4 = BL_DOT4_SPIRV,
        .mega_ops = 1000000,
        .mega_bytes = 200000,
        .launch_ns = 500,
        .max_local = 1024,
        .local_bytes = 64 << 10,
        .max_groups = {65535, 65535, 65535},
        .max_bindings = 32,
        .nmatrix = 2,
        .matrix = {{BL_UNIT_COOPERATIVE, BL_UNIT_F16, 16, 16, 16, 64, 1, 0},
                   {BL_UNIT_COOPERATIVE, BL_UNIT_I8, 16, 16, 16, 64, 1, 0}},
    },
};

enum { COUNT = (int)(sizeof descriptions / sizeof descriptions[0]) };

const char *described_id(int i)
{
    return i < COUNT ? descriptions[i].id : NULL;
}

bl_device *described_open(const char *id)
{
    bl_device *dev = NULL;
    bl_text why = {0};
    bl_err err = {0};
    uint32_t n = 0;
    int which = 0;

    while (which < COUNT && strcmp(id, descriptions[which].id) != 0)
        which++;
    if (which == COUNT)
        return NULL;
    if (bl_backend_null.open(1, &dev, &n, &why, &err) != BL_OK || n != 1)
        dev = NULL;
    bl_text_fini(&why);
    if (dev != NULL)
        dev->info = descriptions[which];
    return dev;
}
