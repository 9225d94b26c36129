/* SPDX-License-Identifier: MIT */
#include "proto/decode.h"
#include "proto/decode_parts.h"

#include <stdlib.h>
#include <string.h>

#define PRECISION     "float32_matmul_precision"
#define CHECK_INDICES "check_indices"

enum { MAX_BEAM = 1024, MOST_PRIORITY = 100, MAX_TTL = 7 * 24 * 3600, MOST_DELAY_US = 100 * 1000000 };

/* ---- parts of several documents */

bl_status bl_decode_body(bl_arena *arena, bl_span body, bool safetensors, const char *key, const bl_json_limits *json_limits,
                         const bl_wire_limits *limits, bl_json_doc *doc, bl_tensor_file *file, bl_err *err)
{
    *doc = (bl_json_doc){0};
    *file = (bl_tensor_file){0};
    if (safetensors) {
        BL_TRY(bl_safetensors_open(arena, body, limits, file, err));
        const char *text = bl_safetensors_text(file, key);
        if (text == NULL)
            return bl_fail(err, BL_EINVAL, "safetensors: __metadata__ must have the JSON document as \"%s\"", key);
        body = (bl_span){text, strlen(text)};
    }
    return bl_json_parse(doc, arena, body, json_limits, err);
}

static bl_status decode_precision(const bl_json *doc, int *out, bl_err *err)
{
    bl_precision precision = BL_PRECISION_HIGHEST;
    const char *name = NULL;
    bl_json at;

    *out = -1;
    if (!bl_json_find(doc, PRECISION, &at))
        return BL_OK;
    BL_TRY(bl_json_string(&at, &name, err));
    if (!bl_precision_from_name(name, &precision))
        return bl_fail(err, BL_EINVAL, PRECISION " must be \"highest\" or \"high\", not \"%s\"", name);
    *out = (int)precision;
    return BL_OK;
}

/* The caller's list of allowed names decides which of these members a document may have. */
static bl_status decode_options(bl_decoder *d, const bl_json *doc, bl_run_options *out, bl_err *err)
{
    static const bl_json_field fields[] = {
        {BL_FIELD(bl_run_options, BL_FIELD_STRING, "device", device)},
        {BL_FIELD(bl_run_options, BL_FIELD_STRING, "lease", lease)},
        {BL_FIELD(bl_run_options, BL_FIELD_INT, "debug", debug), .most = 7},
        {BL_FIELD(bl_run_options, BL_FIELD_INT, "beam", beam), .most = MAX_BEAM},
        {BL_FIELD(bl_run_options, BL_FIELD_INT64, "timeout_ms", timeout_ms), .least = 1, .most = INT64_MAX / 1000000 - 1},
        {BL_FIELD(bl_run_options, BL_FIELD_INT, "priority", priority), .least = -MOST_PRIORITY, .most = MOST_PRIORITY},
        {BL_FIELD(bl_run_options, BL_FIELD_BOOL, "dry_run", dry_run)},
        {BL_FIELD(bl_run_options, BL_FIELD_BOOL, "explain", explain)},
        {BL_FIELD(bl_run_options, BL_FIELD_BOOL, CHECK_INDICES, check_indices)},
        {.name = NULL},
    };
    bl_json at;

    *out = (bl_run_options){.debug = -1, .beam = -1};
    BL_TRY(bl_json_read(doc, fields, false, out, err));
    d->lease = out->lease;
    out->seeded = bl_json_find(doc, "seed", &at);
    if (out->seeded)
        BL_TRY(bl_json_u64(&at, &out->seed, err));
    return decode_precision(doc, &out->precision, err);
}

bl_decoder *bl_decoder_make(const bl_decode_env *env)
{
    bl_decoder *d = bl_arena_alloc(env->arena, sizeof *d);

    if (d != NULL)
        *d = (bl_decoder){.env = env, .arena = env->arena};
    return d;
}

bl_status bl_decoder_fail(const bl_decode_env *env, bl_err *err)
{
    bl_status st = bl_arena_status(env->arena, err);

    return st != BL_OK ? st : bl_fail(err, BL_ENOMEM, "out of host memory for decoding a request");
}

