/* SPDX-License-Identifier: MIT */
/* Whose turn it is.  Each owner of requests is one waiter, and waiters get equal time: deficit round robin (Shreedhar and
 * Varghese, 1995), where what a request costs is measured after it, so that a waiter pays its debts before it is served again. Of
 * one waiter's requests the better rank goes first, then the lower priority, then who came first. Thread: under the lock of the
 * queue that they belong to. */
#ifndef BL_SERVER_FAIR_H
#define BL_SERVER_FAIR_H

#include "server/request.h"

typedef struct bl_waiter bl_waiter;
struct bl_waiter {
    bl_waiter *next;
    uint32_t owner;
    size_t count;         /* requests that have a place: waiting or at work */
    size_t working;       /* of these, at work */
    int64_t credit;       /* nanoseconds; below zero it has had more than its part */
    int64_t mean;         /* nanoseconds that its last requests took */
    uint64_t round, turn; /* the last it took part in; when it was served last */
    bl_request *head, *tail;
};

/* Zeroed is ready. */
typedef struct bl_fair {
    bl_waiter *first;
    uint64_t round, turn;
    size_t most; /* of one waiter's requests that may be at work; 0: any number */
} bl_fair;

/* Take a place for a request of |owner|, of whom a waiter is made where there is none.  NULL if out of memory. */
bl_waiter *bl_fair_enter(bl_fair *fair, uint32_t owner);
/* Give one back.  The waiter may be gone afterwards. */
void bl_fair_leave(bl_fair *fair, bl_waiter *waiter);
/* To those of rq->waiter, and from there. */
void bl_fair_add(bl_fair *fair, bl_request *rq);
void bl_fair_remove(bl_fair *fair, bl_request *rq);
/* The next that may be worked on; it stays where it is.  NULL: there is none. */
bl_request *bl_fair_next(bl_fair *fair);
/* Work for |waiter| begins: it owes what its requests take on average, which is given, until bl_fair_charge says what this one
 * took.  So several threads do not all work for one. */
int64_t bl_fair_begin(bl_fair *fair, bl_waiter *waiter);
void bl_fair_charge(bl_waiter *waiter, int64_t expected, int64_t took);
/* |owner| had a part in somebody else's turn. */
void bl_fair_owe(bl_fair *fair, uint32_t owner, int64_t took);
void bl_fair_fini(bl_fair *fair);

#endif
