/* The server's side of the protocol. Work is cut into jobs, and each child gets one job at a time. If a child dies, hangs or
 * sends a malformed answer, its job is cut into smaller jobs until the item that causes it is found. */
#ifndef BL_DEVICE_CHILD_ASK_H
#define BL_DEVICE_CHILD_ASK_H

#include "engine/device/child_process.h"
#include "engine/device/message.h"

/* The items that a child gets at once. */
typedef struct child_job {
    struct child_job *next;
    int n;
    int *which;
    bool again; /* retried: its child died once while it was the only item */
} child_job;

typedef enum child_blame { CHILD_DIED, CHILD_HUNG } child_blame;

/* A piece of work: sources to compile, or trials to time. */
typedef struct child_work {
    uint32_t kind; /* kind of message */
    bl_children *children;
    bl_device *dev;
    child_job *jobs; /* jobs still to do */
    bool failed;     /* out of memory: some items were dropped */
    int n;
    const bl_kernel_source *sources;
    bl_err *outcomes; /* one for each source */
    bl_trials *trials;
    bl_halt halt;
    int least; /* number of items in a job that is not cut further; if 2, item 0 is the first item of every job */
    void (*put)(const struct child_work *w, const child_job *j, bl_text *out);
    void (*take)(struct child_work *w, const child_job *j, bl_message_reader *in);
    /* record the failure of a job that cannot be cut */
    void (*give_up)(struct child_work *w, const child_job *j, child_blame what);
    /* time limit of a job, after which its child counts as hung */
    double (*seconds)(const struct child_work *w, const child_job *j);
} child_work;

/* An empty job with room for |n| items. NULL without memory, and then work.failed is set. */
child_job *child_make_job(child_work *w, int n);
void child_push_job(child_work *w, child_job *j);
void child_free_job(child_job *j); /* accepts NULL */
/* Do all jobs. Jobs that remain found no child. */
BL_NODISCARD bl_status child_do_jobs(child_work *w, bl_err *err);
bool child_free_jobs(child_work *w); /* true if jobs remained */

#endif
