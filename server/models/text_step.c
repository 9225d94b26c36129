/* SPDX-License-Identifier: MIT */
/* Continuous batching: one run of a text model for the waiting texts that feed the same number of tokens (iteration-level
 * scheduling: Orca, Yu et al., 2022).  Each text feeds the next tokens of its prompt, or its last token.  A text of a program
 * without state feeds all its tokens.  Device time is charged to the owners of the texts in proportion. */
#include "server/models/text_run.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/access/access.h"
#include "server/run/queue.h"

#include <stdlib.h>
#include <string.h>

static const int64_t CROWDED_NS = 10000000000; /* after a run ran out of device memory, runs have fewer rows for this time */
static const double PIECE_NS = 5e7;            /* maximum time of a piece of a prompt while other requests wait, or ... */
static const double PIECE_RUNS = 2;            /* ... the time of so many decoding runs: the queue shares time, not runs */
enum { LEAST_PIECE = BL_PAGE_TOKENS };

typedef struct step {
    bl_text_run run;            /* |lead| is the dispatched text */
    size_t piece;               /* the maximum number of tokens of a prompt in one run */
    int64_t begin_ns, draft_ns; /* |draft_ns|: the time that the proposals took */
} step;

/* ---- the choice of texts */

static size_t next_count(const step *s, const bl_generation *g)
{
    size_t left = g->tokens.count - bl_text_run_first(g), most = bl_generation_steps_singly(g) ? 1 : s->piece;
    return left < most ? left : most;
}

/* The size of a piece of a prompt (chunked prefill).  While other requests wait for the device, a piece takes at most PIECE_NS
 * or PIECE_RUNS decoding runs. */
static size_t choose_piece(const bl_generation *g)
{
    const bl_model_instance *instance = g->state.instance;
    double most_ns = PIECE_RUNS * instance->write_ns > PIECE_NS ? PIECE_RUNS * instance->write_ns : PIECE_NS;
    int64_t piece = 0;
    if (!g->text->remembers || instance->token_ns <= 0 || !bl_queue_is_wanted(g->state.worker->queue))
        return (size_t)g->text->chunk;
    piece = (int64_t)(most_ns / instance->token_ns) / LEAST_PIECE * LEAST_PIECE;
    piece = piece < LEAST_PIECE ? LEAST_PIECE : piece;
    return (size_t)(piece < g->text->chunk ? piece : g->text->chunk);
}

/* Has the text taken its pages?  Before that, the number of tokens in the prefix cache is unknown. */
static bool is_begun(const bl_generation *g)
{
    return g->text->pool == 0 || g->state.pages.pool != NULL;
}

static bool text_step_fits(void *arg, const bl_request *rq)
{
    const step *s = arg;
    const bl_generation *g = rq->item.work == bl_text_work ? rq->data : NULL;
    return g != NULL && !bl_work_item_is_gated(&rq->item) && g->state.instance == s->run.lead->state.instance &&
           g->state.device_generation == s->run.lead->state.device_generation && is_begun(g) &&
           next_count(s, g) == s->run.count && !atomic_load(&rq->cancel) &&
           (rq->item.deadline_ns == 0 || rq->item.deadline_ns > s->begin_ns);
}

/* The largest preferred size that is at most |waiting|; |waiting| if the configuration prefers none of these. */
static int64_t preferred_rows(const bl_wire_batching *how, int64_t waiting)
{
    int64_t best = 0;
    for (int i = 0; i < how->npreferred; i++)
        if (how->preferred[i] <= waiting && how->preferred[i] > best)
            best = how->preferred[i];
    return best > 0 ? best : waiting;
}

/* Can the run have proposed tokens? */
static bool has_drafts(const step *s)
{
    return s->run.lead->version->config.draft.name != NULL && s->run.count == 1;
}

static int64_t most_rows(const step *s)
{
    const bl_model_instance *instance = s->run.lead->state.instance;
    int64_t rows = s->run.lead->version->batcher.max_rows;
    bool crowded = instance->slot.crowd > 0 && s->begin_ns - instance->slot.crowded_ns < CROWDED_NS;
    return crowded && instance->slot.crowd < rows ? instance->slot.crowd : rows;
}

/* How many of |waiting| texts take part in the run. */
static int64_t text_step_worth_rows(const step *s, int64_t waiting)
{
    bl_model_version *version = s->run.lead->version;
    bl_sizes *sizes = &s->run.lead->state.instance->slot.sizes;
    int64_t rows = waiting < most_rows(s) ? waiting : most_rows(s);
    if (version->config.batching.how.npreferred > 0)
        return preferred_rows(&version->config.batching.how, rows);
    if (rows > 1 && bl_text_run_is_measured(&s->run)) {
        pthread_mutex_lock(&version->batcher.lock);
        rows = has_drafts(s) ? bl_sizes_best(sizes, rows) : bl_sizes_choose(sizes, 1, rows, NULL);
        pthread_mutex_unlock(&version->batcher.lock);
    }
    return rows;
}

