/* Reads kernels in the text form of bl_linear_print, for tests. */
#ifndef BL_TESTS_LOWER_READ_LINEAR_H
#define BL_TESTS_LOWER_READ_LINEAR_H

#include "engine/lower/linear.h"

/* Parses a kernel and checks it with bl_linear_check.  BL_EINVAL with the line for any other text. */
BL_NODISCARD bl_status read_linear(bl_arena *arena, const char *text, size_t len, bl_linear **out, bl_err *err);

#endif