/* ---- look-up by name of items that start with their name: inputs, states, outputs */

typedef struct name_index {
    size_t count;
    const char *const **sorted; /* pointers to the first member of each item */
} name_index;

static int compare_named(const void *a, const void *b)
{
    const char *const *const *x = a, *const *const *y = b;

    return strcmp(**x, **y);
}

static bl_status decode_make_index(bl_arena *arena, const void *items, size_t count, size_t size, name_index *out, bl_err *err)
{
    out->count = count;
    out->sorted = bl_arena_array(arena, count, sizeof *out->sorted);
    if (out->sorted == NULL)
        return bl_arena_status(arena, err);
    for (size_t i = 0; i < count; i++)
        out->sorted[i] = (const char *const *)(const void *)((const char *)items + i * size);
    if (count > 1)
        qsort(out->sorted, count, sizeof *out->sorted, compare_named);
    return BL_OK;
}

/* The item, or NULL. */
static const void *find_named(const name_index *index, const char *name)
{
    const char *const *key = &name;
    const char *const **found =
        index->count == 0 ? NULL : bsearch(&key, index->sorted, index->count, sizeof *index->sorted, compare_named);

    return found != NULL ? *found : NULL;
}

/* ---- named values: "inputs" of a run, "state" of a program, including the tensors of the safetensors file */

typedef struct named_values {
    int count;
    bl_wire_tensor *tensors; /* names of the values, and their types */
    bl_tensor_value *values;
} named_values;

static bl_status decode_named(bl_decoder *d, const bl_json *doc, const char *group, bool state, named_values *out, bl_err *err)
{
    bl_json object, one;
    bool given = bl_json_find(doc, group, &object);
    const bl_tensor_file *file = d->env->binary;

    *out = (named_values){0};
    if (given)
        BL_TRY(bl_json_expect(&object, BL_JSON_OBJECT, err));
    size_t n = (given ? bl_json_count(&object) : 0) + (file != NULL ? file->ntensors : 0);
    if (n > d->env->limits.max_inputs)
        return bl_json_fail(doc, err, BL_ELIMIT, "%s: %zu tensors; the limit is %zu", group, n, d->env->limits.max_inputs);
    out->tensors = bl_arena_array(d->arena, n, sizeof *out->tensors);
    out->values = bl_arena_array(d->arena, n, sizeof *out->values);
    const char **names = bl_arena_array(d->arena, n, sizeof *names);
    if (out->tensors == NULL || out->values == NULL || names == NULL)
        return bl_arena_status(d->arena, err);
    bl_json_iter it = bl_json_each(&object);
    while (given && bl_json_next(&it, &one)) {
        BL_TRY(bl_decode_name(d, &object, one.key, &names[out->count], err));
        BL_TRY(bl_decode_value(d, &one, NULL, state, &out->values[out->count], err));
        out->count++;
    }
    for (size_t i = 0; file != NULL && i < file->ntensors; i++) {
        BL_TRY(bl_decode_binary(d, group, &file->tensors[i], &out->values[out->count], err));
        names[out->count++] = file->tensors[i].name;
        if (given && bl_json_find(&object, file->tensors[i].name, &one))
            return bl_json_fail(&object, err, BL_EGRAPH, "\"%s\" is given twice, in the document and beside it",
                                file->tensors[i].name);
    }
    for (int i = 0; i < out->count; i++)
        out->tensors[i] = (bl_wire_tensor){names[i], bl_value_type(&out->values[i])};
    return bl_decode_distinct(names, (size_t)out->count, given ? &object : doc, err);
}

/* Values for tensors of known types; each tensor must get exactly one value. */
typedef struct typed_values {
    bl_decoder *d;
    const char *group;
    int count;
    const bl_wire_tensor *tensors;
    name_index index;
    bl_tensor_value *values;
    bool *filled;
} typed_values;

static bl_status decode_make_typed(typed_values *t, bl_err *err)
{
    size_t n = (size_t)t->count;

    t->values = bl_arena_array(t->d->arena, n, sizeof *t->values);
    t->filled = bl_arena_array(t->d->arena, n, sizeof *t->filled);
    if (t->values == NULL || t->filled == NULL)
        return bl_arena_status(t->d->arena, err);
    return decode_make_index(t->d->arena, t->tensors, n, sizeof *t->tensors, &t->index, err);
}

