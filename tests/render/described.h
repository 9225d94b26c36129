/* Devices that this machine need not have, with the descriptions of their drivers.  Kernels are chosen and rendered for them,
 * but not run; the texts are equal on all machines. */
#ifndef BL_TESTS_RENDER_DESCRIBED_H
#define BL_TESTS_RENDER_DESCRIBED_H

#include "engine/device/device.h"

/* Returns a device of the null back end with the description |id| ("as:h100"), or NULL if unknown. */
bl_device *described_open(const char *id);
/* The id of description |i|, or NULL after the last. */
const char *described_id(int i);

#endif
