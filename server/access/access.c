/* SPDX-License-Identifier: MIT */
#include "server/access/access.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access_internal.h"
#include "server/http/routes.h"

#include <gnutls/gnutls.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LOOK_NS = 1000000000
}; /* upper bound of the delay until a command's change is in force, and of the usage that a crash loses */

/* ---- owners; under the lock */

owner *owner_by_id(bl_access *access, uint32_t id)
{
    owner *o = access->owners;
    if (id == 0)
        return &access->nobody;
    while (o != NULL && o->row.id != id)
        o = o->next;
    return o;
}

owner *owner_by_name(bl_access *access, const char *name)
{
    owner *o = access->owners;
    while (o != NULL && strcmp(o->row.name, name) != 0)
        o = o->next;
    return o;
}

static owner **access_bucket_of(bl_access *access, const unsigned char hash[BL_KEY_HASH])
{
    return &access->bucket[((unsigned)hash[0] << 8 | hash[1]) % KEY_BUCKETS];
}

/* Find the owner of a hash. The time of a look-up reveals at most the first bits of a hash, and a client cannot choose a
 * secret by its hash.  The other bits are compared in constant time. */
static owner *owner_by_hash(bl_access *access, const unsigned char hash[BL_KEY_HASH])
{
    owner *found = NULL;
    for (owner *o = *access_bucket_of(access, hash); o != NULL; o = o->next_in_bucket)
        if (gnutls_memcmp(o->row.hash, hash, BL_KEY_HASH) == 0)
            found = o;
    return found;
}

static owner *add_owner(bl_access *access, uint32_t id)
{
    owner *o = calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    o->row.id = id;
    o->tokens = -1;
    o->day = usage_day();
    o->next = access->owners;
    access->owners = o;
    access->count++;
    return o;
}

/* ---- loading keys from the store */

typedef struct fresh_rows {
    bl_key_row *rows;
    size_t count, cap;
    bool failed;
} fresh_rows;

static void keep_row(void *arg, const bl_key_row *row)
{
    fresh_rows *fresh = arg;
    if (fresh->count == fresh->cap) {
        size_t cap = fresh->cap > 0 ? 2 * fresh->cap : 64;
        bl_key_row *rows = realloc(fresh->rows, cap * sizeof *rows);
        fresh->failed = fresh->failed || rows == NULL;
        if (rows == NULL)
            return;
        fresh->rows = rows;
        fresh->cap = cap;
    }
    fresh->rows[fresh->count++] = *row;
}

/* Take over all rows or no row: allocate new owners first. */
static bl_status take_rows(bl_access *access, const fresh_rows *fresh, bl_err *err)
{
    for (size_t i = 0; i < fresh->count; i++)
        if (owner_by_id(access, fresh->rows[i].id) == NULL && add_owner(access, fresh->rows[i].id) == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for keys");
    memset(access->bucket, 0, sizeof access->bucket);
    for (owner *o = access->owners; o != NULL; o = o->next)
        o->row.scopes = 0; /* a key whose row was deleted has no scopes */
    for (size_t i = 0; i < fresh->count; i++) {
        owner *o = owner_by_id(access, fresh->rows[i].id);
        owner **bucket = access_bucket_of(access, fresh->rows[i].hash);
        bool same = memcmp(o->row.hash, fresh->rows[i].hash, BL_KEY_HASH) == 0;
        int64_t revoked = same ? o->row.revoked : 0;
        o->secrets += !same;
        o->row = fresh->rows[i];
        if (o->row.revoked == 0) /* the store may lack the revocation; only a new secret makes a key valid again */
            o->row.revoked = revoked;
        o->next_in_bucket = *bucket;
        *bucket = o;
    }
    return BL_OK;
}

bl_status bl_access_reload(bl_server *server, const bl_settings *settings, bl_err *err)
{
    bl_access *access = server->access;
    fresh_rows fresh = {0};
    bl_status st = bl_keys_list(server->storage, keep_row, &fresh, err);
    (void)settings;
    if (st == BL_OK && fresh.failed)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for keys");
    if (st == BL_OK) {
        pthread_mutex_lock(&access->lock);
        st = take_rows(access, &fresh, err);
        pthread_mutex_unlock(&access->lock);
    }
    free(fresh.rows);
    return st;
}

bool bl_access_revoke(bl_access *access, const char *name, int64_t now)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_name(access, name);
    if (o != NULL && o->row.revoked == 0)
        o->row.revoked = now;
    pthread_mutex_unlock(&access->lock);
    return o != NULL;
}

