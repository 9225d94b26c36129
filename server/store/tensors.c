/* SPDX-License-Identifier: MIT */
#include "server/store/tensors.h"

#include "proto/decode.h"
#include "server/data/durable.h"
#include "server/data/sources.h"
#include "server/http/handlers.h"
#include "server/run/reply.h"
#include "server/run/upload.h"
#include "server/store/registry.h"
#include "server/store/shares.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_tensors_check_name(bl_request *rq)
{
    if (!bl_wire_name_ok(rq->head.param[0]))
        return bl_fail(&rq->err, BL_EINVAL,
                       "\"%.160s\" is not a valid name: a name has at most 128 characters, a letter or _ and then letters, "
                       "digits and _ . : / -",
                       rq->head.param[0]);
    return BL_OK;
}

bl_status bl_tensors_check_put(bl_request *rq)
{
    BL_TRY(bl_tensors_check_name(rq));
    return bl_shares_check_new(rq, bl_request_query(rq, "lease"), "tensor", rq->head.param[0]);
}

static void tensors_put_entry(void *arg, const char *name, const bl_device_tensor *held)
{
    bl_text *out = arg;
    bl_encode_key(out, "name");
    bl_encode_string(out, name);
    bl_encode_key(out, "dtype");
    bl_encode_string(out, bl_dtype_name(held->dtype));
    bl_encode_key(out, "shape");
    bl_shape_print(out, held->ndim, held->dim);
    bl_encode_key(out, "bytes");
    bl_encode_u64(out, held->bytes);
    bl_encode_key(out, "device");
    bl_encode_string(out, held->worker->dev->info.id);
    if (held->durable != 0) {
        bl_encode_key(out, "durable");
        bl_text_puts(out, "true");
    }
    if (atomic_load(&held->moved)) {
        bl_encode_key(out, "moved");
        bl_text_puts(out, "true");
    }
    if (bl_device_tensor_lost(held)) {
        bl_encode_key(out, "lost");
        bl_text_puts(out, "true");
    }
}

static void tensors_list_entry(void *arg, const char *name, const bl_device_tensor *held)
{
    bl_text *out = arg;
    if (bl_text_last(out) == '}')
        bl_text_puts(out, ",");
    bl_text_puts(out, "{");
    tensors_put_entry(out, name, held);
    bl_text_puts(out, "}");
}

bl_status bl_handle_tensors_list(bl_request *rq)
{
    bl_text_puts(&rq->reply.out, "{\"tensors\":[");
    BL_TRY(bl_registry_list(rq->server->registry, rq->owner, bl_request_query(rq, "lease"), tensors_list_entry, &rq->reply.out,
                            &rq->err));
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static bl_status put_on_shelf(bl_request *rq)
{
    bl_device_tensor *held = rq->data;
    BL_TRY(bl_registry_put(rq->server->registry, rq, bl_request_query(rq, "lease"), rq->head.param[0], held, &rq->err));
    bl_text_puts(&rq->reply.out, "{");
    tensors_put_entry(&rq->reply.out, rq->head.param[0], held);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 201);
    return BL_OK;
}

bl_status bl_tensors_keep(bl_request *rq, bl_device_tensor *held)
{
    const char *durable = bl_request_query(rq, "durable");
    rq->data = held;
    if (durable == NULL || strcmp(durable, "false") == 0)
        return put_on_shelf(rq);
    if (strcmp(durable, "true") != 0)
        return bl_fail(&rq->err, BL_EINVAL, "durable must be true or false, not \"%.40s\"", durable);
    if (bl_request_query(rq, "lease") != NULL)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "durable: a tensor or program of a lease is deleted with the lease, so it cannot be durable");
    return bl_durable_keep(rq, held, rq->head.param[0], put_on_shelf);
}

/* ---- PUT as JSON */

static bl_status keep_decoded(bl_request *rq)
{
    return bl_tensors_keep(rq, rq->data);
}

static bl_step flush_decoded(bl_request *rq)
{
    rq->err.status = bl_device_tensor_flush(rq->data, &rq->err);
    return BL_STEP_DONE;
}

typedef struct put_job {
    bl_data_source *source; /* NULL: use |value| */
    bl_tensor_value value;
} put_job;

static bl_status decode_put(bl_request *rq, put_job *job)
{
    bl_decode_env env = {.arena = rq->arena, .limits = rq->server->limits};
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc;
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc), where;
        if (root.kind == BL_JSON_OBJECT && (bl_json_find(&root, "blob", &where) || bl_json_find(&root, "file", &where))) {
            job->source = bl_arena_alloc(rq->arena, sizeof *job->source);
            st =
                job->source != NULL ? bl_decode_source(&env, &root, job->source, &rq->err) : bl_arena_status(rq->arena, &rq->err);
        } else {
            st = bl_decode_tensor(&env, &root, &job->value, &rq->err);
        }
    }
    bl_json_fini(&doc);
    return st;
}

/* The host memory of the tensor is written: copy the contents to the device if the buffer is elsewhere. */
static bl_status keep_written(bl_request *rq)
{
    bl_device_tensor *held = rq->data;
    if (held->scratch == NULL)
        return bl_tensors_keep(rq, held);
    rq->then = keep_decoded;
    return bl_request_submit(rq, held->worker->queue, flush_decoded, NULL);
}

