/* SPDX-License-Identifier: MIT */
#include "server/store/grants.h"

#include "engine/base/fault.h"
#include "server/access/access.h"
#include "server/access/keys.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GRANTS = 1024 }; /* largest number of shares of one key */

typedef struct entry {
    struct entry *next;
    bl_grant grant; /* points to the texts below */
    char name[BL_NAME_SIZE], reader[BL_KEY_NAME];
} entry;

struct bl_grants {
    bl_server *server;
    pthread_mutex_t changing;
    pthread_mutex_t lock; /* guards |first|; taken after |changing| */
    entry *first;
};

const char *const bl_share_kinds[BL_SHARE_KINDS] = {"tensor", "program", "model", "job"};

/* The constant string of |kind|, which outlives the caller's string; or NULL. */
static const char *grants_find_kind(const char *kind)
{
    for (int i = 0; i < BL_SHARE_KINDS; i++)
        if (strcmp(bl_share_kinds[i], kind) == 0)
            return bl_share_kinds[i];
    return NULL;
}

static bool grants_is_of(const entry *e, uint32_t owner, const char *kind, const char *name)
{
    return e->grant.owner == owner && strcmp(e->grant.kind, kind) == 0 && strcmp(e->name, name) == 0;
}

static bool is_for(const entry *e, const char *reader)
{
    return strcmp(e->reader, reader) == 0;
}

static bool is_it(const entry *e, const bl_grant *what)
{
    return is_for(e, what->reader) && grants_is_of(e, what->owner, what->kind, what->name);
}

static bool is_of_it(const entry *e, const bl_grant *what)
{
    return grants_is_of(e, what->owner, what->kind, what->name);
}

static bool is_of_key(const entry *e, const bl_grant *what)
{
    return e->grant.owner == what->owner || is_for(e, what->reader);
}

/* ---- in memory; under the lock */

static entry *grants_find(bl_grants *grants, const bl_grant *what)
{
    entry *e = grants->first;
    while (e != NULL && !is_it(e, what))
        e = e->next;
    return e;
}

static int grants_count_of(const bl_grants *grants, uint32_t owner)
{
    int n = 0;
    for (const entry *e = grants->first; e != NULL; e = e->next)
        n += e->grant.owner == owner;
    return n;
}