bool bl_access_has_keys(bl_access *access)
{
    bool has = false;
    pthread_mutex_lock(&access->lock);
    has = access->count > 0;
    pthread_mutex_unlock(&access->lock);
    return has;
}

/* ---- identifying the key of a request */

/* The key in the header "Authorization: Bearer KEY" or X-API-Key; NULL if there is none. */
static const char *given_key(const bl_head *head)
{
    const char *text = head->authorization;
    if (text != NULL && strncasecmp(text, "bearer ", 7) == 0)
        return text + 7 + strspn(text + 7, " ");
    return head->key;
}

/* The reason why the key is not valid, or NULL. Under the lock. */
static const char *why_not(const owner *o)
{
    if (o->row.revoked != 0)
        return "the key was revoked";
    if (o->row.expires != 0 && o->row.expires <= (int64_t)time(NULL))
        return "the key has expired";
    return NULL;
}

bl_status bl_access_identify(bl_request *rq, const bl_head *head, bl_err *err)
{
    bl_access *access = rq->server->access;
    const char *secret = given_key(head), *why = NULL;
    unsigned char hash[BL_KEY_HASH];
    owner *found = NULL;
    bool needed = false;
    if (secret != NULL)
        bl_key_hash(secret, strlen(secret), hash);
    pthread_mutex_lock(&access->lock);
    needed = access->count > 0;
    found = needed && secret != NULL ? owner_by_hash(access, hash) : NULL;
    if (found != NULL)
        why = why_not(found);
    if (found != NULL && why == NULL) {
        rq->owner = found->row.id;
        rq->scopes = found->row.scopes;
        rq->purges = found->purges;
        rq->secrets = found->secrets;
    }
    pthread_mutex_unlock(&access->lock);
    if (!needed)
        rq->scopes = BL_SCOPE_ANY;
    else if (head->authorizations > 1 || head->keys > 1 || (head->authorization != NULL && head->key != NULL))
        why = "a request comes with one key, in Authorization or in X-API-Key";
    else if (secret == NULL)
        why = "this needs a key, as in `Authorization: Bearer bl_...`";
    else if (found == NULL)
        why = "there is no such key";
    if (why == NULL)
        return BL_OK;
    rq->owner = 0;
    rq->scopes = 0;
    return bl_fail(err, BL_EAUTH, "%s", why);
}

bl_status bl_access_check_still(const bl_request *rq, bl_err *err)
{
    bl_access *access = rq->server->access;
    const owner *o = NULL;
    const char *why = NULL;
    unsigned scopes = BL_SCOPE_ANY;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, rq->owner);
    if (rq->owner == 0)
        why = access->count > 0 ? "this needs a key, now that there are some" : NULL;
    else if (o == NULL)
        why = "there is no such key";
    else if (o->secrets != rq->secrets)
        why = "the key has another secret";
    else
        why = why_not(o);
    if (rq->owner != 0 && o != NULL)
        scopes = o->row.scopes;
    pthread_mutex_unlock(&access->lock);
    if (why != NULL)
        return bl_fail(err, BL_EAUTH, "%s", why);
    if (rq->head.route->scope != BL_SCOPE_NONE && (rq->head.route->scope & scopes) == 0)
        return bl_fail(err, BL_EFORBIDDEN, "the key no longer has the scope that this request needs");
    return BL_OK;
}

/* Take a token from the token bucket. The bucket fills at |rate| tokens a second, and holds the tokens of one second, but at
 * least one token.  Returns the seconds to wait, 0 if a token was taken. */
static double take_token(owner *o, double rate, int64_t now_ns)
{
    double most = rate > 1 ? rate : 1;
    if (o->tokens < 0)
        o->tokens = most;
    else
        o->tokens = fmin(most, o->tokens + rate * (double)(now_ns - o->filled_ns) * 1e-9);
    o->filled_ns = now_ns;
    if (o->tokens >= 1) {
        o->tokens -= 1;
        return 0;
    }
    return rate > 0 ? (1 - o->tokens) / rate : DAY_SECONDS;
}

