/* SPDX-License-Identifier: MIT */
#include "server/models/sequences.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/models/model_infer.h"
#include "server/store/eviction.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SEQUENCES = 4096, KEY_SIZE = 160 };

typedef enum sequence_state {
    SEQUENCE_NEW, /* its states are those of the program */
    SEQUENCE_BEGUN,
    SEQUENCE_IN_STEP, /* begun, and a step uses the states without a reference */
} sequence_state;

struct bl_sequence {
    bl_evictable evictable; /* first member; registered once the sequence has its own state */
    atomic_int refs;        /* references of the table and of requests */
    /* owns the table; the version and the instance may be freed before eviction drops its reference */
    bl_model_version *version;
    bl_model_instance *instance;
    bl_worker *worker;
    bl_serial serial;
    int nstates;
    size_t *bytes;        /* the bytes of each state */
    bl_buffer **states;   /* own buffers of updated states; NULL: a state of the program */
    bl_buffer **lent;     /* the states of the current step, own and the program's */
    char **away;          /* copies in host memory, in place of the own buffers; else NULL */
    sequence_state state; /* worker's thread, like |states|, |lent| and |away| */
    uint32_t owner;       /* is charged for the sequence */
    size_t charged;
    int64_t used_ns; /* under version->sequences.lock, like |listed| */
    bool listed;
    char key[KEY_SIZE];
};

bl_serial *bl_sequence_serial(bl_sequence *sequence)
{
    return &sequence->serial;
}

bl_model_instance *bl_sequence_instance(const bl_sequence *sequence)
{
    return sequence->instance;
}

static void sequences_drop_copies(bl_sequence *s)
{
    for (int i = 0; s->away != NULL && i < s->nstates; i++)
        bl_evictable_free_copy(s->worker, s->away[i], s->bytes[i]);
    free(s->away);
    s->away = NULL;
}

static void sequences_destroy(bl_sequence *s)
{
    free(s->bytes);
    free(s->states);
    free(s->lent);
    free(s);
}

void bl_sequence_release(void *arg)
{
    bl_sequence *s = arg;
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    bl_evictable_remove(&s->evictable);
    sequences_drop_copies(s);
    for (int i = 0; i < s->nstates; i++)
        bl_pool_release(s->worker->pool, s->states[i]);
    bl_registry_refund(s->worker->server->registry, s->owner, s->charged);
    sequences_destroy(s);
}

/* ---- eviction to host memory */

static bl_sequence *sequence_of(bl_evictable *evictable)
{
    return (bl_sequence *)evictable;
}

static bool sequences_retain_living(bl_evictable *evictable)
{
    return bl_evictable_retain_living(&sequence_of(evictable)->refs);
}

static void sequences_release(bl_evictable *evictable)
{
    bl_sequence_release(sequence_of(evictable));
}

/* Is the state lost?  A step that updated it in place failed half-way, or the device was lost. */
static bool sequences_is_lost(const bl_sequence *s)
{
    bool lost = false;
    for (int i = 0; i < s->nstates; i++)
        lost = lost || (s->states[i] != NULL && bl_buffer_is_lost(s->states[i]));
    return lost;
}

/* May the state be evicted?  A current step protects it, by its state or by references. */
static bool sequences_may_leave(bl_evictable *evictable)
{
    const bl_sequence *s = sequence_of(evictable);
    bool may = s->state != SEQUENCE_IN_STEP && !sequences_is_lost(s);
    for (int i = 0; i < s->nstates; i++)
        may = may && (s->states[i] == NULL || atomic_load(&s->states[i]->refs) == 1);
    return may;
}

