/* SPDX-License-Identifier: MIT */
/* Who uses which device for what, now: GET /api/v1/top. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/access/internal.h"
#include "server/handlers.h"
#include "server/residents.h"
#include "server/shelf.h"

#include <stdio.h>
#include <string.h>

enum { MOST_WORKS = 16 }; /* that are told of a key */

/* What requests of an owner are for. */
typedef struct work {
    struct work *next;
    uint32_t owner;
    size_t requests;
    char what[];
} work;

typedef struct works {
    bl_arena *arena;
    work *first, **last;
    bool failed; /* for want of memory */
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

typedef struct standing {
    uint32_t owner;
    size_t requests; /* that wait for the device or run there */
} standing;

typedef struct standings {
    standing *rows;
    size_t count, cap;
} standings;

static void keep_standing(void *arg, uint32_t who, size_t requests)
{
    standings *all = arg;
    if (all->count < all->cap)
        all->rows[all->count++] = (standing){who, requests};
}

static size_t requests_of(const standings *all, uint32_t who)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].owner == who)
            return all->rows[i].requests;
    return 0;
}

/* An owner's figures of one device. */
typedef struct part {
    uint32_t id;
    char name[BL_KEY_NAME];
    int64_t device_ns;
} part;

/* Everybody's, copied: no other lock is taken under that of |access|. */
static bl_status copy_parts(bl_request *rq, int device, part **out, size_t *count)
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
        part *p = &(*out)[(*count)++];
        *p = (part){.id = o->row.id, .device_ns = o->device_ns[device]};
        snprintf(p->name, sizeof p->name, "%s", o->row.name);
    }
    pthread_mutex_unlock(&access->lock);
    return BL_OK;
}

static void put_works(const works *all, uint32_t who, bl_text *out)
{
    bool first = true;
    bl_text_puts(out, "[");
    for (const work *w = all->first; w != NULL; w = w->next) {
        if (w->owner != who)
            continue;
        bl_text_puts(out, first ? "{" : ",{");
        first = false;
        bl_encode_key(out, "for");
        bl_encode_string(out, w->what);
        bl_encode_key(out, "requests");
        bl_encode_u64(out, w->requests);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
}

static void put_part(const part *p, const works *all, size_t requests, size_t held, bool first, bl_text *out)
{
    bl_text_puts(out, first ? "{" : ",{");
    bl_encode_key(out, "key");
    bl_encode_string(out, p->name);
    bl_encode_key(out, "requests");
    bl_encode_u64(out, requests);
    bl_encode_key(out, "device_seconds");
    bl_encode_number(out, (double)p->device_ns * 1e-9);
    bl_encode_key(out, "held_bytes");
    bl_encode_u64(out, held);
    bl_encode_key(out, "work");
    put_works(all, p->id, out);
    bl_text_puts(out, "}");
}

static bl_status put_device(bl_request *rq, int device)
{
    const bl_worker *worker = &rq->server->workers[device];
    bl_text *out = &rq->out;
    standings all = {.cap = bl_queue_length(worker->queue) + 16};
    works now = {.arena = rq->arena};
    part *parts = NULL;
    size_t count = 0, shown = 0;
    now.last = &now.first;
    all.rows = bl_arena_array(rq->arena, all.cap, sizeof *all.rows);
    if (all.rows == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    bl_queue_list(worker->queue, keep_standing, &all);
    bl_queue_list_purposes(worker->queue, keep_work, &now);
    if (now.failed)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(copy_parts(rq, device, &parts, &count));
    bl_text_puts(out, device > 0 ? ",{" : "{");
    bl_encode_key(out, "id");
    bl_encode_string(out, worker->dev->info.id);
    bl_encode_key(out, "queue");
    bl_encode_u64(out, bl_queue_length(worker->queue));
    bl_encode_key(out, "memory_used");
    bl_encode_u64(out, atomic_load(&worker->dev->bytes_used));
    bl_encode_key(out, "memory_moved");
    bl_encode_u64(out, bl_residents_away(worker->residents));
    bl_encode_key(out, "keys");
    bl_text_puts(out, "[");
    for (size_t i = 0; i < count; i++) {
        size_t requests = requests_of(&all, parts[i].id), held = bl_shelf_held_on(rq->server->shelf, parts[i].id, worker);
        if (parts[i].device_ns > 0 || requests > 0 || held > 0)
            put_part(&parts[i], &now, requests, held, shown++ == 0, out);
    }
    bl_text_puts(out, "]}");
    return BL_OK;
}

bl_status bl_handle_top(bl_request *rq)
{
    bl_text_puts(&rq->out, "{");
    bl_encode_key(&rq->out, "seconds"); /* of a clock that both figures of two answers share */
    bl_encode_number(&rq->out, (double)bl_clock_ns() * 1e-9);
    bl_encode_key(&rq->out, "devices");
    bl_text_puts(&rq->out, "[");
    for (uint32_t i = 0; i < rq->server->nworkers; i++)
        BL_TRY(put_device(rq, (int)i));
    bl_text_puts(&rq->out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
