/* SPDX-License-Identifier: MIT */
#include "server/models/draft.h"

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/models/text_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a simulation with 14 texts that SmolLM2-135M generated (code, lists, JSON, summaries, corrections, stories and advice,
 * greedy and sampled), and with the measured times of runs of 1 to 16 rows.  With n-grams of at least 1, 2, 3, 4 and 6 tokens the
 * texts are 1.431, 1.435, 1.409, 1.389 and 1.351 times as fast as without a draft (geometric mean).  Other values of FIRST_RATE
 * and NEW_TOKEN change this by less than 2%. */
enum {
    LEAST_MATCH = 2, /* tokens of an n-gram */
    MOST_MATCH = 16,
    MOST_LATE = 2 /* so many tokens go to a draft model as rows of a run: the last token, and an accepted one before it */
};
/* Of a text without measurements.  Only runs with its proposals measure a draft model, so the first runs must have some. */
static const double FIRST_RATE = 0.9;
static const double NEW_TOKEN = 0.1; /* the weight of a proposed token in the moving average */

void bl_draft_init(bl_generation *g)
{
    const bl_config_draft *config = &g->version->config.draft;
    const bl_text_options *o = g->options;
    if (g->version->draft == NULL && (config->name == NULL || strcmp(config->name, BL_DRAFT_NGRAM) != 0))
        return;
    g->draft.most = o->draft_max >= 0 && o->draft_max < config->most ? o->draft_max : config->most;
    g->draft.least = o->draft_min >= 0 ? o->draft_min : config->least;
    g->draft.p_min = o->draft_p_min >= 0 ? o->draft_p_min : config->p_min;
    g->draft.rate = FIRST_RATE;
}

/* ---- the text in a draft model */

