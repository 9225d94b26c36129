/* SPDX-License-Identifier: MIT */
/* Dynamic batching: requests for one model that wait at the same time are one run.  A run begins when an instance is free, with
 * as many as then wait, so that nobody waits for company while the device has nothing to do; a model's configuration may ask for
 * a delay, in which more may come.  They are taken in the order of their priority, then in which they came, and answered so. */
#include "server/models/model_infer.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/access/access.h"

#include <stdlib.h>
#include <string.h>

static const int64_t CROWDED_NS = 10000000000; /* for so long fewer rows run where more were too much */

/* A run that several share.  Counted by those of them whose answer is not sent: its request holds the results. */
struct bl_batch {
    atomic_int refs;
    bl_model_version *version;
    bl_model_instance *instance;
    bl_request *rq; /* the server's own */
    bl_infer *first;
    int count, gone;          /* |gone| under the batcher's lock: whose client went away */
    int64_t rows, most, skip; /* of all; that it may have; those in front that somebody else has sooner */
    int64_t begin_ns;
    bl_exec *x;
};

static void release(bl_batch *batch)
{
    bl_model_version *version = batch->version;
    if (atomic_fetch_sub(&batch->refs, 1) != 1)
        return;
    bl_request_end(batch->rq);
    free(batch);
    atomic_fetch_sub(&version->models->batches, 1);
    bl_model_version_release(version);
}

void bl_batch_leave(bl_batch *batch)
{
    if (batch != NULL)
        release(batch);
}

/* ---- who waits */

/* Under the lock: when it is the turn of |in|, counted in rows, as start-time fair queueing has it (Goyal, Vin and Cheng, 1996):
 * who waits for many goes on behind the first of who waits for few. */
static int64_t turn_of(const bl_batcher *b, const bl_infer *in)
{
    int64_t turn = b->turn;
    for (const bl_infer *one = b->first; one != NULL; one = one->next)
        if (one->rq->owner == in->rq->owner && one->priority == in->priority && one->turn + one->rows > turn)
            turn = one->turn + one->rows;
    return turn;
}

/* Under the lock. */
static void append(bl_batcher *b, bl_infer *in)
{
    bl_infer **at = &b->first;
    in->turn = turn_of(b, in);
    while (*at != NULL && ((*at)->priority < in->priority || ((*at)->priority == in->priority && (*at)->turn <= in->turn)))
        at = &(*at)->next;
    in->next = *at;
    *at = in;
    b->count++;
    b->rows += in->rows;
}

/* Under the lock. */
static void take_out(bl_batcher *b, bl_infer **at)
{
    bl_infer *in = *at;
    *at = in->next;
    in->next = NULL;
    b->count--;
    b->rows -= in->rows;
}

/* The client of one that waits, or runs with others, went away. */
static bool leave(bl_request *rq)
{
    bl_infer *in = rq->data;
    bl_batcher *b = &in->version->batcher;
    bool mine = false;
    pthread_mutex_lock(&b->lock);
    for (bl_infer **at = &b->first; *at != NULL && !mine; at = mine ? at : &(*at)->next) {
        mine = *at == in;
        if (mine) {
            take_out(b, at);
            break;
        }
    }
    if (!mine && in->batch != NULL && !in->gone && ++in->batch->gone == in->batch->count)
        atomic_store(&in->batch->rq->cancel, true); /* nobody wants it any more */
    in->gone = true;
    pthread_mutex_unlock(&b->lock);
    return mine;
}

/* Sizes other than the batch's are the same; and one owner's rows see no other's. */
static bool fits(const bl_infer *a, const bl_infer *b)
{
    if (a->rq->owner != b->rq->owner && a->version->owner != 0 && !a->version->apart)
        return false;
    for (int i = 0; i < a->version->nvars; i++)
        if (i != a->version->batch_var && a->vars[i] != b->vars[i])
            return false;
    return true;
}

/* The most rows that are worth a run now that it begins. */
static int64_t worth_rows(const bl_batch *batch)
{
    bl_batcher *b = &batch->version->batcher;
    int64_t rows = batch->version->max_batch, waiting = 0;
    bool crowded = batch->instance->crowd > 0 && bl_clock_ns() - batch->instance->crowded_ns < CROWDED_NS;
    if (crowded && batch->instance->crowd < batch->most)
        return batch->instance->crowd;
    if (batch->version->config.npreferred > 0)
        return batch->most;
    pthread_mutex_lock(&b->lock);
    waiting = b->rows > batch->skip ? b->rows - batch->skip : b->rows;
    rows = bl_sizes_choose(&batch->instance->sizes, waiting < rows ? waiting : rows);
    pthread_mutex_unlock(&b->lock);
    return rows < batch->most ? rows : batch->most;
}

