/* SPDX-License-Identifier: MIT */
/* The generation of a text: the prompt goes through the program in pieces, then token by token, until the model ends the text.
 * Each run waits in the queue of its device like any other request, so a long text does not block others. */
#include "server/models/generation.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "proto/utf8.h"
#include "server/run/queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lifetime */

/* Release what only runs need, as soon as no run will follow. */
static void end_runs(bl_generation *g)
{
    bl_text_memory_release(g->memory);
    g->memory = NULL;
    bl_text_pages_end(&g->pages);
    if (g->sequence != NULL)
        bl_sequence_release(g->sequence);
    g->sequence = NULL;
    if (g->instance != NULL)
        atomic_fetch_sub(&g->instance->slot.busy, 1);
    g->instance = NULL;
}

void bl_generation_destroy(bl_generation *g)
{
    if (g == NULL)
        return;
    end_runs(g);
    bl_budget_give(g->pending.budget, g->charged);
    free(g->vars);
    free(g->inputs);
    free(g->buffers);
    free(g->outputs);
    free(g->states);
    free(g->tokens.id);
    free(g->bytes);
    free(g->logits);
    free(g->said);
    free(g->top);
    bl_sampler_destroy(g->sampler);
    bl_text_fini(&g->pending);
    bl_text_fini(&g->written);
    free(g);
}

/* Charge |bytes| of the server's memory budget to the text until it is destroyed. */
static bl_status generation_charge(bl_generation *g, size_t bytes, bl_err *err)
{
    BL_TRY(bl_budget_borrow(g->pending.budget, bytes, BL_ENOMEM, "a text", err));
    g->charged += bytes;
    return BL_OK;
}

/* Reserve room for |count| more tokens of the answer, with their likeliest alternatives. */
static bl_status reserve_said(bl_generation *g, size_t count, bl_err *err)
{
    size_t each = (size_t)(g->options->logprobs > 0 ? g->options->logprobs : 0), cap = g->said_cap;
    size_t bytes = 0;
    void *said = NULL, *top = NULL;
    if (g->nsaid + count <= cap)
        return BL_OK;
    while (cap < g->nsaid + count)
        cap = cap > 0 ? 2 * cap : 64;
    bytes = (cap - g->said_cap) * (sizeof *g->said + each * sizeof *g->top);
    BL_TRY(generation_charge(g, bytes, err));
    said = bl_realloc(g->said, cap * sizeof *g->said);
    g->said = said != NULL ? said : g->said;
    top = bl_realloc(g->top, (cap * each + 1) * sizeof *g->top);
    g->top = top != NULL ? top : g->top;
    if (said == NULL || top == NULL)
        return bl_fail(err, BL_ENOMEM, "a text");
    g->said_cap = cap;
    return BL_OK;
}

/* Begin the answer with the prompt, if the request asks for an echo. */
static bl_status echo_prompt(bl_generation *g, bl_err *err)
{
    bool silent = true;
    if (!g->options->echo)
        return BL_OK;
    for (size_t i = 0; i < g->prompt; i++) {
        int32_t id = g->tokens.id[i];
        bl_span bytes = bl_tokenizer_bytes(g->text->tokenizer, id, silent);
        if (g->options->logprobs >= 0) {
            bl_text_token *token = &g->said[g->nsaid++];
            *token = (bl_text_token){.id = id, .first = silent, .at = g->pending.len};
        }
        silent = silent && bl_tokenizer_bytes(g->text->tokenizer, id, false).len == 0;
        bl_text_append(&g->pending, bytes.data, bytes.len);
    }
    g->echoed = g->pending.len;
    return bl_text_status(&g->pending, err);
}

bl_status bl_generation_create(bl_completion *c, const bl_tokens *prompt, int shift, bl_generation **out, bl_err *err)
{
    bl_generation *g = bl_calloc(1, sizeof *g);
    *out = g;
    if (g == NULL)
        return bl_fail(err, BL_ENOMEM, "a text");
    g->completion = c;
    g->models = c->models;
    g->version = c->version;
    g->text = c->text;
    g->options = &c->options;
    g->sampling = c->options.sampling;
    g->sampling.seed = (int64_t)(uint32_t)(g->sampling.seed + shift);
    g->silent = true;
    g->pending.budget = g->written.budget = c->out.budget;
    g->prompt = prompt->count;
    g->tokens.id = bl_calloc(prompt->count + 1, sizeof *g->tokens.id);
    if (g->tokens.id == NULL)
        return bl_fail(err, BL_ENOMEM, "a text");
    memcpy(g->tokens.id, prompt->id, prompt->count * sizeof *prompt->id);
    g->tokens.count = g->tokens.cap = prompt->count;
    for (size_t i = 0; i < g->prompt && g->silent; i++)
        g->silent = bl_tokenizer_bytes(g->text->tokenizer, g->tokens.id[i], false).len == 0;
    BL_TRY(reserve_said(g, g->options->echo ? g->prompt : 0, err));
    return echo_prompt(g, err);
}

