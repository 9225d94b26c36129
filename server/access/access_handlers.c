/* SPDX-License-Identifier: MIT */
/* The routes of keys and usage. */
#include "proto/encode.h"
#include "server/access/access_internal.h"
#include "server/http/handlers.h"
#include "server/http/routes.h"
#include "server/store/purge.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DAYS = 400 };

/* ---- decoding */

static bl_status read_scopes(const bl_json *list, unsigned *out, bl_err *err)
{
    bl_json item;
    bl_json_iter each = bl_json_each(list);
    BL_TRY(bl_json_expect(list, BL_JSON_ARRAY, err));
    *out = 0;
    while (bl_json_next(&each, &item)) {
        const char *name = NULL;
        unsigned one = 0;
        BL_TRY(bl_json_string(&item, &name, err));
        BL_TRY(bl_scopes_parse(name, &one, err));
        *out |= one;
    }
    return *out != 0 ? BL_OK : bl_json_fail(list, err, BL_EINVAL, "a key needs at least one scope");
}

/* Read quotas; null removes a quota. */
static bl_status read_quotas(const bl_json *object, bl_key_wish *wish, bl_err *err)
{
    static const char *const names[] = {
#define BL_QUOTA(id, name, flag, kind, help) name,
#include "server/access/quotas.def"
#undef BL_QUOTA
        NULL};
    BL_TRY(bl_json_allow(object, names, err));
    for (int i = 0; i < BL_QUOTA_COUNT; i++) {
        bl_json value;
        bl_wire_number number = {0};
        if (!bl_json_find(object, names[i], &value))
            continue;
        wish->has_quota[i] = true;
        wish->quota[i] = -1;
        if (value.kind == BL_JSON_NULL)
            continue;
        BL_TRY(bl_json_number(&value, &number, err));
        wish->quota[i] = number.value;
        BL_TRY(bl_quota_check(i, wish->quota[i], err));
    }
    return BL_OK;
}

static bl_status access_handlers_read_ttl(const bl_json *value, bl_key_wish *wish, bl_err *err)
{
    bl_wire_number number = {0};
    wish->has_ttl = true;
    wish->ttl = 0;
    if (value->kind == BL_JSON_NULL)
        return BL_OK;
    BL_TRY(bl_json_number(value, &number, err));
    wish->ttl = number.value;
    if (!(wish->ttl > 0 && wish->ttl < 1e10))
        return bl_json_fail(value, err, BL_EINVAL,
                            "ttl must be more than 0 and at most 1e10 seconds, or null for a key that does not expire");
    return BL_OK;
}

static bl_status access_handlers_read_wish(bl_request *rq, const bl_json *doc, bool named, bl_key_wish *wish)
{
    static const char *const names[] = {"scopes", "ttl", "quotas", "name", NULL}, *const changes[] = {"scopes", "ttl", "quotas",
                                                                                                      NULL};
    bl_err *err = &rq->err;
    bl_json at;
    const char *name = NULL;
    BL_TRY(bl_json_allow(doc, named ? names : changes, err));
    if (named) {
        BL_TRY(bl_json_need(doc, "name", &at, err));
        BL_TRY(bl_json_string(&at, &name, err));
        wish->name = bl_arena_strdup(rq->arena, name);
        if (wish->name == NULL)
            return bl_arena_status(rq->arena, err);
    }
    if (bl_json_find(doc, "scopes", &at))
        BL_TRY(read_scopes(&at, &wish->scopes, err));
    if (bl_json_find(doc, "ttl", &at))
        BL_TRY(access_handlers_read_ttl(&at, wish, err));
    if (bl_json_find(doc, "quotas", &at))
        BL_TRY(read_quotas(&at, wish, err));
    return BL_OK;
}

static bl_status access_handlers_decode(bl_request *rq, bool named, bl_key_wish *wish)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc;
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = access_handlers_read_wish(rq, &root, named, wish);
    }
    bl_json_fini(&doc);
    return st;
}

/* ---- keys */

typedef struct sought {
    bl_access *access;
    const char *name; /* NULL: all keys */
    bl_text *out;
} sought;