/* Under the lock: how many rows of those that wait should run now; 0: none, more may come. */
static int64_t due_rows(const bl_model_version *version, int64_t now_ns)
{
    const bl_batcher *b = &version->batcher;
    const bl_model_config *config = &version->config;
    int64_t oldest = INT64_MAX, best = 0;
    for (const bl_infer *in = b->first; in != NULL; in = in->next)
        oldest = in->rq->item.queued_ns < oldest ? in->rq->item.queued_ns : oldest;
    for (int i = 0; i < config->npreferred; i++)
        if (config->preferred[i] <= b->rows && config->preferred[i] > best)
            best = config->preferred[i];
    if (best > 0 && b->rows < version->max_batch)
        return best;
    if (b->rows >= version->max_batch || (b->count > 0 && now_ns - oldest >= config->delay_us * 1000))
        return version->max_batch;
    return 0;
}

/* ---- a run */

/* Take those that run now, behind the first |skip| rows: |most| rows at the most, but one request in any case.  What has no use
 * any more comes back in |late|. */
static void gather(bl_batch *batch, int64_t most, int64_t skip, bl_infer **late)
{
    bl_batcher *b = &batch->version->batcher;
    int64_t now = bl_clock_ns();
    bl_infer **last = &batch->first;
    batch->begin_ns = now;
    pthread_mutex_lock(&b->lock);
    for (bl_infer **at = &b->first; *at != NULL;) {
        bl_infer *in = *at;
        if (atomic_load(&in->rq->cancel) || (in->rq->item.deadline_ns != 0 && in->rq->item.deadline_ns <= now)) {
            take_out(b, at);
            in->next = *late;
            *late = in;
            continue;
        }
        if (batch->first == NULL && skip > 0) {
            skip -= in->rows;
            at = &in->next;
            continue;
        }
        if (batch->first != NULL && (batch->rows + in->rows > most || !fits(batch->first, in)))
            break; /* nobody overtakes */
        take_out(b, at);
        in->batch = batch;
        b->turn = in->turn > b->turn ? in->turn : b->turn;
        in->queue_ns = now - in->rq->item.queued_ns;
        batch->rows += in->rows;
        batch->count++;
        *last = in;
        last = &in->next;
    }
    pthread_mutex_unlock(&b->lock);
}

static void finish_late(bl_infer *late)
{
    while (late != NULL) {
        bl_infer *in = late;
        late = in->next;
        if (atomic_load(&in->rq->cancel))
            (void)bl_fail(&in->rq->err, BL_ECANCELLED, "the client went away");
        else
            (void)bl_fail(&in->rq->err, BL_ETIMEOUT, "still waiting for %s \"%s\" when the timeout passed", bl_infer_what(in),
                          in->version->name);
        bl_request_finish(in->rq);
    }
}

/* The rows of all, one after the other, where the device has them. */
static bl_status load_inputs(bl_batch *batch)
{
    bl_exec *x = batch->x;
    const bl_model_version *version = batch->version;
    bl_arena *arena = batch->rq->arena;
    x->in.tensors = bl_arena_array(arena, (size_t)version->ninputs + 1, sizeof *x->in.tensors);
    if (x->in.tensors == NULL)
        return bl_arena_status(arena, &batch->rq->err);
    for (int i = 0; i < version->ninputs; i++) {
        const bl_tensor_value *value = &batch->first->values[i];
        int64_t dim[16];
        char *to = NULL;
        memcpy(dim, value->dim, sizeof dim);
        dim[0] = batch->rows;
        BL_TRY(bl_device_tensor_create(x->worker, value->dtype, value->ndim, dim, &x->in.tensors[i], &batch->rq->err));
        x->in.n++;
        to = bl_device_tensor_host(x->in.tensors[i]);
        if (to == NULL)
            return bl_fail(&batch->rq->err, BL_ENOMEM, "a batch of %zu bytes", x->in.tensors[i]->bytes);
        for (const bl_infer *in = batch->first; in != NULL; in = in->next) {
            memcpy(to, in->source[i], in->values[i].bytes);
            to += in->values[i].bytes;
        }
    }
    return BL_OK;
}

