/* SPDX-License-Identifier: MIT */
#include "server/models/text_model.h"

#include "server/models/pages.h"

#include <string.h>

bl_status bl_text_model_read(bl_model_version *version, bl_span file, bl_err *err)
{
    bl_text_model *text = bl_arena_alloc(version->arena, sizeof *text);
    bl_err problem = {0};
    if (text == NULL)
        return bl_arena_status(version->arena, err);
    if (bl_tokenizer_read(file, &text->tokenizer, &problem) != BL_OK)
        return bl_fail(err, problem.status, "tokenizer.json: %s", problem.text);
    version->text = text;
    return BL_OK;
}

void bl_text_model_fini(bl_model_version *version)
{
    if (version->text == NULL)
        return;
    bl_tokenizer_destroy(version->text->tokenizer);
    for (int i = 0; i < version->ninstances; i++)
        bl_pages_destroy(version->instances[i].pages);
}

/* ---- roles of the inputs and outputs */

static int text_model_find(const bl_model_tensor *tensors, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return i;
    return -1;
}

static bool is_integer(const bl_model_tensor *tensor)
{
    return tensor->datatype != BL_INFER_BYTES && (tensor->dtype == BL_I32 || tensor->dtype == BL_I64);
}

static const char *tokens_of(const bl_model_version *version)
{
    return version->config.generation.tokens != NULL ? version->config.generation.tokens : "tokens";
}

static const char *text_model_position_of(const bl_model_version *version)
{
    return version->config.generation.position != NULL ? version->config.generation.position : "position";
}

static const bl_wire_type *text_model_find_type(const bl_model_version *version, const bl_wire_graph *graph, const char *name)
{
    for (int i = 0; i < graph->ninputs; i++)
        if (strcmp(version->onnx.inputs != NULL ? version->onnx.inputs[i].name : graph->inputs[i].name, name) == 0)
            return &graph->inputs[i].type;
    return NULL;
}

/* Tokens of shape [n] are rows if there is a position for each of them. */
bool bl_text_model_has_rows(const bl_model_version *version, const bl_wire_graph *graph)
{
    const bl_wire_type *tokens = text_model_find_type(version, graph, tokens_of(version));
    const bl_wire_type *position = text_model_find_type(version, graph, text_model_position_of(version));
    if (tokens == NULL || tokens->ndim != 1)
        return tokens != NULL && tokens->ndim > 1;
    return position != NULL && position->ndim > 0 && tokens->dim[0].var >= 0 && position->dim[0].var == tokens->dim[0].var;
}

bool bl_text_model_has_pages(const bl_model_version *version, const bl_wire_graph *graph)
{
    return version->text != NULL && graph->nupdates > 0 && text_model_find_type(version, graph, "slots") != NULL;
}

/* The shape of the tokens is [n], [rows, n], [rows, 1] or [rows].  The last dimension counts tokens if it is named and is not
 * the batch dimension.  All other dimensions must admit the size 1. */
static bl_status text_model_describe_tokens(const bl_model_version *version, const bl_model_tensor *tensor, bl_text_model *text,
                                            bl_err *err)
{
    const bl_wire_graph *graph = version->instances[0].slot.graph;
    bool good = is_integer(tensor);
    text->var = tensor->ndim > 0 ? tensor->var[tensor->ndim - 1] : -1;
    text->var = text->var == version->batcher.var ? -1 : text->var;
    text->chunk = text->var >= 0 ? graph->vars[text->var].hi : 1;
    good = good && (text->var < 0 || (graph->vars[text->var].lo <= 1 && bl_wire_var_step(&graph->vars[text->var]) == 1));
    for (int d = 0; good && d < tensor->ndim - (text->var >= 0); d++)
        good = tensor->var[d] >= 0 ? tensor->var[d] != text->var && graph->vars[tensor->var[d]].lo <= 1 : tensor->dim[d] == 1;
    text->rows = version->batcher.max_rows > 1 && !version->sequential ? version->batcher.var : -1;
    return good ? BL_OK
                : bl_fail(err, BL_EGRAPH,
                          "the input \"%s\" of a text model must be int32 or int64 and have one token, or as many tokens as a "
                          "named dimension that starts at 1",
                          tensor->name);
}

/* Is there one position for each row? */
static bool is_position(const bl_model_version *version, const bl_model_tensor *tensor)
{
    bool good = is_integer(tensor);
    for (int d = 0; good && d < tensor->ndim; d++)
        good = tensor->dim[d] == 1 || (d == 0 && tensor->var[d] >= 0 && tensor->var[d] == version->batcher.var);
    return good;
}

