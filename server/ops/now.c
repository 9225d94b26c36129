/* SPDX-License-Identifier: MIT */
/* GET /api/v1/now and GET /api/v1/now/history: what each device does, for which key, and until when.  Every key may ask.
 * The names of other keys, and their work, are shown if --show-names is on, and to the scope admin. Otherwise all other keys
 * are one entry, "others".  The device time of another key since the start is shown to the scope admin only, as by GET
 * /api/v1/usage. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/access/samples.h"
#include "server/http/handlers.h"
#include "server/http/routes.h"
#include "server/jobs/jobs.h"
#include "server/ops/drain.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_WORKS = 16,    /* largest number of purposes shown for one key */
    MOST_SERIES = 16,   /* largest number of keys of a device in the history */
    SHARE_SCALE = 1000, /* shares of a device are rounded to a thousandth */
    MOST_SECONDS = 60 * BL_SAMPLE_MINUTES
};
#define OTHERS "others"

static void now_put_share(bl_text *out, double busy)
{
    bl_encode_number(out, (double)(int)(busy * SHARE_SCALE + 0.5) / SHARE_SCALE);
}

static bool knows_usage(const bl_request *rq, uint32_t owner)
{
    return rq->owner == owner || (rq->scopes & BL_SCOPE_ADMIN) != 0;
}

/* Write the name of a key; null for work of the server, which belongs to no key. */
static void now_put_name(bl_text *out, const char *name)
{
    bl_encode_key(out, "name");
    if (*name != '\0')
        bl_encode_string(out, name);
    else
        bl_text_puts(out, "null");
}

/* ---- purposes of requests */

typedef struct work {
    struct work *next;
    uint32_t owner;
    size_t requests;
    char what[];
} work;

typedef struct works {
    bl_arena *arena;
    work *first, **last;
    bool failed; /* memory ran out */
} works;

static void keep_work(void *arg, uint32_t who, const char *what)
{
    works *all = arg;
    size_t size = strlen(what) + 1;
    work *w = all->first;
    int others = 0;
    while (w != NULL && (w->owner != who || strcmp(w->what, what) != 0)) {
        others += w->owner == who;
        w = w->next;
    }
    if (w == NULL && others == MOST_WORKS)
        return;
    if (w == NULL) {
        w = *all->last = bl_arena_alloc(all->arena, sizeof *w + size);
        all->failed = all->failed || w == NULL;
        if (w == NULL)
            return;
        w->owner = who;
        memcpy(w->what, what, size);
        all->last = &w->next;
    }
    w->requests++;
}

/* Write a purpose: "job 4f2a of line", or "run of line (3)" for three requests. */
static bl_status put_works(bl_request *rq, const works *all, uint32_t who)
{
    bl_text *out = &rq->reply.out;
    bl_encode_key(out, "what");
    bl_text_puts(out, "[");
    for (const work *w = all->first; w != NULL; w = w->next) {
        const char *text = w->what;
        if (w->owner != who)
            continue;
        if (w->requests > 1)
            text = bl_arena_printf(rq->arena, "%s (%zu)", w->what, w->requests);
        BL_TRY(bl_arena_status(rq->arena, &rq->err));
        if (bl_text_last(out) != '[')
            bl_text_puts(out, ",");
        bl_encode_string(out, text);
    }
    bl_text_puts(out, "]");
    return BL_OK;
}

/* ---- keys of a device */

typedef struct figures {
    double busy, device_seconds; /* device_seconds: 0 if the client may not see the device time */
    size_t queue, memory;
} figures;

static void put_figures(bl_text *out, const figures *f)
{
    bl_encode_key(out, "busy");
    now_put_share(out, f->busy);
    bl_encode_key(out, "queue");
    bl_encode_u64(out, f->queue);
    bl_encode_key(out, "memory_used");
    bl_encode_u64(out, f->memory);
}

static bool now_is_empty(const figures *f)
{
    return f->device_seconds <= 0 && f->busy <= 0 && f->queue == 0 && f->memory == 0;
}

static bl_status now_put_key(bl_request *rq, const bl_key_part *part, const figures *f, const works *all)
{
    bl_text *out = &rq->reply.out;
    bl_text_puts(out, bl_text_last(out) == '[' ? "{" : ",{");
    now_put_name(out, part->name);
    bl_encode_key(out, "mine");
    bl_text_puts(out, part->owner == rq->owner ? "true" : "false");
    put_figures(out, f);
    if (knows_usage(rq, part->owner))
        bl_encode_measured(out, "device_seconds", f->device_seconds);
    BL_TRY(put_works(rq, all, part->owner));
    bl_text_puts(out, "}");
    return BL_OK;
}