/* Who is charged for it: each for its rows. */
static bl_status share(bl_batch *batch)
{
    bl_request *rq = batch->rq;
    bl_time_part *shares = bl_arena_array(rq->arena, (size_t)batch->count, sizeof *shares);
    if (shares == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (const bl_infer *in = batch->first; in != NULL; in = in->next)
        if (in->rq->owner != rq->owner)
            shares[rq->item.nshares++] = (bl_time_part){in->rq->owner, (double)in->rows / (double)batch->rows};
    rq->item.shares = shares;
    return BL_OK;
}

static bl_status prepare(bl_batch *batch)
{
    const bl_model_version *version = batch->version;
    int64_t *vars = bl_arena_array(batch->rq->arena, (size_t)version->nvars + 1, sizeof *vars);
    if (vars == NULL)
        return bl_arena_status(batch->rq->arena, &batch->rq->err);
    memcpy(vars, batch->first->vars, (size_t)version->nvars * sizeof *vars);
    vars[version->batch_var] = batch->rows;
    BL_TRY(share(batch));
    BL_TRY(bl_infer_prepare(batch->rq, version, batch->instance, vars, &batch->x));
    batch->rq->item.may_fly =
        batch->rq->item.may_fly && bl_plan_may_fly(batch->x->plan); /* which is perhaps not the one that was asked */
    return load_inputs(batch);
}

/* Before anybody has an answer: who has one and asks how many there were finds its own among them. */
static void count(bl_batch *batch)
{
    const int64_t *ns = batch->rq->trail.time_ns;
    int64_t input_ns = 0;
    for (const bl_infer *in = batch->first; in != NULL; in = in->next)
        input_ns = in->input_ns > input_ns ? in->input_ns : input_ns;
    bl_statistics_run(&batch->version->statistics, batch->rows, input_ns + ns[BL_TIME_COPY], ns[BL_TIME_COMPUTE], 0);
}

/* Everybody's part of what came of it. */
static void scatter(bl_batch *batch)
{
    const int64_t *ns = batch->rq->trail.time_ns;
    bl_status st = batch->rq->err.status;
    int64_t from = 0;
    bl_infer *in = batch->first, *next = NULL;
    bool ran = st == BL_OK && batch->rows > 0; /* else all were too late, or others had taken all that it was made for */
    if (ran)
        count(batch);
    bl_metrics_add(&batch->rq->server->metrics, BL_COUNT_JOINED_RUNS, ran && batch->version->host != NULL);
    for (; in != NULL; in = next) {
        next = in->next; /* it is somebody else's once it is finished */
        in->compute_ns = ns[BL_TIME_COMPUTE];
        if (st == BL_OK) {
            bl_exec_take(batch->x, batch->rows, from, in->rows, in->got);
            bl_infer_weigh(in);
        } else {
            in->rq->err = batch->rq->err;
        }
        from += in->rows;
        atomic_fetch_add(&batch->refs, 1);
        bl_request_trace_add(&in->rq->trail, BL_TIME_QUEUE, in->rq->item.queued_ns, batch->begin_ns);
        bl_request_trace_add(&in->rq->trail, BL_TIME_COMPUTE, batch->begin_ns, batch->begin_ns + ns[BL_TIME_COMPUTE]);
        bl_request_finish(in->rq);
    }
    if (ran)
        bl_instance_learn(batch->version, batch->instance, batch->rows, batch->x->plan, ns[BL_TIME_COMPUTE] + ns[BL_TIME_COPY]);
}

static bl_step work(bl_request *rq)
{
    bl_batch *batch = rq->own.arg;
    if (batch->x == NULL) {
        bl_infer *late = NULL;
        gather(batch, worth_rows(batch), batch->skip, &late);
        finish_late(late);
        if (batch->first == NULL || prepare(batch) != BL_OK)
            return BL_STEP_DONE;
    }
    return bl_exec_run(rq);
}

/* The device was lost on the way: each time there is one less that is not lost. */
static bool leaves_device(const bl_batch *batch)
{
    return bl_instance_is_lost(batch->instance) && !bl_model_version_is_lost(batch->version);
}

/* All of them together were too much for some limit, which each may keep: for a while fewer run. */
static bool goes_in_parts(const bl_batch *batch)
{
    bl_status st = batch->rq->err.status;
    if (batch->count < 2 || (st != BL_ENODEVMEM && st != BL_ENOMEM && st != BL_ELIMIT))
        return false;
    batch->instance->crowd = batch->rows / 2;
    batch->instance->crowded_ns = bl_clock_ns();
    return true;
}

/* Those that it had wait for another, in front of all others. */
static bool put_back(bl_batch *batch)
{
    bl_batcher *b = &batch->version->batcher;
    bl_infer *last = NULL;
    if (batch->rq->err.status == BL_OK || batch->first == NULL || (!leaves_device(batch) && !goes_in_parts(batch)))
        return false;
    pthread_mutex_lock(&b->lock);
    for (bl_infer *in = batch->first; in != NULL; in = in->next) {
        in->batch = NULL;
        last = in;
    }
    last->next = b->first;
    b->first = batch->first;
    b->count += (size_t)batch->count;
    b->rows += batch->rows;
    pthread_mutex_unlock(&b->lock);
    return true;
}

/* On the worker's thread, or wherever it was given up. */
static void done(bl_request *rq)
{
    bl_batch *batch = rq->own.arg;
    bl_model_version *version = batch->version;
    bl_model_instance *instance = batch->instance;
    bl_infer *late = NULL;
    if (batch->first == NULL && rq->err.status != BL_OK) { /* it never began: those that wait get its error */
        gather(batch, batch->most, batch->skip, &late);
        finish_late(late);
    }
    if (!put_back(batch))
        scatter(batch);
    bl_batch_unclaim(version, instance);
    release(batch);
}

/* ---- when it begins */

static bl_batch *create(bl_model_version *version, bl_model_instance *instance, uint32_t owner, int64_t most, int64_t skip)
{
    bl_batch *batch = bl_calloc(1, sizeof *batch);
    if (batch == NULL)
        return NULL;
    atomic_init(&batch->refs, 1);
    batch->version = version;
    batch->instance = instance;
    batch->most = most;
    batch->skip = skip;
    batch->rq = bl_request_create_own(version->models->server, owner, done, batch);
    if (batch->rq == NULL) {
        free(batch);
        return NULL;
    }
    (void)bl_model_version_retain(version);
    atomic_fetch_add(&version->models->batches, 1);
    batch->rq->item.rank = version->host != NULL ? BL_RANK_RUN : BL_RANK_INFER;
    batch->rq->own.purpose =
        version->host != NULL ? (bl_purpose){"run", NULL, version->name} : (bl_purpose){"model", version->name, NULL};
    batch->rq->item.may_fly = version->host == NULL && bl_plan_may_fly(instance->plan);
    if (batch->rq->item.may_fly)
        batch->rq->item.expected_ns = (int64_t)(bl_plan_get_service(instance->plan).wall_seconds * 1e9);
    return batch;
}

/* Nothing can be run: those that wait are told. */
static void refuse(bl_model_version *version, bl_model_instance *instance, const bl_err *err)
{
    bl_batcher *b = &version->batcher;
    bl_infer *all = NULL;
    pthread_mutex_lock(&b->lock);
    all = b->first;
    b->first = NULL;
    b->count = 0;
    b->rows = 0;
    instance->running = false;
    pthread_mutex_unlock(&b->lock);
    while (all != NULL) {
        bl_infer *in = all;
        all = in->next;
        in->rq->err = *err;
        bl_request_finish(in->rq);
    }
}

/* May what came later begin before what came first, where that is done sooner elsewhere?  Not where sizes are wished for. */
static bool mixes(const bl_model_version *version)
{
    return version->config.delay_us == 0 && version->config.npreferred == 0;
}

/* Runs of a program take turns, whether or not they are joined: no step is between two of its state. */
static bl_serial *serial_of(const bl_model_version *version)
{
    return version->host != NULL ? &version->host->serial : NULL;
}

void bl_batch_kick(bl_model_version *version)
{
    bl_batcher *b = &version->batcher;
    for (;;) {
        bl_model_instance *instance = NULL;
        bl_batch *batch = NULL;
        bl_err err = {0};
        uint32_t owner = 0;
        int64_t most = 0, worth = 0, skip = 0;
        pthread_mutex_lock(&b->lock);
        most = b->first != NULL ? due_rows(version, bl_clock_ns()) : 0;
        instance = most > 0 ? bl_instance_take(version, b->rows, mixes(version), &worth, &skip) : NULL;
        most = worth < most ? worth : most;
        owner = b->first != NULL ? b->first->rq->owner : 0;
        pthread_mutex_unlock(&b->lock);
        if (instance == NULL)
            return;
        batch = create(version, instance, owner, most, skip);
        if (batch == NULL) {
            (void)bl_fail(&err, BL_ENOMEM, "a batch");
            refuse(version, instance, &err);
        } else if (bl_request_submit(batch->rq, instance->program->worker->queue, work, serial_of(version)) != BL_OK) {
            refuse(version, instance, &batch->rq->err);
            release(batch);
        }
    }
}

bool bl_batch_claim(bl_model_version *version, int64_t rows, bl_model_instance **instance)
{
    bl_batcher *b = &version->batcher;
    int64_t most = 0, skip = 0;
    *instance = NULL;
    pthread_mutex_lock(&b->lock);
    if (b->first == NULL && version->config.delay_us == 0)
        *instance = bl_instance_take(version, rows, false, &most, &skip);
    pthread_mutex_unlock(&b->lock);
    return *instance != NULL;
}

void bl_batch_unclaim(bl_model_version *version, bl_model_instance *instance)
{
    pthread_mutex_lock(&version->batcher.lock);
    instance->running = false;
    pthread_mutex_unlock(&version->batcher.lock);
    bl_batch_kick(version);
}

bool bl_batch_is_running(bl_model_version *version)
{
    bool running = false;
    pthread_mutex_lock(&version->batcher.lock);
    for (int i = 0; i < version->ninstances; i++)
        running |= version->instances[i].running;
    pthread_mutex_unlock(&version->batcher.lock);
    return running;
}

int64_t bl_batch_look(bl_model_version *version, int64_t now_ns)
{
    bl_batcher *b = &version->batcher;
    bl_infer *late = NULL;
    int64_t next = 0;
    pthread_mutex_lock(&b->lock);
    for (bl_infer **at = &b->first; *at != NULL;) {
        bl_infer *in = *at;
        int64_t due = version->config.delay_us > 0 ? in->rq->item.queued_ns + version->config.delay_us * 1000 : 0;
        if (in->rq->item.deadline_ns != 0 && in->rq->item.deadline_ns <= now_ns) {
            take_out(b, at);
            in->next = late;
            late = in;
            continue;
        }
        if (in->rq->item.deadline_ns != 0 && (due <= now_ns || in->rq->item.deadline_ns < due))
            due = in->rq->item.deadline_ns;
        if (due > now_ns && (next == 0 || due < next))
            next = due;
        at = &in->next;
    }
    pthread_mutex_unlock(&b->lock);
    finish_late(late);
    bl_batch_kick(version);
    return next;
}

/* ---- in */

/* Is there room for one more?  As in the queue of a device each key has its own, unless the model says how many may wait. */
static bl_status check_room(const bl_infer *in)
{
    bl_request *rq = in->rq;
    bl_batcher *b = &in->version->batcher;
    int64_t said = in->version->config.max_queue;
    size_t most = said > 0 ? (size_t)said : (size_t)rq->server->settings.max_queue, own = 0, all = 0;
    size_t quota = bl_access_queue_quota(rq->server->access, rq->owner);
    pthread_mutex_lock(&b->lock);
    for (const bl_infer *one = b->first; one != NULL; one = one->next)
        own += one->rq->owner == rq->owner;
    all = b->count;
    pthread_mutex_unlock(&b->lock);
    if (own >= quota && bl_request_is_bound(rq))
        return bl_fail(&rq->err, BL_EQUOTA, "the key may have %zu requests that wait for %s \"%s\", and has", quota,
                       bl_infer_what(in), in->version->name);
    if ((said > 0 ? all : own) < most)
        return BL_OK;
    return bl_fail(&rq->err, BL_EBUSY, "the queue of %s \"%s\" is full: %zu requests wait", bl_infer_what(in), in->version->name,
                   most);
}

bl_status bl_batch_join(bl_infer *in)
{
    bl_model_version *version = in->version;
    bl_batcher *b = &version->batcher;
    bl_request *rq = in->rq;
    bool watched = false;
    BL_TRY(bl_access_check_time(rq));
    if (in->source == NULL)
        BL_TRY(bl_infer_read_sources(in));
    in->input_ns = bl_clock_ns() - in->begin_ns;
    BL_TRY(check_room(in));
    rq->data = in;
    rq->then = in->reply;
    (void)bl_model_version_retain(version); /* the request may have ended before this does */
    bl_request_park(rq, leave);
    pthread_mutex_lock(&b->lock);
    watched = (b->first == NULL && version->config.delay_us > 0) || rq->item.deadline_ns != 0;
    append(b, in);
    pthread_mutex_unlock(&b->lock);
    if (watched && version->host != NULL)
        bl_models_watch(version); /* somebody must look at the clock */
    else if (watched)
        bl_models_wake(version->models);
    bl_batch_kick(version);
    bl_model_version_release(version);
    return BL_OK;
}
