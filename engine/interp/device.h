/* The interpreter as a device. */
#ifndef BL_INTERP_DEVICE_H
#define BL_INTERP_DEVICE_H

#include "engine/device/device.h"

/* A bl_device.stand_in of |of|: it takes the kernels that were made for |of|, within the same limits, and its buffers. */
BL_NODISCARD bl_status bl_interp_stand_in(const bl_device *of, bl_device **out, bl_err *err);

#endif
