/* SPDX-License-Identifier: MIT */
/* Compilation of a plan: wire graph -> IR -> schedule -> moves -> linear kernels -> source -> compiled kernels -> memory plan
 * -> recording. One function per stage; docs/engine.md describes them. */
#include "engine/plan/compile.h"
#include "engine/sched/region.h"

#include "engine/base/clock.h"
#include "engine/base/map.h"
#include "engine/ir/float8.h"
#include "engine/ir/ir_text.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/row_axis.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"

#include <stdlib.h>
#include <string.h>

/* The transforms of a convolution write more memory than the convolution reads. They may need at most this fraction of the
 * largest buffer. */
enum { BUFFER_SHARE = 4 };

/* The verification level: the level of the options, but at least 2 in builds with assertions. */
int compile_spec(const compile *c)
{
#ifndef NDEBUG
    return c->options->spec > 1 ? c->options->spec : 2;
#else
    return c->options->spec;
#endif
}

bl_status compile_is_wanted(compile *c)
{
    return bl_halt_check(&c->options->halt, c->err);
}

bl_status compile_verify(compile *c, int n, const bl_node *const *roots, bl_stage stage, const char *pass)
{
    int level = compile_spec(c);
    return level == 0 ? BL_OK : bl_ir_verify(c->ir, n, roots, stage, pass, level, c->err);
}

/* Print the bodies of the scans reachable from |roots|, each once. */
static void dump_bodies(compile *c, int n, const bl_node *const *roots, bl_ptrmap *seen)
{
    bl_nodes nodes = bl_reach(c->ir, n, roots, false);
    for (size_t i = 0; i < nodes.count; i++) {
        const bl_node *node = nodes.at[i];
        const bl_scan *scan = node->op == BL_OP_SCAN ? bl_scan_get(c->ir, node) : NULL;
        if (scan == NULL || bl_ptrmap_has(seen, scan))
            continue;
        bl_ptrmap_add(seen, scan);
        bl_text_printf(&c->plan->debug, "; body of scan %lld, %s steps%s\n", (long long)node->arg,
                       bl_size_text(c->ir, scan->length), scan->reverse ? ", backwards" : "");
        bl_ir_print(c->ir, scan->ncarries + scan->nys, scan->root, &c->plan->debug);
        dump_bodies(c, scan->ncarries + scan->nys, scan->root, seen);
    }
}

void compile_dump(compile *c, int level, const char *title, int n, const bl_node *const *roots)
{
    bl_ptrmap seen;

    if (c->options->debug < level)
        return;
    bl_text_printf(&c->plan->debug, "; %s\n", title);
    bl_ir_print(c->ir, n, roots, &c->plan->debug);
    bl_ptrmap_init(&seen, c->arena);
    dump_bodies(c, n, roots, &seen);
}

/* ---- roots: outputs, new values of states, index checks */

/* The named dimension along which runs can be batched, or -1. */
static int compile_find_rows(compile *c)
{
    const bl_graph *graph = c->graph;
    const bl_node *rows = graph->ninputs > 0 && graph->inputs[0]->ndim > 0 ? graph->inputs[0]->dim[0] : NULL;

    if (rows == NULL || rows->op != BL_OP_VAR || c->nroots > graph->noutputs)
        return -1;
    for (int i = 0; i < graph->ninputs; i++)
        if (graph->inputs[i]->ndim == 0 || graph->inputs[i]->dim[0] != rows)
            return -1;
    return bl_rows_are_apart(c->ir, (int)rows->arg, graph->ninputs, graph->noutputs, c->roots) ? (int)rows->arg : -1;
}

/* Trace the values of the wire graph's nodes through the passes into the schedule. */
static bl_status track_values(compile *c)
{
    const bl_graph *graph = c->graph;

    c->ntracked = graph->nvalues;
    c->tracked = bl_arena_array(c->arena, (size_t)c->ntracked + 1, sizeof *c->tracked);
    for (int i = 0; c->tracked != NULL && i < c->ntracked; i++)
        c->tracked[i] = graph->values[i];
    return bl_arena_status(c->arena, c->err);
}

