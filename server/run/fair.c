/* SPDX-License-Identifier: MIT */
#include "server/run/fair.h"

#include <stdlib.h>

enum {
    QUANTUM_NS = 1000000, /* credit per round, about the time of a short request: two waiters then alternate request by
                           * request */
    MEAN_PART = 8         /* the mean covers about this many requests */
};

/* The credit of |waiter| if the waiter takes part from now on.  Missed rounds reduce a debt, but they raise the credit to at
 * most one quantum. */
static int64_t credit_now(const bl_fair *fair, const bl_waiter *waiter)
{
    int64_t rounds = (int64_t)(fair->round - waiter->round);
    return rounds > (QUANTUM_NS - waiter->credit) / QUANTUM_NS ? QUANTUM_NS : waiter->credit + rounds * QUANTUM_NS;
}

/* Free the waiters that have no requests and whose credit equals the credit of a new waiter. */
static void fair_sweep(bl_fair *fair)
{
    for (bl_waiter **at = &fair->first; *at != NULL;) {
        bl_waiter *waiter = *at;
        if (waiter->count > 0 || credit_now(fair, waiter) < QUANTUM_NS) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        free(waiter);
    }
}

bl_waiter *bl_fair_enter(bl_fair *fair, uint32_t owner)
{
    bl_waiter *waiter = fair->first;
    while (waiter != NULL && waiter->owner != owner)
        waiter = waiter->next;
    if (waiter == NULL) {
        fair_sweep(fair);
        waiter = calloc(1, sizeof *waiter);
        if (waiter == NULL)
            return NULL;
        *waiter = (bl_waiter){.next = fair->first, .owner = owner, .round = fair->round, .credit = QUANTUM_NS};
        fair->first = waiter;
    }
    waiter->count++;
    return waiter;
}

void bl_fair_leave(bl_fair *fair, bl_waiter *waiter)
{
    if (--waiter->count == 0)
        fair_sweep(fair);
}

void bl_fair_fini(bl_fair *fair)
{
    while (fair->first != NULL) {
        bl_waiter *waiter = fair->first;
        fair->first = waiter->next;
        free(waiter);
    }
}

/* ---- their requests */

static int fair_compare(const bl_request *a, const bl_request *b)
{
    return a->item.rank != b->item.rank ? a->item.rank - b->item.rank : a->item.priority - b->item.priority;
}

void bl_fair_add(bl_fair *fair, bl_request *rq)
{
    bl_waiter *waiter = rq->item.waiter;
    bl_request *before = waiter->tail;
    if (waiter->head == NULL) {
        waiter->credit = credit_now(fair, waiter);
        waiter->round = fair->round;
    }
    while (before != NULL && fair_compare(rq, before) < 0)
        before = before->item.prev;
    rq->item.prev = before;
    rq->item.next = before != NULL ? before->item.next : waiter->head;
    *(before != NULL ? &before->item.next : &waiter->head) = rq;
    *(rq->item.next != NULL ? &rq->item.next->item.prev : &waiter->tail) = rq;
}

void bl_fair_remove(bl_fair *fair, bl_request *rq)
{
    bl_waiter *waiter = rq->item.waiter;
    *(rq->item.prev != NULL ? &rq->item.prev->item.next : &waiter->head) = rq->item.next;
    *(rq->item.next != NULL ? &rq->item.next->item.prev : &waiter->tail) = rq->item.prev;
    rq->item.next = rq->item.prev = NULL;
    waiter->round = fair->round;
}

/* ---- turns */

/* May |rq| run now? */
static bool fair_is_free(const bl_request *rq)
{
    bool mine = rq->item.serial == NULL || rq->item.serial->holder == NULL || rq->item.serial->holder == rq;
    return mine && !bl_request_is_gated(rq);
}

static bl_request *first_free(const bl_fair *fair, const bl_waiter *waiter)
{
    bl_request *rq = fair->most == 0 || waiter->working < fair->most ? waiter->head : NULL;
    while (rq != NULL && !fair_is_free(rq))
        rq = rq->item.next;
    return rq;
}

/* Advance by the number of rounds after which the first waiter with a runnable request has credit.  Every waiter with requests
 * gets the credit of these rounds, up to one quantum in total. */
static void pass_rounds(bl_fair *fair)
{
    int64_t rounds = INT64_MAX;
    for (const bl_waiter *waiter = fair->first; waiter != NULL; waiter = waiter->next) {
        int64_t wanted = waiter->credit > 0 ? 0 : -waiter->credit / QUANTUM_NS + 1;
        if (wanted < rounds && first_free(fair, waiter) != NULL)
            rounds = wanted;
    }
    if (rounds == 0 || rounds == INT64_MAX)
        return;
    fair->round += (uint64_t)rounds;
    for (bl_waiter *waiter = fair->first; waiter != NULL; waiter = waiter->next) {
        if (waiter->head == NULL)
            continue;
        waiter->credit = credit_now(fair, waiter);
        waiter->round = fair->round;
    }
}

/* Of the waiters with credit, choose the waiter whose first request has the lowest rank.  Among equal ranks choose the waiter
 * that was served longest ago. */
bl_request *bl_fair_next(bl_fair *fair)
{
    bl_request *best = NULL;
    uint64_t turn = 0;
    pass_rounds(fair);
    for (const bl_waiter *waiter = fair->first; waiter != NULL; waiter = waiter->next) {
        bl_request *rq = waiter->credit > 0 ? first_free(fair, waiter) : NULL;
        if (rq == NULL ||
            (best != NULL && (rq->item.rank > best->item.rank || (rq->item.rank == best->item.rank && waiter->turn >= turn))))
            continue;
        best = rq;
        turn = waiter->turn;
    }
    return best;
}

int64_t bl_fair_begin(bl_fair *fair, bl_waiter *waiter)
{
    waiter->turn = ++fair->turn;
    waiter->credit -= waiter->mean;
    return waiter->mean;
}

void bl_fair_charge(bl_waiter *waiter, int64_t expected, int64_t took)
{
    waiter->credit += expected - took;
    waiter->mean += (took - waiter->mean) / MEAN_PART;
}

/* The time is not charged if memory is short. */
void bl_fair_owe(bl_fair *fair, uint32_t owner, int64_t took)
{
    bl_waiter *waiter = bl_fair_enter(fair, owner);
    if (waiter == NULL)
        return;
    waiter->credit = credit_now(fair, waiter) - took;
    waiter->round = fair->round;
    bl_fair_leave(fair, waiter);
}
