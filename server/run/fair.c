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

static int fair_compare(const bl_work_item *a, const bl_work_item *b)
{
    return a->rank != b->rank ? a->rank - b->rank : a->priority - b->priority;
}

void bl_fair_add(bl_fair *fair, bl_work_item *item)
{
    bl_waiter *waiter = item->waiter;
    bl_work_item *before = waiter->tail;
    if (waiter->head == NULL) {
        waiter->credit = credit_now(fair, waiter);
        waiter->round = fair->round;
    }
    while (before != NULL && fair_compare(item, before) < 0)
        before = before->prev;
    item->prev = before;
    item->next = before != NULL ? before->next : waiter->head;
    *(before != NULL ? &before->next : &waiter->head) = item;
    *(item->next != NULL ? &item->next->prev : &waiter->tail) = item;
}

void bl_fair_remove(bl_fair *fair, bl_work_item *item)
{
    bl_waiter *waiter = item->waiter;
    *(item->prev != NULL ? &item->prev->next : &waiter->head) = item->next;
    *(item->next != NULL ? &item->next->prev : &waiter->tail) = item->prev;
    item->next = item->prev = NULL;
    waiter->round = fair->round;
}

/* ---- turns */

/* May |item| run now? */
static bool fair_is_free(const bl_work_item *item)
{
    bool mine = item->serial == NULL || item->serial->holder == NULL || item->serial->holder == item;
    return mine && !bl_work_item_is_gated(item);
}

static bl_work_item *first_free(const bl_fair *fair, const bl_waiter *waiter)
{
    bl_work_item *item = fair->most == 0 || waiter->working < fair->most ? waiter->head : NULL;
    while (item != NULL && !fair_is_free(item))
        item = item->next;
    return item;
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
bl_work_item *bl_fair_next(bl_fair *fair)
{
    bl_work_item *best = NULL;
    uint64_t turn = 0;
    pass_rounds(fair);
    for (const bl_waiter *waiter = fair->first; waiter != NULL; waiter = waiter->next) {
        bl_work_item *item = waiter->credit > 0 ? first_free(fair, waiter) : NULL;
        if (item == NULL || (best != NULL && (item->rank > best->rank || (item->rank == best->rank && waiter->turn >= turn))))
            continue;
        best = item;
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
