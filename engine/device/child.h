/* Child processes that compile and time kernels for the server. A driver that hangs or crashes then costs one candidate, not
 * the server. Several children use several cores where a driver compiles under one lock (PoCL). A child is this program with
 * the same back ends. A child reads requests from a pipe (message.h) and exits when the pipe closes, so a killed server
 * leaves no child behind. The process ignores SIGPIPE. */
#ifndef BL_DEVICE_CHILD_H
#define BL_DEVICE_CHILD_H

#include "engine/device/trial.h"

typedef struct bl_children bl_children;

/* |argv|, NULL-terminated, starts a child, with pipes as its standard input and output. At most |count| children run. A
 * child is started when it is first needed, restarted after a crash, and ended after a minute without work. If no child can
 * be started, the server works without children for a while. |max_seconds| limits the compilation of a kernel, or of a batch
 * of kernels. */
BL_NODISCARD bl_status bl_children_create(const char *const *argv, int count, double max_seconds, bl_children **out, bl_err *err);
void bl_children_destroy(bl_children *children); /* ends all children; no call may be waiting for a child; accepts NULL */
/* For a server that shuts down: all current and later waits for a child fail at once with BL_ECANCELLED. Thread: any; accepts
 * NULL. */
void bl_children_stop(bl_children *children);
/* Compile |sources| into the device's cache on disk, where bl_kernel_create finds them. The work is distributed over all
 * children, in batches if the driver prefers batches. Fails if a kernel does not compile, or if a child died or hung while
 * it compiled one kernel alone. If no child can be started, nothing is compiled, and the call does not fail. When |halt|
 * says so, the children that work for this call are killed and the call fails. Blocks. Thread: any. */
BL_NODISCARD bl_status bl_children_compile(bl_children *children, bl_device *dev, int n, const bl_kernel_source *sources,
                                           const bl_halt *halt, bl_err *err);
/* bl_trials_run in a child that opens |dev| itself. All children compile the kernels first. Fails only if no child can be
 * started, or when trials->halt says so; see bl_children_compile. Blocks. Thread: any, but one call at a time per device. */
BL_NODISCARD bl_status bl_children_time(bl_children *children, bl_device *dev, bl_trials *trials, bl_err *err);
int bl_children_count(bl_children *children); /* number of live children, for tests and metrics */
/* The main loop of a child: answer requests from |in| on |out| until the pipe closes, then exit. Takes ownership of both file
 * descriptors. */
_Noreturn void bl_child_serve(int in, int out, int nbackends, const bl_backend *const *backends);

#endif
