/* SPDX-License-Identifier: MIT */
/* Vectors of texts: a model that takes texts (server/models/text_input.h) and gives a row of floats for each. */
#include "server/openai/openai.h"

#include "proto/base64.h"
#include "proto/encode.h"
#include "proto/tensor.h"
#include "server/handlers.h"
#include "server/models/text_input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 2048 /* as OpenAI */ };

/* What the answer needs of the request; the arena's. */
typedef struct embedding_call {
    size_t texts;
    bool base64;
    int64_t dimensions; /* 0: as many as the model gives */
    size_t tokens;
} embedding_call;

/* ---- the answer */

/* The first output that has a row of floats for each text. */
static const bl_infer_result *find_vectors(const bl_infer *in, const bl_infer_result *results, size_t texts)
{
    for (int i = 0; i < in->nasked; i++)
        if (results[i].datatype != BL_INFER_BYTES && bl_dtype_is_float((bl_dtype)results[i].datatype) && results[i].ndim == 2 &&
            (size_t)results[i].dim[0] == texts)
            return &results[i];
    return NULL;
}

/* The first |count| numbers; fewer than all of them have the length of all again, which is 1. */
static void shorten(float *vector, size_t count, size_t all)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)vector[i] * (double)vector[i];
    for (size_t i = 0; i < count && count < all && squares > 0; i++)
        vector[i] = (float)((double)vector[i] / sqrt(squares));
}

static void put_vector(const embedding_call *call, const float *vector, size_t count, bl_text *out)
{
    if (call->base64) {
        bl_text_putc(out, '"');
        bl_base64_encode(out, vector, count * sizeof *vector);
        bl_text_putc(out, '"');
        return;
    }
    bl_tensor_print(out, BL_F32, vector, count);
}

static bl_status write_vectors(bl_infer *in, const bl_infer_result *results)
{
    const embedding_call *call = in->extra;
    bl_request *rq = in->rq;
    size_t texts = call->texts, all = 0, count = 0;
    const bl_infer_result *found = NULL;
    float *row = NULL;
    found = find_vectors(in, results, texts);
    if (found == NULL)
        return bl_fail(&rq->err, BL_EINVAL, "model \"%s\" gives no vector for each text", in->version->name);
    all = (size_t)found->dim[1];
    count = call->dimensions > 0 ? (size_t)call->dimensions : all;
    if (count > all)
        return bl_fail(&rq->err, BL_EINVAL, "dimensions: it is %zu, and the vectors of model \"%s\" have %zu", count,
                       in->version->name, all);
    row = bl_request_alloc(rq, (all + 1) * sizeof *row, "vectors");
    if (row == NULL)
        return rq->err.status;
    bl_text_puts(&rq->out, "{\"object\":\"list\",\"model\":");
    bl_encode_string(&rq->out, in->version->name);
    bl_text_puts(&rq->out, ",\"data\":[");
    for (size_t i = 0; i < texts; i++) {
        size_t each = bl_dtype_bytes((bl_dtype)found->datatype);
        bl_floats_read((bl_dtype)found->datatype, (const char *)found->data + i * all * each, all, row);
        shorten(row, count, all);
        bl_text_printf(&rq->out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i > 0 ? "," : "", i);
        put_vector(call, row, count, &rq->out);
        bl_text_putc(&rq->out, '}');
    }
    bl_text_printf(&rq->out, "],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", call->tokens, call->tokens);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- the request */

static bl_status add_text(bl_openai_call *call, embedding_call *e, const bl_json *at, bl_span *items)
{
    bl_err *err = &call->rq->err;
    bl_tokens tokens = {0};
    const char *text = NULL;
    bl_status st = BL_OK;
    if (e->texts == MOST_TEXTS)
        return bl_json_fail(at, err, BL_EINVAL, "over %d texts", MOST_TEXTS);
    if (at->kind == BL_JSON_NUMBER || at->kind == BL_JSON_ARRAY)
        return bl_json_fail(at, err, BL_EINVAL, "tokens are not taken here; send the text");
    BL_TRY(bl_json_string(at, &text, err));
    items[e->texts++] = (bl_span){text, strlen(text)};
    st = bl_tokenizer_encode(call->in->version->words->tokenizer, (bl_span){text, strlen(text)}, SIZE_MAX, &tokens, err);
    e->tokens += tokens.count;
    free(tokens.id);
    return st;
}

static bl_status read_texts(bl_openai_call *call, embedding_call *e)
{
    bl_infer *in = call->in;
    bl_infer_input *input = bl_arena_array(call->rq->arena, (size_t)in->version->ninputs + 1, sizeof *input);
    bl_span *items = bl_arena_array(call->rq->arena, MOST_TEXTS, sizeof *items);
    bl_json at, one;
    bl_json_iter it;
    if (input == NULL || items == NULL)
        return bl_arena_status(call->rq->arena, &call->rq->err);
    BL_TRY(bl_json_need(&call->root, "input", &at, &call->rq->err));
    if (at.kind == BL_JSON_ARRAY) {
        it = bl_json_each(&at);
        while (bl_json_next(&it, &one))
            BL_TRY(add_text(call, e, &one, items));
    } else {
        BL_TRY(add_text(call, e, &at, items));
    }
    if (e->texts == 0)
        return bl_json_fail(&at, &call->rq->err, BL_EINVAL, "there is no text");
    *input = (bl_infer_input){.name = in->version->config.text, .datatype = BL_INFER_BYTES, .items = items};
    input->value.label = input->name;
    input->value.ndim = 1;
    input->value.dim[0] = (int64_t)e->texts;
    input->value.count = e->texts;
    in->wire.inputs = input;
    in->wire.ninputs = 1;
    in->wire.all = true;
    return BL_OK;
}

static bl_status read_options(const bl_openai_call *call, embedding_call *e)
{
    bl_json at;
    if (bl_json_find(&call->root, "encoding_format", &at) && at.kind != BL_JSON_NULL) {
        e->base64 = at.kind == BL_JSON_STRING && bl_span_is(at.text, "base64");
        if (!e->base64 && (at.kind != BL_JSON_STRING || !bl_span_is(at.text, "float")))
            return bl_json_fail(&at, &call->rq->err, BL_EINVAL, "it is \"float\" or \"base64\"");
    }
    if (bl_json_find(&call->root, "dimensions", &at) && at.kind != BL_JSON_NULL)
        BL_TRY(bl_json_int(&at, 1, INT32_MAX, &e->dimensions, &call->rq->err));
    return BL_OK;
}

bl_status bl_handle_openai_embeddings(bl_request *rq)
{
    bl_openai_call call;
    embedding_call *e = bl_arena_alloc(rq->arena, sizeof *e);
    if (e == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_openai_open_any(rq, write_vectors, &call));
    if (call.in == NULL)
        return BL_OK;
    if (call.in->version->words == NULL)
        return bl_fail(&rq->err, BL_EINVAL, "model \"%s\" makes no vectors of texts", call.in->version->name);
    call.in->extra = e;
    BL_TRY(read_options(&call, e));
    BL_TRY(read_texts(&call, e));
    return bl_infer_go(call.in);
}
