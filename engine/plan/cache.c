/* SPDX-License-Identifier: MIT */
/* The plan cache (plan.h): a hash table of plans by bl_wire_key, in LRU order. One thread compiles an entry; other threads that
 * want the entry wait. */
#include "engine/base/clock.h"
#include "engine/base/map.h"
#include "engine/plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *bucket_next;
    struct entry *newer, *older; /* neighbours in the list of last use */
    uint64_t hash;
    void *bytes;
    size_t len;
    bl_plan *plan; /* NULL while the first plan compiles */
    size_t plan_bytes;
    bl_device *dev;
    int beam;  /* beam width with which the kernels of |plan| were searched */
    bool busy; /* a thread compiles for the entry: the first plan, or a plan whose kernels it searches */
    bool failed;
    bl_err err;           /* the error of a failed compilation, for the threads that waited */
    int waiting;          /* number of threads that hold a pointer to the entry */
    unsigned compilation; /* number of compilations begun */
    bl_audience audience; /* the requests that wait for the current compilation */
    bool dropped;         /* removed from the table; the last thread with a pointer frees it */
} entry;

struct bl_plans {
    pthread_mutex_t lock; /* guards the table; never held while a plan compiles or a device works */
    pthread_cond_t ready;
    size_t max, count, nbuckets;
    size_t max_bytes, bytes; /* estimated host memory: the limit, and the bytes in use */
    size_t waiting;
    entry **bucket;
    entry *newest, *oldest;
    entry *dead; /* entries to free after the unlock, since freeing a plan calls the device */
};

bl_plans *bl_plans_create(size_t max_plans, size_t max_bytes)
{
    bl_plans *plans = bl_calloc(1, sizeof *plans);
    if (plans == NULL)
        return NULL;
    plans->max = max_plans == 0 ? 1 : max_plans;
    plans->max_bytes = max_bytes;
    plans->nbuckets = plans->max * 2 + 1;
    plans->bucket = bl_calloc(plans->nbuckets, sizeof(entry *));
    if (plans->bucket == NULL) {
        free(plans);
        return NULL;
    }
    pthread_mutex_init(&plans->lock, NULL);
    bl_clock_cond_init(&plans->ready);
    return plans;
}

static void free_entry(entry *e)
{
    bl_plan_release(e->plan);
    free(e->bytes);
    free(e);
}

static void cache_unlink_use(bl_plans *plans, entry *e)
{
    if (e->newer != NULL)
        e->newer->older = e->older;
    else
        plans->newest = e->older;
    if (e->older != NULL)
        e->older->newer = e->newer;
    else
        plans->oldest = e->newer;
    e->newer = e->older = NULL;
}

static void cache_link_newest(bl_plans *plans, entry *e)
{
    e->older = plans->newest;
    if (plans->newest != NULL)
        plans->newest->newer = e;
    plans->newest = e;
    if (plans->oldest == NULL)
        plans->oldest = e;
}

/* Under the lock: queue |e| to be freed; it is in no list, and no thread has a pointer to it. */
static void bury(bl_plans *plans, entry *e)
{
    e->bucket_next = plans->dead;
    plans->dead = e;
}

/* Unlock, then free the queued entries. */
static void unlock(bl_plans *plans)
{
    entry *dead = plans->dead;
    plans->dead = NULL;
    pthread_mutex_unlock(&plans->lock);
    while (dead != NULL) {
        entry *next = dead->bucket_next;
        free_entry(dead);
        dead = next;
    }
}

/* Remove |e| from the table. It is freed after the unlock, or by the last thread that has a pointer to it. */
static void cache_drop(bl_plans *plans, entry *e)
{
    entry **at = &plans->bucket[e->hash % plans->nbuckets];
    while (*at != e)
        at = &(*at)->bucket_next;
    *at = e->bucket_next;
    cache_unlink_use(plans, e);
    plans->count--;
    plans->bytes -= e->plan_bytes;
    e->plan_bytes = 0;
    e->dropped = true;
    if (e->waiting == 0)
        bury(plans, e);
}

void bl_plans_destroy(bl_plans *plans)
{
    if (plans == NULL)
        return;
    pthread_mutex_lock(&plans->lock);
    while (plans->newest != NULL)
        cache_drop(plans, plans->newest);
    unlock(plans);
    pthread_cond_destroy(&plans->ready);
    pthread_mutex_destroy(&plans->lock);
    free(plans->bucket);
    free(plans);
}

static entry *cache_find(bl_plans *plans, const bl_wire_key *key)
{
    entry *e = plans->bucket[key->hash % plans->nbuckets];
    while (e != NULL && (e->hash != key->hash || e->len != key->len || memcmp(e->bytes, key->bytes, key->len) != 0))
        e = e->bucket_next;
    return e;
}

/* Under the lock: has the best plan of |e| no interpreted kernels? */
static bool is_compiled(const entry *e)
{
    bl_plan *current = bl_plan_current(e->plan);
    bool compiled = current->info.interpreted == 0;
    bl_plan_release(current);
    return compiled;
}

