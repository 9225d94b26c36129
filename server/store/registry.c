/* SPDX-License-Identifier: MIT */
#include "server/store/registry.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/data/durable.h"
#include "server/programs/programs.h"
#include "server/store/grants.h"
#include "server/store/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { OWNER_DIGITS = 12 };

/* The namespace of one owner. */
typedef struct space {
    char id[OWNER_DIGITS];
    uint32_t owner;
    bl_namemap *names, *programs;
    size_t ntensors, nleases; /* ntensors includes the tensors of leases */
    unsigned long long held_bytes;
} space;

typedef struct lease {
    space *space;
    char id[BL_LEASE_SIZE];
    double ttl;
    int64_t expires_ns;
    bl_namemap *names;
} lease;

struct bl_registry {
    bl_server *server;
    pthread_mutex_t lock;
    bl_namemap *spaces, *leases; /* spaces are freed only at the end, since there are few keys */
    bl_grants *grants;
    unsigned long long held_bytes; /* bytes held by all owners together */
};

/* ---- owners; under the lock */

static space *find_space(bl_registry *registry, uint32_t owner)
{
    char id[OWNER_DIGITS];
    snprintf(id, sizeof id, "%u", owner);
    return bl_namemap_get(registry->spaces, id);
}

static void free_space(space *s)
{
    if (s == NULL)
        return;
    bl_namemap_destroy(s->names);
    bl_namemap_destroy(s->programs);
    free(s);
}

static bl_status need_space(bl_registry *registry, uint32_t owner, space **out, bl_err *err)
{
    space *s = find_space(registry, owner);
    *out = s;
    if (s != NULL)
        return BL_OK;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a namespace");
    s->owner = owner;
    snprintf(s->id, sizeof s->id, "%u", owner);
    s->names = bl_namemap_create();
    s->programs = bl_namemap_create();
    if (s->names == NULL || s->programs == NULL || bl_namemap_put(registry->spaces, s->id, s, err) != BL_OK) {
        free_space(s);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a namespace");
    }
    *out = s;
    return BL_OK;
}

/* |all|: bytes that are added to the sum over all owners. */
static bl_status charge_locked(bl_registry *registry, uint32_t owner, size_t bytes, size_t all, size_t quota, bl_err *err)
{
    unsigned long long limit = registry->server->settings.max_held;
    space *s = NULL;
    BL_TRY(need_space(registry, owner, &s, err));
    if (s->held_bytes + bytes > quota)
        return bl_fail(err, BL_EQUOTA,
                       "the key may hold %zu bytes and holds %llu: %zu more do not fit; delete tensors or programs", quota,
                       s->held_bytes, bytes);
    if (all > 0 && registry->held_bytes + all > limit)
        return bl_fail(err, BL_ENODEVMEM,
                       "%zu bytes more would exceed the %llu bytes for tensors and programs (--max-held); delete some of them",
                       all, limit);
    s->held_bytes += bytes;
    registry->held_bytes += all;
    return BL_OK;
}

bl_status bl_registry_charge_of(bl_registry *registry, uint32_t owner, size_t bytes, size_t all, bool bound, bl_err *err)
{
    size_t quota = bound ? bl_access_memory_quota(registry->server->access, owner) : SIZE_MAX;
    pthread_mutex_lock(&registry->lock);
    bl_status st = charge_locked(registry, owner, bytes, all, quota, err);
    pthread_mutex_unlock(&registry->lock);
    if (st == BL_OK)
        bl_metrics_add(&registry->server->metrics, BL_COUNT_HELD_BYTES, (long long)all);
    return st;
}

void bl_registry_refund_of(bl_registry *registry, uint32_t owner, size_t bytes, size_t all)
{
    pthread_mutex_lock(&registry->lock);
    space *s = find_space(registry, owner);
    if (s != NULL) {
        s->held_bytes -= bytes;
        registry->held_bytes -= all;
        bl_metrics_add(&registry->server->metrics, BL_COUNT_HELD_BYTES, -(long long)all);
    }
    pthread_mutex_unlock(&registry->lock);
}

