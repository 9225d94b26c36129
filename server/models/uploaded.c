/* SPDX-License-Identifier: MIT */
/* The files that came in a request, in one file on disk.  The server reads this file to load the model again after a restart,
 * or after the loss of a device.  With --state none the file has no name, so it ends with the server in every case.  Otherwise
 * it lies beside the other files of --state, and counts against the limit of blobs.  The last user removes the file, unless a
 * row of the store names it. */
#include "server/models/models_internal.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "proto/safetensors.h"
#include "server/data/blobs.h"
#include "server/store/stored_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* FRESH: no row has named the file yet; NAMED: a row names the file; GONE: the file is removed */
enum { FRESH, NAMED, GONE };

struct bl_sent {
    atomic_int refs;
    bl_server *server;
    char file[BL_STORED_NAME]; /* "": the file has no name, and is |fd| */
    int fd;
    uint64_t bytes;
    uint32_t owner;
    atomic_int stands;
};

static void uploaded_remove_file(bl_sent *sent)
{
    bl_stored_remove(sent->server, BL_STORED_MODEL, sent->owner, sent->file);
    bl_blobs_give(sent->server->blobs, sent->bytes);
}

bl_sent *bl_sent_retain(bl_sent *sent)
{
    if (sent != NULL)
        atomic_fetch_add(&sent->refs, 1);
    return sent;
}

void bl_sent_release(bl_sent *sent)
{
    if (sent == NULL || atomic_fetch_sub(&sent->refs, 1) != 1)
        return;
    if (sent->file[0] != '\0' && atomic_load(&sent->stands) == FRESH)
        uploaded_remove_file(sent);
    if (sent->fd >= 0)
        (void)close(sent->fd);
    free(sent);
}

const char *bl_sent_file(const bl_sent *sent)
{
    return sent != NULL && sent->file[0] != '\0' ? sent->file : NULL;
}

void bl_sent_name(bl_sent *sent)
{
    int fresh = FRESH;
    if (sent != NULL)
        (void)atomic_compare_exchange_strong(&sent->stands, &fresh, NAMED);
}

void bl_sent_forget(bl_sent *sent)
{
    if (sent != NULL && sent->file[0] != '\0' && atomic_exchange(&sent->stands, GONE) != GONE)
        uploaded_remove_file(sent);
}

/* ---- writing */

/* Open a file without a name.  -1: failure. */
static int open_nameless(void)
{
    const char *folder = bl_passing_folder();
    bl_text path = {0};
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    bl_text_printf(&path, "%s/sent-XXXXXX", folder); /* not every file system supports O_TMPFILE */
    fd = path.failed ? -1 : mkostemp(path.data, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path.data);
    bl_text_fini(&path);
    return fd;
}

typedef struct parts {
    const bl_model_op *op;
    bl_text head;
} parts;

/* Each file is a tensor of bytes with a name such as "1/model.json". */
static bl_status uploaded_make_head(parts *p, bl_err *err)
{
    bl_arena *arena = p->op->arena;
    size_t n = (size_t)p->op->nfiles;
    bl_file_tensor *tensors = bl_arena_array(arena, n + 1, sizeof *tensors);
    for (size_t i = 0; tensors != NULL && i < n; i++) {
        const bl_model_file *file = &p->op->files[i];
        tensors[i] = (bl_file_tensor){.dtype = BL_U8, .ndim = 1, .dim = {(int64_t)file->data.len}};
        tensors[i].name = bl_arena_printf(arena, "%llu/%s", (unsigned long long)file->version, file->name);
    }
    BL_TRY(bl_arena_status(arena, err));
    bl_safetensors_write(&p->head, tensors, n, NULL, 0);
    return bl_text_status(&p->head, err);
}

static bl_status uploaded_write_parts(void *arg, int fd, bl_err *err)
{
    const parts *p = arg;
    bool good = bl_write_all(fd, p->head.data, p->head.len);
    for (int i = 0; good && i < p->op->nfiles; i++)
        good = bl_write_all(fd, p->op->files[i].data.data, p->op->files[i].data.len);
    return good ? BL_OK : bl_fail(err, BL_ESTORAGE, "its files cannot be written: %s", strerror(errno));
}

static bl_status write_kept(bl_sent *sent, parts *p, bl_err *err)
{
    bl_stored_file file = {
        .kind = BL_STORED_MODEL, .owner = sent->owner, .bytes = sent->bytes, .write = uploaded_write_parts, .arg = p};
    bl_status st = BL_OK;
    BL_TRY(bl_blobs_take(sent->server->blobs, sent->bytes, err));
    st = bl_stored_put(sent->server, &file, sent->file, err);
    if (st != BL_OK)
        bl_blobs_give(sent->server->blobs, sent->bytes);
    return st;
}

