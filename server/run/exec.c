/* SPDX-License-Identifier: MIT */
#include "server/run/exec.h"

#include "engine/base/clock.h"
#include "engine/base/size.h"
#include "server/access/access.h"
#include "server/run/reply.h"
#include "server/store/registry.h"
#include "server/store/shares.h"

#include <stdlib.h>
#include <string.h>

/* ---- lifetime */

static void free_buffers(bl_exec *x, bl_buffer **buffers, int count)
{
    for (int i = 0; buffers != NULL && i < count; i++) {
        bl_pool_release(x->worker->pool, buffers[i]);
        buffers[i] = NULL;
    }
}

static void end_exec(void *arg)
{
    bl_exec *x = arg;
    const bl_plan_info *info = x->plan != NULL ? bl_plan_get_info(x->plan) : NULL;
    for (int i = 0; x->in.tensors != NULL && i < x->in.n; i++)
        bl_device_tensor_release(x->in.tensors[i]);
    free_buffers(x, x->in.buffers, x->in.n);
    for (bl_bound *b = x->in.bound; b != NULL; b = b->next)
        bl_device_tensor_release(b->held);
    for (bl_fetch *f = x->in.fetches; f != NULL; f = f->next)
        bl_device_tensor_release(f->to);
    if (info != NULL) {
        free_buffers(x, x->out.buffers, info->noutputs);
        if (x->hold.program == NULL)
            free_buffers(x, x->hold.states, info->nstates + info->nhidden);
        for (int i = 0; i < info->noutputs; i++) {
            if (x->out.tensors != NULL)
                bl_device_tensor_release(x->out.tensors[i]);
        }
        bl_plan_release(x->plan);
    }
    bl_text_fini(&x->report);
}

