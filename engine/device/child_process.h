/* The child processes: child.c starts and ends them, child_ask.c gives them work. */
#ifndef BL_DEVICE_CHILD_PROCESS_H
#define BL_DEVICE_CHILD_PROCESS_H

#include "engine/device/child.h"

#include <pthread.h>
#include <sys/types.h>

enum { BL_MOST_CHILDREN = 64 };

/* Owned by the thread that took it, otherwise by the keeper thread. */
typedef struct child_process {
    pid_t pid;    /* 0: not running */
    int to, from; /* non-blocking pipes */
    bool busy;
    bool greeted; /* its first message has arrived */
    int64_t idle_ns;
} child_process;

struct bl_children {
    pthread_mutex_t lock; /* never held while a process is started or waited for */
    pthread_cond_t changed;
    char **argv;
    int count;
    double max_seconds;
    child_process child[BL_MOST_CHILDREN];
    int misses;       /* number of children in a row that ended without a first message */
    int64_t retry_ns; /* no child is started before this time */
    bool stop, ends;
    bool has_keeper;
    pthread_t keeper; /* the thread that ends idle children */
};

/* Take a free child; start one if needed. If all are busy and |wait|, wait for one until |halt| says so. NULL: no child is
 * available. */
child_process *child_take(bl_children *children, bool wait, const bl_halt *halt);
/* Return a child that has answered all requests. */
void child_give(bl_children *children, child_process *child);
/* Kill a child: it hangs, its state is unknown, or no request waits for it any more. */
void child_kill(bl_children *children, child_process *child);
void child_stop(bl_children *children, child_process *child);
bool child_stopped(bl_children *children);

#endif
