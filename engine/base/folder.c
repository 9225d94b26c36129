/* SPDX-License-Identifier: MIT */
#include "engine/base/folder.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    UNFINISHED_SECONDS = 3600, /* age in seconds at which an unfinished file counts as abandoned */
    SMALLEST = 512             /* smallest size that a file counts for: a folder entry and a disk block */
};

/* The files that bl_cache_trim may delete. It touches no other file in the cache folder. */
static const struct {
    const char *part, *prefix, *suffix;
    bool unfinished; /* a temporary file, which its writer renames when it is complete */
} kinds[] = {
    {"opencl", "", ".clbin", false},
    {"opencl", "new-", "", true},
    {"vulkan", "spirv-", "", false},
    {"vulkan", "pipeline-", "", false},
};

/* Make one folder. Sync its parent, so that the folder survives a power failure. */
static bool make_one(const char *path)
{
    return mkdir(path, 0700) == 0 ? bl_file_sync_folder(path) : errno == EEXIST;
}

bool bl_folder_make(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        bool made = true;
        *slash = '\0';
        made = make_one(path);
        *slash = '/';
        if (!made)
            return false;
    }
    return path[strlen(path) - 1] == '/' || make_one(path);
}

/* Append the first of $|own|, $|shared|/beamline and ~/|home|/beamline whose variable is set; append nothing if none is set. */
static void folder_choose_folder(const char *own, const char *shared, const char *home, bl_text *out)
{
    const char *mine = getenv(own), *common = getenv(shared), *user = getenv("HOME");
    if (mine != NULL && mine[0] != '\0')
        bl_text_printf(out, "%s", mine);
    else if (common != NULL && common[0] == '/') /* the XDG specification ignores a relative path */
        bl_text_printf(out, "%s/beamline", common);
    else if (user != NULL && user[0] != '\0')
        bl_text_printf(out, "%s/%s/beamline", user, home);
}

static char *make_chosen(bl_text *path)
{
    if (path->failed || path->len == 0 || !bl_folder_make(path->data)) {
        bl_text_fini(path);
        return NULL;
    }
    return bl_text_take(path);
}

char *bl_cache_folder(const char *part)
{
    bl_text path = {0};
    folder_choose_folder("BEAMLINE_CACHE", "XDG_CACHE_HOME", ".cache", &path);
    if (path.len > 0 && part[0] != '\0')
        bl_text_printf(&path, "/%s", part);
    return make_chosen(&path);
}

const char *bl_passing_folder(void)
{
    const char *named = getenv("TMPDIR");
    return named != NULL && named[0] == '/' ? named : "/tmp";
}

char *bl_state_folder(void)
{
    bl_text path = {0};
    folder_choose_folder("STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", &path);
    return make_chosen(&path);
}

/* ---- trimming */

typedef struct cached {
    const char *part;
    char *name;
    struct timespec used;
    size_t bytes;
} cached;

typedef struct listing {
    cached *files;
    size_t n, cap, bytes;
} listing;

static bool folder_is_kind(const char *name, const char *prefix, const char *suffix)
{
    size_t len = strlen(name), after = strlen(suffix);
    return strncmp(name, prefix, strlen(prefix)) == 0 && len >= after && strcmp(name + len - after, suffix) == 0;
}

/* Without memory the file is not listed, and so not deleted. */
static void folder_add(listing *list, const char *part, const char *name, const struct stat *info)
{
    cached *file = NULL;

    if (list->n == list->cap) {
        size_t cap = list->cap * 2 + 256;
        cached *grown = bl_realloc(list->files, cap * sizeof *grown);
        if (grown == NULL)
            return;
        list->files = grown;
        list->cap = cap;
    }
    file = &list->files[list->n];
    file->name = strdup(name);
    if (file->name == NULL)
        return;
    file->part = part;
    file->used = info->st_mtim;
    file->bytes = info->st_size > SMALLEST ? (size_t)info->st_size : SMALLEST;
    list->bytes += file->bytes;
    list->n++;
}

static void list_kind(listing *list, size_t kind, DIR *folder)
{
    time_t now = time(NULL);

    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat info;
        if (!folder_is_kind(entry->d_name, kinds[kind].prefix, kinds[kind].suffix) ||
            fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
            continue;
        if (!kinds[kind].unfinished)
            folder_add(list, kinds[kind].part, entry->d_name, &info);
        else if (now - info.st_mtime > UNFINISHED_SECONDS)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
}

static int oldest_first(const void *a, const void *b)
{
    const cached *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

static void folder_drop(const char *base, const cached *file)
{
    bl_text path = {0};

    bl_text_printf(&path, "%s/%s/%s", base, file->part, file->name);
    if (!path.failed)
        (void)unlink(path.data); /* another process may have deleted the file already */
    bl_text_fini(&path);
}

size_t bl_cache_trim(size_t most)
{
    char *base = bl_cache_folder("");
    listing list = {0};
    size_t left = 0;

    for (size_t i = 0; base != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        bl_text path = {0};
        DIR *folder = NULL;

        bl_text_printf(&path, "%s/%s", base, kinds[i].part);
        if (!path.failed)
            folder = opendir(path.data);
        if (folder != NULL) {
            list_kind(&list, i, folder);
            closedir(folder);
        }
        bl_text_fini(&path);
    }
    left = list.bytes;
    if (left > most) {
        qsort(list.files, list.n, sizeof *list.files, oldest_first);
        for (size_t i = 0; i < list.n && left > most / 4 * 3; i++) {
            folder_drop(base, &list.files[i]);
            left -= list.files[i].bytes;
        }
    }
    for (size_t i = 0; i < list.n; i++)
        free(list.files[i].name);
    free(list.files);
    free(base);
    return left;
}
