/* What a device can do at most, measured once: what the times of kernels are compared with. */
#ifndef BL_SEARCH_PEAKS_H
#define BL_SEARCH_PEAKS_H

#include "engine/device/trial.h"

typedef struct bl_peaks {
    double ops;   /* float32 operations a second, a multiplication with its addition being two; 0: not known */
    double bytes; /* read and written a second by a copy that is larger than the caches; 0: not known */
} bl_peaks;

/* How trials are run: bl_trials_run, or bl_children_time behind it. */
typedef bl_status (*bl_trials_runner)(void *arg, bl_device *dev, bl_trials *trials, bl_err *err);

/* Two kernels of our own: chains of multiply-adds in registers, and a copy.  Takes some tens of milliseconds and the compiler's
 * time; what could not be measured is 0.  Thread: as |run| asks. */
BL_NODISCARD bl_status bl_peaks_measure(bl_device *dev, bl_trials_runner run, void *arg, bl_peaks *out, bl_err *err);

/* Which of a device's limits a kernel is near. */
typedef enum bl_ceiling { BL_CEILING_UNKNOWN, BL_CEILING_COMPUTE, BL_CEILING_MEMORY, BL_CEILING_LAUNCH } bl_ceiling;

typedef struct bl_standing {
    double share; /* of the peak that its arithmetic or its traffic comes nearer to; 0 without peaks */
    bl_ceiling ceiling;
} bl_standing;

/* Where a launch stands that takes |seconds| for |ops| operations and |bytes| of traffic. */
bl_standing bl_peaks_judge(const bl_peaks *peaks, double seconds, int64_t ops, int64_t bytes);
const char *bl_ceiling_name(bl_ceiling ceiling); /* "compute" */

#endif