size_t bl_registry_held_on(bl_registry *registry, uint32_t owner, const bl_worker *worker)
{
    const char *name = NULL;
    void *value = NULL;
    size_t bytes = 0;
    const space *s = NULL;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    bytes = s != NULL && worker == NULL ? s->held_bytes : 0;
    for (size_t i = 0; s != NULL && bl_namemap_at(s->names, i, &name, &value); i++)
        bytes += ((const bl_device_tensor *)value)->worker == worker ? ((const bl_device_tensor *)value)->bytes : 0;
    for (size_t i = 0; s != NULL && bl_namemap_at(s->programs, i, &name, &value); i++)
        bytes += ((const bl_program *)value)->worker == worker ? ((const bl_program *)value)->charged : 0;
    pthread_mutex_unlock(&registry->lock);
    return bytes;
}

/* Under the lock: the namespace of |owner|, or of the lease |id|, which is renewed. */
static bl_status find_names(bl_registry *registry, uint32_t owner, const char *id, bl_namemap **out, space **whose, bl_err *err)
{
    lease *found = NULL;
    BL_TRY(need_space(registry, owner, whose, err));
    *out = (*whose)->names;
    if (id == NULL)
        return BL_OK;
    found = bl_namemap_get(registry->leases, id);
    if (found == NULL || found->space != *whose)
        return bl_fail(err, BL_ENOTFOUND, "there is no such lease; it may have expired");
    found->expires_ns = bl_clock_ns() + (int64_t)(found->ttl * 1e9);
    *out = found->names;
    return BL_OK;
}

/* Release a tensor that was removed from its namespace. */
static void registry_drop(bl_registry *registry, uint32_t owner, bl_device_tensor *held)
{
    if (held == NULL)
        return;
    bl_registry_refund(registry, owner, held->bytes);
    bl_metrics_add(&registry->server->metrics, BL_COUNT_TENSORS, -1);
    atomic_fetch_sub(&held->worker->tensors, 1);
    bl_device_tensor_release(held);
}

