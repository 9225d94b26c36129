/* SPDX-License-Identifier: MIT */
#include "server/store/storage.h"

#include "engine/base/arena.h"
#include "engine/base/database.h"
#include "engine/base/fault.h"
#include "engine/base/folder.h"
#include "engine/base/log.h"
#include "server/store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OURS = 0x626c7374, /* "blst": application_id of the database, which marks the file as ours */
    SCHEMA = 2,
    MOST_COLUMNS = 32
};

/* The folders beside the database; rows of the database name their files. */
static const char *const parts[] = {"blobs", "jobs", "models", "programs", "tensors", "versions"};
enum { NPARTS = sizeof parts / sizeof parts[0] };

/* All tables, one statement each.  A later version appends statements, and raises SCHEMA if it changes a table. */
static const char create[] =
    "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);" /* facts about the store itself */
    "CREATE TABLE IF NOT EXISTS blobs (owner INTEGER NOT NULL, digest TEXT NOT NULL, bytes INTEGER NOT NULL, "
    "created INTEGER NOT NULL, PRIMARY KEY (owner, digest)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS programs (owner INTEGER NOT NULL, name TEXT NOT NULL, file TEXT NOT NULL, "
    "PRIMARY KEY (owner, name)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS tensors (id INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL, name TEXT NOT NULL, "
    "device TEXT NOT NULL, file TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS versions (id INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL, model TEXT NOT NULL, "
    "version INTEGER NOT NULL, entry TEXT, program TEXT NOT NULL, file TEXT NOT NULL);"
    /* models that were uploaded, and the choices of requests for models of the folder */
    "CREATE TABLE IF NOT EXISTS sent_models (owner INTEGER NOT NULL, model TEXT NOT NULL, config TEXT, file TEXT NOT NULL, "
    "PRIMARY KEY (owner, model)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS model_choices (model TEXT PRIMARY KEY, loaded INTEGER NOT NULL, config TEXT) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS drained_devices (device TEXT PRIMARY KEY) WITHOUT ROWID;"
    /* the last numbered run of each key, of durable programs */
    "CREATE TABLE IF NOT EXISTS sequences (owner INTEGER NOT NULL, program TEXT NOT NULL, reader INTEGER NOT NULL, last INTEGER "
    "NOT NULL, status INTEGER NOT NULL, type TEXT NOT NULL, answer BLOB, PRIMARY KEY (owner, program, reader));"
    /* programs that jobs have trained; a restart restores such a program from the last checkpoint of the job */
    "CREATE TABLE IF NOT EXISTS job_programs (owner INTEGER NOT NULL, program TEXT NOT NULL, job TEXT NOT NULL, PRIMARY KEY "
    "(owner, program)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS shares (owner INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, reader TEXT NOT NULL, "
    "PRIMARY KEY (owner, kind, name, reader)) WITHOUT ROWID;" /* reader: the name of a key, or * for every key */
    "CREATE INDEX IF NOT EXISTS blobs_digest ON blobs (digest);"
    /* AUTOINCREMENT: the id of a key, which owns objects, is never reused. */
    "CREATE TABLE IF NOT EXISTS keys (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, hash BLOB NOT NULL "
    "UNIQUE, hint TEXT NOT NULL, scopes TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL, revoked INTEGER NOT "
    "NULL);"
    /* In schema 1 reader was the id of a key, or 0. */
    "UPDATE OR IGNORE shares SET reader = CASE reader WHEN 0 THEN '*' ELSE (SELECT name FROM keys WHERE id = reader) END WHERE "
    "typeof(reader) = 'integer';"
    "CREATE TABLE IF NOT EXISTS quotas (owner INTEGER NOT NULL, quota TEXT NOT NULL, amount REAL NOT NULL, PRIMARY KEY (owner, "
    "quota)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS usage (owner INTEGER NOT NULL, day INTEGER NOT NULL, requests INTEGER NOT NULL, device_ns "
    "INTEGER "
    "NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, PRIMARY KEY (owner, day)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, owner INTEGER NOT NULL, program TEXT NOT NULL, entry TEXT NOT NULL, "
    "device TEXT NOT NULL, steps INTEGER NOT NULL, priority INTEGER NOT NULL, columns TEXT NOT NULL, metrics INTEGER NOT NULL, "
    "created REAL NOT NULL, started REAL, ended REAL, state TEXT NOT NULL, reason TEXT NOT NULL, step INTEGER NOT NULL, "
    "restarts INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS job_reports (job TEXT NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL, cells TEXT NOT NULL, "
    "PRIMARY KEY (job, step)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS job_checkpoints (job TEXT NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL, "
    "bytes INTEGER NOT NULL, PRIMARY KEY (job, step)) WITHOUT ROWID;";