/* ---- before the first run */

static bl_status generation_make_room(bl_generation *g, bl_err *err)
{
    const bl_model_tensor *output = &g->version->outputs[g->text->output];
    size_t count = g->text->chooses ? 1 : (size_t)output->dim[output->ndim - 1], bytes = 0;
    int64_t most = g->text->context;
    int32_t *ids = NULL;
    if (g->options->max_tokens >= 0 && (int64_t)g->prompt + g->options->max_tokens < most)
        most = (int64_t)g->prompt + g->options->max_tokens;
    bytes = count * (bl_dtype_bytes(output->dtype) + sizeof *g->logits) + bl_sampler_bytes(count) + (size_t)most * sizeof *ids;
    BL_TRY(generation_charge(g, bytes, err));
    ids = bl_realloc(g->tokens.id, ((size_t)most + 1) * sizeof *ids);
    g->tokens.id = ids != NULL ? ids : g->tokens.id;
    g->tokens.cap = (size_t)most; /* the text ends at this count */
    g->inputs = bl_calloc((size_t)g->version->batcher.ninputs + 1, sizeof *g->inputs);
    g->buffers = bl_calloc((size_t)g->version->batcher.ninputs + 1, sizeof(bl_buffer *));
    g->outputs = bl_calloc((size_t)g->version->noutputs + 1, sizeof(bl_buffer *));
    g->states = bl_calloc((size_t)bl_plan_get_info(g->instance->slot.plan)->nstates + 1, sizeof(bl_buffer *));
    g->bytes = bl_calloc(count, bl_dtype_bytes(output->dtype));
    g->logits = bl_calloc(count, sizeof *g->logits);
    if (ids == NULL || g->inputs == NULL || g->buffers == NULL || g->outputs == NULL || g->states == NULL || g->bytes == NULL ||
        g->logits == NULL)
        return bl_fail(err, BL_ENOMEM, "a text");
    return g->text->chooses ? BL_OK : bl_sampler_create(&g->sampling, count, &g->sampler, err);
}

/* Choose an instance, and reserve the state of the text.  The device admits a run of the largest size. */
bl_status bl_generation_prepare(bl_generation *g, bl_infer *in)
{
    const bl_wire_graph *graph = g->version->instances[0].slot.graph;
    bl_exec *x = NULL;
    g->vars = bl_calloc((size_t)g->version->batcher.nvars + 1, sizeof *g->vars);
    if (g->vars == NULL)
        return bl_fail(&in->rq->err, BL_ENOMEM, "a text");
    for (int i = 0; i < g->version->batcher.nvars; i++)
        g->vars[i] = graph->vars[i].lo > 1 ? graph->vars[i].lo : 1;
    if (g->text->var >= 0)
        g->vars[g->text->var] = g->text->chunk;
    if (g->text->pool > 0) {
        g->vars[g->text->pages] = graph->vars[g->text->pages].hi;
        g->instance = bl_instance_choose(g->version);
    } else {
        BL_TRY(bl_sequence_create(in, g->text->past_bytes, &g->sequence));
        g->instance = bl_sequence_instance(g->sequence);
    }
    atomic_fetch_add(&g->instance->slot.busy, 1);
    BL_TRY(bl_infer_prepare(in->rq, g->version, g->instance, g->vars, &x));
    g->worker = x->worker;
    g->device_generation = x->generation;
    return generation_make_room(g, &in->rq->err);
}

/* The last run is over or was cancelled.  Worker's thread, or the thread that cancels. */
static void generation_end_own(bl_request *own)
{
    bl_generation *g = own->own.arg;
    end_runs(g);
    bl_completion_end_text(g, own);
}

