/* SPDX-License-Identifier: MIT */
#include "server/batch/batcher.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/access/access.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <string.h>

/* after a run that was too large for the memory, runs stay smaller for this time */
static const int64_t CROWDED_NS = 10000000000;

/* One joint run.  Its request holds the results, so it lives until the last of its items has sent its answer. */
struct bl_batch {
    atomic_int refs;
    bl_batcher *batcher;
    bl_batch_slot *slot;
    bl_request *rq; /* a request of the server itself */
    bl_batch_item *first;
    int count, gone; /* items; under the batcher's lock: items whose client closed its connection */
    int64_t rows;    /* the rows of all items */
    int64_t most;    /* the maximum number of rows of the run */
    int64_t skip;    /* rows at the head of the queue that a busy slot will run sooner */
    int64_t begin_ns;
    bl_exec *x;
};

void bl_batcher_init(bl_batcher *b, const bl_batch_user *user, void *owner, bl_server *server)
{
    b->user = user;
    b->owner = owner;
    b->server = server;
    b->var = -1;
    pthread_mutex_init(&b->lock, NULL);
}

void bl_batcher_fini(bl_batcher *b)
{
    pthread_mutex_destroy(&b->lock);
}

static void batcher_release(bl_batch *batch)
{
    bl_batcher *b = batch->batcher;
    if (atomic_fetch_sub(&batch->refs, 1) != 1)
        return;
    bl_request_end(batch->rq);
    free(batch);
    bl_batching_count(b->server->batching, -1);
    b->user->release(b->owner);
}

void bl_batch_leave(bl_batch *batch)
{
    if (batch != NULL)
        batcher_release(batch);
}

/* ---- graphs that can be batched */

/* Does only the first dimension of |tensor| depend on the named dimension |var|, and is it that dimension? */
static bool is_batch_of(const bl_wire_graph *graph, const bl_plan_tensor *tensor, int var)
{
    int64_t vars[BL_WIRE_MAX_DIMS] = {0}, one[16] = {0}, two[16] = {0};
    bool good = tensor->ndim > 0;
    for (int i = 0; i < graph->nvars; i++)
        vars[i] = graph->vars[i].lo;
    bl_plan_sizes(tensor, vars, one);
    good = good && one[0] == vars[var];
    vars[var] = graph->vars[var].hi;
    bl_plan_sizes(tensor, vars, two);
    good = good && two[0] == vars[var];
    for (int d = 1; good && d < tensor->ndim; d++)
        good = one[d] == two[d];
    return good;
}

int bl_batch_find_var(const bl_wire_graph *graph, const bl_plan_info *info)
{
    int var = graph->ninputs > 0 && graph->inputs[0].type.ndim > 0 ? graph->inputs[0].type.dim[0].var : -1;
    if (var < 0 || graph->vars[var].lo > 1 || bl_wire_var_step(&graph->vars[var]) > 1)
        return -1;
    if (graph->ncounts > 0) /* the shape of a result depends on the data of all rows */
        return -1;
    for (int i = 0; i < graph->ninputs; i++) {
        const bl_wire_type *type = &graph->inputs[i].type;
        if (type->ndim == 0 || type->dim[0].var != var)
            return -1;
        for (int d = 1; d < type->ndim; d++)
            if (type->dim[d].var == var)
                return -1;
    }
    for (int i = 0; i < info->noutputs; i++)
        if (!is_batch_of(graph, &info->outputs[i], var))
            return -1;
    return var;
}

int64_t bl_batch_usual_rows(const bl_wire_batching *said, const bl_plan_info *info, int64_t most)
{
    if (said->off || info->checks_indices) /* one index out of range fails the whole run */
        return 0;
    return said->max_rows > 0 && said->max_rows < most ? said->max_rows : most;
}

/* ---- the queue of items */

/* Under the lock: the start tag of |in|, in rows, by start-time fair queueing (Goyal, Vin and Cheng, 1996).  So an owner with
 * many items does not delay the first items of the others. */
static int64_t turn_of(const bl_batcher *b, const bl_batch_item *in)
{
    int64_t turn = b->turn;
    for (const bl_batch_item *one = b->first; one != NULL; one = one->next)
        if (one->rq->owner == in->rq->owner && one->priority == in->priority && one->turn + one->rows > turn)
            turn = one->turn + one->rows;
    return turn;
}

