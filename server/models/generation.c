/* SPDX-License-Identifier: MIT */
/* The generation of a text: the prompt goes through the program in pieces, then token by token, until the model ends the text.
 * Each run waits in the queue of its device like any other request, so a long text does not block others. */
#include "server/models/generation.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/models/text_run.h"
#include "server/run/queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lifetime */

/* No run will follow: release the state of the text. */
static void end_runs(bl_generation *g)
{
    bl_text_state *state = &g->state;
    if (g->draft.text != NULL)
        end_runs(g->draft.text);
    bl_text_memory_release(state->memory);
    state->memory = NULL;
    bl_text_pages_end(&state->pages);
    if (state->sequence != NULL)
        bl_sequence_release(state->sequence);
    state->sequence = NULL;
    if (state->instance != NULL)
        atomic_fetch_sub(&state->instance->slot.busy, 1);
    state->instance = NULL;
}

void bl_generation_destroy(bl_generation *g)
{
    if (g == NULL)
        return;
    end_runs(g);
    bl_draft_fini(g);
    bl_budget_give(g->completion->out.budget, g->charged);
    bl_text_args_fini(&g->args);
    bl_text_answer_fini(&g->answer);
    free(g->tokens.id);
    free(g->bytes);
    free(g->logits);
    bl_sampler_destroy(g->sampler);
    free(g);
}

bl_status bl_generation_create(bl_completion *c, const bl_tokens *prompt, int shift, bl_generation **out, bl_err *err)
{
    bl_generation *g = bl_calloc(1, sizeof *g);
    *out = g;
    if (g == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    g->completion = c;
    g->version = c->version;
    g->text = c->text;
    g->options = &c->options;
    g->sampling = c->options.sampling;
    g->sampling.seed = (int64_t)(uint32_t)(g->sampling.seed + shift);
    g->prompt = prompt->count;
    g->tokens.id = bl_calloc(prompt->count + 1, sizeof *g->tokens.id);
    if (g->tokens.id == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    memcpy(g->tokens.id, prompt->id, prompt->count * sizeof *prompt->id);
    g->tokens.count = g->tokens.cap = prompt->count;
    bl_draft_init(g);
    return bl_text_answer_init(&g->answer, c->text, &c->options, c->out.budget, prompt, err);
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
    BL_TRY(bl_budget_borrow(g->completion->out.budget, bytes, BL_ENOMEM, "a text", err));
    g->charged = bytes;
    ids = bl_realloc(g->tokens.id, ((size_t)most + 1) * sizeof *ids);
    g->tokens.id = ids != NULL ? ids : g->tokens.id;
    g->tokens.cap = (size_t)most; /* the text ends at this count */
    g->bytes = bl_calloc(count, bl_dtype_bytes(output->dtype));
    g->logits = bl_calloc(count, sizeof *g->logits);
    if (ids == NULL || g->bytes == NULL || g->logits == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    return g->text->chooses ? BL_OK : bl_sampler_create(&g->sampling, count, &g->sampler, err);
}

/* Choose an instance, and reserve the state of the text.  The device admits a run of the largest size. */
bl_status bl_generation_prepare(bl_generation *g, bl_infer *in)
{
    bl_text_state *state = &g->state;
    bl_exec *x = NULL;
    if (g->text->pool > 0) {
        state->instance = bl_instance_choose(g->version);
    } else {
        BL_TRY(bl_sequence_create(in, g->text->past_bytes, &state->sequence));
        state->instance = bl_sequence_instance(state->sequence);
    }
    atomic_fetch_add(&state->instance->slot.busy, 1);
    BL_TRY(bl_text_args_init(&g->args, g->version, state->instance, &in->rq->err));
    BL_TRY(bl_infer_prepare(in->rq, g->version, state->instance, g->args.vars, &x));
    state->worker = x->worker;
    state->device_generation = x->generation;
    BL_TRY(bl_draft_prepare(g, in));
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
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a text");
    own->data = g;
    own->own.asked = true;
    own->item.deadline_ns = rq->item.deadline_ns;
    own->item.priority = rq->item.priority;
    own->item.rank = rq->item.rank;
    own->trace.traced = rq->trace.traced;
    own->own.purpose = (bl_purpose){"model", g->version->name, NULL};
    g->own = own;
    st = bl_request_submit(own, g->state.worker->queue, bl_text_work, NULL);
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

/* Report |len| of the pending bytes. */
static bl_status tell_text(bl_generation *g, size_t len, bl_err *err)
{
    bl_completion *c = g->completion;
    bl_text told = {.budget = c->out.budget};
    bl_status st = BL_OK;
    bl_text_answer_take(&g->answer, len, c->streams ? &told : &g->answer.written);
    if (!c->streams)
        return bl_text_status(&g->answer.written, err);
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

void bl_generation_score(bl_generation *g, size_t place, size_t count)
{
    bl_text_token *token = &g->answer.tokens[place];
    bl_text_answer_put_chances(&g->answer, g->logits, count, token->id, bl_logits_log_sum(g->logits, count), token);
}

/* Sample the next token.  The reported probabilities come from the raw logits; with post_sampling, from the candidates that
 * the samplers left. */
bl_status bl_generation_choose(bl_generation *g, size_t count, int32_t *id, bl_err *err)
{
    const bl_text_options *o = g->options;
    bool raw = o->logprobs >= 0 && !o->post_sampling;
    double log_sum = raw ? bl_logits_log_sum(g->logits, count) : 0;
    bl_text_answer *answer = &g->answer;
    bl_text_token *token = NULL;
    BL_TRY(bl_text_answer_reserve(answer, 1, err));
    token = &answer->tokens[answer->ntokens];
    *token = (bl_text_token){0};
    if ((int64_t)(g->tokens.count - g->prompt) < o->min_tokens)
        for (int i = 0; i < g->text->nends; i++)
            if ((size_t)g->text->ends[i] < count)
                g->logits[g->text->ends[i]] = -INFINITY;
    BL_TRY(bl_sampler_choose(g->sampler, g->logits, g->tokens.id, g->tokens.count, id, err));
    if (*id < 0)
        return bl_fail(err, BL_EGRAPH, "all logits of model \"%s\" are NaN", g->version->name);
    if (raw) {
        bl_text_answer_put_chances(answer, g->logits, count, *id, log_sum, token);
    } else if (o->logprobs >= 0) {
        token->known = true;
        token->top = answer->ntop;
        token->ntop = bl_sampler_chances(g->sampler, *id, &token->chance, &answer->top[answer->ntop], (size_t)o->logprobs);
        answer->ntop += token->ntop;
    }
    return BL_OK;
}

bl_status bl_generation_close(bl_generation *g, bl_err *err)
{
    g->answer.finish = "length";
    return tell_text(g, g->answer.pending.len, err);
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
    bl_text_answer *answer = &g->answer;
    size_t told = 0;
    g->tokens.id[g->tokens.count++] = id;
    BL_TRY(bl_text_answer_add(answer, id, &told, err));
    if (answer->finish == NULL && g->tokens.count >= g->tokens.cap)
        return bl_generation_close(g, err);
    return told > 0 || answer->finish != NULL ? tell_text(g, told, err) : BL_OK;
}
