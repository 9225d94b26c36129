/* SPDX-License-Identifier: MIT */
/* The routes of shares. server/store/grants.c has the shares themselves. */
#include "server/store/shares.h"

#include "proto/encode.h"
#include "server/access/access.h"
#include "server/access/keys.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs.h"
#include "server/models/models.h"
#include "server/store/grants.h"
#include "server/store/registry.h"

#include <string.h>

/* Does the name denote an object that the key owns?  Such a name keeps its meaning. */
static bool has_own(const bl_request *rq, const char *lease, const char *kind, const char *name)
{
    bl_registry *registry = rq->server->registry;
    bl_device_tensor *held = NULL;
    bl_err ignored = {0};
    bool foreign = false;
    if (strcmp(kind, "tensor") != 0)
        return bl_registry_has(registry, rq->owner, kind, name);
    if (bl_registry_get(registry, rq->owner, lease, name, &held, &foreign, &ignored) == BL_OK)
        bl_device_tensor_release(held);
    return !foreign; /* true also for an unknown lease: the code that puts the object reports the error */
}

bl_status bl_shares_check_new(bl_request *rq, const char *lease, const char *kind, const char *name)
{
    uint32_t owner = 0;
    if (bl_registry_shared(rq->server->registry, rq->owner, kind, name, &owner) == NULL || has_own(rq, lease, kind, name))
        return BL_OK;
    return bl_fail(&rq->err, BL_ECONFLICT,
                   "\"%.128s\" is the name of a %s that another key shares for reading; choose another name", name, kind);
}

typedef struct wanted {
    const char *kind, *name, *to;
} wanted;

/* Determine the shared object and the reader. */
static bl_status shares_resolve(bl_request *rq, const char *const *names, const char *to, wanted *out)
{
    *out = (wanted){.to = to};
    for (int i = 0; i < BL_SHARE_KINDS; i++) {
        if (names[i] == NULL)
            continue;
        if (out->kind != NULL)
            return bl_fail(&rq->err, BL_EGRAPH, "a share must name one item, a %s or a %s, not both", out->kind,
                           bl_share_kinds[i]);
        out->kind = bl_share_kinds[i];
        out->name = names[i];
    }
    if (out->kind == NULL || to == NULL)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "a share needs one of tensor, program, model and job, and \"to\", the name of a key or * for every key");
    return strcmp(to, "*") != 0 ? bl_key_check_name(to, &rq->err) : BL_OK;
}

static bl_status shares_read_text(const bl_request *rq, const bl_json *object, const char *name, const char **out, bl_err *err)
{
    bl_json at;
    const char *text = NULL;
    if (!bl_json_find(object, name, &at))
        return BL_OK;
    BL_TRY(bl_json_string(&at, &text, err));
    *out = bl_arena_strdup(rq->arena, text);
    return bl_arena_status(rq->arena, err);
}

static bl_status shares_decode(bl_request *rq, wanted *out)
{
    static const char *const members[] = {"tensor", "program", "model", "job", "to", NULL};
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    const char *text[BL_SHARE_KINDS + 1] = {NULL};
    bl_json_doc doc;
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_json_allow(&root, members, &rq->err);
        for (int i = 0; i <= BL_SHARE_KINDS && st == BL_OK; i++)
            st = shares_read_text(rq, &root, members[i], &text[i], &rq->err);
    }
    bl_json_fini(&doc);
    return st == BL_OK ? shares_resolve(rq, text, text[BL_SHARE_KINDS], out) : st;
}

static void shares_put_share(bl_text *out, const char *kind, const char *whose, const char *name, const char *to)
{
    bl_encode_key(out, kind);
    bl_text_puts(out, "\"");
    bl_text_printf(out, "%s%s%s\"", whose, *whose != '\0' ? ":" : "", name); /* names contain no character that needs an escape */
    if (to != NULL) {
        bl_encode_key(out, "to");
        bl_encode_string(out, to);
    }
}

static bool exists(bl_server *server, const bl_grant *what)
{
    if (strcmp(what->kind, "model") == 0)
        return bl_models_has(server->models, what->owner, what->name);
    if (strcmp(what->kind, "job") == 0)
        return bl_jobs_has(server->jobs, what->owner, what->name);
    return bl_registry_has(server->registry, what->owner, what->kind, what->name);
}

static bl_status shares_change(bl_request *rq, const wanted *w, bool give, bool *owed)
{
    bl_grants *grants = bl_registry_grants(rq->server->registry);
    bl_grant what = {.owner = rq->owner, .kind = w->kind, .name = w->name, .reader = w->to};
    bl_status st = BL_OK;
    bl_grants_hold(grants);
    if (!give)
        st = bl_grants_take(grants, &what, owed, &rq->err);
    else if (exists(rq->server, &what))
        st = bl_grants_give(grants, &what, &rq->err);
    else
        st = bl_fail(&rq->err, BL_ENOTFOUND, "there is no %s \"%.128s\"", w->kind, w->name);
    bl_grants_let_go(grants);
    return st;
}

bl_status bl_handle_share_post(bl_request *rq)
{
    wanted w;
    BL_TRY(shares_decode(rq, &w));
    BL_TRY(shares_change(rq, &w, true, NULL));
    bl_text_puts(&rq->reply.out, "{");
    shares_put_share(&rq->reply.out, w.kind, "", w.name, w.to);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 201);
    return BL_OK;
}

bl_status bl_handle_share_delete(bl_request *rq)
{
    const char *names[BL_SHARE_KINDS];
    wanted w;
    bool owed = false;
    for (int i = 0; i < BL_SHARE_KINDS; i++)
        names[i] = bl_request_query(rq, bl_share_kinds[i]);
    BL_TRY(shares_resolve(rq, names, bl_request_query(rq, "to"), &w));
    BL_TRY(shares_change(rq, &w, false, &owed));
    if (owed)
        bl_request_reply_owed(rq,
                              "the share is removed, but the disk cannot store the removal yet: a server that is started again "
                              "before the disk works would have the share again");
    else
        bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

typedef struct listing {
    bl_request *rq;
    bool given;
    bl_text *out;
    int n;
} listing;

static void list_share(void *arg, const bl_grant *grant)
{
    listing *l = arg;
    char owner[BL_KEY_NAME] = "";
    if (l->given != (grant->owner == l->rq->owner))
        return;
    if (!l->given)
        bl_access_name(l->rq->server->access, grant->owner, owner, sizeof owner);
    bl_text_puts(l->out, l->n++ > 0 ? ",{" : "{");
    shares_put_share(l->out, grant->kind, owner, grant->name, l->given ? grant->reader : NULL);
    bl_text_puts(l->out, "}");
}

bl_status bl_handle_shares_list(bl_request *rq)
{
    listing l = {.rq = rq, .given = true, .out = &rq->reply.out};
    bl_text_puts(&rq->reply.out, "{\"given\":[");
    bl_grants_each(bl_registry_grants(rq->server->registry), rq->owner, list_share, &l);
    bl_text_puts(&rq->reply.out, "],\"taken\":[");
    l.given = false;
    l.n = 0;
    bl_grants_each(bl_registry_grants(rq->server->registry), rq->owner, list_share, &l);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
