/* SPDX-License-Identifier: MIT */
#include "proto/decode.h"
#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/store/registry.h"

enum { DEFAULT_TTL = 60 };

/* *ttl becomes 0 if the body does not state it. */
static bl_status leases_read_ttl(bl_request *rq, double *ttl)
{
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc;
    bl_status st = BL_OK;
    *ttl = 0;
    if (rq->body.len == 0)
        return BL_OK;
    st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_lease(&root, ttl, &rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

static bl_status reply_lease(bl_request *rq, const char *id, double ttl, int status)
{
    bl_text_printf(&rq->reply.out, "{\"lease\":\"%s\",\"ttl\":", id);
    bl_encode_number(&rq->reply.out, ttl);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, status);
    return BL_OK;
}

bl_status bl_handle_lease_post(bl_request *rq)
{
    char id[BL_LEASE_SIZE];
    double ttl = 0, now = 0;
    BL_TRY(leases_read_ttl(rq, &ttl));
    BL_TRY(bl_lease_create(rq->server->registry, rq->owner, ttl > 0 ? ttl : DEFAULT_TTL, id, &rq->err));
    BL_TRY(bl_lease_renew(rq->server->registry, rq->owner, id, 0, &now, &rq->err));
    return reply_lease(rq, id, now, 201);
}

bl_status bl_handle_lease_put(bl_request *rq)
{
    double ttl = 0, now = 0;
    BL_TRY(leases_read_ttl(rq, &ttl));
    BL_TRY(bl_lease_renew(rq->server->registry, rq->owner, rq->head.param[0], ttl, &now, &rq->err));
    /* the id needs no escape: the lease was found, so its id is hexadecimal digits */
    return reply_lease(rq, rq->head.param[0], now, 200);
}

bl_status bl_handle_lease_delete(bl_request *rq)
{
    BL_TRY(bl_lease_end(rq->server->registry, rq->owner, rq->head.param[0], &rq->err));
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}
