/* SPDX-License-Identifier: MIT */
#include "engine/device/child.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/device/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    IDLE_SECONDS = 60,  /* idle time after which a child ends, to free its memory: 140 MB with PoCL's compiler */
    KEEP_SECONDS = 1,   /* interval at which the keeper thread checks the children */
    MOST_MISSES = 3,    /* after this number of children in a row that died before their first message ... */
    RETRY_SECONDS = 30, /* ... no child is started for this number of seconds */
    END_MS = 200,       /* how long to wait for a child to exit after its pipe was closed */
    LEAST_FILE = 3      /* lowest file descriptor of a pipe; lower descriptors are the standard files */
};

/* ---- one process */

/* Make a pipe whose descriptors lie above the standard files, so that dup2 to a standard file cannot overwrite them. */
static bool make_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = low[i] >= LEAST_FILE ? low[i] : fcntl(low[i], F_DUPFD_CLOEXEC, LEAST_FILE);
        if (ends[i] != low[i])
            close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
    return false;
}

/* Start a child in its own process group, so that the processes that the child starts can be killed with it, and so that
 * Ctrl-C in a terminal reaches the server only. */
static int spawn(char *const *argv, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int rc;

    /* the server blocks its termination signals in all its threads; a child must not inherit the blocked mask */
    sigemptyset(&none);
    sigfillset(&all);
    rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) {
        posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    rc = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&files, LEAST_FILE);
    if (rc == 0)
        rc = posix_spawn(pid, argv[0], &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static bool child_start(char *const *argv, child_process *child)
{
    int down[2], up[2], rc;

    if (!make_pipe(down))
        return false;
    if (!make_pipe(up)) {
        close(down[0]);
        close(down[1]);
        return false;
    }
    rc = spawn(argv, down[0], up[1], &child->pid);
    close(down[0]);
    close(up[1]);
    if (rc != 0) {
        bl_log(BL_LOG_WARN, "a child process cannot be started: %s", strerror(rc));
        close(down[1]);
        close(up[0]);
        return false;
    }
    (void)fcntl(down[1], F_SETFL, O_NONBLOCK);
    (void)fcntl(up[0], F_SETFL, O_NONBLOCK);
    child->to = down[1];
    child->from = up[0];
    child->greeted = false;
    return true;
}

/* Has the child exited?  Called under the lock. */
static bool is_dead(const child_process *child)
{
    return waitpid(child->pid, NULL, WNOHANG) == child->pid;
}

/* Without the lock: end a child, at once if |kill_it|, and wait until it has exited. */
static void child_end(child_process child, bool kill_it)
{
    struct timespec moment = {.tv_nsec = 2000000};
    bool gone = false;

    close(child.to);
    close(child.from);
    for (int64_t begin = bl_clock_ns(); !kill_it && !gone && bl_clock_ms(begin, bl_clock_ns()) < END_MS;) {
        gone = is_dead(&child);
        if (!gone)
            nanosleep(&moment, NULL);
    }
    if (gone)
        return;
    (void)kill(-child.pid, SIGKILL); /* kills the group, for instance a linker that the child started */
    while (waitpid(child.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- the set of children */

/* Called under the lock. */
static int count_living(const bl_children *children)
{
    int n = 0;
    for (int i = 0; i < children->count; i++)
        n += children->child[i].pid != 0;
    return n;
}

/* Under the lock: free the slot of a child that has exited. */
static void child_forget(bl_children *children, child_process *child)
{
    child->pid = 0;
    child->busy = false;
    pthread_cond_broadcast(&children->changed);
}

/* Called under the lock, which the function releases meanwhile. Free the slot of a child that has exited, and end an idle
 * child. */
static void look_after(bl_children *children, child_process *child)
{
    if (is_dead(child)) {
        close(child->to);
        close(child->from);
        child_forget(children, child);
    } else if (bl_clock_ms(child->idle_ns, bl_clock_ns()) >= IDLE_SECONDS * 1e3) {
        child->busy = true;
        pthread_mutex_unlock(&children->lock);
        child_end(*child, false);
        pthread_mutex_lock(&children->lock);
        child_forget(children, child);
    }
}

static void *child_keep(void *arg)
{
    bl_children *children = arg;

    pthread_mutex_lock(&children->lock);
    while (!children->ends) {
        struct timespec until = bl_clock_after(CLOCK_MONOTONIC, KEEP_SECONDS * INT64_C(1000000000));

        if (count_living(children) == 0)
            pthread_cond_wait(&children->changed, &children->lock);
        else
            pthread_cond_timedwait(&children->changed, &children->lock, &until);
        for (int i = 0; i < children->count; i++) {
            if (children->child[i].pid != 0 && !children->child[i].busy)
                look_after(children, &children->child[i]);
        }
    }
    pthread_mutex_unlock(&children->lock);
    return NULL;
}

/* Find a free slot with a living or with no child. Called under the lock. */
static child_process *find_free(bl_children *children, bool living)
{
    for (int i = 0; i < children->count; i++) {
        child_process *child = &children->child[i];
        if (!child->busy && (child->pid != 0) == living)
            return child;
    }
    return NULL;
}

static bool any_busy(const bl_children *children)
{
    bool busy = false;
    for (int i = 0; i < children->count; i++)
        busy = busy || children->child[i].busy;
    return busy;
}

/* Count a child that did not start. Called under the lock. */
static void miss(bl_children *children)
{
    if (++children->misses < MOST_MISSES)
        return;
    children->misses = 0;
    children->retry_ns = bl_clock_ns() + (int64_t)RETRY_SECONDS * 1000000000;
    bl_log(BL_LOG_WARN, "child processes do not start; kernels are compiled without child processes for %d s", RETRY_SECONDS);
}

/* Start one child. Called under the lock, which the function releases meanwhile. */
static child_process *start_one(bl_children *children)
{
    child_process *child = bl_clock_ns() >= children->retry_ns ? find_free(children, false) : NULL;
    child_process fresh = {.busy = true};
    bool good;

    if (child == NULL)
        return NULL;
    child->busy = true;
    if (!children->has_keeper)
        children->has_keeper = pthread_create(&children->keeper, NULL, child_keep, children) == 0;
    pthread_mutex_unlock(&children->lock);
    good = child_start(children->argv, &fresh);
    pthread_mutex_lock(&children->lock);
    if (good) {
        *child = fresh;
        return child;
    }
    child_forget(children, child);
    children->misses = MOST_MISSES; /* an immediate retry would fail too */
    miss(children);
    return NULL;
}

/* Called under the lock. The lock is released until the set changes or until it is time to check a bl_halt. */
static void child_wait_for_change(bl_children *children)
{
    struct timespec until = bl_clock_after(CLOCK_MONOTONIC, BL_HALT_LOOK_NS);

    pthread_cond_timedwait(&children->changed, &children->lock, &until);
}

child_process *child_take(bl_children *children, bool wait, const bl_halt *halt)
{
    child_process *child = NULL;
    bl_err why = {0};

    pthread_mutex_lock(&children->lock);
    while (!children->stop) {
        child = find_free(children, true);
        if (child != NULL && is_dead(child)) {
            close(child->to);
            close(child->from);
            child_forget(children, child);
            continue;
        }
        if (child != NULL)
            child->busy = true;
        else
            child = start_one(children);
        if (child != NULL || !wait || !any_busy(children) || bl_halt_check(halt, &why) != BL_OK)
            break;
        child_wait_for_change(children);
    }
    pthread_mutex_unlock(&children->lock);
    return child;
}

void child_give(bl_children *children, child_process *child)
{
    pthread_mutex_lock(&children->lock);
    child->busy = false;
    child->idle_ns = bl_clock_ns();
    children->misses = 0;
    pthread_cond_broadcast(&children->changed);
    pthread_mutex_unlock(&children->lock);
}

void child_stop(bl_children *children, child_process *child)
{
    child_end(*child, true);
    pthread_mutex_lock(&children->lock);
    child_forget(children, child);
    pthread_mutex_unlock(&children->lock);
}

void child_kill(bl_children *children, child_process *child)
{
    if (!child->greeted) {
        pthread_mutex_lock(&children->lock);
        miss(children);
        pthread_mutex_unlock(&children->lock);
    }
    child_stop(children, child);
}

bool child_stopped(bl_children *children)
{
    bool stop;

    pthread_mutex_lock(&children->lock);
    stop = children->stop;
    pthread_mutex_unlock(&children->lock);
    return stop;
}

int bl_children_count(bl_children *children)
{
    int n;

    pthread_mutex_lock(&children->lock);
    n = count_living(children);
    pthread_mutex_unlock(&children->lock);
    return n;
}

/* ---- creation and end */

static char **copy_words(const char *const *argv)
{
    size_t n = 0;
    char **copy;

    while (argv[n] != NULL)
        n++;
    copy = bl_calloc(n + 1, sizeof *copy);
    for (size_t i = 0; i < n && copy != NULL; i++) {
        copy[i] = strdup(argv[i]);
        if (copy[i] == NULL) {
            while (i > 0)
                free(copy[--i]);
            free(copy);
            copy = NULL;
        }
    }
    return copy;
}

bl_status bl_children_create(const char *const *argv, int count, double max_seconds, bl_children **out, bl_err *err)
{
    bl_children *children = bl_calloc(1, sizeof *children);

    *out = NULL;
    if (children == NULL || (children->argv = copy_words(argv)) == NULL) {
        free(children);
        return bl_fail(err, BL_ENOMEM, "out of host memory for child processes");
    }
    children->count = count < BL_MOST_CHILDREN ? count : BL_MOST_CHILDREN;
    children->max_seconds = max_seconds;
    pthread_mutex_init(&children->lock, NULL);
    bl_clock_cond_init(&children->changed);
    *out = children;
    return BL_OK;
}

void bl_children_stop(bl_children *children)
{
    if (children == NULL)
        return;
    pthread_mutex_lock(&children->lock);
    children->stop = true;
    pthread_cond_broadcast(&children->changed);
    pthread_mutex_unlock(&children->lock);
}

void bl_children_destroy(bl_children *children)
{
    if (children == NULL)
        return;
    pthread_mutex_lock(&children->lock);
    children->ends = true;
    pthread_cond_broadcast(&children->changed);
    pthread_mutex_unlock(&children->lock);
    if (children->has_keeper)
        pthread_join(children->keeper, NULL);
    for (int i = 0; i < children->count; i++) {
        if (children->child[i].pid != 0)
            child_end(children->child[i], false);
    }
    for (char **word = children->argv; *word != NULL; word++)
        free(*word);
    free(children->argv);
    pthread_cond_destroy(&children->changed);
    pthread_mutex_destroy(&children->lock);
    free(children);
}