static bl_status make_entry(const bl_grants *grants, const bl_grant *what, entry **out, bl_err *err)
{
    entry *e = NULL;
    *out = NULL;
    if (grants_count_of(grants, what->owner) >= MOST_GRANTS)
        return bl_fail(err, BL_ELIMIT, "a key may share at most %d items", MOST_GRANTS);
    e = bl_calloc(1, sizeof *e);
    if (e == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a share");
    e->grant = *what;
    e->grant.kind = grants_find_kind(what->kind);
    snprintf(e->name, sizeof e->name, "%s", what->name);
    e->grant.name = e->name;
    snprintf(e->reader, sizeof e->reader, "%s", what->reader);
    e->grant.reader = e->reader;
    *out = e;
    return BL_OK;
}

static void grants_add(bl_grants *grants, entry *e)
{
    pthread_mutex_lock(&grants->lock);
    e->next = grants->first;
    grants->first = e;
    pthread_mutex_unlock(&grants->lock);
}

/* Free the entries for which |goes| holds.  Returns the number of freed entries. */
static size_t grants_remove_all(bl_grants *grants, bool (*goes)(const entry *e, const bl_grant *what), const bl_grant *what)
{
    size_t n = 0;
    pthread_mutex_lock(&grants->lock);
    for (entry **at = &grants->first; *at != NULL;) {
        entry *e = *at;
        if (!goes(e, what)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        free(e);
        n++;
    }
    pthread_mutex_unlock(&grants->lock);
    return n;
}

/* ---- changes */

void bl_grants_hold(bl_grants *grants)
{
    pthread_mutex_lock(&grants->changing);
}

void bl_grants_let_go(bl_grants *grants)
{
    pthread_mutex_unlock(&grants->changing);
}

static bl_status grants_run(bl_grants *grants, const char *sql, const bl_grant *what, int n, bl_err *err)
{
    bl_cell cells[] = {bl_cell_int(what->owner), bl_cell_text(what->kind), bl_cell_text(what->name), bl_cell_text(what->reader)};
    return bl_storage_run(grants->server->storage, sql, n, cells, NULL, NULL, err);
}

bl_status bl_grants_give(bl_grants *grants, const bl_grant *what, bl_err *err)
{
    entry *e = grants_find(grants, what); /* |changing| is held, so no other thread changes the list */
    bl_status st = BL_OK;
    if (e != NULL)
        return BL_OK;
    BL_TRY(make_entry(grants, what, &e, err));
    st = grants_run(grants, "INSERT OR REPLACE INTO shares (owner, kind, name, reader) VALUES (?1, ?2, ?3, ?4)", what, 4, err);
    if (st == BL_OK)
        grants_add(grants, e);
    else
        free(e);
    return st;
}

bl_status bl_grants_take(bl_grants *grants, const bl_grant *what, bool *is_owed, bl_err *err)
{
    bl_cell cells[] = {bl_cell_int(what->owner), bl_cell_text(what->kind), bl_cell_text(what->name), bl_cell_text(what->reader)};
    if (grants_remove_all(grants, is_it, what) == 0)
        return bl_fail(err, BL_ENOTFOUND, "%s \"%.128s\" is not shared with this key", what->kind, what->name);
    return bl_storage_owe(grants->server->storage,
                          "DELETE FROM shares WHERE owner = ?1 AND kind = ?2 AND name = ?3 AND reader = ?4", 4, cells, is_owed,
                          err);
}

bl_status bl_grants_drop(bl_grants *grants, uint32_t owner, const char *kind, const char *name, bl_err *err)
{
    bl_grant what = {.owner = owner, .kind = kind, .name = name};
    bool any = false;
    for (const entry *e = grants->first; e != NULL && !any; e = e->next)
        any = is_of_it(e, &what);
    if (!any) /* the common case: no share matches, so the store is not accessed */
        return BL_OK;
    BL_TRY(grants_run(grants, "DELETE FROM shares WHERE owner = ?1 AND kind = ?2 AND name = ?3", &what, 3, err));
    (void)grants_remove_all(grants, is_of_it, &what);
    return BL_OK;
}

bl_status bl_grants_purge(bl_grants *grants, uint32_t key, bl_err *err)
{
    char name[BL_KEY_NAME];
    bl_grant what = {.owner = key, .kind = "", .name = "", .reader = name};
    bl_access_name(grants->server->access, key, name, sizeof name);
    BL_TRY(grants_run(grants, "DELETE FROM shares WHERE owner = ?1 OR reader = ?4", &what, 4, err));
    (void)grants_remove_all(grants, is_of_key, &what);
    return BL_OK;
}

/* ---- look-ups */

bool bl_grants_has(bl_grants *grants, uint32_t reader, const bl_grant *what)
{
    char name[BL_KEY_NAME];
    bool has = false;
    bl_access_name(grants->server->access, reader, name, sizeof name);
    pthread_mutex_lock(&grants->lock);
    for (const entry *e = grants->first; e != NULL && !has; e = e->next)
        has = (is_for(e, name) || is_for(e, "*")) && is_of_it(e, what);
    pthread_mutex_unlock(&grants->lock);
    return has;
}

void bl_grants_each(bl_grants *grants, uint32_t key, void (*each)(void *arg, const bl_grant *grant), void *arg)
{
    char name[BL_KEY_NAME];
    bl_access_name(grants->server->access, key, name, sizeof name);
    pthread_mutex_lock(&grants->lock);
    for (const entry *e = grants->first; e != NULL; e = e->next)
        if (e->grant.owner == key || is_for(e, name) || is_for(e, "*"))
            each(arg, &e->grant);
    pthread_mutex_unlock(&grants->lock);
}

/* ---- start and end */

typedef struct loading {
    bl_grants *grants;
    bl_status st;
    bl_err *err;
} loading;

static bool take_row(void *arg, const bl_cell *cells, int n)
{
    loading *l = arg;
    const char *kind = cells[1].kind == BL_CELL_TEXT ? grants_find_kind(cells[1].bytes.data) : NULL;
    bl_grant grant = {.owner = (uint32_t)cells[0].integer, .kind = kind};
    entry *e = NULL;
    (void)n;
    grant.name = cells[2].kind == BL_CELL_TEXT ? cells[2].bytes.data : NULL;
    grant.reader = cells[3].kind == BL_CELL_TEXT ? cells[3].bytes.data : NULL;
    if (kind == NULL || grant.name == NULL || grant.reader == NULL) /* a later version of the server wrote the row */
        return true;
    l->st = make_entry(l->grants, &grant, &e, l->err);
    if (l->st == BL_OK)
        grants_add(l->grants, e);
    return l->st == BL_OK;
}

bl_status bl_grants_load(bl_grants *grants, bl_err *err)
{
    loading l = {.grants = grants, .err = err};
    bl_storage *store = grants->server->storage;
    BL_TRY(bl_storage_run(
        store,
        "DELETE FROM shares WHERE CASE kind WHEN 'tensor' THEN NOT EXISTS (SELECT 1 FROM tensors WHERE "
        "tensors.owner = shares.owner AND tensors.name = shares.name) WHEN 'program' THEN NOT EXISTS (SELECT 1 "
        "FROM programs WHERE programs.owner = shares.owner AND programs.name = shares.name) AND NOT EXISTS "
        "(SELECT 1 FROM job_programs p WHERE p.owner = shares.owner AND p.program = shares.name) AND NOT EXISTS "
        "(SELECT 1 FROM jobs WHERE jobs.owner = shares.owner AND jobs.program = shares.name AND jobs.state IN "
        "('queued', 'running')) WHEN 'job' THEN NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.owner = shares.owner AND "
        "jobs.id = shares.name) END",
        0, NULL, NULL, NULL, err));
    BL_TRY(bl_storage_run(store, "SELECT owner, kind, name, reader FROM shares", 0, NULL, take_row, &l, err));
    return l.st;
}

bl_status bl_grants_create(bl_server *server, bl_grants **out, bl_err *err)
{
    bl_grants *grants = bl_calloc(1, sizeof *grants);
    *out = grants;
    if (grants == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for shares");
    grants->server = server;
    pthread_mutex_init(&grants->changing, NULL);
    pthread_mutex_init(&grants->lock, NULL);
    return BL_OK;
}

void bl_grants_destroy(bl_grants *grants)
{
    if (grants == NULL)
        return;
    while (grants->first != NULL) {
        entry *e = grants->first;
        grants->first = e->next;
        free(e);
    }
    pthread_mutex_destroy(&grants->changing);
    pthread_mutex_destroy(&grants->lock);
    free(grants);
}
