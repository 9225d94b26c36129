/* SPDX-License-Identifier: MIT */
#include "engine/search/kernel_store.h"

#include "engine/base/database.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/map.h"
#include "engine/ir/ir_text.h"
#include "engine/ir/structure.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    OURS = 0x626c6b64, /* "blkd": SQLite's application_id, which marks the file as a kernel database */
    SCHEMA = 1,
    /* rows of 3 KB; a week of continuous searching fills the file. Beyond the limit the oldest results are deleted */
    MOST_ROWS = 50000,
    TRIM_EVERY = 256,     /* rows written between two trims; the file is also trimmed at each start */
    MOST_KNOWN = 1 << 15, /* nests cached in memory, half a kilobyte each; a full cache is emptied */
    BUCKETS = 1 << 12
};

/* A cached look-up: the row of the file for a nest on a device, or the fact that the file has no row. */
typedef struct known {
    struct known *next;
    uint64_t hash, device; /* |hash|: hash of the nest; |device|: hash of the device's and the driver's names */
    bool found;
    int64_t version; /* version of the file at a look-up that found no row */
    bl_kernel_record record;
} known;

struct bl_kernels {
    /* protects all fields below; held while the file is read or written; no device thread waits for the lock */
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL: the file cannot be used */
    char *path;
    int count;
    unsigned written; /* number of rows written so far */
    known *bucket[BUCKETS];
};

/* ---- the file */

static const char create[] = "CREATE TABLE IF NOT EXISTS kernels (key TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, "
                             "version INTEGER NOT NULL, name TEXT NOT NULL, nest TEXT NOT NULL, moves TEXT NOT NULL, "
                             "width INTEGER NOT NULL, tried INTEGER NOT NULL, heuristic_ns INTEGER NOT NULL, best_ns INTEGER NOT "
                             "NULL, searched INTEGER NOT NULL, PRIMARY KEY (key, device, driver, version)); "
                             "CREATE TABLE IF NOT EXISTS peaks (device TEXT NOT NULL, driver TEXT NOT NULL, ops REAL NOT NULL, "
                             "bytes REAL NOT NULL, PRIMARY KEY (device, driver))";

/* Delete the rows beyond the limit, oldest searches first. Servers and imports would otherwise grow the file without limit. */
static void kernel_store_trim(sqlite3 *db)
{
    char sql[120];
    int64_t rows = 0;

    if (!bl_database_ask(db, "SELECT count(*) FROM kernels", &rows) || rows <= MOST_ROWS)
        return;
    snprintf(sql, sizeof sql, "DELETE FROM kernels WHERE rowid IN (SELECT rowid FROM kernels ORDER BY searched LIMIT %lld)",
             (long long)(rows - MOST_ROWS));
    (void)bl_database_run(db, sql); /* the statement fails if another server is writing; the next trim deletes the rows */
}

static const bl_database_kind kind = {.ours = OURS, .schema = SCHEMA, .create = create};

static bl_opened kernel_store_open_file(bl_kernels *k)
{
    bl_opened how = bl_database_open(k->path, &kind, &k->db);
    if (how == BL_DATABASE_READY)
        kernel_store_trim(k->db);
    return how;
}

static void move_aside(const char *path)
{
    char *aside = bl_database_aside(path, "damaged");
    if (aside == NULL || !bl_database_set_aside(path, aside))
        bl_log(BL_LOG_WARN, "the damaged kernel database cannot be moved aside");
    free(aside);
}

static void open_kernels(bl_kernels *k)
{
    bl_opened how = kernel_store_open_file(k);
    if (how == BL_DATABASE_DAMAGED) {
        bl_log(BL_LOG_WARN, "the kernel database is damaged; it was moved aside and a new one was created");
        move_aside(k->path);
        how = kernel_store_open_file(k);
    }
    if (how == BL_DATABASE_FOREIGN || how == BL_DATABASE_NEWER)
        bl_log(BL_LOG_WARN, "the file of --kernel-db belongs to another program or to a later version; it is not used");
    else if (how != BL_DATABASE_READY)
        bl_log(BL_LOG_WARN, "the kernel database cannot be opened; search results are kept in memory only");
}