/* No name refers to the tensor any more, so delete its row in the store. */
static void registry_forget(bl_registry *registry, uint32_t owner, const bl_device_tensor *held)
{
    bl_err err = {0};
    if (held != NULL && held->durable != 0 && bl_durable_forget(registry->server, owner, held->durable, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "the record of a durable tensor cannot be deleted: %s", err.text);
}

static void put_away(bl_registry *registry, uint32_t owner, bl_device_tensor *held)
{
    registry_forget(registry, owner, held);
    registry_drop(registry, owner, held);
}

static void drop_names(bl_registry *registry, uint32_t owner, bl_namemap *names)
{
    const char *name = NULL;
    void *held = NULL;
    for (size_t i = 0; bl_namemap_at(names, i, &name, &held); i++)
        registry_drop(registry, owner, held);
}

/* ---- shares */

static bool registry_is_shared(const bl_registry *registry, uint32_t owner, const char *kind, const char *name, uint32_t reader)
{
    return bl_grants_has(registry->grants, reader, &(bl_grant){.owner = owner, .kind = kind, .name = name});
}

/* Split a shared name such as "alice:w" into *owner and the returned name; NULL if no key has the name before the colon. */
static const char *split_name(bl_registry *registry, const char *name, uint32_t *owner)
{
    const char *colon = strchr(name, ':');
    char key[BL_NAME_SIZE];
    if (colon == NULL || colon == name || (size_t)(colon - name) >= sizeof key)
        return NULL;
    snprintf(key, sizeof key, "%.*s", (int)(colon - name), name);
    return bl_access_find(registry->server->access, key, owner) ? colon + 1 : NULL;
}

static const bl_namemap *map_of(const space *s, const char *kind)
{
    return strcmp(kind, "tensor") == 0 ? s->names : s->programs;
}

bool bl_registry_has(bl_registry *registry, uint32_t owner, const char *kind, const char *name)
{
    pthread_mutex_lock(&registry->lock);
    const space *s = find_space(registry, owner);
    const bool has = s != NULL && bl_namemap_get(map_of(s, kind), name) != NULL;
    pthread_mutex_unlock(&registry->lock);
    return has;
}

const char *bl_registry_shared(bl_registry *registry, uint32_t reader, const char *kind, const char *full, uint32_t *owner)
{
    const char *name = split_name(registry, full, owner);
    return name != NULL && registry_is_shared(registry, *owner, kind, name, reader) ? name : NULL;
}

bl_grants *bl_registry_grants(bl_registry *registry)
{
    return registry->grants;
}

/* ---- tensors */

static bl_status registry_put_locked(bl_registry *registry, const bl_request *rq, const char *id, const char *name,
                                     bl_device_tensor *held, bl_device_tensor **old, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    /* otherwise a purge that began meanwhile would miss the tensor */
    BL_TRY(bl_access_check_owner(registry->server->access, rq->owner, rq->purges, err));
    BL_TRY(find_names(registry, rq->owner, id, &names, &s, err));
    *old = bl_namemap_get(names, name);
    if (*old == NULL && s->ntensors >= registry->server->settings.max_tensors)
        return bl_fail(err, BL_ENODEVMEM, "the server has %zu tensors, the limit (--max-tensors); delete tensors", s->ntensors);
    BL_TRY(bl_namemap_put(names, name, held, err));
    s->ntensors += *old == NULL;
    return BL_OK;
}

bl_status bl_registry_put(bl_registry *registry, const bl_request *rq, const char *id, const char *name, bl_device_tensor *held,
                          bl_err *err)
{
    bl_device_tensor *old = NULL;
    bl_status st = bl_registry_charge(registry, rq->owner, held->bytes, true, err);
    if (st != BL_OK) {
        registry_forget(registry, rq->owner, held);
        return st;
    }
    bl_metrics_add(&registry->server->metrics, BL_COUNT_TENSORS, 1);
    atomic_fetch_add(&held->worker->tensors, 1);
    bl_device_tensor_retain(held);
    bl_device_tensor_settle(held);
    pthread_mutex_lock(&registry->lock);
    st = registry_put_locked(registry, rq, id, name, held, &old, err);
    pthread_mutex_unlock(&registry->lock);
    put_away(registry, rq->owner, st == BL_OK ? old : held);
    return st;
}

/* Under the lock: the tensor, retained, or NULL. */
static bl_device_tensor *get_own(bl_registry *registry, uint32_t owner, const char *id, const char *name, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    bl_device_tensor *held = NULL;
    if (find_names(registry, owner, id, &names, &s, err) != BL_OK)
        return NULL;
    held = bl_namemap_get(names, name);
    if (held == NULL && id != NULL)
        held = bl_namemap_get(s->names, name);
    return held != NULL ? bl_device_tensor_retain(held) : NULL;
}

static bl_device_tensor *registry_get_shared(bl_registry *registry, uint32_t reader, const char *full)
{
    uint32_t owner = 0;
    const char *name = split_name(registry, full, &owner);
    const space *s = NULL;
    bl_device_tensor *held = NULL;
    if (name == NULL)
        return NULL;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    if (s != NULL && registry_is_shared(registry, owner, "tensor", name, reader))
        held = bl_namemap_get(s->names, name);
    if (held != NULL)
        bl_device_tensor_retain(held);
    pthread_mutex_unlock(&registry->lock);
    return held;
}

bl_status bl_registry_get(bl_registry *registry, uint32_t owner, const char *id, const char *name, bl_device_tensor **out,
                          bool *foreign, bl_err *err)
{
    bl_err missing = {0};
    bool own = false;
    pthread_mutex_lock(&registry->lock);
    *out = get_own(registry, owner, id, name, &missing);
    pthread_mutex_unlock(&registry->lock);
    if (missing.status != BL_OK)
        return bl_fail(err, missing.status, "%s", missing.text);
    own = *out != NULL;
    if (!own)
        *out = registry_get_shared(registry, owner, name);
    if (foreign != NULL)
        *foreign = !own;
    if (*out == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no tensor \"%.128s\"", name);
    if (bl_device_tensor_lost(*out)) {
        bl_device_tensor_release(*out);
        *out = NULL;
        return bl_fail(err, BL_ECONFLICT, "tensor \"%.128s\" was lost when its device was reopened; send the tensor again", name);
    }
    return BL_OK;
}

/* Under the lock: remove the tensor from its namespace; NULL if there is no such tensor. */
static bl_device_tensor *registry_take_out(bl_registry *registry, uint32_t owner, const char *id, const char *name, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    bl_device_tensor *old = NULL;
    if (find_names(registry, owner, id, &names, &s, err) == BL_OK)
        old = bl_namemap_remove(names, name);
    if (old != NULL)
        s->ntensors--;
    else
        (void)bl_fail(err, BL_ENOTFOUND, "there is no tensor \"%.128s\"", name);
    return old;
}

/* Delete the row first, so that a restart after a successful answer does not restore the tensor. */
static bl_status forget_kept(bl_registry *registry, uint32_t owner, const char *name, bl_err *err)
{
    const space *s = NULL;
    const bl_device_tensor *held = NULL;
    int64_t row = 0;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    held = s != NULL ? bl_namemap_get(s->names, name) : NULL;
    row = held != NULL ? held->durable : 0;
    pthread_mutex_unlock(&registry->lock);
    if (held == NULL)
        return BL_OK;
    BL_TRY(bl_grants_drop(registry->grants, owner, "tensor", name, err));
    return row != 0 ? bl_durable_forget(registry->server, owner, row, err) : BL_OK;
}

bl_status bl_registry_delete(bl_registry *registry, uint32_t owner, const char *id, const char *name, bl_err *err)
{
    bl_device_tensor *old = NULL;
    bl_status st = BL_OK;
    bl_grants_hold(registry->grants);
    if (id == NULL)
        st = forget_kept(registry, owner, name, err);
    if (st == BL_OK) {
        pthread_mutex_lock(&registry->lock);
        old = registry_take_out(registry, owner, id, name, err);
        pthread_mutex_unlock(&registry->lock);
        st = err->status;
    }
    bl_grants_let_go(registry->grants);
    put_away(registry, owner, old);
    return st;
}

bl_status bl_registry_list(bl_registry *registry, uint32_t owner, const char *id,
                           void (*each)(void *arg, const char *name, const bl_device_tensor *held), void *arg, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    const char *name = NULL;
    void *held = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&registry->lock);
    st = find_names(registry, owner, id, &names, &s, err);
    for (size_t i = 0; st == BL_OK && bl_namemap_at(names, i, &name, &held); i++)
        each(arg, name, held);
    pthread_mutex_unlock(&registry->lock);
    return st;
}