static bl_status sequences_leave(bl_evictable *evictable, size_t *bytes, bl_err *err)
{
    bl_sequence *s = sequence_of(evictable);
    bl_status st = BL_OK;
    *bytes = 0;
    s->away = bl_calloc((size_t)s->nstates + 1, sizeof *s->away);
    if (s->away == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the state of a sequence");
    for (int i = 0; st == BL_OK && i < s->nstates; i++)
        if (s->states[i] != NULL) {
            st = bl_evictable_copy(s->worker, s->states[i], s->bytes[i], &s->away[i], err);
            *bytes += s->bytes[i];
        }
    if (st != BL_OK) {
        *bytes = 0;
        sequences_drop_copies(s);
        return st;
    }
    for (int i = 0; i < s->nstates; i++) {
        bl_buffer_release(s->states[i]);
        s->states[i] = NULL;
    }
    return BL_OK;
}

static bl_status sequences_move_in(bl_sequence *s, bl_err *err)
{
    bl_status st = BL_OK;
    for (int i = 0; st == BL_OK && i < s->nstates; i++)
        if (s->away[i] != NULL)
            st = bl_evictable_bring(s->worker, s->away[i], s->bytes[i], &s->states[i], err);
    for (int i = 0; st != BL_OK && i < s->nstates; i++) { /* the copies in host memory are still valid */
        bl_pool_release(s->worker->pool, s->states[i]);
        s->states[i] = NULL;
    }
    if (st != BL_OK)
        return st;
    sequences_drop_copies(s);
    bl_evictable_back(&s->evictable);
    return BL_OK;
}

/* Register the own state for eviction if it is in memory that is not host-visible. */
static void sequences_settle(bl_sequence *s)
{
    static const bl_evictable_kind kind = {.name = "what a sequence remembers",
                                           .left = BL_COUNT_SEQUENCES_OUT,
                                           .back = BL_COUNT_SEQUENCES_IN,
                                           .retain = sequences_retain_living,
                                           .release = sequences_release,
                                           .may_leave = sequences_may_leave,
                                           .leave = sequences_leave};
    bool any = false;
    for (int i = 0; i < s->nstates && s->evictable.kind == NULL; i++)
        any = any || (s->states[i] != NULL && s->states[i]->host == NULL);
    if (any)
        bl_evictable_add(&s->evictable, &kind, s->worker);
}

/* Bring the state back to the device.  |start|: drop the state, since the sequence begins again. */
static bl_status sequences_wake(bl_sequence *s, bool start, bl_err *err)
{
    if (start) {
        bl_evictable_remove(&s->evictable);
        sequences_drop_copies(s);
        s->state = SEQUENCE_NEW;
    }
    if (s->away != NULL)
        return sequences_move_in(s, err);
    if (s->evictable.kind != NULL)
        bl_evictable_use(&s->evictable);
    return BL_OK;
}

/* ---- steps */

static bl_state *state_at(const bl_model_instance *instance, int i)
{
    return &instance->slot.program->states[instance->slot.entry->state[i]];
}

/* Collect the states of the next step.  |start|: begin with the states of the program, which do not change, since a step
 * updates another buffer. */
static bl_status lend(bl_sequence *s, bool start, bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(s->instance->slot.plan);
    bl_pool *pool = s->worker->pool;
    BL_TRY(bl_program_check(s->instance->slot.program, err));
    BL_TRY(bl_program_wake(s->instance->slot.program, err)); /* first, so that later evictions do not move it */
    BL_TRY(sequences_wake(s, start, err));
    if (s->state != SEQUENCE_NEW && sequences_is_lost(s))
        return bl_fail(err, BL_ECONFLICT,
                       "the state of the sequence was lost when a step on %s failed before its end; start the sequence again "
                       "with sequence_start",
                       s->worker->dev->info.id);
    for (int i = 0; i < s->nstates; i++) {
        bl_buffer *first = state_at(s->instance, i)->buffer;
        if (info->updated[i] && s->state == SEQUENCE_NEW) {
            bl_pool_release(pool, s->states[i]);
            s->states[i] = bl_buffer_retain(first);
        }
        s->lent[i] = info->updated[i] ? s->states[i] : first;
    }
    s->state = SEQUENCE_BEGUN;
    return BL_OK;
}

static bl_status sequences_create(bl_infer *in, const char *key, size_t bytes, bl_sequence **out)
{
    bl_model_version *version = in->version;
    bl_model_instance *instance = bl_instance_choose(version);
    const bl_plan_info *info = bl_plan_get_info(instance->slot.plan);
    bl_sequence *s = bl_calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return bl_fail(&in->rq->err, BL_ENOMEM, "out of host memory for a sequence");
    atomic_init(&s->refs, 1);
    s->version = version;
    s->instance = instance;
    s->worker = instance->slot.program->worker;
    s->nstates = info->nstates + info->nhidden;
    s->states = bl_calloc((size_t)s->nstates + 1, sizeof(bl_buffer *));
    s->lent = bl_calloc((size_t)s->nstates + 1, sizeof(bl_buffer *));
    s->bytes = bl_calloc((size_t)s->nstates + 1, sizeof *s->bytes);
    for (int i = 0; s->bytes != NULL && i < s->nstates; i++) {
        s->bytes[i] = state_at(instance, i)->bytes;
        bytes += info->updated[i] ? s->bytes[i] : 0;
    }
    if (s->states == NULL || s->lent == NULL || s->bytes == NULL ||
        bl_registry_charge(version->models->server->registry, in->rq->owner, bytes, true, &in->rq->err) != BL_OK) {
        sequences_destroy(s);
        return bl_fail(&in->rq->err, BL_ENOMEM, "out of host memory for a sequence");
    }
    s->owner = in->rq->owner;
    s->charged = bytes;
    snprintf(s->key, sizeof s->key, "%s", key);
    *out = s;
    return BL_OK;
}

bl_status bl_sequence_create(bl_infer *in, size_t bytes, bl_sequence **out)
{
    return sequences_create(in, "", bytes, out);
}

bl_status bl_sequence_lend(bl_sequence *s, bl_buffer ***states, bl_err *err)
{
    BL_TRY(lend(s, false, err));
    s->state = SEQUENCE_IN_STEP;
    *states = s->lent;
    return BL_OK;
}

void bl_sequence_keep(bl_sequence *s)
{
    for (int i = 0; i < s->nstates; i++)
        if (s->states[i] != NULL)
            s->states[i] = s->lent[i];
    s->state = SEQUENCE_BEGUN;
    sequences_settle(s);
}

static bl_status fails(const bl_infer *in, const char *what)
{
    return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\": %s", in->version->name, what);
}

