/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"

#include <time.h>

int64_t bl_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: the clock exists and the pointer is good */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
