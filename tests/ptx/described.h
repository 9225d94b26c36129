/* Devices that nobody here has, as their drivers would describe them: kernels are chosen and written for them, and not run. */
#ifndef BL_TESTS_PTX_DESCRIBED_H
#define BL_TESTS_PTX_DESCRIBED_H

#include "engine/device/device.h"

/* A device of the null back end with the description |id| ("as:h100"), or NULL where there is none. */
bl_device *described_open(const char *id);

#endif
