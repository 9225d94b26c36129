/* SPDX-License-Identifier: MIT */
/* Writes the graph of a language model: the embedding, the blocks in order, and the head. */
#include "proto/llm/importer.h"

#include "engine/front/front.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_BYTES = 1 << 30, MAX_TEXT = 400 };

/* ---- failures and values */

void *bl_llm_stop(bl_llm_graph *g, bl_status status, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!g->failed)
        (void)bl_fail(g->err, status, "%s", text);
    g->failed = true;
    return NULL;
}

static bool llm_graph_is_ok(void *owner)
{
    bl_llm_graph *g = owner;
    if (!g->failed && (bl_arena_status(g->arena, g->err) != BL_OK || bl_arena_status(g->scratch, g->err) != BL_OK))
        g->failed = true;
    return !g->failed;
}

static void llm_graph_fail_recipe(void *owner, bl_status status, const char *text)
{
    bl_llm_stop(owner, status, "%s", text);
}

static bl_wire_ref llm_graph_use_value(void *owner, void *value)
{
    (void)owner;
    return ((bl_llm_value *)value)->ref;
}

static void *llm_graph_make_value(void *owner, const bl_node *type, bl_wire_ref ref)
{
    bl_llm_graph *g = owner;
    bl_llm_value *value = bl_arena_alloc(g->scratch, sizeof *value);
    if (value == NULL)
        return bl_llm_stop(g, BL_ENOMEM, "a value of a language model");
    *value = (bl_llm_value){type, ref};
    return value;
}

static bool llm_graph_find_number(void *owner, const char *name, const bl_wire_number *preset, bl_wire_number *out)
{
    (void)preset;
    (void)out;
    return bl_llm_stop(owner, BL_EBUG, "unknown number \"%s\"", name) != NULL;
}

static const char *llm_graph_size_text(void *owner, const bl_node *size)
{
    (void)size;
    return bl_llm_stop(owner, BL_EBUG, "a size is not a number");
}

bl_llm_value *bl_llm_make(bl_llm_graph *g, const char *recipe, const bl_write_arg *args)
{
    return bl_write_one(&g->w, recipe, args);
}

int64_t bl_llm_size(const bl_llm_value *x, int axis)
{
    const bl_node *size;
    if (x == NULL || x->type == NULL)
        return 1;
    size = x->type->dim[axis < 0 ? axis + x->type->ndim : axis];
    return bl_is_const(size) ? bl_const_value(size).i : -1;
}

const char *bl_llm_block(bl_llm_graph *g, int64_t layer, const char *what)
{
    const char *name = bl_arena_printf(g->scratch, "blk.%lld.%s", (long long)layer, what);
    return name != NULL ? name : "";
}

/* ---- inputs and states */

static const bl_node *named_size(bl_llm_graph *g, const bl_wire_dim *dim)
{
    return dim->var < 0 ? bl_index(g->w.ir, dim->size) : bl_front_extent(g->w.ir, dim->var, &g->wire->vars[dim->var]);
}

bl_llm_value *bl_llm_input(bl_llm_graph *g, const char *name, const bl_wire_type *type)
{
    const bl_node *dim[BL_MAX_DIMS] = {0};
    void *inputs = g->inputs;
    if (!llm_graph_is_ok(g) || !bl_arena_reserve(g->arena, &inputs, g->wire->ninputs, &g->input_cap, sizeof *g->inputs))
        return NULL;
    g->inputs = inputs;
    g->inputs[g->wire->ninputs] = (bl_wire_tensor){bl_arena_strdup(g->arena, name), *type};
    for (int i = 0; i < type->ndim; i++)
        dim[i] = named_size(g, &type->dim[i]);
    return llm_graph_make_value(g, bl_typer_input(g->w.typer, type->dtype, type->ndim, dim),
                                (bl_wire_ref){.kind = BL_REF_INPUT, .index = g->wire->ninputs++});
}

bl_llm_value *bl_llm_add_state(bl_llm_graph *g, const char *name, const bl_tensor_value *content)
{
    bl_program_doc *doc = &g->model->program;
    void *states = doc->states, *values = doc->values;
    const bl_node *dim[BL_MAX_DIMS] = {0};
    if (!llm_graph_is_ok(g) || !bl_arena_reserve(g->arena, &states, doc->nstates, &g->state_cap, sizeof *doc->states) ||
        !bl_arena_reserve(g->arena, &values, doc->nstates, &g->value_cap, sizeof *doc->values))
        return NULL;
    doc->states = states;
    doc->values = values;
    doc->states[doc->nstates] =
        (bl_wire_tensor){bl_arena_strdup(g->arena, name), bl_wire_type_make(content->dtype, content->ndim, content->dim)};
    doc->values[doc->nstates] = *content;
    doc->values[doc->nstates].label = bl_arena_printf(g->arena, "state.%s", name);
    for (int i = 0; i < content->ndim; i++)
        dim[i] = bl_index(g->w.ir, content->dim[i]);
    g->w.first_state = g->wire->ninputs;
    return llm_graph_make_value(g, bl_typer_input(g->w.typer, content->dtype, content->ndim, dim),
                                (bl_wire_ref){.kind = BL_REF_STATE, .index = doc->nstates++});
}