static void text_step_join(step *s, bl_request *rq)
{
    bl_generation *g = rq->data;
    g->batch.rq = rq;
    bl_text_run_join(&s->run, g);
}

/* Take the pages of the prompt that are in the prefix cache. */
static bl_status begin_pages(bl_generation *g, bl_request *rq)
{
    bool all = g->options->echo && g->options->logprobs >= 0; /* the logits of each token of the prompt are wanted */
    bool found = g->options->cache_prompt && !all;
    if (is_begun(g))
        return BL_OK;
    BL_TRY(bl_text_pages_begin(&g->state.pages, g->state.instance->pages, rq->owner, g->tokens.id, g->prompt, found, &g->fed,
                               &rq->err));
    g->reused = g->fed;
    return BL_OK;
}

/* With a paged KV cache: reserve the pages of the next run.  False: *outcome says whether the text ends or waits. */
static bool has_pages(const step *s, bl_request *rq, bl_step *outcome)
{
    bl_generation *g = rq->data;
    bl_gate *gate = g->text->pool > 0 ? bl_text_pages_gate(&g->state.pages) : NULL;
    uint64_t seen = gate != NULL ? atomic_load(&gate->changes) : 0;
    bl_status st = BL_OK;
    bool ready = true;
    if (gate != NULL)
        st = bl_text_pages_reserve(&g->state.pages, g->fed + s->run.count, &ready, &rq->err);
    rq->item.gate = ready ? NULL : gate;
    rq->item.gate_seen = seen;
    if (st != BL_OK)
        (void)bl_fail(&rq->err, st, "pages of a text");
    *outcome = st == BL_OK && !ready && !atomic_load(&rq->cancel) ? BL_STEP_AGAIN : BL_STEP_DONE;
    if (st == BL_OK && *outcome == BL_STEP_DONE && !ready)
        (void)bl_fail(&rq->err, BL_ECANCELLED, "the client went away");
    return st == BL_OK && ready;
}

/* Can the dispatched text lead a run?  Reserves its pages, and brings the state of the program to the device. */
static bool may_lead(step *s, bl_request *rq, bl_step *outcome)
{
    bl_generation *g = rq->data;
    const bl_program *program = g->state.instance->slot.program;
    *outcome = BL_STEP_DONE;
    if (g->text->pool > 0) {
        if (bl_text_run_check(g, &rq->err) != BL_OK || bl_program_check(program, &rq->err) != BL_OK ||
            bl_program_wake(g->state.instance->slot.program, &rq->err) != BL_OK || begin_pages(g, rq) != BL_OK)
            return false;
    }
    s->piece = choose_piece(g);
    s->run.count = next_count(s, g);
    return has_pages(s, rq, outcome);
}

static void take_along(step *s)
{
    bl_queue *queue = s->run.lead->state.worker->queue;
    bl_work_item *item = NULL, *next = NULL;
    int64_t rows = 1;
    if (s->run.lead->text->rows < 0)
        return;
    rows = text_step_worth_rows(s, 1 + (int64_t)bl_queue_count(queue, text_step_fits, s));
    item = rows > 1 ? bl_queue_take_batch(queue, text_step_fits, s, (size_t)rows - 1) : NULL;
    for (; item != NULL; item = next) {
        bl_request *rq = item->rq;
        next = item->next;
        bl_step outcome = BL_STEP_DONE;
        bl_request_trace_add(&rq->trace, BL_TIME_QUEUE, rq->item.queued_ns, s->begin_ns);
        if (bl_access_check_time(rq) == BL_OK && has_pages(s, rq, &outcome)) {
            text_step_join(s, rq);
        } else {
            bl_batched batched = bl_queue_unbatch(queue, rq);
            bl_queue_settle(queue, &batched, outcome, 0);
        }
    }
}

/* Reserve the pages of proposed tokens.  A text that gets none has one row. */
static bl_status reserve_drafts(bl_generation *g, bl_err *err)
{
    bl_err ignored = {0};
    bool ready = false;
    if (g->batch.rows == 1 ||
        (bl_text_pages_reserve(&g->state.pages, g->fed + (size_t)g->batch.rows, &ready, &ignored) == BL_OK && ready))
        return BL_OK;
    g->batch.rows = 1;
    BL_TRY(bl_text_pages_reserve(&g->state.pages, g->fed + 1, &ready, err));
    return ready ? BL_OK : bl_fail(err, BL_EBUG, "a text lost its pages");
}

