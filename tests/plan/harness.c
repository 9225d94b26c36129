/* SPDX-License-Identifier: MIT */
#include "tests/plan/harness.h"

#include "engine/base/clock.h"
#include "proto/decode.h"
#include "tests/interp/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 28 };

#ifdef __SANITIZE_ADDRESS__
#include <dlfcn.h>
/* Keeps drivers loaded: leaks of an unloaded driver have no function names, which tests/lsan.supp needs. */
int dlclose(void *library)
{
    (void)library;
    return 0;
}
#endif

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint32_t harness_open(uint32_t max, bl_device **out)
{
    static const bl_backend *const backends[] = {&bl_backend_opencl, &bl_backend_vulkan, &bl_backend_interp};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        uint32_t count = 0;
        bl_text why = {0};
        bl_err err = {0};
        if (backends[i]->open(max - n, out + n, &count, &why, &err) == BL_OK)
            n += count;
        bl_text_fini(&why);
    }
    return n;
}

char *harness_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = 0;
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size)
        text[0] = '\0';
    fclose(file);
    return text;
}

/* Fills memory with floats of order one, small integers, or random bools. */
static void *fill(bl_dtype dtype, int64_t count, uint64_t *seed)
{
    size_t bytes = bl_dtype_bytes(dtype);
    uint8_t *data = calloc((size_t)count + 1, bytes);
    for (int64_t i = 0; data != NULL && i < count; i++) {
        bl_scalar value = {.u = 0};
        uint64_t r = next_random(seed);
        switch (bl_dtype_get_kind(dtype)) {
        case BL_KIND_FLOAT:
            value.f = ((double)(r & 0xffff) + (double)(r >> 16 & 0xffff) + (double)(r >> 32 & 0xffff) - 98302.5) / 32768.0;
            break;
        case BL_KIND_INT:
        case BL_KIND_UINT:
            value.u = r % 10;
            break;
        case BL_KIND_BOOL:
            value.u = r & 1;
            break;
        }
        bl_scalar_write(dtype, bl_scalar_fit(dtype, value), data + (size_t)i * bytes);
    }
    return data;
}

typedef struct job {
    bl_device *dev;
    bl_pool *pool;
    bl_plan *plan;
    const bl_plan_info *info;
    const harness_options *options;
    harness_result *result;
    int nin, nstates;
    int64_t *vars;
    void **data; /* inputs, states, hidden states */
    bl_buffer **inputs, **states, **outputs;
} job;

static int64_t count_of(const bl_plan_tensor *tensor, const int64_t *vars)
{
    int64_t dim[BL_MAX_DIMS], count = 1;
    bl_plan_sizes(tensor, vars, dim);
    for (int i = 0; i < tensor->ndim; i++)
        count *= dim[i];
    return count;
}

static const bl_plan_tensor *tensor_in(const job *j, int i)
{
    if (i < j->nin)
        return &j->info->inputs[i];
    i -= j->nin;
    return i < j->info->nstates ? &j->info->states[i] : &j->info->hidden[i - j->info->nstates];
}

static int64_t choose_size(const bl_wire_var *var, uint64_t seed)
{
    int64_t step = bl_wire_var_step(var);
    return var->lo + (int64_t)(seed % (uint64_t)((var->hi - var->lo) / step + 1)) * step;
}

static bl_status prepare(job *j)
{
    uint64_t seed = j->options->seed + 1;
    bl_err *err = &j->result->err;

    for (int i = 0; i < j->nin + j->nstates; i++) {
        const bl_plan_tensor *tensor = tensor_in(j, i);
        int64_t count = count_of(tensor, j->vars);
        size_t bytes = (size_t)count * bl_dtype_bytes(tensor->dtype);
        bl_buffer **to = i < j->nin ? &j->inputs[i] : &j->states[i - j->nin];
        j->data[i] = fill(tensor->dtype, count, &seed);
        for (int64_t k = 0; tensor->name != NULL && strcmp(tensor->name, "rng") != 0 && k < count; k++)
            bl_scalar_write(tensor->dtype, bl_scalar_cast(tensor->dtype, BL_F64, (bl_scalar){.f = tensor->init}),
                            (char *)j->data[i] + (size_t)k * bl_dtype_bytes(tensor->dtype));
        BL_TRY(bl_pool_alloc(j->pool, bytes, to, err));
        if (bytes > 0)
            BL_TRY(bl_buffer_write(*to, 0, j->data[i], bytes, err));
    }
    return BL_OK;
}

/* The allowed difference.  |scale| is the largest number of the tensor, at least 1; Winograd transforms have rounding errors of
 * the size of a whole tile. */
static double allowed(bl_dtype dtype, double expected, double scale)
{
    double relative = dtype == BL_F64 ? 1e-9 : dtype == BL_F16 ? 4e-3 : dtype == BL_BF16 ? 3e-2 : 2e-4;
    double absolute = dtype == BL_F64 ? 1e-10 : dtype == BL_F16 ? 2e-3 : dtype == BL_BF16 ? 2e-2 : 2e-5;
    return relative * fabs(expected) + absolute * scale + 1e-30;
}

