/* SPDX-License-Identifier: MIT */
/* A text that is being written: its prompt goes through the program in pieces, then token by token, until the model ends it.
 *
 * Each run waits in its device's queue like any other, so that a long text holds up nobody.  As one answer, the client's request
 * is what waits there.  As events, it is a request of the server's own, while the client's streams what there is; both hold the
 * generation, and whoever leaves last frees it.  Lock order: a generation's, then a stream's, or a queue's. */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "proto/encode.h"
#include "proto/utf8.h"
#include "server/access/access.h"
#include "server/models/sequence.h"
#include "server/models/text.h"
#include "server/queue.h"
#include "server/stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_UNREAD = 256 * 1024 /* events that wait for their client; then the text does */
};

typedef struct generation {
    atomic_int refs;
    bl_models *models;
    bl_model_version *version; /* retained */
    const bl_text_model *text;
    bl_text_options options;
    char *id;     /* of the client's; or NULL */
    bl_infer *in; /* of one answer; NULL: the client's request may be gone */

    /* the run; of the request that is in the queue */
    bl_worker *worker;
    bl_sequence *sequence;
    bl_plan *plan; /* retained */
    unsigned device_generation;
    int64_t *vars;
    bl_held **inputs;
    bl_buffer **buffers, **outputs;
    bl_tokens tokens;   /* the prompt's, and those that were made */
    size_t prompt, fed; /* tokens */
    bool silent;        /* no text was there yet */
    char *row;          /* the logits of the last token as they come */
    double *logits;
    bl_sample *room;
    bl_text pending;    /* bytes that are not told yet: half a character, or what may become a stop */
    const char *finish; /* why it is over; NULL: it is not */
    int64_t compute_ns;

    /* what the client is told */
    pthread_mutex_t lock; /* of what follows */
    bl_text out;          /* the text, or events, of which |sent| bytes are sent */
    size_t sent;
    bool streams, over, failed;
    bool rests;        /* |own| is in no queue, until the client has read */
    bl_request *own;   /* in the queue; NULL: not any more */
    bl_stream *stream; /* NULL: the client is gone, or not there yet */
} generation;

/* ---- lifetime */

/* What only runs need: given back as soon as there are no more. */
static void end_runs(generation *g)
{
    for (int i = 0; g->inputs != NULL && i < g->version->ninputs; i++)
        bl_held_release(g->inputs[i]);
    free(g->inputs);
    g->inputs = NULL;
    if (g->sequence != NULL)
        bl_sequence_release(g->sequence);
    g->sequence = NULL;
    if (g->plan != NULL)
        bl_plan_release(g->plan);
    g->plan = NULL;
}