/* Under the lock of the table. */
static void sequences_forget(bl_sequence *s)
{
    s->listed = false;
    (void)bl_namemap_remove(s->version->sequences.by_key, s->key);
    bl_sequence_release(s);
}

/* Under the lock of the table. */
static bl_status sequences_find(bl_infer *in, const char *key, bl_sequence **out)
{
    bl_namemap *table = in->version->sequences.by_key;
    bl_sequence *s = bl_namemap_get(table, key);
    bl_status st = BL_OK;
    /* begin again, on another device */
    if (s != NULL && in->wire.sequence_start && bl_batch_slot_is_lost(&s->instance->slot)) {
        sequences_forget(s);
        s = NULL;
    }
    *out = s;
    if (s != NULL)
        return BL_OK;
    if (!in->wire.sequence_start)
        return fails(in, "the sequence is not known; the first request of a sequence must have the parameter sequence_start");
    if (bl_namemap_count(table) >= MOST_SEQUENCES)
        return bl_fail(&in->rq->err, BL_EBUSY,
                       "model \"%s\" has %d sequences, the limit; end a sequence with sequence_end, or wait until one expires",
                       in->version->name, MOST_SEQUENCES);
    BL_TRY(sequences_create(in, key, 0, &s));
    st = bl_namemap_put(table, key, s, &in->rq->err);
    if (st != BL_OK) {
        bl_sequence_release(s);
        return st;
    }
    s->listed = true;
    *out = s;
    return BL_OK;
}

bl_status bl_sequence_get(bl_infer *in, bl_sequence **out)
{
    bl_model_version *version = in->version;
    char key[KEY_SIZE];
    bl_status st = BL_OK;
    if (!in->wire.sequenced)
        return fails(in, "the model has state, so a request must have the parameter sequence_id");
    snprintf(key, sizeof key, "%u %s", in->rq->owner, in->wire.sequence);
    pthread_mutex_lock(&version->sequences.lock);
    st = sequences_find(in, key, out);
    if (st == BL_OK) {
        atomic_fetch_add(&(*out)->refs, 1);
        (*out)->used_ns = bl_clock_ns();
    }
    pthread_mutex_unlock(&version->sequences.lock);
    return st == BL_OK ? bl_request_defer(in->rq, bl_sequence_release, *out) : st;
}

/* Keep the states that the step has updated. */
static void sequences_keep_states(bl_sequence *s, const bl_exec *x)
{
    bl_pool *pool = s->instance->slot.program->worker->pool;
    for (int i = 0; i < s->nstates; i++) {
        bl_buffer *old = s->states[i];
        if (old == NULL || x->hold.states[i] == old)
            continue;
        s->states[i] = bl_buffer_retain(x->hold.states[i]);
        bl_pool_release(pool, old);
    }
    sequences_settle(s);
}

static void unlist(bl_sequence *s)
{
    bl_model_version *version = s->version;
    pthread_mutex_lock(&version->sequences.lock);
    if (s->listed)
        sequences_forget(s);
    pthread_mutex_unlock(&version->sequences.lock);
}

bl_step bl_sequence_work(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_infer *in = x->extra;
    bl_sequence *s = in->of;
    bl_step step = BL_STEP_DONE;
    if (!bl_exec_has_begun(x)) {
        if (lend(s, in->wire.sequence_start, &rq->err) != BL_OK)
            return BL_STEP_DONE;
        x->hold.lent = s->lent;
    }
    step = bl_exec_run(rq);
    if (step != BL_STEP_DONE)
        return step;
    if (rq->err.status == BL_OK)
        sequences_keep_states(s, x);
    if (in->wire.sequence_end)
        unlist(s);
    return step;
}

void bl_sequences_expire(bl_model_version *version, int64_t now_ns)
{
    int64_t idle_ns = version->config.sequences.idle_us * 1000;
    const char *key = NULL;
    void *at = NULL;
    pthread_mutex_lock(&version->sequences.lock);
    for (size_t i = 0; bl_namemap_at(version->sequences.by_key, i, &key, &at);) {
        bl_sequence *s = at;
        if (now_ns - s->used_ns < idle_ns || atomic_load(&s->refs) > 1) { /* new references are taken under this lock */
            i++;
            continue;
        }
        sequences_forget(s);
    }
    pthread_mutex_unlock(&version->sequences.lock);
}

void bl_sequences_fini(bl_model_version *version)
{
    const char *key = NULL;
    void *at = NULL;
    for (size_t i = 0; bl_namemap_at(version->sequences.by_key, i, &key, &at); i++)
        bl_sequence_release(at);
    bl_namemap_destroy(version->sequences.by_key);
}