/* "present.keys" of one run is "past.keys" of the next run.  Other exporters name them "present.0.key" and
 * "past_key_values.0.key". */
static bool is_past_of(const char *input, const char *output)
{
    const char *rest = strchr(input, '.');
    return rest != NULL && strncmp(input, "past", 4) == 0 && strncmp(output, "present", 7) == 0 && strcmp(output + 7, rest) == 0;
}

static int find_present(const bl_model_version *version, const char *past)
{
    for (int i = 0; i < version->noutputs; i++)
        if (is_past_of(past, version->outputs[i].name))
            return i;
    return -1;
}

/* The sizes of an output of a run with |count| tokens. */
static void output_sizes(const bl_model_version *version, const bl_text_model *text, int output, int64_t count, int64_t *dim)
{
    const bl_model_instance *instance = &version->instances[0];
    int64_t vars[BL_WIRE_MAX_DIMS] = {0};
    for (int i = 0; i < version->batcher.nvars; i++)
        vars[i] = i == text->var ? count : instance->slot.graph->vars[i].lo;
    bl_plan_sizes(&bl_plan_get_info(instance->slot.plan)->outputs[output], vars, dim);
}

/* Measure a past of one row.  The axis of the places is the axis along which the output has one element for each token of the
 * run. */
static bool measure_past(const bl_model_version *version, const bl_text_model *text, bl_text_past *out)
{
    const bl_model_tensor *past = &version->inputs[out->input], *present = &version->outputs[out->output];
    int64_t one[16] = {0}, most[16] = {0};
    size_t each = bl_dtype_bytes(past->dtype);
    out->times = 1;
    out->inner = out->bytes = each;
    if (past->dtype != present->dtype || past->ndim != present->ndim)
        return false;
    output_sizes(version, text, out->output, 1, one);
    output_sizes(version, text, out->output, text->chunk, most);
    for (int d = 0; d < past->ndim; d++) {
        int64_t size = past->dim[d];
        if (d == 0 && past->var[d] >= 0 && past->var[d] == version->batcher.var)
            continue; /* the output has the batch dimension too */
        if (size < 0 || (size != one[d] || size != most[d])) {
            if (size <= 0 || out->places > 0 || one[d] != 1 || most[d] != text->chunk)
                return false;
            out->places = size;
            out->times = out->bytes / each;
            out->inner = each;
        } else if (out->places > 0) {
            out->inner *= (size_t)size;
        }
        out->bytes *= (size_t)size; /* the product was checked when the program was decoded */
    }
    return true;
}

static bl_status describe_past(const bl_model_version *version, const bl_text_model *text, int input, int output,
                               bl_text_past *out, bl_err *err)
{
    *out = (bl_text_past){.input = input, .output = output};
    if (measure_past(version, text, out))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "\"%s\" and \"%s\" must have the same dtype and sizes; only the first dimension (the texts of a batch) and "
                   "one dimension with a place for each token may differ",
                   version->inputs[input].name, version->outputs[output].name);
}

static bl_status describe_inputs(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    bool pages = bl_text_model_has_pages(version, version->instances[0].slot.graph);
    text->tokens = text_model_find(version->inputs, version->batcher.ninputs, tokens_of(version));
    text->position = text_model_find(version->inputs, version->batcher.ninputs, text_model_position_of(version));
    text->slots = pages ? text_model_find(version->inputs, version->batcher.ninputs, "slots") : -1;
    text->table = pages ? text_model_find(version->inputs, version->batcher.ninputs, "table") : -1;
    if (text->tokens < 0)
        return bl_fail(err, BL_EGRAPH, "the input \"%.100s\" for the tokens of a text model is missing (parameters.tokens)",
                       tokens_of(version));
    BL_TRY(text_model_describe_tokens(version, &version->inputs[text->tokens], text, err));
    text->pasts = bl_arena_array(version->arena, (size_t)version->batcher.ninputs + 1, sizeof *text->pasts);
    if (text->pasts == NULL)
        return bl_arena_status(version->arena, err);
    for (int i = 0; i < version->batcher.ninputs; i++) {
        const bl_model_tensor *tensor = &version->inputs[i];
        int present = find_present(version, tensor->name);
        if (i == text->tokens || (i == text->position && is_position(version, tensor)) || i == text->slots || i == text->table)
            continue;
        if (present < 0)
            return bl_fail(err, BL_EGRAPH,
                           "the server cannot fill the input \"%s\" of a text model; a text model may have an input of tokens, a "
                           "position (parameters.position, an integer), and inputs \"past.X\", each with an output \"present.X\"",
                           tensor->name);
        BL_TRY(describe_past(version, text, i, present, &text->pasts[text->npasts], err));
        text->past_bytes += text->pasts[text->npasts].bytes;
        text->grows = (text->grows || text->npasts == 0) && text->pasts[text->npasts].places > 0;
        text->npasts++;
    }
    text->remembers = version->sequential || pages || text->npasts > 0;
    return text->position >= 0 || version->config.generation.position == NULL
               ? BL_OK
               : bl_fail(err, BL_EGRAPH, "the input \"%.100s\" is missing (parameters.position)",
                         text_model_position_of(version));
}

