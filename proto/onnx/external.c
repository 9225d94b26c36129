/* SPDX-License-Identifier: MIT */
/* External data: files in the model's folder, which the import maps.  Each part of a path is opened separately and may not be a
 * link, so that no path leads out of the folder. */
#include "proto/onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PARTS = 16, MAX_PART = 255 };

static bl_status external_refuse(const char *location, const char *why, bl_err *err)
{
    return bl_fail(err, BL_EINVAL, "external data in \"%.100s\": %s", location, why);
}

/* An open file descriptor, or -1 after a failure. */
static int open_inside(const char *folder, const char *location, bl_err *err)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next = -1;
    const char *part = location;

    if (at < 0) {
        (void)external_refuse(location, "the model's folder cannot be read", err);
        return -1;
    }
    for (int i = 0; i < MAX_PARTS && *part != '\0'; i++) {
        char name[MAX_PART + 1];
        size_t len = strcspn(part, "/");
        bool last = part[len] == '\0';
        if (len == 0 || len > MAX_PART || (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            break;
        memcpy(name, part, len);
        name[len] = '\0';
        next = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
        close(at);
        at = next;
        if (next < 0) {
            (void)external_refuse(
                location, errno == ELOOP || errno == ENOTDIR ? "a part of its path is a link or not a folder" : "cannot be read",
                err);
            return -1;
        }
        part += len + !last;
        if (last)
            return at;
    }
    close(at);
    (void)external_refuse(location, "is not a plain path below the model's folder", err);
    return -1;
}

static bl_status map_file(bl_onnx_importer *m, const char *location, bl_span *out, bl_err *err)
{
    int file = -1;
    bl_status st = BL_OK;

    if (bl_mapped_find(m->options->files, location, out))
        return BL_OK;
    file = open_inside(m->options->folder, location, err);
    if (file < 0)
        return BL_EINVAL;
    st = bl_mapped_add(m->options->files, file, location, out, err);
    close(file);
    return st;
}

static bool external_read_size(const char *text, size_t *out)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *out = (size_t)value;
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
}

bl_status bl_onnx_external(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_span *out, bl_err *err)
{
    const char *location = NULL;
    size_t offset = 0, length = 0;
    bool whole = true;
    bl_span file = {0};

    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = tensor->external_data[i]->key, *value = tensor->external_data[i]->value;
        bool good = true;
        if (key == NULL || value == NULL)
            continue;
        if (strcmp(key, "location") == 0) {
            location = bl_onnx_clean(m, value);
            good = strcmp(location, value) == 0;
        } else if (strcmp(key, "offset") == 0) {
            good = external_read_size(value, &offset);
        } else if (strcmp(key, "length") == 0) {
            good = external_read_size(value, &length);
            whole = false;
        } else {
            good = strcmp(key, "checksum") == 0; /* ignored: the import trusts the file as much as the model */
        }
        if (!good)
            return bl_fail(err, BL_EINVAL, "external data: \"%.60s\" of \"%.100s\" is not a valid value", bl_onnx_clean(m, key),
                           bl_onnx_clean(m, value));
    }
    if (location == NULL)
        return bl_fail(err, BL_EINVAL, "external data has no location");
    if (m->options->folder == NULL || m->options->files == NULL)
        return external_refuse(location, "a model that is sent by itself cannot have external files", err);
    BL_TRY(map_file(m, location, &file, err));
    if (offset > file.len || (!whole && length > file.len - offset))
        return external_refuse(location, "the file is too short", err);
    *out = (bl_span){file.data + offset, whole ? file.len - offset : length};
    return BL_OK;
}