/* Round to a Retry-After value: whole seconds, at least one. */
static int retry_after(double seconds)
{
    return seconds < 1 ? 1 : seconds > DAY_SECONDS ? DAY_SECONDS : (int)ceil(seconds);
}

bl_status bl_access_admit(bl_request *rq)
{
    bl_access *access = rq->server->access;
    double wait = 0, rate = -1;
    owner *o = NULL;
    if (rq->head.route->scope == BL_SCOPE_NONE)
        return BL_OK;
    if ((rq->head.route->scope & rq->scopes) == 0) {
        bl_text scopes = {0};
        bl_scopes_print(rq->head.route->scope, &scopes);
        (void)bl_fail(&rq->err, BL_EFORBIDDEN, "the key lacks the scope that this request needs: %s", bl_text_get(&scopes));
        bl_text_fini(&scopes);
        return rq->err.status;
    }
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, rq->owner);
    rate = o != NULL ? o->row.quota[BL_QUOTA_RATE] : -1;
    if (o != NULL)
        o->arrivals++;
    if (rate >= 0)
        wait = take_token(o, rate, rq->start_ns);
    pthread_mutex_unlock(&access->lock);
    if (wait <= 0)
        return BL_OK;
    rq->reply.retry_after = retry_after(wait);
    return bl_fail(&rq->err, BL_EQUOTA, "the key has sent its quota of %g requests a second; send the request again later", rate);
}

/* ---- other quotas */

bl_status bl_access_check_time(bl_request *rq)
{
    bl_access *access = rq->server->access;
    double quota = -1, used = 0;
    owner *o = NULL;
    if (!bl_request_is_bound(rq))
        return BL_OK;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, rq->owner);
    if (o != NULL) {
        quota = o->row.quota[BL_QUOTA_SECONDS];
        used = (double)usage_today(o)->device_ns * 1e-9;
    }
    pthread_mutex_unlock(&access->lock);
    if (quota < 0 || used < quota)
        return BL_OK;
    rq->reply.retry_after = retry_after((double)(DAY_SECONDS - (int64_t)time(NULL) % DAY_SECONDS));
    return bl_fail(
        &rq->err, BL_EQUOTA,
        "the key has a quota of %g s of device time a day (UTC) and has used %.3f s; the quota starts anew at midnight UTC",
        quota, used);
}

bool bl_access_has_time(bl_access *access, uint32_t id)
{
    bool has = true;
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL && o->row.quota[BL_QUOTA_SECONDS] >= 0)
        has = (double)usage_today(o)->device_ns * 1e-9 < o->row.quota[BL_QUOTA_SECONDS];
    pthread_mutex_unlock(&access->lock);
    return has;
}

const char *bl_access_why_not(bl_access *access, uint32_t id)
{
    const char *why = NULL;
    const owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    why = o != NULL ? why_not(o) : NULL;
    pthread_mutex_unlock(&access->lock);
    return why;
}

bl_status bl_access_check_search(bl_request *rq, int beam, int debug)
{
    const bl_settings *set = &rq->server->settings;
    if (rq->own.done != NULL || (rq->scopes & BL_SCOPE_ADMIN) != 0)
        return BL_OK;
    if (beam > (int)set->key_beam && beam > (int)set->beam)
        return bl_fail(&rq->err, BL_EFORBIDDEN, "beam is %d; a key without the scope admin may set at most %d", beam,
                       (int)set->key_beam);
    if (debug > bl_access_debug_level(rq))
        return bl_fail(&rq->err, BL_EFORBIDDEN, "debug is %d; a key without the scope admin may set at most %d", debug,
                       (int)set->key_debug);
    return BL_OK;
}

int bl_access_debug_level(const bl_request *rq)
{
    const bl_settings *set = &rq->server->settings;
    enum { MOST = 7 };
    if (rq->own.done != NULL || (rq->scopes & BL_SCOPE_ADMIN) != 0)
        return MOST;
    return (int)(set->key_debug > set->debug ? set->key_debug : set->debug);
}

static size_t quota_of(bl_access *access, uint32_t id, int quota)
{
    double value = -1;
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL)
        value = o->row.quota[quota];
    pthread_mutex_unlock(&access->lock);
    return value < 0 ? SIZE_MAX : (size_t)value;
}

