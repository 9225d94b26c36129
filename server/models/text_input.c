/* SPDX-License-Identifier: MIT */
#include "server/models/text_input.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROW = 1 << 20, /* maximum number of tokens, even if the program has a wider range */
    MOST_MS = 4000      /* for all texts of a request; one text may take half of it */
};

bl_status bl_text_input_read(bl_model_version *version, bl_span file, bl_err *err)
{
    bl_text_input *words = bl_arena_alloc(version->arena, sizeof *words);
    bl_err problem = {0};
    if (words == NULL)
        return bl_arena_status(version->arena, err);
    if (bl_tokenizer_read(file, &words->tokenizer, &problem) != BL_OK)
        return bl_fail(err, problem.status, "tokenizer.json: %s", problem.text);
    version->words = words;
    return BL_OK;
}

void bl_text_input_fini(bl_model_version *version)
{
    if (version->words != NULL)
        bl_tokenizer_destroy(version->words->tokenizer);
}

/* ---- roles of the inputs */

static const char *tokens_name(const bl_model_version *version)
{
    return version->config.generation.tokens != NULL ? version->config.generation.tokens : "input_ids";
}

bool bl_text_input_has_rows(const bl_model_version *version, const bl_wire_graph *graph)
{
    for (int i = 0; i < graph->ninputs; i++) {
        const char *name = version->onnx.inputs != NULL ? version->onnx.inputs[i].name : graph->inputs[i].name;
        if (strcmp(name, tokens_name(version)) == 0)
            return graph->inputs[i].type.ndim > 1;
    }
    return false;
}

/* |said|: the name in the configuration.  NULL: the input |usual| is used, and may be missing. */
static bl_status text_input_find(const bl_model_version *version, const char *said, const char *usual, int *out, bl_err *err)
{
    const char *name = said != NULL ? said : usual;
    *out = -1;
    for (int i = 0; i < version->batcher.ninputs; i++)
        if (strcmp(version->inputs[i].name, name) == 0)
            *out = i;
    if (*out >= 0 || said == NULL)
        return BL_OK;
    return bl_fail(err, BL_EGRAPH,
                   "the parameters of the configuration name the input \"%.100s\", which the program does not have", said);
}

static bool takes_integers(const bl_model_tensor *tensor)
{
    return tensor->datatype != BL_INFER_BYTES && (tensor->dtype == BL_I32 || tensor->dtype == BL_I64);
}

static bool is_alike(const bl_model_tensor *a, const bl_model_tensor *b)
{
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->var[d] == b->var[d] && a->dim[d] == b->dim[d];
    return same;
}

/* Check an input that accompanies the tokens: the shape of the tokens, integers or float32. */
static bl_status check_beside(const bl_model_version *version, int at, bl_err *err)
{
    const bl_model_tensor *tokens = &version->inputs[version->words->tokens], *tensor = &version->inputs[at];
    if (at < 0)
        return BL_OK;
    if (is_alike(tensor, tokens) && (takes_integers(tensor) || tensor->datatype == (int)BL_F32))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH, "\"%s\" must have the shape of \"%s\" and be int32, int64 or float32", tensor->name,
                   tokens->name);
}

static bl_status text_input_describe_tokens(const bl_model_version *version, bl_text_input *words, bl_err *err)
{
    const bl_wire_graph *graph = version->instances[0].slot.graph;
    const bl_model_tensor *tokens = &version->inputs[words->tokens];
    int var = tokens->ndim > 0 ? tokens->var[tokens->ndim - 1] : -1;
    if (!takes_integers(tokens) || tokens->ndim < 1 || tokens->ndim > 2 ||
        (tokens->ndim == 2 && tokens->var[0] == var && var >= 0))
        return bl_fail(err, BL_EGRAPH,
                       "\"%s\" takes the tokens of texts, so it must be int32 or int64 of the shape [tokens] or [texts, tokens]",
                       tokens->name);
    words->step = var >= 0 ? bl_wire_var_step(&graph->vars[var]) : 1;
    words->least = var >= 0 ? graph->vars[var].lo : tokens->dim[tokens->ndim - 1];
    words->most = var >= 0 ? graph->vars[var].hi : tokens->dim[tokens->ndim - 1];
    if (words->most > MOST_ROW)
        words->most = MOST_ROW;
    return BL_OK;
}

