/* SPDX-License-Identifier: MIT */
#include "server/access/samples.h"

#include "engine/base/clock.h"
#include "server/access/access_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_RUNNING = 8, /* largest number of simultaneous turns in samples of one queue; a queue has at most four */
    MINUTE_KEYS = 64, /* largest number of keys summed during a minute; the BL_SAMPLE_KEYS busiest of them are kept */
    MINUTE = 60
};

typedef struct ring {
    uint64_t seconds, minutes; /* total number of samples */
    bl_sample second[BL_SAMPLE_SECONDS], minute[BL_SAMPLE_MINUTES];
    bl_sample sum; /* the sample of the current minute: |busy| is a sum until the minute ends */
    int in_sum;    /* number of seconds in |sum| */
    bl_key_share keys[MINUTE_KEYS];
} ring;

struct samples {
    pthread_mutex_t lock; /* guards all members below; taken after all other locks */
    int64_t taken_ns;     /* time of the last sample on bl_clock_ns; 0: no sample yet */
    double taken;         /* time of the last sample in seconds since 1970 */
    ring *rings[BL_MAX_DEVICES];
};

samples *samples_create(void)
{
    samples *s = calloc(1, sizeof *s);
    if (s != NULL)
        pthread_mutex_init(&s->lock, NULL);
    return s;
}