/* ---- leases */

/* Remove a program that was put under the lease |id|; NULL if there is none. */
static bl_program *take_program_of(bl_registry *registry, space *of, const char *id)
{
    const char *name = NULL;
    void *value = NULL;
    bl_program *found = NULL;
    bl_err err = {0};
    bl_grants_hold(registry->grants);
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; found == NULL && bl_namemap_at(of->programs, i, &name, &value); i++) {
        const char *owner = ((bl_program *)value)->doc.options.lease;
        if (owner != NULL && strcmp(owner, id) == 0)
            found = value;
        if (found != NULL)
            bl_namemap_remove(of->programs, name);
    }
    pthread_mutex_unlock(&registry->lock);
    if (found != NULL && bl_grants_drop(registry->grants, of->owner, "program", found->name, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "the shares of program %.128s cannot be removed: %s", found->name, err.text);
    bl_grants_let_go(registry->grants);
    return found;
}

static void drop_program(bl_registry *registry, bl_program *program)
{
    bl_metrics_add(&registry->server->metrics, BL_COUNT_PROGRAMS, -1);
    bl_program_release(program);
}

/* Free the lease. |old| is out of the map, so no new object can be put under the lease. */
static void free_lease(bl_registry *registry, lease *old)
{
    bl_program *program = NULL;
    while ((program = take_program_of(registry, old->space, old->id)) != NULL)
        drop_program(registry, program);
    drop_names(registry, old->space->owner, old->names);
    bl_namemap_destroy(old->names);
    bl_metrics_add(&registry->server->metrics, BL_COUNT_LEASES, -1);
    free(old);
}

static double clamp_ttl(const bl_registry *registry, double ttl)
{
    return ttl < registry->server->settings.max_lease ? ttl : registry->server->settings.max_lease;
}

static bl_status make_lease(bl_registry *registry, double ttl, lease **out, bl_err *err)
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
        return bl_fail(err, BL_ENOMEM, "out of host memory for a lease");
    }
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(made->id + 2 * i, 3, "%02x", random[i]);
    made->ttl = clamp_ttl(registry, ttl);
    made->expires_ns = bl_clock_ns() + (int64_t)(made->ttl * 1e9);
    *out = made;
    return BL_OK;
}

