/* SPDX-License-Identifier: MIT */
#include "server/data/sources.h"

#include "engine/base/file.h"
#include "server/data/blobs.h"
#include "server/data/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_PART = 256, FIRST_BYTES = 1024 * 1024 };

typedef struct load {
    const bl_data_source *source;
    bl_worker *worker;
} load;

/* ---- opening */

/* Open the next part of a path: a file, or a folder if |folder|. */
static bl_status sources_open_part(int above, const char *part, bool folder, int *fd, bl_err *err)
{
    int kind = folder ? O_DIRECTORY : O_NONBLOCK; /* O_NONBLOCK: opening a FIFO must not block */
    if (part[0] == '\0' || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
        return bl_fail(err, BL_EGRAPH, "file: a path must be names with / between them, and no name may be empty, . or ..");
    *fd = openat(above, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | kind);
    if (*fd >= 0)
        return BL_OK;
    if (errno == ELOOP || (folder && errno == ENOTDIR))
        return bl_fail(err, BL_ENOTFOUND, "file: \"%.80s\" is a link or not a folder", part);
    if (errno == ENOENT)
        return bl_fail(err, BL_ENOTFOUND, "file: there is no \"%.80s\"", part);
    return bl_fail(err, BL_ESTORAGE, "file: \"%.80s\" cannot be opened: %s", part, strerror(errno));
}

static bl_status walk(int *fd, const char *path, bl_err *err)
{
    for (;;) {
        char part[MAX_PART];
        size_t len = strcspn(path, "/");
        int below = -1;
        if (len >= sizeof part)
            return bl_fail(err, BL_EGRAPH, "file: a name has more than %d characters", MAX_PART - 1);
        memcpy(part, path, len);
        part[len] = '\0';
        BL_TRY(sources_open_part(*fd, part, path[len] == '/', &below, err));
        (void)close(*fd);
        *fd = below;
        if (path[len] == '\0')
            return BL_OK;
        path += len + 1;
    }
}

/* Open |path|, a file or a folder. */
static bl_status open_path(const bl_server *server, const char *path, int *fd, bl_err *err)
{
    bl_status st = BL_OK;
    if (server->settings.data_folder[0] == '\0')
        return bl_fail(err, BL_ENOTFOUND, "file: this server reads no data files; start the server with --data-folder");
    *fd = open(server->settings.data_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return bl_fail(err, BL_ESTORAGE, "the folder of --data-folder cannot be opened");
    st = walk(fd, path, err);
    if (st != BL_OK) {
        (void)close(*fd);
        *fd = -1;
    }
    return st;
}

static bl_status sources_open_file(const bl_server *server, const char *path, int *fd, uint64_t *bytes, bl_err *err)
{
    struct stat info;
    BL_TRY(open_path(server, path, fd, err));
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *bytes = (uint64_t)info.st_size;
        return BL_OK;
    }
    (void)close(*fd);
    *fd = -1;
    return bl_fail(err, BL_EGRAPH, "file: \"%.160s\" is not a regular file", path);
}

/* ---- reading */

static bl_status sources_read_whole(bl_request *rq, int fd, uint64_t bytes, bl_span *out)
{
    char *data = bl_request_alloc(rq, (size_t)bytes, "a file");
    if (data == NULL)
        return rq->err.status;
    if (!bl_read_all(fd, data, (size_t)bytes))
        return bl_fail(&rq->err, BL_ESTORAGE, "the file cannot be read, or became shorter while it was read");
    *out = (bl_span){data, (size_t)bytes};
    return BL_OK;
}

/* Make room for more bytes. Existing bytes are copied if the memory moves. */
static bl_status sources_grow(bl_request *rq, char **data, size_t *cap, size_t used)
{
    uint64_t limit = rq->server->settings.max_tensor;
    size_t want = *cap == 0 ? FIRST_BYTES : *cap * 2;
    char *more = NULL;
    if (*cap > limit)
        return bl_fail(&rq->err, BL_ELIMIT, "the decompressed file has more than %llu bytes, the limit (--max-tensor)",
                       (unsigned long long)limit);
    more = bl_request_alloc(rq, want, "an inflated file");
    if (more == NULL)
        return rq->err.status;
    if (used > 0)
        memcpy(more, *data, used);
    *data = more;
    *cap = want;
    return BL_OK;
}

static bl_status inflate_all(bl_request *rq, z_stream *z, bl_span *out)
{
    char *data = NULL;
    size_t cap = 0, used = 0;
    int code = Z_OK;
    while (code == Z_OK) {
        if (used == cap)
            BL_TRY(sources_grow(rq, &data, &cap, used));
        z->next_out = (Bytef *)data + used;
        z->avail_out = cap - used > INT32_MAX ? INT32_MAX : (uInt)(cap - used);
        code = inflate(z, Z_NO_FLUSH);
        used = (size_t)((char *)z->next_out - data);
        if (code == Z_BUF_ERROR && z->avail_out > 0)
            break;
        code = code == Z_BUF_ERROR ? Z_OK : code;
    }
    *out = (bl_span){data, used};
    return code == Z_STREAM_END ? BL_OK : bl_fail(&rq->err, BL_EGRAPH, "the gzip file is incomplete or damaged");
}

/* Inflate |bytes| if they are compressed by gzip. */
static bl_status sources_unpack(bl_request *rq, bl_span *bytes)
{
    z_stream z = {0};
    bl_status st = BL_OK;
    if (bytes->len < 18 || memcmp(bytes->data, "\x1f\x8b\x08", 3) != 0)
        return BL_OK;
    if (bytes->len > UINT32_MAX)
        return bl_fail(&rq->err, BL_ELIMIT, "the gzip file has more than 4 GiB, the limit");
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for inflating a file");
    z.next_in = (z_const Bytef *)(uintptr_t)bytes->data;
    z.avail_in = (uInt)bytes->len;
    st = inflate_all(rq, &z, bytes);
    inflateEnd(&z);
    return st;
}

/* May the bytes be compressed by gzip? Raw bytes may have any contents, so only the file name tells. */
static bool may_be_packed(const bl_data_source *source)
{
    size_t len = source->file != NULL ? strlen(source->file) : 0;
    return source->format != BL_DATA_RAW || (len > 3 && strcasecmp(source->file + len - 3, ".gz") == 0);
}

static bl_status read_source(bl_request *rq, const bl_data_source *source, bl_span *out)
{
    uint64_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    if (source->blob != NULL)
        BL_TRY(bl_blobs_open(rq->server->blobs, rq->owner, source->blob, &fd, &bytes, &rq->err));
    else
        BL_TRY(sources_open_file(rq->server, source->file, &fd, &bytes, &rq->err));
    st = sources_read_whole(rq, fd, bytes, out);
    (void)close(fd);
    return st == BL_OK && may_be_packed(source) ? sources_unpack(rq, out) : st;
}

/* Create the tensor, and get the host memory for its elements. */
static bl_status sources_make_room(bl_request *rq, const load *job, const bl_data *data, bl_device_tensor **out, char **host)
{
    BL_TRY(bl_device_tensor_create(job->worker, data->dtype, data->ndim, data->dim, out, &rq->err));
    BL_TRY(bl_request_defer(rq, bl_device_tensor_release_any, *out));
    *host = bl_device_tensor_host(*out);
    return *host != NULL ? BL_OK : bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", data->bytes);
}

static bl_status sources_load_file(bl_request *rq, const load *job, bl_device_tensor **out)
{
    bl_span bytes = {0};
    bl_data data;
    char *host = NULL;
    BL_TRY(read_source(rq, job->source, &bytes));
    BL_TRY(bl_data_find(rq->arena, job->source, bytes, &rq->server->limits, &data, &rq->err));
    BL_TRY(sources_make_room(rq, job, &data, out, &host));
    return bl_data_read(&data, host, &rq->err);
}

static bl_status load_images(bl_request *rq, const load *job, bl_device_tensor **out)
{
    bl_images *images = NULL;
    bl_data data;
    char *host = NULL;
    int fd = -1;
    bl_status st = BL_OK;
    BL_TRY(open_path(rq->server, job->source->file, &fd, &rq->err));
    st = bl_images_find(rq->arena, fd, job->source, &rq->server->limits, &images, &data, &rq->err);
    if (st == BL_OK)
        st = sources_make_room(rq, job, &data, out, &host);
    if (st == BL_OK)
        st = bl_images_read(images, host, &rq->cancel, &rq->err);
    (void)close(fd);
    return st;
}

static bl_step sources_work(bl_request *rq)
{
    const load *job = rq->data;
    bl_device_tensor *held = NULL;
    if ((job->source->format == BL_DATA_IMAGES ? load_images : sources_load_file)(rq, job, &held) == BL_OK)
        rq->data = held;
    return BL_STEP_DONE;
}

bl_status bl_source_load(bl_request *rq, const bl_data_source *source, bl_worker *worker, bl_status (*then)(bl_request *rq))
{
    load *job = bl_arena_alloc(rq->arena, sizeof *job);
    if (job == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *job = (load){source, worker};
    rq->data = job;
    rq->then = then;
    return bl_request_submit(rq, rq->server->compiler, sources_work, NULL);
}
