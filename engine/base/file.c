/* SPDX-License-Identifier: MIT */
#include "engine/base/file.h"

#include "engine/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool bl_read_all(int fd, void *data, size_t len)
{
    for (char *at = data; len > 0;) {
        ssize_t n = read(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

bool bl_write_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

bool bl_file_sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    bl_text folder = {0};
    int fd = -1;
    bool good = false;
    if (slash == NULL)
        bl_text_puts(&folder, ".");
    else
        bl_text_append(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    if (!folder.failed)
        fd = open(folder.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        (void)close(fd);
    bl_text_fini(&folder);
    return good;
}

static bl_status write_new(const char *path, bl_status (*write)(void *arg, int fd, bl_err *err), void *arg, bl_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bl_status st = BL_OK;
    if (fd < 0)
        return bl_fail(err, BL_ESTORAGE, "a file cannot be created: %s", strerror(errno));
    st = write(arg, fd, err);
    if (st == BL_OK && fsync(fd) != 0)
        st = bl_fail(err, BL_ESTORAGE, "a file cannot be written to the disk: %s", strerror(errno));
    if (close(fd) != 0 && st == BL_OK)
        st = bl_fail(err, BL_ESTORAGE, "a file cannot be closed: %s", strerror(errno));
    return st;
}

bl_status bl_file_replace(const char *path, bl_status (*write)(void *arg, int fd, bl_err *err), void *arg, bl_err *err)
{
    bl_text fresh = {0};
    bl_status st = BL_OK;
    bl_text_printf(&fresh, "%s.new", path);
    st = bl_text_status(&fresh, err);
    if (st == BL_OK)
        st = write_new(fresh.data, write, arg, err);
    if (st == BL_OK && rename(fresh.data, path) != 0)
        st = bl_fail(err, BL_ESTORAGE, "a file cannot be renamed: %s", strerror(errno));
    if (st == BL_OK && !bl_file_sync_folder(path))
        st = bl_fail(err, BL_ESTORAGE, "a folder cannot be written to the disk: %s", strerror(errno));
    if (st != BL_OK && !fresh.failed)
        (void)unlink(fresh.data);
    bl_text_fini(&fresh);
    return st;
}
