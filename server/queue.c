/* SPDX-License-Identifier: MIT */
#include "server/queue.h"

#include "engine/base/clock.h"
#include "server/server.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    MAX_THREADS = 64,
    MOST_FLYING = 4 /* the first of them waits for the last, and none takes long: FLIGHT_NS in engine/plan/run.c */
};

struct bl_queue {
    const char *name;
    size_t max;
    atomic_size_t length; /* waiting or at work */
    pthread_mutex_t lock;
    pthread_cond_t some;
    bl_request *head, *tail;
    bool stop;
    bl_queue_hooks hooks;
    unsigned nthreads;
    pthread_t thread[MAX_THREADS];
};

static void list_append(bl_request **head, bl_request **tail, bl_request *rq)
{
    rq->next = NULL;
    rq->prev = *tail;
    if (*tail != NULL)
        (*tail)->next = rq;
    else
        *head = rq;
    *tail = rq;
}

static void list_unlink(bl_request **head, bl_request **tail, bl_request *rq)
{
    *(rq->prev != NULL ? &rq->prev->next : head) = rq->next;
    *(rq->next != NULL ? &rq->next->prev : tail) = rq->prev;
    rq->next = rq->prev = NULL;
}

/* Under the lock: may |rq| be worked on now? */
static bool is_free(const bl_request *rq)
{
    return rq->serial == NULL || rq->serial->holder == NULL || rq->serial->holder == rq;
}

/* Under the lock: the holder of |serial| is through, so the next one may. */
static void pass_serial(bl_queue *queue, bl_serial *serial)
{
    serial->holder = NULL;
    pthread_cond_signal(&queue->some);
}

bl_status bl_queue_reserve(bl_queue *queue, bl_err *err)
{
    if (atomic_fetch_add(&queue->length, 1) < queue->max + queue->nthreads)
        return BL_OK;
    atomic_fetch_sub(&queue->length, 1);
    return bl_fail(err, BL_EBUSY, "the queue of %s is full: %zu requests wait", queue->name, queue->max);
}

void bl_queue_push(bl_queue *queue, bl_request *rq)
{
    pthread_mutex_lock(&queue->lock);
    rq->queue = queue;
    list_append(&queue->head, &queue->tail, rq);
    pthread_cond_signal(&queue->some);
    pthread_mutex_unlock(&queue->lock);
}

size_t bl_queue_length(bl_queue *queue)
{
    return atomic_load(&queue->length);
}

/* Under the lock: |rq| waits; take it out for good. */
static void take_out(bl_queue *queue, bl_request *rq)
{
    rq->queue = NULL;
    list_unlink(&queue->head, &queue->tail, rq);
    if (rq->serial != NULL && rq->serial->holder == rq)
        pass_serial(queue, rq->serial);
}

bool bl_queue_remove(bl_queue *queue, bl_request *rq)
{
    bool found = false;
    pthread_mutex_lock(&queue->lock);
    if (rq->queue == queue) {
        take_out(queue, rq);
        found = true;
    }
    pthread_mutex_unlock(&queue->lock);
    if (found)
        atomic_fetch_sub(&queue->length, 1);
    return found;
}

