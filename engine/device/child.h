/* Child processes that compile and time kernels for the server: a driver's compiler that hangs or dies costs a candidate, and two
 * of them use two cores where a driver compiles under one lock (PoCL).  A child is this program again, with the same back ends;
 * it reads requests from a pipe (message.h) and ends with it, so a server that is killed leaves none behind.  The process ignores
 * SIGPIPE. */
#ifndef BL_DEVICE_CHILD_H
#define BL_DEVICE_CHILD_H

#include "engine/device/trial.h"

typedef struct bl_children bl_children;

/* |argv| starts one, NULL at its end: its standard input and output are the pipes.  None is started before it is needed; one that
 * died is started again, and where none can be started they are done without for a while; one that has nothing to do for a minute
 * ends.  A kernel, or some of them at once, have |max_seconds| to compile. */
BL_NODISCARD bl_status bl_children_create(const char *const *argv, int count, double max_seconds, bl_children **out, bl_err *err);
void bl_children_destroy(bl_children *children); /* accepts NULL; ends them.  Nobody waits for any. */
/* Those who wait for one, and who will, get BL_ECANCELLED at once.  For a server that ends.  Any thread; accepts NULL. */
void bl_children_stop(bl_children *children);
/* Compile, shared out over all children and in batches where the driver likes them: afterwards the device's cache on disk has
 * what bl_kernel_create then finds.  Fails where a kernel does not compile, or a child died or hung of it alone; where no child
 * can be had nothing is compiled, and that is no failure.  Once |halt| says so, children at work for this are killed, and it
 * fails.  Blocks; any thread. */
BL_NODISCARD bl_status bl_children_compile(bl_children *children, bl_device *dev, int n, const bl_kernel_source *sources,
                                           const bl_halt *halt, bl_err *err);
/* As bl_trials_run, in a child that has |dev| opened anew; compiles are shared out first.  Blocks; any thread, one at a time each
 * device.  Fails only where no child can be had, or trials->halt says so: then as above. */
BL_NODISCARD bl_status bl_children_time(bl_children *children, bl_device *dev, bl_trials *trials, bl_err *err);
int bl_children_count(bl_children *children); /* that live, for tests and metrics */
/* What a child does: answer requests until the pipe ends, and end.  Takes both files. */
_Noreturn void bl_child_serve(int in, int out, int nbackends, const bl_backend *const *backends);

#endif
