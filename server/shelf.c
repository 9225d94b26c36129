/* SPDX-License-Identifier: MIT */
#include "server/shelf.h"

#include "engine/base/clock.h"
#include "server/names.h"
#include "server/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

typedef struct lease {
    char id[BL_LEASE_SIZE];
    double ttl;
    int64_t expires_ns;
    bl_namemap *names;
} lease;

struct bl_shelf {
    bl_server *server;
    pthread_mutex_t lock;
    bl_namemap *names, *leases, *programs;
    size_t ntensors; /* of all namespaces */
    atomic_ullong held_bytes;
};

bl_status bl_shelf_charge(bl_shelf *shelf, size_t bytes, bl_err *err)
{
    unsigned long long limit = shelf->server->settings.max_held;
    if (atomic_fetch_add(&shelf->held_bytes, bytes) + bytes > limit) {
        atomic_fetch_sub(&shelf->held_bytes, bytes);
        return bl_fail(err, BL_ENODEVMEM,
                       "%zu bytes more would be over the limit of %llu for what is held; delete tensors or programs", bytes,
                       limit);
    }
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_HELD_BYTES, (long long)bytes);
    return BL_OK;
}

void bl_shelf_refund(bl_shelf *shelf, size_t bytes)
{
    atomic_fetch_sub(&shelf->held_bytes, bytes);
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_HELD_BYTES, -(long long)bytes);
}

/* Under the lock: the namespace of |id|, renewed. */
static bl_status find_names(bl_shelf *shelf, const char *id, bl_namemap **out, bl_err *err)
{
    lease *found = NULL;
    *out = shelf->names;
    if (id == NULL)
        return BL_OK;
    found = bl_namemap_get(shelf->leases, id);
    if (found == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no such lease; it may have expired");
    found->expires_ns = bl_clock_ns() + (int64_t)(found->ttl * 1e9);
    *out = found->names;
    return BL_OK;
}

/* A tensor that left its namespace. */
static void drop(bl_shelf *shelf, bl_held *held)
{
    if (held == NULL)
        return;
    bl_shelf_refund(shelf, held->bytes);
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_TENSORS, -1);
    bl_held_release(held);
}

static void drop_names(bl_shelf *shelf, bl_namemap *names)
{
    const char *name = NULL;
    void *held = NULL;
    for (size_t i = 0; bl_namemap_at(names, i, &name, &held); i++)
        drop(shelf, held);
    bl_namemap_destroy(names);
}

static bl_status put_locked(bl_shelf *shelf, const char *id, const char *name, bl_held *held, bl_held **old, bl_err *err)
{
    bl_namemap *names = NULL;
    BL_TRY(find_names(shelf, id, &names, err));
    *old = bl_namemap_get(names, name);
    if (*old == NULL && shelf->ntensors >= shelf->server->settings.max_tensors)
        return bl_fail(err, BL_ENODEVMEM, "%zu tensors are held, which is the limit", shelf->ntensors);
    BL_TRY(bl_namemap_put(names, name, held, err));
    shelf->ntensors += *old == NULL;
    return BL_OK;
}

bl_status bl_shelf_put(bl_shelf *shelf, const char *id, const char *name, bl_held *held, bl_err *err)
{
    bl_held *old = NULL;
    bl_status st = bl_shelf_charge(shelf, held->bytes, err);
    if (st != BL_OK)
        return st;
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_TENSORS, 1);
    bl_held_retain(held);
    pthread_mutex_lock(&shelf->lock);
    st = put_locked(shelf, id, name, held, &old, err);
    pthread_mutex_unlock(&shelf->lock);
    drop(shelf, st == BL_OK ? old : held);
    return st;
}

bl_status bl_shelf_get(bl_shelf *shelf, const char *id, const char *name, bl_held **out, bl_err *err)
{
    bl_namemap *names = NULL;
    bl_status st = BL_OK;
    *out = NULL;
    pthread_mutex_lock(&shelf->lock);
    st = find_names(shelf, id, &names, err);
    if (st == BL_OK)
        *out = bl_namemap_get(names, name);
    if (st == BL_OK && *out == NULL && id != NULL)
        *out = bl_namemap_get(shelf->names, name);
    if (*out != NULL)
        bl_held_retain(*out);
    pthread_mutex_unlock(&shelf->lock);
    if (st == BL_OK && *out == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no tensor \"%.128s\"", name);
    if (st == BL_OK && bl_held_lost(*out)) {
        bl_held_release(*out);
        *out = NULL;
        return bl_fail(err, BL_ECONFLICT, "tensor \"%.128s\" was lost when its device was reopened; send it again", name);
    }
    return st;
}

bl_status bl_shelf_delete(bl_shelf *shelf, const char *id, const char *name, bl_err *err)
{
    bl_namemap *names = NULL;
    bl_held *old = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&shelf->lock);
    st = find_names(shelf, id, &names, err);
    if (st == BL_OK)
        old = bl_namemap_remove(names, name);
    shelf->ntensors -= old != NULL;
    pthread_mutex_unlock(&shelf->lock);
    if (st == BL_OK && old == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no tensor \"%.128s\"", name);
    drop(shelf, old);
    return st;
}

