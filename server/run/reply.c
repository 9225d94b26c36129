/* SPDX-License-Identifier: MIT */
#include "server/run/reply.h"

#include "proto/safetensors.h"
#include "server/ops/server.h"

#include <string.h>

bl_status bl_reply_check_list(bl_request *rq, size_t elements, bl_err *err)
{
    if (bl_request_accepts(rq, "application/x-safetensors") || bl_request_accepts(rq, "application/octet-stream"))
        return BL_OK;
    rq->reply.listed = elements;
    if (elements <= rq->server->settings.max_list)
        return BL_OK;
    return bl_fail(err, BL_ELIMIT,
                   "the answer has %zu elements; a JSON answer has at most %llu (--max-list): ask with "
                   "\"accept: application/x-safetensors\", or keep it on the server",
                   elements, (unsigned long long)rq->server->settings.max_list);
}

/* Add a piece to the reply for every tensor that is not empty. */
static bl_status reply_add_pieces(bl_request *rq, const bl_result *results, size_t count)
{
    rq->reply.pieces = bl_arena_array(rq->arena, count + 1, sizeof *rq->reply.pieces);
    if (rq->reply.pieces == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = results[i].count * bl_dtype_bytes(results[i].dtype);
        if (bytes > 0)
            rq->reply.pieces[rq->reply.npieces++] = (bl_piece){results[i].data, bytes};
    }
    return BL_OK;
}

bl_status bl_reply_safetensors(bl_request *rq, const bl_result *results, size_t count, const char *key, const char *document)
{
    bl_file_tensor *tensors = bl_arena_array(rq->arena, count + 1, sizeof *tensors);
    bl_file_text text = {key, document};
    if (tensors == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (size_t i = 0; i < count; i++) {
        tensors[i].name = results[i].name;
        tensors[i].dtype = results[i].dtype;
        tensors[i].ndim = results[i].ndim;
        memcpy(tensors[i].dim, results[i].dim, sizeof tensors[i].dim);
    }
    bl_text_clear(&rq->reply.out);
    bl_safetensors_write(&rq->reply.out, tensors, count, &text, document != NULL);
    BL_TRY(reply_add_pieces(rq, results, count));
    bl_request_reply(rq, 200, "application/x-safetensors");
    return BL_OK;
}

bl_status bl_reply_octets(bl_request *rq, const bl_result *result)
{
    bl_text_clear(&rq->reply.out);
    BL_TRY(reply_add_pieces(rq, result, 1));
    bl_request_reply(rq, 200, "application/octet-stream");
    return BL_OK;
}
