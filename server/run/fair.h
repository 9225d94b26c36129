/* SPDX-License-Identifier: MIT */
/* Fair scheduling between owners.  Each owner of requests is one waiter, and waiters get equal time: deficit round robin
 * (Shreedhar and Varghese, 1995).  The cost of a request is measured after it ran, so that a waiter pays its debt before it is
 * served again.  Among the requests of one waiter the better rank goes first, then the lower priority number, then the earlier
 * arrival.  Thread: under the lock of the queue that owns the object. */
#ifndef BL_SERVER_RUN_FAIR_H
#define BL_SERVER_RUN_FAIR_H

#include "server/http/request.h"

typedef struct bl_waiter bl_waiter;
struct bl_waiter {
    bl_waiter *next;
    uint32_t owner;
    size_t count;         /* requests that have a place: waiting or running */
    size_t working;       /* of these, running */
    int64_t credit;       /* nanoseconds; below zero: the waiter has had more than its share */
    int64_t mean;         /* nanoseconds that its last requests took: moving mean */
    uint64_t round, turn; /* the last round that it took part in; the turn in which it was last served */
    bl_request *head, *tail;
};

/* A zeroed object is valid. */
typedef struct bl_fair {
    bl_waiter *first;
    uint64_t round, turn;
    size_t most; /* requests of one waiter that may run at a time; 0: any number */
} bl_fair;

/* Take a place for a request of |owner|; a waiter is created if |owner| has none.  NULL if out of memory. */
bl_waiter *bl_fair_enter(bl_fair *fair, uint32_t owner);
/* Give one place back.  The waiter may be freed. */
void bl_fair_leave(bl_fair *fair, bl_waiter *waiter);
/* Add |rq| to, or remove it from, the waiting requests of rq->item.waiter. */
void bl_fair_add(bl_fair *fair, bl_request *rq);
void bl_fair_remove(bl_fair *fair, bl_request *rq);
/* The next request that may run; it stays in the list.  NULL: there is none. */
bl_request *bl_fair_next(bl_fair *fair);
/* Work for |waiter| begins.  The waiter is charged, in advance, with the mean time of its requests, which is returned;
 * bl_fair_charge replaces this by the measured time.  Without the advance charge several threads would all serve one waiter. */
int64_t bl_fair_begin(bl_fair *fair, bl_waiter *waiter);
void bl_fair_charge(bl_waiter *waiter, int64_t expected, int64_t took);
/* Charge |owner| for its part in a turn of another waiter. */
void bl_fair_owe(bl_fair *fair, uint32_t owner, int64_t took);
void bl_fair_fini(bl_fair *fair);

#endif