/* The only output that is not a past; -1: there are several. */
static int find_only(const bl_model_version *version, const bl_text_model *text)
{
    int only = -1;
    for (int i = 0; i < version->noutputs; i++) {
        bool past = false;
        for (int k = 0; k < text->npasts; k++)
            past |= text->pasts[k].output == i;
        if (!past && only >= 0)
            return -1;
        only = past ? only : i;
    }
    return only;
}

/* The number of elements of the output of a run with |count| tokens. */
static int64_t count_output(const bl_model_version *version, const bl_text_model *text, int64_t count)
{
    int64_t dim[16] = {0}, all = 1;
    output_sizes(version, text, text->output, count, dim);
    for (int d = 0; d < version->outputs[text->output].ndim; d++)
        all *= dim[d];
    return all;
}

/* The output is logits, of a float type, with the vocabulary as the last dimension; or an integer for each row, the next
 * token. */
static bl_status text_model_describe_output(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    const bl_model_config *config = &version->config;
    const char *name = config->generation.logits != NULL ? config->generation.logits : "logits";
    const bl_model_tensor *tensor = NULL;
    text->output = text_model_find(version->outputs, version->noutputs, name);
    if (text->output < 0 && config->generation.logits == NULL)
        text->output = find_only(version, text);
    if (text->output < 0)
        return bl_fail(err, BL_EGRAPH, "the output \"%.100s\" for the logits of a text model is missing (parameters.logits)",
                       name);
    tensor = &version->outputs[text->output];
    text->chooses = is_integer(tensor);
    text->gives_all = text->chunk > 1 && count_output(version, text, text->chunk) > count_output(version, text, 1);
    if (text->chooses || (bl_dtype_is_float(tensor->dtype) && tensor->ndim > 0 && tensor->dim[tensor->ndim - 1] > 0))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "the output \"%s\" of a text model must be logits (floats whose last dimension is the vocabulary) or the next "
                   "token (an integer)",
                   tensor->name);
}

static bl_status describe_pages(bl_model_version *version, bl_text_model *text, bl_err *err)
{
    if (text->slots < 0)
        return BL_OK;
    if (text->table < 0 || text->position < 0 || text->npasts > 0)
        return bl_fail(
            err, BL_EGRAPH,
            "a text model with an input \"slots\" keeps keys and values in pages; it must have inputs \"table\" and \"position\" "
            "and no \"past.X\"");
    if (version->config.nwarmups > 0)
        return bl_fail(err, BL_EGRAPH,
                       "model_warmup: a text model with pages takes no tensors, so it cannot be warmed up by them");
    BL_TRY(bl_pages_describe(version, &text->pool, err));
    text->pages = version->inputs[text->table].var[1];
    for (int i = 0; i < version->ninstances; i++)
        BL_TRY(bl_pages_create(&version->instances[i], text->pool, version->config.generation.shares_prefix,
                               &version->instances[i].pages, err));
    return BL_OK;
}