static bl_status add_lease(bl_registry *registry, uint32_t owner, lease *made, bl_err *err)
{
    space *s = NULL;
    BL_TRY(need_space(registry, owner, &s, err));
    if (s->nleases >= registry->server->settings.max_leases)
        return bl_fail(err, BL_ENODEVMEM, "the server has %zu leases, the limit (--max-leases); delete leases", s->nleases);
    made->space = s;
    BL_TRY(bl_namemap_put(registry->leases, made->id, made, err));
    s->nleases++;
    return BL_OK;
}

bl_status bl_lease_create(bl_registry *registry, uint32_t owner, double ttl, char id[BL_LEASE_SIZE], bl_err *err)
{
    lease *made = NULL;
    bl_status st = make_lease(registry, ttl, &made, err);
    if (st != BL_OK)
        return st;
    snprintf(id, BL_LEASE_SIZE, "%s", made->id);
    pthread_mutex_lock(&registry->lock);
    st = add_lease(registry, owner, made, err);
    pthread_mutex_unlock(&registry->lock);
    if (st == BL_OK) {
        bl_metrics_add(&registry->server->metrics, BL_COUNT_LEASES, 1);
        return BL_OK;
    }
    bl_namemap_destroy(made->names);
    free(made);
    return st;
}

bl_status bl_lease_renew(bl_registry *registry, uint32_t owner, const char *id, double ttl, double *ttl_now, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    lease *found = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&registry->lock);
    st = find_names(registry, owner, id, &names, &s, err);
    if (st == BL_OK) {
        found = bl_namemap_get(registry->leases, id);
        if (ttl > 0)
            found->ttl = clamp_ttl(registry, ttl);
        st = find_names(registry, owner, id, &names, &s, err); /* renew again with the new duration */
        *ttl_now = found->ttl;
    }
    pthread_mutex_unlock(&registry->lock);
    return st;
}

/* Under the lock: remove the lease. */
static void take_lease(bl_registry *registry, lease *found)
{
    bl_namemap_remove(registry->leases, found->id);
    found->space->ntensors -= bl_namemap_count(found->names);
    found->space->nleases--;
}

bl_status bl_lease_end(bl_registry *registry, uint32_t owner, const char *id, bl_err *err)
{
    lease *found = NULL;
    pthread_mutex_lock(&registry->lock);
    found = bl_namemap_get(registry->leases, id);
    if (found != NULL && found->space->owner != owner)
        found = NULL;
    if (found != NULL)
        take_lease(registry, found);
    pthread_mutex_unlock(&registry->lock);
    if (found == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no such lease; it may have expired");
    free_lease(registry, found);
    return BL_OK;
}

/* Remove one expired lease; NULL if there is none. */
static lease *registry_take_expired(bl_registry *registry, int64_t now_ns)
{
    const char *id = NULL;
    void *value = NULL;
    lease *found = NULL;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; found == NULL && bl_namemap_at(registry->leases, i, &id, &value); i++)
        if (((lease *)value)->expires_ns <= now_ns)
            found = value;
    if (found != NULL)
        take_lease(registry, found);
    pthread_mutex_unlock(&registry->lock);
    return found;
}

void bl_registry_expire(bl_registry *registry, int64_t now_ns)
{
    lease *old = NULL;
    while ((old = registry_take_expired(registry, now_ns)) != NULL)
        free_lease(registry, old);
}

/* ---- programs */

static bl_status put_program_locked(bl_registry *registry, uint32_t owner, const char *name, bl_program *program, bool fresh,
                                    bl_program **old, bl_err *err)
{
    bl_namemap *names = NULL;
    space *s = NULL;
    BL_TRY(bl_access_check_owner(registry->server->access, owner, program->purges, err));
    BL_TRY(find_names(registry, owner, program->doc.options.lease, &names, &s, err)); /* fails if the lease has ended */
    *old = bl_namemap_get(s->programs, name);
    if (*old != NULL && fresh)
        return bl_fail(err, BL_EPRECONDITION, "program \"%.128s\" exists already", name);
    if (*old != NULL)
        BL_TRY(bl_program_check_claim(atomic_load(&(*old)->claim), name, err));
    if (*old == NULL && bl_namemap_count(s->programs) >= registry->server->settings.max_programs)
        return bl_fail(err, BL_ENODEVMEM, "the server has %zu programs, the limit (--max-programs); delete programs",
                       bl_namemap_count(s->programs));
    return bl_namemap_put(s->programs, name, program, err);
}

