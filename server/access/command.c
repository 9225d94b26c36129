/* SPDX-License-Identifier: MIT */
/* `beamline keys` and `beamline usage`: on the store itself, whether or not a server runs. */
#include "server/access/internal.h"
#include "server/routes.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FLAGS = 64 };

/* ---- what was asked */

typedef struct command {
    const char *verb, *operand;
    bl_key_wish wish;
    int nrest; /* flags of settings: --state, --config */
    char *rest[MOST_FLAGS];
    bl_settings settings;
    bl_storage *storage;
} command;

static const struct {
    const char *flag;
    int quota;
} quota_flags[] = {
#define BL_QUOTA(id, name, flag, kind, help) {flag, BL_QUOTA_##id},
#include "server/access/quotas.def"
#undef BL_QUOTA
};

void bl_keys_man(bl_text *out)
{
    for (size_t i = 0; i < sizeof quota_flags / sizeof quota_flags[0]; i++) {
        bl_text_puts(out, " \\-\\-");
        bl_man_put(out, quota_flags[i].flag);
        bl_text_puts(out, " ,");
    }
}

static void print_help(FILE *to)
{
    fputs(
        "beamline keys list\n"
        "beamline keys create NAME --scopes LIST [options]   make a key and print its secret, this once\n"
        "beamline keys set NAME [options]                    change what is given\n"
        "beamline keys rotate NAME                           a new secret in place of the old one\n"
        "beamline keys revoke NAME\n"
        "beamline keys adopt NAME                            give it what was made before there were keys; no server may run\n\n"
        "  --scopes LIST        of infer (hosted models), run (graphs, tensors, programs), train (programs, jobs),\n"
        "                       admin (keys, everybody's figures), metrics; with commas between\n"
        "  --ttl TIME           after which the key is good no more: seconds, or with s, m, h or d; none is for ever\n",
        to);
    for (size_t i = 0; i < sizeof quota_flags / sizeof quota_flags[0]; i++)
        fprintf(to, "  --%-18s %s; none takes the quota away\n", quota_flags[i].flag, bl_quota_help(quota_flags[i].quota));
    fputs("  --state FOLDER       of the server, where it is not the default\n"
          "\nA running server takes it within a second, or at once with SIGHUP.\n",
          to);
}

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
    return bl_fail(err, BL_EINVAL, "--ttl is a time as in 3600, 12h or 30d, or none, not \"%.40s\"", text);
}

/* A flag of ours, or false. */
static bool take_flag(command *c, const char *flag, const char *value, bl_err *err)
{
    for (size_t i = 0; i < sizeof quota_flags / sizeof quota_flags[0]; i++)
        if (strcmp(flag, quota_flags[i].flag) == 0) {
            int quota = quota_flags[i].quota;
            c->wish.has_quota[quota] = true;
            (void)(bl_quota_parse(quota, value, &c->wish.quota[quota], err) == BL_OK);
            return true;
        }
    if (strcmp(flag, "ttl") == 0)
        return (void)(parse_ttl(value, &c->wish, err) == BL_OK), true;
    if (strcmp(flag, "scopes") == 0)
        return (void)(bl_scopes_parse(value, &c->wish.scopes, err) == BL_OK), true;
    return false;
}

static bl_status parse(command *c, int argc, char *const *argv, bl_err *err)
{
    for (int i = 0; i < argc; i++) {
        char *flag = argv[i], *value = NULL, name[32];
        size_t len = 0;
        if (strncmp(flag, "--", 2) != 0)
            return bl_fail(err, BL_EINVAL, "unexpected argument \"%s\"", flag);
        len = strcspn(flag + 2, "=");
        snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), flag + 2);
        value = flag[2 + len] == '=' ? flag + 3 + len : i + 1 < argc ? argv[i + 1] : NULL;
        if (value == NULL)
            return bl_fail(err, BL_EINVAL, "option \"%s\" needs a value", flag);
        if (!take_flag(c, name, value, err)) {
            if (c->nrest + 2 > MOST_FLAGS)
                return bl_fail(err, BL_EINVAL, "too many options");
            c->rest[c->nrest++] = flag;
            if (flag[2 + len] != '=')
                c->rest[c->nrest++] = value;
        }
        if (err->status != BL_OK)
            return err->status;
        i += flag[2 + len] != '=';
    }
    return BL_OK;
}

