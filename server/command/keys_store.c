/* SPDX-License-Identifier: MIT */
/* `beamline keys` and `beamline usage`: these commands access the store directly, whether or not a server runs. */
#include "server/command/command.h"

#include "server/access/access_internal.h"
#include "server/command/terminal.h"
#include "server/http/routes.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments */

/* An open store, and the requested change of a key. */
typedef struct store_call {
    bl_key_wish wish;
    bl_settings settings;
    bl_storage *storage;
} store_call;

static bl_status parse_ttl(const char *text, bl_key_wish *wish, bl_err *err)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'\0', 1}, {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end = NULL;
    wish->has_ttl = true;
    wish->ttl = 0;
    if (strcmp(text, "none") == 0)
        return BL_OK;
    wish->ttl = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != text && *end == units[i].unit && (*end == '\0' || end[1] == '\0')) {
            wish->ttl *= units[i].seconds;
            if (wish->ttl > 0 && wish->ttl < 1e10)
                return BL_OK;
        }
    return bl_fail(err, BL_EINVAL, "--ttl must be a time as in 3600, 12h or 30d, or none, not \"%.40s\"", text);
}

static bl_status keys_store_read_wish(const bl_call *call, bl_key_wish *wish, bl_err *err)
{
    static const char *const quota_flags[] = {
#define BL_QUOTA(id, name, flag, kind, help) [BL_QUOTA_##id] = flag,
#include "server/access/quotas.def"
#undef BL_QUOTA
    };
    for (int i = 0; i < BL_QUOTA_COUNT; i++) {
        const char *text = bl_call_text(call, quota_flags[i]);
        wish->has_quota[i] = text != NULL;
        if (text != NULL)
            BL_TRY(bl_quota_parse(i, text, &wish->quota[i], err));
    }
    if (bl_call_has(call, "ttl"))
        BL_TRY(parse_ttl(bl_call_text(call, "ttl"), wish, err));
    if (bl_call_has(call, "scopes"))
        BL_TRY(bl_scopes_parse(bl_call_text(call, "scopes"), &wish->scopes, err));
    return BL_OK;
}

static bl_status keys_store_open_store(const bl_call *call, store_call *c, bool alone, bl_err *err)
{
    BL_TRY(bl_settings_load(&c->settings, call->nsettings, call->settings, err));
    return (alone ? bl_storage_open : bl_storage_join)(c->settings.state, &c->storage, err);
}

static void close_store(store_call *c)
{
    bl_storage_close(c->storage);
    bl_settings_fini(&c->settings);
}

/* ---- keys */

static void keys_store_print_row(void *arg, const bl_key_row *row)
{
    bl_text scopes = {0};
    char expires[32] = "never";
    (void)arg;
    bl_scopes_print(row->scopes, &scopes);
    if (row->expires != 0)
        bl_time_print(row->expires, expires, sizeof expires);
    printf("%-20s %s...  %-28s %-22s%s", row->name, row->hint, bl_text_get(&scopes), row->revoked != 0 ? "revoked" : expires,
           row->revoked == 0 && row->expires != 0 && row->expires <= (int64_t)time(NULL) ? " (over)" : "");
    for (int i = 0; i < BL_QUOTA_COUNT; i++)
        if (row->quota[i] >= 0)
            printf(" %s=%.15g", bl_quota_name(i), row->quota[i]);
    printf("\n");
    bl_text_fini(&scopes);
}

static void print_secret(char *secret, size_t size)
{
    printf("%s\n", secret);
    gnutls_memset(secret, 0, size);
}

static bl_status adopt_rows(const store_call *c, bl_err *err)
{
    int64_t rows = 0;
    if (bl_storage_folder(c->storage) == NULL)
        return bl_fail(err, BL_ECONFLICT, "another server uses the folder of --state; end it first");
    BL_TRY(bl_keys_adopt(c->storage, c->wish.name, &rows, err));
    printf("%lld rows now belong to %s\n", (long long)rows, c->wish.name);
    return BL_OK;
}