bl_llm_value *bl_llm_constant(bl_llm_graph *g, const char *name, int ndim, const int64_t *dim, const float *values)
{
    bl_tensor_value content = {.kind = BL_VALUE_BYTES, .dtype = BL_F32, .ndim = ndim, .count = 1};
    for (int i = 0; i < ndim; i++) {
        content.dim[i] = dim[i];
        content.count *= (size_t)dim[i];
    }
    content.bytes = content.count * sizeof *values;
    char *copy = bl_arena_alloc(g->arena, content.bytes);
    if (copy == NULL)
        return NULL;
    memcpy(copy, values, content.bytes);
    content.span = (bl_span){copy, content.bytes};
    return bl_llm_add_state(g, name, &content);
}

/* ---- parts of blocks */

/* Normalises over the last axis; |weight| and |bias| broadcast and may be NULL. */
static bl_llm_value *llm_graph_normalise(bl_llm_graph *g, bl_llm_value *x, bl_llm_value *weight, bl_llm_value *bias)
{
    if (weight != NULL && g->source->gguf == NULL && (g->spec.arch->flags & BL_LLM_HUB_PLUS_ONE) != 0)
        weight = bl_llm_make(g, "add(cast($0, dtype=float32), 1)", ARGS(V(weight)));
    if (g->spec.rms)
        x = bl_llm_make(g, "rms_norm($0, eps=$1)", ARGS(V(x), R(g->spec.eps)));
    else
        x = bl_llm_make(g, "layer_norm($0, eps=$1)", ARGS(V(x), R(g->spec.eps)));
    if (weight != NULL)
        x = bl_llm_make(g, "mul($0, $1)", ARGS(V(x), V(weight)));
    return bias != NULL ? bl_llm_make(g, "add($0, $1)", ARGS(V(x), V(bias))) : x;
}

bl_llm_value *bl_llm_norm(bl_llm_graph *g, bl_llm_value *x, const char *name)
{
    bl_llm_value *weight = bl_llm_state(g, name, "weight"), *bias = bl_llm_state(g, name, "bias");
    return x == NULL || weight == NULL ? x : llm_graph_normalise(g, x, weight, bias);
}

/* The norm before attention or feed-forward; an architecture with BL_LLM_BARE_NORM has it without weights. */
static bl_llm_value *norm_before(bl_llm_graph *g, bl_llm_value *x, const char *name)
{
    bool bare = (g->spec.arch->flags & BL_LLM_BARE_NORM) != 0 && !bl_llm_has(g, name);
    return x != NULL && bare ? llm_graph_normalise(g, x, NULL, NULL) : bl_llm_norm(g, x, name);
}

bl_llm_value *bl_llm_scale(bl_llm_graph *g, bl_llm_value *x, double factor)
{
    return x == NULL || factor == 1 ? x : bl_llm_make(g, "mul($0, $1)", ARGS(V(x), R(factor)));
}

bl_llm_value *bl_llm_cap(bl_llm_graph *g, bl_llm_value *x, double cap)
{
    return x == NULL || cap == 0 ? x : bl_llm_make(g, "mul(tanh(mul($0, $1)), $2)", ARGS(V(x), R(1 / cap), R(cap)));
}

void bl_llm_output(bl_llm_graph *g, const char *name, bl_llm_value *value)
{
    void *outputs = g->wire->outputs;
    if (value == NULL || !llm_graph_is_ok(g) ||
        !bl_arena_reserve(g->arena, &outputs, g->wire->noutputs, &g->output_cap, sizeof *g->wire->outputs))
        return;
    g->wire->outputs = outputs;
    g->wire->outputs[g->wire->noutputs++] = (bl_wire_output){.name = bl_arena_strdup(g->arena, name), .ref = value->ref};
}

void bl_llm_update(bl_llm_graph *g, const char *name, bl_llm_value *value)
{
    void *updates = g->wire->updates;
    if (value == NULL || !llm_graph_is_ok(g) ||
        !bl_arena_reserve(g->arena, &updates, g->wire->nupdates, &g->update_cap, sizeof *g->wire->updates))
        return;
    g->wire->updates = updates;
    g->wire->updates[g->wire->nupdates++] = (bl_wire_output){.name = bl_arena_strdup(g->arena, name), .ref = value->ref};
}

