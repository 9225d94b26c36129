/* SPDX-License-Identifier: MIT */
#include "tests/plan/on_devices.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OTHERS = 8 };

int on_devices(const char *group, CMUnitTestFunction each, size_t n, const struct CMUnitTest *more)
{
    static struct CMUnitTest tests[MOST_DEVICES + MOST_OTHERS];
    bl_device *devices[MOST_DEVICES];
    uint32_t ndevices = harness_open(MOST_DEVICES, devices);
    const char *only = getenv("BEAMLINE_TEST_DEVICE");
    size_t count = 0, on = 0;
    int failed = 0;

    for (uint32_t d = 0; d < ndevices; d++) {
        if (only == NULL || strcmp(only, devices[d]->info.id) == 0)
            tests[count++] = (struct CMUnitTest){.name = devices[d]->info.id, .test_func = each, .initial_state = devices[d]};
    }
    on = count;
    for (size_t i = 0; i < n && i < MOST_OTHERS; i++)
        tests[count++] = more[i];
    if (on == 0)
        print_error("no device to test\n");
    /* cmocka's macro needs an array of known size; this is its expansion */
    failed = _cmocka_run_group_tests(group, tests, count, NULL, NULL);
    for (uint32_t d = 0; d < ndevices; d++)
        bl_device_destroy(devices[d]);
    return failed != 0 || on == 0 || n > MOST_OTHERS;
}
