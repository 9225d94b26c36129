/* SPDX-License-Identifier: MIT */
#include "server/store/eviction.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/run/await.h"

#include <stdlib.h>

struct bl_evictables {
    bl_worker *worker;
    pthread_mutex_t lock;       /* guards the list */
    bl_evictable *first, *last; /* members on the device, the least recently used first */
    /* worker's thread: the member that is in use and stays on the device; the pointer is compared only */
    const bl_evictable *awake;
    atomic_size_t away;      /* bytes of all evicted members */
    _Atomic(pthread_t) self; /* worker's thread, valid once |adopted| */
    atomic_bool adopted;
    _Atomic(pthread_t) inline_thread; /* thread that takes the worker's place, valid while |runs_inline| */
    atomic_bool runs_inline;
};

/* ---- the list of members; all functions under its lock */

static void eviction_append(bl_evictables *r, bl_evictable *evictable)
{
    evictable->before = r->last;
    evictable->next = NULL;
    if (r->last != NULL)
        r->last->next = evictable;
    else
        r->first = evictable;
    r->last = evictable;
    evictable->listed = true;
}

static void eviction_take_out(bl_evictables *r, bl_evictable *evictable)
{
    if (!evictable->listed)
        return;
    if (evictable->before != NULL)
        evictable->before->next = evictable->next;
    else
        r->first = evictable->next;
    if (evictable->next != NULL)
        evictable->next->before = evictable->before;
    else
        r->last = evictable->before;
    evictable->before = evictable->next = NULL;
    evictable->listed = false;
}

/* ---- copies in host memory */

bl_status bl_evictable_copy(bl_worker *worker, bl_buffer *buffer, size_t bytes, char **out, bl_err *err)
{
    char *copy = NULL;
    bl_status st = BL_OK;
    *out = NULL;
    BL_TRY(bl_budget_take(&worker->server->memory, bytes, BL_ENOMEM, "what waits on the host", err));
    copy = malloc(bytes > 0 ? bytes : 1);
    st = copy != NULL ? bl_buffer_read(buffer, 0, copy, bytes, err)
                      : bl_fail(err, BL_ENOMEM, "out of host memory for %zu bytes that leave the device", bytes);
    if (st == BL_OK)
        *out = copy;
    else if (copy != NULL)
        bl_evictable_free_copy(worker, copy, bytes);
    else
        bl_budget_give(&worker->server->memory, bytes);
    return st;
}

void bl_evictable_free_copy(bl_worker *worker, char *copy, size_t bytes)
{
    if (copy == NULL)
        return;
    free(copy);
    bl_budget_give(&worker->server->memory, bytes);
}

bl_status bl_evictable_bring(bl_worker *worker, const char *copy, size_t bytes, bl_buffer **out, bl_err *err)
{
    bl_status st = bl_pool_alloc_exact(worker->pool, bytes, out, err);
    if (st == BL_OK)
        st = bl_buffer_write(*out, 0, copy, bytes, err);
    if (st != BL_OK) {
        bl_pool_release(worker->pool, *out);
        *out = NULL;
    }
    return st;
}

/* ---- eviction */

bool bl_evictable_retain_living(atomic_int *refs)
{
    int n = atomic_load(refs);
    while (n > 0 && !atomic_compare_exchange_weak(refs, &n, n + 1))
        ;
    return n > 0;
}

/* The least recently used member that is not in use, retained; NULL if there is no such member. */
static bl_evictable *eviction_take_oldest(bl_evictables *r)
{
    bl_evictable *at = NULL;
    pthread_mutex_lock(&r->lock);
    for (at = r->first; at != NULL; at = at->next)
        if (at != r->awake && at->kind->may_leave(at) && at->kind->retain(at))
            break;
    pthread_mutex_unlock(&r->lock);
    return at;
}

static bool eviction_leave(bl_evictables *r, bl_evictable *evictable)
{
    bl_err err = {0};
    const char *device = r->worker->dev->info.id;
    if (evictable->kind->leave(evictable, &evictable->away, &err) != BL_OK) {
        bl_log(BL_LOG_WARN, "%s: %s cannot move to the host: %s", device, evictable->kind->name, err.text);
        return false;
    }
    pthread_mutex_lock(&r->lock);
    eviction_take_out(r, evictable);
    pthread_mutex_unlock(&r->lock);
    atomic_fetch_add(&r->away, evictable->away);
    bl_metrics_add(&r->worker->server->metrics, evictable->kind->left, 1);
    bl_log(BL_LOG_DEBUG, "%s: %s, %zu bytes, moved to the host", device, evictable->kind->name, evictable->away);
    return true;
}

