/* SPDX-License-Identifier: MIT */
#include "server/run/queue.h"

#include "engine/base/clock.h"
#include "server/ops/server.h"
#include "server/run/fair.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_THREADS = 64,
    MOST_IN_FLIGHT = 4 /* limit of runs in flight: the first run waits for the last, and each run is short (FLIGHT_NS in
                        * engine/plan/run_plan.c) */
};

/* A copy of the data of a running request for the listing functions, because the request itself may already belong to another
 * thread. */
typedef struct note {
    bool used;
    uint32_t owner;
    int64_t since_ns;
    char purpose[BL_PURPOSE_SIZE];
} note;

/* The state of the thread of a queue that has one thread. */
typedef enum thread_state {
    THREAD_IDLE,  /* waits for a request */
    THREAD_BUSY,  /* works on a request */
    THREAD_INLINE /* waits while the submitting thread does its work (bl_queue_run_inline) */
} thread_state;

struct bl_queue {
    const char *name;
    size_t max;           /* limit of the waiting requests of one waiter */
    atomic_size_t length; /* number of waiting and running requests */
    pthread_mutex_t lock;
    pthread_cond_t some;
    bl_fair fair;
    atomic_size_t waiting;
    atomic_llong settled_ns; /* the part of the current turn that was charged to batched requests; only for a queue with one
                              * thread */
    thread_state state;
    bool stop;                  /* the queue ends */
    note notes[MOST_IN_FLIGHT]; /* used by a queue with one thread */
    uint64_t nturns;            /* number of all turns; |turns| has the last of them */
    bl_turn_record *turns;
    atomic_uint lanes;   /* number of started threads */
    bl_work_item *batch; /* requests in the batch of the running work */
    bl_work_item *lent;  /* running requests whose work also serves other requests (linked by |next|) */
    bl_queue_hooks hooks;
    unsigned nthreads;
    pthread_t thread[MAX_THREADS];
};

/* Under the lock: release |serial|, so that the next request of |serial| may run. */
static void pass_serial(bl_queue *queue, bl_serial *serial)
{
    serial->holder = NULL;
    pthread_cond_signal(&queue->some);
}

/* A running request, with a copy of the data that is needed after its work: the request may then belong to another thread. */
typedef struct turn {
    bl_request *rq;
    bl_waiter *waiter;
    bl_serial *serial;
    note *note; /* or NULL */
    uint32_t owner;
    int64_t expected, weight, took;
    int64_t queued_ns, begin_ns, end_ns;
    unsigned lane;
    char purpose[BL_PURPOSE_SIZE];
    bl_step step;
    bool batched; /* by the work of another request */
} turn;

