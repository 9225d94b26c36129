/* SPDX-License-Identifier: MIT */
#include "server/data/saver.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/data/snapshot.h"
#include "server/programs/idempotent.h"
#include "server/run/await.h"
#include "server/store/registry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WAITING = 1024, MOST_ANSWER = 512 * 1024 * 1024 /* MOST_ANSWER: SQLite limits a blob to 10^9 bytes */ };

static const int64_t TICK_NS = INT64_C(10000000000);

struct bl_saver {
    bl_server *server;
    bl_queue *queue;
    bl_tick *tick;         /* task that checks whether programs must be saved */
    atomic_llong saved_ns; /* time of the last check of all programs */
    atomic_bool ticking;   /* a request for a check is in the queue */
};

/* ---- writing */

static bl_status saver_find_file(const bl_server *server, const bl_program *program, char file[BL_STORED_NAME], bl_err *err)
{
    return bl_stored_find(server, BL_STORED_PROGRAM, "owner = ?1 AND name = ?2",
                          BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name)), file, err);
}

static bl_status saver_run(const bl_program *program, const char *sql, bl_err *err)
{
    return bl_storage_run(program->server->storage, sql, BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name)), NULL,
                          NULL, err);
}

/* Delete the row of job_programs: the name no longer denotes the program that a job left. */
static bl_status forget_job(const bl_program *program, bl_err *err)
{
    return saver_run(program, "DELETE FROM job_programs WHERE owner = ?1 AND program = ?2", err);
}

static bl_status forget_sequences(const bl_program *program, bl_err *err)
{
    return saver_run(program, "DELETE FROM sequences WHERE owner = ?1 AND program = ?2", err);
}

static bl_status write_sequences(const bl_snapshot *snap, bl_err *err)
{
    const bl_program *program = snap->program;
    BL_TRY(forget_sequences(program, err));
    for (const bl_sequence *at = snap->sequences; at != NULL;) {
        bl_sequence_row one;
        bl_cell answer = {.kind = BL_CELL_NULL};
        at = bl_sequence_read(at, &one);
        if (one.answer.data != NULL && one.answer.len <= MOST_ANSWER)
            answer = bl_cell_blob(one.answer.data, one.answer.len);
        BL_TRY(bl_storage_run(
            program->server->storage,
            "INSERT INTO sequences (owner, program, reader, last, status, type, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name), bl_cell_int(one.owner),
                     bl_cell_int((int64_t)one.last), bl_cell_int(one.status), bl_cell_text(one.content_type), answer),
            NULL, NULL, err));
    }
    return BL_OK;
}

typedef struct change {
    const bl_snapshot *snap;
    const char *file;
} change;

/* Write the rows of a snapshot. State and sequence numbers are of one moment: after a crash, a repeated run is answered if
 * the state contains the run, and runs otherwise.  A snapshot that was taken while a job trains the program may be older
 * than the state that the job leaves, so the row of the job stays. */
static bl_status saver_write_rows(void *arg, bl_err *err)
{
    const change *c = arg;
    const bl_program *program = c->snap->program;
    BL_TRY(bl_storage_run(program->server->storage, "INSERT OR REPLACE INTO programs (owner, name, file) VALUES (?1, ?2, ?3)",
                          BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name), bl_cell_text(c->file)), NULL, NULL,
                          err));
    BL_TRY(write_sequences(c->snap, err));
    return c->snap->trained ? BL_OK : forget_job(program, err);
}

static bl_status insert_program(void *arg, const char *file, bl_err *err)
{
    change c = {arg, file};
    return bl_storage_together(c.snap->program->server->storage, saver_write_rows, &c, err);
}