/* Under the lock: handle a failed SQLite call with result |code|. */
static void failed(bl_kernels *k, int code, const char *what)
{
    bl_log(BL_LOG_WARN, "the kernel database cannot be %s: %s", what, sqlite3_errstr(code));
    if (!bl_database_is_damage(code))
        return;
    sqlite3_close(k->db);
    k->db = NULL;
    move_aside(k->path);
    open_kernels(k);
}

bl_status bl_kernels_open(const char *path, bl_kernels **out, bl_err *err)
{
    bl_kernels *k = bl_calloc(1, sizeof *k);

    *out = NULL;
    if (path == NULL)
        path = ":memory:";
    if (k == NULL || (k->path = bl_calloc(1, strlen(path) + 1)) == NULL) {
        free(k);
        return bl_fail(err, BL_ENOMEM, "out of host memory for the kernel database");
    }
    memcpy(k->path, path, strlen(path));
    pthread_mutex_init(&k->lock, NULL);
    open_kernels(k);
    *out = k;
    return BL_OK;
}

static void kernel_store_forget(bl_kernels *k)
{
    for (int i = 0; i < BUCKETS; i++) {
        while (k->bucket[i] != NULL) {
            known *next = k->bucket[i]->next;
            free(k->bucket[i]);
            k->bucket[i] = next;
        }
    }
    k->count = 0;
}

void bl_kernels_close(bl_kernels *kernels)
{
    if (kernels == NULL)
        return;
    kernel_store_forget(kernels);
    sqlite3_close(kernels->db);
    pthread_mutex_destroy(&kernels->lock);
    free(kernels->path);
    free(kernels);
}

/* ---- rows */

static void key_text(uint64_t hash, char out[17])
{
    snprintf(out, 17, "%016llx", (unsigned long long)hash);
}

/* The nest as text, for people who read a row. */
static char *nest_text(bl_ir *ir, const bl_node *sink)
{
    bl_text text = {0};
    bl_ir_print(ir, 1, &sink, &text);
    return bl_text_take(&text);
}

uint64_t bl_kernels_key(bl_ir *ir, const bl_node *sink)
{
    bl_structure structure;
    return bl_structure_init(&structure, ir, sink, true) ? bl_structure_get(&structure, sink) : 0;
}

/* The name of the device and its number of units: a container may have fewer units. */
static void device_text(const bl_device_info *info, char out[160])
{
    snprintf(out, 160, "%s, %u units", info->name, (unsigned)info->units);
}

/* Under the lock: read a row. A row whose moves cannot be parsed counts as missing. */
static bool kernel_store_read_row(bl_kernels *k, const char *key, const bl_device_info *info, bl_kernel_record *out)
{
    static const char sql[] = "SELECT moves, width, tried, heuristic_ns, best_ns FROM kernels WHERE key = ?1 AND device = "
                              "?2 AND driver = ?3 AND version = ?4";
    sqlite3_stmt *query = NULL;
    char device[160];
    bool found = false;
    int code = sqlite3_prepare_v2(k->db, sql, -1, &query, NULL);

    device_text(info, device);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(query, 1, key, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 2, device, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 3, info->driver, -1, SQLITE_STATIC);
        sqlite3_bind_int64(query, 4, BL_MOVES_VERSION);
        code = sqlite3_step(query);
    }
    if (code == SQLITE_ROW) {
        const char *moves = (const char *)sqlite3_column_text(query, 0);
        found = moves != NULL && bl_moves_parse(moves, out->moves, &out->nmoves);
        out->width = sqlite3_column_int(query, 1);
        out->tried = sqlite3_column_int(query, 2);
        out->heuristic_ns = (uint64_t)sqlite3_column_int64(query, 3);
        out->best_ns = (uint64_t)sqlite3_column_int64(query, 4);
    }
    sqlite3_finalize(query);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        failed(k, code, "read");
    return found;
}