static const bl_database_kind kind = {.ours = OURS, .schema = SCHEMA, .create = create, .durable = true};

/* A statement that the disk has refused so far, and that will be run again. */
typedef struct owed {
    struct owed *next;
    char *sql;
    int n;
    bl_cell cells[];
} owed;

struct bl_storage {
    pthread_mutex_t lock; /* recursive: bl_storage_together holds the lock while its body runs */
    sqlite3 *db;
    bl_disk disk;
    bool alone;    /* opened by bl_storage_open, which excludes other servers; not by bl_storage_join */
    bool together; /* under the lock: inside bl_storage_together */
    bool gone;     /* under the lock: the folder was not there at the last check */
    bool full;     /* under the lock: the last statement found no room on the disk */
    owed *debts, **last_debt;
};

bl_cell bl_cell_text(const char *text)
{
    if (text == NULL)
        return (bl_cell){.kind = BL_CELL_NULL};
    return (bl_cell){.kind = BL_CELL_TEXT, .bytes = {text, strlen(text)}};
}

/* ---- opening */

static char *path_in(const char *folder, const char *name)
{
    bl_text path = {0};
    bl_text_printf(&path, "%s/%s", folder, name);
    if (!path.failed)
        return bl_text_take(&path);
    bl_text_fini(&path);
    return NULL;
}

/* Move the folders into ASIDE.files. Otherwise the sweep would delete the files, since no row of the new database names
 * them. */
