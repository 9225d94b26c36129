/* SPDX-License-Identifier: MIT */
#include "server/programs/programs.h"

#include "engine/base/log.h"
#include "proto/encode.h"
#include "proto/encode_program.h"
#include "server/data/saver.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs.h"
#include "server/programs/idempotent.h"
#include "server/programs/joined.h"
#include "server/programs/variants.h"
#include "server/run/exec.h"
#include "server/store/registry.h"

#include <stdlib.h>

enum { PROGRAM_BYTES = 256 * 1024 * 1024 };

/* ---- lifetime */

bl_program *bl_program_create(bl_server *server, uint32_t owner)
{
    bl_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    atomic_init(&program->refs, 1);
    program->server = server;
    program->owner = owner;
    program->arena = bl_arena_create(PROGRAM_BYTES);
    if (program->arena == NULL) {
        free(program);
        return NULL;
    }
    return program;
}

void bl_program_retain(bl_program *program)
{
    atomic_fetch_add(&program->refs, 1);
}

void bl_program_release(bl_program *program)
{
    if (program == NULL || atomic_fetch_sub(&program->refs, 1) != 1)
        return;
    bl_joined_fini(program);
    bl_program_unsettle(program);
    for (int i = 0; i < program->nstates; i++) {
        if (program->unpooled)
            bl_buffer_release(program->states[i].buffer);
        else
            bl_pool_release(program->worker->pool, program->states[i].buffer);
        bl_device_tensor_release(program->states[i].shared);
    }
    for (int i = 0; program->entries != NULL && i < program->doc.nentries; i++)
        if (program->entries[i].plan != NULL)
            bl_plan_release(program->entries[i].plan);
    bl_variants_destroy(program->variants);
    bl_sequences_free(program->sequences);
    bl_registry_refund(program->server->registry, program->owner, program->charged);
    bl_program_release(program->from);
    bl_arena_destroy(program->arena);
    free(program);
}

void bl_program_release_any(void *program)
{
    bl_program_release(program);
}

void bl_program_count(bl_program *program, uint64_t steps)
{
    atomic_fetch_add(&program->steps, steps);
    if (program->family != NULL)
        atomic_fetch_add(&program->family->steps, steps);
    bl_metrics_add(&program->server->metrics, BL_COUNT_STEPS, (long long)steps);
}

static bool is_reopened(const bl_program *program)
{
    const bl_device *dev = program->worker->dev;
    return atomic_load(&dev->lost) || atomic_load(&dev->generation) != program->generation;
}

bool bl_program_is_lost(const bl_program *program)
{
    return atomic_load(&program->lost) || is_reopened(program);
}

bl_status bl_program_check(const bl_program *program, bl_err *err)
{
    const char *device = program->worker->dev->info.id;
    if (is_reopened(program))
        return bl_fail(err, BL_ECONFLICT, "the state of program \"%s\" was lost when %s was reopened; put the program again",
                       program->name, device);
    if (bl_program_is_lost(program))
        return bl_fail(err, BL_ECONFLICT,
                       "the state of program \"%s\" was lost when a step on %s failed before its end; put the program again",
                       program->name, device);
    return BL_OK;
}

void bl_program_take_back(bl_program *program, bl_state *state, bl_buffer *buffer)
{
    state->buffer = buffer;
    if (bl_buffer_is_lost(buffer) && !atomic_exchange(&program->lost, true))
        bl_log(BL_LOG_WARN, "the state of program %s is lost, as a step failed before its end", program->name);
}

bl_status bl_program_check_claim(int claim, const char *name, bl_err *err)
{
    if (claim == BL_CLAIM_NONE)
        return BL_OK;
    if (claim == BL_CLAIM_DELETED)
        return bl_fail(err, BL_EBUSY, "the program \"%.128s\" is being deleted; send the request again", name);
    return bl_fail(err, BL_ECONFLICT, "a job trains the program \"%.128s\"; wait until the job ends, or cancel the job", name);
}

bl_status bl_program_check_free(const bl_program *program, const bl_plan_info *entry, bl_err *err)
{
    int claim = atomic_load(&program->claim);
    bool changes = false;
    for (int i = 0; i < entry->nstates + entry->nhidden; i++)
        changes = changes || entry->updated[i];
    if (!changes)
        return BL_OK;
    if (claim == BL_CLAIM_NONE) /* a job that is being restored will overwrite the state, so the change would be lost */
        return bl_jobs_guard_restoring(program->server->jobs, program->owner, program->name, err);
    if (claim == BL_CLAIM_DELETED)
        return bl_fail(err, BL_ENOTFOUND, "there is no program \"%s\"", program->name);
    return bl_fail(
        err, BL_ECONFLICT,
        "a job trains the program \"%s\", and this entry changes its state; wait until the job ends, or cancel the job",
        program->name);
}

