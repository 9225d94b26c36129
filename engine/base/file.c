/* SPDX-License-Identifier: MIT */
#include "engine/base/file.h"

#include <errno.h>
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