/* Finds the index of the tensor |name|; fails if it already has a value. */
static bl_status find_typed(typed_values *t, const bl_json *doc, const char *name, int *out, bl_err *err)
{
    const bl_wire_tensor *found = find_named(&t->index, name);

    if (found == NULL)
        return bl_json_fail(doc, err, BL_EGRAPH, "%s: the entry has nothing named \"%.140s\"", t->group, name);
    *out = (int)(found - t->tensors);
    if (t->filled[*out])
        return bl_json_fail(doc, err, BL_EGRAPH, "%s: \"%s\" is given twice, in the document and beside it", t->group, name);
    t->filled[*out] = true;
    return BL_OK;
}

static bl_status decode_typed(typed_values *t, const bl_json *doc, bl_err *err)
{
    bl_json object, one;
    bool given = bl_json_find(doc, t->group, &object);
    const bl_tensor_file *file = t->d->env->binary;
    int at = 0;

    BL_TRY(decode_make_typed(t, err));
    if (given)
        BL_TRY(bl_json_expect(&object, BL_JSON_OBJECT, err));
    bl_json_iter it = bl_json_each(&object);
    while (given && bl_json_next(&it, &one)) {
        BL_TRY(find_typed(t, doc, one.key, &at, err));
        BL_TRY(bl_decode_value(t->d, &one, &t->tensors[at].type, false, &t->values[at], err));
    }
    for (size_t i = 0; file != NULL && i < file->ntensors; i++) {
        BL_TRY(find_typed(t, doc, file->tensors[i].name, &at, err));
        BL_TRY(bl_decode_binary(t->d, t->group, &file->tensors[i], &t->values[at], err));
    }
    for (int i = 0; i < t->count; i++) {
        if (!t->filled[i])
            return bl_json_fail(doc, err, BL_EGRAPH, "%s: \"%s\" is missing", t->group, t->tensors[i].name);
        BL_TRY(bl_decode_match(t->d, &t->values[i], &t->tensors[i].type, err));
    }
    return BL_OK;
}

/* ---- POST run */

/* A plan serves the whole range; powers of two keep the number of plans small. */
static void default_range(bl_dim_use *use)
{
    use->var.lo = use->size < 1 ? 0 : 1;
    use->var.hi = 1;
    while (use->var.hi < use->size)
        use->var.hi *= 2;
    use->ranged = true;
}

static bl_status name_dimensions(bl_decoder *d, const bl_json *doc, bl_run_request *out, bl_err *err)
{
    bl_json shapes, one;
    bl_wire_graph *g = &out->graph;
    name_index index;

    if (!bl_json_find(doc, "shapes", &shapes))
        return BL_OK;
    BL_TRY(decode_make_index(d->arena, g->inputs, (size_t)g->ninputs, sizeof *g->inputs, &index, err));
    BL_TRY(bl_json_expect(&shapes, BL_JSON_OBJECT, err));
    bl_json_iter it = bl_json_each(&shapes);
    while (bl_json_next(&it, &one)) {
        bl_wire_type type = {0};
        const bl_wire_tensor *input = find_named(&index, one.key);
        if (input == NULL)
            return bl_json_fail(&shapes, err, BL_EGRAPH, "no input is named \"%.140s\"", one.key);
        ptrdiff_t i = input - g->inputs;
        type.dtype = out->values[i].dtype;
        BL_TRY(bl_decode_shape(d, &one, true, &type, err));
        BL_TRY(bl_decode_match(d, &out->values[i], &type, err));
        g->inputs[i].type = type;
    }
    return BL_OK;
}

