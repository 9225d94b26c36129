/* SPDX-License-Identifier: MIT */
/* The choice of a slot: the slot that finishes first, by the measured times of its runs and of the queue of its device.  A
 * slot whose device is lost is chosen only if all slots are lost.  A slot whose device is drained is chosen only if there is
 * no other. */
#include "server/batch/batcher.h"

#include "engine/base/clock.h"

#include <math.h>

enum {
    MOST_AHEAD = 64, /* runs of busy slots that are counted before a later run may begin */
    /* The half-life of an old measurement is its own time multiplied by this number, once other slots were measured after
     * it.  So a repeated trial costs only a part of the time. */
    HALF_LIFE = 100
};

bool bl_batch_slot_is_lost(const bl_batch_slot *slot)
{
    bl_err ignored = {0};
    return bl_program_check(slot->program, &ignored) != BL_OK;
}

bool bl_batcher_is_lost(const bl_batcher *b)
{
    for (int i = 0; i < b->nslots; i++)
        if (!bl_batch_slot_is_lost(b->slots[i]))
            return false;
    return true;
}

typedef enum standing { GOOD, DRAINED, LOST } standing;

static standing standing_of(const bl_batch_slot *slot)
{
    if (bl_batch_slot_is_lost(slot))
        return LOST;
    return atomic_load(&slot->program->worker->drained) ? DRAINED : GOOD;
}

/* The best standing of all slots.  A slot of a worse standing is not chosen. */
static standing best_standing(const bl_batcher *b)
{
    standing best = LOST;
    for (int i = 0; i < b->nslots; i++) {
        standing one = standing_of(b->slots[i]);
        best = one < best ? one : best;
    }
    return best;
}

/* ---- measurements */

bool bl_batch_learn(bl_batcher *b, bl_batch_slot *slot, int64_t rows, bool exact, bool orders, int64_t ns)
{
    bool wanted = false;
    pthread_mutex_lock(&b->lock);
    bl_sizes_learn(&slot->sizes, rows, exact, ns);
    wanted = orders && bl_sizes_order(&slot->sizes, rows);
    slot->learned_ns = b->learned_ns = bl_clock_ns();
    slot->executions++;
    slot->inferences += (uint64_t)rows;
    slot->infer_ns += (uint64_t)(ns > 0 ? ns : 0);
    pthread_mutex_unlock(&b->lock);
    return wanted;
}

/* Under the lock: how many of |rows| should run if a run began now.  If one row fills the device or its caches, a run of
 * several rows can take longer than several runs of one row. */
static int64_t batch_slots_worth_rows(const bl_batcher *b, bl_batch_slot *slot, int64_t rows)
{
    if (b->how.npreferred > 0)
        return b->max_rows;
    return bl_sizes_best(&slot->sizes, rows < b->max_rows ? rows : b->max_rows);
}

/* Under the lock: the expected time of a run of |rows| (bl_sizes_expect).  0: no run was measured, so the slot is tried.  A
 * measurement that is much older than the newest measurement of the batcher counts less. */
static double cost_ns(const bl_batcher *b, const bl_batch_slot *slot, int64_t rows)
{
    double ns = bl_sizes_expect(&slot->sizes, rows), age = (double)(b->learned_ns - slot->learned_ns);
    return ns > 0 ? ns * exp2(-age / (HALF_LIFE * ns)) : 0;
}

/* The expected time of |work| requests in the queue of the device, by the recent time of a request there. */
static double queue_ns(const bl_worker *worker, size_t work)
{
    return (double)work * (double)atomic_load(&worker->turn_ns);
}

/* ---- the choice; under the lock */

typedef struct choice {
    const bl_batcher *batcher;
    int64_t now;
    standing best;
    double free_ns[BL_BATCH_SLOTS]; /* the time from |now| until the slot can begin another run */
} choice;

static void begin_choice(choice *c, bl_batcher *b)
{
    *c = (choice){.batcher = b, .now = bl_clock_ns(), .best = best_standing(b)};
    for (int i = 0; i < b->nslots; i++) {
        const bl_batch_slot *one = b->slots[i];
        const bl_worker *worker = one->program->worker;
        if (one->running)
            c->free_ns[i] = one->free_ns > c->now ? (double)(one->free_ns - c->now) : 0;
        else
            c->free_ns[i] = queue_ns(worker, bl_queue_length(worker->queue));
    }
}

/* The slot that finishes first, with as many of |rows| as are worth a run on this slot.  -1: there is no slot of the best
 * standing. */
static int find_first(const choice *c, int64_t rows, int64_t *most, double *done)
{
    int best = -1;
    for (int i = 0; i < c->batcher->nslots; i++) {
        bl_batch_slot *one = c->batcher->slots[i];
        int64_t worth = batch_slots_worth_rows(c->batcher, one, rows);
        double end = c->free_ns[i] + cost_ns(c->batcher, one, worth < rows ? worth : rows);
        if (standing_of(one) > c->best || (best >= 0 && end >= *done))
            continue;
        best = i;
        *most = worth;
        *done = end;
    }
    return best;
}

static bl_batch_slot *batch_slots_take(choice *c, int at, double done)
{
    bl_batch_slot *slot = c->batcher->slots[at];
    slot->running = true;
    slot->free_ns = c->now + (int64_t)done;
    return slot;
}

/* The only slot.  The number of rows is chosen when the run begins, so that the run has all rows that arrived until then. */
static bl_batch_slot *take_only(bl_batcher *b, int64_t *most)
{
    bl_batch_slot *one = b->slots[0];
    if (one->running)
        return NULL;
    *most = b->max_rows;
    one->running = true;
    return one;
}

/* Assign each part of the waiting rows to the slot that finishes it first.  If that slot is busy, its part stays in the queue,
 * and a slower idle slot may begin with the rows behind this part. */
bl_batch_slot *bl_batch_take(bl_batcher *b, int64_t rows, bool behind, int64_t *most, int64_t *skip)
{
    choice c;
    *skip = 0;
    if (b->nslots == 1)
        return take_only(b, most);
    begin_choice(&c, b);
    for (int ahead = 0; ahead < MOST_AHEAD && rows > 0; ahead++) {
        double done = 0;
        int at = find_first(&c, rows, most, &done);
        if (at < 0) /* the last device was lost meanwhile; the caller that restores the devices calls again */
            return NULL;
        if (!b->slots[at]->running)
            return batch_slots_take(&c, at, done);
        if (!behind)
            return NULL;
        c.free_ns[at] = done;
        *skip += *most;
        rows -= *most;
    }
    return NULL;
}

bl_batch_slot *bl_batch_choose(bl_batcher *b)
{
    bl_batch_slot *best = b->slots[0];
    double least = 0;
    standing worst = LOST;
    if (b->nslots == 1)
        return best;
    worst = best_standing(b);
    best = NULL;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->nslots; i++) {
        bl_batch_slot *one = b->slots[i];
        size_t own = (size_t)atomic_load(&one->busy), length = bl_queue_length(one->program->worker->queue);
        double end = (double)(own + 1) * cost_ns(b, one, 1) + queue_ns(one->program->worker, length > own ? length - own : 0);
        if (standing_of(one) > worst || (best != NULL && end >= least))
            continue;
        best = one;
        least = end;
    }
    pthread_mutex_unlock(&b->lock);
    return best != NULL ? best : b->slots[0]; /* the last good slot was lost just now */
}
