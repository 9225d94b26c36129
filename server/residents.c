/* SPDX-License-Identifier: MIT */
#include "server/residents.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <stdlib.h>

struct bl_residents {
    bl_worker *worker;
    pthread_mutex_t lock; /* of the list */
    bl_program *first;
    bl_program *awake;       /* worker's thread: what works now; compared only */
    _Atomic(pthread_t) self; /* the worker's thread, once |adopted| */
    atomic_bool adopted;
};

/* ---- one program; worker's thread */

static size_t bytes_of(const bl_program *program, int i)
{
    return program->states[i].shared == NULL ? program->states[i].bytes : 0;
}

static void drop_copies(bl_program *program)
{
    for (int i = 0; program->away != NULL && i < program->nstates; i++)
        free(program->away[i]);
    free(program->away);
    program->away = NULL;
    bl_budget_give(&program->server->memory, program->away_bytes);
    program->away_bytes = 0;
}

static bl_status copy_out(bl_program *program, bl_err *err)
{
    program->away = calloc((size_t)program->nstates + 1, sizeof *program->away);
    if (program->away == NULL)
        return bl_fail(err, BL_ENOMEM, "weights");
    for (int i = 0; i < program->nstates; i++) {
        size_t bytes = bytes_of(program, i);
        if (bytes == 0)
            continue;
        BL_TRY(bl_budget_take(&program->server->memory, bytes, BL_ENOMEM, "weights", err));
        program->away_bytes += bytes;
        program->away[i] = malloc(bytes);
        if (program->away[i] == NULL)
            return bl_fail(err, BL_ENOMEM, "weights");
        BL_TRY(bl_buffer_read(program->states[i].buffer, 0, program->away[i], bytes, err));
    }
    return BL_OK;
}

/* All of it or nothing. */
static bool move_out(bl_program *program)
{
    bl_err err = {0};
    if (copy_out(program, &err) != BL_OK) {
        bl_log(BL_LOG_WARN, "the weights of \"%s\" cannot move to the host: %s", program->name, err.text);
        drop_copies(program);
        return false;
    }
    for (int i = 0; i < program->nstates; i++)
        if (bytes_of(program, i) > 0) {
            bl_buffer_release(program->states[i].buffer);
            program->states[i].buffer = NULL;
        }
    bl_metrics_add(&program->server->metrics, BL_COUNT_MOVED_OUT, 1);
    bl_log(BL_LOG_INFO, "%s: the weights of \"%s\", %zu bytes, moved to the host", program->worker->dev->info.id, program->name,
           program->away_bytes);
    return true;
}

static bl_status move_in(bl_program *program, bl_err *err)
{
    bl_pool *pool = program->worker->pool;
    bl_status st = BL_OK;
    for (int i = 0; i < program->nstates && st == BL_OK; i++) {
        if (program->away[i] == NULL)
            continue;
        st = bl_pool_alloc(pool, program->states[i].bytes, &program->states[i].buffer, err);
        if (st == BL_OK)
            st = bl_buffer_write(program->states[i].buffer, 0, program->away[i], program->states[i].bytes, err);
    }
    for (int i = 0; st != BL_OK && i < program->nstates; i++)
        if (program->away[i] != NULL) { /* which still has it */
            bl_pool_release(pool, program->states[i].buffer);
            program->states[i].buffer = NULL;
        }
    if (st != BL_OK)
        return st;
    drop_copies(program);
    bl_metrics_add(&program->server->metrics, BL_COUNT_MOVED_IN, 1);
    return BL_OK;
}

bl_status bl_program_wake(bl_program *program, bl_err *err)
{
    program->used_ns = bl_clock_ns();
    program->worker->residents->awake = program;
    return program->away != NULL ? move_in(program, err) : BL_OK;
}

/* ---- making room */

static bool may_leave(const bl_residents *r, const bl_program *program)
{
    if (program == r->awake || program->away != NULL)
        return false;
    for (int i = 0; i < program->nstates; i++)
        if (bytes_of(program, i) > 0)
            return program->states[i].buffer != NULL && program->states[i].buffer->host == NULL;
    return false;
}

/* The one that was used longest ago, kept from being freed; NULL: there is none. */
static bl_program *take_oldest(bl_residents *r)
{
    bl_program *oldest = NULL;
    pthread_mutex_lock(&r->lock);
    for (bl_program *p = r->first; p != NULL; p = p->next_resident)
        if (may_leave(r, p) && (oldest == NULL || p->used_ns < oldest->used_ns))
            oldest = p;
    if (oldest != NULL && !bl_program_retain_living(oldest))
        oldest = NULL; /* it goes by itself */
    pthread_mutex_unlock(&r->lock);
    return oldest;
}

