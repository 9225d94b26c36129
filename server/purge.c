/* SPDX-License-Identifier: MIT */
#include "server/purge.h"

#include "server/data/blobs.h"
#include "server/data/saver.h"
#include "server/grants.h"
#include "server/models/models.h"
#include "server/shelf.h"

static bl_status purge_shares(bl_request *rq, uint32_t owner)
{
    bl_grants *grants = bl_shelf_grants(rq->server->shelf);
    bl_grants_hold(grants);
    rq->err.status = bl_grants_purge(grants, owner, &rq->err);
    bl_grants_let_go(grants);
    return rq->err.status;
}

bl_status bl_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq))
{
    BL_TRY(purge_shares(rq, owner));
    (void)bl_shelf_purge(rq->server->shelf, owner);
    BL_TRY(bl_models_purge(rq->server->models, owner, &rq->err));
    BL_TRY(bl_blobs_purge(rq->server->blobs, owner, &rq->err));
    return bl_saver_purge(rq, owner, then);
}
