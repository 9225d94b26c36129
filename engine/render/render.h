/* A linear kernel as text: one walker (render.c) and a dialect row per target (opencl.c, glsl.c).  BL_DIALECT_LINEAR is the
 * linear kernel's own text. */
#ifndef BL_RENDER_RENDER_H
#define BL_RENDER_RENDER_H

#include "engine/device/device.h"
#include "engine/lower/linear.h"

/* Append the source of |linear| for a device with these properties.  BL_EUNSUPPORTED names what the device lacks. */
BL_NODISCARD bl_status bl_render(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err);

/* What a device is to know of |linear|, whose text that is; all of it stays the caller's.
 * Where a group is one work-item, OpenCL C is written as a function of the kernel's parameters (buffers, then scalars), of local
 * memory if it has any (local_bytes of it, at a multiple of 128), and of the three numbers of its group.  Then a program of many
 * kernels has a single one, which calls them (opencl/program.c): PoCL compiles each kernel three times over, and links each. */
bl_kernel_source bl_render_source(const bl_linear *linear, const bl_device_info *info, const char *text, size_t len);

#endif