/* Under the lock: write a row. Returns BL_OK also if there is no file. */
static bl_status write_row(bl_kernels *k, const bl_kernel_row *row, bool better_only, bl_err *err)
{
    static const char always[] = "INSERT OR REPLACE INTO kernels VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    static const char better[] =
        "INSERT INTO kernels VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO UPDATE SET name = ?5, "
        "nest "
        "= ?6, moves = ?7, width = ?8, tried = ?9, heuristic_ns = ?10, best_ns = ?11, searched = ?12 WHERE ?11 < best_ns";
    const char *text[] = {row->key, row->device, row->driver, NULL, row->name, row->nest, row->moves};
    const int64_t number[] = {row->width, row->tried, row->heuristic_ns, row->best_ns, row->searched};
    sqlite3_stmt *query = NULL;
    int code = SQLITE_OK;

    if (k->db == NULL)
        return BL_OK;
    code = sqlite3_prepare_v2(k->db, better_only ? better : always, -1, &query, NULL);
    if (code == SQLITE_OK) {
        for (int i = 0; i < 7; i++) {
            if (text[i] != NULL)
                sqlite3_bind_text(query, i + 1, text[i], -1, SQLITE_STATIC);
        }
        sqlite3_bind_int64(query, 4, row->version);
        for (int i = 0; i < 5; i++)
            sqlite3_bind_int64(query, i + 8, number[i]);
        code = sqlite3_step(query);
    }
    sqlite3_finalize(query);
    if (code == SQLITE_DONE) {
        if (++k->written % TRIM_EVERY == 0)
            kernel_store_trim(k->db);
        return BL_OK;
    }
    failed(k, code, "written");
    return bl_fail(err, BL_EBUSY, "the kernel database cannot be written: %s", sqlite3_errstr(code));
}

/* ---- the table in memory */

static uint64_t hash_device(const bl_device_info *info)
{
    char device[160];
    device_text(info, device);
    return bl_hash_bytes(info->driver, strlen(info->driver), bl_hash_bytes(device, strlen(device), 0));
}

static known *lookup(bl_kernels *k, uint64_t hash, uint64_t device)
{
    known *at = k->bucket[hash % BUCKETS];
    while (at != NULL && (at->hash != hash || at->device != device))
        at = at->next;
    return at;
}

/* Under the lock: cache a look-up. Without memory the look-up is not cached. */
static known *kernel_store_remember(bl_kernels *k, uint64_t hash, uint64_t device, bool found, const bl_kernel_record *record)
{
    known *at = lookup(k, hash, device);
    if (at == NULL) {
        if (k->count == MOST_KNOWN)
            kernel_store_forget(k);
        at = bl_calloc(1, sizeof *at);
        if (at == NULL)
            return NULL;
        at->next = k->bucket[hash % BUCKETS];
        k->bucket[hash % BUCKETS] = at;
        k->count++;
    }
    at->hash = hash;
    at->device = device;
    at->found = found;
    at->record = *record;
    return at;
}

/* Under the lock: a number that changes when another connection (a server or a command) writes the file; 0 if unknown. */
static int64_t file_version(bl_kernels *k)
{
    int64_t version = 0;
    return k->db != NULL && bl_database_ask(k->db, "PRAGMA data_version", &version) ? version : 0;
}

bool bl_kernels_find(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, bl_kernel_record *out)
{
    uint64_t device = hash_device(info), hash = bl_kernels_key(ir, sink);
    int64_t version = 0;
    known *at = NULL;
    bool found = false;

    *out = (bl_kernel_record){0};
    pthread_mutex_lock(&kernels->lock);
    at = lookup(kernels, hash, device);
    if (at == NULL || !at->found)
        /* read before the row, so that a write between the two reads leads to another look-up */
        version = file_version(kernels);
    if (at != NULL && (at->found || (version != 0 && at->version == version))) {
        found = at->found;
        *out = at->record;
    } else if (kernels->db != NULL) {
        char key[17];
        key_text(hash, key);
        found = kernel_store_read_row(kernels, key, info, out);
        at = kernel_store_remember(kernels, hash, device, found, out);
        if (at != NULL)
            at->version = version;
    }
    pthread_mutex_unlock(&kernels->lock);
    return found;
}