static bl_status tensors_put_json(bl_request *rq)
{
    put_job job = {0};
    bl_worker *worker = NULL;
    bl_device_tensor *held = NULL;
    char *host = NULL;
    if (bl_request_query(rq, "dtype") != NULL || bl_request_query(rq, "shape") != NULL)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "the body is a JSON tensor, which has dtype and shape itself; leave them out of the address");
    BL_TRY(bl_tensors_check_put(rq));
    BL_TRY(bl_worker_place(rq->server, bl_request_query(rq, "device"), false, &worker, &rq->err));
    BL_TRY(decode_put(rq, &job));
    if (job.source != NULL)
        return bl_source_load(rq, job.source, worker, keep_written);
    BL_TRY(bl_device_tensor_create(worker, job.value.dtype, job.value.ndim, job.value.dim, &held, &rq->err));
    BL_TRY(bl_request_defer(rq, bl_device_tensor_release_any, held));
    host = bl_device_tensor_host(held);
    if (host == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", held->bytes);
    BL_TRY(bl_tensor_scan(&job.value, host, &rq->err));
    rq->data = held;
    return keep_written(rq);
}

bl_status bl_handle_tensor_put(bl_request *rq)
{
    if (rq->head.media == BL_MEDIA_JSON)
        return tensors_put_json(rq);
    if (rq->body.intake == NULL) /* the body is empty, which is valid for a tensor without elements */
        BL_TRY(bl_upload_begin(rq, false));
    return bl_upload_finish(rq);
}

/* ---- GET */

typedef struct get_job {
    bl_device_tensor *held;
    char *copy; /* copy of the contents if the host does not see the buffer; else NULL */
} get_job;

static bl_status reply_tensor(bl_request *rq)
{
    get_job *job = rq->data;
    const bl_device_tensor *held = job->held;
    const char *data = job->copy != NULL ? job->copy : bl_device_tensor_mapped(held);
    bl_result result = {.name = rq->head.param[0], .dtype = held->dtype, .ndim = held->ndim, .data = data};
    memcpy(result.dim, held->dim, sizeof result.dim);
    result.count = held->bytes / bl_dtype_bytes(held->dtype);
    if (bl_request_accepts(rq, "application/x-safetensors"))
        return bl_reply_safetensors(rq, &result, 1, NULL, NULL);
    if (bl_request_accepts(rq, "application/octet-stream"))
        return bl_reply_octets(rq, &result);
    bl_encode_tensor(&rq->reply.out, &result);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static bl_step tensors_read_tensor(bl_request *rq)
{
    get_job *job = rq->data;
    rq->err.status = bl_device_tensor_read(job->held, job->copy, &rq->err);
    return BL_STEP_DONE;
}

bl_status bl_handle_tensor_get(bl_request *rq)
{
    get_job *job = bl_arena_alloc(rq->arena, sizeof *job);
    BL_TRY(bl_tensors_check_name(rq));
    if (job == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_registry_get(rq->server->registry, rq->owner, bl_request_query(rq, "lease"), rq->head.param[0], &job->held, NULL,
                           &rq->err));
    BL_TRY(bl_request_defer(rq, bl_device_tensor_release_any, job->held));
    BL_TRY(bl_reply_check_list(rq, job->held->bytes / bl_dtype_bytes(job->held->dtype), &rq->err));
    rq->data = job;
    rq->then = reply_tensor;
    if (bl_device_tensor_mapped(job->held) != NULL)
        return BL_OK;
    job->copy = bl_request_alloc(rq, job->held->bytes, "a tensor");
    if (job->copy == NULL)
        return rq->err.status;
    return bl_request_submit(rq, job->held->worker->queue, tensors_read_tensor, NULL);
}

/* ---- DELETE */

bl_status bl_handle_tensor_delete(bl_request *rq)
{
    BL_TRY(bl_tensors_check_name(rq));
    BL_TRY(bl_registry_delete(rq->server->registry, rq->owner, bl_request_query(rq, "lease"), rq->head.param[0], &rq->err));
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

static bl_status delete_names(bl_request *rq, const char **names, size_t count, const char *lease)
{
    uint64_t deleted = 0;
    for (size_t i = 0; i < count; i++) {
        bl_err err = {0};
        bl_status st = bl_registry_delete(rq->server->registry, rq->owner, lease, names[i], &err);
        deleted += st == BL_OK;
        if (st != BL_OK && st != BL_ENOTFOUND) {
            rq->err = err;
            return st;
        }
    }
    bl_text_puts(&rq->reply.out, "{");
    bl_encode_key(&rq->reply.out, "deleted"); /* the number of deleted tensors; a missing tensor is not an error */
    bl_encode_u64(&rq->reply.out, deleted);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_tensors_delete(bl_request *rq)
{
    bl_decode_env env = {.arena = rq->arena, .limits = rq->server->limits};
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc;
    const char **names = NULL, *lease = NULL;
    double ttl = 0;
    size_t count = 0;
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_names(&env, &root, &names, &count, &lease, &rq->err);
    }
    bl_json_fini(&doc);
    if (st != BL_OK)
        return st;
    if (lease != NULL && bl_request_query(rq, "lease") != NULL)
        return bl_fail(&rq->err, BL_EGRAPH, "the lease is given in the address and in the body; give it once");
    if (lease == NULL)
        lease = bl_request_query(rq, "lease");
    if (lease != NULL)
        BL_TRY(bl_lease_renew(rq->server->registry, rq->owner, lease, 0, &ttl, &rq->err));
    return delete_names(rq, names, count, lease);
}