/* Under the lock. */
static void batcher_append(bl_batcher *b, bl_batch_item *in)
{
    bl_batch_item **at = &b->first;
    in->turn = turn_of(b, in);
    while (*at != NULL && ((*at)->priority < in->priority || ((*at)->priority == in->priority && (*at)->turn <= in->turn)))
        at = &(*at)->next;
    in->next = *at;
    *at = in;
    b->count++;
    b->rows += in->rows;
}

/* Under the lock. */
static void batcher_take_out(bl_batcher *b, bl_batch_item **at)
{
    bl_batch_item *in = *at;
    *at = in->next;
    in->next = NULL;
    b->count--;
    b->rows -= in->rows;
}

/* The client of an item closed its connection.  True: the item waited, and is out of the queue. */
static bool batcher_leave(bl_request *rq)
{
    bl_batch_item *in = rq->data;
    bl_batcher *b = in->batcher;
    bool mine = false;
    pthread_mutex_lock(&b->lock);
    for (bl_batch_item **at = &b->first; *at != NULL && !mine; at = mine ? at : &(*at)->next) {
        mine = *at == in;
        if (mine) {
            batcher_take_out(b, at);
            break;
        }
    }
    if (!mine && in->batch != NULL && !in->gone && ++in->batch->gone == in->batch->count)
        atomic_store(&in->batch->rq->cancel, true); /* no client is left */
    in->gone = true;
    pthread_mutex_unlock(&b->lock);
    return mine;
}

/* May two items share a run?  All named dimensions but the number of rows must be equal, and rows of different owners must be
 * independent. */
static bool batcher_fits(const bl_batch_item *one, const bl_batch_item *other)
{
    const bl_batcher *b = one->batcher;
    if (one->rq->owner != other->rq->owner && !b->apart)
        return false;
    for (int i = 0; i < b->nvars; i++)
        if (i != b->var && one->vars[i] != other->vars[i])
            return false;
    return true;
}

/* The number of rows for the run that begins now. */
static int64_t batcher_worth_rows(const bl_batch *batch)
{
    bl_batcher *b = batch->batcher;
    bl_batch_slot *slot = batch->slot;
    int64_t rows = b->max_rows, waiting = 0;
    bool crowded = slot->crowd > 0 && bl_clock_ns() - slot->crowded_ns < CROWDED_NS;
    if (crowded && slot->crowd < batch->most)
        return slot->crowd;
    if (b->how.npreferred > 0)
        return batch->most;
    pthread_mutex_lock(&b->lock);
    waiting = b->rows > batch->skip ? b->rows - batch->skip : b->rows;
    rows = bl_sizes_choose(&slot->sizes, 1, waiting < rows ? waiting : rows, NULL);
    pthread_mutex_unlock(&b->lock);
    return rows < batch->most ? rows : batch->most;
}

/* Under the lock: how many of the waiting rows should run now; 0: none, since the delay of the first item is not over. */
static int64_t due_rows(const bl_batcher *b, int64_t now_ns)
{
    const bl_wire_batching *how = &b->how;
    int64_t oldest = INT64_MAX, best = 0;
    for (const bl_batch_item *in = b->first; in != NULL; in = in->next)
        oldest = in->rq->item.queued_ns < oldest ? in->rq->item.queued_ns : oldest;
    for (int i = 0; i < how->npreferred; i++)
        if (how->preferred[i] <= b->rows && how->preferred[i] > best)
            best = how->preferred[i];
    if (best > 0 && b->rows < b->max_rows)
        return best;
    if (b->rows >= b->max_rows || (b->count > 0 && now_ns - oldest >= how->delay_us * 1000))
        return b->max_rows;
    return 0;
}

/* ---- a run */

/* Move items from the queue into the batch, behind the first |skip| rows: at most |most| rows, but at least one item.  Items
 * that were cancelled or whose deadline has passed go to |late|. */
