/* Child processes that compile and time kernels for the server: a driver's compiler that hangs or dies costs a candidate, and two
 * of them use two cores where a driver compiles under one lock (PoCL).  A child is this program again, with the same back ends
 * open; it reads requests from a pipe and ends with it. */
#ifndef BL_DEVICE_CHILD_H
#define BL_DEVICE_CHILD_H

#include "engine/device/trial.h"

typedef struct bl_children bl_children;

/* |argv| starts one, NULL at its end: its standard input and output are the pipes.  None is started before it is needed; one that
 * died is started again, and given up where that happens over and over.  A kernel has |max_seconds| to compile. */
BL_NODISCARD bl_status bl_children_create(const char *const *argv, int count, double max_seconds, bl_children **out, bl_err *err);
void bl_children_destroy(bl_children *children); /* accepts NULL; ends them */
/* Compile, shared out over all children and in batches where the driver likes them: afterwards the device's cache on disk has
 * what bl_kernel_create then finds.  A hint: what could not be compiled here is simply not in the cache.  Blocks; any thread. */
void bl_children_compile(bl_children *children, bl_device *dev, int n, const bl_kernel_source *sources);
/* As bl_trials_run, in a child that has |dev| opened anew; compiles are shared out first.  Blocks; any thread, one at a time each
 * device.  Fails only where no child can be had. */
BL_NODISCARD bl_status bl_children_time(bl_children *children, bl_device *dev, bl_trials *trials, bl_err *err);
/* What a child does: answer requests until the pipe ends.  Its exit status. */
int bl_child_serve(int in, int out, int nbackends, const bl_backend *const *backends);

#endif