/* Replace the tokens by a string input, and hide the inputs that accompany the tokens. */
static bl_status text_input_show(bl_model_version *version, bl_err *err)
{
    const bl_text_input *words = version->words;
    bl_model_tensor *shown = bl_arena_array(version->arena, (size_t)version->batcher.ninputs + 1, sizeof *shown);
    if (shown == NULL)
        return bl_arena_status(version->arena, err);
    version->nshown = 0;
    for (int i = 0; i < version->batcher.ninputs; i++) {
        bl_model_tensor *to = &shown[version->nshown];
        if (strcmp(version->inputs[i].name, version->config.words.text) == 0)
            return bl_fail(err, BL_EGRAPH,
                           "parameters.text is \"%.100s\", which is also an input of the program; choose another name",
                           version->config.words.text);
        if (i == words->mask || i == words->types)
            continue;
        *to = version->inputs[i];
        if (i == words->tokens) {
            to->name = version->config.words.text;
            to->datatype = BL_INFER_BYTES;
            to->dtype = BL_U8;
        }
        version->nshown++;
    }
    version->shown = shown;
    return BL_OK;
}

bl_status bl_text_input_describe(bl_model_version *version, bl_err *err)
{
    const bl_model_config *config = &version->config;
    bl_text_input *words = version->words;
    BL_TRY(text_input_find(version, config->generation.tokens, tokens_name(version), &words->tokens, err));
    BL_TRY(text_input_find(version, config->words.mask, "attention_mask", &words->mask, err));
    BL_TRY(text_input_find(version, config->words.types, "token_type_ids", &words->types, err));
    if (words->tokens < 0)
        return bl_fail(err, BL_EGRAPH, "the program has no input \"input_ids\" for the tokens of texts (parameters.tokens)");
    BL_TRY(text_input_describe_tokens(version, words, err));
    BL_TRY(check_beside(version, words->mask, err));
    BL_TRY(check_beside(version, words->types, err));
    if (words->types >= 0 && bl_tokenizer_layout(words->tokenizer)->typed)
        return bl_fail(err, BL_EUNSUPPORTED,
                       "\"%s\": the tokenizer's template has token types other than 0, which are not supported",
                       version->inputs[words->types].name);
    return text_input_show(version, err);
}

/* ---- requests */

int64_t bl_text_input_most(const bl_model_version *version)
{
    const bl_model_tensor *tokens = &version->inputs[version->words->tokens];
    if (version->batcher.max_rows > 0)
        return version->batcher.max_rows;
    if (tokens->ndim == 2)
        return tokens->var[0] >= 0 ? version->instances[0].slot.graph->vars[tokens->var[0]].hi : tokens->dim[0];
    return 1;
}

bl_status bl_text_input_encode(const bl_infer *in, bl_span text, bl_tokens *row, bl_err *err)
{
    const bl_text_input *words = in->version->words;
    row->count = 0;
    if (words->whole)
        BL_TRY(bl_tokenizer_encode(words->tokenizer, text, (size_t)words->most, row, err));
    else
        BL_TRY(bl_tokenizer_encode_row(words->tokenizer, text, (size_t)words->most, row, err));
    return bl_clock_ms(in->item.begin_ns, bl_clock_ns()) <= MOST_MS
               ? BL_OK
               : bl_fail(err, BL_ELIMIT, "splitting the texts into words takes too long");
}

/* The tokens of all rows, one row after the other. */
typedef struct encoded {
    size_t *end;   /* the end of each row in |all| */
    bl_tokens all; /* on the heap */
} encoded;