/* Worker's thread: until |bytes| were freed; false where nothing was. */
static bool make_room_here(bl_residents *r, size_t bytes)
{
    size_t freed = 0;
    bl_program *program = NULL;
    while (freed < bytes && (program = take_oldest(r)) != NULL) {
        bool moved = move_out(program);
        freed += moved ? program->away_bytes : 0;
        bl_program_release(program);
        if (!moved)
            break;
    }
    return freed > 0;
}

/* Another thread asks the worker's, and waits for its turn. */
typedef struct plea {
    bl_residents *residents;
    size_t bytes;
    bool freed, over;
    pthread_mutex_t lock;
    pthread_cond_t done;
} plea;

static bl_step plead(bl_request *rq)
{
    plea *p = rq->own;
    p->freed = make_room_here(p->residents, p->bytes);
    return BL_STEP_DONE;
}

static void pleaded(bl_request *rq)
{
    plea *p = rq->own;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static bool ask_worker(bl_residents *r, size_t bytes)
{
    plea p = {.residents = r, .bytes = bytes};
    bl_request *rq = bl_request_create_own(r->worker->server, 0, pleaded, &p);
    if (rq == NULL)
        return false;
    rq->rank = BL_RANK_INFER; /* somebody waits, and holds up a thread */
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.done, NULL);
    if (bl_request_submit(rq, r->worker->queue, plead, NULL) == BL_OK) {
        pthread_mutex_lock(&p.lock);
        while (!p.over)
            pthread_cond_wait(&p.done, &p.lock);
        pthread_mutex_unlock(&p.lock);
    }
    bl_request_end(rq);
    pthread_cond_destroy(&p.done);
    pthread_mutex_destroy(&p.lock);
    return p.freed;
}

static bool make_room(void *arg, size_t bytes)
{
    bl_residents *r = arg;
    bool any = false;
    if (!atomic_load(&r->adopted))
        return false;
    if (pthread_equal(atomic_load(&r->self), pthread_self()))
        return make_room_here(r, bytes);
    pthread_mutex_lock(&r->lock);
    for (const bl_program *p = r->first; p != NULL && !any; p = p->next_resident)
        any = p->unseen;
    pthread_mutex_unlock(&r->lock);
    return any && ask_worker(r, bytes);
}

/* ---- the list */

void bl_residents_begin(bl_residents *r)
{
    r->awake = NULL;
    if (atomic_load(&r->adopted))
        return;
    atomic_store(&r->self, pthread_self());
    atomic_store(&r->adopted, true);
}

void bl_residents_add(bl_program *program)
{
    bl_residents *r = program->worker->residents;
    program->used_ns = bl_clock_ns();
    for (int i = 0; i < program->nstates && !program->unseen; i++)
        program->unseen = bytes_of(program, i) > 0 && program->states[i].buffer->host == NULL;
    pthread_mutex_lock(&r->lock);
    program->next_resident = r->first;
    r->first = program;
    program->resident = true;
    pthread_mutex_unlock(&r->lock);
}

void bl_residents_remove(bl_program *program)
{
    bl_residents *r = program->worker != NULL ? program->worker->residents : NULL;
    if (!program->resident)
        return;
    pthread_mutex_lock(&r->lock);
    for (bl_program **at = &r->first; *at != NULL; at = &(*at)->next_resident)
        if (*at == program) {
            *at = program->next_resident;
            break;
        }
    pthread_mutex_unlock(&r->lock);
    if (program->away != NULL)
        drop_copies(program);
}

bl_status bl_residents_create(bl_worker *worker, bl_residents **out, bl_err *err)
{
    bl_residents *r = calloc(1, sizeof *r);
    *out = r;
    if (r == NULL)
        return bl_fail(err, BL_ENOMEM, "weights of %s", worker->dev->info.id);
    r->worker = worker;
    pthread_mutex_init(&r->lock, NULL);
    bl_pool_set_room(worker->pool, make_room, r);
    return BL_OK;
}

void bl_residents_destroy(bl_residents *r)
{
    if (r == NULL)
        return;
    bl_pool_set_room(r->worker->pool, NULL, NULL);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
