/* Peak performance of a device, measured once: the reference for the times of kernels. */
#ifndef BL_SEARCH_PEAKS_H
#define BL_SEARCH_PEAKS_H

#include "engine/device/trial.h"

typedef struct bl_peaks {
    double ops;   /* float32 operations per second; a multiply-add counts as two; 0: unknown */
    double bytes; /* bytes read and written per second by a copy larger than the caches; 0: unknown */
} bl_peaks;

/* A function that runs trials: bl_trials_run, or a wrapper of bl_children_time. */
typedef bl_status (*bl_trials_runner)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);

/* Measure the peaks with two built-in kernels: chains of multiply-adds in registers, and a copy. Takes some tens of
 * milliseconds besides the compilation of the kernels. A value that cannot be measured is 0. Thread: as |run| requires. */
BL_NODISCARD bl_status bl_peaks_measure(bl_device *dev, bl_trials_runner run, void *arg, bl_peaks *out, bl_err *err);

/* The limit of the device that bounds a kernel. */
typedef enum bl_ceiling { BL_CEILING_UNKNOWN, BL_CEILING_COMPUTE, BL_CEILING_MEMORY, BL_CEILING_LAUNCH } bl_ceiling;

typedef struct bl_standing {
    double share; /* the larger of the shares of the compute peak and of the memory peak; 0 without peaks */
    bl_ceiling ceiling;
} bl_standing;

/* Compare a launch of |seconds|, |ops| operations and |bytes| of traffic with the peaks. */
bl_standing bl_peaks_judge(const bl_peaks *peaks, double seconds, int64_t ops, int64_t bytes);
const char *bl_ceiling_name(bl_ceiling ceiling); /* for instance "compute" */

#endif
