/* SPDX-License-Identifier: MIT */
#include "server/store/disk.h"

#include "engine/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOCK    "lock"
#define RESERVE "reserve"

enum {
    /* SQLite's log grows to 1,000 pages of 4 KiB before SQLite writes it again from its start (sqlite.org, wal.html), so
     * deletions never need more than about 4 MiB.  The reserve is twice as large and is released in steps, because another
     * program that fills the disk takes a part of each step. */
    RESERVE_BYTES = 8 << 20,
    STEP_BYTES = 1 << 20
};

/* ---- the folder */

static bl_file_id id_of(const struct stat *info)
{
    return (bl_file_id){info->st_dev, info->st_ino, true};
}

bl_status bl_disk_open(bl_disk *disk, char *folder, bool alone, bl_err *err)
{
    struct stat info;
    *disk = (bl_disk){.folder = folder, .folder_fd = -1, .lock_fd = -1};
    disk->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->folder_fd < 0)
        return bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be opened: %s", strerror(errno));
    if (!alone)
        return BL_OK;
    disk->lock_fd = openat(disk->folder_fd, LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (disk->lock_fd < 0 || fstat(disk->lock_fd, &info) != 0)
        return bl_fail(err, BL_ESTORAGE, "the folder of --state cannot be written: %s", strerror(errno));
    if (flock(disk->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return bl_fail(err, BL_ECONFLICT, "another server uses the folder of --state");
    disk->lock = id_of(&info);
    return BL_OK;
}

void bl_disk_close(bl_disk *disk)
{
    if (disk->lock_fd >= 0)
        (void)close(disk->lock_fd);
    if (disk->folder_fd >= 0)
        (void)close(disk->folder_fd);
    free(disk->folder);
    *disk = (bl_disk){.folder_fd = -1, .lock_fd = -1};
}

void bl_disk_note_database(bl_disk *disk)
{
    struct stat info;
    if (disk->folder != NULL && fstatat(disk->folder_fd, BL_DISK_DATABASE, &info, 0) == 0)
        disk->database = id_of(&info);
}

/* Does the name |name| in |folder| lead to the file |id|? */
static bool names(int folder, const char *name, const bl_file_id *id)
{
    struct stat info;
    return !id->known || (fstatat(folder, name, &info, 0) == 0 && info.st_dev == id->device && info.st_ino == id->inode);
}

bool bl_disk_is_there(const bl_disk *disk)
{
    int folder = -1;
    bool there = true;
    if (disk->folder == NULL)
        return true;
    folder = open(disk->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        /* errors of this process, which say nothing about the folder */
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    there = names(folder, LOCK, &disk->lock) && names(folder, BL_DISK_DATABASE, &disk->database);
    (void)close(folder);
    return there;
}

bl_status bl_disk_check(const bl_disk *disk, bl_err *err)
{
    if (bl_disk_is_there(disk))
        return BL_OK;
    return bl_fail(
        err, BL_ESTORAGE,
        "the folder of --state was removed or replaced while the server ran, so the server cannot keep data there; put "
        "the folder back, or start the server again");
}

/* ---- free space and the reserve */

uint64_t bl_disk_free_bytes(int fd)
{
    struct statvfs info;
    if (fstatvfs(fd, &info) != 0 || info.f_blocks == 0)
        return UINT64_MAX;
    return (uint64_t)info.f_bavail * info.f_frsize;
}

bool bl_disk_is_full(const bl_disk *disk)
{
    return disk->folder != NULL && bl_disk_free_bytes(disk->folder_fd) < STEP_BYTES;
}

/* Open the reserve and lock it, so that its size stays until it is closed: statements release a part of the reserve while
 * other threads, and commands beside the server, make it whole.  -1 if there is no reserve. */
static int open_reserve(const bl_disk *disk, int flags, off_t *bytes)
{
    struct stat info;
    int fd = disk->folder != NULL ? openat(disk->folder_fd, RESERVE, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600) : -1;
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX) == 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *bytes = info.st_size;
        return fd;
    }
    (void)close(fd);
    return -1;
}

bool bl_disk_make_way(const bl_disk *disk)
{
    off_t bytes = 0;
    int fd = open_reserve(disk, 0, &bytes);
    bool less = fd >= 0 && bytes > 0 && ftruncate(fd, bytes > STEP_BYTES ? bytes - STEP_BYTES : 0) == 0;
    if (fd >= 0)
        (void)close(fd);
    if (less && bytes == RESERVE_BYTES)
        bl_log(BL_LOG_WARN,
               "the disk with the folder of --state is full: deletions and changes of keys use the reserve of %d MiB",
               RESERVE_BYTES >> 20);
    return less;
}

static bool disk_is_whole(const bl_disk *disk)
{
    struct stat info;
    return disk->folder == NULL || (fstatat(disk->folder_fd, RESERVE, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
                                    info.st_size >= RESERVE_BYTES);
}

bool bl_disk_reserve(const bl_disk *disk)
{
    off_t bytes = 0;
    bool whole = disk_is_whole(disk);
    int fd = whole ? -1 : open_reserve(disk, O_CREAT, &bytes);
    if (fd < 0)
        return whole;
    whole = posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    if (!whole && ftruncate(fd, bytes) != 0) /* some file systems keep the blocks of a file whose allocation failed */
        bl_log(BL_LOG_WARN, "the reserve file in the folder of --state cannot be shortened: %s", strerror(errno));
    (void)close(fd);
    return whole;
}

bl_status bl_disk_check_free(int fd, uint64_t bytes, uint64_t least, bl_err *err)
{
    uint64_t left = bl_disk_free_bytes(fd);
    if (left >= least && left - least >= bytes)
        return BL_OK;
    return bl_fail(
        err, BL_ESTORAGE,
        "the disk has %llu bytes free, and at least %llu must stay free (--min-free): %llu more do not fit; delete data",
        (unsigned long long)left, (unsigned long long)least, (unsigned long long)bytes);
}

bl_status bl_disk_check_room(const bl_disk *disk, uint64_t bytes, uint64_t least, bl_err *err)
{
    if (disk->folder == NULL)
        return BL_OK;
    BL_TRY(bl_disk_check(disk, err));
    if (!bl_disk_reserve(disk))
        return bl_fail(err, BL_ESTORAGE,
                       "the disk with the folder of --state is full, and the server adds no data there; delete data");
    return bl_disk_check_free(disk->folder_fd, bytes, least, err);
}
