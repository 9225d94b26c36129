/* SPDX-License-Identifier: MIT */
/* What each key has used: counted in memory, brought to the store once a second. */
#include "server/access/internal.h"

#include "engine/base/log.h"

#include <string.h>
#include <time.h>

int64_t usage_day(void)
{
    return (int64_t)time(NULL) / DAY_SECONDS;
}

/* Before midnight's figures begin anew, what is unsaved of the day before is left to it: usage_save knows its day by then no
 * more, so it is at most a second's that counts for the wrong day. */
usage *usage_today(owner *o)
{
    int64_t day = usage_day();
    if (o->day != day) {
        o->day = day;
        o->today = (usage){0};
    }
    return &o->today;
}

static void add(usage *to, const usage *more)
{
    to->requests += more->requests;
    to->bytes_in += more->bytes_in;
    to->bytes_out += more->bytes_out;
    to->device_ns += more->device_ns;
}

static void count(bl_access *access, uint32_t id, int device, const usage *more)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL) {
        add(usage_today(o), more);
        add(&o->unsaved, more);
        if (device >= 0 && device < BL_MAX_DEVICES)
            o->device_ns[device] += more->device_ns;
    }
    pthread_mutex_unlock(&access->lock);
}

void bl_access_charge(bl_access *access, uint32_t id, int device, int64_t ns)
{
    usage more = {.device_ns = ns};
    count(access, id, device, &more);
}

void bl_access_count(bl_access *access, uint32_t id, uint64_t bytes_in, uint64_t bytes_out)
{
    usage more = {.requests = 1, .bytes_in = bytes_in, .bytes_out = bytes_out};
    count(access, id, -1, &more);
}

static bool is_empty(const usage *u)
{
    return u->requests == 0 && u->device_ns == 0 && u->bytes_in == 0 && u->bytes_out == 0;
}

/* One owner's unsaved figures, taken; false: there are no more. */
static bool take_unsaved(bl_access *access, uint32_t *id, int64_t *day, usage *taken)
{
    bool found = false;
    pthread_mutex_lock(&access->lock);
    for (owner *o = access->owners; o != NULL && !found; o = o->next) {
        if (is_empty(&o->unsaved))
            continue;
        found = true;
        *id = o->row.id;
        *day = o->day;
        *taken = o->unsaved;
        o->unsaved = (usage){0};
    }
    pthread_mutex_unlock(&access->lock);
    return found;
}

static void give_back(bl_access *access, uint32_t id, const usage *taken)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    add(&o->unsaved, taken);
    pthread_mutex_unlock(&access->lock);
}

static bl_status save_all(void *arg, bl_err *err)
{
    bl_access *access = arg;
    uint32_t id = 0;
    int64_t day = 0;
    usage u;
    while (take_unsaved(access, &id, &day, &u)) {
        bl_status st = bl_storage_run(
            access->server->storage,
            "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (owner, day) DO UPDATE SET requests = requests + ?3, "
            "device_ns = device_ns + ?4, bytes_in = bytes_in + ?5, bytes_out = bytes_out + ?6",
            BL_CELLS(bl_cell_int(id), bl_cell_int(day), bl_cell_int((int64_t)u.requests), bl_cell_int(u.device_ns),
                     bl_cell_int((int64_t)u.bytes_in), bl_cell_int((int64_t)u.bytes_out)),
            NULL, NULL, err);
        if (st != BL_OK) {
            give_back(access, id, &u);
            return st;
        }
    }
    return BL_OK;
}

void usage_save(bl_access *access)
{
    bl_err err = {0};
    bool any = false;
    pthread_mutex_lock(&access->lock);
    for (const owner *o = access->owners; o != NULL && !any; o = o->next)
        any = !is_empty(&o->unsaved);
    pthread_mutex_unlock(&access->lock);
    if (any && bl_storage_together(access->server->storage, save_all, access, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "what keys have used cannot be written down: %s", err.text);
}

static bool load_row(void *arg, const bl_cell *cells, int n)
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
                          BL_CELLS(bl_cell_int(usage_day())), load_row, access, err);
}