/* Evict members until |bytes| bytes are free; false if no memory was freed.  Thread: the worker's. */
static bool make_room_here(bl_evictables *r, size_t bytes)
{
    size_t freed = bl_pool_drop_spares(r->worker->pool, bytes);
    bl_evictable *evictable = NULL;
    bl_metrics_add(&r->worker->server->metrics, BL_COUNT_KEPT_DROPPED, (long long)freed);
    while (freed < bytes && (evictable = eviction_take_oldest(r)) != NULL) {
        bool left = eviction_leave(r, evictable);
        freed += left ? evictable->away : 0;
        evictable->kind->release(evictable);
        if (!left)
            break;
    }
    return freed > 0;
}

/* A request of another thread that the worker's thread evict members. The other thread waits. */
typedef struct eviction_order {
    bl_evictables *evictables;
    size_t bytes;
    bool freed;
} eviction_order;

static bl_step evict_work(bl_request *rq)
{
    eviction_order *o = bl_await_what(rq);
    o->freed = make_room_here(o->evictables, o->bytes);
    return BL_STEP_DONE;
}

static bool ask_worker(bl_evictables *r, size_t bytes)
{
    eviction_order o = {.evictables = r, .bytes = bytes};
    bl_await await = BL_AWAIT(&o);
    bl_request *rq = bl_await_create(r->worker->server, 0, &await);
    bl_err ignored = {0};
    if (rq == NULL)
        return false;
    if (bl_await_end(rq, bl_request_submit(rq, r->worker->queue, evict_work, NULL), &ignored) != BL_OK)
        o.freed = false; /* the queue is full, so no memory is freed */
    bl_request_end(rq);
    return o.freed;
}

static bool eviction_make_room(void *arg, size_t bytes)
{
    bl_evictables *r = arg;
    bool any = false;
    if (!atomic_load(&r->adopted))
        return false;
    if (pthread_equal(atomic_load(&r->self), pthread_self()) ||
        (atomic_load(&r->runs_inline) && pthread_equal(atomic_load(&r->inline_thread), pthread_self())))
        return make_room_here(r, bytes);
    pthread_mutex_lock(&r->lock);
    any = r->first != NULL;
    pthread_mutex_unlock(&r->lock);
    return (any || bl_pool_spare_bytes(r->worker->pool) > 0) && ask_worker(r, bytes);
}

/* ---- adding and removing members */

void bl_evictables_begin(bl_evictables *r)
{
    r->awake = NULL;
    if (atomic_load(&r->adopted))
        return;
    atomic_store(&r->self, pthread_self());
    atomic_store(&r->adopted, true);
}

void bl_evictables_run_inline(bl_evictables *r, bool begins)
{
    r->awake = NULL;
    atomic_store(&r->inline_thread, pthread_self());
    atomic_store(&r->runs_inline, begins);
}

size_t bl_evictables_away(const bl_evictables *r)
{
    return atomic_load(&r->away);
}

void bl_evictable_add(bl_evictable *evictable, const bl_evictable_kind *kind, bl_worker *worker)
{
    bl_evictables *r = worker->evictables;
    evictable->kind = kind;
    evictable->worker = worker;
    pthread_mutex_lock(&r->lock);
    eviction_append(r, evictable);
    pthread_mutex_unlock(&r->lock);
}

void bl_evictable_remove(bl_evictable *evictable)
{
    bl_evictables *r = evictable->kind != NULL ? evictable->worker->evictables : NULL;
    if (r == NULL)
        return;
    pthread_mutex_lock(&r->lock);
    eviction_take_out(r, evictable);
    pthread_mutex_unlock(&r->lock);
    atomic_fetch_sub(&r->away, evictable->away);
    *evictable = (bl_evictable){0};
}

void bl_evictable_use(bl_evictable *evictable)
{
    bl_evictables *r = evictable->worker->evictables;
    pthread_mutex_lock(&r->lock);
    eviction_take_out(r, evictable);
    eviction_append(r, evictable);
    pthread_mutex_unlock(&r->lock);
    if (evictable->kind->stays)
        r->awake = evictable;
}

void bl_evictable_back(bl_evictable *evictable)
{
    bl_evictables *r = evictable->worker->evictables;
    atomic_fetch_sub(&r->away, evictable->away);
    evictable->away = 0;
    bl_metrics_add(&r->worker->server->metrics, evictable->kind->back, 1);
    bl_evictable_use(evictable);
}

bl_status bl_evictables_create(bl_worker *worker, bl_evictables **out, bl_err *err)
{
    bl_evictables *r = calloc(1, sizeof *r);
    *out = r;
    if (r == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the account of memory of %s", worker->dev->info.id);
    r->worker = worker;
    pthread_mutex_init(&r->lock, NULL);
    bl_pool_set_room(worker->pool, eviction_make_room, r);
    return BL_OK;
}

void bl_evictables_destroy(bl_evictables *r)
{
    if (r == NULL)
        return;
    bl_pool_set_room(r->worker->pool, NULL, NULL);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