bl_status bl_queue_reserve(bl_queue *queue, bl_request *rq, size_t quota, bl_err *err)
{
    bl_waiter *waiter = NULL;
    bool bound = bl_request_is_bound(rq), full = false, over = false;
    pthread_mutex_lock(&queue->lock);
    waiter = bl_fair_enter(&queue->fair, rq->owner);
    full = bound && waiter != NULL && waiter->count > queue->max + queue->nthreads;
    over = bound && waiter != NULL && waiter->count > quota;
    if (full || over)
        bl_fair_leave(&queue->fair, waiter);
    pthread_mutex_unlock(&queue->lock);
    if (waiter == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a place in the queue of %s", queue->name);
    if (over)
        return bl_fail(err, BL_EQUOTA, "the key has its quota of %zu requests in the queue of %s; send the request again later",
                       quota, queue->name);
    if (full)
        return bl_fail(err, BL_EBUSY, "the queue of %s is full: %zu requests wait", queue->name, queue->max);
    rq->item.rq = rq;
    rq->item.waiter = waiter;
    atomic_fetch_add(&queue->length, 1);
    return BL_OK;
}

/* Under the lock: add |rq| to the waiting requests.  The caller changes the place of the request. */
static void queue_append(bl_queue *queue, bl_request *rq)
{
    atomic_store_explicit(&rq->item.queue, queue, memory_order_relaxed);
    bl_fair_add(&queue->fair, &rq->item);
    atomic_fetch_add(&queue->waiting, 1);
}

/* Under the lock: remove |rq| from the waiting requests.  The caller changes the place of the request. */
static void unlink_waiting(bl_queue *queue, bl_request *rq)
{
    atomic_store_explicit(&rq->item.queue, NULL, memory_order_relaxed);
    bl_fair_remove(&queue->fair, &rq->item);
    atomic_fetch_sub(&queue->waiting, 1);
}

void bl_queue_push(bl_queue *queue, bl_request *rq)
{
    pthread_mutex_lock(&queue->lock);
    queue_append(queue, rq);
    (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_PUSH);
    if (queue->state != THREAD_INLINE) /* the end of the inline work signals the condition */
        pthread_cond_signal(&queue->some);
    pthread_mutex_unlock(&queue->lock);
}

void bl_queue_open(bl_queue *queue, bl_gate *gate)
{
    pthread_mutex_lock(&queue->lock);
    atomic_fetch_add(&gate->changes, 1);
    pthread_cond_broadcast(&queue->some);
    pthread_mutex_unlock(&queue->lock);
}

size_t bl_queue_length(bl_queue *queue)
{
    return atomic_load(&queue->length);
}

void bl_queue_list(bl_queue *queue, void (*each)(void *arg, uint32_t owner, size_t requests), void *arg)
{
    pthread_mutex_lock(&queue->lock);
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        if (waiter->count > 0)
            each(arg, waiter->owner, waiter->count);
    pthread_mutex_unlock(&queue->lock);
}

void bl_queue_list_purposes(bl_queue *queue, void (*each)(void *arg, uint32_t owner, const char *purpose), void *arg)
{
    char purpose[BL_PURPOSE_SIZE];
    pthread_mutex_lock(&queue->lock);
    for (int i = 0; i < MOST_IN_FLIGHT; i++)
        if (queue->notes[i].used)
            each(arg, queue->notes[i].owner, queue->notes[i].purpose);
    for (const bl_work_item *item = queue->batch; item != NULL; item = item->batched) {
        bl_request_print_purpose(item->rq, purpose);
        each(arg, item->rq->owner, purpose);
    }
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        for (const bl_work_item *item = waiter->head; item != NULL; item = item->next) {
            bl_request_print_purpose(item->rq, purpose);
            each(arg, item->rq->owner, purpose);
        }
    pthread_mutex_unlock(&queue->lock);
}

size_t bl_queue_count_of(bl_queue *queue, uint32_t owner)
{
    size_t n = 0;
    pthread_mutex_lock(&queue->lock);
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        n += waiter->owner == owner ? waiter->count : 0;
    pthread_mutex_unlock(&queue->lock);
    return n;
}

/* Turns in flight share the time since the first of them began. */
void bl_queue_list_running(bl_queue *queue, void (*each)(void *arg, uint32_t owner, int64_t ns), void *arg)
{
    int64_t since = INT64_MAX, ns = 0;
    int running = 0;
    pthread_mutex_lock(&queue->lock);
    for (int i = 0; i < MOST_IN_FLIGHT; i++) {
        running += queue->notes[i].used;
        if (queue->notes[i].used && queue->notes[i].since_ns < since)
            since = queue->notes[i].since_ns;
    }
    ns = running > 0 ? bl_clock_ns() - since - atomic_load_explicit(&queue->settled_ns, memory_order_relaxed) : 0;
    for (int i = 0; i < MOST_IN_FLIGHT; i++)
        if (queue->notes[i].used && ns > 0)
            each(arg, queue->notes[i].owner, ns / running);
    pthread_mutex_unlock(&queue->lock);
}

bool bl_queue_is_wanted(bl_queue *queue)
{
    return atomic_load_explicit(&queue->waiting, memory_order_relaxed) > 0;
}

/* Under the lock: remove the waiting request |rq| and give its place back. */
static void queue_take_out(bl_queue *queue, bl_request *rq)
{
    unlink_waiting(queue, rq);
    (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_TAKE);
    bl_fair_leave(&queue->fair, rq->item.waiter);
    atomic_fetch_sub(&queue->length, 1);
    if (rq->item.serial != NULL && rq->item.serial->holder == &rq->item)
        pass_serial(queue, rq->item.serial);
}

bool bl_queue_remove(bl_queue *queue, bl_request *rq)
{
    bool found = false;
    pthread_mutex_lock(&queue->lock);
    if (atomic_load_explicit(&rq->item.queue, memory_order_relaxed) == queue) {
        queue_take_out(queue, rq);
        found = true;
    }
    pthread_mutex_unlock(&queue->lock);
    return found;
}

/* Under the lock: remove one request whose deadline has passed.  NULL if there is none. */
static bl_request *queue_take_expired(bl_queue *queue, int64_t now_ns)
{
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        for (bl_work_item *item = waiter->head; item != NULL; item = item->next)
            if (item->deadline_ns != 0 && item->deadline_ns <= now_ns) {
                queue_take_out(queue, item->rq);
                return item->rq;
            }
    return NULL;
}

/* ---- work whose request can be answered early */

void bl_queue_lend(bl_queue *queue, bl_request *rq)
{
    pthread_mutex_lock(&queue->lock);
    rq->item.queued_ns = bl_clock_ns();
    rq->item.next = queue->lent;
    queue->lent = &rq->item;
    (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_LEND);
    pthread_mutex_unlock(&queue->lock);
}

/* Under the lock: remove |rq| from the lent requests. */
static bool unlink_lent(bl_queue *queue, bl_request *rq)
{
    bl_work_item **at = &queue->lent;
    while (*at != NULL && *at != &rq->item)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = rq->item.next;
    rq->item.next = NULL;
    return bl_request_move(rq, BL_REQUEST_PLACE_ON_TAKE);
}

bool bl_queue_take_back(bl_queue *queue, bl_request *rq)
{
    bool found = false;
    pthread_mutex_lock(&queue->lock);
    found = unlink_lent(queue, rq);
    pthread_mutex_unlock(&queue->lock);
    return found;
}

/* Under the lock: remove one lent request whose client is gone or whose deadline has passed.  rq->err gets the reason.  From
 * now on the work holds a reference to the memory of the request. */
static bl_request *take_left(bl_queue *queue)
{
    for (bl_work_item *item = queue->lent; item != NULL; item = item->next) {
        bl_request *rq = item->rq;
        bl_halt halt = bl_request_halt(rq);
        if (bl_halt_check(&halt, &rq->err) == BL_OK)
            continue;
        (void)unlink_lent(queue, rq);
        atomic_store(&rq->holders, 2);
        return rq;
    }
    return NULL;
}

static void expire_lent(bl_queue *queue, int64_t now_ns)
{
    for (;;) {
        bl_request *rq = NULL;
        pthread_mutex_lock(&queue->lock);
        rq = take_left(queue);
        pthread_mutex_unlock(&queue->lock);
        if (rq == NULL)
            return;
        bl_request_trace_add(&rq->trace, BL_TIME_COMPILE, rq->item.queued_ns, now_ns);
        bl_request_finish(rq);
    }
}

void bl_queue_expire(bl_queue *queue, int64_t now_ns)
{
    expire_lent(queue, now_ns);
    for (;;) {
        bl_request *rq = NULL;
        pthread_mutex_lock(&queue->lock);
        rq = queue_take_expired(queue, now_ns);
        pthread_mutex_unlock(&queue->lock);
        if (rq == NULL)
            return;
        bl_request_trace_add(&rq->trace, BL_TIME_QUEUE, rq->item.queued_ns, now_ns);
        (void)bl_fail(&rq->err, BL_ETIMEOUT, "the timeout passed while the request waited for %s", queue->name);
        bl_request_finish(rq);
    }
}

/* Under the lock: begin the turn of the waiting request |rq|. */
static turn begin_turn(bl_queue *queue, bl_request *rq)
{
    turn at = {.rq = rq,
               .waiter = rq->item.waiter,
               .serial = rq->item.serial,
               .owner = rq->owner,
               .weight = rq->item.expected_ns,
               .queued_ns = rq->item.queued_ns};
    bl_request_print_purpose(rq, at.purpose);
    unlink_waiting(queue, rq);
    at.expected = bl_fair_begin(&queue->fair, rq->item.waiter);
    rq->item.waiter->working++;
    if (rq->item.serial != NULL)
        rq->item.serial->holder = &rq->item;
    return at;
}

/* Under the lock: fill a note for |at|. */
static void take_note(bl_queue *queue, turn *at)
{
    for (int i = 0; queue->nthreads == 1 && at->note == NULL && i < MOST_IN_FLIGHT; i++)
        at->note = queue->notes[i].used ? NULL : &queue->notes[i];
    if (at->note == NULL)
        return;
    at->note->used = true;
    at->note->owner = at->owner;
    at->note->since_ns = bl_clock_ns();
    memcpy(at->note->purpose, at->purpose, sizeof at->purpose);
}

/* Wait for the next request and remove it from the list.  NULL: the queue ends, or runs are |in_flight| and no request waits
 * that may join them. */
static bl_request *take_next(bl_queue *queue, bool in_flight, turn *out)
{
    bl_work_item *item = NULL;
    bl_request *rq = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->state == THREAD_BUSY && !in_flight)
        queue->state = THREAD_IDLE;
    while (queue->state == THREAD_INLINE || ((item = bl_fair_next(&queue->fair)) == NULL && !in_flight && !queue->stop))
        pthread_cond_wait(&queue->some, &queue->lock);
    if (item != NULL && (!in_flight || item->mode != BL_WORK_ALONE)) {
        rq = item->rq;
        *out = begin_turn(queue, rq);
        (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_TAKE);
        take_note(queue, out);
    }
    queue->state = in_flight || rq != NULL ? THREAD_BUSY : THREAD_IDLE;
    pthread_mutex_unlock(&queue->lock);
    return rq;
}