bl_status bl_shelf_list(bl_shelf *shelf, const char *id, void (*each)(void *arg, const char *name, const bl_held *held),
                        void *arg, bl_err *err)
{
    bl_namemap *names = NULL;
    const char *name = NULL;
    void *held = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&shelf->lock);
    st = find_names(shelf, id, &names, err);
    for (size_t i = 0; st == BL_OK && bl_namemap_at(names, i, &name, &held); i++)
        each(arg, name, held);
    pthread_mutex_unlock(&shelf->lock);
    return st;
}

/* ---- leases */

/* Some program that was put under the lease |id|, taken out; NULL if there is none. */
static bl_program *take_program_of(bl_shelf *shelf, const char *id)
{
    const char *name = NULL;
    void *value = NULL;
    bl_program *found = NULL;
    pthread_mutex_lock(&shelf->lock);
    for (size_t i = 0; found == NULL && bl_namemap_at(shelf->programs, i, &name, &value); i++) {
        const char *owner = ((bl_program *)value)->doc.options.lease;
        if (owner != NULL && strcmp(owner, id) == 0)
            found = bl_namemap_remove(shelf->programs, name);
    }
    pthread_mutex_unlock(&shelf->lock);
    return found;
}

static void drop_program(bl_shelf *shelf, bl_program *program)
{
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_PROGRAMS, -1);
    bl_program_release(program);
}

/* |old| is out of the map, so nothing new comes under it. */
static void free_lease(bl_shelf *shelf, lease *old)
{
    bl_program *program = NULL;
    while ((program = take_program_of(shelf, old->id)) != NULL)
        drop_program(shelf, program);
    drop_names(shelf, old->names);
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_LEASES, -1);
    free(old);
}

static double clamp_ttl(const bl_shelf *shelf, double ttl)
{
    return ttl < shelf->server->settings.max_lease ? ttl : shelf->server->settings.max_lease;
}

static bl_status make_lease(bl_shelf *shelf, double ttl, lease **out, bl_err *err)
{
    unsigned char random[(BL_LEASE_SIZE - 1) / 2];
    lease *made = calloc(1, sizeof *made);
    *out = NULL;
    if (made != NULL)
        made->names = bl_namemap_create();
    if (made == NULL || made->names == NULL || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        if (made != NULL)
            bl_namemap_destroy(made->names);
        free(made);
        return bl_fail(err, BL_ENOMEM, "lease");
    }
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(made->id + 2 * i, 3, "%02x", random[i]);
    made->ttl = clamp_ttl(shelf, ttl);
    made->expires_ns = bl_clock_ns() + (int64_t)(made->ttl * 1e9);
    *out = made;
    return BL_OK;
}

bl_status bl_lease_create(bl_shelf *shelf, double ttl, char id[BL_LEASE_SIZE], bl_err *err)
{
    lease *made = NULL;
    bl_status st = make_lease(shelf, ttl, &made, err);
    if (st != BL_OK)
        return st;
    bl_metrics_add(&shelf->server->metrics, BL_COUNT_LEASES, 1);
    snprintf(id, BL_LEASE_SIZE, "%s", made->id);
    pthread_mutex_lock(&shelf->lock);
    if (bl_namemap_count(shelf->leases) >= shelf->server->settings.max_leases)
        st = bl_fail(err, BL_ENODEVMEM, "there are %zu leases, which is the limit", bl_namemap_count(shelf->leases));
    else
        st = bl_namemap_put(shelf->leases, made->id, made, err);
    pthread_mutex_unlock(&shelf->lock);
    if (st != BL_OK)
        free_lease(shelf, made);
    return st;
}

bl_status bl_lease_renew(bl_shelf *shelf, const char *id, double ttl, double *ttl_now, bl_err *err)
{
    bl_namemap *names = NULL;
    lease *found = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&shelf->lock);
    found = bl_namemap_get(shelf->leases, id);
    if (found != NULL && ttl > 0)
        found->ttl = clamp_ttl(shelf, ttl);
    st = find_names(shelf, id, &names, err);
    if (found != NULL)
        *ttl_now = found->ttl;
    pthread_mutex_unlock(&shelf->lock);
    return st;
}

