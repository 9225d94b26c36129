/* SPDX-License-Identifier: MIT */
/* Continuous batching: one run of a text model for the waiting texts that feed the same number of tokens (iteration-level
 * scheduling: Orca, Yu et al., 2022).  Each text feeds the next tokens of its prompt, or its last token.  A text of a program
 * without state feeds all its tokens.  Device time is charged to the owners of the texts in proportion. */
#include "server/models/generation.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/access/access.h"
#include "server/run/queue.h"

#include <stdlib.h>
#include <string.h>

static const int64_t CROWDED_NS = 10000000000; /* after a run ran out of device memory, runs have fewer rows for this time */
static const double PIECE_NS = 5e7;            /* maximum time of a piece of a prompt while other requests wait, or ... */
static const double PIECE_RUNS = 2;            /* ... the time of so many decoding runs: the queue shares time, not runs */
static const double NEW_RUN = 0.25;            /* the weight of a new run in a moving average */
enum { LEAST_PIECE = BL_PAGE_TOKENS };

typedef struct step {
    bl_generation *lead; /* the dispatched text; first in the list of all rows */
    bl_generation **last;
    int64_t texts, rows;
    size_t count; /* tokens of each row */
    size_t piece; /* the maximum number of tokens of a prompt in one run */
    int64_t begin_ns, took_ns;
    bl_plan *plan;                 /* retained */
    bl_text_memory *before, *next; /* retained; |next| is NULL if the pasts are updated in place */
} step;

/* ---- the choice of texts */

/* Index of the first token of its next run. */
static size_t next_token(const bl_generation *g)
{
    return g->text->remembers ? g->fed : 0;
}