/* Do one piece of work, unless the request was cancelled or its deadline has passed. */
static bl_step work_on(bl_queue *queue, bl_request *rq)
{
    int64_t now = bl_clock_ns();
    bl_request_trace_add(&rq->trace, BL_TIME_QUEUE, rq->item.queued_ns, now);
    if (atomic_load(&rq->cancel) && !atomic_load(&rq->stays)) {
        (void)bl_fail(&rq->err, BL_ECANCELLED, "the client went away");
        return BL_STEP_DONE;
    }
    if (rq->item.deadline_ns != 0 && rq->item.deadline_ns <= now) {
        (void)bl_fail(&rq->err, BL_ETIMEOUT, "the timeout passed while the request waited for %s", queue->name);
        return BL_STEP_DONE;
    }
    return rq->item.work(rq);
}

/* Charge the parts of other owners.  Returns the rest, which the owner of the request pays. */
static int64_t charge_shares(bl_queue *queue, const bl_request *rq, int64_t took)
{
    int64_t left = took;
    for (unsigned i = 0; i < rq->item.nshares; i++) {
        const bl_time_part *share = &rq->item.shares[i];
        int64_t part = (int64_t)(share->part * (double)took);
        if (queue->hooks.charge != NULL)
            queue->hooks.charge(queue->hooks.arg, share->owner, part);
        pthread_mutex_lock(&queue->lock);
        bl_fair_owe(&queue->fair, share->owner, part);
        pthread_mutex_unlock(&queue->lock);
        left -= part;
    }
    return left;
}

