/* Time. */
#ifndef BL_BASE_CLOCK_H
#define BL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds on a clock that never goes back. */
int64_t bl_clock_ns(void);
/* Milliseconds between two readings of bl_clock_ns. */
static inline double bl_clock_ms(int64_t from, int64_t to)
{
    return (double)(to - from) * 1e-6;
}
/* |ns| from now on |clock| of the system: until when a timed wait lasts. */
struct timespec bl_clock_after(clockid_t clock, int64_t ns);

#endif
