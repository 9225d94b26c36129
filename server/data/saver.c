/* SPDX-License-Identifier: MIT */
#include "server/data/saver.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "proto/encode_program.h"
#include "proto/safetensors.h"
#include "server/data/kept.h"
#include "server/handlers.h"
#include "server/residents.h"
#include "server/shelf.h"
#include "server/storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WAITING = 1024 };

static const char PART[] = "programs";

struct bl_saver {
    bl_server *server;
    bl_queue *queue;
    atomic_llong saved_ns; /* when all were looked through */
    atomic_bool ticking;   /* a request for that is on its way */
};

/* ---- waiting for a request of one's own */

typedef struct wait {
    void *what; /* the request's work reads it */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
} wait;

#define WAIT(thing)                                                                                                              \
    {                                                                                                                            \
        .what = (thing), .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER                                    \
    }

static void end_wait(bl_request *rq)
{
    wait *w = rq->own;
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

/* Until it is over, where |submitted| says that it was begun. */
static bl_status wait_for(bl_request *rq, bl_status submitted, bl_err *err)
{
    wait *w = rq->own;
    pthread_mutex_lock(&w->lock);
    while (submitted == BL_OK && !w->over)
        pthread_cond_wait(&w->ended, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return rq->err.status == BL_OK ? BL_OK : bl_fail(err, rq->err.status, "%s", rq->err.text);
}

/* ---- writing */

/* What is written of a program: its state between two steps. */
typedef struct snapshot {
    bl_program *program;
    uint64_t steps, changes;
    bl_buffer **buffers; /* retained: whoever runs the next step leaves them as they are */
    char **copies;       /* of those that the host does not see */
} snapshot;

static bl_status take(snapshot *snap, bl_err *err)
{
    bl_program *program = snap->program;
    BL_TRY(bl_program_check(program, err));
    BL_TRY(bl_program_wake(program, err));
    snap->steps = atomic_load(&program->steps);
    snap->changes = snap->steps + atomic_load(&program->replaced);
    for (int i = 0; i < program->nstates; i++) {
        const bl_state *state = &program->states[i];
        snap->buffers[i] = bl_buffer_retain(state->buffer);
        if (state->buffer->host != NULL)
            continue;
        snap->copies[i] = malloc(state->bytes > 0 ? state->bytes : 1);
        if (snap->copies[i] == NULL)
            return bl_fail(err, BL_ENOMEM, "a program's state");
        BL_TRY(bl_buffer_read(state->buffer, 0, snap->copies[i], state->bytes, err));
    }
    return BL_OK;
}

static bl_step take_work(bl_request *rq)
{
    const wait *w = rq->own;
    rq->err.status = take(w->what, &rq->err);
    return BL_STEP_DONE;
}

static void drop(snapshot *snap)
{
    for (int i = 0; snap->buffers != NULL && snap->copies != NULL && i < snap->program->nstates; i++) {
        if (snap->buffers[i] != NULL)
            bl_pool_release(snap->program->worker->pool, snap->buffers[i]);
        free(snap->copies[i]);
    }
    free(snap->buffers);
    free(snap->copies);
}

/* Between two of its runs, on its device's thread. */
static bl_status take_snapshot(bl_server *server, snapshot *snap, bl_err *err)
{
    size_t n = (size_t)snap->program->nstates + 1;
    wait w = WAIT(snap);
    bl_request *rq = bl_request_create_own(server, snap->program->owner, end_wait, &w);
    bl_status st = BL_OK;
    snap->buffers = bl_calloc(n, sizeof *snap->buffers);
    snap->copies = bl_calloc(n, sizeof *snap->copies);
    if (rq == NULL || snap->buffers == NULL || snap->copies == NULL)
        st = bl_fail(err, BL_ENOMEM, "a program's state");
    else
        st = wait_for(rq, bl_request_submit(rq, snap->program->worker->queue, take_work, &snap->program->serial), err);
    if (rq != NULL)
        bl_request_end(rq);
    return st;
}

typedef struct parts {
    bl_text head;
    const snapshot *snap;
} parts;

static bl_status write_parts(void *arg, int fd, bl_err *err)
{
    const parts *p = arg;
    const bl_program *program = p->snap->program;
    bool good = bl_write_all(fd, p->head.data, p->head.len);
    for (int i = 0; i < program->nstates && good; i++)
        good = bl_write_all(fd, p->snap->copies[i] != NULL ? p->snap->copies[i] : p->snap->buffers[i]->host,
                            program->states[i].bytes);
    return good ? BL_OK : bl_fail(err, BL_ESTORAGE, "the program cannot be written: %s", strerror(errno));
}

static bl_status make_head(const snapshot *snap, bl_text *out, bl_err *err)
{
    const bl_program *program = snap->program;
    bl_file_tensor *tensors = bl_calloc((size_t)program->nstates + 1, sizeof *tensors);
    bl_text document = {0};
    char steps[24];
    bl_status st = BL_OK;
    if (tensors == NULL)
        return bl_fail(err, BL_ENOMEM, "a program");
    for (int i = 0; i < program->nstates; i++) {
        const bl_wire_tensor *type = &program->states[i].type;
        tensors[i] = (bl_file_tensor){.name = type->name, .dtype = type->type.dtype, .ndim = type->type.ndim};
        for (int d = 0; d < type->type.ndim; d++)
            tensors[i].dim[d] = type->type.dim[d].size;
    }
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

static bl_status find_file(const bl_server *server, const bl_program *program, char file[BL_KEPT_NAME], bl_err *err)
{
    file[0] = '\0';
    return bl_storage_run(server->storage, "SELECT file FROM programs WHERE owner = ?1 AND name = ?2",
                          BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name)), bl_kept_take, file, err);
}

/* The new file is there before the row names it, the old one until then. */
static bl_status write_snapshot(bl_server *server, const snapshot *snap, bl_err *err)
{
    const bl_program *program = snap->program;
    char file[BL_KEPT_NAME] = "", old[BL_KEPT_NAME] = "";
    parts p = {.snap = snap};
    bl_status st = make_head(snap, &p.head, err);
    if (st == BL_OK)
        st = find_file(server, program, old, err);
    if (st == BL_OK)
        st = bl_kept_write(server, PART, write_parts, &p, file, err);
    if (st == BL_OK)
        st = bl_storage_run(server->storage, "INSERT OR REPLACE INTO programs (owner, name, file) VALUES (?1, ?2, ?3)",
                            BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name), bl_cell_text(file)), NULL, NULL,
                            err);
    bl_kept_remove(server, PART, st == BL_OK ? old : file);
    bl_text_fini(&p.head);
    return st;
}

