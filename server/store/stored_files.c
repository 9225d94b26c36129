/* SPDX-License-Identifier: MIT */
#include "server/store/stored_files.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/store/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SQL_BYTES = 256 };

/* Folders and tables are on disks of older servers, so these names never change. */
static const struct {
    const char *folder, *table;
} kinds[] = {
    [BL_STORED_TENSOR] = {"tensors", "tensors"},
    [BL_STORED_PROGRAM] = {"programs", "programs"},
    [BL_STORED_VERSION] = {"versions", "versions"},
    [BL_STORED_MODEL] = {"models", "sent_models"},
    [BL_STORED_JOB] = {"jobs", "jobs"},
};

char *bl_stored_path(const bl_server *server, bl_stored_kind kind, const char *name)
{
    bl_text path = {0};
    if (bl_storage_folder(server->storage) == NULL)
        return NULL;
    bl_text_printf(&path, "%s/%s/%s", bl_storage_folder(server->storage), kinds[kind].folder, name);
    if (!path.failed)
        return bl_text_take(&path);
    bl_text_fini(&path);
    return NULL;
}

uint64_t bl_stored_bytes(const bl_server *server, bl_stored_kind kind, const char *name)
{
    char *path = name[0] != '\0' ? bl_stored_path(server, kind, name) : NULL;
    struct stat info;
    uint64_t bytes = path != NULL && stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    free(path);
    return bytes;
}

/* ---- writing */

static bl_status draw_name(char name[BL_STORED_NAME], bl_err *err)
{
    uint64_t word[2] = {0};
    if (getrandom(word, sizeof word, 0) != (ssize_t)sizeof word)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a random name for a file");
    snprintf(name, BL_STORED_NAME, "%016llx%016llx", (unsigned long long)word[0], (unsigned long long)word[1]);
    return BL_OK;
}

static bl_status write_stored(const bl_server *server, const bl_stored_file *file, const char *name, bl_err *err)
{
    char *folder = bl_storage_make_folder(server->storage, kinds[file->kind].folder);
    char *path = bl_stored_path(server, file->kind, name);
    bl_status st = folder != NULL && path != NULL ? bl_file_replace(path, file->write, file->arg, err)
                                                  : bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be written");
    free(folder);
    free(path);
    return st;
}

bl_status bl_stored_put(const bl_server *server, const bl_stored_file *file, char name[BL_STORED_NAME], bl_err *err)
{
    char drawn[BL_STORED_NAME];
    const char *as = file->name != NULL ? file->name : drawn;
    uint64_t old = file->name != NULL ? bl_stored_bytes(server, file->kind, as) : 0;
    bl_status st = file->name != NULL ? BL_OK : draw_name(drawn, err);
    if (name != NULL)
        name[0] = '\0';
    BL_TRY(st);
    BL_TRY(bl_access_take_disk(server->access, file->owner, file->bytes, old + file->replaces, err));
    st = write_stored(server, file, as, err);
    bl_access_count_disk(server->access, file->owner, -(int64_t)(st == BL_OK ? old : file->bytes));
    if (st == BL_OK && file->insert != NULL) {
        st = file->insert(file->arg, as, err);
        if (st != BL_OK)
            bl_stored_remove(server, file->kind, file->owner, as);
    }
    if (st == BL_OK && name != NULL)
        snprintf(name, BL_STORED_NAME, "%s", as);
    return st;
}

/* ---- reading */

bl_status bl_stored_open(const bl_server *server, bl_stored_kind kind, const char *name, int *fd, uint64_t *bytes, bl_err *err)
{
    char *path = bl_stored_path(server, kind, name);
    struct stat info;
    *fd = -1;
    if (path == NULL) /* not BL_ESTORAGE: callers delete the row of a file that is missing */
        return bl_fail(err, BL_ENOMEM, "out of memory for the path of a stored file");
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (*fd >= 0 && fstat(*fd, &info) == 0) {
        *bytes = (uint64_t)info.st_size;
        return BL_OK;
    }
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    return bl_fail(err, BL_ESTORAGE, "its file cannot be opened: %s", strerror(errno));
}

static bool stored_files_take_name(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    snprintf(arg, BL_STORED_NAME, "%s", cells[0].bytes.data);
    return false;
}

