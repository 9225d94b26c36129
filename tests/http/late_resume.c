/* SPDX-License-Identifier: MIT */
/* Preloaded into the server: delays a thread that resumes a connection of libmicrohttpd before it returns.  $LATE_RESUME names
 * a file of an int32: 1, set by the test: the next write to an eventfd is delayed; 2: the thread waits until the eventfd is
 * closed, or until a timeout; 3: the eventfd was written; 4: the eventfd was closed before the write. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { IDLE, ARMED, WAITS, WRITTEN, CLOSED, WAIT_MS = 2000 };

static _Atomic int32_t *state; /* NULL until the library is ready */

static void __attribute__((constructor)) begin(void)
{
    const char *path = getenv("LATE_RESUME");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        state = at;
}

static bool is_eventfd(int fd)
{
    char link[64], name[64] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, name, sizeof name - 1) > 0 && strstr(name, "eventfd") != NULL;
}

ssize_t write(int fd, const void *data, size_t len)
{
    ssize_t (*real)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    int32_t armed = ARMED;

    if (len != sizeof(uint64_t) || state == NULL || atomic_load(state) != ARMED || !is_eventfd(fd) ||
        !atomic_compare_exchange_strong(state, &armed, WAITS))
        return real(fd, data, len);
    for (int ms = 0; ms < WAIT_MS && is_eventfd(fd); ms++)
        usleep(1000);
    atomic_store(state, is_eventfd(fd) ? WRITTEN : CLOSED);
    return real(fd, data, len);
}