static bool set_parts_aside(const bl_storage *store, const char *aside)
{
    bl_text files = {0};
    int from = open(store->disk.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = -1;
    bool good = from >= 0;
    bl_text_printf(&files, "%s.files", aside);
    good = good && !files.failed && (mkdir(files.data, 0700) == 0 || errno == EEXIST);
    to = good ? open(files.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    good = to >= 0;
    for (int i = 0; i < NPARTS && good; i++)
        good = renameat(from, parts[i], to, parts[i]) == 0 || errno == ENOENT;
    if (to >= 0)
        (void)close(to);
    if (from >= 0)
        (void)close(from);
    bl_text_fini(&files);
    return good;
}

/* Rename the database to a name that the server does not open. Move the folders first: if the server ends in between, the
 * next start finds the same database and moves the rest. */
static bl_status set_aside(const bl_storage *store, const char *path, bool damaged, bl_err *err)
{
    char *aside = bl_database_aside(path, damaged ? "damaged" : "newer");
    bool good = aside != NULL && set_parts_aside(store, aside) && bl_database_set_aside(path, aside);
    if (good)
        bl_log(
            BL_LOG_WARN,
            "the store in the folder of --state is %s; it was moved to %s, its files to %s.files, and an empty store was created",
            damaged ? "damaged" : "of a later version", strrchr(aside, '/') + 1, strrchr(aside, '/') + 1);
    free(aside);
    return good ? BL_OK : bl_fail(err, BL_ESTORAGE, "the unusable store cannot be moved aside");
}

/* Open the database. If the disk is full, release the reserve, a step at a time. */
static bl_opened open_database(bl_storage *store, const char *path)
{
    bl_opened how = bl_database_open(path, &kind, &store->db);
    while (how == BL_DATABASE_UNUSABLE && bl_disk_is_full(&store->disk) && bl_disk_make_way(&store->disk))
        how = bl_database_open(path, &kind, &store->db);
    return how;
}

/* Open the database file. A database that cannot be used is set aside once. */
static bl_status storage_open_file(bl_storage *store, const char *path, bl_err *err)
{
    bl_opened how = open_database(store, path);
    if (store->alone && (how == BL_DATABASE_DAMAGED || how == BL_DATABASE_NEWER)) {
        BL_TRY(set_aside(store, path, how == BL_DATABASE_DAMAGED, err));
        how = open_database(store, path);
    }
    if (how == BL_DATABASE_FOREIGN)
        return bl_fail(err, BL_ECONFLICT, BL_DISK_DATABASE " in the folder of --state belongs to another program");
    if (how != BL_DATABASE_READY)
        return bl_fail(err, BL_ESTORAGE, BL_DISK_DATABASE " in the folder of --state cannot be opened%s",
                       bl_disk_is_full(&store->disk) ? ": the disk is full" : "");
    bl_disk_note_database(&store->disk);
    return BL_OK;
}

static bl_status storage_choose_folder(bl_storage *store, const char *folder, bl_err *err)
{
    bl_err why = {0};
    char *path = NULL;
    if (strcmp(folder, "none") == 0)
        return BL_OK;
    path = folder[0] != '\0' ? strdup(folder) : bl_state_folder();
    if (folder[0] != '\0' && (path == NULL || !bl_folder_make(path))) {
        free(path);
        return bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be made: %s", strerror(errno));
    }
    if (path == NULL) {
        bl_log(BL_LOG_WARN, "without --state the server stores nothing on disk");
        return BL_OK;
    }
    if (bl_disk_open(&store->disk, path, true, &why) == BL_OK)
        return BL_OK;
    if (folder[0] != '\0')
        return bl_fail(err, why.status, "%s", why.text);
    bl_log(BL_LOG_WARN, "%s: the server stores nothing on disk", why.text);
    bl_disk_close(&store->disk);
    return BL_OK;
}

static bl_status join_folder(bl_storage *store, const char *folder, bl_err *err)
{
    char *path = NULL;
    if (strcmp(folder, "none") != 0)
        path = folder[0] != '\0' ? strdup(folder) : bl_state_folder();
    if (path == NULL)
        return bl_fail(err, BL_ECONFLICT, "the server stores nothing on disk; start the server with --state");
    if (!bl_folder_make(path)) {
        free(path);
        return bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be made: %s", strerror(errno));
    }
    return bl_disk_open(&store->disk, path, false, err);
}

static bl_status storage_open_store(const char *folder, bool alone, bl_storage **out, bl_err *err)
{
    bl_storage *store = bl_calloc(1, sizeof *store);
    pthread_mutexattr_t attributes;
    char *path = NULL;
    bl_status st = BL_OK;
    *out = NULL;
    if (store == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the store");
    store->disk = (bl_disk){.folder_fd = -1, .lock_fd = -1};
    store->last_debt = &store->debts;
    store->alone = alone;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&store->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    st = alone ? storage_choose_folder(store, folder, err) : join_folder(store, folder, err);
    if (st == BL_OK) {
        path = store->disk.folder != NULL ? path_in(store->disk.folder, BL_DISK_DATABASE) : strdup(":memory:");
        st = path != NULL ? storage_open_file(store, path, err) : bl_fail(err, BL_ENOMEM, "out of host memory for the store");
    }
    free(path);
    if (st != BL_OK) {
        bl_storage_close(store);
        return st;
    }
    if (alone && !bl_disk_reserve(&store->disk))
        bl_log(BL_LOG_WARN,
               "the disk with the folder of --state has no room for the reserve: the server adds no data until there is room");
    *out = store;
    return BL_OK;
}

bl_status bl_storage_open(const char *folder, bl_storage **out, bl_err *err)
{
    return storage_open_store(folder, true, out, err);
}

bl_status bl_storage_join(const char *folder, bl_storage **out, bl_err *err)
{
    return storage_open_store(folder, false, out, err);
}

const char *bl_storage_folder(const bl_storage *store)
{
    return store->disk.folder;
}

bool bl_storage_is_there(const bl_storage *store)
{
    return bl_disk_is_there(&store->disk);
}

bl_status bl_storage_check(const bl_storage *store, bl_err *err)
{
    return bl_disk_check(&store->disk, err);
}

bl_status bl_storage_check_room(const bl_storage *store, uint64_t bytes, uint64_t least, bl_err *err)
{
    return bl_disk_check_room(&store->disk, bytes, least, err);
}

static bool storage_is_part(const char *name)
{
    bool found = false;
    for (int i = 0; i < NPARTS; i++)
        found |= strcmp(name, parts[i]) == 0;
    return found;
}

char *bl_storage_make_folder(const bl_storage *store, const char *part)
{
    char *path = store->disk.folder != NULL && bl_disk_is_there(&store->disk) && storage_is_part(part)
                     ? path_in(store->disk.folder, part)
                     : NULL;
    if (path != NULL && !bl_folder_make(path)) {
        free(path);
        path = NULL;
    }
    return path;
}

/* ---- statements; all functions under the lock */

static int storage_bind(sqlite3_stmt *query, int i, const bl_cell *cell)
{
    switch (cell->kind) {
    case BL_CELL_INT:
        return sqlite3_bind_int64(query, i, cell->integer);
    case BL_CELL_REAL:
        return sqlite3_bind_double(query, i, cell->real);
    case BL_CELL_TEXT:
        return sqlite3_bind_text64(query, i, cell->bytes.data, cell->bytes.len, SQLITE_STATIC, SQLITE_UTF8);
    case BL_CELL_BLOB:
        return sqlite3_bind_blob64(query, i, cell->bytes.len > 0 ? cell->bytes.data : "", cell->bytes.len, SQLITE_STATIC);
    case BL_CELL_NULL:
        break;
    }
    return sqlite3_bind_null(query, i);
}

static bl_cell storage_column(sqlite3_stmt *query, int i)
{
    switch (sqlite3_column_type(query, i)) {
    case SQLITE_INTEGER:
        return bl_cell_int(sqlite3_column_int64(query, i));
    case SQLITE_FLOAT:
        return bl_cell_real(sqlite3_column_double(query, i));
    case SQLITE_TEXT:
        return (bl_cell){.kind = BL_CELL_TEXT,
                         .bytes = {(const char *)sqlite3_column_text(query, i), (size_t)sqlite3_column_bytes(query, i)}};
    case SQLITE_BLOB:
        return bl_cell_blob(sqlite3_column_blob(query, i), (size_t)sqlite3_column_bytes(query, i));
    default:
        return (bl_cell){.kind = BL_CELL_NULL};
    }
}

/* Step through a statement. A statement that writes runs to its end even if the caller wants no more rows, since its commit
 * is at the end. */
static int storage_step_all(sqlite3_stmt *query, bl_storage_row row, void *arg)
{
    bl_cell cells[MOST_COLUMNS];
    int code = SQLITE_OK, columns = sqlite3_column_count(query);
    bool reads = sqlite3_stmt_readonly(query) != 0;
    if (columns > MOST_COLUMNS)
        columns = MOST_COLUMNS;
    while ((code = sqlite3_step(query)) == SQLITE_ROW) {
        for (int i = 0; row != NULL && i < columns; i++)
            cells[i] = storage_column(query, i);
        if (row == NULL || row(arg, cells, columns))
            continue;
        if (reads)
            return SQLITE_DONE;
        row = NULL;
    }
    return code;
}

static bl_status storage_tell(bl_storage *store, int code, bl_err *err)
{
    if (code == SQLITE_DONE || code == SQLITE_OK)
        return BL_OK;
    if (code == SQLITE_CONSTRAINT)
        return bl_fail(err, BL_ECONFLICT, "an item of this name exists already");
    if (code == SQLITE_NOMEM)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the store");
    bl_log(BL_LOG_WARN, "the store failed: %s", sqlite3_errmsg(store->db));
    return bl_fail(err, BL_ESTORAGE, "the store failed: %s", sqlite3_errstr(code));
}

/* Did SQLite fail because the disk is full? SQLite reports FULL for ENOSPC of a write, and an I/O error for ENOSPC of its
 * shared memory or for EDQUOT. */
static bool storage_is_full(bl_storage *store, int code)
{
    int error = sqlite3_system_errno(store->db);
    return code == SQLITE_FULL || ((code & 0xff) == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT));
}

/* Run a statement.  If the disk is full, release a step of the reserve and run the statement again.  Inside
 * bl_storage_together the statement is not run again; the whole body is run again instead. */
static int run_query(bl_storage *store, sqlite3_stmt *query, int n, const bl_cell *cells, bl_storage_row row, void *arg)
{
    int code = SQLITE_OK;
    for (int i = 0; i < n && code == SQLITE_OK; i++)
        code = storage_bind(query, i + 1, &cells[i]);
    if (code != SQLITE_OK)
        return code;
    do {
        (void)sqlite3_reset(query);
        code = storage_step_all(query, row, arg);
        store->full = storage_is_full(store, code);
    } while (store->full && !store->together && bl_disk_make_way(&store->disk));
    return code;
}

/* Run the owed statements, the oldest first; false if the disk still refuses. */
static bool pay_debts(bl_storage *store)
{
    while (store->debts != NULL) {
        owed *debt = store->debts;
        sqlite3_stmt *query = NULL;
        int code = sqlite3_prepare_v2(store->db, debt->sql, -1, &query, NULL);
        if (code == SQLITE_OK)
            code = run_query(store, query, debt->n, debt->cells, NULL, NULL);
        sqlite3_finalize(query);
        if (code != SQLITE_DONE)
            return false;
        store->debts = debt->next;
        free(debt);
    }
    store->last_debt = &store->debts;
    return true;
}

/* Check, before a statement that writes, that a restart would find the result. */
static bl_status may_write(bl_storage *store, bl_err *err)
{
    if (store->together) /* inside a transaction: its BEGIN has checked */
        return BL_OK;
    BL_TRY(bl_disk_check(&store->disk, err));
    if (pay_debts(store))
        return BL_OK;
    return bl_fail(
        err, BL_ESTORAGE,
        "the disk cannot store earlier revocations, and the server stores nothing before them; free space on the disk");
}

static bl_status run_locked(bl_storage *store, const char *sql, int n, const bl_cell *cells, bl_storage_row row, void *arg,
                            bl_err *err)
{
    sqlite3_stmt *query = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &query, NULL);
    bl_status st = code == SQLITE_OK && sqlite3_stmt_readonly(query) == 0 ? may_write(store, err) : BL_OK;
    if (code == SQLITE_OK && st == BL_OK)
        code = run_query(store, query, n, cells, row, arg);
    sqlite3_finalize(query);
    return st == BL_OK ? storage_tell(store, code, err) : st;
}

bl_status bl_storage_run(bl_storage *store, const char *sql, int n, const bl_cell *cells, bl_storage_row row, void *arg,
                         bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&store->lock);
    st = run_locked(store, sql, n, cells, row, arg, err);
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* A copy of a row. */
typedef struct copied {
    struct copied *next;
    int n;
    bl_cell cells[];
} copied;

typedef struct copying {
    bl_arena *arena;
    copied *first, **end;
} copying;

static bool storage_copy_row(void *arg, const bl_cell *cells, int n)
{
    copying *c = arg;
    copied *row = bl_arena_alloc(c->arena, sizeof *row + (size_t)n * sizeof *cells);
    if (row == NULL)
        return false;
    *row = (copied){.n = n};
    for (int i = 0; i < n; i++) {
        row->cells[i] = cells[i];
        if (cells[i].bytes.data != NULL)
            row->cells[i].bytes.data = bl_arena_strndup(c->arena, cells[i].bytes.data, cells[i].bytes.len);
    }
    *c->end = row;
    c->end = &row->next;
    return true;
}

bl_status bl_storage_each(bl_storage *store, const char *sql, bl_storage_row row, void *arg, bl_err *err)
{
    copying c = {.arena = bl_arena_create(0), .end = &c.first};
    bl_status st = c.arena != NULL ? bl_storage_run(store, sql, 0, NULL, storage_copy_row, &c, err)
                                   : bl_fail(err, BL_ENOMEM, "out of host memory for rows");
    if (st == BL_OK)
        st = bl_arena_status(c.arena, err);
    for (const copied *one = c.first; st == BL_OK && one != NULL; one = one->next)
        if (!row(arg, one->cells, one->n))
            break;
    bl_arena_destroy(c.arena);
    return st;
}

bl_status bl_storage_change(bl_storage *store, const char *sql, int n, const bl_cell *cells, int64_t *changed, bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&store->lock);
    st = run_locked(store, sql, n, cells, NULL, NULL, err);
    if (changed != NULL)
        *changed = st == BL_OK ? sqlite3_changes(store->db) : 0;
    pthread_mutex_unlock(&store->lock);
    return st;
}