/* Speculative decoding: the run gets rows for proposed tokens. */
static bl_status text_step_draft(step *s, bl_err *err)
{
    bl_generation *lead = s->run.lead;
    bl_model_version *version = lead->version;
    bl_rows_worth worth[BL_DRAFT_ROWS + 1];
    int64_t rows = most_rows(s) < BL_DRAFT_ROWS ? most_rows(s) : BL_DRAFT_ROWS, start = bl_clock_ns();
    if (!has_drafts(s) || s->run.texts > rows)
        return BL_OK;
    rows = bl_drafts_weigh(lead, s->run.texts, rows, worth);
    pthread_mutex_lock(&version->batcher.lock);
    rows = bl_sizes_choose(&lead->state.instance->slot.sizes, s->run.texts, rows, worth);
    pthread_mutex_unlock(&version->batcher.lock);
    bl_drafts_propose(lead, s->run.texts, rows);
    s->run.rows = 0;
    for (bl_generation *g = lead; g != NULL; g = g->batch.next) {
        BL_TRY(reserve_drafts(g, err));
        g->draft.proposed += g->batch.rows - 1;
        s->run.rows += g->batch.rows;
    }
    bl_metrics_add(&lead->batch.rq->server->metrics, BL_COUNT_DRAFT_TOKENS, s->run.rows - s->run.texts);
    s->draft_ns = bl_clock_ns() - start;
    return BL_OK;
}

/* A run of several texts failed, perhaps because of their number.  Return the other texts to the queue, and run the leading
 * text alone. */
static void text_step_let_go(step *s, bl_status why)
{
    bl_model_instance *instance = s->run.lead->state.instance;
    bl_generation *g = s->run.lead->batch.next, *next = NULL;
    if (why == BL_ENODEVMEM) {
        instance->slot.crowd = s->run.rows / 2;
        instance->slot.crowded_ns = s->begin_ns;
    }
    for (; g != NULL; g = next) {
        bl_batched batched = bl_queue_unbatch(g->state.worker->queue, g->batch.rq);
        next = g->batch.next;
        bl_queue_settle(g->state.worker->queue, &batched, BL_STEP_AGAIN, 0);
    }
    s->run.lead->batch.next = NULL;
    s->run.lead->batch.rows = s->run.texts = s->run.rows = 1;
}

/* ---- the results */

/* Score the tokens of the prompt that follow the tokens of the run. */
static bl_status score_prompt(const step *s, bl_generation *g)
{
    size_t first = g->fed - s->run.count, count = 0;
    int32_t id = 0;
    for (size_t i = 0; i < s->run.count && first + i + 1 < g->prompt; i++) {
        BL_TRY(bl_text_run_read(&s->run, g, 0, s->run.count - 1 - i, &count, &id, &g->batch.rq->err));
        bl_generation_score(g, first + i + 1, count);
    }
    return BL_OK;
}

/* Choose the next token, and those after it while the next row has the chosen token. */
static bl_status choose_tokens(const step *s, bl_generation *g)
{
    bl_request *rq = g->batch.rq;
    bool accepted = true;
    for (size_t i = 0; accepted && g->answer.finish == NULL; i++) {
        size_t count = 0;
        int32_t id = 0;
        BL_TRY(bl_text_run_read(&s->run, g, i, 0, &count, &id, &rq->err));
        if (!g->text->chooses)
            BL_TRY(bl_generation_choose(g, count, &id, &rq->err));
        accepted = bl_draft_accepts(g, i, id);
        g->fed += accepted;
        bl_metrics_add(&rq->server->metrics, BL_COUNT_TOKENS, 1);
        bl_metrics_add(&rq->server->metrics, BL_COUNT_DRAFT_ACCEPTED, accepted);
        BL_TRY(bl_generation_take(g, id, &rq->err));
    }
    return BL_OK;
}

static bl_status write_on(const step *s, bl_generation *g)
{
    if (g->options->echo && g->options->logprobs >= 0 && !g->text->chooses && g->fed <= g->prompt)
        BL_TRY(score_prompt(s, g));
    if (g->fed <= g->prompt)
        bl_generation_tell_progress(g);
    if (g->fed < g->tokens.count) /* the prompt is not complete */
        return BL_OK;
    if (g->fed == g->prompt)
        g->prompt_ns = g->compute_ns;
    if (g->tokens.count >= g->tokens.cap)
        return bl_generation_close(g, &g->batch.rq->err);
    return choose_tokens(s, g);
}

