/* SPDX-License-Identifier: MIT */
#include "server/programs/variants.h"

#include "server/access/access.h"
#include "server/http/offload.h"
#include "server/programs/program_make.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct bl_variants {
    pthread_mutex_t lock;
    bl_span file;            /* the model without its weights */
    bl_onnx_options options; /* options of its imports */
    bl_program_entry entry;
    bl_wire_type *output_types;
    bool *wanted; /* the inputs whose values are needed; under the lock: the set only grows */
    bl_variant *first;
    int count; /* |first| and |count| under the lock; most recently used first */
};

/* ---- lifetime */

static void release_variant(bl_variant *variant)
{
    bl_program *program = variant->program;

    for (int i = 0; i < program->doc.nentries; i++)
        bl_plans_forget(program->server->plans, program->entries[i].plan);
    bl_program_release(program); /* also frees the variant, which is in its arena */
}

void bl_variants_destroy(bl_variants *variants)
{
    if (variants == NULL)
        return;
    while (variants->first != NULL) {
        bl_variant *variant = variants->first;
        variants->first = variant->next;
        release_variant(variant);
    }
    pthread_mutex_destroy(&variants->lock);
}

static void unmap_files(void *files)
{
    bl_mapped_fini(files);
}

/* Copy the options to |arena|. */
static bl_status keep_options(bl_arena *arena, const bl_onnx_options *from, bl_onnx_options *to, bl_err *err)
{
    bl_onnx_range *ranges = bl_arena_array(arena, (size_t)from->nranges + 1, sizeof *ranges);

    *to = *from;
    to->ranges = ranges;
    to->folder = from->folder != NULL ? bl_arena_strdup(arena, from->folder) : NULL;
    to->files = NULL; /* each import maps its own files */
    for (int i = 0; ranges != NULL && i < from->nranges; i++) {
        ranges[i] = from->ranges[i];
        ranges[i].var.name = bl_arena_strdup(arena, ranges[i].var.name);
        ranges[i].same = ranges[i].same != NULL ? bl_arena_strdup(arena, ranges[i].same) : NULL;
    }
    return bl_arena_status(arena, err);
}

bl_status bl_variants_create(bl_request *rq, bl_program *program, bl_span file, const bl_onnx_options *options,
                             const bool *wanted, bl_onnx_model *outline)
{
    bl_variants *variants = bl_arena_alloc(program->arena, sizeof *variants);
    bl_status st = bl_onnx_outline(file, options, program->arena, outline, &rq->err);

    BL_TRY(st);
    if (variants == NULL)
        return bl_arena_status(program->arena, &rq->err);
    *variants = (bl_variants){.entry = outline->program.entries[0], .output_types = outline->output_types};
    variants->wanted = bl_arena_array(program->arena, (size_t)outline->ninputs + 1, sizeof *variants->wanted);
    BL_TRY(keep_options(program->arena, options, &variants->options, &rq->err));
    BL_TRY(bl_onnx_thin(file, program->arena, &variants->file, &rq->err));
    memcpy(variants->wanted, wanted, (size_t)outline->ninputs * sizeof *wanted);
    pthread_mutex_init(&variants->lock, NULL);
    program->variants = variants;
    program->doc = outline->program;
    program->doc.nentries = 0;
    for (int i = 0; i < program->doc.nstates; i++)
        program->doc.values[i].share = true; /* shared with the variants */
    return BL_OK;
}

/* ---- description */

size_t bl_variants_bytes(const bl_variants *variants)
{
    return variants != NULL ? variants->file.len : 0;
}

const bl_program_entry *bl_variants_entry(const bl_variants *variants)
{
    return &variants->entry;
}

const bl_wire_type *bl_variants_output(const bl_variants *variants, int i)
{
    return &variants->output_types[i];
}

bool bl_variants_wants(bl_variants *variants, int input)
{
    pthread_mutex_lock(&variants->lock);
    bool wants = variants->wanted[input];
    pthread_mutex_unlock(&variants->lock);
    return wants;
}