/* Makes the named dimensions that the document uses the graph's. */
static bl_status take_vars(bl_decoder *d, bl_wire_graph *graph, int64_t **sizes, bl_err *err)
{
    graph->vars = bl_arena_array(d->arena, (size_t)d->nuses, sizeof *graph->vars);
    *sizes = bl_arena_array(d->arena, (size_t)d->nuses, sizeof **sizes);
    if (graph->vars == NULL || *sizes == NULL)
        return bl_arena_status(d->arena, err);
    for (int i = 0; i < d->nuses; i++) {
        if (!d->uses[i].ranged)
            default_range(&d->uses[i]);
        graph->vars[i] = d->uses[i].var;
        (*sizes)[i] = d->uses[i].size;
    }
    graph->nvars = d->nuses;
    return BL_OK;
}

bl_status bl_decode_run(const bl_decode_env *env, const bl_json *doc, bl_run_request *out, bl_err *err)
{
    static const char *const names[] = {"inputs",  "nodes",    "outputs", "rows",    "keep",        "shapes", "dims",
                                        "sizes",   "device",   "lease",   "debug",   "beam",        "seed",   "timeout_ms",
                                        PRECISION, "priority", "dry_run", "explain", CHECK_INDICES, NULL};
    bl_decoder *d = bl_decoder_make(env);
    named_values inputs;
    bl_json outputs;

    *out = (bl_run_request){0};
    if (d == NULL)
        return bl_decoder_fail(env, err);
    BL_TRY(bl_json_allow(doc, names, err));
    BL_TRY(decode_options(d, doc, &out->options, err));
    out->graph.check_indices = out->options.check_indices;
    BL_TRY(bl_decode_ranges(d, doc, err));
    BL_TRY(decode_named(d, doc, "inputs", false, &inputs, err));
    out->graph.ninputs = inputs.count;
    out->graph.inputs = inputs.tensors;
    out->values = inputs.values;
    BL_TRY(name_dimensions(d, doc, out, err));
    BL_TRY(bl_decode_graph(d, doc, &out->graph, err));
    BL_TRY(bl_decode_unused_ranges(d, doc, err));
    BL_TRY(bl_decode_sizes(d, doc, err));
    BL_TRY(take_vars(d, &out->graph, &out->vars, err));
    out->nsent = bl_json_find(doc, "outputs", &outputs) ? (int)bl_json_count(&outputs) : 0;
    return BL_OK;
}

/* ---- PUT program */

static bl_status decode_input_types(bl_decoder *d, const bl_json *doc, bl_wire_graph *graph, bl_err *err)
{
    bl_json inputs, one;

    if (!bl_json_find(doc, "inputs", &inputs))
        return BL_OK;
    BL_TRY(bl_json_expect(&inputs, BL_JSON_OBJECT, err));
    size_t n = bl_json_count(&inputs);
    if (n > d->env->limits.max_inputs)
        return bl_json_fail(&inputs, err, BL_ELIMIT, "%zu inputs; the limit is %zu", n, d->env->limits.max_inputs);
    graph->inputs = bl_arena_array(d->arena, n, sizeof *graph->inputs);
    if (graph->inputs == NULL)
        return bl_arena_status(d->arena, err);
    bl_json_iter it = bl_json_each(&inputs);
    while (bl_json_next(&it, &one)) {
        bl_wire_tensor *input = &graph->inputs[graph->ninputs++];
        BL_TRY(bl_decode_name(d, &inputs, one.key, &input->name, err));
        BL_TRY(bl_decode_type(d, &one, &input->type, err));
    }
    return BL_OK;
}

static bl_status decode_entry(bl_decoder *d, const bl_json *doc, const bl_program_doc *program, bl_program_entry *out,
                              bl_err *err)
{
    int64_t *sizes;

    d->nuses = 0;
    out->graph = (bl_wire_graph){
        .nstates = program->nstates, .states = program->states, .program = true, .check_indices = program->options.check_indices};
    BL_TRY(decode_input_types(d, doc, &out->graph, err));
    BL_TRY(bl_decode_graph(d, doc, &out->graph, err));
    return take_vars(d, &out->graph, &sizes, err);
}

