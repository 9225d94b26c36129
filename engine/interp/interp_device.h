/* The interpreter as a device: it runs linear kernels on the host without a driver. */
#ifndef BL_INTERP_DEVICE_H
#define BL_INTERP_DEVICE_H

#include "engine/device/device.h"

/* Make a device that may be the bl_device.stand_in of |of|: it runs the kernels that were compiled for |of|, under the limits
 * of |of|, on the buffers of |of|. */
BL_NODISCARD bl_status bl_interp_stand_in(const bl_device *of, bl_device **out, bl_err *err);

#endif
