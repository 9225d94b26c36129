/* SPDX-License-Identifier: MIT */
#include "tests/ptx/described.h"

#include <string.h>

/* What opencl/describe.c and opencl/units.c would make of NVIDIA's OpenCL 3.0 for an H100 (SXM5): the driver's figures, as far as
 * they are known for its like. */
static const bl_device_info h100 = {
    .id = "as:h100",
    .name = "as NVIDIA H100",
    .driver = "described 1",
    .type = BL_DEVICE_GPU,
    .dialect = BL_DIALECT_OPENCL,
    .features = BL_FEATURE_F64 | BL_FEATURE_I64 | BL_FEATURE_STORE8 | BL_FEATURE_STORE16,
    .memory = 80ULL << 30,
    .max_alloc = 20ULL << 30, /* a quarter of it */
    .max_binding = 20ULL << 30,
    .alignment = 512, /* CL_DEVICE_MEM_BASE_ADDR_ALIGN is 4096 bits */
    .units = 132,
    .registers = 128,
    .cache_bytes = 32 << 10, /* of a multiprocessor: the driver gives the sum */
    .subgroup = 32,
    .max_local = 1024,
    .local_bytes = 48 << 10,
    .max_groups = {INT32_MAX, 65535, 65535},
    .nmatrix = 3,
    .matrix = {{BL_UNIT_MMA, BL_UNIT_F16, 16, 8, 16, 32, 1, 0},
               {BL_UNIT_MMA, BL_UNIT_BF16, 16, 8, 16, 32, 1, 0},
               {BL_UNIT_MMA, BL_UNIT_I8, 16, 8, 32, 32, 1, 0}},
};

bl_device *described_open(const char *id)
{
    bl_device *dev = NULL;
    bl_text why = {0};
    bl_err err = {0};
    uint32_t n = 0;

    if (strcmp(id, h100.id) != 0)
        return NULL;
    if (bl_backend_null.open(1, &dev, &n, &why, &err) != BL_OK || n != 1)
        dev = NULL;
    bl_text_fini(&why);
    if (dev != NULL)
        dev->info = h100;
    return dev;
}
