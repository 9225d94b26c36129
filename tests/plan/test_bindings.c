/* SPDX-License-Identifier: MIT */
/* On a device that allows a kernel few buffers, graphs are split into more kernels, and none is refused. */
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16, MOST_ENTRIES = 256 };

static void few_buffers_are_enough(void **state)
{
    static const char *const files[] = {"loops", "training"};
    static harness_result results[MOST_ENTRIES];
    bl_device *devices[MOST_DEVICES], *interp = NULL;
    uint32_t count = harness_open(MOST_DEVICES, devices);
    int entries = 0;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        interp = strcmp(devices[i]->info.id, "interp:0") == 0 ? devices[i] : interp;
    assert_non_null(interp);
    interp->info.max_bindings = BL_FEWEST_BINDINGS;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        harness_options options = {.seed = 7, .spec = 2};
        char path[64], *text = NULL;
        snprintf(path, sizeof path, "tests/cases/%s.json", files[i]);
        text = harness_read(path);
        assert_non_null(text);
        int n = harness_run(interp, text, &options, MOST_ENTRIES, results);
        for (int k = 0; k < n; k++, entries++) {
            if (results[k].err.status != BL_OK || results[k].worst > 1)
                fail_msg("%s, %s: %s %s, worst %g", files[i], results[k].name, bl_status_name(results[k].err.status),
                         results[k].err.text, results[k].worst);
        }
        free(text);
    }
    assert_true(entries > 10);
    for (uint32_t i = 0; i < count; i++)
        bl_device_destroy(devices[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_buffers_are_enough)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