void bl_queue_expire(bl_queue *queue, int64_t now_ns)
{
    bl_request *expired = NULL;
    pthread_mutex_lock(&queue->lock);
    for (bl_request *rq = queue->head, *next = NULL; rq != NULL; rq = next) {
        next = rq->next;
        if (rq->deadline_ns != 0 && rq->deadline_ns <= now_ns) {
            take_out(queue, rq);
            rq->next = expired;
            expired = rq;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    while (expired != NULL) {
        bl_request *rq = expired;
        expired = rq->next;
        rq->next = NULL;
        (void)bl_fail(&rq->err, BL_ETIMEOUT, "still waiting for %s when the timeout passed", queue->name);
        atomic_fetch_sub(&queue->length, 1);
        bl_request_finish(rq);
    }
}

/* Under the lock: the first that may be worked on, or NULL. */
static bl_request *first_free(bl_queue *queue)
{
    bl_request *rq = queue->head;
    while (rq != NULL && !is_free(rq))
        rq = rq->next;
    return rq;
}

/* The next one, taken out; NULL: the queue ends, or, where |flying|, none is here that may join those. */
static bl_request *take_next(bl_queue *queue, bool flying)
{
    bl_request *rq = NULL;
    pthread_mutex_lock(&queue->lock);
    while ((rq = first_free(queue)) == NULL && !flying && !queue->stop)
        pthread_cond_wait(&queue->some, &queue->lock);
    if (rq != NULL && flying && !rq->may_fly)
        rq = NULL;
    if (rq != NULL) {
        list_unlink(&queue->head, &queue->tail, rq);
        rq->queue = NULL;
        if (rq->serial != NULL)
            rq->serial->holder = rq;
    }
    pthread_mutex_unlock(&queue->lock);
    return rq;
}

/* Do one piece of work, unless there is no use in it any more. */
static bl_step work_on(bl_queue *queue, bl_request *rq)
{
    int64_t now = bl_clock_ns();
    rq->queue_wait_ns += now - rq->queued_ns;
    if (atomic_load(&rq->cancel)) {
        (void)bl_fail(&rq->err, BL_ECANCELLED, "the client went away");
        return BL_STEP_DONE;
    }
    if (rq->deadline_ns != 0 && rq->deadline_ns <= now) {
        (void)bl_fail(&rq->err, BL_ETIMEOUT, "still waiting for %s when the timeout passed", queue->name);
        return BL_STEP_DONE;
    }
    return rq->work(rq);
}

/* What becomes of |rq|, of which its work said |step|. */
static void settle(bl_queue *queue, bl_request *rq, bl_serial *serial, bl_step step)
{
    if (step == BL_STEP_AGAIN) {
        pthread_mutex_lock(&queue->lock);
        rq->queued_ns = bl_clock_ns();
        rq->queue = queue;
        list_append(&queue->head, &queue->tail, rq);
        pthread_mutex_unlock(&queue->lock);
        return;
    }
    if (serial != NULL && step == BL_STEP_DONE) { /* what moves on holds no serial */
        pthread_mutex_lock(&queue->lock);
        pass_serial(queue, serial);
        pthread_mutex_unlock(&queue->lock);
    }
    atomic_fetch_sub(&queue->length, 1);
    if (step == BL_STEP_DONE)
        bl_request_finish(rq);
}

/* Those that fly together, in the order in which they took off: they wait for their device once, instead of each after the other.
 */
typedef struct flights {
    unsigned n;
    bl_request *rq[MOST_FLYING];
} flights;

static void land_all(bl_queue *queue, flights *up)
{
    for (unsigned i = 0; i < up->n; i++) {
        bl_serial *serial = up->rq[i]->serial;
        bl_step step = up->rq[i]->work(up->rq[i]);
        settle(queue, up->rq[i], serial, step);
    }
    up->n = 0;
}

static void *run_thread(void *arg)
{
    bl_queue *queue = arg;
    flights up = {0};
    for (;;) {
        bl_request *rq = take_next(queue, up.n > 0);
        bl_serial *serial = rq != NULL ? rq->serial : NULL;
        bl_step step = BL_STEP_DONE;
        if (rq == NULL && up.n == 0)
            return NULL;
        if (up.n == 0 && queue->hooks.before != NULL)
            queue->hooks.before(queue->hooks.arg);
        if (rq != NULL)
            step = work_on(queue, rq);
        if (rq != NULL && step == BL_STEP_FLIES) {
            up.rq[up.n++] = rq;
            bl_metrics_add(&rq->server->metrics, BL_COUNT_TOGETHER, up.n > 1);
            if (up.n < MOST_FLYING)
                continue;
            rq = NULL;
        }
        land_all(queue, &up);
        if (queue->hooks.after != NULL)
            queue->hooks.after(queue->hooks.arg);
        if (rq != NULL)
            settle(queue, rq, serial, step);
    }
}

bl_status bl_queue_create(const char *name, size_t max, unsigned threads, const bl_queue_hooks *hooks, bl_queue **out,
                          bl_err *err)
{
    bl_queue *queue = calloc(1, sizeof *queue);
    *out = NULL;
    if (queue == NULL)
        return bl_fail(err, BL_ENOMEM, "queue");
    queue->name = name;
    queue->max = max;
    if (hooks != NULL)
        queue->hooks = *hooks;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->some, NULL);
    for (unsigned i = 0; i < threads && i < MAX_THREADS; i++) {
        if (pthread_create(&queue->thread[i], NULL, run_thread, queue) != 0) {
            bl_queue_destroy(queue);
            return bl_fail(err, BL_ENOMEM, "a thread for %s", name);
        }
        queue->nthreads++;
    }
    *out = queue;
    return BL_OK;
}

void bl_queue_destroy(bl_queue *queue)
{
    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_broadcast(&queue->some);
    pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->nthreads; i++)
        pthread_join(queue->thread[i], NULL);
    pthread_cond_destroy(&queue->some);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}