bl_status bl_draft_prepare(bl_generation *g, bl_infer *in)
{
    bl_model_version *version = g->version->draft;
    bl_generation *d = version != NULL && g->draft.most > 0 ? bl_calloc(1, sizeof *d) : NULL;
    bl_err *err = &in->rq->err;
    const bl_model_tensor *output = NULL;
    size_t count = 0;
    bl_exec *x = NULL;
    if (version == NULL || g->draft.most == 0)
        return BL_OK;
    if (d == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    g->draft.text = d;
    d->completion = g->completion;
    d->answer.budget = g->completion->out.budget;
    d->version = version;
    d->text = version->text;
    d->options = g->options;
    d->state.instance = &version->instances[g->state.instance - g->version->instances];
    atomic_fetch_add(&d->state.instance->slot.busy, 1);
    BL_TRY(bl_text_args_init(&d->args, version, d->state.instance, err));
    BL_TRY(bl_infer_prepare(in->rq, version, d->state.instance, d->args.vars, &x));
    d->state.worker = x->worker;
    d->state.device_generation = x->generation;
    output = &version->outputs[d->text->output];
    count = d->text->chooses ? 1 : (size_t)output->dim[output->ndim - 1];
    BL_TRY(bl_budget_borrow(d->completion->out.budget, count * (bl_dtype_bytes(output->dtype) + sizeof *d->logits), BL_ENOMEM,
                            "a text", err));
    d->charged = count * (bl_dtype_bytes(output->dtype) + sizeof *d->logits);
    d->bytes = bl_calloc(count, bl_dtype_bytes(output->dtype));
    d->logits = bl_calloc(count, sizeof *d->logits);
    return d->bytes != NULL && d->logits != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a text");
}

void bl_draft_fini(bl_generation *g)
{
    if (g->draft.text != NULL)
        g->draft.text->tokens.id = NULL; /* of |g| */
    bl_generation_destroy(g->draft.text);
    g->draft.text = NULL;
}

void bl_draft_wait(bl_generation *g)
{
    if (g->draft.text != NULL)
        bl_text_pages_wait(&g->draft.text->state.pages);
}

/* Does the text want more tokens of its draft model? */
static bool draft_wants(const bl_generation *g)
{
    return g->draft.text != NULL && (int64_t)g->draft.count + 1 < g->batch.rows;
}

/* The draft model has said all that it will in this run. */
static void draft_stop(bl_generation *g)
{
    g->batch.rows = (int64_t)g->draft.count + 1;
}

/* Add the tokens that the draft model lacks to |run|, in |rows| rows.  False: there is no room for them. */
static bool draft_join(bl_text_run *run, bl_generation *g, int64_t rows)
{
    bl_generation *d = g->draft.text;
    bl_err ignored = {0};
    bool ready = false;
    if (run->rows + rows > d->version->batcher.max_rows ||
        bl_text_pages_reserve(&d->state.pages, d->fed + run->count * (size_t)rows, &ready, &ignored) != BL_OK || !ready)
        return false;
    d->batch.rq = g->batch.rq;
    bl_text_run_join(run, d);
    d->batch.rows = rows;
    run->rows += rows - 1;
    return true;
}

/* Propose the likeliest token, unless it is unlikely. */
static bl_status draft_take(const bl_text_run *run, bl_generation *g, bl_err *err)
{
    bl_generation *d = g->draft.text;
    size_t count = 0;
    int32_t id = 0;
    bl_token_chance chance = {0};
    BL_TRY(bl_text_run_read(run, d, (size_t)d->batch.rows - 1, 0, &count, &id, err));
    if (!d->text->chooses && bl_logits_likeliest(d->logits, count, bl_logits_log_sum(d->logits, count), &chance, 1) == 1)
        id = chance.id;
    if (exp(chance.value) < (double)g->draft.p_min || (size_t)id >= bl_tokenizer_size(g->text->tokenizer)) {
        draft_stop(g);
        return BL_OK;
    }
    d->tokens.id[d->tokens.count++] = id;
    g->draft.count++;
    return BL_OK;
}

/* The draft model gets the tokens of the text, if necessary as a piece in a run of its own (a prompt, or what was generated
 * without a draft).  If it still lacks tokens then, it proposes nothing in this run. */
static bl_status draft_catch_up(bl_generation *g, bl_err *err)
{
    bl_generation *d = g->draft.text;
    bl_text_run run = {.last = &run.lead};
    bl_status st = BL_OK;
    d->tokens = g->tokens;
    d->fed = d->fed < g->tokens.count ? d->fed : g->tokens.count - 1;
    if (d->state.pages.pool == NULL)
        BL_TRY(bl_text_pages_begin(&d->state.pages, d->state.instance->pages, g->batch.rq->owner, g->tokens.id, g->tokens.count,
                                   g->options->cache_prompt, &d->fed, err));
    run.count = d->tokens.count - d->fed;
    if (run.count <= MOST_LATE)
        return BL_OK;
    run.count = run.count < (size_t)d->text->chunk ? run.count : (size_t)d->text->chunk;
    if (!draft_join(&run, g, 1)) {
        draft_stop(g);
        return BL_OK;
    }
    st = bl_text_run_do(&run, err);
    if (st == BL_OK && d->fed == d->tokens.count)
        st = draft_take(&run, g, err);
    else
        draft_stop(g);
    bl_text_run_end(&run);
    return st;
}

/* One run of the draft model, for one more token of each text that wants one. */
static bl_status draft_run(bl_generation *first, bl_err *err)
{
    bl_text_run run = {.last = &run.lead, .count = 1};
    bl_status st = BL_OK;
    for (bl_generation *g = first; g != NULL; g = g->batch.next)
        if (draft_wants(g) && !draft_join(&run, g, (int64_t)(g->draft.text->tokens.count - g->draft.text->fed)))
            draft_stop(g);
    if (run.lead == NULL)
        return BL_OK;
    st = bl_text_run_do(&run, err);
    for (bl_generation *g = first; st == BL_OK && g != NULL; g = g->batch.next)
        if (draft_wants(g)) {
            g->draft.text->fed = g->draft.text->tokens.count;
            st = draft_take(&run, g, err);
        }
    bl_text_run_end(&run);
    return st;
}

static bl_status draft_run_all(bl_generation *first, bl_err *err)
{
    bl_program *program = first->version->draft->instances[first->state.instance - first->version->instances].slot.program;
    bool more = true;
    BL_TRY(bl_program_check(program, err));
    BL_TRY(bl_program_wake(program, err));
    for (bl_generation *g = first; g != NULL; g = g->batch.next)
        if (draft_wants(g))
            BL_TRY(draft_catch_up(g, err));
    while (more) {
        BL_TRY(draft_run(first, err));
        more = false;
        for (bl_generation *g = first; g != NULL; g = g->batch.next)
            more = more || draft_wants(g);
    }
    return BL_OK;
}

/* Let the draft model propose a token for each row of a text but the first. */
static void draft_write(bl_generation *first)
{
    bl_err err = {0};
    bl_status st = BL_OK;
    bool any = false;
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        g->draft.count = 0;
        any = any || draft_wants(g);
    }
    if (any)
        st = draft_run_all(first, &err);
    if (st != BL_OK)
        bl_log(BL_LOG_DEBUG, "model %s: its draft model failed: %s", first->version->name, err.text);
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        bl_generation *d = g->draft.text;
        if (st != BL_OK)
            g->draft.most = g->batch.rows > 1 ? 0 : g->draft.most;
        if ((int64_t)g->draft.count < g->draft.least || st != BL_OK)
            g->draft.count = 0;
        draft_stop(g);
        /* a page of the prefix cache has no tokens that may be dropped */
        if (d != NULL && d->state.pages.state == BL_PAGES_BUSY)
            bl_text_pages_rest(&d->state.pages, g->tokens.id, d->fed < g->tokens.count ? d->fed : g->tokens.count);
    }
}