bl_status bl_registry_put_program(bl_registry *registry, uint32_t owner, const char *name, bl_program *program, bool fresh,
                                  bl_err *err)
{
    bl_program *old = NULL;
    bl_status st = BL_OK;
    bl_program_retain(program);
    pthread_mutex_lock(&registry->lock);
    st = put_program_locked(registry, owner, name, program, fresh, &old, err);
    pthread_mutex_unlock(&registry->lock);
    if (st == BL_OK && old == NULL)
        bl_metrics_add(&registry->server->metrics, BL_COUNT_PROGRAMS, 1);
    bl_program_release(st == BL_OK ? old : program);
    return st;
}

/* The program, retained, or NULL.  With |reader|, only a program that is shared with this key. */
static bl_program *registry_find_program(bl_registry *registry, uint32_t owner, const char *name, const uint32_t *reader)
{
    const space *s = NULL;
    bl_program *found = NULL;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    if (s != NULL && (reader == NULL || registry_is_shared(registry, owner, "program", name, *reader)))
        found = bl_namemap_get(s->programs, name);
    if (found != NULL)
        bl_program_retain(found);
    pthread_mutex_unlock(&registry->lock);
    return found;
}

bl_status bl_registry_get_program(bl_registry *registry, uint32_t owner, const char *name, bl_program **out, bl_err *err)
{
    *out = registry_find_program(registry, owner, name, NULL);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOTFOUND, "there is no program \"%.128s\"", name);
}

bl_status bl_registry_read_program(bl_registry *registry, uint32_t owner, const char *name, bl_program **out, bl_err *err)
{
    uint32_t other = 0;
    const char *rest = NULL;
    *out = registry_find_program(registry, owner, name, NULL);
    if (*out == NULL && (rest = split_name(registry, name, &other)) != NULL)
        *out = registry_find_program(registry, other, rest, &owner);
    return *out != NULL ? BL_OK : bl_fail(err, BL_ENOTFOUND, "there is no program \"%.128s\"", name);
}

bl_status bl_registry_check_program(bl_registry *registry, uint32_t owner, const char *name, bl_err *err)
{
    bl_program *found = registry_find_program(registry, owner, name, NULL);
    bl_status st = bl_program_check_claim(found != NULL ? atomic_load(&found->claim) : BL_CLAIM_NONE, name, err);
    bl_program_release(found);
    return st;
}

/* Claim the program for deletion; its name stays taken.  |trained|: even if a job has claimed it.  *out is retained. */
static bl_status claim_program(bl_registry *registry, uint32_t owner, const char *name, bool trained, bl_program **out,
                               bl_err *err)
{
    bl_program *found = NULL;
    const space *s = NULL;
    int claim = BL_CLAIM_NONE;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    found = s != NULL ? bl_namemap_get(s->programs, name) : NULL;
    if (found != NULL && (atomic_compare_exchange_strong(&found->claim, &claim, BL_CLAIM_DELETED) || trained)) {
        bl_program_retain(found);
        *out = found;
    }
    pthread_mutex_unlock(&registry->lock);
    if (found == NULL)
        return bl_fail(err, BL_ENOTFOUND, "there is no program \"%.128s\"", name);
    return *out != NULL ? BL_OK : bl_program_check_claim(claim, name, err);
}

static bl_status delete_program(bl_registry *registry, uint32_t owner, const char *name, bool trained, bl_err *err)
{
    bl_program *program = NULL, *old = NULL;
    bl_status st = BL_OK;
    bl_grants_hold(registry->grants);
    st = claim_program(registry, owner, name, trained, &program, err);
    if (st == BL_OK)
        st = bl_grants_drop(registry->grants, owner, "program", name, err);
    if (st == BL_OK) {
        pthread_mutex_lock(&registry->lock);
        old = bl_namemap_remove(find_space(registry, owner)->programs, name);
        pthread_mutex_unlock(&registry->lock);
    } else if (program != NULL && !trained) {
        atomic_store(&program->claim, BL_CLAIM_NONE);
    }
    bl_grants_let_go(registry->grants);
    if (old != NULL)
        drop_program(registry, old);
    bl_program_release(program);
    return st;
}

bl_status bl_registry_delete_program(bl_registry *registry, uint32_t owner, const char *name, bl_err *err)
{
    return delete_program(registry, owner, name, false, err);
}

