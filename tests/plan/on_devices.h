/* A test program that runs one test on each device there is. */
#ifndef BL_TESTS_ON_DEVICES_H
#define BL_TESTS_ON_DEVICES_H

#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16 };

/* |each|, whose initial state is the bl_device, on every device, or on the one that BEAMLINE_TEST_DEVICE names; then the |n|
 * tests of |more|.  What main returns: where there is no device that is a failure. */
int on_devices(const char *group, CMUnitTestFunction each, size_t n, const struct CMUnitTest *more);

#endif