int bl_variants_count(bl_variants *variants)
{
    pthread_mutex_lock(&variants->lock);
    int count = variants->count;
    pthread_mutex_unlock(&variants->lock);
    return count;
}

bl_plan *bl_variants_plan(bl_variants *variants)
{
    pthread_mutex_lock(&variants->lock);
    bl_plan *plan = variants->first != NULL ? bl_plan_current(variants->first->program->entries[0].plan) : NULL;
    pthread_mutex_unlock(&variants->lock);
    return plan;
}

bl_status bl_variants_refuse(const bl_program *program, const char *what, bl_err *err)
{
    bl_text names = {0};
    bl_status st = BL_OK;

    if (program->variants == NULL)
        return BL_OK;
    const bl_wire_graph *graph = &program->variants->entry.graph;
    for (int i = 0; i < graph->ninputs; i++) {
        if (bl_variants_wants(program->variants, i))
            bl_text_printf(&names, "%s\"%s\"", names.len > 0 ? ", " : "", graph->inputs[i].name);
    }
    st = bl_fail(
        err, BL_EGRAPH,
        "program \"%s\" is compiled for each value of its input %.200s, and %s: make the input an initialiser of the model",
        program->name, bl_text_get(&names), what);
    bl_text_fini(&names);
    return st;
}

/* ---- lookup; under the lock */

static bool is_same(const bl_tensor_value *a, const bl_tensor_value *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0 && a->bytes == b->bytes &&
           (a->bytes == 0 || memcmp(a->span.data, b->span.data, a->bytes) == 0);
}

/* One lookup, in the request's arena. */
typedef struct search {
    bl_variant_call call;
    bl_variants *variants;
    const bl_tensor_value **given; /* for each input: its value, once a variant needs it and it is read; else NULL */
    bl_variant *found;
    bool made;
    bl_mapped files; /* mapped files of external data, for the import */
} search;

/* Is |variant| made for these values?  The variant's own inputs are not compared. */
static bool variants_fits(const bl_variant *variant, const search *s)
{
    const bl_wire_graph *graph = &s->variants->entry.graph;

    for (int i = 0; i < graph->ninputs; i++) {
        if (variant->given[i] != NULL && (s->given[i] == NULL || !is_same(variant->given[i], s->given[i])))
            return false;
    }
    return variant->sizes == NULL || memcmp(variant->sizes, s->call.sizes, (size_t)graph->nvars * sizeof *variant->sizes) == 0;
}

/* The link to the variant, or the end of the list. */
static bl_variant **variants_find_place(const search *s)
{
    bl_variant **at = &s->variants->first;

    while (*at != NULL && !variants_fits(*at, s))
        at = &(*at)->next;
    return at;
}

/* Move the variant to the front, and retain it. */
static bl_variant *take_variant(const search *s)
{
    bl_variants *variants = s->variants;
    bl_variant **at = variants_find_place(s), *variant = *at;

    if (variant == NULL)
        return NULL;
    *at = variant->next;
    variant->next = variants->first;
    variants->first = variant;
    bl_program_retain(variant->program);
    return variant;
}

/* Add |variant|.  *old becomes the least recently used variant if the cache is full, or NULL. */
static void add_variant(bl_variants *variants, bl_variant *variant, bl_variant **old)
{
    bl_variant **last = &variants->first;

    variant->next = variants->first;
    variants->first = variant;
    *old = NULL;
    if (variants->count++ < BL_MOST_VARIANTS)
        return;
    while ((*last)->next != NULL)
        last = &(*last)->next;
    *old = *last;
    *last = NULL;
    variants->count--;
}

/* ---- state machine of a lookup */

static bl_status variants_go_on(bl_request *rq, search *s);

static bl_status go_on_then(bl_request *rq)
{
    return variants_go_on(rq, rq->data);
}

static bl_status be_ready(bl_request *rq, const search *s)
{
    return s->call.ready(rq, s->call.arg, s->found, s->made);
}

/* ---- values */

