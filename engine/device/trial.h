/* Trials: different kernels that do the same work, timed on one device. A search measures candidates as trials. A search
 * runs trials in a child process (child.h), so that a kernel that crashes or hangs its driver costs a trial and not the
 * server. */
#ifndef BL_DEVICE_TRIAL_H
#define BL_DEVICE_TRIAL_H

#include "engine/base/halt.h"
#include "engine/device/device.h"

enum { BL_TRIAL_LAUNCHES = 8, BL_TRIAL_BUFFERS = 40 };

/* The initial contents of a buffer, which also determine how results are compared. */
typedef enum bl_trial_fill {
    BL_TRIAL_INTEGERS, /* zeros, so that an index read from the buffer is in range; results are compared byte by byte */
    BL_TRIAL_F16,      /* random numbers in [-1, 1), the same for every trial */
    BL_TRIAL_BF16,
    BL_TRIAL_F32,
    BL_TRIAL_F64
} bl_trial_fill;

typedef struct bl_trial_buffer {
    size_t bytes;
    bl_trial_fill fill;
    bool result; /* the buffer is an output: it is compared with the output of the first trial */
} bl_trial_buffer;

typedef struct bl_trial_launch {
    bl_kernel_source source; /* |linear| may be NULL on a device that compiles text */
    uint16_t slot[BL_MAX_BINDINGS];
    int32_t scalar[BL_MAX_SCALARS];
    uint32_t groups[3];
} bl_trial_launch;

/* One candidate: kernels that are launched in order. */
typedef struct bl_trial {
    int nlaunches;
    bl_trial_launch launch[BL_TRIAL_LAUNCHES];
    /* Results of the trial: */
    bl_status status; /* BL_OK, or the reason for no time: the trial did not compile, crashed or hung */
    uint64_t ns;      /* device time of all launches together: the minimum of several runs */
    /* largest |result - first trial's result|, divided by the largest |first trial's result|; for integers 0 (equal) or 1 */
    double difference;
    char why[160];
} bl_trial;

typedef struct bl_trials {
    int nbuffers;
    bl_trial_buffer buffer[BL_TRIAL_BUFFERS];
    int ntrials;
    bl_trial *trial;    /* the first trial is the reference for the results and for the time limits of the other trials */
    bool once;          /* run each trial once, to compare results without times; not sent to a child */
    double max_seconds; /* time limit of one launch; a trial that exceeds the limit counts as hung */
    bl_halt halt;       /* checked between runs; not sent to a child: the server kills the child instead */
} bl_trials;

/* Compile and time all trials on |dev| in the calling thread, which must be the device's worker thread. Fills the results.
 * Fails only if no trial could run (no memory for the buffers), or if |halt| says so. */
BL_NODISCARD bl_status bl_trials_run(bl_device *dev, bl_trials *trials, bl_err *err);

#endif
