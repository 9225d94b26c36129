/* SPDX-License-Identifier: MIT */
#include "server/data/snapshot.h"

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/mapped.h"
#include "proto/encode_program.h"
#include "proto/safetensors.h"
#include "server/http/handlers.h"
#include "server/programs/idempotent.h"
#include "server/programs/program_make.h"
#include "server/run/await.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- taking a snapshot */

static bl_status snapshot_take(bl_snapshot *snap, bl_err *err)
{
    bl_program *program = snap->program;
    BL_TRY(bl_program_check(program, err));
    BL_TRY(bl_program_wake(program, err));
    snap->steps = atomic_load(&program->steps);
    snap->changes = snap->steps + atomic_load(&program->replaced);
    snap->trained = atomic_load(&program->claim) != BL_CLAIM_NONE;
    BL_TRY(bl_sequences_copy(program->sequences, &snap->sequences, err));
    for (int i = 0; i < program->nstates; i++) {
        const bl_state *state = &program->states[i];
        snap->buffers[i] = bl_buffer_retain(state->buffer);
        if (state->buffer->host != NULL)
            continue;
        snap->copies[i] = malloc(state->bytes > 0 ? state->bytes : 1);
        if (snap->copies[i] == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for a program's state");
        BL_TRY(bl_buffer_read(state->buffer, 0, snap->copies[i], state->bytes, err));
    }
    return BL_OK;
}

static bl_step take_work(bl_request *rq)
{
    rq->err.status = snapshot_take(bl_await_what(rq), &rq->err);
    return BL_STEP_DONE;
}

void bl_snapshot_drop(bl_snapshot *snap)
{
    for (int i = 0; snap->buffers != NULL && snap->copies != NULL && i < snap->program->nstates; i++) {
        if (snap->buffers[i] != NULL)
            bl_pool_release(snap->program->worker->pool, snap->buffers[i]);
        free(snap->copies[i]);
    }
    free(snap->buffers);
    free(snap->copies);
    bl_sequences_free(snap->sequences);
    *snap = (bl_snapshot){.program = snap->program};
}

/* Take the snapshot on the device's thread, between two runs of the program. */
bl_status bl_snapshot_take(bl_snapshot *snap, bl_err *err)
{
    bl_program *program = snap->program;
    size_t n = (size_t)program->nstates + 1;
    bl_await await = BL_AWAIT(snap);
    bl_request *rq = bl_await_create(program->server, program->owner, &await);
    bl_status st = BL_OK;
    snap->buffers = bl_calloc(n, sizeof *snap->buffers);
    snap->copies = bl_calloc(n, sizeof *snap->copies);
    if (rq == NULL || snap->buffers == NULL || snap->copies == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a program's state");
    else
        st = bl_await_end(rq, bl_request_submit(rq, program->worker->queue, take_work, &program->serial), err);
    if (rq != NULL)
        bl_request_end(rq);
    return st;
}

/* ---- writing a snapshot */

typedef struct parts {
    bl_text head;
    const bl_snapshot *snap;
    bl_status (*insert)(void *arg, const char *name, bl_err *err);
    void *arg;
} parts;

static bl_status snapshot_write_parts(void *arg, int fd, bl_err *err)
{
    const parts *p = arg;
    const bl_program *program = p->snap->program;
    bool good = bl_write_all(fd, p->head.data, p->head.len);
    for (int i = 0; i < program->nstates && good; i++)
        good = bl_write_all(fd, p->snap->copies[i] != NULL ? p->snap->copies[i] : p->snap->buffers[i]->host,
                            program->states[i].bytes);
    return good ? BL_OK : bl_fail(err, BL_ESTORAGE, "the program cannot be written: %s", strerror(errno));
}

static bl_status snapshot_make_head(const bl_snapshot *snap, bl_text *out, bl_err *err)
{
    const bl_program *program = snap->program;
    bl_file_tensor *tensors = bl_calloc((size_t)program->nstates + 1, sizeof *tensors);
    bl_text document = {0};
    char steps[24];
    bl_status st = BL_OK;
    if (tensors == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a program");
    for (int i = 0; i < program->nstates; i++)
        tensors[i] = bl_state_tensor(&program->states[i], NULL);
    bl_encode_program(&document, &program->doc, program->worker->dev->info.id);
    snprintf(steps, sizeof steps, "%llu", (unsigned long long)snap->steps);
    bl_file_text texts[] = {{"program", bl_text_get(&document)}, {"steps", steps}};
    st = bl_text_status(&document, err);
    if (st == BL_OK)
        bl_safetensors_write(out, tensors, (size_t)program->nstates, texts, 2);
    if (st == BL_OK)
        st = bl_text_status(out, err);
    bl_text_fini(&document);
    free(tensors);
    return st;
}

static bl_status snapshot_insert_row(void *arg, const char *name, bl_err *err)
{
    const parts *p = arg;
    return p->insert(p->arg, name, err);
}

bl_status bl_snapshot_put(const bl_snapshot *snap, bl_stored_kind kind, uint64_t replaces,
                          bl_status (*insert)(void *arg, const char *name, bl_err *err), void *arg, bl_err *err)
{
    const bl_program *program = snap->program;
    parts p = {.snap = snap, .insert = insert, .arg = arg};
    bl_stored_file file = {.kind = kind,
                           .owner = program->owner,
                           .replaces = replaces,
                           .write = snapshot_write_parts,
                           .insert = snapshot_insert_row,
                           .arg = &p};
    bl_status st = snapshot_make_head(snap, &p.head, err);
    file.bytes = p.head.len;
    for (int i = 0; i < program->nstates; i++)
        file.bytes += program->states[i].bytes;
    if (st == BL_OK)
        st = bl_stored_put(program->server, &file, NULL, err);
    bl_text_fini(&p.head);
    return st;
}

/* ---- reading a snapshot */

typedef struct recall {
    int fd;
    bl_program *program;
    uint64_t steps;
} recall;

static bl_status file_bytes(int fd, size_t *out, bl_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size <= 0)
        return bl_fail(err, BL_ESTORAGE, "its file cannot be read");
    *out = (size_t)info.st_size;
    return BL_OK;
}

/* Read the document in the metadata as the request's body; the rest of the file, which may be large, is not read. */
static bl_status take_document(bl_request *rq, bl_span file)
{
    bl_tensor_file head;
    const char *text = NULL;
    char *body = NULL;
    BL_TRY(bl_safetensors_open(rq->arena, file, &rq->server->limits, &head, &rq->err));
    text = bl_safetensors_text(&head, "program");
    if (text == NULL)
        return bl_fail(&rq->err, BL_ESTORAGE, "its file has no document");
    body = bl_request_make_body(rq, strlen(text), BL_MEDIA_JSON);
    if (body == NULL)
        return rq->err.status;
    memcpy(body, text, strlen(text));
    return BL_OK;
}

bl_status bl_recall_document(bl_request *rq, int fd)
{
    bl_mapped files = {0};
    bl_span data = {0};
    bl_status st = bl_mapped_add(&files, fd, "its file", &data, &rq->err);
    if (st == BL_OK)
        st = bl_mapped_check(&files, take_document(rq, data), &rq->err);
    bl_mapped_fini(&files);
    return st;
}

static bl_status snapshot_installed(bl_program_make *make, bl_err *err)
{
    recall *r = make->arg;
    (void)err;
    bl_program_retain(make->program);
    r->program = make->program;
    return BL_OK;
}

static bl_status begin_program(bl_request *rq, recall *r, const char *name)
{
    bl_program_make *make = NULL;
    BL_TRY(bl_recall_document(rq, r->fd));
    BL_TRY(bl_program_make_create(rq, &make));
    snprintf(make->program->name, sizeof make->program->name, "%s", name);
    make->program->saved = UINT64_MAX;
    BL_TRY(bl_program_make_decode(make));
    make->installed = snapshot_installed;
    make->arg = r;
    return bl_program_make_begin(make, NULL);
}

bl_status bl_recall_program(bl_server *server, uint32_t owner, const char *name, int fd, bl_program **out, bl_err *err)
{
    recall r = {.fd = fd};
    bl_await await = BL_AWAIT(&r);
    bl_request *rq = bl_await_create(server, owner, &await);
    bl_status st = BL_OK;
    *out = NULL;
    if (rq == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a program");
    st = bl_await_end(rq, begin_program(rq, &r, name), err);
    bl_request_end(rq);
    if (st == BL_OK)
        *out = r.program;
    else
        bl_program_release(r.program);
    return st;
}

static bl_status begin_state(bl_request *rq, recall *r)
{
    bl_tensor_file head;
    const char *steps = NULL;
    char *body = NULL;
    size_t bytes = 0;
    BL_TRY(file_bytes(r->fd, &bytes, &rq->err));
    body = bl_request_make_body(rq, bytes, BL_MEDIA_SAFETENSORS);
    if (body == NULL)
        return rq->err.status;
    if (lseek(r->fd, 0, SEEK_SET) != 0 || !bl_read_all(r->fd, body, bytes))
        return bl_fail(&rq->err, BL_ESTORAGE, "its file cannot be read");
    BL_TRY(bl_safetensors_open(rq->arena, bl_request_body(rq), &rq->server->limits, &head, &rq->err));
    steps = bl_safetensors_text(&head, "steps");
    r->steps = steps != NULL ? strtoull(steps, NULL, 10) : 0;
    return bl_program_put_state(rq, r->program);
}

bl_status bl_recall_state(bl_program *program, int fd, bl_err *err)
{
    recall r = {.fd = fd, .program = program};
    bl_await await = BL_AWAIT(&r);
    bl_request *rq = bl_await_create(program->server, program->owner, &await);
    bl_status st = BL_OK;
    if (rq == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a program's state");
    st = bl_await_end(rq, begin_state(rq, &r), err);
    bl_request_end(rq);
    if (st == BL_OK)
        atomic_store(&program->steps, r.steps);
    return st;
}
