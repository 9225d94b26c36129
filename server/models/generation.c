/* SPDX-License-Identifier: MIT */
/* A text that is being written: its prompt goes through the program in pieces, then token by token, until the model ends it.
 *
 * Each run waits in its device's queue like any other, so that a long text holds up nobody.  As one answer, the client's request
 * is what waits there.  As events, it is a request of the server's own, while the client's streams what there is; both hold the
 * generation, and whoever leaves last frees it.  Lock order: a generation's, then a stream's, or a queue's. */
#include "server/models/generation.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "proto/encode.h"
#include "proto/utf8.h"
#include "server/queue.h"

#include <stdlib.h>
#include <string.h>

/* ---- lifetime */

/* What only runs need: given back as soon as there are no more. */
static void end_runs(bl_generation *g)
{
    bl_text_memory_release(g->memory);
    g->memory = NULL;
    if (g->sequence != NULL)
        bl_sequence_release(g->sequence);
    g->sequence = NULL;
}

static void release(void *arg)
{
    bl_generation *g = arg;
    if (atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    end_runs(g);
    bl_text_options_fini(&g->options);
    free(g->id);
    free(g->vars);
    free(g->inputs);
    free(g->buffers);
    free(g->outputs);
    free(g->tokens.id);
    free(g->bytes);
    free(g->logits);
    bl_sampler_destroy(g->sampler);
    bl_text_fini(&g->pending);
    bl_text_fini(&g->out);
    pthread_mutex_destroy(&g->lock);
    bl_model_version_release(g->version);
    free(g);
}

static bl_status create(bl_infer *in, bool stream, bl_generation **out)
{
    bl_generation *g = bl_calloc(1, sizeof *g);
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

static bl_status encode_prompt(bl_infer *in, bl_generation *g)
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
static size_t find_stop(const bl_generation *g)
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
static size_t find_certain(const bl_generation *g)
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

static void put_head(const bl_generation *g, bl_text *out)
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

static void put_end(const bl_generation *g, bl_text *out)
{
    if (g->finish != NULL)
        bl_text_printf(out, ",\"finish_reason\":\"%s\",\"num_input_tokens\":%zu,\"num_output_tokens\":%zu", g->finish, g->prompt,
                       g->tokens.count - g->prompt);
    bl_text_putc(out, '}');
}

/* Under the lock. */
static void put_event(bl_generation *g, bl_span told)
{
    bl_text_puts(&g->out, "data: ");
    put_head(g, &g->out);
    bl_encode_key(&g->out, "text_output");
    bl_encode_span(&g->out, told);
    put_end(g, &g->out);
    bl_text_puts(&g->out, "\n\n");
}

/* Tell |len| of what waits. */
static bl_status tell(bl_generation *g, size_t len, bl_err *err)
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
        size_t whole = g->out.len;
        put_event(g, (bl_span){bl_text_get(&told), told.len});
        st = bl_text_status(&g->out, err);
        g->out.len = st == BL_OK ? g->out.len : whole; /* no half of an event */
    }
    if (g->stream != NULL)
        bl_stream_wake(g->stream);
    pthread_mutex_unlock(&g->lock);
    bl_text_fini(&told);
    return st;
}

static bool ends_text(const bl_generation *g, int32_t id)
{
    for (int i = 0; i < g->text->nends; i++)
        if (g->text->ends[i] == id)
            return !g->options.goes_on;
    return false;
}

bl_status bl_generation_take(bl_generation *g, int32_t id, bl_err *err)
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

/* ---- before the first run */

static bl_status make_room(bl_infer *in, bl_generation *g)
{
    const bl_model_tensor *output = &in->version->outputs[g->text->output];
    size_t count = g->text->chooses ? 1 : (size_t)output->dim[output->ndim - 1];
    int64_t most = (int64_t)g->prompt + g->options.max_tokens;
    int32_t *ids = NULL;
    most = most < g->text->context ? most : g->text->context;
    ids = bl_realloc(g->tokens.id, (size_t)most * sizeof *ids);
    g->tokens.id = ids != NULL ? ids : g->tokens.id;
    g->tokens.cap = (size_t)most; /* at which it ends */
    g->inputs = bl_calloc((size_t)in->version->ninputs + 1, sizeof *g->inputs);
    g->buffers = bl_calloc((size_t)in->version->ninputs + 1, sizeof(bl_buffer *));
    g->outputs = bl_calloc((size_t)in->version->noutputs + 1, sizeof(bl_buffer *));
    g->bytes = bl_calloc(count, bl_dtype_bytes(output->dtype));
    g->logits = bl_calloc(count, sizeof *g->logits);
    if (ids == NULL || g->inputs == NULL || g->buffers == NULL || g->outputs == NULL || g->bytes == NULL || g->logits == NULL)
        return bl_fail(&in->rq->err, BL_ENOMEM, "a text");
    return g->text->chooses ? BL_OK : bl_sampler_create(&g->options.sampling, count, &g->sampler, &in->rq->err);
}

/* Memory of its own on one of the instances, where a run of the longest kind is admitted. */
static bl_status prepare(bl_infer *in, bl_generation *g)
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
    BL_TRY(bl_sequence_create(in, g->text->past_bytes, &g->sequence));
    in->instance = g->instance = bl_sequence_instance(g->sequence);
    atomic_fetch_add(&in->instance->busy, 1);
    BL_TRY(bl_infer_prepare(in->rq, in->version, in->instance, g->vars, &x));
    g->worker = x->worker;
    g->device_generation = x->generation;
    return make_room(in, g);
}

