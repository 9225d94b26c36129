/* SPDX-License-Identifier: MIT */
#include "server/store/purge.h"

#include "server/access/access.h"
#include "server/data/blobs.h"
#include "server/data/saver.h"
#include "server/jobs/jobs.h"
#include "server/models/models.h"
#include "server/store/grants.h"
#include "server/store/registry.h"

static bl_status purge_shares(bl_request *rq, uint32_t owner)
{
    bl_grants *grants = bl_registry_grants(rq->server->registry);
    bl_grants_hold(grants);
    rq->err.status = bl_grants_purge(grants, owner, &rq->err);
    bl_grants_let_go(grants);
    return rq->err.status;
}

typedef struct order {
    uint32_t owner;
    bl_status (*then)(bl_request *rq);
} order;

/* Called when the key has no job left that holds or makes objects. */
static bl_status purge_rest(bl_request *rq)
{
    const order *o = rq->data;
    BL_TRY(purge_shares(rq, o->owner));
    (void)bl_registry_purge(rq->server->registry, o->owner);
    BL_TRY(bl_models_purge(rq->server->models, o->owner, &rq->err));
    BL_TRY(bl_blobs_purge(rq->server->blobs, o->owner, &rq->err));
    return bl_saver_purge(rq, o->owner, o->then);
}

bl_status bl_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq))
{
    order *o = bl_arena_alloc(rq->arena, sizeof *o);
    if (o == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    bl_access_purge(rq->server->access, owner); /* refuses requests of the key that began before */
    *o = (order){owner, then};
    rq->data = o;
    return bl_jobs_purge(rq, owner, purge_rest);
}