/* The time when the key was revoked, or 0.  Memory may have a revocation that the store lacks. */
static int64_t revoked_when(bl_access *access, const char *name)
{
    const owner *o = NULL;
    int64_t when = 0;
    pthread_mutex_lock(&access->lock);
    o = owner_by_name(access, name);
    when = o != NULL ? o->row.revoked : 0;
    pthread_mutex_unlock(&access->lock);
    return when;
}

static void access_handlers_put_row(void *arg, const bl_key_row *row)
{
    const sought *s = arg;
    bl_key_row shown = *row;
    if (s->name != NULL && strcmp(s->name, row->name) != 0)
        return;
    if (shown.revoked == 0)
        shown.revoked = revoked_when(s->access, row->name);
    if (s->name == NULL)
        bl_text_puts(s->out, bl_text_last(s->out) == '[' ? "{" : ",{");
    bl_key_encode(s->out, &shown);
    if (s->name != NULL)
        return;
    bl_encode_key(s->out, "disk_bytes");
    bl_encode_u64(s->out, bl_access_disk_bytes(s->access, row->id));
    bl_text_puts(s->out, "}");
}

bl_status bl_handle_keys_list(bl_request *rq)
{
    sought all = {.access = rq->server->access, .out = &rq->reply.out};
    bl_text_puts(&rq->reply.out, "{\"keys\":[");
    BL_TRY(bl_text_status(&rq->reply.out, &rq->err));
    BL_TRY(bl_keys_list(rq->server->storage, access_handlers_put_row, &all, &rq->err));
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* Apply the change and answer with the description of the key, and with |secret| if there is a new secret. */
static bl_status reply_key(bl_request *rq, const char *name, const char *secret, int status)
{
    sought one = {.access = rq->server->access, .name = name, .out = &rq->reply.out};
    BL_TRY(bl_access_reload(rq->server, NULL, &rq->err));
    bl_text_puts(&rq->reply.out, "{");
    if (secret != NULL) {
        bl_encode_key(&rq->reply.out, "key");
        bl_encode_string(&rq->reply.out, secret);
    }
    BL_TRY(bl_keys_list(rq->server->storage, access_handlers_put_row, &one, &rq->err));
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, status);
    return BL_OK;
}

bl_status bl_handle_key_post(bl_request *rq)
{
    bl_key_wish wish = {0};
    char secret[BL_KEY_SECRET];
    BL_TRY(access_handlers_decode(rq, true, &wish));
    if (wish.scopes != 0 && (wish.scopes & BL_SCOPE_ADMIN) == 0 && !bl_access_has_keys(rq->server->access))
        return bl_fail(&rq->err, BL_ECONFLICT,
                       "the first key must have the scope admin; without this scope no client could make further keys");
    BL_TRY(bl_keys_create(rq->server->storage, &wish, secret, &rq->err));
    return reply_key(rq, wish.name, secret, 201);
}

bl_status bl_handle_key_put(bl_request *rq)
{
    bl_key_wish wish = {.name = rq->head.param[0]};
    BL_TRY(access_handlers_decode(rq, false, &wish));
    BL_TRY(bl_keys_change(rq->server->storage, &wish, &rq->err));
    return reply_key(rq, wish.name, NULL, 200);
}

