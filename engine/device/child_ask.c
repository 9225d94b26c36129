/* SPDX-License-Identifier: MIT */
#include "engine/device/child_ask.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/device/message.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LEAST_SHARE = 100,  /* a compiler that uses less than 1 / LEAST_SHARE of a core counts as hung */
    START_SECONDS = 30, /* time limit for a child's first message: a start takes milliseconds, longer on a machine that swaps */
    TICK_MS = 20,       /* interval of checks for cancellation and for free children */
    READ_AT_ONCE = 1 << 16
};

/* ---- jobs */

void child_free_job(child_job *j)
{
    if (j != NULL)
        free(j->which);
    free(j);
}

child_job *child_make_job(child_work *w, int n)
{
    child_job *fresh = bl_calloc(1, sizeof *fresh);

    if (fresh != NULL)
        fresh->which = bl_calloc((size_t)n, sizeof *fresh->which);
    if (fresh == NULL || fresh->which == NULL) {
        child_free_job(fresh);
        w->failed = true;
        return NULL;
    }
    return fresh;
}

void child_push_job(child_work *w, child_job *j)
{
    j->next = w->jobs;
    w->jobs = j;
}

/* Split a job into one job per item. An item that all jobs share (the reference trial) stays the first item of each job. */
static void child_ask_cut(child_work *w, const child_job *old)
{
    for (int i = old->n - 1; i >= w->least - 1; i--) {
        child_job *fresh = child_make_job(w, w->least);
        if (fresh == NULL)
            return;
        if (w->least > 1)
            fresh->which[fresh->n++] = old->which[0];
        fresh->which[fresh->n++] = old->which[i];
        child_push_job(w, fresh);
    }
}

/* ---- one request to a child */

typedef struct exchange {
    child_process *child;
    child_job *job;
    bl_text out, in;
    size_t sent;
    int64_t begun_ns, deadline_ns;
    int64_t used_ns; /* processor time of the child before this request */
} exchange;

typedef enum progress { GOES_ON, ANSWERED, BROKEN, LATE } progress;

static int64_t after(double seconds)
{
    return bl_clock_ns() + (int64_t)(seconds * 1e9);
}

static void start_clock(const child_work *w, exchange *ex, double spare)
{
    ex->begun_ns = bl_clock_ns();
    ex->used_ns = bl_clock_process_ns(ex->child->pid);
    ex->deadline_ns = after(w->seconds(w, ex->job) + spare);
}

/* Has the child exceeded its time limit?  The limit counts processor time, so that no kernel fails because the machine is
 * busy. A child that uses hardly any processor time counts as hung. */
static bool child_ask_is_late(const child_work *w, exchange *ex)
{
    int64_t now = bl_clock_ns(), used = 0, left = 0;

    if (now <= ex->deadline_ns)
        return false;
    used = bl_clock_process_ns(ex->child->pid) - ex->used_ns;
    left = (int64_t)(w->seconds(w, ex->job) * 1e9) - used;
    if (w->kind != BL_MESSAGE_COMPILE || !ex->child->greeted || left <= 0 || used < (now - ex->begun_ns) / LEAST_SHARE)
        return true;
    ex->deadline_ns = now + left;
    return false;
}

static bool child_ask_begin(const child_work *w, child_process *child, child_job *j, exchange *ex)
{
    *ex = (exchange){.child = child, .job = j};
    bl_message_begin(&ex->out, w->kind);
    bl_message_put_string(&ex->out, w->dev->info.id, strlen(w->dev->info.id));
    w->put(w, j, &ex->out);
    bl_message_end(&ex->out);
    start_clock(w, ex, child->greeted ? 0 : START_SECONDS);
    return !ex->out.failed;
}

static progress send_some(exchange *ex)
{
    ssize_t n = write(ex->child->to, ex->out.data + ex->sent, ex->out.len - ex->sent);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? GOES_ON : BROKEN;
    ex->sent += (size_t)n;
    if (ex->sent == ex->out.len && bl_fault_hit(BL_FAULT_CHILD))
        (void)kill(-ex->child->pid, SIGKILL); /* fault injection: the child dies while it has the request */
    return GOES_ON;
}

/* Parse the bytes read so far: the first message of the child, if it has not arrived yet, and the answer. */
static progress look_at_messages(const child_work *w, exchange *ex)
{
    bl_message_head head;
    size_t whole = 0;

    while (ex->in.len >= sizeof head) {
        bool greeted = ex->child->greeted;

        memcpy(&head, ex->in.data, sizeof head);
        whole = sizeof head + (size_t)head.len;
        if (!bl_message_is_head(&head) || head.kind != (greeted ? w->kind : BL_MESSAGE_HELLO) || (!greeted && head.len != 0))
            return BROKEN;
        if (greeted)
            return ex->in.len < whole ? GOES_ON : ex->in.len == whole ? ANSWERED : BROKEN;
        ex->child->greeted = true;
        start_clock(w, ex, 0);
        ex->in.len -= whole;
        memmove(ex->in.data, ex->in.data + whole, ex->in.len);
    }
    return GOES_ON;
}

static progress read_some(const child_work *w, exchange *ex)
{
    char *room = bl_text_reserve(&ex->in, READ_AT_ONCE);
    ssize_t n;

    if (room == NULL)
        return BROKEN;
    n = read(ex->child->from, room, READ_AT_ONCE);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? GOES_ON : BROKEN;
    if (n == 0)
        return BROKEN;
    ex->in.len += (size_t)n;
    return look_at_messages(w, ex);
}

