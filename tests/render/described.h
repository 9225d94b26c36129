/* Devices that this machine need not have, with the descriptions that their drivers give: kernels are chosen and rendered for
 * them, and not run.  The texts of these kernels are the same on every machine. */
#ifndef BL_TESTS_RENDER_DESCRIBED_H
#define BL_TESTS_RENDER_DESCRIBED_H

#include "engine/device/device.h"

/* A device of the null back end with the description |id| ("as:h100"), or NULL where there is none. */
bl_device *described_open(const char *id);
/* The id of description |i|, or NULL behind the last. */
const char *described_id(int i);

#endif
