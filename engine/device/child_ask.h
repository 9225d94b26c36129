/* The server's side: work is cut into jobs, each child that is to be had gets one at a time, and a job whose child dies, hangs or
 * answers nonsense is cut into smaller ones until it is known what it was about. */
#ifndef BL_DEVICE_CHILD_ASK_H
#define BL_DEVICE_CHILD_ASK_H

#include "engine/device/child_process.h"
#include "engine/device/message.h"

/* Items of the work that a child gets at once. */
typedef struct child_job {
    struct child_job *next;
    int n;
    int *which;
    bool again; /* it was alone with a child that died, for whatever reason */
} child_job;

typedef enum child_blame { CHILD_DIED, CHILD_HUNG } child_blame;

/* What is done with items: sources are compiled, or trials timed. */
typedef struct child_work {
    uint32_t kind; /* of message */
    bl_children *children;
    bl_device *dev;
    child_job *jobs; /* to be done */
    bool failed;     /* out of memory: some items were dropped */
    int n;
    const bl_kernel_source *sources;
    bl_err *outcomes; /* of each source */
    bl_trials *trials;
    bl_halt halt;
    int least; /* items of a job that cannot be cut; where it is 2, the first of all is the first of each */
    void (*put)(const struct child_work *w, const child_job *j, bl_text *out);
    void (*take)(struct child_work *w, const child_job *j, bl_message_reader *in);
    void (*give_up)(struct child_work *w, const child_job *j, child_blame what); /* of a job that cannot be cut */
    double (*seconds)(const struct child_work *w, const child_job *j);           /* after which its child hangs */
} child_work;

/* With room for |n| items, and none; NULL without memory, which the work then knows. */
child_job *child_make_job(child_work *w, int n);
void child_push_job(child_work *w, child_job *j);
void child_free_job(child_job *j); /* accepts NULL */
/* Do all jobs.  What is left of them afterwards no child was to be had for. */
BL_NODISCARD bl_status child_do_jobs(child_work *w, bl_err *err);
bool child_free_jobs(child_work *w); /* whether any were left */

#endif
