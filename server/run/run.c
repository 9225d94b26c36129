/* SPDX-License-Identifier: MIT */
#include "server/http/handlers.h"
#include "server/run/exec.h"

static bl_status run_compile(bl_exec *x, bl_err *err)
{
    if (x->plan == NULL)
        BL_TRY(bl_exec_make_plan(x, &x->key, x->graph, false, &x->plan, &x->hit, err));
    BL_TRY(bl_exec_admit(x, err));
    if (x->explained == NULL)
        return BL_OK;
    *x->explained = (bl_explained){.wire = x->graph, .entry = "main", .worker = x->worker, .plan = x->plan};
    return bl_explain_make(x->rq, x->explained, err);
}

static bl_status run_decode(bl_exec *x, bl_run_request *run)
{
    bl_request *rq = x->rq;
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    bl_status st = bl_exec_document(x, rq->arena, false, &doc, &file);
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(x, rq->arena, &file);
        bl_json root = bl_json_root(&doc);
        st = bl_decode_run(&env, &root, run, &rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

/* Name the outputs from |nsent| on, which the server retains under their names. */
static bl_status name_kept(bl_exec *x, int nsent)
{
    x->out.kept = bl_arena_array(x->rq->arena, (size_t)x->graph->noutputs + 1, sizeof *x->out.kept);
    if (x->out.kept == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    for (int i = nsent; i < bl_wire_shown(x->graph); i++)
        x->out.kept[i] = x->graph->outputs[i].name;
    return bl_exec_check_kept(x);
}

bl_status bl_handle_run(bl_request *rq)
{
    bl_exec *x = NULL;
    bl_run_request *run = bl_arena_alloc(rq->arena, sizeof *run);
    if (run == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_exec_create(rq, &x));
    BL_TRY(run_decode(x, run));
    BL_TRY(bl_exec_choose(x, &run->options, NULL));
    x->graph = &run->graph;
    x->vars = run->vars;
    BL_TRY(name_kept(x, run->nsent));
    x->how.early = rq->server->settings.interpret_first;
    BL_TRY(bl_exec_key(x, x->graph, false, &x->key));
    x->plan = bl_plans_lookup(rq->server->plans, &x->key, x->how.beam, x->how.early);
    x->hit = x->plan != NULL;
    if (x->hit)
        BL_TRY(bl_exec_admit(x, &rq->err));
    if (run->options.explain) {
        x->explained = bl_arena_alloc(rq->arena, sizeof *x->explained);
        BL_TRY(bl_arena_status(rq->arena, &rq->err));
    }
    if (!x->hit || x->explained != NULL)
        x->compile = run_compile;
    if (x->options.dry_run) {
        x->in.values = run->values;
        x->in.n = run->graph.ninputs;
        return bl_exec_dry_run(x);
    }
    BL_TRY(bl_exec_load(x, run->graph.ninputs, run->values, false));
    x->work = bl_exec_run;
    rq->then = bl_exec_reply;
    return bl_exec_advance(x);
}