static bl_status gather_roots(compile *c)
{
    const bl_graph *graph = c->graph;
    int nstates = graph->nstates + graph->nhidden;

    for (int i = 0; !c->options->program && i < nstates; i++)
        /* a run without a program keeps no states, so it need not advance the state of the random generator */
        graph->updates[i] = NULL;

    c->roots = bl_arena_array(c->arena, (size_t)(graph->noutputs + nstates + graph->nchecks), sizeof *c->roots);
    if (c->roots == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < graph->noutputs + nstates; i++) {
        const bl_node *root = i < graph->noutputs ? graph->outputs[i] : graph->updates[i - graph->noutputs];
        if (root != NULL)
            c->roots[c->nroots++] = root;
    }
    for (int i = 0; i < graph->nchecks; i++)
        c->roots[c->nroots++] = graph->checks[i].first;
    compile_dump(c, 5, "tensor graph", c->nroots, c->roots);
    BL_TRY(track_values(c));
    bl_simplify_tracked(c->ir, c->nroots, c->roots, c->ntracked, c->tracked);
    bl_lower_float8(c->ir, c->nroots, c->roots);
    bl_lower_float8(c->ir, c->ntracked, c->tracked);
    BL_TRY(bl_ir_status(c->ir, c->err));
    compile_dump(c, 5, "simplified", c->nroots, c->roots);
    c->plan->info.rows = compile_find_rows(c);
    BL_TRY(bl_ir_status(c->ir, c->err));
    return compile_verify(c, c->nroots, c->roots, BL_STAGE_TENSOR, "simplify");
}

/* ---- the description of the plan for the caller */

const bl_node *compile_keep_extent(compile *c, const bl_node *extent)
{
    return bl_extent_copy(c->plan->arena, &c->extents, extent);
}

static const bl_node **keep_extents(compile *c, int n, const bl_node *const *extents)
{
    const bl_node **kept = bl_arena_array(c->plan->arena, (size_t)n, sizeof *kept);
    for (int i = 0; kept != NULL && i < n; i++)
        kept[i] = compile_keep_extent(c, extents[i]);
    return kept;
}

static bl_plan_tensor *compile_describe(compile *c, int n, const bl_node *const *nodes)
{
    bl_plan_tensor *all = bl_arena_array(c->plan->arena, (size_t)n + 1, sizeof *all);
    for (int i = 0; all != NULL && i < n; i++)
        all[i] = (bl_plan_tensor){.dtype = (bl_dtype)nodes[i]->dtype,
                                  .ndim = nodes[i]->ndim,
                                  .dim = keep_extents(c, nodes[i]->ndim, nodes[i]->dim),
                                  .vars = c->plan->dims,
                                  .nvars = c->graph->nvars};
    return all;
}

static void keep_dims(compile *c)
{
    const bl_graph *graph = c->graph;
    bl_wire_var *dims = bl_arena_array(c->plan->arena, (size_t)graph->nvars + 1, sizeof *dims);

    for (int i = 0; dims != NULL && i < graph->nvars; i++) {
        dims[i] = graph->vars[i];
        dims[i].name = bl_arena_strdup(c->plan->arena, dims[i].name);
    }
    c->plan->dims = dims;
}

/* A copy of |tensor| without its sources: its dtype and its extents. */
static const bl_node *keep_axes(compile *c, const bl_node *tensor)
{
    bl_node *kept = bl_arena_alloc(c->plan->arena, sizeof *kept);

    if (kept == NULL)
        return NULL;
    *kept = *tensor;
    kept->nsrc = 0;
    kept->src = NULL;
    kept->dim = keep_extents(c, tensor->ndim, tensor->dim);
    return kept;
}

static void keep_checks(compile *c)
{
    bl_arena *arena = c->plan->arena;
    bl_index_check *checks = bl_arena_array(arena, (size_t)c->graph->nchecks + 1, sizeof *checks);

    for (int i = 0; checks != NULL && i < c->graph->nchecks; i++) {
        bl_index_check *check = &checks[i];
        *check = c->graph->checks[i];
        check->next = NULL;
        check->op = bl_arena_strdup(arena, check->op);
        check->node = bl_arena_strdup(arena, check->node);
        check->bound.what = bl_arena_strdup(arena, check->bound.what);
        check->bound.before = bl_arena_strdup(arena, check->bound.before);
        check->bound.after = bl_arena_strdup(arena, check->bound.after);
        check->bound.extent = compile_keep_extent(c, check->bound.extent);
        check->dim = keep_extents(c, check->ndim, check->dim);
        check->first = keep_axes(c, check->first);
    }
    c->plan->checks = checks;
    c->plan->nchecks = c->graph->nchecks;
}

