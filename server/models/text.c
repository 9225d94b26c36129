/* SPDX-License-Identifier: MIT */
#include "server/models/text.h"

#include <string.h>

/* What ends a text in models that are in use, where the configuration does not say it. */
static const char *const usual_ends[] = {"</s>",       "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",
                                         "<|im_end|>", "<|end|>",       "<eos>",           "<end_of_turn>"};

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
    if (version->text != NULL)
        bl_tokenizer_destroy(version->text->tokenizer);
}

/* ---- which tensor is what */

static int find(const bl_model_tensor *tensors, int count, const char *name)
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

/* [n], [batch, n]: a last dimension that has a name varies, and all others are one. */
static bl_status describe_tokens(const bl_model_version *version, const bl_model_tensor *tensor, bl_text_model *text, bl_err *err)
{
    const bl_wire_graph *graph = version->instances[0].graph;
    bool good = is_integer(tensor);
    text->var = tensor->ndim > 0 ? tensor->var[tensor->ndim - 1] : -1;
    text->chunk = text->var >= 0 ? graph->vars[text->var].hi : 1;
    good = good && (text->var < 0 || graph->vars[text->var].lo <= 1);
    for (int d = 0; good && d < tensor->ndim - (text->var >= 0); d++)
        good = tensor->var[d] >= 0 ? tensor->var[d] != text->var && graph->vars[tensor->var[d]].lo <= 1 : tensor->dim[d] == 1;
    return good ? BL_OK
                : bl_fail(err, BL_EGRAPH,
                          "a text model takes tokens of int32 or int64, one or as many as a named dimension from 1 on says, and "
                          "not as "
                          "\"%s\" does",
                          tensor->name);
}

static bl_status describe_inputs(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    const bl_model_config *config = &version->config;
    const char *tokens = config->tokens != NULL ? config->tokens : "tokens";
    const char *position = config->position != NULL ? config->position : "position";
    text->tokens = find(version->inputs, version->ninputs, tokens);
    text->position = find(version->inputs, version->ninputs, position);
    if (text->tokens < 0)
        return bl_fail(err, BL_EGRAPH, "a text model has an input for its tokens: there is no \"%.100s\" (parameters.tokens)",
                       tokens);
    BL_TRY(describe_tokens(version, &version->inputs[text->tokens], text, err));
    for (int i = 0; i < version->ninputs; i++) {
        const bl_model_tensor *tensor = &version->inputs[i];
        bool good = i == text->position && is_integer(tensor);
        for (int d = 0; good && d < tensor->ndim; d++)
            good = tensor->dim[d] == 1;
        if (!good && i != text->tokens)
            return bl_fail(
                err, BL_EGRAPH,
                "a text model takes its tokens and the position of the first, an integer (parameters.position): nothing is "
                "known to give the input \"%s\"",
                tensor->name);
    }
    return text->position >= 0 || config->position == NULL
               ? BL_OK
               : bl_fail(err, BL_EGRAPH, "there is no input \"%.100s\" (parameters.position)", position);
}

/* Logits: floats, of which the last dimension is the vocabulary.  An integer for each token: the next. */
static bl_status describe_output(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    const bl_model_config *config = &version->config;
    const char *name = config->logits != NULL ? config->logits : "logits";
    const bl_model_tensor *tensor = NULL;
    text->output = find(version->outputs, version->noutputs, name);
    if (text->output < 0 && config->logits == NULL && version->noutputs == 1)
        text->output = 0;
    if (text->output < 0)
        return bl_fail(err, BL_EGRAPH, "a text model has an output for its logits: there is no \"%.100s\" (parameters.logits)",
                       name);
    tensor = &version->outputs[text->output];
    text->chooses = is_integer(tensor);
    if (text->chooses || (bl_dtype_is_float(tensor->dtype) && tensor->ndim > 0 && tensor->dim[tensor->ndim - 1] > 0))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "the output \"%s\" of a text model is neither logits, floats whose last dimension is the "
                   "vocabulary, nor the next token, an integer",
                   tensor->name);
}

static bl_status describe_context(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    text->context = version->config.context;
    if (!version->sequential && text->var < 0)
        return bl_fail(err, BL_EGRAPH,
                       "a text model that updates no state is given all tokens each time: its tokens need a named "
                       "dimension");
    if (!version->sequential && (text->context == 0 || text->context > text->chunk))
        text->context = text->chunk;
    if (text->context == 0)
        return bl_fail(err, BL_EGRAPH,
                       "how many tokens the state of a text model holds is what parameters.context says, and it is "
                       "missing");
    return BL_OK;
}

/* Names with blanks between them. */
static bl_status describe_ends(const bl_model_version *version, bl_text_model *text, bl_err *err)
{
    const char *at = version->config.end;
    for (size_t i = 0; at == NULL && i < sizeof usual_ends / sizeof usual_ends[0]; i++) {
        int32_t id = bl_tokenizer_find(text->tokenizer, (bl_span){usual_ends[i], strlen(usual_ends[i])});
        if (id >= 0 && bl_tokenizer_is_special(text->tokenizer, id))
            text->ends[text->nends++] = id;
    }
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

bl_status bl_text_model_describe(bl_model_version *version, bl_err *err)
{
    bl_text_model *text = version->text;
    BL_TRY(describe_inputs(version, text, err));
    BL_TRY(describe_output(version, text, err));
    BL_TRY(describe_context(version, text, err));
    return describe_ends(version, text, err);
}