static void batcher_gather(bl_batch *batch, int64_t most, int64_t skip, bl_batch_item **late)
{
    bl_batcher *b = batch->batcher;
    int64_t now = bl_clock_ns();
    bl_batch_item **last = &batch->first;
    batch->begin_ns = now;
    pthread_mutex_lock(&b->lock);
    for (bl_batch_item **at = &b->first; *at != NULL;) {
        bl_batch_item *in = *at;
        if (atomic_load(&in->rq->cancel) || (in->rq->item.deadline_ns != 0 && in->rq->item.deadline_ns <= now)) {
            batcher_take_out(b, at);
            in->next = *late;
            *late = in;
            continue;
        }
        if (batch->first == NULL && skip > 0) {
            skip -= in->rows;
            at = &in->next;
            continue;
        }
        if (batch->first != NULL && (batch->rows + in->rows > most || !batcher_fits(batch->first, in)))
            break; /* items keep their order */
        batcher_take_out(b, at);
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

static void finish_late(bl_batch_item *late)
{
    while (late != NULL) {
        bl_batch_item *in = late;
        late = in->next;
        if (atomic_load(&in->rq->cancel))
            (void)bl_fail(&in->rq->err, BL_ECANCELLED, "the client went away");
        else
            (void)bl_fail(&in->rq->err, BL_ETIMEOUT, "the timeout passed while the request waited for %s \"%s\"",
                          in->batcher->user->what, in->batcher->name);
        bl_request_finish(in->rq);
    }
}

/* Concatenate the rows of all items in memory of the device. */
static bl_status batcher_load_inputs(bl_batch *batch)
{
    bl_exec *x = batch->x;
    int ninputs = batch->batcher->ninputs;
    bl_arena *arena = batch->rq->arena;
    x->in.tensors = bl_arena_array(arena, (size_t)ninputs + 1, sizeof *x->in.tensors);
    if (x->in.tensors == NULL)
        return bl_arena_status(arena, &batch->rq->err);
    for (int i = 0; i < ninputs; i++) {
        const bl_tensor_value *value = &batch->first->values[i];
        int64_t dim[16];
        char *to = NULL;
        memcpy(dim, value->dim, sizeof dim);
        dim[0] = batch->rows;
        BL_TRY(bl_device_tensor_create(x->worker, value->dtype, value->ndim, dim, &x->in.tensors[i], &batch->rq->err));
        x->in.n++;
        to = bl_device_tensor_host(x->in.tensors[i]);
        if (to == NULL)
            return bl_fail(&batch->rq->err, BL_ENOMEM, "out of host memory for a batch of %zu bytes", x->in.tensors[i]->bytes);
        for (const bl_batch_item *in = batch->first; in != NULL; in = in->next) {
            memcpy(to, in->source[i], in->values[i].bytes);
            to += in->values[i].bytes;
        }
    }
    return BL_OK;
}

/* Charge the time of the run to the owners of its items, in proportion to their rows. */
static bl_status batcher_share(bl_batch *batch)
{
    bl_request *rq = batch->rq;
    bl_time_part *shares = bl_arena_array(rq->arena, (size_t)batch->count, sizeof *shares);
    if (shares == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (const bl_batch_item *in = batch->first; in != NULL; in = in->next)
        if (in->rq->owner != rq->owner)
            shares[rq->item.nshares++] = (bl_time_part){in->rq->owner, (double)in->rows / (double)batch->rows};
    rq->item.shares = shares;
    return BL_OK;
}

static bl_status batcher_prepare(bl_batch *batch)
{
    const bl_batcher *b = batch->batcher;
    int64_t *vars = bl_arena_array(batch->rq->arena, (size_t)b->nvars + 1, sizeof *vars);
    if (vars == NULL)
        return bl_arena_status(batch->rq->arena, &batch->rq->err);
    memcpy(vars, batch->first->vars, (size_t)b->nvars * sizeof *vars);
    vars[b->var] = batch->rows;
    BL_TRY(batcher_share(batch));
    BL_TRY(b->user->prepare(b->owner, batch->rq, batch->slot, vars, &batch->x));
    /* the plan may be another than slot->plan */
    if (!bl_plan_may_overlap(batch->x->plan))
        batch->rq->item.mode = BL_WORK_ALONE;
    return batcher_load_inputs(batch);
}

/* Count the run before any item has its answer, so that a client that has its answer finds its run in the statistics. */
static void batcher_count(bl_batch *batch)
{
    const int64_t *ns = batch->rq->trace.time_ns;
    int64_t input_ns = 0;
    for (const bl_batch_item *in = batch->first; in != NULL; in = in->next)
        input_ns = in->input_ns > input_ns ? in->input_ns : input_ns;
    batch->batcher->user->count(batch->batcher->owner, batch->rows, input_ns + ns[BL_TIME_COPY], ns[BL_TIME_COMPUTE]);
}

/* Give each item its rows of the results, or the error. */
static void batcher_scatter(bl_batch *batch)
{
    const bl_batcher *b = batch->batcher;
    const int64_t *ns = batch->rq->trace.time_ns;
    bl_status st = batch->rq->err.status;
    int64_t from = 0;
    bl_batch_item *in = batch->first, *next = NULL;
    bool ran = st == BL_OK && batch->rows > 0; /* no rows: all items were late, or another run took them */
    if (ran)
        batcher_count(batch);
    for (; in != NULL; in = next) {
        next = in->next; /* the item belongs to another thread once its request is finished */
        in->compute_ns = ns[BL_TIME_COMPUTE];
        if (st == BL_OK) {
            bl_exec_take(batch->x, batch->rows, from, in->rows, in->got);
            if (b->user->give != NULL)
                b->user->give(in);
        } else {
            in->rq->err = batch->rq->err;
        }
        from += in->rows;
        atomic_fetch_add(&batch->refs, 1);
        bl_request_trace_add(&in->rq->trace, BL_TIME_QUEUE, in->rq->item.queued_ns, batch->begin_ns);
        bl_request_trace_add(&in->rq->trace, BL_TIME_COMPUTE, batch->begin_ns, batch->begin_ns + ns[BL_TIME_COMPUTE]);
        bl_request_finish(in->rq);
    }
    if (ran)
        b->user->learn(b->owner, batch->slot, batch->rows, batch->x->plan, ns[BL_TIME_COMPUTE] + ns[BL_TIME_COPY]);
}

static bl_step batcher_work(bl_request *rq)
{
    bl_batch *batch = rq->own.arg;
    if (batch->x == NULL) {
        bl_batch_item *late = NULL;
        batcher_gather(batch, batcher_worth_rows(batch), batch->skip, &late);
        finish_late(late);
        if (batch->first == NULL || batcher_prepare(batch) != BL_OK)
            return BL_STEP_DONE;
    }
    return bl_exec_run(rq);
}

/* The device was lost during the run, and another slot is left.  An item therefore changes its slot at most once for each
 * slot. */
static bool leaves_device(const bl_batch *batch)
{
    return bl_batch_slot_is_lost(batch->slot) && !bl_batcher_is_lost(batch->batcher);
}

/* The items together exceed a limit that a single item may not exceed.  The slot makes smaller runs for CROWDED_NS. */
static bool goes_in_parts(const bl_batch *batch)
{
    bl_status st = batch->rq->err.status;
    if (batch->count < 2 || (st != BL_ENODEVMEM && st != BL_ENOMEM && st != BL_ELIMIT))
        return false;
    batch->slot->crowd = batch->rows / 2;
    batch->slot->crowded_ns = bl_clock_ns();
    return true;
}

/* Return the items to the head of the queue after a lost device or after a run that was too large.  False: the items get the
 * result. */
static bool batcher_put_back(bl_batch *batch)
{
    bl_batcher *b = batch->batcher;
    bl_batch_item *last = NULL;
    if (batch->rq->err.status == BL_OK || batch->first == NULL || (!leaves_device(batch) && !goes_in_parts(batch)))
        return false;
    pthread_mutex_lock(&b->lock);
    for (bl_batch_item *in = batch->first; in != NULL; in = in->next) {
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

/* The run is over.  Called on the worker's thread, or on the thread that cancelled the run. */
static void done(bl_request *rq)
{
    bl_batch *batch = rq->own.arg;
    bl_batcher *b = batch->batcher;
    bl_batch_slot *slot = batch->slot;
    bl_batch_item *late = NULL;
    if (batch->first == NULL && rq->err.status != BL_OK) { /* the run never began, so the waiting items get its error */
        batcher_gather(batch, batch->most, batch->skip, &late);
        finish_late(late);
    }
    if (!batcher_put_back(batch))
        batcher_scatter(batch);
    bl_batch_unclaim(b, slot);
    batcher_release(batch);
}

/* ---- submission */

static bl_batch *batcher_create(bl_batcher *b, bl_batch_slot *slot, uint32_t owner, int64_t most, int64_t skip)
{
    bl_batch *batch = bl_calloc(1, sizeof *batch);
    if (batch == NULL)
        return NULL;
    atomic_init(&batch->refs, 1);
    batch->batcher = b;
    batch->slot = slot;
    batch->most = most;
    batch->skip = skip;
    batch->rq = bl_request_create_own(b->server, owner, done, batch);
    if (batch->rq == NULL) {
        free(batch);
        return NULL;
    }
    b->user->retain(b->owner);
    bl_batching_count(b->server->batching, 1);
    batch->rq->item.rank = b->rank;
    batch->rq->own.purpose = b->purpose;
    if (b->serial == NULL)
        bl_exec_choose_mode(batch->rq, slot->plan, BL_WORK_IN_FLIGHT);
    return batch;
}

/* No run can begin: finish all waiting items with |err|. */
static void batcher_refuse(bl_batcher *b, bl_batch_slot *slot, const bl_err *err)
{
    bl_batch_item *all = NULL;
    pthread_mutex_lock(&b->lock);
    all = b->first;
    b->first = NULL;
    b->count = 0;
    b->rows = 0;
    slot->running = false;
    pthread_mutex_unlock(&b->lock);
    while (all != NULL) {
        bl_batch_item *in = all;
        all = in->next;
        in->rq->err = *err;
        bl_request_finish(in->rq);
    }
}

/* May a run leave out the head of the queue, if a busy slot will run it sooner?  Not with configured delays or sizes. */
static bool may_skip(const bl_batcher *b)
{
    return b->how.delay_us == 0 && b->how.npreferred == 0;
}

void bl_batch_kick(bl_batcher *b)
{
    for (;;) {
        bl_batch_slot *slot = NULL;
        bl_batch *batch = NULL;
        bl_err err = {0};
        uint32_t owner = 0;
        int64_t most = 0, worth = 0, skip = 0;
        pthread_mutex_lock(&b->lock);
        most = b->first != NULL ? due_rows(b, bl_clock_ns()) : 0;
        slot = most > 0 ? bl_batch_take(b, b->rows, may_skip(b), &worth, &skip) : NULL;
        most = worth < most ? worth : most;
        owner = b->first != NULL ? b->first->rq->owner : 0;
        pthread_mutex_unlock(&b->lock);
        if (slot == NULL)
            return;
        batch = batcher_create(b, slot, owner, most, skip);
        if (batch == NULL) {
            (void)bl_fail(&err, BL_ENOMEM, "out of host memory for a batch");
            batcher_refuse(b, slot, &err);
        } else if (bl_request_submit(batch->rq, slot->program->worker->queue, batcher_work, b->serial) != BL_OK) {
            batcher_refuse(b, slot, &batch->rq->err);
            batcher_release(batch);
        }
    }
}

bool bl_batch_claim(bl_batcher *b, int64_t rows, bl_batch_slot **slot)
{
    int64_t most = 0, skip = 0;
    *slot = NULL;
    pthread_mutex_lock(&b->lock);
    if (b->first == NULL && b->how.delay_us == 0)
        *slot = bl_batch_take(b, rows, false, &most, &skip);
    pthread_mutex_unlock(&b->lock);
    return *slot != NULL;
}

void bl_batch_unclaim(bl_batcher *b, bl_batch_slot *slot)
{
    pthread_mutex_lock(&b->lock);
    slot->running = false;
    pthread_mutex_unlock(&b->lock);
    bl_batch_kick(b);
}

bool bl_batch_is_running(bl_batcher *b)
{
    bool running = false;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->nslots; i++)
        running |= b->slots[i]->running;
    pthread_mutex_unlock(&b->lock);
    return running;
}

/* The time at which the delay of the item is over or its deadline passes.  0: the item has neither. */
static int64_t due_of(const bl_batch_item *in, int64_t now_ns)
{
    const bl_batcher *b = in->batcher;
    int64_t due = b->how.delay_us > 0 ? in->rq->item.queued_ns + b->how.delay_us * 1000 : 0, deadline = in->rq->item.deadline_ns;
    if (deadline != 0 && (due <= now_ns || deadline < due))
        due = deadline;
    return due;
}

int64_t bl_batch_look(bl_batcher *b, int64_t now_ns)
{
    bl_batch_item *late = NULL;
    int64_t next = 0;
    pthread_mutex_lock(&b->lock);
    for (bl_batch_item **at = &b->first; *at != NULL;) {
        bl_batch_item *in = *at;
        int64_t due = due_of(in, now_ns);
        if (in->rq->item.deadline_ns != 0 && in->rq->item.deadline_ns <= now_ns) {
            batcher_take_out(b, at);
            in->next = late;
            late = in;
            continue;
        }
        if (due > now_ns && (next == 0 || due < next))
            next = due;
        at = &in->next;
    }
    pthread_mutex_unlock(&b->lock);
    finish_late(late);
    bl_batch_kick(b);
    return next;
}

/* ---- entry */

/* Is there room for one more item?  As in the queue of a device, each key has its own room, unless the length of the queue is
 * configured. */
static bl_status batcher_check_room(const bl_batch_item *in)
{
    bl_request *rq = in->rq;
    bl_batcher *b = in->batcher;
    int64_t said = b->how.max_waiting;
    size_t most = said > 0 ? (size_t)said : (size_t)rq->server->settings.max_queue, own = 0, all = 0;
    size_t quota = bl_access_queue_quota(rq->server->access, rq->owner);
    pthread_mutex_lock(&b->lock);
    for (const bl_batch_item *one = b->first; one != NULL; one = one->next)
        own += one->rq->owner == rq->owner;
    all = b->count;
    pthread_mutex_unlock(&b->lock);
    if (own >= quota && bl_request_is_bound(rq))
        return bl_fail(&rq->err, BL_EQUOTA,
                       "the key has its quota of %zu requests that wait for %s \"%s\"; send the request again later", quota,
                       b->user->what, b->name);
    if ((said > 0 ? all : own) < most)
        return BL_OK;
    return bl_fail(&rq->err, BL_EBUSY, "the queue of %s \"%s\" is full: %zu requests wait", b->user->what, b->name, most);
}

bl_status bl_batch_read_sources(bl_batch_item *in)
{
    bl_request *rq = in->rq;
    in->source = bl_arena_array(rq->arena, (size_t)in->batcher->ninputs + 1, sizeof *in->source);
    if (in->source == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < in->batcher->ninputs; i++) {
        const bl_tensor_value *value = &in->values[i];
        void *to = NULL;
        if (value->kind == BL_VALUE_BYTES && value->dtype != BL_BOOL) {
            in->source[i] = value->span.data;
            continue;
        }
        to = bl_request_alloc(rq, value->bytes, "an input");
        if (to == NULL)
            return rq->err.status;
        BL_TRY(bl_tensor_scan(value, to, &rq->err));
        in->source[i] = to;
    }
    return BL_OK;
}

bl_status bl_batch_join(bl_batch_item *in, bl_status (*then)(bl_request *rq))
{
    bl_batcher *b = in->batcher;
    bl_request *rq = in->rq;
    int64_t due = 0;
    BL_TRY(bl_access_check_time(rq));
    if (in->source == NULL)
        BL_TRY(bl_batch_read_sources(in));
    in->input_ns = bl_clock_ns() - in->begin_ns;
    BL_TRY(batcher_check_room(in));
    rq->data = in;
    rq->then = then;
    b->user->retain(b->owner); /* the request may end before this function does */
    bl_request_park(rq, batcher_leave);
    pthread_mutex_lock(&b->lock);
    if (b->first == NULL || rq->item.deadline_ns != 0)
        due = due_of(in, bl_clock_ns());
    batcher_append(b, in);
    pthread_mutex_unlock(&b->lock);
    if (due > 0)
        bl_batching_watch(b, due);
    bl_batch_kick(b);
    b->user->release(b->owner);
    return BL_OK;
}

bl_status bl_batch_exec(bl_request *rq, bl_program *program, const bl_program_entry_state *entry, const bl_wire_graph *graph,
                        bl_plan *plan, int64_t *vars, bl_exec **out)
{
    bl_exec *x = NULL;
    bl_status st = bl_exec_create(rq, out);
    if (st != BL_OK) {
        bl_plan_release(plan);
        return st;
    }
    x = *out;
    x->worker = program->worker;
    x->generation = atomic_load(&x->worker->dev->generation);
    x->vars = vars;
    x->unlisted = true;
    x->hit = true;
    x->work = bl_exec_run;
    x->graph = graph;
    x->hold.lender = program;
    x->hold.entry = entry;
    x->plan = plan;
    return bl_exec_admit(x, &rq->err);
}