/* Under the lock: record a completed turn. */
static void record_turn(bl_queue *queue, const turn *at)
{
    bl_turn_record *record = &queue->turns[queue->nturns++ % BL_QUEUE_TURNS];
    size_t len = strnlen(at->purpose, sizeof record->what - 1);
    record->queued_ns = at->queued_ns;
    record->begin_ns = at->begin_ns;
    record->end_ns = at->end_ns;
    record->owner = at->owner;
    record->lane = at->lane;
    while (len > 0 && (at->purpose[len] & 0xC0) == 0x80) /* do not cut within a UTF-8 character */
        len--;
    memcpy(record->what, at->purpose, len);
    record->what[len] = '\0';
}

void bl_queue_list_turns(bl_queue *queue, int64_t since_ns, void (*each)(void *arg, const bl_turn_record *turn), void *arg)
{
    pthread_mutex_lock(&queue->lock);
    for (uint64_t i = queue->nturns < BL_QUEUE_TURNS ? 0 : queue->nturns - BL_QUEUE_TURNS; i < queue->nturns; i++)
        if (queue->turns[i % BL_QUEUE_TURNS].end_ns > since_ns)
            each(arg, &queue->turns[i % BL_QUEUE_TURNS]);
    pthread_mutex_unlock(&queue->lock);
}

