/* SPDX-License-Identifier: MIT */
#include "server/run/exec.h"

#include "engine/base/clock.h"
#include "server/run/reply.h"
#include "server/store/registry.h"

#include <stdlib.h>
#include <string.h>

enum { FILL_BYTES = 1024 * 1024, PACE_GROWTH = 8 };

/* ---- initial contents of hidden states */

/* Fill |buffer| with repetitions of |pattern|. */
static bl_status exec_run_fill_buffer(bl_buffer *buffer, const void *pattern, size_t size, size_t bytes, bl_err *err)
{
    size_t chunk = bytes < FILL_BYTES ? bytes : FILL_BYTES; /* a multiple of every element size */
    char *data = malloc(chunk > 0 ? chunk : 1);
    bl_status st = BL_OK;
    if (data == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a state of %zu bytes", bytes);
    for (size_t at = 0; at + size <= chunk; at += size)
        memcpy(data + at, pattern, size);
    for (size_t at = 0; at < bytes && st == BL_OK; at += chunk)
        st = bl_buffer_write(buffer, at, data, bytes - at < chunk ? bytes - at : chunk, err);
    free(data);
    return st;
}

bl_status bl_state_begin(bl_worker *worker, const bl_plan_tensor *hidden, const int64_t *dim, uint64_t seed, bl_buffer **out,
                         size_t *bytes, bl_err *err)
{
    unsigned char pattern[8] = {0};
    uint32_t rng[2] = {(uint32_t)seed, 0};
    bl_scalar init = {.f = hidden->init};
    size_t count = 0;
    bl_status st = BL_OK;
    *out = NULL;
    BL_TRY(bl_tensor_measure(hidden->name, hidden->dtype, hidden->ndim, dim, &worker->server->limits, &count, bytes, err));
    BL_TRY(bl_pool_alloc(worker->pool, *bytes, out, err));
    if (strcmp(hidden->name, "rng") == 0 && *bytes == sizeof rng) {
        st = bl_buffer_write(*out, 0, rng, sizeof rng, err);
    } else {
        bl_scalar_write(hidden->dtype, bl_scalar_cast(hidden->dtype, BL_F64, init), pattern);
        st = exec_run_fill_buffer(*out, pattern, bl_dtype_bytes(hidden->dtype), *bytes, err);
    }
    if (st != BL_OK) {
        bl_pool_release(worker->pool, *out);
        *out = NULL;
    }
    return st;
}

/* ---- before the first step; on the worker's thread */

/* Prepare the states.  A run without a program has only the hidden states of its graph. */
static bl_status begin_states(bl_exec *x, const bl_plan_info *info)
{
    size_t bytes = 0;
    x->hold.states = bl_arena_array(x->rq->arena, (size_t)(info->nstates + info->nhidden) + 1, sizeof(bl_buffer *));
    if (x->hold.states == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    if (x->hold.program != NULL) {
        BL_TRY(bl_program_check(x->hold.program, &x->rq->err));
        return bl_program_check_free(x->hold.program, info, &x->rq->err);
    }
    if (x->hold.lender != NULL)
        BL_TRY(bl_program_check(x->hold.lender, &x->rq->err));
    for (int i = 0; (x->hold.lender != NULL || x->hold.lent != NULL) && i < info->nstates + info->nhidden; i++)
        x->hold.states[i] =
            bl_buffer_retain(x->hold.lent != NULL ? x->hold.lent[i] : x->hold.lender->states[x->hold.entry->state[i]].buffer);
    for (int i = 0; x->hold.lender == NULL && x->hold.lent == NULL && i < info->nhidden; i++) {
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
        bl_plan_sizes(&info->hidden[i], x->vars, dim);
        BL_TRY(bl_state_begin(x->worker, &info->hidden[i], dim, x->options.seed, &x->hold.states[info->nstates + i], &bytes,
                              &x->rq->err));
    }
    return BL_OK;
}

static bl_status begin_series(bl_exec *x)
{
    if (x->series.every == 0)
        return BL_OK;
    x->series.data = bl_arena_array(x->rq->arena, (size_t)x->series.n + 1, sizeof *x->series.data);
    if (x->series.data == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    for (int i = 0; i < x->series.n; i++) {
        const bl_plan_tensor *tensor = &bl_plan_get_info(x->plan)->outputs[x->series.outputs[i]];
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {(int64_t)(x->steps / x->series.every)};
        size_t count = 0, bytes = 0;
        if (tensor->ndim + 1 > BL_DEVICE_TENSOR_DIMS)
            return bl_fail(&x->rq->err, BL_ELIMIT, "collect: too many dimensions");
        bl_plan_sizes(tensor, x->vars, dim + 1);
        BL_TRY(bl_tensor_measure("collect", tensor->dtype, tensor->ndim + 1, dim, &x->rq->server->limits, &count, &bytes,
                                 &x->rq->err));
        x->series.data[i] = bl_request_alloc(x->rq, bytes, "a collected series");
        if (x->series.data[i] == NULL)
            return x->rq->err.status;
    }
    return BL_OK;
}

static bl_status exec_run_begin(bl_exec *x)
{
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    bl_err *err = &x->rq->err;
    int64_t start = bl_clock_ns();
    BL_TRY(begin_states(x, info));
    if (x->generation != atomic_load(&x->worker->dev->generation))
        return bl_fail(err, BL_EBUSY, "%s was reopened while the request waited; send the request again", info->device);
    for (int i = 0; i < x->in.n; i++)
        if (x->in.tensors[i]->scratch != NULL && x->in.tensors[i]->worker == x->worker)
            BL_TRY(bl_device_tensor_flush(x->in.tensors[i], err));
    x->out.buffers = bl_arena_array(x->rq->arena, (size_t)info->noutputs + 1, sizeof(bl_buffer *));
    x->out.tensors = bl_arena_array(x->rq->arena, (size_t)info->noutputs + 1, sizeof *x->out.tensors);
    x->out.copies = bl_arena_array(x->rq->arena, (size_t)info->noutputs + 1, sizeof *x->out.copies);
    if (x->how.debug >= 2)
        x->launch_ns = bl_arena_array(x->rq->arena, (size_t)info->kernels + info->helpers + 1, sizeof *x->launch_ns);
    x->in.buffers = bl_arena_array(x->rq->arena, (size_t)x->in.n + 1, sizeof(bl_buffer *));
    BL_TRY(bl_arena_status(x->rq->arena, err));
    BL_TRY(begin_series(x));
    bl_request_trace_add(&x->rq->trace, BL_TIME_COPY, start, bl_clock_ns());
    return BL_OK;
}

/* ---- device buffers that a turn retains */

static bl_status exec_run_hold_inputs(bl_exec *x)
{
    for (int i = 0; i < x->in.n; i++)
        BL_TRY(bl_device_tensor_wake(x->in.tensors[i], &x->in.buffers[i], &x->rq->err));
    return BL_OK;
}

static bl_status make_ready(bl_exec *x)
{
    bool first = !bl_exec_has_begun(x);
    if (first)
        bl_exec_step(x, BL_EXEC_ON_BEGIN);
    if (x->hold.program != NULL || (x->hold.lender != NULL && first)) /* a run retains the buffers of lent states until it ends */
        BL_TRY(bl_program_wake(x->hold.program != NULL ? x->hold.program : x->hold.lender, &x->rq->err));
    if (first)
        BL_TRY(exec_run_begin(x));
    return exec_run_hold_inputs(x);
}

static void exec_run_free_outputs(bl_exec *x)
{
    for (int i = 0; x->out.buffers != NULL && i < bl_plan_get_info(x->plan)->noutputs; i++) {
        bl_pool_release(x->worker->pool, x->out.buffers[i]);
        x->out.buffers[i] = NULL;
    }
}

static void exec_run_let_inputs_go(bl_exec *x)
{
    for (int i = 0; x->in.buffers != NULL && i < x->in.n; i++) {
        bl_pool_release(x->worker->pool, x->in.buffers[i]);
        x->in.buffers[i] = NULL;
    }
}

/* Run again alone after a lack of device memory, which runs in flight may have caused.  The run repeats when those runs have
 * completed. */
static bl_step exec_run_retry(bl_exec *x)
{
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    for (int i = 0; x->hold.states != NULL && i < info->nstates + info->nhidden; i++) {
        bl_pool_release(x->worker->pool, x->hold.states[i]);
        x->hold.states[i] = NULL;
    }
    bl_exec_step(x, BL_EXEC_ON_RETRY);
    x->rq->item.mode = BL_WORK_ALONE;
    x->rq->err = (bl_err){0};
    return BL_STEP_AGAIN;
}

/* ---- steps */

static bl_status exec_run_collect(void *arg, uint64_t step, bl_buffer *const *outputs, bl_err *err)
{
    bl_exec *x = arg;
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    (void)step;
    if (x->series.count >= x->steps / x->series.every)
        return BL_OK;
    for (int i = 0; i < x->series.n; i++) {
        const bl_plan_tensor *tensor = &info->outputs[x->series.outputs[i]];
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
        size_t bytes = bl_dtype_bytes(tensor->dtype);
        bl_plan_sizes(tensor, x->vars, dim);
        for (int d = 0; d < tensor->ndim; d++)
            bytes *= (size_t)dim[d];
        if (bytes > 0)
            BL_TRY(bl_buffer_read(outputs[x->series.outputs[i]], 0, x->series.data[i] + x->series.count * bytes, bytes, err));
    }
    x->series.count++;
    return BL_OK;
}

uint64_t bl_pace_choose(uint64_t done, uint64_t left, uint64_t pace, uint64_t every, bool *periods)
{
    uint64_t n = left < pace ? left : pace;
    uint64_t offset = every > 0 ? done % every : 0;
    *periods = every > 0 && offset == 0 && n >= every;
    if (*periods)
        return n - n % every;
    return every > 0 && n > every - offset ? every - offset : n;
}

uint64_t bl_pace_learn(uint64_t did, int64_t took_ns, int64_t slice_ns)
{
    uint64_t most = did * PACE_GROWTH;
    uint64_t pace = took_ns > 0 ? (uint64_t)((double)did * (double)slice_ns / (double)took_ns) : most;
    pace = pace > most ? most : pace;
    return pace > 0 ? pace : 1;
}

/* Take the state buffers of the program in the order of the entry.  give_states puts back the buffers that the run
 * exchanged. */
static void take_states(bl_exec *x)
{
    for (int i = 0; x->hold.program != NULL && i < x->hold.entry->nstates; i++)
        x->hold.states[i] = x->hold.program->states[x->hold.entry->state[i]].buffer;
}

static void give_states(bl_exec *x)
{
    for (int i = 0; x->hold.program != NULL && i < x->hold.entry->nstates; i++)
        bl_program_take_back(x->hold.program, &x->hold.program->states[x->hold.entry->state[i]], x->hold.states[i]);
}

static bool exec_run_is_wanted(void *queue)
{
    return bl_queue_is_wanted(queue);
}

static bl_status run_some(bl_exec *x, int64_t *took)
{
    bool periods = false;
    int64_t start = bl_clock_ns();
    bl_status st = BL_OK;
    exec_run_free_outputs(x);
    take_states(x);
    bl_run run = {.plan = x->plan,
                  .pool = x->worker->pool,
                  .vars = x->vars,
                  .inputs = x->in.buffers,
                  .states = x->hold.states,
                  .holders = x->hold.lent != NULL ? 2 : 1, /* holders of a lent state: the lender and this run */
                  .outputs = x->out.buffers,
                  .steps = bl_pace_choose(x->done, x->steps - x->done, x->pace, x->series.every, &periods),
                  .cancel = &x->rq->cancel,
                  .deadline_ns = x->rq->item.deadline_ns,
                  .yield = exec_run_is_wanted,
                  .yield_arg = x->worker->queue,
                  .every = periods ? x->series.every : 0,
                  .collect = periods ? exec_run_collect : NULL,
                  .collect_arg = x,
                  .timed = x->launch_ns != NULL,
                  .launch_ns = x->launch_ns};
    st = bl_plan_run(&run, &x->rq->err);
    give_states(x);
    x->done += run.steps_done;
    atomic_store(&x->worker->busy_ns, bl_clock_ns());
    *took = bl_clock_ns() - start;
    bl_request_trace_add(&x->rq->trace, BL_TIME_COMPUTE, start, start + *took);
    if (st == BL_OK && x->series.every > 0 && !periods && x->done % x->series.every == 0)
        st = exec_run_collect(x, x->done, x->out.buffers, &x->rq->err);
    return st;
}

/* Run steps for about one slice.  A slice is the time that other requests may have to wait. */
static bl_status exec_run_run_slice(bl_exec *x)
{
    int64_t slice = (int64_t)(x->rq->server->settings.slice * 1e9), spent = 0;
    do {
        uint64_t before = x->done;
        int64_t took = 0;
        BL_TRY(run_some(x, &took));
        spent += took;
        x->pace = bl_pace_learn(x->done - before, took, slice);
    } while (x->done < x->steps && spent < slice && !bl_queue_is_wanted(x->worker->queue));
    return BL_OK;
}

/* ---- after the last step */

static const char *contents_of(const bl_exec *x, int i)
{
    return x->out.copies[i] != NULL ? x->out.copies[i] : bl_device_tensor_mapped(x->out.tensors[i]);
}

/* The length of the counted axis of output |i|.  Another output contains this length. */
static int64_t counted_length(const bl_exec *x, int i)
{
    const bl_wire_output *output = &x->graph->outputs[i];
    int64_t n = 0, most = x->out.tensors[i]->dim[output->axis];
    memcpy(&n, contents_of(x, output->count), sizeof n);
    return n < 0 ? 0 : n > most ? most : n;
}

/* The number of rows before the counted axis.  Each row is compacted to the counted length. */
static int64_t rows_before(const bl_exec *x, int i)
{
    int64_t rows = 1;
    for (int d = 0; d < x->graph->outputs[i].axis; d++)
        rows *= x->out.tensors[i]->dim[d];
    return rows;
}

static void close_up(bl_exec *x, int i)
{
    const bl_device_tensor *held = x->out.tensors[i];
    int64_t rows = rows_before(x, i), most = held->dim[x->graph->outputs[i].axis];
    size_t each = rows * most > 0 ? held->bytes / (size_t)(rows * most) : 0, kept = each * (size_t)counted_length(x, i);
    for (int64_t row = 1; row < rows; row++)
        memmove(x->out.copies[i] + (size_t)row * kept, x->out.copies[i] + (size_t)(row * most) * each, kept);
}

static bl_status exec_run_take_results(bl_exec *x, const bl_plan_info *info)
{
    for (int i = 0; i < info->noutputs; i++) {
        const bl_plan_tensor *tensor = &info->outputs[i];
        bl_buffer *buffer = x->out.buffers[i];
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
        bl_plan_sizes(tensor, x->vars, dim);
        x->out.buffers[i] = NULL;
        BL_TRY(bl_device_tensor_wrap(x->worker, buffer, tensor->dtype, tensor->ndim, dim, &x->out.tensors[i], &x->rq->err));
        bool moves = x->graph->outputs[i].count > 0 && rows_before(x, i) > 1;
        if (bl_exec_keeps(x, i) || (bl_device_tensor_mapped(x->out.tensors[i]) != NULL && !moves))
            continue;
        x->out.copies[i] = bl_request_alloc(x->rq, x->out.tensors[i]->bytes, "a result");
        if (x->out.copies[i] == NULL)
            return x->rq->err.status;
        BL_TRY(bl_device_tensor_read(x->out.tensors[i], x->out.copies[i], &x->rq->err));
        bl_device_tensor_empty(x->out.tensors[i]);
    }
    for (int i = 0; i < bl_wire_shown(x->graph); i++) {
        if (x->graph->outputs[i].count > 0 && rows_before(x, i) > 1)
            close_up(x, i);
    }
    return BL_OK;
}

static bl_status exec_run_finish(bl_exec *x)
{
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    int64_t start = bl_clock_ns();
    BL_TRY(exec_run_take_results(x, info));
    for (int i = 0; i < info->noutputs; i++) {
        if (bl_exec_keeps(x, i))
            BL_TRY(bl_registry_put(x->rq->server->registry, x->rq, x->options.lease, x->out.kept[i], x->out.tensors[i],
                                   &x->rq->err));
    }
    bl_request_trace_add(&x->rq->trace, BL_TIME_COPY, start, bl_clock_ns());
    if (x->how.debug >= 1)
        bl_text_puts(&x->report, info->debug);
    if (x->launch_ns != NULL)
        bl_plan_report(x->plan, x->vars, x->launch_ns, x->steps, bl_worker_peaks(x->worker), &x->report);
    bl_metrics_add(&x->rq->server->metrics, x->hit ? BL_COUNT_RUNS_CACHED : BL_COUNT_RUNS_COMPILED, 1);
    bl_metrics_add(&x->rq->server->metrics, BL_COUNT_RUNS_INTERPRETED, info->interpreted > 0);
    return BL_OK;
}

/* ---- one short run, submitted without waiting for the run before */

static bl_run exec_run_of_step(bl_exec *x)
{
    return (bl_run){.plan = x->plan,
                    .pool = x->worker->pool,
                    .vars = x->vars,
                    .inputs = x->in.buffers,
                    .states = x->hold.states,
                    .outputs = x->out.buffers,
                    .steps = 1,
                    .cancel = &x->rq->cancel,
                    .deadline_ns = x->rq->item.deadline_ns};
}

static bl_status exec_run_submit(bl_exec *x)
{
    bl_run run = exec_run_of_step(x);
    int64_t start = bl_clock_ns();
    bl_status st = bl_plan_submit(&run, &x->rq->err);
    bl_request_trace_add(&x->rq->trace, BL_TIME_COMPUTE, start, bl_clock_ns());
    if (st == BL_OK)
        bl_exec_step(x, BL_EXEC_ON_SUBMIT);
    return st;
}

/* Complete the run.  Of the runs in flight, the first to complete waits for all of them. */
static bl_status exec_run_complete(bl_exec *x)
{
    bl_run run = exec_run_of_step(x);
    int64_t start = bl_clock_ns();
    bl_status st = bl_plan_finish(&run, x->rq->trace.time_ns[BL_TIME_COMPUTE], &x->rq->err);
    bl_request_trace_add(&x->rq->trace, BL_TIME_COMPUTE, start, bl_clock_ns());
    x->done = run.steps_done;
    atomic_store(&x->worker->busy_ns, bl_clock_ns());
    return st;
}

/* Begin or continue the run: run a slice, or submit a single short step. */
static bl_status exec_run_go_on(bl_exec *x)
{
    BL_TRY(make_ready(x));
    return x->rq->item.mode != BL_WORK_ALONE && !bl_plan_is_due(x->plan) ? exec_run_submit(x) : exec_run_run_slice(x);
}

bl_step bl_exec_run(bl_request *rq)
{
    bl_exec *x = rq->data;
    uint64_t before = x->done;
    bool submitted = x->state == BL_EXEC_IN_FLIGHT;
    bl_status st = submitted ? exec_run_complete(x) : exec_run_go_on(x);
    if (!submitted && x->state == BL_EXEC_IN_FLIGHT)
        return BL_STEP_IN_FLIGHT;
    exec_run_let_inputs_go(x);
    if (st == BL_ENODEVMEM && !submitted && rq->item.mode != BL_WORK_ALONE)
        return exec_run_retry(x);
    if (x->hold.program != NULL) {
        bl_program_count(x->hold.program, x->done - before);
        rq->reply.problem_step = (long long)x->done;
    }
    if (st == BL_OK && x->done < x->steps) {
        exec_run_free_outputs(x);
        return BL_STEP_AGAIN;
    }
    if (st == BL_OK)
        (void)exec_run_finish(x);
    bl_exec_step(x, BL_EXEC_ON_END);
    return BL_STEP_DONE;
}

/* ---- the answer, on the HTTP thread */

void bl_exec_take(const bl_exec *x, int64_t all, int64_t from, int64_t rows, bl_part *parts)
{
    for (int i = 0; i < bl_wire_shown(x->graph); i++) {
        const bl_device_tensor *held = x->out.tensors[i];
        const char *data = contents_of(x, i);
        size_t bytes = held->bytes;
        parts[i].ndim = held->ndim;
        memcpy(parts[i].dim, held->dim, sizeof parts[i].dim);
        if (x->graph->outputs[i].count > 0) {
            int axis = x->graph->outputs[i].axis;
            parts[i].dim[axis] = counted_length(x, i);
            bytes = held->dim[axis] > 0 ? bytes / (size_t)held->dim[axis] * (size_t)parts[i].dim[axis] : 0;
        }
        if (all > 0) {
            size_t each = bytes / (size_t)all;
            data += each * (size_t)from;
            bytes = each * (size_t)rows;
            parts[i].dim[0] = rows;
        }
        parts[i].data = data;
        parts[i].count = bytes / bl_dtype_bytes(held->dtype);
    }
}

static void exec_run_fill_result(const bl_exec *x, const bl_part *parts, int i, const char *name, bl_result *out)
{
    const bl_part *part = &parts[i];
    *out = (bl_result){.name = name, .dtype = bl_plan_get_info(x->plan)->outputs[i].dtype, .ndim = part->ndim};
    memcpy(out->dim, part->dim, sizeof out->dim);
    out->count = part->count;
    out->data = part->data;
}

/* Fill |out| with output |collect[i]| of every reported step, along a new first dimension. */
static void fill_series(const bl_exec *x, int i, const char *name, bl_result *out)
{
    const bl_device_tensor *held = x->out.tensors[x->series.outputs[i]];
    *out = (bl_result){.name = name, .dtype = held->dtype, .ndim = held->ndim + 1, .data = x->series.data[i]};
    out->dim[0] = (int64_t)x->series.count;
    memcpy(out->dim + 1, held->dim, sizeof out->dim - sizeof out->dim[0]);
    out->count = x->series.count * (held->bytes / bl_dtype_bytes(held->dtype));
}

static void put_stats(const bl_exec *x, bl_text *out)
{
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    const int64_t *ns = x->rq->trace.time_ns;
    bl_run_stats stats = {.device = info->device,
                          .cached = x->hit,
                          .kernels = info->kernels,
                          .helpers = info->helpers,
                          .interpreted = info->interpreted,
                          .peak_bytes = info->peak_bytes,
                          .ops = (uint64_t)info->ops,
                          .bytes = (uint64_t)info->bytes,
                          .queue_ms = (double)ns[BL_TIME_QUEUE] * 1e-6,
                          .compile_ms = (double)ns[BL_TIME_COMPILE] * 1e-6,
                          .compute_ms = (double)ns[BL_TIME_COMPUTE] * 1e-6,
                          .copy_ms = (double)ns[BL_TIME_COPY] * 1e-6,
                          .time_ms = bl_clock_ms(x->rq->start_ns, bl_clock_ns()),
                          .debug = x->how.debug >= 1 ? (x->report.data != NULL ? x->report.data : "") : NULL};
    bl_encode_key(out, "stats");
    bl_encode_stats(out, &stats);
}

void bl_exec_put_explained(const bl_exec *x, bl_text *out)
{
    if (x->explained == NULL)
        return;
    bl_encode_key(out, "plan_detail");
    bl_explain_put(out, x->explained);
}

/* Fill |results|: first the results to send, then the results that stay on the server. */
static int fill_results(const bl_exec *x, const bl_part *parts, int noutputs, bl_result *results)
{
    int n = 0, nsent = 0;
    for (int i = 0; i < noutputs; i++) {
        if (!bl_exec_keeps(x, i))
            exec_run_fill_result(x, parts, i, x->graph->outputs[i].name, &results[n++]);
    }
    nsent = n;
    for (int i = 0; i < noutputs; i++) {
        if (bl_exec_keeps(x, i))
            exec_run_fill_result(x, parts, i, x->out.kept[i], &results[n++]);
    }
    return nsent;
}

/* Write the document.  |data|: the document includes the numbers.  The first |nsent| results are sent. */
static void exec_run_put_document(const bl_exec *x, const bl_result *results, int nsent, const bl_result *series, bl_text *out,
                                  bool data)
{
    int noutputs = bl_wire_shown(x->graph);
    bl_text_puts(out, "{");
    bl_encode_key(out, "outputs");
    bl_encode_results(out, results, (size_t)nsent, data);
    if (noutputs > nsent) {
        bl_encode_key(out, "kept");
        bl_encode_results(out, results + nsent, (size_t)(noutputs - nsent), false);
    }
    if (x->series.every > 0) {
        bl_encode_key(out, "collected");
        bl_encode_results(out, series, (size_t)x->series.n, data);
    }
    put_stats(x, out);
    bl_exec_put_explained(x, out);
    bl_text_puts(out, "}");
}

/* Answer with a file.  The series follow the outputs as "collected[NAME]": no output can have such a name. */
static bl_status reply_file(bl_exec *x, bl_result *results, int nsent, bl_result *series)
{
    bl_request *rq = x->rq;
    bl_result *all = bl_arena_array(rq->arena, (size_t)(nsent + x->series.n) + 1, sizeof *all);
    const char *document = NULL;
    if (all == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    exec_run_put_document(x, results, nsent, series, &rq->reply.out, false);
    BL_TRY(bl_text_status(&rq->reply.out, &rq->err));
    document = bl_arena_strndup(rq->arena, rq->reply.out.data, rq->reply.out.len);
    for (int i = 0; i < nsent; i++)
        all[i] = results[i];
    for (int i = 0; i < x->series.n; i++) {
        all[nsent + i] = series[i];
        all[nsent + i].name = bl_arena_printf(rq->arena, "collected[%s]", series[i].name);
    }
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    return bl_reply_safetensors(rq, all, (size_t)(nsent + x->series.n), "response", document);
}

bl_status bl_exec_reply(bl_request *rq)
{
    bl_exec *x = rq->data;
    int noutputs = bl_wire_shown(x->graph);
    bl_result *results = bl_arena_array(rq->arena, (size_t)noutputs + 1, sizeof *results);
    bl_result *series = bl_arena_array(rq->arena, (size_t)x->series.n + 1, sizeof *series);
    bl_part *parts = bl_arena_array(rq->arena, (size_t)noutputs + 1, sizeof *parts);
    if (results == NULL || series == NULL || parts == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    if (x->out.parts == NULL)
        bl_exec_take(x, 0, 0, 0, parts);
    int nsent = fill_results(x, x->out.parts != NULL ? x->out.parts : parts, noutputs, results);
    for (int i = 0; i < x->series.n; i++)
        fill_series(x, i, x->graph->outputs[x->series.outputs[i]].name, &series[i]);
    if (bl_request_accepts(rq, "application/x-safetensors"))
        return reply_file(x, results, nsent, series);
    exec_run_put_document(x, results, nsent, series, &rq->reply.out, true);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