static size_t next_count(const step *s, const bl_generation *g)
{
    size_t left = g->tokens.count - next_token(g), most = bl_generation_steps_singly(g) ? 1 : s->piece;
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

static void learn_run(const step *s)
{
    bl_model_instance *instance = s->lead->state.instance;
    double *mean = s->count == 1 ? &instance->write_ns : s->count >= LEAST_PIECE ? &instance->token_ns : NULL;
    double ns = s->count == 1 ? (double)s->took_ns : (double)s->took_ns / (double)s->count / (double)s->rows;
    if (mean != NULL)
        *mean = *mean > 0 ? *mean + NEW_RUN * (ns - *mean) : ns;
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
    return g != NULL && !bl_work_item_is_gated(&rq->item) && g->state.instance == s->lead->state.instance &&
           g->state.device_generation == s->lead->state.device_generation && is_begun(g) && next_count(s, g) == s->count &&
           !atomic_load(&rq->cancel) && (rq->item.deadline_ns == 0 || rq->item.deadline_ns > s->begin_ns);
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

/* Only decoding runs are measured, since the time of a prompt depends on its length. */
static bool is_measured(const step *s)
{
    return s->lead->text->remembers && s->count == 1;
}

/* Can the run have proposed tokens? */
static bool has_drafts(const step *s)
{
    return s->lead->version->config.draft.name != NULL && s->count == 1;
}

static int64_t most_rows(const step *s)
{
    const bl_model_instance *instance = s->lead->state.instance;
    int64_t rows = s->lead->version->batcher.max_rows;
    bool crowded = instance->slot.crowd > 0 && s->begin_ns - instance->slot.crowded_ns < CROWDED_NS;
    return crowded && instance->slot.crowd < rows ? instance->slot.crowd : rows;
}

/* How many of |waiting| texts take part in the run. */
static int64_t text_step_worth_rows(const step *s, int64_t waiting)
{
    bl_model_version *version = s->lead->version;
    bl_sizes *sizes = &s->lead->state.instance->slot.sizes;
    int64_t rows = waiting < most_rows(s) ? waiting : most_rows(s);
    if (version->config.batching.how.npreferred > 0)
        return preferred_rows(&version->config.batching.how, rows);
    if (rows > 1 && is_measured(s)) {
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
    g->batch.next = NULL;
    g->batch.rows = 1;
    *s->last = g;
    s->last = &g->batch.next;
    s->texts++;
    s->rows++;
}

static bl_status check_device(const bl_generation *g, bl_err *err)
{
    if (g->state.device_generation == atomic_load(&g->state.worker->dev->generation))
        return BL_OK;
    return bl_fail(err, BL_EBUSY, "the device %s was reopened while the text was written; send the request again",
                   g->state.worker->dev->info.id);
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
        st = bl_text_pages_reserve(&g->state.pages, g->fed + s->count, &ready, &rq->err);
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
        if (check_device(g, &rq->err) != BL_OK || bl_program_check(program, &rq->err) != BL_OK ||
            bl_program_wake(g->state.instance->slot.program, &rq->err) != BL_OK || begin_pages(g, rq) != BL_OK)
            return false;
    }
    s->piece = choose_piece(g);
    s->count = next_count(s, g);
    return has_pages(s, rq, outcome);
}

static void take_along(step *s)
{
    bl_queue *queue = s->lead->state.worker->queue;
    bl_work_item *item = NULL, *next = NULL;
    int64_t rows = 1;
    if (s->lead->text->rows < 0)
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
    bl_model_version *version = s->lead->version;
    double gain[BL_DRAFT_ROWS + 1];
    int64_t rows = most_rows(s) < BL_DRAFT_ROWS ? most_rows(s) : BL_DRAFT_ROWS;
    if (!has_drafts(s) || s->texts > rows)
        return BL_OK;
    rows = bl_drafts_propose(s->lead, s->texts, rows, gain);
    pthread_mutex_lock(&version->batcher.lock);
    rows = bl_sizes_choose(&s->lead->state.instance->slot.sizes, s->texts, rows, gain);
    pthread_mutex_unlock(&version->batcher.lock);
    bl_drafts_deal(s->lead, s->texts, rows);
    s->rows = 0;
    for (bl_generation *g = s->lead; g != NULL; g = g->batch.next) {
        BL_TRY(reserve_drafts(g, err));
        g->draft.proposed += g->batch.rows - 1;
        s->rows += g->batch.rows;
    }
    bl_metrics_add(&s->lead->batch.rq->server->metrics, BL_COUNT_DRAFT_TOKENS, s->rows - s->texts);
    return BL_OK;
}

/* A run of several texts failed, perhaps because of their number.  Return the other texts to the queue, and run the leading
 * text alone. */
static void text_step_let_go(step *s, bl_status why)
{
    bl_model_instance *instance = s->lead->state.instance;
    bl_generation *g = s->lead->batch.next, *next = NULL;
    if (why == BL_ENODEVMEM) {
        instance->slot.crowd = s->rows / 2;
        instance->slot.crowded_ns = s->begin_ns;
    }
    for (; g != NULL; g = next) {
        bl_batched batched = bl_queue_unbatch(g->state.worker->queue, g->batch.rq);
        next = g->batch.next;
        bl_queue_settle(g->state.worker->queue, &batched, BL_STEP_AGAIN, 0);
    }
    s->lead->batch.next = NULL;
    s->lead->batch.rows = s->texts = s->rows = 1;
}

/* ---- the run */

bl_status bl_text_args_init(bl_text_args *args, const bl_model_version *version, const bl_model_instance *instance, bl_err *err)
{
    const bl_wire_graph *graph = instance->slot.graph;
    const bl_text_model *text = version->text;
    size_t ninputs = (size_t)version->batcher.ninputs;
    args->vars = bl_calloc((size_t)version->batcher.nvars + 1, sizeof *args->vars);
    args->inputs = bl_calloc(ninputs + 1, sizeof *args->inputs);
    args->buffers = bl_calloc(ninputs + 1, sizeof(bl_buffer *));
    args->outputs = bl_calloc((size_t)version->noutputs + 1, sizeof(bl_buffer *));
    args->states = bl_calloc((size_t)bl_plan_get_info(instance->slot.plan)->nstates + 1, sizeof(bl_buffer *));
    if (args->vars == NULL || args->inputs == NULL || args->buffers == NULL || args->outputs == NULL || args->states == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    for (int i = 0; i < version->batcher.nvars; i++)
        args->vars[i] = graph->vars[i].lo > 1 ? graph->vars[i].lo : 1;
    if (text->var >= 0)
        args->vars[text->var] = text->chunk;
    if (text->pool > 0)
        args->vars[text->pages] = graph->vars[text->pages].hi;
    return BL_OK;
}

void bl_text_args_fini(bl_text_args *args)
{
    free(args->vars);
    free(args->inputs);
    free(args->buffers);
    free(args->outputs);
    free(args->states);
}

/* Element |k| of input |i| in a row that begins with token |from| of |g|. */
static int64_t row_value(const bl_generation *g, int i, size_t from, size_t k)
{
    const bl_text_model *text = g->text;
    if (i == text->slots)
        return bl_text_pages_place(&g->state.pages, from + k);
    if (i == text->table)
        return bl_text_pages_page(&g->state.pages, k);
    return i == text->position ? (int64_t)from : g->tokens.id[from + k];
}

static void text_step_write_rows(const step *s, int i, size_t width, char *to)
{
    const bl_model_tensor *tensor = &s->lead->version->inputs[i];
    size_t each = bl_dtype_bytes(tensor->dtype);
    for (const bl_generation *g = s->lead; g != NULL; g = g->batch.next) {
        for (size_t k = 0; k < width * (size_t)g->batch.rows; k++) {
            int64_t wide = row_value(g, i, next_token(g) + k / width * s->count, k % width);
            int32_t narrow = (int32_t)wide;
            char *at = to + ((size_t)g->batch.row * width + k) * each;
            if (tensor->dtype == BL_I64)
                memcpy(at, &wide, sizeof wide);
            else
                memcpy(at, &narrow, sizeof narrow);
        }
    }
}

/* |width| elements in each row. */
static bl_status text_step_fill_input(const step *s, int i, size_t width, bl_err *err)
{
    bl_generation *lead = s->lead;
    const bl_model_tensor *tensor = &lead->version->inputs[i];
    bl_device_tensor **held = &lead->args.inputs[i];
    int64_t dim[16];
    char *to = NULL;
    for (int d = 0; d < tensor->ndim; d++)
        dim[d] = tensor->var[d] >= 0 ? lead->args.vars[tensor->var[d]] : tensor->dim[d];
    BL_TRY(bl_device_tensor_create(lead->state.worker, tensor->dtype, tensor->ndim, dim, held, err));
    to = bl_device_tensor_host(*held);
    if (to == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for tokens");
    text_step_write_rows(s, i, width, to);
    BL_TRY(bl_device_tensor_flush(*held, err));
    lead->args.buffers[i] = (*held)->buffer;
    return BL_OK;
}

/* The table has as many pages as the longest text needs. */
static bl_status fill_paged(step *s, bl_err *err)
{
    bl_generation *lead = s->lead;
    const bl_text_model *text = lead->text;
    size_t most = 0;
    int64_t row = 0;
    for (bl_generation *g = lead; g != NULL; g = g->batch.next) {
        size_t end = g->fed + s->count * (size_t)g->batch.rows;
        most = end > most ? end : most;
        g->batch.row = row;
        row += g->batch.rows;
    }
    most = (most + BL_PAGE_TOKENS - 1) / BL_PAGE_TOKENS;
    lead->args.vars[text->pages] = (int64_t)most;
    BL_TRY(text_step_fill_input(s, text->tokens, s->count, err));
    BL_TRY(text_step_fill_input(s, text->position, 1, err));
    BL_TRY(text_step_fill_input(s, text->slots, s->count, err));
    return text_step_fill_input(s, text->table, most, err);
}

static bl_status fill_inputs(step *s, bl_err *err)
{
    bl_generation *lead = s->lead;
    const bl_text_model *text = lead->text;
    if (text->var >= 0)
        lead->args.vars[text->var] = (int64_t)s->count;
    if (text->rows >= 0)
        lead->args.vars[text->rows] = s->rows;
    if (text->pool > 0)
        return fill_paged(s, err);
    BL_TRY(bl_text_memory_gather(lead, s->rows, &s->before, err)); /* assigns a row to each text */
    if (!text->grows)
        BL_TRY(bl_text_memory_create(lead->state.worker, text, s->rows, &s->next, err));
    for (int i = 0; i < text->npasts; i++)
        lead->args.buffers[text->pasts[i].input] = s->before->parts[i].buffer;
    BL_TRY(text_step_fill_input(s, text->tokens, s->count, err));
    return text->position >= 0 ? text_step_fill_input(s, text->position, 1, err) : BL_OK;
}

/* Lend the states to the run: those of the sequence, or those of the program, which all texts share by pages. */
static bl_status lend_states(bl_generation *lead, bl_run *run, bl_err *err)
{
    const bl_program *program = lead->state.instance->slot.program;
    if (lead->state.sequence != NULL)
        return bl_sequence_lend(lead->state.sequence, &run->states, err);
    for (int i = 0; i < bl_plan_get_info(lead->state.instance->slot.plan)->nstates; i++)
        lead->args.states[i] = program->states[lead->state.instance->slot.entry->state[i]].buffer;
    run->states = lead->args.states;
    /* a failed run may leave partial updates: slots of other texts are untouched, and those of this run are written again */
    run->torn = true;
    return BL_OK;
}

static void text_step_keep_states(bl_generation *lead)
{
    bl_program *program = lead->state.instance->slot.program;
    if (lead->state.sequence != NULL) {
        bl_sequence_keep(lead->state.sequence);
        return;
    }
    for (int i = 0; i < bl_plan_get_info(lead->state.instance->slot.plan)->nstates; i++)
        bl_program_take_back(program, &program->states[lead->state.instance->slot.entry->state[i]], lead->args.states[i]);
}

/* Run the best plan that exists for this size.  A run of a single text is cancelled when its client leaves. */
static bl_status run_plan(step *s, bl_err *err)
{
    bl_generation *lead = s->lead;
    bl_request *alone = s->texts == 1 ? lead->batch.rq : NULL;
    bl_run run = {.pool = lead->state.worker->pool,
                  .vars = lead->args.vars,
                  .inputs = lead->args.buffers,
                  .outputs = lead->args.outputs,
                  .steps = 1,
                  .cancel = alone != NULL ? &alone->cancel : NULL,
                  .deadline_ns = alone != NULL ? alone->item.deadline_ns : 0};
    int64_t start = bl_clock_ns();
    bl_status st = BL_OK;
    s->plan = bl_exact_get(lead->version, lead->state.instance, lead->args.vars);
    if (s->plan == NULL)
        s->plan = bl_plan_current(lead->state.instance->slot.plan);
    run.plan = s->plan;
    if (lead->text->pool > 0)
        BL_TRY(bl_pages_admit(lead->state.instance->pages, s->plan, err));
    BL_TRY(lend_states(lead, &run, err));
    st = bl_plan_run(&run, err);
    text_step_keep_states(lead);
    s->took_ns = bl_clock_ns() - start;
    atomic_store(&lead->state.worker->busy_ns, start + s->took_ns);
    return st;
}

/* The run is over: each text takes its row of the new pasts.  Proposed tokens are no tokens of the text yet. */
static bl_status text_step_keep(step *s, bl_err *err)
{
    bl_generation *lead = s->lead;
    const bl_text_model *text = lead->text;
    if (text->pool > 0) {
        for (bl_generation *g = lead; g != NULL; g = g->batch.next)
            g->fed += s->count;
        return BL_OK;
    }
    BL_TRY(bl_text_memory_append(s->before, lead, s->count, lead->args.outputs, err));
    for (int i = 0; i < text->npasts && !text->grows; i++) {
        bl_buffer **output = &lead->args.outputs[text->pasts[i].output];
        if (text->pasts[i].places > 0) {
            s->next->parts[i].buffer = bl_buffer_retain(s->before->parts[i].buffer);
            continue;
        }
        s->next->parts[i].buffer = *output;
        *output = NULL;
    }
    for (bl_generation *g = lead; g != NULL; g = g->batch.next) {
        bl_text_memory_move(&g->state, text->grows ? s->before : s->next, g->batch.row);
        g->fed = next_token(g) + s->count;
    }
    return BL_OK;
}

static bl_status text_step_run(step *s, bl_err *err)
{
    bl_generation *lead = s->lead;
    BL_TRY(check_device(lead, err));
    BL_TRY(fill_inputs(s, err));
    BL_TRY(run_plan(s, err));
    BL_TRY(text_step_keep(s, err));
    bl_metrics_add(&lead->batch.rq->server->metrics, BL_COUNT_TEXT_RUNS, 1);
    learn_run(s);
    if (is_measured(s))
        bl_instance_learn(lead->version, lead->state.instance, s->rows, s->plan, s->took_ns);
    return BL_OK;
}

/* Release what only the run needed, whether or not it succeeded. */
static void text_step_end_run(step *s)
{
    bl_generation *lead = s->lead;
    for (int i = 0; i < lead->version->batcher.ninputs; i++) {
        bl_device_tensor_release(lead->args.inputs[i]);
        lead->args.inputs[i] = NULL;
    }
    for (int i = 0; i < lead->version->noutputs; i++) {
        bl_pool_release(lead->state.worker->pool, lead->args.outputs[i]);
        lead->args.outputs[i] = NULL;
    }
    for (bl_generation *g = lead; g != NULL && lead->text->pool > 0; g = g->batch.next)
        if (g->state.pages.pool != NULL)
            bl_text_pages_rest(&g->state.pages, g->tokens.id, g->fed);
    bl_text_memory_let_go(s->before);
    bl_text_memory_let_go(s->next);
    bl_text_memory_release(s->before);
    bl_text_memory_release(s->next);
    bl_plan_release(s->plan);
    s->before = s->next = NULL;
    s->plan = NULL;
}

/* ---- the results */

/* Read the |*count| logits of row |row| of |g| into g->logits: those of the token |back| places before the last token.  If the
 * model chooses tokens, |*id| is the chosen token. */
static bl_status read_logits(const step *s, bl_generation *g, size_t row, size_t back, size_t *count, int32_t *id, bl_err *err)
{
    bl_generation *lead = s->lead;
    const bl_plan_tensor *tensor = &bl_plan_get_info(s->plan)->outputs[g->text->output];
    int64_t dim[16] = {0};
    size_t all = 1, each = bl_dtype_bytes(tensor->dtype), from = 0;
    bl_plan_sizes(tensor, lead->args.vars, dim);
    for (int d = 0; d < tensor->ndim; d++)
        all *= (size_t)dim[d]; /* the sizes are within those that were admitted */
    all /= (size_t)s->rows;
    *count = g->text->chooses ? 1 : (size_t)dim[tensor->ndim - 1];
    if (all < (back + 1) * *count)
        return bl_fail(err, BL_EGRAPH, "model \"%s\" returned no output", g->version->name);
    from = ((size_t)g->batch.row + row + 1) * all - (back + 1) * *count;
    BL_TRY(bl_buffer_read(lead->args.outputs[g->text->output], from * each, g->bytes, *count * each, err));
    if (g->text->chooses) {
        int64_t value = bl_scalar_read(tensor->dtype, g->bytes).i;
        *id = value >= 0 && value < INT32_MAX ? (int32_t)value : INT32_MAX;
    } else {
        bl_floats_read(tensor->dtype, g->bytes, *count, g->logits);
    }
    return BL_OK;
}

/* Score the tokens of the prompt that follow the tokens of the run. */
static bl_status score_prompt(const step *s, bl_generation *g)
{
    size_t first = g->fed - s->count, count = 0;
    int32_t id = 0;
    for (size_t i = 0; i < s->count && first + i + 1 < g->prompt; i++) {
        BL_TRY(read_logits(s, g, 0, s->count - 1 - i, &count, &id, &g->batch.rq->err));
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
        BL_TRY(read_logits(s, g, i, 0, &count, &id, &rq->err));
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
    for (bl_generation *g = s->lead; g != NULL; g = g->batch.next) {
        bl_status st = err->status;
        bl_request_trace_add(&g->batch.rq->trace, BL_TIME_COMPUTE, s->begin_ns, s->begin_ns + s->took_ns);
        g->compute_ns += s->took_ns;
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
    if (rests)
        bl_text_pages_wait(&g->state.pages);
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
    bl_generation *g = s->lead->batch.next, *next = NULL;
    int64_t paid_ns = 0;
    for (int64_t left = s->rows; g != NULL; g = next) {
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

bl_step bl_text_work(bl_request *rq)
{
    step s = {.lead = rq->data, .begin_ns = bl_clock_ns()};
    bl_err err = {0};
    bl_status st = BL_OK;
    bl_step outcome = BL_STEP_DONE;
    s.last = &s.lead;
    if (bl_access_check_time(rq) != BL_OK || !may_lead(&s, rq, &outcome))
        return outcome;
    text_step_join(&s, rq);
    take_along(&s);
    st = text_step_draft(&s, &err);
    if (st == BL_OK)
        st = text_step_run(&s, &err);
    if (st != BL_OK && s.rows > 1) {
        text_step_end_run(&s);
        text_step_let_go(&s, st);
        err = (bl_err){0};
        st = text_step_run(&s, &err);
    }
    if (st != BL_OK && err.status == BL_OK)
        (void)bl_fail(&err, st, "a text");
    text_step_conclude(&s, &err);
    text_step_end_run(&s);
    text_step_settle(&s, s.lead->state.worker->queue);
    return choose_step(s.lead);
}