/* Call |each| for every program of the space. Under the lock. */
static void each_program(space *s, void (*each)(void *arg, const char *name, bl_program *program), void *arg)
{
    const char *name = NULL;
    void *program = NULL;
    for (size_t i = 0; s != NULL && bl_namemap_at(s->programs, i, &name, &program); i++)
        each(arg, name, program);
}

void bl_registry_list_programs(bl_registry *registry, uint32_t owner,
                               void (*each)(void *arg, const char *name, bl_program *program), void *arg)
{
    pthread_mutex_lock(&registry->lock);
    each_program(find_space(registry, owner), each, arg);
    pthread_mutex_unlock(&registry->lock);
}

void bl_registry_all_programs(bl_registry *registry, void (*each)(void *arg, const char *name, bl_program *program), void *arg)
{
    const char *id = NULL;
    void *s = NULL;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; bl_namemap_at(registry->spaces, i, &id, &s); i++)
        each_program(s, each, arg);
    pthread_mutex_unlock(&registry->lock);
}

/* ---- purge of one owner */

/* Remove a lease of |owner|; NULL if there is none. */
static lease *take_lease_of(bl_registry *registry, uint32_t owner)
{
    const char *id = NULL;
    void *value = NULL;
    lease *found = NULL;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; found == NULL && bl_namemap_at(registry->leases, i, &id, &value); i++)
        if (((lease *)value)->space->owner == owner)
            found = value;
    if (found != NULL)
        take_lease(registry, found);
    pthread_mutex_unlock(&registry->lock);
    return found;
}

/* Copy the first name of a tensor, or of a program; false if there is none. */
static bool first_name(bl_registry *registry, uint32_t owner, bool program, char out[BL_NAME_SIZE])
{
    const char *name = NULL;
    void *value = NULL;
    bool found = false;
    space *s = NULL;
    pthread_mutex_lock(&registry->lock);
    s = find_space(registry, owner);
    found = s != NULL && bl_namemap_at(program ? s->programs : s->names, 0, &name, &value);
    if (found)
        snprintf(out, BL_NAME_SIZE, "%s", name);
    pthread_mutex_unlock(&registry->lock);
    return found;
}

size_t bl_registry_purge(bl_registry *registry, uint32_t owner)
{
    char name[BL_NAME_SIZE];
    bl_err ignored = {0};
    lease *old = NULL;
    size_t n = 0;
    while ((old = take_lease_of(registry, owner)) != NULL)
        free_lease(registry, old);
    while (first_name(registry, owner, false, name) && bl_registry_delete(registry, owner, NULL, name, &ignored) == BL_OK)
        n++;
    while (first_name(registry, owner, true, name) && delete_program(registry, owner, name, true, &ignored) == BL_OK)
        n++;
    return n;
}

/* ---- lifetime */

bl_status bl_registry_create(bl_server *server, bl_registry **out, bl_err *err)
{
    bl_registry *registry = calloc(1, sizeof *registry);
    *out = registry;
    if (registry == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the registry");
    registry->server = server;
    pthread_mutex_init(&registry->lock, NULL);
    registry->spaces = bl_namemap_create();
    registry->leases = bl_namemap_create();
    if (registry->spaces != NULL && registry->leases != NULL && bl_grants_create(server, &registry->grants, err) == BL_OK)
        return BL_OK;
    bl_namemap_destroy(registry->spaces);
    bl_namemap_destroy(registry->leases);
    free(registry);
    *out = NULL;
    return bl_fail(err, BL_ENOMEM, "out of host memory for the registry");
}

void bl_registry_destroy(bl_registry *registry)
{
    const char *name = NULL;
    void *value = NULL, *each = NULL;
    if (registry == NULL)
        return;
    bl_registry_expire(registry, INT64_MAX);
    for (size_t i = 0; bl_namemap_at(registry->spaces, i, &name, &each); i++) {
        space *s = each;
        const char *id = NULL;
        for (size_t k = 0; bl_namemap_at(s->programs, k, &id, &value); k++)
            bl_program_release(value);
        drop_names(registry, s->owner, s->names);
    }
    for (size_t i = 0; bl_namemap_at(registry->spaces, i, &name, &each); i++)
        free_space(each);
    bl_namemap_destroy(registry->spaces);
    bl_namemap_destroy(registry->leases);
    bl_grants_destroy(registry->grants);
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}