static bl_status decode_entries(bl_decoder *d, const bl_json *doc, const bl_json *entries, bl_program_doc *out, bl_err *err)
{
    static const char *const names[] = {"inputs", "nodes", "updates", "outputs", "rows", NULL};
    bl_json one;

    BL_TRY(bl_json_expect(entries, BL_JSON_OBJECT, err));
    for (size_t i = 0; names[i] != NULL; i++) {
        if (bl_json_find(doc, names[i], &one))
            return bl_json_fail(doc, err, BL_EINVAL, "\"%s\" is given beside \"entries\"; move it into an entry", names[i]);
    }
    size_t n = bl_json_count(entries);
    if (n == 0)
        return bl_json_fail(entries, err, BL_EGRAPH, "the program has no entry; it must have at least one");
    if (n > d->env->limits.max_inputs)
        return bl_json_fail(entries, err, BL_ELIMIT, "%zu entries; the limit is %zu", n, d->env->limits.max_inputs);
    out->entries = bl_arena_array(d->arena, n, sizeof *out->entries);
    if (out->entries == NULL)
        return bl_arena_status(d->arena, err);
    bl_json_iter it = bl_json_each(entries);
    while (bl_json_next(&it, &one)) {
        bl_program_entry *entry = &out->entries[out->nentries++];
        BL_TRY(bl_decode_name(d, entries, one.key, &entry->name, err));
        BL_TRY(bl_json_allow(&one, names, err));
        BL_TRY(decode_entry(d, &one, out, entry, err));
    }
    return BL_OK;
}

static bl_status decode_preferred(const bl_json *at, bl_wire_batching *out, bl_err *err)
{
    bl_json one;

    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, err));
    bl_json_iter it = bl_json_each(at);
    while (bl_json_next(&it, &one)) {
        if (out->npreferred == BL_WIRE_MOST_PREFERRED)
            return bl_json_fail(at, err, BL_ELIMIT, "more than %d sizes", BL_WIRE_MOST_PREFERRED);
        BL_TRY(bl_json_int(&one, 1, BL_WIRE_MAX_EXTENT, &out->preferred[out->npreferred++], err));
    }
    return BL_OK;
}

/* An object, or a bool; false turns batching off. */
static bl_status decode_batching(const bl_json *doc, bl_wire_batching *out, bl_err *err)
{
    static const bl_json_field fields[] = {
        {BL_FIELD(bl_wire_batching, BL_FIELD_INT64, "max_rows", max_rows), .least = 1, .most = BL_WIRE_MAX_EXTENT},
        {BL_FIELD(bl_wire_batching, BL_FIELD_INT64, "delay_us", delay_us), .most = MOST_DELAY_US},
        {BL_FIELD(bl_wire_batching, BL_FIELD_INT64, "max_waiting", max_waiting), .least = 1, .most = INT32_MAX},
        {.name = "preferred_rows"},
        {.name = NULL},
    };
    bl_json at, one;

    *out = (bl_wire_batching){0};
    if (!bl_json_find(doc, "batching", &at))
        return BL_OK;
    if (at.kind == BL_JSON_BOOL) {
        out->off = !at.boolean;
        return BL_OK;
    }
    BL_TRY(bl_json_read(&at, fields, true, out, err));
    return bl_json_find(&at, "preferred_rows", &one) ? decode_preferred(&one, out, err) : BL_OK;
}

bl_status bl_decode_program(const bl_decode_env *env, const bl_json *doc, bl_program_doc *out, bl_err *err)
{
    static const char *const names[] = {"inputs",  "state",    "nodes",   "updates",     "outputs", "rows",
                                        "entries", "dims",     "device",  "lease",       "beam",    "seed",
                                        "debug",   "batching", PRECISION, CHECK_INDICES, NULL};
    bl_decoder *d = bl_decoder_make(env);
    named_values states;
    bl_json entries;

    *out = (bl_program_doc){0};
    if (d == NULL)
        return bl_decoder_fail(env, err);
    d->need_ranges = true;
    BL_TRY(bl_json_allow(doc, names, err));
    BL_TRY(decode_options(d, doc, &out->options, err));
    BL_TRY(decode_batching(doc, &out->batching, err));
    BL_TRY(bl_decode_ranges(d, doc, err));
    BL_TRY(decode_named(d, doc, "state", true, &states, err));
    out->nstates = states.count;
    out->states = states.tensors;
    out->values = states.values;
    for (int i = 0; i < states.count; i++) {
        if (strcmp(states.tensors[i].name, "rng") == 0)
            return bl_fail(err, BL_EGRAPH, "state: the name \"rng\" is reserved for the random state of every program");
    }
    if (bl_json_find(doc, "entries", &entries)) {
        BL_TRY(decode_entries(d, doc, &entries, out, err));
    } else {
        out->entries = bl_arena_alloc(d->arena, sizeof *out->entries);
        if (out->entries == NULL)
            return bl_arena_status(d->arena, err);
        out->nentries = 1;
        out->entries[0].name = "main";
        BL_TRY(decode_entry(d, doc, out, &out->entries[0], err));
    }
    return bl_decode_unused_ranges(d, doc, err);
}