/* End the turn |at|: charge |took| nanoseconds.  The work returned |step|. */
static void queue_settle(bl_queue *queue, const turn *at, bl_step step, int64_t took)
{
    if (step != BL_STEP_MOVED)
        took = charge_shares(queue, at->rq, took);
    if (queue->hooks.charge != NULL)
        queue->hooks.charge(queue->hooks.arg, at->owner, took);
    pthread_mutex_lock(&queue->lock);
    if (at->note != NULL)
        at->note->used = false;
    if (!at->batched) /* a batched request is a part of another turn */
        record_turn(queue, at);
    bl_fair_charge(at->waiter, at->expected, took);
    at->waiter->working -= !at->batched;
    if (step == BL_STEP_AGAIN) {
        at->rq->item.queued_ns = bl_clock_ns();
        queue_append(queue, at->rq);
        (void)bl_request_move(at->rq, BL_REQUEST_PLACE_ON_PUSH);
    } else {
        bl_fair_leave(&queue->fair, at->waiter);
        atomic_fetch_sub(&queue->length, 1);
        if (at->serial != NULL && step == BL_STEP_DONE) /* a request that moves to another queue keeps no serial */
            pass_serial(queue, at->serial);
    }
    pthread_mutex_unlock(&queue->lock);
    if (step == BL_STEP_DONE)
        bl_request_finish(at->rq);
}

/* ---- batching */

/* Under the lock: count the waiting requests that fit. */
static size_t count_fitting(const bl_queue *queue, bl_queue_fits fits, void *arg)
{
    size_t n = 0;
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        for (const bl_work_item *item = waiter->head; item != NULL; item = item->next)
            n += fits(arg, item->rq);
    return n;
}

size_t bl_queue_count(bl_queue *queue, bl_queue_fits fits, void *arg)
{
    size_t n = 0;
    pthread_mutex_lock(&queue->lock);
    n = count_fitting(queue, fits, arg);
    pthread_mutex_unlock(&queue->lock);
    return n;
}

static bool goes_before(const bl_work_item *a, const bl_work_item *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->queued_ns < b->queued_ns;
}

/* Under the lock: find a request that fits.  |any|: any request; else the request that goes before all others.  NULL if none
 * fits. */
static bl_work_item *find_fitting(const bl_queue *queue, bl_queue_fits fits, void *arg, bool any)
{
    bl_work_item *best = NULL;
    for (const bl_waiter *waiter = queue->fair.first; waiter != NULL; waiter = waiter->next)
        for (bl_work_item *item = waiter->head; item != NULL; item = item->next) {
            if (!fits(arg, item->rq) || (best != NULL && !goes_before(item, best)))
                continue;
            best = item;
            if (any)
                return best;
        }
    return best;
}

bl_work_item *bl_queue_take_batch(bl_queue *queue, bl_queue_fits fits, void *arg, size_t most)
{
    bl_work_item *first = NULL, **last = &first;
    bool all = false;
    pthread_mutex_lock(&queue->lock);
    all = count_fitting(queue, fits, arg) <= most; /* the batch takes all of them, so their order does not matter */
    for (size_t n = 0; n < most; n++) {
        bl_work_item *item = find_fitting(queue, fits, arg, all);
        if (item == NULL)
            break;
        unlink_waiting(queue, item->rq);
        (void)bl_request_move(item->rq, BL_REQUEST_PLACE_ON_BATCH);
        *last = item;
        last = &item->next; /* |next| is NULL, because the request does not wait any more */
        item->batched = queue->batch;
        queue->batch = item;
    }
    pthread_mutex_unlock(&queue->lock);
    return first;
}