static bl_status fill_info(compile *c)
{
    const bl_graph *graph = c->graph;
    bl_plan_info *info = &c->plan->info;
    int nstates = graph->nstates + graph->nhidden;
    bl_arena *arena = c->plan->arena;
    bool *updated = bl_arena_array(arena, (size_t)nstates + 1, sizeof *updated);
    int64_t *lo = bl_arena_array(arena, (size_t)graph->nvars + 1, sizeof *lo);
    int64_t *hi = bl_arena_array(arena, (size_t)graph->nvars + 1, sizeof *hi);
    bl_plan_tensor *hidden = NULL;

    keep_dims(c);
    keep_checks(c);
    hidden = compile_describe(c, graph->nhidden, graph->inputs + graph->ninputs + graph->nstates);
    info->inputs = compile_describe(c, graph->ninputs, graph->inputs);
    info->states = compile_describe(c, graph->nstates, graph->inputs + graph->ninputs);
    info->outputs = compile_describe(c, graph->noutputs, graph->outputs);
    BL_TRY(bl_arena_status(arena, c->err));
    for (int i = 0; i < graph->nhidden; i++) {
        hidden[i].name = bl_arena_strdup(arena, graph->hidden[i].name);
        hidden[i].init = graph->hidden[i].init;
    }
    for (int i = 0; i < nstates; i++)
        updated[i] = graph->updates[i] != NULL;
    for (int i = 0; i < graph->nvars; i++) {
        lo[i] = graph->vars[i].lo * bl_wire_var_step(&graph->vars[i]);
        hi[i] = graph->vars[i].hi * bl_wire_var_step(&graph->vars[i]);
    }
    info->hidden = hidden;
    info->device = c->dev->info.id;
    info->ninputs = graph->ninputs;
    info->nstates = graph->nstates;
    info->nhidden = graph->nhidden;
    info->noutputs = graph->noutputs;
    info->nvars = graph->nvars;
    info->updated = updated;
    info->var_lo = lo;
    info->var_hi = hi;
    info->peak_bytes = c->plan->scratch_bytes;
    info->uses_rng = graph->uses_rng;
    info->checks_indices = graph->nchecks > 0;
    info->debug = c->plan->debug.data == NULL ? "" : c->plan->debug.data;
    return bl_arena_status(arena, c->err);
}

/* Find the states that a step updates in place: the states of which the step changes only a part.  A step with checks
 * updates no state in place, since the step may fail after its kernels ran. */
static bl_status update_in_place(compile *c)
{
    const bl_graph *graph = c->graph;
    int nstates = graph->nstates + graph->nhidden, root = graph->noutputs;
    int *state = bl_arena_array(c->arena, (size_t)c->nroots + 1, sizeof *state);
    bool *in_place = bl_arena_array(c->arena, (size_t)c->nroots + 1, sizeof *in_place);
    bool *states = bl_arena_array(c->plan->arena, (size_t)nstates + 1, sizeof *states);

    BL_TRY(bl_arena_status(c->arena, c->err));
    BL_TRY(bl_arena_status(c->plan->arena, c->err));
    c->plan->info.in_place = states;
    if (c->options->noopt || graph->nchecks > 0)
        return BL_OK;
    for (int i = 0; i < c->nroots; i++)
        state[i] = -1;
    for (int i = 0; i < nstates; i++) {
        if (graph->updates[i] != NULL)
            state[root++] = graph->ninputs + i;
    }
    BL_TRY(bl_schedule_in_place(c->ir, c->schedule, c->nroots, state, in_place, c->err));
    root = graph->noutputs;
    for (int i = 0; i < nstates; i++)
        states[i] = graph->updates[i] != NULL && in_place[root++];
    return BL_OK;
}