/* ---- POST program run */

bl_status bl_decode_choose_entry(const bl_program_entry *entries, int nentries, const char *name, int *out, bl_err *err)
{
    bl_text known = {0};

    *out = 0;
    if (name == NULL && nentries == 1)
        return BL_OK;
    if (name == NULL)
        name = "main";
    for (*out = 0; *out < nentries; ++*out) {
        if (strcmp(entries[*out].name, name) == 0)
            return BL_OK;
    }
    for (int i = 0; i < nentries; i++)
        bl_text_printf(&known, "%s%s", i > 0 ? ", " : "", entries[i].name);
    bl_status st = bl_fail(err, BL_EGRAPH, "the program has no entry \"%.140s\"; its entries are: %.300s", name,
                           known.data != NULL ? known.data : "unknown (out of host memory)");
    bl_text_fini(&known);
    return st;
}

static bl_status choose_entry(const bl_json *doc, const bl_program_entry *entries, int nentries, int *out, bl_err *err)
{
    bl_json at;
    const char *name = NULL;

    *out = 0;
    if (bl_json_find(doc, "entry", &at))
        BL_TRY(bl_json_string(&at, &name, err));
    return bl_decode_choose_entry(entries, nentries, name, out, err);
}

/* Decodes "every" and "outputs" of |collect|: which outputs of the entry to report, and how often. */
static bl_status take_reports(bl_decoder *d, const bl_json *collect, const bl_wire_graph *graph, uint64_t steps,
                              bl_program_run *out, bl_err *err)
{
    bl_json every, outputs, one;
    name_index index;
    int64_t value = 0;

    BL_TRY(bl_json_need(collect, "every", &every, err));
    BL_TRY(bl_json_need(collect, "outputs", &outputs, err));
    BL_TRY(bl_json_int(&every, 1, INT64_MAX, &value, err));
    out->every = (uint64_t)value;
    if (steps / out->every > BL_WIRE_MAX_REPORTS)
        return bl_json_fail(&every, err, BL_ELIMIT, "%llu reports; the limit is %d", (unsigned long long)(steps / out->every),
                            BL_WIRE_MAX_REPORTS);
    BL_TRY(bl_json_expect(&outputs, BL_JSON_ARRAY, err));
    size_t n = bl_json_count(&outputs);
    if (n > (size_t)bl_wire_shown(graph))
        return bl_json_fail(&outputs, err, BL_EGRAPH, "%zu names, but the entry has %d outputs", n, bl_wire_shown(graph));
    const char **chosen = bl_arena_array(d->arena, n, sizeof *chosen);
    out->collect = bl_arena_array(d->arena, n, sizeof *out->collect);
    if (chosen == NULL || out->collect == NULL)
        return bl_arena_status(d->arena, err);
    BL_TRY(decode_make_index(d->arena, graph->outputs, (size_t)bl_wire_shown(graph), sizeof *graph->outputs, &index, err));
    bl_json_iter it = bl_json_each(&outputs);
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_string(&one, &chosen[out->ncollect], err));
        const bl_wire_output *output = find_named(&index, chosen[out->ncollect]);
        if (output == NULL)
            return bl_json_fail(&one, err, BL_EGRAPH, "the entry has no output \"%.140s\"", chosen[out->ncollect]);
        out->collect[out->ncollect++] = (int)(output - graph->outputs);
    }
    return bl_decode_distinct(chosen, n, &outputs, err);
}

