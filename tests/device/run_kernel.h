/* Runs one kernel once, for tests of instruction lists. */
#ifndef BL_TESTS_DEVICE_RUN_KERNEL_H
#define BL_TESTS_DEVICE_RUN_KERNEL_H

#include "engine/device/device.h"
#include "engine/lower/linear.h"

/* Renders |linear| for the device, runs it over |groups| with |buffers| (linear->nbuffers) and |scalars| (linear->nscalars;
 * NULL if none), and waits. */
BL_NODISCARD bl_status test_run_kernel(bl_device *dev, const bl_linear *linear, const uint32_t groups[3],
                                       bl_buffer *const *buffers, const int32_t *scalars, bl_err *err);

#endif