static bl_status change_keys(const store_call *c, const char *verb, bl_err *err)
{
    char secret[BL_KEY_SECRET] = "";
    if (strcmp(verb, "list") == 0)
        return bl_keys_list(c->storage, keys_store_print_row, NULL, err);
    if (strcmp(verb, "set") == 0)
        return bl_keys_change(c->storage, &c->wish, err);
    if (strcmp(verb, "revoke") == 0)
        return bl_keys_revoke(c->storage, c->wish.name, err);
    if (strcmp(verb, "adopt") == 0)
        return adopt_rows(c, err);
    if (strcmp(verb, "rotate") == 0)
        BL_TRY(bl_keys_rotate(c->storage, c->wish.name, secret, err));
    else
        BL_TRY(bl_keys_create(c->storage, &c->wish, secret, err));
    print_secret(secret, sizeof secret);
    return BL_OK;
}

bl_status bl_command_keys(bl_call *call, bl_err *err)
{
    store_call c = {.wish.name = call->noperands > 0 ? call->operands[0] : ""};
    /* no server may run, since a server has the owners of its objects in memory */
    bool adopts = strcmp(call->verb, "adopt") == 0;
    bl_status st = keys_store_read_wish(call, &c.wish, err);
    call->misused = st != BL_OK;
    if (st == BL_OK)
        st = keys_store_open_store(call, &c, adopts, err);
    if (st == BL_OK)
        st = change_keys(&c, call->verb, err);
    close_store(&c);
    return st;
}

/* ---- usage */

static bool print_usage(void *arg, const bl_cell *cells, int n)
{
    char day[32];
    (void)arg;
    (void)n;
    bl_time_print(cells[1].integer * DAY_SECONDS, day, sizeof day);
    printf("%.10s  %-20s %12lld %14.3f %16lld %16lld\n", day, cells[0].kind == BL_CELL_TEXT ? cells[0].bytes.data : "",
           (long long)cells[2].integer, (double)cells[3].integer * 1e-9, (long long)cells[4].integer,
           (long long)cells[5].integer);
    return true;
}

/* Print the answer of GET /api/v1/usage as a table. */
static bl_status print_answer(const bl_ask *ask, bl_err *err)
{
    bl_table table = {.heads = {"day", "key", ">requests", ">device s", ">received bytes", ">sent bytes"}};
    cJSON *body = NULL;
    BL_TRY(bl_ask_document(ask, &body, err));
    for (const cJSON *row = bl_answer_first(bl_answer_at(body, "usage")); row != NULL; row = row->next) {
        bl_table_add(&table, bl_answer_text(row, "day"));
        bl_table_add(&table, bl_answer_text(row, "key"));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "requests", 0));
        bl_table_addf(&table, "%.3f", bl_answer_number(row, "device_seconds", 0));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "received_bytes", 0));
        bl_table_addf(&table, "%.0f", bl_answer_number(row, "sent_bytes", 0));
    }
    cJSON_Delete(body);
    return bl_table_end(&table, err);
}

static bl_status ask_usage(bl_call *call, long days, bl_err *err)
{
    char path[64];
    bl_ask_request request = {.path = path, .seconds = BL_ASK_SECONDS};
    bool told = false;
    (void)snprintf(path, sizeof path, "/api/v1/usage?days=%ld", days);
    BL_TRY(bl_call_ask(call, &request, &told, err));
    return told ? BL_OK : print_answer(&call->ask, err);
}

bl_status bl_command_usage(bl_call *call, bl_err *err)
{
    store_call c = {0};
    char *end = NULL;
    const char *given = call->noperands > 0 ? call->operands[0] : "1";
    long days = strtol(given, &end, 10);
    if (end == given || *end != '\0' || days < 1)
        return bl_call_misuse(call, err, "DAYS is \"%.40s\"; it must be a number of at least 1", given);
    if (bl_call_is_remote(call))
        return ask_usage(call, days, err);
    bl_status st = keys_store_open_store(call, &c, false, err);
    if (st == BL_OK) {
        printf("%-10s  %-20s %12s %14s %16s %16s\n", "day", "key", "requests", "device s", "received bytes", "sent bytes");
        st = bl_storage_run(c.storage,
                            "SELECT coalesce(keys.name, ''), day, requests, device_ns, bytes_in, bytes_out FROM usage LEFT "
                            "JOIN keys ON id = owner WHERE day > ?1 ORDER BY day, owner",
                            BL_CELLS(bl_cell_int(usage_day() - days)), print_usage, NULL, err);
    }
    close_store(&c);
    return st;
}