static bl_status decode_collect(bl_decoder *d, const bl_json *doc, const bl_wire_graph *graph, bl_program_run *out, bl_err *err)
{
    static const char *const names[] = {"every", "outputs", NULL};
    bl_json collect;

    if (!bl_json_find(doc, "collect", &collect))
        return BL_OK;
    BL_TRY(bl_json_allow(&collect, names, err));
    return take_reports(d, &collect, graph, out->steps, out, err);
}

/* Decodes {"NAME": "output"}: the server retains these outputs under these names instead of sending them. */
static bl_status decode_keep(bl_decoder *d, const bl_json *doc, const bl_wire_graph *graph, bl_program_run *out, bl_err *err)
{
    bl_json keep, one;
    name_index index;

    if (!bl_json_find(doc, "keep", &keep))
        return BL_OK;
    BL_TRY(bl_json_expect(&keep, BL_JSON_OBJECT, err));
    out->kept = bl_arena_array(d->arena, (size_t)graph->noutputs + 1, sizeof *out->kept);
    if (out->kept == NULL)
        return bl_arena_status(d->arena, err);
    BL_TRY(decode_make_index(d->arena, graph->outputs, (size_t)bl_wire_shown(graph), sizeof *graph->outputs, &index, err));
    bl_json_iter it = bl_json_each(&keep);
    while (bl_json_next(&it, &one)) {
        const char *name = NULL, *held = NULL;
        BL_TRY(bl_decode_name(d, &keep, one.key, &held, err));
        BL_TRY(bl_json_string(&one, &name, err));
        const bl_wire_output *output = find_named(&index, name);
        if (output == NULL)
            return bl_json_fail(&one, err, BL_EGRAPH, "the entry has no output \"%.140s\"", name);
        if (output->count > 0)
            return bl_json_fail(
                &one, err, BL_EGRAPH,
                "keep: the run counts the length of the output \"%.140s\"; such an output can be sent, but not kept", name);
        if (out->kept[output - graph->outputs] != NULL)
            return bl_json_fail(&one, err, BL_EGRAPH, "the output \"%.140s\" is kept twice", name);
        out->kept[output - graph->outputs] = held;
    }
    return BL_OK;
}

/* Decodes the inputs of the entry and their sizes. */
static bl_status decode_inputs_of(bl_decoder *d, const bl_json *doc, const bl_wire_graph *graph, bl_program_run *out, bl_err *err)
{
    d->nuses = graph->nvars;
    for (int i = 0; i < graph->nvars; i++)
        d->uses[i] = (bl_dim_use){graph->vars[i], true, -1};
    typed_values inputs = {.d = d, .group = "inputs", .count = graph->ninputs, .tensors = graph->inputs};
    BL_TRY(decode_typed(&inputs, doc, err));
    BL_TRY(bl_decode_sizes(d, doc, err));
    out->values = inputs.values;
    out->vars = bl_arena_array(d->arena, (size_t)graph->nvars, sizeof *out->vars);
    if (out->vars == NULL)
        return bl_arena_status(d->arena, err);
    for (int i = 0; i < graph->nvars; i++)
        out->vars[i] = d->uses[i].size;
    return BL_OK;
}

bl_status bl_decode_reported(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries, uint64_t steps,
                             bl_program_run *out, bl_err *err)
{
    BL_TRY(choose_entry(doc, entries, nentries, &out->entry, err));
    const bl_wire_graph *graph = &entries[out->entry].graph;
    BL_TRY(take_reports(d, doc, graph, steps, out, err));
    return decode_inputs_of(d, doc, graph, out, err);
}

bl_status bl_decode_steps(bl_decoder *d, const bl_json *doc, const bl_program_entry *entries, int nentries, bl_program_run *out,
                          bl_err *err)
{
    bl_json at;
    int64_t steps = 1;

    BL_TRY(decode_options(d, doc, &out->options, err));
    BL_TRY(choose_entry(doc, entries, nentries, &out->entry, err));
    const bl_wire_graph *graph = &entries[out->entry].graph;
    if (bl_json_find(doc, "steps", &at))
        BL_TRY(bl_json_int(&at, 1, INT64_MAX, &steps, err));
    out->steps = (uint64_t)steps;
    BL_TRY(decode_collect(d, doc, graph, out, err));
    BL_TRY(decode_keep(d, doc, graph, out, err));
    return decode_inputs_of(d, doc, graph, out, err);
}