static double number(bl_dtype dtype, const void *data, int64_t i)
{
    bl_scalar value = bl_scalar_read(dtype, (const char *)data + (size_t)i * bl_dtype_bytes(dtype));
    return bl_scalar_cast(BL_F64, dtype, value).f;
}

static void compare(job *j, const char *what, int which, bl_dtype dtype, int64_t count, const void *got, const void *want)
{
    double scale = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(number(dtype, want, i));
        if (isfinite(x) && x > scale)
            scale = x;
    }
    for (int64_t i = 0; i < count; i++) {
        size_t bytes = bl_dtype_bytes(dtype);
        if (memcmp((const char *)got + (size_t)i * bytes, (const char *)want + (size_t)i * bytes, bytes) == 0)
            continue;
        double a = number(dtype, got, i), b = number(dtype, want, i);
        double ratio = fabs(a - b) / allowed(dtype, b, scale < 1 || j->options->winograd != BL_WINOGRAD_NEVER ? scale : 1);
        if (bl_dtype_is_float(dtype) && ((isnan(a) && isnan(b)) || a == b))
            continue;
        if (isnan(ratio) || !bl_dtype_is_float(dtype))
            ratio = INFINITY;
        if (ratio > j->result->worst) {
            j->result->worst = ratio;
            snprintf(j->result->where, sizeof j->result->where, "%s %d element %lld: %.9g, the interpreter says %.9g", what,
                     which, (long long)i, a, b);
        }
    }
}

static bl_status compare_all(job *j, const bl_wire_graph *wire, bool program)
{
    bl_front_options front = {.program = program, .max_bytes = ARENA_BYTES};
    bl_graph *graph = NULL;
    const bl_node **roots = NULL;
    int64_t steps[BL_WIRE_MAX_DIMS]; /* size of each named dimension in the graph's steps */
    bl_buffer **got = NULL;
    void **want = NULL;
    int nroots = 0, all = j->info->noutputs + j->nstates;
    bl_status st = bl_front_build(wire, &front, &graph, &j->result->err);

    if (st != BL_OK)
        return st;
    for (int i = 0; i < wire->nvars; i++)
        steps[i] = j->vars[i] / bl_wire_var_step(&wire->vars[i]);
    roots = calloc((size_t)all + 1, sizeof *roots);
    want = calloc((size_t)all + 1, sizeof *want);
    got = calloc((size_t)all + 1, sizeof *got);
    for (int i = 0; i < all; i++) {
        bool output = i < j->info->noutputs;
        const bl_node *root = output ? graph->outputs[i] : graph->updates[i - j->info->noutputs];
        if (root == NULL)
            continue;
        got[nroots] = output ? j->outputs[i] : j->states[i - j->info->noutputs];
        roots[nroots++] = root;
    }
    st = bl_interp_graph(graph->ir, nroots, roots, (const void *const *)j->data, steps, want, &j->result->err);
    for (int i = 0; st == BL_OK && i < nroots; i++) {
        bl_plan_tensor tensor = {.dtype = (bl_dtype)roots[i]->dtype, .ndim = roots[i]->ndim, .dim = roots[i]->dim};
        int64_t count = count_of(&tensor, steps);
        size_t bytes = (size_t)count * bl_dtype_bytes(tensor.dtype);
        void *data = calloc(1, bytes + 1);
        if (bytes > 0)
            st = bl_buffer_read(got[i], 0, data, bytes, &j->result->err);
        if (st == BL_OK)
            compare(j, i < j->info->noutputs ? "output" : "update", i, tensor.dtype, count, data, want[i]);
        free(data);
    }
    for (int i = 0; i < nroots; i++)
        free(want[i]);
    free(want);
    free(got);
    free(roots);
    bl_graph_destroy(graph);
    return st;
}

static void release(job *j)
{
    for (int i = 0; i < j->nin; i++)
        bl_pool_release(j->pool, j->inputs[i]);
    for (int i = 0; i < j->nstates; i++)
        bl_pool_release(j->pool, j->states[i]);
    for (int i = 0; i < j->info->noutputs; i++)
        bl_pool_release(j->pool, j->outputs[i]);
    for (int i = 0; i < j->nin + j->nstates; i++)
        free(j->data[i]);
    free(j->data);
    free(j->inputs);
    free(j->states);
    free(j->outputs);
    free(j->vars);
}