static bl_status open_store(command *c, bool alone, bl_err *err)
{
    BL_TRY(bl_settings_load(&c->settings, c->nrest, c->rest, err));
    return (alone ? bl_storage_open : bl_storage_join)(c->settings.state, &c->storage, err);
}

static int finish(command *c, const bl_err *err)
{
    if (err->status != BL_OK)
        fprintf(stderr, "beamline: %s\n", err->text);
    bl_storage_close(c->storage);
    bl_settings_fini(&c->settings);
    return err->status == BL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- keys */

static void print_row(void *arg, const bl_key_row *row)
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

static bl_status run_adopt(command *c, bl_err *err)
{
    int64_t rows = 0;
    if (bl_storage_folder(c->storage) == NULL)
        return bl_fail(err, BL_ECONFLICT, "another server has the folder of --state: end it first");
    BL_TRY(bl_keys_adopt(c->storage, c->operand, &rows, err));
    printf("%lld rows are %s's\n", (long long)rows, c->operand);
    return BL_OK;
}

static bl_status run_keys(command *c, bl_err *err)
{
    char secret[BL_KEY_SECRET] = "";
    if (strcmp(c->verb, "list") == 0)
        return bl_keys_list(c->storage, print_row, NULL, err);
    if (strcmp(c->verb, "set") == 0)
        return bl_keys_change(c->storage, &c->wish, err);
    if (strcmp(c->verb, "revoke") == 0)
        return bl_keys_revoke(c->storage, c->operand, err);
    if (strcmp(c->verb, "adopt") == 0)
        return run_adopt(c, err);
    if (strcmp(c->verb, "rotate") == 0)
        BL_TRY(bl_keys_rotate(c->storage, c->operand, secret, err));
    else
        BL_TRY(bl_keys_create(c->storage, &c->wish, secret, err));
    print_secret(secret, sizeof secret);
    return BL_OK;
}

int bl_keys_main(int argc, char *const *argv)
{
    static const char *const verbs[] = {"list", "create", "set", "rotate", "revoke", "adopt"};
    command c = {.verb = argc > 0 ? argv[0] : ""};
    bool known = false, list = strcmp(c.verb, "list") == 0;
    bool adopts = strcmp(c.verb, "adopt") == 0; /* a server has the names of things in memory: none may run */
    bl_err err = {0};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        known = known || strcmp(c.verb, verbs[i]) == 0;
    if (!known || (!list && (argc < 2 || argv[1][0] == '-'))) {
        print_help(strcmp(c.verb, "--help") == 0 ? stdout : stderr);
        return strcmp(c.verb, "--help") == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    c.operand = c.wish.name = list ? "" : argv[1];
    if (parse(&c, argc - (list ? 1 : 2), argv + (list ? 1 : 2), &err) == BL_OK && open_store(&c, adopts, &err) == BL_OK)
        err.status = run_keys(&c, &err);
    return finish(&c, &err);
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

int bl_usage_main(int argc, char *const *argv)
{
    command c = {0};
    bool given = argc > 0 && argv[0][0] != '-';
    char *end = NULL;
    long days = given ? strtol(argv[0], &end, 10) : 1;
    bl_err err = {0};
    if (given && (end == argv[0] || *end != '\0' || days < 1)) {
        fprintf(stderr, "beamline: usage [DAYS] [--state FOLDER], not \"%s\"\n", argv[0]);
        return EXIT_FAILURE;
    }
    if (parse(&c, argc - given, argv + given, &err) == BL_OK && open_store(&c, false, &err) == BL_OK) {
        printf("%-10s  %-20s %12s %14s %16s %16s\n", "day", "key", "requests", "device s", "received bytes", "sent bytes");
        err.status =
            bl_storage_run(c.storage,
                           "SELECT coalesce(keys.name, ''), day, requests, device_ns, bytes_in, bytes_out FROM usage LEFT "
                           "JOIN keys ON id = owner WHERE day > ?1 ORDER BY day, owner",
                           BL_CELLS(bl_cell_int(usage_day() - days)), print_usage, NULL, &err);
    }
    return finish(&c, &err);
}
