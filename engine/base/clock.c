/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now = {0};

    clock_gettime(clock, &now); /* fails for the clock of a process that has ended */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t bl_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t bl_clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t bl_clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t bl_clock_process_ns(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) == 0 ? read_clock(clock) : 0;
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