static bl_status save(bl_server *server, bl_program *program, bl_err *err)
{
    snapshot snap = {.program = program};
    bl_status st = take_snapshot(server, &snap, err);
    if (st == BL_OK)
        st = write_snapshot(server, &snap, err);
    if (st == BL_OK)
        program->saved = snap.changes;
    drop(&snap);
    return st;
}

static bl_status forget(bl_server *server, const bl_program *program, bl_err *err)
{
    char file[BL_KEPT_NAME];
    BL_TRY(find_file(server, program, file, err));
    if (file[0] == '\0')
        return BL_OK;
    BL_TRY(bl_storage_run(server->storage, "DELETE FROM programs WHERE owner = ?1 AND name = ?2",
                          BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name)), NULL, NULL, err));
    bl_kept_remove(server, PART, file);
    return BL_OK;
}

/* ---- requests for it */

typedef struct order {
    bl_program *program;
    bl_status (*carry_out)(bl_server *server, const struct order *order, bl_err *err);
    bool fresh, *replaced;
    uint32_t owner; /* whose, where there is no program */
    void *data;
    bl_status (*then)(bl_request *rq);
} order;

/* What its name stands for now, retained; NULL: nothing. */
static bl_program *current(bl_server *server, const bl_program *program)
{
    bl_program *now = NULL;
    bl_err ignored = {0};
    return bl_shelf_get_program(server->shelf, program->owner, program->name, &now, &ignored) == BL_OK ? now : NULL;
}