bl_status bl_lease_end(bl_shelf *shelf, const char *id, bl_err *err)
{
    lease *found = NULL;
    pthread_mutex_lock(&shelf->lock);
    found = bl_namemap_remove(shelf->leases, id);
    if (found != NULL)
        shelf->ntensors -= bl_namemap_count(found->names);
    pthread_mutex_unlock(&shelf->lock);
    if (found == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no such lease; it may have expired");
    free_lease(shelf, found);
    return BL_OK;
}

/* One lease that expired, taken out; NULL if there is none. */
static lease *take_expired(bl_shelf *shelf, int64_t now_ns)
{
    const char *id = NULL;
    void *value = NULL;
    lease *found = NULL;
    pthread_mutex_lock(&shelf->lock);
    for (size_t i = 0; found == NULL && bl_namemap_at(shelf->leases, i, &id, &value); i++)
        if (((lease *)value)->expires_ns <= now_ns)
            found = value;
    if (found != NULL) {
        bl_namemap_remove(shelf->leases, found->id);
        shelf->ntensors -= bl_namemap_count(found->names);
    }
    pthread_mutex_unlock(&shelf->lock);
    return found;
}

void bl_shelf_expire(bl_shelf *shelf, int64_t now_ns)
{
    lease *old = NULL;
    while ((old = take_expired(shelf, now_ns)) != NULL)
        free_lease(shelf, old);
}

/* ---- programs */

bl_status bl_shelf_put_program(bl_shelf *shelf, const char *name, bl_program *program, bool fresh, bl_err *err)
{
    bl_program *old = NULL;
    bl_namemap *names = NULL;
    bl_program_retain(program);
    pthread_mutex_lock(&shelf->lock);
    bl_status st = find_names(shelf, program->doc.options.lease, &names, err); /* it may have ended meanwhile */
    old = bl_namemap_get(shelf->programs, name);
    if (st != BL_OK)
        old = NULL;
    else if (old != NULL && fresh)
        st = bl_fail(err, BL_EPRECONDITION, "program \"%.128s\" is there already", name);
    else if (old == NULL && bl_namemap_count(shelf->programs) >= shelf->server->settings.max_programs)
        st = bl_fail(err, BL_ENODEVMEM, "there are %zu programs, which is the limit", bl_namemap_count(shelf->programs));
    else
        st = bl_namemap_put(shelf->programs, name, program, err);
    pthread_mutex_unlock(&shelf->lock);
    if (st == BL_OK && old == NULL)
        bl_metrics_add(&shelf->server->metrics, BL_COUNT_PROGRAMS, 1);
    bl_program_release(st == BL_OK ? old : program);
    return st;
}

bl_status bl_shelf_get_program(bl_shelf *shelf, const char *name, bl_program **out, bl_err *err)
{
    pthread_mutex_lock(&shelf->lock);
    *out = bl_namemap_get(shelf->programs, name);
    if (*out != NULL)
        bl_program_retain(*out);
    pthread_mutex_unlock(&shelf->lock);
    if (*out == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no program \"%.128s\"", name);
    return BL_OK;
}

bool bl_shelf_has_program(bl_shelf *shelf, const char *name)
{
    bool found = false;
    pthread_mutex_lock(&shelf->lock);
    found = bl_namemap_get(shelf->programs, name) != NULL;
    pthread_mutex_unlock(&shelf->lock);
    return found;
}

bl_status bl_shelf_delete_program(bl_shelf *shelf, const char *name, bl_err *err)
{
    bl_program *old = NULL;
    pthread_mutex_lock(&shelf->lock);
    old = bl_namemap_remove(shelf->programs, name);
    pthread_mutex_unlock(&shelf->lock);
    if (old == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no program \"%.128s\"", name);
    drop_program(shelf, old);
    return BL_OK;
}

void bl_shelf_list_programs(bl_shelf *shelf, void (*each)(void *arg, const char *name, bl_program *program), void *arg)
{
    const char *name = NULL;
    void *program = NULL;
    pthread_mutex_lock(&shelf->lock);
    for (size_t i = 0; bl_namemap_at(shelf->programs, i, &name, &program); i++)
        each(arg, name, program);
    pthread_mutex_unlock(&shelf->lock);
}

/* ---- the shelf itself */

bl_status bl_shelf_create(bl_server *server, bl_shelf **out, bl_err *err)
{
    bl_shelf *shelf = calloc(1, sizeof *shelf);
    *out = shelf;
    if (shelf == NULL)
        return bl_fail(err, BL_ENOMEM, "shelf");
    shelf->server = server;
    pthread_mutex_init(&shelf->lock, NULL);
    shelf->names = bl_namemap_create();
    shelf->leases = bl_namemap_create();
    shelf->programs = bl_namemap_create();
    if (shelf->names != NULL && shelf->leases != NULL && shelf->programs != NULL)
        return BL_OK;
    bl_namemap_destroy(shelf->names);
    bl_namemap_destroy(shelf->leases);
    bl_namemap_destroy(shelf->programs);
    free(shelf);
    *out = NULL;
    return bl_fail(err, BL_ENOMEM, "shelf");
}

void bl_shelf_destroy(bl_shelf *shelf)
{
    const char *name = NULL;
    void *value = NULL;
    if (shelf == NULL)
        return;
    bl_shelf_expire(shelf, INT64_MAX);
    for (size_t i = 0; bl_namemap_at(shelf->programs, i, &name, &value); i++)
        bl_program_release(value);
    bl_namemap_destroy(shelf->programs);
    bl_namemap_destroy(shelf->leases);
    drop_names(shelf, shelf->names);
    pthread_mutex_destroy(&shelf->lock);
    free(shelf);
}
