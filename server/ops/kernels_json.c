/* SPDX-License-Identifier: MIT */
/* GET /api/v1/kernels: the rows of the kernel database. */
#include "server/ops/kernels_json.h"

#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/ops/background.h"
#include "server/ops/server.h"

#include <string.h>

enum { KEY_DIGITS = 16 };

static void kernels_json_put_text(bl_text *out, const char *name, const char *value)
{
    bl_encode_key(out, name);
    bl_encode_string(out, value);
}

static void kernels_json_put_number(bl_text *out, const char *name, int64_t value)
{
    bl_encode_key(out, name);
    bl_encode_u64(out, value < 0 ? 0 : (uint64_t)value);
}

void bl_encode_kernel(bl_text *out, const bl_kernel_row *row, bool whole)
{
    bl_text_puts(out, "{");
    kernels_json_put_text(out, "key", row->key);
    kernels_json_put_text(out, "name", row->name);
    kernels_json_put_text(out, "device", row->device);
    kernels_json_put_text(out, "driver", row->driver);
    kernels_json_put_text(out, "moves", row->moves);
    kernels_json_put_number(out, "version", row->version);
    kernels_json_put_number(out, "heuristic_ns", row->heuristic_ns);
    kernels_json_put_number(out, "best_ns", row->best_ns);
    kernels_json_put_number(out, "candidates", row->tried);
    kernels_json_put_number(out, "beam", row->width);
    kernels_json_put_number(out, "searched", row->searched);
    if (whole)
        kernels_json_put_text(out, "nest", row->nest);
    bl_text_puts(out, "}");
}

static bool kernels_json_list_row(void *arg, const bl_kernel_row *row)
{
    bl_text *out = arg;
    if (row->version != BL_MOVES_VERSION) /* another version of the server, whose moves this server cannot use, wrote the row */
        return true;
    if (out->len > 0 && bl_text_last(out) != '[')
        bl_text_puts(out, ",");
    bl_encode_kernel(out, row, false);
    return !out->failed;
}

/* List the rows of one nest: one row for each device and driver. */
static bool list_whole(void *arg, const bl_kernel_row *row)
{
    bl_text *out = arg;
    if (row->version != BL_MOVES_VERSION)
        return true;
    bl_text_puts(out, bl_text_last(out) == '[' ? "" : ",");
    bl_encode_kernel(out, row, true);
    return !out->failed;
}

bl_status bl_handle_kernel(bl_request *rq)
{
    const char *key = rq->head.param[0];
    if (strlen(key) != KEY_DIGITS || strspn(key, "0123456789abcdef") != KEY_DIGITS)
        return bl_fail(&rq->err, BL_ENOTFOUND, "the key of a kernel is 16 hexadecimal digits, not \"%.40s\"", key);
    bl_text_puts(&rq->reply.out, "{\"kernels\":[");
    BL_TRY(bl_kernels_list(rq->server->search.tuner.kernels, key, list_whole, &rq->reply.out, &rq->err));
    if (bl_text_last(&rq->reply.out) == '[')
        return bl_fail(&rq->err, BL_ENOTFOUND, "no search has found a schedule for kernel \"%s\"", key);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_kernels(bl_request *rq)
{
    bl_text_puts(&rq->reply.out, "{\"kernels\":[");
    BL_TRY(bl_kernels_list(rq->server->search.tuner.kernels, NULL, kernels_json_list_row, &rq->reply.out, &rq->err));
    bl_text_puts(&rq->reply.out, "]");
    bl_background_describe(rq->server, rq->server->search.background, &rq->reply.out);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
