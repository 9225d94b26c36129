/* SPDX-License-Identifier: MIT */
/* Preloaded library: shortens a file as soon as the program has mapped it.  $SHRINKING_FILES is a folder: its file NAME has the
 * number of bytes to which the next mapped file NAME is cut; the library removes its file afterwards. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void cut_file(int fd)
{
    const char *folder = getenv("SHRINKING_FILES"), *name = NULL;
    char link[64], path[PATH_MAX], order[PATH_MAX];
    ssize_t n = 0;
    long long bytes = 0;
    FILE *from = NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = folder != NULL ? readlink(link, path, sizeof path - 1) : -1;
    if (n <= 0)
        return;
    path[n] = '\0';
    name = strrchr(path, '/');
    if (name == NULL || snprintf(order, sizeof order, "%s%s", folder, name) >= (int)sizeof order)
        return;
    from = fopen(order, "re");
    if (from == NULL)
        return;
    if (fscanf(from, "%lld", &bytes) != 1 || truncate(path, bytes) != 0 || unlink(order) != 0)
        abort();
    fclose(from);
}

static void *map_and_cut(const char *real, void *at, size_t bytes, int rights, int flags, int fd, off_t from)
{
    void *data = ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, real))(at, bytes, rights, flags, fd, from);
    int saved = errno;
    if (data != MAP_FAILED && fd >= 0 && rights == PROT_READ)
        cut_file(fd);
    errno = saved;
    return data;
}

void *mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t from)
{
    return map_and_cut("mmap", at, bytes, rights, flags, fd, from);
}

void *mmap64(void *at, size_t bytes, int rights, int flags, int fd, off64_t from)
{
    return map_and_cut("mmap64", at, bytes, rights, flags, fd, from);
}
