/* SPDX-License-Identifier: MIT */
/* A private folder for the files of PoCL ($POCL_CACHE_DIR).  PoCL stores compiled kernels there under names that all its
 * processes share, and reads them without a check: a file that another process is still writing fails an assertion and
 * aborts the reader.  The back end's own cache (cl_cache.c) keeps compiled programs; its files are complete or absent. */
#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "opencl/opencl.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char variable[] = "POCL_CACHE_DIR", prefix[] = "process-";
enum { MOST_OPEN = 16 /* most folders that nftw keeps open */ };

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

static void cl_driver_folder_remove_folder(const char *path)
{
    (void)nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

/* The folder that this process created and locked; the name of the folder has the process id. NULL if there is no such
 * folder. */
static const char *own_folder(void)
{
    const char *path = getenv(variable), *name = path == NULL ? NULL : strrchr(path, '/');
    char mine[64];
    int len = snprintf(mine, sizeof mine, "/%s%ld-", prefix, (long)getpid());

    return name != NULL && strncmp(name, mine, (size_t)len) == 0 ? path : NULL;
}

static void remove_own(void)
{
    const char *path = own_folder();
    if (path != NULL)
        cl_driver_folder_remove_folder(path);
}

/* Open and lock the file that a process keeps locked until the process ends; -1 if the file is locked or absent. */
static int open_lock(const char *folder, int flags)
{
    bl_text path = {0};
    struct stat status;
    int fd = -1;

    bl_text_printf(&path, "%s/lock", folder);
    if (!path.failed)
        fd = open(path.data, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    bl_text_fini(&path);
    /* A process that removes stale folders may have held the lock between the open and the lock of this process: then the
     * file is deleted. */
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0 || status.st_nlink == 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Removes the folders of processes that ended without removing them. */
static void remove_stale(const char *base)
{
    DIR *folder = opendir(base);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        bl_text path = {0};
        int fd = -1;

        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0)
            continue;
        bl_text_printf(&path, "%s/%s", base, entry->d_name);
        if (!path.failed)
            fd = open_lock(path.data, 0); /* -1 also if the owner of the folder has not made its lock yet */
        if (fd >= 0) {
            cl_driver_folder_remove_folder(path.data);
            close(fd);
        }
        bl_text_fini(&path);
    }
    if (folder != NULL)
        closedir(folder);
}

/* The folder that the variable names, else a folder in the cache.  The folder of a child process is inside the folder of its
 * parent, and is removed with the parent's folder. */
static char *choose_base(void)
{
    const char *given = getenv(variable);
    char *base = given != NULL && given[0] != '\0' ? strdup(given) : bl_cache_folder("pocl");

    if (base == NULL)
        base = strdup(bl_passing_folder());
    if (base != NULL && !bl_folder_make(base)) {
        free(base);
        base = NULL;
    }
    return base;
}

void bl_cl_own_folder(void)
{
    char *base = own_folder() == NULL ? choose_base() : NULL;
    bl_text path = {0};

    if (base == NULL)
        return;
    remove_stale(base);
    bl_text_printf(&path, "%s/%s%ld-XXXXXX", base, prefix, (long)getpid());
    if (!path.failed && mkdtemp(path.data) != NULL) {
        /* The descriptor stays open: the kernel releases the lock when the process ends. */
        if (open_lock(path.data, O_CREAT) >= 0 && setenv(variable, path.data, 1) == 0)
            (void)atexit(remove_own);
    }
    bl_text_fini(&path);
    free(base);
}