bl_status bl_exec_create(bl_request *rq, bl_exec **out)
{
    bl_exec *x = bl_arena_alloc(rq->arena, sizeof *x);
    *out = x;
    if (x == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    x->rq = rq;
    x->steps = 1;
    x->pace = 1;
    rq->data = x;
    return bl_request_defer(rq, end_exec, x);
}

/* ---- decoding */

static bl_status exec_resolve(void *ctx, const char *lease, const char *name, bl_wire_type *type, bl_err *err)
{
    bl_exec *x = ctx;
    bl_bound *b = bl_arena_alloc(x->rq->arena, sizeof *b);
    if (b == NULL)
        return bl_arena_status(x->rq->arena, err);
    b->name = bl_arena_strdup(x->rq->arena, name);
    if (b->name == NULL)
        return bl_arena_status(x->rq->arena, err);
    BL_TRY(bl_registry_get(x->rq->server->registry, x->rq->owner, lease, name, &b->held, &b->foreign, err));
    b->next = x->in.bound;
    x->in.bound = b;
    *type = bl_wire_type_make(b->held->dtype, b->held->ndim, b->held->dim);
    return BL_OK;
}

bl_status bl_exec_infer(const bl_wire_graph *wire, size_t max_bytes, bl_wire_type *type, bl_err *err)
{
    bl_front_options options = {.max_bytes = max_bytes};
    const bl_node *node = NULL;
    bl_graph *graph = NULL;
    bl_status st = bl_front_build(wire, &options, &graph, err);
    if (st != BL_OK)
        return st;
    node = graph->outputs[0];
    *type = (bl_wire_type){.dtype = (bl_dtype)node->dtype, .ndim = node->ndim};
    for (int i = 0; i < node->ndim; i++)
        type->dim[i] = (bl_wire_dim){node->dim[i]->lo, -1}; /* an initialiser has constant dimensions and no named dimensions */
    bl_graph_destroy(graph);
    return BL_OK;
}

static bl_status exec_infer(void *ctx, const bl_wire_graph *wire, bl_wire_type *type, bl_err *err)
{
    const bl_exec *x = ctx;
    return bl_exec_infer(wire, x->rq->server->settings.max_compile, type, err);
}

bl_decode_env bl_exec_env(bl_exec *x, bl_arena *arena, const bl_tensor_file *file)
{
    return (bl_decode_env){.arena = arena,
                           .limits = x->rq->server->limits,
                           .binary = x->rq->head.media == BL_MEDIA_SAFETENSORS ? file : NULL,
                           .ctx = x,
                           .resolve = exec_resolve,
                           .infer = exec_infer};
}

bl_status bl_exec_document(bl_exec *x, bl_arena *arena, bool optional, bl_json_doc *doc, bl_tensor_file *file)
{
    bl_request *rq = x->rq;
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bool binary = rq->head.media == BL_MEDIA_SAFETENSORS;
    if (binary && optional) {
        BL_TRY(bl_safetensors_open(arena, bl_request_body(rq), &rq->server->limits, file, &rq->err));
        if (bl_safetensors_text(file, "request") == NULL)
            return bl_json_parse(doc, arena, BL_S("{}"), &limits, &rq->err);
    }
    return bl_decode_body(arena, bl_request_body(rq), binary, "request", &limits, &rq->server->limits, doc, file, &rq->err);
}

bl_status bl_exec_check_kept(const bl_exec *x)
{
    bl_request *rq = x->rq;
    for (int i = 0; i < bl_wire_shown(x->graph); i++)
        if (bl_exec_keeps(x, i))
            BL_TRY(bl_shares_check_new(rq, x->options.lease, "tensor", x->out.kept[i]));
    return BL_OK;
}

bl_status bl_exec_choose(bl_exec *x, const bl_run_options *options, bl_worker *worker)
{
    bl_request *rq = x->rq;
    double ttl = 0;
    if (options->lease != NULL) /* every use renews the lease; the server refuses work under an expired lease */
        BL_TRY(bl_lease_renew(rq->server->registry, rq->owner, options->lease, 0, &ttl, &rq->err));
    x->options = *options;
    x->how.debug = options->debug >= 0 ? options->debug : (int)rq->server->settings.debug;
    x->how.beam = options->beam >= 0 ? options->beam : (int)rq->server->settings.beam;
    BL_TRY(bl_access_check_search(rq, x->how.beam, x->how.debug));
    if (options->dry_run && x->how.debug == 0)
        x->how.debug = 1; /* level 1 of the report includes the schedule */
    rq->item.priority = options->priority;
    x->how.precision = options->precision >= 0 ? (bl_precision)options->precision : rq->server->precision;
    x->worker = worker;
    if (worker == NULL && options->device == NULL && x->in.bound != NULL && !atomic_load(&x->in.bound->held->worker->drained))
        x->worker = x->in.bound->held->worker; /* the device that holds the tensors of the request */
    if (x->worker == NULL)
        BL_TRY(bl_worker_place(rq->server, options->device, rq->own.done != NULL, &x->worker, &rq->err));
    if (worker != NULL && options->device != NULL && strcmp(options->device, worker->dev->info.id) != 0)
        return bl_fail(&rq->err, BL_EGRAPH, "device: the program is on %s, not on \"%.60s\"", worker->dev->info.id,
                       options->device);
    if (options->timeout_ms > 0)
        rq->item.deadline_ns = rq->start_ns + options->timeout_ms * 1000000;
    x->generation = atomic_load(&x->worker->dev->generation);
    return BL_OK;
}

/* ---- inputs */

static bl_status load_held(bl_exec *x, const bl_tensor_value *value, bool copy, bl_device_tensor **out)
{
    bl_err *err = &x->rq->err;
    const bl_bound *b = x->in.bound;
    bl_device_tensor *from = NULL;
    char *host = NULL;
    while (b != NULL && strcmp(b->name, value->held) != 0)
        b = b->next;
    if (b == NULL)
        return bl_fail(err, BL_EBUG, "tensor \"%s\" was not resolved", value->held);
    from = b->held;
    if (from->worker == x->worker && (!copy || value->share)) {
        *out = bl_device_tensor_retain(from);
        return BL_OK;
    }
    if (value->share)
        return bl_fail(err, BL_EGRAPH, "tensor \"%s\" is on %s and cannot be shared with %s", value->held,
                       from->worker->dev->info.id, x->worker->dev->info.id);
    BL_TRY((copy ? bl_device_tensor_create_exact : bl_device_tensor_create)(x->worker, from->dtype, from->ndim, from->dim, out,
                                                                            err));
    if (bl_device_tensor_mapped(from) != NULL) {
        host = bl_device_tensor_host(*out);
        if (host == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", from->bytes);
        memcpy(host, bl_device_tensor_mapped(from), from->bytes);
        return BL_OK;
    }
    bl_fetch *fetch = bl_arena_alloc(x->rq->arena, sizeof *fetch);
    if (fetch == NULL)
        return bl_arena_status(x->rq->arena, err);
    *fetch = (bl_fetch){.next = x->in.fetches, .from = from, .to = bl_device_tensor_retain(*out)};
    x->in.fetches = fetch;
    return BL_OK;
}

static bl_status load_value(bl_exec *x, const bl_tensor_value *value, bool copy, bl_device_tensor **out)
{
    bl_err *err = &x->rq->err;
    char *host = NULL;
    if (value->kind == BL_VALUE_MADE)
        return BL_OK;
    if (value->kind == BL_VALUE_HELD)
        return load_held(x, value, copy, out);
    BL_TRY((copy ? bl_device_tensor_create_exact : bl_device_tensor_create)(x->worker, value->dtype, value->ndim, value->dim, out,
                                                                            err));
    host = bl_device_tensor_host(*out);
    if (host == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", value->bytes);
    return bl_tensor_scan(value, host, err);
}

static bool is_foreign(const bl_exec *x, const char *name)
{
    const bl_bound *b = x->in.bound;
    while (b != NULL && strcmp(b->name, name) != 0)
        b = b->next;
    return b != NULL && b->foreign;
}

bl_status bl_exec_load(bl_exec *x, int n, bl_tensor_value *values, bool copy)
{
    x->in.values = values;
    x->in.tensors = bl_arena_array(x->rq->arena, (size_t)n + 1, sizeof *x->in.tensors);
    if (x->in.tensors == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    x->in.n = n;
    for (int i = 0; i < n; i++) {
        if (values[i].kind == BL_VALUE_HELD && values[i].share && is_foreign(x, values[i].held))
            values[i].share = false; /* copy the tensor: memory of a tensor that its owner deletes must not stay in use
                                      * without a key to charge */
        BL_TRY(load_value(x, &values[i], copy, &x->in.tensors[i]));
    }
    return BL_OK;
}

/* ---- plans */

bl_status bl_exec_key(bl_exec *x, const bl_wire_graph *graph, bool program, bl_wire_key *key)
{
    const bl_settings *set = &x->rq->server->settings;
    const char *salt = bl_arena_printf(x->rq->arena, "%s %u debug%d noopt%d matrix%d winograd%d precision%d spec%d program%d",
                                       x->worker->dev->info.id, x->generation, x->how.debug, set->noopt, (int)set->matrix,
                                       (int)set->winograd, (int)x->how.precision, (int)set->spec, program);
    if (salt == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    return bl_wire_make_key(x->rq->arena, graph, salt, key, &x->rq->err);
}

static bl_plan_options plan_options(bl_exec *x, bool program)
{
    const bl_settings *set = &x->rq->server->settings;

    return (bl_plan_options){.debug = x->how.debug,
                             .noopt = set->noopt,
                             .matrix = (bl_matrix_use)set->matrix,
                             .winograd = (bl_winograd_use)set->winograd,
                             .precision = x->how.precision,
                             .spec = (int)set->spec,
                             .max_compile_bytes = set->max_compile,
                             .max_compile_seconds = set->max_compile_seconds,
                             .program = program,
                             .tuner = &x->rq->server->search.tuner,
                             .beam = x->how.beam,
                             .early = x->how.early,
                             .halt = bl_request_halt(x->rq),
                             .children = x->rq->server->children};
}

static bl_queue *queue_of_compiler(const bl_exec *x)
{
    return x->how.beam > 0 ? x->rq->server->search.queue : x->rq->server->compiler;
}

bl_status bl_exec_make_plan(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program, bl_plan **out,
                            bool *hit, bl_err *err)
{
    bl_plan_options options = plan_options(x, program);
    bl_queue *queue = x->rq->own.done == NULL ? queue_of_compiler(x) : NULL;
    bl_err failure = {0};
    bl_status st = BL_OK;

    options.along = &x->how.along;
    if (queue != NULL)
        bl_queue_lend(queue, x->rq);
    st = bl_plans_get(x->rq->server->plans, key, graph, x->worker->dev, &options, out, hit, &failure);
    if (queue != NULL && !bl_queue_take_back(queue, x->rq)) {
        bl_exec_step(x, BL_EXEC_ON_LEAVE); /* bl_queue_expire has answered the request with its error */
        return BL_ECANCELLED;
    }
    if (st != BL_OK)
        *err = failure;
    else if (!*hit)
        x->how.along = (bl_plan_sources){0};
    return st;
}

bl_status bl_exec_gather(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program, bl_err *err)
{
    bl_plan *plan = bl_plans_lookup(x->rq->server->plans, key, 0, x->how.early);
    bl_plan_options options = plan_options(x, program);

    if (plan != NULL) {
        bl_plan_release(plan);
        return BL_OK;
    }
    options.beam = 0; /* gathering kernels starts no search */
    return bl_plan_gather(graph, x->worker->dev, &options, x->rq->arena, &x->how.along, err);
}

bl_status bl_exec_admit(bl_exec *x, bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(x->plan);
    double limit = x->rq->server->settings.max_seconds;
    size_t *count = bl_arena_array(x->rq->arena, (size_t)info->noutputs + 1, sizeof *count), listed = 0, need = info->peak_bytes;
    if (count == NULL)
        return bl_arena_status(x->rq->arena, err);
    double seconds = info->estimate_s > limit ? bl_plan_estimate(x->plan, x->vars) : 0;
    if (seconds > limit)
        return bl_fail(err, BL_ELIMIT, "one run is estimated to take %.3g s; the limit is %g s", seconds, limit);
    if (need > x->worker->dev->info.memory / 2 && info->nvars > 0)
        BL_TRY(bl_plan_peak(x->plan, x->vars, &need, err));
    for (int i = 0; i < info->noutputs; i++) {
        int64_t dim[BL_DEVICE_TENSOR_DIMS] = {0};
        size_t bytes = 0;
        bl_plan_sizes(&info->outputs[i], x->vars, dim);
        BL_TRY(bl_tensor_measure(x->graph->outputs[i].name, info->outputs[i].dtype, info->outputs[i].ndim, dim,
                                 &x->rq->server->limits, &count[i], &bytes, err));
        listed += bl_exec_keeps(x, i) ? 0 : count[i];
        if (!bl_size_add(need, bytes, &need) || need > x->worker->dev->info.memory)
            return bl_fail(err, BL_ENODEVMEM,
                           "one run needs more than %zu bytes for its results and intermediate results; %s has %llu", need,
                           info->device, (unsigned long long)x->worker->dev->info.memory);
    }
    for (int i = 0; i < x->series.n && x->series.every > 0; i++) { /* |most| keeps the product below SIZE_MAX */
        size_t reports = x->steps / x->series.every, most = SIZE_MAX / 2 / (size_t)(x->series.n + 1);
        listed += count[x->series.outputs[i]] > most / (reports + 1) ? most : count[x->series.outputs[i]] * reports;
    }
    return x->unlisted ? BL_OK : bl_reply_check_list(x->rq, listed, err);
}

/* ---- from queue to queue */

static bl_step exec_go_on(bl_exec *x)
{
    return x->rq->err.status == BL_OK && bl_exec_advance(x) == BL_OK ? BL_STEP_MOVED : BL_STEP_DONE;
}

static bl_step fetch_one(bl_request *rq)
{
    bl_exec *x = rq->data;
    bl_fetch *fetch = x->in.fetches;
    char *host = bl_device_tensor_host(fetch->to);
    int64_t begin = bl_clock_ns();
    if (host == NULL)
        (void)bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a tensor of %zu bytes", fetch->to->bytes);
    else
        rq->err.status = bl_device_tensor_read(fetch->from, host, &rq->err);
    bl_request_trace_add(&rq->trace, BL_TIME_COPY, begin, bl_clock_ns());
    x->in.fetches = fetch->next;
    bl_device_tensor_release(fetch->to);
    return exec_go_on(x);
}

static bl_step exec_compile_all(bl_request *rq)
{
    bl_exec *x = rq->data;
    int64_t begin = bl_clock_ns();
    bl_status st = x->compile(x, &rq->err);
    if (x->state == BL_EXEC_LEFT) { /* the request may have ended */
        bl_request_release(rq);
        return BL_STEP_MOVED;
    }
    bl_request_trace_add(&rq->trace, BL_TIME_COMPILE, begin, bl_clock_ns());
    x->compile = NULL;
    return st == BL_OK && !x->options.dry_run ? exec_go_on(x) : BL_STEP_DONE;
}

void bl_exec_choose_mode(bl_request *rq, bl_plan *plan, bl_work_mode most)
{
    bl_work_mode mode = !bl_plan_may_overlap(plan)       ? BL_WORK_ALONE
                        : !bl_plan_get_info(plan)->brief ? BL_WORK_IN_FLIGHT
                                                         : BL_WORK_INLINE;
    rq->item.mode = mode < most ? mode : most;
    if (rq->item.mode != BL_WORK_ALONE)
        rq->item.expected_ns = (int64_t)(bl_plan_get_service(plan).wall_seconds * 1e9);
}

bl_status bl_exec_advance(bl_exec *x)
{
    bl_request *rq = x->rq;
    bool once = x->work == bl_exec_run && x->hold.program == NULL && x->steps == 1 && x->series.every == 0 && x->how.debug < 2;
    if (!x->options.dry_run)
        BL_TRY(bl_access_check_time(rq));
    if (x->in.fetches != NULL) {
        bl_exec_step(x, BL_EXEC_ON_FETCH);
        return bl_request_submit(rq, x->in.fetches->from->worker->queue, fetch_one, NULL);
    }
    if (x->compile != NULL) {
        bl_exec_step(x, BL_EXEC_ON_COMPILE);
        return bl_request_submit(rq, queue_of_compiler(x), exec_compile_all, NULL);
    }
    bl_exec_step(x, BL_EXEC_ON_QUEUE);
    rq->item.rank = x->steps > 1 && rq->item.rank == BL_RANK_RUN ? BL_RANK_TRAIN : rq->item.rank;
    rq->item.mode = BL_WORK_ALONE;
    if (once)
        bl_exec_choose_mode(rq, x->plan, BL_WORK_INLINE);
    return bl_request_submit(rq, x->worker->queue, x->work, x->serial);
}