/* ---- n-grams */

size_t bl_draft_repeat(int32_t *tokens, size_t count, size_t most)
{
    size_t longest = LEAST_MATCH - 1, from = 0;
    for (size_t end = count - 1; end >= LEAST_MATCH && longest < MOST_MATCH; end--) {
        size_t n = 0;
        while (n < MOST_MATCH && n < end && tokens[end - 1 - n] == tokens[count - 1 - n])
            n++;
        from = n > longest ? end : from;
        longest = n > longest ? n : longest;
    }
    for (size_t i = 0; i < most && from > 0; i++)
        tokens[count + i] = tokens[from + i]; /* a repetition may go on in its own proposal */
    return from > 0 ? most : 0;
}

/* ---- the rows of a run */

/* How many tokens the text may propose, at most |most|: those that it may still have behind the next one. */
static size_t draft_room(const bl_generation *g, int64_t most)
{
    const bl_generation *d = g->draft.text;
    size_t context = d != NULL && (size_t)d->text->context < g->tokens.cap ? (size_t)d->text->context : g->tokens.cap;
    size_t left = context > g->tokens.count ? context - g->tokens.count - 1 : 0;
    most = most < g->draft.most ? most : g->draft.most;
    if (g->fed + 1 != g->tokens.count) /* the next run does not choose a token */
        return 0;
    return left < (size_t)most ? left : (size_t)most;
}

/* The text with the most probable next proposal; NULL: no text has another proposal.  A proposed token is accepted only if all
 * proposals before it are. */
static bl_generation *draft_best(bl_generation *first)
{
    bl_generation *best = NULL;
    for (bl_generation *g = first; g != NULL; g = g->batch.next)
        if (g->batch.rows <= (int64_t)g->draft.count && (best == NULL || g->draft.chance > best->draft.chance))
            best = g;
    return best;
}

/* |each_ns|: the time of a run of the draft model, which gives each text one more token. */
static int64_t draft_deal(bl_generation *first, int64_t texts, int64_t most, double each_ns, bl_rows_worth *worth)
{
    int64_t rows = texts, deepest = 1;
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        g->batch.rows = 1;
        g->draft.chance = g->draft.rate;
    }
    for (bl_generation *best = NULL; rows < most && (best = draft_best(first)) != NULL; rows++) {
        deepest = best->batch.rows >= deepest ? best->batch.rows + 1 : deepest;
        if (worth != NULL)
            worth[rows + 1] = (bl_rows_worth){worth[rows].gain + best->draft.chance, (double)(deepest - 1) * each_ns};
        best->draft.chance *= best->draft.rate;
        best->batch.rows++;
    }
    return rows;
}

int64_t bl_drafts_weigh(bl_generation *first, int64_t texts, int64_t most, bl_rows_worth *worth)
{
    bl_model_version *model = first->version->draft;
    double each_ns = 0;
    for (bl_generation *g = first; g != NULL; g = g->batch.next) {
        g->draft.count = draft_room(g, most - texts);
        if (model == NULL && g->draft.count > 0)
            g->draft.count = bl_draft_repeat(g->tokens.id, g->tokens.count, g->draft.count);
        if ((int64_t)g->draft.count < g->draft.least)
            g->draft.count = 0;
    }
    if (model != NULL) {
        pthread_mutex_lock(&model->batcher.lock);
        each_ns = bl_sizes_expect(&model->instances[first->state.instance - first->version->instances].slot.sizes, texts);
        pthread_mutex_unlock(&model->batcher.lock);
    }
    worth[texts] = (bl_rows_worth){(double)texts, 0};
    return draft_deal(first, texts, most, each_ns, worth);
}

void bl_drafts_propose(bl_generation *first, int64_t texts, int64_t rows)
{
    (void)draft_deal(first, texts, rows, 0, NULL);
    if (first->version->draft != NULL)
        draft_write(first);
}

bool bl_draft_accepts(bl_generation *g, size_t i, int32_t id)
{
    bl_draft *draft = &g->draft;
    bool right = false;
    if (i >= draft->count)
        return false;
    right = g->tokens.id[g->tokens.count] == id;
    draft->rate += NEW_TOKEN * ((right ? 1 : 0) - draft->rate); /* also of a proposal that did not run */
    if (i + 1 >= (size_t)g->batch.rows)
        return false;
    draft->accepted += right;
    return right;
}