/* Write the new file, then update the row, then remove the old file. */
static bl_status write_snapshot(bl_server *server, bl_snapshot *snap, bl_err *err)
{
    bl_program *program = snap->program;
    char old[BL_STORED_NAME];
    BL_TRY(saver_find_file(server, program, old, err));
    BL_TRY(bl_snapshot_put(snap, BL_STORED_PROGRAM, bl_stored_bytes(server, BL_STORED_PROGRAM, old), insert_program, snap, err));
    if (!snap->trained)
        program->left = false;
    bl_stored_remove(server, BL_STORED_PROGRAM, program->owner, old);
    return BL_OK;
}

static bl_status saver_save(bl_server *server, bl_program *program, bl_err *err)
{
    bl_snapshot snap = {.program = program};
    bl_status st = bl_snapshot_take(&snap, err);
    if (st == BL_OK)
        st = write_snapshot(server, &snap, err);
    if (st == BL_OK)
        program->saved = snap.changes;
    bl_snapshot_drop(&snap);
    return st;
}

static bool has_changed(const bl_program *program)
{
    return atomic_load(&program->steps) + atomic_load(&program->replaced) != program->saved;
}

static bl_status delete_rows(void *arg, bl_err *err)
{
    const bl_program *program = arg;
    BL_TRY(saver_run(program, "DELETE FROM programs WHERE owner = ?1 AND name = ?2", err));
    BL_TRY(forget_sequences(program, err));
    return forget_job(program, err);
}

static bl_status saver_forget(bl_server *server, bl_program *program, bl_err *err)
{
    char file[BL_STORED_NAME];
    BL_TRY(saver_find_file(server, program, file, err));
    BL_TRY(bl_storage_together(server->storage, delete_rows, program, err));
    bl_stored_remove(server, BL_STORED_PROGRAM, program->owner, file);
    return BL_OK;
}

/* ---- orders to the saver */

typedef struct order {
    bl_program *program;
    bl_status (*carry_out)(bl_server *server, const struct order *order, bl_err *err);
    bool fresh, *replaced;
    uint32_t owner; /* the owner, for orders without a program */
    void *data;
    bl_status (*then)(bl_request *rq);
} order;

/* The program that the name of |program| denotes now, retained; NULL if there is none. */
static bl_program *current(bl_server *server, const bl_program *program)
{
    bl_program *now = NULL;
    bl_err ignored = {0};
    return bl_registry_get_program(server->registry, program->owner, program->name, &now, &ignored) == BL_OK ? now : NULL;
}

/* Make the name of |program| denote |old| again, or nothing if |old| is NULL, unless a client put another program meanwhile. */
static void saver_take_back(bl_server *server, bl_program *program, bl_program *old)
{
    bl_program *now = current(server, program);
    bl_err err = {0};
    bl_status st = BL_OK;
    if (now == program && old != NULL)
        st = bl_registry_put_program(server->registry, program->owner, program->name, old, false, &err);
    else if (now == program)
        st = bl_registry_delete_program(server->registry, program->owner, program->name, &err);
    if (st != BL_OK)
        bl_log(BL_LOG_WARN, "program %.128s was stored, although its request failed: %s", program->name, err.text);
    bl_program_release(now);
}

static bl_status put_down(bl_server *server, const order *o, bl_err *err)
{
    bl_program *program = o->program, *old = current(server, program);
    bl_status st = bl_registry_put_program(server->registry, program->owner, program->name, program, o->fresh, err);
    *o->replaced = old != NULL;
    if (st == BL_OK) {
        st = program->durable ? saver_save(server, program, err) : saver_forget(server, program, err);
        if (st != BL_OK)
            saver_take_back(server, program, old);
    }
    bl_program_release(old);
    return st;
}

static bl_status saver_remove_all(bl_server *server, const order *o, bl_err *err)
{
    /* a job may have begun meanwhile */
    BL_TRY(bl_registry_check_program(server->registry, o->program->owner, o->program->name, err));
    BL_TRY(saver_forget(server, o->program, err));
    return bl_registry_delete_program(server->registry, o->program->owner, o->program->name, err);
}

