/* SPDX-License-Identifier: MIT */
/* Promotion of the live state of a program to a version of a hosted model, without a copy.  The version retains the buffers
 * between two steps of the program.  Later training steps write new buffers, since the version retains the old ones. */
#include "proto/encode.h"
#include "server/data/saver.h"
#include "server/http/handlers.h"
#include "server/models/models_internal.h"
#include "server/programs/variants.h"
#include "server/store/registry.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <string.h>

typedef struct promotion {
    bl_program *program, *frozen; /* frozen: NULL before it is made, and after the version owns it */
    bl_model_version *made;       /* NULL after it is published */
    uint64_t steps;
    const char *model;
    const char *entry; /* NULL: the only one, or "main" */
    int64_t version;
} promotion;

static void end_promotion(void *arg)
{
    promotion *p = arg;
    bl_model_version_release(p->made);
    bl_program_release(p->frozen);
}

static bl_status promote_versions_decode(bl_request *rq, promotion *p)
{
    static const bl_json_field fields[] = {
        {BL_FIELD(promotion, BL_FIELD_STRING, "model", model), .needed = true},
        {BL_FIELD(promotion, BL_FIELD_INT64, "version", version), .needed = true, .least = 1, .most = INT64_MAX},
        {BL_FIELD(promotion, BL_FIELD_STRING, "entry", entry)},
        {.name = NULL},
    };
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc = {0};
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    bl_json root = bl_json_root(&doc);
    if (st == BL_OK)
        st = bl_json_read(&root, fields, true, p, &rq->err);
    bl_json_fini(&doc);
    if (st == BL_OK && !bl_model_name_ok(p->model))
        st = bl_fail(
            &rq->err, BL_EGRAPH,
            "model: \"%.160s\" is not a valid name of a model: a name has at most 128 characters, letters, digits and _ . -",
            p->model);
    return st;
}

/* Make a program with the same plans and retained state buffers.  Worker's thread, between two runs. */
static bl_status freeze(bl_program *from, bl_program **out, bl_err *err)
{
    bl_program *program = bl_program_create(from->server, from->owner);
    *out = program;
    if (program == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a version of a model");
    bl_program_retain(from);
    program->from = from;
    snprintf(program->name, sizeof program->name, "%s", from->name);
    program->worker = from->worker;
    program->generation = from->generation;
    program->doc = from->doc;
    program->entries = bl_arena_array(program->arena, (size_t)from->doc.nentries + 1, sizeof *program->entries);
    program->states = bl_arena_array(program->arena, (size_t)from->nstates + 1, sizeof *program->states);
    BL_TRY(bl_arena_status(program->arena, err));
    for (int i = 0; i < from->doc.nentries; i++) {
        program->entries[i] = from->entries[i];
        program->entries[i].plan = bl_plan_current(from->entries[i].plan);
    }
    for (; program->nstates < from->nstates; program->nstates++) {
        bl_state *state = &program->states[program->nstates];
        *state = from->states[program->nstates];
        state->shared = state->shared != NULL ? bl_device_tensor_retain(state->shared) : NULL;
        state->buffer = bl_buffer_retain(state->buffer);
    }
    atomic_store(&program->steps, atomic_load(&from->steps));
    BL_TRY(bl_registry_charge(from->server->registry, from->owner, from->charged, true,
                              err)); /* the copy is charged now, since the next training step writes new buffers */
    program->charged = from->charged;
    return BL_OK;
}

static bl_step freeze_it(bl_request *rq)
{
    promotion *p = rq->data;
    if (bl_program_check(p->program, &rq->err) == BL_OK && bl_program_wake(p->program, &rq->err) == BL_OK)
        rq->err.status = freeze(p->program, &p->frozen, &rq->err);
    if (rq->err.status == BL_OK)
        bl_program_settle(p->frozen);
    return BL_STEP_DONE;
}

bl_status bl_model_fill_promoted(bl_model_version *version, bl_program **program, const char *entry, bl_err *err)
{
    BL_TRY(bl_model_config_read(version->arena, version->name, (bl_span){0}, &version->config, err));
    version->config.entry = entry != NULL ? bl_arena_strdup(version->arena, entry) : NULL;
    version->instances = bl_arena_array(version->arena, 1, sizeof *version->instances);
    BL_TRY(bl_arena_status(version->arena, err));
    version->instances[version->ninstances++].slot.program = *program;
    *program = NULL; /* moved */
    BL_TRY(bl_model_fill_instance(version, &version->instances[0], err));
    return bl_model_version_describe(version, err);
}

static bl_status promote_versions_reply(bl_request *rq)
{
    const promotion *p = rq->data;
    bl_text_puts(&rq->reply.out, "{");
    bl_encode_key(&rq->reply.out, "model");
    bl_encode_string(&rq->reply.out, p->model);
    bl_encode_key(&rq->reply.out, "version");
    bl_text_printf(&rq->reply.out, "\"%lld\"", (long long)p->version);
    bl_encode_key(&rq->reply.out, "steps");
    bl_encode_u64(&rq->reply.out, p->steps);
    bl_text_puts(&rq->reply.out, "}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static bl_status promote_versions_publish(bl_request *rq)
{
    promotion *p = rq->data;
    bl_model_version *made = p->made;
    p->made = NULL; /* moved */
    return bl_models_publish(rq->server->models, made, NULL, &rq->err);
}

/* On the saver's thread: write the version to disk before requests can use it. */
static bl_step promote_versions_keep(bl_request *rq)
{
    promotion *p = rq->data;
    rq->err.status = bl_model_keep(p->made, &rq->err);
    if (rq->err.status == BL_OK)
        rq->err.status = promote_versions_publish(rq);
    return BL_STEP_DONE;
}

static bl_status make_version(bl_request *rq)
{
    promotion *p = rq->data;
    p->made = bl_model_version_create(rq->server->models, rq->owner, p->model, (uint64_t)p->version);
    if (p->made == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a version of a model");
    p->made->origin.purges = rq->purges;
    BL_TRY(bl_models_admit(rq->server->models, rq->owner, p->model, &rq->err));
    p->steps = atomic_load(&p->frozen->steps);
    BL_TRY(bl_model_fill_promoted(p->made, &p->frozen, p->entry, &rq->err));
    rq->then = promote_versions_reply;
    if (bl_storage_folder(rq->server->storage) != NULL)
        return bl_saver_submit(rq, promote_versions_keep);
    BL_TRY(promote_versions_publish(rq));
    return promote_versions_reply(rq);
}

bl_status bl_handle_program_promote(bl_request *rq)
{
    promotion *p = bl_arena_alloc(rq->arena, sizeof *p);
    if (p == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *p = (promotion){0};
    BL_TRY(bl_request_defer(rq, end_promotion, p));
    BL_TRY(promote_versions_decode(rq, p));
    BL_TRY(bl_program_find(rq, false, &p->program));
    BL_TRY(bl_variants_refuse(p->program, "it cannot become a model: put model.onnx into the folder of models", &rq->err));
    rq->data = p;
    rq->then = make_version;
    return bl_request_submit(rq, p->program->worker->queue, freeze_it, &p->program->serial);
}