/* The time of this function becomes info.engine_ms. */
bl_status compile_to_source(compile *c)
{
    bl_sched_options options = {.units = c->target.units,
                                .max_params = c->target.max_params - BL_MAX_HELPERS,
                                .stage_bytes = c->options->noopt && c->target.groups ? 0 : bl_stage_bytes(&c->target),
                                .group_columns = bl_group_columns(&c->target),
                                .precision = c->target.precision,
                                .first_var = c->wire->nvars};
    bl_front_options front = {.program = c->options->program,
                              .max_bytes = c->options->max_compile_bytes,
                              .max_seconds = c->options->max_compile_seconds,
                              /* a search checks the halt itself */
                              .halt = c->options->beam > 0 ? (bl_halt){0} : c->options->halt,
                              .winograd = c->options->winograd,
                              .training = c->options->training,
                              .lanes = c->target.groups ? 0 : (int)c->target.vector_bits / 32,
                              .max_buffer = c->dev->info.max_alloc / BUFFER_SHARE,
                              .keeps_values = c->explains};

    BL_TRY(bl_front_build(c->wire, &front, &c->graph, c->err));
    c->ir = c->graph->ir;
    c->arena = bl_ir_arena(c->ir);
    bl_ptrmap_init(&c->extents, c->arena);
    bl_ptrmap_init(&c->tuned, c->arena);
    BL_TRY(gather_roots(c));
    bl_ir_tell(c->ir, "the schedule");
    options.ntracked = c->ntracked;
    options.tracked = c->tracked;
    BL_TRY(bl_schedule_make(c->ir, c->nroots, c->roots, &options, &c->schedule, c->err));
    BL_TRY(compile_is_wanted(c));
    BL_TRY(update_in_place(c));
    c->nslots = c->schedule->nplaces;
    c->places = bl_arena_array(c->arena, (size_t)(c->nslots + c->schedule->nnests * BL_MAX_HELPERS), sizeof *c->places);
    c->first_made = bl_arena_array(c->arena, (size_t)c->schedule->nnests + 1, sizeof *c->first_made);
    BL_TRY(bl_arena_status(c->arena, c->err));
    memcpy(c->places, c->schedule->places, (size_t)c->nslots * sizeof *c->places);
    BL_TRY(compile_nests(c));
    c->plan->info.brief = compile_is_brief(c);
    return BL_OK;
}

static bl_status compile_all(compile *c)
{
    int64_t start = bl_clock_ns(), source_done = 0;

    BL_TRY(compile_to_source(c));
    source_done = bl_clock_ns();
    BL_TRY(compile_kernels(c));
    BL_TRY(compile_slots(c));
    BL_TRY(compile_launches(c));
    if (c->options->debug >= 1)
        bl_text_printf(&c->plan->debug,
                       "scheduled %u kernels and %u helpers in %.2f ms, compiled in %.2f ms, %zu bytes of scratch\n",
                       c->plan->info.kernels, c->plan->info.helpers, bl_clock_ms(start, source_done),
                       bl_clock_ms(source_done, bl_clock_ns()), c->plan->scratch_bytes);
    BL_TRY(fill_info(c));
    c->plan->wire = bl_wire_copy(c->plan->arena, c->wire);
    BL_TRY(bl_arena_status(c->plan->arena, c->err));
    BL_TRY(bl_text_status(&c->plan->moves, c->err));
    c->plan->info.engine_ms = bl_clock_ms(start, source_done);
    c->plan->info.compile_ms = bl_clock_ms(start, bl_clock_ns());
    return bl_ir_status(c->ir, c->err);
}

bl_status compile_begin(compile *c)
{
    const bl_plan_options *options = c->options;

    c->target = bl_search_target(&c->dev->info);
    c->target.use = options->matrix;
    if (options->precision == BL_PRECISION_HIGH)
        bl_target_split(&c->target);
    c->plan = bl_calloc(1, sizeof *c->plan);
    if (c->plan == NULL)
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    atomic_init(&c->plan->refs, 1);
    pthread_mutex_init(&c->plan->lock, NULL);
    c->plan->dev = c->dev;
    c->plan->arena = bl_arena_create(options->max_compile_bytes);
    if (c->plan->arena == NULL) {
        plan_destroy(c->plan);
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    }
    c->plan->options = *options;
    c->plan->options.halt = (bl_halt){0}; /* the plan must not refer to the caller's data */
    c->plan->options.progress = NULL;
    c->plan->options.progress_arg = NULL;
    c->plan->options.only = NULL;
    c->plan->options.fixed = NULL;
    c->plan->options.along = NULL;
    c->plan->beam = options->tuner == NULL || options->only != NULL ? 0 : options->beam;
    return BL_OK;
}

/* Free the memory that only the compilation needs. Free the plan too unless |keep|. */
void compile_end(compile *c, bool keep)
{
    for (int i = 0; i < c->nmade; i++)
        bl_text_fini(&c->made[i].source);
    bl_graph_destroy(c->graph);
    if (!keep)
        plan_destroy(c->plan);
}