static bl_status try_together(bl_storage *store, bl_status (*body)(void *arg, bl_err *err), void *arg, bl_err *err)
{
    bl_status st = run_locked(store, "BEGIN IMMEDIATE", 0, NULL, NULL, NULL, err);
    if (st != BL_OK)
        return st;
    store->together = true;
    store->full = false;
    st = body(arg, err);
    if (st == BL_OK)
        st = run_locked(store, "COMMIT", 0, NULL, NULL, NULL, err);
    if (st != BL_OK)
        (void)bl_database_run(store->db, "ROLLBACK");
    store->together = false;
    return st;
}

bl_status bl_storage_together(bl_storage *store, bl_status (*body)(void *arg, bl_err *err), void *arg, bl_err *err)
{
    bl_err why = {0};
    pthread_mutex_lock(&store->lock);
    while (try_together(store, body, arg, &why) != BL_OK && store->full && bl_disk_make_way(&store->disk))
        why = (bl_err){0};
    pthread_mutex_unlock(&store->lock);
    return why.status == BL_OK ? BL_OK : bl_fail(err, why.status, "%s", why.text);
}

/* ---- owed statements */

/* Copy the statement, and all memory that its cells borrow, in one allocation; NULL if out of memory. */
static owed *make_debt(const char *sql, int n, const bl_cell *cells)
{
    size_t size = sizeof(owed) + (size_t)n * sizeof *cells, at = size;
    owed *debt = NULL;
    size += strlen(sql) + 1;
    for (int i = 0; i < n; i++)
        size += cells[i].bytes.len + 1;
    debt = bl_calloc(1, size);
    if (debt == NULL)
        return NULL;
    debt->n = n;
    debt->sql = (char *)debt + at;
    memcpy(debt->sql, sql, strlen(sql));
    at += strlen(sql) + 1;
    for (int i = 0; i < n; i++) {
        debt->cells[i] = cells[i];
        if (cells[i].bytes.data == NULL)
            continue;
        debt->cells[i].bytes.data = (char *)debt + at;
        memcpy((char *)debt + at, cells[i].bytes.data, cells[i].bytes.len);
        at += cells[i].bytes.len + 1;
    }
    return debt;
}