bl_status bl_decode_program_run(const bl_decode_env *env, const bl_json *doc, const bl_program_entry *entries, int nentries,
                                bl_program_run *out, bl_err *err)
{
    static const char *const names[] = {"entry", "inputs", "sizes", "steps",      "collect",  "keep",    "seq", "device",
                                        "lease", "beam",   "debug", "timeout_ms", "priority", "dry_run", NULL};
    bl_decoder *d = bl_decoder_make(env);
    bl_json at;

    *out = (bl_program_run){0};
    if (d == NULL)
        return bl_decoder_fail(env, err);
    BL_TRY(bl_json_allow(doc, names, err));
    if (bl_json_find(doc, "seq", &at)) {
        out->sequenced = true;
        BL_TRY(bl_json_u64(&at, &out->seq, err));
    }
    return bl_decode_steps(d, doc, entries, nentries, out, err);
}

/* ---- small documents */

bl_status bl_decode_state(const bl_decode_env *env, const bl_json *doc, const bl_wire_tensor *states, int nstates,
                          bl_tensor_value **values, bl_err *err)
{
    static const char *const names[] = {"state", "lease", NULL};
    bl_decoder *d = bl_decoder_make(env);
    bl_run_options options;

    *values = NULL;
    if (d == NULL)
        return bl_decoder_fail(env, err);
    BL_TRY(bl_json_allow(doc, names, err));
    BL_TRY(decode_options(d, doc, &options, err));
    typed_values state = {.d = d, .group = "state", .count = nstates, .tensors = states};
    BL_TRY(decode_typed(&state, doc, err));
    *values = state.values;
    return BL_OK;
}

bl_status bl_decode_lease(const bl_json *doc, double *ttl, bl_err *err)
{
    static const char *const names[] = {"ttl", NULL};
    bl_wire_number number;
    bl_json at;

    BL_TRY(bl_json_allow(doc, names, err));
    *ttl = 0;
    if (!bl_json_find(doc, "ttl", &at))
        return BL_OK;
    BL_TRY(bl_json_number(&at, &number, err));
    *ttl = number.value;
    if (number.value > 0 && number.value <= MAX_TTL)
        return BL_OK;
    return bl_json_fail(&at, err, BL_EGRAPH, "is %g seconds; it must be more than 0 and at most %d", number.value, MAX_TTL);
}

bl_status bl_decode_names(const bl_decode_env *env, const bl_json *doc, const char ***names, size_t *count, const char **lease,
                          bl_err *err)
{
    static const char *const members[] = {"names", "lease", NULL};
    bl_json list, one;

    *names = NULL;
    *count = 0;
    *lease = NULL;
    BL_TRY(bl_json_allow(doc, members, err));
    BL_TRY(bl_json_need(doc, "names", &list, err));
    BL_TRY(bl_json_expect(&list, BL_JSON_ARRAY, err));
    if (bl_json_find(doc, "lease", &one))
        BL_TRY(bl_json_string(&one, lease, err));
    *names = bl_arena_array(env->arena, bl_json_count(&list), sizeof **names);
    if (*names == NULL)
        return bl_arena_status(env->arena, err);
    bl_json_iter it = bl_json_each(&list);
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_string(&one, &(*names)[*count], err));
        if (!bl_wire_name_ok((*names)[*count]))
            return bl_json_fail(&one, err, BL_EGRAPH, "\"%.160s\" is not a valid name", (*names)[*count]);
        ++*count;
    }
    return BL_OK;
}

bl_status bl_decode_tensor(const bl_decode_env *env, const bl_json *doc, bl_tensor_value *out, bl_err *err)
{
    bl_decoder *d = bl_decoder_make(env);

    if (d == NULL)
        return bl_decoder_fail(env, err);
    return bl_decode_value(d, doc, NULL, false, out, err);
}