static progress child_ask_go_on(const child_work *w, exchange *ex, const struct pollfd fds[2])
{
    progress p = GOES_ON;

    if (fds[0].revents != 0)
        p = read_some(w, ex);
    if (p == GOES_ON && fds[1].revents != 0)
        p = send_some(ex);
    return p == GOES_ON && child_ask_is_late(w, ex) ? LATE : p;
}

/* Decode the answer. False if the answer is malformed. */
static bool take_answer(child_work *w, exchange *ex)
{
    bl_message_reader in = {.at = ex->in.data + sizeof(bl_message_head), .left = ex->in.len - sizeof(bl_message_head)};

    if (bl_message_take_u32(&in) == 0 && bl_message_is_whole(&in)) {
        bl_log(BL_LOG_WARN, "a child process cannot find the device %s", w->dev->info.id);
        return true; /* the child lacks the device: nothing is compiled, as without children */
    }
    w->take(w, ex->job, &in);
    return bl_message_is_whole(&in);
}

static void child_ask_finish(child_work *w, exchange *ex, progress p)
{
    bool greeted = ex->child->greeted;

    if (p == ANSWERED && take_answer(w, ex)) {
        child_give(w->children, ex->child);
        child_free_job(ex->job);
        return;
    }
    if (greeted)
        bl_log(BL_LOG_WARN, "a child process %s while it worked on %d tasks for %s", p == LATE ? "hung" : "died", ex->job->n,
               w->dev->info.id);
    child_kill(w->children, ex->child);
    if (!greeted) {
        child_push_job(w, ex->job); /* the child did not read the job, so the job returns to the queue */
    } else if (ex->job->n > w->least) {
        child_ask_cut(w, ex->job);
        child_free_job(ex->job);
    } else if (p != LATE && !ex->job->again) { /* retry once: the cause may be lack of memory, or a kill by an operator */
        ex->job->again = true;
        child_push_job(w, ex->job);
    } else {
        w->give_up(w, ex->job, p == LATE ? CHILD_HUNG : CHILD_DIED);
        child_free_job(ex->job);
    }
}

/* ---- all requests of one caller */

typedef struct desk {
    child_work *work;
    unsigned n;
    exchange *at;
} desk;

/* Give the next jobs to free children. */
static void hand_out(desk *d)
{
    while (d->work->jobs != NULL && d->n < (unsigned)d->work->children->count) {
        child_process *child = child_take(d->work->children, d->n == 0, &d->work->halt);
        exchange *ex = &d->at[d->n];

        if (child == NULL)
            return;
        child_job *next = d->work->jobs;
        d->work->jobs = next->next;
        if (child_ask_begin(d->work, child, next, ex)) {
            d->n++;
            continue;
        }
        d->work->failed = true;
        bl_text_fini(&ex->out);
        child_free_job(next);
        if (child->greeted)
            child_give(d->work->children, child);
        else
            child_kill(d->work->children, child);
    }
}

static void child_ask_drop(desk *d, unsigned i)
{
    bl_text_fini(&d->at[i].out);
    bl_text_fini(&d->at[i].in);
    d->at[i] = d->at[--d->n];
}

static void child_ask_wait_for_some(desk *d)
{
    struct pollfd fds[2 * BL_MOST_CHILDREN];
    unsigned n = d->n < BL_MOST_CHILDREN ? d->n : BL_MOST_CHILDREN;

    for (unsigned i = 0; i < n; i++) {
        const exchange *ex = &d->at[i];
        fds[2 * i] = (struct pollfd){.fd = ex->child->from, .events = POLLIN};
        bool sends = ex->child->greeted && ex->sent < ex->out.len;
        fds[2 * i + 1] = (struct pollfd){.fd = sends ? ex->child->to : -1, .events = POLLOUT};
    }
    if (poll(fds, 2 * n, TICK_MS) < 0)
        return;
    for (unsigned i = n; i-- > 0;) { /* backwards, since drop moves the last request to place i */
        progress p = child_ask_go_on(d->work, &d->at[i], &fds[2 * i]);
        if (p == GOES_ON)
            continue;
        child_ask_finish(d->work, &d->at[i], p);
        child_ask_drop(d, i);
    }
}

bl_status child_do_jobs(child_work *w, bl_err *err)
{
    exchange at[BL_MOST_CHILDREN];
    desk d = {.work = w, .at = at};
    bl_status st = BL_OK;

    for (;;) {
        st = child_stopped(w->children) ? bl_fail(err, BL_ECANCELLED, "the server is shutting down")
                                        : bl_halt_check(&w->halt, err);
        if (st == BL_OK)
            hand_out(&d);
        if (d.n == 0 && st == BL_OK)
            st = bl_halt_check(&w->halt, err); /* the call was cancelled, or no child became available */
        if (d.n == 0 || st != BL_OK)
            break;
        child_ask_wait_for_some(&d);
    }
    while (d.n > 0) { /* a job that a child has begun cannot be cancelled, so its child is killed */
        child_stop(w->children, at[0].child);
        child_free_job(at[0].job);
        child_ask_drop(&d, 0);
    }
    if (st != BL_OK)
        return st;
    return w->failed ? bl_fail(err, BL_ENOMEM, "out of host memory for work for child processes") : BL_OK;
}

bool child_free_jobs(child_work *w)
{
    bool any = w->jobs != NULL;

    while (w->jobs != NULL) {
        child_job *next = w->jobs->next;
        child_free_job(w->jobs);
        w->jobs = next;
    }
    return any;
}