bl_status bl_storage_owe(bl_storage *store, const char *sql, int n, const bl_cell *cells, bool *is_owed, bl_err *err)
{
    bl_err why = {0};
    owed *debt = NULL;
    *is_owed = false;
    pthread_mutex_lock(&store->lock);
    if (run_locked(store, sql, n, cells, NULL, NULL, &why) == BL_ESTORAGE && (debt = make_debt(sql, n, cells)) != NULL) {
        *store->last_debt = debt;
        store->last_debt = &debt->next;
        *is_owed = true;
    }
    pthread_mutex_unlock(&store->lock);
    return why.status == BL_OK || *is_owed ? BL_OK : bl_fail(err, why.status, "%s", why.text);
}

void bl_storage_tend(bl_storage *store)
{
    bool there = bl_disk_is_there(&store->disk);
    pthread_mutex_lock(&store->lock);
    if (there != !store->gone)
        bl_log(there ? BL_LOG_INFO : BL_LOG_ERROR, "the folder of --state %s",
               there ? "is available again"
                     : "was removed or replaced: no data is kept until the folder is back, or the server is started again");
    store->gone = !there;
    if (there && store->alone) {
        (void)pay_debts(store);
        (void)bl_disk_reserve(&store->disk);
    }
    pthread_mutex_unlock(&store->lock);
}

static void drop_debts(bl_storage *store)
{
    if (store->debts != NULL)
        bl_log(BL_LOG_ERROR,
               "the disk did not store all revocations of keys and shares before the end of the server: some of these keys and "
               "shares are valid again at the next start");
    while (store->debts != NULL) {
        owed *debt = store->debts;
        store->debts = debt->next;
        free(debt);
    }
}

void bl_storage_close(bl_storage *store)
{
    if (store == NULL)
        return;
    if (store->db != NULL)
        bl_storage_tend(store);
    drop_debts(store);
    sqlite3_close(store->db);
    bl_disk_close(&store->disk);
    pthread_mutex_destroy(&store->lock);
    free(store);
}