bl_status bl_generation_submit(bl_generation *g, bl_request *rq)
{
    bl_request *own = bl_request_create_own(rq->server, rq->owner, generation_end_own, g);
    bl_status st = BL_OK;
    if (own == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "a text");
    own->data = g;
    own->own.asked = true;
    own->item.deadline_ns = rq->item.deadline_ns;
    own->item.priority = rq->item.priority;
    own->item.rank = rq->item.rank;
    own->trace.traced = rq->trace.traced;
    own->own.purpose = (bl_purpose){"model", g->version->name, NULL};
    g->own = own;
    st = bl_request_submit(own, g->worker->queue, bl_text_work, NULL);
    if (st == BL_OK)
        return BL_OK;
    rq->err = own->err;
    rq->reply.retry_after = own->reply.retry_after;
    g->own = NULL;
    bl_request_end(own);
    return st;
}

void bl_generation_cancel(bl_generation *g, const char *why)
{
    bl_completion *c = g->completion;
    bl_request *own = NULL;
    bool mine = false;
    pthread_mutex_lock(&c->lock);
    own = g->own;
    mine = own != NULL && (bl_request_withdraw(own) || g->rests);
    g->rests = false;
    pthread_mutex_unlock(&c->lock);
    if (!mine)
        return;
    (void)bl_fail(&own->err, BL_ECANCELLED, "%s", why);
    bl_request_finish(own);
}

bool bl_generation_is_unread(bl_generation *g)
{
    const bl_completion *c = g->completion;
    return c->streams && c->out.len - c->sent > BL_MOST_UNREAD;
}

/* ---- the answer */

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

/* Decode the first |len| of the pending bytes; an invalid byte becomes U+FFFD. */
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

/* Where the first stop string begins in the pending bytes; their length if there is none. */
static size_t find_stop(bl_generation *g)
{
    size_t from = g->echoed > g->taken ? g->echoed - g->taken : 0, first = g->pending.len;
    for (int i = 0; i < g->options->nstops; i++) {
        const bl_span *stop = &g->options->stops[i];
        const char *at = from < first ? memmem(g->pending.data + from, g->pending.len - from, stop->data, stop->len) : NULL;
        if (at == NULL || (size_t)(at - g->pending.data) >= first)
            continue;
        first = (size_t)(at - g->pending.data);
        g->stopped_by = stop->data;
    }
    return first;
}

/* How many pending bytes can be reported: without an incomplete character, and without a possible beginning of a stop
 * string. */
static size_t find_certain(const bl_generation *g)
{
    const char *data = g->pending.data;
    size_t len = g->pending.len, certain = len;
    for (size_t back = 1; back < 4 && back <= len; back++)
        if (may_be_utf8(data + len - back, back))
            certain = len - back;
    for (int i = 0; i < g->options->nstops; i++) {
        const bl_span *stop = &g->options->stops[i];
        size_t at = len >= stop->len ? len - stop->len + 1 : 0;
        while (at < certain && memcmp(data + at, stop->data, len - at) != 0)
            at++;
        certain = at < certain ? at : certain;
    }
    return certain;
}

/* Report |len| of the pending bytes. */
static bl_status tell_text(bl_generation *g, size_t len, bl_err *err)
{
    bl_completion *c = g->completion;
    bl_text told = {.budget = g->pending.budget};
    bl_status st = BL_OK;
    put_characters(&g->pending, len, c->streams ? &told : &g->written);
    g->new_line = g->new_line || (len > 0 && memchr(g->pending.data, '\n', len) != NULL);
    if (len > 0)
        memmove(g->pending.data, g->pending.data + len, g->pending.len - len);
    g->pending.len -= len;
    g->taken += len;
    if (!c->streams)
        return bl_text_status(&g->written, err);
    st = bl_text_status(&told, err);
    pthread_mutex_lock(&c->lock);
    if (st == BL_OK) {
        size_t whole = c->out.len;
        c->form->event(g, (bl_span){bl_text_get(&told), told.len}, &c->out);
        st = bl_text_status(&c->out, err);
        c->out.len = st == BL_OK ? c->out.len : whole; /* no partial event */
    }
    bl_completion_wake(c);
    pthread_mutex_unlock(&c->lock);
    bl_text_fini(&told);
    return st;
}

static bool generation_is_end(const bl_text_model *text, int32_t id)
{
    for (int i = 0; i < text->nends; i++)
        if (text->ends[i] == id)
            return true;
    return false;
}