static bl_status run_job(job *j, const bl_wire_graph *wire)
{
    bl_run run = {.plan = j->plan,
                  .pool = j->pool,
                  .vars = j->vars,
                  .inputs = j->inputs,
                  .states = j->states,
                  .outputs = j->outputs,
                  .steps = 1};
    size_t launches = (size_t)j->info->kernels + j->info->helpers + 1;
    uint64_t *ns = calloc(launches, sizeof *ns), *least = calloc(launches, sizeof *least);
    bl_status st = prepare(j);

    j->result->run_us = 1e30;
    run.timed = j->options->debug >= 2;
    run.launch_ns = ns;
    if (st == BL_OK)
        st = bl_plan_run(&run, &j->result->err);
    if (st == BL_OK && !j->options->no_compare)
        st = compare_all(j, wire, true);
    memcpy(least, ns, launches * sizeof *ns);
    for (int i = 0; st == BL_OK && i < j->options->repeat; i++) {
        int64_t start = bl_clock_ns();
        for (int k = 0; k < j->info->noutputs; k++)
            bl_pool_release(j->pool, j->outputs[k]);
        memset(ns, 0, launches * sizeof *ns);
        st = bl_plan_run(&run, &j->result->err);
        double us = (double)(bl_clock_ns() - start) / 1e3;
        j->result->run_us = us < j->result->run_us ? us : j->result->run_us;
        for (size_t k = 0; k < launches; k++)
            least[k] = ns[k] < least[k] ? ns[k] : least[k];
    }
    if (j->options->repeat == 0)
        j->result->run_us = 0;
    if (st == BL_OK && run.timed) {
        bl_text text = {0};
        bl_plan_report(j->plan, run.vars, least, 1, &(bl_peaks){0}, &text);
        fputs(text.data == NULL ? "" : text.data, stdout);
        bl_text_fini(&text);
    }
    free(ns);
    free(least);
    return st;
}

static bl_status run_entry(bl_device *dev, bl_pool *pool, const bl_wire_graph *wire, const harness_options *options,
                           harness_result *result)
{
    bl_plan_options plan_options = {.debug = options->debug,
                                    .noopt = options->noopt,
                                    .matrix = options->matrix,
                                    .winograd = options->winograd,
                                    .precision = options->precision,
                                    .spec = options->spec,
                                    .max_compile_bytes = ARENA_BYTES,
                                    .program = true,
                                    .tuner = options->tuner,
                                    .beam = options->beam,
                                    .progress = options->progress};
    bl_plans *plans = bl_plans_create(4, SIZE_MAX);
    bl_arena *arena = bl_arena_create(0);
    bl_wire_key key;
    job j = {.dev = dev, .pool = pool, .options = options, .result = result};
    bool hit = false;
    bl_status st = bl_wire_make_key(arena, wire, dev->info.id, &key, &result->err);

    if (st == BL_OK)
        st = bl_plans_get(plans, &key, wire, dev, &plan_options, &j.plan, &hit, &result->err);
    if (st == BL_OK) {
        j.info = bl_plan_get_info(j.plan);
        j.nin = j.info->ninputs;
        j.nstates = j.info->nstates + j.info->nhidden;
        j.vars = calloc((size_t)j.info->nvars + 1, sizeof *j.vars);
        j.data = calloc((size_t)(j.nin + j.nstates) + 1, sizeof *j.data);
        j.inputs = calloc((size_t)j.nin + 1, sizeof(bl_buffer *));
        j.states = calloc((size_t)j.nstates + 1, sizeof(bl_buffer *));
        j.outputs = calloc((size_t)j.info->noutputs + 1, sizeof(bl_buffer *));
        for (int i = 0; i < j.info->nvars; i++)
            j.vars[i] = choose_size(&wire->vars[i], options->seed);
        if (options->show)
            fputs(j.info->debug, stdout);
        result->kernels = j.info->kernels;
        result->helpers = j.info->helpers;
        result->engine_ms = j.info->engine_ms;
        result->compile_ms = j.info->compile_ms;
        result->peak_bytes = j.info->peak_bytes;
        result->keep_bytes = j.info->keep_bytes;
        st = options->compile_only ? BL_OK : run_job(&j, wire);
        release(&j);
    }
    bl_plan_release(j.plan);
    bl_plans_destroy(plans);
    bl_arena_destroy(arena);
    return st;
}

int harness_run(bl_device *dev, const char *text, const harness_options *options, int max, harness_result *out)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits json_limits = {0};
    bl_decode_env env = {.arena = arena,
                         .limits = {.max_nodes = 100000, .max_inputs = 10000, .max_dims = 12, .max_tensor_bytes = 1ULL << 40}};
    bl_json_doc doc = {0};
    bl_program_doc program;
    bl_pool *pool = bl_pool_create(dev, (size_t)1 << 30);
    int n = -1;

    memset(out, 0, (size_t)max * sizeof *out);
    bl_status st = bl_json_parse(&doc, arena, (bl_span){text, strlen(text)}, &json_limits, &out[0].err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program, &out[0].err);
    }
    if (st == BL_OK) {
        n = program.nentries < max ? program.nentries : max;
        for (int i = 0; i < n; i++) {
            snprintf(out[i].name, sizeof out[i].name, "%s", program.entries[i].name);
            out[i].skipped = (options->every > 1 && i % options->every != 0) ||
                             (options->only != NULL && strcmp(options->only, out[i].name) != 0);
            if (!out[i].skipped)
                (void)run_entry(dev, pool, &program.entries[i].graph, options, &out[i]);
        }
    }
    bl_json_fini(&doc);
    bl_pool_destroy(pool);
    bl_arena_destroy(arena);
    return n;
}
