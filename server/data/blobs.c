/* SPDX-License-Identifier: MIT */
#include "server/data/blobs.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "engine/base/log.h"
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/data/file_hash.h"
#include "server/http/handlers.h"
#include "server/store/disk.h"
#include "server/store/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    HEX = BL_SHA256_HEX,
    NAME_BYTES = 96,          /* size of a file name: "4294967295-" and a digest, ".part" */
    CHUNK_BYTES = 256 * 1024, /* size of the chunk of an upload in memory */
    PART_SECONDS = 24 * 3600  /* seconds after which an unfinished upload is removed at the start */
};

struct bl_blobs {
    bl_server *server;
    char *folder;
    bool passing;         /* the folder is temporary */
    int dir;              /* descriptor of the folder: files are opened relative to it */
    atomic_ullong bytes;  /* bytes of all files in the folder */
    pthread_mutex_t lock; /* held while a file and its row are added or removed together */
    pthread_mutex_t part; /* held from opening a part until the part is locked or closed again */
};

/* ---- names */

/* Read the digits of "sha256:DIGITS", in lower case. */
static bl_status read_digest(const char *text, char hex[HEX + 1], bl_err *err)
{
    if (strncmp(text, "sha256:", 7) != 0 || strlen(text) != 7 + HEX || strspn(text + 7, "0123456789abcdef") != HEX)
        return bl_fail(err, BL_EINVAL,
                       "the name of a blob must be sha256: and 64 hexadecimal digits in lower case, not \"%.80s\"", text);
    memcpy(hex, text + 7, HEX + 1);
    return BL_OK;
}

/* The file name of |owner|'s unfinished upload. */
static void part_name(uint32_t owner, const char *hex, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%u-%s.part", owner, hex);
}

static bool blobs_is_part(const char *name)
{
    size_t len = strlen(name);
    return len > 5 && strcmp(name + len - 5, ".part") == 0;
}

static uint64_t blobs_size_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_size > 0 ? (uint64_t)info.st_size : 0;
}

/* ---- lifetime */

static bool has_row(void *arg, const bl_cell *cells, int n)
{
    (void)cells;
    (void)n;
    *(bool *)arg = true;
    return false;
}

/* Does any key own the blob |hex|?  True if the store cannot tell. */
static bool is_owned(bl_blobs *blobs, const char *hex)
{
    bl_err err = {0};
    bool found = false;
    return bl_storage_run(blobs->server->storage, "SELECT 1 FROM blobs WHERE digest = ?1", BL_CELLS(bl_cell_text(hex)), has_row,
                          &found, &err) != BL_OK ||
           found;
}

static bool count_owner(void *arg, const bl_cell *cells, int n)
{
    bl_blobs *blobs = arg;
    (void)n;
    bl_access_count_disk(blobs->server->access, (uint32_t)cells[0].integer, cells[1].integer);
    return true;
}

/* Charge |bytes| of the file |name| to its owner, if the file is an unfinished upload.  A blob is charged by its rows. */
static void count_part(bl_blobs *blobs, const char *name, int64_t bytes)
{
    if (blobs_is_part(name))
        bl_access_count_disk(blobs->server->access, (uint32_t)strtoul(name, NULL, 10), bytes);
}