static bl_device_tensor *variants_held_of(const search *s, const bl_tensor_value *value)
{
    const bl_bound *bound = value->kind == BL_VALUE_HELD && s->call.x != NULL ? s->call.x->in.bound : NULL;

    while (bound != NULL && strcmp(bound->name, value->held) != 0)
        bound = bound->next;
    return bound != NULL ? bound->held : NULL;
}

static bl_status variants_read_value(bl_request *rq, search *s, int i, bool on_device)
{
    const bl_tensor_value *from = &s->call.values[i];
    bl_device_tensor *held = variants_held_of(s, from);
    bl_tensor_value *to = bl_arena_alloc(rq->arena, sizeof *to);
    size_t count = held != NULL ? held->bytes / bl_dtype_bytes(held->dtype) : from->count;

    if (count > BL_ONNX_SMALL)
        return bl_fail(&rq->err, BL_EGRAPH,
                       "input \"%s\" has %zu elements; its values determine shapes, so the program is compiled for them; it may "
                       "have at most %d elements",
                       s->variants->entry.graph.inputs[i].name, count, BL_ONNX_SMALL);
    char *data = to != NULL ? bl_arena_alloc(rq->arena, count * sizeof(uint64_t) + 1) : NULL;
    if (data == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *to = *from;
    to->kind = BL_VALUE_BYTES;
    if (held != NULL) {
        bl_tensor_value is = {.kind = BL_VALUE_BYTES, .label = from->label, .dtype = held->dtype, .ndim = held->ndim};
        memcpy(is.dim, held->dim, sizeof is.dim);
        is.count = count;
        is.bytes = held->bytes;
        *to = is;
    }
    to->span = (bl_span){data, to->bytes};
    if (held != NULL && on_device)
        BL_TRY(bl_device_tensor_read(held, data, &rq->err));
    else if (held != NULL)
        memcpy(data, bl_device_tensor_mapped(held), held->bytes);
    else
        BL_TRY(bl_tensor_scan(from, data, &rq->err));
    s->given[i] = to;
    return BL_OK;
}

/* Read the wanted values that this thread can read.  *away becomes a worker whose device has one of the others, or NULL. */
static bl_status read_values(bl_request *rq, search *s, const bl_worker *here, bl_worker **away)
{
    *away = NULL;
    for (int i = 0; i < s->variants->entry.graph.ninputs; i++) {
        const bl_device_tensor *held = variants_held_of(s, &s->call.values[i]);
        if (s->given[i] != NULL || !bl_variants_wants(s->variants, i))
            continue;
        if (held != NULL && held->worker != here && bl_device_tensor_mapped(held) == NULL)
            *away = held->worker;
        else
            BL_TRY(variants_read_value(rq, s, i, held != NULL && held->worker == here));
    }
    return BL_OK;
}

/* Read wanted values on a device's thread. */
static bl_step fetch_values(bl_request *rq)
{
    search *s = rq->data;
    bl_worker *next = NULL;

    for (int i = 0; i < s->variants->entry.graph.ninputs && rq->err.status == BL_OK; i++) {
        const bl_device_tensor *held = variants_held_of(s, &s->call.values[i]);
        if (held != NULL && s->given[i] == NULL && bl_variants_wants(s->variants, i))
            next = held->worker;
    }
    if (next != NULL)
        (void)read_values(rq, s, next, &next);
    return BL_STEP_DONE;
}

/* ---- making a variant */

/* Fill a variant with copies of the values that it is for. */
static bl_status variants_fill_variant(const search *s, bl_program *program, const bl_onnx_model *model, bool sized,
                                       bl_variant **out, bl_err *err)
{
    int n = s->variants->entry.graph.ninputs, own = program->doc.entries[0].graph.ninputs;
    bl_variant *variant = bl_arena_alloc(program->arena, sizeof *variant);
    const bl_tensor_value **given = bl_arena_array(program->arena, (size_t)n + 1, sizeof *given);
    int *input = bl_arena_array(program->arena, (size_t)own + 1, sizeof *input);
    size_t nvars = (size_t)s->variants->entry.graph.nvars;
    int64_t *sizes = bl_arena_array(program->arena, nvars + 1, sizeof *sizes);

    if (variant == NULL || given == NULL || input == NULL || sizes == NULL)
        return bl_arena_status(program->arena, err);
    for (int i = 0; i < own; i++)
        input[i] = model->number[i];
    for (int i = 0; i < n; i++) {
        bl_tensor_value *copy = s->given[i] != NULL ? bl_arena_alloc(program->arena, sizeof *copy) : NULL;
        char *data = copy != NULL ? bl_arena_alloc(program->arena, s->given[i]->bytes + 1) : NULL;
        if (data == NULL)
            continue;
        *copy = *s->given[i];
        memcpy(data, copy->span.data, copy->bytes);
        copy->span.data = data;
        given[i] = copy;
    }
    if (nvars > 0)
        memcpy(sizes, s->call.sizes, nvars * sizeof *sizes);
    *variant = (bl_variant){.program = program, .input = input, .given = given, .sizes = sized ? sizes : NULL};
    *out = variant;
    return bl_arena_status(program->arena, err);
}

/* The variant uses the weights of the program by reference. */
static bl_status share_weights(bl_exec *x, const bl_program *from, bl_program *to, const bl_onnx_model *model)
{
    for (int i = 0; i < to->doc.nstates; i++) {
        bl_tensor_value *value = &to->doc.values[i];
        bl_bound *bound = model->weight[i] >= 0 ? bl_arena_alloc(x->rq->arena, sizeof *bound) : NULL;
        if (model->weight[i] < 0)
            continue;
        if (bound == NULL)
            return bl_arena_status(x->rq->arena, &x->rq->err);
        const bl_state *state = &from->states[model->weight[i]];
        *bound = (bl_bound){.next = x->in.bound, .name = state->type.name, .held = bl_device_tensor_retain(state->shared)};
        x->in.bound = bound;
        value->kind = BL_VALUE_HELD;
        value->held = bound->name;
        value->share = true;
    }
    return BL_OK;
}

static bl_status variants_installed(bl_program_make *make, bl_err *err)
{
    search *s = make->arg;
    bl_variant *old = NULL;

    BL_TRY(bl_mapped_check(&s->files, BL_OK, err)); /* the values have been copied to the device */
    bl_program_retain(s->found->program);
    pthread_mutex_lock(&s->variants->lock);
    if (*variants_find_place(s) == NULL)
        add_variant(s->variants, s->found, &old);
    else
        old = s->found; /* another request was faster: this variant ends with this request */
    pthread_mutex_unlock(&s->variants->lock);
    if (old != NULL)
        release_variant(old);
    s->made = true;
    return BL_OK;
}

static bl_status made_then(bl_request *rq)
{
    const bl_exec *x = rq->data;
    const bl_program_make *make = x->extra;

    return be_ready(rq, make->arg);
}

/* The import needs more values: from now on all runs provide them.  False if the import failed for another reason. */
static bool want_more(search *s, const bl_onnx_model *model)
{
    bool more = false;

    pthread_mutex_lock(&s->variants->lock);
    for (int i = 0; model->wanted != NULL && i < model->ninputs; i++) {
        more = more || (model->wanted[i] && s->given[i] == NULL);
        s->variants->wanted[i] = s->variants->wanted[i] || model->wanted[i];
    }
    pthread_mutex_unlock(&s->variants->lock);
    return more;
}

/* |sized|: fix the named dimensions at the run's sizes. */
static bl_status import_values(bl_request *rq, search *s, bool sized, bl_arena *arena, bl_onnx_model *model)
{
    const bl_wire_graph *graph = &s->variants->entry.graph;
    bl_onnx_options options = s->variants->options;
    bl_onnx_range *ranges = bl_arena_array(rq->arena, (size_t)options.nranges + 1, sizeof *ranges);

    if (ranges == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (int i = 0; i < options.nranges; i++) {
        ranges[i] = options.ranges[i];
        for (int k = 0; sized && k < graph->nvars; k++) {
            if (strcmp(ranges[i].var.name, graph->vars[k].name) == 0)
                ranges[i].var.lo = ranges[i].var.hi = s->call.sizes[k];
        }
    }
    options.ranges = ranges;
    options.given = s->given;
    options.files = &s->files;
    return bl_mapped_check(&s->files, bl_onnx_import(s->variants->file, &options, arena, model, &rq->err), &rq->err);
}

/* *more: more values are needed.  Otherwise, after BL_OK, the request is in another queue. */
static bl_status make_variant(bl_request *rq, search *s, bool *more)
{
    bl_program *family = s->call.program;
    bl_onnx_model *model = bl_arena_array(rq->arena, 2, sizeof *model);
    bl_program_make *make = NULL;
    bool sized = false;

    BL_TRY(bl_access_check_time(rq));
    if (model == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_program_make_create(rq, &make));
    bl_program *program = make->program;
    memcpy(program->name, family->name, sizeof program->name);
    program->owner = family->owner;
    program->unpooled = family->unpooled;
    program->family = family;
    bl_status st = import_values(rq, s, false, program->arena, model);
    *more = st != BL_OK && want_more(s, model);
    if (!*more && st == BL_EGRAPH && s->variants->entry.graph.nvars > 0) {
        rq->err = (bl_err){0};
        sized = true;
        st = import_values(rq, s, true, program->arena, ++model);
        *more = st != BL_OK && want_more(s, model);
    }
    if (*more)
        return BL_OK;
    BL_TRY(st);
    program->doc = model->program;
    program->doc.options.priority = s->call.priority;
    BL_TRY(variants_fill_variant(s, program, model, sized, &s->found, &rq->err));
    BL_TRY(share_weights(make->x, family, program, model));
    make->installed = variants_installed;
    make->arg = s;
    rq->then = made_then;
    return bl_program_make_begin(make, family->worker);
}

/* On an offload thread. */
static bl_step make_apart(bl_request *rq)
{
    search *s = rq->data;
    bool again = false;

    pthread_mutex_lock(&s->variants->lock);
    again = *variants_find_place(s) != NULL; /* another request made it while this one waited */
    pthread_mutex_unlock(&s->variants->lock);
    if (!again && make_variant(rq, s, &again) != BL_OK)
        return BL_STEP_DONE;
    if (!again)
        return BL_STEP_MOVED;
    rq->err = (bl_err){0};
    rq->data = s;
    rq->then = go_on_then;
    return BL_STEP_DONE;
}

/* ---- the whole lookup */

/* On an HTTP thread; called again each time that more values are available. */
static bl_status variants_go_on(bl_request *rq, search *s)
{
    bl_worker *away = NULL;

    rq->data = s;
    rq->then = go_on_then;
    BL_TRY(read_values(rq, s, NULL, &away));
    if (away != NULL)
        return bl_request_submit(rq, away->queue, fetch_values, NULL);
    pthread_mutex_lock(&s->variants->lock);
    s->found = take_variant(s);
    pthread_mutex_unlock(&s->variants->lock);
    if (s->found == NULL)
        return bl_offload_work(rq, make_apart);
    rq->then = NULL;
    BL_TRY(bl_request_defer(rq, bl_program_release_any, s->found->program));
    return be_ready(rq, s);
}

bl_status bl_variant_get(bl_request *rq, const bl_variant_call *call)
{
    search *s = bl_arena_alloc(rq->arena, sizeof *s);

    if (s == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *s = (search){.call = *call, .variants = call->program->variants};
    BL_TRY(bl_request_defer(rq, unmap_files, &s->files));
    s->given = bl_arena_array(rq->arena, (size_t)s->variants->entry.graph.ninputs + 1, sizeof *s->given);
    return s->given != NULL ? variants_go_on(rq, s) : bl_arena_status(rq->arena, &rq->err);
}

bl_tensor_value *bl_variant_inputs(bl_request *rq, const bl_variant *variant, const bl_tensor_value *values)
{
    int n = variant->program->doc.entries[0].graph.ninputs;
    bl_tensor_value *own = bl_arena_array(rq->arena, (size_t)n + 1, sizeof *own);

    for (int i = 0; own != NULL && i < n; i++)
        own[i] = values[variant->input[i]];
    return own;
}
