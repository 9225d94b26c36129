/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

typedef struct code_row {
    cl_int code;
    bl_status status;
    bool lost;
    const char *name;
} code_row;

static const code_row codes[] = {
#define BL_CL_CODE(code, status, lost) {code, BL_##status, lost, #code},
#include "opencl/codes.def"
#undef BL_CL_CODE
};

/* A driver's own code (NVIDIA's -9999 is an illegal access). The device counts as lost after such a code. */
static const code_row unknown = {0, BL_EDEVICE, true, NULL};

static const code_row *find_code(cl_int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].code == code)
            return &codes[i];
    }
    return &unknown;
}

const char *bl_cl_code_name(cl_int code)
{
    const code_row *row = find_code(code);

    return row->name != NULL ? row->name : "unknown error code";
}

bl_status bl_cl_fail(cl_int code, const char *what, bl_err *err)
{
    return bl_fail(err, find_code(code)->status, "opencl: %s failed: %s (%d)", what, bl_cl_code_name(code), (int)code);
}

bl_status bl_cl_fail_queue(bl_cl_device *dev, cl_int code, const char *what, bl_err *err)
{
    if (find_code(code)->lost)
        atomic_store(&dev->base.lost, true);
    return bl_cl_fail(code, what, err);
}