bl_status bl_program_find(bl_request *rq, bool read, bl_program **out)
{
    BL_TRY((read ? bl_registry_read_program : bl_registry_get_program)(rq->server->registry, rq->owner, rq->head.param[0], out,
                                                                       &rq->err));
    return bl_request_defer(rq, bl_program_release_any, *out);
}

/* ---- description */

bl_file_tensor bl_state_tensor(const bl_state *state, const char *data)
{
    const bl_wire_type *type = &state->type.type;
    bl_file_tensor t = {.name = state->type.name, .dtype = type->dtype, .ndim = type->ndim, .bytes = state->bytes, .data = data};
    bl_wire_type_sizes(type, t.dim);
    return t;
}

bl_wire_type bl_hidden_type(const bl_plan_tensor *hidden)
{
    int64_t no_vars[BL_WIRE_MAX_DIMS] = {0}, dim[BL_DEVICE_TENSOR_DIMS] = {0};
    bl_plan_sizes(hidden, no_vars, dim);
    return bl_wire_type_make(hidden->dtype, hidden->ndim, dim);
}

static void programs_put_names(bl_text *out, const char *key, const bl_wire_output *outputs, int count)
{
    bl_encode_key(out, key);
    bl_text_puts(out, "[");
    for (int i = 0; i < count; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, outputs[i].name);
    }
    bl_text_puts(out, "]");
}

enum { MOST_PROFILED = 1000 };