bl_batched bl_queue_unbatch(bl_queue *queue, bl_request *rq)
{
    bl_work_item **at = &queue->batch;
    pthread_mutex_lock(&queue->lock);
    while (*at != &rq->item)
        at = &(*at)->batched;
    *at = rq->item.batched;
    rq->item.batched = NULL;
    (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_TAKE);
    pthread_mutex_unlock(&queue->lock);
    return (bl_batched){rq, rq->item.waiter, rq->owner};
}

void bl_queue_settle(bl_queue *queue, const bl_batched *batched, bl_step step, int64_t took)
{
    turn at = {.rq = batched->rq, .waiter = batched->waiter, .owner = batched->owner, .batched = true};
    atomic_fetch_add_explicit(&queue->settled_ns, took, memory_order_relaxed);
    queue_settle(queue, &at, step, took);
}

/* ---- runs in flight */

/* Runs in flight, in order of submission.  The runs wait for the device once, and they share the elapsed time in proportion to
 * their expected times. */
typedef struct flights {
    unsigned n;
    turn at[MOST_IN_FLIGHT];
    int64_t start_ns, weight;
} flights;

static void queue_complete_flights(bl_queue *queue, flights *up)
{
    bl_step step[MOST_IN_FLIGHT];
    int64_t took = 0;
    for (unsigned i = 0; i < up->n; i++)
        step[i] = up->at[i].rq->item.work(up->at[i].rq);
    took = bl_clock_ns() - up->start_ns;
    for (unsigned i = 0; i < up->n; i++) {
        int64_t part = (int64_t)((double)took * (double)up->at[i].weight / (double)up->weight);
        up->at[i].begin_ns = i == 0 ? up->start_ns : up->at[i - 1].end_ns; /* the timeline shows the runs one after the other */
        up->at[i].end_ns = up->at[i].begin_ns + part;
        queue_settle(queue, &up->at[i], step[i], part);
    }
    up->n = 0;
    up->weight = 0;
}

/* Do the work of |at|.  A run that was only submitted joins the runs in flight. */
static void queue_take_turn(bl_queue *queue, flights *up, turn *at)
{
    int64_t start = bl_clock_ns();
    bl_step step = BL_STEP_DONE;
    atomic_store_explicit(&queue->settled_ns, 0, memory_order_relaxed);
    step = work_on(queue, at->rq);
    at->step = step;
    if (step == BL_STEP_IN_FLIGHT) {
        if (up->n == 0)
            up->start_ns = start;
        at->weight = at->weight > 0 ? at->weight : 1;
        up->weight += at->weight;
        up->at[up->n++] = *at;
        bl_metrics_add(&at->rq->server->metrics, BL_COUNT_TOGETHER, up->n > 1);
        return;
    }
    at->begin_ns = start;
    at->end_ns = bl_clock_ns();
    at->took = at->end_ns - start - atomic_load_explicit(&queue->settled_ns, memory_order_relaxed);
}

/* ---- work on the submitting thread */

/* Begin the turn of |rq| if it can run at once. */
static bool queue_begin_inline(bl_queue *queue, bl_request *rq, turn *out)
{
    bool free = false;
    pthread_mutex_lock(&queue->lock);
    free = queue->nthreads == 1 && queue->state == THREAD_IDLE && !queue->stop && atomic_load(&queue->waiting) == 0;
    if (free) {
        queue_append(queue, rq);
        (void)bl_fair_next(&queue->fair); /* returns |rq|, because no other request waits */
        *out = begin_turn(queue, rq);
        queue->state = THREAD_INLINE;
    }
    pthread_mutex_unlock(&queue->lock);
    return free;
}