static bl_status write_nameless(bl_sent *sent, parts *p, bl_err *err)
{
    sent->fd = open_nameless();
    return sent->fd >= 0 ? uploaded_write_parts(p, sent->fd, err)
                         : bl_fail(err, BL_ESTORAGE, "its files cannot be written: %s", strerror(errno));
}

static bl_sent *uploaded_create(bl_server *server, uint32_t owner)
{
    bl_sent *sent = bl_calloc(1, sizeof *sent);
    if (sent == NULL)
        return NULL;
    atomic_init(&sent->refs, 1);
    sent->server = server;
    sent->owner = owner;
    sent->fd = -1;
    return sent;
}

bl_status bl_sent_create(bl_server *server, const bl_model_op *op, bl_sent **out, bl_err *err)
{
    bl_sent *sent = uploaded_create(server, op->owner);
    parts p = {.op = op};
    bl_status st =
        sent != NULL ? uploaded_make_head(&p, err) : bl_fail(err, BL_ENOMEM, "out of host memory for the files of a model");
    *out = NULL;
    if (st == BL_OK) {
        sent->bytes = p.head.len;
        for (int i = 0; i < op->nfiles; i++)
            sent->bytes += op->files[i].data.len;
        st = bl_storage_folder(server->storage) != NULL ? write_kept(sent, &p, err) : write_nameless(sent, &p, err);
    }
    bl_text_fini(&p.head);
    if (st == BL_OK)
        *out = sent;
    else
        bl_sent_release(sent);
    return st;
}

/* ---- reading */

bl_status bl_sent_recall(bl_server *server, uint32_t owner, const char *file, bl_sent **out, bl_err *err)
{
    bl_sent *sent = *out = uploaded_create(server, owner);
    bl_err none = {0};
    int fd = -1;
    if (sent == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the files of a model");
    snprintf(sent->file, sizeof sent->file, "%s", file);
    atomic_store(&sent->stands, NAMED);
    if (bl_stored_open(server, BL_STORED_MODEL, file, &fd, &sent->bytes, &none) == BL_OK)
        (void)close(fd);
    bl_blobs_count(server->blobs, sent->bytes);
    return BL_OK;
}

/* Mapped pages of a file are not charged to the memory budget, since the system can drop them. */
static bl_status map(const bl_sent *sent, bl_model_op *op, bl_span *out, bl_err *err)
{
    uint64_t bytes = 0;
    int fd = sent->fd;
    bl_status st = BL_OK;
    if (fd < 0)
        BL_TRY(bl_stored_open(sent->server, BL_STORED_MODEL, sent->file, &fd, &bytes, err));
    st = bl_mapped_add(&op->mapped, fd, "the file with its files", out, err);
    if (fd != sent->fd)
        (void)close(fd);
    return st;
}

bl_status bl_sent_read(bl_sent *sent, bl_model_op *op, bl_err *err)
{
    static const bl_wire_limits limits = {.max_inputs = 4 * BL_MOST_VERSIONS, .max_tensor_bytes = SIZE_MAX, .max_dims = 1};
    bl_tensor_file file = {0};
    bl_err why = {0};
    bl_span data = {0};
    op->arena = bl_arena_create(0);
    if (op->arena == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the files of a model");
    BL_TRY(map(sent, op, &data, err));
    if (bl_safetensors_open(op->arena, data, &limits, &file, &why) != BL_OK)
        return bl_fail(err, why.status == BL_ENOMEM ? BL_ENOMEM : BL_ESTORAGE, "the file with its files is damaged: %s",
                       why.text);
    op->files = bl_arena_array(op->arena, file.ntensors + 1, sizeof *op->files);
    BL_TRY(bl_arena_status(op->arena, err));
    for (size_t i = 0; i < file.ntensors; i++) {
        bl_model_file *one = &op->files[op->nfiles];
        if (!bl_model_file_parse(file.tensors[i].name, one))
            return bl_fail(err, BL_ESTORAGE, "the file with its files is damaged: \"%.40s\" is not the name of a file",
                           file.tensors[i].name);
        one->data = (bl_span){file.tensors[i].data, file.tensors[i].bytes};
        op->nfiles++;
    }
    return op->nfiles > 0 ? BL_OK : bl_fail(err, BL_ESTORAGE, "the file with its files is empty");
}
