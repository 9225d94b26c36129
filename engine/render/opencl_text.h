/* The parts of the OpenCL dialect: opencl.c writes the statements of a kernel, opencl_begin.c all text before them. */
#ifndef BL_RENDER_OPENCL_TEXT_H
#define BL_RENDER_OPENCL_TEXT_H

#include "engine/render/dialect.h"

/* By dtype: the type of a value, and of an element in a buffer. */
extern const char *const opencl_computed_type[BL_DTYPE_COUNT];
const char *opencl_stored_type(bl_dtype dtype);
/* Does a vector have the same type in memory and in registers? */
bool opencl_stores_as_computed(bl_dtype dtype);
/* The element type of a vector that is loaded or stored as a whole; a float16 is moved as its 16 bits. */
const char *opencl_moved_type(bl_dtype dtype);

/* dialect.begin */
bl_status opencl_begin(const bl_linear *linear, const bl_device_info *info, bool function, const cold_kind *cold, bl_text *out,
                       bl_err *err);

#endif