bl_status bl_stored_find(const bl_server *server, bl_stored_kind kind, const char *where, int n, const bl_cell *cells,
                         char name[BL_STORED_NAME], bl_err *err)
{
    char sql[SQL_BYTES];
    name[0] = '\0';
    snprintf(sql, sizeof sql, "SELECT file FROM %s WHERE %s", kinds[kind].table, where);
    return bl_storage_run(server->storage, sql, n, cells, stored_files_take_name, name, err);
}

/* ---- removing */

void bl_stored_remove(const bl_server *server, bl_stored_kind kind, uint32_t owner, const char *name)
{
    char *path = name[0] != '\0' ? bl_stored_path(server, kind, name) : NULL;
    uint64_t bytes = bl_stored_bytes(server, kind, name);
    if (path != NULL && unlink(path) == 0)
        bl_access_count_disk(server->access, owner, -(int64_t)bytes);
    else if (path != NULL && errno != ENOENT)
        bl_log(BL_LOG_WARN, "%s cannot be removed: %s", path, strerror(errno));
    free(path);
}

static bool stored_files_add_name(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    bl_text_append(arg, cells[0].bytes.data, cells[0].bytes.len + 1);
    return true;
}

bl_status bl_stored_delete(const bl_server *server, bl_stored_kind kind, uint32_t owner, const char *where, int n,
                           const bl_cell *cells, bl_err *err)
{
    char sql[SQL_BYTES];
    bl_text names = {0}; /* the names of the files, each ending with a NUL */
    bl_status st = BL_OK;
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s RETURNING file", kinds[kind].table, where);
    st = bl_storage_run(server->storage, sql, n, cells, stored_files_add_name, &names, err);
    for (size_t at = 0; st == BL_OK && !names.failed && at < names.len;
         /* if the list is incomplete for lack of memory, the next start removes the other files */
         at += strlen(names.data + at) + 1)
        bl_stored_remove(server, kind, owner, names.data + at);
    bl_text_fini(&names);
    return st;
}

/* ---- at the start */

void bl_stored_each(const bl_server *server, bl_stored_kind kind, const char *below, void (*each)(void *arg, const char *name),
                    void *arg)
{
    char *path = bl_stored_path(server, kind, below);
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            each(arg, entry->d_name);
    if (folder != NULL)
        (void)closedir(folder);
    free(path);
}

typedef struct named_files {
    const bl_server *server;
    bl_stored_kind kind;
    bl_namemap *names;
    bl_err err;
} named_files;

static bool note_name(void *arg, const bl_cell *cells, int n)
{
    named_files *all = arg;
    const char *name = cells[0].bytes.data;
    (void)n;
    bl_access_count_disk(all->server->access, (uint32_t)cells[1].integer, (int64_t)bl_stored_bytes(all->server, all->kind, name));
    return bl_namemap_put(all->names, name, all, &all->err) == BL_OK;
}

/* The file has no row and no charge. */
static void remove_unnamed(void *arg, const char *name)
{
    const named_files *all = arg;
    char *path = bl_namemap_get(all->names, name) == NULL ? bl_stored_path(all->server, all->kind, name) : NULL;
    if (path != NULL)
        (void)unlink(path);
    free(path);
}

static bl_status stored_files_sweep(const bl_server *server, bl_stored_kind kind, bl_err *err)
{
    named_files all = {.server = server, .kind = kind, .names = bl_namemap_create()};
    char sql[SQL_BYTES];
    bl_status st = all.names != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for names of files");
    snprintf(sql, sizeof sql, "SELECT file, owner FROM %s", kinds[kind].table);
    if (st == BL_OK)
        st = bl_storage_run(server->storage, sql, 0, NULL, note_name, &all, err);
    if (st == BL_OK && all.err.status != BL_OK)
        st = bl_fail(err, all.err.status, "%s", all.err.text);
    if (st == BL_OK)
        bl_stored_each(server, kind, "", remove_unnamed, &all);
    bl_namemap_destroy(all.names);
    return st;
}

bl_status bl_stored_load(const bl_server *server, bl_stored_kind kind, const char *sql, bl_storage_row row, void *arg,
                         bl_err *err)
{
    BL_TRY(stored_files_sweep(server, kind, err));
    return bl_storage_each(server->storage, sql, row, arg, err);
}
