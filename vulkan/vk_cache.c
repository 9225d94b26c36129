/* SPDX-License-Identifier: MIT */
#include "vulkan/vk_cache.h"

#include "engine/base/fault.h"
#include "engine/base/map.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_ENTRY = 64 << 20, /* bytes; no entry of this cache is larger */
};

typedef struct header {
    uint64_t magic;
    uint64_t key_len;
    uint64_t data_len;
    uint64_t sum; /* checksum over key and data */
} header;

static const uint64_t magic = 0x31306b76656e6c62; /* "blnevk01" in the file's byte order */

static uint64_t vk_cache_checksum(const void *key, size_t key_len, const void *data, size_t len)
{
    return bl_hash_bytes(data, len, bl_hash_bytes(key, key_len, magic));
}

/* Creates all folders of the path; modifies |path| and restores it. */
static bool vk_cache_make_folders(char *path)
{
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(path, 0700); /* ignores failures: only the last folder matters */
        *p = '/';
    }
    return mkdir(path, 0700) == 0 || access(path, W_OK) == 0;
}

static bool find_folder(char *out, size_t cap)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"BEAMLINE_CACHE", "/vulkan"}, {"XDG_CACHE_HOME", "/beamline/vulkan"}, {"HOME", "/.cache/beamline/vulkan"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *base = getenv(places[i].variable);
        if (base == NULL)
            continue;
        int n = snprintf(out, cap, "%s%s", base, places[i].below);
        return *base == '/' && n > 0 && (size_t)n < cap && vk_cache_make_folders(out);
    }
    return false;
}

static bool vk_cache_find_file(const char *name, char *out, size_t cap)
{
    char folder[PATH_MAX];
    if (!find_folder(folder, sizeof folder))
        return false;
    int n = snprintf(out, cap, "%s/%s", folder, name);
    return n > 0 && (size_t)n < cap;
}

static bool read_all(FILE *file, void *data, size_t len)
{
    return fread(data, 1, len, file) == len;
}

static bool vk_cache_write_all(FILE *file, const void *data, size_t len)
{
    return fwrite(data, 1, len, file) == len;
}

/* The data of the entry in |file| if the entry is valid, else NULL. */
static void *read_entry(FILE *file, const void *key, size_t key_len, size_t *len)
{
    header h;
    struct stat info;
    if (fstat(fileno(file), &info) != 0 || info.st_size > MAX_ENTRY || !read_all(file, &h, sizeof h))
        return NULL;
    if (h.magic != magic || h.key_len != key_len || h.data_len == 0 || h.data_len > MAX_ENTRY ||
        (uint64_t)info.st_size != sizeof h + h.key_len + h.data_len)
        return NULL;
    char *found_key = bl_calloc(1, key_len + 1), *data = bl_calloc(1, h.data_len);
    bool good = found_key != NULL && data != NULL && read_all(file, found_key, key_len) && read_all(file, data, h.data_len) &&
                memcmp(found_key, key, key_len) == 0 && vk_cache_checksum(key, key_len, data, h.data_len) == h.sum;
    free(found_key);
    if (!good) {
        free(data);
        return NULL;
    }
    *len = h.data_len;
    return data;
}

bool bl_vk_cache_load(const char *name, const void *key, size_t key_len, void **data, size_t *len)
{
    char path[PATH_MAX];
    *data = NULL;
    if (!vk_cache_find_file(name, path, sizeof path))
        return false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    *data = read_entry(file, key, key_len, len);
    if (*data != NULL)
        futimens(fileno(file), NULL); /* updates the time of last use, by which bl_cache_trim chooses files */
    fclose(file);
    return *data != NULL;
}

void bl_vk_cache_store(const char *name, const void *key, size_t key_len, const void *data, size_t len)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    /* An entry that could not be loaded must not replace an entry that can be loaded. */
    if (len == 0 || sizeof(header) + key_len + len > MAX_ENTRY || !vk_cache_find_file(name, path, sizeof path))
        return;
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temporary)
        return;
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    header h = {.magic = magic, .key_len = key_len, .data_len = len, .sum = vk_cache_checksum(key, key_len, data, len)};
    bool good =
        vk_cache_write_all(file, &h, sizeof h) && vk_cache_write_all(file, key, key_len) && vk_cache_write_all(file, data, len);
    good = fclose(file) == 0 && good;
    if (!good || rename(temporary, path) != 0)
        unlink(temporary);
}
