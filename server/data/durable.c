/* SPDX-License-Identifier: MIT */
#include "server/data/durable.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "proto/safetensors.h"
#include "server/run/await.h"
#include "server/store/registry.h"
#include "server/store/stored_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HEADER = 64 * 1024 };

/* ---- writing */

typedef struct keep {
    bl_request *rq;
    bl_device_tensor *held;
    const char *name;
    const char *data; /* the elements, if the host sees them */
    char *copy;       /* copy of the elements, if the host does not see the buffer */
    bl_text head;     /* header of the file, while the file is written */
    bl_status (*then)(bl_request *rq);
} keep;

static bl_status durable_write_tensor(void *arg, int fd, bl_err *err)
{
    const keep *k = arg;
    if (bl_write_all(fd, k->head.data, k->head.len) && bl_write_all(fd, k->data, k->held->bytes))
        return BL_OK;
    return bl_fail(err, BL_ESTORAGE, "the tensor cannot be written: %s", strerror(errno));
}

static bool durable_take_id(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    *(int64_t *)arg = cells[0].integer;
    return false;
}

static bl_status insert_tensor(void *arg, const char *name, bl_err *err)
{
    const keep *k = arg;
    return bl_storage_run(k->rq->server->storage,
                          "INSERT INTO tensors (owner, name, device, file) VALUES (?1, ?2, ?3, ?4) RETURNING id",
                          BL_CELLS(bl_cell_int(k->rq->owner), bl_cell_text(k->name), bl_cell_text(k->held->worker->dev->info.id),
                                   bl_cell_text(name)),
                          durable_take_id, &k->held->durable, err);
}

static bl_status durable_write_down(bl_request *rq, keep *k)
{
    bl_file_tensor tensor = {.name = "tensor", .dtype = k->held->dtype, .ndim = k->held->ndim};
    bl_stored_file file = {
        .kind = BL_STORED_TENSOR, .owner = rq->owner, .write = durable_write_tensor, .insert = insert_tensor, .arg = k};
    bl_status st = BL_OK;
    memcpy(tensor.dim, k->held->dim, sizeof tensor.dim);
    bl_safetensors_write(&k->head, &tensor, 1, NULL, 0);
    st = bl_text_status(&k->head, &rq->err);
    file.bytes = k->head.len + k->held->bytes;
    if (st == BL_OK)
        st = bl_stored_put(rq->server, &file, NULL, &rq->err);
    bl_text_fini(&k->head);
    return st;
}

/* Write the file on a compile thread, since the write waits for the disk. */
static bl_step write_work(bl_request *rq)
{
    keep *k = rq->data;
    rq->data = k->held;
    rq->then = k->then;
    rq->err.status = durable_write_down(rq, k);
    return BL_STEP_DONE;
}

static bl_step read_work(bl_request *rq)
{
    keep *k = rq->data;
    rq->err.status = bl_device_tensor_read(k->held, k->copy, &rq->err);
    return BL_STEP_DONE;
}

static bl_status write_read(bl_request *rq)
{
    return bl_request_submit(rq, rq->server->compiler, write_work, NULL);
}

