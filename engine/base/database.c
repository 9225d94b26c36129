/* SPDX-License-Identifier: MIT */
#include "engine/base/database.h"

#include "engine/base/text.h"

#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

enum {
    BUSY_MS = 2000, /* how long a call waits for the lock of another process; one insertion takes milliseconds */
    MOST_ASIDE = 1000
};

bool bl_database_run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

bool bl_database_ask(sqlite3 *db, const char *sql, int64_t *value)
{
    sqlite3_stmt *query = NULL;
    bool good = sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW;
    *value = good ? sqlite3_column_int64(query, 0) : 0;
    sqlite3_finalize(query);
    return good;
}

bool bl_database_is_damage(int code)
{
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

static bl_opened failure(sqlite3 *db)
{
    return bl_database_is_damage(sqlite3_errcode(db)) ? BL_DATABASE_DAMAGED : BL_DATABASE_UNUSABLE;
}

static bl_opened database_prepare(sqlite3 *db, const bl_database_kind *kind)
{
    int64_t owner = 0, schema = 0, tables = 0;
    char set_up[96] = "";

    (void)sqlite3_busy_timeout(db, BUSY_MS);
    (void)bl_database_run(db, "PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON");
    if (!bl_database_ask(db, "PRAGMA application_id", &owner) || !bl_database_ask(db, "PRAGMA user_version", &schema) ||
        !bl_database_ask(db, "SELECT count(*) FROM sqlite_master", &tables))
        return failure(db);
    if (owner != kind->ours && (owner != 0 || tables > 0))
        return BL_DATABASE_FOREIGN;
    if (schema > kind->schema)
        return BL_DATABASE_NEWER;
    /* Set these only if they change: each pragma writes a page, and the disk may be full. */
    if (owner != kind->ours || schema != kind->schema)
        snprintf(set_up, sizeof set_up, "PRAGMA application_id = %d; PRAGMA user_version = %d", kind->ours, kind->schema);
    /* WAL mode (write-ahead log): changes are appended to PATH-wal and copied into the file later, so that a reader does not
     * wait for a writer. */
    if (!bl_database_run(db, "PRAGMA journal_mode = WAL") ||
        !bl_database_run(db, kind->durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL") ||
        !bl_database_run(db, set_up) || !bl_database_run(db, kind->create) ||
        !bl_database_ask(db, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'", &tables))
        return failure(db);
    return tables == 0 ? BL_DATABASE_READY : BL_DATABASE_DAMAGED;
}

bl_opened bl_database_open(const char *path, const bl_database_kind *kind, sqlite3 **out)
{
    bl_opened how = BL_DATABASE_UNUSABLE;
    if (sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        how = database_prepare(*out, kind);
    if (how != BL_DATABASE_READY) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return how;
}

char *bl_database_aside(const char *path, const char *why)
{
    bl_text aside = {0};
    for (int i = 1; i < MOST_ASIDE; i++) {
        bl_text_clear(&aside);
        bl_text_printf(&aside, i == 1 ? "%s.%s" : "%s.%s-%d", path, why, i);
        if (aside.failed || access(aside.data, F_OK) != 0)
            break;
    }
    if (!aside.failed)
        return bl_text_take(&aside);
    bl_text_fini(&aside);
    return NULL;
}

bool bl_database_set_aside(const char *path, const char *aside)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    bool good = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        bl_text from = {0}, to = {0};
        bl_text_printf(&from, "%s%s", path, parts[i]);
        bl_text_printf(&to, "%s%s", aside, parts[i]);
        if (from.failed || to.failed || (rename(from.data, to.data) != 0 && i == 0))
            good = false;
        bl_text_fini(&from);
        bl_text_fini(&to);
    }
    return good;
}