/* The name of |program| stands for |old| again, or for nothing where that is NULL; unless somebody put another one meanwhile. */
static void take_back(bl_server *server, bl_program *program, bl_program *old)
{
    bl_program *now = current(server, program);
    bl_err err = {0};
    bl_status st = BL_OK;
    if (now == program && old != NULL)
        st = bl_shelf_put_program(server->shelf, program->owner, program->name, old, false, &err);
    else if (now == program)
        st = bl_shelf_delete_program(server->shelf, program->owner, program->name, &err);
    if (st != BL_OK)
        bl_log(BL_LOG_WARN, "program %.128s is there, although it was refused: %s", program->name, err.text);
    bl_program_release(now);
}

static bl_status put_down(bl_server *server, const order *o, bl_err *err)
{
    bl_program *program = o->program, *old = current(server, program);
    bl_status st = bl_shelf_put_program(server->shelf, program->owner, program->name, program, o->fresh, err);
    *o->replaced = old != NULL;
    if (st == BL_OK) {
        st = program->durable ? save(server, program, err) : forget(server, program, err);
        if (st != BL_OK)
            take_back(server, program, old);
    }
    bl_program_release(old);
    return st;
}

static bl_status remove_all(bl_server *server, const order *o, bl_err *err)
{
    BL_TRY(forget(server, o->program, err));
    return bl_shelf_delete_program(server->shelf, o->program->owner, o->program->name, err);
}

/* One after the other, so that none needs a list. */
static bl_status forget_all(bl_server *server, const order *o, bl_err *err)
{
    char file[BL_KEPT_NAME] = "";
    do {
        file[0] = '\0';
        BL_TRY(bl_storage_run(
            server->storage,
            "DELETE FROM programs WHERE owner = ?1 AND name IN (SELECT name FROM programs WHERE owner = ?1 LIMIT 1) "
            "RETURNING file",
            BL_CELLS(bl_cell_int(o->owner)), bl_kept_take, file, err));
        bl_kept_remove(server, PART, file);
    } while (file[0] != '\0');
    return BL_OK;
}

static bl_step work(bl_request *rq)
{
    order *o = rq->data;
    rq->data = o->data;
    rq->then = o->then;
    rq->err.status = o->carry_out(rq->server, o, &rq->err);
    return BL_STEP_DONE;
}

static bl_status submit(bl_request *rq, const order *what)
{
    order *o = bl_arena_alloc(rq->arena, sizeof *o);
    if (o == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *o = *what;
    o->data = rq->data;
    rq->data = o;
    return bl_request_submit(rq, rq->server->saver->queue, work, NULL);
}

bl_status bl_saver_put(bl_request *rq, bl_program *program, bool fresh, bool *replaced, bl_status (*then)(bl_request *rq))
{
    return submit(rq, &(order){.program = program, .carry_out = put_down, .fresh = fresh, .replaced = replaced, .then = then});
}

bl_status bl_saver_delete(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq))
{
    return submit(rq, &(order){.program = program, .carry_out = remove_all, .then = then});
}

bl_status bl_saver_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq))
{
    return submit(rq, &(order){.owner = owner, .carry_out = forget_all, .then = then});
}

/* Of one that changed; not where its name stands for another by now. */
static bl_status save_again(bl_server *server, bl_program *program, bl_err *err)
{
    bl_program *now = current(server, program);
    bl_status st = now == program ? save(server, program, err) : BL_OK;
    bl_program_release(now);
    return st;
}

typedef struct found {
    bl_program **programs;
    size_t n, cap;
} found;

static void note(void *arg, const char *name, bl_program *program)
{
    found *all = arg;
    (void)name;
    if (!program->durable || all->n == all->cap)
        return;
    bl_program_retain(program);
    all->programs[all->n++] = program;
}