/* Print the measured time of each kernel in service. */
static void put_profile(bl_text *out, const bl_plan *plan, const bl_peaks *peaks)
{
    bl_kernel_use *use = calloc(MOST_PROFILED, sizeof *use);
    int n = use == NULL || plan == NULL || bl_plan_get_service(plan).samples == 0
                ? 0
                : bl_plan_list_kernels(plan, MOST_PROFILED, use);

    bl_encode_key(out, "profile");
    bl_text_puts(out, "[");
    for (int i = 0; i < n; i++) {
        double each = use[i].seconds / use[i].launches;
        bl_standing standing = bl_peaks_judge(peaks, each, (int64_t)use[i].timed_ops, (int64_t)use[i].timed_bytes);
        bl_text_puts(out, i > 0 ? ",{" : "{");
        bl_encode_key(out, "kernel");
        bl_encode_string(out, use[i].name);
        bl_encode_key(out, "helper");
        bl_text_puts(out, use[i].helper ? "true" : "false");
        bl_encode_key(out, "moves");
        bl_encode_string(out, use[i].moves);
        bl_encode_key(out, "launches");
        bl_encode_u64(out, (uint64_t)use[i].launches);
        bl_encode_measured(out, "us", use[i].seconds * 1e6);
        bl_encode_measured(out, "gflop_s", each > 0 ? 1e-9 * use[i].timed_ops / each : 0);
        bl_encode_measured(out, "gbyte_s", each > 0 ? 1e-9 * use[i].timed_bytes / each : 0);
        if (standing.ceiling != BL_CEILING_UNKNOWN) {
            bl_encode_key(out, "bound");
            bl_encode_string(out, bl_ceiling_name(standing.ceiling));
            bl_encode_measured(out, "of_peak", standing.share);
        }
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
    free(use);
}

/* Write the inputs and outputs. */
static void programs_put_graph(bl_text *out, const bl_program *program, const bl_wire_graph *graph)
{
    bl_encode_key(out, "inputs");
    bl_text_puts(out, "{");
    for (int i = 0; i < graph->ninputs; i++)
        bl_encode_type(out, &graph->inputs[i], graph->vars);
    bl_text_puts(out, "}");
    if (program->variants != NULL) {
        bl_encode_key(out, "by_value");
        bl_text_puts(out, "[");
        for (int i = 0; i < graph->ninputs; i++) {
            if (!bl_variants_wants(program->variants, i))
                continue;
            bl_text_puts(out, bl_text_last(out) == '[' ? "" : ",");
            bl_encode_string(out, graph->inputs[i].name);
        }
        bl_text_puts(out, "]");
        bl_encode_key(out, "variants");
        bl_encode_u64(out, (uint64_t)bl_variants_count(program->variants));
    }
    programs_put_names(out, "outputs", graph->outputs, bl_wire_shown(graph));
    programs_put_names(out, "updates", graph->updates, graph->nupdates);
    bl_encode_key(out, "dims");
    bl_text_puts(out, "{");
    for (int i = 0; i < graph->nvars; i++) {
        bl_encode_key(out, graph->vars[i].name);
        bl_wire_var_encode(out, &graph->vars[i]);
    }
    bl_text_puts(out, "}");
}

/* Write the plan's figures; |plan| NULL: not compiled yet. */
static void programs_put_plan(bl_text *out, const bl_program *program, const bl_plan *plan)
{
    static const bl_plan_info none;
    const bl_plan_info *info = plan != NULL ? bl_plan_get_info(plan) : &none;
    bl_encode_key(out, "kernels");
    bl_encode_u64(out, info->kernels);
    bl_encode_key(out, "helpers");
    bl_encode_u64(out, info->helpers);
    bl_encode_key(out, "peak_bytes");
    bl_encode_u64(out, info->peak_bytes);
    bl_encode_measured(out, "compile_ms", info->compile_ms);
    bl_encode_measured(out, "engine_ms", info->engine_ms); /* the part from the graph to the source of its kernels */
    put_profile(out, plan, bl_worker_peaks(program->worker));
}

static void programs_put_entry(bl_text *out, const bl_program *program, int at)
{
    const bl_program_entry *entry = &program->doc.entries[at];
    bl_plan *plan = bl_plan_current(program->entries[at].plan);
    const char *along = bl_joined_along(program, at);
    bl_encode_key(out, entry->name);
    bl_text_puts(out, "{");
    programs_put_graph(out, program, &entry->graph);
    if (along != NULL) {
        bl_encode_key(out, "batch");
        bl_encode_string(out, along);
    }
    programs_put_plan(out, program, plan);
    bl_text_puts(out, "}");
    bl_plan_release(plan);
}

/* The plan is that of the most recently used variant. */
static void put_variants(bl_text *out, const bl_program *program)
{
    const bl_program_entry *entry = bl_variants_entry(program->variants);
    bl_plan *plan = bl_variants_plan(program->variants);
    bl_encode_key(out, entry->name);
    bl_text_puts(out, "{");
    programs_put_graph(out, program, &entry->graph);
    programs_put_plan(out, program, plan);
    bl_text_puts(out, "}");
    bl_plan_release(plan);
}

void bl_program_describe(bl_program *program, bl_text *out)
{
    bl_err err = {0};
    bl_text_puts(out, "{");
    bl_encode_key(out, "name");
    bl_encode_string(out, program->name);
    bl_encode_key(out, "device");
    bl_encode_string(out, program->worker->dev->info.id);
    bl_encode_key(out, "steps");
    bl_encode_u64(out, atomic_load(&program->steps));
    if (program->durable) {
        bl_encode_key(out, "durable");
        bl_text_puts(out, "true");
    }
    if (program->doc.options.check_indices) {
        bl_encode_key(out, "check_indices");
        bl_text_puts(out, "true");
    }
    if (bl_program_check(program, &err) != BL_OK) {
        bl_encode_key(out, "lost");
        bl_text_puts(out, "true");
    }
    bl_encode_key(out, "entries");
    bl_text_puts(out, "{");
    for (int i = 0; i < program->doc.nentries; i++)
        programs_put_entry(out, program, i);
    if (program->variants != NULL)
        put_variants(out, program);
    bl_text_puts(out, "}");
    bl_encode_key(out, "state");
    bl_text_puts(out, "{");
    for (int i = 0; i < program->nstates; i++)
        bl_encode_type(out, &program->states[i].type, NULL);
    bl_text_puts(out, "}}");
}

static void list_program(void *arg, const char *name, bl_program *program)
{
    bl_text *out = arg;
    if (bl_text_last(out) == '}')
        bl_text_puts(out, ",");
    bl_text_puts(out, "{");
    bl_encode_key(out, "name");
    bl_encode_string(out, name);
    bl_encode_key(out, "device");
    bl_encode_string(out, program->worker->dev->info.id);
    bl_encode_key(out, "bytes");
    bl_encode_u64(out, program->charged);
    bl_encode_key(out, "steps");
    bl_encode_u64(out, atomic_load(&program->steps));
    bl_text_puts(out, "}");
}

bl_status bl_handle_programs_list(bl_request *rq)
{
    bl_text_puts(&rq->reply.out, "{\"programs\":[");
    bl_registry_list_programs(rq->server->registry, rq->owner, list_program, &rq->reply.out);
    bl_text_puts(&rq->reply.out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

bl_status bl_handle_program_get(bl_request *rq)
{
    bl_program *program = NULL;
    BL_TRY(bl_program_find(rq, true, &program));
    bl_program_describe(program, &rq->reply.out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

static bl_status programs_reply_deleted(bl_request *rq)
{
    bl_request_reply(rq, 204, NULL);
    return BL_OK;
}

bl_status bl_handle_program_delete(bl_request *rq)
{
    bl_program *program = NULL;
    BL_TRY(bl_jobs_guard(rq->server->jobs, rq->owner, rq->head.param[0], &rq->err));
    BL_TRY(bl_program_find(rq, false, &program));
    if (program->durable || program->left)
        return bl_saver_delete(rq, program, programs_reply_deleted);
    BL_TRY(bl_registry_delete_program(rq->server->registry, rq->owner, rq->head.param[0], &rq->err));
    return programs_reply_deleted(rq);
}

/* ---- runs */

static bl_status decode_run(bl_exec *x, const bl_program *program, bl_program_run *run)
{
    bl_request *rq = x->rq;
    bl_json_doc doc = {0};
    bl_tensor_file file = {0};
    bl_status st = bl_exec_document(x, rq->arena, false, &doc, &file);
    if (st == BL_OK) {
        bl_decode_env env = bl_exec_env(x, rq->arena, &file);
        bl_json root = bl_json_root(&doc);
        const bl_program_entry *shared = program->variants != NULL ? bl_variants_entry(program->variants) : NULL;
        st = bl_decode_program_run(&env, &root, shared != NULL ? shared : program->doc.entries,
                                   shared != NULL ? 1 : program->doc.nentries, run, &rq->err);
    }
    bl_json_fini(&doc);
    return st;
}

/* A run with another debug level has its own plan, which keeps the debug text. */
static bl_status compile_again(bl_exec *x, bl_err *err)
{
    BL_TRY(bl_exec_make_plan(x, &x->key, x->graph, true, &x->plan, &x->hit, err));
    return bl_exec_admit(x, err);
}

/* The key of the program's own plan, without this run's debug level. */
static bl_status key_of_own(bl_exec *x)
{
    const bl_plan_options *own = bl_plan_get_options(x->hold.entry->plan);
    int debug = x->how.debug;
    bl_status st = BL_OK;
    x->how.precision = own->precision;
    x->how.debug = own->debug;
    st = bl_exec_key(x, x->graph, true, &x->key);
    x->how.debug = debug;
    return st;
}

/* Replace the program's plan by x->plan.  The cache has done so already unless it had dropped the program's plan meanwhile. */
static bl_status take_better(bl_exec *x, bl_err *err)
{
    bl_plan *current = bl_plan_current(x->hold.entry->plan);
    bool interpreted = bl_plan_get_info(current)->interpreted > bl_plan_get_info(x->plan)->interpreted;
    if (current != x->plan && x->plan != x->hold.entry->plan && (interpreted || !bl_plan_same_moves(current, x->plan)))
        bl_plan_supersede(x->hold.entry->plan, x->plan);
    bl_plan_release(current);
    return bl_exec_admit(x, err);
}

/* Compile the same graph with searched kernels, or with compiled kernels in place of interpreted ones. */
static bl_status make_better(bl_exec *x, bl_err *err)
{
    int debug = x->how.debug;
    bl_status st = BL_OK;
    x->how.debug = bl_plan_get_options(x->hold.entry->plan)->debug;
    st = bl_exec_make_plan(x, &x->key, x->graph, true, &x->plan, &x->hit, err);
    x->how.debug = debug;
    return st == BL_OK ? take_better(x, err) : st;
}

/* Search the kernels with the beam width of this run, unless they were searched with this width before.  Later runs use the
 * result. */
static bl_status choose_searched(bl_exec *x)
{
    BL_TRY(key_of_own(x));
    x->plan = bl_plans_lookup(x->rq->server->plans, &x->key, x->how.beam, true);
    x->hit = x->plan != NULL;
    if (x->hit)
        return take_better(x, &x->rq->err);
    x->compile = make_better;
    return BL_OK;
}

static bl_status choose_plan(bl_exec *x)
{
    bool plain = x->how.debug == (int)x->rq->server->settings.debug || x->how.debug == 0;
    if (plain && x->options.beam > 0)
        return choose_searched(x);
    x->how.beam = x->options.beam > 0 ? x->how.beam : 0; /* the width of the setting was applied when the program was put */
    if (plain) {
        x->plan = bl_plan_current(x->hold.entry->plan);
        x->hit = x->steps == 1 || bl_plan_get_info(x->plan)->interpreted == 0;
        if (x->hit)
            return bl_exec_admit(x, &x->rq->err);
        bl_plan_release(x->plan); /* a run does not change kernels, so runs of many steps get compiled ones */
        x->plan = NULL;
        x->compile = make_better;
        return key_of_own(x);
    }
    x->how.precision = bl_plan_get_options(x->hold.entry->plan)->precision;
    BL_TRY(bl_exec_key(x, x->graph, true, &x->key));
    x->compile = compile_again;
    return BL_OK;
}

/* A key that may read a shared program may run entries that change no state. */
static bl_status check_read_only(const bl_request *rq, const bl_program *program, const bl_program_entry_state *entry,
                                 bl_err *err)
{
    const bl_plan_info *info = bl_plan_get_info(entry->plan);
    if (program->owner == rq->owner)
        return BL_OK;
    for (int i = 0; i < info->nstates + info->nhidden; i++)
        if (info->updated[i])
            return bl_fail(err, BL_EFORBIDDEN, "the program is shared for reading, but entry \"%s\" updates its state \"%s\"",
                           program->doc.entries[entry - program->entries].name, program->states[entry->state[i]].type.name);
    return BL_OK;
}

/* |program| is the program of the path, or the variant for the values, which may have been |made| for this run. */
static bl_status run_program(bl_exec *x, bl_program *program, bl_program_run *run, bool made)
{
    bl_request *rq = x->rq;
    x->hold.program = program;
    x->hold.entry = &program->entries[run->entry];
    x->graph = &program->doc.entries[run->entry].graph;
    BL_TRY(check_read_only(rq, program, x->hold.entry, &rq->err));
    x->vars = run->vars;
    x->out.kept = run->kept;
    BL_TRY(bl_exec_check_kept(x));
    x->steps = run->steps;
    x->series.every = run->every;
    x->series.n = run->every > 0 ? run->ncollect : 0;
    x->series.outputs = run->collect;
    BL_TRY(choose_plan(x));
    x->hit = x->hit && !made;
    if (x->options.dry_run) {
        x->in.values = run->values;
        x->in.n = x->graph->ninputs;
        return bl_exec_dry_run(x);
    }
    if (bl_joined_takes(x, run))
        return bl_joined_go(x, run);
    BL_TRY(bl_exec_load(x, x->graph->ninputs, run->values, false));
    x->serial = &program->serial;
    x->work = bl_exec_run;
    rq->then = bl_exec_reply;
    if (run->sequenced)
        BL_TRY(bl_sequence_begin(x, run->seq));
    return bl_exec_advance(x);
}

static bl_status programs_run_variant(bl_request *rq, void *arg, const bl_variant *variant, bool made)
{
    bl_exec *x = arg;
    bl_program_run *run = x->extra;
    rq->data = x;
    const bl_wire_graph *graph = &variant->program->doc.entries[0].graph;
    for (int i = 0; run->kept != NULL && i < bl_wire_shown(graph); i++)
        if (run->kept[i] != NULL && graph->outputs[i].count > 0)
            return bl_fail(&rq->err, BL_EGRAPH,
                           "keep: the run counts the length of the output \"%.140s\"; such an output can be sent, but not kept",
                           graph->outputs[i].name);
    run->values = bl_variant_inputs(rq, variant, run->values);
    if (run->values == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    return run_program(x, variant->program, run, made);
}

bl_status bl_handle_program_run(bl_request *rq)
{
    bl_exec *x = NULL;
    bl_program *program = NULL;
    bl_program_run *run = bl_arena_alloc(rq->arena, sizeof *run);
    if (run == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_program_find(rq, true, &program));
    BL_TRY(bl_program_check(program, &rq->err));
    BL_TRY(bl_exec_create(rq, &x));
    BL_TRY(decode_run(x, program, run));
    if (run->steps > rq->server->settings.max_steps)
        return bl_fail(&rq->err, BL_ELIMIT, "steps is %llu; the limit is %llu", (unsigned long long)run->steps,
                       (unsigned long long)rq->server->settings.max_steps);
    BL_TRY(bl_exec_choose(x, &run->options, program->worker));
    if (program->variants == NULL)
        return run_program(x, program, run, false);
    if (run->sequenced)
        BL_TRY(bl_variants_refuse(program, "its runs are not numbered (seq)", &rq->err));
    x->extra = run;
    return bl_variant_get(rq, &(bl_variant_call){.program = program,
                                                 .x = x,
                                                 .values = run->values,
                                                 .sizes = run->vars,
                                                 .priority = run->options.priority,
                                                 .ready = programs_run_variant,
                                                 .arg = x});
}
