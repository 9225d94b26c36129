/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "engine/base/map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file has this header, the key and the content.  The content runs inside this process, so a file is used only if this user
 * owns it, it is complete, and its key is equal. */
typedef struct header {
    char magic[8]; /* magic bytes: the kind of the content */
    uint64_t key_len, content_len;
    uint64_t checksum; /* checksum over key and content */
} header;

static const char program_magic[8] = "blclbin1"; /* content: a program in the driver's form */
static const char member_magic[8] = "blclmem1";  /* content: a bl_cl_member */
enum { MAX_FILE = 256 << 20 };

static uint64_t cl_cache_checksum(bl_span key, const void *content, size_t len)
{
    return bl_hash_bytes(content, len, bl_hash_bytes(key.data, key.len, 0x636c));
}

/* "FOLDER/<32 hex digits>.clbin" */
static void cl_cache_path_of(const char *folder, const uint64_t hash[2], bl_text *path)
{
    bl_text_printf(path, "%s/%016llx%016llx.clbin", folder, (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

static void hash_key(bl_span key, uint64_t hash[2])
{
    hash[0] = bl_hash_bytes(key.data, key.len, 1);
    hash[1] = bl_hash_bytes(key.data, key.len, 2);
}

char *bl_cl_cache_folder(void)
{
    return bl_cache_folder("opencl");
}

/* Reads the whole file; NULL unless this user owns it and no other user can write it. */
static char *cl_cache_read_file(const char *path, size_t *len)
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
        if (data != NULL && !bl_read_all(fd, data, *len)) {
            free(data);
            data = NULL;
        }
    }
    if (data != NULL)
        (void)futimens(fd, NULL); /* updates the time of last use, by which bl_cache_trim chooses files */
    close(fd);
    return data;
}

/* Loads the content of file |hash|, which the caller frees; NULL if the file is damaged or, unless |key| is NULL, has another
 * key. */
static void *cl_cache_load(const char *folder, const uint64_t hash[2], const char *magic, const bl_span *key, header *head,
                           size_t *len)
{
    bl_text path = {0};
    char *file = NULL;
    size_t file_len = 0;
    bool good = false;

    cl_cache_path_of(folder, hash, &path);
    if (!path.failed)
        file = cl_cache_read_file(path.data, &file_len);
    bl_text_fini(&path);
    if (file == NULL)
        return NULL;
    memcpy(head, file, sizeof *head);
    file_len -= sizeof *head;
    if (memcmp(head->magic, magic, sizeof head->magic) == 0 && head->key_len < file_len &&
        head->content_len == file_len - head->key_len) {
        bl_span found = {file + sizeof *head, (size_t)head->key_len};

        *len = (size_t)head->content_len;
        good =
            (key == NULL || bl_span_eq(found, *key)) && head->checksum == cl_cache_checksum(found, found.data + found.len, *len);
        memmove(file, found.data + found.len, *len);
    }
    if (!good) {
        free(file);
        return NULL;
    }
    return file;
}

static bool cl_cache_store(const char *folder, const uint64_t hash[2], const char *magic, bl_span key, const void *content,
                           size_t len)
{
    header head = {.key_len = key.len, .content_len = len, .checksum = cl_cache_checksum(key, content, len)};
    bl_text path = {0}, temporary = {0};
    bool whole = false;
    int fd = -1;

    memcpy(head.magic, magic, sizeof head.magic);
    cl_cache_path_of(folder, hash, &path);
    bl_text_printf(&temporary, "%s/new-XXXXXX", folder);
    if (!path.failed && !temporary.failed)
        fd = mkostemp(temporary.data, O_CLOEXEC);
    if (fd >= 0) {
        whole = bl_write_all(fd, &head, sizeof head) && bl_write_all(fd, key.data, key.len) && bl_write_all(fd, content, len);
        whole = close(fd) == 0 && whole;
        whole = whole && rename(temporary.data, path.data) == 0;
        if (!whole)
            (void)unlink(temporary.data);
    }
    bl_text_fini(&temporary);
    bl_text_fini(&path);
    return whole;
}

void *bl_cl_cache_load(const char *folder, bl_span key, size_t *len)
{
    uint64_t hash[2];
    header head;

    hash_key(key, hash);
    return cl_cache_load(folder, hash, program_magic, &key, &head, len);
}

bool bl_cl_cache_store(const char *folder, bl_span key, const void *program, size_t len)
{
    uint64_t hash[2];

    hash_key(key, hash);
    return cl_cache_store(folder, hash, program_magic, key, program, len);
}

bool bl_cl_cache_store_batch(const char *folder, bl_span key, const void *program, size_t len, bl_cl_batch *out)
{
    hash_key(key, out->hash);
    out->checksum = cl_cache_checksum(key, program, len);
    out->hash[0] = bl_hash_add(out->hash[0], out->checksum);
    return cl_cache_store(folder, out->hash, program_magic, key, program, len);
}

static void touch(const char *folder, const uint64_t hash[2])
{
    bl_text path = {0};

    cl_cache_path_of(folder, hash, &path);
    if (!path.failed)
        (void)utimensat(AT_FDCWD, path.data, NULL, AT_SYMLINK_NOFOLLOW);
    bl_text_fini(&path);
}

bool bl_cl_cache_load_member(const char *folder, bl_span key, bl_cl_member *out)
{
    uint64_t hash[2];
    header head;
    size_t len = 0;
    void *found;

    hash_key(key, hash);
    found = cl_cache_load(folder, hash, member_magic, &key, &head, &len);
    if (found != NULL && len == sizeof *out)
        memcpy(out, found, sizeof *out);
    free(found);
    if (found == NULL || len != sizeof *out)
        return false;
    /* update the time of last use of the batch too: the program may be in memory already, so that its file would not be read */
    touch(folder, out->batch.hash);
    return true;
}

bool bl_cl_cache_store_member(const char *folder, bl_span key, const bl_cl_member *member)
{
    uint64_t hash[2];

    hash_key(key, hash);
    return cl_cache_store(folder, hash, member_magic, key, member, sizeof *member);
}

bool bl_cl_cache_has_batch(const char *folder, const bl_cl_batch *batch)
{
    bl_text path = {0};
    header head = {.checksum = 0};
    struct stat info;
    bool good = false;
    int fd = -1;

    cl_cache_path_of(folder, batch->hash, &path);
    if (!path.failed)
        fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bl_text_fini(&path);
    if (fd < 0)
        return false;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && bl_read_all(fd, &head, sizeof head))
        good = memcmp(head.magic, program_magic, sizeof head.magic) == 0 && head.checksum == batch->checksum &&
               (uint64_t)info.st_size == sizeof head + head.key_len + head.content_len;
    close(fd);
    return good;
}

void *bl_cl_cache_load_batch(const char *folder, const bl_cl_batch *batch, size_t *len)
{
    header head;
    void *found = cl_cache_load(folder, batch->hash, program_magic, NULL, &head, len);

    if (found != NULL && head.checksum != batch->checksum) { /* a file of an older version, whose name has no checksum */
        free(found);
        return NULL;
    }
    return found;
}
