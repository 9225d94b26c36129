/* SPDX-License-Identifier: MIT */
/* A bounded queue of requests and the threads that work on it: one for a device, a few for the compiler.  Owners get equal time
 * (fair.h).
 * Lock order: peer, then queue.  No lock is held while work runs or a request is finished. */
#ifndef BL_SERVER_QUEUE_H
#define BL_SERVER_QUEUE_H

#include "server/request.h"

enum {
    BL_QUEUE_TURNS =
        1024, /* that are remembered: of runs of 0.1 ms each a tenth of a second, of slices of jobs a minute and a half */
    BL_TURN_WHAT = 96
};

/* Called on the thread of a piece of work with |arg|; they may be NULL: |before| and |after| it, or |visit| before and after it
 * where that thread is none of the queue's, and |charge| with the nanoseconds that it took; |start| when a thread of the queue
 * begins.  The requests of one owner never have the last |spare| threads. */
typedef struct bl_queue_hooks {
    void (*start)(void *arg);
    void (*before)(void *arg);
    void (*after)(void *arg);
    void (*visit)(void *arg, bool begins);
    void (*charge)(void *arg, uint32_t owner, int64_t took);
    unsigned spare;
    void *arg;
} bl_queue_hooks;

/* Starts |threads| threads.  At most |max| requests of each owner wait. */
BL_NODISCARD bl_status bl_queue_create(const char *name, size_t max, unsigned threads, const bl_queue_hooks *hooks,
                                       bl_queue **out, bl_err *err);
/* Joins the threads; nothing may be queued any more. */
void bl_queue_destroy(bl_queue *queue);

/* Take a place for |rq|, or, where it is bound by that, BL_EBUSY, or BL_EQUOTA where its owner has |quota| there; it must be used
 * with bl_queue_push, which cannot fail. */
BL_NODISCARD bl_status bl_queue_reserve(bl_queue *queue, bl_request *rq, size_t quota, bl_err *err);
void bl_queue_push(bl_queue *queue, bl_request *rq);
/* Instead of that: do the work of |rq| on this thread, if the queue has one thread and that has nothing to do, and nobody waits;
 * else false.  After true it is done, and rq->err says how, unless it moved on. */
bool bl_queue_visit(bl_queue *queue, bl_request *rq);
/* |gate| changed: the requests that wait for it have their turns again. */
void bl_queue_open(bl_queue *queue, bl_gate *gate);
size_t bl_queue_length(bl_queue *queue);
/* Call |each|, under the lock, for every owner that has requests there: waiting or at work. */
void bl_queue_list(bl_queue *queue, void (*each)(void *arg, uint32_t owner, size_t requests), void *arg);
/* The same for every request that waits for a device, or is at work there for longer than is worth waking a thread, with
 * what it is for (bl_request_print_purpose). */
void bl_queue_list_purposes(bl_queue *queue, void (*each)(void *arg, uint32_t owner, const char *purpose), void *arg);
/* A turn that a thread of the queue gave to a request.  Turns of one lane follow each other. */
typedef struct bl_turn_record {
    int64_t queued_ns, begin_ns, end_ns; /* of bl_clock_ns; queued_ns: since when the request waited */
    uint32_t owner;
    unsigned lane; /* which of the threads */
    char what[BL_TURN_WHAT];
} bl_turn_record;
/* Call |each|, under the lock, for those of the last BL_QUEUE_TURNS turns that ended after |since_ns|, in the order of their
 * ends. */
void bl_queue_list_turns(bl_queue *queue, int64_t since_ns, void (*each)(void *arg, const bl_turn_record *turn), void *arg);
size_t bl_queue_count_of(bl_queue *queue, uint32_t owner); /* those of |owner| that wait or are at work */
/* Call |each|, under the lock, for every request that the one thread of |queue| works on, with the time that it has taken so far
 * and that no call of |charge| had yet. */
void bl_queue_list_running(bl_queue *queue, void (*each)(void *arg, uint32_t owner, int64_t ns), void *arg);
/* Does anybody wait?  Whoever works for long looks at it between steps, and lets the others in. */
bool bl_queue_is_wanted(bl_queue *queue);

/* Others that wait may be taken along by the work of one, which is the same for all: they are at work then as well, until it
 * settles each.  Of a queue with one thread, on that thread. */
typedef bool (*bl_queue_fits)(void *arg, const bl_request *rq); /* under the lock */
size_t bl_queue_count(bl_queue *queue, bl_queue_fits fits, void *arg);
/* At most |most|, of the best priority those that wait longest, linked by |next|. */
bl_request *bl_queue_take_along(bl_queue *queue, bl_queue_fits fits, void *arg, size_t most);

/* The place of one that was taken along; ask for it when what it was taken along for is over. */
typedef struct bl_seat {
    bl_request *rq;
    struct bl_waiter *waiter;
    uint32_t owner;
} bl_seat;
bl_seat bl_queue_seat(bl_queue *queue, bl_request *rq);
/* Its work said |step|, after MOVED rq may be somebody else's already.  |took| of this turn's time is its owner's, and not that
 * of who took it along. */
void bl_queue_settle(bl_queue *queue, const bl_seat *seat, bl_step step, int64_t took);

/* What the work of |rq| does next goes on for others when nobody waits for this one any more, and needs nothing of it but that
 * its memory stays as it is.  Until bl_queue_take_back bl_queue_expire may finish the request, without an end of the work, which
 * is then told false: it leaves all of it alone, calls bl_request_release, and says MOVED.  Not for one of the server's own. */
void bl_queue_lend(bl_queue *queue, bl_request *rq);
BL_NODISCARD bool bl_queue_take_back(bl_queue *queue, bl_request *rq);

/* Take |rq| out of |queue| if it waits there; then it is the caller's, to finish. */
bool bl_queue_remove(bl_queue *queue, bl_request *rq);
/* Take out and finish, with BL_ETIMEOUT, all that waited too long, and those that are lent and for which nobody waits. */
void bl_queue_expire(bl_queue *queue, int64_t now_ns);

#endif
