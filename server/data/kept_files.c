/* SPDX-License-Identifier: MIT */
#include "server/data/kept.h"

#include "engine/base/file.h"
#include "server/access/access.h"
#include "server/store/names.h"
#include "server/store/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path FOLDER/part/name; the caller frees it.  NULL without a folder, or if out of memory. */
static char *path_of(const bl_server *server, const char *part, const char *name)
{
    bl_text path = {0};
    if (bl_storage_folder(server->storage) == NULL)
        return NULL;
    bl_text_printf(&path, "%s/%s/%s", bl_storage_folder(server->storage), part, name);
    if (!path.failed)
        return bl_text_take(&path);
    bl_text_fini(&path);
    return NULL;
}

static bl_status write_new(const bl_server *server, const bl_kept_file *file, char name[BL_KEPT_NAME], bl_err *err)
{
    char *folder = bl_storage_make_folder(server->storage, file->part), *path = NULL;
    uint64_t word[2] = {0};
    bl_status st = BL_OK;
    if (getrandom(word, sizeof word, 0) != (ssize_t)sizeof word)
        st = bl_fail(err, BL_ENOMEM, "the file has no name");
    snprintf(name, BL_KEPT_NAME, "%016llx%016llx", (unsigned long long)word[0], (unsigned long long)word[1]);
    path = path_of(server, file->part, name);
    if (st == BL_OK && (folder == NULL || path == NULL))
        st = bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be written");
    if (st == BL_OK)
        st = bl_file_replace(path, file->write, file->arg, err);
    free(folder);
    free(path);
    return st;
}

bl_status bl_kept_write(const bl_server *server, const bl_kept_file *file, char name[BL_KEPT_NAME], bl_err *err)
{
    bl_status st = BL_OK;
    BL_TRY(bl_access_take_disk(server->access, file->owner, file->bytes, file->replaces, err));
    st = write_new(server, file, name, err);
    if (st != BL_OK)
        bl_access_count_disk(server->access, file->owner, -(int64_t)file->bytes);
    return st;
}

uint64_t bl_kept_bytes(const bl_server *server, const char *part, const char *name)
{
    char *path = name[0] != '\0' ? path_of(server, part, name) : NULL;
    struct stat info;
    uint64_t bytes = path != NULL && stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    free(path);
    return bytes;
}

bl_status bl_kept_open(const bl_server *server, const char *part, const char *name, int *fd, uint64_t *bytes, bl_err *err)
{
    char *path = path_of(server, part, name);
    struct stat info;
    *fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
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

void bl_kept_remove(const bl_server *server, uint32_t owner, const char *part, const char *name)
{
    char *path = name[0] != '\0' ? path_of(server, part, name) : NULL;
    uint64_t bytes = bl_kept_bytes(server, part, name);
    if (path != NULL && unlink(path) == 0)
        bl_access_count_disk(server->access, owner, -(int64_t)bytes);
    free(path);
}

typedef struct known {
    const bl_server *server;
    const char *part;
    bl_namemap *names;
    bl_err err;
} known;

static bool note_name(void *arg, const bl_cell *cells, int n)
{
    known *all = arg;
    const char *name = cells[0].bytes.data;
    uint64_t bytes = bl_kept_bytes(all->server, all->part, name);
    (void)n;
    bl_access_count_disk(all->server->access, (uint32_t)cells[1].integer, (int64_t)bytes);
    return bl_namemap_put(all->names, name, all, &all->err) == BL_OK;
}

static void remove_others(const bl_server *server, const char *part, const bl_namemap *names)
{
    char *path = path_of(server, part, "");
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && bl_namemap_get(names, entry->d_name) == NULL)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        (void)closedir(folder);
    free(path);
}

bl_status bl_kept_sweep(const bl_server *server, const char *part, const char *sql, bl_err *err)
{
    known all = {.server = server, .part = part, .names = bl_namemap_create()};
    bl_status st = all.names != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "names of files");
    if (st == BL_OK)
        st = bl_storage_run(server->storage, sql, 0, NULL, note_name, &all, err);
    if (st == BL_OK && all.err.status != BL_OK)
        st = bl_fail(err, all.err.status, "%s", all.err.text);
    if (st == BL_OK)
        remove_others(server, part, all.names);
    bl_namemap_destroy(all.names);
    return st;
}

bool bl_kept_take(void *name, const bl_cell *cells, int n)
{
    (void)n;
    snprintf(name, BL_KEPT_NAME, "%s", cells[0].bytes.data);
    return false;
}