void samples_destroy(samples *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < BL_MAX_DEVICES; i++)
        free(s->rings[i]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- one sample */

/* Running turns; their time is not charged to their owners yet. */
typedef struct running {
    int count;
    struct {
        uint32_t owner;
        int64_t ns;
    } turn[MOST_RUNNING];
} running;

static void samples_keep_turn(void *arg, uint32_t who, int64_t ns)
{
    running *all = arg;
    if (all->count == MOST_RUNNING)
        return;
    all->turn[all->count].owner = who;
    all->turn[all->count++].ns = ns;
}

static int64_t uncharged_ns(const running *all, uint32_t who)
{
    int64_t ns = 0;
    for (int i = 0; i < all->count; i++)
        ns += all->turn[i].owner == who ? all->turn[i].ns : 0;
    return ns;
}

/* Keep the |most| busiest shares, in any order. */
static void keep_share(bl_key_share *keys, int most, bl_key_share share)
{
    int least = 0;
    for (int i = 0; i < most; i++)
        if (keys[i].busy < keys[least].busy)
            least = i;
    if (share.busy > keys[least].busy)
        keys[least] = share;
}

/* The part of the last |elapsed| nanoseconds in which |o| used the device.  Under the lock of |access|.  A turn that ends
 * while a sample is taken may count twice in that sample; the next sample then counts less, and the figure never decreases. */
static float samples_share_of(owner *o, int device, const running *now, int64_t elapsed)
{
    int64_t total = o->device_ns[device] + uncharged_ns(now, o->row.id), more = total - o->sampled_ns[device];
    if (more <= 0)
        more = 0;
    else
        o->sampled_ns[device] = total;
    o->busy[device] = fminf(1, (float)more / (float)elapsed);
    return o->busy[device];
}

/* Compute the requests a second of each key. */
static void take_rates(bl_access *access, int64_t elapsed)
{
    pthread_mutex_lock(&access->lock);
    for (owner *o = &access->nobody; o != NULL; o = o == &access->nobody ? access->owners : o->next) {
        o->rate = round((double)(o->arrivals - o->sampled) * 1e10 / (double)elapsed) / 10;
        o->sampled = o->arrivals;
    }
    pthread_mutex_unlock(&access->lock);
}

static bl_sample take_device(bl_access *access, int device, int64_t elapsed)
{
    const bl_worker *worker = &access->server->workers[device];
    bl_sample sample = {.queue = (uint32_t)bl_queue_length(worker->queue), .memory = atomic_load(&worker->dev->bytes_used)};
    running now = {0};
    bl_queue_list_running(worker->queue, samples_keep_turn, &now);
    pthread_mutex_lock(&access->lock);
    for (owner *o = &access->nobody; o != NULL; o = o == &access->nobody ? access->owners : o->next) {
        float busy = samples_share_of(o, device, &now, elapsed);
        sample.busy += busy;
        if (busy > 0)
            keep_share(sample.key, BL_SAMPLE_KEYS, (bl_key_share){o->row.id, busy});
    }
    pthread_mutex_unlock(&access->lock);
    sample.busy = fminf(1, sample.busy);
    return sample;
}

/* ---- the rings; under samples.lock */

static void add_to_minute(ring *r, bl_key_share share)
{
    for (int i = 0; i < MINUTE_KEYS; i++)
        if (r->keys[i].busy > 0 && r->keys[i].owner == share.owner) {
            r->keys[i].busy += share.busy;
            return;
        }
    keep_share(r->keys, MINUTE_KEYS, share);
}

static void end_minute(ring *r)
{
    bl_sample minute = {.busy = r->sum.busy / MINUTE, .queue = r->sum.queue, .memory = r->sum.memory};
    for (int i = 0; i < MINUTE_KEYS; i++)
        keep_share(minute.key, BL_SAMPLE_KEYS, (bl_key_share){r->keys[i].owner, r->keys[i].busy / MINUTE});
    r->minute[r->minutes++ % BL_SAMPLE_MINUTES] = minute;
    memset(r->keys, 0, sizeof r->keys);
    r->sum = (bl_sample){0};
    r->in_sum = 0;
}

static void push(ring *r, const bl_sample *sample)
{
    r->second[r->seconds++ % BL_SAMPLE_SECONDS] = *sample;
    r->sum.busy += sample->busy;
    r->sum.queue = sample->queue > r->sum.queue ? sample->queue : r->sum.queue;
    r->sum.memory = sample->memory > r->sum.memory ? sample->memory : r->sum.memory;
    for (int i = 0; i < BL_SAMPLE_KEYS; i++)
        if (sample->key[i].busy > 0)
            add_to_minute(r, sample->key[i]);
    if (++r->in_sum == MINUTE)
        end_minute(r);
}

/* The number of seconds that a sample covers.  A thread that runs late takes a sample of several seconds. The sample is
 * stored several times, since the rings have one sample for each second. */
static int seconds_of(int64_t elapsed)
{
    double seconds = round((double)elapsed * 1e-9);
    return seconds < 1 ? 1 : seconds > BL_SAMPLE_SECONDS ? BL_SAMPLE_SECONDS : (int)seconds;
}

void bl_samples_take(bl_access *access)
{
    samples *s = access->samples;
    int64_t now = bl_clock_ns(), elapsed = now - s->taken_ns; /* only this thread writes |taken_ns| */
    bool first = s->taken_ns == 0;
    take_rates(access, elapsed);
    for (uint32_t i = 0; i < access->server->nworkers; i++) {
        bl_sample sample = take_device(access, (int)i, elapsed);
        pthread_mutex_lock(&s->lock);
        if (s->rings[i] == NULL)
            s->rings[i] = calloc(1, sizeof *s->rings[i]); /* NULL: the device has no history */
        for (int n = seconds_of(elapsed); !first && s->rings[i] != NULL && n > 0; n--)
            push(s->rings[i], &sample);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_lock(&s->lock);
    s->taken_ns = now;
    s->taken = (double)bl_clock_wall_ns() * 1e-9;
    pthread_mutex_unlock(&s->lock);
}

/* ---- reading */

size_t bl_samples_copy(bl_access *access, int device, bool minutes, size_t most, bl_sample *out, double *until)
{
    samples *s = access->samples;
    const ring *r = NULL;
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    r = s->rings[device];
    if (r != NULL) {
        size_t size = minutes ? BL_SAMPLE_MINUTES : BL_SAMPLE_SECONDS;
        uint64_t count = minutes ? r->minutes : r->seconds;
        const bl_sample *from = minutes ? r->minute : r->second;
        n = most < size ? most : size;
        n = count < n ? (size_t)count : n;
        for (size_t i = 0; i < n; i++)
            out[i] = from[(count - n + i) % size];
    }
    *until = s->taken - (minutes && r != NULL ? r->in_sum : 0);
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* The lock of |access| is taken while no other lock is held. */
bl_status bl_samples_list_parts(bl_request *rq, int device, bl_key_part **out, size_t *count)
{
    bl_access *access = rq->server->access;
    size_t most = 0;
    *count = 0;
    pthread_mutex_lock(&access->lock);
    most = access->count + 1;
    pthread_mutex_unlock(&access->lock);
    *out = bl_arena_array(rq->arena, most, sizeof **out);
    if (*out == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    pthread_mutex_lock(&access->lock);
    for (const owner *o = &access->nobody; o != NULL && *count < most; o = o == &access->nobody ? access->owners : o->next) {
        bl_key_part *part = &(*out)[(*count)++];
        *part = (bl_key_part){.owner = o->row.id, .device_ns = o->device_ns[device], .busy = (double)o->busy[device]};
        snprintf(part->name, sizeof part->name, "%s", o->row.name);
    }
    pthread_mutex_unlock(&access->lock);
    return BL_OK;
}
