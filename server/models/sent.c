/* SPDX-License-Identifier: MIT */
/* The files that came in a request, on the disk for as long as a version that was made of them is there: so that it can be loaded
 * again when a device is lost.  They have no name, so nothing is left of them, however the server ends. */
#include "server/models/internal.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/folder.h"
#include "server/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct part {
    uint64_t version;
    const char *name; /* of the table of files that a model may have */
    size_t bytes;
} part;

struct bl_sent {
    atomic_int refs;
    int fd;
    int nparts;
    part *parts; /* in the file one after the other */
};

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
    if (sent->fd >= 0)
        (void)close(sent->fd);
    free(sent->parts);
    free(sent);
}

/* A file that nobody else can open; -1: there is none. */
static int open_nameless(const bl_server *server)
{
    const char *folder = bl_storage_folder(server->storage);
    bl_text path = {0};
    int fd = -1;
    folder = folder != NULL ? folder : bl_passing_folder();
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    bl_text_printf(&path, "%s/sent-XXXXXX", folder); /* not every file system can */
    fd = path.failed ? -1 : mkostemp(path.data, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path.data);
    bl_text_fini(&path);
    return fd;
}

bl_status bl_sent_create(const bl_server *server, const bl_model_op *op, bl_sent **out, bl_err *err)
{
    bl_sent *sent = bl_calloc(1, sizeof *sent);
    bool good = true;
    *out = NULL;
    if (sent == NULL)
        return bl_fail(err, BL_ENOMEM, "the files of a model");
    atomic_init(&sent->refs, 1);
    sent->parts = bl_calloc((size_t)op->nfiles, sizeof *sent->parts);
    sent->fd = sent->parts != NULL ? open_nameless(server) : -1;
    for (int i = 0; sent->fd >= 0 && good && i < op->nfiles; i++) {
        const bl_model_file *file = &op->files[i];
        sent->parts[sent->nparts++] = (part){file->version, file->name, file->data.len};
        good = bl_write_all(sent->fd, file->data.data, file->data.len);
    }
    if (sent->fd >= 0 && good) {
        *out = sent;
        return BL_OK;
    }
    bl_sent_release(sent);
    return bl_fail(err, BL_ESTORAGE, "its files cannot be written: %s", strerror(errno));
}

/* The pages of a file are the system's to give and take: they count against nothing. */
bl_status bl_sent_read(bl_sent *sent, bl_model_op *op, bl_err *err)
{
    size_t bytes = 0;
    for (int i = 0; i < sent->nparts; i++)
        bytes += sent->parts[i].bytes;
    op->arena = bl_arena_create(0);
    op->files = op->arena != NULL ? bl_arena_array(op->arena, (size_t)sent->nparts + 1, sizeof *op->files) : NULL;
    if (op->files == NULL)
        return bl_fail(err, BL_ENOMEM, "the files of a model");
    op->map = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ, MAP_PRIVATE, sent->fd, 0);
    if (op->map == MAP_FAILED) {
        op->map = NULL;
        return bl_fail(err, BL_ESTORAGE, "its files cannot be read: %s", strerror(errno));
    }
    op->mapped = bytes > 0 ? bytes : 1;
    bytes = 0;
    for (int i = 0; i < sent->nparts; i++) {
        const part *p = &sent->parts[i];
        op->files[op->nfiles++] = (bl_model_file){p->version, p->name, {(const char *)op->map + bytes, p->bytes}};
        bytes += p->bytes;
    }
    return BL_OK;
}