bl_status bl_durable_keep(bl_request *rq, bl_device_tensor *held, const char *name, bl_status (*then)(bl_request *rq))
{
    keep *k = bl_arena_alloc(rq->arena, sizeof *k);
    if (k == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    if (bl_storage_folder(rq->server->storage) == NULL)
        return bl_fail(&rq->err, BL_EUNSUPPORTED, "durable: this server stores nothing on disk; start the server with --state");
    *k = (keep){.rq = rq, .held = held, .name = name, .data = bl_device_tensor_mapped(held), .then = then};
    rq->data = k;
    if (k->data != NULL)
        return bl_request_submit(rq, rq->server->compiler, write_work, NULL);
    k->data = k->copy = bl_request_alloc(rq, held->bytes, "a tensor");
    if (k->copy == NULL)
        return rq->err.status;
    rq->then = write_read;
    return bl_request_submit(rq, held->worker->queue, read_work, NULL);
}

bl_status bl_durable_forget(bl_server *server, uint32_t owner, int64_t row, bl_err *err)
{
    return bl_stored_delete(server, BL_STORED_TENSOR, owner, "id = ?1", BL_CELLS(bl_cell_int(row)), err);
}

/* ---- restoring */

typedef struct row {
    int64_t id;
    uint32_t owner;
    const char *name, *device, *file;
} row;

/* Read the header of the file; the elements follow it. */
static bl_status durable_read_head(bl_server *server, bl_arena *arena, int fd, bl_tensor_file *out, bl_err *err)
{
    unsigned char first[8];
    struct stat info;
    size_t size = 0;
    char *head = NULL;
    if (fstat(fd, &info) != 0 || info.st_size < 8 || !bl_read_all(fd, first, sizeof first))
        return bl_fail(err, BL_ESTORAGE, "its file cannot be read");
    BL_TRY(bl_safetensors_header_size(first, &size, err));
    head = size <= MAX_HEADER ? bl_arena_alloc(arena, size + 1) : NULL;
    if (head == NULL || (uint64_t)info.st_size < 8 + size || !bl_read_all(fd, head, size))
        return bl_fail(err, BL_ESTORAGE, "its file cannot be read");
    BL_TRY(bl_safetensors_parse(arena, (bl_span){head, size}, (size_t)info.st_size - 8 - size, &server->limits, out, err));
    return out->ntensors == 1 ? BL_OK : bl_fail(err, BL_ESTORAGE, "its file does not hold exactly one tensor");
}

/* A row that is being restored. */
typedef struct loading {
    const row *row;
    bl_worker *worker;
    bl_device_tensor *held;
} loading;

static bl_status durable_load(bl_request *rq, loading *l, int fd)
{
    bl_tensor_file file;
    const bl_file_tensor *tensor = NULL;
    char *host = NULL;
    BL_TRY(durable_read_head(rq->server, rq->arena, fd, &file, &rq->err));
    tensor = &file.tensors[0];
    BL_TRY(bl_device_tensor_create(l->worker, tensor->dtype, tensor->ndim, tensor->dim, &l->held, &rq->err));
    host = bl_device_tensor_host(l->held);
    if (host == NULL || !bl_read_all(fd, host, l->held->bytes))
        return bl_fail(&rq->err, BL_ESTORAGE, "its elements cannot be read");
    BL_TRY(bl_device_tensor_flush(l->held, &rq->err));
    BL_TRY(bl_registry_put(rq->server->registry, rq, NULL, l->row->name, l->held, &rq->err));
    l->held->durable = l->row->id; /* set last: a tensor that fails to load must keep its row for the next start */
    return BL_OK;
}

/* Load on the worker's thread, which copies the elements to the device. */
static bl_step load_work(bl_request *rq)
{
    loading *l = bl_await_what(rq);
    uint64_t bytes = 0;
    int fd = -1;
    rq->err.status = bl_stored_open(rq->server, BL_STORED_TENSOR, l->row->file, &fd, &bytes, &rq->err);
    if (fd < 0)
        return BL_STEP_DONE;
    rq->err.status = durable_load(rq, l, fd);
    (void)close(fd);
    return BL_STEP_DONE;
}

/* Choose *worker: the device that had the tensor; if this device is missing or drained, the best device. */
static bl_status choose_worker(bl_server *server, const row *r, bl_worker **worker, bl_err *err)
{
    bl_err none = {0};
    return bl_worker_place(server, r->device, true, worker, &none) == BL_OK ? BL_OK : bl_worker_find(server, NULL, worker, err);
}

static bl_status load_tensor(bl_server *server, const row *r, bl_err *err)
{
    loading l = {.row = r};
    bl_await await = BL_AWAIT(&l);
    bl_request *rq = bl_await_create(server, r->owner, &await);
    bl_status st =
        rq != NULL ? choose_worker(server, r, &l.worker, err) : bl_fail(err, BL_ENOMEM, "out of host memory for a request");
    if (st == BL_OK)
        st = bl_await_end(rq, bl_request_submit(rq, l.worker->queue, load_work, NULL), err);
    bl_device_tensor_release(l.held);
    if (rq != NULL)
        bl_request_end(rq);
    return st;
}

static bool durable_load_row(void *arg, const bl_cell *cells, int n)
{
    row r = {.id = cells[0].integer,
             .owner = (uint32_t)cells[1].integer,
             .name = cells[2].bytes.data,
             .device = cells[3].bytes.data,
             .file = cells[4].bytes.data};
    bl_err why = {0};
    (void)n;
    if (load_tensor(arg, &r, &why) != BL_OK)
        bl_log(BL_LOG_WARN, "the durable tensor %.128s cannot be restored: %s", r.name, why.text);
    return true;
}

bl_status bl_durable_load(bl_server *server, bl_err *err)
{
    return bl_stored_load(server, BL_STORED_TENSOR, "SELECT id, owner, name, device, file FROM tensors ORDER BY id",
                          durable_load_row, server, err);
}
