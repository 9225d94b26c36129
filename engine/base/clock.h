/* Time. */
#ifndef BL_BASE_CLOCK_H
#define BL_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Nanoseconds on a clock that never goes back. */
int64_t bl_clock_ns(void);
/* Nanoseconds since 1970, as the system has them: they may go back. */
int64_t bl_clock_wall_ns(void);
/* Processor time in nanoseconds: of this thread; of all threads of the process |pid| (0: the process has ended). */
int64_t bl_clock_thread_ns(void);
int64_t bl_clock_process_ns(pid_t pid);
/* Milliseconds between two readings of bl_clock_ns. */
static inline double bl_clock_ms(int64_t from, int64_t to)
{
    return (double)(to - from) * 1e-6;
}
/* |ns| from now on |clock| of the system: until when a timed wait lasts. */
struct timespec bl_clock_after(clockid_t clock, int64_t ns);
/* A condition variable whose timed waits last until a time of CLOCK_MONOTONIC; pthread_cond_destroy at the end. */
void bl_clock_cond_init(pthread_cond_t *cond);

#endif