static void save_changed(bl_saver *saver)
{
    size_t cap = (size_t)saver->server->settings.max_programs;
    found all = {.programs = bl_calloc(cap + 1, sizeof *all.programs), .cap = cap};
    if (all.programs == NULL) {
        bl_log(BL_LOG_WARN, "there is no memory to write durable programs down");
        return;
    }
    bl_shelf_all_programs(saver->server->shelf, note, &all);
    for (size_t i = 0; i < all.n; i++) {
        bl_program *program = all.programs[i];
        bl_err err = {0};
        if (atomic_load(&program->steps) + atomic_load(&program->replaced) != program->saved &&
            save_again(saver->server, program, &err) != BL_OK)
            bl_log(BL_LOG_WARN, "the program %.128s cannot be written down: %s", program->name, err.text);
        bl_program_release(program);
    }
    free(all.programs);
    saver->saved_ns = bl_clock_ns();
}

static bl_step save_work(bl_request *rq)
{
    save_changed(rq->server->saver);
    return BL_STEP_DONE;
}

static void ticked(bl_request *rq)
{
    bl_saver *saver = rq->own;
    bl_request_end(rq);
    atomic_store(&saver->ticking, false);
}

void bl_saver_tick(bl_saver *saver)
{
    bl_request *rq = NULL;
    if (bl_clock_ms(saver->saved_ns, bl_clock_ns()) < saver->server->settings.save_seconds * 1e3 ||
        atomic_load(&saver->server->leaving) || atomic_exchange(&saver->ticking, true))
        return;
    rq = bl_request_create_own(saver->server, 0, ticked, saver);
    if (rq != NULL && bl_request_submit(rq, saver->queue, save_work, NULL) == BL_OK)
        return;
    if (rq != NULL)
        bl_request_end(rq);
    atomic_store(&saver->ticking, false);
}

void bl_saver_drain(bl_saver *saver)
{
    wait w = WAIT(NULL);
    bl_request *rq = saver != NULL ? bl_request_create_own(saver->server, 0, end_wait, &w) : NULL;
    bl_err ignored = {0};
    if (rq == NULL)
        return;
    (void)wait_for(rq, bl_request_submit(rq, saver->queue, save_work, NULL), &ignored);
    bl_request_end(rq);
}

/* ---- taking them up again */

typedef struct row {
    struct row *next;
    uint32_t owner;
    char name[BL_NAME_SIZE], file[BL_KEPT_NAME];
    uint64_t steps; /* that the file says */
} row;

typedef struct listing {
    row *first, **end;
    bool failed; /* out of memory: rows are missing */
} listing;

static bool take_row(void *arg, const bl_cell *cells, int n)
{
    listing *list = arg;
    row *r = bl_calloc(1, sizeof *r);
    (void)n;
    list->failed = r == NULL;
    if (r == NULL)
        return false;
    *list->end = r;
    list->end = &r->next;
    r->owner = (uint32_t)cells[0].integer;
    snprintf(r->name, sizeof r->name, "%s", cells[1].bytes.data);
    snprintf(r->file, sizeof r->file, "%s", cells[2].bytes.data);
    return true;
}

static bl_status read_body(bl_request *rq, const char *file)
{
    uint64_t bytes = 0;
    char *body = NULL;
    int fd = -1;
    BL_TRY(bl_kept_open(rq->server, PART, file, &fd, &bytes, &rq->err));
    body = bl_request_make_body(rq, (size_t)bytes, BL_MEDIA_SAFETENSORS);
    if (body != NULL && !bl_read_all(fd, body, (size_t)bytes))
        (void)bl_fail(&rq->err, BL_ESTORAGE, "its file cannot be read");
    (void)close(fd);
    return rq->err.status;
}

