/* SPDX-License-Identifier: MIT */
/* PUT of a program: decode on the HTTP thread, make the program (program_make.h), then register its name. */
#include "server/data/saver.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs.h"
#include "server/programs/idempotent.h"
#include "server/programs/program_make.h"
#include "server/programs/program_onnx.h"
#include "server/programs/variants.h"
#include "server/store/registry.h"
#include "server/store/shares.h"
#include "server/store/storage.h"

#include <stdio.h>
#include <string.h>

typedef struct put_job {
    bl_program_make *make;
    bool fresh, replaced;
    /* the saver registers the program after it is stored: after a crash either the new or the replaced program comes back */
    bool saved;
} put_job;

/* Read the query "durable": shall the program survive a restart? */
static bl_status read_durable(bl_request *rq, bool *out)
{
    const char *text = bl_request_query(rq, "durable");
    *out = text != NULL && strcmp(text, "true") == 0;
    if (text != NULL && !*out && strcmp(text, "false") != 0)
        return bl_fail(&rq->err, BL_EINVAL, "durable must be true or false, not \"%.40s\"", text);
    if (*out && bl_storage_folder(rq->server->storage) == NULL)
        return bl_fail(&rq->err, BL_EUNSUPPORTED, "durable: this server stores nothing on disk; start the server with --state");
    return BL_OK;
}

static bl_status program_put_decode(bl_program_make *make)
{
    bl_request *rq = make->x->rq;
    if (rq->head.media == BL_MEDIA_ONNX)
        return bl_program_import(rq, make->program);
    for (int i = 0; i < rq->head.nquery; i++)
        if (strcmp(rq->head.query[i].name, "durable") != 0)
            return bl_fail(&rq->err, BL_EGRAPH,
                           "\"%s\" must be a member of the JSON document; only the body of an ONNX model has it in the address",
                           rq->head.query[i].name);
    return bl_program_make_decode(make);
}

/* A job puts the program again.  The program keeps its durability and its numbered runs. */
static bl_status take_over(bl_program *program, const bl_program *old, bl_err *err)
{
    program->durable = old->durable;
    return old->worker == program->worker ? bl_sequences_copy(old->sequences, &program->sequences, err) : BL_OK;
}

static bl_status program_put_install(bl_program_make *make, bl_err *err)
{
    put_job *job = make->arg;
    bl_program *program = make->program, *old = NULL;
    bl_err ignored = {0};
    bl_status st = BL_OK;
    if (make->x->rq->own.done == NULL) /* a job may have begun since the request arrived */
        BL_TRY(bl_jobs_guard(program->server->jobs, program->owner, program->name, err));
    job->replaced = bl_registry_get_program(program->server->registry, program->owner, program->name, &old, &ignored) == BL_OK;
    if (make->x->rq->own.done == NULL)
        job->saved = program->durable || (job->replaced && (old->durable || old->left));
    else if (job->replaced)
        st = take_over(program, old, err);
    bl_program_release(old);
    if (job->saved || st != BL_OK)
        return st;
    return bl_registry_put_program(program->server->registry, program->owner, program->name, program, job->fresh, err);
}

static bl_status program_put_answer(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_program_make *make = x->extra;
    put_job *job = make->arg;
    bl_program_describe(make->program, &rq->reply.out);
    bl_request_reply_json(rq, job->replaced ? 200 : 201);
    return BL_OK;
}

static bl_status program_put_reply(bl_request *rq)
{
    const bl_exec *x = rq->data;
    bl_program_make *make = x->extra;
    put_job *job = make->arg;
    if (job->saved)
        return bl_saver_put(rq, make->program, job->fresh, &job->replaced, program_put_answer);
    return program_put_answer(rq);
}

static bl_status program_put_check_name(bl_request *rq)
{
    BL_TRY(bl_shares_check_new(rq, NULL, "program", rq->head.param[0]));
    return bl_jobs_guard(rq->server->jobs, rq->owner, rq->head.param[0], &rq->err);
}

bl_status bl_handle_program_put(bl_request *rq)
{
    put_job *job = bl_arena_alloc(rq->arena, sizeof *job);
    bl_program *program = NULL;
    bool durable = false;
    if (job == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    if (!bl_wire_name_ok(rq->head.param[0]))
        return bl_fail(&rq->err, BL_EINVAL,
                       "\"%.160s\" is not a valid name: a name has at most 128 characters, a letter or _ and then letters, "
                       "digits and _ . : / -",
                       rq->head.param[0]);
    if (rq->own.done == NULL) /* otherwise the job itself puts the program */
        BL_TRY(program_put_check_name(rq));
    BL_TRY(bl_program_make_create(rq, &job->make));
    program = job->make->program;
    snprintf(program->name, sizeof program->name, "%s", rq->head.param[0]);
    job->fresh = rq->head.if_none_match != NULL && strcmp(rq->head.if_none_match, "*") == 0;
    if (job->fresh && bl_registry_has(rq->server->registry, rq->owner, "program", program->name))
        return bl_fail(&rq->err, BL_EPRECONDITION, "program \"%s\" exists already", program->name);
    BL_TRY(read_durable(rq, &durable));
    program->durable = durable;
    program->saved = UINT64_MAX;
    BL_TRY(program_put_decode(job->make));
    if (program->durable)
        BL_TRY(bl_variants_refuse(program, "it ends with the server (durable is false)", &rq->err));
    if (program->durable && program->doc.options.lease != NULL)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "durable: a tensor or program of a lease is deleted with the lease, so it cannot be durable");
    job->make->installed = program_put_install;
    job->make->arg = job;
    rq->then = program_put_reply;
    return bl_program_make_begin(job->make, NULL);
}
