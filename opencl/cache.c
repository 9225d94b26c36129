/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/folder.h"
#include "engine/base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file is this header, the key, the program.  It runs inside this process, so it is used only if it is ours, whole, and was
 * stored under the very same key. */
typedef struct header {
    char magic[8];
    uint64_t key_len, program_len;
    uint64_t checksum; /* of key and program */
} header;

static const char magic[8] = "blclbin1";
enum { MAX_FILE = 256 << 20 };

static uint64_t checksum(bl_span key, const void *program, size_t len)
{
    return bl_hash_bytes(program, len, bl_hash_bytes(key.data, key.len, 0x636c));
}

/* "FOLDER/<32 hex digits>.clbin" */
static void path_of(const char *folder, bl_span key, bl_text *path)
{
    bl_text_printf(path, "%s/%016llx%016llx.clbin", folder, (unsigned long long)bl_hash_bytes(key.data, key.len, 1),
                   (unsigned long long)bl_hash_bytes(key.data, key.len, 2));
}

char *bl_cl_cache_folder(void)
{
    return bl_cache_folder("opencl");
}

static bool read_all(int fd, char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = read(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* The whole file, or NULL if it is not one that we wrote. */
static char *read_file(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;
    char *data = NULL;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
        info.st_size >= (off_t)sizeof(header) && info.st_size <= MAX_FILE) {
        *len = (size_t)info.st_size;
        data = malloc(*len);
        if (data != NULL && !read_all(fd, data, *len)) {
            free(data);
            data = NULL;
        }
    }
    close(fd);
    return data;
}

void *bl_cl_cache_load(const char *folder, bl_span key, size_t *len)
{
    bl_text path = {0};
    header head;
    char *file = NULL;
    size_t file_len = 0;
    bool good = false;

    path_of(folder, key, &path);
    if (!path.failed)
        file = read_file(path.data, &file_len);
    bl_text_fini(&path);
    if (file == NULL)
        return NULL;
    memcpy(&head, file, sizeof head);
    file_len -= sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) == 0 && head.key_len == key.len && key.len < file_len &&
        head.program_len == file_len - key.len && memcmp(file + sizeof head, key.data, key.len) == 0) {
        *len = (size_t)head.program_len;
        memmove(file, file + sizeof head + key.len, *len);
        good = head.checksum == checksum(key, file, *len);
    }
    if (!good) {
        free(file);
        return NULL;
    }
    return file;
}

void bl_cl_cache_store(const char *folder, bl_span key, const void *program, size_t len)
{
    header head = {.key_len = key.len, .program_len = len, .checksum = checksum(key, program, len)};
    bl_text path = {0}, temporary = {0};
    int fd = -1;

    memcpy(head.magic, magic, sizeof magic);
    path_of(folder, key, &path);
    bl_text_printf(&temporary, "%s/new-XXXXXX", folder);
    if (!path.failed && !temporary.failed)
        fd = mkostemp(temporary.data, O_CLOEXEC);
    if (fd >= 0) {
        bool whole =
            write_all(fd, (const char *)&head, sizeof head) && write_all(fd, key.data, key.len) && write_all(fd, program, len);

        whole = close(fd) == 0 && whole;
        if (!whole || rename(temporary.data, path.data) != 0)
            (void)unlink(temporary.data);
    }
    bl_text_fini(&temporary);
    bl_text_fini(&path);
}
