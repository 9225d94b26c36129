/* Kernels written down in tests: what bl_linear_print prints, read back. */
#ifndef BL_TESTS_LOWER_READ_LINEAR_H
#define BL_TESTS_LOWER_READ_LINEAR_H

#include "engine/lower/linear.h"

/* The kernel that |text| says, checked (bl_linear_check).  What is no kernel's text is BL_EINVAL and names the line. */
BL_NODISCARD bl_status read_linear(bl_arena *arena, const char *text, size_t len, bl_linear **out, bl_err *err);

#endif