void bl_kernels_store(bl_kernels *kernels, const bl_device_info *info, bl_ir *ir, const bl_node *sink, const char *name,
                      const bl_kernel_record *record)
{
    char key[17], device[160], *nest = nest_text(ir, sink);
    uint64_t hash = bl_kernels_key(ir, sink);
    bl_text moves = {0};
    bl_kernel_row row = {.key = key,
                         .device = device,
                         .driver = info->driver,
                         .name = name,
                         .nest = nest,
                         .version = BL_MOVES_VERSION,
                         .width = record->width,
                         .tried = record->tried,
                         .heuristic_ns = (int64_t)record->heuristic_ns,
                         .best_ns = (int64_t)record->best_ns,
                         .searched = (int64_t)time(NULL)};

    key_text(hash, key);
    device_text(info, device);
    bl_moves_print(record->nmoves, record->moves, &moves);
    row.moves = bl_text_get(&moves);
    pthread_mutex_lock(&kernels->lock);
    (void)kernel_store_remember(kernels, hash, hash_device(info), true, record);
    if (nest != NULL && !moves.failed)
        (void)write_row(kernels, &row, false, NULL); /* write_row logs a failure */
    pthread_mutex_unlock(&kernels->lock);
    bl_text_fini(&moves);
    free(nest);
}

void bl_kernels_withdraw(bl_kernels *kernels, const bl_device_info *info, uint64_t key, const char *moves)
{
    static const char sql[] = "UPDATE kernels SET moves = ?1, best_ns = heuristic_ns WHERE key = ?2 AND device = ?3 AND driver = "
                              "?4 AND version = ?5";
    char text[17], device[160];
    bl_kernel_record record = {0};
    sqlite3_stmt *query = NULL;
    known *at = NULL;
    int code = SQLITE_OK;

    if (!bl_moves_parse(moves, record.moves, &record.nmoves))
        return;
    key_text(key, text);
    device_text(info, device);
    pthread_mutex_lock(&kernels->lock);
    at = lookup(kernels, key, hash_device(info));
    if (at != NULL) {
        memcpy(at->record.moves, record.moves, sizeof record.moves);
        at->record.nmoves = record.nmoves;
        at->record.best_ns = at->record.heuristic_ns;
    }
    if (kernels->db != NULL && sqlite3_prepare_v2(kernels->db, sql, -1, &query, NULL) == SQLITE_OK) {
        sqlite3_bind_text(query, 1, moves, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 2, text, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 3, device, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 4, info->driver, -1, SQLITE_STATIC);
        sqlite3_bind_int64(query, 5, BL_MOVES_VERSION);
        code = sqlite3_step(query);
        sqlite3_finalize(query);
        if (code != SQLITE_DONE)
            failed(kernels, code, "written");
    }
    pthread_mutex_unlock(&kernels->lock);
}

/* ---- peaks */

bool bl_kernels_find_peaks(bl_kernels *kernels, const bl_device_info *info, bl_peaks *out)
{
    sqlite3_stmt *query = NULL;
    char device[160];
    bool found = false;

    device_text(info, device);
    pthread_mutex_lock(&kernels->lock);
    if (kernels->db != NULL && sqlite3_prepare_v2(kernels->db, "SELECT ops, bytes FROM peaks WHERE device = ?1 AND driver = ?2",
                                                  -1, &query, NULL) == SQLITE_OK) {
        sqlite3_bind_text(query, 1, device, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 2, info->driver, -1, SQLITE_STATIC);
        found = sqlite3_step(query) == SQLITE_ROW;
        if (found)
            *out = (bl_peaks){.ops = sqlite3_column_double(query, 0), .bytes = sqlite3_column_double(query, 1)};
        sqlite3_finalize(query);
    }
    pthread_mutex_unlock(&kernels->lock);
    return found;
}

