/* SPDX-License-Identifier: MIT */
#include "server/models/joined.h"

#include "engine/base/clock.h"
#include "server/access/access.h"
#include "server/models/model_infer.h"

#include <string.h>

/* ---- which entries */

const char *bl_joined_along(const bl_program *program, int entry)
{
    const bl_wire_graph *graph = &program->doc.entries[entry].graph;
    const bl_plan_info *info = bl_plan_get_info(program->entries[entry].plan);
    const bl_wire_var *rows = info->rows >= 0 ? &graph->vars[info->rows] : NULL;
    bool pure = true;
    for (int i = 0; i < info->nstates + info->nhidden; i++)
        pure = pure && !info->updated[i];
    if (rows == NULL || !pure || program->joined == NULL || program->doc.batching.off || program->doc.batching.max_rows == 1)
        return NULL;
    return rows->lo <= 1 && rows->hi > 1 ? rows->name : NULL;
}

static bl_status make_version(bl_program *program, int entry, bl_model_version **out, bl_err *err)
{
    bl_model_version *version = bl_model_version_create(program->server->models, program->owner, program->name, 0);
    bl_model_instance *instance = NULL;
    *out = version;
    if (version == NULL)
        return bl_fail(err, BL_ENOMEM, "what joins runs of a program");
    version->host = program;
    version->platform = "beamline_program";
    BL_TRY(bl_model_config_read(version->arena, version->name, (bl_span){0}, &version->config, err));
    version->config.entry = program->doc.entries[entry].name;
    version->instances = bl_arena_array(version->arena, 1, sizeof *version->instances);
    if (version->instances == NULL)
        return bl_arena_status(version->arena, err);
    instance = &version->instances[version->ninstances++];
    instance->program = program;
    BL_TRY(bl_model_fill_instance(version, instance, err));
    return bl_model_version_describe(version, err);
}

/* Made by the first who needs it. */
static bl_model_version *version_of(bl_program *program, int entry)
{
    bl_model_version *made = NULL, *there = atomic_load(&program->joined[entry]);
    bl_err ignored = {0}; /* without it each runs by itself */
    if (there != NULL || bl_joined_along(program, entry) == NULL)
        return there;
    if (make_version(program, entry, &made, &ignored) == BL_OK &&
        atomic_compare_exchange_strong(&program->joined[entry], &there, made))
        return made;
    bl_model_version_destroy(made);
    return there;
}

void bl_joined_fini(bl_program *program)
{
    for (int i = 0; program->joined != NULL && i < program->doc.nentries; i++)
        bl_model_version_destroy(atomic_load(&program->joined[i]));
}

/* ---- which runs */

bool bl_joined_takes(bl_exec *x, const bl_program_run *run)
{
    const bl_model_version *version = NULL;
    const bl_plan_info *info = bl_plan_get_info(x->hold.entry->plan);
    if (x->compile != NULL || x->how.debug > 0 || run->options.beam >= 0 || run->options.priority != 0 || run->steps != 1 ||
        run->every != 0 || run->kept != NULL || run->sequenced || info->rows < 0)
        return false;
    for (int i = 0; i < x->graph->ninputs; i++)
        if (run->values[i].kind == BL_VALUE_HELD)
            return false;
    version = version_of(x->hold.program, run->entry);
    return version != NULL && version->max_batch > 1 && run->vars[info->rows] > 0 && run->vars[info->rows] < version->max_batch;
}

/* ---- the answers */

/* Of one that had its run with others. */
static bl_status reply_joined(bl_request *rq)
{
    bl_infer *in = rq->data;
    rq->data = in->run;
    in->run->out.parts = in->got;
    in->answered = true;
    bl_metrics_add(&rq->server->metrics, BL_COUNT_JOINED, 1);
    bl_program_count(in->version->host, 1);
    return bl_exec_reply(rq);
}

static bl_status reply_alone(bl_request *rq)
{
    const bl_exec *x = rq->data;
    bl_infer *in = x->extra;
    const int64_t *ns = rq->trail.time_ns;
    bl_instance_learn(in->version, in->instance, in->rows, x->plan, ns[BL_TIME_COMPUTE] + ns[BL_TIME_COPY]);
    in->answered = true;
    return bl_exec_reply(rq);
}

/* ---- the way there */

/* Who waits begins before the answer is written. */
static bl_step work_alone(bl_request *rq)
{
    const bl_exec *x = rq->data;
    bl_infer *in = x->extra;
    bl_step step = bl_exec_run(rq);
    if (step == BL_STEP_DONE) {
        in->claimed = false;
        bl_batch_unclaim(in->version, in->instance);
    }
    return step;
}

static bl_status go_alone(bl_infer *in)
{
    bl_exec *x = in->run;
    atomic_fetch_add(&in->instance->busy, 1);
    BL_TRY(bl_exec_load(x, x->graph->ninputs, in->values, false));
    x->extra = in;
    x->serial = &x->hold.program->serial;
    x->work = work_alone;
    in->rq->then = reply_alone;
    return bl_exec_advance(x);
}

static bl_status make_infer(bl_exec *x, const bl_program_run *run, bl_infer **out)
{
    bl_request *rq = x->rq;
    bl_infer *in = bl_arena_alloc(rq->arena, sizeof *in);
    *out = in;
    if (in == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *in = (bl_infer){.rq = rq, .run = x, .reply = reply_joined, .values = run->values, .vars = run->vars};
    in->version = version_of(x->hold.program, run->entry);
    in->rows = run->vars[in->version->batch_var];
    in->begin_ns = bl_clock_ns();
    in->got = bl_arena_array(rq->arena, (size_t)in->version->noutputs + 1, sizeof *in->got);
    if (in->got == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    return bl_request_defer(rq, bl_infer_end, in);
}

bl_status bl_joined_go(bl_exec *x, const bl_program_run *run)
{
    bl_infer *in = NULL;
    BL_TRY(make_infer(x, run, &in));
    in->claimed = bl_batch_claim(in->version, in->rows, &in->instance);
    return in->claimed ? go_alone(in) : bl_batch_join(in);
}
