/* SPDX-License-Identifier: MIT */
/* Usage of each key: counted in memory, written to the store once a second. */
#include "server/access/access_internal.h"

#include "engine/base/log.h"
#include "server/store/registry.h"

#include <string.h>
#include <time.h>

int64_t usage_day(void)
{
    return (int64_t)time(NULL) / DAY_SECONDS;
}

/* The usage of today.  At midnight the figures restart, but |unsaved| still has usage of the day before, which usage_save then
 * stores under the new day: at most one second of usage counts for the wrong day. */
usage *usage_today(owner *o)
{
    int64_t day = usage_day();
    if (o->day != day) {
        o->day = day;
        o->today = (usage){0};
    }
    return &o->today;
}

static void usage_add(usage *to, const usage *more)
{
    to->requests += more->requests;
    to->bytes_in += more->bytes_in;
    to->bytes_out += more->bytes_out;
    to->device_ns += more->device_ns;
}

static void usage_count(bl_access *access, uint32_t id, int device, const usage *more)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL) {
        usage_add(usage_today(o), more);
        usage_add(&o->unsaved, more);
        if (device >= 0 && device < BL_MAX_DEVICES)
            o->device_ns[device] += more->device_ns;
    }
    pthread_mutex_unlock(&access->lock);
}

void bl_access_charge(bl_access *access, uint32_t id, int device, int64_t ns)
{
    usage more = {.device_ns = ns};
    usage_count(access, id, device, &more);
}

/* The largest number of requests of the key in the queue of one device: the quota holds for each queue. */
static size_t longest_queue(const bl_request *rq)
{
    size_t most = 0;
    for (uint32_t i = 0; i < rq->server->nworkers; i++) {
        size_t n = bl_queue_count_of(rq->server->workers[i].queue, rq->owner);
        most = n > most ? n : most;
    }
    return most;
}

void bl_access_look_at_own(const bl_request *rq, bl_key_row *row, double used[BL_QUOTA_COUNT])
{
    bl_access *access = rq->server->access;
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, rq->owner); /* not NULL: the request was admitted with this owner */
    *row = o->row;
    used[BL_QUOTA_SECONDS] = (double)usage_today(o)->device_ns * 1e-9;
    used[BL_QUOTA_DISK] = (double)o->disk;
    used[BL_QUOTA_RATE] = o->rate;
    pthread_mutex_unlock(&access->lock);
    used[BL_QUOTA_MEMORY] = (double)bl_registry_held_on(rq->server->registry, rq->owner, NULL);
    used[BL_QUOTA_QUEUE] = (double)longest_queue(rq);
}

void bl_access_count(bl_access *access, uint32_t id, uint64_t bytes_in, uint64_t bytes_out)
{
    usage more = {.requests = 1, .bytes_in = bytes_in, .bytes_out = bytes_out};
    usage_count(access, id, -1, &more);
}

static bool usage_is_empty(const usage *u)
{
    return u->requests == 0 && u->device_ns == 0 && u->bytes_in == 0 && u->bytes_out == 0;
}

/* Move unsaved usage to |saving|, so that later usage stays separate.  Under access->saving.  True if there is usage to
 * save. */
static bool set_apart(bl_access *access)
{
    bool any = false;
    pthread_mutex_lock(&access->lock);
    for (owner *o = access->owners; o != NULL; o = o->next) {
        o->saving = o->unsaved;
        o->saving_day = o->day;
        o->unsaved = (usage){0};
        any = any || !usage_is_empty(&o->saving);
    }
    pthread_mutex_unlock(&access->lock);
    return any;
}

static void end_saving(bl_access *access, bool saved)
{
    pthread_mutex_lock(&access->lock);
    for (owner *o = access->owners; o != NULL; o = o->next) {
        if (!saved)
            usage_add(&o->unsaved, &o->saving);
        o->saving = (usage){0};
    }
    pthread_mutex_unlock(&access->lock);
}

/* The next owner after |o| (NULL: the first owner) with usage to save. */
static owner *next_to_save(bl_access *access, owner *o)
{
    pthread_mutex_lock(&access->lock);
    o = o != NULL ? o->next : access->owners;
    while (o != NULL && usage_is_empty(&o->saving))
        o = o->next;
    pthread_mutex_unlock(&access->lock);
    return o;
}

static bl_status save_all(void *arg, bl_err *err)
{
    bl_access *access = arg;
    for (owner *o = next_to_save(access, NULL); o != NULL; o = next_to_save(access, o)) {
        const usage *u = &o->saving; /* only this thread uses |saving|, under access->saving */
        BL_TRY(bl_storage_run(
            access->server->storage,
            "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (owner, day) DO UPDATE SET requests = requests + ?3, "
            "device_ns = device_ns + ?4, bytes_in = bytes_in + ?5, bytes_out = bytes_out + ?6",
            BL_CELLS(bl_cell_int(o->row.id), bl_cell_int(o->saving_day), bl_cell_int((int64_t)u->requests),
                     bl_cell_int(u->device_ns), bl_cell_int((int64_t)u->bytes_in), bl_cell_int((int64_t)u->bytes_out)),
            NULL, NULL, err));
    }
    return BL_OK;
}

void usage_save(bl_access *access)
{
    bl_err err = {0};
    bool saved = false;
    pthread_mutex_lock(&access->saving);
    saved = !set_apart(access) || bl_storage_together(access->server->storage, save_all, access, &err) == BL_OK;
    end_saving(access, saved);
    pthread_mutex_unlock(&access->saving);
    if (!saved)
        bl_log(BL_LOG_WARN, "the use of the keys cannot be stored: %s", err.text);
}

static bool usage_load_row(void *arg, const bl_cell *cells, int n)
{
    bl_access *access = arg;
    owner *o = NULL;
    (void)n;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, (uint32_t)cells[0].integer);
    if (o != NULL)
        o->today = (usage){.requests = (uint64_t)cells[1].integer,
                           .device_ns = cells[2].integer,
                           .bytes_in = (uint64_t)cells[3].integer,
                           .bytes_out = (uint64_t)cells[4].integer};
    pthread_mutex_unlock(&access->lock);
    return true;
}

bl_status usage_load(bl_access *access, bl_err *err)
{
    return bl_storage_run(access->server->storage,
                          "SELECT owner, requests, device_ns, bytes_in, bytes_out FROM usage WHERE day = ?1",
                          BL_CELLS(bl_cell_int(usage_day())), usage_load_row, access, err);
}