/* Call |each| for every file of the folder.  |each| may remove the file. */
static void each_file(bl_blobs *blobs, void (*each)(bl_blobs *blobs, const char *name, const struct stat *info))
{
    DIR *folder = opendir(blobs->folder);
    const struct dirent *entry = NULL;
    struct stat info;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && fstatat(blobs->dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            each(blobs, entry->d_name, &info);
    if (folder != NULL)
        (void)closedir(folder);
}

/* Count the file; an unfinished upload is charged to its owner too. */
static void count_file(bl_blobs *blobs, const char *name, const struct stat *info)
{
    atomic_fetch_add(&blobs->bytes, (unsigned long long)info->st_size);
    count_part(blobs, name, info->st_size);
}

/* Remove a file and its charge; false if there is no such file. */
static bool blobs_remove_file(bl_blobs *blobs, const char *name)
{
    struct stat info;
    if (fstatat(blobs->dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || unlinkat(blobs->dir, name, 0) != 0)
        return false;
    atomic_fetch_sub(&blobs->bytes, (unsigned long long)info.st_size);
    count_part(blobs, name, -info.st_size);
    return true;
}

/* Remove the files that a crashed server left: blobs without a row, and old unfinished uploads. */
static void clean_file(bl_blobs *blobs, const char *name, const struct stat *info)
{
    bool old = info->st_mtime + PART_SECONDS < time(NULL);
    if (blobs_is_part(name) ? old : strlen(name) == HEX && !is_owned(blobs, name))
        (void)unlinkat(blobs->dir, name, 0);
}

static void unlink_file(bl_blobs *blobs, const char *name, const struct stat *info)
{
    (void)info;
    (void)unlinkat(blobs->dir, name, 0);
}

/* Create a temporary folder, which lives as long as the server. */
static char *make_passing(void)
{
    bl_text path = {0};
    bl_text_printf(&path, "%s/beamline-XXXXXX", bl_passing_folder());
    if (path.failed || mkdtemp(path.data) == NULL) {
        bl_text_fini(&path);
        return NULL;
    }
    return bl_text_take(&path);
}

bl_status bl_blobs_create(bl_server *server, bl_blobs **out, bl_err *err)
{
    bl_blobs *blobs = bl_calloc(1, sizeof *blobs);
    *out = NULL;
    if (blobs == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for blobs");
    blobs->server = server;
    pthread_mutex_init(&blobs->lock, NULL);
    pthread_mutex_init(&blobs->part, NULL);
    blobs->passing = bl_storage_folder(server->storage) == NULL;
    blobs->folder = blobs->passing ? make_passing() : bl_storage_make_folder(server->storage, "blobs");
    blobs->dir = blobs->folder != NULL ? open(blobs->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (blobs->dir < 0) {
        bl_blobs_destroy(blobs);
        return bl_fail(err, BL_ESTORAGE, "the folder for blobs cannot be opened: %s", strerror(errno));
    }
    each_file(blobs, clean_file);
    each_file(blobs, count_file);
    *out = blobs;
    return bl_storage_run(server->storage, "SELECT owner, sum(bytes) FROM blobs GROUP BY owner", 0, NULL, count_owner, blobs,
                          err);
}

void bl_blobs_destroy(bl_blobs *blobs)
{
    if (blobs == NULL)
        return;
    if (blobs->passing && blobs->dir >= 0)
        each_file(blobs, unlink_file);
    if (blobs->passing && blobs->folder != NULL)
        (void)rmdir(blobs->folder);
    if (blobs->dir >= 0)
        (void)close(blobs->dir);
    pthread_mutex_destroy(&blobs->lock);
    pthread_mutex_destroy(&blobs->part);
    free(blobs->folder);
    free(blobs);
}

/* ---- look-up */

typedef struct row {
    bool found;
    uint64_t bytes;
} row;

static bool blobs_read_row(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    *(row *)arg = (row){true, (uint64_t)cells[0].integer};
    return false;
}

static bl_status blobs_find_row(bl_blobs *blobs, uint32_t owner, const char *hex, row *out, bl_err *err)
{
    *out = (row){0};
    return bl_storage_run(blobs->server->storage, "SELECT bytes FROM blobs WHERE owner = ?1 AND digest = ?2",
                          BL_CELLS(bl_cell_int(owner), bl_cell_text(hex)), blobs_read_row, out, err);
}

bl_status bl_blobs_open(bl_blobs *blobs, uint32_t owner, const char *digest, int *fd, uint64_t *bytes, bl_err *err)
{
    char hex[HEX + 1];
    row found;
    *fd = -1;
    BL_TRY(read_digest(digest, hex, err));
    BL_TRY(blobs_find_row(blobs, owner, hex, &found, err));
    if (!found.found)
        return bl_fail(err, BL_ENOTFOUND, "there is no blob %.80s", digest);
    *fd = openat(blobs->dir, hex, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*fd < 0 || blobs_size_of(*fd) != found.bytes) {
        if (*fd >= 0)
            (void)close(*fd);
        *fd = -1;
        return bl_fail(err, BL_ESTORAGE, "the file of the blob is damaged; delete it and send it again");
    }
    *bytes = found.bytes;
    return BL_OK;
}

/* ---- an upload */

typedef struct upload {
    bl_intake intake; /* first member: bl_intake * converts */
    bl_blobs *blobs;
    uint32_t owner;
    char hex[HEX + 1];
    int fd;            /* descriptor of the part file; locked while a request writes the file */
    uint64_t received; /* bytes in the file */
    uint64_t total;    /* size of the blob; 0: unknown until the body ends */
    uint64_t end;      /* end of the bytes of this request; UINT64_MAX: unknown */
    bool asks;         /* the request is a query without data: "bytes * /TOTAL" */
    bool there;        /* the owner already has the blob, so repeated bytes are dropped */
    bool put;          /* the digest matched and the blob is stored */
    char *chunk;
    size_t filled;
} upload;

/* The bytes are charged before the check, since other uploads charge at the same time. */
bl_status bl_blobs_take(bl_blobs *blobs, uint64_t bytes, bl_err *err)
{
    uint64_t limit = blobs->server->settings.max_blobs;
    if (atomic_fetch_add(&blobs->bytes, bytes) + bytes <= limit)
        return BL_OK;
    atomic_fetch_sub(&blobs->bytes, bytes);
    return bl_fail(err, BL_ESTORAGE,
                   "blobs and uploaded models would exceed the limit of %llu bytes together (--max-blobs); delete some",
                   (unsigned long long)limit);
}

void bl_blobs_count(bl_blobs *blobs, uint64_t bytes)
{
    atomic_fetch_add(&blobs->bytes, bytes);
}

void bl_blobs_give(bl_blobs *blobs, uint64_t bytes)
{
    atomic_fetch_sub(&blobs->bytes, bytes);
}

/* Charge the next bytes of the part. */
static bl_status take_room(upload *up, uint64_t bytes, bl_err *err)
{
    bl_server *server = up->blobs->server;
    if (up->blobs->passing)
        BL_TRY(bl_disk_check_free(up->fd, bytes, server->settings.min_free, err));
    BL_TRY(bl_blobs_take(up->blobs, bytes, err));
    if (bl_access_take_disk(server->access, up->owner, bytes, 0, err) != BL_OK)
        bl_blobs_give(up->blobs, bytes);
    return err->status;
}

static void give_room(upload *up, uint64_t bytes)
{
    bl_blobs_give(up->blobs, bytes);
    bl_access_count_disk(up->blobs->server->access, up->owner, -(int64_t)bytes);
}

/* Write the chunk to the file.  Bytes that cannot be written are dropped, and the answer tells the client how many bytes are
 * stored. */
static bl_status write_out(upload *up, bl_err *err)
{
    size_t bytes = up->filled;
    struct stat info;
    up->filled = 0;
    up->received += up->there ? bytes : 0;
    if (bytes == 0 || up->there)
        return BL_OK;
    if (fstat(up->fd, &info) != 0 || info.st_nlink == 0)
        return bl_fail(err, BL_ECONFLICT, "the upload was deleted");
    BL_TRY(take_room(up, bytes, err));
    if (!bl_write_all(up->fd, up->chunk, bytes)) {
        give_room(up, bytes);
        return bl_fail(err, BL_ESTORAGE, "the blob cannot be written: %s", strerror(errno));
    }
    up->received += bytes;
    return BL_OK;
}

/* Close the part before the answer is sent: the next request of the client may arrive before this request has ended. */
static void blobs_let_go(upload *up)
{
    if (up->fd >= 0)
        (void)close(up->fd);
    up->fd = -1;
}

static bl_status next_room(upload *up, char **at, size_t *room, bl_err *err)
{
    uint64_t left = 0;
    if (up->filled == CHUNK_BYTES)
        BL_TRY(write_out(up, err));
    left = up->end - up->received - up->filled;
    if (left == 0)
        return bl_fail(err, BL_EINVAL, "the body has more bytes than its Content-Range says");
    if (up->filled == 0 && !up->there) { /* check the room before more of the body is read */
        BL_TRY(take_room(up, 1, err));
        give_room(up, 1);
    }
    *at = up->chunk + up->filled;
    *room = CHUNK_BYTES - up->filled;
    if (*room > left)
        *room = (size_t)left;
    return BL_OK;
}

static bl_status blobs_find_room(bl_intake *intake, char **at, size_t *room, bl_err *err)
{
    upload *up = (upload *)intake;
    bl_status st = next_room(up, at, room, err);
    if (st != BL_OK && up->filled > 0 && write_out(up, err) != BL_OK)
        bl_log(BL_LOG_WARN, "the received part of a blob cannot be written to the disk");
    if (st != BL_OK)
        blobs_let_go(up);
    return st;
}

static void blobs_commit(bl_intake *intake, size_t bytes)
{
    ((upload *)intake)->filled += bytes;
}

static bool blobs_is_whole(const bl_intake *intake)
{
    const upload *up = (const upload *)intake;
    return up->received + up->filled == up->end;
}

/* Keep the received bytes, so that the client can resume. */
static void end_upload(void *arg)
{
    upload *up = arg;
    bl_err err = {0};
    if (up->fd >= 0 && write_out(up, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "%s", err.text);
    blobs_let_go(up);
    free(up->chunk);
}

/* Read "bytes 0-99/1000", with the last byte included, "bytes 0-99/ *" or "bytes * /1000" (RFC 9110, 14.4 and 14.5). */
static bl_status blobs_read_range(const char *text, uint64_t *first, uint64_t *end, uint64_t *total, bool *asks, bl_err *err)
{
    unsigned long long from = 0, last = 0, all = 0;
    int used = 0;
    size_t len = strlen(text);
    *asks = sscanf(text, "bytes */%llu%n", &all, &used) == 1 && (size_t)used == len && all > 0;
    *total = all;
    if (*asks)
        return BL_OK;
    used = 0;
    if ((sscanf(text, "bytes %llu-%llu/%llu%n", &from, &last, &all, &used) != 3 || (size_t)used != len) &&
        (sscanf(text, "bytes %llu-%llu/*%n", &from, &last, &used) != 2 || (size_t)used != len))
        return bl_fail(
            err, BL_EINVAL,
            "Content-Range must be \"bytes FIRST-LAST/TOTAL\", or \"bytes */TOTAL\" to ask how many bytes the server has");
    if (strpbrk(text, "+") != NULL || strchr(text, '-') != strrchr(text, '-') || last < from || last >= INT64_MAX ||
        (all > 0 && last >= all))
        return bl_fail(err, BL_EINVAL, "Content-Range: %.60s is not a valid range", text);
    *first = from;
    *end = last + 1;
    *total = all;
    return BL_OK;
}

/* Is |fd| still the file |name|?  The file may have been renamed or removed between its opening and its locking. */
static bool blobs_is_named(const bl_blobs *blobs, int fd, const char *name)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && fstatat(blobs->dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && here.st_ino == there.st_ino;
}

static bl_status blobs_open_part(upload *up, bl_err *err)
{
    char name[NAME_BYTES];
    part_name(up->owner, up->hex, name);
    up->fd = openat(up->blobs->dir, name, O_RDWR | (up->asks ? 0 : O_CREAT) | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (up->fd < 0 && up->asks && errno == ENOENT)
        return BL_OK;
    if (up->fd < 0)
        return bl_fail(err, BL_ESTORAGE, "the blob cannot be written: %s", strerror(errno));
    if (flock(up->fd, LOCK_EX | LOCK_NB) != 0 || !blobs_is_named(up->blobs, up->fd, name)) {
        blobs_let_go(up);
        return bl_fail(err, BL_ECONFLICT, "another request is sending this blob");
    }
    up->received = blobs_size_of(up->fd);
    if (up->asks && up->received != up->total) /* a query closes the file at once, so that it does not block an upload */
        blobs_let_go(up);
    return BL_OK;
}

/* Open and lock the file to which bytes are appended, for this request alone; a query does not create the file. */
static bl_status blobs_take_part(upload *up, bl_err *err)
{
    bl_status st = BL_OK;
    pthread_mutex_lock(&up->blobs->part);
    st = blobs_open_part(up, err);
    pthread_mutex_unlock(&up->blobs->part);
    return st;
}

/* Find out whether the owner already has the blob.  If so, bytes from |first| on are counted and dropped. */
static bl_status find_whole(upload *up, uint64_t first, bl_err *err)
{
    uint64_t size = 0;
    row found;
    BL_TRY(blobs_find_row(up->blobs, up->owner, up->hex, &found, err));
    if (!found.found)
        return BL_OK;
    size = up->total > 0 ? up->total : up->end;
    if (up->total > 0 ? size != found.bytes : size > found.bytes)
        return bl_fail(err, BL_ECONFLICT, "the server has the blob already, with %llu bytes, not %llu",
                       (unsigned long long)found.bytes, (unsigned long long)size);
    up->there = up->put = true;
    up->total = found.bytes;
    up->received = up->asks ? found.bytes : first;
    return BL_OK;
}

/* Find the state of a blob for a piece or a query.  The blob may be completed between the two look-ups, so a query looks
 * twice. */
static bl_status find_rest(upload *up, uint64_t first, bl_err *err)
{
    BL_TRY(find_whole(up, first, err));
    if (up->there)
        return BL_OK;
    BL_TRY(blobs_take_part(up, err));
    return up->asks && up->received == 0 ? find_whole(up, first, err) : BL_OK;
}

static bl_status check_range(bl_request *rq, upload *up, uint64_t first)
{
    bl_err *err = &rq->err;
    if (rq->head.content_range == NULL) { /* the body is the whole blob, from its first byte */
        if (ftruncate(up->fd, 0) != 0)
            return bl_fail(err, BL_ESTORAGE, "the blob cannot be written: %s", strerror(errno));
        give_room(up, up->received);
        up->received = 0;
    } else if (!up->asks && first != up->received) {
        return bl_fail(err, BL_ECONFLICT,
                       "the server has %llu bytes of the blob: continue with \"bytes %llu-...\", not with byte %llu",
                       (unsigned long long)up->received, (unsigned long long)up->received, (unsigned long long)first);
    }
    if (up->total > 0 && up->received > up->total)
        return bl_fail(err, BL_ECONFLICT, "the server has %llu bytes of the upload, more than the %llu of the blob",
                       (unsigned long long)up->received, (unsigned long long)up->total);
    return BL_OK;
}

bl_status bl_blobs_begin(bl_request *rq, bool coded)
{
    upload *up = bl_arena_alloc(rq->arena, sizeof *up);
    uint64_t first = 0;
    if (up == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *up = (upload){.intake = {blobs_find_room, blobs_commit, blobs_is_whole, NULL},
                   .blobs = rq->server->blobs,
                   .owner = rq->owner,
                   .fd = -1,
                   .end = UINT64_MAX};
    BL_TRY(bl_request_defer(rq, end_upload, up));
    BL_TRY(bl_storage_check(rq->server->storage, &rq->err));
    BL_TRY(read_digest(rq->head.param[0], up->hex, &rq->err));
    if (rq->head.content_range != NULL)
        BL_TRY(blobs_read_range(rq->head.content_range, &first, &up->end, &up->total, &up->asks, &rq->err));
    if (!coded && rq->head.content_length > 0 && up->end != UINT64_MAX && rq->head.content_length != up->end - first)
        return bl_fail(&rq->err, BL_EINVAL, "Content-Range has %llu bytes, but Content-Length is %llu",
                       (unsigned long long)(up->end - first), (unsigned long long)rq->head.content_length);
    BL_TRY(rq->head.content_range != NULL ? find_rest(up, first, &rq->err) : blobs_take_part(up, &rq->err));
    if (check_range(rq, up, first) != BL_OK) {
        blobs_let_go(up);
        return rq->err.status;
    }
    up->chunk = malloc(CHUNK_BYTES);
    if (up->chunk == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a chunk of the upload");
    if (up->asks)
        up->end = up->received;
    rq->body.intake = &up->intake;
    return BL_OK;
}

/* ---- the end of an upload */

/* Put the blob; under the lock.  The file gets its final name before the row is inserted, so that every row has a file. */
static bl_status blobs_put_locked(upload *up, bl_err *err)
{
    bl_blobs *blobs = up->blobs;
    char name[NAME_BYTES];
    bl_status st = BL_OK;
    int64_t rows = 0;
    /* an equal file exists; the rename replaces it */
    bool again = faccessat(blobs->dir, up->hex, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    part_name(up->owner, up->hex, name);
    if (renameat(blobs->dir, name, blobs->dir, up->hex) != 0 || fsync(blobs->dir) != 0)
        return bl_fail(err, BL_ESTORAGE, "the blob cannot be stored: %s", strerror(errno));
    if (again)
        atomic_fetch_sub(&blobs->bytes, up->received);
    st = bl_storage_change(
        blobs->server->storage, "INSERT OR IGNORE INTO blobs (owner, digest, bytes, created) VALUES (?1, ?2, ?3, ?4)",
        BL_CELLS(bl_cell_int(up->owner), bl_cell_text(up->hex), bl_cell_int((int64_t)up->received), bl_cell_int(time(NULL))),
        &rows, err);
    if (rows == 0) /* the owner already had the blob, or the insertion failed */
        bl_access_count_disk(blobs->server->access, up->owner, -(int64_t)up->received);
    return st;
}

static bl_status put_blob(upload *up, bl_err *err)
{
    bl_status st = BL_OK;
    if (fsync(up->fd) != 0)
        return bl_fail(err, BL_ESTORAGE, "the blob cannot be stored: %s", strerror(errno));
    pthread_mutex_lock(&up->blobs->lock);
    st = blobs_put_locked(up, err);
    pthread_mutex_unlock(&up->blobs->lock);
    return st;
}

static bl_status check_blob(upload *up, bl_err *err)
{
    char hex[HEX + 1] = "", name[NAME_BYTES];
    BL_TRY(bl_file_hash(up->fd, GNUTLS_DIG_SHA256, (bl_span){0}, hex, err));
    if (strcmp(hex, up->hex) == 0)
        return put_blob(up, err);
    part_name(up->owner, up->hex, name);
    (void)blobs_remove_file(up->blobs, name);
    return bl_fail(err, BL_EGRAPH, "the %llu bytes have the hash sha256:%s, not the hash in the address; nothing was stored",
                   (unsigned long long)up->received, hex);
}

/* Check the digest on a compile thread, since reading the file takes long. */
static bl_step check_work(bl_request *rq)
{
    upload *up = (upload *)rq->body.intake;
    up->put = check_blob(up, &rq->err) == BL_OK;
    blobs_let_go(up);
    return BL_STEP_DONE;
}

/* |total| UINT64_MAX: unknown. */
static void blobs_put_state(bl_text *out, const char *hex, uint64_t received, uint64_t total)
{
    bl_text_puts(out, "{");
    bl_encode_key(out, "digest");
    bl_text_printf(out, "\"sha256:%s\"", hex);
    bl_encode_key(out, "received");
    bl_encode_u64(out, received);
    if (total != UINT64_MAX) {
        bl_encode_key(out, "bytes");
        bl_encode_u64(out, total);
    }
    bl_text_puts(out, "}");
}

static bl_status reply_upload(bl_request *rq)
{
    upload *up = (upload *)rq->body.intake;
    blobs_put_state(&rq->reply.out, up->hex, up->received, up->put ? up->received : up->total > 0 ? up->total : UINT64_MAX);
    bl_request_reply_json(rq, up->put ? 201 : 202);
    return BL_OK;
}

/* Write the last bytes to the file.  *whole: the blob is complete. */
static bl_status blobs_end_body(const bl_request *rq, upload *up, bool *whole, bl_err *err)
{
    BL_TRY(write_out(up, err));
    if (rq->head.content_range != NULL && !up->asks && up->received != up->end)
        return bl_fail(err, BL_EINVAL, "the body is shorter than its Content-Range; the server has %llu bytes of the blob",
                       (unsigned long long)up->received);
    if (up->there)
        up->received = up->total;
    *whole = !up->there && (rq->head.content_range == NULL || up->received == up->total);
    return BL_OK;
}

bl_status bl_handle_blob_put(bl_request *rq)
{
    upload *up = NULL;
    bool whole = false;
    bl_status st = BL_OK;
    if (rq->body.intake == NULL)
        BL_TRY(bl_blobs_begin(rq, false)); /* no byte arrived: the request is a query or puts the empty blob */
    up = (upload *)rq->body.intake;
    st = blobs_end_body(rq, up, &whole, &rq->err);
    rq->then = reply_upload;
    if (st == BL_OK && whole)
        return bl_request_submit(rq, rq->server->compiler, check_work, NULL);
    blobs_let_go(up);
    return st == BL_OK ? reply_upload(rq) : st;
}

/* ---- other routes */

bl_status bl_handle_blob_get(bl_request *rq)
{
    BL_TRY(bl_blobs_open(rq->server->blobs, rq->owner, rq->head.param[0], &rq->reply.file, &rq->reply.file_bytes, &rq->err));
    bl_request_reply_file(rq, "application/octet-stream");
    return BL_OK;
}

static bool blobs_list_entry(void *arg, const bl_cell *cells, int n)
{
    bl_text *out = arg;
    (void)n;
    if (bl_text_last(out) == '}')
        bl_text_puts(out, ",");
    bl_text_puts(out, "{");
    bl_encode_key(out, "digest");
    bl_text_printf(out, "\"sha256:%s\"", cells[0].bytes.data);
    bl_encode_key(out, "bytes");
    bl_encode_u64(out, (uint64_t)cells[1].integer);
    bl_encode_key(out, "created");
    bl_encode_u64(out, (uint64_t)cells[2].integer);
    bl_text_puts(out, "}");
    return !out->failed;
}

bl_status bl_handle_blobs_list(bl_request *rq)
{
    bl_text_puts(&rq->reply.out, "{\"blobs\":[");
    BL_TRY(bl_text_status(&rq->reply.out, &rq->err));
    BL_TRY(bl_storage_run(rq->server->storage,
                          "SELECT digest, bytes, created FROM blobs WHERE owner = ?1 ORDER BY created, digest",
                          BL_CELLS(bl_cell_int(rq->owner)), blobs_list_entry, &rq->reply.out, &rq->err));
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* Delete a blob; under the lock.  Open descriptors keep the file readable until they are closed. */
static bl_status delete_locked(bl_blobs *blobs, uint32_t owner, const char *hex, bool *gone, bl_err *err)
{
    row was = {0};
    BL_TRY(bl_storage_run(blobs->server->storage, "DELETE FROM blobs WHERE owner = ?1 AND digest = ?2 RETURNING bytes",
                          BL_CELLS(bl_cell_int(owner), bl_cell_text(hex)), blobs_read_row, &was, err));
    bl_access_count_disk(blobs->server->access, owner, -(int64_t)was.bytes);
    if (was.found && !is_owned(blobs, hex))
        (void)blobs_remove_file(blobs, hex);
    *gone = was.found || *gone;
    return BL_OK;
}

/* Delete an unfinished upload; BL_ECONFLICT while a request sends more bytes. */
static bl_status delete_part(bl_blobs *blobs, uint32_t owner, const char *hex, bool *gone, bl_err *err)
{
    char part[NAME_BYTES];
    int fd = -1;
    part_name(owner, hex, part);
    pthread_mutex_lock(&blobs->part);
    fd = openat(blobs->dir, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        *gone = (blobs_is_named(blobs, fd, part) && blobs_remove_file(blobs, part)) || *gone;
    else if (fd >= 0)
        (void)bl_fail(err, BL_ECONFLICT, "another request is sending this blob");
    if (fd >= 0)
        (void)close(fd);
    pthread_mutex_unlock(&blobs->part);
    return err->status;
}

typedef struct digest {
    bool found;
    char hex[HEX + 1];
} digest;

static bool take_digest(void *arg, const bl_cell *cells, int n)
{
    digest *one = arg;
    (void)n;
    one->found = true;
    snprintf(one->hex, sizeof one->hex, "%s", cells[0].bytes.data);
    return false;
}

static void remove_parts(bl_blobs *blobs, uint32_t owner)
{
    DIR *folder = opendir(blobs->folder);
    const struct dirent *entry = NULL;
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%u-", owner);
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            (void)blobs_remove_file(blobs, entry->d_name);
    if (folder != NULL)
        (void)closedir(folder);
}

bl_status bl_blobs_purge(bl_blobs *blobs, uint32_t owner, bl_err *err)
{
    digest one = {.found = true};
    bl_status st = BL_OK;
    bool gone = false;
    remove_parts(blobs, owner);
    while (st == BL_OK && one.found) {
        one.found = false;
        pthread_mutex_lock(&blobs->lock);
        st = bl_storage_run(blobs->server->storage, "SELECT digest FROM blobs WHERE owner = ?1 LIMIT 1",
                            BL_CELLS(bl_cell_int(owner)), take_digest, &one, err);
        if (st == BL_OK && one.found)
            st = delete_locked(blobs, owner, one.hex, &gone, err);
        pthread_mutex_unlock(&blobs->lock);
    }
    return st;
}

static bl_status blobs_reply_deleted(bl_request *rq)
{
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

/* Delete on a compile thread, since a commit waits for the disk. */
static bl_step delete_work(bl_request *rq)
{
    bl_blobs *blobs = rq->server->blobs;
    char hex[HEX + 1];
    bool gone = false;
    if (read_digest(rq->head.param[0], hex, &rq->err) != BL_OK || delete_part(blobs, rq->owner, hex, &gone, &rq->err) != BL_OK)
        return BL_STEP_DONE;
    pthread_mutex_lock(&blobs->lock);
    if (delete_locked(blobs, rq->owner, hex, &gone, &rq->err) == BL_OK && !gone)
        (void)bl_fail(&rq->err, BL_ENOTFOUND, "there is no blob %.80s", rq->head.param[0]);
    pthread_mutex_unlock(&blobs->lock);
    return BL_STEP_DONE;
}

bl_status bl_handle_blob_delete(bl_request *rq)
{
    rq->then = blobs_reply_deleted;
    return bl_request_submit(rq, rq->server->compiler, delete_work, NULL);
}
