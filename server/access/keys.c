/* SPDX-License-Identifier: MIT */
#include "server/access/keys.h"

#include "proto/encode.h"
#include "server/http/routes.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

typedef enum quota_kind { COUNT, BYTES, REAL } quota_kind;

static const struct {
    const char *name, *help;
    quota_kind kind;
} quotas[] = {
#define BL_QUOTA(id, name, flag, kind, help) {name, help, kind},
#include "server/access/quotas.def"
#undef BL_QUOTA
};

static const char *const scope_names[] = {
#define BL_SCOPE(id, name) name,
#include "server/access/scopes.def"
#undef BL_SCOPE
};
enum { SCOPE_COUNT = sizeof scope_names / sizeof scope_names[0] };

_Static_assert(BL_SCOPE_ANY == (1 << SCOPE_COUNT) - 1, "scopes.def has the scopes of routes.h");

/* ---- names of scopes and quotas */

const char *bl_scope_name(unsigned scope)
{
    for (int i = 0; i < SCOPE_COUNT; i++)
        if (scope == 1U << i)
            return scope_names[i];
    return "";
}

bl_status bl_scopes_parse(const char *text, unsigned *out, bl_err *err)
{
    *out = 0;
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ",");
        int i = 0;
        while (i < SCOPE_COUNT && (strlen(scope_names[i]) != len || memcmp(scope_names[i], at, len) != 0))
            i++;
        if (i == SCOPE_COUNT)
            return bl_fail(err, BL_EINVAL, "\"%.*s\" is not a scope; the scopes are infer, run, train, admin and metrics",
                           (int)(len < 40 ? len : 40), at);
        *out |= 1U << i;
        at += len + (at[len] == ',');
    }
    return *out != 0 ? BL_OK : bl_fail(err, BL_EINVAL, "a key needs at least one scope");
}

void bl_scopes_print(unsigned scopes, bl_text *out)
{
    const char *comma = "";
    for (int i = 0; i < SCOPE_COUNT; i++)
        if ((scopes & 1U << i) != 0) {
            bl_text_printf(out, "%s%s", comma, scope_names[i]);
            comma = ",";
        }
}

const char *bl_quota_name(int quota)
{
    return quotas[quota].name;
}

const char *bl_quota_help(int quota)
{
    return quotas[quota].help;
}

bl_status bl_quota_check(int quota, double value, bl_err *err)
{
    if (!isfinite(value) || value < 0 || value > 1e15)
        return bl_fail(err, BL_EINVAL, "the quota %s must be from 0 to 1e15, not %g", quotas[quota].name, value);
    if (quotas[quota].kind != REAL && value != floor(value))
        return bl_fail(err, BL_EINVAL, "the quota %s must be a whole number, not %g", quotas[quota].name, value);
    return BL_OK;
}

bl_status bl_quota_parse(int quota, const char *text, double *out, bl_err *err)
{
    static const char units[] = "kMGT";
    const char *unit = NULL;
    char *end = NULL;
    *out = -1;
    if (strcmp(text, "none") == 0)
        return BL_OK;
    *out = strtod(text, &end);
    if (end != text && *end != '\0' && quotas[quota].kind == BYTES && (unit = strchr(units, *end)) != NULL) {
        *out = ldexp(*out, 10 * (int)(unit - units + 1));
        end++;
    }
    if (end == text || *end != '\0')
        return bl_fail(err, BL_EINVAL, "the quota %s must be a number or none, not \"%.40s\"", quotas[quota].name, text);
    return bl_quota_check(quota, *out, err);
}

void bl_time_print(int64_t seconds, char *out, size_t size)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&when, &parts) == NULL || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, size, "%lld", (long long)seconds);
}

static void keys_put_time(bl_text *out, const char *name, int64_t seconds)
{
    char text[32];
    if (seconds == 0)
        return;
    bl_time_print(seconds, text, sizeof text);
    bl_encode_key(out, name);
    bl_encode_string(out, text);
}

void bl_scopes_encode(bl_text *out, unsigned scopes)
{
    bl_text_puts(out, "[");
    for (int i = 0, n = 0; i < SCOPE_COUNT; i++)
        if ((scopes & 1U << i) != 0)
            bl_text_printf(out, "%s\"%s\"", n++ > 0 ? "," : "", scope_names[i]);
    bl_text_puts(out, "]");
}

void bl_quotas_encode(bl_text *out, const double *values)
{
    bl_text_puts(out, "{");
    for (int i = 0; i < BL_QUOTA_COUNT; i++)
        if (values[i] >= 0) {
            bl_encode_key(out, quotas[i].name);
            bl_encode_number(out, values[i]);
        }
    bl_text_puts(out, "}");
}