void bl_kernels_store_peaks(bl_kernels *kernels, const bl_device_info *info, const bl_peaks *peaks)
{
    sqlite3_stmt *query = NULL;
    char device[160];

    device_text(info, device);
    pthread_mutex_lock(&kernels->lock);
    if (kernels->db != NULL &&
        sqlite3_prepare_v2(kernels->db, "INSERT OR REPLACE INTO peaks VALUES (?1, ?2, ?3, ?4)", -1, &query, NULL) == SQLITE_OK) {
        sqlite3_bind_text(query, 1, device, -1, SQLITE_STATIC);
        sqlite3_bind_text(query, 2, info->driver, -1, SQLITE_STATIC);
        sqlite3_bind_double(query, 3, peaks->ops);
        sqlite3_bind_double(query, 4, peaks->bytes);
        (void)sqlite3_step(query); /* on failure the peaks are measured again */
        sqlite3_finalize(query);
    }
    pthread_mutex_unlock(&kernels->lock);
}

/* ---- lists */

static const char *kernel_store_column(sqlite3_stmt *query, int i)
{
    const char *text = (const char *)sqlite3_column_text(query, i);
    return text == NULL ? "" : text;
}

bl_status bl_kernels_list(bl_kernels *kernels, const char *key, bool (*row)(void *arg, const bl_kernel_row *row), void *arg,
                          bl_err *err)
{
    static const char sql[] = "SELECT key, device, driver, name, nest, moves, version, width, tried, heuristic_ns, best_ns, "
                              "searched FROM kernels WHERE ?1 IS NULL OR key = ?1 ORDER BY device, name, key, version";
    sqlite3_stmt *query = NULL;
    int code = SQLITE_DONE;

    pthread_mutex_lock(&kernels->lock);
    if (kernels->db != NULL) {
        code = sqlite3_prepare_v2(kernels->db, sql, -1, &query, NULL);
        if (code == SQLITE_OK && key != NULL)
            sqlite3_bind_text(query, 1, key, -1, SQLITE_STATIC);
        while (code == SQLITE_OK && (code = sqlite3_step(query)) == SQLITE_ROW) {
            bl_kernel_row r = {.key = kernel_store_column(query, 0),
                               .device = kernel_store_column(query, 1),
                               .driver = kernel_store_column(query, 2),
                               .name = kernel_store_column(query, 3),
                               .nest = kernel_store_column(query, 4),
                               .moves = kernel_store_column(query, 5),
                               .version = sqlite3_column_int64(query, 6),
                               .width = sqlite3_column_int64(query, 7),
                               .tried = sqlite3_column_int64(query, 8),
                               .heuristic_ns = sqlite3_column_int64(query, 9),
                               .best_ns = sqlite3_column_int64(query, 10),
                               .searched = sqlite3_column_int64(query, 11)};
            code = row(arg, &r) ? SQLITE_OK : SQLITE_DONE;
        }
        sqlite3_finalize(query);
        if (code != SQLITE_DONE)
            failed(kernels, code, "read");
    }
    pthread_mutex_unlock(&kernels->lock);
    return code == SQLITE_DONE ? BL_OK : bl_fail(err, BL_EBUSY, "the kernel database cannot be read: %s", sqlite3_errstr(code));
}

bl_status bl_kernels_put(bl_kernels *kernels, const bl_kernel_row *row, bl_err *err)
{
    bl_move moves[BL_MAX_MOVES];
    int n = 0;
    bl_status st = BL_OK;

    if (strlen(row->key) != 16 || strspn(row->key, "0123456789abcdef") != 16)
        return bl_fail(err, BL_EINVAL, "\"%.40s\" is not the key of a kernel; a key has 16 hexadecimal digits", row->key);
    if (row->version == BL_MOVES_VERSION && !bl_moves_parse(row->moves, moves, &n))
        return bl_fail(err, BL_EINVAL, "\"%.200s\" is not a list of moves", row->moves);
    if (row->heuristic_ns < 0 || row->best_ns < 0 || row->width < 0 || row->tried < 0)
        return bl_fail(err, BL_EINVAL, "kernel %s has negative numbers", row->key);
    pthread_mutex_lock(&kernels->lock);
    st = write_row(kernels, row, true, err);
    kernel_store_forget(kernels); /* drop the cache: missing rows may exist now */
    pthread_mutex_unlock(&kernels->lock);
    return st;
}
