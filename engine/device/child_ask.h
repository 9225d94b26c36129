/* The server's side of the protocol with child processes. Work is split into jobs, and each child gets one job at a time. If
 * a child dies, hangs or sends a malformed answer, the job of the child is split into smaller jobs until the failing item is
 * found. */
#ifndef BL_DEVICE_CHILD_ASK_H
#define BL_DEVICE_CHILD_ASK_H

#include "engine/device/child_process.h"
#include "engine/device/message.h"

/* The items of one request to a child. */
typedef struct child_job {
    struct child_job *next;
    int n;
    int *which;
    bool again; /* a retry: a child died once while this job was its only item */
} child_job;

typedef enum child_blame { CHILD_DIED, CHILD_HUNG } child_blame;

/* A piece of work: sources to compile, or trials to time. */
typedef struct child_work {
    uint32_t kind; /* kind of message (message.h) */
    bl_children *children;
    bl_device *dev;
    child_job *jobs; /* jobs that are not done yet */
    bool failed;     /* out of memory: some items were dropped */
    int n;
    const bl_kernel_source *sources;
    bl_err *outcomes; /* one outcome for each source */
    bl_trials *trials;
    bl_halt halt;
    int least; /* number of items in a job that is not split further; if 2, every job repeats item 0 as its first item */
    void (*put)(const struct child_work *w, const child_job *j, bl_text *out);
    void (*take)(struct child_work *w, const child_job *j, bl_message_reader *in);
    /* record the failure of a job that cannot be split */
    void (*give_up)(struct child_work *w, const child_job *j, child_blame what);
    /* time limit of a job, after which its child counts as hung */
    double (*seconds)(const struct child_work *w, const child_job *j);
} child_work;

/* An empty job with room for |n| items. Without memory returns NULL and sets work.failed. */
child_job *child_make_job(child_work *w, int n);
void child_push_job(child_work *w, child_job *j);
void child_free_job(child_job *j); /* accepts NULL */
/* Do all jobs. Jobs that remain afterwards found no child. */
BL_NODISCARD bl_status child_do_jobs(child_work *w, bl_err *err);
bool child_free_jobs(child_work *w); /* true if |w| still had jobs */

#endif
