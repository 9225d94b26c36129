/* SPDX-License-Identifier: MIT */
/* Preloaded into the server: adds a delay of up to some milliseconds between opening a file and locking it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int flock(int fd, int operation)
{
    static int (*real)(int, int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "flock");
    usleep((useconds_t)(rand() % 5000));
    return real(fd, operation);
}
