/* The processes themselves, between child.c, which keeps them, and child_ask.c, which asks them. */
#ifndef BL_DEVICE_CHILD_PROCESS_H
#define BL_DEVICE_CHILD_PROCESS_H

#include "engine/device/child.h"

#include <pthread.h>
#include <sys/types.h>

enum { BL_MOST_CHILDREN = 64 };

/* Its owner is who took it, else the keeper. */
typedef struct child_process {
    pid_t pid;    /* 0: there is none */
    int to, from; /* do not block */
    bool busy;
    bool greeted; /* it said that it is there */
    int64_t idle_ns;
} child_process;

struct bl_children {
    pthread_mutex_t lock; /* never held while a process is started or waited for */
    pthread_cond_t changed;
    char **argv;
    int count;
    double max_seconds;
    child_process child[BL_MOST_CHILDREN];
    int misses;       /* that never said a word, in a row */
    int64_t retry_ns; /* none is started before */
    bool stop, ends;
    bool has_keeper;
    pthread_t keeper; /* ends those that are idle */
};

/* One that is free, started if need be; where all are busy wait for one if |wait|, until |halt| says so.  NULL: there is none. */
child_process *child_take(bl_children *children, bool wait, const bl_halt *halt);
/* Back, with all that was asked answered ... */
void child_give(bl_children *children, child_process *child);
/* ... or killed, since it hangs, or cannot be trusted any more; or through no fault of its own, since nobody waits for it. */
void child_kill(bl_children *children, child_process *child);
void child_stop(bl_children *children, child_process *child);
bool child_stopped(bl_children *children);

#endif