static void queue_end_inline(bl_queue *queue, const turn *at)
{
    int64_t took = at->end_ns - at->begin_ns;
    if (queue->hooks.charge != NULL)
        queue->hooks.charge(queue->hooks.arg, at->owner, took);
    pthread_mutex_lock(&queue->lock);
    record_turn(queue, at);
    bl_fair_charge(at->waiter, at->expected, took);
    at->waiter->working--;
    bl_fair_leave(&queue->fair, at->waiter);
    atomic_fetch_sub(&queue->length, 1);
    queue->state = THREAD_IDLE;
    if (atomic_load(&queue->waiting) > 0 || queue->stop)
        pthread_cond_signal(&queue->some);
    pthread_mutex_unlock(&queue->lock);
}

bool bl_queue_run_inline(bl_queue *queue, bl_request *rq)
{
    turn at = {0};
    bl_step step = BL_STEP_DONE;
    int64_t start = 0;
    if (rq->item.serial != NULL || !queue_begin_inline(queue, rq, &at))
        return false;
    start = bl_clock_ns();
    (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_INLINE);
    bl_metrics_add(&rq->server->metrics, BL_COUNT_AT_ONCE, 1);
    if (queue->hooks.around_inline != NULL)
        queue->hooks.around_inline(queue->hooks.arg, true);
    step = work_on(queue, rq);
    while (step == BL_STEP_IN_FLIGHT || step == BL_STEP_AGAIN) /* no other run is in flight, and the work is short */
        step = rq->item.work(rq);
    if (step == BL_STEP_DONE)
        (void)bl_request_move(rq, BL_REQUEST_PLACE_ON_RETURN);
    if (queue->hooks.around_inline != NULL)
        queue->hooks.around_inline(queue->hooks.arg, false);
    at.begin_ns = start;
    at.end_ns = bl_clock_ns();
    queue_end_inline(queue, &at);
    return true;
}

static void *queue_run_thread(void *arg)
{
    bl_queue *queue = arg;
    flights up = {0};
    unsigned lane = atomic_fetch_add(&queue->lanes, 1);
    if (queue->hooks.start != NULL)
        queue->hooks.start(queue->hooks.arg);
    for (;;) {
        turn at = {0};
        bl_request *rq = take_next(queue, up.n > 0, &at);
        at.lane = lane;
        if (rq == NULL && up.n == 0)
            return NULL;
        if (up.n == 0 && queue->hooks.before != NULL)
            queue->hooks.before(queue->hooks.arg);
        if (rq != NULL)
            queue_take_turn(queue, &up, &at);
        if (rq != NULL && at.step == BL_STEP_IN_FLIGHT && up.n < MOST_IN_FLIGHT)
            continue;
        queue_complete_flights(queue, &up);
        if (queue->hooks.after != NULL)
            queue->hooks.after(queue->hooks.arg);
        if (rq != NULL && at.step != BL_STEP_IN_FLIGHT)
            queue_settle(queue, &at, at.step, at.took);
    }
}

bl_status bl_queue_create(const char *name, size_t max, unsigned threads, const bl_queue_hooks *hooks, bl_queue **out,
                          bl_err *err)
{
    bl_queue *queue = calloc(1, sizeof *queue);
    *out = NULL;
    if (queue == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a queue");
    queue->turns = calloc(BL_QUEUE_TURNS, sizeof *queue->turns);
    if (queue->turns == NULL) {
        free(queue);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a queue");
    }
    queue->name = name;
    queue->max = max;
    if (hooks != NULL)
        queue->hooks = *hooks;
    if (queue->hooks.spare > 0 && queue->hooks.spare < threads)
        queue->fair.most = threads - queue->hooks.spare;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->some, NULL);
    for (unsigned i = 0; i < threads && i < MAX_THREADS; i++) {
        if (pthread_create(&queue->thread[i], NULL, queue_run_thread, queue) != 0) {
            bl_queue_destroy(queue);
            return bl_fail(err, BL_ENOMEM, "out of host memory for a thread for %s", name);
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
    bl_fair_fini(&queue->fair);
    pthread_cond_destroy(&queue->some);
    pthread_mutex_destroy(&queue->lock);
    free(queue->turns);
    free(queue);
}
