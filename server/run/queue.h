/* SPDX-License-Identifier: MIT */
/* A bounded queue of requests and the threads that work on them: one thread for a device, a few threads for the compiler.
 * Owners get equal time (fair.h).  Lock order: peer, then queue.  The queue holds no lock while work runs or while a request
 * finishes. */
#ifndef BL_SERVER_RUN_QUEUE_H
#define BL_SERVER_RUN_QUEUE_H

#include "server/http/request.h"

enum {
    BL_QUEUE_TURNS = 1024, /* number of recorded turns: a tenth of a second of runs of 0.1 ms each, or a minute and a half of
                            * slices of jobs */
    BL_TURN_WHAT = 96
};

/* Hooks of a queue, called with |arg|.  Each hook may be NULL.  |start| runs when a thread of the queue begins.  |before| and
 * |after| run around each piece of work, on the thread of the work.  |around_inline| runs before and after work on the
 * submitting thread (bl_queue_run_inline).  |charge| gets the nanoseconds that the work took.  The requests of one owner never
 * occupy the last |spare| threads. */
typedef struct bl_queue_hooks {
    void (*start)(void *arg);
    void (*before)(void *arg);
    void (*after)(void *arg);
    void (*around_inline)(void *arg, bool begins);
    void (*charge)(void *arg, uint32_t owner, int64_t took);
    unsigned spare;
    void *arg;
} bl_queue_hooks;

/* Start |threads| threads.  At most |max| requests of each owner wait. */
BL_NODISCARD bl_status bl_queue_create(const char *name, size_t max, unsigned threads, const bl_queue_hooks *hooks,
                                       bl_queue **out, bl_err *err);
/* Join the threads.  No request may be queued any more. */
void bl_queue_destroy(bl_queue *queue);

/* Reserve a place for |rq|.  If quotas apply to the request (bl_request_is_bound): BL_EBUSY if the queue is full, BL_EQUOTA if
 * its owner has |quota| requests in the queue.  After BL_OK the caller must call bl_queue_push, which cannot fail. */
BL_NODISCARD bl_status bl_queue_reserve(bl_queue *queue, bl_request *rq, size_t quota, bl_err *err);
void bl_queue_push(bl_queue *queue, bl_request *rq);
/* Replaces bl_queue_push: do the work of |rq| on this thread.  This is possible only if the queue has one thread, the thread is
 * idle and no request waits; else false.  After true the work is done and rq->err has its result, unless the request moved to
 * another thread. */
bool bl_queue_run_inline(bl_queue *queue, bl_request *rq);
/* Report that |gate| has changed: the requests that wait for |gate| may get turns again. */
void bl_queue_open(bl_queue *queue, bl_gate *gate);
size_t bl_queue_length(bl_queue *queue);
/* Call |each|, under the lock, for every owner with waiting or running requests. */
void bl_queue_list(bl_queue *queue, void (*each)(void *arg, uint32_t owner, size_t requests), void *arg);
/* Call |each|, under the lock, with the purpose (bl_request_print_purpose) of every request that waits for a device.  Short
 * running requests are omitted, because waking a thread would cost more than a short run. */
void bl_queue_list_purposes(bl_queue *queue, void (*each)(void *arg, uint32_t owner, const char *purpose), void *arg);
/* A turn: an interval in which a thread of the queue worked on a request.  Turns of one lane do not overlap. */
typedef struct bl_turn_record {
    int64_t queued_ns, begin_ns, end_ns; /* times of bl_clock_ns; queued_ns: when the request began to wait */
    uint32_t owner;
    unsigned lane; /* index of the thread */
    char what[BL_TURN_WHAT];
} bl_turn_record;
/* Call |each|, under the lock, for each of the last BL_QUEUE_TURNS turns that ended after |since_ns|, in order of their
 * ends. */
void bl_queue_list_turns(bl_queue *queue, int64_t since_ns, void (*each)(void *arg, const bl_turn_record *turn), void *arg);
size_t bl_queue_count_of(bl_queue *queue, uint32_t owner); /* number of waiting and running requests of |owner| */
/* Call |each|, under the lock, for every request that the only thread of |queue| works on.  |ns|: the nanoseconds of the turn
 * so far, which |charge| has not reported yet. */
void bl_queue_list_running(bl_queue *queue, void (*each)(void *arg, uint32_t owner, int64_t ns), void *arg);
/* Does a request wait?  Long work calls this between steps and then yields. */
bool bl_queue_is_wanted(bl_queue *queue);

/* Continuous batching of texts (models/text_step.c) on a queue with one thread, called on that thread.  The work of one request
 * may take other waiting requests with the same work into its batch.  Batched requests count as running until the work settles
 * each of them. */
typedef bool (*bl_queue_fits)(void *arg, const bl_request *rq); /* called under the lock */
size_t bl_queue_count(bl_queue *queue, bl_queue_fits fits, void *arg);
/* Take at most |most| requests of the lowest priority number into the batch, the longest waiting first, linked by |next|. */
bl_work_item *bl_queue_take_batch(bl_queue *queue, bl_queue_fits fits, void *arg, size_t most);

/* A batched request after its removal from the batch.  Call bl_queue_unbatch before the request finishes; the copy stays valid
 * after the request has ended. */
typedef struct bl_batched {
    bl_request *rq;
    struct bl_waiter *waiter;
    uint32_t owner;
} bl_batched;
bl_batched bl_queue_unbatch(bl_queue *queue, bl_request *rq);
/* End the work of a batched request, which returned |step|.  After BL_STEP_MOVED the request may belong to another thread.
 * |took| nanoseconds of this turn are charged to the owner of this request, and not to the owner of the request that leads the
 * batch. */
void bl_queue_settle(bl_queue *queue, const bl_batched *batched, bl_step step, int64_t took);

/* Split the answer of |rq| from its work.  Call before a stretch of work that serves other requests too and needs nothing of
 * |rq| but its memory.  Until bl_queue_take_back, bl_queue_expire may finish the request while the work continues.  If
 * bl_queue_take_back returns false, the work must not touch the request, must call bl_request_release and must return
 * BL_STEP_MOVED.  Not for internal requests. */
void bl_queue_lend(bl_queue *queue, bl_request *rq);
BL_NODISCARD bool bl_queue_take_back(bl_queue *queue, bl_request *rq);

/* Remove |rq| from |queue| if it waits there.  True: the caller now owns the request and must finish it. */
bool bl_queue_remove(bl_queue *queue, bl_request *rq);
/* Finish all requests that waited too long, with BL_ETIMEOUT, and all lent requests whose client is gone or whose deadline has
 * passed. */
void bl_queue_expire(bl_queue *queue, int64_t now_ns);

#endif