static bl_status save_now(bl_server *server, const order *o, bl_err *err)
{
    return has_changed(o->program) ? saver_save(server, o->program, err) : BL_OK;
}

static bl_status forget_all(bl_server *server, const order *o, bl_err *err)
{
    BL_TRY(bl_storage_run(server->storage, "DELETE FROM sequences WHERE owner = ?1", BL_CELLS(bl_cell_int(o->owner)), NULL, NULL,
                          err));
    return bl_stored_delete(server, BL_STORED_PROGRAM, o->owner, "owner = ?1", BL_CELLS(bl_cell_int(o->owner)), err);
}

static bl_step saver_work(bl_request *rq)
{
    order *o = rq->data;
    rq->data = o->data;
    rq->then = o->then;
    rq->err.status = o->carry_out(rq->server, o, &rq->err);
    return BL_STEP_DONE;
}

static bl_status saver_submit(bl_request *rq, const order *what)
{
    order *o = bl_arena_alloc(rq->arena, sizeof *o);
    if (o == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *o = *what;
    o->data = rq->data;
    rq->data = o;
    return bl_request_submit(rq, rq->server->saver->queue, saver_work, NULL);
}

bl_status bl_saver_submit(bl_request *rq, bl_work what)
{
    return bl_request_submit(rq, rq->server->saver->queue, what, NULL);
}

bl_status bl_saver_put(bl_request *rq, bl_program *program, bool fresh, bool *replaced, bl_status (*then)(bl_request *rq))
{
    return saver_submit(rq,
                        &(order){.program = program, .carry_out = put_down, .fresh = fresh, .replaced = replaced, .then = then});
}

bl_status bl_saver_delete(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq))
{
    return saver_submit(rq, &(order){.program = program, .carry_out = saver_remove_all, .then = then});
}

bl_status bl_saver_save(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq))
{
    return saver_submit(rq, &(order){.program = program, .carry_out = save_now, .then = then});
}

bl_status bl_saver_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq))
{
    return saver_submit(rq, &(order){.owner = owner, .carry_out = forget_all, .then = then});
}

/* Save a changed program, unless its name denotes another program by now. */
static bl_status save_again(bl_server *server, bl_program *program, bl_err *err)
{
    bl_program *now = current(server, program);
    bl_status st = now == program ? saver_save(server, program, err) : BL_OK;
    bl_program_release(now);
    return st;
}

typedef struct found {
    bl_program **programs;
    size_t n, cap;
} found;

static void saver_note(void *arg, const char *name, bl_program *program)
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
        bl_log(BL_LOG_WARN, "out of host memory to store durable programs");
        return;
    }
    bl_registry_all_programs(saver->server->registry, saver_note, &all);
    for (size_t i = 0; i < all.n; i++) {
        bl_program *program = all.programs[i];
        bl_err err = {0};
        if (has_changed(program) && save_again(saver->server, program, &err) != BL_OK)
            bl_log(BL_LOG_WARN, "the program %.128s cannot be stored: %s", program->name, err.text);
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
    bl_saver *saver = rq->own.arg;
    bl_request_end(rq);
    atomic_store(&saver->ticking, false);
}

/* Have all changed programs saved if --save-seconds have passed since the last check. */
static void tick_saver(void *arg)
{
    bl_saver *saver = arg;
    bl_request *rq = NULL;
    if (bl_clock_ms(saver->saved_ns, bl_clock_ns()) < saver->server->settings.save_seconds * 1e3 ||
        atomic_load(&saver->server->life.leaving) || atomic_exchange(&saver->ticking, true))
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
    bl_await await = BL_AWAIT(NULL);
    bl_request *rq = saver != NULL ? bl_await_create(saver->server, 0, &await) : NULL;
    bl_err err = {0};
    if (saver != NULL) {
        bl_tick_remove(saver->tick);
        saver->tick = NULL;
    }
    if (rq == NULL)
        return;
    if (bl_await_end(rq, bl_request_submit(rq, saver->queue, save_work, NULL), &err) != BL_OK)
        bl_log(BL_LOG_WARN, "durable programs cannot be stored: %s", err.text);
    bl_request_end(rq);
}