size_t bl_access_queue_quota(bl_access *access, uint32_t id)
{
    return quota_of(access, id, BL_QUOTA_QUEUE);
}

size_t bl_access_memory_quota(bl_access *access, uint32_t id)
{
    return quota_of(access, id, BL_QUOTA_MEMORY);
}

void bl_access_name(bl_access *access, uint32_t id, char *out, size_t size)
{
    const owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    snprintf(out, size, "%s", o != NULL ? o->row.name : "");
    pthread_mutex_unlock(&access->lock);
}

bool bl_access_tells_names(const bl_request *rq, uint32_t owner_id)
{
    return rq->owner == owner_id || rq->server->settings.show_names || (rq->scopes & BL_SCOPE_ADMIN) != 0;
}

uint64_t bl_access_purges(bl_access *access, uint32_t id)
{
    const owner *o = NULL;
    uint64_t purges = 0;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    purges = o != NULL ? o->purges : 0;
    pthread_mutex_unlock(&access->lock);
    return purges;
}

bl_status bl_access_check_owner(bl_access *access, uint32_t id, uint64_t purges, bl_err *err)
{
    return bl_access_purges(access, id) == purges
               ? BL_OK
               : bl_fail(err, BL_ECONFLICT, "the data of the key was purged while the request ran; send the request again");
}

void bl_access_purge(bl_access *access, uint32_t id)
{
    owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_id(access, id);
    if (o != NULL)
        o->purges++;
    pthread_mutex_unlock(&access->lock);
}

bool bl_access_find(bl_access *access, const char *name, uint32_t *id)
{
    const owner *o = NULL;
    pthread_mutex_lock(&access->lock);
    o = owner_by_name(access, name);
    *id = o != NULL ? o->row.id : 0;
    pthread_mutex_unlock(&access->lock);
    return o != NULL;
}

/* ---- lifetime */

static bool access_read_version(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    *(int64_t *)arg = cells[0].integer;
    return true;
}

/* Has another process, such as a command, written to the store since the last check? */
static bool store_changed(bl_access *access)
{
    int64_t version = access->version;
    bl_err ignored = {0};
    if (bl_storage_run(access->server->storage, "PRAGMA data_version", 0, NULL, access_read_version, &version, &ignored) != BL_OK)
        return false;
    if (version == access->version)
        return false;
    access->version = version;
    return true;
}

static void look_at_store(void *arg)
{
    bl_access *access = arg;
    bl_err err = {0};
    bl_storage_tend(access->server->storage);
    usage_save(access);
    if (store_changed(access) && bl_access_reload(access->server, NULL, &err) != BL_OK)
        bl_log(BL_LOG_ERROR, "the the keys cannot be read again: %s", err.text);
}

bl_status bl_access_create(bl_server *server, bl_access **out, bl_err *err)
{
    bl_access *access = calloc(1, sizeof *access);
    bl_status st = BL_OK;
    *out = access;
    if (access == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for keys");
    access->server = server;
    access->samples = samples_create();
    if (access->samples == NULL) {
        free(access);
        *out = NULL;
        return bl_fail(err, BL_ENOMEM, "out of host memory for samples of the devices");
    }
    access->nobody.row.scopes = BL_SCOPE_ANY;
    access->nobody.day = usage_day();
    for (int i = 0; i < BL_QUOTA_COUNT; i++)
        access->nobody.row.quota[i] = -1;
    pthread_mutex_init(&access->lock, NULL);
    pthread_mutex_init(&access->saving, NULL);
    (void)store_changed(access);
    st = bl_access_reload(server, NULL, err);
    if (st == BL_OK)
        st = usage_load(access, err);
    if (st == BL_OK)
        st = bl_ticker_add(server->disk_ticker, LOOK_NS, look_at_store, access, &access->look, err);
    return st;
}

void bl_access_destroy(bl_access *access)
{
    if (access == NULL)
        return;
    bl_tick_remove(access->look);
    while (access->owners != NULL) {
        owner *o = access->owners;
        access->owners = o->next;
        free(o);
    }
    samples_destroy(access->samples);
    pthread_mutex_destroy(&access->lock);
    pthread_mutex_destroy(&access->saving);
    free(access);
}
