/* SPDX-License-Identifier: MIT */
#include "server/models/text_run.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

static const double NEW_RUN = 0.25; /* the weight of a new run in a moving average */

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

void bl_text_run_join(bl_text_run *run, bl_generation *g)
{
    g->batch.rows = 1;
    g->batch.next = NULL;
    *run->last = g;
    run->last = &g->batch.next;
    run->texts++;
    run->rows++;
}

bl_status bl_text_run_check(const bl_generation *g, bl_err *err)
{
    if (g->state.device_generation == atomic_load(&g->state.worker->dev->generation))
        return BL_OK;
    return bl_fail(err, BL_EBUSY, "the device %s was reopened while the text was written; send the request again",
                   g->state.worker->dev->info.id);
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

static void text_run_write_rows(const bl_text_run *run, int i, size_t width, char *to)
{
    const bl_model_tensor *tensor = &run->lead->version->inputs[i];
    size_t each = bl_dtype_bytes(tensor->dtype);
    for (const bl_generation *g = run->lead; g != NULL; g = g->batch.next) {
        for (size_t k = 0; k < width * (size_t)g->batch.rows; k++) {
            int64_t wide = row_value(g, i, bl_text_run_first(g) + k / width * run->count, k % width);
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
static bl_status text_run_fill_input(const bl_text_run *run, int i, size_t width, bl_err *err)
{
    bl_generation *lead = run->lead;
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
    text_run_write_rows(run, i, width, to);
    BL_TRY(bl_device_tensor_flush(*held, err));
    lead->args.buffers[i] = (*held)->buffer;
    return BL_OK;
}

/* The table has as many pages as the longest text needs. */
static bl_status fill_paged(bl_text_run *run, bl_err *err)
{
    bl_generation *lead = run->lead;
    const bl_text_model *text = lead->text;
    size_t most = 0;
    int64_t row = 0;
    for (bl_generation *g = lead; g != NULL; g = g->batch.next) {
        size_t end = g->fed + run->count * (size_t)g->batch.rows;
        most = end > most ? end : most;
        g->batch.row = row;
        row += g->batch.rows;
    }
    most = (most + BL_PAGE_TOKENS - 1) / BL_PAGE_TOKENS;
    lead->args.vars[text->pages] = (int64_t)most;
    BL_TRY(text_run_fill_input(run, text->tokens, run->count, err));
    BL_TRY(text_run_fill_input(run, text->position, 1, err));
    BL_TRY(text_run_fill_input(run, text->slots, run->count, err));
    return text_run_fill_input(run, text->table, most, err);
}

static bl_status fill_inputs(bl_text_run *run, bl_err *err)
{
    bl_generation *lead = run->lead;
    const bl_text_model *text = lead->text;
    if (text->var >= 0)
        lead->args.vars[text->var] = (int64_t)run->count;
    if (text->rows >= 0)
        lead->args.vars[text->rows] = run->rows;
    if (text->pool > 0)
        return fill_paged(run, err);
    BL_TRY(bl_text_memory_gather(lead, run->rows, &run->before, err)); /* assigns a row to each text */
    if (!text->grows)
        BL_TRY(bl_text_memory_create(lead->state.worker, text, run->rows, &run->next, err));
    for (int i = 0; i < text->npasts; i++)
        lead->args.buffers[text->pasts[i].input] = run->before->parts[i].buffer;
    BL_TRY(text_run_fill_input(run, text->tokens, run->count, err));
    return text->position >= 0 ? text_run_fill_input(run, text->position, 1, err) : BL_OK;
}

/* Lend the states to the run: those of the sequence, or those of the program, which all texts share by pages. */
static bl_status lend_states(bl_generation *lead, bl_run *call, bl_err *err)
{
    const bl_program *program = lead->state.instance->slot.program;
    if (lead->state.sequence != NULL)
        return bl_sequence_lend(lead->state.sequence, &call->states, err);
    for (int i = 0; i < bl_plan_get_info(lead->state.instance->slot.plan)->nstates; i++)
        lead->args.states[i] = program->states[lead->state.instance->slot.entry->state[i]].buffer;
    call->states = lead->args.states;
    /* a failed run may leave partial updates: slots of other texts are untouched, and those of this run are written again */
    call->torn = true;
    return BL_OK;
}

static void text_run_keep_states(bl_generation *lead)
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
static bl_status run_plan(bl_text_run *run, bl_err *err)
{
    bl_generation *lead = run->lead;
    bl_request *alone = run->texts == 1 ? lead->batch.rq : NULL;
    bl_run call = {.pool = lead->state.worker->pool,
                   .vars = lead->args.vars,
                   .inputs = lead->args.buffers,
                   .outputs = lead->args.outputs,
                   .steps = 1,
                   .cancel = alone != NULL ? &alone->cancel : NULL,
                   .deadline_ns = alone != NULL ? alone->item.deadline_ns : 0};
    int64_t start = bl_clock_ns();
    bl_status st = BL_OK;
    run->plan = bl_exact_get(lead->version, lead->state.instance, lead->args.vars);
    if (run->plan == NULL)
        run->plan = bl_plan_current(lead->state.instance->slot.plan);
    call.plan = run->plan;
    if (lead->text->pool > 0)
        BL_TRY(bl_pages_admit(lead->state.instance->pages, run->plan, err));
    BL_TRY(lend_states(lead, &call, err));
    st = bl_plan_run(&call, err);
    text_run_keep_states(lead);
    run->took_ns = bl_clock_ns() - start;
    atomic_store(&lead->state.worker->busy_ns, start + run->took_ns);
    return st;
}

/* The run is over: each text takes its row of the new pasts.  Proposed tokens are no tokens of the text yet. */
static bl_status text_run_keep(bl_text_run *run, bl_err *err)
{
    bl_generation *lead = run->lead;
    const bl_text_model *text = lead->text;
    if (text->pool > 0) {
        for (bl_generation *g = lead; g != NULL; g = g->batch.next)
            g->fed += run->count;
        return BL_OK;
    }
    BL_TRY(bl_text_memory_append(run->before, lead, run->count, lead->args.outputs, err));
    for (int i = 0; i < text->npasts && !text->grows; i++) {
        bl_buffer **output = &lead->args.outputs[text->pasts[i].output];
        if (text->pasts[i].places > 0) {
            run->next->parts[i].buffer = bl_buffer_retain(run->before->parts[i].buffer);
            continue;
        }
        run->next->parts[i].buffer = *output;
        *output = NULL;
    }
    for (bl_generation *g = lead; g != NULL; g = g->batch.next) {
        bl_text_memory_move(&g->state, text->grows ? run->before : run->next, g->batch.row);
        g->fed = bl_text_run_first(g) + run->count;
    }
    return BL_OK;
}

bool bl_text_run_is_measured(const bl_text_run *run)
{
    return run->lead->text->remembers && run->count == 1;
}

static void learn_run(const bl_text_run *run)
{
    bl_model_instance *instance = run->lead->state.instance;
    double *mean = run->count == 1 ? &instance->write_ns : run->count >= BL_PAGE_TOKENS ? &instance->token_ns : NULL;
    double ns = run->count == 1 ? (double)run->took_ns : (double)run->took_ns / (double)run->count / (double)run->rows;
    if (mean != NULL)
        *mean = *mean > 0 ? *mean + NEW_RUN * (ns - *mean) : ns;
}

bl_status bl_text_run_do(bl_text_run *run, bl_err *err)
{
    bl_generation *lead = run->lead;
    BL_TRY(bl_text_run_check(lead, err));
    BL_TRY(fill_inputs(run, err));
    BL_TRY(run_plan(run, err));
    BL_TRY(text_run_keep(run, err));
    learn_run(run);
    if (bl_text_run_is_measured(run))
        bl_instance_learn(lead->version, lead->state.instance, run->rows, run->plan, run->took_ns);
    return BL_OK;
}

void bl_text_run_end(bl_text_run *run)
{
    bl_generation *lead = run->lead;
    for (int i = 0; i < lead->version->batcher.ninputs; i++) {
        bl_device_tensor_release(lead->args.inputs[i]);
        lead->args.inputs[i] = NULL;
    }
    for (int i = 0; i < lead->version->noutputs; i++) {
        bl_pool_release(lead->state.worker->pool, lead->args.outputs[i]);
        lead->args.outputs[i] = NULL;
    }
    bl_text_memory_let_go(run->before);
    bl_text_memory_let_go(run->next);
    bl_text_memory_release(run->before);
    bl_text_memory_release(run->next);
    bl_plan_release(run->plan);
    run->before = run->next = NULL;
    run->plan = NULL;
}

bl_status bl_text_run_read(const bl_text_run *run, bl_generation *g, size_t row, size_t back, size_t *count, int32_t *id,
                           bl_err *err)
{
    bl_generation *lead = run->lead;
    const bl_plan_tensor *tensor = &bl_plan_get_info(run->plan)->outputs[g->text->output];
    int64_t dim[16] = {0};
    size_t all = 1, each = bl_dtype_bytes(tensor->dtype), from = 0;
    bl_plan_sizes(tensor, lead->args.vars, dim);
    for (int d = 0; d < tensor->ndim; d++)
        all *= (size_t)dim[d]; /* the sizes are within those that were admitted */
    all /= (size_t)run->rows;
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