static bl_status add_row(const bl_infer *in, encoded *e, const bl_tokens *row, size_t i)
{
    size_t need = e->all.count + row->count;
    if (need > e->all.cap) {
        int32_t *grown = bl_realloc(e->all.id, (need * 2 + 64) * sizeof *grown);
        if (grown == NULL)
            return bl_fail(&in->rq->err, BL_ENOMEM, "out of host memory for the tokens of a text");
        e->all.id = grown;
        e->all.cap = need * 2 + 64;
    }
    if (row->count > 0)
        memcpy(e->all.id + e->all.count, row->id, row->count * sizeof *row->id);
    e->all.count = need;
    e->end[i] = need;
    return BL_OK;
}

static bl_status encode_rows(const bl_infer *in, const bl_infer_input *texts, encoded *e)
{
    bl_tokens row = {0};
    bl_status st = BL_OK;
    for (size_t i = 0; i < texts->value.count && st == BL_OK; i++) {
        bl_err problem = {0};
        st = bl_text_input_encode(in, texts->items[i], &row, &problem);
        if (st != BL_OK)
            st = bl_fail(&in->rq->err, st, "input \"%s\", text %zu: %s", texts->name, i, problem.text);
        else
            st = add_row(in, e, &row, i);
    }
    free(row.id);
    return st;
}

/* The common length of all rows. */
static int64_t choose_length(const bl_text_input *words, const bl_text_row *rows, size_t nrows)
{
    const bl_token_layout *layout = bl_tokenizer_layout(words->tokenizer);
    int64_t length = words->least;
    if (!words->whole && layout->padded > length)
        length = layout->padded;
    for (size_t i = 0; i < nrows; i++)
        length = (int64_t)rows[i].count > length ? (int64_t)rows[i].count : length;
    if (!words->whole && layout->multiple > 0)
        length = (length + layout->multiple - 1) / layout->multiple * layout->multiple;
    length = (length + words->step - 1) / words->step * words->step;
    return length < words->most ? length : words->most;
}

static void text_input_put_number(bl_dtype dtype, char *data, size_t i, int32_t value)
{
    if (dtype == BL_I64)
        ((int64_t *)(void *)data)[i] = value;
    else if (dtype == BL_F32)
        ((float *)(void *)data)[i] = (float)value;
    else
        ((int32_t *)(void *)data)[i] = value;
}

/* |at|: the index of the program's input. */
static bl_status text_input_fill_input(const bl_infer *in, int at, const bl_text_row *rows, size_t nrows, int64_t length,
                                       bl_infer_input *out)
{
    const bl_text_input *words = in->version->words;
    const bl_token_layout *layout = bl_tokenizer_layout(words->tokenizer);
    const bl_model_tensor *tensor = &in->version->inputs[at];
    bool left = layout->pads_left && !words->whole;
    bl_tensor_value *value = &out->value;
    char *data = NULL;
    *out = (bl_infer_input){.name = tensor->name, .datatype = tensor->datatype};
    *value = (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = tensor->name, .dtype = tensor->dtype, .ndim = tensor->ndim};
    value->dim[0] = (int64_t)nrows;
    value->dim[tensor->ndim - 1] = length;
    BL_TRY(bl_tensor_measure(tensor->name, tensor->dtype, value->ndim, value->dim, &in->rq->server->limits, &value->count,
                             &value->bytes, &in->rq->err));
    data = bl_request_alloc(in->rq, value->bytes, "the tokens of texts");
    if (data == NULL)
        return in->rq->err.status;
    for (size_t i = 0; i < nrows; i++) {
        size_t own = rows[i].count, pads = (size_t)length - own, to = i * (size_t)length;
        for (size_t k = 0; k < (size_t)length; k++) {
            bool there = left ? k >= pads : k < own;
            int32_t id = there ? rows[i].id[k - (left ? pads : 0)] : layout->pad;
            text_input_put_number(tensor->dtype, data, to + k, at == words->tokens ? id : at == words->mask ? there : 0);
        }
    }
    value->span = (bl_span){data, value->bytes};
    return BL_OK;
}

