/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"

#include <time.h>

int64_t bl_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: the clock exists and the pointer is good */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct timespec bl_clock_after(clockid_t clock, int64_t ns)
{
    struct timespec until;

    clock_gettime(clock, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

void bl_clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes; /* none of these calls can fail: they only fill in a struct */

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}
