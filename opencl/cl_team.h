/* A team of threads that runs the work-groups of a CPU device's kernels by calling their machine code.
 *
 * A launch through the driver's queue costs about 10 us on PoCL: the driver allocates a command, wakes its threads and waits for
 * them. Decoding one token of a small language model has 300 launches that depend on each other, and takes longer for launches
 * than for arithmetic. In a team the threads stay awake from the first launch of a submission to the last, take groups of the
 * current launch from counters, and a launch costs less than a microsecond.
 * Thread: one submitter at a time. */
#ifndef BL_OPENCL_CL_TEAM_H
#define BL_OPENCL_CL_TEAM_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bl_cl_team bl_cl_team;

/* A function of a program: one work-group of one work-item. |buffers|: addresses; |memory|: local memory, or NULL. */
typedef void bl_cl_function(const uint64_t *buffers, const int32_t *scalars, void *memory, int32_t g0, int32_t g1, int32_t g2);

/* A launch, ready to run. */
typedef struct bl_cl_call {
    bl_cl_function *function;
    const uint64_t *buffers;
    const int32_t *scalars;
    size_t local_bytes; /* local memory of a group */
    uint32_t groups[3]; /* with a 0 the call does nothing; their product is below 2^63 */
} bl_cl_call;

/* A team of |threads|, the submitter included. */
bl_status bl_cl_team_create(uint32_t threads, bl_cl_team **out, bl_err *err);
void bl_cl_team_destroy(bl_cl_team *team); /* NULL is allowed */
/* Run the calls in order, each after the end of the previous one; |alone|: on this thread only. With |nanoseconds|, one entry per
 * call receives its time. BL_ENOMEM: no local memory; nothing ran then. */
bl_status bl_cl_team_run(bl_cl_team *team, bool alone, uint32_t n, const bl_cl_call *calls, uint64_t *nanoseconds, bl_err *err);

#endif