/* ---- the model */

static bl_llm_value *add_residual(bl_llm_graph *g, bl_llm_value *x, bl_llm_value *more)
{
    return bl_llm_make(g, "add($0, $1)", ARGS(V(x), V(bl_llm_scale(g, more, g->spec.residual_scale))));
}

static bl_llm_value *write_block(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    unsigned flags = g->spec.arch->flags;
    const char *feed_norm = bl_llm_block(g, layer, (flags & BL_LLM_LATE_NORM) != 0 ? "post_attention_norm" : "ffn_norm");
    bl_llm_value *first = norm_before(g, x, bl_llm_block(g, layer, "attn_norm")), *attended, *fed;
    const char *second_norm = bl_llm_block(g, layer, "attn_norm_2");
    attended = bl_llm_attention(g, bl_llm_has(g, second_norm) ? bl_llm_norm(g, x, second_norm) : first, layer);
    if ((flags & BL_LLM_LATE_NORM) == 0)
        attended = bl_llm_norm(g, attended, bl_llm_block(g, layer, "post_attention_norm"));
    if (g->spec.parallel) {
        fed = bl_llm_feed(g, bl_llm_has(g, feed_norm) ? bl_llm_norm(g, x, feed_norm) : first, layer);
        return add_residual(g, add_residual(g, x, attended), fed);
    }
    x = bl_llm_norm(g, add_residual(g, x, attended), bl_llm_block(g, layer, "attn_output_norm"));
    fed = bl_llm_feed(g, norm_before(g, x, feed_norm), layer);
    x = add_residual(g, x, bl_llm_norm(g, fed, bl_llm_block(g, layer, "post_ffw_norm")));
    return bl_llm_norm(g, x, bl_llm_block(g, layer, "layer_output_norm"));
}

/* The embeddings of the tokens, [rows, n, width]. */
static bl_llm_value *embed_tokens(bl_llm_graph *g)
{
    bl_llm_value *x = bl_llm_scale(g, bl_llm_embed(g, "token_embd", g->tokens), g->spec.embedding_scale);
    bl_llm_value *types = bl_llm_state(g, "token_types", "weight"), *places = bl_llm_embed(g, "position_embd", g->place);
    if (types != NULL) /* every token has type 0 */
        x = bl_llm_make(g, "add($0, slice($1, stop=[1], axis=[0]))", ARGS(V(x), V(types)));
    if (places != NULL)
        x = bl_llm_make(g, "add($0, $1)", ARGS(V(x), V(places)));
    return bl_llm_has(g, "token_embd_norm") ? bl_llm_norm(g, x, "token_embd_norm") : x;
}

/* Writes the logits of the next token of each text. */
static void write_head(bl_llm_graph *g, bl_llm_value *x)
{
    x = bl_llm_make(g, "slice($0, start=[$1], axis=[1])", ARGS(V(x), T("n - 1")));
    x = norm_before(g, bl_llm_make(g, "squeeze($0, axis=1)", ARGS(V(x))), "output_norm");
    x = bl_llm_linear(g, x, bl_llm_has(g, "output") ? "output" : "token_embd");
    bl_llm_output(g, "logits", bl_llm_cap(g, bl_llm_scale(g, x, g->spec.logit_scale), g->spec.logit_cap));
}

static void llm_graph_write_vectors(bl_llm_graph *g, bl_llm_value *x)
{
    (void)bl_llm_has(g, "output"); /* marks the language-model head as used, which an embedding model does not need */
    (void)bl_llm_find_tensor(g->source, "output.bias");
    bl_llm_output(g, "embedding", bl_llm_pool(g, norm_before(g, x, "output_norm")));
}

static void write_model(bl_llm_graph *g)
{
    bl_llm_value *x;
    bl_llm_prepare_attention(g);
    g->w.label = "embed";
    x = embed_tokens(g);
    for (int64_t layer = 0; layer < g->spec.layers && !g->failed; layer++) {
        g->w.label = bl_arena_printf(g->arena, "block%lld", (long long)layer);
        g->w.nwritten = 0;
        x = write_block(g, x, layer);
    }
    g->w.label = "head";
    g->w.nwritten = 0;
    if (g->spec.embeds)
        llm_graph_write_vectors(g, x);
    else
        write_head(g, x);
}

