/* SPDX-License-Identifier: MIT */
/* Preloaded into the server: once the file $SLOW_CLOCK exists, the monotonic clock runs four times as fast, so that all work
 * seems to take four times as long. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    static int64_t since; /* a race may set it twice, to about the same value */
    const char *trigger = getenv("SLOW_CLOCK");
    int64_t ns = 0;
    int status = 0;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    status = real(clock, now);
    if (status != 0 || clock != CLOCK_MONOTONIC || trigger == NULL || (since == 0 && access(trigger, F_OK) != 0))
        return status;
    ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec;
    if (since == 0)
        since = ns;
    ns += 3 * (ns - since);
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}