static void release(void *arg)
{
    generation *g = arg;
    if (atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    end_runs(g);
    bl_text_options_fini(&g->options);
    free(g->id);
    free(g->vars);
    free(g->buffers);
    free(g->outputs);
    free(g->tokens.id);
    free(g->row);
    free(g->logits);
    free(g->room);
    bl_text_fini(&g->pending);
    bl_text_fini(&g->out);
    pthread_mutex_destroy(&g->lock);
    bl_model_version_release(g->version);
    free(g);
}

static bl_status create(bl_infer *in, bool stream, generation **out)
{
    generation *g = bl_calloc(1, sizeof *g);
    *out = NULL;
    if (g == NULL)
        return bl_fail(&in->rq->err, BL_ENOMEM, "a text");
    atomic_init(&g->refs, 1);
    pthread_mutex_init(&g->lock, NULL);
    g->models = in->version->models;
    g->version = bl_model_version_retain(in->version);
    g->text = in->version->text;
    g->streams = stream;
    g->silent = true;
    g->pending.budget = g->out.budget = &in->rq->server->memory;
    *out = g;
    return bl_request_defer(in->rq, release, g);
}

/* ---- the prompt */

static bl_status encode_prompt(bl_infer *in, generation *g)
{
    const bl_text_options *o = &g->options;
    const bl_tokenizer *tokenizer = g->text->tokenizer;
    bl_span prompt = {o->prompt, strlen(o->prompt)};
    size_t most = (size_t)g->text->context - 1;
    bl_err problem = {0};
    if (bl_tokenizer_encode(tokenizer, prompt, most, &g->tokens, &problem) != BL_OK)
        return bl_fail(&in->rq->err, problem.status, "text_input: %s; model \"%s\" has room for %lld, and writes one more",
                       problem.text, g->version->name, (long long)g->text->context);
    if (g->tokens.count == 0)
        return bl_fail(&in->rq->err, BL_EINVAL,
                       "text_input: model \"%s\" begins with nothing of its own: it takes a text of one token at "
                       "least",
                       g->version->name);
    g->prompt = g->tokens.count;
    for (size_t i = 0; i < g->prompt && g->silent; i++)
        g->silent = bl_tokenizer_bytes(tokenizer, g->tokens.id[i], false).len == 0;
    if (!g->streams && !o->without_prompt)
        bl_text_append(&g->out, prompt.data, prompt.len);
    return bl_text_status(&g->out, &in->rq->err);
}

/* ---- what is told */

static bool may_be_utf8(const char *at, size_t room)
{
    static const char *const rest[] = {"\x80\x80\x80", "\x90\x80\x80", "\x9f\xbf\xbf", "\xbf\xbf\xbf", "\x8f\xbf\xbf"};
    char whole[4];
    for (size_t i = 0; room < 4 && i < sizeof rest / sizeof rest[0]; i++) {
        memcpy(whole, at, room);
        memcpy(whole + room, rest[i], 4 - room);
        if (bl_utf8_length(whole, 4) > room)
            return true;
    }
    return false;
}

/* The first |len| of the bytes that wait, as characters: what is none becomes U+FFFD. */
static void put_characters(const bl_text *pending, size_t len, bl_text *out)
{
    for (size_t at = 0, n = 0; at < len; at += n) {
        n = bl_utf8_length(pending->data + at, len - at);
        if (n > 0)
            bl_text_append(out, pending->data + at, n);
        else
            bl_text_puts(out, "\xef\xbf\xbd");
        n = n > 0 ? n : 1;
    }
}

/* Where the first of the stops begins, or the length of what waits. */
static size_t find_stop(const generation *g)
{
    size_t first = g->pending.len;
    for (int i = 0; i < g->options.nstops; i++) {
        const bl_span *stop = &g->options.stops[i];
        const char *at = g->pending.len > 0 ? memmem(g->pending.data, g->pending.len, stop->data, stop->len) : NULL;
        if (at != NULL && (size_t)(at - g->pending.data) < first)
            first = (size_t)(at - g->pending.data);
    }
    return first;
}

/* How much of what waits can be told: not half a character, nor what a stop may begin with. */
static size_t find_certain(const generation *g)
{
    const char *data = g->pending.data;
    size_t len = g->pending.len, certain = len;
    for (size_t back = 1; back < 4 && back <= len; back++)
        if (may_be_utf8(data + len - back, back))
            certain = len - back;
    for (int i = 0; i < g->options.nstops; i++) {
        const bl_span *stop = &g->options.stops[i];
        size_t at = len >= stop->len ? len - stop->len + 1 : 0;
        while (at < certain && memcmp(data + at, stop->data, len - at) != 0)
            at++;
        certain = at < certain ? at : certain;
    }
    return certain;
}

static void put_head(const generation *g, bl_text *out)
{
    bl_text_putc(out, '{');
    if (g->id != NULL) {
        bl_encode_key(out, "id");
        bl_encode_string(out, g->id);
    }
    bl_encode_key(out, "model_name");
    bl_encode_string(out, g->version->name);
    bl_text_printf(out, ",\"model_version\":\"%llu\"", (unsigned long long)g->version->number);
}

static void put_end(const generation *g, bl_text *out)
{
    if (g->finish != NULL)
        bl_text_printf(out, ",\"finish_reason\":\"%s\",\"num_input_tokens\":%zu,\"num_output_tokens\":%zu", g->finish, g->prompt,
                       g->tokens.count - g->prompt);
    bl_text_putc(out, '}');
}

/* Under the lock. */
static void put_event(generation *g, bl_span told)
{
    bl_text_puts(&g->out, "data: ");
    put_head(g, &g->out);
    bl_encode_key(&g->out, "text_output");
    bl_encode_span(&g->out, told);
    put_end(g, &g->out);
    bl_text_puts(&g->out, "\n\n");
}

/* Tell |len| of what waits. */
static bl_status tell(generation *g, size_t len, bl_err *err)
{
    bl_text told = {.budget = g->out.budget};
    bl_status st = BL_OK;
    put_characters(&g->pending, len, g->streams ? &told : &g->out);
    if (len > 0)
        memmove(g->pending.data, g->pending.data + len, g->pending.len - len);
    g->pending.len -= len;
    if (!g->streams)
        return bl_text_status(&g->out, err);
    st = bl_text_status(&told, err);
    pthread_mutex_lock(&g->lock);
    if (st == BL_OK) {
        put_event(g, (bl_span){bl_text_get(&told), told.len});
        st = bl_text_status(&g->out, err);
    }
    if (g->stream != NULL)
        bl_stream_wake(g->stream);
    pthread_mutex_unlock(&g->lock);
    bl_text_fini(&told);
    return st;
}

static bool ends_text(const generation *g, int32_t id)
{
    for (int i = 0; i < g->text->nends; i++)
        if (g->text->ends[i] == id)
            return !g->options.goes_on;
    return false;
}

/* The model wrote |id|. */
static bl_status take_token(generation *g, int32_t id, bl_err *err)
{
    bl_span bytes = bl_tokenizer_bytes(g->text->tokenizer, id, g->silent);
    size_t told = 0;
    g->tokens.id[g->tokens.count++] = id;
    if (ends_text(g, id)) {
        g->finish = "stop";
    } else {
        g->silent = g->silent && bl_tokenizer_bytes(g->text->tokenizer, id, false).len == 0;
        bl_text_append(&g->pending, bytes.data, bytes.len);
        BL_TRY(bl_text_status(&g->pending, err));
    }
    told = find_stop(g);
    if (told < g->pending.len)
        g->finish = "stop";
    else if (g->finish == NULL && g->tokens.count == g->tokens.cap)
        g->finish = "length";
    if (g->finish == NULL)
        told = find_certain(g);
    return told > 0 || g->finish != NULL ? tell(g, told, err) : BL_OK;
}

/* ---- a run */

static void give_outputs(generation *g, int count)
{
    for (int i = 0; i < count; i++) {
        bl_pool_release(g->worker->pool, g->outputs[i]);
        g->outputs[i] = NULL;
    }
}

/* |count| integers, the first of them |first| or those at |ids|. */
static bl_status fill_input(generation *g, int i, const int32_t *ids, size_t count, int64_t first, bl_err *err)
{
    const bl_model_tensor *tensor = &g->version->inputs[i];
    int64_t dim[16];
    char *to = NULL;
    for (int d = 0; d < tensor->ndim; d++)
        dim[d] = tensor->var[d] >= 0 ? g->vars[tensor->var[d]] : tensor->dim[d];
    bl_held_release(g->inputs[i]);
    g->inputs[i] = NULL;
    BL_TRY(bl_held_create(g->worker, tensor->dtype, tensor->ndim, dim, &g->inputs[i], err));
    to = bl_held_host(g->inputs[i]);
    if (to == NULL)
        return bl_fail(err, BL_ENOMEM, "tokens");
    for (size_t k = 0; k < count; k++) {
        int64_t wide = ids != NULL ? ids[k] : first;
        int32_t narrow = (int32_t)wide;
        if (tensor->dtype == BL_I64)
            memcpy(to + k * sizeof wide, &wide, sizeof wide);
        else
            memcpy(to + k * sizeof narrow, &narrow, sizeof narrow);
    }
    if (g->inputs[i]->scratch != NULL)
        BL_TRY(bl_held_flush(g->inputs[i], err));
    g->buffers[i] = g->inputs[i]->buffer;
    return BL_OK;
}

/* What the output says of the last token. */
static bl_status read_last(generation *g, int32_t *id, bl_err *err)
{
    const bl_plan_tensor *tensor = &bl_plan_get_info(g->plan)->outputs[g->text->output];
    int64_t dim[16] = {0};
    size_t all = 1, count = 1, each = bl_dtype_bytes(tensor->dtype);
    bl_plan_sizes(tensor, g->vars, dim);
    for (int d = 0; d < tensor->ndim; d++)
        all *= (size_t)dim[d]; /* its product was checked when the run was admitted */
    if (!g->text->chooses)
        count = (size_t)dim[tensor->ndim - 1];
    if (all < count)
        return bl_fail(err, BL_EGRAPH, "model \"%s\" gave nothing", g->version->name);
    BL_TRY(bl_buffer_read(g->outputs[g->text->output], (all - count) * each, g->row, count * each, err));
    if (g->text->chooses) {
        int64_t value = bl_scalar_read(tensor->dtype, g->row).i;
        *id = value >= 0 && value < INT32_MAX ? (int32_t)value : INT32_MAX;
        return BL_OK;
    }
    for (size_t i = 0; i < count; i++)
        g->logits[i] = bl_scalar_read(tensor->dtype, g->row + i * each).f;
    *id = bl_sampling_choose(&g->options.sampling, g->logits, count, g->room);
    return *id >= 0 ? BL_OK : bl_fail(err, BL_EGRAPH, "no logit of model \"%s\" is a number", g->version->name);
}

static bl_status run_plan(generation *g, bl_request *rq)
{
    bl_run run = {.plan = g->plan,
                  .pool = g->worker->pool,
                  .vars = g->vars,
                  .inputs = g->buffers,
                  .outputs = g->outputs,
                  .steps = 1,
                  .cancel = &rq->cancel,
                  .deadline_ns = rq->deadline_ns};
    int64_t start = bl_clock_ns(), took = 0;
    bl_status st = BL_OK;
    BL_TRY(bl_sequence_lend(g->sequence, &run.states, &rq->err));
    st = bl_plan_run(&run, &rq->err);
    bl_sequence_keep(g->sequence);
    took = bl_clock_ns() - start;
    bl_trail_add(&rq->trail, BL_TIME_COMPUTE, start, start + took);
    atomic_store(&g->worker->busy_ns, start + took);
    g->compute_ns += took;
    return st;
}

/* The next tokens of the prompt, or the one that was written last; of a program without state, all of them. */
static bl_status run_some(generation *g, bl_request *rq)
{
    const bl_text_model *text = g->text;
    size_t from = g->version->sequential ? g->fed : 0, count = g->tokens.count - from;
    int32_t id = 0;
    if (g->device_generation != atomic_load(&g->worker->dev->generation))
        return bl_fail(&rq->err, BL_EBUSY, "%s was reopened while the text was written; send it again", g->worker->dev->info.id);
    BL_TRY(bl_access_check_time(rq));
    count = count > (size_t)text->chunk ? (size_t)text->chunk : count;
    if (text->var >= 0)
        g->vars[text->var] = (int64_t)count;
    BL_TRY(fill_input(g, text->tokens, g->tokens.id + from, count, 0, &rq->err));
    if (text->position >= 0)
        BL_TRY(fill_input(g, text->position, NULL, 1, (int64_t)from, &rq->err));
    BL_TRY(run_plan(g, rq));
    g->fed = from + count;
    if (g->fed < g->tokens.count)
        return BL_OK;
    BL_TRY(read_last(g, &id, &rq->err));
    bl_metrics_add(&rq->server->metrics, BL_COUNT_TOKENS, 1);
    return take_token(g, id, &rq->err);
}

/* Its turn in the queue: one run. */
static bl_step work(bl_request *rq)
{
    generation *g = rq->data;
    bl_status st = run_some(g, rq);
    bool rests = false;
    give_outputs(g, bl_plan_get_info(g->plan)->noutputs);
    if (st != BL_OK || g->finish != NULL)
        return BL_STEP_DONE;
    pthread_mutex_lock(&g->lock);
    rests = g->streams && g->out.len - g->sent > MOST_UNREAD;
    g->rests = rests;
    pthread_mutex_unlock(&g->lock);
    return rests ? BL_STEP_MOVED : BL_STEP_AGAIN; /* whoever reads may have it already */
}

/* ---- before the first run */

static bl_status make_room(bl_infer *in, generation *g)
{
    const bl_plan_tensor *tensor = &bl_plan_get_info(g->plan)->outputs[g->text->output];
    size_t each = bl_dtype_bytes(tensor->dtype), count = 1;
    int64_t most = (int64_t)g->prompt + g->options.max_tokens;
    int32_t *ids = NULL;
    if (!g->text->chooses)
        count = (size_t)in->version->outputs[g->text->output].dim[tensor->ndim - 1];
    most = most < g->text->context ? most : g->text->context;
    ids = bl_realloc(g->tokens.id, (size_t)most * sizeof *ids);
    g->tokens.id = ids != NULL ? ids : g->tokens.id;
    g->tokens.cap = (size_t)most; /* at which it ends */
    g->inputs = bl_calloc((size_t)in->version->ninputs + 1, sizeof *g->inputs);
    g->buffers = bl_calloc((size_t)in->version->ninputs + 1, sizeof(bl_buffer *));
    g->outputs = bl_calloc((size_t)in->version->noutputs + 1, sizeof(bl_buffer *));
    g->row = bl_calloc(count, each);
    g->logits = bl_calloc(count, sizeof *g->logits);
    g->room = g->options.sampling.temperature > 0 ? bl_calloc(count, sizeof *g->room) : NULL;
    if (ids == NULL || g->inputs == NULL || g->buffers == NULL || g->outputs == NULL || g->row == NULL || g->logits == NULL ||
        (g->room == NULL && g->options.sampling.temperature > 0))
        return bl_fail(&in->rq->err, BL_ENOMEM, "a text");
    return BL_OK;
}

/* State of its own on one of the instances, and a plan that a run of the longest kind is admitted with. */
static bl_status prepare(bl_infer *in, generation *g)
{
    const bl_wire_graph *graph = in->version->instances[0].graph;
    bl_exec *x = NULL;
    g->vars = bl_calloc((size_t)in->version->nvars + 1, sizeof *g->vars);
    if (g->vars == NULL)
        return bl_fail(&in->rq->err, BL_ENOMEM, "a text");
    for (int i = 0; i < in->version->nvars; i++)
        g->vars[i] = graph->vars[i].lo > 1 ? graph->vars[i].lo : 1;
    if (g->text->var >= 0)
        g->vars[g->text->var] = g->text->chunk;
    BL_TRY(bl_sequence_create(in, &g->sequence));
    in->instance = bl_sequence_instance(g->sequence);
    atomic_fetch_add(&in->instance->busy, 1);
    BL_TRY(bl_infer_prepare(in->rq, in->version, in->instance, g->vars, &x));
    g->plan = bl_plan_retain(x->plan);
    g->worker = x->worker;
    g->device_generation = x->generation;
    return make_room(in, g);
}

/* ---- as one answer */

static void count_answer(bl_infer *in, const generation *g)
{
    bl_model_statistics *s = &in->version->statistics;
    in->answered = true;
    bl_statistics_add(s, BL_STAT_SUCCESS, bl_clock_ns() - in->rq->start_ns);
    bl_statistics_add(s, BL_STAT_INPUT, in->input_ns);
    bl_statistics_add(s, BL_STAT_INFER, g->compute_ns);
    bl_statistics_run(s, 1, in->input_ns, g->compute_ns, 0);
}

static bl_status reply(bl_request *rq)
{
    generation *g = rq->data;
    count_answer(g->in, g);
    put_head(g, &rq->out);
    bl_encode_key(&rq->out, "text_output");
    bl_encode_span(&rq->out, (bl_span){bl_text_get(&g->out), g->out.len});
    put_end(g, &rq->out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- as events */

static ssize_t read_events(void *arg, char *to, size_t most)
{
    generation *g = arg;
    bl_request *rested = NULL;
    ssize_t n = 0;
    pthread_mutex_lock(&g->lock);
    n = (ssize_t)(g->out.len - g->sent < most ? g->out.len - g->sent : most);
    if (n > 0)
        memcpy(to, g->out.data + g->sent, (size_t)n);
    g->sent += (size_t)n;
    if (g->sent == g->out.len) {
        bl_text_clear(&g->out);
        g->sent = 0;
    }
    if (n == 0 && g->over)
        n = BL_STREAM_END;
    if (g->rests && g->out.len - g->sent < MOST_UNREAD / 2) {
        g->rests = false;
        rested = g->own;
    }
    pthread_mutex_unlock(&g->lock);
    if (rested != NULL && bl_request_submit(rested, g->worker->queue, work, NULL) != BL_OK)
        bl_request_finish(rested);
    return n;
}

/* The last run is over, or was given up: worker's thread, or that of whoever gave it up. */
static void end_own(bl_request *own)
{
    generation *g = own->own;
    bl_models *models = g->models;
    end_runs(g);
    pthread_mutex_lock(&g->lock);
    g->own = NULL;
    g->over = true;
    g->failed = own->err.status != BL_OK;
    if (g->failed) { /* as Triton tells it in the midst of a stream */
        g->out.failed = false;
        bl_text_puts(&g->out, "data: {\"error\":");
        bl_encode_string(&g->out, own->err.text);
        bl_text_puts(&g->out, "}\n\n");
    }
    if (g->stream != NULL)
        bl_stream_wake(g->stream);
    pthread_mutex_unlock(&g->lock);
    bl_request_end(own);
    release(g);
    atomic_fetch_sub(&models->generations, 1);
}

/* The client has all, or is gone: nothing more is written. */
static void leave(void *arg)
{
    generation *g = arg;
    bl_request *own = NULL;
    bool mine = false;
    pthread_mutex_lock(&g->lock);
    g->stream = NULL;
    own = g->own;
    mine = own != NULL && (bl_request_withdraw(own) || g->rests);
    g->rests = false;
    pthread_mutex_unlock(&g->lock);
    if (!mine)
        return;
    (void)bl_fail(&own->err, BL_ECANCELLED, "the client went away");
    bl_request_finish(own);
}

/* A client's request and what it streams; the request's arena. */
typedef struct listener {
    bl_infer *in;
    generation *g;
} listener;

static void end_stream(void *arg)
{
    listener *l = arg;
    bl_infer *in = l->in;
    generation *g = l->g;
    leave(g);
    bl_metrics_add(&in->rq->server->metrics, BL_COUNT_STREAMS, -1);
    pthread_mutex_lock(&g->lock);
    if (g->over && !g->failed)
        count_answer(in, g);
    pthread_mutex_unlock(&g->lock);
}

static bl_status submit_own(bl_infer *in, generation *g)
{
    bl_request *rq = in->rq, *own = NULL;
    bl_status st = BL_OK;
    atomic_fetch_add(&g->refs, 1);
    own = bl_request_create_own(rq->server, rq->owner, end_own, g);
    if (own == NULL) {
        release(g);
        return bl_fail(&rq->err, BL_ENOMEM, "a text");
    }
    own->data = g;
    own->deadline_ns = rq->deadline_ns;
    own->priority = rq->priority;
    own->rank = rq->rank;
    g->own = own;
    atomic_fetch_add(&g->models->generations, 1);
    st = bl_request_submit(own, g->worker->queue, work, NULL);
    if (st == BL_OK)
        return BL_OK;
    rq->err = own->err;
    rq->retry_after = own->retry_after;
    g->own = NULL;
    bl_request_end(own);
    release(g);
    atomic_fetch_sub(&g->models->generations, 1);
    return st;
}

static bl_status begin_stream(bl_infer *in, generation *g)
{
    bl_request *rq = in->rq;
    listener *l = bl_arena_alloc(rq->arena, sizeof *l);
    if (l == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *l = (listener){in, g};
    bl_metrics_add(&rq->server->metrics, BL_COUNT_STREAMS, 1);
    BL_TRY(bl_request_defer(rq, end_stream, l)); /* also where what follows fails */
    BL_TRY(submit_own(in, g));
    BL_TRY(bl_stream_begin(rq, "text/event-stream; charset=utf-8", read_events, g));
    BL_TRY(bl_request_defer(rq, leave, g)); /* before the stream ends, which then nobody wakes */
    pthread_mutex_lock(&g->lock);
    g->stream = rq->stream;
    pthread_mutex_unlock(&g->lock);
    return BL_OK;
}

bl_status bl_generation_begin(bl_infer *in, bool stream)
{
    bl_request *rq = in->rq;
    generation *g = NULL;
    BL_TRY(create(in, stream, &g));
    BL_TRY(bl_text_options_read(in, stream, &g->options));
    if (in->wire.id != NULL && (g->id = strdup(in->wire.id)) == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "a text");
    BL_TRY(encode_prompt(in, g));
    BL_TRY(bl_infer_choose_turn(in));
    BL_TRY(prepare(in, g));
    in->input_ns = bl_clock_ns() - in->begin_ns;
    if (stream)
        return begin_stream(in, g);
    g->in = in;
    rq->data = g;
    rq->then = reply;
    return bl_request_submit(rq, g->worker->queue, work, NULL);
}