/* ---- as one answer */

static void count_answer(bl_infer *in, const bl_generation *g)
{
    bl_model_statistics *s = &in->version->statistics;
    in->answered = true;
    bl_statistics_add(s, BL_STAT_SUCCESS, bl_clock_ns() - in->rq->start_ns);
    bl_statistics_add(s, BL_STAT_QUEUE, g->queue_ns);
    bl_statistics_add(s, BL_STAT_INPUT, in->input_ns);
    bl_statistics_add(s, BL_STAT_INFER, g->compute_ns);
    bl_statistics_run(s, 1, in->input_ns, g->compute_ns, 0);
}

static bl_status reply(bl_request *rq)
{
    bl_generation *g = rq->data;
    g->queue_ns = rq->trail.time_ns[BL_TIME_QUEUE];
    count_answer(g->in, g);
    put_head(g, &rq->out);
    bl_encode_key(&rq->out, "text_output");
    bl_encode_span(&rq->out, (bl_span){bl_text_get(&g->out), g->out.len});
    put_end(g, &rq->out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- as events */

/* What is sent goes, at the latest when it is more than what waits. */
static void drop_sent(bl_text *out, size_t *sent)
{
    if (*sent < out->len && *sent < BL_MOST_UNREAD)
        return;
    if (*sent < out->len)
        memmove(out->data, out->data + *sent, out->len - *sent);
    out->len -= *sent;
    *sent = 0;
    if (out->data != NULL)
        out->data[out->len] = '\0';
}

static ssize_t read_events(void *arg, char *to, size_t most)
{
    bl_generation *g = arg;
    bl_request *rested = NULL;
    ssize_t n = 0;
    pthread_mutex_lock(&g->lock);
    n = (ssize_t)(g->out.len - g->sent < most ? g->out.len - g->sent : most);
    if (n > 0)
        memcpy(to, g->out.data + g->sent, (size_t)n);
    g->sent += (size_t)n;
    drop_sent(&g->out, &g->sent);
    if (n == 0 && g->over)
        n = BL_STREAM_END;
    if (g->rests && g->out.len - g->sent < BL_MOST_UNREAD / 2) {
        g->rests = false;
        rested = g->own;
    }
    pthread_mutex_unlock(&g->lock);
    if (rested != NULL && bl_request_submit(rested, g->worker->queue, bl_text_work, NULL) != BL_OK)
        bl_request_finish(rested);
    return n;
}

/* The last run is over, or was given up: worker's thread, or that of whoever gave it up. */
static void end_own(bl_request *own)
{
    bl_generation *g = own->own;
    bl_models *models = g->models;
    end_runs(g);
    pthread_mutex_lock(&g->lock);
    g->own = NULL;
    g->over = true;
    g->failed = own->err.status != BL_OK;
    g->queue_ns = own->trail.time_ns[BL_TIME_QUEUE];
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
    bl_generation *g = arg;
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
    bl_generation *g;
} listener;

static void end_stream(void *arg)
{
    listener *l = arg;
    bl_infer *in = l->in;
    bl_generation *g = l->g;
    leave(g);
    bl_metrics_add(&in->rq->server->metrics, BL_COUNT_STREAMS, -1);
    pthread_mutex_lock(&g->lock);
    if (g->over && !g->failed)
        count_answer(in, g);
    pthread_mutex_unlock(&g->lock);
}

static bl_status submit_own(bl_infer *in, bl_generation *g)
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
    own->asked = true;
    own->deadline_ns = rq->deadline_ns;
    own->priority = rq->priority;
    own->rank = rq->rank;
    own->purpose = (bl_purpose){"model", g->version->name, NULL};
    g->own = own;
    atomic_fetch_add(&g->models->generations, 1);
    st = bl_request_submit(own, g->worker->queue, bl_text_work, NULL);
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

static bl_status begin_stream(bl_infer *in, bl_generation *g)
{
    bl_request *rq = in->rq;
    bl_grant by = {.owner = in->version->owner, .kind = "model", .name = in->version->name};
    bool shared = by.owner != 0 && by.owner != rq->owner; /* every key may read models of the folder */
    listener *l = bl_arena_alloc(rq->arena, sizeof *l);
    if (l == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *l = (listener){in, g};
    bl_metrics_add(&rq->server->metrics, BL_COUNT_STREAMS, 1);
    BL_TRY(bl_request_defer(rq, end_stream, l)); /* also where what follows fails */
    BL_TRY(submit_own(in, g));
    BL_TRY(bl_stream_begin(rq, "text/event-stream; charset=utf-8", shared ? &by : NULL, read_events, g));
    BL_TRY(bl_request_defer(rq, leave, g)); /* before the stream ends, which then nobody wakes */
    pthread_mutex_lock(&g->lock);
    g->stream = rq->stream;
    pthread_mutex_unlock(&g->lock);
    return BL_OK;
}

bl_status bl_generation_begin(bl_infer *in, bool stream)
{
    bl_request *rq = in->rq;
    bl_generation *g = NULL;
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
    return bl_request_submit(rq, g->worker->queue, bl_text_work, NULL);
}