static bl_status describe_context(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    text->context = version->config.generation.context;
    if (text->pool > 0) {
        int64_t most = version->instances[0].slot.graph->vars[text->pages].hi * BL_PAGE_TOKENS;
        most = most < text->pool * BL_PAGE_TOKENS ? most : text->pool * BL_PAGE_TOKENS;
        if (text->context > most)
            return bl_fail(err, BL_EGRAPH,
                           "parameters.context is %lld; it must be at most %lld, the tokens of the pages of a table",
                           (long long)text->context, (long long)most);
        text->context = text->context > 0 ? text->context : most;
    }
    if (!text->remembers && text->var < 0)
        return bl_fail(err, BL_EGRAPH,
                       "a text model without state takes all tokens in each step, so its tokens need a named dimension");
    if (!text->remembers && (text->context == 0 || text->context > text->chunk))
        text->context = text->chunk;
    for (int i = 0; i < text->npasts; i++) {
        int64_t places = text->pasts[i].places;
        if (places > 0 && text->context > places)
            return bl_fail(err, BL_EGRAPH, "parameters.context is %lld; it must be at most %lld, the places of \"%s\"",
                           (long long)text->context, (long long)places, version->inputs[text->pasts[i].input].name);
        if (places > 0 && (text->context == 0 || (version->config.generation.context == 0 && places < text->context)))
            text->context = places;
    }
    if (text->context == 0)
        return bl_fail(err, BL_EGRAPH, "parameters.context, the number of tokens that the text model remembers, is missing");
    return BL_OK;
}

/* Read the end-of-text tokens: names separated by blanks. */
static bl_status describe_ends(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    const char *at = version->config.generation.end;
    bool known = at != NULL || text->nends > 0;
    if (at != NULL)
        text->nends = 0;
    for (size_t id = 0; !known && id < bl_tokenizer_size(text->tokenizer) && text->nends < BL_TEXT_ENDS; id++)
        if (bl_tokenizer_is_end(text->tokenizer, (int32_t)id))
            text->ends[text->nends++] = (int32_t)id;
    while (at != NULL && *(at += strspn(at, " ")) != '\0') {
        bl_span name = {at, strcspn(at, " ")};
        int32_t id = bl_tokenizer_find(text->tokenizer, name);
        if (id < 0)
            return bl_fail(err, BL_EGRAPH, "parameters.end: the tokenizer has no token \"%.*s\"",
                           (int)(name.len < 60 ? name.len : 60), name.data);
        if (text->nends == BL_TEXT_ENDS)
            return bl_fail(err, BL_ELIMIT, "parameters.end: over %d tokens", BL_TEXT_ENDS);
        text->ends[text->nends++] = id;
        at += name.len;
    }
    return BL_OK;
}

/* Proposed tokens are rows of a run, which read the pages of their text. */
static bl_status describe_draft(const bl_model_version *version, const bl_text_model *text, bl_err *err)
{
    const char *draft = version->config.draft.name;
    if (draft == NULL || (text->pool > 0 && text->rows >= 0))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "parameters.draft is \"%.100s\"; only a text model with pages, and with at least two rows (max_batch_size), "
                   "can have a draft",
                   draft);
}

bl_status bl_text_model_check_draft(const bl_model_version *version, const bl_model_version *draft, bl_err *err)
{
    const bl_tokenizer *own = version->text->tokenizer, *other = draft->text != NULL ? draft->text->tokenizer : NULL;
    if (other == NULL || draft->text->pool == 0)
        return bl_fail(err, BL_EGRAPH, "parameters.draft: \"%s\" is not a text model with pages", draft->name);
    if (bl_tokenizer_size(own) != bl_tokenizer_size(other))
        return bl_fail(err, BL_EGRAPH,
                       "parameters.draft: the vocabulary of \"%s\" has %zu tokens; it must be the vocabulary of the model, which "
                       "has %zu",
                       draft->name, bl_tokenizer_size(other), bl_tokenizer_size(own));
    for (size_t id = 0; id < bl_tokenizer_size(own); id++) {
        bl_span a = bl_tokenizer_text(own, (int32_t)id), b = bl_tokenizer_text(other, (int32_t)id);
        if (a.len != b.len || (a.len > 0 && memcmp(a.data, b.data, a.len) != 0))
            return bl_fail(err, BL_EGRAPH,
                           "parameters.draft: token %zu of \"%s\" is \"%.*s\"; it must be \"%.*s\", as in the model", id,
                           draft->name, (int)(b.len < 60 ? b.len : 60), b.data != NULL ? b.data : "",
                           (int)(a.len < 60 ? a.len : 60), a.data != NULL ? a.data : "");
    }
    return BL_OK;
}

bl_status bl_text_model_describe(bl_model_version *version, bl_err *err)
{
    bl_text_model *text = version->text;
    BL_TRY(describe_inputs(version, text, err));
    BL_TRY(text_model_describe_output(version, text, err));
    BL_TRY(describe_pages(version, text, err));
    BL_TRY(describe_context(version, text, err));
    BL_TRY(describe_draft(version, text, err));
    return describe_ends(version, text, err);
}