static void text_step_conclude(const step *s, const bl_err *err)
{
    for (bl_generation *g = s->run.lead; g != NULL; g = g->batch.next) {
        bl_status st = err->status;
        bl_request_trace_add(&g->batch.rq->trace, BL_TIME_COMPUTE, s->begin_ns, s->begin_ns + s->run.took_ns);
        g->compute_ns += s->draft_ns + s->run.took_ns;
        if (st == BL_OK)
            st = write_on(s, g);
        else
            g->batch.rq->err = *err;
        if (st != BL_OK && g->batch.rq->err.status == BL_OK)
            (void)bl_fail(&g->batch.rq->err, st, "a text");
    }
}

/* The text may pause soon, so move it out of the shared memory of the other texts.  Without memory for a copy it stays
 * there. */
static void prepare_to_rest(bl_generation *g)
{
    bl_err ignored = {0};
    bl_status st = BL_OK;
    bool unread = false;
    pthread_mutex_lock(&g->completion->lock);
    unread = bl_generation_is_unread(g);
    pthread_mutex_unlock(&g->completion->lock);
    if (unread)
        st = bl_text_memory_part(g, &ignored);
    (void)st;
}

/* After BL_STEP_MOVED the thread that reads the answer may own the request already.  A client that leaves sets |cancel| under
 * the lock, and ends a paused text itself. */
static bl_step choose_step(bl_generation *g)
{
    bool gone = false, rests = false;
    if (g->batch.rq->err.status != BL_OK || g->answer.finish != NULL)
        return BL_STEP_DONE;
    prepare_to_rest(g);
    pthread_mutex_lock(&g->completion->lock);
    gone = atomic_load(&g->batch.rq->cancel);
    rests = !gone && bl_generation_is_unread(g);
    g->rests = rests;
    if (rests) {
        bl_text_pages_wait(&g->state.pages);
        bl_draft_wait(g);
    }
    pthread_mutex_unlock(&g->completion->lock);
    if (!gone)
        return rests ? BL_STEP_MOVED : BL_STEP_AGAIN;
    (void)bl_fail(&g->batch.rq->err, BL_ECANCELLED, "the client went away");
    return BL_STEP_DONE;
}

/* Return the other texts of the run to the queue, or end them.  Each text pays for its rows of the time so far; for later texts
 * this includes the time to return the earlier ones. */
static void text_step_settle(const step *s, bl_queue *queue)
{
    bl_generation *g = s->run.lead->batch.next, *next = NULL;
    int64_t paid_ns = 0;
    for (int64_t left = s->run.rows; g != NULL; g = next) {
        bl_batched batched = bl_queue_unbatch(queue, g->batch.rq);
        bl_step outcome = BL_STEP_DONE;
        int64_t part_ns = 0, rows = g->batch.rows;
        next = g->batch.next; /* the settled text may be freed at once */
        outcome = choose_step(g);
        part_ns = (bl_clock_ns() - s->begin_ns - paid_ns) * rows / left;
        left -= rows;
        paid_ns += part_ns;
        bl_queue_settle(queue, &batched, outcome, part_ns);
    }
}

static bl_status text_step_run(step *s, bl_err *err)
{
    BL_TRY(bl_text_run_do(&s->run, err));
    bl_metrics_add(&s->run.lead->batch.rq->server->metrics, BL_COUNT_TEXT_RUNS, 1);
    return BL_OK;
}

/* The pages have the tokens that are in the texts now. */
static void text_step_end_run(step *s)
{
    for (bl_generation *g = s->run.lead; g != NULL; g = g->batch.next)
        if (g->state.pages.pool != NULL)
            bl_text_pages_rest(&g->state.pages, g->tokens.id, g->fed);
    bl_text_run_end(&s->run);
}

bl_step bl_text_work(bl_request *rq)
{
    step s = {.run.lead = rq->data, .begin_ns = bl_clock_ns()};
    bl_err err = {0};
    bl_status st = BL_OK;
    bl_step outcome = BL_STEP_DONE;
    s.run.last = &s.run.lead;
    if (bl_access_check_time(rq) != BL_OK || !may_lead(&s, rq, &outcome))
        return outcome;
    text_step_join(&s, rq);
    take_along(&s);
    st = text_step_draft(&s, &err);
    if (st == BL_OK)
        st = text_step_run(&s, &err);
    if (st != BL_OK && s.run.rows > 1) {
        text_step_end_run(&s);
        text_step_let_go(&s, st);
        err = (bl_err){0};
        st = text_step_run(&s, &err);
    }
    if (st != BL_OK && err.status == BL_OK)
        (void)bl_fail(&err, st, "a text");
    text_step_conclude(&s, &err);
    text_step_end_run(&s);
    text_step_settle(&s, s.run.lead->state.worker->queue);
    return choose_step(s.run.lead);
}
