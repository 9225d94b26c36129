/* SPDX-License-Identifier: MIT */
#include "server/run/upload.h"

#include "proto/decode.h"
#include "server/store/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4 * 1024 * 1024 };

struct bl_upload {
    bl_intake intake; /* first member: bl_intake * converts */
    bl_device_tensor *held;
    char *chunk;        /* NULL if the host sees the buffer */
    size_t done;        /* bytes received */
    size_t chunk_begin; /* |done| when the chunk began */
    size_t chunk_filled;
};

static void free_upload(void *arg)
{
    bl_upload *upload = arg;
    bl_device_tensor_release(upload->held);
    free(upload->chunk);
}

static bl_status upload_find_room(bl_intake *intake, char **at, size_t *room, bl_err *err)
{
    bl_upload *upload = (bl_upload *)intake;
    size_t left = upload->held->bytes - upload->done;
    if (left == 0)
        return bl_fail(err, BL_EINVAL, "the body has more than the %zu bytes that the shape needs", upload->held->bytes);
    if (upload->chunk == NULL) {
        *at = upload->held->mapped + upload->done;
        *room = left;
    } else {
        size_t space = CHUNK_BYTES - upload->chunk_filled;
        *at = upload->chunk + upload->chunk_filled;
        *room = left < space ? left : space;
    }
    return BL_OK;
}

static void upload_commit(bl_intake *intake, size_t bytes)
{
    bl_upload *upload = (bl_upload *)intake;
    upload->done += bytes;
    if (upload->chunk != NULL)
        upload->chunk_filled += bytes;
}

static bool upload_is_whole(const bl_intake *intake)
{
    const bl_upload *upload = (const bl_upload *)intake;
    return upload->done == upload->held->bytes;
}

static bl_step write_chunk(bl_request *rq)
{
    bl_upload *upload = (bl_upload *)rq->body.intake;
    if (bl_device_tensor_lost(upload->held)) {
        (void)bl_fail(&rq->err, BL_EDEVICE, "the device was lost during the upload; send the tensor again");
        return BL_STEP_DONE;
    }
    if (bl_buffer_write(upload->held->buffer, upload->chunk_begin, upload->chunk, upload->chunk_filled, &rq->err) == BL_OK) {
        upload->chunk_begin += upload->chunk_filled;
        upload->chunk_filled = 0;
    }
    return BL_STEP_DONE;
}

static bl_status flush(bl_request *rq)
{
    const bl_upload *upload = (const bl_upload *)rq->body.intake;
    return bl_request_submit(rq, upload->held->worker->queue, write_chunk, NULL);
}

static bl_status make_upload(bl_request *rq, bl_device_tensor *held)
{
    bl_upload *upload = bl_arena_alloc(rq->arena, sizeof *upload);
    if (upload == NULL) {
        bl_device_tensor_release(held);
        return bl_arena_status(rq->arena, &rq->err);
    }
    *upload = (bl_upload){.intake = {upload_find_room, upload_commit, upload_is_whole, flush}, .held = held};
    BL_TRY(bl_request_defer(rq, free_upload, upload));
    if (held->bytes > 0 && bl_device_tensor_mapped(held) == NULL) {
        upload->chunk = malloc(held->bytes < CHUNK_BYTES ? held->bytes : CHUNK_BYTES);
        if (upload->chunk == NULL)
            return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a chunk of the upload");
    }
    rq->body.intake = &upload->intake;
    return BL_OK;
}

bl_status bl_upload_begin(bl_request *rq, bool coded)
{
    const char *dtype = bl_request_query(rq, "dtype"), *shape = bl_request_query(rq, "shape");
    bl_worker *worker = NULL;
    bl_tensor_value value;
    bl_device_tensor *held = NULL;
    BL_TRY(bl_tensors_check_put(rq));
    if (dtype == NULL || shape == NULL)
        return bl_fail(&rq->err, BL_EINVAL, "raw bytes need dtype and shape in the address, as in ?dtype=float32&shape=784,128");
    BL_TRY(bl_decode_raw(&rq->server->limits, dtype, shape, (bl_span){NULL, 0}, &value, &rq->err));
    BL_TRY(bl_worker_place(rq->server, bl_request_query(rq, "device"), false, &worker, &rq->err));
    if (!coded && rq->head.content_length > 0 && rq->head.content_length != value.bytes)
        return bl_fail(&rq->err, BL_EINVAL, "the shape needs %zu bytes, the body has %llu", value.bytes,
                       (unsigned long long)rq->head.content_length);
    BL_TRY(bl_device_tensor_create(worker, value.dtype, value.ndim, value.dim, &held, &rq->err));
    return make_upload(rq, held);
}

static bl_status upload_keep(bl_request *rq)
{
    return bl_tensors_keep(rq, ((bl_upload *)rq->body.intake)->held);
}

bl_status bl_upload_finish(bl_request *rq)
{
    const bl_upload *upload = (const bl_upload *)rq->body.intake;
    if (!upload_is_whole(rq->body.intake))
        return bl_fail(&rq->err, BL_EINVAL, "the shape needs %zu bytes, the body has %zu", upload->held->bytes, upload->done);
    if (upload->chunk_filled == 0)
        return upload_keep(rq);
    rq->then = upload_keep;
    return flush(rq);
}