static void put_others(bl_text *out, const figures *others)
{
    bl_text_puts(out, bl_text_last(out) == '[' ? "{" : ",{");
    now_put_name(out, OTHERS);
    bl_text_puts(out, ",\"mine\":false");
    put_figures(out, others);
    bl_text_puts(out, ",\"what\":[]}");
}

static bl_status now_put_keys(bl_request *rq, int device)
{
    bl_worker *worker = &rq->server->workers[device];
    works all = {.arena = rq->arena};
    figures others = {0};
    bl_key_part *parts = NULL;
    size_t count = 0;
    all.last = &all.first;
    bl_queue_list_purposes(worker->queue, keep_work, &all);
    if (all.failed)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_samples_list_parts(rq, device, &parts, &count));
    bl_encode_key(&rq->reply.out, "keys");
    bl_text_puts(&rq->reply.out, "[");
    for (size_t i = 0; i < count; i++) {
        uint32_t owner = parts[i].owner;
        figures f = {parts[i].busy, knows_usage(rq, owner) ? (double)parts[i].device_ns * 1e-9 : 0,
                     bl_queue_count_of(worker->queue, owner), bl_registry_held_on(rq->server->registry, owner, worker)};
        if (!bl_access_tells_names(rq, owner))
            others = (figures){others.busy + f.busy, 0, others.queue + f.queue, others.memory + f.memory};
        else if (!now_is_empty(&f))
            BL_TRY(now_put_key(rq, &parts[i], &f, &all));
    }
    if (!now_is_empty(&others))
        put_others(&rq->reply.out, &others);
    bl_text_puts(&rq->reply.out, "]");
    return BL_OK;
}

/* ---- GET /api/v1/now */

static double busy_of(bl_access *access, int device)
{
    bl_sample last;
    double until = 0;
    return bl_samples_copy(access, device, false, 1, &last, &until) > 0 ? (double)last.busy : 0;
}

/* Write when the device is free; null if the time is unknown, because work other than a job runs, or a job that has just
 * begun. */
static void put_free_in(bl_text *out, const bl_worker *worker, const bl_drain_left *left)
{
    double seconds = bl_jobs_seconds_left(worker->server->jobs, worker);
    bool known = seconds > 0 || (seconds == 0 && left->requests == 0);
    bl_encode_key(out, "free_in");
    if (known)
        bl_encode_number(out, seconds);
    else
        bl_text_puts(out, "null");
}

static bl_status now_put_device(bl_request *rq, int device, size_t *models, size_t *jobs)
{
    bl_worker *worker = &rq->server->workers[device];
    bl_drain_left left = {0};
    if (device > 0)
        bl_text_puts(&rq->reply.out, ",");
    bl_device_put_members(rq, worker, &left);
    bl_encode_key(&rq->reply.out, "busy");
    now_put_share(&rq->reply.out, busy_of(rq->server->access, device));
    put_free_in(&rq->reply.out, worker, &left);
    BL_TRY(now_put_keys(rq, device));
    bl_text_puts(&rq->reply.out, "}");
    *models += left.models;
    *jobs += left.jobs;
    return BL_OK;
}

