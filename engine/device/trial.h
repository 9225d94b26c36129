/* Trials: the same work done by different kernels, timed on one device.  This is what a search measures with: it runs in a child
 * process (child.h), so that a kernel that crashes or hangs its driver costs a trial and not the server. */
#ifndef BL_DEVICE_TRIAL_H
#define BL_DEVICE_TRIAL_H

#include "engine/base/halt.h"
#include "engine/device/device.h"

enum { BL_TRIAL_LAUNCHES = 8, BL_TRIAL_BUFFERS = 40 };

/* What a buffer holds before the first run, and how results are compared. */
typedef enum bl_trial_fill {
    BL_TRIAL_INTEGERS, /* zeros: an index that is looked up is one that there is; compared byte by byte */
    BL_TRIAL_F16,      /* random numbers in [-1, 1), the same for every trial */
    BL_TRIAL_BF16,
    BL_TRIAL_F32,
    BL_TRIAL_F64
} bl_trial_fill;

typedef struct bl_trial_buffer {
    size_t bytes;
    bl_trial_fill fill;
    bool result; /* what the work is done for: compared with the first trial's */
} bl_trial_buffer;

typedef struct bl_trial_launch {
    bl_kernel_source source; /* |linear| may be NULL on a device that reads text */
    uint16_t slot[BL_MAX_BINDINGS];
    int32_t scalar[BL_MAX_SCALARS];
    uint32_t groups[3];
} bl_trial_launch;

/* One way to do the work: kernels in order. */
typedef struct bl_trial {
    int nlaunches;
    bl_trial_launch launch[BL_TRIAL_LAUNCHES];
    /* out */
    bl_status status;  /* BL_OK, or why it has no time: it did not compile, crashed, hung */
    uint64_t ns;       /* device time of all launches together, the least of some runs */
    double difference; /* the largest |result - first trial's result| over the largest |first trial's result|; integers: 0 or 1 */
    char why[160];
} bl_trial;

typedef struct bl_trials {
    int nbuffers;
    bl_trial_buffer buffer[BL_TRIAL_BUFFERS];
    int ntrials;
    bl_trial *trial;    /* the first is what the others are compared with, and its time what they must not exceed by far */
    bool once;          /* each runs once: they are to be compared, and nobody asks for times.  Not sent to a child */
    double max_seconds; /* of one launch, after which the trial has hung */
    bl_halt halt;       /* looked at between runs; not sent to a child, which is killed instead */
} bl_trials;

/* Compile and time all trials on |dev| in this process and thread, which is the device's worker.  Fills what is marked out;
 * fails only where no trial could be run at all (no memory for the buffers), or nobody waits any more. */
BL_NODISCARD bl_status bl_trials_run(bl_device *dev, bl_trials *trials, bl_err *err);

#endif