void bl_key_encode(bl_text *out, const bl_key_row *row)
{
    bl_encode_key(out, "name");
    bl_encode_string(out, row->name);
    bl_encode_key(out, "hint");
    bl_encode_string(out, row->hint);
    bl_encode_key(out, "scopes");
    bl_scopes_encode(out, row->scopes);
    keys_put_time(out, "created", row->created);
    keys_put_time(out, "expires", row->expires);
    keys_put_time(out, "revoked", row->revoked);
    bl_encode_key(out, "quotas");
    bl_quotas_encode(out, row->quota);
}

/* ---- secrets */

void bl_key_hash(const char *secret, size_t len, unsigned char hash[BL_KEY_HASH])
{
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, len, hash) != 0)
        memset(hash, 0, BL_KEY_HASH); /* a hash of zeros matches no row, since hash_secret refuses this hash */
}

/* Create a secret: 256 random bits, in characters that need no quotes in a shell or a header. */
static bl_status make_secret(char secret[BL_KEY_SECRET], bl_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[33] = {0}; /* 32 bytes and a zero byte: divisible by three */
    char *at = secret;
    if (getrandom(random, 32, 0) != 32)
        return bl_fail(err, BL_ENOMEM, "random bits for a key");
    at += sprintf(at, "bl_");
    for (int i = 0; i < 33; i += 3) {
        unsigned bits = (unsigned)random[i] << 16 | (unsigned)random[i + 1] << 8 | random[i + 2];
        for (int k = 18; k >= 0; k -= 6)
            *at++ = digits[bits >> k & 63];
    }
    secret[3 + 43] = '\0';
    gnutls_memset(random, 0, sizeof random);
    return BL_OK;
}

static bl_status hash_secret(const char *secret, unsigned char hash[BL_KEY_HASH], bl_err *err)
{
    static const unsigned char none[BL_KEY_HASH];
    bl_key_hash(secret, strlen(secret), hash);
    if (memcmp(hash, none, BL_KEY_HASH) == 0)
        return bl_fail(err, BL_EBUG, "a key cannot be hashed");
    return BL_OK;
}

/* ---- rows */

static bool name_ok(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", more[] = "0123456789.-";
    size_t len = strlen(name);
    if (len == 0 || len >= BL_KEY_NAME || strchr(first, name[0]) == NULL)
        return false;
    for (size_t i = 0; i < len; i++)
        if (strchr(first, name[i]) == NULL && strchr(more, name[i]) == NULL)
            return false;
    return true;
}

bl_status bl_key_check_name(const char *name, bl_err *err)
{
    if (name_ok(name))
        return BL_OK;
    return bl_fail(err, BL_EINVAL,
                   "\"%.80s\" is not a valid name of a key: a name has at most %d characters, a letter or _ and then letters, "
                   "digits and _ . -",
                   name, BL_KEY_NAME - 1);
}

typedef struct listing {
    void (*each)(void *arg, const bl_key_row *row);
    void *arg;
    bl_key_row row; /* the quotas of the key come in separate rows */
} listing;

static void keys_copy_text(char *to, size_t size, const bl_cell *cell)
{
    snprintf(to, size, "%s", cell->kind == BL_CELL_TEXT ? cell->bytes.data : "");
}

static bool keys_list_row(void *arg, const bl_cell *cells, int n)
{
    listing *l = arg;
    bl_err ignored = {0};
    (void)n;
    if (l->row.id != (uint32_t)cells[0].integer) {
        if (l->row.id != 0)
            l->each(l->arg, &l->row);
        l->row = (bl_key_row){.id = (uint32_t)cells[0].integer,
                              .created = cells[5].integer,
                              .expires = cells[6].integer,
                              .revoked = cells[7].integer};
        keys_copy_text(l->row.name, sizeof l->row.name, &cells[1]);
        keys_copy_text(l->row.hint, sizeof l->row.hint, &cells[3]);
        if (cells[2].bytes.len == BL_KEY_HASH)
            memcpy(l->row.hash, cells[2].bytes.data, BL_KEY_HASH);
        if (cells[4].kind != BL_CELL_TEXT || bl_scopes_parse(cells[4].bytes.data, &l->row.scopes, &ignored) != BL_OK)
            l->row.scopes = 0; /* a later version of the server wrote the row: the key gets no scopes */
        for (int i = 0; i < BL_QUOTA_COUNT; i++)
            l->row.quota[i] = -1;
    }
    for (int i = 0; i < BL_QUOTA_COUNT; i++)
        if (cells[8].kind == BL_CELL_TEXT && strcmp(cells[8].bytes.data, quotas[i].name) == 0)
            l->row.quota[i] = cells[9].kind == BL_CELL_REAL ? cells[9].real : (double)cells[9].integer;
    return true;
}

