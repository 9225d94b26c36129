/* Clocks and timed waits. */
#ifndef BL_BASE_CLOCK_H
#define BL_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Monotonic time in nanoseconds. */
int64_t bl_clock_ns(void);
/* Wall-clock time: nanoseconds since 1970. The system may set the clock back. */
int64_t bl_clock_wall_ns(void);
/* Processor time in nanoseconds of the calling thread, and of all threads of process |pid|; 0 if that process has ended. */
int64_t bl_clock_thread_ns(void);
int64_t bl_clock_process_ns(pid_t pid);
/* Milliseconds between two readings of bl_clock_ns. */
static inline double bl_clock_ms(int64_t from, int64_t to)
{
    return (double)(to - from) * 1e-6;
}
/* The time |ns| nanoseconds from now on |clock|, as pthread_cond_timedwait expects it. */
struct timespec bl_clock_after(clockid_t clock, int64_t ns);
/* Initialise a condition variable whose timed waits use CLOCK_MONOTONIC. The caller destroys it with pthread_cond_destroy. */
void bl_clock_cond_init(pthread_cond_t *cond);

#endif
