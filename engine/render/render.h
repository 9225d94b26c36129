/* Renders a linear kernel as source text: one walker (render.c) and one dialect per target language (opencl.c, glsl.c).
 * BL_DIALECT_LINEAR is the text of the linear kernel itself. */
#ifndef BL_RENDER_H
#define BL_RENDER_H

#include "engine/device/device.h"
#include "engine/lower/linear.h"

/* Append the source of |linear| to |out| for a device with the properties |info|. BL_EUNSUPPORTED names the missing feature
 * of the device. */
BL_NODISCARD bl_status bl_render(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err);

/* Describe |linear| and its source |text| for bl_kernel_create; all memory stays the caller's. If a group is one work-item,
 * OpenCL C text is a function rather than a kernel. The parameters of the function are the parameters of the kernel
 * (buffers, then scalars), its local memory if it has any (local_bytes, aligned to 128 bytes), and the three coordinates of
 * its group. A program of many functions then needs one kernel, which calls all functions (opencl/cl_program.c): PoCL
 * compiles each kernel three times and links each kernel. */
bl_kernel_source bl_render_source(const bl_linear *linear, const bl_device_info *info, const char *text, size_t len);

#endif