/* Under the lock: was the best plan of |e| searched with at least this width, and is it compiled unless |early|? */
static bool will_do(const entry *e, int beam, bool early)
{
    return e->plan != NULL && e->beam >= beam && (early || is_compiled(e));
}

bl_plan *bl_plans_lookup(bl_plans *plans, const bl_wire_key *key, int beam, bool early)
{
    bl_plan *found = NULL;
    entry *e = NULL;

    pthread_mutex_lock(&plans->lock);
    e = cache_find(plans, key);
    if (e != NULL && will_do(e, beam, early)) {
        found = bl_plan_current(e->plan);
        cache_unlink_use(plans, e);
        cache_link_newest(plans, e);
    }
    pthread_mutex_unlock(&plans->lock);
    return found;
}

size_t bl_plans_list(bl_plans *plans, size_t most, bl_plan **out)
{
    size_t n = 0;

    pthread_mutex_lock(&plans->lock);
    for (entry *e = plans->newest; e != NULL && n < most; e = e->older) {
        if (e->plan != NULL)
            out[n++] = bl_plan_retain(e->plan);
    }
    pthread_mutex_unlock(&plans->lock);
    return n;
}

static entry *insert(bl_plans *plans, const bl_wire_key *key, bl_device *dev)
{
    entry *e = bl_calloc(1, sizeof *e);
    if (e == NULL || (e->bytes = bl_calloc(1, key->len + 1)) == NULL) {
        free(e);
        return NULL;
    }
    memcpy(e->bytes, key->bytes, key->len);
    e->len = key->len;
    e->hash = key->hash;
    e->dev = dev;
    e->bucket_next = plans->bucket[key->hash % plans->nbuckets];
    plans->bucket[key->hash % plans->nbuckets] = e;
    cache_link_newest(plans, e);
    plans->count++;
    return e;
}

/* Under the lock: update the memory of the plans of |e|, which keep values between runs: the first plan, to which requests may
 * hold references, and the best plan. */
static void cache_count_bytes(bl_plans *plans, entry *e)
{
    bl_plan *current = NULL;
    size_t bytes = 0;

    if (e->dropped || e->plan == NULL)
        return;
    current = bl_plan_current(e->plan);
    bytes = plan_host_bytes(e->plan) + (current == e->plan ? 0 : plan_host_bytes(current));
    plans->bytes += bytes - e->plan_bytes;
    e->plan_bytes = bytes;
    bl_plan_release(current);
}

/* Drop least recently used entries while the cache is over its limits. The newest entry stays in any case. */
static void evict(bl_plans *plans)
{
    entry *e = plans->oldest;
    while ((plans->count > plans->max || plans->bytes > plans->max_bytes) && e != plans->newest) {
        entry *newer = e->newer;
        if (e->plan != NULL)
            cache_drop(plans, e);
        e = newer;
    }
}

/* Release the lock until a compilation ends, or until it is time to check a bl_halt. */
static void cache_wait_for_change(bl_plans *plans)
{
    struct timespec until = bl_clock_after(CLOCK_MONOTONIC, BL_HALT_LOOK_NS);

    pthread_cond_timedwait(&plans->ready, &plans->lock, &until);
}

/* Wait, under the lock, until the entry has a plan that satisfies |options|, or no thread compiles it any more. */
static bl_status wait_for_plan(bl_plans *plans, entry *e, const bl_plan_options *options, bl_err *err)
{
    unsigned compilation = 0;
    bool joined = false;
    bl_status st = BL_OK;

    plans->waiting++;
    while (e->busy && !will_do(e, options->beam, options->early) && st == BL_OK) {
        if (compilation != e->compilation) {
            compilation = e->compilation;
            joined = bl_audience_join(&e->audience);
        }
        cache_wait_for_change(plans);
        st = bl_halt_check(&options->halt, err);
    }
    if (joined && compilation == e->compilation)
        bl_audience_leave(&e->audience);
    plans->waiting--;
    return st;
}

/* Wait, under the lock, for the compilation of another thread. *out stays NULL if the compiled plan does not satisfy
 * |options|, or if the compilation was cancelled. */
static bl_status cache_wait_for(bl_plans *plans, entry *e, const bl_plan_options *options, bl_plan **out, bl_err *err)
{
    bl_status st = BL_OK;
    e->waiting++;
    st = wait_for_plan(plans, e, options, err);
    if (st != BL_OK) {
        ; /* this call gives up; the compilation continues for the request that started it */
    } else if (e->failed) {
        st = e->err.status;
        if (err != NULL)
            *err = e->err;
    } else if (will_do(e, options->beam, options->early)) {
        *out = bl_plan_current(e->plan);
    }
    e->waiting--;
    if (e->dropped && e->waiting == 0)
        bury(plans, e);
    return st;
}

/* Find or make the entry of |key|, under the lock. *out is a plan for the caller. If *out is NULL, the entry is marked busy
 * and the caller must compile. Returns NULL on failure. */