bl_status plan_compile(const bl_wire_graph *wire, bl_device *dev, const bl_plan_options *options, bl_plan **out, bl_err *err)
{
    compile c = {.wire = wire, .options = options, .dev = dev, .err = err};
    bl_status st;

    *out = NULL;
    BL_TRY(compile_begin(&c));
    st = compile_all(&c);
    compile_end(&c, st == BL_OK);
    if (st == BL_OK)
        *out = c.plan;
    return st;
}

/* Add a copy of |source| in |arena| unless |sources| has a source of the same text. */
static bl_status compile_add_source(bl_plan_sources *sources, const bl_kernel_source *source, bl_arena *arena, bl_err *err)
{
    bl_kernel_source *copy;

    for (int i = 0; i < sources->n; i++) {
        if (sources->at[i].len == source->len && memcmp(sources->at[i].text, source->text, source->len) == 0)
            return BL_OK;
    }
    if (sources->n == sources->capacity) {
        int capacity = 2 * sources->capacity + 16;
        bl_kernel_source *grown = bl_arena_array(arena, (size_t)capacity, sizeof *grown);
        if (grown == NULL)
            return bl_arena_status(arena, err);
        if (sources->n > 0)
            memcpy(grown, sources->at, (size_t)sources->n * sizeof *grown);
        sources->at = grown;
        sources->capacity = capacity;
    }
    copy = &sources->at[sources->n];
    *copy = *source;
    copy->linear = NULL; /* only devices that do not read text use |linear|, and such devices do not compile ahead */
    copy->entry = bl_arena_strdup(arena, source->entry);
    copy->text = bl_arena_strndup(arena, source->text, source->len);
    BL_TRY(bl_arena_status(arena, err));
    sources->n++;
    return BL_OK;
}

bl_status bl_plan_gather_again(const bl_plan *plan, const bl_plan_options *options, bl_arena *arena, bl_plan_sources *sources,
                               bl_err *err)
{
    return bl_plan_gather(plan->wire, plan->dev, options, arena, sources, err);
}

bl_status bl_plan_gather(const bl_wire_graph *graph, bl_device *dev, const bl_plan_options *options, bl_arena *arena,
                         bl_plan_sources *sources, bl_err *err)
{
    compile c = {.wire = graph, .options = options, .dev = dev, .err = err};
    bl_status st;

    BL_TRY(compile_begin(&c));
    st = compile_to_source(&c);
    for (int i = 0; i < c.nmade && st == BL_OK; i++) {
        bl_kernel_source source = compile_source(&c, &c.made[i]);
        st = compile_add_source(sources, &source, arena, err);
    }
    compile_end(&c, false);
    return st;
}

bl_status bl_plan_remake(const bl_plan *plan, const bl_plan_options *options, bl_plan **out, bl_err *err)
{
    return plan_compile(plan->wire, plan->dev, options, out, err);
}

enum { BYTES_A_LAUNCH = 1500 /* host memory of a driver per launch, measured on PoCL and lavapipe */ };

size_t plan_host_bytes(const bl_plan *plan)
{
    return bl_arena_used(plan->arena) + (size_t)plan->nsteps * BYTES_A_LAUNCH +
           atomic_load_explicit(&plan->keeps.bytes, memory_order_relaxed);
}

void plan_destroy(bl_plan *plan)
{
    if (plan == NULL)
        return;
    for (int i = 0; i < plan->nparts; i++)
        bl_recording_destroy(plan->parts[i].recording);
    for (int i = 0; i < plan->nkernels; i++) {
        bool shared = false;
        for (int k = 0; k < i; k++)
            shared = shared || plan->kernels[k] == plan->kernels[i];
        if (!shared && plan->kernels[i] != NULL)
            bl_kernel_destroy(plan->kernels[i]);
    }
    plan_unbind_scratch(plan);
    plan_keep_fini(plan);
    plan_census_fini(&plan->census);
    bl_plan_release(plan->better);
    pthread_mutex_destroy(&plan->lock);
    free(plan->kernels);
    free(plan->slots);
    free(plan->vars);
    free(plan->groups);
    bl_text_fini(&plan->debug);
    bl_text_fini(&plan->moves);
    bl_arena_destroy(plan->arena);
    free(plan);
}