static bl_status reply_revoked(bl_request *rq)
{
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

static bl_status reply_owed(bl_request *rq)
{
    bl_request_reply_owed(rq, "the key is revoked, but the disk cannot store the revocation yet: a server that is started again "
                              "before the disk works would accept the key");
    return BL_OK;
}

/* Revoke in memory first, so that a failure of the disk cannot keep a key valid. */
bl_status bl_handle_key_delete(bl_request *rq)
{
    const char *purge = bl_request_query(rq, "purge"), *name = rq->head.param[0];
    bl_access *access = rq->server->access;
    bl_err ignored = {0};
    int64_t now = (int64_t)time(NULL);
    uint32_t whose = 0;
    bool owed = false;
    if (purge != NULL && strcmp(purge, "true") != 0 && strcmp(purge, "false") != 0)
        return bl_fail(&rq->err, BL_EINVAL, "purge must be true or false, not \"%.20s\"", purge);
    if (!bl_access_revoke(access, name, now) && /* a command may have made the key since the last reload */
        (bl_access_reload(rq->server, NULL, &ignored) != BL_OK || !bl_access_revoke(access, name, now)))
        return bl_fail(&rq->err, BL_ENOTFOUND, "there is no key \"%.64s\"", name);
    BL_TRY(bl_keys_owe_revoked(rq->server->storage, name, now, &owed, &rq->err));
    if (purge != NULL && strcmp(purge, "true") == 0 && bl_access_find(access, name, &whose))
        return bl_purge(rq, whose, owed ? reply_owed : reply_revoked);
    return owed ? reply_owed(rq) : reply_revoked(rq);
}

bl_status bl_handle_key_rotate(bl_request *rq)
{
    char secret[BL_KEY_SECRET];
    BL_TRY(bl_keys_rotate(rq->server->storage, rq->head.param[0], secret, &rq->err));
    return reply_key(rq, rq->head.param[0], secret, 200);
}

bl_status bl_handle_me(bl_request *rq)
{
    bl_key_row row;
    double used[BL_QUOTA_COUNT] = {0};
    bl_text *out = &rq->reply.out;
    bl_access_look_at_own(rq, &row, used);
    bl_text_puts(out, "{");
    bl_encode_key(out, "name");
    if (row.id != 0)
        bl_encode_string(out, row.name);
    else
        bl_text_puts(out, "null");
    bl_encode_key(out, "keys");
    bl_text_puts(out, bl_access_has_keys(rq->server->access) ? "true" : "false");
    bl_encode_key(out, "scopes");
    bl_scopes_encode(out, rq->scopes);
    bl_encode_key(out, "expires");
    if (row.expires != 0)
        bl_text_printf(out, "%lld", (long long)row.expires);
    else
        bl_text_puts(out, "null");
    bl_encode_key(out, "quotas");
    bl_quotas_encode(out, row.quota);
    bl_encode_key(out, "used");
    bl_quotas_encode(out, used);
    bl_text_puts(out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- usage */

static bool put_usage(void *arg, const bl_cell *cells, int n)
{
    static const char *const names[] = {"requests", "device_seconds", "received_bytes", "sent_bytes"};
    bl_text *out = arg;
    char day[32];
    (void)n;
    bl_time_print(cells[1].integer * DAY_SECONDS, day, sizeof day);
    day[10] = '\0';
    bl_text_puts(out, bl_text_last(out) == '}' ? ",{" : "{");
    bl_encode_key(out, "key");
    bl_encode_string(out, cells[0].kind == BL_CELL_TEXT ? cells[0].bytes.data : "");
    bl_encode_key(out, "day");
    bl_encode_string(out, day);
    for (int i = 0; i < 4; i++) {
        bl_encode_key(out, names[i]);
        bl_encode_number(out, i == 1 ? (double)cells[i + 2].integer * 1e-9 : (double)cells[i + 2].integer);
    }
    bl_text_puts(out, "}");
    return true;
}

bl_status bl_handle_usage(bl_request *rq)
{
    uint64_t days = 1;
    int64_t whose = (rq->scopes & BL_SCOPE_ADMIN) != 0 ? -1 : (int64_t)rq->owner;
    BL_TRY(bl_request_query_count(rq, "days", 1, MOST_DAYS, &days));
    usage_save(rq->server->access);
    bl_text_puts(&rq->reply.out, "{\"usage\":[");
    BL_TRY(bl_storage_run(
        rq->server->storage,
        "SELECT coalesce(keys.name, ''), day, requests, device_ns, bytes_in, bytes_out FROM usage LEFT JOIN keys "
        "ON id = owner WHERE day > ?1 AND (?2 < 0 OR owner = ?2) ORDER BY day, owner",
        BL_CELLS(bl_cell_int(usage_day() - (int64_t)days), bl_cell_int(whose)), put_usage, &rq->reply.out, &rq->err));
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