static entry *cache_claim(bl_plans *plans, const bl_wire_key *key, bl_device *dev, const bl_plan_options *options, bl_plan **out,
                          bl_err *err)
{
    entry *e = cache_find(plans, key);

    while (e != NULL && (e->busy || will_do(e, options->beam, options->early))) {
        if (cache_wait_for(plans, e, options, out, err) != BL_OK)
            return NULL;
        if (*out != NULL)
            return e;
        e = cache_find(plans, key);
    }
    if (e == NULL && (e = insert(plans, key, dev)) == NULL) {
        (void)bl_fail(err, BL_ENOMEM, "out of host memory for the plan cache");
        return NULL;
    }
    e->busy = true;
    e->waiting++;
    e->compilation++;
    atomic_store(&e->audience.others, 0);
    return e;
}

/* Under the lock: record |plan|. |plan| is the first plan of the entry, or supersede has compared it with the current plan. */
static void cache_put(bl_plans *plans, entry *e, bl_plan *plan)
{
    e->beam = plan->beam > e->beam ? plan->beam : e->beam;
    if (e->plan == NULL)
        e->plan = bl_plan_retain(plan);
    cache_count_bytes(plans, e);
}

/* Let |plan| supersede the current plan of |e|, unless a search found the kernels of the current plan again: then the
 * current plan stays, since its launches are recorded already. Called without the lock, since plans may be freed here. */
static void supersede(const entry *e, bl_plan *plan)
{
    bl_plan *current = bl_plan_current(e->plan);
    /* the debug text of |plan| describes the search */
    bool better =
        plan->options.debug > 0 || !bl_plan_same_moves(current, plan) || current->info.interpreted > plan->info.interpreted;
    if (better)
        bl_plan_supersede(e->plan, plan);
    bl_plan_release(current);
}

bl_status bl_plans_get(bl_plans *plans, const bl_wire_key *key, const bl_wire_graph *graph, bl_device *dev,
                       const bl_plan_options *options, bl_plan **out, bool *hit, bl_err *err)
{
    bl_plan_options own = *options;
    bl_plan *plan = NULL;
    bl_err failure = {0};
    entry *e = NULL;
    bl_status st = BL_OK;

    *out = NULL;
    pthread_mutex_lock(&plans->lock);
    e = cache_claim(plans, key, dev, options, out, &failure);
    if (*out != NULL) {
        cache_count_bytes(plans, e);
        evict(plans);
    }
    unlock(plans);
    *hit = e == NULL || *out != NULL;
    if (e == NULL && err != NULL)
        *err = failure;
    if (*hit)
        return failure.status;
    own.halt.audience = options->beam > 0 ? NULL : &e->audience; /* other requests need not wait for a search */
    st = plan_compile(graph, dev, &own, &plan, &failure);
    if (st == BL_OK && e->plan != NULL) /* no other thread changes e->plan while the entry is busy */
        supersede(e, plan);
    pthread_mutex_lock(&plans->lock);
    e->waiting--;
    e->busy = false;
    if (e->dropped && e->waiting == 0)
        bury(plans, e);
    if (st == BL_OK) {
        cache_put(plans, e, plan);
        *out = bl_plan_current(e->plan);
        evict(plans);
    } else if (e->plan == NULL) { /* failures are not cached: the next request compiles again */
        e->failed = failure.status != BL_ECANCELLED && failure.status != BL_ETIMEOUT;
        e->err = failure;
        if (!e->dropped)
            cache_drop(plans, e);
    }
    pthread_cond_broadcast(&plans->ready);
    unlock(plans);
    if (st != BL_OK && err != NULL)
        *err = failure;
    bl_plan_release(plan);
    return st;
}

void bl_plans_forget(bl_plans *plans, const bl_plan *plan)
{
    pthread_mutex_lock(&plans->lock);
    for (entry *e = plans->oldest, *newer = NULL; e != NULL; e = newer) {
        newer = e->newer;
        if (e->plan == plan && !e->busy)
            cache_drop(plans, e);
    }
    unlock(plans);
}

void bl_plans_forget_device(bl_plans *plans, bl_device *dev)
{
    pthread_mutex_lock(&plans->lock);
    for (entry *e = plans->oldest, *newer = NULL; e != NULL; e = newer) {
        newer = e->newer;
        if (e->dev == dev)
            cache_drop(plans, e);
    }
    unlock(plans);
}

static size_t read_locked(bl_plans *plans, const size_t *number)
{
    size_t n = 0;
    pthread_mutex_lock(&plans->lock);
    n = *number;
    pthread_mutex_unlock(&plans->lock);
    return n;
}

size_t bl_plans_count(bl_plans *plans)
{
    return read_locked(plans, &plans->count);
}

size_t bl_plans_waiting(bl_plans *plans)
{
    return read_locked(plans, &plans->waiting);
}

bl_plan *bl_plan_retain(bl_plan *plan)
{
    atomic_fetch_add(&plan->refs, 1);
    return plan;
}

void bl_plan_release(bl_plan *plan)
{
    if (plan != NULL && atomic_fetch_sub(&plan->refs, 1) == 1)
        plan_destroy(plan);
}

const bl_plan_options *bl_plan_get_options(const bl_plan *plan)
{
    return &plan->options;
}

const bl_plan_info *bl_plan_get_info(const bl_plan *plan)
{
    return &plan->info;
}