bl_status bl_text_input_fill(const bl_infer *in, const bl_text_row *rows, size_t nrows, bl_infer_input *out, int *count)
{
    const bl_text_input *words = in->version->words;
    const int which[] = {words->tokens, words->mask, words->types};
    int64_t length = choose_length(words, rows, nrows);
    for (int i = 0; i < 3; i++)
        if (which[i] >= 0)
            BL_TRY(text_input_fill_input(in, which[i], rows, nrows, length, &out[(*count)++]));
    return BL_OK;
}

/* The shape is [texts], or [texts, 1] as in Triton, with one string for each row of a batch. */
static bl_status check_texts(const bl_infer *in, const bl_infer_input *texts)
{
    const bl_model_version *version = in->version;
    const bl_tensor_value *value = &texts->value;
    int64_t most = bl_text_input_most(version);
    if (texts->datatype != BL_INFER_BYTES)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" has the datatype BYTES, not %s", texts->name,
                       version->name, bl_infer_datatype(texts->datatype));
    if (value->ndim > 2 || (value->ndim == 2 && value->dim[1] != 1))
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" is texts, so its shape must be [N] or [N, 1]",
                       texts->name, version->name);
    if (value->count < 1 || value->count > (uint64_t)most)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" has %zu texts; model \"%s\" takes 1 to %lld", texts->name,
                       value->count, version->name, (long long)most);
    return BL_OK;
}

static bl_status fill_all(bl_infer *in, int at, const encoded *e)
{
    size_t nrows = in->wire.inputs[at].value.count;
    bl_infer_input *inputs = bl_arena_array(in->rq->arena, (size_t)in->wire.ninputs + 3, sizeof *inputs);
    bl_text_row *rows = bl_arena_array(in->rq->arena, nrows, sizeof *rows);
    int count = 0;
    if (inputs == NULL || rows == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (int i = 0; i < in->wire.ninputs; i++)
        if (i != at)
            inputs[count++] = in->wire.inputs[i];
    for (size_t i = 0, begin = 0; i < nrows; begin = e->end[i++])
        rows[i] = (bl_text_row){e->all.id + begin, e->end[i] - begin};
    BL_TRY(bl_text_input_fill(in, rows, nrows, inputs, &count));
    in->wire.inputs = inputs;
    in->wire.ninputs = count;
    return BL_OK;
}

/* Find the string input.  A client may not send the inputs that are made of it. */
static bl_status find_texts(const bl_infer *in, int *out)
{
    const bl_model_version *version = in->version;
    const int hidden[] = {version->words->tokens, version->words->mask, version->words->types};
    *out = -1;
    for (int i = 0; i < in->wire.ninputs; i++) {
        const char *name = in->wire.inputs[i].name;
        for (int k = 0; k < 3; k++)
            if (hidden[k] >= 0 && strcmp(version->inputs[hidden[k]].name, name) == 0)
                return bl_fail(&in->rq->err, BL_EINVAL, "model \"%s\" computes its input \"%s\" from \"%s\"; leave the input out",
                               version->name, name, version->config.words.text);
        if (strcmp(name, version->config.words.text) != 0)
            continue;
        if (*out >= 0)
            return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" is given twice", name);
        *out = i;
    }
    return *out >= 0 ? BL_OK
                     : bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" of model \"%s\" is missing", version->config.words.text,
                               version->name);
}

bl_status bl_text_input_take(bl_infer *in)
{
    encoded e = {0};
    int at = -1;
    bl_status st = BL_OK;
    BL_TRY(find_texts(in, &at));
    BL_TRY(check_texts(in, &in->wire.inputs[at]));
    e.end = bl_arena_array(in->rq->arena, in->wire.inputs[at].value.count, sizeof *e.end);
    if (e.end == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    st = encode_rows(in, &in->wire.inputs[at], &e);
    if (st == BL_OK)
        st = fill_all(in, at, &e);
    free(e.all.id);
    return st;
}