/* Record the next reported token; bl_generation_choose has filled its probabilities. */
static bl_status note_token(bl_generation *g, int32_t id, bl_err *err)
{
    bl_text_token *token = NULL;
    BL_TRY(reserve_said(g, 1, err));
    token = &g->said[g->nsaid++];
    token->id = id;
    token->first = g->silent;
    token->at = g->taken + g->pending.len;
    return BL_OK;
}

/* Fill |token| with the probability of |id| by the logits, and with the likeliest alternatives. */
static void note_chances(bl_generation *g, size_t count, int32_t id, double log_sum, bl_text_token *token)
{
    token->known = id >= 0 && (size_t)id < count;
    token->chance = token->known ? (float)((double)g->logits[id] - log_sum) : 0;
    token->top = g->ntop;
    token->ntop = bl_logits_likeliest(g->logits, count, log_sum, &g->top[g->ntop], (size_t)g->options->logprobs);
    g->ntop += token->ntop;
}

bl_status bl_generation_score(bl_generation *g, size_t place, size_t count, bl_err *err)
{
    bl_text_token *token = &g->said[place];
    (void)err;
    note_chances(g, count, token->id, bl_logits_log_sum(g->logits, count), token);
    return BL_OK;
}

/* Sample the next token.  The reported probabilities come from the raw logits; with post_sampling, from the candidates that
 * the samplers left. */
bl_status bl_generation_choose(bl_generation *g, size_t count, int32_t *id, bl_err *err)
{
    const bl_text_options *o = g->options;
    bool raw = o->logprobs >= 0 && !o->post_sampling;
    double log_sum = raw ? bl_logits_log_sum(g->logits, count) : 0;
    bl_text_token *token = NULL;
    BL_TRY(reserve_said(g, 1, err));
    token = &g->said[g->nsaid];
    *token = (bl_text_token){0};
    if ((int64_t)(g->tokens.count - g->prompt) < o->min_tokens)
        for (int i = 0; i < g->text->nends; i++)
            if ((size_t)g->text->ends[i] < count)
                g->logits[g->text->ends[i]] = -INFINITY;
    BL_TRY(bl_sampler_choose(g->sampler, g->logits, g->tokens.id, g->tokens.count, id, err));
    if (*id < 0)
        return bl_fail(err, BL_EGRAPH, "no logit of model \"%s\" is a number", g->version->name);
    if (raw) {
        note_chances(g, count, *id, log_sum, token);
    } else if (o->logprobs >= 0) {
        token->known = true;
        token->top = g->ntop;
        token->ntop = bl_sampler_chances(g->sampler, *id, &token->chance, &g->top[g->ntop], (size_t)o->logprobs);
        g->ntop += token->ntop;
    }
    return BL_OK;
}

bl_status bl_generation_close(bl_generation *g, bl_err *err)
{
    g->finish = "length";
    return tell_text(g, g->pending.len, err);
}

void bl_generation_tell_progress(bl_generation *g)
{
    bl_completion *c = g->completion;
    if (!c->streams || !g->options->progress || c->form->progress == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    if (!g->begun)
        c->form->progress(g, g->reused, &c->out);
    g->begun = true;
    c->form->progress(g, g->fed, &c->out);
    bl_completion_wake(c);
    pthread_mutex_unlock(&c->lock);
}

bl_status bl_generation_take(bl_generation *g, int32_t id, bl_err *err)
{
    bl_span bytes = bl_tokenizer_bytes(g->text->tokenizer, id, g->silent);
    size_t told = 0;
    g->tokens.id[g->tokens.count++] = id;
    if (generation_is_end(g->text, id) && !g->options->goes_on) {
        g->finish = "stop";
    } else {
        BL_TRY(note_token(g, id, err));
        g->silent = g->silent && bl_tokenizer_bytes(g->text->tokenizer, id, false).len == 0;
        bl_text_append(&g->pending, bytes.data, bytes.len);
        BL_TRY(bl_text_status(&g->pending, err));
    }
    told = find_stop(g);
    if (told < g->pending.len)
        g->finish = "stop";
    else if (g->finish == NULL && g->tokens.count >= g->tokens.cap)
        g->finish = "length";
    if (g->finish == NULL)
        told = find_certain(g);
    return told > 0 || g->finish != NULL ? tell_text(g, told, err) : BL_OK;
}
