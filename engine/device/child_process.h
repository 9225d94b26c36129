/* Child processes: child.c starts and ends them, child_ask.c gives them work. */
#ifndef BL_DEVICE_CHILD_PROCESS_H
#define BL_DEVICE_CHILD_PROCESS_H

#include "engine/device/child.h"

#include <pthread.h>
#include <sys/types.h>

enum { BL_MOST_CHILDREN = 64 };

/* A child process. Owned by the thread that took the child, otherwise by the keeper thread. */
typedef struct child_process {
    pid_t pid;    /* 0: the slot has no process */
    int to, from; /* the server's ends of non-blocking pipes */
    bool busy;
    bool greeted; /* the first message of the child has arrived */
    int64_t idle_ns;
} child_process;

struct bl_children {
    pthread_mutex_t lock; /* never held while a process is started or while a thread waits for a process */
    pthread_cond_t changed;
    char **argv;
    int count;
    double max_seconds;
    child_process child[BL_MOST_CHILDREN];
    int misses;       /* number of children in a row that ended without a first message */
    int64_t retry_ns; /* no child is started before this time on bl_clock_ns */
    bool stop, ends;
    bool has_keeper;
    pthread_t keeper; /* thread that ends idle children */
};

/* Take a free child, or start a child if none is free. If all children are busy and |wait|, wait for a child until |halt|
 * says so. NULL: no child is available. */
child_process *child_take(bl_children *children, bool wait, const bl_halt *halt);
/* Return a child that has answered all its requests. */
void child_give(bl_children *children, child_process *child);
/* Kill a child that hangs, whose state is unknown, or whose requests were cancelled. */
void child_kill(bl_children *children, child_process *child);
void child_stop(bl_children *children, child_process *child);
bool child_stopped(bl_children *children);

#endif