static void finish_program(bl_llm_graph *g)
{
    bl_program_doc *doc = &g->model->program;
    doc->entries = bl_arena_alloc(g->arena, sizeof *doc->entries);
    if (doc->entries == NULL)
        return;
    g->wire->inputs = g->inputs;
    g->wire->states = doc->states;
    g->wire->nstates = doc->nstates;
    g->wire->program = true;
    doc->nentries = 1;
    doc->entries[0] = (bl_program_entry){.name = "main", .graph = *g->wire};
    doc->options = (bl_run_options){.debug = -1, .beam = -1, .precision = -1};
}

/* Creates the wire graph with its named dimensions, and the typer. */
static bl_status open_graph(bl_llm_graph *g)
{
    static const bl_write_calls calls = {llm_graph_is_ok,      llm_graph_fail_recipe, llm_graph_use_value,
                                         llm_graph_make_value, llm_graph_find_number, llm_graph_size_text};
    const bl_llm_options *o = g->options;
    bl_wire_var *vars = bl_arena_array(g->arena, BL_LLM_VARS, sizeof *vars);
    g->wire = bl_arena_alloc(g->arena, sizeof *g->wire);
    if (vars == NULL || g->wire == NULL)
        return bl_arena_status(g->arena, g->err);
    vars[BL_LLM_ROWS] = (bl_wire_var){.name = "rows", .lo = 1, .hi = g->spec.rows, .step = 1};
    vars[BL_LLM_N] = (bl_wire_var){.name = "n", .lo = 1, .hi = g->spec.embeds ? g->spec.context : g->spec.chunk, .step = 1};
    vars[BL_LLM_PAGES] =
        (bl_wire_var){.name = "pages", .lo = 1, .hi = (g->spec.context + BL_LLM_PAGE - 1) / BL_LLM_PAGE, .step = 1};
    *g->wire = (bl_wire_graph){.nvars = g->spec.embeds ? BL_LLM_PAGES : BL_LLM_VARS, .vars = vars};
    BL_TRY(bl_typer_create(g->wire->nvars, vars, o->max_bytes > 0 ? o->max_bytes : DEFAULT_BYTES, o->max_seconds, &g->typer,
                           g->err));
    g->w = (bl_write){.calls = &calls,
                      .owner = g,
                      .arena = g->arena,
                      .scratch = g->scratch,
                      .ir = bl_typer_ir(g->typer),
                      .typer = bl_typer_open(g->typer, NULL),
                      .wire = g->wire,
                      .node_cap = &g->node_cap,
                      .max_nodes = o->limits.max_nodes,
                      .label = "input"};
    return g->w.typer != NULL ? BL_OK : bl_fail(g->err, BL_ENOMEM, "out of host memory for a language model");
}

static void describe_weights(const bl_llm_source *source, bl_llm_model *out)
{
    int64_t most = -1, of_type[64] = {0};
    for (int i = 0; i < source->ntensors; i++) {
        const bl_llm_tensor *t = &source->tensors[i];
        int64_t count = 1;
        for (int d = 0; d < t->ndim; d++)
            count *= t->dim[d];
        out->parameters += count;
        for (int p = 0; p < t->nparts; p++)
            out->bytes += (int64_t)t->parts[p].len;
        out->bytes += (int64_t)t->scales.len;
        if (t->type->id < 64 && (of_type[t->type->id] += count) > most) {
            most = of_type[t->type->id];
            out->quantisation = t->type->name;
        }
    }
}

static bl_status write_graph(bl_llm_graph *g)
{
    BL_TRY(open_graph(g));
    write_model(g);
    if (llm_graph_is_ok(g))
        finish_program(g);
    return llm_graph_is_ok(g) ? bl_llm_check_used(g->source, g->err) : g->err->status;
}

bl_status bl_llm_import(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_llm_options *options, bl_llm_model *out,
                        bl_err *err)
{
    bl_llm_source source;
    bl_llm_graph g = {.source = &source, .options = options, .model = out, .arena = arena, .err = err};
    bl_status st;
    *out = (bl_llm_model){.bos = -1};
    g.scratch = bl_arena_create(options->max_bytes > 0 ? options->max_bytes : DEFAULT_BYTES);
    if (g.scratch == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a language model");
    st = bl_llm_source_open(arena, files, nfiles, &options->limits, &source, err);
    if (st == BL_OK)
        st = bl_llm_read_spec(&source, options, &g.spec, err);
    if (st == BL_OK)
        st = write_graph(&g);
    bl_typer_destroy(g.typer);
    bl_arena_destroy(g.scratch);
    if (st != BL_OK)
        return st;
    out->architecture = source.row->name;
    out->trained_context = g.spec.trained_context;
    out->context = g.spec.context;
    out->vocabulary = g.spec.vocabulary;
    out->width = g.spec.width;
    out->embeds = g.spec.embeds;
    describe_weights(&source, out);
    return bl_llm_describe(&source, files, nfiles, out, err);
}
