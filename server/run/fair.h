/* SPDX-License-Identifier: MIT */
/* Fair scheduling between owners: deficit round robin (Shreedhar and Varghese, 1995).  Each owner of requests is one waiter,
 * and waiters get equal time.  At the start of a turn a waiter pays the mean time of its requests, and after the turn the
 * difference to the measured time.  A new round gives every waiter with requests 1 ms of credit, up to a credit of 1 ms.  Only
 * a waiter with credit is served: rounds pass until one has credit.  Among those waiters the lower rank goes first, then the
 * waiter that was served least recently.  Among the requests of one waiter the lower rank goes first, then the lower priority
 * number, then the earlier arrival.  Thread: under the lock of the queue that owns the object. */
#ifndef BL_SERVER_RUN_FAIR_H
#define BL_SERVER_RUN_FAIR_H

#include "server/run/work_item.h"

typedef struct bl_waiter bl_waiter;
struct bl_waiter {
    bl_waiter *next;
    uint32_t owner;
    size_t count;         /* number of requests with a place in the queue: waiting or running */
    size_t working;       /* number of running requests */
    int64_t credit;       /* nanoseconds; below zero: the waiter has received more than its share */
    int64_t mean;         /* moving mean of the time of its last requests, in nanoseconds */
    uint64_t round, turn; /* round: the last round in which the waiter took part; turn: the turn in which it was last served */
    bl_work_item *head, *tail;
};

/* A zeroed object is valid. */
typedef struct bl_fair {
    bl_waiter *first;
    uint64_t round, turn;
    size_t most; /* limit of running requests of one waiter; 0: no limit */
} bl_fair;

/* Take a place for a request of |owner|.  Creates the waiter if |owner| has none.  NULL if out of memory. */
bl_waiter *bl_fair_enter(bl_fair *fair, uint32_t owner);
/* Give one place back.  This may free the waiter. */
void bl_fair_leave(bl_fair *fair, bl_waiter *waiter);
/* Add |item| to, or remove it from, the waiting requests of item->waiter. */
void bl_fair_add(bl_fair *fair, bl_work_item *item);
void bl_fair_remove(bl_fair *fair, bl_work_item *item);
/* The next request that may run.  The request stays in the list.  NULL if no request may run. */
bl_work_item *bl_fair_next(bl_fair *fair);
/* Begin work for |waiter|.  Charges the waiter in advance with the mean time of its requests and returns this time.
 * bl_fair_charge replaces the advance charge by the measured time.  Without the advance charge several threads would all serve
 * one waiter. */
int64_t bl_fair_begin(bl_fair *fair, bl_waiter *waiter);
void bl_fair_charge(bl_waiter *waiter, int64_t expected, int64_t took);
/* Charge |owner| for its part of another waiter's turn. */
void bl_fair_owe(bl_fair *fair, uint32_t owner, int64_t took);
void bl_fair_fini(bl_fair *fair);

#endif
