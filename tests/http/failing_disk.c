/* SPDX-License-Identifier: MIT */
/* Preloaded library: fails the n-th call that writes to a file or a folder, or every such call from the n-th on; another
 * process arms the failure.  Sockets, pipes and the standard streams never fail.  $FAILING_DISK names a file of four int64:
 * number of calls until the failing call (0: none fails); whether all later calls fail too; errno, or 0 for a write of half of
 * the bytes; number of failed calls. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    _Atomic int64_t left, all, error, failed;
} * shared; /* NULL until the library is ready */

static void __attribute__((constructor)) begin(void)
{
    const char *path = getenv("FAILING_DISK");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        shared = at;
}

/* Whether this call fails.  A short write applies only to calls that write bytes. */
static bool strikes(bool writes)
{
    int64_t left = shared != NULL ? atomic_load(&shared->left) : 0;

    while (left > 0) {
        if (left == 1 && !writes && atomic_load(&shared->error) == 0)
            return false;
        if (!atomic_compare_exchange_weak(&shared->left, &left, left == 1 && atomic_load(&shared->all) != 0 ? 1 : left - 1))
            continue;
        if (left > 1)
            return false;
        atomic_fetch_add(&shared->failed, 1);
        errno = (int)atomic_load(&shared->error);
        return true;
    }
    return false;
}

static bool is_file(int fd)
{
    struct stat info;
    return fd > STDERR_FILENO && fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

/* True: the write fails with an error.  A short write halves |*len|, and the caller then writes this many bytes. */
static bool cut(int fd, size_t *len)
{
    if (!is_file(fd) || !strikes(true))
        return false;
    if (errno != 0)
        return true;
    *len = *len > 1 ? *len / 2 : *len;
    return false;
}

#define REAL(name, type, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

ssize_t write(int fd, const void *data, size_t len)
{
    return cut(fd, &len) ? -1 : REAL("write", ssize_t, int, const void *, size_t)(fd, data, len);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return cut(fd, &len) ? -1 : REAL("pwrite", ssize_t, int, const void *, size_t, off_t)(fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return cut(fd, &len) ? -1 : REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t)(fd, data, len, at);
}

int ftruncate(int fd, off_t len)
{
    return is_file(fd) && strikes(false) ? -1 : REAL("ftruncate", int, int, off_t)(fd, len);
}

int ftruncate64(int fd, off64_t len)
{
    return is_file(fd) && strikes(false) ? -1 : REAL("ftruncate64", int, int, off64_t)(fd, len);
}

int fsync(int fd)
{
    return is_file(fd) && strikes(false) ? -1 : REAL("fsync", int, int)(fd);
}

int fdatasync(int fd)
{
    return is_file(fd) && strikes(false) ? -1 : REAL("fdatasync", int, int)(fd);
}

int rename(const char *from, const char *to);
int rename(const char *from, const char *to)
{
    return strikes(false) ? -1 : REAL("rename", int, const char *, const char *)(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to);
int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return strikes(false) ? -1 : REAL("renameat", int, int, const char *, int, const char *)(from_dir, from, to_dir, to);
}