bl_status bl_keys_list(bl_storage *storage, void (*each)(void *arg, const bl_key_row *row), void *arg, bl_err *err)
{
    listing l = {.each = each, .arg = arg};
    BL_TRY(bl_storage_run(storage,
                          "SELECT id, name, hash, hint, scopes, created, expires, revoked, quota, amount FROM keys LEFT JOIN "
                          "quotas ON owner = id ORDER BY id",
                          0, NULL, keys_list_row, &l, err));
    if (l.row.id != 0)
        each(arg, &l.row);
    return BL_OK;
}

/* ---- changes, each in one transaction */

typedef struct change {
    bl_storage *storage;
    const bl_key_wish *wish;
    const char *secret; /* hash of a new secret; NULL: unchanged */
    bool fresh;
} change;

static bl_cell expiry(const bl_key_wish *wish)
{
    return bl_cell_int(wish->ttl > 0 ? (int64_t)time(NULL) + (int64_t)wish->ttl : 0);
}

static bl_status put_quotas(const change *c, bl_err *err)
{
    for (int i = 0; i < BL_QUOTA_COUNT; i++) {
        bl_cell name = bl_cell_text(c->wish->name), quota = bl_cell_text(quotas[i].name);
        if (!c->wish->has_quota[i])
            continue;
        if (c->wish->quota[i] < 0)
            BL_TRY(bl_storage_run(c->storage,
                                  "DELETE FROM quotas WHERE owner = (SELECT id FROM keys WHERE name = ?1) AND quota = ?2",
                                  BL_CELLS(name, quota), NULL, NULL, err));
        else
            BL_TRY(bl_storage_run(c->storage, "INSERT OR REPLACE INTO quotas SELECT id, ?2, ?3 FROM keys WHERE name = ?1",
                                  BL_CELLS(name, quota, bl_cell_real(c->wish->quota[i])), NULL, NULL, err));
    }
    return BL_OK;
}

static bl_status set_secret(const change *c, bl_err *err)
{
    unsigned char hash[BL_KEY_HASH];
    char hint[BL_KEY_HINT + 1];
    BL_TRY(hash_secret(c->secret, hash, err));
    snprintf(hint, sizeof hint, "%.*s", BL_KEY_HINT, c->secret);
    return bl_storage_run(c->storage, "UPDATE keys SET hash = ?2, hint = ?3, revoked = 0 WHERE name = ?1",
                          BL_CELLS(bl_cell_text(c->wish->name), bl_cell_blob(hash, sizeof hash), bl_cell_text(hint)), NULL, NULL,
                          err);
}

static bl_status keys_insert_row(const change *c, bl_err *err)
{
    int64_t now = (int64_t)time(NULL);
    unsigned char hash[BL_KEY_HASH];
    bl_status st = hash_secret(c->secret, hash, err);
    bl_err twice = {0};
    if (st != BL_OK)
        return st;
    st = bl_storage_run(
        c->storage, "INSERT INTO keys (name, hash, hint, scopes, created, expires, revoked) VALUES (?1, ?2, '', '', ?3, 0, 0)",
        BL_CELLS(bl_cell_text(c->wish->name), bl_cell_blob(hash, sizeof hash), bl_cell_int(now)), NULL, NULL, &twice);
    if (st == BL_ECONFLICT)
        return bl_fail(err, BL_ECONFLICT, "the key \"%s\" exists already; rotate gives the key a new secret", c->wish->name);
    return st == BL_OK ? BL_OK : bl_fail(err, st, "%s", twice.text);
}

static bl_status keys_find_row(const change *c, bl_err *err)
{
    int64_t there = 0;
    BL_TRY(bl_storage_change(c->storage, "UPDATE keys SET name = name WHERE name = ?1", BL_CELLS(bl_cell_text(c->wish->name)),
                             &there, err));
    return there == 1 ? BL_OK : bl_fail(err, BL_ENOTFOUND, "there is no key \"%.64s\"", c->wish->name);
}

static bl_status keys_apply(void *arg, bl_err *err)
{
    const change *c = arg;
    const bl_key_wish *wish = c->wish;
    bl_text scopes = {0};
    bl_status st = c->fresh ? keys_insert_row(c, err) : keys_find_row(c, err);
    if (st == BL_OK && c->secret != NULL)
        st = set_secret(c, err);
    if (st == BL_OK && wish->scopes != 0) {
        bl_scopes_print(wish->scopes, &scopes);
        st = bl_storage_run(c->storage, "UPDATE keys SET scopes = ?2 WHERE name = ?1",
                            BL_CELLS(bl_cell_text(wish->name), bl_cell_text(bl_text_get(&scopes))), NULL, NULL, err);
        bl_text_fini(&scopes);
    }
    if (st == BL_OK && wish->has_ttl)
        st = bl_storage_run(c->storage, "UPDATE keys SET expires = ?2 WHERE name = ?1",
                            BL_CELLS(bl_cell_text(wish->name), expiry(wish)), NULL, NULL, err);
    return st == BL_OK ? put_quotas(c, err) : st;
}

