/* A linear kernel as text: one walker (render.c) and a dialect row per target (opencl.c, glsl.c).  BL_DIALECT_LINEAR is the
 * linear kernel's own text. */
#ifndef BL_RENDER_RENDER_H
#define BL_RENDER_RENDER_H

#include "engine/device/device.h"
#include "engine/lower/linear.h"

/* Append the source of |linear| for a device with these properties.  BL_EUNSUPPORTED names what the device lacks. */
BL_NODISCARD bl_status bl_render(const bl_linear *linear, const bl_device_info *info, bl_text *out, bl_err *err);

#endif
