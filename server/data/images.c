/* SPDX-License-Identifier: MIT */
#include "server/data/images.h"

#include "engine/base/file.h"
#include "proto/picture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHANNELS = BL_PICTURE_CHANNELS, MAX_FILE = 256 * 1024 * 1024 };

typedef struct image {
    const char *folder; /* name of the class folder; "" for the given folder itself */
    const char *name;
    int64_t label;
} image;

struct bl_images {
    int fd; /* the given folder; owned by the caller */
    size_t n, cap;
    image *image;
    int64_t height, width;
    bool labels;
};

/* A decoded picture: rows of RGB. */
typedef struct pixels {
    int height, width;
    unsigned char *data; /* allocated by malloc */
} pixels;

/* ---- names */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

static bool is_folder(int fd, const char *name)
{
    struct stat info;
    return fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

typedef struct names {
    size_t n, cap;
    const char **name;
} names;

static bl_status images_add_name(bl_arena *arena, names *list, const char *name, bl_err *err)
{
    if (list->n == list->cap) {
        size_t cap = list->cap * 2 + 64;
        const char **grown = bl_arena_array(arena, cap, sizeof *grown);
        if (grown == NULL)
            return bl_arena_status(arena, err);
        if (list->n > 0)
            memcpy(grown, list->name, list->n * sizeof *grown);
        list->name = grown;
        list->cap = cap;
    }
    list->name[list->n] = bl_arena_strdup(arena, name);
    return list->name[list->n++] != NULL ? BL_OK : bl_arena_status(arena, err);
}

/* List the sub-folders of |fd|/|part|, or its pictures, sorted. */
static bl_status list_names(bl_arena *arena, int fd, const char *part, bool folders, names *out, bl_err *err)
{
    int below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = below >= 0 ? fdopendir(below) : NULL;
    const struct dirent *entry = NULL;
    bl_status st = BL_OK;
    *out = (names){0};
    if (folder == NULL) {
        if (below >= 0)
            (void)close(below);
        return bl_fail(err, BL_ESTORAGE, "images: a folder cannot be read: %s", strerror(errno));
    }
    while (st == BL_OK && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && (folders ? is_folder(below, entry->d_name) : is_picture(entry->d_name)))
            st = images_add_name(arena, out, entry->d_name, err);
    (void)closedir(folder);
    if (st == BL_OK && out->n > 1)
        qsort(out->name, out->n, sizeof *out->name, compare_names);
    return st;
}

static bl_status add_folder(bl_arena *arena, bl_images *all, const char *folder, int64_t label, bl_err *err)
{
    names files;
    BL_TRY(list_names(arena, all->fd, folder[0] != '\0' ? folder : ".", false, &files, err));
    if (all->n + files.n > all->cap) {
        size_t cap = (all->n + files.n) * 2;
        image *grown = bl_arena_array(arena, cap, sizeof *grown);
        if (grown == NULL)
            return bl_arena_status(arena, err);
        if (all->n > 0)
            memcpy(grown, all->image, all->n * sizeof *grown);
        all->image = grown;
        all->cap = cap;
    }
    for (size_t i = 0; i < files.n; i++)
        all->image[all->n++] = (image){folder, files.name[i], label};
    return BL_OK;
}

/* ---- one picture */

static bl_status images_decode(bl_span file, pixels *out, bl_err *err)
{
    bl_picture picture;
    BL_TRY(bl_picture_open(file, &picture, err));
    out->height = picture.height;
    out->width = picture.width;
    out->data = malloc(bl_picture_bytes(&picture));
    return out->data != NULL ? bl_picture_read(&picture, out->data, err)
                             : bl_fail(err, BL_ENOMEM, "out of host memory for its pixels");
}

static bl_status images_read_file(const bl_images *all, const image *of, unsigned char **data, size_t *len, bl_err *err)
{
    struct stat info;
    int folder = of->folder[0] != '\0' ? openat(all->fd, of->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : all->fd;
    int fd = folder >= 0 ? openat(folder, of->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (folder >= 0 && folder != all->fd)
        (void)close(folder);
    if (fd < 0)
        return bl_fail(err, BL_ESTORAGE, "it cannot be opened: %s", strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE) {
        (void)close(fd);
        return bl_fail(err, BL_EGRAPH, "it is not a regular file of at most 256 MiB");
    }
    *len = (size_t)info.st_size;
    *data = malloc(*len + 1);
    if (*data == NULL || !bl_read_all(fd, *data, *len))
        (void)bl_fail(err, BL_ESTORAGE, "its file cannot be read");
    (void)close(fd);
    return err->status;
}

/* Decode the picture |of|; errors contain its path. */
static bl_status read_image(const bl_images *all, const image *of, pixels *out, bl_err *err)
{
    unsigned char *data = NULL;
    size_t len = 0;
    bl_err why = {0};
    *out = (pixels){0};
    if (images_read_file(all, of, &data, &len, &why) == BL_OK)
        (void)images_decode((bl_span){(const char *)data, len}, out, &why);
    free(data);
    if (why.status == BL_OK)
        return BL_OK;
    free(out->data);
    out->data = NULL;
    return bl_fail(err, why.status == BL_EINVAL ? BL_EGRAPH : why.status, "images: %.80s%s%.80s: %s", of->folder,
                   of->folder[0] != '\0' ? "/" : "", of->name, why.text);
}

static bl_status scale_image(const pixels *from, int height, int width, unsigned char *to, bl_err *err)
{
    float *scratch = malloc(bl_picture_scratch(from->height, from->width, height, width) * sizeof *scratch);
    if (scratch == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for scaling a picture");
    bl_picture_scale(from->data, from->height, from->width, to, height, width, scratch);
    free(scratch);
    return BL_OK;
}

/* ---- all pictures */

static bl_status images_find_all(bl_arena *arena, bl_images *all, bl_err *err)
{
    names folders;
    BL_TRY(list_names(arena, all->fd, ".", true, &folders, err));
    for (size_t i = 0; i < folders.n; i++)
        BL_TRY(add_folder(arena, all, folders.name[i], (int64_t)i, err));
    if (folders.n == 0)
        BL_TRY(add_folder(arena, all, "", 0, err));
    return all->n > 0 ? BL_OK
                      : bl_fail(err, BL_EGRAPH, "images: there are no .jpg, .jpeg or .png files in the folder or those below it");
}

bl_status bl_images_find(bl_arena *arena, int fd, const bl_data_source *source, const bl_wire_limits *limits, bl_images **images,
                         bl_data *out, bl_err *err)
{
    bl_images *all = bl_arena_alloc(arena, sizeof *all);
    pixels first = {0};
    if (all == NULL)
        return bl_arena_status(arena, err);
    *all = (bl_images){.fd = fd, .height = source->height, .width = source->width, .labels = source->labels};
    BL_TRY(images_find_all(arena, all, err));
    if (all->height == 0 && !all->labels) {
        BL_TRY(read_image(all, &all->image[0], &first, err));
        free(first.data);
        all->height = first.height;
        all->width = first.width;
    }
    *out = (bl_data){.format = BL_DATA_IMAGES,
                     .dtype = all->labels ? BL_I64 : BL_U8,
                     .ndim = all->labels ? 1 : 4,
                     .dim = {(int64_t)all->n, all->height, all->width, CHANNELS}};
    *images = all;
    return bl_tensor_measure("images", out->dtype, out->ndim, out->dim, limits, &out->count, &out->bytes, err);
}

static bl_status put_image(const bl_images *all, size_t i, unsigned char *to, bl_err *err)
{
    pixels one = {0};
    bl_status st = BL_OK;
    BL_TRY(read_image(all, &all->image[i], &one, err));
    if (one.height == all->height && one.width == all->width)
        memcpy(to, one.data, (size_t)one.height * (size_t)one.width * CHANNELS);
    else
        st = scale_image(&one, (int)all->height, (int)all->width, to, err);
    free(one.data);
    return st;
}

bl_status bl_images_read(const bl_images *images, void *out, atomic_bool *cancel, bl_err *err)
{
    size_t size = (size_t)images->height * (size_t)images->width * CHANNELS;
    for (size_t i = 0; i < images->n; i++) {
        if (atomic_load(cancel))
            return bl_fail(err, BL_ECANCELLED, "the client went away");
        if (images->labels)
            memcpy((char *)out + i * sizeof(int64_t), &images->image[i].label, sizeof(int64_t));
        else
            BL_TRY(put_image(images, i, (unsigned char *)out + i * size, err));
    }
    return BL_OK;
}