/* The request's body becomes the document that is in the metadata of the file. */
static bl_status begin_document(bl_request *rq, row *r)
{
    bl_tensor_file file;
    const char *text = NULL;
    char *body = NULL;
    BL_TRY(read_body(rq, r->file));
    BL_TRY(bl_safetensors_open(rq->arena, bl_request_body(rq), &rq->server->limits, &file, &rq->err));
    text = bl_safetensors_text(&file, "steps");
    r->steps = text != NULL ? strtoull(text, NULL, 10) : 0;
    text = bl_safetensors_text(&file, "program");
    text = text != NULL ? bl_arena_strdup(rq->arena, text) : NULL;
    if (text == NULL)
        return bl_fail(&rq->err, BL_ESTORAGE, "its file has no document");
    body = bl_request_make_body(rq, strlen(text), BL_MEDIA_JSON);
    if (body == NULL)
        return rq->err.status;
    memcpy(body, text, strlen(text));
    return bl_handle_program_put(rq);
}

static bl_status begin_state(bl_request *rq, row *r)
{
    BL_TRY(read_body(rq, r->file));
    return bl_handle_state_put(rq);
}

/* As a client would do it, and wait for that. */
static bl_status ask(bl_server *server, row *r, bl_status (*begin)(bl_request *rq, row *r), bl_err *err)
{
    wait w = WAIT(NULL);
    bl_request *rq = bl_request_create_own(server, r->owner, end_wait, &w);
    bl_status st = BL_OK;
    if (rq == NULL)
        return bl_fail(err, BL_ENOMEM, "a request");
    rq->param[0] = r->name;
    st = wait_for(rq, begin(rq, r), err);
    bl_request_end(rq);
    return st;
}

static bl_status restore(bl_server *server, row *r, bl_err *err)
{
    bl_program *program = NULL;
    BL_TRY(ask(server, r, begin_document, err));
    BL_TRY(bl_shelf_get_program(server->shelf, r->owner, r->name, &program, err));
    bl_status st = ask(server, r, begin_state, err);
    program->durable = st == BL_OK;
    atomic_store(&program->steps, r->steps);
    program->saved = atomic_load(&program->steps) + atomic_load(&program->replaced);
    bl_program_release(program);
    if (st != BL_OK) { /* with a state that it never had it is of no use to anyone */
        bl_err gone = {0};
        if (bl_shelf_delete_program(server->shelf, r->owner, r->name, &gone) != BL_OK)
            bl_log(BL_LOG_WARN, "%s", gone.text);
    }
    return st;
}

static bl_status restore_all(bl_server *server, bl_err *err)
{
    listing list = {.end = &list.first};
    bl_status st = bl_storage_run(server->storage, "SELECT owner, name, file FROM programs ORDER BY owner, name", 0, NULL,
                                  take_row, &list, err);
    if (st == BL_OK && list.failed)
        st = bl_fail(err, BL_ENOMEM, "durable programs");
    if (st == BL_OK)
        st = bl_kept_sweep(server, PART, "SELECT file FROM programs", err);
    while (list.first != NULL) {
        row *r = list.first;
        bl_err why = {0};
        list.first = r->next;
        if (st == BL_OK && restore(server, r, &why) != BL_OK)
            bl_log(BL_LOG_WARN, "the durable program %.128s does not come back: %s", r->name, why.text);
        free(r);
    }
    return st;
}

bl_status bl_saver_create(bl_server *server, bl_err *err)
{
    bl_saver *saver = bl_calloc(1, sizeof *saver);
    if (saver == NULL)
        return bl_fail(err, BL_ENOMEM, "saver");
    saver->server = server;
    saver->saved_ns = bl_clock_ns();
    if (bl_queue_create("the disk", MOST_WAITING, 1, NULL, &saver->queue, err) != BL_OK) {
        free(saver);
        return err->status;
    }
    server->saver = saver; /* the keeper's thread looks for it */
    return restore_all(server, err);
}

void bl_saver_destroy(bl_saver *saver)
{
    if (saver == NULL)
        return;
    bl_queue_destroy(saver->queue);
    free(saver);
}