bl_status bl_handle_now(bl_request *rq)
{
    bl_text *out = &rq->reply.out;
    size_t models = 0, jobs = 0;
    bl_text_puts(out, "{");
    bl_encode_measured(out, "time", (double)bl_clock_wall_ns() * 1e-9);
    bl_encode_measured(out, "uptime", bl_clock_ms(rq->server->start.ns, bl_clock_ns()) * 1e-3);
    bl_encode_key(out, "devices");
    bl_text_puts(out, "[");
    for (uint32_t i = 0; i < rq->server->nworkers; i++)
        BL_TRY(now_put_device(rq, (int)i, &models, &jobs));
    bl_text_puts(out, "]");
    bl_encode_key(out, "models");
    bl_encode_u64(out, models);
    bl_encode_key(out, "jobs");
    bl_encode_u64(out, jobs);
    bl_text_puts(out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- GET /api/v1/now/history */

/* The curve of one key, or the sum of all keys without a visible name. */
typedef struct series {
    uint32_t owner;
    bool others;
    double sum;
} series;

typedef struct curves {
    bl_sample *samples;
    size_t n;
    int count;
    series all[MOST_SERIES];
} curves;

static int by_sum(const void *a, const void *b)
{
    double x = ((const series *)a)->sum, y = ((const series *)b)->sum;
    return (x < y) - (x > y);
}

/* Add to the sum of a key.  If the table is full, a new key replaces the key with the least sum. */
static void add_share(curves *c, uint32_t owner, bool others, double busy)
{
    int least = 0;
    for (int i = 0; i < c->count; i++) {
        series *s = &c->all[i];
        if (s->others == others && (others || s->owner == owner)) {
            s->sum += busy;
            return;
        }
        least = s->sum < c->all[least].sum ? i : least;
    }
    if (c->count < MOST_SERIES)
        least = c->count++;
    else if (busy <= c->all[least].sum)
        return;
    c->all[least] = (series){owner, others, busy};
}

static void find_series(const bl_request *rq, curves *c)
{
    c->count = 0;
    for (size_t i = 0; i < c->n; i++)
        for (int k = 0; k < BL_SAMPLE_KEYS; k++) {
            const bl_key_share *share = &c->samples[i].key[k];
            if (share->busy > 0)
                add_share(c, share->owner, !bl_access_tells_names(rq, share->owner), (double)share->busy);
        }
    qsort(c->all, (size_t)c->count, sizeof *c->all, by_sum);
}

static double share_in(const bl_request *rq, const bl_sample *sample, const series *s)
{
    double busy = 0;
    for (int k = 0; k < BL_SAMPLE_KEYS; k++) {
        const bl_key_share *share = &sample->key[k];
        bool others = share->busy > 0 && !bl_access_tells_names(rq, share->owner);
        if (others == s->others && (others || share->owner == s->owner))
            busy += (double)share->busy;
    }
    return busy;
}

/* Write the curve of |s|; NULL: the sum of all keys. */
static void now_put_curve(bl_request *rq, const curves *c, const series *s)
{
    bl_encode_key(&rq->reply.out, "busy");
    bl_text_puts(&rq->reply.out, "[");
    for (size_t i = 0; i < c->n; i++) {
        bl_text_puts(&rq->reply.out, i > 0 ? "," : "");
        now_put_share(&rq->reply.out, s != NULL ? share_in(rq, &c->samples[i], s) : (double)c->samples[i].busy);
    }
    bl_text_puts(&rq->reply.out, "]");
}

static void put_counts(bl_text *out, const curves *c, const char *name, bool memory)
{
    bl_encode_key(out, name);
    bl_text_puts(out, "[");
    for (size_t i = 0; i < c->n; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_u64(out, memory ? c->samples[i].memory : c->samples[i].queue);
    }
    bl_text_puts(out, "]");
}

static void put_series(bl_request *rq, const curves *c)
{
    char name[BL_KEY_NAME];
    bl_text *out = &rq->reply.out;
    bl_encode_key(out, "keys");
    bl_text_puts(out, "[");
    for (int i = 0; i < c->count; i++) {
        bl_text_puts(out, i > 0 ? ",{" : "{");
        bl_access_name(rq->server->access, c->all[i].owner, name, sizeof name);
        now_put_name(out, c->all[i].others ? OTHERS : name);
        bl_encode_key(out, "mine");
        bl_text_puts(out, !c->all[i].others && c->all[i].owner == rq->owner ? "true" : "false");
        now_put_curve(rq, c, &c->all[i]);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
}

static void put_history(bl_request *rq, int device, const curves *c)
{
    bl_text *out = &rq->reply.out;
    bl_text_puts(out, device > 0 ? ",{" : "{");
    bl_encode_key(out, "id");
    bl_encode_string(out, rq->server->workers[device].dev->info.id);
    now_put_curve(rq, c, NULL);
    put_counts(out, c, "queue", false);
    put_counts(out, c, "memory_used", true);
    put_series(rq, c);
    bl_text_puts(out, "}");
}

bl_status bl_handle_now_history(bl_request *rq)
{
    bl_text *out = &rq->reply.out;
    uint64_t seconds = BL_SAMPLE_SECONDS;
    double until = 0;
    bool minutes = false;
    size_t most = 0;
    curves *c = bl_arena_alloc(rq->arena, sizeof *c);
    BL_TRY(bl_request_query_count(rq, "seconds", 1, MOST_SECONDS, &seconds));
    minutes = seconds > BL_SAMPLE_SECONDS;
    most = (size_t)(minutes ? (seconds + 59) / 60 : seconds);
    if (c != NULL)
        *c = (curves){.samples = bl_arena_array(rq->arena, most, sizeof *c->samples)};
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    bl_text_puts(out, "{");
    bl_encode_key(out, "interval");
    bl_encode_u64(out, minutes ? 60 : 1);
    bl_encode_key(out, "devices");
    bl_text_puts(out, "[");
    for (uint32_t i = 0; i < rq->server->nworkers; i++) {
        c->n = bl_samples_copy(rq->server->access, (int)i, minutes, most, c->samples, &until);
        find_series(rq, c);
        put_history(rq, (int)i, c);
    }
    bl_text_puts(out, "]");
    bl_encode_measured(out, "until", until);
    bl_text_puts(out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
