/* Runs one test on each device of the machine. */
#ifndef BL_TESTS_ON_DEVICES_H
#define BL_TESTS_ON_DEVICES_H

#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16 };

/* Runs |each| with the bl_device as its initial state on every device, or on the device BEAMLINE_TEST_DEVICE; then the |n|
 * tests of |more|.  Returns the exit status of main; a machine without devices is a failure. */
int on_devices(const char *group, CMUnitTestFunction each, size_t n, const struct CMUnitTest *more);

#endif