bl_status bl_keys_create(bl_storage *storage, const bl_key_wish *wish, char secret[BL_KEY_SECRET], bl_err *err)
{
    change c = {.storage = storage, .wish = wish, .secret = secret, .fresh = true};
    BL_TRY(bl_key_check_name(wish->name, err));
    if (wish->scopes == 0)
        return bl_fail(err, BL_EINVAL, "a key needs at least one scope");
    BL_TRY(make_secret(secret, err));
    return bl_storage_together(storage, keys_apply, &c, err);
}

bl_status bl_keys_change(bl_storage *storage, const bl_key_wish *wish, bl_err *err)
{
    change c = {.storage = storage, .wish = wish};
    return bl_storage_together(storage, keys_apply, &c, err);
}

bl_status bl_keys_rotate(bl_storage *storage, const char *name, char secret[BL_KEY_SECRET], bl_err *err)
{
    bl_key_wish wish = {.name = name};
    change c = {.storage = storage, .wish = &wish, .secret = secret};
    BL_TRY(make_secret(secret, err));
    return bl_storage_together(storage, keys_apply, &c, err);
}

static const char revoke[] = "UPDATE keys SET revoked = CASE revoked WHEN 0 THEN ?2 ELSE revoked END WHERE name = ?1";

bl_status bl_keys_owe_revoked(bl_storage *storage, const char *name, int64_t now, bool *is_owed, bl_err *err)
{
    return bl_storage_owe(storage, revoke, BL_CELLS(bl_cell_text(name), bl_cell_int(now)), is_owed, err);
}

bl_status bl_keys_revoke(bl_storage *storage, const char *name, bl_err *err)
{
    int64_t changed = 0;
    BL_TRY(bl_storage_change(storage, revoke, BL_CELLS(bl_cell_text(name), bl_cell_int((int64_t)time(NULL))), &changed, err));
    return changed == 1 ? BL_OK : bl_fail(err, BL_ENOTFOUND, "there is no key \"%.64s\"", name);
}

typedef struct adoption {
    bl_storage *storage;
    const char *name;
    int64_t key, rows;
    bl_status st;
    bl_err *err;
} adoption;

static bool keys_take_key(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    ((adoption *)arg)->key = cells[0].integer;
    return false;
}

static bool adopt_table(void *arg, const bl_cell *cells, int n)
{
    adoption *a = arg;
    const char *table = cells[0].bytes.data, *column = cells[1].bytes.data;
    bl_text sql = {0};
    int64_t changed = 0;
    (void)n;
    bl_text_printf(&sql, "UPDATE %s SET %s = ?1 WHERE %s = 0", table, column, column);
    a->st = bl_text_status(&sql, a->err);
    if (a->st == BL_OK)
        a->st = bl_storage_change(a->storage, sql.data, BL_CELLS(bl_cell_int(a->key)), &changed, a->err);
    a->rows += changed;
    bl_text_fini(&sql);
    return a->st == BL_OK;
}

/* Give the rows of owner 0 to the key. Columns named owner or reader hold the owner of a row.  Quotas and usage of owner 0
 * are not transferred. */
static bl_status adopt(void *arg, bl_err *err)
{
    adoption *a = arg;
    a->err = err;
    a->rows = 0;
    BL_TRY(bl_storage_run(a->storage, "SELECT id FROM keys WHERE name = ?1", BL_CELLS(bl_cell_text(a->name)), keys_take_key, a,
                          err));
    if (a->key == 0)
        return bl_fail(err, BL_ENOTFOUND, "there is no key \"%.64s\"", a->name);
    BL_TRY(bl_storage_each(a->storage,
                           "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' "
                           "AND (p.name = 'owner' AND m.name NOT IN ('quotas', 'usage') OR p.name = 'reader' AND m.name = "
                           "'sequences')",
                           adopt_table, a, err));
    return a->st;
}

bl_status bl_keys_adopt(bl_storage *storage, const char *name, int64_t *rows, bl_err *err)
{
    adoption a = {.storage = storage, .name = name};
    bl_status st = bl_storage_together(storage, adopt, &a, err);
    *rows = a.rows;
    return st == BL_ECONFLICT
               ? bl_fail(
                     err, st,
                     "an item without a key and an item of the key \"%.64s\" have the same name; rename or delete one of the two",
                     name)
               : st;
}