/* ---- restoring */

typedef struct row {
    uint32_t owner;
    const char *name, *file;
} row;

static bool take_sequence(void *arg, const bl_cell *cells, int n)
{
    bl_program *program = arg;
    bl_err err = {0};
    bl_sequence_row one = {.owner = (uint32_t)cells[0].integer,
                           .last = (uint64_t)cells[1].integer,
                           .status = (int)cells[2].integer,
                           .content_type = cells[3].bytes.data};
    (void)n;
    if (cells[4].kind == BL_CELL_BLOB)
        one.answer = cells[4].bytes.len > 0 ? cells[4].bytes : BL_S("");
    if (bl_sequence_add(program, &one, &err) != BL_OK)
        bl_log(BL_LOG_WARN, "a numbered run of program %.128s cannot be restored: %s", program->name, err.text);
    return true;
}

static bl_status saver_read_sequences(bl_program *program, bl_err *err)
{
    return bl_storage_run(program->server->storage,
                          "SELECT reader, last, status, type, answer FROM sequences WHERE owner = ?1 AND program = ?2",
                          BL_CELLS(bl_cell_int(program->owner), bl_cell_text(program->name)), take_sequence, program, err);
}

static bl_status restore_from(bl_server *server, const row *r, int fd, bl_err *err)
{
    bl_program *program = NULL;
    bl_status st = bl_recall_program(server, r->owner, r->name, fd, &program, err);
    if (st == BL_OK)
        st = bl_recall_state(program, fd, err);
    if (st == BL_OK)
        st = saver_read_sequences(program, err);
    if (st == BL_OK) {
        program->durable = true;
        program->saved = atomic_load(&program->steps) + atomic_load(&program->replaced);
        st = bl_registry_put_program(server->registry, r->owner, r->name, program, false, err);
    }
    bl_program_release(program);
    return st;
}

static bl_status restore(bl_server *server, const row *r, bl_err *err)
{
    uint64_t bytes = 0;
    int fd = -1;
    bl_status st = bl_stored_open(server, BL_STORED_PROGRAM, r->file, &fd, &bytes, err);
    if (st != BL_OK)
        return st;
    st = restore_from(server, r, fd, err);
    (void)close(fd);
    return st;
}

static bool restore_row(void *arg, const bl_cell *cells, int n)
{
    row r = {.owner = (uint32_t)cells[0].integer, .name = cells[1].bytes.data, .file = cells[2].bytes.data};
    bl_err why = {0};
    (void)n;
    if (restore(arg, &r, &why) != BL_OK)
        bl_log(BL_LOG_WARN, "the durable program %.128s cannot be restored: %s", r.name, why.text);
    return true;
}

static bl_status restore_all(bl_server *server, bl_err *err)
{
    return bl_stored_load(server, BL_STORED_PROGRAM, "SELECT owner, name, file FROM programs ORDER BY owner, name", restore_row,
                          server, err);
}

bl_status bl_saver_create(bl_server *server, bl_err *err)
{
    bl_saver *saver = bl_calloc(1, sizeof *saver);
    if (saver == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the thread that saves programs");
    saver->server = server;
    saver->saved_ns = bl_clock_ns();
    if (bl_queue_create("the disk", MOST_WAITING, 1, NULL, &saver->queue, err) != BL_OK) {
        free(saver);
        return err->status;
    }
    server->saver = saver;
    BL_TRY(restore_all(server, err));
    return bl_ticker_add(server->ticker, TICK_NS, tick_saver, saver, &saver->tick, err);
}

void bl_saver_destroy(bl_saver *saver)
{
    if (saver == NULL)
        return;
    bl_queue_destroy(saver->queue);
    free(saver);
}
