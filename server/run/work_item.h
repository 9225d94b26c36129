/* SPDX-License-Identifier: MIT */
/* A piece of work in a queue: what the queue (queue.h) and the fair scheduling (fair.h) know of a request.  Each request has one
 * item, and is in one queue at a time. */
#ifndef BL_SERVER_RUN_WORK_ITEM_H
#define BL_SERVER_RUN_WORK_ITEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bl_request bl_request;
typedef struct bl_queue bl_queue;
typedef struct bl_work_item bl_work_item;

/* The result of a piece of work.  MOVED: the request belongs to another thread.  IN_FLIGHT: the run was submitted to the device
 * and is not complete.  The queue calls the work again to wait for the run to complete: when no other request that may be in
 * flight waits, or when enough runs are in flight. */
typedef enum bl_step { BL_STEP_DONE, BL_STEP_AGAIN, BL_STEP_MOVED, BL_STEP_IN_FLIGHT } bl_step;
typedef bl_step (*bl_work)(bl_request *rq);

/* A set of requests that must not overlap, such as the runs of one program.  They run in order of arrival.  Exactly one queue
 * uses the object, and its lock guards the object.  A zeroed object is valid. */
typedef struct bl_serial {
    const bl_work_item *holder; /* the item that runs or is between two slices; the pointer is compared, never dereferenced */
} bl_serial;

/* A condition for which a queued request waits.  The request gets no turn until |changes| differs from the value that the
 * request has read (bl_queue_open).  A zeroed object is valid. */
typedef struct bl_gate {
    atomic_ullong changes;
} bl_gate;

/* The order of the waiting requests of one owner: the queue serves the lower rank first.  The rank also decides between owners
 * if fair scheduling leaves the choice open.  A client waits for the result of a request with a low rank.  A request with a
 * high rank runs for long. */
typedef enum bl_rank { BL_RANK_INFER = -1, BL_RANK_RUN = 0, BL_RANK_TRAIN = 1 } bl_rank;

/* How a queue may do a piece of work. */
typedef enum bl_work_mode {
    BL_WORK_ALONE,     /* after the runs in flight have completed */
    BL_WORK_IN_FLIGHT, /* the work may be submitted to the device while other runs are in flight */
    BL_WORK_INLINE     /* also, the work takes less time than waking a thread: the submitting thread may do the work itself.
                        * Applies to one submission, which sets IN_FLIGHT. */
} bl_work_mode;

/* The part of a request's device time that another owner pays. */
typedef struct bl_time_part {
    uint32_t owner;
    double part; /* the sum over all parts of a request is at most 1 */
} bl_time_part;

/* A request in a queue, as the queue and the fair scheduling see it.  The submitter fills the item.  From bl_request_submit until
 * the end of the work the lock of |queue| guards |next|, |prev|, |batched| and |waiter|.  The work may change the other
 * members. */
struct bl_work_item {
    bl_request *rq; /* the request of the item */
    bl_work_item *next, *prev;
    bl_work_item *batched;     /* the next request of the same batch */
    _Atomic(bl_queue *) queue; /* the queue that lists the request, or NULL; changed under the lock of that queue */
    struct bl_waiter *waiter;  /* waiter of that queue, while the request has a place there: waiting or running */
    bl_serial *serial;
    bl_gate *gate;      /* NULL: the request waits only for its turn.  The work sets |gate| before the work returns AGAIN. */
    uint64_t gate_seen; /* the value of gate->changes that the work read */
    bl_work work;
    bl_rank rank;
    int priority; /* order within the rank and the owner; the lower number goes first */
    bl_work_mode mode;
    int64_t expected_ns;        /* the known run time, or 0 */
    const bl_time_part *shares; /* parts of the device time that other owners pay; arena, or NULL */
    unsigned nshares;
    int64_t queued_ns, deadline_ns;
};

/* Does |item| wait in its queue for a gate that has not changed yet? */
static inline bool bl_work_item_is_gated(const bl_work_item *item)
{
    return item->gate != NULL && atomic_load(&item->gate->changes) == item->gate_seen;
}

#endif
